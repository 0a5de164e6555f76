"""The reports of the Makefile on hostile recordings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.hostile.texts import ARGUMENT, FILE_NAME, HOSTILE, LONG, offences, poisoned
from tests.kit import corpus, goldens, renames

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDINGS = {
    "acp": FIXTURES / "acp/gemini-0.61.0/grep.jsonl",
    "codex-exec": FIXTURES / "codex-exec/codex-0.169/interrupted.jsonl",
}
Main = Callable[[list[str]], int]


def shown_by(main: Main, *arguments: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> bytes:
    main([str(one) for one in arguments])
    output, errors = capsysbinary.readouterr()
    assert b"\n" in output + errors
    assert offences(errors, terminal=True) == []
    return output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of recordings with a manifest."""
    folder = tmp_path / os.fsdecode(FILE_NAME)
    folder.mkdir()
    rows = [{"file": "none", "dialect": LONG}, {"file": "none", "dialect": HOSTILE}]
    for dialect, recording in RECORDINGS.items():
        lines = [poisoned(json.loads(line)) for line in recording.read_bytes().splitlines()]
        lines += [{"type": LONG, "method": LONG, HOSTILE: LONG}] * 3  # so often that it is an alarm
        file = f"{dialect}{HOSTILE[:40].replace('/', '')}.jsonl"
        (folder / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        rows.append({"file": file, "dialect": dialect, "provider": HOSTILE, "version": HOSTILE})
    (folder / "manifest.json").write_text(json.dumps(rows))
    return folder


@pytest.mark.parametrize("main", [corpus.main, renames.main])
def test_report_does_not_act(
    main: Main, folder: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kit.renames.STREAMS", 1)
    shown = shown_by(main, folder, capsysbinary=capsysbinary)

    assert len(shown) > 200
    assert offences(shown, terminal=True) == []


@pytest.mark.parametrize("main", [corpus.main, renames.main, goldens.main])
def test_error_does_not_act(main: Main, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert shown_by(main, tmp_path / ARGUMENT, capsysbinary=capsysbinary) == b""


def test_comparison_with_the_ancestor_does_not_act(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    payload = {"callId": "c", "name": HOSTILE, "input": {HOSTILE: LONG}}
    event = {"v": 1, "ts": 1, "kind": "tool-call", "provider": HOSTILE, "protocol": "acp", "payload": payload}
    case = {"event": event, "canonicalToolName": LONG, "normalized": {HOSTILE: LONG}}
    file = tmp_path / "cases"
    file.write_text(json.dumps(case) + "\n")
    shown = shown_by(goldens.main, file, capsysbinary=capsysbinary)

    assert b"unexplained: " in shown
    assert offences(shown, terminal=True) == []
