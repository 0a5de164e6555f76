"""Texts that arrive in chunks: messages and reasoning, emitted as one event per complete block, and the output of
running calls.

Each chunk is emitted as a partial. Only the head of a text is held: once the text exceeds the limit of an event's
string, further chunks go to an output body on arrival (`TextBuffer`), so that the state stays small.
"""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from tooltap.normalizers.core.state import OpenCall, OpenText, TextBuffer, TextsState, make_room
from tooltap.normalizers.core.thoughts import OPENING, may_open, read_thought
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Chunk, Message, OutputRef, Reasoning, ToolUpdate


class Texts:
    def __init__(self, writer: Writer, state: TextsState) -> None:
        self._writer = writer
        self._open = state.open

    def append(
        self,
        role: str,
        text: str,
        *,
        message_id: str | None = None,
        block: int | None = None,
        key: str = "",
        preview: bool = False,
    ) -> None:
        """Append a chunk to the block of this session and agent; another role or message id ends the block before it.
        A thought at the beginning of an answer becomes reasoning (`thoughts.py`).

        `preview`: a later line has the whole block, and drops this one."""
        writer = self._writer
        full_key = f"{writer.session}\n{writer.agent or ''}\n{key}"
        current = self._open.get(full_key)
        if current is not None and (current.told != role or current.message_id != message_id or current.block != block):
            self._emit(full_key)
            current = None
        if current is None:
            while len(self._open) >= writer.context.limits.open_texts:
                self._emit(next(iter(self._open)))
            current = OpenText(
                role,
                writer.session,
                TextBuffer(),
                writer.agent,
                writer.parent,
                writer.turn,
                writer.ts,
                message_id,
                block,
                writer.replay,
                preview,
                part="start" if role == "assistant" and not block else "text",
            )
            self._open[full_key] = current
        current.last = writer.ts
        if current.part == "text":
            self._add(current, text)
        else:
            self._sift(full_key, current, text)

    def _add(self, current: OpenText, text: str) -> None:
        writer = self._writer
        if writer.partials:
            kind, fields = self._kind(current)
            writer.emit_partial(kind, text=text, offset=current.buffer.chars, **fields)
        current.buffer.append(text, writer, "text/plain")

    def _sift(self, key: str, current: OpenText, text: str) -> None:
        """Append a chunk to an answer of which it is not decided yet whether it begins with a thought, or whose thought
        is not over."""
        text, current.held = current.held + text, ""
        if current.part == "start":
            if may_open(text):
                current.held = text
                return
            begun = text.lstrip()
            if not begun.startswith(OPENING):
                current.part = "text"
                self._add(current, text)
                return
            current.role, current.part, text = "reasoning", "thought", begun[len(OPENING) :]
        if current.part == "thought":
            thought, current.held, rest = read_thought(text if current.buffer.chars else text.lstrip())
            if thought:
                self._add(current, thought)
            if rest is None:
                return
            before = current if current.buffer.chars else None
            current = msgspec.structs.replace(
                current, role="assistant", buffer=TextBuffer(), ts=self._writer.ts, part="gap", thought=before
            )
            self._open[key], text = current, rest
        if text := text.lstrip():
            current.part = "text"
            self._add(current, text)

    def flush(self, key: str = "", *, complete: bool = False) -> None:
        """End the block of this session and agent. `complete`: the chunks are the whole block, even though a later line
        repeats it."""
        if not self._open:
            return
        full_key = f"{self._writer.session}\n{self._writer.agent or ''}\n{key}"
        if complete and (text := self._open.get(full_key)) is not None:
            text.preview = False
            if text.thought is not None:
                text.thought.preview = False
        self._emit(full_key)

    def drop(self, key: str = "") -> bool:
        """Drop the block, because another line has the whole of it. Returns whether there was one."""
        if not self._open:
            return False
        return self._open.pop(f"{self._writer.session}\n{self._writer.agent or ''}\n{key}", None) is not None

    def flush_turn(self, session: str, turn_id: str) -> None:
        """End the blocks of a turn, and those outside any turn. Blocks of an overlapping turn stay open."""
        if not self._open:
            return
        for key in [key for key, text in self._open.items() if text.session == session]:
            if self._open[key].turn in (turn_id, None):
                self._emit(key)

    def rename_session(self, old: str, new: str) -> None:
        for key, text in list(self._open.items()):
            if text.session == old:
                text.session = new
                if text.thought is not None:
                    text.thought.session = new
                del self._open[key]
                self._open[new + key.removeprefix(old)] = text

    def flush_all(self) -> None:
        for key in list(self._open):
            self._emit(key)

    def _kind(self, text: OpenText) -> tuple[Any, dict[str, Any]]:
        if text.role == "reasoning":
            return Reasoning, {"message_id": text.message_id, "block": text.block}
        return Message, {"role": text.role, "message_id": text.message_id, "block": text.block}

    def _emit(self, key: str) -> None:
        text = self._open.get(key)
        if text is None:
            return
        if text.held.strip() or text.part == "start":
            held, text.held = text.held, ""
            text.buffer.append(held, self._writer, "text/plain")
        for one in (text.thought, text):
            if one is not None and one.buffer.chars:
                self._emit_one(one)
        del self._open[key]

    def _emit_one(self, text: OpenText) -> None:
        kind, fields = self._kind(text)
        fields["text"] = text.buffer.head
        protocol, provider = self._writer.origin_of_line()
        scope = text.session, text.agent, text.parent, text.turn, protocol, provider
        outputs = text.buffer.outputs("/text", "text/plain")
        self._writer.emit_in(kind, fields, scope, text.ts, text.replay, text.preview, outputs, text.last)


MANY_CALLS = 16
"""Maximum number of calls whose output is buffered; each holds up to `string_bytes` per stream."""


class CallOutput(msgspec.Struct, omit_defaults=True):
    """Output of a running call. Keys are streams: `stdout`, `stderr`."""

    buffers: dict[str, TextBuffer] = {}
    tails: dict[str, bytes] = {}
    """Incomplete UTF-8 bytes at the end of the last chunk, by stream; the next chunk completes them."""


class LiveOutputState(msgspec.Struct, omit_defaults=True):
    calls: dict[str, CallOutput] = {}


class LiveOutput:
    """Buffers the output of open calls. A parser that has one returns `take(call)` from `unfinished`, so that a call
    that ends without a result keeps its output."""

    def __init__(self, writer: Writer, state: LiveOutputState) -> None:
        self._writer = writer
        self._calls = state.calls

    def append(self, call: OpenCall, stream: str, data: bytes) -> None:
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
        if self._writer.ts is not None:
            call.ts = self._writer.ts
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

    def catch_up(self, call: OpenCall, stream: str, whole: str) -> None:
        """Append what is new in `whole`, all that an open call has printed so far."""
        output = self._calls.get(call.id)
        buffer = output.buffers.get(stream) if output is not None else None
        self.append(call, stream, whole[buffer.chars if buffer is not None else 0 :].encode())

    def take(self, of: OpenCall | str) -> tuple[dict[str, str] | None, dict[str, OutputRef] | None]:
        """Remove the output so far of a call, or of the one that has this id on the wire, and return it: (fields of a
        result, output bodies of the truncated ones)."""
        output = self._calls.pop(self._writer.id_of_call(of) if isinstance(of, str) else of.id, None)
        if output is None:
            return None, None
        refs = {f"/output/{stream}": buffer.ref("text/plain") for stream, buffer in output.buffers.items()}
        known = {pointer: ref for pointer, ref in refs.items() if ref is not None}
        return {stream: buffer.head for stream, buffer in output.buffers.items()}, known or None
