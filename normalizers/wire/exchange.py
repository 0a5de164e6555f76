"""Exchanges over HTTP as lines: the events of a stream of server-sent events, and the line that a tap writes where an
exchange ends.

That line is a comment of server-sent events, `: tooltap exchange {…}` (`ExchangeEnd`), so that a reader that does not
know it skips it as framing. No server can write one: a tap leaves the comments of servers out.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal, NamedTuple, Self

import msgspec
import orjson

from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.normalizers.wire.values import record

_BOM = b"\xef\xbb\xbf"
_FRAMING = (b"event", b"id", b"retry")
"""Fields of an event that are not read: the data of all known APIs state the type of their event."""


class EventSplitter:
    """Assembles server-sent events by the specification: lines end with CR, LF or both, and the `data` of an event may
    have several lines. `feed` and `finish` return one line for each event, `data: …`, without comments and other
    fields. `max_line`: longest event that is kept whole, in bytes.

    Two things of servers that do not keep to it are read, too: an event of which one `data` line is a whole JSON value
    ends with that line, and a line that is no field is returned as it is.
    """

    def __init__(self, max_line: int) -> None:
        self._lines = Splitter(max_line)
        self._max_line = max_line
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the current event's data, with its line ends."""

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Add bytes and return the events that they complete."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes | LongLine] = []
        for line in self._lines.feed(data):
            self._take(line, events)
        return events

    def finish(self) -> list[bytes | LongLine]:
        """Return what the last event has, although no blank line ends it."""
        events: list[bytes | LongLine] = []
        if (last := self._lines.finish()) is not None:
            self._take(last, events)
        self._end_event(events)
        return events

    def _take(self, line: bytes | LongLine, events: list[bytes | LongLine]) -> None:
        if isinstance(line, LongLine):
            self._end_event(events)
            events.append(line)
            return
        line = line.removeprefix(_BOM)
        name, _, value = line.partition(b":")
        if not line.strip():
            self._end_event(events)
        elif name == b"data":
            value = value.removeprefix(b" ")
            if not self._data and _is_whole(value):
                events.append(b"data: " + value)
                return
            self._size += len(value) + 1
            if self._size <= self._max_line or not self._data:
                self._data.append(value)
        elif name and name not in _FRAMING:
            self._end_event(events)
            events.append(line)

    def _end_event(self, events: list[bytes | LongLine]) -> None:
        if not self._data:
            return
        # JSON has line breaks only between its tokens, where a space means the same.
        event, size = b"data: " + b" ".join(self._data), self._size
        self._data, self._size = [], 0
        if not event[len(b"data:") :].strip():
            return
        if size > self._max_line:
            events.append(LongLine(event[:HEAD_BYTES], size))
        else:
            events.append(event)


def _is_whole(data: bytes) -> bool:
    if data == b"[DONE]":
        return True
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


# -- the end of an exchange -------------------------------------------------------------------------------------------

_MARK = b": tooltap exchange "
BODY = 2_000
"""Most characters of a body that are repeated in a notice."""
SHORT = 200
"""Longest text of a body, in characters, that is repeated in the words of a notice."""
ERRORS = 400
"""Smallest HTTP status of an error."""
SERVER_ERRORS = 500
"""Smallest HTTP status of an error that is not the client's."""
RETRIED = frozenset({408, 409, 425, 429})
"""Statuses of the client's errors after which the same request may succeed."""


class Verdict(NamedTuple):
    """How the turn of an exchange ends if the answer does not state it."""

    outcome: str
    """Outcome of the turn: failed or cancelled."""
    reason: str
    text: str | None = None
    """Words of a notice for the user, or None."""
    data: dict[str, Any] | None = None


def is_retriable(status: object) -> bool:
    """Whether a request that failed with this HTTP status, or None, may succeed when it is made again."""
    return status not in range(ERRORS, SERVER_ERRORS) or status in RETRIED


class ExchangeEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an exchange over HTTP ended, as its tap saw it."""

    by: Literal["server", "client", "tap"]
    """Who ended it: the server with the end of its answer or of the connection, the client by leaving, or the tap."""
    complete: bool
    """Whether the body of the answer came to its end."""
    status: int | None = None
    """HTTP status; None if there was no answer."""
    body: str | None = None
    """What the server sent in place of an answer: a body that is neither JSON nor a stream of events, or that of an
    error in a form that the API does not have."""
    unread: int = 0
    """Bytes of the answer that are not in the stream."""
    problem: str | None = None
    """Words of the transport about an end that is not complete."""

    def write(self) -> bytes:
        return _MARK + msgspec.json.encode(self)

    @classmethod
    def read(cls, line: bytes) -> Self | None:
        """Return the end that a line states; None if it states none."""
        if not line.startswith(_MARK):
            return None
        try:
            return msgspec.json.decode(line[len(_MARK) :], type=cls)
        except (msgspec.DecodeError, RecursionError):
            return None

    @property
    def may_be_retried(self) -> bool:
        """Whether a client whose request has failed may make it again: unless the gateway stops, or the server says
        that the request is wrong."""
        if self.by == "tap" and not self.complete:
            return False
        return is_retriable(self.status)

    def verdict(self) -> Verdict | None:
        """Return how the turn ends, if neither an end nor an error has been read in the answer; None if that is not
        known, because the stream lacks a part of the answer."""
        if self.by == "client":
            return Verdict("cancelled", "client-left")
        if self.status is not None and (self.status >= ERRORS or self.body is not None):
            return Verdict("failed", str(self.status), self._words(), self._data())
        if not self.complete:
            if self.by == "tap":
                return Verdict("failed", "gateway-stopped", "the gateway stopped before the answer was complete")
            problem = "" if self.problem is None else f": {self.problem}"
            return Verdict("failed", "connection-lost", f"the server broke off the answer{problem}")
        return None if self.unread else Verdict("failed", "unfinished", "the answer ended before it was finished")

    def _words(self) -> str:
        status = self.status or 0
        try:
            words = f"HTTP {status} {HTTPStatus(status).phrase}"
        except ValueError:
            words = f"HTTP {status}"
        text = (self.body or "").strip()
        try:
            value = record(orjson.loads(text))
            stated = next((value[key] for key in ("message", "detail", "error") if isinstance(value.get(key), str)), "")
            text = stated.strip()
        except orjson.JSONDecodeError:
            pass
        is_sentence = 0 < len(text) <= SHORT and "\n" not in text and not text.startswith("<")
        return f"{words}: {text}" if is_sentence else words

    def _data(self) -> dict[str, Any]:
        body = {} if not self.body else {"body": self.body[:BODY]}
        return {"status": self.status, **body}
