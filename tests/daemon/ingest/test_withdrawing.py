"""What telemetry has reported of a session is deleted for the session's file, but not while it is being stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.daemon.publishing import events, publish, streams_on
from tooltap.daemon.journal.interface import Commit, NotEndedError, StreamConflictError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal

pytestmark = pytest.mark.anyio

TIME = 1_796_031_847_000
PROMPT = {
    "otlp": "log",
    "id": "1",
    "session": "s-1",
    "name": "claude_code.user_prompt",
    "time": TIME,
    "attributes": {"prompt": "Do it.", "prompt_length": 6},
}


class Shared(SqliteJournal):
    """A journal to which another daemon may have committed just before."""

    is_contended = False

    async def commit(self, commit: Commit) -> None:
        if self.is_contended:
            raise StreamConflictError("another daemon has committed to the stream")
        await super().commit(commit)


@pytest.fixture
async def shared(tmp_path: Path) -> Any:
    journal = await Shared.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


async def test_telemetry_is_deleted_between_two_batches(shared: Shared) -> None:
    async with streams_on(shared) as streams:
        publisher = await publish(streams, dialect="otlp")
        await publisher.lines(PROMPT)
        await publisher.ingest.finish()
        assert await streams.withdraw_telemetry("s-1", TIME)
        assert await events(shared) == []


async def test_telemetry_is_not_deleted_while_it_is_being_stored(shared: Shared) -> None:
    async with streams_on(shared) as streams:
        publisher = await publish(streams, dialect="otlp")
        await publisher.lines(PROMPT)
        await publisher.ingest.finish()
        await publish(streams, dialect="otlp")
        with pytest.raises(NotEndedError):
            await streams.withdraw_telemetry("s-1", TIME)
        assert await events(shared) != []


async def test_telemetry_is_not_deleted_while_another_daemon_stores_it(shared: Shared) -> None:
    async with streams_on(shared) as streams:
        publisher = await publish(streams, dialect="otlp")
        await publisher.lines(PROMPT)
        await publisher.ingest.finish()
        shared.is_contended = True
        with pytest.raises(NotEndedError):
            await streams.withdraw_telemetry("s-1", TIME)
        shared.is_contended = False
        assert await events(shared) != []
