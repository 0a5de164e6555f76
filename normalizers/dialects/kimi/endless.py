"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import orjson

from tooltap.normalizers.catalog.endless import TEXT


def lines() -> Iterator[Any]:
    for n in itertools.count():
        arguments = orjson.dumps({"command": f"{n} {TEXT}", "run_in_background": True}).decode()
        call = {"type": "function", "id": f"c{n}", "function": {"name": "Shell", "arguments": arguments}}
        lost = {**call, "id": f"lost{n}"}
        yield {"role": "assistant", "content": [{"type": "think", "think": TEXT}], "tool_calls": [call, lost]}
        yield {"role": "tool", "content": f"task_id: task{n}\nkind: bash\nstatus: running", "tool_call_id": f"c{n}"}
        yield {"role": "tool", "content": TEXT, "tool_call_id": f"unknown{n}"}
        if n % 100 == 0:
            yield {"role": "assistant", "content": TEXT}
