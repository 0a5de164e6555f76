"""A line that raised while it was committed, or while its stream is rebuilt, leaves no call open or closed twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.daemon.publishing import Clock, daemon, events, journal_of, publish
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.lines import Line, Skip

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

STREAM: list[Any] = [
    {"do": "call", "id": "1", "name": "Bash", "input": {"command": "ls"}},
    {"do": "result", "id": "1", "output": "done"},
    {"do": "say", "text": "bye"},
]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("snapshot_bytes", [0, 1024 * 1024])
async def test_result_that_raised_once_has_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, snapshot_bytes: int
) -> None:
    """`at` 1: while it was committed; 2: while the stream is rebuilt, if its result is not in the snapshot."""
    usual, seen = Toy.read, 0

    def read(self: Toy, value: Line) -> Skip:
        nonlocal seen
        seen += value["do"] == "result"
        if value["do"] == "result" and seen == at:
            raise MemoryError
        return usual(self, value)

    monkeypatch.setattr(Toy, "read", read)
    clock = Clock()
    path = tmp_path / "journal.db"
    async with daemon(path, clock, suspend_timeout_ms=10, snapshot_bytes=snapshot_bytes) as streams:
        publisher = await publish(streams, dialect="toy")
        for value in STREAM:
            await publisher.lines(value)
        await publisher.ingest.finish()
    async with daemon(path, clock, suspend_timeout_ms=10, snapshot_bytes=snapshot_bytes) as streams:
        clock.now += 11
        assert await streams.close_overdue() == 1
        found = await events(journal_of(streams))
        open_calls = await journal_of(streams).open_calls()

    assert [one["status"] for one in found if one["kind"] == "tool-result"] == [
        "interrupted" if at == 1 else "completed"
    ]
    assert open_calls == {"calls": [], "permissions": []}
