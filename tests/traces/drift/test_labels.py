"""Types of lines that released builds contain, and that no recording has, raise no alarm; other unknown ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tooltap.normalizers.catalog.registry import dialects
from tooltap.traces.drift.baselines import LABELS, PACKAGED, load
from tooltap.traces.drift.drift import Drift, Finding
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import read_stream

CLAUDE = {"type": "system", "session_id": "s", "uuid": "u"}
COPILOT: dict[str, Any] = {"id": "i", "timestamp": "2026-11-01T00:00:00Z", "parentId": None, "data": {}}
TURN = {"threadId": "t", "turnId": "1"}


def codex_item(kind: str) -> dict[str, Any]:
    return {"method": "item/completed", "params": {**TURN, "item": {"type": kind, "id": "i"}}}


def findings(path: Path, dialect: str, line: dict[str, Any], times: int = 30) -> list[Finding]:
    """The findings of a stream of nothing but this line."""
    path.write_bytes(times * (orjson.dumps(line) + b"\n"))
    drift = Drift(lambda dialect: load(PACKAGED, dialect))
    watch_stream(drift, read_stream(path, dialect))
    return [one for one in drift.report().findings if one.kind in ("new-variant", "unparsed")]


@pytest.mark.parametrize(
    ("dialect", "known", "unknown"),
    [
        ("claude-stream", {**CLAUDE, "subtype": "turn_handoff_available"}, {**CLAUDE, "subtype": "moon_phase"}),
        ("claude-transcript", {"type": "continued-in", "sessionId": "s"}, {"type": "moon-in", "sessionId": "s"}),
        ("codex-app-server", codex_item("functionCallOutput"), codex_item("moonPhase")),
        ("copilot-json", {**COPILOT, "type": "session.schedule_created"}, {**COPILOT, "type": "session.moon"}),
        ("opencode-bus", {"type": "session.next.prompted", "properties": {}}, {"type": "moon.up", "properties": {}}),
    ],
)
def test_known_label_is_no_alarm(dialect: str, known: dict[str, Any], unknown: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    found = findings(path, dialect, known)
    assert [(one.severity, one.kind, one.count) for one in found] == [("notice", "unparsed", 30)]

    assert "alarm" in [one.severity for one in findings(path, dialect, unknown)]


def test_label_of_another_place_is_unknown(tmp_path: Path) -> None:
    """The word is the type of an item, not of a line."""
    line = {"method": "functionCallOutput", "params": TURN}

    assert "alarm" in [one.severity for one in findings(tmp_path / "lines.jsonl", "codex-app-server", line)]


def test_table_is_in_order() -> None:
    table = orjson.loads(LABELS.read_bytes())

    assert set(table) <= set(dialects())
    for versions in table.values():
        for labels in versions.values():
            assert labels == sorted(set(labels))
            assert all(label.startswith("$<") and label.endswith(">") for label in labels)
