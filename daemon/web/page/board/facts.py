"""What the board tells of a session: `Facts`, gathered from its row, its open calls and the last of its events.

What an event says is read again only when the session has newer ones. Each look reads a few events, found by an index,
however long the session is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import anyio

from tooltap.daemon.journal.interface import CorruptError, Journal, StoredEvent
from tooltap.daemon.sessions.filter import SessionFilter
from tooltap.daemon.sessions.running import RunningSession, find_running
from tooltap.daemon.show.blocks import short
from tooltap.daemon.show.shown import Fragment, key_of
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.session_head import status_of
from tooltap.daemon.web.page.timeline import NEWEST
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import Message, PermissionRequest, ToolCall, ToolUpdate, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.tools import TodoWriteInput

__all__ = ["MOST", "RECENT_MS", "Ask", "Call", "Facts", "Gathered", "Plan", "Said", "Subagent", "SessionsNow"]

MOST = 24
"""Maximum number of columns of running sessions."""
LOOKED_AT = 200
"""Maximum number of running sessions from which the board chooses."""
MOST_ENDED = 6
RECENT_MS = 600_000
"""How long after its last event a session that has ended is on the board."""
MOST_ASKS = 4
MOST_SUBAGENTS = 8
MESSAGES = 16
"""Newest messages among which the last words of the main agent are looked for."""
LISTS = 4
"""Newest to-do lists among which that of the main agent is looked for."""
READ_BYTES = 131_072
WORDS = 700
"""Code points of the last words."""
ARGUMENT = 200


class Said(NamedTuple):
    text: str
    seq: int
    ts: int | None


class Plan(NamedTuple):
    done: int
    total: int
    step: str
    """What is in progress, or else to do next; empty if all is done."""


class Call(NamedTuple):
    key: str
    name: str
    argument: str
    family: str
    seq: int
    since: int | None


class Subagent(NamedTuple):
    task: Call
    call: Call | None
    """What it does now."""


class Ask(NamedTuple):
    """What it waits for."""

    request: Fragment
    call: Fragment | None
    """The call that it asks about, if the request does not repeat what that is."""


class Told(NamedTuple):
    """What the events of a session tell."""

    said: Said | None = None
    plan: Plan | None = None


class Facts(NamedTuple):
    row: dict[str, Any]
    status: str
    since: int | None
    """When what it does now began, or when it ended, in milliseconds since the epoch."""
    ended: bool
    told: Told
    call: Call | None = None
    others: int = 0
    """Other calls that run."""
    subagents: Sequence[Subagent] = ()
    more_subagents: int = 0
    asks: Sequence[Ask] = ()


class Gathered(NamedTuple):
    columns: list[Facts]
    running: int
    waiting: int
    hidden: int
    """Number of running sessions without a column."""
    at_least: bool
    """There may be more of them."""


class SessionsNow:
    """Gathers facts, and remembers what the events told."""

    def __init__(self, journal: Journal, fragments: Fragments) -> None:
        self._journal = journal
        self._fragments = fragments
        self._told: dict[str, tuple[int, Told]] = {}
        """Session -> its `lastSeq`, and what its events told up to it."""

    async def gather(self, now: int) -> Gathered:
        """`now`: milliseconds since the epoch. Raises `JournalError`."""
        rows = await self._journal.sessions(
            limit=LOOKED_AT, order="time", wanted=SessionFilter(status=("running", "waiting"))
        )
        found = find_running(rows, await self._journal.open_calls())
        waiting = [one for one in found if one.status == "waiting"]
        running = [one for one in found if one.status == "running"]
        shown = sorted([*waiting, *running][:MOST], key=lambda one: _start(one.session), reverse=True)
        ended = await self._journal.sessions(
            limit=MOST_ENDED,
            order="time",
            wanted=SessionFilter(status=("completed", "failed", "interrupted"), since=now - RECENT_MS),
        )
        columns = [await self._of(one) for one in shown]
        for row in ended:
            told = await self._told_by(row)
            columns.append(Facts(row, status_of(row), row.get("lastTs"), True, told))
        names = {one.row["session"] for one in columns}
        self._told = {name: told for name, told in self._told.items() if name in names}
        return Gathered(columns, len(running), len(waiting), len(found) - len(shown), len(rows) == LOOKED_AT)

    async def _of(self, one: RunningSession) -> Facts:
        asked = {(row["stream"], row.get("callId")) for row in one.asked}
        main = [row for row in one.calls if "agent" not in row and not _is_task(row)]
        runs = [_call(row) for row in main if (row["stream"], row["callId"]) not in asked]
        tasks = [row for row in one.calls if _is_task(row)]
        return Facts(
            one.session,
            one.status,
            one.since,
            False,
            await self._told_by(one.session),
            runs[-1] if runs else None,
            max(len(runs) - 1, 0),
            [Subagent(_call(task), _current(task, one.calls)) for task in tasks[:MOST_SUBAGENTS]],
            max(len(tasks) - MOST_SUBAGENTS, 0),
            await self._asks(one.asked[:MOST_ASKS], one.calls),
        )

    async def _asks(self, asked: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]]) -> list[Ask]:
        of_call = {(row["stream"], row["callId"]): row["seq"] for row in calls}
        asks = []
        for row in asked:
            call = of_call.get((row["stream"], row.get("callId")))
            shown = await self._shown([row["seq"]] if call is None else [row["seq"], call])
            request = next((one for one in shown if one.seq == row["seq"]), None)
            if request is not None:
                is_whole = isinstance(request.event, PermissionRequest) and request.event.input
                asks.append(Ask(request, None if is_whole else next((one for one in shown if one.seq == call), None)))
        return asks

    async def _shown(self, seqs: Sequence[int]) -> list[Fragment]:
        found = []
        for seq in seqs:
            with suppress(CorruptError):
                found.append(await self._journal.event(seq))
        return await self._fragments.of([one for one in found if one is not None], lambda _: "full")

    async def _told_by(self, row: dict[str, Any]) -> Told:
        name, last = row["session"], row["lastSeq"]
        known = self._told.get(name)
        if known is None or known[0] != last:
            messages = await self._newest(Filter(session=(name,), kind=("message",)), MESSAGES)
            lists = Filter(session=(name,), kind=("tool-call", "tool-update"), tool=("TodoWrite",))
            told = await anyio.to_thread.run_sync(_told, messages, await self._newest(lists, LISTS))
            known = self._told[name] = last, told
        return known[1]

    async def _newest(self, wanted: Filter, limit: int) -> list[StoredEvent]:
        found, _ = await self._journal.read_back(NEWEST, wanted, limit=limit, max_bytes=READ_BYTES)
        return found


def _told(messages: list[StoredEvent], lists: list[StoredEvent]) -> Told:
    """Both newest first."""
    return Told(
        next((said for one in messages if (said := _said(one)) is not None), None),
        next((plan for one in lists if (plan := _plan(one)) is not None), None),
    )


def _said(stored: StoredEvent) -> Said | None:
    event = decode(stored.body)
    if not isinstance(event, Message) or event.role != "assistant" or event.agent is not None:
        return None
    text = event.text.strip()
    return Said(text if len(text) <= WORDS else f"{text[:WORDS]}…", stored.seq, event.ts) if text else None


def _plan(stored: StoredEvent) -> Plan | None:
    event = decode(stored.body)
    if not isinstance(event, ToolCall | ToolUpdate) or event.agent is not None or event.input is None:
        return None
    todos = TodoWriteInput.from_payload(event.input).todos or []
    if not todos:
        return None
    done = sum(one.status == "completed" for one in todos)
    left = [one for one in todos if one.status not in ("completed", "cancelled")]
    now = next((one for one in left if one.status == "in_progress"), left[0] if left else None)
    return Plan(done, len(todos), "" if now is None else short(now.content or "", ARGUMENT))


def _call(row: dict[str, Any]) -> Call:
    """`row`: an open call."""
    name = str(row.get("name") or "?")
    argument = short(str(row.get("preview") or row.get("title") or ""), ARGUMENT)
    key = key_of(row["stream"], str(row["callId"]))
    return Call(key, short(name, ARGUMENT), argument, family_of(name), row["seq"], row.get("ts"))


def _is_task(row: dict[str, Any]) -> bool:
    return row.get("name") == "Task"


def _current(task: dict[str, Any], calls: Sequence[dict[str, Any]]) -> Call | None:
    """Return the newest open call of the subagent that this call has spawned."""
    inside = [one for one in calls if task["callId"] in (one.get("parent"), one.get("agent"))]
    return _call(inside[-1]) if inside else None


def _start(row: dict[str, Any]) -> tuple[int, int]:
    return row.get("firstTs") or 0, row["firstSeq"]
