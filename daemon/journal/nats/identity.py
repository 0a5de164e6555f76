"""Whether the server still has the journal that this daemon knows, or another one under its name.

A store can be wiped, truncated, restored from a backup, or purged by hand, under a live daemon and between its lives.
Numbers are then used again for other events, so the journal gets a new id, and every cursor and position of the old one
is void. What tells the two apart:

- The stream's metadata has the journal's id. A stream that is gone is created again, with a new id.
- A daemon remembers the newest message that it knows (`Anchor`): its sequence, and the id of its commit, which no other
  commit has. A journal that ends before it, or has another commit there, was replaced. The anchor is also in a
  file (`memory.py`), for the next start.
- All that tooltap deletes is at or below `expired`, which is raised first. If the first message is beyond it, and the
  stream has no limit that deletes old messages, somebody else has purged it.

The daemon that notices first assigns the new id, under a lease, so that only one does. The others see the id. A server
that was cut off from its cluster may believe for some seconds that it still leads the cluster, and that the journal
ends earlier; so where several servers store the journal, one more message is stored first (`_confirm`), which only a
majority can do.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple

from tooltap.daemon.journal.interface import Commit, StreamInfo
from tooltap.daemon.journal.nats.link import AwayError, Link
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.memory import Memory
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, commit_of, encode_commit, encode_part
from tooltap.daemon.journal.nats.setup import Found, Keep, rename, set_up
from tooltap.daemon.journal.nats.state import State
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.stats import Statistics

__all__ = ["Anchor", "Identity"]

LEASE = 10
"""Seconds for which one daemon alone gives the journal a new id."""
CHECK_STREAM = "journal check"
"""No stream of a publisher can have this name."""
PURGED = "its oldest events were deleted by somebody else"
LIMITS = ("max_bytes", "max_msgs", "max_age", "max_msgs_per_subject")

_log = get_logger("journal")


class Anchor(NamedTuple):
    seq: int
    commit: str


class Identity:
    def __init__(self, link: Link, log: Log, state: State, memory: Memory, daemon: str) -> None:
        self.id = ""
        self.rows_are_lost = False
        """The rows have to be made again, of the messages."""
        self.rows_are_others = False
        """Rows read so far are no longer valid."""
        self._link = link
        self._log = log
        self._state = state
        self._memory = memory
        self._daemon = daemon
        self._anchor: Anchor | None = None
        self._first = 0
        """Sequence of the first message at the last check."""

    def learn(self, seq: int, commit: str) -> None:
        """Remember the newest message."""
        if self._anchor is None or seq > self._anchor.seq:
            self._anchor = Anchor(seq, commit)

    async def check(self) -> None:
        """Find out which journal the server has, and create what is missing: `id`. Raises `AwayError`,
        `JournalError`."""
        anchor = self._anchor  # what is learned from here on may be newer than the answer
        found = await self._set_up()
        known = self.id or found.id
        if not self.id and (remembered := self._memory.read(found.id)) is not None:
            anchor = self._anchor = Anchor(*remembered)
        if found.id == known and (what := await self._differs(found, anchor)):
            found = await self._rename(found, what)
        if found.id != known:
            self._anchor = None
        self.rows_are_others |= found.id != self.id or found.last_row < self._state.read_up_to
        self.id, self._first = found.id, found.first
        is_newer = self._anchor is None or found.last > self._anchor.seq
        last = await self._link.last(self._log.stream, self._log.everything) if found.last and is_newer else None
        if last is not None:
            self.learn(last.seq, commit_of(last.data))
        await self.remember()

    async def remember(self) -> None:
        """Write the newest message known into the file for the next life."""
        if self._anchor is not None:
            await asyncio.to_thread(self._memory.write, self.id, *self._anchor)

    async def _set_up(self) -> Found:
        log, state = self._log, self._state
        found = await set_up(self._link, (log.stream, log.everything), (state.stream, state.subjects))
        self.rows_are_lost |= found.rows_are_lost
        return found

    async def _differs(self, found: Found, anchor: Anchor | None) -> str:
        """Why this is not the journal that was known, although it has its id; empty if it is."""
        if anchor is not None and found.last < anchor.seq:
            return await self._confirm(found, anchor)
        if anchor is not None and found.last > anchor.seq:
            message = await self._link.next(self._log.stream, anchor.seq, self._log.everything)
            if message is not None and message.seq == anchor.seq and commit_of(message.data) != anchor.commit:
                return "its events are different from before"
        if found.first > max(self._first, 1):
            if any(found.config.get(limit, -1) > 0 for limit in LIMITS):
                await self._state.raise_expired(found.first * EVENTS_A_MESSAGE - 1)
            elif (found.first - 1) * EVENTS_A_MESSAGE > await self._state.expired():
                return PURGED
        return ""

    async def _confirm(self, found: Found, anchor: Anchor) -> str:
        if found.config.get("num_replicas", 1) > 1:
            commit_id = f"{self._daemon}/check-{secrets.token_hex(4)}"
            info = StreamInfo(
                stream=CHECK_STREAM, state="ended", statistics=Statistics(stream=CHECK_STREAM, dialect="", provider="")
            )
            (part,) = encode_commit(Commit(info, 0, (), ()), commit_id, 0, self._link.max_payload)
            if await self._link.publish(self._log.subject(CHECK_STREAM), [encode_part(part)]) > anchor.seq:
                return ""
        return "it ends earlier than it did"

    async def _rename(self, found: Found, what: str) -> Found:
        """Give the journal a new id."""
        if not await self._state.take_lease("renaming", LEASE):
            raise AwayError("another daemon is finding out what happened to the journal")
        keep: Keep = "all" if what == PURGED else "expired"
        if keep == "all":
            await self._state.raise_expired(found.first * EVENTS_A_MESSAGE - 1)
        _log.warning("the journal was replaced, and gets a new id", journal=str(self._link.place), why=what)
        await rename(self._link, self._log.stream, self._state.stream, secrets.token_hex(8), keep)
        found = await self._set_up()
        await self._state.return_lease("renaming")
        return found
