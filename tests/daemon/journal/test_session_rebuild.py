"""Session rows that were kept up to date equal those rebuilt from the events, over the recordings."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import commit
from tests.daemon.journal.on_nats import opened
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.rebuild import rebuild_rows
from tooltap.daemon.journal.nats.state import OwnRow, Row
from tooltap.daemon.journal.sqlite.file import connect
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.sessions import rebuild_sessions
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.replies import StreamState

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parents[2] / "fixtures"
MOST_BYTES = 100_000
EACH = 4
"""One of so many recordings is taken: of each dialect, several."""
STATES: tuple[StreamState, ...] = ("open", "suspended", "ended")


async def publish_all(journal: Journal, seed: int) -> None:
    """Commit recordings in parts of random lengths. Some streams end, and some are cut off before."""
    rng = random.Random(seed)
    recordings = sorted(one for one in FIXTURES.glob("*/*/*.jsonl") if one.stat().st_size < MOST_BYTES)
    for number, recording in enumerate(recordings[::EACH]):
        stream, state = f"s{number}", rng.choice(STATES)
        normalizer = StreamNormalizer(Context(stream=stream, session=None if number % 3 else f"named-{number}"))
        lines = recording.read_bytes().splitlines()[: None if state == "ended" else rng.randrange(1, 60)]
        at = 0
        while at < len(lines):
            part = lines[at : at + rng.randrange(1, 40)]
            found = normalizer.feed_block(part, 1_700_000_000_000 + at * 1_000)
            events = [one for one in found if isinstance(one, Produced)]
            await journal.commit(commit(*events, stream=stream, base=at, lines=len(part)))
            at += len(part)
        closing_events = normalizer.close("end", 1_800_000_000_000) if state == "ended" else []
        events = [one for one in closing_events if isinstance(one, Produced)]
        await journal.commit(commit(*events, stream=stream, base=at, lines=0, state=state))


async def listed(journal: Journal) -> list[dict[str, Any]]:
    return await journal.sessions(limit=1_000, order="time")


async def test_rows_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path)
    await publish_all(journal, 1)
    was = await listed(journal)
    await journal.close()
    assert len(was) > 40
    with closing(connect(path, "process")) as connection:
        rows = connection.execute("SELECT * FROM sessions ORDER BY session").fetchall()
        links = connection.execute("SELECT * FROM session_streams").fetchall()
        connection.execute("BEGIN")
        assert rebuild_sessions(connection) == {}
        connection.execute("COMMIT")
        assert connection.execute("SELECT * FROM sessions ORDER BY session").fetchall() == rows
        assert connection.execute("SELECT * FROM session_streams").fetchall() == links

    journal = await SqliteJournal.open(path)
    assert await listed(journal) == was
    for status in {one["status"] for one in was}:
        found = await journal.sessions(limit=1_000, order="time", wanted=SessionFilter(status=(status,)))
        assert found == [one for one in was if one["status"] == status]
    await journal.close()


async def test_rows_on_nats(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await publish_all(journal, 2)
        was = await listed(journal)
        assert len(was) > 40
        state = journal._state
        for row in await state.rows():
            stored = await state.get(row.info.stream)
            assert stored is not None
            await state.put(OwnRow(Row(info=row.info), stored.entry))
        assert await listed(journal) == []
    async with opened(nats_place) as other:
        await rebuild_rows(other._connection, other._messages, other._state, other._requests)
        assert [one | {"state": "", "status": ""} for one in await listed(other)] == [
            one | {"state": "", "status": ""} for one in was
        ]


async def test_every_session_with_a_prompt_has_a_title(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    await publish_all(journal, 3)
    untitled = {one["session"] for one in await listed(journal) if "title" not in one}
    found, after = await journal.read(0, max_bytes=2**30)
    assert after == journal.latest
    await journal.close()

    said = [one.body for one in found if b'"kind":"message"' in one.body[:30] and b'"replay":true' not in one.body]
    prompts = [body for body in said if b'"role":"user"' in body]
    assert len(prompts) > 20
    assert not {name for name in untitled for body in prompts if f'"session":"{name}"'.encode() in body}
