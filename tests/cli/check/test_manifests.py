"""Folders with a manifest, as `tooltap drift` and `tooltap baseline` read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.traces.drift.altering import FIXTURES

CODEX = FIXTURES / "codex-exec" / "codex-0.169"


def folder(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.mkdir()
    for source in CODEX.glob("*.jsonl"):
        (path / source.name).write_bytes(source.read_bytes())
    (path / "manifest.json").write_text(json.dumps(rows))
    return path


def test_manifests_of_several_folders_say_what_is_read(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", [{"file": "shell-fails.jsonl", "dialect": "codex-exec"}, {"file": "patch.jsonl"}])
    other = folder(tmp_path / "other", [{"file": "patch.jsonl", "dialect": "kimi-json", "ask": "auto"}])
    finished = here("drift", "--json", one, other)
    [agent] = json.loads(finished.stdout)["agents"]

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert (agent["dialect"], agent["streams"]) == ("codex-exec", 3)


def test_dialect_of_the_command_line_comes_first(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", [{"file": "patch.jsonl", "dialect": "kimi-json"}])

    read = [json.loads(here("drift", "--json", one, *more).stdout) for more in ((), ("--dialect", "codex-exec"))]
    assert [report["agents"][0]["dialect"] for report in read] == ["kimi-json", "codex-exec"]


def test_files_of_dialects_without_a_parser_are_left_out(tmp_path: Path) -> None:
    rows = [{"file": "patch.jsonl"}, *[{"file": "shell-fails.jsonl", "dialect": "nobodys-json"}] * 2]
    one = folder(tmp_path / "one", rows)
    finished = here("drift", one)

    assert finished.returncode == 0
    assert finished.stderr.decode().splitlines()[0] == (
        f"tooltap: {one}: 2 left out, there is no parser for nobodys-json"
    )
    assert b"1 stream," in finished.stderr


@pytest.mark.parametrize("text", ["{", '[{"no":"file"}]', '{"file":"a"}'])
def test_invalid_manifest_is_wrong_usage(tmp_path: Path, text: str) -> None:
    one = folder(tmp_path / "one", [])
    (one / "manifest.json").write_text(text)

    for command in (("drift",), ("baseline", "check")):
        finished = here(*command, one)
        assert finished.returncode == 2
        assert finished.stderr.startswith(f"tooltap: {one / 'manifest.json'} is not a manifest: ".encode())
        assert finished.stderr.count(b"\n") == 1


def test_listed_file_that_is_missing_is_wrong_usage(tmp_path: Path) -> None:
    finished = here("drift", folder(tmp_path / "one", [{"file": "gone.jsonl"}]))

    assert (finished.returncode, finished.stderr.count(b"\n")) == (2, 1)
    assert b"gone.jsonl" in finished.stderr


def test_scenarios_are_named_by_the_manifest(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", [{"file": "shell-fails.jsonl", "dialect": "codex-exec"}])
    recorded = here("baseline", "record", one, "--agent-version", "1.0", "--out", tmp_path / "known")

    assert recorded.returncode == 0
    checked = here("baseline", "check", one, "--baselines", tmp_path / "known")
    assert checked.stdout == b"codex unknown (codex-exec) against 1.0: 1 of 1 scenarios, as recorded\n"
