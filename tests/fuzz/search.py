"""Reads case after case, and shrinks those that break a rule."""

from __future__ import annotations

import copy
import re
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import msgspec
import orjson

from tests.fuzz.checks import check, digest_of
from tests.fuzz.corpus import Corpus
from tests.fuzz.damage import SMALL, Case, make
from tooltap.normalizers.core.items import Context, Limits
from tooltap.testing import Line, Step, steps_of

__all__ = ["Break", "Found", "decode", "digests", "encode", "many", "merged", "one", "share"]

EVERY = 50
"""One in this many streams is also read under another PYTHONHASHSEED."""
TRIES = 1_500
"""Maximum number of shorter forms that are tried to shrink a case."""
MANY_BREAKS = 60
BETWEEN_REPORTS = 60
"""Seconds between two reports of progress."""
LONG = 1_000_000
"""Number of lines from which a search also reads every whole recording, reloaded after every line."""


class Break(msgspec.Struct):
    """A rule that a case breaks."""

    dialect: str
    read_as: str
    message: str
    seed: int
    case: int
    signature: str
    lines: list[bytes]
    shown: list[str]
    times: int = 1


class Found(msgspec.Struct):
    lines: int = 0
    cases: int = 0
    broken: int = 0
    breaks: list[Break] = []
    digests: dict[str, str] = {}


def encode(found: Found) -> bytes:
    return msgspec.msgpack.encode(found)


def decode(data: bytes) -> Found:
    return msgspec.msgpack.decode(data, type=Found)


def merged(parts: Sequence[Found]) -> Found:
    whole = Found()
    breaks: dict[str, Break] = {}
    for part in parts:
        whole.lines += part.lines
        whole.cases += part.cases
        whole.broken += part.broken
        whole.digests.update(part.digests)
        for one in part.breaks:
            if one.signature in breaks:
                breaks[one.signature].times += one.times
            else:
                breaks[one.signature] = one
    whole.breaks = list(breaks.values())
    return whole


def _case(seed: int, number: int, corpus: Corpus, dialects: Sequence[str] | None) -> tuple[Case, Random]:
    """Return a case, and its random generator. Negative numbers are those of whole recordings."""
    random = Random(f"{seed}/{number}")
    names = list(dialects or corpus)
    if number < 0:
        dialect, stream = _recordings(corpus, names)[-number - 1]
        return Case(dialect, dialect, Context(stream="s"), steps_of(stream), at_every_point=True), random
    return make(random, names[number % len(names)], corpus), random


def _recordings(corpus: Corpus, names: Sequence[str]) -> list[tuple[str, list[Line]]]:
    return [(name, stream) for name in names for stream in corpus[name].streams]


def share(worker: int, jobs: int, lines: int, corpus: Corpus, dialects: Sequence[str] | None) -> Iterator[int]:
    """Yield the numbers of the cases that one of several processes reads. A long search begins with whole
    recordings."""
    if lines >= LONG:
        recordings = _recordings(corpus, list(dialects or corpus))
        yield from range(-1 - worker, -1 - len(recordings), -jobs)
    yield from count(worker, jobs)


def many(seed: int, numbers: Iterable[int], lines: int, corpus: Corpus, dialects: Sequence[str] | None) -> Found:
    """Read the cases of these numbers until they had `lines` lines, or the user interrupts."""
    found = Found()
    try:
        _search(found, seed, numbers, lines, corpus, dialects)
    except KeyboardInterrupt:
        pass
    return found


def _search(
    found: Found, seed: int, numbers: Iterable[int], lines: int, corpus: Corpus, dialects: Sequence[str] | None
) -> None:
    breaks: dict[str, Break] = {}
    shown = time.monotonic()
    for number in numbers:
        if found.lines >= lines:
            return
        if time.monotonic() - shown > BETWEEN_REPORTS:
            shown = time.monotonic()
            print(f"{found.lines:,} lines, {found.broken:,} streams broken", file=sys.stderr, flush=True)
        case, random = _case(seed, number, corpus, dialects)
        found.lines += len(case.steps)
        found.cases += 1
        checks = random.getstate()
        try:
            check(case, random)
        except Exception as error:
            found.broken += 1
            signature = _signature(case, error)
            if signature in breaks:
                breaks[signature].times += 1
            elif len(breaks) < MANY_BREAKS:
                print(f"case {number}: {case.dialect}: {str(error)[:300]}", file=sys.stderr, flush=True)
                breaks[signature] = _shown(seed, number, _shrunk(case, checks, signature), checks)
                breaks[signature].signature = signature
                found.breaks.append(breaks[signature])
        if number % EVERY == 0:
            found.digests[str(number)] = digest_of(case)


