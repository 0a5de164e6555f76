"""How many files and lines a session's row says that its calls have changed. On every journal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.changing import HOUR, edited, two_sessions
from tests.daemon.events import call, commit, event
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.files import MAX_CHARACTERS, MAX_PARTS, QUARTER_MS, FilePart, FileParts
from tooltap.daemon.sessions.listing import THIS_MACHINE
from tooltap.daemon.sessions.row import MAX_FILES, MAX_OPEN, Changes
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, ToolResult
from tooltap.protocol.frames import ChangedFilesRequest


def done(call_id: str, name: str, **fields: Any) -> Produced:
    values = {"output": {}, "status": "completed", "is_error": fields.get("status") == "failed", **fields}
    return event(ToolResult, call_id=call_id, name=name, **values)


def edit(call_id: str, path: str, old: str, new: str) -> Produced:
    return call(call_id, name="Edit", input={"file_path": path, "old_string": old, "new_string": new})


def write(call_id: str, path: str, text: str) -> Produced:
    return call(call_id, name="Write", input={"file_path": path, "content": text})


@pytest.mark.anyio
async def test_calls_that_succeeded_count(journal: Journal) -> None:
    hunk = {"oldStart": 1, "lines": [" a", "-b", "-c", "+d"]}
    patch = {"b.py": {"type": "modify", "unified_diff": "@@\n-x\n+y\n+z\n", "move_path": "c.py"}, "d": {"type": "add"}}
    await journal.commit(
        commit(
            event(SessionEvent, state="started", cwd="/work"),
            edit("1", "a.py", "one\ntwo\n", "one\n2\n3\n"),
            done("1", "Edit"),
            edit("2", "/work/./a.py", "x", "y"),
            done("2", "Edit", output={"structuredPatch": [hunk]}),
            edit("3", "never.py", "x", "y"),
            done("3", "Edit", status="failed"),
            write("4", "open.py", "never\n"),
        )
    )
    await journal.commit(
        commit(
            call("5", name="Patch", input={"changes": patch}, line=2),
            done("5", "Patch", line=2),
            done("4", "Write", status="denied", line=2, index=1),
            base=1,
        )
    )
    (session,) = await journal.sessions()

    assert (session["files"], session["linesAdded"], session["linesRemoved"]) == (3, 5, 4)


def test_notebook_has_its_lines_in_the_result() -> None:
    changes = Changes()
    changes.note(1, None, call("1", name="NotebookEdit", input={"notebook_path": "/n.ipynb", "new_source": "x"}))
    texts = {"notebook_path": "/n.ipynb", "original_file": "a\nb\n", "updated_file": "a\nc\nd\n"}
    changes.note(2, None, done("1", "NotebookEdit", output=texts))

    assert (len(changes.files), changes.added, changes.removed) == (1, 2, 1)
    assert list(changes.parts.of_path) == ["/n.ipynb"]


def test_the_part_is_bounded() -> None:
    changes = Changes()
    for number in range(2 * MAX_FILES):
        changes.note(number, None, write(str(number), f"{number}.py", "a\n"))
        if number >= 2 * MAX_OPEN:
            changes.note(number, None, done(str(number), "Write"))
    assert len(changes.open) == MAX_OPEN
    for number in range(MAX_OPEN):
        changes.note(number, None, done(str(number), "Write"))
    for number in range(2 * MAX_FILES):
        changes.note(number, None, write("again", f"{number}.py", "a\n"))
        changes.note(number, None, done("again", "Write"))

    assert (len(changes.files), changes.open) == (MAX_FILES, {})
    half, other = Changes(), Changes(files={1}, added=2)
    half.absorb(other)
    assert (half.files, half.added) == ({1}, 2)


@pytest.mark.anyio
async def test_files_of_all_sessions(journal: Journal) -> None:
    for one in two_sessions():
        await journal.commit(one)

    found = await journal.changed_files(ChangedFilesRequest())
    a, b = found.files

    assert (found.total, found.complete) == (2, True)
    assert (a.path, a.sessions, a.agents, a.changes, a.added, a.removed) == (
        "/work/a.py",
        2,
        ["gemini", "claude"],
        3,
        3,
        3,
    )
    assert (a.last_ts, [one.session for one in a.changed_by]) == (40 * HOUR, ["two", "one"])
    assert (a.changed_by[1].title, a.changed_by[1].changes, a.changed_by[1].last_ts) == ("First", 2, 30 * HOUR)
    last = await journal.event(a.changed_by[1].last_seq)
    assert last is not None
    assert b'"callId":"3"' in last.body
    assert b'"tool-call"' in last.body
    assert (b.path, b.sessions, b.added, b.removed) == ("/work/b.py", 1, 5, 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({"order": "lines"}, ["a.py 3", "b.py 1"]),
        ({"order": "time"}, ["a.py 3", "b.py 1"]),
        ({"since": 2 * HOUR}, ["a.py 2"]),
        ({"until": 2 * HOUR, "order": "lines"}, ["b.py 1", "a.py 1"]),
        ({"since": 41 * HOUR}, []),
        ({"provider": ("claude",)}, ["a.py 1"]),
        ({"session": ("one",)}, ["a.py 2", "b.py 1"]),
        ({"project": ("/work/sub",)}, ["a.py 1"]),
        ({"file": "B.PY"}, ["b.py 1"]),
        ({"file": "never"}, []),
        ({"limit": 1}, ["a.py 3"]),
    ],
)
async def test_files_are_chosen(journal: Journal, asked: dict[str, Any], paths: list[str]) -> None:
    for one in two_sessions():
        await journal.commit(one)

    found = await journal.changed_files(ChangedFilesRequest(**asked))

    assert [f"{one.path.removeprefix('/work/')} {one.changes}" for one in found.files] == paths
    assert found.complete == ("limit" not in asked)


@pytest.mark.anyio
async def test_the_same_path_on_another_host_is_another_file(journal: Journal) -> None:
    theirs: dict[str, Any] = {"stream": "box/s", "session": "box/theirs", "host": "box"}
    await journal.commit(commit(*edited("1", "/work/a.py", "x", "y", **theirs), stream="box/s"))
    await journal.commit(two_sessions()[0])

    for host, changes in ((None, {"box": 1, None: 2}), (("box",), {"box": 1}), ((THIS_MACHINE,), {None: 2})):
        found = await journal.changed_files(ChangedFilesRequest(host=host, file="a.py"))
        assert {one.host: one.changes for one in found.files} == changes


def test_parts_of_files_are_bounded() -> None:
    parts = FileParts()
    for number in range(2 * MAX_PARTS):
        parts.add("a.py", FilePart(number * QUARTER_MS, number, 1, 2, 1))
    (of_file,) = parts.of_path.values()
    assert (len(of_file), of_file[-1].seq) == (MAX_PARTS, 2 * MAX_PARTS - 1)
    assert (sum(one.added for one in of_file), sum(one.removed for one in of_file)) == (4 * MAX_PARTS, 2 * MAX_PARTS)

    parts.add("x" * MAX_CHARACTERS, FilePart(0, 0, 1, 1, 1))
    assert list(parts.of_path) == ["a.py"]


def test_what_an_older_version_stored_is_not_all() -> None:
    old = Changes(files={1, 2}, added=2)
    assert not old.has_all_parts
    assert old.lacks_parts
    assert Changes().has_all_parts

    large = Changes()
    for number, path in enumerate(["a.py", "x" * MAX_CHARACTERS]):
        large.note(number, None, write(str(number), path, "a\n"))
        large.note(number, None, done(str(number), "Write"))
    assert (large.has_all_parts, large.lacks_parts) == (False, False)
