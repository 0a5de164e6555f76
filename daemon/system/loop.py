"""The event loop: a watchdog notices what blocks it, and long work takes turns on it.

While one piece of work runs, nothing else does: no reply, no delivery, no shutdown. `Watchdog` measures every turn
(iteration) of the loop exactly, between two calls of `select` (`_Selector`), at no cost while the loop is idle. A
thread samples the running turn: it records where in the code it is, and reports a turn that does not end. If even the
thread cannot run, because one call holds the GIL, `faulthandler` writes the stacks to standard error. A turn that is
long only because other processes used the processors is not counted as a stall (`_Starved`).

Work is labeled for these reports: `Work` for code that does not await (a batch of lines, a commit), `name_task` for
code that does (a request, a page).

Long work is done in portions (`TimeSlices`), a form of cooperative scheduling. Before each portion, a task checks
whether the time slice, which all such tasks share, is over. If it is, the task waits until the loop has served
everything else: requests, subscribers, signals.
"""

from __future__ import annotations

import asyncio
import faulthandler
import math
import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.stats import LoopStatistics, Stall

RECENT = 20
"""Number of newest stalls that `stats` lists."""
LONGEST_NAME = 200
"""Most characters of the name of a piece of work."""
FRAMES = 6
"""Number of innermost stack frames recorded for a stall."""
SLOWEST_LOOK = 1.0
"""Longest sampling period of the thread, in seconds, while the loop is mostly idle."""
STILL = 2.0
"""Seconds after which a turn that has not ended is logged; again after twice as long, and so on."""
FRESH = 0.01
"""Seconds for which a turn counts as one that has just begun."""
LAST_RESORT = 10.0
"""Seconds without a run of the thread after which the stacks are written to standard error, and up to half as many
more: each time that this is put off costs a thread."""

_log = get_logger("loop")
_here = threading.local()
"""Thread-local attribute `watchdog`: the watchdog of the event loop that runs in this thread."""


class Work:
    """A context manager that labels a piece of work, which must not await, for the watchdog. `place` returns how far
    the work is; it is called from another thread."""

    __slots__ = ("_before", "_began", "_watchdog", "kind", "name", "place")

    def __init__(self, kind: str, name: str, place: Callable[[], str] = str) -> None:
        self.kind = kind
        self.name = name
        self.place = place
        self._watchdog: Watchdog | None = getattr(_here, "watchdog", None)
        self._before: Work | None = None
        self._began = 0.0

    def __enter__(self) -> None:
        if (watchdog := self._watchdog) is not None:
            self._before, watchdog.work = watchdog.work, self
            self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        if (watchdog := self._watchdog) is not None:
            watchdog.work = self._before
            if (took := time.perf_counter() - self._began) > watchdog.longest_work:
                watchdog.longest_work, watchdog.heaviest = took, str(self)

    def __str__(self) -> str:
        return _printable(" ".join(part for part in (self.kind, self.name, self.place()) if part))


def name_task(name: str) -> None:
    """Label the work of the running task, from here on."""
    if (task := asyncio.current_task()) is not None:
        task.set_name(_printable(name))


@contextmanager
def beside(what: str) -> Iterator[None]:
    """Label work in another thread, which blocks the loop if it does not release the GIL."""
    watchdog: Watchdog | None = getattr(_here, "watchdog", None)
    if watchdog is None:
        yield
        return
    watchdog.beside.append(_printable(what))
    try:
        yield
    finally:
        watchdog.beside.remove(_printable(what))


def _printable(name: str) -> str:
    """Sanitize and truncate a name: names of streams and paths are untrusted."""
    name = name[:LONGEST_NAME]
    if name.isprintable():
        return name
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name)


