"""`tooltap baseline`, and the packaged baselines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import here
from tests.dialects import recorded as recorded_dialects
from tests.docs.pages import DOCS
from tests.test_layout import ROOT
from tests.traces.drift.altering import FIXTURES, altered, rename, replaced
from tooltap.traces.drift.baselines import PACKAGED, Baseline, BaselineError, load

CODEX = FIXTURES / "codex-exec" / "codex-0.169"
SHELL = CODEX / "shell-fails.jsonl"
BYTES = 450_000
"""Maximum size of all packaged baselines."""
PROTOCOLS = frozenset(
    {"ag-ui", "ai-sdk-ui", "anthropic-messages", "gemini-api", "openai-chat", "openai-responses", "otlp"}
)
"""Dialects that any program speaks, so that what one sends is not expected of another."""
PAGE = DOCS / "how-to" / "drift.md"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a baseline of one scenario."""
    finished = here("baseline", "record", SHELL, "--agent-version", "0.169.0", "--out", tmp_path / "baselines")
    assert finished.returncode == 0
    return tmp_path / "baselines"


def check(recorded: Path, recording: Path, *arguments: str) -> tuple[int, list[str]]:
    finished = here("baseline", "check", recording, "--baselines", recorded, "--scenario", "shell-fails", *arguments)
    assert finished.stderr == b""
    return finished.returncode, finished.stdout.decode().splitlines()


def test_baseline_holds_keys_and_shapes(recorded: Path) -> None:
    [baseline] = load(recorded)
    keys = baseline.keys("shell-fails")

    assert str(baseline.agent) == "codex 0.169.0 (codex-exec)"
    assert baseline.place == Path("codex-exec/codex-0.169.0.json")
    assert sorted(keys) == [
        "codex/codex/message",
        "codex/codex/session",
        "codex/codex/tool-call/command_execution",
        "codex/codex/tool-result/command_execution",
        "codex/codex/turn",
        "codex/codex/usage",
    ]
    assert keys["codex/codex/tool-call/command_execution"].to_json() == {"command": "string"}
    assert keys["codex/codex/tool-result/command_execution"].to_json() == {
        "exit_code": "number",
        "stdout": "string",
    }
    assert set(baseline.lines.variants) == {
        "thread.started",
        "turn.started",
        "item.started",
        "item.completed",
        "turn.completed",
    }


def test_recording_again_is_idempotent_and_keeps_other_scenarios(recorded: Path) -> None:
    [file] = recorded.rglob("*.json")
    before = file.read_bytes()
    arguments = ("--agent-version", "0.169.0", "--out", recorded)

    assert here("baseline", "record", SHELL, *arguments).returncode == 0
    assert file.read_bytes() == before
    assert here("baseline", "record", CODEX, *arguments).returncode == 0
    [baseline] = load(recorded)
    assert baseline.scenarios == {path.stem for path in CODEX.glob("*.jsonl")}
    assert baseline.write() == file.read_bytes()


def test_recorded_stream_passes(recorded: Path) -> None:
    assert check(recorded, SHELL) == (
        0,
        ["codex unknown (codex-exec) against 0.169.0: 1 of 1 scenarios, as recorded"],
    )


def test_missing_keys_and_changed_shapes_fail_with_diff(recorded: Path, tmp_path: Path) -> None:
    no_exit_code = altered(tmp_path / "shell-fails.jsonl", SHELL, rename("exit_code", "ended_with"))
    code, shown = check(recorded, no_exit_code)

    assert code == 1
    assert "  shell-fails: codex/codex/tool-result/command_execution: changed shape" in shown
    assert "    - $.exit_code  number" in shown
    assert "    + $<item.completed>.item<command_execution>.ended_with  number" in shown


def test_payload_that_does_not_fit_its_tool_is_shown_with_what_it_has(tmp_path: Path) -> None:
    read = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "read.jsonl"
    known, lists = (
        tmp_path / "baselines",
        altered(tmp_path / "read.jsonl", read, replaced("file_path", lambda path: [path])),
    )
    assert here("baseline", "record", read, "--out", known, "--scenario", "shell-fails").returncode == 0

    code, shown = check(known, lists)

    place = shown.index("  shell-fails: claude/claude/tool-call/Read: misfit")
    assert (code, shown[place + 1]) == (1, "    ~ $.file_path  the type of the tool → [string]")


