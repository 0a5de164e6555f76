"""Endless streams, in which everything that could be remembered is new on every line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.normalizers.endless.text import TEXT


def documents() -> Iterator[Any]:
    history: list[Any] = []
    for n, entry in enumerate(lines()):
        history = [*history[-19:], {**entry, "sessionId": "s"}]
        turn = {"id": entry["turnId"], "status": "completed", "completedAt": n}
        session = {"id": "s", "tokenUsage": {"inputTokens": n}}
        meta = {"title": f"{n} {TEXT}", "config": {"model_name": f"m{n}"}}
        yield {
            "meta": meta,
            "snapshot": {"session": session, "latestTurn": turn},
            "history": history,
            "changes": [{"op": "append_entry", "entry": {**entry, "id": f"x{n}", "sessionId": "s"}}],
        }


def lines() -> Iterator[Any]:
    for n in itertools.count():

        def entry(entry_id: str, kind: str, status: str, n: int = n, **more: Any) -> dict[str, Any]:
            common = {"id": entry_id, "sessionId": f"s{n // 50}", "turnId": f"t{n // 20}", "createdAt": 10**12}
            return {**common, "type": kind, "generationStatus": status, **more}

        content = [{"type": "text", "text": TEXT}]
        yield entry(f"m{n}", "message", "in_progress", role="assistant", content=content)
        yield entry(f"n{n}", "message", "completed", role="assistant", content=content)
        detail = {"toolName": "file_system.bash", "input": {"command": f"{n} {TEXT}"}}
        yield entry(f"e{n}", "effect", "in_progress", detail=detail, state={"status": "running"})
        approval = {"kind": "approval", "effect": detail, "choices": ["approve", "deny"]}
        yield entry(f"c{n}", "callback", "in_progress", callbackId=f"p{n}", relatedEntryId=f"f{n}", detail=approval)
