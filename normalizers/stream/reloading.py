"""Checks that the dump is everything a parser remembers: whoever loads it continues as if nothing had happened.

Two parsers are compared attribute by attribute, through all objects that can be reached from them. Left out is only
what a class names as the scope of a line (`OF_LINE`); before each line it is replaced by something that cannot be used,
so that a line which relies on what an earlier one left there fails.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, partial
from itertools import groupby
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec
import orjson

from tooltap.normalizers.core.calls import Index
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.normalizers.wire.recording import Line
from tooltap.protocol.inputs import Direction

__all__ = [
    "ContractError",
    "Run",
    "Step",
    "check_chunks",
    "check_every_point",
    "check_forgetting",
    "check_framing",
    "check_reloading",
    "check_same",
    "run",
    "steps_of",
]


class ContractError(AssertionError):
    """A dialect breaks a rule; the message says which, and where."""


class Step(NamedTuple):
    """What happens to a stream: a line, lines that were lost, or its end, after which more may come."""

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
    """Of each step, the end included."""
    normalizer: StreamNormalizer

    def again(self) -> StreamNormalizer:
        return StreamNormalizer(self.context, self.dialect)

    def load(self, dump: bytes) -> StreamNormalizer:
        return StreamNormalizer.load(dump, self.context)


END = Step("close", b"end")


def steps_of(lines: Iterable[Line]) -> list[Step]:
    return [Step("line", *line) for line in lines]


def run(dialect: str, steps: Sequence[Step], context: Context) -> Run:
    """Read the steps, and the end after them."""
    normalizer = StreamNormalizer(context, dialect)
    steps = [*steps, END]
    return Run(dialect, steps, context, [step.take(normalizer) for step in steps], normalizer)


# -- the checks -------------------------------------------------------------------------------------------------------


def check_reloading(whole: Run) -> None:
    """A parser that is dumped and loaded after every line continues as if nothing had happened, and what was loaded is
    the same as what was dumped."""
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
    """No line relies on what an earlier one left in the scope of a line."""
    normalizer = whole.again()
    for number, (step, wanted) in enumerate(zip(whole.steps, whole.outputs, strict=True), 1):
        forget_line(normalizer)
        check_same([wanted], [step.take(normalizer)], f"line {number} relies on the scope of an earlier one")


def check_every_point(whole: Run, points: Iterable[int] | None = None) -> None:
    """A parser that is loaded from a dump, made after any of the lines, reads all that follow to the same events.

    `points`: after which lines; all, if they are not given: as many runs as there are lines."""
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
    """Lines that are fed together become what they do one by one. `cut(n)`: how many of the next n come together."""
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
    """Bytes become the same lines wherever they are split."""
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
    """In place of what a line left in its scope."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise ContractError("the scope of an earlier line was used")

    __getattr__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __call__ = _refuse
    __str__ = __repr__ = __lt__ = __gt__ = __add__ = __or__ = _refuse
    __eq__ = __hash__ = _refuse


UNUSABLE = _Unusable()
_GIVEN = frozenset({"partials", "_partials", "on_line", "watch"})
"""What whoever feeds the lines sets, and sets again after a reload."""
_NO_LINE = -1
_ATOMS = (type(None), bool, int, float, str, bytes, Enum)


def forget_line(normalizer: StreamNormalizer) -> None:
    """Make what the last line left in its scope unusable, in every object that can be reached."""
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
    """The first attribute or element that differs between two objects and all that can be reached from them."""
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
    """The objects that may have a scope of a line: structs hold data."""
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
    """What an object holds, by name or place. Tables by the order of their keys, too: the oldest is evicted first."""
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
    """The attributes of a class, and of those it derives from, that belong to the line being read."""
    return frozenset().union(*(vars(base).get("OF_LINE", ()) for base in kind.__mro__))


@cache
def _slots(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(names)
