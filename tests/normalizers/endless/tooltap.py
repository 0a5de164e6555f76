"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tests.normalizers.endless.text import TEXT


def tooltap_trace(sources: Mapping[str, Iterator[Any]]) -> Iterator[Any]:
    """The endless streams of other dialects at once, and a new stream with every line."""
    for n in itertools.count(1):
        for name, source in sources.items():
            line = orjson.dumps(next(source)).decode()
            yield {"v": 1, "stream": name, "dialect": name, "n": n, "line": line}
            yield {"v": 1, "stream": f"{name}{n}", "dialect": name, "n": 1, "line": line}


def display_tools() -> Iterator[Any]:
    yield {"type": "display/session", "cwd": "/w"}
    for n in itertools.count():
        call = {"callId": f"c{n}", "tool": "render_file_contents"}
        yield {"type": "display/call", **call, "arguments": {"path": f"{n} {TEXT}"}}
        answered = {**call, "callId": f"answered{n}", "status": "completed", "text": TEXT, "durationMs": 1}
        yield {"type": "display/result", **answered, "display": {"outputId": f"o{n}", "mimeType": "text/plain"}}


def hooks() -> Iterator[Any]:
    for n in itertools.count():
        plan = {"session_id": "s", "tool_name": "ExitPlanMode", "tool_input": {"plan": f"{n} {TEXT}"}}
        rules = [{"type": "addRules", "rules": [{"toolName": f"T{n}"}], "behavior": "allow", "destination": "session"}]
        given = {**plan, "cwd": f"/w/{n}", "permission_suggestions": rules}
        asked = {"agent": "claude", "event": "PermissionRequest", "waits": True, "input": given}
        yield {"type": "hook/asked", "id": f"h{n}", **asked}
        yield {"type": "hook/asked", "id": f"answered{n}", **asked}
        yield {"type": "hook/answered", "id": f"answered{n}", "output": {"behavior": "allow"}}
