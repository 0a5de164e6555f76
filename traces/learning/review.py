"""Says what a dialect does not read of a recording: what its lines seem to hold (`sketch.py`), and no event has."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.recording import read_recording
from tooltap.protocol.events import Event, Message, Reasoning, ToolCall, ToolResult, Usage
from tooltap.traces.learning.sketch import Sketch

NAMED = 3
"""Most ids or texts that a sentence names."""
TRIED = 300
"""Most lines that are given to each known dialect."""


class Reading(NamedTuple):
    """What a dialect makes of a recording."""

    lines: int
    unparsed: int
    calls: set[str]
    results: set[str]
    """Of calls whose result was in the lines."""
    texts: list[str]
    usages: int
    times: bool


class Likeness(NamedTuple):
    dialect: str
    score: float
    """From 0 to 1: the mean of the shares below, of those that the recording has."""
    lines: float
    calls: float
    results: float
    texts: float


def read(dialect: str, data: bytes, most: int | None = None) -> Reading:
    """Read a recording with a dialect. `most`: number of lines after which to stop."""
    normalizer = StreamNormalizer(Context(stream="recording"), dialect)
    outputs = []
    for line in read_recording(data)[:most]:
        outputs += normalizer.feed(line.data, line.t, line.direction)
    outputs += normalizer.close("end")
    events: list[Event] = [output.event for output in outputs if isinstance(output, Produced)]
    stats = normalizer.statistics
    return Reading(
        stats.lines,
        stats.unparsed,
        {event.call_id for event in events if isinstance(event, ToolCall)},
        {event.call_id for event in events if isinstance(event, ToolResult) and not event.synthetic},
        [event.text for event in events if isinstance(event, Message | Reasoning)],
        sum(isinstance(event, Usage) for event in events),
        any(event.ts is not None for event in events),
    )


def missing(dialect: str, data: bytes, seen: Sketch) -> list[str]:
    """Return a sentence for each thing that the lines seem to hold and no event has. What nobody is sure of is not a
    broken rule: the sketch may be wrong."""
    made = read(dialect, data)
    sentences: list[str] = []
    if made.unparsed:
        sentences.append(f"{made.unparsed} of {made.lines} lines are unparsed")
    for what, held, known in (
        ("call", seen.calls.keys() | seen.calls_in_texts, made.calls),
        ("result", seen.results, made.results),
    ):
        if lacking := [one for one in held if not _is_known(one, known)]:
            plural = "" if len(lacking) == 1 else "s"
            sentences.append(f"{len(lacking)} {what}{plural} in the lines, and in no event: {_named(lacking)}")
    if open_calls := made.calls - made.results:
        plural = "" if len(open_calls) == 1 else "s"
        sentences.append(f"{len(open_calls)} call{plural} without a result in the lines: {_named(open_calls)}")
    for role, what in (
        ("user", "of the user"),
        ("assistant", "of the model"),
        ("reasoning", "of the model's reasoning"),
    ):
        texts = [text for one, text in seen.texts if one == role]
        if lacking := [text for text in texts if not is_said(text, made.texts)]:
            sentences.append(
                f"{len(lacking)} of {len(texts)} texts {what} are in no message: {_named(map(repr, lacking))}"
            )
    if seen.usages and not made.usages:
        sentences.append("the lines state numbers of tokens, and no event does")
    if seen.times and not made.times:
        [((key, unit), _)] = seen.times.most_common(1)
        sentences.append(f"the lines state times (`{key}`, {unit}), and no event has one")
    return sentences


def is_said(text: str, texts: Collection[str]) -> bool:
    """Whether a text is one of these, or one of them is a large part of it, or it is a part of one."""
    text = text.strip()
    return any(text == (one := other.strip()) or (one and one in text) or text in one for other in texts)


def _is_known(one: str, ids: Collection[str]) -> bool:
    """An id in events may have more in front of it or behind it."""
    return one in ids or any(one in other for other in ids)


def _named(things: object) -> str:
    listed = [str(one)[:60] for one in things]  # type: ignore[attr-defined]
    return ", ".join(listed[:NAMED]) + (", …" if len(listed) > NAMED else "")


def closest(data: bytes, seen: Sketch, without: Collection[str] = ()) -> list[Likeness]:
    """Return the known dialects that read most of a recording, the best first. `without`: those that are not tried; nor
    are those of text, which read any line."""
    tried = [name for name, one in builtin().items() if one.recognises_text is None and name not in without]
    found = [_likeness(name, data, seen) for name in tried]
    return sorted((one for one in found if one.score > 0), key=lambda one: -one.score)


def _likeness(name: str, data: bytes, seen: Sketch) -> Likeness:
    made = read(name, data, None if seen.each else TRIED)  # a document may be printed over many lines
    calls = seen.calls.keys() | seen.calls_in_texts
    shares = [(made.lines - made.unparsed) / made.lines if made.lines else 0.0]
    shares.append(sum(_is_known(one, made.calls) for one in calls) / len(calls) if calls else -1)
    shares.append(sum(_is_known(one, made.results) for one in seen.results) / len(seen.results) if seen.results else -1)
    texts = [text for _, text in seen.texts]
    shares.append(sum(is_said(text, made.texts) for text in texts) / len(texts) if texts else -1)
    counted = [share for share in shares if share >= 0]
    return Likeness(name, sum(counted) / len(counted) if max(shares[1:]) > 0 else 0.0, *shares)
