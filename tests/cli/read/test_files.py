"""`tooltap files`, its request and its address, with recordings of agents."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, sentence
from tests.cli.hostile.runs import on_a_terminal
from tests.daemon.events import commit, event
from tests.daemon.running import Running, running
from tests.normalizers.reading import FIXTURES
from tests.programs import require
from tooltap.protocol.events import SessionEvent

EDIT = FIXTURES / "claude-stream/claude-code-2.1.330/edit.jsonl"
EDITED = "f3bd2604"
"""Beginning of the id of its session."""
PATCH = FIXTURES / "codex-rollout/codex-0.169/patch.jsonl"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for recording in (PATCH, EDIT):
            assert here("ingest", "--socket", one.path, recording).returncode == 0
        yield one


def files(daemon: Running, *words: object) -> str:
    finished = here("files", "--socket", daemon.path, *words)
    assert finished.returncode == 0, finished
    return finished.stdout.decode()


def asked(daemon: Running, **arguments: Any) -> Any:
    with daemon.connect() as wire:
        session = next(one["session"] for one in wire.ask("sessions")["sessions"] if one["provider"] == "claude")
        return wire.ask("files", session=session, **arguments)


def test_files_are_listed(daemon: Running) -> None:
    assert files(daemon, EDITED) == "M  +1 -1  src/app.py\n"


def test_a_diff_in_a_pipe_is_a_patch(daemon: Running, tmp_path: Path) -> None:
    source = tmp_path / "src" / "app.py"
    source.parent.mkdir()
    source.write_text(
        'import sys\n\n\ndef greet(name):\n    """Return a greeting."""\n    return "Hello, " + name + "!"\n\n\n'
        'def main():\n    for name in sys.argv[1:] or ["world"]:\n'
    )
    diff = files(daemon, EDITED, "src/app.py")
    require("git")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), check=True)

    assert 'return "Howdy, " + name' in source.read_text()


CRLF = [
    {"type": "system", "subtype": "init", "session_id": "crlf", "cwd": "/w"},
    {
        "type": "assistant",
        "session_id": "crlf",
        "message": {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "c",
                    "name": "Edit",
                    "input": {"file_path": "/w/win.txt", "old_string": "b", "new_string": "B"},
                }
            ],
        },
    },
    {
        "type": "user",
        "session_id": "crlf",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
        "tool_use_result": {
            "filePath": "/w/win.txt",
            "oldString": "b\r",
            "newString": "B\r",
            "originalFile": "a\r\nb\r\n",
            "structuredPatch": [
                {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a\r", "-b\r", "+B\r"]}
            ],
        },
    },
]


def test_a_diff_of_a_file_with_crlf_applies(tmp_path: Path) -> None:
    """On a terminal the sign of a carriage return is shown."""
    stream, file = tmp_path / "crlf.jsonl", tmp_path / "win.txt"
    stream.write_text("".join(json.dumps(line) + "\n" for line in CRLF))
    file.write_bytes(b"a\r\nb\r\n")
    with running(tmp_path / "daemon") as daemon:
        words = ("--socket", daemon.path, "crlf", "win.txt")
        assert here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", stream).returncode == 0
        diff = here("files", *words).stdout
        shown = on_a_terminal("files", *words, columns=80)

    require("git")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, check=True)
    assert file.read_bytes() == b"a\r\nB\r\n"
    assert ("-b␍" in shown.output.decode(), "+B␍" in shown.output.decode()) == (True, True)


def test_hunks_name_the_calls_that_made_them(daemon: Running) -> None:
    reply = asked(daemon, file="/tmp/ws/src/app.py")
    file = reply["file"]
    with daemon.connect() as wire:
        call = wire.ask("event", seq=file["hunks"][0]["seqs"][0])["event"]

    assert (call["kind"], call["name"], call["callId"][:5]) == ("tool-call", "Edit", "toolu")
    assert file["calls"] == file["hunks"][0]["seqs"]
    assert reply["files"] == [{key: value for key, value in file.items() if key not in ("diff", "hunks")}]
    assert json.loads(files(daemon, EDITED, "--json")) == asked(daemon)


def test_what_is_not_there_is_one_sentence(daemon: Running) -> None:
    for words, expected in (
        ((EDITED, "other.py"), "has not changed 'other.py'"),
        (("nothing-like-it",), "no session 'nothing-like-it'"),
        (("src/my app.py",), "name the session first, or try `tooltap files --file 'src/my app.py'`"),
    ):
        finished = here("files", "--socket", daemon.path, *words)
        assert finished.returncode == 1
        assert expected in sentence(finished)
    with daemon.connect() as wire:
        wire.send("files", id=1, session="none")
        assert wire.read()["error"] == {"code": "not-found", "message": "there is no session 'none'"}


def test_files_of_all_sessions_are_tab_separated(daemon: Running) -> None:
    """Claude edits a line. One patch of Codex' edits a line of a file that it renames, adds one, and deletes one."""
    head, *rows = [line.split("\t") for line in files(daemon).splitlines()]

    assert head == ["FILE", "CHANGES", "ADDED", "REMOVED", "SESSIONS", "AGENTS", "LAST", "HOST"]
    assert [row[:6] for row in sorted(rows)] == [
        ["/tmp/ws/docs/new.md", "1", "+1", "-0", "1", "codex"],
        ["/tmp/ws/package.json", "1", "+0", "-5", "1", "codex"],
        ["/tmp/ws/src/app.py", "1", "+1", "-1", "1", "claude"],
        ["/tmp/ws/src/maths.py", "1", "+1", "-1", "1", "codex"],
    ]
    assert all(len(row[6]) == len("2026-11-24 09:30") for row in rows)


