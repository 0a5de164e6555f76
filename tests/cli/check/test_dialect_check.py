"""`tooltap dialect check`: says which rule a dialect breaks, and what it does not read."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.check.plugged import plug
from tests.cli.command import here, sentence
from tests.test_layout import ROOT
from tooltap.cli.check import dialect as module
from tooltap.testing import ContractError, check_dialect, read_recording
from tooltap.traces.learning.package import write_package

FIXTURES = ROOT / "tests" / "fixtures"
NUMBERS = count()


class Kit:
    """The dialect of the template, with changes, and its recording."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.name = f"quill-{next(NUMBERS)}"  # parser classes are remembered by name
        write_package(folder / self.name, self.name)
        self.recording = folder / self.name / "fixtures" / "example.jsonl"

    def check(self, *changes: tuple[str, str]) -> tuple[int, list[str]]:
        """Check the dialect with texts in its source replaced; return the exit code and the lines without the path."""
        [source] = (self.folder / self.name).glob("tooltap_*.py")
        text = source.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        source.write_text(text)
        plug(source, self.name, self.monkeypatch)
        finished = here("dialect", "check", self.name, self.recording)
        assert finished.stderr == b""
        lines = finished.stdout.decode().splitlines()
        return finished.returncode, [line.removeprefix(f"{self.recording}: ") for line in lines]


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    return Kit(tmp_path, monkeypatch)


def test_template_keeps_the_rules(kit: Kit) -> None:
    assert kit.check() == (0, ["keeps the rules"])


RAISES = ('@line("says", text=str)', '@line("says")')
ANSWER = ('@line("answer", id=str)', '@line("reply", id=str)')
TOOL = ('@line("tool", id=str, name=str)', '@line("tools", id=str, name=str)')
SAYS = ('role="assistant", text=value["text"]', 'role="assistant", text="?"')
USAGE = ("before=((Usage, used),)", "before=()")
FORGETS = ("used = {", "self.before = getattr(self, 'before', 0) + 7\n        used = {'input_tokens': self.before, ")


@pytest.mark.parametrize(
    ("change", "rule", "wanted"),
    [
        (RAISES, "with values of other types", "parser-error"),
        (("return self.calls.answer(", 'return "odd" or self.calls.answer('), "as it was recorded", "'odd'"),
        (('self.emit(Message, role="assistant"', 'self.emit(Message, role="assistant", id=1'), "as it", "parser-error"),
        (FORGETS, "as it was recorded", "is not in the dump"),
    ],
    ids=["raises", "undeclared reason", "emits wrongly", "forgets"],
)
def test_broken_rule_is_named(change: tuple[str, str], rule: str, wanted: str, kit: Kit) -> None:
    code, lines = kit.check(change)

    assert code == 1
    assert any(line.startswith(f"broken: {rule}") and wanted in line for line in lines), lines
    assert "keeps the rules" not in lines
    with pytest.raises(ContractError):
        check_dialect(kit.name, read_recording(kit.recording.read_bytes()))


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ((ANSWER,), ["1 of 7 lines are unparsed", "1 result in the lines"]),
        ((ANSWER, TOOL), ["2 of 7 lines are unparsed", "1 call in the lines, and in no event: 1"]),
        ((SAYS,), ["1 of 1 texts of the model"]),
        ((USAGE,), ["the lines state numbers of tokens, and no event does"]),
    ],
    ids=["results", "calls", "texts", "tokens"],
)
def test_what_is_not_read_is_named(changes: tuple[tuple[str, str], ...], wanted: list[str], kit: Kit) -> None:
    code, lines = kit.check(*changes)

    assert code == 0
    for one in wanted:
        assert any(line.startswith(f"missing: {one}") for line in lines), lines
    assert lines[-1].startswith("keeps the rules, ")


@pytest.mark.parametrize("dialect", ["codex-exec", "gptme-log", "mini-trajectory", "openhands-json", "langgraph"])
def test_own_dialect_keeps_the_rules(dialect: str) -> None:
    path = min((FIXTURES / dialect).rglob("*.jsonl"))
    finished = here("dialect", "check", dialect, path)

    assert finished.returncode == 0, finished.stdout
    assert finished.stdout.decode().splitlines()[-1].startswith(f"{path}: keeps the rules")


def test_wrong_dialect_reads_nothing() -> None:
    path = min((FIXTURES / "pydantic-ai").rglob("*.jsonl"))
    printed = here("dialect", "check", "codex-exec", path).stdout.decode()

    assert "4 of 4 lines are unparsed" in printed
    assert "1 call in the lines, and in no event" in printed


def test_long_recording_is_checked_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"type":"turn.started"}\n' * 100)
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    asked: list[int] = []

    def broken_rules(_: str, lines: list[object]) -> list[str]:
        asked.append(len(lines))
        return []

    monkeypatch.setattr("tooltap.testing.broken_rules", broken_rules)
    printed = here("dialect", "check", "codex-exec", path).stdout.decode()

    assert asked == [4]
    assert "only the first" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [(["nope", "x"], 2, "there is no dialect 'nope'"), (["acp", "/no/such"], 1, "/no/such: No such file or directory")],
)
def test_what_cannot_be_checked_is_one_sentence(arguments: list[Any], code: int, wanted: str) -> None:
    finished = here("dialect", "check", *arguments)

    assert finished.returncode == code
    assert wanted in sentence(finished)
