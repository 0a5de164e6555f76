"""`tooltap blame`: a repository in which recorded agents, agents of these tests, and persons have changed files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.attacks.masked import FAKES
from tests.cli.command import here, sentence
from tests.cli.hostile.runs import on_a_terminal
from tests.daemon import events
from tests.daemon.changing import edited
from tests.daemon.running import Running, running
from tests.normalizers.changes.test_recordings import APP, UTIL
from tests.normalizers.reading import FIXTURES
from tooltap.cli.read import edits
from tooltap.daemon.sessions.row import MAX_FILES
from tooltap.protocol.events import SessionEvent, ToolResult

EDIT = FIXTURES / "claude-stream/claude-code-2.1.330/edit.jsonl"
"""Edits a line of `src/app.py`, on 21 November 2026 at 20:37 UTC."""
PATCH = FIXTURES / "codex-rollout/codex-0.169/patch.jsonl"
"""Edits a line of `src/util.py`, and renames it to `src/maths.py`, at 20:43."""
HOWDY = APP.replace('"Hello, "', '"Howdy, "')
MATHS = UTIL.replace("a + b", "b + a")
EARLY, LATE = datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)


pytestmark = pytest.mark.programs("git")


class Place(NamedTuple):
    daemon: Running
    root: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("blame")
    root = folder / "repository"
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q")
    with running(folder / "daemon") as daemon:
        place = Place(daemon, root)
        for recording in (PATCH, EDIT):
            moved = folder / recording.name
            moved.write_bytes(recording.read_bytes().replace(b"/tmp/ws", str(root).encode()))
            assert here("ingest", "--socket", daemon.path, moved).returncode == 0
        yield place


@pytest.fixture
def app(place: Place) -> Path:
    """The file as Claude Code left it."""
    return put(place, "src/app.py", HOWDY)


def put(place: Place, name: str, text: str) -> Path:
    file = place.root / name
    file.write_text(text, newline="")
    return file


def git(root: Path, *words: str) -> str:
    name = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    return subprocess.run(["git", *name, *words], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout


def write(name: str, text: str) -> dict[str, Any]:
    return {"name": "Write", "input": {"file_path": name, "content": text}}


def edit(name: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"name": "Edit", "input": {"file_path": name, "old_string": old, "new_string": new}, **more}


def run_agent(place: Place, session: str, at: datetime, *calls: dict[str, Any], cwd: Path | None = None) -> None:
    """Publish a session of Claude Code that made these calls. `failed` in a call: its result is an error."""
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": session, "cwd": str(cwd or place.root)}
    ]
    for number, call in enumerate(calls):
        about = {"session_id": session, "timestamp": at.isoformat().replace("+00:00", "Z")}
        given = {key: call[key] for key in ("name", "input")}
        content = [{"type": "tool_use", "id": f"{session}-{number}", **given}]
        lines.append({"type": "assistant", **about, "message": {"role": "assistant", "content": content}})
        failed = call.get("failed", False)
        result = {"type": "tool_result", "tool_use_id": f"{session}-{number}", "content": "-", "is_error": failed}
        lines.append({"type": "user", **about, "message": {"role": "user", "content": [result]}})
    stream = place.daemon.path.parent / f"{session}.jsonl"
    stream.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    words = ("--socket", place.daemon.path, "--dialect", "claude-stream", stream)
    assert here("ingest", *words).returncode == 0


def blame(place: Place, file: Path, *words: object) -> list[dict[str, Any]]:
    finished = here("blame", "--socket", place.daemon.path, file, "--json", *words)
    assert finished.returncode == 0, finished
    return [json.loads(line) for line in finished.stdout.splitlines()]


def sessions(place: Place, file: Path) -> list[str | None]:
    """The session that wrote each line, shortened."""
    found = blame(place, file)
    return [one.get("session", "")[:8] or None for one in found for _ in range(one["start"], one["end"] + 1)]


def test_line_has_the_call_that_wrote_it(place: Place, app: Path) -> None:
    before, line, after = blame(place, app)
    event = json.loads(here("show", "--socket", place.daemon.path, line["seq"]).stdout)

    assert (before, after) == ({"start": 1, "end": 5}, {"start": 7, "end": 15})
    assert (line["start"], line["end"], line["provider"], line["name"]) == (6, 6, "claude", "Edit")
    assert (event["kind"], event["session"], event["input"]["new_string"]) == (
        "tool-call",
        line["session"],
        '    return "Howdy, " + name + "!"',
    )


def test_two_sessions_share_a_file_that_was_moved_and_count_by_when_they_happened(place: Place) -> None:
    """The session that wrote the file under its old name is read last."""
    run_agent(place, "wrote-it", EARLY, write("src/util.py", UTIL))
    run_agent(place, "used-it", LATE, edit("src/maths.py", "    return b + a", "    return b + a\n\n\nadd(1, 2)"))
    file = put(place, "src/maths.py", f"{MATHS}\n\nadd(1, 2)\n")

    assert sessions(place, file) == ["wrote-it", "01a1ffd9", "used-it", "used-it", "used-it"]


def test_lines_from_before_the_id_of_a_session_was_known_are_its_own(place: Place) -> None:
    """Two sessions of one stream have the same id until theirs are known."""
    for base, name in enumerate(("known-first", "known-second")):
        given = {"file_path": str(place.root / f"{name}.py"), "content": f"{name} = 1\n"}
        early: dict[str, Any] = {"stream": "late", "line": base + 1, "session": "early"}
        done: dict[str, Any] = {"output": {"type": "create"}, "status": "completed", "is_error": False}
        known: dict[str, Any] = {"stream": "late", "line": base + 1, "session": name}
        place.daemon.commit(
            events.commit(
                events.call(name, name="Write", input=given, index=0, **early),
                events.event(ToolResult, call_id=name, name="Write", index=1, **done, **early),
                events.event(SessionEvent, state="updated", alias="early", index=2, **known),
                base=base,
                stream="late",
            )
        )

    for name in ("known-first", "known-second"):
        [line] = blame(place, put(place, f"{name}.py", f"{name} = 1\n"))
        assert (line.get("session"), line.get("name")) == (name, "Write")


def test_lines_that_a_person_or_a_formatter_changed_are_unknown(place: Place) -> None:
    text = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    run_agent(place, "changed-", EARLY, write("src/changed.py", text))
    file = put(place, "src/changed.py", text.replace("    return 1", "\treturn 1").replace("2\n", "two\n"))

    assert sessions(place, file) == ["changed-", None, "changed-", "changed-", "changed-", None]


def test_edit_that_failed_wrote_nothing(place: Place) -> None:
    calls = (write("src/failed.py", "a = 1\n"), edit("src/failed.py", "a = 1", "a = 2", failed=True))
    run_agent(place, "failing-", EARLY, *calls)

    assert sessions(place, put(place, "src/failed.py", "a = 2\n")) == [None]
    assert sessions(place, put(place, "src/failed.py", "a = 1\n")) == ["failing-"]


def test_session_in_another_worktree_changed_another_file(place: Place) -> None:
    run_agent(place, "elsewhere", EARLY, write("src/tree.py", "a = 1\n"), cwd=place.root / ".worktrees" / "x")

    assert sessions(place, put(place, "src/tree.py", "a = 1\n")) == [None]


@pytest.fixture(scope="module")
def shared(place: Place) -> Path:
    """A file of two lines. A session here has written the first one; one of the remote `sandbox`, in a file with the
    same path, the second."""
    file = place.root / "src/shared.py"
    run_agent(place, "done-here", EARLY, write(str(file), "a = 1\n"))
    edit_there(place, "sandbox", file, "a = 1\n", "a = 1\nb = 2\n")
    return put(place, "src/shared.py", "a = 1\nb = 2\n")


def edit_there(place: Place, host: str, file: Path, old: str, new: str) -> None:
    """Commit an edit by a session of a remote."""
    theirs: dict[str, Any] = {"session": f"{host}/there", "stream": f"{host}/s", "host": host}
    at = round(LATE.timestamp() * 1_000)
    place.daemon.commit(events.commit(*edited("1", str(file), old, new, ts=at, **theirs), stream=f"{host}/s"))


def test_edits_on_another_host_count_only_if_it_is_named(place: Place, shared: Path) -> None:
    by_default, here_, both, there = (
        [(one.get("session"), one.get("host")) for one in blame(place, shared, *words)]
        for words in ((), ("--host", "."), ("--host", ".", "--host", "sandbox"), ("--host", "sandbox"))
    )

    assert by_default == here_ == [("done-here", None), (None, None)]
    assert both == [("done-here", None), ("sandbox/there", "sandbox")]
    assert there == [(None, None), ("sandbox/there", "sandbox")]


def test_other_hosts_with_the_path_are_named_if_no_line_is_known(place: Place, shared: Path) -> None:
    file = put(place, "src/there.py", "a = 1\n")
    edit_there(place, "box", file, "", "a = 1\n")
    said = {
        words: here("blame", "--socket", place.daemon.path, *words).stderr.decode().splitlines()[1:]
        for words in ((file,), (file, "--host", "box"), (shared,), (shared, "--session", "sandbox/there"))
    }
    hint = "tooltap: a file with this path was changed elsewhere: to count these edits, add --host"

    assert list(said.values()) == [[f"{hint} box"], [], [], [f"{hint} sandbox"]]


def test_file_is_found_through_symbolic_links(place: Place, tmp_path: Path) -> None:
    """In the path that is asked for, and in those that the agent states."""
    linked = tmp_path / "linked"
    linked.symlink_to(place.root)
    run_agent(place, "linking-", EARLY, write(f"{linked}/src/link.py", "a = 1\n"))
    file = put(place, "src/link.py", "a = 1\n")

    assert sessions(place, file) == sessions(place, linked / "src" / "link.py") == ["linking-"]


def test_many_sessions_of_one_file_are_all_read(place: Place) -> None:
    """A reply names 20 of them."""
    lines = [f"line_{number} = {number}" for number in range(24)]
    for number, line in enumerate(lines):
        more = "" if number == len(lines) - 1 else "\nlast = 0"
        call = write("many.py", f"{line}{more}\n") if not number else edit("many.py", "last = 0", f"{line}{more}")
        run_agent(place, f"many-{number:03}", EARLY.replace(hour=number // 4, minute=15 * (number % 4)), call)
    file = put(place, "many.py", "".join(f"{line}\n" for line in lines))

    assert sessions(place, file) == [f"many-{number:03}" for number in range(24)]


def test_pipe_gets_rows_and_the_summary_is_beside_them(place: Place, app: Path) -> None:
    finished = here("blame", "--socket", place.daemon.path, app, "-L", "5,+2")
    head, *rows = [line.split("\t") for line in finished.stdout.decode().splitlines()]

    assert head == ["LINE", "SESSION", "AGENT", "SEQ", "WRITTEN", "TEXT"]
    assert rows[0] == ["5", "unknown", "", "", "", '    """Return a greeting."""']
    assert rows[1][:3] == ["6", "f3bd2604-ea38-4959-855d-2a80cdf384a7", "claude"]
    assert rows[1][5] == '    return "Howdy, " + name + "!"'
    assert finished.stderr.decode() == "2 lines: 1 by f3bd2604 (claude); 1 unknown\n"


def test_terminal_shows_short_ids_and_harmless_text(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "")
    text = "a = '\x1b]0;title\x07'\n\tb = 1\n"
    run_agent(place, "terminal-0123456789", EARLY, write("src/shown.py", text))
    shown = on_a_terminal(
        "blame", "--socket", place.daemon.path, put(place, "src/shown.py", f"{text}c = 1\n"), columns=100
    )
    first, second, third = shown.output.decode().splitlines()

    assert "terminal  claude" in first
    assert first.endswith("1  a = '␛]0;title␇'")
    assert second.endswith("2          b = 1")
    assert "unknown" in third
    assert shown.errors.decode() == "3 lines: 2 by terminal (claude); 1 unknown\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("6", [6, 15]), ("6,", [6, 15]), (",6", [1, 6]), ("6,7", [6, 7]), ("6,+1", [6, 6]), ("14,99", [14, 15])],
)
def test_range_of_lines_is_as_git_has_it(place: Place, app: Path, given: str, expected: list[int]) -> None:
    found = blame(place, app, "-L", given)

    assert [found[0]["start"], found[-1]["end"]] == expected


@pytest.mark.parametrize("given", ["", ",", "x", "0,5", "7,6", "5,+0", "1,2,3", "-1", "²"])
def test_range_that_is_none_is_refused(place: Place, app: Path, given: str) -> None:
    finished = here("blame", "--socket", place.daemon.path, app, "-L", given)

    assert finished.returncode == 2
    assert "-L" in sentence(finished)


def test_only_lines_of_one_session_are_shown(place: Place, app: Path) -> None:
    [line] = blame(place, app, "--session", "f3bd2604")
    other = here("blame", "--socket", place.daemon.path, app, "--session", "01a1ffd9")

    assert (line["start"], line["end"]) == (6, 6)
    assert other.stderr.decode() == "no line of it is known to have been written in session 01a1ffd9\n"


def test_file_that_no_session_changed_is_unknown(place: Place) -> None:
    file = put(place, "by-hand.py", "a = 1\nb = 2\n")
    finished = here("blame", "--socket", place.daemon.path, file, "--json")

    assert json.loads(finished.stdout) == {"start": 1, "end": 2}
    assert finished.stderr.decode() == "2 lines: no session is known to have written any of them\n"


def test_secrets_are_masked(place: Place) -> None:
    secret = FAKES[0].text
    run_agent(place, "secretly", EARLY, write("src/secret.py", f"a = 1\nkey = '{secret}'\n"))
    file = put(place, "src/secret.py", f"a = 1\nkey = '{secret}'\n")
    finished = here("blame", "--socket", place.daemon.path, file)

    assert sessions(place, file) == ["secretly", "secretly"]
    assert secret not in finished.stdout.decode()
    assert "[masked " in finished.stdout.decode()


def test_key_of_several_lines_leaves_the_numbers_of_lines(place: Place) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 16 + "\n" + "-----END PRIVATE KEY-----\n"
    finished = here("blame", "--socket", place.daemon.path, put(place, "src/key.pem", f"before\n{key}after\n"))
    rows = [line.split("\t") for line in finished.stdout.decode().splitlines()[1:]]

    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert (rows[0][5], rows[4][5]) == ("before", "after")
    assert "QUJD" not in finished.stdout.decode()


def test_latest_edits_are_replayed_if_there_are_too_many(place: Place) -> None:
    calls = (write("src/often.py", "a = 1\nb = 1\n"), edit("src/often.py", "b = 1", "b = 2"))
    run_agent(place, "often---", EARLY, *calls)
    file = put(place, "src/often.py", "a = 1\nb = 2\n")
    finished = here("blame", "--socket", place.daemon.path, file, "--edits", 1, "--json")

    assert [one.get("session") for one in map(json.loads, finished.stdout.splitlines())] == [None, "often---"]
    assert "only the latest 1 of 2 reads and changes of the file are replayed: see --edits" in finished.stderr.decode()


def test_file_with_too_many_names_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex renamed it once."""
    monkeypatch.setattr(edits, "MOST_PATHS", 1)
    finished = here("blame", "--socket", place.daemon.path, put(place, "src/maths.py", MATHS))

    assert finished.returncode == 1
    assert sentence(finished).endswith("the file has had more than 1 names, so its edits are not replayed")


