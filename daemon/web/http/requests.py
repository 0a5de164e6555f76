"""The queries of requests, and the answers to requests that fail: a status, a code and one sentence, as JSON.

An empty value in a query counts as none, because a form sends one for each empty field.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from tooltap.daemon.journal.interface import CorruptError, JournalError
from tooltap.protocol.filters import Filter, Values
from tooltap.protocol.frames import FrameError, Problem, sentence_of

MAX_VALUES = 1_000
SEQ_DIGITS = 19

T = TypeVar("T")


class _Any(Convertor[str]):
    """`{name:any}` in the path of a route: the id of a session, which may have line ends; `{name:path}` has none."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _Any())


class SessionRoute(Route):
    """A route whose path may have the id of a session, `{session:any}`. What its path has after that must be in the
    address without an encoded slash: those of an id are encoded, so `a%2Ffiles` is a session, and not the files of
    another."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, methods: Sequence[str] | None = None) -> None:
        super().__init__(path, endpoint, methods=methods)
        self._end = path.partition(":any}")[2].encode()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["raw_path"].endswith(self._end):
            return Match.NONE, {}
        return super().matches(scope)


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


def parse_body(body: bytes, kind: type[T], **more: Any) -> T:
    """Parse a JSON object into a struct of this kind. `more`: keys that do not come from it. Raises `WebError`."""
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebError(400, "bad-body", "the body is not a JSON object, or too deep") from None
    known = _keys(kind).keys() - more.keys()  # type: ignore[arg-type]  # a class is hashable
    if unknown := sorted(given.keys() - known):
        raise WebError(400, "bad-body", f"unknown key `{unknown[0][:100]}`; the keys here: {', '.join(sorted(known))}")
    try:
        return msgspec.convert(given | more, kind)
    except msgspec.ValidationError as error:
        raise WebError(400, "bad-body", sentence_of(str(error))) from None


def cursor_of(text: str) -> str | int:
    """Parse a cursor: a `seq` becomes a number; `start`, `now` and `<journal>:<seq>` stay text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= SEQ_DIGITS else text


@cache
def _keys(kind: type) -> dict[str, bool]:
    """Return each key, and whether it may be repeated. What a frame says of its client is no key of a query."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.encode_name: _repeats(field.type) for field in info.fields if field.encode_name != "speaks"}


def _repeats(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_repeats(one) for one in kind.types)
    return isinstance(kind, msgspec.inspect.VarTupleType)


def _mistake(sentence: str) -> WebError:
    return WebError(400, "bad-query", sentence)


STATUS = {
    "not-found": 404,
    "expired": 410,
    "corrupt": 410,
    "too-large": 413,
    "already-answered": 409,
    "ambiguous": 409,
    "no-publisher": 409,
    "refused": 409,
    "journal": 503,
    "no-index": 503,
    "internal": 500,
}
"""Error code -> HTTP status, where it is not 400."""
SENTENCES = {
    404: ("not-found", "there is nothing at this address"),
    405: ("method-not-allowed", "this address does not allow this method"),
}


class WebError(Exception):
    """A request that fails; the message is one sentence for the client."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


def status_of(code: str) -> int:
    """Return the HTTP status for one of the socket's error codes (`ERROR_CODES`)."""
    return STATUS.get(code, 400)


def from_frame_error(error: FrameError) -> WebError:
    return WebError(status_of(error.code), error.code, str(error))


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"error": Problem(code=code, message=message)}, status, headers)


async def _web_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WebError)
    return error_response(error.status, error.code, str(error), error.headers)


async def _http_exception(request: Request, error: Exception) -> Response:
    """Convert an error of Starlette's routing to a reply."""
    assert isinstance(error, HTTPException)
    code, sentence = SENTENCES.get(error.status_code, ("bad-request", str(error.detail)))
    return error_response(error.status_code, code, sentence, error.headers)


async def _journal_error(request: Request, error: Exception) -> Response:
    code = "corrupt" if isinstance(error, CorruptError) else "journal"
    return error_response(status_of(code), code, str(error))


async def _fault(request: Request, error: Exception) -> Response:
    """The reply to a bug. Starlette sends this and raises the error again, for the log."""
    return error_response(500, "internal", "the request failed; the daemon's log says why")


HANDLERS = {
    WebError: _web_error,
    HTTPException: _http_exception,
    JournalError: _journal_error,
    Exception: _fault,
}
