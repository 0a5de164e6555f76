"""Secrets of each kind, in what an agent prints, and which of them something shows."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.secrets.shapes import fakes

FAKES = fakes(11)
SESSION = "masked-session"
CUTS = (0, 15, 25)
"""Characters before a secret, so that the preview of its call is cut after it or within it."""


def lines() -> bytes:
    """A recording of Claude Code, with each secret in an answer, in a command, in what it printed, and in a request."""
    found: list[dict[str, Any]] = [opening(SESSION)]
    for number, fake in enumerate(FAKES):
        command = f"cat <<END\n{fake.text}\nEND"  # its preview is cut within some of them
        call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": fake.text}
        said: list[Any] = [{"type": "text", "text": f"word {fake.text}"}, call]
        found.append({"type": "assistant", "session_id": SESSION, "message": {"role": "assistant", "content": said}})
        found.append({"type": "user", "session_id": SESSION, "message": {"role": "user", "content": [result]}})
        found.append(request(number, command, f"c{number}"))
    return b"".join(json.dumps(one).encode() + b"\n" for one in found)


def opening(session: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "session_id": session, "cwd": "/ws", "tools": ["Bash"], "model": "m"}


def request(number: int | str, command: str, call_id: str = "") -> dict[str, Any]:
    """Claude Code asks whether it may run a command."""
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}}
    named = {"tool_use_id": call_id} if call_id else {}
    return {"type": "control_request", "request_id": f"r{number}", "request": {**asked, **named}}


def tapped(line: dict[str, Any]) -> bytes:
    tap = {"t": time.time_ns() // 1_000_000, "dir": "out", "line": json.dumps(line)}
    return json.dumps(tap).encode() + b"\n"


def kept(shown: bytes) -> list[str]:
    """The kinds of the secrets that are there as they were, or of which the first half is there."""
    return [fake.shape for fake in FAKES if any(one in shown for one in _written(_telling(fake.secret)))]


def _telling(secret: str) -> str:
    """As much of a secret as may be shown nowhere."""
    return secret[: max(8, (len(secret) + 1) // 2)]


def _written(text: str) -> tuple[bytes, ...]:
    return text.encode(), json.dumps(text)[1:-1].encode()
