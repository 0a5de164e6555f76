"""What a journal shared on NATS adds: commits of other daemons, fencing, large commits, and reading."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from tests.daemon.events import call, commit, message
from tests.daemon.journal.on_nats import Published, everything, opened, position, texts, until
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.interface import JournalError, OutputSlice, StreamConflictError
from tooltap.daemon.journal.nats.connection import RefusedError, StoredMessage
from tooltap.daemon.journal.nats.events import Feed
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.inputs import Line

pytestmark = pytest.mark.anyio


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


async def test_what_the_server_did_not_push_is_read(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, lost = Feed._arrived, 2

    async def arrived(self: Feed, pushed: Msg) -> None:
        nonlocal lost
        is_lost = lost > 0 and (pushed.headers is None or "Status" not in pushed.headers)
        lost -= is_lost
        if not is_lost:
            await usual(self, pushed)

    monkeypatch.setattr(Feed, "_arrived", arrived)
    async with opened(nats_place) as one, opened(nats_place) as other:
        published = Published(other)
        await other.listen()
        for base, text in enumerate("abcd"):
            await one.commit(commit(message(text), base=base))
        await until(lambda: len(published.events) >= 4)

        assert lost == 0
        assert published.events == await everything(one)


async def test_daemon_without_subscribers_has_no_consumer(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        published = Published(other)

        async def consumers() -> int:
            info = await one._connection.api(f"STREAM.INFO.{nats_place.name}")
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
        await one.commit(commit(call("1"), call("2"), tail=[Line(b"x")]))
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
            await one._connection.api(
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
        assert one.last_expired == other.last_expired == one.latest


async def test_row_behind_is_caught_up(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.journal.CHECK_PERIOD", 3_600)  # else it may be first
    async with opened(nats_place) as one:
        await one.commit(commit(call("1"), tail=[Line(b"1")], updated=1))
        await one._state.write()
        await one.commit(commit(message("a"), base=1, tail=[Line(b"2")], state="ended", updated=2))
        one._state.drop("s")

    async with opened(nats_place) as other:
        assert [info.lines for info in await other.streams()] == [1]
        stored = await other.load_stream("s")
        assert stored is not None
        assert stored.tail == [Line(b"1"), Line(b"2")]
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
        await journal.commit(commit(OutputChunk("s:1:o0", 0, body, "text/plain"), *events, tail=[Line(line)]))
        await journal.commit(commit(message("after"), base=1))
        await until(lambda: len(published.events) == 21)

        assert published.events == await everything(journal)
        assert [decode(one.body).line for one in published.events] == [*range(20), 1]
        stored = await journal.load_stream("s")
        assert stored is not None
        assert stored.tail == [Line(line)]
        for offset in (0, 1_048_000, 3_499_990):
            found = await journal.output("s:1:o0", offset, 1_500, "bytes")
            assert found == (body[offset : offset + 1_500], offset, len(body), "text/plain")
        found = await journal.output("s:1:o0", 654_321, 2, "lines")
        assert found == (b"line\nline\n", 654_321, 700_000, "text/plain")


async def test_places_of_outputs_are_remembered_for_some_streams(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.STREAMS_IN_MEMORY", 2)
    async with opened(nats_place) as journal:
        for number in (1, 2, 3, 1):
            output = f"s{number}:1:o0"
            if await journal.output(output, 0, 9, "bytes") is None:
                await journal.commit(commit(OutputChunk(output, 0, b"%d" % number, "text/x"), stream=f"s{number}"))
            assert await journal.output(output, 0, 9, "bytes") == (b"%d" % number, 0, 1, "text/x")
        assert list(journal._outputs._streams) == ["s3", "s1"]


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
        read = journal._connection.read

        async def lag(stream: str, first: int, subject: str, max_bytes: int) -> list[StoredMessage]:
            return [one for one in await read(stream, first, subject, max_bytes) if one.seq <= 2]

        monkeypatch.setattr(journal._connection, "read", lag)
        assert texts(await everything(journal)) == ["0", "1", "2", "3", "4"]
        stored = await journal.load_stream("s")
        assert stored is not None
        assert stored.info.lines == 5


async def test_lost_consumer_is_replaced_without_a_gap(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.HEARTBEAT", 0.2)
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.SILENCE", 0.5)
    async with opened(nats_place) as journal:
        published = Published(journal)
        await journal.listen()
        for line in range(6):
            await journal.commit(commit(message(str(line)), base=line))
            if line % 2:
                for name in (await journal._connection.api(f"CONSUMER.NAMES.{nats_place.name}"))["consumers"] or []:
                    with suppress(RefusedError):  # it was silent for too long, and is replaced already
                        await journal._connection.api(f"CONSUMER.DELETE.{nats_place.name}.{name}")
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
        await other.commit(commit(stream="file", state="suspended", followed=True))
        assert await other.count_streams("open", "suspended", followed=True) == 1
        assert await other.count_streams("open", "suspended", followed=False) == 1


async def test_output_that_another_daemon_has_stored_again(nats_place: NatsPlace) -> None:
    """Retention of one daemon has deleted it, and its stream was read again."""
    async with opened(nats_place) as reader, opened(nats_place) as writer:
        for _ in range(2):
            await writer.commit(commit(message("a"), OutputChunk("s:1:o0", 0, b"long", "text/plain"), state="ended"))
            assert await reader.output("s:1:o0", 0, 9, "bytes") == OutputSlice(b"long", 0, 4, "text/plain")
            assert await writer.expire(2**53) == 1
            assert await writer.forget_expired("s")
