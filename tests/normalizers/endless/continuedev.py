"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def documents() -> Iterator[Any]:
    history: list[dict[str, Any]] = []
    for n in itertools.count():
        call = {"id": f"c{n}", "type": "function", "function": {"name": "Bash", "arguments": f'{{"command": "{n}"}}'}}
        state = {"toolCallId": f"c{n}", "toolCall": call, "status": "calling", "parsedArgs": {"command": f"{n} {TEXT}"}}
        said = {"role": "assistant", "content": f"{n} {TEXT}", "usage": {"prompt_tokens": 1, "model": f"m{n}"}}
        history += [
            {"message": {"role": "user", "content": f"{n} {TEXT}"}},
            {"message": said, "toolCallStates": [state]},
        ]
        del history[:-20]
        yield {"sessionId": "s", "title": f"{n} {TEXT}", "workspaceDirectory": "/ws", "history": list(history)}
