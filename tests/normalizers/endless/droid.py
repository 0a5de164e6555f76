"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():

        def message(role: str, *content: dict[str, Any], n: int = n) -> dict[str, Any]:
            said = {"role": role, "content": list(content), "modelId": f"m{n}"}
            ident = f"{role}-{n:036}"
            return {"type": "message", "id": ident, "timestamp": "2026-11-24T02:09:31.246Z", "message": said}

        if n % 50 == 0:
            yield message("user", {"type": "text", "text": TEXT})
        call = {"type": "tool_use", "id": f"c{n}", "name": "Execute", "input": {"command": f"{n} {TEXT}"}}
        yield message("assistant", {"type": "thinking", "thinking": TEXT}, {"type": "text", "text": TEXT}, call)
        yield message("user", {"type": "tool_result", "tool_use_id": f"lost{n}", "content": TEXT, "is_error": False})
