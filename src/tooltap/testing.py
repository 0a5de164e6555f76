"""Checks of the rules that every dialect keeps, for its author to run over recorded streams.

    from tooltap.testing import check_recording, read_recording

    def test_my_dialect() -> None:
        check_recording("my-dialect", read_recording(Path("run.jsonl").read_bytes()))

Every check raises `ContractError` with one sentence that names the line. Feed it garbage, too: `check_survives`
requires only that nothing raises and that every line is accounted for. `normalize` returns the events of a recording,
for tests of what is in them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, partial
from itertools import groupby
from random import Random
from typing import Any, Literal, NamedTuple, NoReturn
from zlib import crc32

import msgspec
import orjson

from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.calls import Index
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.stream.normalizer import AUTO, REPORTED_ELSEWHERE, Output, StreamNormalizer
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.normalizers.wire.recording import Line, read_recording
from tooltap.protocol.events import Event, Notice, SessionEvent, ToolCall, ToolResult, ToolUpdate, Turn, Unparsed
from tooltap.protocol.inputs import Direction

__all__ = [
    "ContractError",
    "Line",
    "broken_rules",
    "check_dialect",
    "check_events",
    "check_recording",
    "check_survives",
    "normalize",
    "read_recording",
]

PREFIXES = 6
"""Number of prefixes of a recording that are run on their own."""
POINTS = 4
"""Number of points at which a parser is reloaded to read the rest of a recording. All points would be quadratic in the
number of lines."""


class ContractError(AssertionError):
    """A dialect breaks a rule; the message says which, and where."""


def normalize(dialect: str, lines: Iterable[Line], context: Context | None = None) -> list[Event]:
    """Return all events of a recording, from its first line to its end."""
    normalizer = StreamNormalizer(context or Context(stream="recording"), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line.data, line.t, line.direction)]
    return _events(outputs + normalizer.close("end"))


def check_recording(
    dialect: str, lines: Sequence[Line], context: Context | None = None, *, every_point: bool = False
) -> list[Event]:
    """Run a recorded stream through every check; returns its events.

    The parser is dumped and reloaded after each line, and must read the next line as before. At a few points, which a
    hash of the lines chooses, the reloaded parser must read the whole rest; with `every_point`, at all points.
    """
    context = context or Context(stream="recording")
    steps = steps_of(lines)
    whole = run(dialect, steps, context)
    events = _events([output for outputs in whole.outputs for output in outputs])
    check_run(whole.normalizer, events, len(lines))
    check_same(whole.outputs, run(dialect, steps, context).outputs, "the same lines became other events")
    check_reloading(whole)
    check_forgetting(whole)
    check_every_point(whole, range(len(lines) + 1) if every_point else _points(lines))
    check_chunks(whole, lambda most: most)
    _check_prefixes(whole)
    _check_partials(whole, events)
    _check_interrupted(whole)
    check_reloading(run(AUTO, steps[: context.limits.held_lines + 2], context))
    return events


def check_survives(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check a stream of garbage: nothing raises, parser errors that the stream contains included; every line is
    accounted for; the parser can be reloaded after each line."""
    context = context or Context(stream="garbage")
    whole = run(dialect, steps_of(lines), context)
    events = _events([output for outputs in whole.outputs for output in outputs])
    check_events(events)
    _check_no_parser_error(events)
    _check_accounting(whole.normalizer, len(lines))
    _check_skips(whole.normalizer)
    check_reloading(whole)
    check_forgetting(whole)
    check_every_point(whole, _points(lines))


def check_dialect(dialect: str, lines: Sequence[Line], context: Context | None = None) -> list[Event]:
    """Check everything that a dialect must keep, with a recording of it; returns the recording's events. Raises
    `ContractError` for the first rule that is broken."""
    for rule in RULES.values():
        rule(dialect, lines, context)
    return normalize(dialect, lines, context)


def broken_rules(dialect: str, lines: Sequence[Line], context: Context | None = None) -> list[str]:
    """Return a sentence for each of `RULES` that a dialect breaks with a recording of it: what was read, and what is
    wrong. Whatever the dialect raises is caught."""
    broken: list[str] = []
    for name, rule in RULES.items():
        try:
            rule(dialect, lines, context)
        except ContractError as error:
            broken.append(f"{name}: {error}")
        except Exception as error:
            broken.append(f"{name}: the dialect raises {type(error).__name__}: {error}")
    return broken


