"""Pages are rendered in one thread: more of them would only keep the event loop from the interpreter."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from tooltap.daemon.system.loop.rendering import in_thread

pytestmark = pytest.mark.anyio


async def test_one_thread_renders_at_a_time() -> None:
    running: list[int] = []
    most: list[int] = []

    def render(number: int) -> int:
        running.append(number)
        most.append(len(running))
        time.sleep(0)  # let another thread run, if there is one
        running.remove(number)
        assert threading.current_thread() is not threading.main_thread()
        return number

    found: list[int] = []

    async def ask(number: int) -> None:
        found.append(await in_thread(render, number))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(ask, number)

    assert sorted(found) == list(range(50))
    assert max(most) == 1
