"""The tab *Plan*: the to-do list as it is now, how it came about, and the plan that was proposed last.

A list is written whole (`TodoWrite`), or entry by entry (`Task` with an operation). A change counts when the call that
makes it has succeeded. Each agent has its own list, except that all share the one that is written entry by entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from tooltap.daemon.show.blocks import short
from tooltap.daemon.show.tools.tasks import MARKS, word_of
from tooltap.daemon.web.page.tabs.digests import Place, TurnCount
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import AnyEvent, ToolCall, ToolResult, ToolUpdate, Turn, decode

TEXT = 300
"""Maximum characters of an entry."""
PLAN = 20_000
"""Maximum characters of a proposed plan."""
ENTRIES = 500
STEPS = 1_000
AGENTS = 100
OPEN = 1_000
"""Maximum calls without a result that are remembered."""
TOOLS = frozenset({"TodoWrite", "TodoRead", "Task", "ExitPlanMode"})


class Entry(NamedTuple):
    text: str
    status: str
    """pending, in_progress, completed, or the agent's own word."""


class Change(NamedTuple):
    text: str
    before: str
    """The status before; empty if the entry is new."""
    now: str
    """The status now; empty if the entry was removed."""


class Step(NamedTuple):
    """The changes that one call made in a list."""

    place: Place
    changes: list[Change]


class TodoList:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.steps: deque[Step] = deque(maxlen=STEPS)
        self.earlier = 0
        """Number of earlier steps that were dropped."""

    def become(self, place: Place, entries: dict[str, Entry]) -> None:
        changes = [
            Change(entry.text, before.status if (before := self.entries.get(key)) else "", entry.status)
            for key, entry in entries.items()
            if self.entries.get(key) is None or self.entries[key].status != entry.status
        ]
        changes += [Change(one.text, one.status, "") for key, one in self.entries.items() if key not in entries]
        self.entries = entries
        if changes:
            self.earlier += len(self.steps) == STEPS
            self.steps.append(Step(place, changes))


class Proposal(NamedTuple):
    """A plan that the agent submitted for approval."""

    place: Place
    text: str
    status: str
    """`waiting`, or the status of the result."""


class _Open(NamedTuple):
    place: Place
    agent: str | None
    name: str
    input: dict[str, Any]


