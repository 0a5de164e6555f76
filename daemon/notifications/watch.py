"""Finds what to call a person for, each once: questions that wait, turns that have ended, sessions that are silent,
costs and quotas over a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from tooltap.daemon.formats import dollars
from tooltap.daemon.notifications.rules import CallRule, Reason
from tooltap.daemon.sessions.listing import asked_text, name_of, option_names, project_of
from tooltap.protocol.replies import Waiting

R = TypeVar("R", bound=CallRule)
REASONS: dict[str, Reason] = {"completed": "done", "failed": "failed"}
"""Status of a session whose turn has ended -> reason."""
ENDS: tuple[Reason, ...] = ("done", "failed")
FIGURES: tuple[Reason, ...] = ("cost", "quota")
MOST_CALLED = 10_000
"""Calls that are remembered, so that none is made twice."""
QUESTION_AGE = 3_600_000
"""Milliseconds after which nobody is called for a question."""


class Call(NamedTuple):
    """What a person may be called for."""

    reason: Reason
    key: tuple[str | int, ...]
    """Identifies the question, or the end of a turn."""
    session: Mapping[str, Any]
    """The session's row, as in a reply to `sessions`; for a question, its id, title, agent and project."""
    question: Waiting | None
    since: float
    """When it was seen first, on the monotonic clock."""
    figures: Mapping[str, float] = {}
    """Agent -> dollars, or percent of its quota."""
    about: str = ""
    """What the figures are of, for a person."""


class Watch(Generic[R]):
    """Finds what to call for, and remembers what was called for. `started`: the end of a turn before then calls nobody;
    in milliseconds since the epoch."""

    def __init__(self, started: int) -> None:
        self._started = started
        self._calls: dict[tuple[str | int, ...], Call] = {}
        self._made: dict[tuple[R, tuple[str | int, ...]], None] = {}
        self._skipped: set[tuple[str | int, ...]] = set()

    def look(
        self,
        changed: Iterable[Mapping[str, Any]],
        waiting: Iterable[Waiting],
        now: float,
        wall: int,
        more: Iterable[Call] = (),
    ) -> None:
        """Take the rows of sessions that have changed, all questions of sessions that wait, and what else there may be
        to call for. `now`: on the monotonic clock; `wall`: milliseconds since the epoch."""
        rows = {row["session"]: row for row in changed}
        found = {call.key: call for call in (*self._found(rows.values(), waiting, now, wall), *more)}
        for key, call in self._calls.items():
            if call.reason in ENDS and call.session["session"] not in rows:
                found.setdefault(key, call)  # as it was
            elif key in found and call.reason != "idle":
                found[key] = found[key]._replace(since=call.since)
        self._calls = found

    def _found(
        self, rows: Iterable[Mapping[str, Any]], waiting: Iterable[Waiting], now: float, wall: int
    ) -> Iterator[Call]:
        for one in waiting:
            key = ("waiting", one.session, one.stream, one.seq)
            if key not in self._skipped and (one.since is None or one.since > wall - QUESTION_AGE):
                yield Call("waiting", key, _row_of(one), one, now)
        for row in rows:
            reason = REASONS.get(str(row["status"]))
            if reason is not None and row.get("turns") and row.get("lastTs", 0) >= self._started:
                yield Call(reason, (reason, row["session"], row["turns"]), row, None, now)

    def due(self, rules: Sequence[R], now: float) -> list[tuple[R, Call]]:
        """Return the calls to be made now, each once."""
        calls = []
        for call in self._calls.values():
            for rule in rules:
                if self._is_pending(rule, call) and now - call.since >= rule.patience(call.reason):
                    self._made[rule, call.key] = None
                    calls.append((rule, call))
        settled = max((rule.after for rule in rules), default=0)
        self._calls = {
            key: call for key, call in self._calls.items() if call.reason not in ENDS or now - call.since < settled
        }
        while len(self._made) > MOST_CALLED:
            del self._made[next(iter(self._made))]
        return calls

    def next_due(self, rules: Sequence[R], now: float) -> float | None:
        """Return in how many seconds a call will be due; None if none is pending."""
        pending = (
            rule.patience(call.reason) - (now - call.since)
            for call in self._calls.values()
            for rule in rules
            if self._is_pending(rule, call)
        )
        return min(pending, default=None)

    def _is_pending(self, rule: R, call: Call) -> bool:
        limit = limit_of(rule, call)
        return (
            (rule, call.key) not in self._made
            and rule.covers(call.reason, call.session)
            and (call.reason not in FIGURES or (limit is not None and figure_of(rule, call) >= limit))
        )

    def skip(self, asked: Iterable[Mapping[str, Any]]) -> None:
        """Call nobody for requests that were open when the daemon was started: their streams may come back."""
        self._skipped = {("waiting", one["session"], one["stream"], one["seq"]) for one in asked}


def _row_of(question: Waiting) -> dict[str, Any]:
    known = ("session", "title", "provider", "project")
    return {key: value for key in known if (value := getattr(question, key)) is not None}


def silent_sessions(
    running: Iterable[Mapping[str, Any]], calls: Iterable[Mapping[str, Any]], started: int, now: float, wall: int
) -> Iterator[Call]:
    """Yield the sessions that run without an open call, silent since their last event. `running`: their rows; `calls`:
    the open ones; `started`, `now`, `wall`: as for a `Watch`."""
    busy = {call["session"] for call in calls}
    for row in running:
        last = row.get("lastTs", 0)
        if row["status"] == "running" and row["session"] not in busy and last >= started:
            yield Call("idle", ("idle", row["session"], row["lastSeq"]), row, None, now - (wall - last) / 1_000)


def limit_of(rule: CallRule, call: Call) -> float | None:
    """Return the rule's limit of the call's figures; None if it has none."""
    if call.reason == "quota":
        return rule.quota_percent
    return rule.session_usd if call.session else rule.day_usd


def figure_of(rule: CallRule, call: Call) -> float:
    """Return the sum of the figures that the rule is about."""
    return sum(figure for agent, figure in call.figures.items() if not rule.agents or agent in rule.agents)


def title_of(rule: CallRule, call: Call) -> str:
    """Return which agent it is, what it does, and where: `claude waits for you: shop`."""
    if call.reason == "quota":
        return f"{call.session['provider']}: {call.about}"
    cost = dollars(figure_of(rule, call))
    if not call.session:
        return f"Today has cost {cost}"
    did = {
        "waiting": "waits for you",
        "done": "is done",
        "failed": "has failed",
        "idle": "is silent",
        "cost": f"has cost {cost}",
    }[call.reason]
    project = project_of(call.session)
    return f"{call.session['provider']} {did}" + (f": {project}" if project else "")


def text_of(rule: CallRule, call: Call) -> str:
    """Return what is asked, and what one can choose; or which limit is reached; or else the name of the session."""
    if call.reason == "quota":
        return f"The limit is {rule.quota_percent:g} %"
    if call.reason == "cost":
        limit = f"The limit is {dollars(limit_of(rule, call))}"
        return f"{limit} · {name_of(call.session)}" if call.session else limit
    if call.question is None:
        return name_of(call.session)
    asked = msgspec.to_builtins(call.question)
    options = " | ".join(option_names(asked))
    return asked_text(asked) + (f" [{options}]" if options else "")
