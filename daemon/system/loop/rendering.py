"""Work for readers that takes longer than the event loop may be held, such as a page: in one thread for all of them.

More threads would not be faster, because only one at a time has the interpreter; but the loop would wait for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("rendering")


async def in_thread(render: Callable[..., T], *arguments: object) -> T:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(1)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(render, *arguments, limiter=limiter)
