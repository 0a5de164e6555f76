"""The events of one transaction, joined into chunks once for each selection that subscribers ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tooltap.daemon.journal.interface import Committed
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.display import display_body
from tooltap.protocol.events import event_lines
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Form

__all__ = ["Batch", "Chunk", "Selection"]

CHUNK_BYTES = 65_536
"""A chunk ends when it is this long, so that a client that stops reading gets little more than its limit."""
EVERYTHING = Filter()


class Chunk(NamedTuple):
    data: bytes
    upto: int
    """A subscriber that has this chunk misses no selected event up to this `seq`."""


class Selection(NamedTuple):
    """Which lines a subscriber asks for."""

    filter: Filter
    partials: bool
    as_: Form = "events"

    @property
    def is_selective(self) -> bool:
        """Whether some events may have no line in it."""
        return self.filter != EVERYTHING or self.as_ == "display"


class Batch:
    """The events of one transaction; they follow `before` without a hole."""

    def __init__(self, commits: Iterable[Committed], before: int) -> None:
        self.before = before
        self._events = [
            (seq, output)
            for outputs, seqs in commits
            for output, seq in zip(outputs, seqs, strict=True)
            if isinstance(output, Produced)
        ]
        self.upto = next((seq for seq, _ in reversed(self._events) if seq is not None), before)
        self.bytes = sum([len(output.body) for _, output in self._events])
        """Memory used: the events and everything encoded from them."""
        self._chunks: dict[Selection, list[Chunk]] = {}
        self._displayed: list[bytes | None] | None = None

    def chunks(self, selection: Selection) -> list[Chunk]:
        """The selected lines, joined."""
        chunks = self._chunks.get(selection)
        if chunks is None:
            chunks = self._chunks[selection] = list(_join(self._selected(selection), self.before))
            self.bytes += sum([len(chunk.data) for chunk in chunks])
        return chunks

    def chunks_after(self, cursor: int, selection: Selection) -> list[Chunk]:
        """The selected lines after `cursor`, which may lie inside the batch."""
        chunks = self.chunks(selection)
        if cursor <= self.before or any(chunk.upto == cursor for chunk in chunks):
            return [chunk for chunk in chunks if chunk.upto > cursor]
        selected = self._selected(selection)
        return list(_join([(seq, body) for seq, body in selected if seq is not None and seq > cursor], cursor))

    def _selected(self, selection: Selection) -> list[tuple[int | None, bytes]]:
        """`(seq, body)` of each line; the `seq` of a partial is None."""
        if not selection.is_selective:
            return [(seq, output.body) for seq, output in self._events if seq is not None or selection.partials]
        bodies = self._display() if selection.as_ == "display" else [output.body for _, output in self._events]
        matches = selection.filter.matches
        return [
            (seq, body)
            for (seq, output), body in zip(self._events, bodies, strict=True)
            if body is not None and (seq is not None or selection.partials) and matches(output)
        ]

    def _display(self) -> list[bytes | None]:
        """The display line of each event, computed once for all selections; None where there is none."""
        if self._displayed is None:
            self._displayed = [display_body(output.body) for _, output in self._events]
            self.bytes += sum([len(body) for body in self._displayed if body is not None])
        return self._displayed


def _join(events: list[tuple[int | None, bytes]], after: int) -> Iterator[Chunk]:
    start = size = 0
    for end, (seq, body) in enumerate(events, 1):
        after = after if seq is None else seq
        size += len(body)
        if size >= CHUNK_BYTES or end == len(events):
            yield Chunk(event_lines(events[start:end]), after)
            start, size = end, 0
