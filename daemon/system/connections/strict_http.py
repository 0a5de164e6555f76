"""Reads requests as h11 does, but refuses those whose end two servers could see in different places.

h11 is lenient where RFC 9112 permits it: it takes repeated lengths that agree, prefers `Transfer-Encoding` to a length,
joins folded lines. What passes a request on must not: the next server may decide otherwise, and see the rest of one
request as another one ("request smuggling").
"""

from __future__ import annotations

import re
from typing import Any

import h11

_END = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,19}")


class StrictConnection(h11.Connection):
    """The server's side of a connection."""

    mistake = ""
    """What is wrong with the request that was refused: a sentence for its sender."""

    def __init__(self, max_head: int) -> None:
        super().__init__(h11.SERVER, max_head)

    def next_event(self) -> Any:
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request) and (mistake := _mistake_in(head)):
            self.mistake = mistake
            raise h11.RemoteProtocolError(mistake)
        return event


def _mistake_in(data: bytes) -> str:
    """`data` begins with the head of a request that h11 accepts."""
    end = _END.search(data)
    assert end is not None
    lines = data[: end.start()].split(b"\n")
    if end[0] != b"\n\r\n" or not all(line.endswith(b"\r") for line in lines):
        return "a line of a request ends with CR and LF"
    if any(line.startswith((b" ", b"\t")) for line in lines[1:]):
        return "a header of a request is one line"
    lengths = [value for name, value in _fields(lines[1:]) if name == b"content-length"]
    codings = [value for name, value in _fields(lines[1:]) if name == b"transfer-encoding"]
    if lengths and codings:
        return "a request has a Content-Length or a Transfer-Encoding, not both"
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(length) for length in lengths):
        return "a request has one Content-Length, which is a number"
    if codings and lines[0].rstrip().endswith(b"HTTP/1.0"):
        return "a request with a Transfer-Encoding is one of HTTP/1.1"
    return ""


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip()) for name, _, value in pairs]
