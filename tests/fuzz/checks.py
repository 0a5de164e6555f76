"""Checks of each case: always the rules of events, and one or two ways of reading the same stream again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random

import msgspec

from tests.fuzz.damage import SMALL, Case
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.inputs import Line, read_tapped, write_tapped
from tooltap.testing import (
    ContractError,
    Run,
    check_chunks,
    check_every_point,
    check_forgetting,
    check_framing,
    check_reloading,
    check_run,
    run,
)

__all__ = ["check", "digest_of"]

FEW = 10
"""Maximum number of steps of a stream that is checked in two ways, and reloaded at every point."""


def read(case: Case, *, partials: bool = False) -> Run:
    return run(case.read_as, case.steps, msgspec.structs.replace(case.context, partials=partials))


def check(case: Case, random: Random) -> None:
    """Check how a case is read. Raises whatever is wrong."""
    whole = read(case)
    lines = sum(step.lines for step in case.steps if step.kind != "close")
    events = [output.event for outputs in whole.outputs for output in outputs if isinstance(output, Produced)]
    if case.context.limits == SMALL:  # what was evicted may come again
        _check_ids(whole)
    else:
        check_run(whole.normalizer, events, lines)
    if case.at_every_point:
        check_reloading(whole)
        check_every_point(whole)
    for again in random.sample(_AGAIN, 1 if len(case.steps) > FEW else 2):
        again(case, whole, random)


def digest_of(case: Case) -> str:
    """Return a hash of everything that the case becomes."""
    digest = hashlib.sha256()
    for outputs in read(case).outputs:
        for one in outputs:
            digest.update(repr(one).encode() if isinstance(one, OutputChunk) else one.body)
    return digest.hexdigest()


def _check_ids(whole: Run) -> None:
    ids = [one.id for outputs in whole.outputs for one in outputs if isinstance(one, Produced)]
    if len(ids) != len(set(ids)):
        raise ContractError("an id was used twice")


def _reload(case: Case, whole: Run, random: Random) -> None:
    check_reloading(whole)


def _forget(case: Case, whole: Run, random: Random) -> None:
    check_forgetting(whole)


def _points(case: Case, whole: Run, random: Random) -> None:
    if len(case.steps) <= FEW:
        check_every_point(whole)
    else:
        check_every_point(whole, [random.randint(0, len(whole.steps))])


def _blocks(case: Case, whole: Run, random: Random) -> None:
    check_chunks(whole, lambda most: random.randint(1, most))


def _frames(case: Case, whole: Run, random: Random) -> None:
    lines = [step.data for step in case.steps if isinstance(step.data, bytes) and step.kind == "line"]
    size = sum(map(len, lines)) + len(lines)
    check_framing(
        lines, [random.randint(0, size) for _ in range(random.randint(0, 30))], case.context.limits.line_bytes
    )
    for step in case.steps:
        if step.kind == "line" and isinstance(step.data, bytes):
            tapped = read_tapped(write_tapped(step.data, step.t, step.direction))
            if not isinstance(tapped, Line) or (tapped.line, tapped.direction) != (step.data, step.direction):
                raise ContractError("a tapped line became another")


def _partials(case: Case, whole: Run, random: Random) -> None:
    with_partials = read(case, partials=True)
    events = [one.body for outputs in whole.outputs for one in outputs if isinstance(one, Produced)]
    outputs = [one for outputs in with_partials.outputs for one in outputs if isinstance(one, Produced)]
    if [one.body for one in outputs if not one.partial] != events:
        raise ContractError("asking for partials changed other events")
    ids = [one.id for one in outputs]
    if len(ids) != len(set(ids)):
        raise ContractError("a partial has the id of another event")
    check_every_point(with_partials, [random.randint(0, len(whole.steps))])


_AGAIN: tuple[Callable[[Case, Run, Random], None], ...] = (
    _reload,
    _forget,
    _points,
    _points,
    _blocks,
    _frames,
    _partials,
)