def test_session_with_more_files_than_are_counted_is_mentioned(tmp_path: Path) -> None:
    with running(tmp_path / "daemon") as daemon:
        place = Place(daemon, tmp_path)
        run_agent(place, "busy-one", EARLY, *(write(f"{number}.py", "a = 1\n") for number in range(MAX_FILES)))
        finished = here("blame", "--socket", daemon.path, put(place, "0.py", "a = 1\n"))

    assert finished.stderr.decode().splitlines() == [
        "tooltap: some sessions changed more files than are counted: lines that they wrote may be unknown",
        "1 line: 1 by busy-one (claude); 0 unknown",
    ]


def test_what_cannot_be_read_is_one_sentence(place: Place, tmp_path: Path) -> None:
    binary, latin, large, pipe = (tmp_path / name for name in ("binary", "latin", "large", "pipe"))
    binary.write_bytes(b"a\0b\n")
    latin.write_bytes(b"caf\xe9\n")
    large.write_bytes(b"x" * 11)
    os.mkfifo(pipe)
    for file, words, expected in (
        (tmp_path / "none.py", (), "No such file or directory"),
        (tmp_path, (), "is a folder"),
        (pipe, (), "is not a regular file"),
        (binary, (), "is not text in UTF-8"),
        (latin, (), "is not text in UTF-8"),
        (large, ("--file-bytes", 10), "has more than 10 bytes; --file-bytes is the limit"),
        (large, ("-L", "3,4"), "has only 1 line"),
    ):
        finished = here("blame", "--socket", place.daemon.path, file, *words)
        assert finished.returncode == 1
        assert expected in sentence(finished)


