"""The advice of the commands that read the journal is followed: `tests/cli/test_advised.py` has the table.

A hint names an option, or another command. Here each is read from what was printed, and added to the command that
printed it, or run in its place: what was missing is there then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.cli.command import CLAUDE, CODEX, COMMAND, environment, here
from tests.cli.control.scripted import scripted
from tests.cli.hostile.runs import on_a_terminal
from tests.cli.manage.test_advice import commands
from tests.cli.screen import started
from tests.daemon.answering import OPENING, Tap, question
from tests.daemon.changing import edited, two_sessions
from tests.daemon.events import commit, event, message
from tests.daemon.running import Running, running
from tooltap.daemon.sessions.files import FileParts
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Message, SessionEvent, Usage

HOUR = 3_600_000
START = ("tail", "--no-follow", "--after", "start")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Recordings of two agents, in a daemon that nothing is added to."""
    with capture_logs(), running(tmp_path_factory.mktemp("full")) as daemon:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOOLTAP_SOCKET", str(daemon.path))
            for recording in (CLAUDE, CODEX):
                assert here("ingest", recording).returncode == 0
        yield daemon


@pytest.fixture
def read(full: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("TOOLTAP_SOCKET", str(full.path))
    return full


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with capture_logs(), running(tmp_path) as one:
        monkeypatch.setenv("TOOLTAP_SOCKET", str(one.path))
        yield one


def printed(*words: str) -> tuple[str, str]:
    """What a command prints on standard output, and on standard error."""
    done = here(*words)
    return done.stdout.decode(), done.stderr.decode()


def hint(said: str) -> list[str]:
    """The option in backticks that a text names last."""
    return str(re.findall(r"`(--[^`]+)`", said)[-1]).split()


def shown(*words: str) -> str:
    """What a terminal shows of a command, without colours."""
    found = on_a_terminal(*words)
    assert found.code == 0, found
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", (found.output + found.errors).decode())


# -- nothing is printed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("tail", "--no-follow"), "no event is that new"),
        ((*START, "--agent", "codex"), "did you mean `--provider codex`?"),
        ((*START, "--kind", "tool-call"), "without any text of an assistant"),
        ((*START, "--kind", "usage", "--mode", "verbose"), "without any line in this mode"),
    ],
)
def test_option_that_tail_names_prints_events(read: Running, words: tuple[str, ...], reason: str) -> None:
    output, said = printed(*words)
    assert (output, reason in said) == ("", True), said
    if "did you mean" in said:  # it stands for the option that was given
        words = words[:-2]

    assert printed(*words, *hint(said))[0]


@pytest.mark.parametrize(
    ("only", "words", "reason"),
    [
        (event(Message, role="user", text="hello"), START, "no assistant has said anything"),
        (event(Usage, scope="turn", input_tokens=1), (*START, "--mode", "verbose"), "is shown in this mode"),
    ],
)
def test_mode_that_tail_names_prints_all(daemon: Running, only: Produced, words: tuple[str, ...], reason: str) -> None:
    daemon.commit(commit(only))
    output, said = printed(*words)
    assert (output, reason in said) == ("", True), said

    assert printed(*words, *hint(said))[0]


def test_sessions_in_which_nothing_was_done_are_listed_with_the_option(daemon: Running) -> None:
    daemon.commit(commit(event(SessionEvent, state="started", cwd="/ws")))
    output, said = printed("sessions")
    assert output == ""

    assert "session-1" in printed("sessions", *hint(said))[0]


def test_unknown_session_is_found_in_the_list(read: Running) -> None:
    [command] = commands(printed("show", "no such session")[1])
    listed = printed(*command)[0].splitlines()[1].split("\t")[0]

    assert here("show", listed).returncode == 0


def test_path_in_place_of_a_session_is_found_in_all(daemon: Running) -> None:
    daemon.commit(*two_sessions())
    *_, command = commands(printed("files", "/work/a.py")[1])

    assert "a.py" in printed(*command)[0]


# -- there is more ----------------------------------------------------------------------------------------------------


def test_limit_that_a_list_names_lists_more(read: Running) -> None:
    read.until_indexed()
    for words, more in (
        (("calls", "--limit", "1"), "the newest 1 call;"),
        (("sessions", "--limit", "1"), "1 of 2 sessions;"),
    ):
        first = shown(*words).splitlines()
        assert first.pop().startswith(more)
        second = shown(*words[:-2], *hint(shown(*words))).splitlines()
        assert len(second) > len(first)


