"""What is no drift of the agent raises no alarm: lines of its client, and results that come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import read_stream

T = 1_795_293_851_000
INIT = {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "tools": [], "model": "m"}


def severities(path: Path, dialect: str, kind: str, lines: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, int]]:
    """The severities and counts of the findings of one kind. `lines`: each with its direction."""
    records = [{"t": T, "dir": direction, "line": line} for direction, line in lines]
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    drift = Drift(lambda dialect: load(PACKAGED, dialect))
    watch_stream(drift, read_stream(path, dialect))
    return [(one.severity, one.count) for one in drift.report().findings if one.kind == kind]


@pytest.mark.parametrize(("direction", "severity"), [("in", "notice"), ("out", "alarm")])
def test_wrong_line_of_the_client(direction: str, severity: str, tmp_path: Path) -> None:
    """A client that asks to interrupt, and forgets the envelope of its request (rust-code-agent-sdks #218)."""
    lines: list[tuple[str, dict[str, Any]]] = [("out", INIT), *[(direction, {"subtype": "interrupt"})] * 4]

    assert severities(tmp_path / "lines.jsonl", "claude-stream", "unparsed", lines) == [(severity, 4)]


def turn(number: int, *, is_late: bool) -> list[tuple[str, dict[str, Any]]]:
    """A turn of an ACP agent that ends before the result of its call, which may come after that."""

    def update(**fields: Any) -> tuple[str, dict[str, Any]]:
        params = {"sessionId": "s", "update": {"toolCallId": f"c{number}", **fields}}
        return "out", {"jsonrpc": "2.0", "method": "session/update", "params": params}

    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "List it."}]}
    result = update(
        sessionUpdate="tool_call_update",
        status="completed",
        content=[{"type": "content", "content": {"type": "text", "text": "a"}}],
    )
    return [
        ("in", {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": prompt}),
        update(sessionUpdate="tool_call", title="ls", kind="execute", rawInput={"command": "ls"}),
        ("out", {"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn"}}),
        *([result] if is_late else []),
    ]


@pytest.mark.parametrize(
    ("late", "found"), [((True,) * 4, []), ((False,) * 4, [("alarm", 4)]), ((True, False), [("notice", 1)])]
)
def test_result_after_the_end_of_its_turn(late: tuple[bool, ...], found: list[tuple[str, int]], tmp_path: Path) -> None:
    lines = [line for number, is_late in enumerate(late) for line in turn(number, is_late=is_late)]

    assert severities(tmp_path / "lines.jsonl", "acp", "dropped-result", lines) == found
