"""What holds the event loop is measured and named, also while it does not end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import anyio
import pytest
from structlog.testing import capture_logs

from tests.daemon.running import TIMEOUT
from tooltap.daemon.system import loop
from tooltap.daemon.system.loop import Watchdog, Work, name_task
from tooltap.protocol.stats import LoopStatistics, Stall

pytestmark = pytest.mark.timing

LIMIT = 0.02


def watched(
    work: Callable[[Watchdog], Awaitable[None]], limit: float = LIMIT, clock: Callable[[], float] = time.perf_counter
) -> LoopStatistics:
    """`clock`: `time.process_time` where a pause of this process would make something seem longer than the rest."""
    watchdog = Watchdog(limit)

    async def run() -> None:
        with watchdog:
            await anyio.lowlevel.checkpoint()  # the turn in which the loop began is not watched
            await work(watchdog)
            await anyio.sleep(0)

    clocks = SimpleNamespace(perf_counter=clock, thread_time=time.thread_time)
    with mock.patch.object(loop, "time", clocks):
        anyio.run(run, backend="asyncio", backend_options={"loop_factory": watchdog.new_loop})
    return watchdog.statistics()


def held(found: LoopStatistics) -> list[Stall]:
    """Those in which the loop worked; with so short a limit, a busy machine has others."""
    return [one for one in found.recent if one.cpu_ms >= LIMIT * 1000]


def hold(seconds: float) -> None:
    """For so many seconds of processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def until_seen(watchdog: Watchdog) -> None:
    """Hold the loop until the watchdog's thread has looked what does so."""
    while watchdog._seen is None or watchdog._seen[0] != watchdog._began:
        hold(LIMIT)


@contextmanager
def crowded() -> Iterator[None]:
    """This thread has to share one processor with others."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    script = "print(flush=True)\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(8)]
    try:
        for one in others:
            assert one.stdout is not None
            assert one.stdout.readline()
        yield
    finally:
        os.sched_setaffinity(0, before)
        for one in others:
            one.kill()
            one.communicate()


def test_work_is_named_with_how_far_it_is() -> None:
    lines = [0]

    async def work(watchdog: Watchdog) -> None:
        with Work("stream", "s\x1b1", lambda: f"line {lines[0]}"):
            for lines[0] in range(1, 8):
                hold(LIMIT)
            until_seen(watchdog)

    [stall] = held(watched(work))

    assert re.fullmatch("stream s\N{REPLACEMENT CHARACTER}1 line [1-7]", stall.what)
    assert stall.ms >= 7 * LIMIT * 1000
    place = r"test_watchdog.py:\d+ hold < (test_watchdog.py:\d+ until_seen < )?test_watchdog.py:\d+ work < "
    assert re.search(place, stall.place)


def test_task_is_named_where_no_work_is() -> None:
    async def work(watchdog: Watchdog) -> None:
        name_task("request sessions")
        hold(10 * LIMIT)
        until_seen(watchdog)

    assert [one.what for one in held(watched(work))] == ["request sessions"]


def test_longest_work_of_a_turn_is_named() -> None:
    async def work(_: Watchdog) -> None:
        for name, times in (("a", 1), ("b", 20), ("c", 1)):
            with Work("commit of stream", name):
                hold(times * LIMIT)

    assert [one.what for one in held(watched(work, clock=time.process_time))] == ["commit of stream b"]


def test_many_short_turns_are_no_stall() -> None:
    async def work(_: Watchdog) -> None:
        for _number in range(20):
            hold(LIMIT / 20)
            await anyio.sleep(0)

    assert watched(work, limit=5.0).stalls == 0


def test_machine_that_is_busy_is_no_stall() -> None:
    async def work(_: Watchdog) -> None:
        for _number in range(5):
            await anyio.sleep(0)
            began = time.perf_counter()
            while time.perf_counter() < began + 0.4:
                pass

    async def block(_: Watchdog) -> None:
        time.sleep(3.0)  # much longer than this thread has had to wait for the processor until then

    with crowded():
        assert watched(work, limit=0.3).stalls == 0
        assert watched(block, limit=0.3).stalls == 1


def test_waiting_is_no_stall() -> None:
    async def work(_: Watchdog) -> None:
        await anyio.sleep(5 * LIMIT)

    assert held(watched(work)) == []


def test_stalls_are_counted_and_the_longest_is_kept() -> None:
    async def work(watchdog: Watchdog) -> None:
        for times in (2, 50, *[2] * 30):
            name_task(f"{times} times")
            hold(times * LIMIT)
            if times == 50:
                until_seen(watchdog)
            await anyio.sleep(0)

    found = watched(work, clock=time.process_time)

    assert found.stalls >= 32
    assert len(found.recent) == 20
    assert found.longest is not None
    assert found.longest.what == "50 times"
    assert found.longest.cpu_ms <= found.longest.ms + 1


def test_what_does_not_end_is_reported_while_it_holds_the_loop() -> None:
    """The work ends only when it was reported."""
    with capture_logs() as logs:

        def reported() -> list[Any]:
            return [one for one in logs if one["event"] == "the event loop is still held"]

        async def work(_: Watchdog) -> None:
            until = time.monotonic() + TIMEOUT
            with Work("stream", "endless"):
                while not reported() and time.monotonic() < until:
                    hold(LIMIT)

        watched(work)

    [*_, log] = reported()
    assert log["what"] == "stream endless"
    assert log["ms"] >= 2_000
    assert "hold" in log["place"]


def test_stacks_are_written_when_not_even_the_thread_can_run() -> None:
    """Again and again, because the thread must have run shortly before."""
    script = (
        "import anyio, sys, re\n"
        "from tooltap.daemon.system import loop as module\n"
        "module.LAST_RESORT = 0.3\n"
        "async def run():\n"
        "    with watchdog:\n"
        "        while True: await anyio.sleep(0.2); re.match('(a|a)*$', 'a' * 25 + 'b')\n"
        "watchdog = module.Watchdog(0.05)\n"
        "anyio.run(run, backend_options={'loop_factory': watchdog.new_loop})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(3 * TIMEOUT, process.kill)
    killer.start()
    try:
        assert process.stderr is not None
        assert any("re/__init__.py" in line for line in process.stderr)
    finally:
        killer.cancel()
        process.kill()
        process.communicate()
