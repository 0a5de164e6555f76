"""Subscribing `as` AG-UI: replay, live, cursors, bounds and gaps are those of events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, message, result
from tests.daemon.export.test_ag_ui_live import check_order, customs, kinds, partial, texts, turn
from tests.daemon.running import Running, Wire, running

SESSION = {"session": ["session-1"]}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


def watch(daemon: Running, **arguments: Any) -> Wire:
    return daemon.subscribe(**{"as": "ag-ui", "filter": SESSION, **arguments})


def events_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if "op" not in line]


def until(wire: Wire, kind: str) -> list[dict[str, Any]]:
    """Return the AG-UI events up to the next one of this type."""
    read = [wire.read()]
    while read[-1].get("type") != kind:
        read.append(wire.read())
    return events_of(read)


def a_turn() -> list[Any]:
    return [turn("started"), message("Running it."), call("c"), result("c"), turn("completed")]


def test_replay_and_live_are_the_same(daemon: Running) -> None:
    live = watch(daemon, after="now")
    live.until("live")
    daemon.commit(commit(*a_turn()))
    replayed = events_of(watch(daemon, after="start").until("live"))

    assert until(live, "RUN_FINISHED") == replayed
    assert texts(replayed) == ["Running it."]
    check_order(replayed)


def test_other_sessions_are_not_in_it(daemon: Running) -> None:
    daemon.commit(commit(message("mine"), message("theirs", session="session-2")))

    assert texts(events_of(watch(daemon, after="start").until("live"))) == ["mine"]


def test_text_comes_from_partials_and_is_that_of_the_message(daemon: Running) -> None:
    wire = watch(daemon, after="now", partials=True)
    wire.until("live")
    daemon.commit(commit(turn("started"), partial("Hel")))
    begun = until(wire, "TEXT_MESSAGE_CONTENT")
    daemon.commit(commit(partial("lo", 3), message("Hello."), base=1))
    ended = until(wire, "TEXT_MESSAGE_END")

    assert [one["delta"] for one in begun + ended if "delta" in one] == ["Hel", "lo", "."]
    check_order(begun + ended)


def test_text_is_whole_without_partials(daemon: Running) -> None:
    wire = watch(daemon, after="now")
    wire.until("live")
    daemon.commit(commit(partial("Hel"), message("Hello.")))

    assert [one["delta"] for one in until(wire, "TEXT_MESSAGE_END") if "delta" in one] == ["Hello."]


def test_subscriber_resumes_after_the_cursor_with_the_run_that_goes_on(daemon: Running) -> None:
    daemon.commit(commit(*a_turn()[:3]))
    whole = watch(daemon, after="start").until("live")
    [cursor] = [line["seq"] for line, before in zip(whole[1:], whole, strict=False) if is_at_after_text(line, before)]
    daemon.commit(commit(*a_turn()[3:], base=1))
    resumed = events_of(watch(daemon, after=cursor).until("live"))

    assert kinds(resumed) == [
        *("RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_FINISHED")
    ]
    assert resumed[0] == events_of(whole)[0]


def is_at_after_text(line: dict[str, Any], before: dict[str, Any]) -> bool:
    return line.get("op") == "at" and before.get("type") == "TEXT_MESSAGE_END"


def test_gap_is_an_event_of_the_session(daemon: Running) -> None:
    daemon.commit(commit(message("one"), message("two")))
    daemon.commit(commit(base=1, lines=0, state="ended", updated=1))
    daemon.expire(2)
    daemon.commit(commit(message("three", "t"), stream="t"))
    lines = watch(daemon, after=1).until("live")

    assert [line for line in lines if line.get("op") == "gap"] == [
        {"op": "gap", "from": 2, "to": 2, "reason": "retention"}
    ]
    assert customs(events_of(lines), "gap") == ["Event 2 was not kept."]
    assert texts(events_of(lines)) == ["three"]


def test_cursor_of_another_journal_gets_all_of_this_one(daemon: Running) -> None:
    daemon.commit(commit(message("one")))
    found = events_of(watch(daemon, after="another:7").until("live"))

    assert texts(found) == ["one"]
    assert customs(found, "gap") == ["The journal was replaced by another one, which follows from its oldest event."]


def test_subscription_without_follow_ends(daemon: Running) -> None:
    daemon.commit(commit(*a_turn()))

    assert kinds(events_of(watch(daemon, after="start", follow=False).rest()))[-1] == "RUN_FINISHED"


def test_slow_subscriber_loses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = watch(daemon, after="now", partials=True)
        slow.until("live")
        said = [f"{number} {'x' * 10_000}" for number in range(60)]
        daemon.commit(commit(turn("started")))
        for line, text in enumerate(said, 1):
            daemon.commit(commit(partial(text[:50], id=f"p{line}"), message(text, line=line), base=line))
        daemon.commit(commit(turn("completed"), base=61))
        (stuck,) = daemon.stats()["subscribers"]
        found = until(slow, "RUN_FINISHED")

        assert (stuck["as"], stuck["behind"]) == ("ag-ui", True)
        check_order(found)
        assert texts(found) == said


@pytest.mark.parametrize(
    "wanted", [{}, {"session": ["a", "b"]}, {"session": ["a"], "kind": ["message"]}, {"provider": ["claude"]}]
)
def test_filter_has_to_name_one_session(daemon: Running, wanted: dict[str, list[str]]) -> None:
    wire = daemon.connect()
    wire.send("subscribe", **{"as": "ag-ui", "filter": wanted})
    reply = wire.read()

    assert (reply["op"], reply["code"]) == ("error", "bad-frame")
    assert reply["message"] == 'subscribe: with "as": "ag-ui", `filter` names one session and nothing else'


def test_event_of_a_newer_daemon_is_left_out(daemon: Running) -> None:
    """Daemons of two versions may share a journal."""
    newer = message("two", index=1)
    newer.body = newer.body.replace(b'"kind":"message"', b'"kind":"dance"')
    daemon.commit(commit(message("one"), newer, message("three", index=2)))

    assert texts(events_of(watch(daemon, after="start").until("live"))) == ["one", "three"]
