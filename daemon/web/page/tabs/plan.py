"""The tab *Plan*: the to-do list as it is now, how it came about, and the plan that was proposed last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tooltap.daemon.show.tools.todos import MARKS, word_of
from tooltap.daemon.web.page.tabs.places import Place
from tooltap.daemon.web.page.tabs.todo_lists import Change, Entry, Step, TodoList, TodoLists

__all__ = ["plan_values"]

NARROW_STEPS, WIDE_STEPS = 50, 500
CHANGES = 30
"""Of one step."""
SHOWN_LISTS = 20
ANSWERS = {
    "waiting": "waits for an answer",
    "completed": "accepted",
    "denied": "declined",
    "failed": "not accepted",
    "cancelled": "cancelled",
    "interrupted": "not answered",
}
"""The status of a proposed plan -> its words."""


class ShownEntry(NamedTuple):
    text: str
    status: str
    mark: str
    word: str
    facts: tuple[str, ...] = ()
    change: str = ""


class ShownStep(NamedTuple):
    place: Place
    entries: list[ShownEntry]
    hidden: int


class ShownList(NamedTuple):
    agent: str | None
    entries: list[ShownEntry]
    done: int
    steps: Sequence[ShownStep]
    hidden: int
    """Earlier steps."""


def plan_values(known: TodoLists, *, wide: bool) -> dict[str, Any]:
    """Return the values for the template."""
    steps = WIDE_STEPS if wide else NARROW_STEPS
    agents = sorted(known.lists, key=lambda agent: agent is not None)  # the main agent's list is the first
    return {
        "lists": [_shown(agent, known.lists[agent], steps) for agent in agents[:SHOWN_LISTS]],
        "hidden_lists": max(len(agents) - SHOWN_LISTS, 0),
        "proposal": known.proposal,
        "answer": "" if known.proposal is None else ANSWERS.get(known.proposal.status, known.proposal.status),
    }


def _shown(agent: str | None, found: TodoList, limit: int) -> ShownList:
    steps = list(found.steps)
    shown = [_step(step) for step in steps[-limit:]]
    done = sum(entry.status == "completed" for entry in found.entries.values())
    hidden = found.earlier + len(steps) - len(shown)
    return ShownList(agent, [_entry(one) for one in found.entries.values()], done, shown, hidden)


def _step(step: Step) -> ShownStep:
    entries = [_changed(change) for change in step.changes[:CHANGES]]
    return ShownStep(step.place, entries, len(step.changes) - len(entries))


def _entry(entry: Entry) -> ShownEntry:
    return ShownEntry(entry.text, entry.status, MARKS.get(entry.status, "▫"), word_of(entry.status))


def _changed(change: Change) -> ShownEntry:
    if not change.now:
        return ShownEntry(change.text, "cancelled", "▫", "removed")
    shown = _entry(Entry(change.text, change.now))
    if not change.before:
        return shown._replace(word="new" if change.now == "pending" else f"new, {shown.word}")
    return shown