def test_without_a_daemon_it_says_so(app: Path, tmp_path: Path) -> None:
    finished = here("blame", "--socket", tmp_path / "none.sock", app)

    assert finished.returncode == 1
    assert "no daemon is listening" in sentence(finished)


# -- Agent Trace ------------------------------------------------------------------------------------------------------

TEXT = (str, True)
RANGES = {
    "start_line": (int, True),
    "end_line": (int, True),
    "content_hash": (str, False),
    "contributor": (dict, False),
}
SHAPES: dict[str, dict[str, tuple[type, bool]]] = {
    "": {
        **dict.fromkeys(("version", "id", "timestamp"), TEXT),
        "vcs": (dict, False),
        "tool": (dict, False),
        "files": (list, True),
        "metadata": (dict, False),
    },
    "vcs": {"type": TEXT, "revision": TEXT},
    "tool": {"name": TEXT, "version": TEXT},
    "files": {"path": TEXT, "conversations": (list, True)},
    "conversations": {
        "url": (str, False),
        "contributor": (dict, False),
        "ranges": (list, True),
        "related": (list, False),
    },
    "contributor": {"type": TEXT, "model_id": (str, False)},
    "ranges": RANGES,
    "related": {"type": TEXT, "url": TEXT},
}
"""Key -> the keys of its objects, as the JSON schema of Agent Trace 0.1.0 has them (cursor/agent-trace,
`schemas/trace-record.json`): their types, and whether they are required. No other keys are allowed."""


