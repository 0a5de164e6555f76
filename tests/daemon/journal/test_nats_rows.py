"""The rows of a journal on NATS: what was committed is soon in them, whatever becomes of the requests for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.on_nats import everything, opened, position, texts, until
from tooltap.daemon.journal.interface import NotEndedError
from tooltap.daemon.journal.nats.connection import AwayError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.state import OwnRow, Row, State

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


# -- deletion that must not rely on rows -------------------------------------------------------------------------


hanging: list[asyncio.Task[None]] = []


@pytest.fixture
async def cancelled() -> AsyncIterator[None]:
    """At the end, cancels what hangs."""
    yield
    for task in hanging:
        task.cancel()
    hanging.clear()


async def opens(other: NatsJournal) -> None:
    await other.commit(commit(message("b", "t"), stream="t"))


async def opens_and_writes_its_row(other: NatsJournal) -> None:
    await opens(other)
    await other._state.write()


async def resumes(other: NatsJournal) -> None:
    taken = await position(other)
    await other.commit(commit(message("b"), base=1, position=taken.position))


async def resumes_and_writes_its_row(other: NatsJournal) -> None:
    await resumes(other)
    await other._state.write()


async def opens_and_is_killed(other: NatsJournal) -> None:
    await opens(other)
    await other._connection.close()


async def opens_without_an_answer(other: NatsJournal) -> None:
    """The server has stored it, and the daemon does not know that yet."""
    publish, stored = other._connection.publish, asyncio.Event()

    async def publish_and_hang(subject: str, messages: list[bytes], **options: int) -> int:
        seq = await publish(subject, messages, **options)
        if ".event." in subject:
            stored.set()
            await anyio.sleep_forever()
        return seq

    other._connection.publish = publish_and_hang  # type: ignore[method-assign, assignment]
    hanging.append(asyncio.create_task(opens(other)))
    await stored.wait()


async def opens_while_a_row_is_written(other: NatsJournal) -> None:
    await opens(other)
    publish, asked = other._connection.publish, asyncio.Event()

    async def never(subject: str, messages: list[bytes], **options: int) -> int:
        if ".row." in subject:
            asked.set()
            await anyio.sleep_forever()
        return await publish(subject, messages, **options)

    other._connection.publish = never  # type: ignore[method-assign, assignment]
    hanging.append(asyncio.create_task(other._state.write()))
    await asked.wait()


GOES_ON = [
    opens,
    opens_and_writes_its_row,
    resumes,
    resumes_and_writes_its_row,
    opens_and_is_killed,
    opens_without_an_answer,
    opens_while_a_row_is_written,
]


@pytest.mark.usefixtures("by_hand", "cancelled")
@pytest.mark.parametrize("goes_on", GOES_ON)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("deletion", ["expire", "remove_session"])
async def test_nothing_is_deleted_of_a_session_that_another_daemon_goes_on_with(
    nats_place: NatsPlace,
    monkeypatch: pytest.MonkeyPatch,
    goes_on: Callable[[NatsJournal], Awaitable[None]],
    when: str,
    deletion: str,
) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a"), state="ended", updated=1))
        await journal._state.write()
        await other._state.rows()
        if when == "before":
            await goes_on(other)
        else:
            examine = Retention._examine

            async def examine_and_go_on(self: Retention, listed: Row) -> OwnRow | None:
                own = await examine(self, listed)
                await goes_on(other)
                return own

            monkeypatch.setattr(Retention, "_examine", examine_and_go_on)
        if deletion == "expire":
            assert await journal.expire(10) == 0
        else:
            with suppress(NotEndedError):
                assert await journal.remove_session("session-1") == 0
        assert texts(await everything(journal)) == ["a", "b"]


async def test_session_that_was_left_is_deleted_as_a_whole_later(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("a"), state="ended", updated=1))
        await other.commit(commit(message("b", "t"), stream="t"))
        assert await journal.expire(10) == 0
        assert [one["events"] for one in await journal.sessions()] == [1]
        await other.commit(commit(stream="t", base=1, state="ended", updated=2))
        await other._state.write()
        assert await journal.expire(10) == 2
        assert await everything(journal) == []
        assert await other.sessions() == []
