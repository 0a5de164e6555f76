"""Event loops for tests: Playwright's belongs to the thread of the tests for as long as a browser is there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, ParamSpec

import anyio

__all__ = ["in_a_loop"]

Arguments = ParamSpec("Arguments")


def in_a_loop(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Run an asynchronous test in a loop, in a thread of its own."""

    @wraps(test)
    def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(anyio.run, partial(test, *arguments, **named)).result()

    return run
