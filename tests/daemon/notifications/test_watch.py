"""When a person is called: after a time, once, and never for what is over."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.daemon.notifications.rules import CallRule, Reason
from tooltap.daemon.notifications.watch import QUESTION_AGE, Call, Watch, silent_sessions, text_of, title_of
from tooltap.protocol.replies import Waiting

NOW = 10_000_000
"""The wall clock, in milliseconds."""
EVERY: tuple[Reason, ...] = ("waiting", "done", "failed")


def row(status: str, turns: int = 1, **fields: Any) -> dict[str, Any]:
    return {"session": "s", "provider": "claude", "status": status, "turns": turns, "lastTs": NOW, **fields}


def question(seq: int = 1, **fields: Any) -> Waiting:
    values: dict[str, Any] = {"session": "s", "provider": "claude", "stream": "s", "type": "permission", **fields}
    return Waiting(seq=seq, **values)


class Watching:
    """A watch with one rule, and its clock."""

    def __init__(self, *on: Reason, after: float = 5, **fields: Any) -> None:
        self.watch: Watch[CallRule] = Watch(NOW - 1_000)
        self.rule = CallRule(on=on, after=after, **fields)

    def called(
        self, now: float, *rows: dict[str, Any], waiting: tuple[Waiting, ...] = ()
    ) -> list[tuple[str, int | None]]:
        """Return the reasons, and what waits, of the calls that are due at a time."""
        self.watch.look(rows, waiting, now, NOW)
        calls = [call for _, call in self.watch.due([self.rule], now)]
        return [(call.reason, None if call.question is None else call.question.seq) for call in calls]


def test_question_that_waits_for_long_enough() -> None:
    watching = Watching("waiting")
    asks = row("waiting")
    assert watching.called(0, asks, waiting=(question(),)) == []
    assert watching.called(4.9, waiting=(question(),)) == []
    assert watching.called(5, waiting=(question(),)) == [("waiting", 1)]
    assert watching.called(100, waiting=(question(),)) == []


def test_question_that_was_answered_in_time() -> None:
    watching = Watching("waiting")
    watching.called(0, row("waiting"), waiting=(question(),))
    assert watching.called(4, row("running")) == []
    assert watching.called(100) == []


def test_each_question_is_called_for() -> None:
    watching = Watching("waiting", after=0)
    assert watching.called(0, row("waiting"), waiting=(question(1),)) == [("waiting", 1)]
    assert watching.called(1, row("waiting"), waiting=(question(1), question(2))) == [("waiting", 2)]


def test_question_of_yesterday_is_not_called_for() -> None:
    watching = Watching("waiting", after=0)
    assert watching.called(0, row("waiting"), waiting=(question(since=NOW - QUESTION_AGE),)) == []
    assert watching.called(0, row("waiting"), waiting=(question(since=NOW - QUESTION_AGE + 1),)) == [("waiting", 1)]


@pytest.mark.parametrize(("status", "reason"), [("completed", "done"), ("failed", "failed")])
def test_end_of_a_turn(status: str, reason: str) -> None:
    watching = Watching(*EVERY)
    assert watching.called(0, row(status)) == []
    assert watching.called(5) == [(reason, None)]
    assert watching.called(6, row("running", turns=2)) == []
    assert watching.called(7, row(status, turns=2)) == []
    assert watching.called(12) == [(reason, None)]


def test_turn_that_goes_on_was_not_done() -> None:
    watching = Watching("done")
    watching.called(0, row("completed"))
    assert watching.called(3, row("running")) == []
    assert watching.called(100) == []


@pytest.mark.parametrize(
    "session",
    [
        row("interrupted"),
        row("completed", turns=0),
        row("completed", lastTs=NOW - 1_001),
        {key: value for key, value in row("completed").items() if key != "lastTs"},
    ],
    ids=["interrupted", "empty", "before the daemon", "without times"],
)
def test_what_is_not_called_for(session: dict[str, Any]) -> None:
    assert Watching(*EVERY, after=0).called(0, session) == []


def test_turn_is_called_for_once_however_its_session_changes() -> None:
    watching = Watching("done", after=0)
    assert watching.called(0, row("completed")) == [("done", None)]
    assert watching.called(1, row("completed", lastSeq=9)) == []


def test_reason_without_a_rule() -> None:
    assert Watching("waiting", after=0).called(0, row("completed")) == []


def test_agents_and_projects_of_a_rule() -> None:
    shop = row("completed", project="/src/shop")
    assert Watching("done", after=0, agents=("codex",)).called(0, shop) == []
    assert Watching("done", after=0, agents=("codex", "claude")).called(0, shop) == [("done", None)]
    assert Watching("done", after=0, projects=("/src/blog",)).called(0, shop) == []
    assert Watching("done", after=0, projects=("/src/shop",)).called(0, shop) == [("done", None)]
    assert Watching("done", after=0, projects=("shop",)).called(0, shop) == [("done", None)]


def silences(*rows: dict[str, Any], busy: tuple[str, ...] = (), now: float = 1_000, wall: int = NOW) -> list[Call]:
    calls = [{"session": name} for name in busy]
    return list(silent_sessions(rows, calls, NOW - 1_000, now, wall))


@pytest.mark.parametrize(
    ("session", "busy"),
    [(row("waiting", lastSeq=1), ()), (row("running", lastSeq=1), ("s",)), (row("running", lastTs=NOW - 1_001), ())],
    ids=["waits", "open call", "before the daemon"],
)
def test_what_is_not_idle(session: dict[str, Any], busy: tuple[str, ...]) -> None:
    assert silences(session, busy=busy) == []


def test_each_silence_is_called_for_once() -> None:
    watch: Watch[CallRule] = Watch(NOW - 1_000)
    rule = CallRule(on=("idle",), silent=60)

    def called(seconds: float, seq: int, last: int) -> list[str]:
        """Look at a session, at a time after `NOW`, whose last event was at `last`."""
        wall = NOW + int(seconds * 1_000)
        session = row("running", lastSeq=seq, lastTs=last)
        watch.look([session], (), seconds, wall, silences(session, now=seconds, wall=wall))
        return [title_of(rule, call) for rule, call in watch.due([rule], seconds)]

    assert called(59, 1, NOW) == []
    assert called(60, 1, NOW) == ["claude is silent"]
    assert called(99, 1, NOW) == []
    assert called(100, 2, NOW + 90_000) == []
    assert called(150, 2, NOW + 90_000) == ["claude is silent"]


def test_a_cost_is_called_for_when_the_limit_of_the_rule_is_reached() -> None:
    watch: Watch[CallRule] = Watch(NOW - 1_000)
    rules = [CallRule(on=("cost",), session_usd=2.0), CallRule(on=("cost",), day_usd=5.0, agents=("claude", "codex"))]

    def called(session: float, **today: float) -> list[tuple[str, str]]:
        shop = row("running", title="Deploy it", project="/src/shop")
        calls = [
            Call("cost", ("cost", "s"), shop, None, 0, {"claude": session}),
            Call("cost", ("", ""), {}, None, 0, today),
        ]
        watch.look((), (), 0, NOW, calls)
        return [(title_of(rule, call), text_of(rule, call)) for rule, call in watch.due(rules, 0)]

    assert called(1.99, claude=1.0, codex=3.0, gemini=9.0) == []
    assert called(2.0, claude=1.0, codex=3.99, gemini=9.0) == [
        ("claude has cost $2.00: shop", "The limit is $2.00 · Deploy it")
    ]
    assert called(4.0, claude=1.0, codex=4.0, gemini=9.0) == [("Today has cost $5.00", "The limit is $5.00")]
    assert called(9.0, claude=9.0) == []


def test_what_was_asked_before_the_start_is_skipped() -> None:
    watching = Watching("waiting", after=0)
    watching.watch.skip([{"session": "s", "stream": "s", "seq": 1}])
    assert watching.called(1, row("waiting"), waiting=(question(1), question(2))) == [("waiting", 2)]
