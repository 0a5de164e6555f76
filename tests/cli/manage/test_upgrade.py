"""A daemon of another version takes over mid-stream, and each publisher resumes with the next line."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.cli.command import CLAUDE, Child
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_run import agent
from tests.daemon.constants import VARIABLE
from tooltap.daemon.ingest.live_stream import SNAPSHOT_FORMAT, Snapshot

LINES = CLAUDE.read_bytes().splitlines(keepends=True)
OPEN = 2
"""After this many lines a call is open."""
PUBLISHERS = {
    "run": agent("import sys\nfor line in sys.stdin: print(line, end='')"),
    "proxy": agent(f"import sys\nfor line, _ in zip(open({str(CLAUDE)!r}), sys.stdin): print(line, end='')"),
    "ingest": [],
}


def publish(publisher: Child, name: str, line: bytes) -> None:
    publisher.write(b"next\n" if name == "proxy" else line)
    if name != "ingest":
        assert publisher.line() == line


def written_by_another_version(journal: Path) -> None:
    """Make the stored states unreadable, as after a version with another state format."""
    with closing(sqlite3.connect(journal)) as database, database:
        rows = database.execute("SELECT stream, data FROM snapshots").fetchall()
        assert rows
        for stream, data in rows:
            snapshot = msgspec.msgpack.decode(data, type=Snapshot)
            snapshot.format = SNAPSHOT_FORMAT + 1
            database.execute("UPDATE snapshots SET data=? WHERE stream=?", (msgspec.msgpack.encode(snapshot), stream))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", PUBLISHERS)
def test_upgrade_mid_stream_is_reported_and_loses_no_line(name: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    lines = 2 if name == "proxy" else 1  # for each line of the agent
    # `ingest` gives up a daemon that is away for 10 s; the next one may start slowly.
    changes = {VARIABLE: json.dumps({"source.patience": 60.0})} if name == "ingest" else {}
    publishing = place.start(*PUBLISHERS[name], command=name, **changes)

    with place.serving("snapshot_bytes = 0") as daemon, publishing as publisher:
        for line in LINES[:OPEN]:
            publish(publisher, name, line)
        until(lambda: daemon.lines() == OPEN * lines)
        before = daemon.events()
        daemon.process.kill()
        written_by_another_version(tmp_path / "journal.db")
        with place.serving() as upgraded:
            for line in LINES[OPEN:]:
                publish(publisher, name, line)
            assert publisher.end() == (0, b"", b"")
            upgraded.wait_until_ended(1)
            after = upgraded.events()[len(before) :]
            assert upgraded.lines() == len(LINES) * lines

    [call] = [event for event in before if event["kind"] == "tool-call"]
    closed, notice, *rest = [event for event in after if event.get("text") != "next"]
    assert (closed["kind"], closed["callId"], closed["status"]) == ("tool-result", call["callId"], "interrupted")
    assert (notice["kind"], notice["code"]) == ("notice", "parser-reset")
    [result] = [event for event in rest if event["kind"] == "tool-result"]
    assert (result["callId"], result["replaces"]) == (call["callId"], closed["id"])
    assert max(Counter(event["id"] for event in before + after).values()) == 1
