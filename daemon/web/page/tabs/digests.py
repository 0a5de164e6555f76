"""Digests of a session for its tabs, and the places that they name: the turn, the time, the call, and the link there.

A digest reads the session's events once, and only new ones when it is asked again. A visible tab asks every two seconds
while the session is running. A few sessions are remembered for each tab, the most recently asked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import anyio

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.row import first_line_of
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.show.turn_naming import TurnNaming
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.web.page.addresses import session_url
from tooltap.protocol.events import head_of, is_turn_start
from tooltap.protocol.filters import Filter


class Place(NamedTuple):
    seq: int
    ts: int | None
    turn: int
    """Number of the main agent's turn; 0 before the first."""
    name: str = ""
    """Name of the tool, for a call."""


class TurnCount:
    """Numbers the turns of the main agent, from 1."""

    def __init__(self) -> None:
        self.number = 0

    def note(self, state: str, agent: str | None) -> bool:
        """Count a `turn` event; return whether it starts a turn of the main agent."""
        starts = is_turn_start(state, agent)
        self.number += starts
        return starts


class TurnNames:
    """Digest of a session: the names of its turns."""

    KINDS: ClassVar[tuple[str, ...]] = ("turn", "message", "tool-call")

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._naming = TurnNaming[str]()
        self._number = 0
        self._is_open = False
        self._settled: str | None = ""
        """Id of the turn, after its provisional end; empty if it has none."""

    def note(self, seq: int, body: bytes) -> None:
        head = head_of(body)
        if head.replay:
            return
        if head.kind == "tool-call" or (head.role == "assistant" and head.agent is None):
            self._naming.act()
        if head.goes_on and head.turn == self._settled:
            self._is_open = True
        if head.starts_turn:
            self._number += 1
            self._is_open, self._settled = True, ""
            self._name(self._naming.start())
        elif head.kind == "turn" and head.agent is None:
            self._is_open, self._settled = False, head.turn if head.provisional else ""
        elif head.role == "user" and head.agent is None and (said := first_line_of(head.text)):
            self._name(self._naming.say(said, in_turn=self._is_open))

    def names(self) -> dict[int, str]:
        """Return the names of turns that have one, by their numbers from 1."""
        return dict(self._names)

    def _name(self, name: str | None) -> None:
        if name is not None and (self._number in self._names or len(self._names) < NAMED):
            self._names[self._number] = name


def place_url(session: str, seq: int) -> str:
    """Return the address of an event in its session."""
    return f"{session_url(session, at=seq)}#e{seq}"


REMEMBERED = 4
NAMED = 10_000
"""Maximum turns of a session whose names are remembered."""


class Digest(Protocol):
    KINDS: ClassVar[tuple[str, ...]]
    """Kinds of the events that `note` is given."""

    def note(self, seq: int, body: bytes) -> None: ...


D = TypeVar("D", bound=Digest)
_log = get_logger("web")


class _Entry(Generic[D]):
    def __init__(self, digest: D, reached: int) -> None:
        self.digest = digest
        self.reached = reached
        """All events up to this `seq` are noted."""
        self.lock = anyio.Lock()

    def note(self, found: Sequence[StoredEvent], reached: int) -> None:
        """Note events and how far they reach, in one call: a request that is cancelled between the two would have
        events noted twice or left out."""
        for stored in found:
            try:
                self.digest.note(stored.seq, stored.body)
            except Exception:
                _log.exception("a tab leaves out an event", seq=stored.seq)
        self.reached = reached


class Digests(Generic[D]):
    def __init__(self, journal: Journal, new: type[D]) -> None:
        self._journal = journal
        self._new = new
        self._entries: OrderedDict[tuple[str, str, int], _Entry[D]] = OrderedDict()

    @asynccontextmanager
    async def of(self, row: dict[str, Any]) -> AsyncIterator[D]:
        """Yield the digest of a session, by its row in `sessions`, while nobody else changes it. Raises
        `JournalError`."""
        # A session that was deleted and ingested again begins elsewhere, and so may one in another journal.
        key = (self._journal.id, str(row["session"]), int(row["firstSeq"]))
        entry = self._entries.pop(key, None) or _Entry(self._new(), row["firstSeq"] - 1)
        self._entries[key] = entry
        if len(self._entries) > REMEMBERED:
            self._entries.popitem(last=False)
        async with entry.lock:
            await self._catch_up(entry, SessionEvents(self._journal, [row]))
            yield entry.digest

    async def _catch_up(self, entry: _Entry[D], stored: SessionEvents) -> None:
        wanted = Filter(kind=entry.digest.KINDS)
        latest = self._journal.latest
        while entry.reached < latest:
            found, reached = await stored.read(entry.reached, wanted, up_to=latest)
            await anyio.to_thread.run_sync(entry.note, found, reached)
