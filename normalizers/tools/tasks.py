"""Task, which runs a subagent (`operation` run) or works on a shared task list (create, update, get, list); and
TodoWrite and TodoRead, for the to-do list, which some agents call a plan.

An entry of the list is `{content, status, …}`. `status` is pending, in_progress or completed, or the provider's own
word. Other keys of an entry (`priority`, `id`, `activeForm`, `description`) are retained.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools.payload import (
    Payload,
    add_text,
    blocks_text,
    decode_json,
    first_text,
    keys_and_text,
    nonblank,
    objects,
)

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


# -- TodoWrite and TodoRead ---------------------------------------------------------------------------------------

_LIST_KEYS = ("todos", "newTodos", "items", "plan", "entries")
_CONTENT_KEYS = ("content", "step", "title", "text", "subject", "description")
_STATUS = {
    "pending": "pending",
    "todo": "pending",
    "open": "pending",
    "notstarted": "pending",
    "inprogress": "in_progress",
    "doing": "in_progress",
    "active": "in_progress",
    "running": "in_progress",
    "started": "in_progress",
    "completed": "completed",
    "complete": "completed",
    "done": "completed",
    "finished": "completed",
    "success": "completed",
}
"""A provider's status without case, `-`, `_` and spaces -> canonical status."""


_STATUSES = frozenset(_STATUS.values())
_SEPARATORS = str.maketrans("", "", "-_ ")


def _canonical_todos(items: list[Any]) -> list[Payload]:
    return [todo for todo in map(_todo, items) if todo is not None]


def _todo(item: Any) -> Payload | None:
    if nonblank(item):
        return {"content": item.strip(), "status": "pending"}
    content = first_text(item, _CONTENT_KEYS) if isinstance(item, dict) else None
    if content is None:
        return None
    return {**item, "content": content.strip(), "status": _status(item)}


def _status(item: Payload) -> str:
    if isinstance(item.get("completed"), bool):  # Codex exec: {text, completed}
        return "completed" if item["completed"] else "pending"
    word = first_text(item, ("status", "state")) or "pending"
    if word in _STATUSES:
        return word
    return _STATUS.get(word.strip().lower().translate(_SEPARATORS), word.strip())


def _todos(payload: Payload, keys: tuple[str, ...]) -> list[Payload] | None:
    """The first list under `keys`, which may also be a JSON string."""
    for key in keys:
        named = decode_json(payload.get(key))
        if isinstance(named, list):
            return _canonical_todos(named)
    return None


def todos_input(payload: Payload, raw_name: str) -> Payload:
    todos = _todos(payload, _LIST_KEYS)
    if todos is None and isinstance(payload.get("_acp"), dict):
        todos = _todos(payload["_acp"], ("rawInput",))
    if todos is not None:
        payload["todos"] = todos
    return payload


def todos_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, list) and not any("type" in block for block in objects(value)):
        return {"todos": _canonical_todos(value)}
    payload, text = keys_and_text(value, ("output",))
    decoded = decode_json(text)
    if isinstance(decoded, list):  # OpenCode returns the list as JSON
        payload.setdefault("todos", decoded)
    elif isinstance(decoded, dict):  # Vibe: {verb, todos, message} as JSON
        payload = {**decoded, **payload}
    elif nonblank(text):
        payload.setdefault("message", text)
    todos = _todos(payload, ("newTodos", *_LIST_KEYS))
    if todos is not None:
        payload["todos"] = todos
    return payload
