"""The contract kit: the rules every dialect must keep, as checks that its author runs over recorded streams.

    from tooltap.normalizers.stream.contract import check_recording, read_recording

    def test_my_dialect() -> None:
        check_recording("my-dialect", read_recording(Path("run.jsonl").read_bytes()))

Every check raises `ContractError` with one sentence that names the line. Feed it garbage, too: `check_survives`
requires only that nothing raises and that every line is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.items import Context, Limits, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import Splitter
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
"""How many prefixes of a recording are run on their own."""


class ContractError(AssertionError):
    """A dialect breaks a rule; the message says which, and where."""


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
    whole, normalizer = _run(dialect, lines, context)
    events = _events([output for outputs in whole for output in outputs])
    check_run(normalizer, events, len(lines))
    _check_same(whole, _run(dialect, lines, context)[0], "the same lines became other events")
    _check_reloading(dialect, lines, context, whole)
    _check_blocks(dialect, lines, context, whole)
    _check_prefixes(dialect, lines, context, whole)
    _check_partials(dialect, lines, context, events)
    return events


def check_survives(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check garbage: nothing raises, not even inside; every line is accounted for; it reloads after each line."""
    context = context or Context(stream="garbage")
    whole, normalizer = _run(dialect, lines, context)
    events = _events([output for outputs in whole for output in outputs])
    check_events(events)
    _check_no_parser_error(events)
    _check_accounting(normalizer, len(lines))
    _check_skips(normalizer)
    _check_reloading(dialect, lines, context, whole)


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
    made_up: dict[str, str] = {}
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
            _check_result(event, known, open_calls, made_up, where)


def _check_result(
    event: ToolResult, known: set[str], open_calls: set[str], made_up: dict[str, str], where: str
) -> None:
    if event.call_id not in known:
        raise ContractError(f"{where}: result of call {event.call_id!r}, which was never opened")
    if event.call_id not in open_calls and event.replaces != made_up.get(event.call_id):
        raise ContractError(f"{where}: second result of call {event.call_id!r}")
    if event.call_id not in open_calls and event.replaces is None:
        raise ContractError(f"{where}: second result of call {event.call_id!r} without `replaces`")
    if event.is_error != (event.status == "failed"):
        raise ContractError(f"{where}: isError is {event.is_error}, status {event.status}")
    _check_payload(event.output, event.name, where)
    if not event.async_:
        open_calls.discard(event.call_id)
    if event.synthetic:
        made_up[event.call_id] = event.id
    else:
        made_up.pop(event.call_id, None)


def _check_payload(payload: dict[str, Any], name: str, where: str) -> None:
    meta = payload.get("_happy")
    wanted = {"v", "protocol", "provider", "rawToolName", "canonicalToolName"}
    if not isinstance(meta, dict) or not wanted <= set(meta) or meta["v"] != 2 or "_raw" not in payload:
        raise ContractError(f"{where}: payload without complete _happy and _raw")
    if meta["canonicalToolName"] != name:
        raise ContractError(f"{where}: named {name!r}, but canonicalToolName is {meta['canonicalToolName']!r}")


def _run(dialect: str, lines: Sequence[Line], context: Context) -> tuple[list[list[Output]], StreamNormalizer]:
    normalizer = StreamNormalizer(context, dialect)
    outputs = [normalizer.feed(line.data, line.t, line.direction) for line in lines]
    outputs.append(normalizer.close("end"))
    return outputs, normalizer


def _check_accounting(normalizer: StreamNormalizer, lines: int) -> None:
    stats = normalizer.statistics
    classed = stats.with_events + stats.unparsed + sum(stats.skipped.values())
    if not stats.lines == classed == lines:
        raise ContractError(f"{lines} lines were fed, {stats.lines} counted, {classed} classed")


def _check_skips(normalizer: StreamNormalizer) -> None:
    if normalizer.dialect is None:
        return
    unknown = set(normalizer.statistics.skipped) - parser_class(normalizer.dialect).skip_reasons()
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


def _check_blocks(dialect: str, lines: Sequence[Line], context: Context, whole: list[list[Output]]) -> None:
    """Lines that are fed together become what they become one by one."""
    normalizer = StreamNormalizer(context, dialect)
    outputs: list[Output] = []
    for (t, direction), block in groupby(lines, lambda line: (line.t, line.direction)):
        outputs += normalizer.feed_block([line.data for line in block], t, direction)
    outputs += normalizer.close("end")
    _check_same([[output for one in whole for output in one]], [outputs], "a block of lines became other events")


def _check_reloading(dialect: str, lines: Sequence[Line], context: Context, whole: list[list[Output]]) -> None:
    """A parser that is dumped and loaded after every line continues as if nothing had happened."""
    normalizer = StreamNormalizer(context, dialect)
    for number, (line, wanted) in enumerate(zip(lines, whole, strict=False), 1):
        outputs = normalizer.feed(line.data, line.t, line.direction)
        _check_same([wanted], [outputs], f"reloading before line {number} changed its events")
        dump = normalizer.dump()
        normalizer = StreamNormalizer.load(dump, context)
        if normalizer.dump() != dump:
            raise ContractError(f"after line {number}: the loaded state dumps differently")
    _check_same([whole[-1]], [normalizer.close("end")], "reloading before the end changed what close gives")


def _check_prefixes(dialect: str, lines: Sequence[Line], context: Context, whole: list[list[Output]]) -> None:
    for part in range(1, PREFIXES):
        length = len(lines) * part // PREFIXES
        _check_same(whole[:length], _run(dialect, lines[:length], context)[0][:-1], f"the first {length} lines alone")


def _check_partials(dialect: str, lines: Sequence[Line], context: Context, events: list[Event]) -> None:
    normalizer = StreamNormalizer(context, dialect)
    normalizer.want_partials(True)
    outputs = [output for line in lines for output in normalizer.feed(line.data, line.t, line.direction)]
    with_partials = _events(outputs + normalizer.close("end"))
    if [event for event in with_partials if not getattr(event, "partial", False)] != events:
        raise ContractError("asking for partials changed other events")


def _check_same(wanted: list[list[Output]], got: list[list[Output]], what: str) -> None:
    for one, other in zip(wanted, got, strict=True):
        if [_comparable(output) for output in one] != [_comparable(output) for output in other]:
            raise ContractError(f"{what}: {_show(one)} became {_show(other)}")


def _comparable(output: Output) -> bytes | OutputChunk:
    return output if isinstance(output, OutputChunk) else output.body


def _show(outputs: list[Output]) -> str:
    return orjson.dumps([str(_comparable(output))[:300] for output in outputs]).decode()


def _events(outputs: list[Output]) -> list[Event]:
    return [output.event for output in outputs if isinstance(output, Produced)]
