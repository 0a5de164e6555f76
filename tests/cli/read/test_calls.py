"""`calls`: what people and programs get of the calls of all sessions, and why there are none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.screen import started
from tests.daemon.events import call, commit, event
from tests.daemon.running import Running, running
from tooltap.cli.read.calls import FAMILIES
from tooltap.cli.read.search import OUTCOMES
from tooltap.normalizers.tools.registry import names_in
from tooltap.protocol.events import ResultStatus, SessionEvent, ToolResult

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A failed edit of this week in one session; in another a failed edit and a command of last year."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for session, ended, title in (("0a1b2c3d-new", NOW - 2 * DAY, "Repair it"), ("0a1b2c3d-old", 1_000_000, None)):
            fields: dict[str, Any] = {"session": session, "provider": "claude"}
            about: dict[str, Any] = {"output": {"errorMessage": "not unique"}, "status": "failed", "is_error": True}
            one.commit(
                commit(
                    event(SessionEvent, session, state="started", title=title, cwd="/src/shop", ts=ended, **fields),
                    call("c1", session, "Edit", input={"file_path": "a.py"}, preview="a.py", ts=ended, **fields),
                    event(ToolResult, session, call_id="c1", name="Edit", ts=ended, **about, **fields),
                    call("c2", session, preview="make", ts=ended + 1, **fields),
                    event(
                        ToolResult,
                        session,
                        call_id="c2",
                        name="Bash",
                        output={},
                        status="completed",
                        is_error=False,
                        ts=ended + 2_000,
                        **fields,
                    ),
                    stream=session,
                    state="ended",
                )
            )
        one.until_indexed()
        yield one


def calls(daemon: Running, *words: object) -> str:
    finished = here("calls", "--socket", daemon.path, *words)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode()


def results(daemon: Running, *words: object) -> list[int]:
    return [one["resultSeq"] for one in json.loads(calls(daemon, *words, "--json"))["calls"]]


def test_last_weeks_failed_edit(daemon: Running) -> None:
    heads, *lines = [
        line.split("\t")
        for line in calls(daemon, "--outcome", "failed", "--family", "edit", "--since", "7d").splitlines()
    ]
    (line,) = [dict(zip(heads, line, strict=True)) for line in lines]
    ended = line.pop("ENDED")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", ended)
    assert line == {
        "SEQ": "2",
        "OUTCOME": "failed",
        "TOOL": "Edit",
        "AGENT": "claude",
        "PROJECT": "/src/shop",
        "SESSION": "0a1b2c3d-new",
        "TITLE": "Repair it",
        "CALL": "a.py",
        "ERROR": "not unique",
    }


def test_options(daemon: Running) -> None:
    assert results(daemon) == [5, 3, 10, 8]
    assert results(daemon, "--limit", 3) == [5, 3, 10]
    assert results(daemon, "--outcome", "failed", "--outcome", "completed", "--tool", "Edit") == [3, 8]
    assert results(daemon, "--tool", "Edit", "--family", "shell") == [5, 3, 10, 8]
    assert results(daemon, "--until", "2000-01-01") == [10, 8]
    assert results(daemon, "--file", "a.py", "--session", "Repair") == [3]
    assert results(daemon, "--project", "shop", "--agent", "claude", "--since", "3d") == [5, 3]


@pytest.mark.parametrize("columns", [60, 100])
def test_two_lines_for_each_call_on_a_terminal(daemon: Running, columns: int) -> None:
    command = [*COMMAND, "calls", "--socket", str(daemon.path), "--limit", "3"]
    with started(command, environment(TERM="xterm", NO_COLOR=""), size=(24, columns)) as screen:
        assert screen.end() == 0
    shown = screen.shown.decode()
    assert "\x1b[31mfailed" in shown
    lines = [re.sub(r"\x1b\[[\d;]+m", "", line) for line in shown.splitlines()]
    assert max(len(line) for line in lines) <= columns
    first, second = lines[2:4]
    assert re.fullmatch(r" *2  \d\d-\d\d \d\d:\d\d  failed     Edit  a\.py: not unique", first)
    assert second.strip() == "Repair it · shop · claude · 0a1b2c3d-n"
    assert lines[-1] == "the newest 3 calls; `--limit 6` lists more"


def test_why_there_are_none(daemon: Running, tmp_path: Path) -> None:
    finished = here("calls", "--socket", daemon.path, "--tool", "Edti")
    assert finished.stdout == b""
    assert (
        "no call matches these filters; without them there are some; did you mean 'Edit'?" in finished.stderr.decode()
    )
    finished = here("calls", "--socket", daemon.path, "--outcome", "broken")
    assert finished.returncode == 2
    with running(tmp_path, index_bytes=0) as other:
        assert "no search index" in sentence(here("calls", "--socket", other.path))


def test_empty_journal(tmp_path: Path) -> None:
    with running(tmp_path) as other:
        finished = here("calls", "--socket", other.path)
    assert finished.returncode == 0
    assert b"the journal has no events yet" in finished.stderr


def test_names_are_those_of_the_protocol() -> None:
    assert set(OUTCOMES) == set(get_args(ResultStatus))
    assert all(names_in(family) for family in FAMILIES)  # type: ignore[arg-type]
