"""To-do lists over time."""

from __future__ import annotations

from typing import Any

from tests.daemon.web.page.tabs.noting import Noting
from tooltap.daemon.web.page.tabs.plan import STEPS, Change, Entry, TodoLists, plan_values


def written(**states: str) -> dict[str, Any]:
    return {"todos": [{"content": text, "status": status} for text, status in states.items()]}


def lists() -> tuple[TodoLists, Noting]:
    known = TodoLists()
    return known, Noting(known)


def test_each_change_has_its_place_and_what_changed() -> None:
    known, agent = lists()
    agent.turn()
    first = agent.call("TodoWrite", written(read="in_progress", edit="pending"))
    agent.call("TodoWrite", written(read="in_progress", edit="pending"))
    agent.turn()
    second = agent.call("TodoWrite", written(read="completed", test="pending"))

    one, other = known.lists[None].steps
    assert (one.place.seq, one.place.turn) == (first, 1)
    assert one.changes == [Change("read", "", "in_progress"), Change("edit", "", "pending")]
    assert (other.place.seq, other.place.turn) == (second, 2)
    assert other.changes == [
        Change("read", "in_progress", "completed"),
        Change("test", "", "pending"),
        Change("edit", "pending", ""),
    ]
    assert list(known.lists[None].entries.values()) == [Entry("read", "completed"), Entry("test", "pending")]


def test_call_that_failed_has_changed_nothing() -> None:
    known, agent = lists()
    agent.call("TodoWrite", written(read="pending"))
    agent.call("TodoWrite", written(read="completed"), status="failed")

    assert [entry.status for entry in known.lists[None].entries.values()] == ["pending"]


def test_entries_that_are_written_one_by_one_are_one_list() -> None:
    known, agent = lists()
    for number, text in enumerate(("read", "edit"), 1):
        agent.call("Task", {"operation": "create", "subject": text}, {"task": {"id": str(number), "subject": text}})
    agent.call("Task", {"operation": "update", "taskId": 1, "status": "completed"}, {"taskId": "1"}, agent="a")
    agent.call("Task", {"operation": "update", "taskId": "2", "status": "deleted"}, {"taskId": "2"})
    agent.call("Task", {"operation": "run", "prompt": "look"}, {"content": "done"})

    assert list(known.lists) == [None]
    assert list(known.lists[None].entries.values()) == [Entry("read", "completed")]
    assert len(known.lists[None].steps) == 4


def test_each_agent_has_its_own_list_the_main_one_first() -> None:
    known, agent = lists()
    agent.call("TodoWrite", written(look="pending"), agent="a")
    agent.call("TodoWrite", written(read="pending"))

    shown = plan_values(known, wide=True)["lists"]

    assert [(one.agent, [entry.text for entry in one.entries]) for one in shown] == [(None, ["read"]), ("a", ["look"])]


def test_entries_with_the_same_text_are_several() -> None:
    known, agent = lists()
    todos = [{"content": "test", "status": status} for status in ("completed", "pending")]
    agent.call("TodoWrite", {"todos": todos})

    assert [entry.status for entry in known.lists[None].entries.values()] == ["completed", "pending"]


def test_proposed_plan_has_its_answer() -> None:
    known, agent = lists()
    agent.call("ExitPlanMode", {"plan": "# First"}, status="denied")
    agent.call("ExitPlanMode", {"plan": "# Second"}, status="completed")

    values = plan_values(known, wide=False)

    assert values["proposal"].text == "# Second"
    assert values["answer"] == "accepted"


def test_history_is_bounded_and_says_what_is_left_out() -> None:
    known, agent = lists()
    for number in range(STEPS + 10):
        agent.call("TodoWrite", written(**{f"step {number}": "pending"}))

    shown = plan_values(known, wide=False)["lists"][0]

    assert len(shown.steps) == 50
    assert shown.hidden == STEPS + 10 - 50
    assert [entry.text for entry in shown.entries] == [f"step {STEPS + 9}"]
