"""Every reader of traces accepts a torn trace, and a part of a rotated trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.kit.corpus import run
from tests.traces.recording.tracing import record, trace
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.writer import parts

FIXTURES = Path(__file__).parents[2] / "fixtures"
TRACES = {
    "tooltap-trace": FIXTURES / "tooltap-trace" / "tooltap-0.1" / "three-agents.jsonl",
    "happier-trace": min((FIXTURES / "happier-trace").glob("*/*.jsonl")),
}


def events(path: Path) -> list[dict[str, Any]]:
    finished = here("normalize", path)
    assert finished.returncode == 0
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.parametrize("dialect", TRACES)
def test_torn_last_line_is_one_unparsed_event(dialect: str, tmp_path: Path) -> None:
    lines = TRACES[dialect].read_bytes().splitlines()
    whole, torn = tmp_path / "whole" / "t.jsonl", tmp_path / "torn" / "t.jsonl"
    for path in (whole, torn):
        path.parent.mkdir()
        path.write_bytes(b"\n".join(lines[:-1]) + b"\n")
    with open(torn, "ab") as file:
        file.write(lines[-1][:-20])

    found = events(torn)

    unparsed = [one for one in found if one["kind"] == "unparsed" and one["line"] == len(lines)]
    assert [one["reason"] for one in unparsed] == ["truncated"]
    assert len(found) == len(events(whole)) + 1


@pytest.mark.parametrize("dialect", TRACES)
def test_corpus_counts_torn_last_line(dialect: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(TRACES[dialect].read_bytes().rstrip()[:-20])
    (tmp_path / "manifest.json").write_text(json.dumps([{"file": "t.jsonl", "dialect": dialect}]))

    report = run(tmp_path)

    assert report.problems == []
    assert report.tallies[dialect].unparsed["truncated"] == 1


def test_rotated_part_is_read_alone(tmp_path: Path) -> None:
    """A part may start mid-stream, or with the mark of a stream's end."""
    lines = [one for one in TraceReader(TRACES["tooltap-trace"]) if one.stream == "run-5f1c"]
    agent: dict[str, Any] = {"stream": "s", "dialect": "claude-stream", "provider": "claude"}
    records = [record(one.n, one.raw, **agent) for one in lines]
    records.append(record(len(lines), None, op="close", reason="end", **agent))
    path = tmp_path / "t.jsonl"
    trace(path, *records, file_bytes=4_096)

    assert len(parts(path)) > 1
    found = [event for part in parts(path) for event in events(part)]
    assert {one["dialect"] for one in found} == {"claude-stream"}
    assert "unparsed" not in {one["kind"] for one in found}
