"""To-do lists as check lists: the state of each entry in words, and what has changed since the previous list; and
subagents, background work, and the task lists that agents share."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.daemon.show.blocks import (
    Body,
    RenderContext,
    ToolCard,
    block,
    facts,
    joined,
    limited,
    note,
    nothing,
    plain,
    prose,
    short,
    table,
)
from tooltap.daemon.show.tree import text_or_tree, tree
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import TaskInput, TaskResult, Todo, TodoResult, TodoWriteInput, ToolTypes

MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_WORDS = {"pending": "to do", "in_progress": "in progress", "completed": "done"}


class _Entry(NamedTuple):
    text: str
    status: str
    mark: str
    word: str
    facts: tuple[str, ...]
    change: str


def todo_write_input(payload: TodoWriteInput, context: RenderContext) -> Body:
    return joined(prose(payload.explanation, context, "/input/explanation"), _list(payload.todos or [], None, context))


def todo_write_output(result: TodoResult, context: RenderContext) -> Body:
    """Show only what has changed, if the call's card shows the list."""
    written = None if context.call is None else TodoWriteInput.from_payload(context.call.input).todos
    is_known = written is not None and _texts(written) == _texts(result.todos or [])
    if not is_known:
        return joined(_list(result.todos or [], result.oldTodos, context), _message(result, context))
    if result.oldTodos is None:
        return _message(result, context)
    return joined(_changes(result.todos or [], result.oldTodos, context), _message(result, context))


def todo_read_output(result: TodoResult, context: RenderContext) -> Body:
    return joined(_list(result.todos or [], result.oldTodos, context), _message(result, context))


def _message(result: TodoResult, context: RenderContext) -> Body:
    """Show the tool's message to the model, if there is no list, or at level `full`."""
    return plain(result.message, context, "/output/message") if result.todos is None or context.is_full else ()


def _texts(todos: list[Todo]) -> list[tuple[str | None, str | None]]:
    return [(todo.content, todo.status) for todo in todos]


def _list(todos: list[Todo], before: list[Todo] | None, context: RenderContext) -> Body:
    if not todos:
        return ()
    part = limited([_entry(todo, change) for todo, change in zip(todos, _since(todos, before), strict=True)], context)
    done = sum(todo.status == "completed" for todo in todos)
    return block("todos", entries=part.shown, hidden=part.hidden, done=done, total=len(todos))


def _changes(todos: list[Todo], before: list[Todo], context: RenderContext) -> Body:
    if not before:
        return note("A new list.")
    changed = [
        _entry(todo, change) for todo, change in zip(todos, _since(todos, before), strict=True) if change
    ] + _removed(todos, before)
    if not changed:
        return note("Nothing has changed.")
    part = limited(changed, context)
    return block("todos", entries=part.shown, hidden=part.hidden, done=0, total=0)


def _since(todos: list[Todo], before: list[Todo] | None) -> list[str]:
    """Return what has changed of each entry: `new`, `was …`, or empty if it is unchanged or there was no list."""
    if not before:
        return ["" for _ in todos]
    states = {_key(todo): todo.status or "" for todo in before}
    return [_change_since(states.get(_key(todo)), todo.status or "") for todo in todos]


def _change_since(before: str | None, now: str) -> str:
    if before is None:
        return "new"
    return "" if before == now else f"was {word_of(before)}"


def _removed(todos: list[Todo], before: list[Todo]) -> list[_Entry]:
    kept = {_key(todo) for todo in todos}
    return [_entry(todo, "removed") for todo in before if _key(todo) not in kept]


def _key(todo: Todo) -> str:
    return todo.id or todo.content or ""


def word_of(status: str) -> str:
    return _WORDS.get(status, short(status, 40))


def _entry(todo: Todo, change: str) -> _Entry:
    status = todo.status or ""
    facts = [short(todo.priority, 40)] if todo.priority else []
    if todo.activeForm and status == "in_progress":
        facts.append(short(todo.activeForm))
    return _Entry(
        text=short(todo.content or "", 1_000),
        status=short(status, 40),
        mark=MARKS.get(status, "▫"),
        word=word_of(status),
        facts=tuple(facts),
        change=change,
    )


# -- subagents and task lists ----------------------------------------------------------------------------------------


_COLUMNS = ("id", "subject", "status", "owner", "blockedBy", "blocks", "description")
_HEAD = ("task", "subject", "state", "owner", "waits for", "blocks", "description")


class TaskArguments(TaskInput):
    """The input, with the keys that Claude Code adds."""

    model: str | None = None
    run_in_background: bool | None = None


