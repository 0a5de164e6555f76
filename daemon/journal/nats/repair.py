"""Making the rows again where they are lost: they say nothing that the messages do not say.

Where rows were lost, so was `expired`. All messages that are missing count as expired then: what deleted them is not
known any more.

A daemon that is killed may have committed what it has not written into the rows. Its publishers may not come back, and
then nobody loads these streams, although they wait for something: to be closed, or for views. So other daemons bring up
these rows, and so does its next life.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from typing import Any
from urllib.parse import unquote

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.link import Link
from tooltap.daemon.journal.nats.load import load
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import end_of
from tooltap.daemon.journal.nats.state import State
from tooltap.daemon.system.logs import get_logger

__all__ = ["CatchUp", "make_rows", "missing"]

_log = get_logger("journal")
MOST_DETAILS = 1_000_000
"""Most missing messages of which the server is asked for a list."""


async def make_rows(link: Link, log: Log, state: State) -> int:
    """Returns how many. Raises `JournalError`."""
    await link.retry(_raise_expired, link, log, state)
    made = 0
    async for stream in _streams(link, log):
        made += await _bring_row_up(link, log, state, stream)
    return made


class CatchUp:
    def __init__(self, link: Link, log: Log, state: State) -> None:
        self._link = link
        self._log = log
        self._state = state
        self._alive: set[str] = set()
        self._is_due = False

    async def at_start(self) -> None:
        """Bring up the rows that an earlier daemon has left behind. It may still count as alive."""
        try:
            await self._bring_up(())
        except JournalError as error:  # rows are hints
            _log.warning("cannot look for leftovers of an earlier daemon", reason=str(error))
            self._is_due = True

    async def look(self) -> None:
        """The same, once another daemon no longer counts as alive. Raises `JournalError`."""
        alive = await self._link.retry(self._state.alive)
        if self._is_due or self._alive - alive:
            await self._bring_up(() if self._is_due else alive)
        self._alive, self._is_due = alive, False

    async def _bring_up(self, alive: Container[str]) -> None:
        rows = {row.info.stream: row for row in await self._link.retry(self._state.rows)}
        async for stream in _streams(self._link, self._log):
            if (row := rows.get(stream)) is not None:
                if row.owner in alive or (row.info.state == "ended" and not row.info.rewriting):
                    continue
                last = await self._link.retry(self._log.last, stream)
                if last is None or last.seq <= row.message:
                    continue
            await _bring_row_up(self._link, self._log, self._state, stream)


async def _bring_row_up(link: Link, log: Log, state: State, stream: str) -> bool:
    loaded = await load(link, log, state, stream)
    return loaded is not None and loaded.advanced and await link.retry(state.put, loaded.own)


async def _streams(link: Link, log: Log) -> AsyncIterator[str]:
    """All streams that have messages."""
    offset = 0
    while True:
        info = await link.retry(_subjects, link, log, offset)
        subjects = info["state"].get("subjects") or {}
        for subject in subjects:
            yield unquote(subject.rpartition(".")[2])
        offset += len(subjects)
        if not subjects or offset >= info.get("total", 0):
            break


async def missing(link: Link, log: Log) -> list[int]:
    """Sequences of the messages that are missing between the first and the last. Raises `AwayError`, `JournalError`."""
    known = (await link.api(f"STREAM.INFO.{log.stream}"))["state"]
    if not 0 < known.get("num_deleted", 0) <= MOST_DETAILS:
        return []
    details = (await link.api(f"STREAM.INFO.{log.stream}", deleted_details=True))["state"]
    return details.get("deleted") or []


async def _subjects(link: Link, log: Log, offset: int) -> dict[str, Any]:
    return await link.api(f"STREAM.INFO.{log.stream}", subjects_filter=log.everything, offset=offset)


async def _raise_expired(link: Link, log: Log, state: State) -> None:
    first = (await link.api(f"STREAM.INFO.{log.stream}"))["state"]["first_seq"]
    if last := max([first - 1, *await missing(link, log)]):
        await state.raise_expired(end_of(last))
