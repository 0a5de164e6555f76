"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():
        common = {"session_id": f"s{n // 50}", "timestamp_ms": n}
        if n % 50 == 0:
            yield {"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": f"/w{n}", **common}
        yield {"type": "thinking", "subtype": "delta", "text": TEXT, **common}
        message = {"role": "assistant", "content": [{"type": "text", "text": f"{n} {TEXT}"}]}
        yield {"type": "assistant", "message": message, **common}
        for kind, body in (("started", {"args": {"command": TEXT}}), ("completed", {"result": {"success": {}}})):
            call = {"subtype": kind, "call_id": f"{kind}{n}", "tool_call": {"shellToolCall": body}}
            yield {"type": "tool_call", **call, **common}