def one(seed: int, number: int, corpus: Corpus, dialects: Sequence[str] | None) -> Break | None:
    case, random = _case(seed, number, corpus, dialects)
    checks = random.getstate()
    try:
        check(case, random)
    except Exception as error:
        traceback.print_exception(error)
        return _shown(seed, number, _shrunk(case, checks, _signature(case, error)), checks)
    return None


def digests(seed: int, numbers: Iterable[int], corpus: Corpus, dialects: Sequence[str] | None) -> dict[str, str]:
    return {str(number): digest_of(_case(seed, number, corpus, dialects)[0]) for number in numbers}


def _signature(case: Case, error: Exception) -> str:
    """Return what all breaks of one rule have in common: the error without digits, ids and texts."""
    message = re.sub(r"'[^']*'|\"[^\"]*\"|\[.*|\d+|at \{.*", "…", str(error).split("became")[0])
    return f"{case.read_as}: {type(error).__name__}: {message[:120]}"


# -- shorter forms ----------------------------------------------------------------------------------------------------


def _breaks(case: Case, checks: Any, signature: str) -> bool:
    for state in (checks, Random(1).getstate(), Random(2).getstate()):
        random = Random()
        random.setstate(state)
        try:
            check(case, random)
        except Exception as error:
            if _signature(case, error) == signature:
                return True
    return False


def _shrunk(case: Case, checks: Any, signature: str) -> Case:
    """Remove lines, and values in them, that the case does not need to break the rule."""
    tries = 0
    shorter = True
    while shorter:
        shorter = False
        for candidate in _shorter(case):
            tries += 1
            if tries > TRIES:
                return case
            if _breaks(candidate, checks, signature):
                case, shorter = candidate, True
                break
    return case


def _shorter(case: Case) -> Iterator[Case]:
    steps = case.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield case._replace(steps=steps[:start] + steps[start + size :])
        size //= 2
    for at, step in enumerate(steps):
        for smaller in _smaller(step):
            yield case._replace(steps=[*steps[:at], smaller, *steps[at + 1 :]])


def _smaller(step: Step) -> Iterator[Step]:
    if not isinstance(step.data, bytes) or step.kind != "line":
        return
    try:
        value = orjson.loads(step.data)
    except orjson.JSONDecodeError:
        return
    for path in list(_paths(value)):
        replacements: tuple[Any, ...] = (None, "", [])
        for replacement in replacements:
            changed = holder = copy.deepcopy(value)
            for key in path[:-1]:
                holder = holder[key]
            if replacement is None:
                del holder[path[-1]]
            elif isinstance(holder[path[-1]], type(replacement)) and len(holder[path[-1]]) > 12:
                holder[path[-1]] = replacement
            else:
                continue
            yield step._replace(data=orjson.dumps(changed))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values, outer ones first."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, _ in pairs:
        yield (*path, key)
    for key, item in pairs:
        yield from _paths(item, (*path, key))


def _shown(seed: int, number: int, case: Case, checks: Any) -> Break:
    random = Random()
    random.setstate(checks)
    message = "it breaks the rule under other checks only"
    try:
        check(case, random)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    lines = [step.data if isinstance(step.data, bytes) else step.data.head for step in case.steps]
    shown = ["with small limits"] if case.context.limits == SMALL else []
    if (known := msgspec.structs.replace(case.context, limits=Limits())) != Context(stream="s"):
        shown.append(f"with {known}")
    for step in case.steps:
        notes = [
            note for note in (step.direction, step.t and "timed", step.kind if step.kind != "line" else None) if note
        ]
        text = step.data.decode("utf-8", "replace") if isinstance(step.data, bytes) else repr(step.data)
        shown.append(" ".join([*map(str, notes), text]))
    return Break(case.dialect, case.read_as, message, seed, number, "", lines, shown)
