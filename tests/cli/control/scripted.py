"""A daemon that answers from a script, and notes what it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.hostile.world import WELCOME, server

__all__ = ["PERMISSION", "QUESTION", "Script", "scripted"]

PERMISSION = {
    "session": "0a-shop",
    "provider": "claude",
    "project": "/src/shop",
    "stream": "s",
    "seq": 3,
    "permissionId": "p1",
    "type": "permission",
    "name": "Bash",
    "preview": "make deploy",
    "options": [
        {"id": "yes", "name": "Allow", "kind": "allow_once"},
        {"id": "ever", "name": "Always", "kind": "allow_always", "remembers": "every make"},
        {"id": "no", "name": "Deny", "kind": "reject_once"},
    ],
    "answerable": True,
}
QUESTION = {
    "session": "0b-blog",
    "provider": "codex",
    "stream": "t",
    "seq": 5,
    "permissionId": "q1",
    "type": "question",
    "questions": [
        {"question": "Which database?", "id": "db", "options": [{"label": "Postgres"}, {"label": "SQLite"}]},
        {"question": "1=1, or which parts?", "multiSelect": True, "options": [{"label": "Cart"}, {"label": "Stock"}]},
    ],
    "answerable": True,
}
RECEIPT = {
    "session": "0a-shop",
    "stream": "s",
    "seq": 3,
    "permissionId": "p1",
    "outcome": "allowed",
    "by": "alice in the terminal",
    "ts": 0,
    "delivered": True,
}
EVENT = {"kind": "permission-request", "seq": 3, "input": {"command": "make deploy\n  1  deny: x", "_happy": {}}}


class Script:
    """Results and errors by `op`; `events`: the lines of a subscription; `asked`: the frames that came."""

    def __init__(self, path: Path) -> None:
        self.path = path
        sessions = [{"session": one["session"], "provider": "claude", "lastSeq": 9} for one in (PERMISSION, QUESTION)]
        self.results: dict[str, Any] = {
            "waiting": {"waiting": [PERMISSION, QUESTION], "complete": True},
            "sessions": {"sessions": sessions},
            "stats": {"journal": {}},
            "event": {"view": "raw", "event": EVENT},
            "answer": RECEIPT,
            "send": {"session": "0a-shop", "stream": "s", "id": "i", "delivered": True},
        }
        self.results["interrupt"] = self.results["send"]
        self.errors: dict[str, tuple[str, str]] = {}
        self.events: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def only(self, op: str) -> dict[str, Any]:
        """Return what was asked with this op, once, without what every request has."""
        [frame] = [one for one in self.asked if one["op"] == op]
        return {key: value for key, value in frame.items() if key not in ("op", "id", "speaks", "by")}

    def reply(self, line: bytes) -> bytes:
        frame = json.loads(line)
        self.asked.append(frame)
        op = frame["op"]
        if op == "subscribe":
            live = {"op": "live", "seq": 9}
            return b"".join(json.dumps(one).encode() + b"\n" for one in (*self.events, live))
        answer: dict[str, Any] = {"op": "reply", "id": frame["id"]}
        if op in self.errors:
            code, message = self.errors[op]
            answer |= {"ok": False, "error": {"code": code, "message": message}}
        else:
            result = self.results[op]
            if op == "sessions" and "session" in frame:
                named = [one for one in result["sessions"] if one["session"] in frame["session"]]
                result = {"sessions": named}
            answer |= {"ok": True, "result": result}
        return json.dumps(answer).encode() + b"\n"


@contextmanager
def scripted(folder: Path) -> Iterator[Script]:
    script = Script(folder / "s.sock")
    with server(str(script.path), WELCOME, script.reply):
        yield script
