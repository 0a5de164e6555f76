"""Error responses: a status, a code and one sentence, as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tooltap.daemon.journal.interface import CorruptError, JournalError
from tooltap.protocol.frames import FrameError, Problem

STATUS = {
    "not-found": 404,
    "expired": 410,
    "corrupt": 410,
    "too-large": 413,
    "journal": 503,
    "no-index": 503,
    "internal": 500,
}
"""Code -> status, where it is not 400."""
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
    """Answer for Starlette's routing."""
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
