"""Types of lines that released builds contain, and that no recording has, raise no alarm; other unknown ones do. The
rules of `make labels` find them in packages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson
import pytest

from tests.labels import PIECE, RULES, Rule, names_in, table
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.lines import Lines
from tooltap.traces.drift.baselines import LABELS, PACKAGED, load
from tooltap.traces.drift.drift import Drift, Finding
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import read_stream

CLAUDE = {"type": "system", "session_id": "s", "uuid": "u"}
AT = "2026-11-01T00:00:00Z"
COPILOT: dict[str, Any] = {"id": "i", "timestamp": AT, "parentId": None, "data": {}}
DROID = {"session_id": "s", "timestamp": 1}
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
        ("cline-json", {"type": "team_event", "ts": AT}, {"type": "moon_event", "ts": AT}),
        ("codex-app-server", codex_item("functionCallOutput"), codex_item("moonPhase")),
        ("copilot-json", {**COPILOT, "type": "session.schedule_created"}, {**COPILOT, "type": "session.moon"}),
        ("droid-stream", {"type": "result", **DROID}, {"type": "moon", **DROID}),
        ("pi-json", {"type": "get_tree"}, {"type": "get_moon"}),
        ("qwen-stream", {**CLAUDE, "subtype": "worktree_started"}, {**CLAUDE, "subtype": "moon_started"}),
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


# -- `make labels` ------------------------------------------------------------------------------------------------

TYPES = Rule(
    "pi-json", "2", "p", "1", "package/*.js", r'^type: ("\w+"(?: \| "\w+")*);', "$<{}>", Lines("type", skip={"b": "x"})
)


def packaged(text: bytes) -> Any:
    def files(package: str, version: str) -> Iterator[tuple[str, IO[bytes]]]:
        assert (package, version) == ("p", "1")
        yield "package/types.js", io.BytesIO(text)
        yield "package/README.md", io.BytesIO(b'type: "readme";')

    return files


def test_rule_finds_what_is_not_read() -> None:
    known = {"acp": {"1": ["$<x>"]}, "pi-json": {"1": ["$<old>"], "2": ["$<gone>"]}}

    made = table([TYPES], known, packaged(b'type: "a" | "b";\n  type: "inner";\ntype: "c";\n'))

    assert made == {"acp": {"1": ["$<x>"]}, "pi-json": {"1": ["$<old>"], "2": ["$<a>", "$<c>"]}}


def test_version_of_which_all_is_read_has_no_labels() -> None:
    assert table([TYPES], {"pi-json": {"2": ["$<gone>"]}}, packaged(b'type: "b";\n')) == {}


def test_rule_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"p 1: no type of pi-json in package/\*\.js"):
        table([TYPES], {}, packaged(b'kind: "a";\n'))


@pytest.mark.parametrize("before", [0, PIECE - 7, PIECE - 1, PIECE])
def test_name_is_found_wherever_the_pieces_of_a_file_end(before: int) -> None:
    text = b"x" * (before - 1) + b"\n" * (before > 0) + b'type: "a";' + b"\n" * 2_000

    assert names_in(io.BytesIO(text), TYPES.names) == {"a"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.dialect} {rule.package}")
def test_labels_are_those_that_no_table_knows(rule: Rule) -> None:
    """What is read since the labels were written is none any more: `make labels`."""
    labels = orjson.loads(LABELS.read_bytes()).get(rule.dialect, {}).get(rule.version, [])
    before, after = rule.path.split("{}")
    names = [
        one[len(before) : -len(after)] for one in labels if one.startswith(before) and "/" not in one[len(before) :]
    ]

    assert not [name for name in names if rule.read.knows(name)]
