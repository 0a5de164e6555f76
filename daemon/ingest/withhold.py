"""Takes events that another stream has reported out of what a stream is about to commit, and out of its statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import REPORTED_ELSEWHERE, Output
from tooltap.protocol.stats import Statistics

__all__ = ["leave_out"]


def leave_out(
    outputs: Sequence[Output], is_elsewhere: Callable[[Produced], bool], statistics: Statistics
) -> tuple[list[Output], set[str]]:
    """Return the outputs without these events and their bodies, and the ids of these events. Partials stay. A line with
    no other events counts as skipped."""
    stored = [one for one in outputs if isinstance(one, Produced) and not one.partial]
    gone = [one for one in stored if is_elsewhere(one)]
    if not gone:
        return list(outputs), set()
    ids = {one.id for one in gone}
    kept = [one for one in outputs if not (isinstance(one, Produced) and one.id in ids)]
    needed = [one.body for one in kept if isinstance(one, Produced)]
    kept = [one for one in kept if isinstance(one, Produced) or not _is_body_of(one, gone) or _names(needed, one)]
    lines = {line for one in gone if (line := _line(one)) is not None} - {
        _line(one) for one in stored if one.id not in ids
    }
    statistics.with_events -= len(lines)
    statistics.count_skip(REPORTED_ELSEWHERE, len(lines))
    for one in gone:
        statistics.adjust(one.kind, one.tool, one.raw_tool, -1)
    return kept, ids


def _line(event: Produced) -> str | None:
    """Return which line the event results from; None for what results from closing the stream, or from no line."""
    place, _, _ = event.id.rpartition(":")
    return place if place[-1:].isdigit() else None


def _is_body_of(chunk: OutputChunk, events: Sequence[Produced]) -> bool:
    return _names([one.body for one in events], chunk)


def _names(bodies: Sequence[bytes], chunk: OutputChunk) -> bool:
    name = chunk.output_id.encode()
    return any(name in body for body in bodies)
