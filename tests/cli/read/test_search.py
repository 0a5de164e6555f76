"""`search`: what people and programs get of the hits, and why there are none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.cli.command import COMMAND, DEMO, environment, here, sentence
from tests.cli.screen import started
from tests.daemon.running import Running, running
from tooltap.cli.read.sessions import STATUSES
from tooltap.protocol.replies import SessionStatus


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon that has indexed one recording of each of four agents."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for name in ("claude-code", "codex", "gemini", "opencode"):
            assert here("ingest", "--socket", one.path, "--stream", name, DEMO / f"{name}.jsonl").returncode == 0
        one.until_indexed()
        yield one


def search(daemon: Running, *words: object) -> str:
    finished = here("search", "--socket", daemon.path, *words)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode()


def hits(daemon: Running, *words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(search(daemon, *words, "--json"))["hits"]
    return found


def test_a_line_for_each_hit(daemon: Running) -> None:
    lines = [line.split("\t") for line in search(daemon, "boom").splitlines()]
    found = hits(daemon, "boom")
    assert len(lines) >= 2
    assert [(int(line[0]), line[1], line[4]) for line in lines] == [
        (one["seq"], one["session"], one["text"]) for one in found
    ]
    assert {line[3] for line in lines} >= {"Bash"}
    assert all("boom" in line[4] for line in lines)


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_hits_by_session_on_a_terminal(daemon: Running, columns: int) -> None:
    command = [*COMMAND, "search", "--socket", str(daemon.path), "greet"]
    with started(command, environment(TERM="xterm", NO_COLOR=""), size=(24, columns)) as screen:
        assert screen.end() == 0
    shown = screen.shown.decode()
    assert "\x1b[33mgreet\x1b[0m" in shown
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in shown.splitlines()]
    assert max(len(line) for line in lines) <= columns
    answer = json.loads(search(daemon, "greet", "--json"))
    for session in answer["sessions"]:
        assert any(session["session"] in line for line in lines)
    numbers = [int(found[1]) for line in lines if (found := re.match(r" +(\d+) ", line))]
    assert len(numbers) <= 3 * len(answer["sessions"])
    assert set(numbers) <= {one["seq"] for one in hits(daemon, "greet", "--limit", 100)}
    assert "`tooltap show SEQ`" in lines[-1]


def test_options(daemon: Running) -> None:
    def sessions(*words: object) -> set[str]:
        return {one["session"] for one in hits(daemon, "greet", *words)}

    everywhere = sessions()
    assert len(everywhere) == 2
    (codex,) = sessions("--agent", "codex")
    assert sessions("--session", codex[:12]) == {codex}
    assert {one["session"] for one in hits(daemon, "app.py", "--tool", "Patch")} == {codex}
    assert sessions("--since", "2001-01-01", "--until", "2001-01-02") == set()
    assert sessions("--state", "completed") == everywhere
    assert sessions("--state", "running") == set()
    assert sessions("--project", "nowhere") == set()
    (project,) = {
        one["project"] for one in json.loads(search(daemon, "greet", "--agent", "codex", "--json"))["sessions"]
    }
    assert codex in sessions("--project", project)
    assert codex in sessions("--project", Path(project).name)
    assert len(hits(daemon, "greet", "--limit", 2)) == 2


def test_without_words_what_happened_last_is_found(daemon: Running) -> None:
    """In the order of time, though it was not stored in this order; a session is named wherever another was before."""
    found = hits(daemon, "--limit", 100)
    times = [one["ts"] for one in found if "ts" in one]
    command = [*COMMAND, "search", "--socket", str(daemon.path), "--limit", "100"]
    with started(command, environment(TERM="xterm", NO_COLOR="1"), size=(24, 100)) as screen:
        assert screen.end() == 0
    shown = screen.shown.decode().splitlines()
    assert times == sorted(times, reverse=True)
    assert {one["kind"] for one in found} >= {"message", "tool-call", "tool-result"}
    numbers = [int(number[1]) for line in shown if (number := re.match(r" +(\d+)  ", line))]
    assert numbers == [one["seq"] for one in found]
    assert re.match(r"\d+ events in 4 sessions", shown[-1])
    assert {one["tool"] for one in hits(daemon, "--tool", "Patch")} == {"Patch"}


def test_the_states_are_those_of_sessions() -> None:
    assert tuple(STATUSES) == get_args(SessionStatus)


def test_a_word_with_a_space_is_a_phrase(daemon: Running) -> None:
    assert hits(daemon, "failed", "command")
    assert hits(daemon, "command failed")
    assert not hits(daemon, "failed command")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zzqq"], "nothing found for zzqq; of long texts only the beginning and the end are searched"),
        (["zzqq", "greet"], "nothing found for all of zzqq greet; of long texts"),
        (["greet", "--tool", "Pach"], "nothing found with --tool; without there are "),
        (["greet", "--tool", "Pach"], "; did you mean 'Patch'?"),
        (["greet", "--agent", "codx"], "; did you mean 'codex'"),
    ],
)
def test_why_nothing_was_found(daemon: Running, words: list[str], said: str) -> None:
    finished = here("search", "--socket", daemon.path, *words)
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert said in sentence(finished)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "->"], 2, "needs at least one letter or digit"),
        (["x", "--since", "long ago"], 2, "'long ago' is not an age such as 2h or 1d, nor a day"),
        (["x", "--state", "faild"], 2, "did you mean 'failed'?"),
        (["x", "--session", "nope"], 1, "the journal has no session 'nope'"),
    ],
)
def test_mistakes(daemon: Running, words: list[str], code: int, said: str) -> None:
    finished = here("search", "--socket", daemon.path, *words)
    assert finished.returncode == code
    assert said in sentence(finished)


def test_no_index_and_no_events(tmp_path: Path) -> None:
    with running(tmp_path, index_bytes=0) as daemon:
        finished = here("search", "--socket", daemon.path, "x")
        assert (finished.returncode, sentence(finished)) == (1, "this daemon has no search index: `index_bytes` is 0")


def test_an_empty_journal(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.until_indexed()
        finished = here("search", "--socket", daemon.path, "x")
        assert sentence(finished).startswith("the journal has no events yet")
