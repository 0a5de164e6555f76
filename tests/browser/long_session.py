"""A long session: recorded output of Claude Code, repeated with new ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "claude-stream" / "claude-code-2.1.330"
NAMES = ("read", "grep", "edit", "todos", "shell-fails", "glob", "text-only", "write")
SESSION = "a-long-session"
IDS = re.compile(rb'"((?:toolu|msg|req)_\w+|\w{8}-\w{4}-\w{4}-\w{4}-\w{12})"')
SESSION_ID = re.compile(rb'"session_id":"[^"]*"')
ROUND = 68
"""Events that one round of all recordings gives."""
PARTIAL = b'{"type":"stream_event"'
"""Partials of texts that also come whole."""


def rounds(events: int) -> Iterator[bytes]:
    """Yield the lines of one round after another, until they yield at least `events` events."""
    recorded = b"".join((RECORDINGS / f"{name}.jsonl").read_bytes() for name in NAMES)
    lines = b"".join(line for line in recorded.splitlines(keepends=True) if not line.startswith(PARTIAL))
    for number in range(-(-events // ROUND)):
        own = IDS.sub(rb'"\g<1>-%d"' % number, lines)
        yield SESSION_ID.sub(b'"session_id":"%s"' % SESSION.encode(), own)
