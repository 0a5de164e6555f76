"""Output of calls that are still running, as it arrives in chunks.

Each chunk is emitted as a partial. What came so far is held until the call's result states the whole; if the call is
broken off, it becomes the output of the result. Only its head is held: an output body takes a long one.
"""

from __future__ import annotations

import codecs

import msgspec

from tooltap.normalizers.core.bounded import make_room
from tooltap.normalizers.core.state import Call
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Chunk, OutputRef, ToolUpdate

MANY_CALLS = 16
"""Calls that may print at once; each may hold `string_bytes` of each of its streams."""


class CallOutput(msgspec.Struct, omit_defaults=True):
    """Keys are streams: `stdout`, `stderr`."""

    buffers: dict[str, TextBuffer] = {}
    tails: dict[str, bytes] = {}
    """Bytes of a code point that the next chunk completes."""


class LiveOutputState(msgspec.Struct, omit_defaults=True):
    calls: dict[str, CallOutput] = {}


class LiveOutput:
    """Buffers what open calls print. A parser that has one returns `take(call.id)` from `unfinished`, so that a call
    without a result ends with what it printed."""

    def __init__(self, writer: Writer, state: LiveOutputState) -> None:
        self._writer = writer
        self._calls = state.calls

    def append(self, call: Call, stream: str, data: bytes) -> None:
        """Append a chunk of the output of an open call; bytes that are not UTF-8 become U+FFFD."""
        output = self._calls.get(call.id)
        if output is None:
            make_room(self._calls, MANY_CALLS)
            output = self._calls[call.id] = CallOutput()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.setstate((output.tails.get(stream, b""), 0))
        text = decoder.decode(data)
        output.tails[stream] = decoder.getstate()[0]
        buffer = output.buffers.setdefault(stream, TextBuffer())
        if self._writer.partials:
            self._writer.emit_partial(
                ToolUpdate,
                session=call.session,
                agent=call.agent,
                parent=call.parent,
                turn=call.turn,
                call_id=call.id,
                name=call.name,
                chunk=Chunk(stream=stream, text=text, offset=buffer.chars),
            )
        buffer.append(text, self._writer, "text/plain")

    def catch_up(self, call: Call, stream: str, whole: str) -> None:
        """Append what is new in `whole`, all that an open call has printed so far."""
        output = self._calls.get(call.id)
        buffer = output.buffers.get(stream) if output is not None else None
        self.append(call, stream, whole[buffer.chars if buffer is not None else 0 :].encode())

    def take(self, call_id: str) -> tuple[dict[str, str] | None, dict[str, OutputRef] | None]:
        """Remove a call's output so far: as fields of a result, and the output bodies of those that are truncated."""
        output = self._calls.pop(self._writer.id_of_call(call_id), None)
        if output is None:
            return None, None
        refs = {f"/output/{stream}": buffer.ref("text/plain") for stream, buffer in output.buffers.items()}
        known = {pointer: ref for pointer, ref in refs.items() if ref is not None}
        return {stream: buffer.head for stream, buffer in output.buffers.items()}, known or None
