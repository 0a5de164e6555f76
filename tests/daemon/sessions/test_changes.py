"""How many files and lines a session's row says that its calls have changed. On every journal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, commit, event
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.row import MAX_FILES, MAX_OPEN, Changes
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, ToolResult


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
