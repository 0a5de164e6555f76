"""Lines of Claude's transcripts that only Claude Code itself needs: skipped by type.

They are most of a file's bytes (2.1.330 writes out every request and prompt), so they are recognised by how they begin.
"""

from __future__ import annotations

import re

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import record

BOOKKEEPING = {
    **{kind: kind for kind in ("api-request", "atis-latch", "last-prompt", "queue-operation", "tools-used")},
    **dict.fromkeys(("api-request-blob", "api-request-shape"), "api-request"),
    **dict.fromkeys(("attribution-snapshot", "file-history-delta", "file-history-snapshot"), "file-history"),
    **dict.fromkeys(("content-replacement", "marble-origami-commit", "marble-origami-snapshot"), "context-management"),
    **dict.fromkeys(("agent-color", "agent-name", "agent-setting", "pr-link", "tag"), "session-metadata"),
    **dict.fromkeys(("artifact-autoreact-ledger", "artifact-comment-monitor", "task-summary"), "session-metadata"),
    **dict.fromkeys(("isolation-latch", "relocated", "speculation-accept", "worktree-state"), "session-metadata"),
}
"""Line type -> reason. A queued prompt comes again when it is taken: as a prompt, or as an attachment."""
QUEUE = "queue-operation"

_READ_ATTACHMENT = re.compile(
    r"hook_(?:blocking_error|cancelled|error_during_execution|non_blocking_error|stopped_continuation|success)"
    r"|queued_command|task_status"
)
"""Attachments that report what happened; the others are context for the model."""

_TYPE_FIRST = re.compile(rb'\{"type":"([\w-]+)"')
_ATTACHMENT = re.compile(
    rb'\{"parentUuid":(?:null|"[\w-]*"),"isSidechain":(?:true|false),(?:"\w+":"[^"\\]*",)*"attachment":\{"type":"(\w+)"'
)
_SEVERAL = re.compile(rb'\}\{"').search
"""Finds the beginning of another object; twice as fast as `in`, whose steps through JSON are hard to predict."""


def bookkeeping(value: Line) -> str | None:
    """Return why a line is skipped; None for any other line."""
    kind = str(value.get("type"))
    if kind == "attachment":
        return _of_attachment(str(record(value.get("attachment")).get("type")))
    if kind == QUEUE and _is_notification(value):
        return None
    return BOOKKEEPING.get(kind)


def _is_notification(value: Line) -> bool:
    """Whether a queued text may be the end of background work: it may never come again."""
    return value.get("operation") == "enqueue" and "-notification>" in str(value.get("content"))


def glance(line: bytes) -> str | None:
    """Return why an undecoded line is skipped, if it is a whole single object as far as its ends show."""
    reason = None
    if first := _TYPE_FIRST.match(line):
        reason = BOOKKEEPING.get(first[1].decode())
        if reason == QUEUE and b"-notification>" in line:
            return None
    elif attachment := _ATTACHMENT.match(line):
        reason = _of_attachment(attachment[1].decode())
    return reason if reason and line.rstrip().endswith(b"}") and not _SEVERAL(line) else None


def _of_attachment(kind: str) -> str | None:
    return None if _READ_ATTACHMENT.fullmatch(kind) else "attachment"
