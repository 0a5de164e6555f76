"""What is promised to publishers, seen by them and by subscribers on the socket: a bad line costs that line, and a
damaged journal takes what is published."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.containment.test_one_stream import refuse
from tests.daemon.journal.test_journal_damage import EVENTS, PAGE, STREAM, damage, fill, leaf_of, rewrite
from tests.daemon.running import Running, Wire, running
from tests.daemon.views.test_rewriter import wait_idle
from tests.daemon.views.viewing import shell, viewing
from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.live_stream import LiveStream
from tooltap.daemon.system.clock import wall_clock
from tooltap.normalizers.core.calls import Calls

pytestmark = pytest.mark.usefixtures("toy")

SAY = {"do": "say", "text": "Hi"}


def ingest(daemon: Running, **keys: Any) -> tuple[Wire, int]:
    """Return a connection that publishes the stream `s`, and where it resumes."""
    wire = daemon.connect()
    wire.send("ingest", **{"stream": "s", "framing": "tapped", "dialect": "toy", **keys})
    return wire, wire.until("ingesting")[-1]["lines"]


def write(wire: Wire, *values: dict[str, Any]) -> None:
    for value in values:
        record = {"t": 1_700_000_000_000, "dir": "out", "line": json.dumps(value)}
        wire.write(json.dumps(record).encode() + b"\n")


def end(wire: Wire) -> dict[str, Any]:
    wire.send("end")
    done: dict[str, Any] = wire.until("done")[-1]
    return done


def read(daemon: Running) -> list[dict[str, Any]]:
    """Return all lines of a subscriber that reads the journal once."""
    return daemon.subscribe(after="start", follow=False).until("live")[:-1]


def once(usual: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    """Return the function, which fails the first time, when it has done its work."""
    left = [error]

    def run(*values: Any, **named: Any) -> Any:
        done = usual(*values, **named)
        if left:
            raise left.pop()
        return done

    return run


# -- what a bad line costs --------------------------------------------------------------------------------------------


def test_reader_that_raises_costs_its_line_alone(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, {"do": "call", "id": "a", "name": "Bash"}, {"do": "fail"})
        write(wire, {"do": "result", "id": "a", "output": "done"}, SAY)
        done = end(wire)
        found = read(daemon)
        counts = daemon.stats()["errors"]

    assert (done["lines"], done["withEvents"], done["unparsed"]) == (5, 4, 1)
    (bad,) = [one for one in found if one["kind"] == "unparsed"]
    assert (bad["line"], bad["reason"]) == (3, "parser-error: RuntimeError at normalizers.core.lines:read")
    assert [one["status"] for one in found if one["kind"] == "tool-result"] == ["completed"]
    assert {one["turn"] for one in found if "turn" in one} == {"t1"}
    assert "parser-reset" not in [one.get("code") for one in found]
    assert sum(counts.values()) == 1


def test_stream_is_reset_where_its_state_is_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Calls, "_bury", once(Calls._bury, MemoryError))
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, {"do": "call", "id": "a", "name": "Bash"})
        write(wire, {"do": "result", "id": "a", "output": "done"}, {"do": "result", "id": "a", "output": "late"}, SAY)
        done = end(wire)
        found = read(daemon)

    assert (done["lines"], done["withEvents"], done["unparsed"]) == (5, 4, 1)
    of_line = [one for one in found if one["line"] == 3]
    assert of_line[0]["reason"] == "parser-error: MemoryError at normalizers.core.calls:_result"
    assert of_line[-1]["code"] == "parser-reset"
    closed, late = [one for one in found if one["kind"] == "tool-result"]
    assert (closed["status"], closed["synthetic"], late["replaces"]) == ("interrupted", True, closed["id"])


def test_stream_is_rebuilt_where_the_journal_cannot_take_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "poison")
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, SAY, {"do": "say", "text": "poison"}, SAY)
        done = end(wire)
        found = read(daemon)

    assert (done["lines"], done["withEvents"], done["unparsed"]) == (4, 3, 1)
    assert [(one["line"], one["kind"]) for one in found[:-1]] == [
        (1, "turn"),
        (2, "message"),
        (3, "unparsed"),
        (4, "message"),
    ]
    assert (found[-1]["kind"], found[-1]["state"]) == ("turn", "completed")


def test_line_that_raised_is_not_read_again_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, SAY, {"do": "fail"})
        while wire.until("ack")[-1]["lines"] < 3:
            pass
    with running(tmp_path) as daemon:
        errors = daemon.stats()["errors"]
        wire, resumed = ingest(daemon)
        write(wire, SAY)
        done = end(wire)
        more = daemon.stats()["errors"]
        found = read(daemon)

    assert (resumed, done["lines"], done["unparsed"]) == (3, 4, 1)
    assert more == errors
    assert [one["line"] for one in found if one["kind"] in ("message", "unparsed")] == [2, 3, 4]
    assert {one["turn"] for one in found if one["kind"] == "message"} == {"t1"}


# -- a damaged journal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", STREAM)
def test_publisher_resumes_at_its_line_whatever_of_its_stream_is_damaged(tmp_path: Path, part: str) -> None:
    """Nothing is published twice, nothing is left out, and the events so far stay."""
    lines = [{"do": "say", "text": f"text {number}"} for number in range(12)]
    snapshot_bytes = 1 if part == "snapshot" else 1_000_000
    with running(tmp_path, snapshot_bytes=snapshot_bytes) as daemon:
        wire, _ = ingest(daemon)
        write(wire, *lines[:7])
        while wire.until("ack")[-1]["lines"] < 7:
            pass
    damage(tmp_path / "journal.db", STREAM[part])

    with running(tmp_path) as daemon:
        wire, resumed = ingest(daemon)
        write(wire, *lines[resumed:])
        done = end(wire)
        found = read(daemon)
        damages = daemon.stats()["journal"]["damages"]

    assert (resumed, done["lines"]) == (7, 12)
    assert [one["text"] for one in found if one["kind"] == "message"] == [one["text"] for one in lines]
    assert damages >= 1


def test_publisher_resumes_after_its_last_event_where_all_of_its_stream_is_damaged(tmp_path: Path) -> None:
    """The lines after it, which had no event, are read again."""
    lines = [SAY, {"do": "say", "text": "last"}, {"do": "quiet"}, {"do": "quiet"}, {"do": "say", "text": "new"}]
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, *lines[:4])
        while wire.until("ack")[-1]["lines"] < 4:
            pass
    for sql in (STREAM["info"], STREAM["lines"], "UPDATE tail SET records=zeroblob(length(records))"):
        damage(tmp_path / "journal.db", sql)

    with running(tmp_path) as daemon:
        wire, resumed = ingest(daemon)
        write(wire, *lines[resumed:])
        done = end(wire)
        texts = [one["text"] for one in read(daemon) if one["kind"] == "message"]

    assert (resumed, done["lines"]) == (2, 5)
    assert texts == ["Hi", "last", "new"]


def test_publisher_sends_again_what_it_has_where_commits_are_gone(tmp_path: Path) -> None:
    """The file is an older one: `journal.db.tip` says how far it was."""
    journal, older = tmp_path / "journal.db", tmp_path / "older.db"
    lines = [{"do": "say", "text": f"text {number}"} for number in range(6)]
    for sent in (lines[:3], lines[3:]):
        with running(tmp_path) as daemon:
            wire, resumed = ingest(daemon)
            write(wire, *sent)
            while wire.until("ack")[-1]["lines"] < resumed + 3:
                pass
        if not older.exists():
            shutil.copy(journal, older)
    shutil.copy(older, journal)

    with running(tmp_path) as daemon:
        wire, resumed = ingest(daemon)
        write(wire, *lines[resumed:])
        assert end(wire)["lines"] == 6
        found = read(daemon)

    assert resumed == 3
    assert [one["text"] for one in found if one.get("kind") == "message"] == [one["text"] for one in lines]
    assert [one["op"] for one in found if "op" in one] == ["gap"]


def test_open_call_whose_row_is_damaged_is_in_no_list_until_more_comes(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, *[{"do": "call", "id": name, "name": "Bash"} for name in "ab"])
        while wire.until("ack")[-1]["lines"] < 3:
            pass
    damage(tmp_path / "journal.db", "UPDATE calls SET data=zeroblob(length(data)) WHERE id='a'")

    with running(tmp_path) as daemon:
        listed = daemon.connect().ask("calls")
        wire, _ = ingest(daemon)
        write(wire, *[{"do": "result", "id": name, "output": "done"} for name in "ab"])
        end(wire)
        found = read(daemon)

    assert [one["callId"] for one in listed["calls"]] == ["b"]
    assert [one["callId"] for one in found if one["kind"] == "tool-call"] == ["a", "b"]
    assert [(one["callId"], one["status"]) for one in found if one["kind"] == "tool-result"] == [
        ("a", "completed"),
        ("b", "completed"),
    ]


def test_parser_starts_anew_where_its_state_is_damaged(tmp_path: Path) -> None:
    with running(tmp_path, snapshot_bytes=1) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "begin"}, {"do": "call", "id": "a", "name": "Bash"})
        while wire.until("ack")[-1]["lines"] < 2:
            pass
    damage(tmp_path / "journal.db", STREAM["snapshot"])

    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, SAY)
        end(wire)
        found = read(daemon)

    assert [one["code"] for one in found if one["kind"] == "notice"] == ["parser-reset"]
    assert [(one["status"], one["synthetic"]) for one in found if one["kind"] == "tool-result"] == [
        ("interrupted", True)
    ]
    assert [one["text"] for one in found if one["kind"] == "message"] == ["Hi"]


def test_deletion_of_its_session_does_not_interrupt_a_publisher(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "session", "id": "named"}, SAY)
        end(wire)
        wire, resumed = ingest(daemon)
        assert daemon.connect().ask("remove", session="named")["events"] > 0
        write(wire, {"do": "say", "text": "on"})
        acked = wire.until("ack")[-1]["lines"]
        assert (resumed, acked) == (2, 3)

    with running(tmp_path) as daemon:
        wire, resumed = ingest(daemon)
        assert resumed == acked
        write(wire, {"do": "say", "text": "and on"})
        end(wire)
        found = [one for one in read(daemon) if "op" not in one]
        damages = daemon.stats()["journal"]["damages"]

    assert [(one["kind"], one["session"], one.get("code") or one["text"]) for one in found] == [
        ("notice", "named", "parser-reset"),
        ("message", "named", "on"),
        ("message", "named", "and on"),
    ]
    assert damages == 0


@pytest.mark.process
@pytest.mark.parametrize("deletes", ["sessions rm", "retention"])
def test_publisher_that_stays_stores_nothing_of_what_was_deleted(tmp_path: Path, deletes: str) -> None:
    """Neither the view that a command makes then, nor what the parser remembers."""
    go = tmp_path / "go"
    with viewing(tmp_path, {"Bash": {"rewrite": shell(f"until [ -e {go} ]; do sleep 0.02; done; cat")}}) as daemon:
        wire, _ = ingest(daemon)
        call = {"do": "call", "id": "deleted-call", "name": "Bash", "input": {"command": "deleted-command"}}
        write(wire, {"do": "session", "id": "named"}, call)
        write(wire, {"do": "result", "id": "deleted-call", "output": {"stdout": "deleted-output"}})
        end(wire)
        wire, _ = ingest(daemon)
        wait_idle(daemon, running=1)
        if deletes == "retention":
            daemon.expire(wall_clock() + 1)
        else:
            daemon.connect().ask("remove", session="named")
        go.touch()
        wait_idle(daemon, running=0)
        seen = read(daemon)
        write(wire, SAY)
        wire.until("ack")
        texts = [one.get("code") or one["text"] for one in read(daemon) if "op" not in one]

    assert [one for one in seen if "op" not in one] == []
    assert texts == ["parser-reset", "Hi"]
    assert [table for table, row in rows_of(tmp_path / "journal.db") if "deleted" in row] == []


@pytest.mark.parametrize("kind", ["sqlite", "nats"])
def test_nothing_of_what_is_deleted_just_before_a_commit_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, request: pytest.FixtureRequest
) -> None:
    """After the ingest connection has asked whether it was deleted."""
    usual, deleted = IngestConnection._join, list[int]()

    async def join(self: IngestConnection, live: LiveStream) -> None:
        await usual(self, live)
        if live.has_ended and not deleted:
            deleted.append(await self._journal.remove_session("named"))

    monkeypatch.setattr(IngestConnection, "_join", join)
    journal = str(request.getfixturevalue("nats_place") if kind == "nats" else tmp_path / "journal.db")
    with running(tmp_path, journal=journal) as daemon:
        wire, _ = ingest(daemon)
        call = {"do": "call", "id": "deleted-call", "name": "Bash", "input": {"command": "deleted-command"}}
        write(wire, {"do": "session", "id": "named"}, call)
        end(wire)
        wire, _ = ingest(daemon)
        write(wire, SAY)
        wire.until("ack")
        texts = [one.get("code") or one["text"] for one in read(daemon) if "op" not in one]

    assert deleted
    assert texts == ["parser-reset", "Hi"]
    if kind == "sqlite":
        assert [table for table, row in rows_of(tmp_path / "journal.db") if "deleted" in row] == []


def rows_of(journal: Path) -> Iterator[tuple[str, str]]:
    """Yield all rows, each with the name of its table."""
    with closing(sqlite3.connect(journal)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type='table'").fetchall():
            for row in database.execute(f"SELECT * FROM {table}"):
                yield table, repr(row)


def test_publisher_resumes_a_stream_whose_session_was_deleted(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, {"do": "session", "id": "named"}, SAY)
        end(wire)
        daemon.connect().ask("remove", session="named")
        wire, resumed = ingest(daemon)
        write(wire, {"do": "say", "text": "on"})
        assert (resumed, end(wire)["lines"]) == (2, 3)
        found = [one for one in read(daemon) if "op" not in one]

    assert [(one["kind"], one.get("code"), one["line"], one["session"]) for one in found] == [
        ("notice", "parser-reset", 2, "named"),
        ("message", None, 3, "named"),
    ]


def test_writing_continues_where_pages_are_intact(tmp_path: Path) -> None:
    """What is acknowledged on a damaged journal is there, with all events that are intact."""
    path = tmp_path / "journal.db"
    before = asyncio.run(fill(path))
    rewrite(path, leaf_of(path, 200), lambda _: bytes(PAGE))
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, *[{"do": "say", "text": f"new {number}"} for number in range(20)])
        assert end(wire)["withEvents"] == 20
        first = read(daemon)
    with running(tmp_path) as daemon:
        again = read(daemon)

    assert again == first
    (gap,) = [one for one in first if one.get("op") == "gap"]
    assert (gap["from"] <= 200 <= gap["to"], gap["reason"]) == (True, "corrupt")
    lost = range(gap["from"], gap["to"] + 1)
    assert [one["seq"] for one in first if "op" not in one] == [
        *[one.seq for one in before if one.seq not in lost],
        *range(EVENTS + 1, EVENTS + 21),
    ]


def test_commit_that_cannot_be_written_is_refused_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asyncio.run(fill(path))
    rewrite(path, leaf_of(path, EVENTS), lambda _: bytes(PAGE))  # where the next event belongs
    with running(tmp_path) as daemon:
        wire, _ = ingest(daemon)
        write(wire, SAY, SAY)
        frames = wire.rest()
        known = [one["lines"] for one in daemon.stats()["perStream"] if one["stream"] == "s"]
        texts = [one["text"] for one in read(daemon) if one.get("kind") == "message"]

    assert [one["op"] for one in frames] == ["error"]
    assert frames[0]["code"] == "journal"
    assert frames[0]["message"].endswith("run `tooltap journal repair`")
    assert known in ([], [0])
    assert "Hi" not in texts
