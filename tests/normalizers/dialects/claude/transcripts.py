"""Helpers for the tests of Claude's transcripts: fixtures as events, and handmade lines."""

from pathlib import Path
from typing import Any

import orjson

from tests.normalizers import reading
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Turn
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, check_recording, normalize, read_recording

V1, V2 = "claude-code-1.0.128", "claude-code-2.1.330"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "claude-transcript"
SESSION = "11111111-2222-3333-4444-555555555555"


def recording(name: str, version: str) -> list[Line]:
    return read_recording((FIXTURES / version / f"{name}.jsonl").read_bytes())


def events(name: str, version: str = V2) -> list[Event]:
    return normalize("claude-transcript", recording(name, version), Context(stream="s"))


def statistics(lines: list[Line]) -> Statistics:
    return reading.statistics("claude-transcript", lines)


def line(kind: str, uuid: str, **more: Any) -> dict[str, Any]:
    chain = {"parentUuid": None, "isSidechain": False, "sessionId": SESSION, "cwd": "/ws", "version": "2.1.330"}
    return {**chain, "type": kind, "uuid": uuid, **more}


def said(role: str, *blocks: dict[str, Any], uuid: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(blocks), **({"id": f"msg_{uuid}"} if role == "assistant" else {})}
    return line(role, uuid, message=message, **more)


def read(*lines: dict[str, Any]) -> list[Event]:
    return check_recording("claude-transcript", [Line(orjson.dumps(one)) for one in lines])


def turns(found: list[Event]) -> list[tuple[str | None, str, str | None, bool]]:
    return [(turn.turn, turn.state, turn.reason, turn.synthetic) for turn in of(Turn, found)]
