"""Keeps the index up to date in the background: committed events are added, deleted ones are removed.

It reads the journal as subscribers do, in its own thread, and yields to commits: while events arrive it adds a batch
only now and then, and catches up afterwards. Nothing else needs the index. An index that cannot be written is retried
later, one that is damaged, or was removed or overwritten in use, is rebuilt, and neither affects commits.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import anyio

from tooltap.daemon.journal.interface import CorruptError, Journal, JournalError, StoredEvent
from tooltap.daemon.journal.sqlite.damage import is_corrupt
from tooltap.daemon.search.index import Index, ReplacedError, Source, delete_file
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.filters import Filter

BATCH = 2_000
"""Maximum events of a transaction."""
BUSY_BATCH = 500
"""Maximum events of a transaction while others arrive: commits wait for the GIL, which a small batch holds only
briefly."""
BATCH_BYTES = 2_097_152
PERIOD = 0.5
"""Seconds between two polls for new events."""
FILE_PERIOD = 1.0
"""Minimum seconds between two checks that the file is still there and not overwritten."""
GIVING_WAY = 1.0
"""Minimum seconds between two batches while events arrive."""
QUIET = 0.1
"""Seconds without a new event until events no longer count as arriving."""
RETRY = 30.0
"""Seconds until a failed index is retried."""
CHECK_PERIOD = 3_600.0
"""Maximum seconds between two checks for deleted events."""
RETENTION_CHECK = 600.0
"""Maximum seconds between two such checks after retention has deleted some."""

DAMAGED = "the search index is damaged"
REPLACED = "the search index was removed, replaced or overwritten in use"

T = TypeVar("T")

_log = get_logger("search")


class Indexer:
    """`path_of`: returns the file of the index, by the journal's id; raises `OSError`."""

    def __init__(self, journal: Journal, path_of: Callable[[str], Path], most_bytes: int) -> None:
        self._journal = journal
        self._path_of = path_of
        self._most_bytes = most_bytes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="search-index")
        self._index: Index | None = None
        self._closed = False
        self._checked = self._next_check = 0.0
        """Times of the last check for deleted events, and of the next one."""
        self._next_file_check = 0.0
        self._seen = -1
        """Latest `seq` of the journal at the last poll."""
        self._arrived = self._worked = 0.0
        self._is_busy = False
        """True while events arrive."""
        self._statistics: dict[str, int] = {"documents": 0, "parts": 0, "bytes": 0, "unbuilt": 0}
        self._damage = ""
        """Reason that the index has to be rebuilt."""
        self._rebuilt = -RETRY
        """Time at which a damaged index was last rebuilt."""
        self.rebuilding = ""
        """Reason that the index is being rebuilt, until it has all events again."""
        self._is_whole = False
        """True if no part is stale."""
        self.is_idle = False
        """True if the last step had nothing to do."""
        self.generation = 0
        """Incremented when the file is replaced, so that readers open it again."""
        self.rebuilds = 0
        """Number of times an index that was damaged, removed or overwritten was rebuilt."""
        self.problem = ""
        """Reason that the index cannot be written, as one sentence; empty if it can."""

    @property
    def path(self) -> Path | None:
        """Return the file of the index; None until it is open."""
        return None if self._index is None else self._index.path

    @property
    def upto(self) -> int:
        return 0 if self._index is None else self._index.upto

    @property
    def floor(self) -> int:
        return 0 if self._index is None else self._index.floor

    def statistics(self) -> dict[str, Any]:
        """Return the figures for `stats`."""
        figures = dict(self._statistics)
        behind = max(0, self._journal.latest - self.upto) + figures.pop("unbuilt")
        found = {"upto": self.upto, "floor": self.floor, **figures, "rebuilds": self.rebuilds, "behind": behind}
        states = {"problem": self.problem, "rebuilding": self.rebuilding}
        return {**found, **{name: sentence for name, sentence in states.items() if sentence}}

    def note_deleted(self, *, soon: bool) -> None:
        """Schedule a check for deleted events. `soon`: a user has deleted them, and expects that no search finds
        them."""
        self.is_idle = False
        self._next_check = min(self._next_check, 0.0 if soon else self._checked + RETENTION_CHECK)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            wait = PERIOD
            try:
                if await self._step():
                    wait = 0.0
                self.problem = ""
            except Exception as error:
                if self._closed:
                    return
                wait = await self._fail(error)
            await anyio.sleep(wait)

    def note_damaged(self) -> None:
        """Have the index rebuilt, because a reader found the file damaged."""
        self._damage = DAMAGED

    def check_file(self) -> None:
        """See `Index.check_file`."""
        index = self._index
        if index is not None:
            index.check_file()

    def note_replaced(self) -> None:
        """Have the index rebuilt, because a reader found that the file was removed or replaced."""
        self._damage = REPLACED

    async def close(self) -> None:
        self._closed = True
        if self._index is not None:
            self._index.interrupt()
        await asyncio.to_thread(self._pool.shutdown)
        if self._index is not None:
            self._index.close()

    async def _fail(self, error: Exception) -> float:
        """Report an error, or have a damaged index rebuilt. Return the seconds to wait."""
        self.is_idle = False
        if isinstance(error, ReplacedError) or (isinstance(error, sqlite3.Error) and is_corrupt(error)):
            self._damage = REPLACED if isinstance(error, ReplacedError) else DAMAGED
            return PERIOD if time.monotonic() >= self._rebuilt + RETRY else RETRY
        if isinstance(error, OSError | sqlite3.Error | JournalError):
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            problem = f"the search index cannot be written: {reason}"
            if problem != self.problem:
                _log.warning(problem, index=str(self.path))
            self.problem = problem
        else:
            self.problem = "the search index is not kept up to date; the daemon's log says why"
            faults.note("the search index is behind", place_of(error), error)
        return RETRY

    # -- one step -----------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do one step of work; return whether more is left."""
        self.is_idle = False
        if self._index is not None and not self._damage and time.monotonic() >= self._next_file_check:
            self._next_file_check = time.monotonic() + FILE_PERIOD
            await self._call(self._index.check_file)
        if self._damage:
            self.rebuilding = self._damage
            _log.warning(f"{self._damage}; rebuilding it", index=str(self.path))
            self.rebuilds += 1
            self._rebuilt = time.monotonic()
            await self._begin_again()
        if self._index is None or self._index.journal != self._journal.id:
            await self._open()
        index = self._index
        assert index is not None
        if time.monotonic() >= self._next_check:
            await self._check(index)
        if self._gives_way():
            return False
        if not await self._add(index) and not await self._build(index):
            self.is_idle = time.monotonic() < self._next_check
            self.rebuilding = ""
            return False
        while await self._call(index.shrink, self._most_bytes):
            pass
        self._worked = time.monotonic()
        self._statistics = await self._call(index.statistics)
        return True

    def _gives_way(self) -> bool:
        now = time.monotonic()
        if self._seen != self._journal.latest:
            self._seen, self._arrived = self._journal.latest, now
        self._is_busy = now < self._arrived + QUIET
        return self._is_busy and now < self._worked + GIVING_WAY

    async def _add(self, index: Index) -> bool:
        """Add the next events; return whether there were any."""
        if index.upto >= self._journal.latest:
            return False
        events, upto = await self._read(index.upto, self._journal.latest)
        if upto <= index.upto:
            return False
        self._is_whole = False
        await self._call(index.add, events, upto)
        return True

    async def _build(self, index: Index) -> bool:
        """Rebuild some of a stale part; return whether there was one."""
        if self._is_whole:
            return False
        part = await self._call(index.stale)
        if part is None:
            self._is_whole = True
            return False
        events, built = await self._read(part.built, part.last)
        await self._call(index.build, part, events, built if built > part.built else part.last)
        return True

    async def _read(self, after: int, up_to: int) -> tuple[list[StoredEvent], int]:
        """Return about a batch of events, and the `seq` up to which they are all there are."""
        events, searched = await self._journal.read(after, up_to=up_to, max_bytes=BATCH_BYTES)
        most = BUSY_BATCH if self._is_busy else BATCH
        if len(events) > most:
            events = events[:most]
            searched = events[-1].seq
        return events, searched

    # -- deleted events -----------------------------------------------------------------------------------------

    async def _check(self, index: Index) -> None:
        """Find deleted events, and remove them from the index. A stream's oldest events of a session are deleted first,
        so only its first one is looked up."""
        self._checked = time.monotonic()
        self._next_check = self._checked + CHECK_PERIOD  # before: what is deleted meanwhile is looked for once more
        deleted: list[tuple[Source, int | None]] = []
        for source in await self._call(index.sources):
            wanted = Filter(stream=(source.stream,), session=(source.named,))
            events, _ = await self._journal.read(source.first - 1, wanted, max_bytes=1)
            first = events[0].seq if events else None
            if first != source.first:
                deleted.append((source, first))
        self._is_whole = False
        await self._call(index.forget, deleted)
        self._statistics = await self._call(index.statistics)

    # -- the file -----------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._close_index()
        journal = self._journal.id
        path = self._path_of(journal)
        index = await self._call(self._begin, path, journal)
        self._next_check = 0.0
        self.generation += 1
        if await self._is_of_another(index):
            _log.info("another journal was indexed; rebuilding the search index", index=str(path))
            index = await self._begin_again()
        elif index.floor and index.limit < self._most_bytes:
            _log.info("the search index may be larger now; rebuilding it", index=str(path))
            index = await self._begin_again()
        self._statistics = await self._call(index.statistics)

    async def _is_of_another(self, index: Index) -> bool:
        """Return whether the journal was restored from a copy, and has other events than were indexed."""
        if index.upto > self._journal.latest:
            return True
        mark = await self._call(index.mark)
        if mark is None:
            return False
        seq, crc = mark
        try:
            event = await self._journal.event(seq)
        except CorruptError:
            return False
        return event is not None and zlib.crc32(event.body) != crc

    async def _begin_again(self) -> Index:
        path, journal = self._path_of(self._journal.id), self._journal.id
        await self._close_index()
        await self._call(delete_file, path)
        self._damage = ""
        index = await self._call(self._begin, path, journal)
        self._next_check = 0.0
        self.generation += 1
        return index

    def _begin(self, path: Path, journal: str) -> Index:
        """Open the index. It is kept in the thread that does so: a task that is cancelled meanwhile gets no result, and
        `close` closes what was opened."""
        self._index = Index(path, journal)
        return self._index

    async def _close_index(self) -> None:
        index, self._index = self._index, None
        self._is_whole = False
        if index is not None:
            await self._call(index.close)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
