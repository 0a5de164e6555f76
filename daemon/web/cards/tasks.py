"""Subagents, and the task lists that agents share: what was asked for, and what came of it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tooltap.daemon.web.cards.any import said, tree
from tooltap.daemon.web.cards.parts import facts, joined, plain, prose, short, table
from tooltap.daemon.web.html.look import Look
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.payloads import ToolResultPayload
from tooltap.protocol.tools import TaskInput, TaskResult

__all__ = ["Background", "TaskCall", "TaskEnd", "background_output", "task_input", "task_output"]

_COLUMNS = ("id", "subject", "status", "owner", "blockedBy", "blocks", "description")
_HEAD = ("task", "subject", "state", "owner", "waits for", "blocks", "description")


class TaskCall(TaskInput):
    """As Claude Code gives it."""

    model: str | None = None
    run_in_background: bool | None = None


class TaskEnd(TaskResult):
    """As Claude Code gives it; and Codex, whose subagents are threads."""

    totalDurationMs: int | None = None
    totalTokens: int | None = None
    totalToolUseCount: int | None = None
    isAsync: bool | None = None
    statusChange: dict[str, Any] | None = None
    """Of a task: `{from, to}`."""
    agents_states: dict[str, Any] | None = None


PREVIEW = 40
"""Characters of a description that the header has."""


def task_input(asked: TaskCall, look: Look) -> Markup:
    if asked.operation in (None, "run"):
        about = [
            ("subagent", asked.subagent_type),
            ("task", asked.description if len(asked.description or "") > PREVIEW else None),
            ("model", asked.model),
            ("in the background", asked.run_in_background or None),
        ]
        return joined(facts(about), prose(asked.prompt, look, "/input/prompt", prompt=True))
    task = None if asked.taskId is None else str(asked.taskId)
    return joined(
        facts([("task", task), ("subject", asked.subject), ("state", asked.status)]),
        prose(asked.description, look, "/input/description"),
    )


def task_output(result: TaskEnd, look: Look) -> Markup:
    """A subagent's answer, or the tasks that were asked for. What is said beside a table, or of a subagent that goes
    on, is for the model."""
    listed = _tasks([result.task] if result.task else result.tasks or [], look)
    if result.task is not None and look.call is not None and look.call.input.get("operation") == "create":
        listed = facts([("task", _cell(result.task.get("id")))])  # the rest is what was asked for
    change = _change(result.statusChange or {})
    is_aside = bool(listed) or change is not None or result.isAsync is True
    duration = result.totalDurationMs
    return joined(
        Markup() if is_aside and not look.is_full else prose(result.content, look, "/output/content"),
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


def _tasks(tasks: list[Any], look: Look) -> Markup:
    """A table of those that are objects; of a form nobody knows, a tree."""
    known = records(tasks)
    if len(known) < len(tasks):
        return tree(tasks, look, "/output/tasks")
    return table(_HEAD, [[_cell(task.get(column)) for column in _COLUMNS] for task in known], look, name="tasks")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | list) else short(str(value))


def _change(change: dict[str, Any]) -> str | None:
    before, after = string(change.get("from")), string(change.get("to"))
    return f"{before} → {after}" if before and after else None


def agents(states: dict[str, Any] | None, look: Look) -> Markup:
    """Codex's `agents_states`: thread -> `{status, message}`."""
    rows = [
        (thread, string(record(state).get("status")), string(record(state).get("message")))
        for thread, state in (states or {}).items()
    ]
    return table(("agent", "state", "last message"), rows, look, name="agents")


# -- TaskOutput, TaskStop: background work ------------------------------------------------------------------------


class Background(ToolResultPayload):
    """What became of work in the background: of a subagent, or of a command."""

    message: str | None = None
    content: str | None = None
    task: dict[str, Any] | None = None
    """Claude Code: `{task_id, task_type, status, description, output, exitCode?}`."""
    retrieval_status: str | None = None
    timed_out: bool | None = None
    agents_states: dict[str, Any] | None = None


def background_output(result: Background, look: Look) -> Markup:
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
        said(result.content, look, "/output/content"),
        agents(result.agents_states, look),
    )
