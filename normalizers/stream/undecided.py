"""Streams of an unknown dialect: lines that wait for one that decides it, and the parser of what none recognises."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.catalog.recognition import recognise
from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.wire.decode import decode_line
from tooltap.normalizers.wire.documents import Documents, beginning
from tooltap.protocol.inputs import Direction


class HeldLine(msgspec.Struct):
    line: bytes
    size: int | None
    """Length of the whole line, where `line` is only its head."""
    t: int | None
    direction: Direction | None
    failed: str | None = None
    """Why it is not parsed: something raised when it was looked at."""


class Undecided(msgspec.Struct):
    """Lines that wait for one that decides the dialect."""

    lines: list[HeldLine] = []
    size: int = 0
    documents: Documents = msgspec.field(default_factory=Documents)

    def add(self, line: HeldLine) -> None:
        self.lines.append(line)
        self.size += len(line.line)

    def may_grow(self, limits: Limits) -> bool:
        """Whether more lines may be held. An array may span any number of lines within the byte limit."""
        return (self.documents.in_array or len(self.lines) < limits.held_lines) and self.size < limits.held_bytes

    def decide(self, line: bytes, depth: int) -> str | None:
        """The dialect that the line decides, which is the last of those held."""
        if (name := _recognise(line, depth)) is not None:
            return name
        documents = self.documents
        if documents.is_broken_by(line):
            documents.drop()
        whole = documents.take(line, objects=True)
        if documents.in_array:
            return _recognise(whole, depth) if whole else None
        document = beginning([one.line for one in self.lines])
        name = recognise(document) if document is not None else None
        return name if name is not None and parser_class(name).DOCUMENTS else None


def _recognise(line: bytes, depth: int) -> str | None:
    found = map(recognise, decode_line(line, depth).values)
    return next((name for name in found if name is not None), None)


class Unknown(Parser):
    """Reads streams that no dialect recognises: every line is `unparsed`, with its text."""

    dialect = "unknown"
    protocol = "unknown"
    default_provider = "unknown"
    ARRAYS = False

    def read(self, value: Line) -> Skip:
        return self.unparsed("unknown-dialect", value)
