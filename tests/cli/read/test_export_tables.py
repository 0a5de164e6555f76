"""`tooltap export --format sqlite`: all that was selected in one file, with the figures of the other commands."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, COMMAND, DEMO, WITHOUT_BYTECODE, environment, here, sentence
from tests.daemon.export.exporting import Tables
from tests.daemon.running import Running, running
from tests.normalizers.reading import FIXTURES

RECORDINGS = (
    *(DEMO / f"{name}.jsonl" for name in ("claude-code", "codex", "gemini", "opencode")),
    FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl",
)
FIGURES = ("turns", "calls", "errors", "files", "events", "status", "title", "project", "branch")
TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
    "reasoning_tokens": "reasoningTokens",
}
"""Column -> key in a reply."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for path in RECORDINGS:
            assert here("ingest", "--socket", one.path, "--stream", path.stem, path).returncode == 0
        yield one


@pytest.fixture(scope="module")
def history(daemon: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "history.sqlite"
    finished = here("export", "--format", "sqlite", "--since", "2020-01-01", "-o", path, "--socket", daemon.path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")
    return path


@pytest.fixture
def tables(history: Path) -> Iterator[Tables]:
    with Tables(history) as one:
        yield one


def printed(daemon: Running, *arguments: str) -> list[dict[str, Any]]:
    finished = here(*arguments, "--socket", daemon.path)
    assert finished.returncode == 0, finished
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_file_is_sound(tables: Tables) -> None:
    assert tables.faults == []


def test_sessions_have_the_figures_of_their_list(daemon: Running, tables: Tables) -> None:
    listed = {one["session"]: one for one in printed(daemon, "sessions", "--json", "--limit", "100")}
    rows = {row["session"]: row for row in tables.rows("sessions")}

    assert rows.keys() == listed.keys()
    assert len(rows) == len(RECORDINGS)
    for session, row in rows.items():
        one = listed[session]
        assert {name: row[name] for name in FIGURES} == {name: one.get(name) for name in FIGURES}
        assert {name: row[name] for name in TOKENS} == {name: one.get(key) for name, key in TOKENS.items()}
        assert (row["lines_added"], row["lines_removed"]) == (one["linesAdded"], one["linesRemoved"])
        assert row["duration_ms"] == one.get("durationMs")
        assert row["cost_usd"] == pytest.approx(one.get("costUsd", one.get("knownCostUsd")))
        assert row["cost_estimated"] == one.get("costEstimated", False)
        assert row["cost_complete"] == ("costUsd" in one)


@pytest.mark.parametrize(
    ("by", "key"), [("model", "model"), ("session", "session"), ("agent", "agent"), ("project", "project")]
)
def test_sums_are_those_of_the_usage_command(daemon: Running, tables: Tables, by: str, key: str) -> None:
    [found] = printed(daemon, "usage", "--json", "--by", by)
    sums = ", ".join(f"sum(usage.{name})" for name in TOKENS)
    rows = tables.ask(
        f"SELECT {key}, {sums}, sum(usage.cost_usd), max(usage.cost_estimated) FROM usage"
        f" JOIN (SELECT session, agent, project FROM sessions) USING (session) GROUP BY {key}"
    )

    assert rows
    assert len(rows) == len(found["rows"])
    for name, *tokens, cost, estimated in rows:
        [row] = [one for one in found["rows"] if one.get("key") == name]
        assert tokens == [row[field] for field in TOKENS.values()]
        assert cost == pytest.approx(row.get("costUsd"))
        assert bool(estimated) == row.get("costEstimated", False)


def test_files_are_those_of_the_files_command(daemon: Running, tables: Tables) -> None:
    [found] = printed(daemon, "files", "--json")
    rows = tables.ask("SELECT path, sum(changes), sum(lines_added), sum(lines_removed) FROM files GROUP BY path")

    assert rows
    assert Counter(rows) == Counter(
        (one["path"], one["changes"], one["added"], one["removed"]) for one in found["files"]
    )


def test_every_call_and_text_has_its_row(daemon: Running, tables: Tables) -> None:
    events = printed(daemon, "tail", "--after", "start", "--no-follow", "--mode", "json")
    for kinds, table in ((("tool-call",), "calls"), (("message", "reasoning"), "messages")):
        wanted = {one["id"] for one in events if one["kind"] in kinds and not one.get("replay")}
        assert wanted
        assert {row["id"] for row in tables.rows(table)} == wanted


def test_turns_are_those_of_the_list(tables: Tables) -> None:
    counted = tables.ask("SELECT session, count(*) FROM turns GROUP BY session")
    assert counted
    assert dict(counted) == dict(tables.ask("SELECT session, turns FROM sessions WHERE turns"))


def test_recordings_need_no_daemon_and_become_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    finished = here("export", "--format", "sqlite", *RECORDINGS, "-o", path)

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")
    with Tables(path) as tables:
        assert tables.ask("SELECT count(*) FROM sessions") == [(len(RECORDINGS),)]
        assert tables.faults == []


def test_file_can_be_written_to_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    path.write_bytes(here("export", "--format", "sqlite", CLAUDE).stdout)
    with Tables(path) as tables:
        assert tables.ask("SELECT count(*) FROM sessions") == [(1,)]


def test_session_that_is_named_twice_is_there_once(daemon: Running, tables: Tables, tmp_path: Path) -> None:
    [(session,)] = tables.ask("SELECT session FROM sessions LIMIT 1")
    path = tmp_path / "tables.sqlite"
    finished = here("export", "--format", "sqlite", session, session, "-o", path, "--socket", daemon.path)

    assert (finished.returncode, finished.stderr) == (0, b"")
    with Tables(path) as one:
        assert one.ask("SELECT session FROM sessions") == [(session,)]


def test_what_is_missing_is_said_and_the_rest_is_written(tmp_path: Path) -> None:
    empty, path = tmp_path / "empty.jsonl", tmp_path / "tables.sqlite"
    empty.touch()
    finished = here("export", "--format", "sqlite", empty, CLAUDE, "-o", path)

    assert (finished.returncode, sentence(finished)) == (1, f"{empty} has no events")
    with Tables(path) as tables:
        assert tables.ask("SELECT count(*) FROM sessions") == [(1,)]


def test_recordings_of_one_session_are_joined_as_advised(tmp_path: Path) -> None:
    more, path = tmp_path / "more.jsonl", tmp_path / "tables.sqlite"
    more.write_bytes(CLAUDE.read_bytes().splitlines(keepends=True)[0] + _prompt("And now?"))
    prompts = "SELECT session FROM messages WHERE text = 'And now?'"
    refused = here("export", "--format", "sqlite", CLAUDE, more, "-o", path)
    assert refused.returncode == 1
    assert "of session" in sentence(refused)
    with Tables(path) as tables:
        assert tables.ask(prompts) == []
        [(session,)] = tables.ask("SELECT session FROM sessions")
        [(before,)] = tables.ask("SELECT count(*) FROM messages")

    with running(tmp_path / "daemon") as daemon:
        for one in (CLAUDE, more):
            assert here("ingest", "--socket", daemon.path, one).returncode == 0
        exported = here("export", "--format", "sqlite", session, "-o", path, "--socket", daemon.path)

    assert (exported.returncode, exported.stderr) == (0, b"")
    with Tables(path) as tables:
        assert tables.ask(prompts) == [(session,)]
        assert tables.ask("SELECT count(*) FROM messages") == [(before + 1,)]


def test_nothing_becomes_no_file(tmp_path: Path) -> None:
    empty, path = tmp_path / "empty.jsonl", tmp_path / "tables.sqlite"
    empty.touch()

    assert here("export", "--format", "sqlite", empty, "-o", path).returncode == 1
    assert not path.exists()


def test_tables_to_a_full_disk_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    path.write_text("old")
    export = ["export", "--format", "sqlite", str(CLAUDE), "-o", str(path)]
    finished = subprocess.run(
        ["bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "bash", *COMMAND, *export],
        capture_output=True,
        env=environment(**WITHOUT_BYTECODE),
        check=False,
    )

    assert finished.returncode == 1
    assert sentence(finished).startswith(f"{path}: ")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_folder_is_no_place_for_one_file(tmp_path: Path) -> None:
    finished = here("export", "--format", "sqlite", CLAUDE, "-o", tmp_path)

    assert finished.returncode == 2
    assert sentence(finished).startswith(f"{tmp_path} is a folder: all sessions become one file, which -o FILE names")


def test_texts_are_shortened_as_wanted(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    assert here("export", "--format", "sqlite", CLAUDE, "--max-text", 20, "-o", path).returncode == 0
    with Tables(path) as tables:
        assert tables.ask("SELECT max(length(CAST(text AS BLOB))) FROM messages WHERE text_cut") == [(20,)]


def test_secrets_are_masked_unless_they_are_wanted(tmp_path: Path) -> None:
    path, recording = tmp_path / "tables.sqlite", tmp_path / "claude.jsonl"
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    recording.write_bytes(CLAUDE.read_bytes() + _prompt(f"my token is {secret}"))
    found = {}
    for options in ((), ("--no-redact",)):
        finished = here("export", "--format", "sqlite", recording, "-o", path, *options)
        assert finished.returncode == 0
        with Tables(path) as tables:
            found[options] = (
                secret.encode() in path.read_bytes(),
                tables.ask("SELECT value FROM about WHERE key = 'masked'"),
            )
    assert found == {(): (False, [("yes",)]), ("--no-redact",): (True, [("no",)])}


def test_preview_writes_nothing(tmp_path: Path) -> None:
    path, recording = tmp_path / "tables.sqlite", tmp_path / "claude.jsonl"
    recording.write_bytes(CLAUDE.read_bytes() + _prompt(f"my token is ghp_{'a1B2c3D4e5F6' * 3}"))
    finished = here("export", "--format", "sqlite", recording, "--preview", "-o", path)

    assert (finished.returncode, path.exists()) == (0, False)
    assert b"ghp_" in finished.stdout


def _prompt(text: str) -> bytes:
    session = json.loads(CLAUDE.read_bytes().splitlines()[0]).get("session_id")
    line = {"type": "user", "session_id": session, "uuid": "x", "message": {"role": "user", "content": text}}
    return json.dumps(line).encode() + b"\n"
