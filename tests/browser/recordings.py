"""Lines for the tests' agents: recordings of real agents, and written lines in the form of Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "fixtures"
CLAUDE = FIXTURES / "claude-stream" / "claude-code-2.1.330"
CLAUDE_TRANSCRIPT = FIXTURES / "claude-transcript" / "claude-code-2.1.330"
CLAUDE_SESSION = "5b0c7c52-6b0f-4cf1-9a3c-0b0f8a3c2f11"


def recording(name: str) -> Path:
    """Return the path of a recording, by `<dialect>/<agent>/<name>`."""
    return FIXTURES / f"{name}.jsonl"


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def assistant_message(text: str, number: int = 1, session: str = CLAUDE_SESSION) -> dict[str, Any]:
    """Return a message of the assistant."""
    return _assistant({"type": "text", "text": text}, f"msg_{number}", session)


def called(tool: str, arguments: dict[str, Any], call: str, session: str = CLAUDE_SESSION) -> dict[str, Any]:
    return _assistant({"type": "tool_use", "id": call, "name": tool, "input": arguments}, f"msg_{call}", session)


def answered(call: str, content: Any, session: str = CLAUDE_SESSION, **more: Any) -> dict[str, Any]:
    """`content`: text, or blocks. `more`: `tool_use_result`, or `is_error`."""
    block = {"type": "tool_result", "tool_use_id": call, "content": content}
    if "is_error" in more:
        block["is_error"] = more.pop("is_error")
    return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": session, **more}


def _assistant(block: dict[str, Any], message: str, session: str) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"id": message, "type": "message", "role": "assistant", "model": "m", "content": [block]},
        "parent_tool_use_id": None,
        "session_id": session,
    }
