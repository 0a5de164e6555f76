"""Subagents, and the task lists that agents share: what was asked for, and what came of it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tooltap.daemon.web.look import Look
from tooltap.daemon.web.render_any import rest, said, tree
from tooltap.daemon.web.render_parts import facts, joined, plain, prose, short, table
from tooltap.normalizers.values import record, records, string, whole
from tooltap.protocol.tools import TaskInput, TaskResult

__all__ = [
    "task_input",
    "task_output",
    "task_stop_input",
    "task_stop_output",
    "task_wait_input",
    "task_wait_output",
]

_COLUMNS = ("id", "subject", "status", "owner", "blockedBy", "blocks", "description")
_HEAD = ("task", "subject", "state", "owner", "waits for", "blocks", "description")


def task_input(asked: TaskInput, look: Look) -> Markup:
    extra = asked.extra
    if asked.operation in (None, "run"):
        return joined(
            facts(
                [
                    ("subagent", asked.subagent_type),
                    ("task", asked.description),
                    ("model", string(extra.get("model"))),
                    ("in the background", extra.get("run_in_background") is True or None),
                ]
            ),
            prose(asked.prompt, look, "/input/prompt", prompt=True),
            rest(extra, look, "/input", "model", "run_in_background", "message", "agent_type", "tool"),
        )
    task = None if asked.taskId is None else str(asked.taskId)
    return joined(
        facts([("task", task), ("subject", asked.subject), ("state", asked.status)]),
        prose(asked.description, look, "/input/description"),
        rest(extra, look, "/input"),
    )


def task_output(result: TaskResult, look: Look) -> Markup:
    """A subagent's answer, or the tasks that were asked for. What is said beside a table, or of a subagent that goes
    on, is for the model."""
    extra = result.extra
    listed = _tasks([result.task] if result.task else result.tasks or [], look)
    change = _change(record(extra.get("statusChange")))
    is_aside = bool(listed) or change is not None or extra.get("isAsync") is True
    answer = Markup() if is_aside and not look.is_full else prose(result.content, look, "/output/content")
    return joined(
        answer,
        listed,
        facts([("state", change)]),
        agents(extra.get("agents_states"), look),
        _effort(result, look),
        tree(result.value, look, "/output/value"),
        rest(extra, look, "/output", "agents_states", "statusChange", *_EFFORT),
    )


_EFFORT = ("totalDurationMs", "totalTokens", "totalToolUseCount")


def _effort(result: TaskResult, look: Look) -> Markup:
    duration, tokens, uses = (whole(result.extra.get(key)) for key in _EFFORT)
    took = None if duration is None else f"{duration / 1000:.1f} s"
    agent = (result.agentId, result.status) if look.is_full else (None, None)
    return facts(
        [("took", took), ("tokens", tokens), ("calls of tools", uses), ("agent", agent[0]), ("state", agent[1])]
    )


def _tasks(tasks: list[Any], look: Look) -> Markup:
    """The tasks that are objects; of a form nobody knows, as a tree."""
    known = records(tasks)
    if len(known) < len(tasks):
        return tree(tasks, look, "/output/tasks")
    return table(_HEAD, [[_cell(task.get(column)) for column in _COLUMNS] for task in known], look, name="tasks")


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | list):
        return value
    return short(str(value))


def _change(change: dict[str, Any]) -> str | None:
    before, after = string(change.get("from")), string(change.get("to"))
    return f"{before} → {after}" if before and after else None


def agents(states: Any, look: Look) -> Markup:
    """Codex's `agents_states`: thread -> `{status, message}`."""
    rows = [
        (thread, string(record(state).get("status")), string(record(state).get("message")))
        for thread, state in record(states).items()
    ]
    return table(("agent", "state", "last message"), rows, look, name="agents")


# -- TaskOutput, TaskStop: background work ------------------------------------------------------------------------


def task_wait_input(payload: dict[str, Any], look: Look) -> Markup:
    return tree({key: value for key, value in payload.items() if key != "tool"}, look, "/input")


def task_wait_output(payload: dict[str, Any], look: Look) -> Markup:
    task = record(payload.get("task"))
    words = ("content", "value", "message")
    return joined(
        facts(
            [
                ("state", string(task.get("status")) or string(payload.get("retrieval_status"))),
                ("task", string(task.get("description"))),
                ("exit code", whole(task.get("exitCode"))),
                ("timed out", payload.get("timed_out") is True or None),
            ]
        ),
        said(string(task.get("output")), look, "/output/task/output"),
        *(said(string(payload.get(key)), look, f"/output/{key}") for key in words if not task),
        agents(payload.get("agents_states"), look),
        rest(payload, look, "/output", "errorMessage", "agents_states", "task", "timed_out", *words),
    )


task_stop_input = task_wait_input


def task_stop_output(payload: dict[str, Any], look: Look) -> Markup:
    return joined(
        plain(string(payload.get("message")) or string(payload.get("value")), look, "/output/message"),
        agents(payload.get("agents_states"), look),
        rest(payload, look, "/output", "errorMessage", "agents_states", "message", "value"),
    )
