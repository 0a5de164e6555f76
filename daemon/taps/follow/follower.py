"""The follower: ingests the session files of agents, however the agents were started.

One thread per folder reports files that have changed (`watch.py`). The follower gives the files turns, so that a long
one does not delay others. Only a limited number of files is open at a time; of all others only size and time are known.

    changed ──▶ fresh ──┐
    older   ──▶ backlog ─┴─▶ turns ──▶ open file ──▶ closed when idle, replaced, or another file needs its place
    later   ──▶ fresh

`backlog` holds files that had changed before the start. It gets at most half of the turns, so that a backfill does not
delay what agents write now. When a backfill is long, other processes normalize its files (`portions.py`); a file of
which one is at work is in no queue, but in `_away`, until the result is there.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import anyio
from anyio import to_process, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.workers import import_nothing_from_here
from tooltap.daemon.taps.follow.file import FollowedFile, NotYetError, Setting, is_document, open_file, read_to
from tooltap.daemon.taps.follow.places import FILE_DIALECTS, Found, Root, roots
from tooltap.daemon.taps.follow.portions import Portion, Request, normalize
from tooltap.daemon.taps.follow.reading import ReplacedError
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.follow.watch import watch_root
from tooltap.daemon.taps.stream_ids import real_path_id
from tooltap.protocol.frames import ErrorFrame, FrameError

__all__ = ["Follower"]

RETRY = 5.0
"""Seconds until a file is tried again whose lines could not be committed."""
AHEAD = 3
"""Files of a backfill that are read at once, for each process: some are normalized while others are committed."""
WORTH_TURNS = 160
"""A backfill of fewer bytes than so many turns read is done in this process: to start others would take longer."""
CHUNK = 500
"""Most reported files that are handled at once."""

_log = get_logger("follow")


@dataclass(slots=True)
class Entry:
    """A file that has been reported."""

    root: Root
    found: Found
    """Its state in the last report."""
    changed: bool = False
    """Whether it has changed since it was last read."""
    queued: bool = False
    settled: bool = False
    """Whether a new file has had its waiting time."""
    file: FollowedFile | None = None
    result: tuple[Request, Portion | None] | None = None
    """What another process has made of the open file."""
    touched: float = 0.0
    """When it was last read; monotonic seconds."""


class Follower:
    """`run` follows until it is cancelled."""

    def __init__(
        self,
        streams: Streams,
        journal: Journal,
        follow: Follow,
        *,
        line_bytes: int,
        suspend_timeout_ms: int,
        jobs: int,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = wall_clock,
    ) -> None:
        self._setting = Setting(
            streams=streams,
            journal=journal,
            follow=follow,
            line_bytes=line_bytes,
            suspend_timeout_ms=suspend_timeout_ms,
            started=clock(),
            clock=clock,
        )
        self._loop = asyncio.get_running_loop()
        self._follow = follow
        self._journal = journal
        self._roots = roots(follow.agents, environment)
        self._oldest = self._setting.started - follow.backfill_seconds * 1000
        """A file that the journal does not know and that is older than this is ignored until it changes."""
        self._read_to: dict[str, tuple[int, int | None]] = {}
        """Stream of a file that has not been reported yet -> how far it was read, and the time of its last line."""
        self._entries: dict[str, Entry] = {}
        self._fresh: deque[str] = deque()
        """Files that have changed since the start."""
        self._backlog: deque[str] = deque()
        """Files that had changed before the start."""
        self._turns: deque[str] = deque()
        """Files that are being read, in turns."""
        self._away: set[str] = set()
        """Files of which another process normalizes a portion."""
        self._jobs = jobs
        self._backfill_bytes = 0
        """Bytes of all files that were in the backlog."""
        self._limiter = anyio.CapacityLimiter(jobs)
        self._tasks: TaskGroup
        self._later: list[tuple[float, str]] = []
        """A heap of files and when to try them again."""
        self._open: OrderedDict[str, Entry] = OrderedDict()
        """Open files; the one that was read least recently comes first."""
        self._troubles: set[str] = set()
        """Files whose problem has been logged."""
        self._wake = anyio.Event()

    async def run(self) -> None:
        """Follow. Raises `JournalError`."""
        self._read_to = {
            info.stream: (read_to(info), info.last_t)
            for info in await self._journal.streams()
            if info.asked_dialect in FILE_DIALECTS
        }
        _log.info("following", folders=[root.path for root in self._roots], backfill=self._follow.backfill)
        stop = threading.Event()
        threads = [threading.Thread(target=self._watch, args=(root, stop), daemon=True) for root in self._roots]
        for thread in threads:
            thread.start()
        try:
            async with anyio.create_task_group() as self._tasks:
                while True:
                    await self._work()
                    await self._wait()
        finally:
            stop.set()
            with anyio.CancelScope(shield=True):
                for thread in threads:
                    await to_thread.run_sync(thread.join)

    def statistics(self) -> dict[str, int]:
        """Return the statistics for `stats`: files known, open, and waiting to be read."""
        waiting = len(self._later) + sum(entry.queued for entry in self._entries.values())
        return {"files": len(self._entries), "open": len(self._open), "waiting": waiting}

    # -- reports of the threads ---------------------------------------------------------------------------------

    def _watch(self, root: Root, stop: threading.Event) -> None:
        def found(files: Iterable[Found]) -> None:
            everything = list(files)
            for start in range(0, len(everything), CHUNK):
                self._loop.call_soon_threadsafe(self._notice_all, root, everything[start : start + CHUNK])

        def trouble(error: OSError) -> None:
            self._loop.call_soon_threadsafe(self._complain, error.filename, error.strerror or str(error))

        try:
            watch_root(
                root, polling=self._follow.polling, rescan=self._follow.rescan, stop=stop, found=found, trouble=trouble
            )
        except Exception:
            _log.exception("a folder is no longer followed", folder=root.path)

    def _notice_all(self, root: Root, files: list[Found]) -> None:
        for found in files:
            self._notice(root, found)
        self._wake.set()

    def _notice(self, root: Root, found: Found) -> None:
        entry = self._entries.get(found.path)
        if entry is not None:
            if entry.found != found:
                entry.found = found
                self._queue(found.path, entry, self._fresh)
        elif found.mtime:
            entry = self._entries[found.path] = Entry(root, found)
            if self._is_wanted(found):
                is_old = found.mtime_ms < self._setting.started
                self._backfill_bytes += found.size if is_old else 0
                self._queue(found.path, entry, self._backlog if is_old else self._fresh)

    def _is_wanted(self, found: Found) -> bool:
        """Decide whether to read a file that is reported for the first time."""
        known = self._read_to.pop(real_path_id(found.path), None)
        if known is None:
            return found.mtime_ms >= self._oldest
        offset, t = known
        if is_document(found.path):
            return found.mtime_ms != t
        return found.size not in (offset, offset - 1)  # the newline of the last line may be missing

    def _queue(self, path: str, entry: Entry, queue: deque[str]) -> None:
        entry.changed = True
        if not entry.queued:
            entry.queued = True
            queue.append(path)

    def _complain(self, path: str, reason: str) -> None:
        """Log a problem once per file."""
        if path not in self._troubles:
            self._troubles.add(path)
            _log.warning("cannot be followed", file=path, reason=reason)

    # -- turns --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Give turns until nothing is left to read."""
        while True:
            self._fill()
            if not self._turns:
                return
            path = self._turns.popleft()
            entry = self._entries[path]
            entry.changed = False
            more = await self._turn(path, entry)
            if self._entries.get(path) is not entry or path in self._away:
                continue
            entry.queued = more or entry.changed
            if entry.queued:
                self._turns.append(path)
            await checkpoint()

    @property
    def _is_shared(self) -> bool:
        """Whether other processes take part in the backfill."""
        return self._jobs > 1 and self._backfill_bytes >= WORTH_TURNS * self._follow.turn_bytes

    def _fill(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, path = heapq.heappop(self._later)
            if (entry := self._entries.get(path)) is not None:
                self._queue(path, entry, self._fresh)
        while self._fresh and len(self._turns) + len(self._away) < self._follow.files:
            self._turns.append(self._fresh.popleft())
        most = max(1, self._follow.files // 2)
        if self._is_shared:
            most = min(most, AHEAD * self._jobs)
        while self._backlog and len(self._turns) + len(self._away) < most:
            self._turns.append(self._backlog.popleft())

    async def _wait(self) -> None:
        """Wait until there is something to do."""
        self._wake = anyio.Event()
        self._fill()
        if self._turns:
            return
        due = [self._later[0][0]] if self._later else []
        due += [next(iter(self._open.values())).touched + self._follow.idle] if self._open else []
        with anyio.move_on_after(max(0.0, min(due) - time.monotonic()) if due else None):
            await self._wake.wait()
        while self._open and next(iter(self._open.values())).touched + self._follow.idle <= time.monotonic():
            await self._close(next(iter(self._open)))

    async def _turn(self, path: str, entry: Entry) -> bool:
        """Read a part of a file. Return whether there is more."""
        try:
            return await self._read(path, entry)
        except NotYetError as later:
            entry.settled = True
            self._try_later(path, later.seconds)
        except FileNotFoundError:
            await self._close(path)
            self._entries.pop(path, None)
        except OSError as error:  # the next rescan of the folder tries it again
            self._complain(path, error.strerror or str(error))
            await self._close(path)
            self._entries.pop(path, None)
        except (FrameError, JournalError) as error:
            self._complain(path, str(error))
            await self._close(path)
            self._try_later(path, RETRY)
        except Exception:
            _log.exception("a file cannot be followed", file=path)
            await self._close(path)
        return False

    async def _read(self, path: str, entry: Entry) -> bool:
        if entry.file is not None and entry.file.over:
            await self._close(path)
        if entry.file is None:
            await self._make_room()
            failed = partial(self._failed, path)
            entry.file = await open_file(path, entry.root, self._setting, settled=entry.settled, failed=failed)
            if entry.file is None:
                return False
        entry.touched = time.monotonic()
        self._open[path] = entry
        self._open.move_to_end(path)
        try:
            if self._is_shared and await self._hand_out(path, entry, entry.file):
                return True
            more = await entry.file.turn()
        except ReplacedError:
            await self._finish_moved(entry.file)
            await self._close(path)
            return True
        if not more and entry.file.at_rest:
            await self._close(path)
        return more

    async def _hand_out(self, path: str, entry: Entry, file: FollowedFile) -> bool:
        """Let other processes normalize a backfilled file, portion after portion. Return whether they do."""
        if entry.result is not None:
            result, entry.result = entry.result, None
            await file.adopt(*result)
        request = await file.request()
        if request is None:
            return False
        self._away.add(path)
        import_nothing_from_here()
        self._tasks.start_soon(self._normalize, path, entry, file, request)
        return True

    async def _normalize(self, path: str, entry: Entry, file: FollowedFile, request: Request) -> None:
        portion = None
        try:
            portion = await to_process.run_sync(normalize, request, cancellable=True, limiter=self._limiter)
        except (anyio.BrokenWorkerProcess, KeyboardInterrupt) as error:
            if self._jobs > 1:
                self._jobs = 1
                _log.warning("a process for the backfill has died; it continues in this process", error=str(error))
        except Exception as error:  # this process reads the file, and says what is wrong with it
            _log.debug("a portion was not normalized by another process", file=path, error=repr(error))
        self._away.discard(path)
        if self._entries.get(path) is entry:
            if entry.file is file:
                entry.result = request, portion
            self._turns.appendleft(path)
        self._wake.set()

    async def _finish_moved(self, file: FollowedFile) -> None:
        try:
            await file.finish_moved()
        except (OSError, ReplacedError, NotYetError):  # the rest of the old file is gone
            pass

    async def _make_room(self) -> None:
        busy = self._away.union(self._turns)  # without the file that needs the place
        while len(self._open) >= self._follow.files:
            await self._close(next(path for path in self._open if path not in busy))

    async def _close(self, path: str) -> None:
        entry = self._open.pop(path, None)
        if entry is not None and entry.file is not None:
            file, entry.file, entry.result = entry.file, None, None
            try:
                await file.close()
            except Exception:
                _log.exception("a file could not be closed", file=path)

    def _failed(self, path: str, frame: ErrorFrame) -> None:
        """Try a file again whose lines were not committed, or whose stream another publisher has taken over."""
        if frame.code != "superseded":
            self._complain(path, frame.message)
        self._try_later(path, RETRY)
        self._wake.set()

    def _try_later(self, path: str, seconds: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, path))
