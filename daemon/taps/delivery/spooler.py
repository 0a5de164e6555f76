"""The spooler: copies an outbox to a spool, in a thread of its own, so that a slow, full or hanging disk delays nobody.

If the spool is full or cannot be written, lines wait in the outbox, which drops new ones when it is full as well.
Whenever all lines in the spool are durable it is emptied, so it stays small while the daemon keeps up.

What waits in the spool is synced to disk every `SYNC` seconds, and when the stream ends: a failure of the machine costs
the lines of the last moment, and the daemon reports them as lost. While a daemon takes the lines, nothing is synced.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

from tooltap.daemon.taps.delivery.outbox import Entry, Outbox, SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.records import encode, frame
from tooltap.daemon.taps.delivery.spool import Ending, Header, Spool, SpoolError, spools
from tooltap.protocol.frames import Ingest

BATCH = 256 * 1024
RETRY = 0.5
"""Seconds between attempts to write a spool that could not be written."""
SYNC = 1.0
"""Seconds that lines may wait in the spool before they are synced to disk."""
LOOK = 65_536
"""Bytes that a publisher may write before it checks the total of all spools again. Each writing publisher may exceed
the limit of the total by as much."""


class Spooler:
    """`socket`: of the daemon that the lines are for."""

    def __init__(self, outbox: Outbox, options: StreamOptions, socket: Path, limits: SpoolLimits) -> None:
        self._outbox = outbox
        ingest = Ingest(framing="tapped", **options._asdict())
        self._header = Header(socket=os.path.realpath(socket), ingest=ingest)
        self._limits = limits
        self._spool: Spool | None = None
        self._allowed = 0
        """Bytes that may be written before the total of all spools is checked again."""
        self._sync_at: float | None = None
        """When to sync what was written; None: nothing was."""

    def run(self) -> None:
        """Copy until all lines have been put in. Then note the end in the spool, or remove a delivered one."""
        while (entries := self._outbox.copy(BATCH, self._until_sync())) is not None:
            try:
                if entries:
                    self._write(entries)
                if self._until_sync() == 0:
                    self._sync()
            except (SpoolError, OSError) as error:
                self._note(error)
                last = entries[0].last if entries else self._outbox.lines
                if self._outbox.wait_until_acked(last, RETRY):
                    break
        try:
            self._end()
        except OSError as error:
            self._note(error)

    def read(self, after: int) -> tuple[bytes, int]:
        """Read the spool (`Spool.read`) for the delivery's thread: lines that the outbox has on disk only."""
        assert self._spool is not None
        return self._spool.read(after)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _write(self, entries: list[Entry]) -> None:
        """Write entries as far as there is room, and then raise `SpoolError` or `OSError` for the others."""
        spool = self._spool_after(entries[0].last - entries[0].lines)
        records = [frame(encode(entry), entry.last) for entry in entries]
        ends = list(accumulate(map(len, records)))
        fitting = bisect_right(ends, self._room(spool, ends[-1]))
        try:
            self._append(spool, records[:fitting], entries[:fitting])
        except OSError:  # there may be room on the disk for the first ones
            for record, entry in zip(records[:fitting], entries, strict=False):
                self._append(spool, [record], [entry])
        if fitting < len(entries):
            raise SpoolError("the spool is full")

    def _append(self, spool: Spool, records: list[bytes], entries: list[Entry]) -> None:
        before = spool.size
        spool.append(b"".join(records), sum(entry.lines for entry in entries))
        self._allowed -= spool.size - before
        self._outbox.copied(spool.lines)
        if self._sync_at is None:
            self._sync_at = time.monotonic() + SYNC

    def _until_sync(self) -> float | None:
        """Seconds until what was written is to be synced; None if there is nothing."""
        return None if self._sync_at is None else max(0.0, self._sync_at - time.monotonic())

    def _sync(self) -> None:
        """Sync what was written, unless the daemon has it."""
        self._sync_at = None
        if self._spool is not None and self._outbox.acked < self._spool.lines:
            self._spool.sync()

    def _room(self, spool: Spool, wanted: int) -> int:
        """Return how many of `wanted` bytes may be written."""
        if wanted > self._allowed:
            free = self._limits.spool_total_bytes - sum(spools(self._limits.directory).values())
            self._allowed = min(max(wanted, LOOK), free)
        return min(self._limits.spool_bytes - spool.size, self._allowed)

    def _spool_after(self, after: int) -> Spool:
        """Return the spool, ready for line `after + 1`."""
        if self._spool is None:
            self._header.after = after
            self._spool = Spool.create(self._limits.directory, self._header)
        elif self._outbox.acked >= self._spool.lines:
            self._spool.restart(after)
        return self._spool

    def _end(self) -> None:
        if self._spool is None:
            return
        outbox = self._outbox
        if outbox.delivered and not self._spool.is_damaged:
            self._spool.remove()
        else:  # the daemon moves a damaged one to the quarantine
            lost = outbox.rest()[1]
            self._spool.end(Ending(outbox.lines, lost, outbox.obstacle, outbox.ended, outbox.suspended))
            self._spool.sync()

    def _note(self, error: SpoolError | OSError) -> None:
        why = f"the spool cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)
        self._outbox.obstacle = why
