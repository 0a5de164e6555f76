"""The drain: takes in the spools that publishers left behind because the daemon was away or they were killed.

It skips a spool that is in use, because its publisher delivers it, and a spool for another daemon. The lines go through
an ingest connection like those of any publisher (`ingest/connection.py`), so each takes effect exactly once, even if
the daemon is killed while it takes in a spool.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.delivery.records import END, JOURNAL_REPLACED, encode_lost
from tooltap.daemon.taps.delivery.spool import Spool, SpoolError, spools
from tooltap.protocol.frames import DaemonFrame, Done, ErrorFrame, FrameError, Ingest, Ingesting

__all__ = ["Drain"]

TORN = "the publisher was killed in the middle of a line"

_log = get_logger("drain")


class Drain:
    """`socket`: of this daemon; `directory`: of the spools."""

    def __init__(self, streams: Streams, socket: Path, directory: Path) -> None:
        self._streams = streams
        self._socket = os.path.realpath(socket)
        self._directory = directory
        self._found: dict[Path, int] = {}
        self._drained = 0
        self._complaints: dict[Path, str] = {}
        """The problems that the log already has."""

    async def run(self) -> None:
        """Take in the spools that are there now. To be called periodically."""
        self._found = await run_sync(spools, self._directory)
        self._complaints = {path: reason for path, reason in self._complaints.items() if path in self._found}
        for path in self._found:
            try:
                await self._take_in(path)
            except (SpoolError, OSError, FrameError, JournalError) as error:
                self._complain(path, str(error))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as of the last run. Spools in use count as waiting."""
        return {
            "directory": str(self._directory),
            "waiting": len(self._found),
            "bytes": sum(self._found.values()),
            "drained": self._drained,
        }

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _take_in(self, path: Path) -> None:
        """Take in one spool. Raises `SpoolError`, `OSError`, `FrameError` and `JournalError`."""
        spool = await run_sync(Spool.adopt, path)
        if spool is None:
            return
        try:
            if spool.header.socket == self._socket and await self._publish(spool):
                await run_sync(spool.remove)
                self._drained += 1
                _log.info("spool taken in", stream=spool.header.ingest.stream, bytes=spool.size)
        finally:
            spool.close()

    async def _publish(self, spool: Spool) -> bool:
        """Ingest all lines of a spool. Return whether they are durable."""
        answers: dict[type[DaemonFrame], Any] = {}
        session = await self._open(spool.header.ingest, answers)
        try:
            await self._feed(session, spool, answers[Ingesting].lines)
        finally:
            await session.finish()
        if ErrorFrame in answers:
            self._complain(spool.path, answers[ErrorFrame].message)
        return Done in answers

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
        """Feed the lines after `known`, the losses, and the stream's end."""
        ending = spool.header.ending
        if (gone := spool.header.after - known) > 0:
            await session.feed(encode_lost(gone, 0, JOURNAL_REPLACED))
            known += gone
        records, last = await run_sync(spool.read, known)
        while records and not session.over.is_set():
            await session.feed(records)
            await checkpoint()  # let other tasks run
            records, last = await run_sync(spool.read, last)
        if spool.torn and last >= known:
            await session.feed(encode_lost(1, spool.torn, TORN))
        elif ending is not None and ending.lines > max(known, last):
            await session.feed(encode_lost(ending.lines - max(known, last), ending.bytes, ending.reason))
        await session.feed(END)

    def _complain(self, path: Path, reason: str) -> None:
        if self._complaints.get(path) != reason:
            self._complaints[path] = reason
            _log.warning("a spool cannot be taken in", spool=str(path), reason=reason)
