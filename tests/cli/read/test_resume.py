"""`resume`: an agent that takes over the terminal in the session's folder, or one sentence that says why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence, tooltap
from tests.daemon.events import commit, event
from tests.daemon.running import Running, running
from tooltap.protocol.events import SessionEvent, Turn


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("home")
    (folder / "it's here").mkdir()
    with running(folder / "daemon") as one:
        for provider, session, cwd in (
            ("claude", "c1", folder / "it's here"),
            ("claude", "c2", folder / "gone"),
            ("gemini", "g1", folder),
            ("gemini", "g2", folder / "two  spaces"),
            ("vibe", "v1", folder),
            ("claude", "s5", folder),
            ("codex", "x1", None),
        ):
            known: dict[str, Any] = {"session": session, "provider": provider, "cwd": None if cwd is None else str(cwd)}
            stream = session if session == "s5" else f"stream-{session}"
            one.commit(
                commit(
                    event(SessionEvent, stream, state="started", title=f"Title {session}", **known),
                    stream=stream,
                    state="ended",
                )
            )
        runs: dict[str, Any] = {"session": "r1", "provider": "claude"}
        started = event(SessionEvent, "r1~", state="started", cwd=str(folder), **runs)
        one.commit(commit(started, event(Turn, "r1~", state="started", **runs), stream="r1~"))
        yield one


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A `PATH` with an agent that prints where it runs, its arguments, and exits with 7."""
    agent = tmp_path / "claude"
    agent.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\nexit 7\n')
    agent.chmod(0o755)
    return str(tmp_path)


def test_the_agent_runs_in_the_folder_of_the_session(daemon: Running, programs: str, tmp_path: Path) -> None:
    for words, arguments in ((), ["--resume", "c1"]), (("--fork",), ["--resume", "c1", "--fork-session"]):
        finished = tooltap("resume", "--socket", daemon.path, "c1", *words, PATH=f"{programs}:/usr/bin:/bin")
        folder, *given = finished.stdout.decode().splitlines()
        assert (finished.returncode, finished.stderr) == (7, b"")
        assert folder.endswith("/it's here")
        assert given == arguments


def test_the_command_is_printed_for_a_shell(daemon: Running) -> None:
    printed = here("resume", "--socket", daemon.path, "c1", "--print").stdout.decode()
    assert printed.startswith("cd '/")
    assert printed.endswith("/it'\\''s here' && claude --resume c1\n")
    assert here("resume", "--socket", daemon.path, "x1", "--print", "--fork").stdout == b"codex fork x1\n"


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (("nobody",), "the journal has no session 'nobody'", 1),
        (("c2",), "cannot enter the folder of the session", 1),
        (("v1",), "vibe has no command that continues this session", 1),
        (("g1", "--fork"), "gemini has no command that forks a session", 1),
        (("g1",), "gemini is not installed here: it is not in PATH; where it is, run `cd /", 127),
        (("g1",), " && gemini --resume g1`", 127),
        (("g2",), "/two  spaces' && gemini --resume g2`", 127),
        (("s5",), "claude has not stated the id of session s5", 1),
        (("x1",), "the folder of session x1 is not known", 1),
    ],
)
def test_why_it_cannot(daemon: Running, programs: str, words: tuple[str, ...], says: str, code: int) -> None:
    finished = tooltap("resume", "--socket", daemon.path, *words, PATH=f"{programs}:/usr/bin:/bin")
    assert says in sentence(finished)
    assert finished.returncode == code


def test_lists_and_show_have_the_command(daemon: Running) -> None:
    listed = here("sessions", "--socket", daemon.path, "--empty", "--json").stdout.decode().splitlines()
    rows = {one["session"]: one for one in map(json.loads, listed)}
    assert rows["c1"]["resume"] == ["claude", "--resume", "c1"]
    assert rows["c1"]["fork"] == ["claude", "--resume", "c1", "--fork-session"]
    assert "fork" not in rows["g1"]
    assert not {"resume", "fork"} & {*rows["v1"], *rows["s5"]}
    shown = here("show", "--socket", daemon.path, "g1").stdout.decode()
    assert " && gemini --resume g1\n" in shown


def test_running_session_is_resumed_with_a_warning(daemon: Running, programs: str) -> None:
    finished = tooltap("resume", "--socket", daemon.path, "r1", PATH=f"{programs}:/usr/bin:/bin")
    assert finished.returncode == 7
    assert sentence(finished) == (
        "the session is still running: two agents may write to it now; `--fork` continues a copy of it"
    )
    assert tooltap("resume", "--socket", daemon.path, "r1", "--fork", PATH=f"{programs}:/usr/bin:/bin").stderr == b""
