"""The drain: takes in the spools that publishers left behind because the daemon was unreachable or they were killed.

It skips spools that are in use, because their publishers deliver them, and spools for other daemons. The lines go
through an ingest connection like those of any publisher (`ingest/connection.py`), so each takes effect exactly once,
even if the daemon is killed while it takes in a spool.

A stream ends with its spool only if its publisher has recorded the end there. If the publisher was killed, the stream
is suspended, as when a connected publisher is killed.

A damaged spool is moved to the quarantine once its readable lines are durable. An error of one spool does not affect
the others: it is logged once, and listed in the statistics until the spool is removed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.taps.delivery.announcement import announced
from tooltap.daemon.taps.delivery.spool import (
    SUFFIX,
    UNREAD,
    DamagedSpoolError,
    Header,
    QuarantineLimits,
    Spool,
    SpoolError,
    is_unread,
    quarantine,
    quarantine_folder,
    read_header,
    spools,
)
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.frames import DaemonFrame, Done, ErrorFrame, FrameError, Ingest, Ingesting, Suspended
from tooltap.protocol.inputs import write_end

EVERYONES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Error numbers that concern the whole process, not a spool."""
LISTED = 100
"""Most spools listed in the statistics."""

State: TypeAlias = Literal["in use", "waiting", "of another daemon", "stuck", "taken in"]
"""`stuck`: a problem keeps it from being taken in. `taken in`: a problem keeps it from being removed."""

_log = get_logger("drain")


class Left(NamedTuple):
    """The state of a spool when all of its lines had become durable."""

    header: Header
    size: int
    is_damaged: bool

    def is_same(self, spool: Spool) -> bool:
        """Whether nothing was added since. Records are only appended, and a publisher that empties the spool writes a
        header with another `after`."""
        return (self.header, self.size) == (spool.header, spool.size)


