"""Subagents and the calls that started them, where agent and call are in different streams.

Agents keep the sessions of their subagents in files of their own. Such a file may say which session it belongs to, but
not which call has started it; the file with the call says, at some time, which agent it has started. Once both are
known, in either order, the events of the subagent's stream state the call as their `parent`, and one additional event
states it for the earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.joining import NextCommit
from tooltap.normalizers.core.state import put
from tooltap.normalizers.tools.tasks import spawned_agent
from tooltap.protocol.events import ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.filters import Filter

REMEMBERED = 4_096
"""Maximum agents whose call is cached. For others the journal is read."""


class Spawned(NamedTuple):
    """An agent, and the call that has started it."""

    session: str
    agent: str
    call_id: str
    is_kept: bool = True
    """Whether the stream itself reports the call. Another stream may report it under another id."""


class Subagents:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._calls: dict[str, str] = {}
        """`<session>/<agent>` -> id of the call."""

    def unstated(self, live: NextCommit) -> list[tuple[str, Spawned]]:
        """Return the stream and the call of its agent, if the call is known and the stream does not state it yet."""
        info = live.info
        if info.agent is None or info.parent is not None:
            return []
        call = self._calls.get(_key(info.last_session or "", info.agent))
        return [] if call is None else [(info.stream, Spawned(info.last_session or "", info.agent, call))]

    def remember(self, spawned: Sequence[Spawned]) -> None:
        for one in spawned:
            put(self._calls, _key(one.session, one.agent), one.call_id, REMEMBERED)

    async def streams_of(self, spawned: Sequence[Spawned]) -> list[tuple[str, Spawned]]:
        """Find the streams of these agents that do not know their calls. Raises `JournalError`."""
        found = []
        for session in dict.fromkeys(one.session for one in spawned):
            agents = {one.agent: one for one in spawned if one.session == session}
            for info in await self._journal.streams_of(session):
                if info.parent is None and info.agent in agents:
                    found.append((info.stream, agents[info.agent]))
        return found

    async def call_of(self, session: str, agent: str) -> str | None:
        """Find the call that has started an agent. Raises `JournalError`."""
        known = self._calls.get(_key(session, agent))
        wanted = Filter(kind=("tool-result", "tool-update"), session=(session,), tool=("Task",))
        after, latest = 0, self._journal.latest
        while known is None and after < latest:
            stored, after = await self._journal.read(after, wanted, up_to=latest)
            events = [event for one in stored if isinstance(event := decode(one.body), ToolResult | ToolUpdate)]
            known = next((event.call_id for event in events if spawned_agent(event) == agent), None)
        return known

    async def is_reported(self, spawned: Spawned) -> bool:
        """Return whether a stream has reported the call. Raises `JournalError`."""
        wanted = Filter(kind=("tool-call",), session=(spawned.session,))
        after, latest = 0, self._journal.latest
        while after < latest:
            stored, after = await self._journal.read(after, wanted, up_to=latest)
            calls = [event for one in stored if isinstance(event := decode(one.body), ToolCall)]
            if any(call.call_id == spawned.call_id for call in calls):
                return True
        return False


def _key(session: str, agent: str) -> str:
    return f"{session}/{agent}"
