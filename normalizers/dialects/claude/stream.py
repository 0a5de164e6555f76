"""The `claude-stream` dialect: `claude -p --output-format stream-json`, with or without `--include-partial-messages`,
one-way or with the control protocol.

Learned from Claude Code 1.0.128 and 2.1.330. Every prompt begins with an `init` line and ends with a `result` line, but
the turns overlap: a background task that ends opens a second turn before the first one's result is printed.
"""

from __future__ import annotations

from tooltap.normalizers.dialects.claude.print import PrintParser

__all__ = ["ClaudeStream"]


class ClaudeStream(PrintParser):
    dialect = "claude-stream"
    MODE_KEY = "permissionMode"
    VERSION_KEY = "claude_code_version"
