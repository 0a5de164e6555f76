"""`waiting`: what people and programs get of what waits for a person."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.hostile.runs import on_a_terminal
from tests.cli.screen import started
from tests.daemon.events import call, commit, event
from tests.daemon.running import Running, running
from tooltap.protocol.events import PermissionRequest, SessionEvent, Turn

NOW = time.time_ns() // 1_000_000
MINUTE = 60_000
AGE = re.compile(r"\d+ (min|m \d+ s)")
QUESTIONS = [{"question": "Which database?", "options": [{"label": "Postgres"}, {"label": "SQLite"}]}]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A tapped session asks for a permission, one session file has a question, another a call that is open for long."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        tap: dict[str, Any] = {"session": "0a-tap", "provider": "codex"}
        asks: dict[str, Any] = {"session": "0b-asks", "provider": "claude"}
        works: dict[str, Any] = {"session": "0c-works", "provider": "claude"}
        one.commit(
            commit(
                event(SessionEvent, "tap", state="started", title="Deploy it", cwd="/src/shop", **tap),
                call("c1", "tap", preview="make deploy", **tap),
                event(
                    PermissionRequest,
                    "tap",
                    permission_id="p",
                    type="permission",
                    call_id="c1",
                    name="Bash",
                    title="make deploy",
                    options=[{"id": "a", "name": "Yes"}, {"id": "b", "name": "No"}],
                    ts=NOW - 9 * MINUTE,
                    **tap,
                ),
                stream="tap",
            ),
            commit(
                event(Turn, "asks", state="started", **asks),
                call(
                    "c1",
                    "asks",
                    "AskUserQuestion",
                    input={"questions": QUESTIONS},
                    ts=NOW - 12 * MINUTE,
                    dialect="claude-transcript",
                    **asks,
                ),
                stream="asks",
                followed=True,
            ),
            commit(
                event(Turn, "works", state="started", **works),
                call("c1", "works", preview="make", ts=NOW - 20 * MINUTE, **works),
                stream="works",
                followed=True,
            ),
        )
        yield one


def waiting(daemon: Running, *words: object) -> str:
    finished = here("waiting", "--socket", daemon.path, *words)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode()


def test_rows_for_programs(daemon: Running) -> None:
    heads, *rows = [line.split("\t") for line in waiting(daemon).splitlines()]
    first, second, third = [dict(zip(heads, row, strict=True)) for row in rows]
    assert AGE.fullmatch(first.pop("FOR"))
    assert first == {
        "SEQ": "5",
        "TYPE": "question",
        "AGENT": "claude",
        "PROJECT": "",
        "SESSION": "0b-asks",
        "TITLE": "",
        "ASKED": "Which database?",
        "OPTIONS": "Postgres | SQLite",
    }
    assert (second["ASKED"], second["OPTIONS"], second["PROJECT"]) == ("Bash make deploy", "Yes | No", "/src/shop")
    assert (third["TYPE"], third["ASKED"]) == ("may be waiting (permission)", "Bash make")


def test_filters(daemon: Running) -> None:
    def sessions(*words: object) -> list[str]:
        return [one["session"] for one in json.loads(waiting(daemon, "--json", *words))["waiting"]]

    assert sessions() == ["0b-asks", "0a-tap", "0c-works"]
    assert sessions("--agent", "codex") == ["0a-tap"]
    assert sessions("--project", "/src/shop") == sessions("--project", "shop") == ["0a-tap"]
    assert sessions("--may-after", "3000") == ["0b-asks", "0a-tap"]


def test_filter_by_host(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for host, session in ((None, "mine"), ("box", "box/theirs")):
            about: dict[str, Any] = {"session": session, "host": host}
            asks = event(
                PermissionRequest, session, permission_id="p", type="permission", call_id="c", name="Bash", **about
            )
            daemon.commit(commit(call("c", session, **about), asks, stream=session))
        both, there = (waiting(daemon, "--brief", *words) for words in ((), ("--host", "box")))
        screen = on_a_terminal("waiting", "--socket", daemon.path, columns=100).output.decode()

        assert (both, there) == ("2 waiting: gemini\n", "1 waiting: gemini\n")
        assert [line.split(" · ")[1:-1] for line in screen.splitlines()[1::2]] == [[], ["on box"]]


def test_nothing_waits(daemon: Running) -> None:
    finished = here("waiting", "--socket", daemon.path, "--agent", "gemini")
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert sentence(finished) == "no session waits for you"


def test_one_line_for_a_status_line(daemon: Running) -> None:
    """What only may be waiting is not in it."""
    assert waiting(daemon, "--brief") == "2 waiting: claude, codex shop\n"
    assert waiting(daemon, "--brief", "--agent", "codex") == "1 waiting: codex shop\n"
    assert waiting(daemon, "--brief", "--agent", "gemini") == ""
    assert here("waiting", "--brief", "--json").returncode == 2


def test_lines_for_people(daemon: Running) -> None:
    command = [*COMMAND, "waiting", "--socket", str(daemon.path)]
    with started(command, environment(TERM="xterm", NO_COLOR="1")) as screen:
        assert screen.end() == 0
    assert [AGE.sub("AGE", line).rstrip() for line in screen.shown.decode().splitlines()] == [
        "5  question: Which database?  [Postgres | SQLite]",
        "   claude · AGE · 0b-asks",
        "3  permission: Bash make deploy  [Yes | No]",
        "   Deploy it · shop · codex · AGE · 0a-tap",
        "7  may be waiting (permission): Bash make",
        "   claude · AGE · 0c-works",
    ]
