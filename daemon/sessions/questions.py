"""Questions that hooks have asked: which of them something else asks, too, and whether the rest of their session shows
that they were answered elsewhere.

Nobody tells a hook that its question was answered in the terminal. But the session's own stream, a followed file or a
tap, shows it: the call that was asked about has a result, the turn is over, or the user says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.projection import FROM_HOOK, HOOKS
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.tools.registry import ASKING
from tooltap.protocol.events import Message, PermissionRequest, PermissionResponse, ToolCall, ToolResult, Turn, decode

_NOT_STATED = frozenset({"_happy", "_raw", "description"})
_OUTCOMES = {"denied": "denied", "cancelled": "cancelled"}
"""Status of a result -> outcome of the question before it; any other: `allowed`."""


def without_repetitions(
    asked: Sequence[Mapping[str, Any]], is_reached: Callable[[Mapping[str, Any]], bool]
) -> list[Mapping[str, Any]]:
    """Return the open permissions of all sessions, each question once. Of several that ask the same, that of the first
    kind is left: one that can be answered (`is_reached`); that of a tap; that of a hook; a call that asks."""
    ranks = [(is_reached(one), _RANKS[_kind(one)]) for one in asked]
    best: dict[tuple[str, str | None, str | None], tuple[bool, int]] = {}
    for one, rank in zip(asked, ranks, strict=True):
        best[_about(one)] = max(best.get(_about(one), rank), rank)
    return [one for one, rank in zip(asked, ranks, strict=True) if one.get("name") is None or rank == best[_about(one)]]


def _about(one: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    return one["session"], one.get("name"), one.get("agent")


_RANKS = {"call": 0, "hook": 1, "tap": 2}


def _kind(one: Mapping[str, Any]) -> str:
    if one.get("fromCall", False):
        return "call"
    return "hook" if is_of_hook(one) else "tap"


def is_of_hook(one: Mapping[str, Any]) -> bool:
    """Return whether a hook has asked for an open permission."""
    return one.get(FROM_HOOK, False) is True


class Settled(NamedTuple):
    """A question that was answered elsewhere."""

    stream: str
    permission_id: str
    outcome: str | None
    """None: it is over, and nothing shows how it was answered."""


class _Open(msgspec.Struct):
    """An open question of a hook."""

    request: PermissionRequest
    call_id: str | None = None
    """The call that is asked about, once it is known."""

    def is_about(self, call: ToolCall) -> bool:
        """Whether the question is about this call: in its session, the same tool, and nothing that both state of its
        input differs. Hooks of most agents state only a part of it, and describe it in other words."""
        request = self.request
        if (call.name, call.agent) != (request.name, request.agent):
            return False
        asked, made = stated(request.input), stated(call.input)
        common = asked.keys() & made.keys()
        is_same = all(asked[key] == made[key] for key in common) and (bool(common) or not asked)
        return request.name in ASKING or is_same


class Questions:
    """The open questions of all hooks. `settle` is called with each that was answered elsewhere; `find` with the
    session of each new question, whose call may have been reported before."""

    def __init__(self, journal: Journal, settle: Callable[[Settled], object], find: Callable[[str], object]) -> None:
        self._journal = journal
        self._settle = settle
        self._find = find
        self._open: dict[str, dict[str, _Open]] = {}
        """Session -> stream -> its question."""

    def note(self, dialect: str | None, outputs: Iterable[Produced | OutputChunk]) -> None:
        """Take note of what was committed of a stream."""
        if dialect == HOOKS:
            for event in _kinds(outputs, "permission-request", "permission-response"):
                self._note_hook(decode(event.body))
                if event.session in self._open:
                    self._find(event.session)
        elif self._open:
            for event in _kinds(outputs, "tool-call", "tool-result", "turn", "message"):
                if event.session in self._open:
                    self._note_session(event)

    async def restore(self) -> None:
        """At startup: find the open questions in the journal. Raises `JournalError`."""
        for row in (await self._journal.open_calls())["permissions"]:
            if is_of_hook(row):
                stored = await self._journal.event(row["seq"])
                if stored is not None:
                    self._note_hook(decode(stored.body))
        for session in list(self._open):
            await self.find_call(session)

    async def find_call(self, session: str) -> None:
        """Look for the calls that a session's questions are about among its open calls. Raises `JournalError`."""
        for row in (await self._journal.open_calls(session))["calls"]:
            if any(one.call_id is None and one.request.name == row.get("name") for one in self._of(session)):
                stored = await self._journal.event(row["seq"])
                if stored is not None:
                    self._match(decode(stored.body))

    def _of(self, session: str) -> list[_Open]:
        return list(self._open.get(session, {}).values())

    def _note_hook(self, event: Any) -> None:
        if isinstance(event, PermissionRequest):
            self._open.setdefault(event.session, {})[event.stream] = _Open(event)
        elif isinstance(event, PermissionResponse):
            self._forget(event.session, event.stream)

    def _forget(self, session: str, stream: str) -> None:
        questions = self._open.get(session, {})
        questions.pop(stream, None)
        if not questions:
            self._open.pop(session, None)

    def _match(self, call: Any) -> None:
        if isinstance(call, ToolCall):
            found = next((one for one in self._of(call.session) if one.call_id is None and one.is_about(call)), None)
            if found is not None:
                found.call_id = call.call_id

    def _note_session(self, produced: Produced) -> None:
        event: Any = decode(produced.body)
        if isinstance(event, ToolCall):
            self._match(event)
            return
        for one in self._of(event.session):
            request = one.request
            if event.ts is None or request.ts is None or event.ts < request.ts:
                continue
            if isinstance(event, ToolResult):
                if event.call_id == one.call_id:
                    self._end(one, _OUTCOMES.get(event.status, "answered" if request.questions else "allowed"))
            elif event.agent is None and _is_over(event):
                self._end(one, None)

    def _end(self, one: _Open, outcome: str | None) -> None:
        request = one.request
        self._forget(request.session, request.stream)
        self._settle(Settled(request.stream, request.permission_id, outcome))


def stated(payload: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the input of a call states: without what tooltap adds to it, and without its description."""
    return {key: value for key, value in (payload or {}).items() if key not in _NOT_STATED}


def _is_over(event: Any) -> bool:
    """Whether an event of the main agent shows that its questions are over."""
    if isinstance(event, Turn):
        return event.state != "started" and not event.synthetic
    return isinstance(event, Message) and event.role == "user"


def _kinds(outputs: Iterable[Produced | OutputChunk], *kinds: str) -> Iterator[Produced]:
    for one in outputs:
        if isinstance(one, Produced) and one.kind in kinds and not (one.partial or one.replay):
            yield one