class TodoLists:
    KINDS: ClassVar[tuple[str, ...]] = ("turn", "tool-call", "tool-update", "tool-result")

    def __init__(self) -> None:
        self.lists: dict[str | None, TodoList] = {}
        """The subagent, or None for the main agent -> its list."""
        self.proposal: Proposal | None = None
        """The latest one."""
        self._turns = TurnCount()
        self._open: dict[tuple[str, str], _Open] = {}

    def note(self, seq: int, body: bytes) -> None:
        if b'"kind":"turn"' not in body and not any(tool in body for tool in _MARKS):
            return  # most calls are of other tools
        event: AnyEvent = decode(body)
        if event.replay:
            return
        match event:
            case Turn():
                self._turns.note(event.state, event.agent)
            case ToolCall() | ToolUpdate() if event.name in TOOLS and event.input is not None:
                self._note_call(seq, event)
            case ToolResult() if event.name in TOOLS:
                self._note_result(event)
            case _:
                pass

    def _note_call(self, seq: int, event: ToolCall | ToolUpdate) -> None:
        key = (event.stream, event.call_id)
        known = self._open.get(key)
        place = known.place if known else Place(seq, event.ts, self._turns.number, event.name)
        self._open[key] = _Open(place, event.agent, event.name, event.input or {})
        if len(self._open) > OPEN:
            del self._open[next(iter(self._open))]
        text = string((event.input or {}).get("plan"))
        if event.name == "ExitPlanMode" and text:
            self.proposal = Proposal(place, text[:PLAN], "waiting")

    def _note_result(self, event: ToolResult) -> None:
        call = self._open.pop((event.stream, event.call_id), None)
        if call is None:
            return
        if event.name == "ExitPlanMode":
            text = string(event.output.get("plan")) or string(call.input.get("plan"))
            if text:
                self.proposal = Proposal(call.place, text[:PLAN], event.status)
        elif event.status != "completed":
            return
        elif event.name == "Task":
            self._note_task(call, event.output)
        else:
            todos = _first_list(event.output, call.input)
            if todos is not None:
                self._become(call, call.agent, _entries(todos))

    def _note_task(self, call: _Open, output: dict[str, Any]) -> None:
        operation = call.input.get("operation")
        entries = dict(self.lists[None].entries) if None in self.lists else {}
        if operation == "list" and isinstance(output.get("tasks"), list):
            entries = {_key(task): _entry(task) for task in records(output["tasks"])[:ENTRIES] if _key(task)}
        elif operation == "create":
            task = {**call.input, **record(output.get("task"))}
            if key := _key(task):
                entries[key] = _entry(task)
        elif operation == "update":
            key = _key({"id": call.input.get("taskId", output.get("taskId"))})
            status = string(call.input.get("status")) or string(record(output.get("statusChange")).get("to"))
            if status == "deleted":
                entries.pop(key, None)
            elif key:
                known = entries.get(key, Entry(f"Task {key}", "pending"))
                subject = string(call.input.get("subject"))
                entries[key] = Entry(short(subject, TEXT) if subject else known.text, status or known.status)
        else:
            return
        if len(entries) <= ENTRIES:
            self._become(call, None, entries)

    def _become(self, call: _Open, agent: str | None, entries: dict[str, Entry]) -> None:
        if agent not in self.lists:
            if len(self.lists) >= AGENTS or not entries:
                return
            self.lists[agent] = TodoList()
        self.lists[agent].become(call.place, entries)


_MARKS = [f'"{name}"'.encode() for name in TOOLS]


def _first_list(output: dict[str, Any], given: dict[str, Any]) -> list[Any] | None:
    for value in (output.get("newTodos"), output.get("todos"), given.get("todos")):
        if isinstance(value, list):
            return value
    return None


def _entries(todos: list[Any]) -> dict[str, Entry]:
    """Key entries by their text: not every list has ids, and an agent may state them in the call and not in the result.
    A repeated text gets a number."""
    found: dict[str, Entry] = {}
    for todo in records(todos)[:ENTRIES]:
        entry = _entry(todo)
        key, number = entry.text, 1
        while key in found:
            number += 1
            key = f"{entry.text} ({number})"
        found[key] = entry
    return found


def _entry(todo: dict[str, Any]) -> Entry:
    text = string(todo.get("content")) or string(todo.get("subject")) or "?"
    return Entry(short(text, TEXT), short(string(todo.get("status")) or "pending", 40))


def _key(task: dict[str, Any]) -> str:
    value = task.get("id", task.get("taskId"))
    return str(value)[:100] if isinstance(value, str | int) else ""


NARROW_STEPS, WIDE_STEPS = 50, 500
CHANGES = 30
"""Maximum changes shown of one step."""
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
    """Number of earlier steps that are not shown."""


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
    return ShownList(agent, [_shown_entry(one) for one in found.entries.values()], done, shown, hidden)


def _step(step: Step) -> ShownStep:
    entries = [_changed(change) for change in step.changes[:CHANGES]]
    return ShownStep(step.place, entries, len(step.changes) - len(entries))


def _shown_entry(entry: Entry) -> ShownEntry:
    return ShownEntry(entry.text, entry.status, MARKS.get(entry.status, "▫"), word_of(entry.status))


def _changed(change: Change) -> ShownEntry:
    if not change.now:
        return ShownEntry(change.text, "cancelled", "▫", "removed")
    shown = _shown_entry(Entry(change.text, change.now))
    if not change.before:
        return shown._replace(word="new" if change.now == "pending" else f"new, {shown.word}")
    return shown
