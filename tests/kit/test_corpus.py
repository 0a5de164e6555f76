"""The corpus check reports the class of every line, and fails if something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
CALLS = '{"type":"assistant","session_id":"s","parent_tool_use_id":null,"message":{"id":"m","content":[%s]}}\n'
CALL = '{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}'


def corpus(folder: Path, rows: list[dict[str, Any]] | None) -> tuple[int, str, str]:
    """Run the check, and return exit code, report and errors."""
    if rows is not None:
        (folder / "manifest.json").write_text(json.dumps(rows))
    command = [sys.executable, "-m", "tests.kit.corpus", str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return finished.returncode, finished.stdout, finished.stderr


def test_every_fixture_has_no_problem(tmp_path: Path) -> None:
    rows = [
        {"file": str(path), "dialect": path.parts[-3], "scenario": "other keys of a manifest are ignored"}
        for path in sorted(FIXTURES.rglob("*.jsonl"))
    ]
    code, report, errors = corpus(tmp_path, rows)

    assert (code, errors) == (0, "")
    assert report.endswith(f"\n{len(rows)} files, no problem\n")


def test_report_counts(tmp_path: Path) -> None:
    """Two calls on one line, a blank line, and text that is not JSON; the calls have no results."""
    other = CALL.replace("c1", "c2").replace("Bash", "resume_agent")
    (tmp_path / "a.jsonl").write_text(CALLS % f"{CALL},{other}" + "\nnope\n")
    rows = [{"file": "a.jsonl", "dialect": "claude-stream"}, {"file": "a.jsonl"}, {"file": "a.jsonl", "dialect": "hal"}]
    code, report, _ = corpus(tmp_path, rows)

    assert code == 0
    head, figures = (line.split("  ") for line in report.splitlines()[:2])
    named = dict(zip(*([cell.strip() for cell in row if cell] for row in (head, figures)), strict=True))
    assert named == {
        "dialect": "claude-stream",
        "files": "2",
        "lines": "6",
        "with events": "2",
        "unparsed": "2",
        "skipped": "2",
        "raised": "0",
        "calls": "4",
        "inferred": "0",
        "results": "4",
        "tied": "4",
        "closed": "4",
    }
    assert "  unparsed    not-json 2\n" in report
    assert "  skipped     blank 2\n" in report
    assert "  names       Bash 2, resume_agent 2\n" in report
    assert "  passed through: resume_agent 2 (codex: wakes a closed subagent; no other agent can)\n" in report
    assert "\nno parser for: hal 1 files\n" in report


def test_report_shows_frequency_of_keys(tmp_path: Path) -> None:
    answer = '{"type":"tool_result","tool_use_id":"c1","content":"hi"}'
    message = '{"type":"user","session_id":"s","parent_tool_use_id":null,"message":{"role":"user","content":[%s]}}'
    (tmp_path / "a.jsonl").write_text(CALLS % f"{CALL},{CALL.replace('c1', 'c2')}" + message % answer + "\n")

    code, report, _ = corpus(tmp_path, [{"file": "a.jsonl", "dialect": "claude-stream"}])

    assert code == 0
    assert "  Bash input (2): command 100\n  Bash output (1): stdout 100\n" in report


def test_unexplained_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(CALLS % CALL.replace("Bash", "frobnicate"))
    _, report, _ = corpus(tmp_path, [{"file": "a.jsonl", "dialect": "claude-stream"}])

    assert "  passed through: frobnicate 1 (in no table)\n" in report


def test_unknown_line_type_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type":"brand_new","session_id":"s"}\n')
    code, report, _ = corpus(tmp_path, [{"file": "a.jsonl", "dialect": "claude-stream"}])

    assert code == 1
    assert report.splitlines()[-2:] == [
        'a.jsonl: line 1 has an unknown type: {"type":"brand_new","session_id":"s"}',
        "1 problem in 1 file",
    ]


@pytest.mark.parametrize("manifest", [None, "[", '[{"no":"file"}]'])
def test_unusable_manifest_is_wrong_usage(manifest: str | None, tmp_path: Path) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    code, report, errors = corpus(tmp_path, None)

    assert (code, report) == (2, "")
    assert errors.startswith("corpus: ")
    assert errors.count("\n") == 1


def test_several_folders_are_one_report(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        (folder / "s.jsonl").write_text(CALLS % CALL)
        (folder / "manifest.json").write_text('[{"file":"s.jsonl","dialect":"claude-stream"}]')
    command = [sys.executable, "-m", "tests.kit.corpus", *map(str, folders)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert finished.returncode == 0
    assert finished.stdout.endswith("\n2 files, no problem\n")


@pytest.mark.parametrize(("genuine", "code"), [({}, 1), ({"genuine": "recorded, edited"}, 0)])
def test_unknown_type_is_a_problem_of_files_that_are_as_recorded(
    genuine: dict[str, str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(CALLS % CALL + '{"type":"quantum","uuid":"u"}\n')
    rows = [{"file": "a.jsonl", "dialect": "claude-stream", **genuine}]

    assert corpus(tmp_path, rows)[0] == code
