"""What the SQLite journal's writer does not write, and what it keeps in memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite import sessions as rows
from tooltap.daemon.journal.sqlite import writer
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.sessions.row import SessionRow
from tooltap.protocol.events import SessionEvent, ToolUpdate

pytestmark = pytest.mark.anyio


async def statements(journal: SqliteJournal, *outputs: Any, base: int) -> list[str]:
    """The statements that a commit leads to."""
    found: list[str] = []
    connection = journal._writer._connection
    connection.set_trace_callback(found.append)
    await journal.commit(commit(*outputs, base=base))
    connection.set_trace_callback(None)
    return found


async def test_call_within_a_commit_is_not_written(sqlite_journal: SqliteJournal) -> None:
    await sqlite_journal.commit(commit(message("a"), call("open")))
    update = event(ToolUpdate, call_id="1", name="Bash", title="T")

    done = await statements(sqlite_journal, *[call("1"), update, result("1")] * 50, result("unknown"), base=1)

    assert not [one for one in done if " calls " in one]
    assert len([one for one in done if "INTO sessions" in one]) == 1
    assert [one["callId"] for one in (await sqlite_journal.open_calls())["calls"]] == ["open"]

    done = await statements(sqlite_journal, result("open"), base=2)
    assert len([one for one in done if " calls " in one]) == 1
    assert (await sqlite_journal.open_calls())["calls"] == []


async def test_call_whose_id_is_used_again_is_open_once(sqlite_journal: SqliteJournal) -> None:
    await sqlite_journal.commit(commit(call("1", title="first")))
    await sqlite_journal.commit(commit(result("1"), call("1", title="second"), base=1))
    assert [one["title"] for one in (await sqlite_journal.open_calls())["calls"]] == ["second"]

    await sqlite_journal.commit(commit(call("1", title="third"), result("1"), base=2))
    assert (await sqlite_journal.open_calls())["calls"] == []


async def test_little_memory_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tables(name: str) -> dict[str, list[Any]]:
        journal = await SqliteJournal.open(tmp_path / name)
        for line in range(6):
            for number in range(4):
                stream, session = f"s{number}", f"session-{line % 2}-{number // 2}"
                names = {"stream": stream, "session": session}
                outputs = [call(f"{line}", ts=line, **names), result(f"{line - 2}", **names), message("m", **names)]
                await journal.commit(commit(*outputs, stream=stream, base=line))
        named = event(SessionEvent, "s0", session="named", state="updated", alias="session-1-0")
        await journal.commit(commit(named, stream="s0", base=6))
        await journal.close()
        with closing(sqlite3.connect(journal.path)) as database:
            return {
                table: database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
                for table in ("events", "sources", "labels", "calls", "sessions")
            }

    expected = await tables("enough.db")
    for module, name in ((rows, "SESSIONS_IN_MEMORY"), (rows, "STREAMS_IN_MEMORY"), (writer, "NAMES_IN_MEMORY")):
        monkeypatch.setattr(module, name, 1)
    assert await tables("little.db") == expected


async def test_names_of_a_failed_commit_are_forgotten(sqlite_journal: SqliteJournal) -> None:
    await sqlite_journal.commit(commit(message("a")))
    new = call("1", "t", name="New", session="new")
    with pytest.raises(JournalError):
        await sqlite_journal.commit(commit(new, stream="t", lines=2**63))

    await sqlite_journal.commit(commit(call("1", "u", name="Other", session="other"), stream="u"))
    await sqlite_journal.commit(commit(new, stream="t"))

    assert [one["session"] for one in await sqlite_journal.sessions()] == ["new", "other", "session-1"]
    with closing(sqlite3.connect(sqlite_journal.path)) as database:
        found = database.execute(
            "SELECT stream, session, tool FROM events JOIN sources ON sources.id=source JOIN labels ON labels.id=label"
            " ORDER BY seq"
        ).fetchall()
    assert found == [("s", "session-1", None), ("u", "other", "Other"), ("t", "new", "New")]


async def test_session_that_has_not_changed_is_described_once(
    sqlite_journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are listed again and again. Whoever changes a description changes no other list."""
    await sqlite_journal.commit(commit(message("a", session="one"), message("b", session="two")))
    described: list[str] = []
    describe = SessionRow.describe

    def counted(row: SessionRow, name: str, *rest: Any, **facts: Any) -> dict[str, Any]:
        described.append(name)
        return describe(row, name, *rest, **facts)

    monkeypatch.setattr(SessionRow, "describe", counted)
    first = await sqlite_journal.sessions()
    await sqlite_journal.commit(commit(message("c", session="one"), base=1))
    for one in await sqlite_journal.sessions():
        one["session"] = "mine"

    assert [one["session"] for one in await sqlite_journal.sessions()] == ["one", "two"]
    assert described == ["two", "one", "one"]
    assert [one["events"] for one in first] == [1, 1]


async def test_few_descriptions_are_kept(sqlite_journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_DESCRIBED", 2)
    await sqlite_journal.commit(commit(*(message("a", session=f"session-{one}") for one in range(5))))

    assert len(await sqlite_journal.sessions()) == 5
    assert len(sqlite_journal._descriptions._known) == 2