def test_extra_keys_fail_only_in_strict_mode(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = CODEX / "patch.jsonl"
    _, shown = check(recorded, other)
    monkeypatch.setenv("HAPPY_E2E_PROVIDER_STRICT_KEYS", "1")
    _, strictly = check(recorded, other)

    assert not any("extra key" in line for line in shown)
    assert "  shell-fails: codex/codex/tool-call/file_change: extra key" in strictly
    assert "  shell-fails: codex/codex/tool-call/command_execution: missing key" in shown


def test_unknown_version_is_compared_with_the_newest_before_it(recorded: Path) -> None:
    code, shown = check(recorded, SHELL, "--agent-version", "0.170.1")

    assert (code, shown) == (0, ["codex 0.170.1 (codex-exec) against 0.169.0: 1 of 1 scenarios, as recorded"])


def test_agent_without_baseline_fails(recorded: Path) -> None:
    assert check(recorded, SHELL, "--provider", "mine") == (1, ["mine unknown (codex-exec): no baseline"])


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"v": 2}', b'{"v": 1}'])
def test_invalid_baseline_is_rejected(recorded: Path, text: bytes) -> None:
    [file] = recorded.rglob("*.json")
    file.write_bytes(text)

    with pytest.raises(BaselineError, match="baseline"):
        load(recorded)
    finished = here("baseline", "check", SHELL, "--baselines", recorded)
    assert finished.returncode == 2
    assert finished.stderr.count(b"\n") == 1


def test_folder_without_recordings_is_wrong_usage(tmp_path: Path) -> None:
    finished = here("baseline", "record", tmp_path)

    assert finished.returncode == 2
    assert b"there is no .jsonl file in" in finished.stderr


def test_packaged_baselines_are_normalized_and_small() -> None:
    found = sorted(PACKAGED.rglob("*.json"))

    assert sum(path.stat().st_size for path in found) <= BYTES
    for path in found:
        baseline = Baseline.read(path.read_bytes(), path.name)
        assert baseline.write() == path.read_bytes()
        assert PACKAGED / baseline.place == path


def test_every_recorded_dialect_has_a_baseline_unless_any_program_speaks_it() -> None:
    baselined = {baseline.agent.dialect for baseline in load(PACKAGED)}

    assert baselined == recorded_dialects() - PROTOCOLS
    assert [name for name in sorted(PROTOCOLS) if f"`{name}`" not in PAGE.read_text()] == []


@pytest.mark.process
def test_make_replaces_what_is_recorded_and_leaves_the_rest(recorded: Path, tmp_path: Path) -> None:
    captured, kept = tmp_path / "captures" / "codex", Path("gptme-log/gptme-0.35.1.json")
    captured.mkdir(parents=True)
    (captured / "meta.json").write_text(json.dumps({"version": "0.169.0"}))
    shutil.copy(CODEX / "patch.jsonl", captured)
    (recorded / kept).parent.mkdir()
    shutil.copy(PACKAGED / kept, recorded / kept)
    places = {
        "BIN": Path(sys.executable).parent,
        "CAPTURES": captured.parent,
        "BASELINES": recorded,
        "RECORDED": tmp_path / "new",
        "BASELINED": "",
    }

    finished = subprocess.run(
        ["make", "-o", ".venv/.runtime", "baselines", *(f"{name}={value}" for name, value in places.items())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    [codex] = [one for one in load(recorded) if one.agent.dialect == "codex-exec"]
    assert codex.scenarios == {"patch"}
    assert (recorded / kept).read_bytes() == (PACKAGED / kept).read_bytes()
    assert [line for line in finished.stdout.splitlines() if "stays" in line] == [
        f"{recorded / kept}: nothing was recorded of it, so it stays"
    ]
