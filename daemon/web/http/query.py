"""Query strings: which events, from where, how many. The answer to a mistake is one sentence.

An empty value counts as none, because a form sends one for each empty field.
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

MAX_VALUES = 1_000
SEQ_DIGITS = 19

T = TypeVar("T")


class Filtered(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A query with a filter. Each key may be repeated; an event passes if any of the values matches."""

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
    """Parse a query string into a struct of this kind. Keys may be repeated where the struct has a tuple. `more`: keys
    that do not come from the query. Raises `WebError`."""
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
            raise _mistake(f"unknown key `{key[:100]}`; the keys here: {known}")
        if len(found) > 1 and not repeats[key]:
            raise _mistake(f"`{key}` may be given only once")
        given[key] = found if repeats[key] else found[0]
    try:
        return msgspec.convert(given | more, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _mistake(sentence_of(str(error).replace(" | null`", "`"))) from None  # a query has no null


def cursor_of(text: str) -> str | int:
    """Parse a cursor: a `seq` becomes a number; `start`, `now` and `<journal>:<seq>` stay text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= SEQ_DIGITS else text


@cache
def _keys(kind: type) -> dict[str, bool]:
    """Return each key, and whether it may be repeated."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.encode_name: _repeats(field.type) for field in info.fields}


def _repeats(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_repeats(one) for one in kind.types)
    return isinstance(kind, msgspec.inspect.VarTupleType)


def _mistake(sentence: str) -> WebError:
    return WebError(400, "bad-query", sentence)
