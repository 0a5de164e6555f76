"""`tooltap fixtures`: output, files and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, CODEX, here, sentence, tooltap

KEY = "claude/claude/tool-result/Bash"
ODDITIES = Path(__file__).parents[2] / "fixtures/tooltap-trace/tooltap-0.1/recorder-oddities.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Fixtures of one key: the failing command in the recording."""
    (tmp_path / "keys.txt").write_text(f"# results\n{KEY}\n")
    folder = tmp_path / "fixtures"
    finished = here("fixtures", "extract", CLAUDE, "--allowlist", tmp_path / "keys.txt", "--out", folder)
    assert finished.returncode == 0
    return folder


def test_keys_lists_keys_for_an_allowlist(tmp_path: Path) -> None:
    finished = here("fixtures", "keys", CLAUDE, CODEX)
    (tmp_path / "allowlist.txt").write_bytes(finished.stdout)

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert [KEY, "#", "1"] in [line.split() for line in finished.stdout.decode().splitlines()]
    assert here("fixtures", "extract", CLAUDE, CODEX, "--out", tmp_path).returncode == 0
    assert here("fixtures", "check", tmp_path).returncode == 0


def test_extract_writes_allowlist_and_a_file_per_provider(folder: Path) -> None:
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.*")} == {"allowlist.txt", "claude/claude.json"}
    assert (folder / "allowlist.txt").read_text() == f"# results\n{KEY}\n"


def test_extract_reports_new_and_missing_examples(folder: Path) -> None:
    with open(folder / "allowlist.txt", "a") as file:
        file.write("codex/codex/tool-result/apply_patch\nacp/gemini/message\n")
    finished = here("fixtures", "extract", CODEX, "--out", folder)

    assert (finished.returncode, finished.stdout) == (0, b"")
    assert finished.stderr.decode().splitlines() == [
        f"wrote {folder}/codex/codex.json",
        f"{folder}/allowlist.txt:4: no example of acp/gemini/message in these traces",
        "2 examples of 2 keys, 1 new",
    ]


def test_check_and_update_of_valid_fixtures_change_nothing(folder: Path) -> None:
    before = (folder / "claude/claude.json").read_bytes()

    for command in ("check", "update"):
        finished = tooltap("fixtures", command, folder)

        assert (finished.returncode, finished.stdout) == (0, b"")
        assert finished.stderr == b"1 example of 1 key, no problems\n"
    assert (folder / "claude/claude.json").read_bytes() == before


def test_check_shows_difference_and_update_fixes_it(folder: Path) -> None:
    path = folder / "claude/claude.json"
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"exit_code":3', b'"exit_code":4'))
    failed = here("fixtures", "check", folder)
    updated = here("fixtures", "update", folder)

    assert (failed.returncode, failed.stderr) == (1, b"1 example of 1 key, 1 problem\n")
    lines = failed.stdout.decode().splitlines()
    assert lines[0] == f"{path}: {KEY}, example 1: its lines give other events"
    assert [line for line in lines[3:] if line[4] in "+-"] == ['    -   "exit_code": 4,', '    +   "exit_code": 3,']
    assert (updated.returncode, path.read_bytes()) == (0, good)
    assert '    +   "exit_code": 3,' in updated.stdout.decode().splitlines()


def test_update_fails_while_problems_remain(folder: Path) -> None:
    (folder / "allowlist.txt").write_text("acp/gemini/message\n")
    finished = here("fixtures", "update", folder)

    assert finished.returncode == 1
    assert finished.stdout.decode().splitlines() == [
        f"{folder}/claude/claude.json: {KEY} dropped, it is not in {folder}/allowlist.txt",
        f"{folder}/allowlist.txt:1: there is no example of acp/gemini/message",
    ]
    assert f"removed {folder}/claude/claude.json" in finished.stderr.decode()


def test_max_limits_examples(tmp_path: Path) -> None:
    (tmp_path / "allowlist.txt").write_text("codex/codex/message\n")
    counts = []
    for maximum in ("3", "1"):
        here("fixtures", "extract", CODEX, "--max", maximum, "--out", tmp_path)
        counts.append((tmp_path / "codex/codex.json").read_bytes().count(b'"key"'))

    assert counts == [3, 1]


@pytest.mark.process
def test_stream_of_unknown_dialect_is_skipped() -> None:
    finished = here("fixtures", "keys", ODDITIES)

    assert finished.returncode == 0
    assert b"gemini/gemini/tool-result/run_shell_command" in finished.stdout
    assert finished.stderr.startswith(b"skipped run-b: there is no dialect 'babel-stream'")


@pytest.mark.parametrize(
    ("allowlist", "wanted"),
    [
        (None, "allowlist.txt: there is no such file; `tooltap fixtures keys TRACE` lists keys"),
        ("", "allowlist.txt: contains no key"),
        ("# results\nclaude/Bash\n", "allowlist.txt:2: 'claude/Bash' is not a key"),
    ],
)
@pytest.mark.parametrize("command", ["check", "update", "extract"])
def test_invalid_allowlist_is_exit_2(folder: Path, command: str, allowlist: str | None, wanted: str) -> None:
    (folder / "allowlist.txt").unlink()
    if allowlist is not None:
        (folder / "allowlist.txt").write_text(allowlist)
    before = (folder / "claude/claude.json").read_bytes()
    finished = here("fixtures", command, *([CLAUDE, "--out"] if command == "extract" else []), folder)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert sentence(finished).startswith(f"{folder}/{wanted}")
    assert (folder / "claude/claude.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["keys"], "Missing argument 'TRACE...'"),
        (["keys", "/no/such/file"], "Path '/no/such/file' does not exist"),
        (["keys", "--dialect", "babel", str(CLAUDE)], "there is no dialect 'babel'"),
        (["extract", str(CLAUDE)], "Missing option '--out'"),
        (["extract", str(CLAUDE), "--out", "x", "--max", "0"], "0 is not in the range x>=1"),
        (["check"], "Missing argument 'DIR'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(arguments: list[str], wanted: str) -> None:
    finished = here("fixtures", *arguments)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert wanted in sentence(finished)


def test_unreadable_fixtures_are_exit_2(folder: Path) -> None:
    (folder / "claude/claude.json").write_text("[")
    finished = here("fixtures", "check", folder)

    assert finished.returncode == 2
    assert sentence(finished).startswith(f"{folder}/claude/claude.json: ")
