"""OpenCode: `run`, and the events of its server."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.dialect import Agent, Dialect

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_opencode_bus(value: dict[str, Any]) -> bool:
    payload = value.get("payload")
    if isinstance(payload, dict) and "type" not in value:
        return _is_opencode_bus(payload)
    kind = value.get("type")
    if kind == "sync":
        return isinstance(value.get("syncEvent"), dict)
    if isinstance(kind, str):
        known = kind.partition(".")[0] in _OPENCODE_SUBJECTS and "." in kind
        return known and isinstance(value.get("properties"), dict) and value.keys() <= {"id", "type", "properties"}
    return any(
        isinstance(path, str) and path.startswith(_OPENCODE_PATHS) and value.keys() <= {method, "body"}
        for method, path in value.items()
        if method in ("GET", "POST")
    )


_OPENCODE_SUBJECTS = ("file", "message", "permission", "plugin", "question", "server", "session", "todo")


_OPENCODE_PATHS = ("/session", "/permission/", "/question/")


def _is_opencode_run(value: dict[str, Any]) -> bool:
    if not isinstance(value.get("sessionID"), str) or not isinstance(value.get("timestamp"), int):
        return False
    kind = str(value.get("type"))
    part = value.get("part")
    if isinstance(part, dict):
        return kind in _OPENCODE_PARTS and part.get("type") == _OPENCODE_PARTS[kind]
    return kind == "error" and isinstance(value.get("error"), dict)


_OPENCODE_PARTS = {
    "reasoning": "reasoning",
    "step_finish": "step-finish",
    "step_start": "step-start",
    "text": "text",
    "tool_use": "tool",
}
"""Type of a line -> type of the part it tells of."""


PRODUCT = "OpenCode"

DIALECTS = (
    Dialect(
        "opencode-run",
        "run:OpencodeRun",
        _is_opencode_run,
        reads="`opencode run --format json`",
        tapped_with="`tooltap run -- opencode run --format json …`",
        arrives="streams blocks",
        omits="prompts, permission requests; calls arrive with their results, and after a denial or an "
        "interrupt the stream just ends",
        endless="endless:opencode_run",
    ),
    Dialect(
        "opencode-bus",
        "bus:OpencodeBus",
        _is_opencode_bus,
        reads="OpenCode's `/event` stream",
        tapped_with="`tooltap attach opencode URL`",
        arrives="streams text",
        omits="–",
        unproven="subagents, retries, `permission.updated`, `sync` envelopes, aborts",
        endless="endless:opencode_bus",
    ),
)

AGENTS = (
    Agent(
        "opencode",
        ("run … --format json", "acp"),
        "run --format json",
        package="opencode-ai",
    ),
)
