"""AG-UI: the events that an agent's backend streams to its user interface."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect

_KINDS = (
    "RUN_",
    "STEP_",
    "TEXT_MESSAGE_",
    "TOOL_CALL_",
    "REASONING_",
    "THINKING_",
    "STATE_",
    "MESSAGES_SNAPSHOT",
    "ACTIVITY_",
    "SUBAGENT_",
)
_KEYS = frozenset(
    {"activityType", "delta", "entityId", "message", "messageId", "messages", "runId", "snapshot", "stepName"}
    | {"subagentRunId", "threadId", "toolCallId"}
)


def _is_event(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind.startswith(_KINDS) and not value.keys().isdisjoint(_KEYS)


PRODUCT = "AG-UI"

DIALECTS = (
    Dialect(
        "ag-ui",
        "parser:AgUi",
        _is_event,
        reads="the events of the AG-UI protocol, as server-sent events or as lines",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams text",
        omits="permission requests, cost; whether a tool failed, the folder, and prompts that the run's input does not "
        "repeat",
        unproven="prompts, reasoning, chunks, interrupts, errors, tokens, subagents, snapshots of messages",
        shows_prompts=False,
    ),
)
