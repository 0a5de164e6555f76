"""Copilot's lines that need no method of their own: those that are skipped, and those that become a notice.

Seen in recordings of 1.0.102, or named in the session events of GitHub's Copilot SDK.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DENIED_BY", "NOTICES", "SKIPPED"]


class NoticeOf(NamedTuple):
    level: str
    code: str
    key: str
    """The key of its text."""
    keys: tuple[str, ...] | None = None
    """What its data has of the line's; None: all of it."""
    outcome: str | None = None
    """How the open turn will end, now that this has happened."""


_SKIPPED = {
    "partial": "assistant.message_start assistant.streaming_delta assistant.tool_call_delta"
    " tool.execution_partial_result",
    "step": "assistant.turn_start assistant.turn_end",
    "model-call": "model.call_start model.call_final_result",
    "background-tasks": "session.background_tasks_changed",
    "mcp-startup": "session.mcp_server_tools_loaded",
    "catalogue": "session.skills_loaded session.extensions_loaded session.custom_agents_updated",
    "subagent-setup": "subagent.configured subagent.selected subagent.deselected",
    "hook-start": "hook.start",
    "queue": "pending_messages.modified command.queued command.execute command.completed",
    "prompt-context": "system.message skill.invoked",
    "workspace": "session.context_changed session.workspace_file_changed session.plan_changed",
    "compaction-start": "session.compaction_start",
}
SKIPPED = {kind: reason for reason, kinds in _SKIPPED.items() for kind in kinds.split()}
"""Type -> reason."""

_REQUEST_KEYS = ("statusCode", "retryAttempt", "failureKind", "errorType")

NOTICES = {
    "abort": NoticeOf("warning", "interrupt", "reason", (), "cancelled"),
    "assistant.intent": NoticeOf("info", "intent", "intent"),
    "assistant.turn_retry": NoticeOf("warning", "retry", "reason", ()),
    # One request failed; Copilot may try it again.
    "model.call_failure": NoticeOf("warning", "provider-error", "errorMessage", _REQUEST_KEYS),
    "session.compaction_complete": NoticeOf("info", "compaction", "summaryContent"),
    "session.error": NoticeOf("error", "provider-error", "message", ("errorType", "statusCode"), "failed"),
    "session.handoff": NoticeOf("info", "handoff", "summary"),
    "session.mode_changed": NoticeOf("info", "config", "newMode"),
    "session.shutdown": NoticeOf("info", "shutdown", "shutdownType"),
    "session.snapshot_rewind": NoticeOf("info", "rewound", "upToEventId"),
    "session.task_complete": NoticeOf("info", "task-complete", "summary"),
    "session.truncation": NoticeOf("info", "compaction", "performedBy"),
    "session.warning": NoticeOf("warning", "warning", "message"),
    "system.notification": NoticeOf("info", "notification", "content"),
}

DENIED_BY = {
    "denied-by-rules": "policy",
    "denied-by-content-exclusion-policy": "policy",
    "denied-by-permission-request-hook": "hook",
    "denied-interactively-by-user": "user",
    "denied-no-approval-rule-and-could-not-request-from-user": "policy",
}
"""Kind of a denied permission -> who denied it."""
