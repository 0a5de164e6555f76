"""Chunked messages and reasoning -> one event per block, when the block is complete.

A block that arrives in pieces is kept by its head only: once it is longer than an event's string may be, its pieces go
to an output body as they come, so that state stays small however long the text grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tooltap.normalizers.core.items import OutputPiece
from tooltap.protocol.events import Message, OutputRef, Reasoning

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

__all__ = ["TextBuffer", "Texts", "TextsState"]


class TextBuffer(msgspec.Struct, omit_defaults=True):
    """Text that grows by appending: whole while it is short, else its head and the id of the body that has it all."""

    head: str = ""
    chars: int = 0
    bytes: int = 0
    newlines: int = 0
    ends_in_newline: bool = False
    output_id: str | None = None

    def append(self, text: str, parser: Parser, mime_type: str) -> None:
        data = text.encode()
        limit = parser.context.limits.string_bytes
        if self.output_id is None and self.bytes + len(data) > limit:
            self.output_id = parser.new_output_id()
            whole = self.head.encode() + data
            parser.items.append(OutputPiece(self.output_id, 0, whole, mime_type))
            self.head = whole[:limit].decode("utf-8", "ignore")
        elif self.output_id is not None:
            parser.items.append(OutputPiece(self.output_id, self.bytes, data, mime_type))
        else:
            self.head += text
        self.chars += len(text)
        self.bytes += len(data)
        self.newlines += text.count("\n")
        if text:
            self.ends_in_newline = text.endswith("\n")

    def ref(self, mime_type: str) -> OutputRef | None:
        """Where the whole lies, if the head is not all."""
        if self.output_id is None:
            return None
        lines = self.newlines + (not self.ends_in_newline)
        return OutputRef(output_id=self.output_id, bytes=self.bytes, lines=lines, mime_type=mime_type)


class OpenText(msgspec.Struct, omit_defaults=True):
    role: str
    """user, assistant, system, or `reasoning`."""
    session: str
    buffer: TextBuffer
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    ts: int | None = None
    message_id: str | None = None
    block: int | None = None
    replay: bool = False
    preview: bool = False
    """Its whole form was to come from elsewhere; if it is emitted from here, that is our inference."""


class TextsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, OpenText] = {}
    """Key (one per session, agent and, where a dialect interleaves blocks, block) -> the block being received."""


class Texts:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._open: dict[str, OpenText] = parser.state.texts.open

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
        """A piece of the block of this session and agent; another role or message id ends the block before it.

        `preview`: the block will come whole from elsewhere, and be dropped then."""
        parser = self._parser
        full_key = f"{parser.session}\n{parser.agent or ''}\n{key}"
        current = self._open.get(full_key)
        if current is not None and (current.role, current.message_id, current.block) != (role, message_id, block):
            self._emit(full_key)
            current = None
        if current is None:
            while len(self._open) >= parser.context.limits.open_texts:
                self._emit(next(iter(self._open)))
            current = OpenText(
                role=role,
                session=parser.session,
                buffer=TextBuffer(),
                agent=parser.agent,
                parent=parser.parent,
                turn=parser.turn,
                ts=parser.ts,
                message_id=message_id,
                block=block,
                replay=parser.replay,
                preview=preview,
            )
            self._open[full_key] = current
        if parser.partials:
            kind, fields = self._kind(current)
            parser.emit_partial(kind, text=text, offset=current.buffer.chars, **fields)
        current.buffer.append(text, parser, "text/plain")

    def flush(self, key: str = "", *, complete: bool = False) -> None:
        """End the block of this session and agent. `complete`: it is whole, though its whole form is still to come."""
        full_key = f"{self._parser.session}\n{self._parser.agent or ''}\n{key}"
        if complete and full_key in self._open:
            self._open[full_key].preview = False
        self._emit(full_key)

    def drop(self, key: str = "") -> bool:
        """Forget the block: its whole form is being emitted from elsewhere. Gives whether there was one."""
        return self._open.pop(f"{self._parser.session}\n{self._parser.agent or ''}\n{key}", None) is not None

    def flush_turn(self, session: str, turn_id: str) -> None:
        """End the blocks of a turn, and those of no turn; a turn that overlaps goes on."""
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
        fields: dict[str, Any] = {"message_id": text.message_id, "block": text.block}
        if text.role == "reasoning":
            return Reasoning, fields
        return Message, {**fields, "role": text.role}

    def _emit(self, key: str) -> None:
        text = self._open.pop(key, None)
        if text is None or not text.buffer.chars:
            return
        kind, fields = self._kind(text)
        ref = text.buffer.ref("text/plain")
        self._parser.emit(
            kind,
            text=text.buffer.head,
            session=text.session,
            agent=text.agent,
            parent=text.parent,
            turn=text.turn,
            ts=text.ts,
            replay=text.replay,
            synthetic=text.preview,
            outputs={"/text": ref} if ref is not None else None,
            **fields,
        )
