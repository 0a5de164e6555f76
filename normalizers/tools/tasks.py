"""Task: runs a subagent (`operation` run), or works on a shared task list (create, update, get, list)."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools.payload import Payload, add_text, blocks_text, nonblank

_OPERATIONS = {"taskcreate": "create", "tasklist": "list", "taskupdate": "update", "taskget": "get"}
"""Raw name without case and `_` -> operation. Every other name runs a subagent."""


def spawned_agent(fields: Any) -> str | None:
    """The subagent that a call has started, where an update or result of it says so. `fields`: those of the event."""
    output = getattr(fields, "output", None) or {}
    data = (getattr(fields, "progress", None) or {}).get("data")
    started: Any = output.get("agentId") or output.get("agent_id")  # Claude Code, Gemini CLI; Codex 0.120
    if started is None and isinstance(data, dict) and data.get("kind") == "started":
        started = data.get("agent_thread_id")  # Codex 0.169, of an agent with a path
    if started is None and isinstance(states := output.get("agents_states"), dict) and len(states) == 1:
        [started] = states  # Codex 0.169
    return started if isinstance(started, str) and started else None


def task_input(payload: Payload, raw_name: str) -> Payload:
    name = raw_name.lower().replace("_", "")
    operation = _OPERATIONS.get(name) or _operation_of(payload, name)
    if operation == "run":
        add_text(payload, "prompt", "message", "task")
        add_text(payload, "subagent_type", "agent_type", "agent_name")
    return {"operation": operation, **payload}


def _operation_of(payload: Payload, name: str) -> str:
    if name != "task":
        return "run"
    # ACP: the input of a call that is just named `task` shows the operation.
    if isinstance(payload.get("subject"), str):
        return "create"
    if isinstance(payload.get("taskId"), str | int):
        return "update"
    return "run"


def task_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, list):
        text = blocks_text(value)
        return {"tasks": value} if text is None else {"content": text}
    if isinstance(value, str):
        return {"content": value} if nonblank(value) else {}
    if not isinstance(value, dict):
        return {"value": value}
    text = blocks_text(value.get("content"))
    return dict(value) if text is None else {**value, "content": text}
