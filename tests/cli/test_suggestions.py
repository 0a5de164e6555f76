"""What was mistyped gets a suggestion, and what shows nothing says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, CODEX, here, sentence
from tests.daemon.events import commit, event
from tests.daemon.running import Running, running
from tooltap.cli.common.commands import did_you_mean
from tooltap.daemon.did_you_mean import LONGEST, similar
from tooltap.daemon.formats import counted, dollars
from tooltap.protocol.events import SessionEvent

START = ("--after", "start")
LATE = 2**42
"""Milliseconds: after whatever the recordings say, or the clock."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon with the sessions of two recordings, and three with titles."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for recording in (CLAUDE, CODEX):
            assert here("ingest", "--socket", one.path, recording).returncode == 0
        for number, title in enumerate(("Fix the greeting", "Fix the parser", "Write docs")):
            name = f"titled-{number}"
            started = event(SessionEvent, name, state="started", title=title, session=name, ts=LATE + number)
            one.commit(commit(started, stream=name))
        yield one


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("tial", "No such command 'tial'; did you mean 'tail'?"),
        ("serve stauts", "did you mean 'status'?"),
        ("journal bakcup", "did you mean 'backup'?"),
        ("sessions remove", "No such command 'remove' (see"),
        ("tail --mode verbos", "did you mean 'verbose'?"),
        ("tail --kind tool-calls", "did you mean 'tool-call'?"),
        ("tail --kind bogus", "known are session, turn, message"),
        ("normalize --dialect claud-stream x", "did you mean 'claude-stream' or"),
        ("calls --failed", "No such option '--failed'; did you mean `--outcome failed`?"),
        ("search greet --failed", "did you mean `--state failed` or `--outcome failed`?"),
        ("schema --format markdwn", "did you mean 'markdown'"),
        ("completion fsh", "did you mean 'fish'"),
    ],
)
def test_mistyped_word_is_wrong_usage_with_a_suggestion(words: str, hint: str) -> None:
    finished = here(*words.split())

    assert finished.returncode == 2
    assert hint in sentence(finished)


def test_dialect_that_the_daemon_refuses_gets_a_suggestion(full: Running) -> None:
    finished = here("ingest", "--socket", full.path, "--dialect", "codex-exe", "-", stdin=b"x\n")

    assert (finished.returncode, "did you mean 'codex-exec'" in sentence(finished)) == (2, True)


def test_suggestions_are_bounded() -> None:
    assert similar("TAIL", ["tail", "show"]) == ["tail"]
    assert similar("x" * (LONGEST + 1), ["x" * LONGEST]) == []
    assert did_you_mean("bogus", ["tail"]) == ""
    assert len(similar("a", [f"a{one}" for one in range(100)])) <= 3


def tail(daemon: Running, *words: str) -> str:
    finished = here("tail", "--no-follow", "--socket", daemon.path, *words)
    assert finished.stdout == b""
    return sentence(finished)


def test_nothing_says_why(full: Running, tmp_path: Path) -> None:
    assert tail(full).startswith("no event is that new; with `--after start` there are ")
    assert tail(full, *START, "--tool", "Bahs").endswith(" events; did you mean 'Bash'?")
    assert tail(full, *START, "--provider", "claud").endswith(" events; did you mean 'claude'?")
    assert tail(full, *START, "--agent", "codex").endswith(" events; did you mean `--provider codex`?")
    assert tail(full, *START, "--stream", "none").startswith(
        "no event matches --stream none; without filters there are"
    )
    assert tail(full, *START, "--kind", "tool-call", "--tool", "Bash").endswith(
        ", without any text of an assistant; `--mode verbose` shows more"
    )
    with running(tmp_path) as empty:
        assert tail(empty, *START).startswith("the journal has no events yet")
        assert tail(empty, "--session", "last").startswith("the journal has no sessions yet")


def shown_session(daemon: Running, name: str) -> str:
    finished = here(
        "tail", "--no-follow", "--socket", daemon.path, "--after", "start", "--mode", "json", "--session", name
    )
    assert finished.returncode == 0, finished
    return finished.stdout.decode()


def test_session_is_named_by_id_prefix_last_or_title(full: Running) -> None:
    assert '"session":"titled-1"' in shown_session(full, "titled-1")
    assert '"session":"titled-2"' in shown_session(full, "last")
    assert '"session":"titled-1"' in shown_session(full, "PARSER fix")
    assert '"session":"101730e3-98ed-4d2b-8e93-5caa86bfc39f"' in shown_session(full, "1017")


def test_session_that_is_not_clear_lists_candidates(full: Running) -> None:
    named = tail(full, "--session", "titled")
    assert named.startswith("3 sessions have an id that starts with 'titled': titled-2 (Write docs), ")
    assert tail(full, *START, "--session", "fix").startswith("2 sessions have the words 'fix' in the title: ")
    assert "did you mean 'titled-1'" in tail(full, "--session", "titlde-1")
    assert "did you mean 'Write docs'" in tail(full, "--session", "Wriet docs")
    assert "list them with `tooltap sessions`" in tail(full, "--session", "zzzz")


def test_socket_that_is_no_socket_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    assert sentence(here("sessions", "--socket", file)).startswith(f"{file} is a file, and not a daemon's socket")
    assert sentence(here("sessions", "--socket", tmp_path)).startswith(f"{tmp_path} is a folder, and not a")


def test_options_of_a_service_are_checked_first() -> None:
    for option, value in (("--web", "nonsense"), ("--journal", "bogus:x")):
        assert here("service", "install", "--print", "--", option, value).returncode == 2


@pytest.mark.parametrize(("number", "wanted"), [(0, "0 tools"), (1, "1 tool"), (2, "2 tools"), (1_200, "1,200 tools")])
def test_plural(number: int, wanted: str) -> None:
    assert counted(number, "tool") == wanted
    assert counted(number, "body is", "bodies are").endswith("body is" if number == 1 else "bodies are")


@pytest.mark.parametrize(
    ("cost", "wanted"), [(0.031, "$0.03"), (1_234.5, "$1,234.50"), (None, None), (-1e308, None), (1e308, None)]
)
def test_what_cannot_be_a_cost_is_not_shown(cost: float | None, wanted: str | None) -> None:
    assert dollars(cost) == wanted
    assert dollars(float("nan")) is None