def check(value: Any, key: str = "") -> None:
    shape = SHAPES.get(key)
    if shape is None:
        return
    assert value.keys() <= shape.keys()
    for name, (kind, is_required) in shape.items():
        assert name in value or not is_required, name
        assert isinstance(value.get(name, kind()), kind)
        for one in value[name] if kind is list and name in value else [value.get(name)]:
            if isinstance(one, dict):
                check(one, name)


def record(place: Place, file: Path, *words: object) -> dict[str, Any]:
    finished = here("blame", "--socket", place.daemon.path, file, "--format", "agent-trace", *words)
    assert finished.returncode == 0, finished
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def test_record_is_one_of_agent_trace(place: Place, app: Path) -> None:
    found = record(place, app)
    [file] = found["files"]
    [unknown, claude] = file["conversations"]

    check(found)
    assert re.fullmatch(r"[0-9]+\.[0-9]+", found["version"])
    assert UUID(found["id"]).version == 4
    assert datetime.fromisoformat(found["timestamp"]).tzinfo is not None
    assert found["timestamp"].endswith("Z")
    assert file["path"] == "src/app.py"
    assert unknown["contributor"] == {"type": "unknown"}
    assert claude["contributor"] == {"type": "ai", "model_id": "anthropic/claude-opus-5-5"}
    assert claude["ranges"] == [{"start_line": 6, "end_line": 6}]
    assert claude["related"] == [{"type": "tool-call", "url": f"tooltap://event/{blame(place, app)[1]['seq']}"}]


