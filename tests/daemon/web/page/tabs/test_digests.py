"""What tabs know of sessions is brought up to date: every event is noted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.daemon.events import commit, event, message
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.web.page.tabs.digests import REMEMBERED, Digests
from tooltap.protocol.events import Notice

pytestmark = pytest.mark.anyio


class Seqs:
    KINDS: ClassVar[tuple[str, ...]] = ("message",)

    def __init__(self) -> None:
        self.seqs: list[int] = []

    def note(self, seq: int, body: bytes) -> None:
        if b"bad" in body:
            raise ValueError("bad")
        self.seqs.append(seq)


async def looked(digests: Digests[Seqs], journal: Journal, session: str = "session-1") -> list[int]:
    rows = {row["session"]: row for row in await journal.sessions()}
    async with digests.of(rows[session]) as known:
        return list(known.seqs)


async def test_events_are_noted_once_however_many_look(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    digests = Digests(journal, Seqs)
    seen: list[Any] = []

    async def look() -> None:
        seen.append(await looked(digests, journal))

    await journal.commit(commit(message("a"), event(Notice, level="info", code="x", text="y"), message("bad")))
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(look)
    await journal.commit(commit(message("b", line=2), base=1))

    assert seen == [[1]] * 5
    assert await looked(digests, journal) == [1, 4]
    await journal.close()


async def test_whoever_leaves_while_it_reads_leaves_nothing_half_done(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    digests = Digests(journal, Seqs)
    await journal.commit(commit(*(message("x" * 10_000) for _ in range(200))))

    for steps in range(40):  # gives up a little later each time
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(looked, digests, journal)
                for _ in range(steps):
                    await checkpoint()
                scope.cancel()

    assert await looked(digests, journal) == list(range(1, 201))
    await journal.close()


async def test_sessions_are_forgotten_and_read_again(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "j.db")
    digests = Digests(journal, Seqs)
    names = [f"session-{number}" for number in range(REMEMBERED + 2)]
    for name in names:
        await journal.commit(commit(message("x", name, session=name), stream=name))

    for _ in range(2):
        assert [await looked(digests, journal, name) for name in names] == [[seq] for seq in range(1, len(names) + 1)]
    await journal.close()
