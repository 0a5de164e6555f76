"""Inputs of a stream: a line, a block of lines, lost lines, the end. One set of records for the wire (where they are
called tapped lines), spools, traces, and the tail from which a journal rebuilds a stream.

On the wire, and in recordings, a line is `{"t":<ms>,"dir":"in"|"out"|"reply","line":<string, or any JSON value>}`, with
`"b64"` instead of `line` for bytes that are not UTF-8. With `"bytes":<n>`, `line` is only the beginning of a line of n
bytes that was too long. `{"op":"lost",…}` stands for lines that a publisher had to drop, and `{"op":"end","t"?:<ms>}`
for the end of the stream, with `"exit":<n>` or `"signal":"SIG…"` where a process ended with it.
`{"op":"to-agent","id":<n>}` answers a frame of the daemon.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

import msgspec
import orjson

from tooltap.protocol import EPOCH_MS, LATEST_MS

__all__ = [
    "Answer",
    "Block",
    "Close",
    "Direction",
    "Input",
    "Line",
    "Lost",
    "NotTappedError",
    "ProcessEnd",
    "Settle",
    "each",
    "is_mark",
    "lines_of",
    "looks_tapped",
    "process_end",
    "read_record",
    "read_tapped",
    "write_answer",
    "write_end",
    "write_tapped",
]

Direction: TypeAlias = Literal["in", "out", "reply"]
"""`in` = client to agent, `out` = agent to client, `reply` = an HTTP server's answer to the client."""

MOST = 2**50
"""Most lines or bytes that a publisher may report as lost, so that journals can add up such numbers without
overflow."""


LONGEST_SIGNAL = 40
"""Longest name of a signal, in code points."""


class Line(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, tag="line"):
    """A line with its time, in milliseconds since the epoch, and its direction."""

    line: bytes
    t: int | None = None
    direction: Direction | None = None
    size: int | None = None
    """Length of the whole line in bytes, if `line` is only its beginning."""


class Block(msgspec.Struct, array_like=True, omit_defaults=True, tag="block"):
    """Consecutive whole lines with one time and direction. They are not joined: a line may contain newlines."""

    lines: list[bytes] = []
    t: int | None = None
    direction: Direction | None = None


class Lost(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, tag="lost"):
    """Lines that the publisher dropped, and their total length; they count as lines of the stream."""

    lines: int
    bytes: int
    reason: str
    t: int | None = None


