"""`tooltap show SESSION`: a session to be read, in a pipe, on a terminal and in a pager."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment, here, sentence
from tests.cli.screen import started
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, running
from tooltap.cli.read.transcript import HELD
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import (
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolResult,
    ToolUpdate,
    Turn,
)

LONG = "word " * 60 + "x" * 300


def ended(call_id: str, output: dict[str, Any] | None = None, **fields: Any) -> Produced:
    values = {"output": output or {}, "status": "completed", "is_error": False, "name": "Bash", **fields}
    return event(ToolResult, call_id=call_id, **values)


def used(call_id: str, name: str, given: dict[str, Any], **fields: Any) -> Produced:
    return call(call_id, name=name, input=given, **fields)


SESSION = (
    event(SessionEvent, state="started", title="Fix the greeting", cwd="/tmp/ws", model="opus", agent_version="1.2"),
    event(Turn, state="started", turn="t1", ts=1_000),
    event(Message, role="user", text="Please fix it.\nSoon.", turn="t1"),
    event(Reasoning, text="one\n" + LONG, turn="t1"),
    used("r1", "Read", {"file_path": "/tmp/ws/a.py"}, turn="t1"),
    used("r2", "Read", {"file_path": "/tmp/ws/b.py"}, turn="t1"),
    used("g1", "Grep", {"pattern": "greet"}, turn="t1"),
    ended("r2", {"file": {"content": "second"}}, name="Read"),
    ended("r1", {"text": "first"}, name="Read"),
    ended("g1", {"text": "hit"}, name="Grep"),
    used("e1", "Edit", {"file_path": "/tmp/ws/a.py", "old_string": "Hello", "new_string": "Howdy\nYou"}, turn="t1"),
    ended("e1", {"message": "done"}, name="Edit"),
    used("b1", "Bash", {"command": f"make {LONG}"}, turn="t1"),
    ended("b1", {"exit_code": 2, "errorMessage": "No rule\n" * 9}, status="failed", is_error=True, duration_ms=12_300),
    used("t1", "Task", {"description": "Look around"}, turn="t1"),
    used("r3", "Read", {"file_path": "/c"}, agent="sub", parent="t1"),
    ended("r3", name="Read", agent="sub", parent="t1"),
    message("Found **it** in `c`: [here](http://x.example/y).", agent="sub", parent="t1"),
    ended("t1", name="Task", duration_ms=100),
    event(PermissionRequest, permission_id="p", type="permission", name="Bash", title="rm -rf /"),
    event(PermissionResponse, permission_id="p", outcome="denied", by="user"),
    event(Notice, level="warning", code="retry", text="again"),
    message("# Done\n\n- one " + "long " * 40 + "\n\n```py\nprint(1)\n```"),
    event(Turn, state="completed", turn="t1", ts=64_000),
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        one.commit(commit(*SESSION))
        many = (message(f"text {number}", "big", session="big") for number in range(3_000))
        one.commit(commit(*many, stream="big"))
        yield one


def show(daemon: Running, *words: str, columns: int = 100) -> list[str]:
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("COLUMNS", str(columns))
        finished = here("show", "--socket", daemon.path, *words)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode().splitlines()


def test_session_is_told_in_order(daemon: Running) -> None:
    head, facts, *lines = show(daemon, "greeting")

    assert head == "Fix the greeting"
    assert facts.startswith("gemini 1.2 · opus · /tmp/ws · ")
    assert lines[lines.index("> Please fix it.") :][:2] == ["> Please fix it.", "> Soon."]
    assert [line for line in lines if line and line[0] in "✓✗▸?!│┌─"] == [
        "✓ 1 search, 2 reads  a.py, b.py, greet",
        "✓ Edit a.py  +2 −1",
        next(line for line in lines if line.startswith("✗")),
        "▸ Task Look around",
        "┌ Look around",
        "│ ✓ Read /c",
        "│ Found it in c: here (http://x.example/y).",
        "✓ Task Look around  0.1 s",
        "? asks: Bash rm -rf /",
        "? Denied by the user",
        "! retry: again",
        "── Please fix it. · completed · 1 m 3 s · 6 calls " + "─" * 50,
    ]
    [failed] = (line for line in lines if line.startswith("✗"))
    assert failed.startswith("✗ Bash make word word")
    assert failed.endswith("…  failed · exit 2 · 12 s")
    assert lines[lines.index(failed) + 1 :][:5] == ["    No rule"] * 4 + ["    … 5 more lines"]
    assert lines[-2] == "    print(1)"
    assert "Done" in lines


def test_full_opens_outputs_and_changes(daemon: Running) -> None:
    lines = show(daemon, "greeting", "--full")

    assert "✓ Read b.py" in lines
    assert "    first" in lines
    edit = lines.index("✓ Edit a.py  +2 −1")
    assert lines[edit + 1 : edit + 6] == ["    /tmp/ws/a.py", "    -Hello", "    +Howdy", "    +You", "    done"]
    assert lines.count("    No rule") == 9


@pytest.mark.parametrize("columns", [60, 100, 160])
@pytest.mark.parametrize("words", [(), ("--full",)])
def test_no_line_is_wider_than_the_terminal(columns: int, words: tuple[str, ...], daemon: Running) -> None:
    lines = show(daemon, "greeting", *words, columns=columns)

    assert max(map(len, lines)) <= columns
    assert any(line.endswith("failed · exit 2 · 12 s") for line in lines)


def test_json_gives_the_events(daemon: Running) -> None:
    events = [json.loads(line) for line in show(daemon, "greeting", "--json")]

    assert len(events) == len(SESSION)
    assert {one["session"] for one in events} == {"session-1"}


def test_arguments_may_follow_the_call(tmp_path: Path) -> None:
    """As OpenCode announces calls."""
    edited = {"file_path": "a.py", "old_string": "Hello", "new_string": "Howdy"}
    told = (
        used("b1", "Bash", {}),
        event(ToolUpdate, call_id="b1", name="Bash", input={"command": "make"}),
        event(ToolUpdate, call_id="b1", name="Bash", status="running"),
        ended("b1"),
        used("e1", "Edit", {}),
        event(ToolUpdate, call_id="e1", name="Edit", input=edited),
        ended("e1", name="Edit"),
    )
    with running(tmp_path) as daemon:
        daemon.commit(commit(*told))
        lines = show(daemon, "session-1", "--full")

    assert lines[-4:] == ["✓ Edit a.py  +1 −1", "    a.py", "    -Hello", "    +Howdy"]
    assert "✓ Bash make" in lines


def test_beginning_of_an_id_may_be_a_number(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("sixes", session="66666666-6666-4666-8666-666666666666")))
        shown = here("show", "--socket", daemon.path, "66666666")
        event = here("show", "--socket", daemon.path, "1")
        missing = here("show", "--socket", daemon.path, "77777777")

    assert (shown.returncode, b"sixes" in shown.stdout) == (0, True)
    assert json.loads(event.stdout)["text"] == "sixes"
    assert (missing.returncode, missing.stderr) == (1, b"tooltap: there is no event 77777777\n")


def test_calls_that_never_end_hold_back_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        texts = [message(f"text {number}") for number in range(2 * HELD)]
        daemon.commit(commit(call("open"), *texts, result("open")))
        lines = show(daemon, "last")

    assert [lines.index("▸ Bash"), lines.index("text 0"), lines.index("✓ Bash")] == [3, 4, 4 + len(texts)]


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (["1", "--full"], 2, "--full is for sessions"),
        (["greeting", "--view", "raw"], 2, "--view is for events"),
        (["greeting", "--full", "--json"], 2, "--full and --json exclude each other"),
        (["0"], 2, "the number of an event is between 1 and"),
        (["9" * 30], 2, "the number of an event is between 1 and"),
        (["nothing-like-it"], 1, "the journal has no session 'nothing-like-it'"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(words: list[str], code: int, wanted: str, daemon: Running) -> None:
    finished = here("show", "--socket", daemon.path, *words)

    assert (finished.returncode, finished.stdout) == (code, b"")
    assert wanted in sentence(finished)


def on_a_terminal(daemon: Running, *words: str, pager: str) -> tuple[int, str]:
    command = [*COMMAND, "show", "--socket", str(daemon.path), *words]
    with started(command, environment(PAGER=pager, TERM="xterm"), size=(24, 70)) as screen:
        code = screen.end()
    return code, screen.shown.decode()


def test_terminal_shows_it_in_the_pager(daemon: Running, tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text(f"#!{sys.executable}\nimport os, sys\nprint(os.environ['LESS'], sys.stdin.read())")
    script.chmod(0o755)
    code, shown = on_a_terminal(daemon, "greeting", pager=str(script))

    assert code == 0
    assert shown.startswith("FRX ")
    assert "\x1b[31m✗\x1b[0m" in shown
    assert on_a_terminal(daemon, "greeting", pager="") == (0, shown.removeprefix("FRX ").removesuffix("\r\n"))
    assert "PAGER cannot be started: /none" in on_a_terminal(daemon, "greeting", pager="/none")[1]


def test_leaving_the_pager_ends_it(daemon: Running) -> None:
    code, shown = on_a_terminal(daemon, "big", pager="head -3")

    assert code == 0
    assert shown.count("\n") == 3
