"""Text that grows by appending, held by its head only once it is longer than an event's string may be."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tooltap.normalizers.core.items import Context, Item, OutputChunk
from tooltap.protocol.events import OutputRef


class _Sink(Protocol):
    """Receiver of the chunks of a long text."""

    context: Context
    items: list[Item]

    def new_output_id(self) -> str: ...


class TextBuffer(msgspec.Struct, omit_defaults=True):
    """The whole text while it is short, else its head and the id of the output body that has all of it."""

    head: str = ""
    chars: int = 0
    bytes: int = 0
    newlines: int = 0
    ends_in_newline: bool = False
    output_id: str | None = None

    def append(self, text: str, sink: _Sink, mime_type: str) -> None:
        chars = len(text)
        size = chars if text.isascii() else len(text.encode())
        if self.output_id is not None:
            sink.items.append(OutputChunk(self.output_id, self.bytes, text.encode(), mime_type))
        elif self.bytes + size > (limit := sink.context.limits.string_bytes):
            self.output_id = sink.new_output_id()
            whole = self.head.encode() + text.encode()
            sink.items.append(OutputChunk(self.output_id, 0, whole, mime_type))
            self.head = whole[:limit].decode("utf-8", "ignore")
        else:
            self.head += text
        self.chars += chars
        self.bytes += size
        if text:
            if "\n" in text:
                self.newlines += text.count("\n")
            self.ends_in_newline = text[-1] == "\n"

    def ref(self, mime_type: str) -> OutputRef | None:
        """The output body with the whole text, if the head is not all of it."""
        if self.output_id is None:
            return None
        lines = self.newlines + (not self.ends_in_newline)
        return OutputRef(output_id=self.output_id, bytes=self.bytes, lines=lines, mime_type=mime_type)

    def outputs(self, pointer: str, mime_type: str = "text/plain") -> dict[str, OutputRef] | None:
        """The `outputs` of an event that has the head at this JSON pointer."""
        ref = self.ref(mime_type)
        return None if ref is None else {pointer: ref}
