"""The contract kit: the rules every dialect must keep, as checks that its author runs over recorded streams.

    from tooltap.normalizers.stream.contract import check_recording, read_recording

    def test_my_dialect() -> None:
        check_recording("my-dialect", read_recording(Path("run.jsonl").read_bytes()))

Every check raises `ContractError` with one sentence that names the line. Feed it garbage, too: `check_survives`
requires only that nothing raises and that every line is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import AUTO, REPORTED_ELSEWHERE, Output, StreamNormalizer
from tooltap.normalizers.stream.reloading import (
    ContractError,
    Run,
    Step,
    check_chunks,
    check_every_point,
    check_forgetting,
    check_reloading,
    check_same,
    run,
    steps_of,
)
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.normalizers.wire.recording import Line, Recording
from tooltap.protocol.events import Event, Notice, SessionEvent, ToolCall, ToolResult, ToolUpdate, Turn, Unparsed

__all__ = [
    "ContractError",
    "Line",
    "check_events",
    "check_recording",
    "check_run",
    "check_survives",
    "normalize",
    "read_recording",
]

PREFIXES = 6
"""How many prefixes of a recording are run on their own, and at how many points a long one is reloaded."""
SHORT = 200
"""Lines of a recording that is reloaded at every single point, which takes half the square of their number."""


def read_recording(data: bytes) -> list[Line]:
    """The lines of a recorded stream, plain or tapped."""
    splitter = Splitter(Limits().line_bytes)
    raw = splitter.feed(data)
    if (last := splitter.finish()) is not None:
        raw.append(last)
    recording = Recording()
    return [line for one in raw if isinstance(line := recording.read(one), Line)]


def normalize(dialect: str, lines: Iterable[Line], context: Context | None = None) -> list[Event]:
    """All events of a recording, from its first line to its end."""
    normalizer = StreamNormalizer(context or Context(stream="recording"), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line.data, line.t, line.direction)]
    return _events(outputs + normalizer.close("end"))


def check_recording(dialect: str, lines: Sequence[Line], context: Context | None = None) -> list[Event]:
    """Run a recorded stream through every check; returns its events."""
    context = context or Context(stream="recording")
    steps = steps_of(lines)
    whole = run(dialect, steps, context)
    events = _events([output for outputs in whole.outputs for output in outputs])
    check_run(whole.normalizer, events, len(lines))
    check_same(whole.outputs, run(dialect, steps, context).outputs, "the same lines became other events")
    check_reloading(whole)
    check_forgetting(whole)
    check_every_point(whole, _points(len(lines)))
    check_chunks(whole, lambda most: most)
    _check_prefixes(whole)
    _check_partials(whole, events)
    _check_interrupted(whole)
    check_reloading(run(AUTO, steps[: context.limits.held_lines + 2], context))
    return events


def check_survives(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check garbage: nothing raises, not even inside; every line is accounted for; it reloads after each line."""
    context = context or Context(stream="garbage")
    whole = run(dialect, steps_of(lines), context)
    events = _events([output for outputs in whole.outputs for output in outputs])
    check_events(events)
    _check_no_parser_error(events)
    _check_accounting(whole.normalizer, len(lines))
    _check_skips(whole.normalizer)
    check_reloading(whole)
    check_forgetting(whole)
    check_every_point(whole, _points(len(lines)))


def check_run(normalizer: StreamNormalizer, events: list[Event], lines: int) -> None:
    """Check one run: the rules for events, no parser error, `lines` lines accounted for, nothing open after close."""
    check_events(events)
    _check_no_parser_error(events)
    _check_accounting(normalizer, lines)
    _check_skips(normalizer)
    _check_closed(normalizer, events)


def check_events(events: Iterable[Event]) -> None:
    """The rules of the event stream itself, for the events of one stream in order."""
    ids: set[str] = set()
    known: set[str] = set()
    open_calls: set[str] = set()
    ended: dict[str, str] = {}
    for event in events:
        where = f"event {event.id}"
        if event.id in ids:
            raise ContractError(f"{where}: this id was used before")
        ids.add(event.id)
        if isinstance(event, ToolCall):
            _check_payload(event.input, event.name, where)
            if event.call_id in known:
                raise ContractError(f"{where}: second call {event.call_id!r}")
            known.add(event.call_id)
            open_calls.add(event.call_id)
        elif isinstance(event, ToolUpdate):
            if event.call_id not in known:
                raise ContractError(f"{where}: update of call {event.call_id!r}, which was never opened")
            if event.input is not None:
                _check_payload(event.input, event.name, where)
        elif isinstance(event, ToolResult):
            _check_result(event, known, open_calls, ended, where)


