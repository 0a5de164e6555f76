"""Nobody is called for nothing: in all recordings, only what a person can answer asks, and only while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.normalizers.reading import FIXTURES
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.testing import read_recording

RECORDINGS = [path for path in sorted(FIXTURES.glob("*/*/*.jsonl")) if path.parent.parent.name in builtin()]
STATE_REQUESTS = {
    *("acp", "claude-stream", "codex-app-server", "codex-mcp", "hooks", "kimi-json", "opencode-bus", "vibe-json"),
    *("happier-trace", "legacy", "tooltap-trace"),  # what others have recorded of these
    "kiro-messages",  # stored requests, which the agent's user answers
    "openai-responses",  # approvals of MCP servers' tools, which the client of the model answers
}
"""Dialects that have requests. The others are printed or stored without a person who is asked."""
OPEN = {
    "codex-mcp/codex-0.120/mcp-approval-open": {"mcp_tool_call_approval_call_c02e44206aa045998bf2f6ac"},
    "hooks/tooltap-0.2/questions": {"hook-a1b2c3d4e5f60718"},
}
"""Recordings that end while a person is asked -> ids of the requests."""


def asked(path: Path) -> tuple[set[str], set[str]]:
    """Return the ids of all requests, and of those that have no answer at the end."""
    normalizer = StreamNormalizer(Context(stream="s"), path.parent.parent.name)
    found: set[str] = set()
    still: set[str] = set()
    for line in read_recording(path.read_bytes()):
        for one in normalizer.feed(line.data, line.t, line.direction):
            if not isinstance(one, Produced) or one.replay:
                continue
            if one.kind == "permission-request":
                found.add(one.fields.permission_id)
                still.add(one.fields.permission_id)
            elif one.kind == "permission-response":
                still.discard(one.fields.permission_id)
    return found, still


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_only_what_can_be_answered_asks(path: Path) -> None:
    name = str(path.relative_to(FIXTURES).with_suffix(""))
    found, still = asked(path)

    assert not found or path.parent.parent.name in STATE_REQUESTS
    assert still == OPEN.get(name, set())
