"""Lines of Claude's transcripts by which Claude Code finds its own way, and that tell of no work: skipped by name.

They are most of a file's bytes (2.1.330 writes every request and prompt out), so they are known by how they begin.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.parser import skip
from tooltap.normalizers.wire.values import record

__all__ = ["BOOKKEEPING", "BOOKKEEPING_SKIPS", "TELLING_ATTACHMENTS", "bookkeeping", "glance"]

BOOKKEEPING = {
    "api-request": "api-request",
    "api-request-blob": "api-request",
    "api-request-shape": "api-request",
    "atis-latch": "atis-latch",
    "attribution-snapshot": "file-history",
    "content-replacement": "context-management",
    "file-history-delta": "file-history",
    "file-history-snapshot": "file-history",
    "last-prompt": "last-prompt",
    "marble-origami-commit": "context-management",
    "marble-origami-snapshot": "context-management",
    "queue-operation": "queue-operation",
    "tools-used": "tools-used",
} | dict.fromkeys(
    [
        "agent-color",
        "agent-name",
        "agent-setting",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "isolation-latch",
        "pr-link",
        "relocated",
        "speculation-accept",
        "tag",
        "task-summary",
        "worktree-state",
    ],
    "session-metadata",
)
"""Line type -> reason. A queued prompt comes again when it is taken: as a prompt, or as an attachment."""

BOOKKEEPING_SKIPS = frozenset(BOOKKEEPING.values()) | {"attachment"}

TELLING_ATTACHMENTS = frozenset(
    {
        "hook_blocking_error",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_stopped_continuation",
        "hook_success",
        "queued_command",
    }
)
"""What happened, rather than context for the model."""

_TYPE_FIRST = re.compile(rb'\{"type":"([\w-]+)"')
_ATTACHMENT = re.compile(
    rb'\{"parentUuid":(?:null|"[\w-]*"),"isSidechain":(?:true|false),(?:"\w+":"[^"\\]*",)*"attachment":\{"type":"(\w+)"'
)


def bookkeeping(value: dict[str, Any]) -> str | None:
    """The class of a line that is no more than that."""
    kind = str(value.get("type"))
    if kind == "attachment" and str(record(value.get("attachment")).get("type")) not in TELLING_ATTACHMENTS:
        return skip("attachment")
    return skip(BOOKKEEPING[kind]) if kind in BOOKKEEPING else None


def glance(line: bytes) -> str | None:
    """The same, of a line that is not decoded yet: whole, and a single object, as far as its ends show."""
    reason = None
    if first := _TYPE_FIRST.match(line):
        reason = BOOKKEEPING.get(first[1].decode())
    elif (attachment := _ATTACHMENT.match(line)) and attachment[1].decode() not in TELLING_ATTACHMENTS:
        reason = "attachment"
    if reason is None or not line.rstrip().endswith(b"}") or b'}{"' in line:
        return None
    return skip(reason)
