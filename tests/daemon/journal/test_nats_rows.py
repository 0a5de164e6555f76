"""The rows of a journal on NATS: what was committed is soon in them, whatever becomes of the requests for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.on_nats import opened, position, until
from tooltap.daemon.journal.nats.connection import AwayError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.state import State

pytestmark = pytest.mark.anyio


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written when the test says so."""
    monkeypatch.setattr("tooltap.daemon.journal.nats.state.WRITE_PERIOD", 3_600)


async def listed(journal: NatsJournal) -> tuple[int, str]:
    (row,) = await journal._state.rows()
    return row.info.lines, row.info.state


def before_the_answer(journal: NatsJournal, happens: Callable[[], Awaitable[None]]) -> None:
    """Let something happen once, when a row has been stored, and its writer does not know it yet."""
    publish, rows = journal._connection.publish, f"{journal._connection.place.name}.row."

    async def publish_and_more(subject: str, messages: list[bytes], **options: int) -> int:
        stored = await publish(subject, messages, **options)
        if subject.startswith(rows):
            journal._connection.publish = publish  # type: ignore[method-assign]
            await happens()
        return stored

    journal._connection.publish = publish_and_more  # type: ignore[method-assign, assignment]


@pytest.mark.usefixtures("by_hand")
async def test_row_whose_writer_was_cancelled_is_written(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a")))
        stored = asyncio.Event()

        async def never() -> None:
            stored.set()
            await anyio.sleep_forever()

        before_the_answer(journal, never)
        asking = asyncio.create_task(journal.streams())
        await stored.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await journal.commit(commit(message("b"), base=1, state="ended"))
        assert await listed(journal) == await listed(other) == (2, "ended")


@pytest.mark.usefixtures("by_hand")
async def test_row_that_was_not_stored_when_its_writer_was_cancelled_is_written(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a"), state="ended"))
        publish, asked = journal._connection.publish, asyncio.Event()

        async def never(*arguments: object, **options: object) -> int:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        journal._connection.publish = never  # type: ignore[method-assign]
        asking = asyncio.create_task(journal.streams())
        await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        journal._connection.publish = publish  # type: ignore[method-assign]
        assert await listed(journal) == await listed(other) == (1, "ended")


@pytest.mark.usefixtures("by_hand")
async def test_row_whose_answer_was_lost_is_written_again(nats_place: NatsPlace) -> None:
    """The stream has ended meanwhile: there will be no other commit."""
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a")))

        async def lose() -> None:
            await journal.commit(commit(message("b"), base=1, state="ended"))
            raise AwayError

        before_the_answer(journal, lose)
        with pytest.raises(AwayError):
            await journal._state.write()
        assert await listed(journal) == await listed(other) == (2, "ended")


@pytest.mark.usefixtures("by_hand")
async def test_row_that_is_loaded_while_it_is_written(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a")))
        get, found = journal._state.get, asyncio.Event()
        goes_on = asyncio.Event()

        async def get_and_wait(self: State, stream: str) -> object:
            row = await get(stream)
            found.set()
            await goes_on.wait()
            return row

        monkeypatch.setattr(State, "get", get_and_wait)
        loading = asyncio.create_task(position(journal))
        await found.wait()
        await journal._state.write()
        await journal.commit(commit(message("b"), base=1, state="ended"))
        goes_on.set()
        await loading
        assert await listed(journal) == await listed(other) == (2, "ended")


async def test_row_of_a_daemon_that_has_taken_over_stays(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a")))
        await journal._state.write()
        taken = await position(other)
        await other.commit(commit(message("b"), base=1, position=taken.position, state="ended"))
        await other._state.write()
        journal._state.change(journal._rows["s"])
        await journal._state.write()
        assert await listed(journal) == await listed(other) == (2, "ended")
        await until(lambda: journal._rows["s"].is_lost)


@pytest.mark.usefixtures("by_hand")
async def test_rows_of_a_killed_daemon_are_brought_up(nats_place: NatsPlace) -> None:
    """Its streams have no row, or one that lacks the last commit. Those of a daemon that lives are left to it."""
    async with opened(nats_place) as killed, opened(nats_place) as other, opened(nats_place) as alive:
        for one in (killed, alive):
            await one._state.send_heartbeat()
        await other._catch_up.bring_up_rows()
        for one, stream in ((killed, "a"), (killed, "b"), (alive, "c")):
            await one.commit(commit(message("0"), stream=stream))
        for one in (killed, alive):
            await one._state.write()
        await killed.commit(commit(message("1"), stream="b", base=1, state="ended"))
        await killed.commit(commit(message("2"), stream="d", state="ended"))
        await alive.commit(commit(message("3"), stream="c", base=1))
        await other._catch_up.bring_up_rows()
        rows = {row.info.stream: (row.info.lines, row.info.state) for row in await other._state.rows()}
        assert rows == {"a": (1, "open"), "b": (1, "open"), "c": (1, "open")}

        await killed._state.withdraw()
        await other._catch_up.bring_up_rows()
        rows = {row.info.stream: (row.info.lines, row.info.state) for row in await other._state.rows()}
        assert rows == {"a": (1, "suspended"), "b": (2, "ended"), "c": (1, "open"), "d": (1, "ended")}


@pytest.mark.usefixtures("by_hand")
async def test_next_life_does_not_wait_until_the_killed_daemon_counts_as_dead(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as killed, opened(nats_place) as other:
        await killed._state.send_heartbeat()
        await killed.commit(commit(message("0"), state="ended"))
        assert await other._state.rows() == []
        await other.suspend_all()
        assert await listed(other) == (1, "ended")
