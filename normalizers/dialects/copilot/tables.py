"""Copilot's lines that are one thing for one thing: those that say nothing of their own, and those that are notices.

Seen in recordings of 1.0.102, or named in the session events of GitHub's Copilot SDK.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOTICES", "OUTCOMES", "SKIPPED", "NoticeOf"]


class NoticeOf(NamedTuple):
    level: str
    code: str
    key: str
    """Where its text is."""


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

NOTICES = {
    "assistant.intent": NoticeOf("info", "intent", "intent"),
    "session.compaction_complete": NoticeOf("info", "compaction", "summaryContent"),
    "session.handoff": NoticeOf("info", "handoff", "summary"),
    "session.mode_changed": NoticeOf("info", "config", "newMode"),
    "session.shutdown": NoticeOf("info", "shutdown", "shutdownType"),
    "session.snapshot_rewind": NoticeOf("info", "rewound", "upToEventId"),
    "session.task_complete": NoticeOf("info", "task-complete", "summary"),
    "session.truncation": NoticeOf("info", "compaction", "performedBy"),
    "session.warning": NoticeOf("warning", "warning", "message"),
    "system.notification": NoticeOf("info", "notification", "content"),
}

OUTCOMES = {
    "denied-by-rules": ("denied", "policy"),
    "denied-by-content-exclusion-policy": ("denied", "policy"),
    "denied-by-permission-request-hook": ("denied", "hook"),
    "denied-interactively-by-user": ("denied", "user"),
    "denied-no-approval-rule-and-could-not-request-from-user": ("denied", "policy"),
}
"""Kind of an answered permission -> (outcome, by whom)."""