def _check_result(event: ToolResult, known: set[str], open_calls: set[str], ended: dict[str, str], where: str) -> None:
    if event.call_id not in known:
        raise ContractError(f"{where}: result of call {event.call_id!r}, which was never opened")
    if event.call_id not in open_calls and event.replaces is None:
        raise ContractError(f"{where}: second result of call {event.call_id!r} without `replaces`")
    if event.call_id not in open_calls and event.replaces != ended.get(event.call_id):
        raise ContractError(f"{where}: result of call {event.call_id!r} does not replace its last result")
    if event.is_error != (event.status == "failed"):
        raise ContractError(f"{where}: isError is {event.is_error}, status {event.status}")
    _check_payload(event.output, event.name, where)
    if event.async_:
        open_calls.add(event.call_id)  # an acknowledgement may come after the call was closed
    else:
        open_calls.discard(event.call_id)
    ended[event.call_id] = event.id


def _check_payload(payload: dict[str, Any], name: str, where: str) -> None:
    meta = payload.get("_happy")
    wanted = {"v", "protocol", "provider", "rawToolName", "canonicalToolName"}
    if not isinstance(meta, dict) or not wanted <= set(meta) or meta["v"] != 2 or "_raw" not in payload:
        raise ContractError(f"{where}: payload without complete _happy and _raw")
    if meta["canonicalToolName"] != name:
        raise ContractError(f"{where}: named {name!r}, but canonicalToolName is {meta['canonicalToolName']!r}")


def _check_accounting(normalizer: StreamNormalizer, lines: int) -> None:
    stats = normalizer.statistics
    classed = stats.with_events + stats.unparsed + sum(stats.skipped.values())
    if not stats.lines == classed == lines:
        raise ContractError(f"{lines} lines were fed, {stats.lines} counted, {classed} classed")


def _check_skips(normalizer: StreamNormalizer) -> None:
    if normalizer.dialect is None:
        return
    unknown = set(normalizer.statistics.skipped) - parser_class(normalizer.dialect).skip_reasons()
    if normalizer.context.prompt is not None:  # a line that only repeats it
        unknown -= {REPORTED_ELSEWHERE}
    if unknown:
        raise ContractError(f"skip reasons outside the dialect's table: {sorted(unknown)}")


def _check_no_parser_error(events: list[Event]) -> None:
    for event in events:
        if isinstance(event, Unparsed) and event.reason.startswith("parser-error"):
            raise ContractError(f"event {event.id}: {event.reason} at {event.text[:200]}")
        if isinstance(event, Notice) and event.code == "parser-error":
            raise ContractError(f"event {event.id}: {event.text}")


def _check_closed(normalizer: StreamNormalizer, events: list[Event]) -> None:
    open_calls: set[str] = set()
    open_turns: list[tuple[str, str | None]] = []
    for event in events:
        if isinstance(event, ToolCall):
            open_calls.add(event.call_id)
        elif isinstance(event, ToolResult) and not event.async_:
            open_calls.discard(event.call_id)
        elif isinstance(event, SessionEvent) and event.alias is not None:
            open_turns = [(event.session if turn[0] == event.alias else turn[0], turn[1]) for turn in open_turns]
        elif isinstance(event, Turn):
            turn = (event.session, event.turn)
            if event.state == "started":
                open_turns.append(turn)
            elif turn in open_turns:
                open_turns.remove(turn)
    if open_calls or open_turns:
        raise ContractError(f"left open after close: calls {sorted(open_calls)}, turns {open_turns}")
    if again := normalizer.close("end"):
        raise ContractError(f"a second close gave {len(again)} more events")


def _points(lines: int) -> Iterable[int]:
    """After which lines a parser is loaded that reads all that follow."""
    return range(lines + 1) if lines <= SHORT else {lines * part // PREFIXES for part in range(PREFIXES)}


def _check_prefixes(whole: Run) -> None:
    steps = whole.steps[:-1]
    for part in range(1, PREFIXES):
        length = len(steps) * part // PREFIXES
        alone = run(whole.dialect, steps[:length], whole.context)
        check_same(whole.outputs[:length], alone.outputs[:-1], f"the first {length} lines alone")


def _check_partials(whole: Run, events: list[Event]) -> None:
    context = msgspec.structs.replace(whole.context, partials=True)
    with_partials = run(whole.dialect, whole.steps[:-1], context)
    found = _events([output for outputs in with_partials.outputs for output in outputs])
    if [event for event in found if not getattr(event, "partial", False)] != events:
        raise ContractError("asking for partials changed other events")
    check_reloading(with_partials)


def _check_interrupted(whole: Run) -> None:
    """A stream that loses lines, has one that is too long, and ends before it continues, is reloaded like any other."""
    middle = len(whole.steps) // 2
    head = next((step.data for step in whole.steps if isinstance(step.data, bytes)), b"")[:HEAD_BYTES]
    happens = [Step("lost", b"spool-full", lines=3), Step("close", b"end"), Step("line", LongLine(head, 10**9))]
    steps = [*whole.steps[:middle], *happens, *whole.steps[middle:-1]]
    check_reloading(run(whole.dialect, steps, whole.context))


def _events(outputs: list[Output]) -> list[Event]:
    return [output.event for output in outputs if isinstance(output, Produced)]
