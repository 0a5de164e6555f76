"""The events of one transaction, joined into chunks once for each selection that subscribers ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from tooltap.daemon.journal.interface import Committed, StoredEvent
from tooltap.daemon.show.skins.display import display_body
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.guard import place_of
from tooltap.protocol.events import event_lines, numbered_lines
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Form

__all__ = ["Batch", "Chunk", "Selection", "display_of"]

CHUNK_BYTES = 65_536
"""A chunk ends when it is this long, so that a client that stops reading gets little more than its limit."""


class Chunk(NamedTuple):
    """Lines of events, joined, and the events that they are of: who reads more than bytes need not decode them."""

    data: bytes
    upto: int
    """A subscriber that has this chunk misses no selected event up to this `seq`."""
    events: Sequence[Produced | StoredEvent]
    seqs: Sequence[int | None]
    """Of each event; None for a partial."""


class _Line(NamedTuple):
    seq: int | None
    """None for a partial."""
    body: bytes
    """Of the event, or its display line."""
    event: Produced


class Selection:
    """Which lines a subscriber asks for."""

    def __init__(self, filter: Filter, partials: bool, as_: Form = "events") -> None:  # noqa: A002 -- the frame's word
        self.filter = filter
        self.partials = partials
        self.as_ = as_
        self.is_selective = not filter.matches_all or as_ == "display"
        """Whether some events may have no line in it."""
        self._key = filter, partials, as_
        self._hash = hash(self._key)  # kept: each batch is looked up by its selections

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Selection) and self._key == other._key)

    def without_partials(self) -> Selection:
        return Selection(self.filter, False, self.as_) if self.partials else self


class Batch:
    """The events of one transaction; they follow `before` without a hole."""

    def __init__(self, commits: Iterable[Committed], before: int) -> None:
        self.before = before
        outputs: list[Produced | OutputChunk] = []
        seqs: list[int | None] = []
        for committed in commits:
            outputs += committed.outputs
            seqs += committed.seqs
        if None in seqs:  # chunks of output bodies are not for subscribers; partials are
            events = [(one, seq) for one, seq in zip(outputs, seqs, strict=True) if isinstance(one, Produced)]
            self._events, self._seqs = [one for one, _ in events], [seq for _, seq in events]
        else:
            self._events, self._seqs = cast("list[Produced]", outputs), seqs
        self.upto = next((seq for seq in reversed(self._seqs) if seq is not None), before)
        self._size = self.bytes = sum([len(event.body) for event in self._events])
        """Memory used: the events and everything encoded from them."""
        self._chunks: dict[Selection, list[Chunk]] = {}
        self._displayed: list[bytes | None] | None = None

    def chunks(self, selection: Selection) -> list[Chunk]:
        """The selected lines, joined."""
        chunks = self._chunks.get(selection)
        if chunks is None:
            chunks = self._chunks[selection] = self._join(selection)
            self.bytes += sum([len(chunk.data) for chunk in chunks])
        return chunks

    def chunks_after(self, cursor: int, selection: Selection) -> list[Chunk]:
        """The selected lines after `cursor`, which may lie inside the batch."""
        chunks = self.chunks(selection)
        if cursor <= self.before or any(chunk.upto == cursor for chunk in chunks):
            return [chunk for chunk in chunks if chunk.upto > cursor]
        selected = self._selected(selection)
        return list(_join([one for one in selected if one.seq is not None and one.seq > cursor], cursor))

    def _join(self, selection: Selection) -> list[Chunk]:
        if not self._events:
            return []
        if selection.is_selective or self._size >= CHUNK_BYTES or None in self._seqs:
            return list(_join(self._selected(selection), self.before))
        # Nearly every batch: one chunk of all events.
        lines = numbered_lines(self._seqs, [event.body for event in self._events])
        return [Chunk(lines, self.upto, self._events, self._seqs)]

    def _selected(self, selection: Selection) -> list[_Line]:
        pairs = zip(self._seqs, self._events, strict=True)
        if not selection.is_selective:
            return [_Line(seq, event.body, event) for seq, event in pairs if seq is not None or selection.partials]
        bodies = self._display() if selection.as_ == "display" else [event.body for event in self._events]
        matches = selection.filter.matches
        return [
            _Line(seq, body, event)
            for (seq, event), body in zip(pairs, bodies, strict=True)
            if body is not None and (seq is not None or selection.partials) and matches(event)
        ]

    def _display(self) -> list[bytes | None]:
        """The display line of each event, computed once for all selections; None where there is none."""
        if self._displayed is None:
            self._displayed = [display_of(event.body) for event in self._events]
            self.bytes += sum([len(body) for body in self._displayed if body is not None])
        return self._displayed


def display_of(body: bytes) -> bytes | None:
    """The display line of an event; None where there is none, or where it cannot be made."""
    try:
        return display_body(body)
    except Exception as error:
        faults.note("an event has no display line", place_of(error), error)
        return None


def _join(lines: list[_Line], after: int) -> Iterator[Chunk]:
    start = size = 0
    for end, (seq, body, _) in enumerate(lines, 1):
        after = after if seq is None else seq
        size += len(body)
        if size >= CHUNK_BYTES or end == len(lines):
            part = lines[start:end]
            data = event_lines([(one.seq, one.body) for one in part])
            yield Chunk(data, after, [one.event for one in part], [one.seq for one in part])
            start, size = end, 0