class TaskOutcome(TaskResult):
    """The result, with the keys that Claude Code and Codex add. Codex calls subagents threads."""

    totalDurationMs: int | None = None
    totalTokens: int | None = None
    totalToolUseCount: int | None = None
    isAsync: bool | None = None
    statusChange: dict[str, Any] | None = None
    """Change of a task's status: `{from, to}`."""
    agents_states: dict[str, Any] | None = None


PREVIEW = 40
"""Maximum characters of a description in the header."""


def task_input(payload: TaskArguments, context: RenderContext) -> Body:
    if payload.operation in (None, "run"):
        about = [
            ("subagent", payload.subagent_type),
            ("task", payload.description if len(payload.description or "") > PREVIEW else None),
            ("model", payload.model),
            ("in the background", payload.run_in_background or None),
        ]
        return joined(facts(about), prose(payload.prompt, context, "/input/prompt"))
    task = None if payload.taskId is None else str(payload.taskId)
    return joined(
        facts([("task", task), ("subject", payload.subject), ("state", payload.status)]),
        prose(payload.description, context, "/input/description"),
    )


def task_output(result: TaskOutcome, context: RenderContext) -> Body:
    """Show the answer of a subagent, or the requested tasks. Text beside a table of tasks, or about a subagent that
    still runs, is for the model: only level `full` shows it."""
    listed = _tasks([result.task] if result.task else result.tasks or [], context)
    if result.task is not None and context.call is not None and context.call.input.get("operation") == "create":
        listed = facts([("task", _cell(result.task.get("id")))])  # the call's card shows the rest
    change = _change(result.statusChange or {})
    is_aside = bool(listed) or change is not None or result.isAsync is True
    duration = result.totalDurationMs
    return joined(
        () if is_aside and not context.is_full else prose(result.content, context, "/output/content"),
        listed,
        agents(result.agents_states, context),
        facts(
            [
                ("state", change),
                ("took", None if duration is None else f"{duration / 1000:.1f} s"),
                ("tokens", result.totalTokens),
                ("calls of tools", result.totalToolUseCount),
                ("agent", result.agentId if context.is_full else None),
            ]
        ),
    )


def _tasks(tasks: list[Any], context: RenderContext) -> Body:
    """Show tasks as a table; if any is not an object, all as a tree."""
    known = records(tasks)
    if len(known) < len(tasks):
        return tree(tasks, context, "/output/tasks")
    return table(_HEAD, [[_cell(task.get(column)) for column in _COLUMNS] for task in known], context, name="tasks")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | list) else short(str(value))


def _change(change: dict[str, Any]) -> str | None:
    before, after = string(change.get("from")), string(change.get("to"))
    return f"{before} → {after}" if before and after else None


def agents(states: dict[str, Any] | None, context: RenderContext) -> Body:
    """Show Codex's `agents_states`: thread -> `{status, message}`."""
    rows = [
        (thread, string(record(state).get("status")), string(record(state).get("message")))
        for thread, state in (states or {}).items()
    ]
    return table(("agent", "state", "last message"), rows, context, name="agents")


# -- TaskOutput, TaskStop: background work ------------------------------------------------------------------------


class Background(ToolResultPayload):
    """The state or outcome of background work: of a subagent, or of a command."""

    message: str | None = None
    content: str | None = None
    task: dict[str, Any] | None = None
    """Claude Code: `{task_id, task_type, status, description, output, exitCode?}`."""
    retrieval_status: str | None = None
    timed_out: bool | None = None
    agents_states: dict[str, Any] | None = None


def background_output(result: Background, context: RenderContext) -> Body:
    task = result.task or {}
    return joined(
        facts(
            [
                ("task", string(task.get("description"))),
                ("state", string(task.get("status")) or result.retrieval_status),
                ("exit code", whole(task.get("exitCode"))),
                ("timed out", result.timed_out or None),
            ]
        ),
        plain(string(task.get("output")), context, "/output/task/output"),
        plain(result.message, context, "/output/message"),
        text_or_tree(result.content, context, "/output/content"),
        agents(result.agents_states, context),
    )


_BACKGROUND = ToolCard("⇉", nothing, background_output, ToolTypes(ToolInput, Background))


CARDS = {
    "Task": ToolCard("⇉", task_input, task_output, ToolTypes(TaskArguments, TaskOutcome)),
    "TaskOutput": _BACKGROUND,
    "TaskStop": _BACKGROUND,
    "TodoWrite": ToolCard("☑", todo_write_input, todo_write_output),
    "TodoRead": ToolCard("☑", nothing, todo_read_output),
}