class Watchdog:
    """Detects and logs what blocks the event loop. `limit`: longest acceptable turn in seconds. Create the event loop
    with `new_loop`, and enter the watchdog (`with`) while it runs."""

    def __init__(self, limit: float) -> None:
        self.is_reporting = True
        """False while stalls do not matter and are not recorded."""
        self.work: Work | None = None
        self.beside: list[str] = []
        """Labels of the work in threads (`beside`)."""
        self.longest_work = 0.0
        self.heaviest = ""
        """Label of the longest work of the current turn."""
        self._limit = limit
        self._began = 0.0
        """Start of the current turn (`perf_counter`); 0 while the loop is idle."""
        self._ended = 0.0
        """End of the last turn (`perf_counter`); 0 before the first turn ended."""
        self.heartbeat = limit / 2
        """Longest timeout of `select`, in seconds: if it returns much later, a thread has held the GIL."""
        self._cpu_began = 0.0
        self._seen: tuple[float, str, str] | None = None
        """Last sample of the thread: (start of the turn, label of the work, place in the code)."""
        self._stalls = 0
        self._longest: Stall | None = None
        self._recent: deque[Stall] = deque(maxlen=RECENT)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main = 0
        self._starved = _Starved()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Create an event loop that this watchdog watches."""
        return asyncio.SelectorEventLoop(_Selector(self))

    def __enter__(self) -> None:
        """Start watching. Call in the thread of the running event loop."""
        _here.watchdog = self
        self._loop = asyncio.get_running_loop()
        self._main = threading.get_ident()
        self._starved.open()
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        _here.watchdog = None
        self._over.set()
        self._thread.join(LAST_RESORT)
        self._starved.close()

    def statistics(self) -> LoopStatistics:
        return LoopStatistics(
            limit_ms=round(self._limit * 1000),
            stalls=self._stalls,
            longest=self._longest,
            recent=list(self._recent)[::-1],
        )

    # -- in the event loop --------------------------------------------------------------------------------------

    def begin_turn(self, waited: float) -> None:
        """Note the start of a turn. `waited`: timeout of `select`; a later return means that a thread held the GIL."""
        now = time.perf_counter()
        if self._ended and (late := now - self._ended - waited) > self._limit:
            self._note(self._ended, late, 0.0)
        self.longest_work = 0.0
        self._cpu_began = time.thread_time()
        self._began = now

    def end_turn(self) -> None:
        began, self._began = self._began, 0.0
        self._ended = time.perf_counter()
        if began and (took := self._ended - began) > self._limit:
            self._note(began, took, time.thread_time() - self._cpu_began)

    def _note(self, began: float, took: float, cpu: float) -> None:
        if not self.is_reporting or (cpu < self._limit and took - self._starved.seconds() < self._limit):
            return
        what, place = self.heaviest if self.longest_work else "", ""
        if self._seen is not None and self._seen[0] == began:
            _, seen, place = self._seen
            # The thread looks once. If something else took longer than half of the turn, it was that.
            what = what if self.longest_work > took / 2 else seen
        if cpu < took / 2 and self.beside:
            what = ", ".join(filter(None, (what, f"beside {self.beside[0]}")))
        stall = Stall(
            what=what or "unknown", ms=round(took * 1000), cpu_ms=round(cpu * 1000), at=wall_clock(), place=place
        )
        self._stalls += 1
        self._recent.append(stall)
        if self._longest is None or stall.ms > self._longest.ms:
            self._longest = stall
        _log.warning("the event loop was held", what=stall.what, ms=stall.ms, cpu_ms=stall.cpu_ms, place=stall.place)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        report = _error_file()
        logged = 0.0
        put_off = -math.inf
        while not self._over.wait(self.heartbeat):
            if report is not None and time.perf_counter() >= put_off + LAST_RESORT / 2:
                put_off = time.perf_counter()
                faulthandler.dump_traceback_later(1.5 * LAST_RESORT, file=report)
            waited = self._starved.total()  # first: this thread may itself have to wait before it marks
            began = self._began
            if not began or time.perf_counter() - began < FRESH:
                self._starved.mark(waited)
            self.heartbeat = self._limit / 2 if began else min(2 * self.heartbeat, SLOWEST_LOOK)
            if not began or (held := time.perf_counter() - began) <= self._limit:
                continue
            if self._seen is None or self._seen[0] != began:
                logged = STILL
                seen = began, self._what(), _place(sys._current_frames().get(self._main))
                if self._began == began:
                    self._seen = seen
            elif held > logged:
                logged *= 2
                what, place = self._what(), _place(sys._current_frames().get(self._main))
                if self._began == began:
                    _log.warning("the event loop is still held", what=what, ms=round(held * 1000), place=place)
        if report is not None:
            faulthandler.cancel_dump_traceback_later()
            os.close(report)

    def _what(self) -> str:
        if (work := self.work) is not None:
            return str(work)
        task: asyncio.Task[Any] | None = None if self._loop is None else asyncio.current_task(self._loop)
        return "" if task is None else task.get_name()


class _Starved:
    """Time for which a thread was runnable but had no processor (Linux schedstat); always 0 on other systems."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._marked = 0.0

    def open(self) -> None:
        """Start measuring the calling thread."""
        with suppress(OSError):
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self.mark(self.total())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def mark(self, total: float) -> None:
        self._marked = total

    def seconds(self) -> float:
        """Seconds of waiting for a processor since the last mark."""
        return self.total() - self._marked

    def total(self) -> float:
        """Seconds of waiting for a processor since the thread began."""
        try:
            return 0.0 if self._file is None else int(os.pread(self._file, 100, 0).split()[1]) / 1e9
        except OSError:
            return self._marked


class _Selector(selectors.DefaultSelector):
    """A selector that tells the watchdog when turns of the loop begin and end."""

    def __init__(self, watchdog: Watchdog) -> None:
        super().__init__()
        self._watchdog = watchdog

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        watchdog = self._watchdog
        watchdog.end_turn()
        wait = watchdog.heartbeat if timeout is None or timeout > watchdog.heartbeat else timeout
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(wait)
        watchdog.begin_turn(max(wait, 0.0))
        return ready


def _place(frame: FrameType | None) -> str:
    """Format the innermost stack frames, innermost first. Source lines are not read, as that takes time."""
    calls: list[str] = []
    while frame is not None and len(calls) < FRAMES:
        code = frame.f_code
        calls.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(calls)


def _error_file() -> int | None:
    """Reopen standard error as non-blocking; None if that is impossible."""
    try:
        return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


# -- time slices ------------------------------------------------------------------------------------------------------

SECONDS = 0.01
"""Length of a time slice."""
WOKEN = 8
"""Waiting tasks woken at once: more of them would find the next slice over, too."""


class TimeSlices:
    """Time slices shared by several tasks. `seconds`: length of a slice."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0
        """End of the current slice (`perf_counter`); 0 if none has begun."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_over(self) -> bool:
        """Whether the current slice is over. Starts a slice if there is none."""
        now = time.perf_counter()
        if not self._until:
            self._until = now + self._seconds
            asyncio.get_running_loop().call_soon(self._end)
        return now >= self._until

    async def next(self) -> None:
        """Wait for the next slice."""
        while self.is_over():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _end(self) -> None:
        self._until = 0.0
        for _ in range(min(WOKEN, len(self._waiting))):
            future = self._waiting.popleft()
            if not future.done():  # the waiting task was cancelled
                future.set_result(None)
