"""Answers permission requests by rules, as soon as they are durable, and the way that all answers go.

What waits already is answered, too: when a publisher connects, after a start of the daemon or at another daemon, and
when the rules change. Of several daemons, only the one that has the publisher answers, by its own rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.answers.rules import ASK, AnswerRule, Decision, decide
from tooltap.daemon.journal.interface import Commit, Journal
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import with_seq
from tooltap.protocol.frames import AnswerRequest, ErrorCode, FrameError
from tooltap.protocol.replies import AnswerResult

NOT_OURS: tuple[ErrorCode, ...] = ("already-answered", "not-found", "no-publisher", "refused")
"""Errors after which the request is a person's: somebody was faster, or nobody can answer from here."""

_log = get_logger("answers")


class RuleAnswers:
    """`answer` gives an answer, as it does for clients, if this daemon has the publisher."""

    def __init__(
        self,
        journal: Journal,
        rules: Sequence[AnswerRule],
        tasks: TaskGroup,
        answer: Callable[[AnswerRequest], Awaitable[AnswerResult]],
    ) -> None:
        self._rules = rules
        self._journal = journal
        self._tasks = tasks
        self._answer = answer

    def put(self, commit: Commit, *, is_first: bool) -> None:
        """Answer what a durable commit asks, as far as rules say so; `is_first`, of its publisher's connection: also
        what the stream has asked before. Must not block."""
        stream = commit.info.stream
        if not self._rules:
            return
        if is_first:
            self._tasks.start_soon(self._answer_open, stream, name=f"rules for {stream}")
            return
        for one in commit.outputs:
            if isinstance(one, Produced) and one.kind == "permission-request" and not one.replay:
                asked = msgspec.json.decode(one.body)["permissionId"]
                self._tasks.start_soon(self.answer, one.stream, asked, name=f"rules for {one.stream}")

    def apply(self, rules: Sequence[AnswerRule]) -> None:
        """Replace the rules, and answer what waits. Must not block."""
        has_changed = rules != self._rules
        self._rules = rules
        if rules and has_changed:
            self._tasks.start_soon(self._answer_open, None, name="changed rules")

    async def _answer_open(self, stream: str | None) -> None:
        """Answer what a stream asks, or what all of them do."""
        try:
            opened = (await self._journal.open_calls(stream=stream))["permissions"]
        except Exception as error:
            faults.note("rules did not answer what waits", place_of(error), error)
            return
        for one in opened:
            await self.answer(one["stream"], one["permissionId"])

    async def answer(self, stream: str, permission_id: str) -> None:
        """Answer one open request, if the rules do not leave it to a person. Whatever fails leaves it to a person."""
        try:
            decision = await self._decide(stream, permission_id)
            if decision.answer == "ask":
                return
            await self._answer(_request(stream, permission_id, decision))
        except FrameError as error:
            if error.code not in NOT_OURS:
                _log.warning("a rule could not answer", stream=stream, reason=str(error))
        except Exception as error:
            faults.note("rules did not answer", place_of(error), error, stream=stream)

    async def _decide(self, stream: str, permission_id: str) -> Decision:
        """Raises `JournalError`."""
        opened = await self._journal.open_calls(stream=stream)
        row = next((one for one in opened["permissions"] if one["permissionId"] == permission_id), None)
        event = None if row is None else await self._event(row["seq"])
        if event is None or event.get("replay"):
            return ASK
        wanted = SessionFilter(session=(event["session"],))
        sessions = await self._journal.sessions(limit=1, wanted=wanted)
        asking = next((one for one in opened["calls"] if one["callId"] == event.get("callId")), None)
        call = None if asking is None else await self._event(asking["seq"])
        return decide(self._rules, event, sessions[0], (call or {}).get("input")) if sessions else ASK

    async def _event(self, seq: int) -> dict[str, Any] | None:
        stored = await self._journal.event(seq)
        return None if stored is None else msgspec.json.decode(with_seq(stored.seq, stored.body))


def _request(stream: str, permission_id: str, decision: Decision) -> AnswerRequest:
    [first, *_] = decision.rules
    is_denial = decision.answer == "deny"
    return AnswerRequest(
        permission_id=permission_id,
        stream=stream,
        outcome="denied" if is_denial else "allowed",
        message=(first.message or f"This is denied by the rule {first.name!r} of the user.") if is_denial else None,
        by=decision.by[:200],
    )
