"""What the agents of a storm print: lines that a seed determines, each with a word that no other line has."""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["MODEL", "length", "line", "session_id", "session_number", "transcript_line", "word"]

MODEL = "claude-opus-5-5"
SHORT, LONG = 50, 3_000
"""Lines of a stream."""
CALL_EVERY = 20
"""Every so many lines, one is a call and the next one its result."""


def session_id(number: int) -> str:
    return f"{number:08x}-5707-4000-8000-{number:012x}"


def session_number(session: str) -> int:
    """The inverse of `session_id`. Raises `ValueError` for other sessions."""
    if session[8:24] != "-5707-4000-8000-":
        raise ValueError(session)
    return int(session[:8], 16)


def word(number: int, at: int) -> str:
    """The word of a line; lines are counted from 1. No word is the beginning of another."""
    return f"w{number:08x}q{at:06x}"


def length(seed: int, number: int) -> int:
    """How many lines a stream has."""
    return int(random.Random(f"{seed} {number}").triangular(SHORT, LONG, SHORT))


def line(number: int, at: int, last: int) -> bytes:
    """A line of `claude -p --output-format stream-json`."""
    session = session_id(number)
    if at == 1:
        value: dict[str, Any] = {"type": "system", "subtype": "init", "cwd": "/w", "model": MODEL, "tools": []}
        value |= {"claude_code_version": "2.1.330", "uuid": f"{session}-1"}
    elif at == last:
        usage = {"input_tokens": 10 * last, "output_tokens": last}
        value = {"type": "result", "subtype": "success", "is_error": False, "duration_ms": 5, "num_turns": 1}
        value |= {"result": "done", "total_cost_usd": last / 1_000, "usage": usage}
    elif at % CALL_EVERY == 1:
        content = [_result(number, at, f"toolu_{number:x}_{at - 1}")]
        value = {"type": "user", "parent_tool_use_id": None, "message": {"role": "user", "content": content}}
    else:
        is_call = at % CALL_EVERY == 0 and at + 1 < last
        block = _call(number, at) if is_call else {"type": "text", "text": f"{word(number, at)} and more"}
        value = {"type": "assistant", "parent_tool_use_id": None, "message": _message(number, at, block)}
    return json.dumps({"session_id": session, **value}, separators=(",", ":")).encode()


def transcript_line(number: int, at: int, now: str) -> bytes:
    """A line of a session file of Claude Code. `now`: the time, as ISO 8601."""
    value: dict[str, Any] = {"sessionId": session_id(number), "isSidechain": False, "userType": "external"}
    value |= {"cwd": "/w", "version": "2.1.330", "uuid": f"{number:x}-{at}", "timestamp": now}
    value["parentUuid"] = f"{number:x}-{at - 1}" if at > 1 else None
    if at == 1:
        value |= {"type": "user", "message": {"role": "user", "content": word(number, at)}}
    else:
        block = {"type": "text", "text": f"{word(number, at)} and more"}
        value |= {"type": "assistant", "requestId": f"req_{number:x}_{at}", "message": _message(number, at, block)}
    return json.dumps(value, separators=(",", ":")).encode()


def _message(number: int, at: int, block: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 1}
    value = {"id": f"msg_{number:x}_{at}", "type": "message", "role": "assistant", "model": MODEL}
    return {**value, "content": [block], "stop_reason": None, "usage": usage}


def _call(number: int, at: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number:x}_{at}", "name": "Bash", "input": {"command": word(number, at)}}


def _result(number: int, at: int, call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": word(number, at), "is_error": False}