def test_files_that_are_left_out_are_listed_with_a_limit(daemon: Running) -> None:
    daemon.commit(*two_sessions())
    first = shown("files", "--limit", "1")
    assert "1 of 2 files" in first
    second = shown("files", *hint(first), "2")

    assert ("b.py" in first, "b.py" in second, "1 of 2 files" in second) == (False, True, False)


def test_models_whose_cost_is_not_known_are_named(daemon: Running) -> None:
    used = event(Usage, scope="turn", input_tokens=1_000, model="of-ones-own", ts=int(time.time() * 1_000))
    daemon.commit(commit(used))
    said = shown("usage")
    assert "whose cost is not known" in said
    named = shown("usage", *hint(said))

    assert ("of-ones-own" in said, "of-ones-own" in named) == (False, True)


def test_events_to_sort_are_fewer_with_a_time(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.cli.common.render.MAX_SORTED", 2_000)
    now = int(time.time() * 1_000)
    daemon.commit(commit(*(message(f"old {one}", ts=now - HOUR) for one in range(20)), message("new", ts=now)))
    words = (*START[:2], "--by", "time", "--since")
    said = printed(*words, "2h")[1]
    assert "events to sort" in said
    [option] = re.findall(r"with (--\w+) or a filter", said)
    assert option == words[-1]

    assert printed(*words, "1m") == ("new\n", "")


def test_hit_of_a_search_is_shown(daemon: Running) -> None:
    daemon.commit(commit(message("a word to find, and all the rest of it")))
    daemon.until_indexed()
    found = shown("search", "word")
    [number] = re.findall(r"^ +(\d+) ", found, re.MULTILINE)
    [[*command, given]] = commands(found)
    assert given == "SEQ"

    assert "and all the rest of it" in printed(*command, number)[0]


def test_help_says_why_a_diff_may_be_incomplete(daemon: Running) -> None:
    daemon.commit(commit(*edited("1", "a.py", "x\n", "y\n"), *edited("2", "a.py", "another\n", "one\n")))
    [command] = commands(printed("files", "last", "a.py")[1])

    assert "the agent did not state everything, or something else changed" in " ".join(printed(*command)[0].split())


def test_files_of_an_older_version_are_counted_by_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs(), running(tmp_path) as daemon:
        monkeypatch.setenv("TOOLTAP_SOCKET", str(daemon.path))
        with monkeypatch.context() as older:
            older.setattr(FileParts, "add", lambda self, path, part: None)
            daemon.commit(*two_sessions())
        output, said = printed("files")
        assert (output, "an older version" in said) == ("", True)
        [command] = commands(said)
    assert here(*command, "--journal", f"sqlite:{tmp_path / 'journal.db'}").returncode == 0
    with capture_logs(), running(tmp_path):
        output, said = printed("files")

    assert ("a.py" in output, said) == (True, "")


# -- what waits -------------------------------------------------------------------------------------------------------


def test_what_is_cut_is_shown_whole(daemon: Running) -> None:
    """A command is too long to be shown with the question, and its last words matter."""
    asks = question(1)
    asks["params"]["toolCall"]["rawInput"] = {"command": f"echo {'x' * 30_000} the-end"}
    Tap().connect(daemon.connect()).tap(*OPENING, ("out", asks))
    command = [*COMMAND, "answer", "--socket", str(daemon.path)]
    with started(command, environment(TERM="xterm", NO_COLOR="1")) as screen:
        screen.until(b"leave it:")
        screen.type(b"0\n")
        screen.end()
    said = " ".join(screen.shown.decode().split())
    assert "the-end" not in said
    [whole] = commands(said)

    assert "the-end" in printed(*whole)[0]


def test_message_that_needs_a_denial_goes_with_it(tmp_path: Path) -> None:
    with scripted(tmp_path) as script:
        words = ("answer", "--socket", str(script.path), "p1", "--message", "not now")
        said = printed(*words)[1]
        [option] = re.findall(r"--message goes with (--\w+)", said)

        assert here(*words, option).returncode == 0
        assert script.only("answer")["message"] == "not now"
