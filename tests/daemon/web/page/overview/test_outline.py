"""The outline: what it says of turns and subagents, over events that are made for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, event, message
from tests.daemon.web.page.overview.histories import ended, map_of, prompt, started, stored, took
from tooltap.daemon.show.minimap import SessionHistory, drawn
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionRequest, SessionEvent, Usage

T = 1_790_000_000_000
MINUTE = 60_000


def spent(scope: str, cost: float | None = None, **fields: Any) -> Produced:
    return event(Usage, scope=scope, cost_usd=cost, **fields)


def test_entry_has_prompt_and_figures() -> None:
    events = [
        started(T),
        prompt("Fix the <system-reminder>x</system-reminder> tests\nplease, all of them", T),
        *took("1", T, T + 1_000),
        *took("2", T, T + 1_000, failed=True),
        spent("session", 2.1),
        ended(T + 12 * MINUTE),
    ]

    (entry,) = map_of(stored(*events)).outline

    assert entry.prompt == "Fix the tests"
    assert entry.facts == ["2 calls", "1 error", "12 min", "$2.10"]
    assert entry.state == ""


def test_turn_without_prompt_has_beginning_of_answer() -> None:
    (entry,) = map_of(stored(started(T), message("I look at it.", ts=T), ended(T))).outline

    assert (entry.prompt, entry.answer) == ("", "I look at it.")


def test_prompt_before_its_turn_belongs_to_it() -> None:
    found = map_of(stored(started(T), prompt("One", T), ended(T), prompt("Two", T), started(T), ended(T))).outline

    assert [(entry.number, entry.prompt) for entry in found] == [(1, "One"), (2, "Two")]


@pytest.mark.parametrize(("is_live", "state"), [(True, "running"), (False, "cancelled")])
def test_turn_that_has_not_ended(is_live: bool, state: str) -> None:
    history = SessionHistory()
    history.add(stored(started(T), call("1", ts=T + 5_000)))

    (entry,) = drawn(history, is_live=is_live).outline

    assert (entry.state, entry.duration) == (state, 5_000)


def test_turn_without_an_end_ends_with_its_last_work() -> None:
    later = [spent("session", ts=T + 80_000), event(SessionEvent, state="updated", title="later", ts=T + 90_000)]
    events = [started(T), call("1", ts=T + 5_000), *later, started(T + 99_000)]

    first, _ = map_of(stored(*events)).outline

    assert first.duration == 5_000


def test_subagent_ends_with_its_last_work() -> None:
    child: dict[str, Any] = {"agent": "child", "parent": "task"}
    late = [spent("step", ts=T + 60_000, **child), event(SessionEvent, state="updated", ts=T + 90_000, **child)]

    (entry,) = map_of(stored(started(T), *took("1", T + 500, T + 900, **child), *late, ended(T + 3_000))).outline

    assert entry.subagents[0].facts == ["1 call", "0.4 s"]


def test_question_makes_the_turn_wait() -> None:
    history = SessionHistory()
    history.add(stored(started(T), call("1"), event(PermissionRequest, permission_id="p", type="permission", ts=T)))

    assert drawn(history, is_live=True).outline[-1].state == "waiting"


def test_turn_includes_its_subagents() -> None:
    child: dict[str, Any] = {"agent": "child", "parent": "task"}
    events = [
        started(T),
        call("task", name="Task", preview="Look around", ts=T),
        ended(T + 1_000),
        started(T + 2_000),
        *took("1", T + 500, T + 900, **child),
        *took("2", T + 500, T + 900, **child),
        ended(T + 3_000),
    ]

    first, second = map_of(stored(*events)).outline

    assert (first.calls, second.calls) == (3, 0)
    assert [(one.title, one.facts) for one in first.subagents] == [("Look around", ["2 calls", "0.4 s"])]


def test_totals_of_the_session_are_divided_among_turns() -> None:
    events = [part for total in (0.5, 0.5, 1.25) for part in (started(T), spent("session", total), ended(T))]

    costs = [entry.cost for entry in map_of(stored(*events)).outline]

    assert [cost.usd for cost in costs if cost] == [0.5, 0, 0.75]


def test_total_at_the_end_is_shared_out_by_what_turns_used() -> None:
    events = [
        *(started(T), spent("step", input_tokens=100, output_tokens=0), ended(T)),
        *(started(T), spent("step", input_tokens=300, output_tokens=0), ended(T)),
        spent("session", 1.0),
    ]

    costs = [entry.cost for entry in map_of(stored(*events)).outline]

    assert [(cost.usd, cost.estimated) for cost in costs if cost] == [(0.25, True), (0.75, True)]


def test_cost_of_turn_with_subagents_is_the_stated_one() -> None:
    child: dict[str, Any] = {"agent": "child", "parent": "task"}
    events = [
        started(T),
        call("task", name="Task", ts=T),
        spent("step", input_tokens=100, output_tokens=0),
        spent("step", input_tokens=300, output_tokens=0, **child),
        spent("session", 1.0),
        ended(T),
    ]

    (entry,) = map_of(stored(*events)).outline

    assert entry.facts[-1] == "$1.00"
    assert entry.subagents[0].facts == ["about $0.75"]


def test_what_comes_before_the_first_turn_is_listed_only_if_it_did_something() -> None:
    assert map_of(stored(message("hello"))).outline == []
    (entry,) = map_of(stored(*took("1", T, T))).outline
    assert (entry.number, entry.calls) == (0, 1)
