"""What a journal on NATS answers: its events, streams, sessions, calls and output bodies. `journal.py` writes them."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import Any, Literal

from tooltap.daemon.journal.interface import Journal, JournalError, OutputSlice, StoredEvent, StreamInfo
from tooltap.daemon.journal.nats.link import Link
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, end_of
from tooltap.daemon.journal.nats.outputs import Outputs
from tooltap.daemon.journal.nats.read import read, read_back
from tooltap.daemon.journal.nats.repair import missing
from tooltap.daemon.journal.nats.state import OwnRow, State, open_calls_of, sessions_of, spending_of
from tooltap.daemon.sessions.filter import (
    ANY_SESSION,
    FACETS,
    MOST_COUNTED,
    SessionFilter,
    SessionOrder,
    SessionPlace,
    place_of,
)
from tooltap.daemon.sessions.usage import report
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.replies import StreamState, UsageResult
from tooltap.protocol.requests import UsageRequest

__all__ = ["Reading"]

SCAN_BYTES = 4_194_304
"""Read at once to find out which messages are missing."""
LIST_TIMEOUT = 2.0
"""Seconds that a list of streams may take. Then it is what this daemon knows."""

_log = get_logger("journal")


class Reading(Journal):
    def __init__(self, link: Link, state: State) -> None:
        super().__init__()
        self.id = ""
        self._link = link
        self._log = Log(link, self._damaged)
        self._state = state
        self._outputs = Outputs(link, self._log)
        self._rows: OrderedDict[str, OwnRow] = OrderedDict()
        """Of streams that this daemon has loaded or commits to."""
        self._oldest = 1
        self._latest = self._last_expired = 0
        self._bytes = 0
        self._damages = 0
        self._holes = -1
        """How many messages are missing between others; -1: it is to be found out which."""

    @property
    def oldest(self) -> int:
        return min(self._oldest, self._latest + 1)

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def last_expired(self) -> int:
        return self._last_expired

    async def _refresh(self) -> int:
        """Ask the server for the journal's range, and for what is missing in it; returns the sequence of its last
        message."""
        state = (await self._link.api(f"STREAM.INFO.{self._log.stream}"))["state"]
        last = self._take_range(state, await self._state.expired())
        if (holes := state.get("num_deleted", 0)) != self._holes:
            lost = await missing(self._link, self._log)
            self._last_expired = max(
                self._last_expired, await self._state.expired()
            )  # it is raised before anything is deleted
            for seq in lost:
                await self._note_missing(seq, seq)
            self._holes = holes
        return last

    def _take_range(self, state: dict[str, Any], expired: int) -> int:
        first, last = state["first_seq"], int(state["last_seq"])
        self._bytes = state["bytes"]
        self._latest = max(self._latest, end_of(last) if last else 0)
        self._oldest = max(first, 1) * EVENTS_A_MESSAGE if state["messages"] else self._latest + 1
        self._last_expired = max(self._last_expired, expired, self._oldest - 1 if first > 1 else 0)
        return last

    def _damaged(self, first: int, last: int) -> None:
        """Note messages that cannot be read."""
        if self.corrupt.add(first * EVENTS_A_MESSAGE, end_of(last)):
            self._damages += last - first + 1
            _log.error("messages of the journal are damaged", first=first, last=last, journal=str(self._link.place))

    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)
        found = await read(self._log, after, end, wanted, max_bytes)
        if (
            found.missing or not wanted.matches_all
        ):  # events may have been deleted: the caller compares with `last_expired`
            await self._link.retry(self._refresh)
        for first, last in found.missing:
            await self._note_missing(first, last, are_all=not wanted.stream)
        return found.events, found.searched

    async def _note_missing(self, first: int, last: int, *, are_all: bool = True) -> None:
        """Note messages that are not there as damaged, save those that retention has deleted. `are_all`: else some of
        them are there. Raises `JournalError`."""
        first = max(first, (self._last_expired + 1) // EVENTS_A_MESSAGE)
        if first > last:
            return
        if are_all:
            self._damaged(first, last)
        else:
            after, end = first * EVENTS_A_MESSAGE - 1, end_of(last)
            while after < end:
                found = await read(self._log, after, end, ALL_EVENTS, SCAN_BYTES)
                after = found.searched
                for lost in found.missing:
                    self._damaged(*lost)

    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        if before > self._latest:  # other daemons may have committed since
            await self._link.retry(self._refresh)
        end = min(before, self._latest + 1)
        return await read_back(self._log, end, self.oldest, wanted, limit, max_bytes)

    async def event(self, seq: int) -> StoredEvent | None:
        message = await self._log.message(seq // EVENTS_A_MESSAGE)
        part = None if message is None else self._log.part(message)
        index = seq % EVENTS_A_MESSAGE
        return StoredEvent(seq, part.events[index]) if part is not None and index < len(part.events) else None

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        try:
            await self._link.retry(self._refresh, timeout=LIST_TIMEOUT)  # for `oldest`, `latest` and `bytes` in `stats`
            rows = await self._link.retry(self._state.rows, timeout=LIST_TIMEOUT)
        except JournalError:
            if not self._link.waits_for:
                raise
            rows = self._state.known_rows()
        return [row.info for row in rows if state in (None, row.info.state)][:limit]

    async def streams_of(self, session: str) -> list[StreamInfo]:
        rows = await self._link.retry(self._state.rows)
        return [row.info for row in rows if session in row.sessions and not row.expired]

    async def sessions(
        self,
        *,
        limit: int = 100,
        before: SessionPlace | None = None,
        order: SessionOrder = "seq",
        wanted: SessionFilter = ANY_SESSION,
    ) -> list[dict[str, Any]]:
        rows = await self._link.retry(self._state.rows)

        def page() -> list[dict[str, Any]]:
            found = [
                (key, one)
                for one in sessions_of(rows)
                if wanted.matches(one)
                and (key := place_of(one).key(order))
                and (before is None or key < before.key(order))
            ]
            found.sort(key=lambda item: item[0], reverse=True)
            return [one for _, one in found[:limit]]

        return await asyncio.to_thread(page)

    async def count_sessions(self, wanted: SessionFilter = ANY_SESSION) -> dict[str, dict[str, int]]:
        rows = await self._link.retry(self._state.rows)

        def count() -> dict[str, dict[str, int]]:
            found = [one for one in sessions_of(rows) if wanted.matches(one)]
            counts = {key: Counter(one[key] for one in found if key in one) for key in FACETS}
            return {key: dict(counted.most_common(MOST_COUNTED)) for key, counted in counts.items()}

        return await asyncio.to_thread(count)

    async def usage(self, request: UsageRequest) -> UsageResult:
        rows = await self._link.retry(self._state.rows)
        return await asyncio.to_thread(lambda: report(spending_of(rows), request))

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        if stream is not None and (own := self._rows.get(stream)) is not None:
            rows = [own.row]
        else:
            rows = await self._link.retry(self._state.rows)
        return open_calls_of(rows, session, stream)

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._outputs.read(output_id, offset, length, unit)

    async def daemons(self) -> set[str]:
        return await self._link.retry(self._state.alive)

    async def load_note(self, name: str) -> bytes | None:
        return await self._link.retry(self._state.note, name)