def check_cut(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check the recording with each line followed by the first half of itself, and with the last line cut."""
    some = lines[:DAMAGED]
    cut = [one for line in some for one in (line, line._replace(data=_head(line)))]
    check_survives(dialect, cut, context)
    check_survives(dialect, [*some[:-1], *(line._replace(data=_head(line)) for line in some[-1:])], context)


def check_disorder(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check the recording from its last line to its first, each line twice."""
    check_survives(dialect, [one for line in lines[:DAMAGED][::-1] for one in (line, line)], context)


def check_emptied(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check the recording with each value replaced by one of another type: in turn a list, null, a number, a text."""
    damaged: list[Line] = []
    for number, line in enumerate(lines[:DAMAGED]):
        try:
            value = orjson.loads(line.data) if isinstance(line.data, bytes) else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict):
            for place, key in enumerate(list(value)[:DAMAGED_KEYS]):
                other = {**value, key: _OTHER[(number + place) % len(_OTHER)]}
                damaged.append(line._replace(data=orjson.dumps(other)))
    check_survives(dialect, damaged[:DAMAGED], context)


def check_portions(dialect: str, lines: Sequence[Line], context: Context | None = None) -> None:
    """Check that lines which come in blocks of 2, 3 and 7 become the same events."""
    whole = run(dialect, steps_of(lines), context or Context(stream="recording"))
    for size in (2, 3, 7):
        check_chunks(whole, partial(min, size))


DAMAGED = 100
"""Most lines of a recording of which damaged ones are made."""
DAMAGED_KEYS = 8
"""Most keys of a line whose values are replaced."""
_OTHER: tuple[Any, ...] = ([], None, -1, "")

RULES: dict[str, Callable[[str, Sequence[Line], Context | None], object]] = {
    "as it was recorded": check_recording,
    "with lines that are cut": check_cut,
    "in another order, each line twice": check_disorder,
    "with values of other types": check_emptied,
    "in other portions": check_portions,
}
"""How a recording is read -> what checks the rules that hold then."""


def _head(line: Line) -> bytes:
    return line.data[: len(line.data) // 2] if isinstance(line.data, bytes) else line.data.head


def check_run(normalizer: StreamNormalizer, events: list[Event], lines: int) -> None:
    """Check one run: the rules for events, no parser error, all `lines` lines accounted for, nothing open after
    close."""
    check_events(events)
    _check_no_parser_error(events)
    _check_accounting(normalizer, lines)
    _check_skips(normalizer)
    _check_closed(normalizer, events)


def check_events(events: Iterable[Event]) -> None:
    """Check the rules of the event stream itself. `events`: those of one stream, in order."""
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
            elif turn in open_turns and not event.provisional:
                open_turns.remove(turn)
    if open_calls or open_turns:
        raise ContractError(f"left open after close: calls {sorted(open_calls)}, turns {open_turns}")
    if again := normalizer.close("end"):
        raise ContractError(f"a second close gave {len(again)} more events")


def _points(lines: Sequence[Line]) -> list[int]:
    """Choose, by a hash of the lines, the numbers of lines after which a parser is reloaded to read the rest."""
    seed = crc32(b"\n".join(line.data for line in lines if isinstance(line.data, bytes)))
    return sorted(Random(seed).sample(range(len(lines) + 1), min(POINTS, len(lines) + 1)))


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
    """Check reloading in a stream with lost lines, an end after which it continues, and a line that is too long."""
    middle = len(whole.steps) // 2
    head = next((step.data for step in whole.steps if isinstance(step.data, bytes)), b"")[:HEAD_BYTES]
    happens = [Step("lost", b"spool-full", lines=3), Step("close", b"end"), Step("line", LongLine(head, 10**9))]
    steps = [*whole.steps[:middle], *happens, *whole.steps[middle:-1]]
    check_reloading(run(whole.dialect, steps, whole.context))


def _events(outputs: list[Output]) -> list[Event]:
    return [output.event for output in outputs if isinstance(output, Produced)]


# -- reloading ------------------------------------------------------------------------------------------------------
#
# The dump is everything that a parser remembers: whoever loads it continues as if nothing had happened. Two parsers are
# compared attribute by attribute, through all objects that can be reached from them. Only what a class names as the
# scope of a line (`OF_LINE`) is excepted; before each line it is replaced by something that cannot be used, so that a
# line which relies on what an earlier one left there fails.


class Step(NamedTuple):
    """An input of a stream: a line, lines that were lost, or its end, after which more may come."""

    kind: Literal["line", "lost", "close"]
    data: bytes | LongLine = b""
    """The line, or the reason of the loss or the end."""
    t: int | None = None
    direction: Direction | None = None
    lines: int = 1

    def take(self, normalizer: StreamNormalizer) -> list[Output]:
        if self.kind == "line":
            return normalizer.feed(self.data, self.t, self.direction)
        assert isinstance(self.data, bytes)
        reason = self.data.decode()
        if self.kind == "lost":
            return normalizer.lost(self.lines, 100 * self.lines, reason, self.t)
        return normalizer.close(reason, self.t)


class Run(NamedTuple):
    """A stream from its first line to its end."""

    dialect: str
    steps: Sequence[Step]
    context: Context
    outputs: list[list[Output]]
    """The outputs of each step, the end included."""
    normalizer: StreamNormalizer

    def again(self) -> StreamNormalizer:
        return StreamNormalizer(self.context, self.dialect)

    def load(self, dump: bytes) -> StreamNormalizer:
        return StreamNormalizer.load(dump, self.context)


END = Step("close", b"end")


def steps_of(lines: Iterable[Line]) -> list[Step]:
    return [Step("line", *line) for line in lines]


def run(dialect: str, steps: Sequence[Step], context: Context) -> Run:
    """Read the steps and then the end of the stream."""
    normalizer = StreamNormalizer(context, dialect)
    steps = [*steps, END]
    return Run(dialect, steps, context, [step.take(normalizer) for step in steps], normalizer)


# -- the checks -------------------------------------------------------------------------------------------------------


def check_reloading(whole: Run) -> None:
    """Check that a parser that is dumped and reloaded after every line continues unchanged, and that the loaded state
    equals the dumped one."""
    normalizer = whole.again()
    for number, (step, wanted) in enumerate(zip(whole.steps, whole.outputs, strict=True), 1):
        outputs = step.take(normalizer)
        check_same([wanted], [outputs], f"reloading before line {number} changed its events")
        dump = normalizer.dump()
        loaded = whole.load(dump)
        if loaded.dump() != dump:
            raise ContractError(f"after line {number}: the loaded state dumps differently")
        forget_line(normalizer)
        forget_line(loaded)
        if (place := difference(normalizer, loaded)) is not None:
            raise ContractError(f"after line {number}: {place} is not in the dump")
        normalizer = loaded


def check_forgetting(whole: Run) -> None:
    """Check that no line relies on what an earlier one left in attributes that belong to one line (`OF_LINE`)."""
    normalizer = whole.again()
    for number, (step, wanted) in enumerate(zip(whole.steps, whole.outputs, strict=True), 1):
        forget_line(normalizer)
        check_same([wanted], [step.take(normalizer)], f"line {number} relies on the scope of an earlier one")


def check_every_point(whole: Run, points: Iterable[int] | None = None) -> None:
    """Check that a parser that is loaded from a dump reads all further lines to the same events.

    `points`: numbers of lines after which to dump; default: all, so there are as many runs as lines.
    """
    chosen = range(len(whole.steps) + 1) if points is None else sorted(set(points))
    normalizer = whole.again()
    read = 0
    for point in chosen:
        for step in whole.steps[read:point]:
            step.take(normalizer)
        read = point
        loaded = whole.load(normalizer.dump())
        for number, step in enumerate(whole.steps[point:], point + 1):
            what = f"a parser that was loaded after line {point} reads other events in line {number}"
            check_same([whole.outputs[number - 1]], [step.take(loaded)], what)


def check_chunks(whole: Run, cut: Callable[[int], int]) -> None:
    """Check that lines fed as a block become the same events as lines fed one by one. `cut(n)`: size of the next block,
    of at most n lines."""
    normalizer = whole.again()
    wanted: list[Output] = []
    got: list[Output] = []
    at = 0
    while at < len(whole.steps):
        step = whole.steps[at]
        block = [step]
        if step.kind == "line":
            rest = groupby(whole.steps[at:], lambda one: (one.kind, one.t, one.direction))
            block = list(next(rest)[1])
            block = block[: cut(len(block))]
            got += normalizer.feed_block([one.data for one in block], step.t, step.direction)
        else:
            got += step.take(normalizer)
        at += len(block)
    for outputs in whole.outputs:
        wanted += outputs
    check_same([wanted], [got], "a block of lines became other events")


def check_framing(lines: Sequence[bytes], cuts: Iterable[int], limit: int) -> None:
    """Check that bytes become the same lines wherever they are split into chunks."""
    data = b"".join(line + b"\n" for line in lines)
    splitter = Splitter(limit)
    got: list[bytes | LongLine] = []
    start = 0
    for end in [*sorted(cuts), len(data)]:
        got += splitter.feed(data[start:end])
        start = end
    if splitter.finish() is not None or got != list(lines):
        raise ContractError("bytes that were split elsewhere became other lines")


def check_same(wanted: list[list[Output]], got: list[list[Output]], what: str) -> None:
    for one, other in zip(wanted, got, strict=True):
        if len(one) != len(other) or any(map(_differ, one, other)):
            raise ContractError(f"{what}: {_show(one)} became {_show(other)}")


def _differ(one: Output, other: Output) -> bool:
    if isinstance(one, OutputChunk) or isinstance(other, OutputChunk):
        return one != other
    return one.body != other.body


def _show(outputs: list[Output]) -> str:
    bodies = [one if isinstance(one, OutputChunk) else one.body for one in outputs]
    return orjson.dumps([str(body)[:300] for body in bodies]).decode()


# -- what is remembered -----------------------------------------------------------------------------------------------


class _Unusable:
    """Placeholder for what a line left in its scope; any use of it raises `ContractError`."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise ContractError("the scope of an earlier line was used")

    __getattr__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __call__ = _refuse
    __str__ = __repr__ = __lt__ = __gt__ = __add__ = __or__ = _refuse
    __eq__ = __hash__ = _refuse


UNUSABLE = _Unusable()
_GIVEN = frozenset({"partials", "_partials", "on_line", "watch"})
"""Attributes that are not part of the state: whoever feeds the lines sets them, again after each reload."""
_NO_LINE = -1
_ATOMS = (type(None), bool, int, float, str, bytes, Enum)


def forget_line(normalizer: StreamNormalizer) -> None:
    """Replace what the last line left in its scope by `UNUSABLE`, in every reachable object."""
    for one in _reachable(normalizer):
        names = _of_line(one.__class__)
        if isinstance(one, Writer):
            if one.is_inner:
                names |= one.OF_INNER
            else:
                one._numbers.begin(_NO_LINE)
        for name in names:
            setattr(one, name, UNUSABLE)


def difference(one: Any, other: Any) -> str | None:
    """Return the path of the first difference between two objects, attribute by attribute, through all reachable
    objects; None if they are equal."""
    seen: set[tuple[int, int]] = set()
    waiting = [(one, other, type(one).__name__)]
    while waiting:
        left, right, place = waiting.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        if type(left) is not type(right):
            return place
        if isinstance(left, _ATOMS):
            if left != right:
                return place
            continue
        seen.add((id(left), id(right)))
        parts, others = list(_parts(left)), list(_parts(right))
        if [name for name, _ in parts] != [name for name, _ in others]:
            return place
        for (name, value), (_, counterpart) in zip(parts, others, strict=True):
            waiting.append((value, counterpart, f"{place}{name}"))
    return None


def _reachable(root: Any) -> Iterator[Any]:
    """Yield the reachable objects that may have attributes of a line (`OF_LINE`). Structs are skipped: they only hold
    data."""
    seen: dict[int, Any] = {}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (*_ATOMS, msgspec.Struct)) or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        waiting += [value for _, value in _parts(one)]


def _parts(one: Any) -> list[tuple[str, Any]]:
    """Return the parts of an object with their paths. Dicts keep the order of their keys, which is compared, too: the
    oldest entry is evicted first."""
    if isinstance(one, Index):
        return [(f"[{key!r}]", one[key]) for key in sorted(one, key=repr)]
    if isinstance(one, dict):
        return [(f"[{key!r}]", value) for key, value in one.items()]
    if isinstance(one, list | tuple):
        return [(f"[{index}]", value) for index, value in enumerate(one)]
    if isinstance(one, set | frozenset):
        return [(f"[{value!r}]", None) for value in sorted(one, key=repr)]
    if isinstance(one, types.MethodType):
        return [(".__self__", one.__self__)]
    if isinstance(one, types.FunctionType):
        return [("()", cell.cell_contents) for cell in one.__closure__ or ()]
    if isinstance(one, partial):
        return [(".func", one.func), (".args", one.args), (".keywords", one.keywords)]
    if isinstance(one, type | types.ModuleType | types.BuiltinFunctionType):
        return []
    if isinstance(one, msgspec.Struct):
        return [(f".{name}", getattr(one, name)) for name in one.__struct_fields__]
    left_out = _GIVEN | _of_line(one.__class__)
    if isinstance(one, Writer):
        left_out |= {"_envelopes", *one.OF_INNER}  # a cache: the bytes of a scope are the same wherever they are made
    names = [*_slots(one.__class__), *sorted(getattr(one, "__dict__", ()))]
    return [(f".{name}", getattr(one, name)) for name in names if name not in left_out and hasattr(one, name)]


@cache
def _of_line(kind: type) -> frozenset[str]:
    """Return the attributes that belong to the line being read (`OF_LINE`), of a class and its bases."""
    return frozenset().union(*(vars(base).get("OF_LINE", ()) for base in kind.__mro__))


@cache
def _slots(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(names)
