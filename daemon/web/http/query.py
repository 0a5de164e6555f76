"""The query string: which events, from where, how many. A mistake is answered with one sentence.

An empty value is as good as none: a form sends one for each field that was not filled in.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from tooltap.daemon.web.http.errors import WebError
from tooltap.protocol.filters import Filter, Values
from tooltap.protocol.frames import sentence_of

__all__ = ["Filtered", "parse_query"]

MAX_VALUES = 1_000

T = TypeVar("T")


class Filtered(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A query with a filter; each of its keys may be given again and again, any of the values will do."""

    session: Values | None = None
    stream: Values | None = None
    provider: Values | None = None
    agent: Values | None = None
    kind: Values | None = None
    tool: Values | None = None
    """Canonical or raw name."""

    @property
    def filter(self) -> Filter:
        return Filter(**{key: getattr(self, key) for key in Filter.__struct_fields__})


def parse_query(query: bytes, kind: type[T], **more: Any) -> T:
    """The query string as a struct of this kind, whose tuples are what may be repeated; `more`: keys that do
    not come from the query. Raises `WebError`."""
    values: defaultdict[str, list[str]] = defaultdict(list)
    try:
        for key, value in parse_qsl(query.decode("latin-1"), errors="strict", max_num_fields=MAX_VALUES):
            values[key].append(value)
    except UnicodeDecodeError:
        raise _mistake("the query is not UTF-8") from None
    except ValueError:
        raise _mistake(f"a query has at most {MAX_VALUES} values") from None
    repeats = _keys(kind)  # type: ignore[arg-type]  # a class is hashable
    given: dict[str, Any] = {}
    for key, found in values.items():
        if key not in repeats or key in more:
            known = ", ".join(sorted(repeats.keys() - more.keys())) or "none"
            raise _mistake(f"there is no `{key[:100]}` here; there are: {known}")
        if len(found) > 1 and not repeats[key]:
            raise _mistake(f"`{key}` can be given once only")
        given[key] = found if repeats[key] else found[0]
    try:
        return msgspec.convert(given | more, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _mistake(sentence_of(str(error).replace(" | null`", "`"))) from None  # a query has no null


@cache
def _keys(kind: type) -> dict[str, bool]:
    """Each key, and whether it can be given more than once."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.encode_name: _repeats(field.type) for field in info.fields}


def _repeats(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_repeats(one) for one in kind.types)
    return isinstance(kind, msgspec.inspect.VarTupleType)


def _mistake(sentence: str) -> WebError:
    return WebError(400, "bad-query", sentence)