class Drain:
    """Takes in the spools for this daemon. `socket`: socket of this daemon; `directory`: folder of the spools;
    `limits`: limits of the quarantine."""

    def __init__(self, streams: Streams, socket: Path, directory: Path, limits: QuarantineLimits) -> None:
        self._streams = streams
        self._socket = os.path.realpath(socket)
        self._directory = directory
        self._limits = limits
        self._found: dict[Path, int] = {}
        self._quarantined: dict[Path, int] = {}
        self._unread: dict[Path, bool] = {}
        """Spool in the quarantine -> `is_unread`. A cache, as these files do not change."""
        self._drained = 0
        self._states: dict[Path, State] = {}
        self._sockets: dict[Path, str] = {}
        """Spool of another daemon -> socket of that daemon."""
        self._complaints: dict[Path, str] = {}
        """Spool -> problem that has already been logged."""
        self._left: dict[Path, Left] = {}
        """Spools whose lines are durable, but which could not be removed."""

    async def run(self) -> None:
        """Take in the spools that exist now. Call this periodically. Raises `OSError` only for errors that concern the
        whole process (`EVERYONES`)."""
        try:
            self._found = await run_sync(self._look)
        except OSError as error:
            self._complain(self._directory, error.strerror or str(error))
            return
        for table in (self._complaints, self._states, self._sockets, self._left):
            for path in table.keys() - self._found.keys():
                del table[path]
        for path in list(self._found):
            try:
                self._states[path] = await self._take_in(path)
            except OSError as error:
                if error.errno in EVERYONES:
                    raise
                self._states[path] = "taken in" if path in self._left else "stuck"
                self._complain(path, error.strerror or str(error))
            except (SpoolError, FrameError, JournalError) as error:
                self._states[path] = "stuck"
                self._complain(path, str(error))
            except Exception as error:  # the other spools are not to wait for this one
                self._states[path] = "stuck"
                reason = f"{type(error).__name__}: {error}"
                if self._complaints.get(path) != reason:
                    self._complaints[path] = reason
                    faults.note("a spool could not be taken in", place_of(error), error, spool=str(path))
        if self._found:
            self._found = await run_sync(spools, self._directory)
            self._quarantined = await run_sync(spools, quarantine_folder(self._directory))
        known, self._unread = self._unread, {}
        for path in self._quarantined:
            self._unread[path] = known[path] if path in known else await run_sync(is_unread, path)

    def _look(self) -> dict[Path, int]:
        """Return the spools. Blocks. Raises `OSError`."""
        announced(str(self._directory), self._socket)  # removes those of killed publishers
        self._quarantined = spools(quarantine_folder(self._directory))
        return spools(self._directory)

    @property
    def spools(self) -> list[Path]:
        """The spools of the last run, at most `LISTED`."""
        return list(self._found)[:LISTED]

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as of the last run. Spools in use count as waiting."""
        return {
            "directory": str(self._directory),
            "waiting": len(self._found),
            "bytes": sum(self._found.values()),
            "drained": self._drained,
            "perSpool": [
                {
                    "stream": path.name.removesuffix(SUFFIX),
                    "bytes": size,
                    "state": self._states.get(path, "waiting"),
                    **({"socket": self._sockets[path]} if path in self._sockets else {}),
                    **({"problem": self._complaints[path]} if path in self._complaints else {}),
                }
                for path, size in ((path, self._found[path]) for path in self.spools)
            ],
            "quarantined": {
                "directory": str(quarantine_folder(self._directory)),
                "files": len(self._quarantined),
                "bytes": sum(self._quarantined.values()),
                "names": [path.name for path in list(self._quarantined)[:LISTED]],
                "unread": [path.name for path, is_unread in self._unread.items() if is_unread][:LISTED],
            },
        }

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _take_in(self, path: Path) -> State:
        """Take in one spool. Raises `SpoolError`, `OSError`, `FrameError` and `JournalError`."""
        try:
            header, is_used = await run_sync(read_header, path)
            if not is_used and self._is_of_another_daemon(path, header):  # adopted, it would read as in use to others
                return "of another daemon"
        except (SpoolError, FileNotFoundError):
            pass  # empty, damaged or gone: all that `Spool.adopt` tells apart
        try:
            spool = await run_sync(Spool.adopt, path)
        except DamagedSpoolError as error:
            await self._quarantine(path, f"{error}: {UNREAD}")
            return "stuck"
        if spool is None:
            return "in use"
        try:
            if spool.header.ingest.stream in self._streams.connections:  # a publisher that has resumed it
                return "in use"
            if self._is_of_another_daemon(path, spool.header):
                return "of another daemon"
            left = self._left.pop(path, None)
            if left is None or not left.is_same(spool):
                if not await self._publish(spool):
                    return "stuck"
                self._drained += 1
                _log.info("spool taken in", stream=spool.header.ingest.stream, bytes=spool.size)
                left = Left(spool.header, spool.size, spool.is_damaged)
            self._left[path] = left
            if not left.is_damaged:
                await run_sync(spool.remove)
            elif not await self._quarantine(path, "a part of it cannot be read, and was reported as lost"):
                return "taken in"
            del self._left[path]
            return "taken in"
        finally:
            spool.close()

    def _is_of_another_daemon(self, path: Path, header: Header) -> bool:
        if header.socket == self._socket:
            return False
        self._sockets[path] = header.socket
        return True

    async def _quarantine(self, path: Path, reason: str) -> bool:
        """Move a spool to the quarantine; False if that is full. Raises `OSError`."""
        place = await run_sync(quarantine, path, self._limits)
        if place is None:
            self._complain(path, f"it is damaged, and the quarantine is full: {reason}")
        else:
            _log.warning("moved a damaged spool to quarantine", spool=str(place), reason=reason)
        return place is not None

    async def _publish(self, spool: Spool) -> bool:
        """Ingest all lines of a spool. Return whether they are durable."""
        answers: dict[type[DaemonFrame], Any] = {}
        session = await self._open(spool.header.ingest, answers)
        is_whole = False
        try:
            await self._feed(session, spool, answers[Ingesting].lines)
            is_whole = not session.over.is_set()  # else it was suspended before it had all, as when the daemon stops
        finally:
            await session.finish()
        if ErrorFrame in answers:
            self._complain(spool.path, answers[ErrorFrame].message)
        return Done in answers or (is_whole and Suspended in answers)

    async def _open(self, ingest: Ingest, answers: dict[type[DaemonFrame], Any]) -> IngestConnection:
        def answer(frame: DaemonFrame) -> None:
            answers[type(frame)] = frame

        try:
            return await self._streams.open(ingest, answer)
        except FrameError as error:
            if error.code != "unknown-dialect":
                raise
            _log.warning("unknown dialect: it will be recognized", stream=ingest.stream, reason=str(error))
            return await self._streams.open(msgspec.structs.replace(ingest, dialect="auto"), answer)

    async def _feed(self, session: IngestConnection, spool: Spool, known: int) -> None:
        """Feed the lines after `known`, losses, and the stream's end if the publisher has recorded it."""
        left = spool.left_after(known)
        while (records := await run_sync(next, left, None)) is not None and not session.over.is_set():
            await session.feed(records)
            await checkpoint()  # let other tasks run
        ending = spool.header.ending
        if ending is not None and not ending.suspended:
            await session.feed(write_end(ending.t, ending.process) + b"\n")

    def _complain(self, path: Path, reason: str) -> None:
        if self._complaints.get(path) != reason:
            self._complaints[path] = reason
            _log.warning("a spool cannot be taken in", spool=str(path), reason=reason)
