"""Markers, which say what a test needs: `process`, `programs`, `browser`, `timing`, `slow`, `lab`. pyproject.toml
explains them.

`process` and `browser` are found by reading: a test has one if its own code, a fixture of it, or a helper that they
call calls something that starts a process (`subprocess.run`, `os.fork`, …) or a browser. Where the product starts the
process, or a helper is found by other means than its name, the test or its module has the marker itself; a test that
starts one without the marker fails. `timing` and `lab` are always written out.
`slow` has what `slow.txt` lists: see `slow.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import util
from multiprocessing.context import BaseContext
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tests.programs import special_programs
from tests.slow import slow_tests

__all__ = ["ProcessGuard", "mark", "needs"]

MODULES = {
    "subprocess": frozenset({"Popen", "run", "call", "check_call", "check_output"}),
    "multiprocessing": frozenset({"Process", "Pool", "get_context"}),
    "os": frozenset({"fork", "forkpty", "posix_spawn", "system", "popen"}),
    "pty": frozenset({"fork", "spawn"}),
    "anyio": frozenset({"open_process", "run_process"}),
    "asyncio": frozenset({"create_subprocess_exec", "create_subprocess_shell"}),
}
"""Module -> its functions that start a process."""
BROWSERS = frozenset({"sync_playwright", "sync_api", "WebKitWebDriver", "geckodriver"})
"""Names of browser programs and functions in code that starts a browser."""
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"})
"""Audit events of the interpreter for a process that starts."""


def mark(items: list[pytest.Item]) -> None:
    slow = slow_tests()
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker("browser")
        for needed in _of_item(item):
            item.add_marker(needed)


def _of_item(item: pytest.Item) -> Iterator[str]:
    assert isinstance(item, pytest.Function)
    fixtures = [found.func for name in item.fixturenames for found in item._fixtureinfo.name2fixturedefs.get(name, ())]
    yield from needs(item.obj).union(*map(needs, fixtures))
    if hasattr(item, "callspec") and "nats" in item.callspec.params.values():  # whose server is started on demand
        yield "process"


def needs(function: Any) -> frozenset[str]:
    function = getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    return _reached(function) if isinstance(function, FunctionType) else frozenset()


@cache
def _reached(start: FunctionType) -> frozenset[str]:
    """Return the markers needed by a function of the tests, including all functions and classes of the tests that it
    names."""
    seen: set[Any] = {start}
    todo: list[Any] = [start]
    found: set[str] = set()
    while todo:
        for function in _functions(todo.pop()):
            direct, named = _direct(function)
            found |= direct
            todo += (one for one in named if one not in seen)
            seen.update(named)
    return frozenset(found)


def _functions(named: Any) -> Iterator[FunctionType]:
    """Yield a function itself, or all methods of a class and of its bases."""
    if isinstance(named, FunctionType):
        yield named
    elif isinstance(named, type):
        for base in named.__mro__:
            if base.__module__.startswith("tests."):
                for value in vars(base).values():
                    value = getattr(value, "__func__", value)  # a class method
                    value = getattr(value, "fget", value)  # a property
                    value = getattr(value, "__wrapped__", value)  # a context manager
                    if isinstance(value, FunctionType):
                        yield value


@cache
def _direct(function: FunctionType) -> tuple[frozenset[str], frozenset[Any]]:
    """Return the markers that a function needs by itself, and the functions and classes of the tests that it names."""
    names = frozenset(_names(function.__code__))
    needs = {"browser"} if names & BROWSERS else set()
    found: set[Any] = set()
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, BaseContext) and names & MODULES["multiprocessing"]:
            needs.add("process")
        elif isinstance(value, ModuleType):
            if names & MODULES.get(value.__name__, frozenset()):
                needs.add("process")
            if value.__name__.startswith("tests."):
                found.update(_callables(vars(value).get(one) for one in names))
        elif value is not None and getattr(value, "__name__", None) in MODULES.get(
            str(getattr(value, "__module__", "")).partition(".")[0], ()
        ):
            needs.add("process")
    found.update(_callables(function.__globals__.get(name) for name in names))
    return frozenset(needs), frozenset(found)


def _callables(values: Any) -> Iterator[Callable[..., Any]]:
    for value in values:
        value = getattr(value, "__wrapped__", value)
        if isinstance(value, FunctionType | type) and value.__module__.startswith("tests."):
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class ProcessGuard:
    (
        """Records that a test starts a process; `started` returns the first start since it was last called.
    `programs` collects the names of what is started and not on every machine."""
        ""
    )

    def __init__(self) -> None:
        self._started: str | None = None
        self.programs: set[str] = set()
        starts = STARTS  # the name is gone when the interpreter ends

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if event in starts:
                if self._started is None:
                    self._started = f"{event} {arguments[:1]}"
                self.programs |= special_programs(event, arguments)

        sys.addaudithook(hear)
        spawn = util.spawnv_passfds  # which is not audited

        def spawned(path: bytes, arguments: Any, passed: Any) -> int:
            hear("subprocess.Popen", (path, arguments, None, None))
            return spawn(path, arguments, passed)

        setattr(util, "spawnv_passfds", spawned)  # noqa: B010 - as an assignment its types would have to be those of a stub

    def started(self) -> str | None:
        started, self._started = self._started, None
        return started
