"""Make every I/O call fail once: `python -m tests.faults`, or `make lab-faults`.

Each scenario is run once with its calls counted. Then, for each call, it is run again with that call failing, or the
process killed there. `--sample` tries so many, chosen by `--seed`; without it, every call is tried in every way, and
of classes with very many calls each in one way.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.faults.running import Outcome, count_calls, run_faults
from tests.faults.scenarios import SCENARIOS
from tests.faults.shim import ALWAYS, EFFECTS, LASTING, Fault

MANY = 60
"""Number of calls of a class above which each is tried with one effect only."""
BATCH = 25
SHOWN = 3
"""Number of faults listed for each way in which a promise is broken."""


def every(name: str, counts: Counter[str], chance: random.Random) -> Iterator[Fault]:
    for klass, number in sorted(counts.items()):
        for nth in range(1, number + 1):
            effects: Sequence[str] = EFFECTS[klass]
            for effect in effects if number <= MANY else [chance.choice(effects)]:
                yield Fault(name, klass, nth, effect)
        if klass in LASTING:
            lasting = [one for one in EFFECTS[klass] if one.startswith("E") and one != "EINTR"]
            for nth in sorted({1, number // 2 + 1}):
                yield from (Fault(name, klass, nth, effect, ALWAYS) for effect in lasting)


def choose(faults: list[Fault], number: int, chance: random.Random) -> list[Fault]:
    """Choose a sample in which scenarios, and the classes of each, have equal shares, since rare calls are as
    dangerous."""
    kinds: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for fault in faults:
        kinds[fault.scenario, fault.klass].append(fault)
    for kind in kinds.values():
        chance.shuffle(kind)
    by_scenario: dict[str, list[Fault]] = defaultdict(list)
    while any(kinds.values()):
        for (scenario, _), kind in kinds.items():
            if kind:
                by_scenario[scenario].append(kind.pop())
    chosen: list[Fault] = []
    while len(chosen) < number and any(by_scenario.values()):
        chosen += [left.pop(0) for left in by_scenario.values() if left]
    return sorted(chosen[:number])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--sample", type=int, help="try so many faults")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--scenarios", nargs="*", default=[], choices=[[], *SCENARIOS], metavar="NAME")
    parser.add_argument("--only", nargs="*", type=Fault.parse, default=[], metavar="SCENARIO/CLASS/N/EFFECT")
    parser.add_argument("--classes", nargs="*", default=[])
    parser.add_argument("--lasting", action="store_true", help="only those that last")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    chance = random.Random(seed)
    started = time.monotonic()
    context = get_context("spawn")
    outcomes: list[Outcome] = []
    calls: dict[str, Counter[str]] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        faults: list[Fault] = options.only
        if not faults:
            names = options.scenarios or list(SCENARIOS)
            calls = dict(pool.map(count_calls, names))
            faults = [fault for name in names for fault in every(name, calls[name], chance)]
            if options.classes:
                faults = [one for one in faults if one.klass in options.classes]
            if options.lasting:
                faults = [one for one in faults if one.times > 1]
            print(f"seed {seed}: {sum(map(Counter.total, calls.values()))} calls, {len(faults)} faults", flush=True)
            if options.sample is not None:
                faults = choose(faults, options.sample, chance)
        batches = [faults[start : start + BATCH] for start in range(0, len(faults), BATCH)]
        chance.shuffle(batches)
        try:
            _collect([pool.submit(run_faults, batch) for batch in batches], outcomes)
        except KeyboardInterrupt:  # what has been found so far is reported
            pool.shutdown(cancel_futures=True)
    _report(outcomes, calls)
    broken = [one for one in outcomes if one.broken]
    print(f"{time.monotonic() - started:.0f} s; seed {seed}; {len(broken)} broken promises")
    return 1 if broken else 0


def _collect(running: list[Future[list[Outcome]]], outcomes: list[Outcome]) -> None:
    for done in as_completed(running):
        outcomes += done.result()
        for one in done.result():
            if one.broken:
                print(f"broken: make lab-faults ONLY={one.fault}: {one.broken.why[-200:]}", flush=True)


def _report(outcomes: list[Outcome], calls: dict[str, Counter[str]]) -> None:
    heads = ("scenario", "calls", "tried", "failed", "killed", "survived", "broken")
    rows: list[tuple[str, int, int, int, int, int, int]] = []
    for name in SCENARIOS:
        tried = [one for one in outcomes if one.fault.scenario == name]
        if tried:
            fired = [one for one in tried if one.fired]
            killed = sum(one.fault.kills for one in fired)
            survived = sum(one.survived for one in fired)
            broken = sum(one.broken is not None for one in tried)
            number = calls[name].total() if name in calls else 0
            rows.append((name, number, len(tried), len(fired) - killed, killed, survived, broken))
    print(f"{heads[0]:12}" + "".join(f"{head:>10}" for head in heads[1:]))
    total = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    for name, numbers in [*((row[0], list(row[1:])) for row in rows), ("all", total)]:
        print(f"{name:12}" + "".join(f"{number:>10}" for number in numbers))
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.broken:
            groups[_alike(one.broken.why)].append(one)
    for alike in sorted(groups.values(), key=len, reverse=True):
        first = alike[0].broken
        assert first is not None
        print(f"\n{len(alike)} x {first.why}")
        for one in alike[:SHOWN]:
            print(f"   {one.place}\n   make lab-faults ONLY={one.fault}")


def _alike(why: str) -> str:
    """Normalize a message to group breaks: digits vary from run to run."""
    return "".join("0" if char.isdigit() else char for char in why)[:160]


if __name__ == "__main__":
    sys.exit(main())
