"""Runs scenarios with faults. A daemon that survives is used for several; a broken promise is reported as a `Break`."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.faults.place import FAILED, MISTAKEN, STOPPED, Broken, Place, eventually
from tests.faults.scenario import Scenario
from tests.faults.scenarios import SCENARIOS
from tests.faults.shim import Control, Fault, build
from tests.faults.zygote import Zygote

__all__ = ["Bench", "Break", "Outcome", "count_calls", "run_faults"]

USES = 200
"""Runs of a scenario in one place. The journal keeps a row of every stream, and must remain small."""


class Break(NamedTuple):
    fault: Fault
    place: str
    """The call that failed."""
    why: str


class Outcome(NamedTuple):
    fault: Fault
    fired: bool
    place: str
    survived: bool
    """Whether the same daemon is still running."""
    broken: Break | None


class Bench:
    """Runs faults with one zygote, in one place at a time."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self._control = Control(self._folder / "control")
        self._zygote = Zygote(self._folder, build(self._folder), self._control)
        self._scenario: Scenario | None = None
        self._name = ""
        self._places = 0
        self._uses = 0

    def count(self, name: str) -> list[tuple[str, str]]:
        """Return the calls of a scenario without a fault: (class, call with its file)."""
        scenario = self._at(name)
        scenario.before()  # once for what is done only the first time
        scenario.act()
        self._settle(scenario)
        scenario.before()
        calls = self.watch(scenario.act)
        self._settle(scenario)
        return calls

    def arm(self, fault: Fault) -> Scenario:
        """Prepare a scenario, and arm the fault."""
        scenario = self._at(fault.scenario)
        scenario.before()
        self._control.arm(fault)
        return scenario

    def watch(self, work: Callable[[], object]) -> list[tuple[str, str]]:
        """Return the calls while `work` runs without a fault."""
        self._control.count()
        work()
        self._control.disarm()
        return self._control.calls()

    def run(self, fault: Fault) -> Outcome:
        control = self._control
        survived = False
        broken = None
        try:
            scenario = self._at(fault.scenario)
            scenario.before()
            scenario.place.news()
            daemon = scenario.place.daemon
            damages = scenario.place.damages() if daemon is not None and not daemon.ended else 0
            control.arm(fault)
            try:
                failed = scenario.act()
            finally:
                control.disarm()
            scenario.told = self._judge(scenario, fault, failed)
            survived = daemon is not None and not daemon.ended
            self._settle(scenario)
            if fault.times == 1 and scenario.place.damages() > (damages if survived else 0):
                raise Broken("the journal is called damaged because a call has failed once")
        except (Broken, OSError, AssertionError, ValueError, KeyError) as error:
            control.disarm()
            why = str(error) if isinstance(error, Broken) else traceback.format_exc()
            broken = Break(fault, control.place, why)
            self._leave()
        return Outcome(fault, control.fired > 0, control.place, survived, broken)

    def close(self) -> None:
        self._leave()
        self._zygote.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inner workings -----------------------------------------------------------------------------------------

    def _at(self, name: str) -> Scenario:
        """Return a scenario in a place where it has run once without a fault."""
        self._uses += 1
        if self._scenario is None or self._name != name or self._uses > USES:
            self._leave()
            kind = SCENARIOS[name]
            self._places += 1
            self._uses = 0
            place = Place(
                self._folder / f"p{self._places}",
                self._zygote,
                self._control,
                kind.settings,
                kind.arguments,
                **kind.environment,
            )
            self._scenario, self._name = kind(place), name
            self._scenario.before()
            if failed := self._scenario.act():
                raise Broken(f"without a fault: {failed}")
            self._settle(self._scenario)
        return self._scenario

    def _leave(self) -> None:
        if self._scenario is not None:
            self._scenario.place.close()
            self._scenario = None

    def _judge(self, scenario: Scenario, fault: Fault, failed: list[str]) -> list[str]:
        """Check what happened when the call failed. Returns what the daemon reported about it."""
        place = scenario.place
        fired = self._control.fired > 0
        ended = place.daemon is not None and place.daemon.wait(0.2 if fault.kills and fired else 0.0001)
        told = place.news()
        for sentence in failed:
            if "\n" in sentence.strip() or "Traceback" in sentence:
                raise Broken(f"more than a sentence: {sentence}")
        if failed and not fired:
            raise Broken(f"it failed without a fault: {failed}")
        if fault.kills or not failed or not fired:
            if ended not in (False, None, 0) and not fault.kills:
                raise Broken(f"the daemon has ended with {ended}, and nobody noticed")
            return told
        if all(one.startswith(("cut off", "exit code")) for one in failed) and fault.klass not in scenario.silent:
            # A thread writes the log: the client may learn of it first.
            told = told or eventually(f"somebody says what failed: {failed}", place.news)
        if ended not in (False, None, STOPPED, FAILED, MISTAKEN):
            raise Broken(f"the daemon has ended with {ended}")
        return told

    def _settle(self, scenario: Scenario) -> None:
        scenario.place.ensure()
        scenario.after()
        scenario.place.news()
        if scenario.place.ask("ping").get("ok") is not True:
            raise Broken("the daemon does not answer")


@cache
def _bench() -> Bench:
    """Return the bench of this worker process; making one takes as long as five faults."""
    bench = Bench()
    Finalize(None, bench.close, exitpriority=1)
    return bench


def count_calls(name: str) -> tuple[str, Counter[str]]:
    """Return the name of a scenario, and how many calls of each class it makes."""
    return name, Counter(klass for klass, _ in _bench().count(name))


def run_faults(faults: list[Fault]) -> list[Outcome]:
    return [_bench().run(fault) for fault in faults]