class ProcessEnd(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How the process of a tap ended, as the tap saw it. One of `exit` and `signal` is known."""

    exit: int | None = None
    """Exit code."""
    signal: str | None = None
    """Name of the signal that killed it, such as `SIGKILL`."""
    stopped_by: Literal["client"] | None = None
    """`client`: a signal came through the tap, or nobody read the output any more. None: unknown, or nobody."""

    @property
    def words(self) -> str:
        """`exit 3`, or `killed by SIGKILL`."""
        return f"exit {self.exit}" if self.signal is None else f"killed by {self.signal}"


class Close(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, tag="close"):
    """The end of the stream."""

    t: int | None = None
    """When the agent ended, in milliseconds since the epoch, if the publisher states it."""
    reason: str = "end"
    process: ProcessEnd | None = None
    """How the agent's process ended, if the publisher states it."""


class Settle(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, tag="settle"):
    """The stream was silent for a while. The daemon adds it; no publisher sends it."""

    t: int | None = None
    """When the daemon added it, in milliseconds since the epoch."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a publisher to a `to-agent` frame. It is no input of the stream."""

    id: int
    refused: str | None = None
    """The reason why the agent did not get the frame; None if it did."""


Input: TypeAlias = Line | Block | Lost | Close | Settle


def each(record: Input) -> Iterator[Line | Lost | Close | Settle]:
    """Yield the lines of a block one by one; any other record unchanged."""
    if isinstance(record, Block):
        yield from (Line(line, record.t, record.direction) for line in record.lines)
    else:
        yield record


def lines_of(record: Input) -> int:
    """Number of lines of the stream that a record covers."""
    if isinstance(record, Block):
        return len(record.lines)
    if isinstance(record, Lost):
        return record.lines
    return int(isinstance(record, Line))


class NotTappedError(ValueError):
    """The line is not a tapped line; the message says why."""


def looks_tapped(line: bytes) -> bool:
    """Whether a recording consists of tapped lines, judged by its first line."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(record, dict)
        and record.get("dir") in ("in", "out", "reply")
        and ("line" in record or "b64" in record)
        and "v" not in record  # a trace record: a dialect of its own
    )


def read_tapped(line: bytes) -> Line | Lost | Close | Answer:
    """Decode one tapped line. Raises `NotTappedError`."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise NotTappedError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise NotTappedError("not an object")
    return _read_op(record) if "op" in record else read_record(record)


def is_mark(line: bytes | tuple[Any, ...]) -> bool:
    """Whether a tapped line is not a line of the agent, but a record of something between lines: it has an `op`."""
    try:
        record = orjson.loads(line) if isinstance(line, bytes) else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(record, dict) and "op" in record


def read_record(record: dict[str, Any]) -> Line:
    """Read the line in a decoded record. Raises `NotTappedError`."""
    t = record.get("t")
    direction: Any = record.get("dir")
    if direction is not None and not (isinstance(direction, str) and direction in ("in", "out", "reply")):
        raise NotTappedError(f"unknown direction {_shown(direction)}")
    body, size = _body(record), record.get("bytes")
    return Line(
        line=body,
        t=int(t) if isinstance(t, int | float) and EPOCH_MS <= t < LATEST_MS else None,
        direction=cast("Direction | None", direction),
        size=size if type(size) is int and size > len(body) else None,
    )


def _read_op(record: dict[str, Any]) -> Lost | Close | Answer:
    if record["op"] == "end":
        t = record.get("t")
        return Close(t if type(t) is int and EPOCH_MS <= t < LATEST_MS else None, process=process_end(record))
    number: Any = record.get("id")
    if record["op"] == "to-agent" and _is_count(number):
        refused = record.get("refused")
        return Answer(number, refused if refused is None or isinstance(refused, str) else "unknown")
    lines, size = record.get("lines"), record.get("bytes", 0)
    if record["op"] != "lost" or not (_is_count(lines) and lines and _is_count(size)):
        raise NotTappedError(f"unknown record {_shown(record['op'])}")
    reason = record.get("reason")
    return Lost(lines=lines, bytes=size, reason=reason if isinstance(reason, str) else "unknown")


def process_end(record: dict[str, Any]) -> ProcessEnd | None:
    """Read how the process ended from a record of the end; None if it does not say."""
    code, name = record.get("exit"), record.get("signal")
    stopped_by: Literal["client"] | None = "client" if record.get("stoppedBy") == "client" else None
    if isinstance(name, str) and 0 < len(name) <= LONGEST_SIGNAL:
        return ProcessEnd(signal=name, stopped_by=stopped_by)
    return ProcessEnd(code, stopped_by=stopped_by) if _is_count(code) else None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST


def _shown(value: Any) -> str:
    """Format a value for a message: short strings only, as others may have any length and depth."""
    return repr(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"


def _body(record: dict[str, Any]) -> bytes:
    if "line" in record:
        body = record["line"]
        return body.encode() if isinstance(body, str) else orjson.dumps(body)
    encoded = record.get("b64")
    if not isinstance(encoded, str):
        raise NotTappedError('neither "line" nor "b64"')
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:  # not ASCII, or not base64
        raise NotTappedError('"b64" is not base64') from None


def write_tapped(line: bytes, t: int | None, direction: Direction | None, size: int | None = None) -> bytes:
    """Return the tapped form of a line, without a newline. `size`: bytes of the whole line, if `line` is only its
    beginning."""
    record: dict[str, Any] = {}
    if t is not None:
        record["t"] = t
    if direction is not None:
        record["dir"] = direction
    try:
        record["line"] = line.decode()
    except UnicodeDecodeError:
        record["b64"] = base64.b64encode(line).decode()
    if size is not None:
        record["bytes"] = size
    return orjson.dumps(record)


def write_end(t: int | None, process: ProcessEnd | None) -> bytes:
    """Return the end of a stream as a line, without a newline. `t`: when the agent ended, in ms since the epoch, if
    known."""
    keys = ("exit", "signal", "stoppedBy")
    stated = zip(keys, msgspec.structs.astuple(process), strict=True) if process is not None else ()
    known = {key: value for key, value in (("t", t), *stated) if value is not None}
    return orjson.dumps({"op": "end", **known})


def write_answer(answer: Answer) -> bytes:
    """Return the answer as a line, without a newline."""
    refused = {} if answer.refused is None else {"refused": answer.refused}
    return orjson.dumps({"op": "to-agent", "id": answer.id, **refused})
