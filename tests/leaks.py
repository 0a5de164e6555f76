"""A plugin of pytest: what a test leaves open, such as a socket, or a coroutine that nobody awaits, is an error of that
test.

It warns when it is collected, and warnings are errors. But what is in a reference cycle is only collected when the
garbage collector happens to run, maybe in another test. So this collects all garbage at the end of each test. That is
quick, because what is there before the tests (`conftest.py`), and what a module of tests has imported or put into
caches, is exempt.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator

import pytest
from _pytest.unraisableexception import collect_unraisable

__all__ = ["pytest_runtest_teardown"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    done = yield
    _release(item)
    gc.collect()
    if nextitem is None or nextitem.path != item.path:  # no fixture of the module is left
        gc.freeze()
    collect_unraisable(item.config)  # else pytest raises it in the next test
    return done


def _release(item: pytest.Item) -> None:
    """Release what pytest keeps until the next test: the values of fixtures, and the frames of a test that failed."""
    if isinstance(item, pytest.Function):
        item.funcargs.clear()
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            setattr(sys, name, None)
