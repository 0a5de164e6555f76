"""The follower: ingests the session files of agents, however the agents were started.

One thread reports changed files (`watch.py`). The follower reads files in turns, so that a long one does not
delay others. A limited number of files is open at a time; of all others only size and time are kept.

    changed ──▶ fresh ──┐
    older   ──▶ backlog ─┴─▶ turns ──▶ open file ──▶ closed when idle, replaced, or another file needs its place
    later   ──▶ fresh

`backlog` holds files that had changed before the start, the newest first. It gets at most half of the turns, so that a
backfill does not delay what agents write now, and few files at once, so that the newest are complete first. When a
backfill is long, other processes normalize its files (`backfill_worker.py`). While one of them works on a file, the
file is in `_away` and in no queue.

The bounds of a backfill are multiples of `follow.jobs`, which users configure, and of `TURN_BYTES`.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import FilePosition, Journal, JournalError, StreamInfo
from tooltap.daemon.sessions.joining import is_file
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.taps.follow.backfill_worker import Portion, Request
from tooltap.daemon.taps.follow.file import (
    TURN_BYTES,
    FollowedFile,
    HeldError,
    NotYetError,
    Seen,
    Setting,
    is_listed,
    open_file,
    path_of,
    read_to,
)
from tooltap.daemon.taps.follow.mounts import is_below
from tooltap.daemon.taps.follow.pool import BrokenPoolError, Pool
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.follow.stores import (
    ROW_BYTES,
    Found,
    ReplacedError,
    Root,
    Roots,
    as_text,
    project_roots,
    root_lists,
    roots,
)
from tooltap.daemon.taps.follow.watch import Listed, Watcher
from tooltap.daemon.taps.stream_ids import real_path_id
from tooltap.normalizers.catalog.dialect import Store
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.frames import ErrorFrame, FrameError
from tooltap.protocol.replies import RereadResult
from tooltap.protocol.stats import BackfillStatistics, FollowStatistics
from tooltap.traces.recording.compressed import plain_path

OPEN_FILES = 64
"""Most files open at once. The positions in all others are in the journal."""
IDLE = 300.0
"""Seconds without a read after which a file is closed until it changes, unless its agent waits for an answer."""
UNREADABLE_LISTED = 100
"""Most files that cannot be read in the statistics."""
RESCAN = 60.0
"""Seconds between scans of the folders for changes that the file system did not report."""
PROJECTS = 0.5
"""Seconds between two looks for new folders in which sessions are."""
SESSIONS = 1_000
"""Most sessions that are looked at each time, those of which the latest events are."""
NOT_YET = 0.2
"""Seconds after which a file is retried whose stream another publisher sends."""
RETRY = 5.0
"""Seconds after which a file is retried whose lines could not be committed."""
AHEAD = 3
"""Backfilled files read concurrently per process: some are normalized while others are committed."""
WORTH_TURNS = 160
"""Size of a backfill, in turns (`TURN_BYTES`), from which starting other processes pays off."""
CHUNK = 500
"""Most reported files handled in one batch."""

_log = get_logger("follow")


class Follower:
    """Follows the session files of agents, while `run` runs."""

    def __init__(
        self,
        streams: Streams,
        journal: Journal,
        follow: Follow,
        *,
        line_bytes: int,
        suspend_timeout_ms: int,
        jobs: int,
        spool: Path,
        socket: Path,
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
            spool=str(spool),
            socket=os.path.realpath(socket),
            whole=set(),
        )
        self._loop = asyncio.get_running_loop()
        self._follow = follow
        self._journal = journal
        self._roots = roots(follow.followed, environment, follow.folders)
        self._lists = root_lists(follow.followed, environment, follow.projects)
        self._projects = project_roots(follow.followed, follow.projects)
        self._oldest = self._setting.started - follow.backfill_seconds * 1000
        """Limit of the backfill, in ms since the epoch: an older file that is not in the journal is ignored until it
        changes."""
        self._read_to: dict[str, tuple[int, int | None]] = {}
        """File that has not been reported yet -> position up to which it was read, and the time of its last line. The
        file is a path before compression, or the id of a stream that does not say where its file was."""
        self._are_nameless = False
        """Whether some of these streams do not say where their files were."""
        self._entries: dict[str, Entry] = {}
        self._queues = Queues(self._entries)
        self._backfill = Backfill(len(self._roots))
        self._turns: deque[str] = deque()
        """Files that are being read, in the order of their turns."""
        self._away: set[str] = set()
        """Files that backfill workers are processing."""
        self._jobs = jobs
        self._pool = Pool(jobs)
        self._tasks: TaskGroup
        self._open: OrderedDict[str, Entry] = OrderedDict()
        """Open files, least recently read first."""
        self._troubles: set[str] = set()
        """Files whose problem has been logged."""
        self._unreadable: dict[str, str] = {}
        """Files that could not be read when that was last tried, and why."""
        self._listed: dict[str, Listed] = {}
        """Folders that are listed periodically."""
        self._wake = anyio.Event()
        streams.read_on = self._read_on

    async def run(self) -> None:
        """Follow until cancelled. Raises only on internal errors; it may be called again then."""
        await self._forget()
        known = threading.Event()
        watcher = self._watcher(known)
        thread = threading.Thread(target=watcher.run, name="follow", daemon=True)
        thread.start()  # listing takes as long as reading the positions
        try:
            await self._load_positions()
            known.set()
            async with anyio.create_task_group() as self._tasks:
                if self._projects:
                    self._tasks.start_soon(self._look_for_projects)
                while True:
                    await self._work()
                    await self._wait()
        finally:
            self._pool.close()
            known.set()
            watcher.stop()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(thread.join)
            watcher.close()

    async def _load_positions(self) -> None:
        stores = {root.place.dialect: root.place for root in reversed(self._roots)}
        self._read_to, self._are_nameless = {}, False
        for info in await self._positions():  # newest first
            if info.asked_dialect in stores and is_file(info):
                path = path_of(info)
                name = info.stream if path is None else plain_path(path)
                self._are_nameless = self._are_nameless or path is None
                place = self._place_of(path, info.asked_dialect) or stores[info.asked_dialect]
                self._read_to.setdefault(name, (read_to(info, place), info.last_t))
        _log.info("following", folders=[root.path for root in self._roots], backfill=self._follow.backfill)

    def _place_of(self, path: str | None, dialect: str) -> Store | None:
        """Return the store in which a file is, of those of a dialect; None if it is in none."""
        own = (root for root in self._roots if root.place.dialect == dialect)
        return next((root.place for root in own if path and is_below(path, root.path) and root.match(path)), None)

    async def _look_for_projects(self) -> None:
        """Keep up to date in which folders sessions of this machine were."""
        folders: dict[str, None] = {}
        seen, read = 0, -1
        while True:
            latest = self._journal.latest
            if latest != read:
                wanted = SessionFilter(changed_after=seen)
                try:
                    rows = await self._journal.sessions(limit=SESSIONS, order="time", wanted=wanted)
                except JournalError as error:
                    _log.warning("no projects can be found yet", reason=str(error))
                    await anyio.sleep(RETRY)
                    continue
                for row in reversed(rows):
                    if (folder := row.get("cwd")) and os.path.isabs(folder) and not row.get("host"):
                        folders.pop(folder, None)
                        folders[folder] = None
                    seen = max(seen, row["lastSeq"])
                read = latest
                for excess in list(folders)[: -self._follow.projects or None]:
                    del folders[excess]
                for one in self._projects:
                    one.folders = tuple(reversed(folders))
            await anyio.sleep(PROJECTS)

    async def _forget(self) -> None:
        """Forget all files: they will be reported again, and resumed at their positions in the journal."""
        for path in list(self._open):
            await self._close(path)
        for kept in (self._entries, self._queues, self._turns, self._away):
            kept.clear()
        self._listed.clear()
        self._backfill = Backfill(len(self._roots))

    async def _positions(self) -> list[FilePosition]:
        while True:
            try:
                return await self._journal.file_positions()
            except JournalError as error:
                _log.warning("nothing can be followed yet", reason=str(error))
                await anyio.sleep(RETRY)

    def statistics(self) -> FollowStatistics:
        return FollowStatistics(
            files=len(self._entries),
            open=len(self._open),
            waiting=self._queues.postponed + sum(entry.queued for entry in self._entries.values()),
            agents=dict(Counter(entry.root.agent for entry in self._entries.values())),
            backfill=self._backfill.statistics(),
            unwatched={folder: one.reason for folder, one in self._listed.items() if one.reason is not None},
            remote={folder: one.remote for folder, one in self._listed.items() if one.remote is not None},
            unreadable=dict(islice(self._unreadable.items(), UNREADABLE_LISTED)),
            delays={folder: one.delay for folder, one in self._listed.items()},
            latest={folder: one.latest for folder, one in self._listed.items() if one.latest},
        )

    async def reread(self, sessions: Collection[str] | None, agents: Collection[str] | None) -> RereadResult:
        """Read files again whose events retention has deleted: those of sessions whose ids begin so, or of these
        agents; None: of all. Raises `JournalError`."""
        await self._backfill.all_listed.wait()
        dialects = {root.place.dialect for root in self._roots if agents is None or root.agent in agents}
        paths = {real_path_id(path): path for path in self._entries}
        begun = None if sessions is None else tuple(sessions)
        found: dict[str, StreamInfo] = {}
        missing = 0
        for info in await self._journal.streams():
            is_wanted = begun is None or (info.last_session or info.session or "").startswith(begun)
            if not (info.followed and info.expired and is_wanted and info.asked_dialect in dialects):
                continue
            if await is_listed(info, self._journal):
                continue
            if (path := self._path_of(info, paths)) is None:
                missing += 1
            else:
                found[path] = info
        for path, info in found.items():
            await self._close(path)
            if await self._journal.forget_expired(info.stream) and (entry := self._entries.get(path)) is not None:
                self._setting.whole.add(info.stream)
                self._queues.add(path, entry)
        self._wake.set()
        return RereadResult(files=len(found), missing=missing)

    def _read_on(self, stream: str) -> bool:
        """Queue the open file of a stream, whether it is reported as changed or not; False if there is none."""
        for path, entry in self._open.items():
            if entry.file is not None and entry.file.stream == stream:
                self._queues.add(path, entry)
                self._wake.set()
                return True
        return False

    def _path_of(self, info: StreamInfo, paths: Mapping[str, str]) -> str | None:
        """Return the file of a stream, if it is still there. `paths`: `real_path_id` of each file -> its path."""
        if (path := path_of(info)) in self._entries:
            return path
        name = info.stream
        while name not in paths and "~" in name:  # the file was replaced once
            name = name.rpartition("~")[0]
        return paths.get(name)

    # -- reports of the thread ----------------------------------------------------------------------------------

    def _watcher(self, known: threading.Event) -> Watcher:
        """`known`: set when the positions in all files are known, before which no file is reported."""
        begun = self._setting.clock()
        listed: set[Root] = set()
        awaited = set(self._roots)

        def found(root: Root, files: Iterable[Found]) -> None:
            known.wait()
            absent = begun if root in listed else None  # what the first listing did not have
            everything = sorted(files, key=lambda one: one.mtime, reverse=True)
            for start in range(0, len(everything), CHUNK):
                self._loop.call_soon_threadsafe(self._notice_all, root, everything[start : start + CHUNK], absent)
            if root not in listed:
                listed.add(root)
            if root in awaited:
                awaited.remove(root)
                self._loop.call_soon_threadsafe(self._backfill.listed)

        def trouble(error: OSError) -> None:
            self._loop.call_soon_threadsafe(self._complain, error.filename, error.strerror or str(error))

        def note(folder: str, listed: Listed | None) -> None:
            self._loop.call_soon_threadsafe(self._note_listed, folder, listed)

        follow = self._follow
        lists: list[Roots] = [*self._lists, *self._projects]
        return Watcher(self._roots, lists, follow.polling, RESCAN, follow.watches, found, trouble, note)

    def _note_listed(self, folder: str, listed: Listed | None) -> None:
        if listed is None:
            self._listed.pop(as_text(folder), None)
            return
        self._listed[as_text(folder)] = listed
        if listed.reason is not None:
            self._complain(folder, f"listed periodically, because it cannot be watched: {listed.reason}")

    def _notice_all(self, root: Root, files: list[Found], absent: int | None) -> None:
        for found in files:
            try:
                self._notice(root, found, absent)
            except Exception as error:  # the other files are not to wait for this one, which is reported again
                faults.note("a file could not be noticed", place_of(error), error, file=found.path)
                self._entries.pop(found.path, None)
        self._wake.set()

    def _notice(self, root: Root, found: Found, absent: int | None) -> None:
        """Queue a reported file, if it is new or has changed. `absent`: for a new file, a time at which it did not
        exist yet."""
        if not found.mtime:
            self._unreadable.pop(found.path, None)
        entry = self._entries.get(found.path)
        if entry is not None:
            if entry.found != found:
                entry.found = found
                self._queues.add(found.path, entry)
        elif found.mtime:
            entry = self._entries[found.path] = Entry(root, found, Seen(self._setting.clock(), absent))
            unread = self._unread(root, found)
            if unread is not None and found.mtime_ms < self._setting.started:
                self._backfill.add(found.path, unread * (ROW_BYTES if root.place.database else 1))
                self._queues.add_old(found.path, entry)
            elif unread is not None:
                self._queues.add(found.path, entry)

    def _unread(self, root: Root, found: Found) -> int | None:
        """Return the number of bytes (or rows) to read of a file that is reported for the first time; None if it is not
        read, because it is complete or too old."""
        known = self._read_to.pop(plain_path(found.path), None)
        if known is None and self._are_nameless:
            known = self._read_to.pop(real_path_id(found.path), None)
        if known is None:
            return found.size if found.mtime_ms >= self._oldest else None
        offset, t = known
        if root.is_document(found.path) or not found.is_appended:
            return found.size if found.mtime_ms != t else None
        if found.size in (offset, offset - 1):  # the newline of the last line may be missing
            return None
        return found.size - offset if found.size > offset else found.size

    def _complain(self, path: str, reason: str) -> None:
        """Log a problem once per file."""
        if path not in self._troubles:
            self._troubles.add(path)
            _log.warning("cannot be followed", file=path, reason=reason)

    # -- turns --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Read files in turns until nothing is left to read."""
        while True:
            self._fill()
            if not self._turns:
                return
            path = self._turns.popleft()
            if (entry := self._entries.get(path)) is None:
                continue
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
        return self._jobs > 1 and self._backfill.bytes >= WORTH_TURNS * TURN_BYTES

    def _fill(self) -> None:
        most = OPEN_FILES
        while len(self._turns) + len(self._away) < most and (path := self._queues.pop_fresh()) is not None:
            self._turns.append(path)
        most = max(1, min(most // 2, AHEAD * self._jobs))
        while len(self._turns) + len(self._away) < most and (path := self._queues.pop_old()) is not None:
            self._turns.append(path)

    async def _wait(self) -> None:
        """Wait until there is something to do."""
        self._wake = anyio.Event()
        self._fill()
        if self._turns:
            return
        due = [] if self._queues.due is None else [self._queues.due]
        due += [next(iter(self._open.values())).touched + IDLE] if self._open else []
        with anyio.move_on_after(max(0.0, min(due) - time.monotonic()) if due else None):
            await self._wake.wait()
        while self._open and next(iter(self._open.values())).touched + IDLE <= time.monotonic():
            path, entry = next(iter(self._open.items()))
            if entry.file is not None and entry.file.is_asking:
                entry.touched = time.monotonic()
                self._open.move_to_end(path)
            else:
                await self._close(path)

    async def _turn(self, path: str, entry: Entry) -> bool:
        """Read a part of a file. Return whether there is more."""
        try:
            more = await self._read(path, entry)
            if not more:
                self._backfill.finish(path)
            return more
        except NotYetError as later:
            self._queues.add_later(path, later.seconds)
        except HeldError as held:  # the file was moved, or a copy of it has become longer
            if (holder := self._entries.get(held.path)) is None or holder.file is None or held.path in self._away:
                self._queues.add_later(path, NOT_YET)
            else:
                await self._close(held.path)
                return True
        except FileNotFoundError:
            self._unreadable.pop(path, None)
            await self._give_up(path)
        except OSError as error:  # the next rescan of the folder tries it again
            self._unreadable[path] = error.strerror or str(error)
            self._complain(path, self._unreadable[path])
            await self._give_up(path)
        except (FrameError, JournalError) as error:
            self._complain(path, str(error))
            await self._close(path)
            self._queues.add_later(path, RETRY)
        except Exception as error:
            if path not in self._troubles:
                self._troubles.add(path)
                faults.note("a file cannot be followed", place_of(error), error, file=path)
            await self._close(path)
            self._queues.add_later(path, RESCAN)
        return False

    async def _give_up(self, path: str) -> None:
        await self._close(path)
        self._entries.pop(path, None)
        self._backfill.finish(path)

    async def _read(self, path: str, entry: Entry) -> bool:
        if entry.file is not None and entry.file.over:
            await self._close(path)
        if entry.file is None:
            await self._make_room()
            failed = partial(self._failed, path)
            entry.file = await open_file(path, entry.root, self._setting, seen=entry.seen, failed=failed)
            if self._unreadable.pop(path, None) is not None:
                self._troubles.discard(path)
            if entry.file is None:
                return False
        entry.touched = time.monotonic()
        self._open[path] = entry
        self._open.move_to_end(path)
        try:
            if self._is_shared and await self._hand_out(path, entry, entry.file):
                return True
            more = await entry.file.turn()
            self._backfill.advance(path, entry.found.size - entry.file.offset)
        except ReplacedError:
            await self._finish_moved(entry.file)
            await self._close(path)
            return True
        if not more and (entry.file.at_rest or entry.file.unchanged > IDLE) and not entry.file.is_asking:
            await self._close(path)
        return more

    async def _hand_out(self, path: str, entry: Entry, file: FollowedFile) -> bool:
        """Pass the next portion of a backfilled file to a worker, after ingesting the result of the previous one.
        Return False if the file must be read in this process."""
        if entry.result is not None:
            result, entry.result = entry.result, None
            await file.adopt(*result)
            self._backfill.advance(path, entry.found.size - file.offset)
        request = await file.request()
        if request is None:
            return False
        self._away.add(path)
        self._tasks.start_soon(self._normalize, path, entry, file, request)
        return True

    async def _normalize(self, path: str, entry: Entry, file: FollowedFile, request: Request) -> None:
        portion = None
        try:
            portion = await self._pool.normalize(request)
        except BrokenPoolError as error:
            if self._jobs > 1:
                self._jobs = 1
                _log.warning("a process for the backfill has died; it continues in this process", error=str(error))
        except Exception as error:  # this process reads the file, and says what is wrong with it
            _log.debug("another process could not normalize a part", file=path, error=repr(error))
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
        while len(self._open) >= OPEN_FILES:
            await self._close(next(path for path in self._open if path not in busy))

    async def _close(self, path: str) -> None:
        entry = self._open.pop(path, None)
        if entry is not None and entry.file is not None:
            file, entry.file, entry.result = entry.file, None, None
            try:
                await file.close()
            except Exception as error:
                faults.note("a file could not be closed", place_of(error), error, file=path)

    def _failed(self, path: str, frame: ErrorFrame) -> None:
        """Schedule a retry of a file whose lines were not committed, or whose stream another publisher has taken
        over."""
        if frame.code != "superseded":
            self._complain(path, frame.message)
        self._queues.add_later(path, RETRY)
        self._wake.set()


# -- queues -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Entry:
    """A file that has been reported."""

    root: Root
    found: Found
    """State of the file in the last report."""
    seen: Seen
    changed: bool = False
    """True if the file has changed since it was last read."""
    queued: bool = False
    """True if the file waits for a turn, or is being read."""
    is_old: bool = False
    """True if the file waits in the backlog."""
    file: FollowedFile | None = None
    result: tuple[Request, Portion | None] | None = None
    """Result of a backfill worker for the open file, with its request; None if there is none to ingest."""
    touched: float = 0.0
    """Time of the last read, monotonic seconds."""


class Queues:
    """The queues of followed files that wait for a turn. `entries`: path -> entry, of all reported files. A file is in
    at most one of the queues for turns, and may also be scheduled for a retry."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._fresh: deque[str] = deque()
        """Files that have changed since the start."""
        self._backlog: list[tuple[int, str]] = []
        """A heap of files that had changed before the start, newest first. Files that were moved to `_fresh` remain in
        it and are skipped: their entries are not `is_old`."""
        self._later: list[tuple[float, str]] = []
        """A heap of retries: (monotonic time, path). Those that are not in `_due` were replaced, and are skipped."""
        self._due: dict[str, float] = {}
        """Path -> monotonic time of its retry. A file has one, however often it changes until then."""

    def clear(self) -> None:
        for queue in (self._fresh, self._backlog, self._later, self._due):
            queue.clear()

    def add(self, path: str, entry: Entry) -> None:
        """Add a file that has changed since the start."""
        entry.changed = True
        if not entry.queued or entry.is_old:
            entry.queued, entry.is_old = True, False
            self._fresh.append(path)

    def add_old(self, path: str, entry: Entry) -> None:
        """Add a file that had changed before the start, and is reported for the first time."""
        entry.changed = entry.queued = entry.is_old = True
        heapq.heappush(self._backlog, (-entry.found.mtime, path))

    def add_later(self, path: str, seconds: float) -> None:
        """Schedule the file's retry, in place of the one that it may have."""
        self._due[path] = time.monotonic() + seconds
        heapq.heappush(self._later, (self._due[path], path))

    def pop_fresh(self) -> str | None:
        """Return the next file that has changed since the start, or is due for a retry."""
        now = time.monotonic()
        while (due := self.due) is not None and due <= now:
            _, path = heapq.heappop(self._later)
            del self._due[path]
            if (entry := self._entries.get(path)) is not None:
                self.add(path, entry)
        return self._fresh.popleft() if self._fresh else None

    def pop_old(self) -> str | None:
        """Return the next file of the backlog."""
        while self._backlog:
            _, path = heapq.heappop(self._backlog)
            entry = self._entries.get(path)
            if entry is not None and entry.is_old:
                entry.is_old = False
                return path
        return None

    @property
    def due(self) -> float | None:
        """Monotonic time of the next retry, or None."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    @property
    def postponed(self) -> int:
        return len(self._due)


class Backfill:
    """Progress of the backfill: files and bytes found, and those still to be read.

    `listings`: number of folders that have not been listed yet.
    """

    def __init__(self, listings: int) -> None:
        self._listings = listings
        self.all_listed = anyio.Event()
        """Set when all folders have been listed."""
        self.bytes = 0
        self._files = 0
        self._left: dict[str, int] = {}
        """Path of an unfinished file -> bytes still to be read."""

    def listed(self) -> None:
        """Count a folder as listed for the first time."""
        self._listings -= 1
        if self._listings <= 0:
            self.all_listed.set()

    def add(self, path: str, size: int) -> None:
        """Add a file with `size` bytes to read."""
        self._files += 1
        self.bytes += size
        self._left[path] = size

    def advance(self, path: str, left: int) -> None:
        """Update the number of bytes still to be read of a file. It never rises, though a file may grow meanwhile."""
        if path in self._left:
            self._left[path] = max(0, min(left, self._left[path]))

    def finish(self, path: str) -> None:
        """Count a file as done: it was read, or cannot be read."""
        self._left.pop(path, None)

    def statistics(self) -> BackfillStatistics:
        return BackfillStatistics(
            files=self._files,
            files_done=self._files - len(self._left),
            bytes=self.bytes,
            bytes_done=self.bytes - sum(self._left.values()),
            complete=self._listings <= 0 and not self._left,
        )
