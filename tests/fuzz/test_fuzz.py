"""The fuzzer finds what is broken, in few lines, and nothing in the dialects as they are. More: `make lab-fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import corpus, search
from tooltap.normalizers.core.calls import Calls
from tooltap.normalizers.dialects.codex.parser import CodexParser

LINES = 6_000
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recordings() -> corpus.Corpus:
    return corpus.load()


def test_damaged_recordings_break_no_rule(recordings: corpus.Corpus) -> None:
    found = search.many(1, count(), LINES, recordings, None)

    assert [(one.message, one.shown) for one in found.breaks] == []
    assert found.lines >= LINES
    assert found.broken == 0


def test_a_second_call_is_found_and_shown_in_few_lines(
    recordings: corpus.Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(self: Calls, call_id: str, *_: Any, **__: Any) -> bool:
        self._state.done.pop(self.id_of(call_id), None)
        return False

    monkeypatch.setattr(Calls, "repeats", forget)
    found = search.many(1, count(), 1_000, recordings, ["gemini-stream"])

    second = [one for one in found.breaks if "second call" in one.message]
    assert min(len(one.lines) for one in second) <= 3
    assert search.one(1, second[0].case, recordings, ["gemini-stream"]) is not None


def test_a_second_result_is_found(recordings: corpus.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Calls.answer

    def again(self: Calls, of: Any, *rest: Any, **fields: Any) -> Any:
        call = of if not isinstance(of, str) else self.get(of)
        first = answer(self, of, *rest, **fields)
        return first if call is None or fields.get("synthetic") else answer(self, call, *rest, **fields)

    monkeypatch.setattr(Calls, "answer", again)
    monkeypatch.setattr(Calls, "still_open", lambda self, call: (call, None))
    found = search.many(1, count(), 100, recordings, ["claude-stream"])

    assert any("second result" in one.message for one in found.breaks)


def test_what_is_not_reset_for_each_line_is_found(recordings: corpus.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CodexParser, "enter", lambda self, value: None)
    found = search.many(1, count(), 500, recordings, ["codex-exec"])

    assert any("relies on the scope of an earlier one" in one.message for one in found.breaks)
    assert any("reloading" in one.message for one in found.breaks)


def test_a_case_is_the_same_under_every_hash_seed(recordings: corpus.Corpus) -> None:
    here = search.digests(3, range(60), recordings, None)
    code = (
        "from tests.fuzz import corpus, search\n"
        "print(search.digests(3, range(60), corpus.load(), None))"
    )  # fmt: skip
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(here)


def test_command_reports_the_seed_and_the_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--lines", "400", "--jobs", "2", "--seed", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 5: 4" in done.stdout
    assert "lines a second" in done.stdout
    assert "broke 0 rules, 0 were unstable" in done.stdout
