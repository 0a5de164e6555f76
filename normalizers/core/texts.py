"""Messages and reasoning that arrive in chunks -> one event per block, when the block is complete.

Only the head of a block is held: once it is longer than an event's string may be, its chunks go to an output body as
they come, so that the state stays small however long the text grows (`text_buffer.py`).
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.state import OpenText, TextsState
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Message, Reasoning


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

        `preview`: a later line has the whole block, and drops this one."""
        writer = self._writer
        full_key = f"{writer.session}\n{writer.agent or ''}\n{key}"
        current = self._open.get(full_key)
        if current is not None and (current.role != role or current.message_id != message_id or current.block != block):
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
            )
            self._open[full_key] = current
        if writer.partials:
            kind, fields = self._kind(current)
            writer.emit_partial(kind, text=text, offset=current.buffer.chars, **fields)
        current.buffer.append(text, writer, "text/plain")

    def flush(self, key: str = "", *, complete: bool = False) -> None:
        """End the block of this session and agent. `complete`: it is whole, though a later line repeats it."""
        if not self._open:
            return
        full_key = f"{self._writer.session}\n{self._writer.agent or ''}\n{key}"
        if complete and full_key in self._open:
            self._open[full_key].preview = False
        self._emit(full_key)

    def drop(self, key: str = "") -> bool:
        """Drop the block, because another line has the whole of it. Returns whether there was one."""
        if not self._open:
            return False
        return self._open.pop(f"{self._writer.session}\n{self._writer.agent or ''}\n{key}", None) is not None

    def flush_turn(self, session: str, turn_id: str) -> None:
        """End the blocks of a turn, and those of no turn; a turn that overlaps continues."""
        if not self._open:
            return
        for key in [key for key, text in self._open.items() if text.session == session]:
            if self._open[key].turn in (turn_id, None):
                self._emit(key)

    def rename_session(self, old: str, new: str) -> None:
        for key, text in list(self._open.items()):
            if text.session == old:
                text.session = new
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
        if not text.buffer.chars:
            del self._open[key]
            return
        kind, fields = self._kind(text)
        fields["text"] = text.buffer.head
        protocol, provider = self._writer.origin_of_line()
        scope = text.session, text.agent, text.parent, text.turn, protocol, provider
        outputs = text.buffer.outputs("/text", "text/plain")
        self._writer.emit_in(kind, fields, scope, text.ts, text.replay, text.preview, outputs)
        del self._open[key]
