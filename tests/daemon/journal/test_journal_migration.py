"""A journal of an earlier format: migrated in place, whatever happens, and every reply is the same afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.daemon.journal.old_formats import make_old
from tests.daemon.publishing import Publisher, daemon, events, journal_of, publish
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.journal.sqlite import migration
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.schema import format_of, open_read_only
from tooltap.normalizers.core.items import Limits
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.tapped import looks_tapped, write_tapped

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = {
    "acp": "acp/opencode-1.18.33/parallel-calls.jsonl",
    "claude": "claude-stream/claude-code-2.1.330/control-question.jsonl",
    "claude-long": "claude-stream/claude-code-2.1.330/long-output.jsonl",
    "codex": "codex-app-server/codex-0.169/command-denied.jsonl",
}
LIMITS = Limits(string_bytes=2_000)
STEP = 7
"""Events of a step of the migration in these tests."""


def records(name: str) -> list[bytes]:
    """A recording as tapped lines."""
    lines = (FIXTURES / RECORDINGS[name]).read_bytes().splitlines()
    return [one + b"\n" if looks_tapped(one) else write_tapped(one, None, "out") + b"\n" for one in lines]


async def begin(path: Path) -> None:
    """Streams of several agents: some have ended, some are suspended in the middle of a call."""
    async with daemon(path, limits=LIMITS, snapshot_bytes=20_000) as streams:
        for name in RECORDINGS:
            lines = records(name)
            for stream, until in ((f"{name}-ended", len(lines)), (f"{name}-open", len(lines) * 2 // 3)):
                publisher = await publish(streams, stream, dialect="auto")
                await publisher.ingest.feed(b"".join(lines[:until]))
                if until == len(lines):
                    await publisher.record(op="end")
                await publisher.ingest.finish()


async def go_on(path: Path) -> list[dict[str, Any]]:
    """Publish the rest of the suspended streams; returns all events."""
    async with daemon(path, limits=LIMITS) as streams:
        for name in RECORDINGS:
            publisher: Publisher = await publish(streams, f"{name}-open", dialect="auto")
            await publisher.ingest.feed(b"".join(records(name)[publisher.ingest.live.info.lines :]))
            await publisher.record(op="end")
            await publisher.ingest.finish()
        return await events(journal_of(streams))


FILTERS = [
    ALL_EVENTS,
    Filter(stream=("claude-open",)),
    Filter(stream=("claude-open", "acp-ended", "none")),
    Filter(kind=("tool-call", "message")),
    Filter(kind=("permission-request",)),
    Filter(tool=("Bash", "shell")),
    Filter(tool=("Read",), stream=("claude-long-open",)),
    Filter(provider=("codex",)),
    Filter(agent=("none",)),
]


async def replies(journal: Journal) -> dict[str, Any]:
    """Everything that the journal answers."""
    found: dict[str, Any] = {
        "range": (journal.id, journal.oldest, journal.latest, journal.expired),
        "sessions": await journal.sessions(),
        "streams": await journal.streams(),
        "open calls": await journal.open_calls(),
        "events": [await journal.event(seq) for seq in range(journal.latest + 2)],
    }
    for session in found["sessions"]:
        name = session["session"]
        found[f"session {name}"] = (
            await journal.streams_of(name),
            await journal.open_calls(name),
            await journal.read(0, Filter(session=(name,))),
        )
    for wanted in FILTERS:
        found[f"forwards {wanted}"] = await pages(journal, wanted)
        found[f"backwards {wanted}"] = await journal.read_back(journal.latest + 1, wanted, limit=30)
    for info in found["streams"]:
        stored = await journal.load_stream(info.stream)
        assert stored is not None
        tail = [one for record in stored.tail for one in record.inputs()]
        found[f"stream {info.stream}"] = stored._replace(tail=tail)
    for one in await events(journal):
        for reference in one.get("outputs", {}).values():
            output_id = reference["outputId"]
            found[f"output {output_id}"] = await journal.output(output_id, 0, 10**9, "bytes")
    return found


async def pages(journal: Journal, wanted: Filter) -> list[Any]:
    found: list[Any] = []
    after = 0
    while after < journal.latest:
        page, after = await journal.read(after, wanted, max_bytes=5_000)
        found += page
    return found


async def answers(path: Path) -> dict[str, Any]:
    journal = await SqliteJournal.open(path)
    try:
        return await replies(journal)
    finally:
        await journal.close()


def schema_of(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        (version,) = database.execute("SELECT value FROM meta WHERE key='format'").fetchone()
    return {*((name, "".join(sql.replace('"', "").split())) for name, sql in tables), ("format", version)}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_every_reply_is_the_same_after_a_migration(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "STEP_EVENTS", STEP)
    path, copy = tmp_path / "journal.db", tmp_path / "copy.db"
    await begin(path)
    before, schema = await answers(path), schema_of(path)
    assert before["open calls"]["calls"]
    assert any(key.startswith("output ") for key in before)
    assert any(one.tail for key, one in before.items() if key.startswith("stream "))
    shutil.copy(path, copy)
    make_old(path, version)
    with pytest.raises(JournalError, match=f"has the older format {version}; start a daemon on it to migrate it to 6"):
        open_read_only(path)
    assert schema_of(path) != schema

    with capture_logs() as logs:
        assert await answers(path) == before

    events = before["range"][2]
    assert version >= 3 or logs[0] == {
        "area": "journal",
        "event": "migrating the journal",
        "log_level": "info",
        "path": str(path),
        "to_format": 6,
        "events": events,
        "about_seconds": 1,
    }
    assert schema_of(path) == schema
    assert await go_on(path) == await go_on(copy)


async def test_empty_journal_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    before = await answers(path)
    make_old(path, 2)

    assert await answers(path) == before


async def test_gaps_are_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "STEP_EVENTS", STEP)
    path = tmp_path / "journal.db"
    await begin(path)
    make_old(path, 2)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM events WHERE seq<10 OR seq BETWEEN 30 AND 100")
        left = database.execute("SELECT seq, body FROM events").fetchall()

    journal = await SqliteJournal.open(path)
    assert [tuple(one) for one in await pages(journal, ALL_EVENTS)] == left
    await journal.close()


async def test_migration_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    await begin(path)
    make_old(path, 2)
    usage = namedtuple("usage", ["free"])
    monkeypatch.setattr(migration, "disk_usage", lambda place: usage(3 * 2**20))

    sentence = (
        rf"the journal {path} cannot be migrated to format 6: its disk has 3 MiB left, and the copy of its events needs"
        r" up to \d+ MiB"
    )
    with pytest.raises(JournalError, match=sentence):
        await SqliteJournal.open(path)
    assert format_of(path) == 2


# -- killed -------------------------------------------------------------------------------------------------------

OPEN = """
import asyncio, pathlib, sys
from tooltap.daemon.journal.sqlite import migration
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
migration.STEP_EVENTS = int(sys.argv[2])
asyncio.run(SqliteJournal.open(pathlib.Path(sys.argv[1])))
"""


def child(path: Path, step: int, failpoint: str = "") -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TOOLTAP_FAILPOINT": failpoint}
    return subprocess.Popen([sys.executable, "-c", OPEN, path, str(step)], env=environment, stderr=subprocess.DEVNULL)


def old_rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM events ORDER BY seq").fetchall()


@pytest.mark.parametrize("version", [1, 2])
async def test_killed_at_any_step_leaves_one_format_or_the_other(tmp_path: Path, version: int) -> None:
    path = tmp_path / "journal.db"
    await begin(path)
    before = await answers(path)
    make_old(path, version)
    rows = old_rows(path)
    steps = -(-len(rows) // STEP)
    assert steps > 10

    for nth in (1, 2, steps // 2, steps, steps + 1):  # the last one is in the transaction that raises the format
        assert child(path, STEP, f"during-migration:{nth}").wait() == -signal.SIGKILL
        assert format_of(path) == 2
        assert old_rows(path) == rows
    assert child(path, STEP, f"during-migration:{steps + 2}").wait() == -signal.SIGKILL
    assert format_of(path) == 3
    assert child(path, STEP, "during-migration:1").wait() == -signal.SIGKILL
    assert format_of(path) == 3
    assert child(path, STEP, "during-migration:2").wait() == -signal.SIGKILL
    assert format_of(path) == 4
    assert child(path, STEP, "during-migration:1").wait() == -signal.SIGKILL
    assert format_of(path) == 4
    assert child(path, STEP, "during-migration:2").wait() == -signal.SIGKILL
    assert format_of(path) == 5
    assert child(path, STEP, "during-migration:1").wait() == -signal.SIGKILL
    assert format_of(path) == 5
    assert child(path, STEP, "during-migration:2").wait() == -signal.SIGKILL
    assert format_of(path) == 6

    assert await answers(path) == before


async def test_killed_from_outside_leaves_one_format_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await begin(path)
    before = await answers(path)
    make_old(path, 2)
    rows = old_rows(path)

    for copied in (1, len(rows) // 4, len(rows) // 2):
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("DROP TABLE IF EXISTS events_3")
        process = child(path, 1)
        wait_for_rows(path, copied, process)
        process.kill()
        process.wait()
        if format_of(path) >= 4:  # it was faster than this test
            break
        assert old_rows(path) == rows

    assert await answers(path) == before


def wait_for_rows(path: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until so many rows are copied, or the migration is over."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        while process.poll() is None:
            try:
                if database.execute("SELECT count(*) FROM events_3").fetchone()[0] >= count:
                    return
            except sqlite3.OperationalError:  # there is no such table yet, or no more
                pass
