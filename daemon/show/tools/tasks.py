"""Subagents, background work, and the task lists that agents share."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.show.blocks import Body, facts, joined, plain, prose, short, table
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.tools.card import ToolCard, nothing
from tooltap.daemon.show.tree import text_or_tree, tree
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import TaskInput, TaskResult, ToolTypes

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
    """How the status of a task changed: `{from, to}`."""
    agents_states: dict[str, Any] | None = None


PREVIEW = 40
"""Characters of a description that the header shows."""


def task_input(payload: TaskArguments, look: Look) -> Body:
    if payload.operation in (None, "run"):
        about = [
            ("subagent", payload.subagent_type),
            ("task", payload.description if len(payload.description or "") > PREVIEW else None),
            ("model", payload.model),
            ("in the background", payload.run_in_background or None),
        ]
        return joined(facts(about), prose(payload.prompt, look, "/input/prompt", prompt=True))
    task = None if payload.taskId is None else str(payload.taskId)
    return joined(
        facts([("task", task), ("subject", payload.subject), ("state", payload.status)]),
        prose(payload.description, look, "/input/description"),
    )


def task_output(result: TaskOutcome, look: Look) -> Body:
    """Show the answer of a subagent, or the requested tasks. Text beside a table of tasks, or about a subagent that
    still runs, is for the model: only level `full` shows it."""
    listed = _tasks([result.task] if result.task else result.tasks or [], look)
    if result.task is not None and look.call is not None and look.call.input.get("operation") == "create":
        listed = facts([("task", _cell(result.task.get("id")))])  # the call's card shows the rest
    change = _change(result.statusChange or {})
    is_aside = bool(listed) or change is not None or result.isAsync is True
    duration = result.totalDurationMs
    return joined(
        () if is_aside and not look.is_full else prose(result.content, look, "/output/content"),
        listed,
        agents(result.agents_states, look),
        facts(
            [
                ("state", change),
                ("took", None if duration is None else f"{duration / 1000:.1f} s"),
                ("tokens", result.totalTokens),
                ("calls of tools", result.totalToolUseCount),
                ("agent", result.agentId if look.is_full else None),
            ]
        ),
    )


def _tasks(tasks: list[Any], look: Look) -> Body:
    """Show tasks as a table; if any is not an object, all as a tree."""
    known = records(tasks)
    if len(known) < len(tasks):
        return tree(tasks, look, "/output/tasks")
    return table(_HEAD, [[_cell(task.get(column)) for column in _COLUMNS] for task in known], look, name="tasks")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | list) else short(str(value))


def _change(change: dict[str, Any]) -> str | None:
    before, after = string(change.get("from")), string(change.get("to"))
    return f"{before} → {after}" if before and after else None


def agents(states: dict[str, Any] | None, look: Look) -> Body:
    """Show Codex's `agents_states`: thread -> `{status, message}`."""
    rows = [
        (thread, string(record(state).get("status")), string(record(state).get("message")))
        for thread, state in (states or {}).items()
    ]
    return table(("agent", "state", "last message"), rows, look, name="agents")


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


def background_output(result: Background, look: Look) -> Body:
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
        plain(string(task.get("output")), look, "/output/task/output"),
        plain(result.message, look, "/output/message"),
        text_or_tree(result.content, look, "/output/content"),
        agents(result.agents_states, look),
    )


_BACKGROUND = ToolCard("⇉", nothing, background_output, ToolTypes(ToolInput, Background))

CARDS = {
    "Task": ToolCard("⇉", task_input, task_output, ToolTypes(TaskArguments, TaskOutcome)),
    "TaskOutput": _BACKGROUND,
    "TaskStop": _BACKGROUND,
}
