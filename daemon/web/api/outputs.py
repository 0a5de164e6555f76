"""Output bodies served as files: with their MIME type, whole or one byte range, and never as a page of our origin.

The bodies are untrusted. A browser displays only passive types, and downloads all others; a sandboxing
Content-Security-Policy keeps both from running anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tooltap.daemon.server.requests import Requests
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.web.http.guard import SANDBOX
from tooltap.daemon.web.http.requests import WebError, from_frame_error
from tooltap.protocol.frames import FrameError, OutputRequest

SLICE = 262_144
"""Bytes of a body in memory at a time."""
WRITE = 65_536
UNKNOWN_TYPE = "application/octet-stream"
SHOWN = re.compile(r"text/plain|image/(?:png|jpeg|gif|webp|avif|bmp)|audio/\S+|video/\S+")
_log = get_logger("web")
_MIME_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}")


class OutputFile:
    """The response, an ASGI application."""

    def __init__(self, requests: Requests, output_id: str, span: Span, status: int, headers: dict[str, str]) -> None:
        self._requests = requests
        self._output_id = output_id
        self._span = span
        self._status = status
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name.lower().encode(), value.encode()) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        start, end = self._span
        while start < end and scope["method"] != "HEAD":
            data = await self._read(start, min(end - start, SLICE))
            if not data:
                _log.warning("an output expired while it was being sent", output=self._output_id)
                return  # the server aborts an incomplete response
            for portion in _portions(data):
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            start += len(data)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read(self, start: int, length: int) -> bytes:
        """Read a part; empty if the output was deleted."""
        try:
            found = await self._requests.part(OutputRequest(output_id=self._output_id, offset=start, length=length))
        except FrameError:
            return b""
        return found.slice.data


async def open_output(requests: Requests, output_id: str, request: Request) -> OutputFile:
    """Find the body and the requested part of it. Raises `WebError` and `JournalError`."""
    try:
        (head, about) = await requests.part(OutputRequest(output_id=output_id, length=1))
    except FrameError as error:
        raise from_frame_error(error) from None
    # Bodies have no validator, so the condition of `If-Range` is never true.
    asked = None if "if-range" in request.headers else request.headers.get("range")
    try:
        span = requested_span(asked, head.total)
    except UnsatisfiableError:
        sentence = f"the output has {head.total} bytes"
        raise WebError(416, "no-such-range", sentence, {"Content-Range": f"bytes */{head.total}"}) from None
    headers = _headers(head.mime_type, about.get("path") or output_id)
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{head.total}"
    status = 200 if span is None else 206
    span = span or Span(0, head.total)
    return OutputFile(requests, output_id, span, status, {**headers, "Content-Length": str(span.end - span.start)})


def _headers(mime_type: str, name: str) -> dict[str, str]:
    """`name`: a path, or an output's id."""
    kind = mime_type.partition(";")[0].strip().lower()
    kind = kind if _MIME_TYPE.fullmatch(kind) else UNKNOWN_TYPE
    file_name = quote(re.split(r"[/\\]", name)[-1] or "output", safe="", errors="replace")
    return {
        "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        "Content-Disposition": f"{'inline' if SHOWN.fullmatch(kind) else 'attachment'}; filename*=UTF-8''{file_name}",
        "Content-Security-Policy": SANDBOX,
        "Accept-Ranges": "bytes",
    }


def _portions(data: bytes) -> Iterator[bytes]:
    """Split data into chunks, so that little is buffered for a client that does not read."""
    for start in range(0, len(data), WRITE):
        yield data[start : start + WRITE]


# More digits than any body is long; `int` refuses very many.
_ONE_RANGE = re.compile(r"bytes=\s*(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?|-(?P<suffix>[0-9]{1,18}))\s*", re.I)


class UnsatisfiableError(Exception):
    """The range begins after the end of the body."""


class Span(NamedTuple):
    start: int
    end: int
    """Exclusive."""


def requested_span(header: str | None, size: int) -> Span | None:
    """Parse the header. None means the whole body: if there is no range, several, or an invalid one. Raises
    `UnsatisfiableError`."""
    match = _ONE_RANGE.fullmatch(header) if header is not None else None
    if match is None:
        return None
    if match["suffix"] is not None:
        length = min(int(match["suffix"]), size)
        if length == 0:
            raise UnsatisfiableError
        return Span(size - length, size)
    first = int(match["first"])
    last = int(match["last"]) if match["last"] is not None else size - 1
    if match["last"] is not None and last < first:
        return None
    if first >= size:
        raise UnsatisfiableError
    return Span(first, min(last + 1, size))