def test_files_are_chosen_by_options(daemon: Running) -> None:
    def paths(*words: object) -> list[str]:
        found = json.loads(files(daemon, "--json", *words))
        return [one["path"].removeprefix("/tmp/ws/") for one in found["files"]]

    assert paths("--agent", "claude") == ["src/app.py"]
    assert paths("--file", "APP.PY", "--project", "ws") == ["src/app.py"]
    assert len(paths("--limit", "1")) == 1
    assert paths("--until", "2020-01-01") == []


def test_no_files_are_one_sentence(daemon: Running) -> None:
    finished = here("files", "--socket", daemon.path, "--agent", "claud", "--file", "nothing-like-it")
    assert finished.returncode == 0
    there = len(json.loads(files(daemon, "--json"))["files"])
    assert sentence(finished) == (
        "according to their events, no sessions changed files that match these filters; without them there are "
        f"{there} files; did you mean 'claude'?"
    )


def test_a_journal_without_files_says_what_fills_it(tmp_path: Path) -> None:
    with running(tmp_path) as empty:
        assert sentence(here("files", "--socket", empty.path)).startswith("the journal has no events yet; `tooltap up`")
        empty.commit(commit(event(SessionEvent, "s", state="started", session="s"), stream="s"))
        for words in ((), ("--since", "1d")):
            finished = here("files", "--socket", empty.path, *words)
            assert sentence(finished) == "according to their events, no sessions changed any files"


def test_options_for_all_sessions_are_refused_for_one(daemon: Running) -> None:
    finished = here("files", "--socket", daemon.path, "last", "--since", "7d")
    assert finished.returncode == 2
    assert "--since is for the files of all sessions; leave out 'last'" in finished.stderr.decode()


def test_the_socket_and_the_address_say_the_same(daemon: Running) -> None:
    with daemon.connect() as wire:
        asked = wire.ask("changed-files", provider=["claude"], order="lines")
        (file,) = asked["files"]
        (by,) = file["changedBy"]
        event = wire.ask("event", seq=by["lastSeq"])["event"]

    assert (file["path"], file["changes"], file["added"], file["removed"]) == ("/tmp/ws/src/app.py", 1, 1, 1)
    assert (by["session"][:8], event["name"], event["kind"]) == (EDITED, "Edit", "tool-call")
    assert json.loads(files(daemon, "--agent", "claude", "--order", "lines", "--json")) == asked
