"""What a journal shared on NATS adds: commits of other daemons, fencing, and lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import orjson
import pytest

from tests.daemon.events import call, commit, message
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.interface import (
    Committed,
    JournalError,
    StoredEvent,
    StreamConflictError,
    StreamInfo,
    TailRecord,
)
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.link import StoredMessage
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.events import decode
from tooltap.protocol.filters import Filter

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(place: NatsPlace) -> AsyncIterator[NatsJournal]:
    """The journal as one daemon opens it."""
    journal = await NatsJournal.open(place)
    try:
        yield journal
    finally:
        await journal.close()


def texts(events: list[StoredEvent]) -> list[str]:
    return [orjson.loads(one.body)["text"] for one in events]


async def everything(journal: NatsJournal, after: int = 0) -> list[StoredEvent]:
    await journal._link.retry(journal._refresh)
    events: list[StoredEvent] = []
    while after < journal.latest:
        found, after = await journal.read(after)
        events += found
    return events


async def position(journal: NatsJournal, stream: str = "s") -> StreamInfo:
    stored = await journal.load_stream(stream)
    assert stored is not None
    return stored.info


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    with anyio.fail_after(20):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)


class Published:
    """The arguments of `on_commit`."""

    def __init__(self, journal: NatsJournal) -> None:
        self.events: list[StoredEvent] = []
        journal.on_commit = self._take

    def _take(self, committed: list[Committed]) -> None:
        for outputs, seqs in committed:
            for output, seq in zip(outputs, seqs, strict=True):
                if isinstance(output, Produced) and seq is not None:
                    self.events.append(StoredEvent(seq, output.body))


# -- many daemons -------------------------------------------------------------------------------------------------


async def test_commit_reaches_the_other_daemon(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        at_one, at_other = Published(one), Published(other)
        await one.listen()
        await other.listen()

        await one.commit(commit(message("a"), call("1"), lines=2))
        await other.commit(commit(message("b", "t"), stream="t"))
        await one.commit(commit(message("c"), base=2))
        await until(lambda: len(at_one.events) == len(at_other.events) == 4)

        assert one.id == other.id
        assert at_one.events == at_other.events == await everything(one) == await everything(other)
        assert one.latest == other.latest
        info = await position(other)
        assert (info.lines, info.state) == (3, "suspended")


async def test_other_daemons_commits_are_read_back(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        await one.commit(commit(message("a"), message("b")))

        found, looked = await other.read_back(2**63 - 1, limit=10)

        assert texts(found) == ["b", "a"]
        assert looked <= other.oldest


async def test_daemon_without_subscribers_has_no_consumer(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        published = Published(other)

        async def consumers() -> int:
            info = await one._link.api(f"STREAM.INFO.{nats_place.name}")
            return int(info["state"]["consumer_count"])

        await one.commit(commit(message("a")))
        assert await consumers() == 0
        told = await other.listen()
        await one.commit(commit(message("b"), base=1))
        await until(lambda: texts(published.events) == ["b"])
        assert published.events[0].seq > told == (await everything(one))[0].seq | (EVENTS_A_MESSAGE - 1)

        other.stop_listening()
        await until(lambda: _is_zero(consumers))
        await one.commit(commit(message("c"), base=2))
        assert await other.listen() > (await everything(one))[-1].seq
        await one.commit(commit(message("d"), base=3))
        await until(lambda: texts(published.events) == ["b", "d"])
        assert texts(await everything(other)) == ["a", "b", "c", "d"]


async def _is_zero(count: Callable[[], Awaitable[int]]) -> bool:
    return await count() == 0


async def test_later_resume_fences_out_the_earlier(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        await one.commit(commit(message("a")))
        taken = await position(other)
        await other.commit(commit(base=1, lines=0, position=taken.position))  # now the other daemon has it open

        with pytest.raises(StreamConflictError):
            await one.commit(commit(message("lost"), base=1))
        await other.commit(commit(message("b"), base=1, position=taken.position))

        back = await position(one)
        assert back.lines == 2
        await one.commit(commit(message("c"), base=2, position=back.position))
        assert texts(await everything(other)) == ["a", "b", "c"]


async def test_stream_of_two_daemons_has_one_row(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        await one.commit(commit(call("1"), call("2"), tail=[TailRecord("line", line=b"x")]))
        taken = await position(other)
        answer = [one["callId"] for one in (await other.open_calls("session-1"))["calls"]]
        await other.commit(commit(message("b"), base=1, position=taken.position, state="ended"))

        assert answer == ["1", "2"]
        (session,) = await other.sessions()
        assert (session["events"], session["calls"], session["state"]) == (3, 2, "ended")
        assert await one.sessions() == [session]
        assert (await one.open_calls())["calls"] == []


async def test_streams_of_a_dead_daemon_are_abandoned(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as other:
        async with opened(nats_place) as one:
            await one._state.send_heartbeat()
            await one.commit(commit(message("a"), updated=5))
            await one._state.write()
            assert [(info.stream, info.state) for info in await other.streams()] == [("s", "open")]
            assert await other.abandoned(10) == []
            assert await one.abandoned(10) == ["s"]  # its own daemon knows whether it has a publisher
            await one._link.api(
                f"STREAM.PURGE.{one._state.stream}", filter=f"{nats_place.name}.daemon.>"
            )  # as if they had expired

        assert [(info.stream, info.state) for info in await other.streams()] == [("s", "suspended")]
        assert await other.abandoned(10) == ["s"]
        assert await other.abandoned(4) == []


async def test_work_is_done_in_turns(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        await one.commit(commit(message("a"), state="ended", updated=1))
        await one._state.write()

        assert await other.expire(0) == 0
        assert await one.expire(10) == 0
        assert await other.expire(10) == 1
        assert await everything(one) == []
        assert one.expired == other.expired == one.latest


async def test_row_behind_is_caught_up(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one:
        await one.commit(commit(call("1"), tail=[TailRecord("line", line=b"1")], updated=1))
        await one._state.write()
        await one.commit(commit(message("a"), base=1, tail=[TailRecord("line", line=b"2")], state="ended", updated=2))
        one._state.drop("s")

    async with opened(nats_place) as other:
        assert [info.lines for info in await other.streams()] == [1]
        stored = await other.load_stream("s")
        assert stored is not None
        assert [record.line for record in stored.tail] == [b"1", b"2"]
        assert [(info.lines, info.state) for info in await other.streams()] == [(2, "ended")]
        assert await other.open_calls() == {"calls": [], "permissions": []}


# -- large commits ------------------------------------------------------------------------------------------------


async def test_commit_larger_than_a_message_is_stored(nats_place: NatsPlace) -> None:
    line = bytes(range(256)) * 20_000
    body = b"line\n" * 700_000
    async with opened(nats_place) as journal:
        published = Published(journal)
        await journal.listen()
        events = [message("m" * 200_000, line=n) for n in range(20)]
        await journal.commit(
            commit(OutputChunk("s:1:o0", 0, body, "text/plain"), *events, tail=[TailRecord("line", line=line)])
        )
        await journal.commit(commit(message("after"), base=1))
        await until(lambda: len(published.events) == 21)

        assert published.events == await everything(journal)
        assert [decode(one.body).line for one in published.events] == [*range(20), 1]
        stored = await journal.load_stream("s")
        assert stored is not None
        assert [record.line for record in stored.tail] == [line]
        for offset in (0, 1_048_000, 3_499_990):
            found = await journal.output("s:1:o0", offset, 1_500, "bytes")
            assert found == (body[offset : offset + 1_500], offset, len(body), "text/plain")
        found = await journal.output("s:1:o0", 654_321, 2, "lines")
        assert found == (b"line\nline\n", 654_321, 700_000, "text/plain")


async def test_commit_of_many_events_keeps_their_order(nats_place: NatsPlace) -> None:
    count = 2 * EVENTS_A_MESSAGE + 10
    async with opened(nats_place) as journal, opened(nats_place) as other:
        published = Published(other)
        await other.listen()
        await journal.commit(commit(*(message(str(n)) for n in range(count))))
        await until(lambda: len(published.events) == count)

        events = await everything(journal)
        assert published.events == events
        assert texts(events) == [str(n) for n in range(count)]
        assert len({one.seq for one in events}) == count
        middle = events[EVENTS_A_MESSAGE + 5]
        assert await journal.event(middle.seq) == middle
        assert (await everything(journal, middle.seq))[0] == events[EVENTS_A_MESSAGE + 6]


async def test_event_too_long_for_the_server_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("max_payload: 100000\n")
    with NatsServer(tmp_path, "-c", str(config)) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            await journal.commit(commit(OutputChunk("s:1:o0", 0, b"x" * 300_000, "text/plain"), message("m" * 90_000)))
            with pytest.raises(JournalError, match=r"an event of 10\d{4} bytes is too long .* max_payload .* 10\d{4}"):
                await journal.commit(commit(message("m" * 100_000), base=1))
            assert len(await everything(journal)) == 1


# -- servers that go ----------------------------------------------------------------------------------------------


async def test_commit_waits_for_the_server(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as one, opened(parse_nats_url(server.url)) as other:
            published = Published(other)
            await other.listen()
            await one.commit(commit(message("a")))
            for life in range(3):
                server.kill()
                await until(lambda: not one._link.connected)
                waiting = asyncio.create_task(one.commit(commit(message(str(life)), base=1 + life)))
                server.start()
                with anyio.fail_after(20):
                    await waiting
            await until(lambda: len(published.events) == 4)

            assert texts(published.events) == texts(await everything(one)) == ["a", "0", "1", "2"]


async def test_commit_without_answer_is_stored_once(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(nats_place) as journal:
        client = journal._link._client
        request = client.request
        lost: list[str] = []

        async def lose(subject: str, *arguments: object, **options: object) -> object:
            answer = await request(subject, *arguments, **options)  # type: ignore[arg-type]
            if ".event." in subject and len(lost) < 2:
                lost.append(subject)
                raise TimeoutError
            return answer

        monkeypatch.setattr(client, "request", lose)
        await journal.commit(commit(message("a")))
        await journal.commit(commit(*(message(str(n)) for n in range(EVENTS_A_MESSAGE + 1)), base=1))

        assert len(lost) == 2
        assert len(await everything(journal)) == EVENTS_A_MESSAGE + 2
        assert (await position(journal)).lines == 2


async def test_read_fails_while_the_server_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            await journal.commit(commit(message("a")))
            server.kill()
            monkeypatch.setattr(journal._link.retry.__func__, "__kwdefaults__", {"timeout": 0.2})  # type: ignore[attr-defined]
            with pytest.raises(JournalError, match=r"the journal nats://127.0.0.1:\d+/tooltap cannot be reached"):
                await journal.read(0)
            with pytest.raises(JournalError, match="cannot be reached"):
                await journal.listen()
            waiting = asyncio.create_task(journal.commit(commit(message("b"), base=1)))
            await asyncio.sleep(0)
        with pytest.raises(JournalError, match="the journal is closed"):
            await waiting


# -- what the server's limits take --------------------------------------------------------------------------------


async def test_server_limit_is_a_gap_and_keeps_positions(nats_place: NatsPlace) -> None:
    place = msgspec.structs.replace(
        nats_place, options=msgspec.structs.replace(nats_place.options, max_bytes=1_000_000)
    )
    async with opened(place) as journal, opened(nats_place) as other:
        await other.listen()
        await journal.commit(commit(call("1"), tail=[TailRecord("line", line=b"first")], updated=1))
        cursor = (await everything(journal))[0].seq
        await journal._state.write()
        for line in range(30):
            await journal.commit(commit(message("m" * 50_000, "t"), stream="t", base=line, updated=1))

        for one in (journal, other):
            found, _ = await one.read(cursor)
            assert cursor < one.expired < one.oldest == found[0].seq
        assert (await position(other)).lines == 1
        assert [one["callId"] for one in (await other.open_calls(stream="s"))["calls"]] == ["1"]
        stored = await other.load_stream("t")
        assert stored is not None
        assert (stored.info.lines, stored.snapshot, stored.tail) == (30, None, [])
        await other.commit(commit(message("goes on"), base=1, position=(await position(other)).position))
        assert texts(await everything(journal, cursor))[-1] == "goes on"


async def test_recreated_journal_has_another_id(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        place = parse_nats_url(server.url)
        async with opened(place) as journal:
            first = journal.id
            for stream in (place.name, f"{place.name}-state"):
                await journal._link.api(f"STREAM.DELETE.{stream}")
        async with opened(place) as journal:
            assert journal.id != first
            assert (journal.oldest, journal.latest, journal.expired) == (1, 0, 0)


# -- reading ------------------------------------------------------------------------------------------------------


async def test_read_returns_whole_messages(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        for line in range(10):
            await journal.commit(commit(message("x" * 300), message("y" * 300), base=line))

        cursor, sizes = 0, []
        while cursor < journal.latest:
            events, cursor = await journal.read(cursor, max_bytes=1_500)
            sizes.append(len(events))

        assert sizes == [4] * 5
        assert [one.seq for one in (await journal.read(0, Filter(stream=("s",))))[0]] == [
            one.seq for one in await everything(journal)
        ]
        assert (await journal.read(0, Filter(stream=("other",)))) == ([], journal.latest)


async def test_lagging_replica_hides_nothing(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(nats_place) as journal:
        for line in range(5):
            await journal.commit(commit(message(str(line)), base=line))
        read = journal._link.read

        async def lag(stream: str, first: int, subject: str, max_bytes: int) -> list[StoredMessage]:
            return [one for one in await read(stream, first, subject, max_bytes) if one.seq <= 2]

        monkeypatch.setattr(journal._link, "read", lag)
        assert texts(await everything(journal)) == ["0", "1", "2", "3", "4"]
        stored = await journal.load_stream("s")
        assert stored is not None
        assert stored.info.lines == 5


async def test_lost_consumer_is_replaced_without_a_gap(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.feed.HEARTBEAT", 0.2)
    monkeypatch.setattr("tooltap.daemon.journal.nats.feed.SILENCE", 0.5)
    async with opened(nats_place) as journal:
        published = Published(journal)
        await journal.listen()
        for line in range(6):
            await journal.commit(commit(message(str(line)), base=line))
            if line % 2:
                for name in (await journal._link.api(f"CONSUMER.NAMES.{nats_place.name}"))["consumers"] or []:
                    await journal._link.api(f"CONSUMER.DELETE.{nats_place.name}.{name}")
            else:
                await until(lambda line=line: len(published.events) == line + 1)  # type: ignore[misc]
        await until(lambda: len(published.events) == 6)

        assert published.events == await everything(journal)


async def test_session_in_a_shared_stream_is_not_removed(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        both = [message("a", session="one"), message("b", session="two")]
        await journal.commit(commit(*both, state="ended"))

        with pytest.raises(JournalError, match="session one shares stream s with session two"):
            await journal.remove_session("one")
        assert len(await everything(journal)) == 2


async def test_streams_of_all_daemons_are_listed_but_own_counted(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        for number, state in enumerate(("ended", "open", "suspended")):
            await one.commit(commit(message("m", state, session="s"), stream=state, state=state, updated=number))
        await other.commit(commit(message("m", "later", session="t"), stream="later", updated=9))
        await one._state.write()

        assert [info.stream for info in await other.streams()] == ["later", "suspended", "open", "ended"]
        assert [info.stream for info in await other.streams("ended", limit=1)] == ["ended"]
        assert [info.stream for info in await other.streams_of("t")] == ["later"]
        assert await one.count_streams("open", "suspended") == 2
        assert await other.count_streams("open", "suspended") == 1