def test_record_names_the_commit_only_if_the_file_is_unchanged(place: Place, app: Path) -> None:
    git(place.root, "add", "src/app.py")
    git(place.root, "commit", "-qm", "greet")
    commit = git(place.root, "rev-parse", "HEAD").strip()

    assert record(place, app)["vcs"] == {"type": "git", "revision": commit}
    app.write_text(f"\n{HOWDY}")
    assert "vcs" not in record(place, app)


def test_git_runs_nothing_that_a_repository_names(place: Place, app: Path) -> None:
    marks = place.root / "marks"
    program = put(place, "program", f"#!/bin/sh\ntouch {marks}\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external"):
        git(place.root, "config", name, str(program))
    digest = hashlib.sha256((place.root / ".git" / "config").read_bytes()).digest()

    check(record(place, app))
    assert not marks.exists()
    assert hashlib.sha256((place.root / ".git" / "config").read_bytes()).digest() == digest


def test_record_outside_a_repository_has_the_name_of_the_file(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text("a = 1\n")
    found = record(place, file)

    check(found)
    assert found["files"][0]["path"] == "alone.py"
    assert "vcs" not in found


def test_json_and_a_format_exclude_each_other(place: Place, app: Path) -> None:
    finished = here("blame", "--socket", place.daemon.path, app, "--json", "--format", "agent-trace")

    assert finished.returncode == 2
    assert "--json and --format exclude each other" in sentence(finished)
