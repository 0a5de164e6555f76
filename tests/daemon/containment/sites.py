"""Fault injection: call sites that a line passes, and exceptions raised at them one by one."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["ENTERED", "Injected", "Site", "armed", "counting", "raising_at"]

ENTERED = ("normalizers.", "protocol.", "daemon.ingest.", "daemon.views.", "daemon.hub", "daemon.journal.", "traces.")
"""Modules in whose functions exceptions are raised, below the package."""
PACKAGE = "tooltap."
START = 24
"""Bytecode offset up to which a frame counts as just entered; a resumed coroutine is further on."""


class Site(NamedTuple):
    """A call site: the called function, and the line that calls it."""

    module: str
    function: str
    caller: str
    line: int


armed = [False]
"""Whether passed sites count; set by the code around the part to be tested."""


class Injected(RuntimeError):
    """The exception that is raised by default."""


def _site(frame: FrameType) -> Site | None:
    module = frame.f_globals.get("__name__", "")
    if not module.startswith(PACKAGE) or not module.startswith(ENTERED, len(PACKAGE)) or frame.f_lasti > START:
        return None
    caller = frame.f_back
    if caller is None:
        return None
    of = caller.f_globals.get("__name__", "")
    if not of.startswith(PACKAGE):  # the event loop, a test, the standard library
        return None
    if caller.f_back is not None and caller.f_back.f_globals.get("__name__") == "threading":
        return None  # the loop of a thread, which goes on whether there is a line or not
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    if code.co_name in ("<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>") or "<lambda>" in code.co_name:
        return None
    return Site(module.removeprefix(PACKAGE), name, of.removeprefix(PACKAGE), caller.f_lineno)


@contextmanager
def _traced(trace: Any) -> Iterator[None]:
    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


@contextmanager
def counting() -> Iterator[Counter[Site]]:
    """Count how often each site is passed in the block, including threads that are started in it."""
    counts: Counter[Site] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if armed[0] and event == "call" and (site := _site(frame)) is not None:
            counts[site] += 1

    with _traced(trace):
        yield counts


@contextmanager
def raising_at(site: Site, number: int, error: type[Exception]) -> Iterator[list[Site]]:
    """Raise an error once, when the site is passed for the `number`-th time. Yields a list that then contains the
    site."""
    raised: list[Site] = []
    passed = 0

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal passed
        if raised or not armed[0] or event != "call" or frame.f_code.co_name != site.function.rpartition(".")[2]:
            return
        if _site(frame) == site:
            passed += 1
            if passed == number:
                raised.append(site)
                raise error("put in by the test")

    with _traced(trace):
        yield raised
