"""Recorded sessions of the same task, one for each way to tap an agent.

In `SHELL_FAILS` the assistant runs a command that exits with code 3, and reports it. In `SHELL` it announces a command,
runs it, and summarises the result. In `EDIT` it reads a file, announces an edit, edits, and describes the change.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tooltap.protocol.events import Event
from tooltap.testing import Line, normalize, read_recording

FIXTURES = Path(__file__).parent / "fixtures"


class Session(NamedTuple):
    dialect: str
    path: Path

    def lines(self) -> list[Line]:
        return read_recording(self.path.read_bytes())

    def events(self) -> list[Event]:
        return normalize(self.dialect, self.lines())


def _of(recordings: dict[str, str]) -> dict[str, Session]:
    """Name -> session. A recording is in the folder of its dialect."""
    return {name: Session(place.split("/")[0], FIXTURES / f"{place}.jsonl") for name, place in recordings.items()}


SHELL_FAILS = _of(
    {
        "claude": "claude-stream/claude-code-2.1.330/shell-fails",
        "codex": "codex-exec/codex-0.169/shell-fails",
        "gemini": "gemini-stream/gemini-0.61.0/shell-fails",
        "opencode": "opencode-run/opencode-1.18.33/failing-shell",
        "openai-compatible": "openai-chat/openai-written/shell-fails",
        "claude-files": "claude-transcript/claude-code-2.1.330/shell-fails",
        "codex-app-server": "codex-app-server/codex-0.169/shell-fails",
        "codex-files": "codex-rollout/codex-0.120/shell-fails",
        "gemini-files": "gemini-chat/gemini-0.61.0/shell-fails",
        "claude-acp": "acp/claude-agent-acp-0.100.0/shell-fails",
        "codex-acp": "acp/codex-acp-2.6.0/shell-fails",
        "gemini-acp": "acp/gemini-0.61.0/shell-fails",
        "opencode-acp": "acp/opencode-1.18.33/shell-fails",
        "qwen": "qwen-stream/qwen-0.24.4/shell-fails",
        "kimi": "kimi-json/kimi-1.40.0/shell-failing",
        "cline": "cline-json/cline-3.0.65/shell-failing",
    }
)
SHELL = _of(
    {
        "gemini": "gemini-stream/gemini-0.61.0/shell",
        "opencode-server": "opencode-bus/opencode-1.18.33/shell",
        "copilot": "copilot-json/copilot-1.0.102/shell",
        "vibe": "vibe-json/vibe-3.0.2/shell",
    }
)
EDIT = _of(
    {
        "claude": "claude-stream/claude-code-2.1.330/edit",
        "gemini": "gemini-stream/gemini-0.61.0/edit",
        "claude-acp": "acp/claude-agent-acp-0.100.0/edit",
        "codex-acp": "acp/codex-acp-2.6.0/edit",
        "gemini-acp": "acp/gemini-0.61.0/edit",
        "opencode-acp": "acp/opencode-1.18.33/edit",
        "pi": "pi-json/pi-0.73.1/edit",
        "vibe": "vibe-json/vibe-3.0.2/edit",
    }
)
PROVIDERS = ("claude", "codex", "gemini", "opencode", "openai-compatible")
"""The sessions of `SHELL_FAILS` that every user interface must support."""
