"""Whoever has much to do lets everybody else have a turn."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import anyio
import pytest

from tooltap.daemon.system.loop import TimeSlices

pytestmark = [pytest.mark.anyio, pytest.mark.timing]
SECONDS = 0.002


def hold(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def test_everybody_else_gets_a_turn_after_each() -> None:
    turns = TimeSlices(SECONDS)
    worked: Counter[int] = Counter()
    between: list[int] = []

    async def work(name: int) -> None:
        for _ in range(20):
            if turns.is_over():
                await turns.next()
            hold(SECONDS / 2)
            worked[name] += 1

    async def watch() -> None:
        while sum(worked.values()) < 20 * 30:
            before = sum(worked.values())
            await anyio.sleep(0)
            between.append(sum(worked.values()) - before)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for name in range(30):
            tasks.start_soon(work, name)

    assert set(worked.values()) == {20}
    assert max(between) <= 4  # two portions are a turn; the turn before may end in the same round


async def test_a_turn_that_nobody_else_wants_goes_on() -> None:
    """After one round of the event loop, in which anybody else could have begun something."""
    turns = TimeSlices(SECONDS)
    rounds = 0

    def count() -> None:
        nonlocal rounds
        rounds += 1
        asyncio.get_running_loop().call_soon(count)

    asyncio.get_running_loop().call_soon(count)
    waited = []
    for _ in range(10):
        if turns.is_over():
            before = rounds
            await turns.next()
            waited.append(rounds - before)
        hold(SECONDS)

    assert waited
    assert max(waited) <= 2


async def test_whoever_is_cancelled_while_waiting_is_forgotten() -> None:
    turns = TimeSlices(SECONDS)
    with anyio.fail_after(10):
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                turns.is_over()
                hold(SECONDS)
                for _number in range(20):
                    tasks.start_soon(turns.next)
                await anyio.sleep(0)
                tasks.cancel_scope.cancel()
        await turns.next()
