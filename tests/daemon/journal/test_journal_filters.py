"""Filters on a SQLite journal: what indexes find, and that they find what a filter matches."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.sqlite import reader as query
from tooltap.daemon.journal.sqlite.file import connect
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read, read_back
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Notice, PermissionRequest, Usage, decode
from tooltap.protocol.filters import Filter, meta_of

pytestmark = pytest.mark.anyio


SESSIONS = 80
RARE = [
    Filter(tool=("Rare",)),
    Filter(tool=("rare_raw",)),
    Filter(tool=("Rare", "Absent", "rare_raw")),
    Filter(tool=("Rare",), session=("session-7",)),
    Filter(tool=("Rare",), stream=("stream-7",)),
    Filter(tool=("Rare",), session=tuple(f"session-{number}" for number in range(SESSIONS))),
    Filter(tool=("Rare",), kind=("tool-call",), provider=("gemini",), agent=("child",)),
    Filter(kind=("permission-request",)),
    Filter(kind=("permission-request", "usage"), stream=("stream-7", "stream-8")),
]
ABSENT = [
    Filter(tool=("Absent",)),
    Filter(tool=("Rare",), session=("session-8",)),
    Filter(tool=("Rare",), kind=("tool-result",)),
    Filter(session=("absent",)),
    Filter(provider=("absent",)),
    Filter(kind=("unparsed",), stream=("stream-7",)),
]


async def test_rare_events_are_found_without_a_scan(sqlite_journal: SqliteJournal) -> None:
    """A scan of these events takes SQLite more than 100,000 steps."""
    for number in range(SESSIONS):
        stream = f"stream-{number}"
        names: dict[str, Any] = {"stream": stream, "session": f"session-{number}"}
        outputs = [
            one for n in range(60) for one in (message("m", **names), call(f"{n}", **names), message("m", **names))
        ]
        if number == 7:
            happy = {"v": 2, "rawToolName": "rare_raw"}
            rare = call("rare", name="Rare", agent="child", input={"_happy": happy}, **names)
            ask = event(PermissionRequest, permission_id="p", type="permission", **names)
            outputs[90:90] = [rare, ask]
        await sqlite_journal.commit(commit(*outputs, stream=stream))

    with closing(connect(sqlite_journal.path, "process")) as connection:
        assert steps_of(connection, Filter(agent=("absent",)), 0) > 100_000
        for wanted in RARE:
            assert steps_of(connection, wanted, 1) < 10_000, wanted
        for wanted in ABSENT:
            assert steps_of(connection, wanted, 0) < 1_000, wanted


def steps_of(connection: sqlite3.Connection, wanted: Filter, count: int) -> int:
    """Steps of SQLite that reading in both directions takes, in hundreds; `count`: events found."""
    (latest,) = connection.execute("SELECT max(seq) FROM events").fetchone()
    steps = 0

    def progress() -> None:
        nonlocal steps
        steps += 100

    connection.set_progress_handler(progress, 100)
    events, searched, _ = read(connection, 0, latest, wanted, 100_000, KnownDamage())
    back, searched_back, _ = read_back(connection, latest + 1, 1, wanted, 100, 100_000, KnownDamage())
    connection.set_progress_handler(None, 0)
    assert len(events) == count
    assert back == events[::-1]
    assert (searched, searched_back) == (latest, 1)
    return steps


STREAMS, NAMES, AGENTS = ("s", "t", "u"), ("one", "two", "three", "absent"), ("child", "other", "absent")
PROVIDERS, TOOLS = ("gemini", "claude", "absent"), ("Bash", "Read", "sh", "Grep")
KINDS = ("message", "tool-call", "tool-result", "notice", "usage", "turn")


def any_event(chance: random.Random, stream: str) -> Produced:
    names: dict[str, Any] = {
        "stream": stream,
        "session": chance.choice(NAMES[:3]),
        "provider": chance.choice(PROVIDERS[:2]),
        "agent": chance.choice([None, *AGENTS[:2]]),
    }
    kind = chance.choice(KINDS[:5])
    if kind == "tool-call":
        return call("1", name=chance.choice(("Bash", "Read")), **names)
    if kind == "tool-result":
        return result("1", **names)
    if kind == "notice":
        return event(Notice, level="info", code="c", text="t", **names)
    return event(Usage, scope="turn", **names) if kind == "usage" else message("m", **names)


def any_filter(chance: random.Random) -> Filter:
    def some(names: tuple[str, ...]) -> tuple[str, ...] | None:
        return tuple(chance.sample(names, chance.randint(1, 3))) if chance.random() < 0.35 else None

    return Filter(
        stream=some((*STREAMS, "absent")),
        session=some(NAMES),
        agent=some(AGENTS),
        provider=some(PROVIDERS),
        kind=some(KINDS),
        tool=some(TOOLS),
    )


@pytest.mark.parametrize("max_ranges", [0, 2, 100])
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_filter_finds_what_it_matches(
    sqlite_journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch, max_ranges: int, seed: int
) -> None:
    monkeypatch.setattr(query, "MAX_RANGES", max_ranges)
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.reader.WINDOW", 50)
    chance = random.Random(seed)
    for line in range(20):
        for stream in STREAMS:
            outputs = [any_event(chance, stream) for _ in range(5)]
            await sqlite_journal.commit(commit(*outputs, stream=stream, base=line))
    stored, _ = await sqlite_journal.read(0, max_bytes=10**9)
    metas = [meta_of(decode(one.body)) for one in stored]

    for _ in range(150):
        wanted = any_filter(chance)
        expected = [one for one, meta in zip(stored, metas, strict=True) if wanted.matches(meta)]
        assert await forwards(sqlite_journal, wanted) == expected, wanted
        assert await backwards(sqlite_journal, wanted) == expected[::-1], wanted


async def forwards(journal: SqliteJournal, wanted: Filter) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    after = 0
    while after < journal.latest:
        page, after = await journal.read(after, wanted, max_bytes=2_000)
        found += page
    return found


async def backwards(journal: SqliteJournal, wanted: Filter) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    before = journal.latest + 1
    while before > journal.oldest:
        page, before = await journal.read_back(before, wanted, limit=7)
        found += page
    return found


async def test_as_many_values_as_a_filter_may_have(sqlite_journal: SqliteJournal) -> None:
    """One range for each value, and a scan beyond that."""
    for number in range(query.MAX_RANGES + 20):
        stream = f"stream-{number}"
        await sqlite_journal.commit(commit(message("m", stream), call("1", stream), stream=stream))

    for count in (query.MAX_RANGES, query.MAX_RANGES + 1):
        wanted = Filter(stream=tuple(f"stream-{number}" for number in range(count)), tool=("Bash",))
        found = await forwards(sqlite_journal, wanted)
        assert [one.seq for one in found] == [2 * number + 2 for number in range(count)]
