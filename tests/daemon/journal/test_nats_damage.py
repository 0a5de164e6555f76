"""Messages that are damaged, dropped by the server, or written by somebody else: a gap, and the rest is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.on_nats import Published, everything, opened, position, texts, until
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.message import (
    EVENTS_A_MESSAGE,
    DamagedError,
    decode_part,
    encode_commit,
    encode_part,
    end_of,
)
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.inputs import Line

pytestmark = pytest.mark.anyio


def whole(*messages: int) -> list[tuple[int, int]]:
    """All numbers that events of these messages can have."""
    return [(one * EVENTS_A_MESSAGE, end_of(one)) for one in messages]


async def replace(journal: NatsJournal, data: bytes, stream: str = "s") -> int:
    """Store a message as somebody else might, and return its sequence."""
    return await journal._connection.publish(journal._messages.subject(stream), [data])


def test_every_changed_byte_is_found() -> None:
    parts = encode_commit(commit(message("hello"), tail=[Line(b"x")]), "me/1", 0, 1_000_000)
    data = encode_part(parts[0])
    assert decode_part(data).events == parts[0].events
    for place in range(len(data)):
        for bit in (1, 128):
            changed = bytearray(data)
            changed[place] ^= bit
            with pytest.raises(DamagedError):
                decode_part(bytes(changed))
    for end in range(len(data)):
        with pytest.raises(DamagedError):
            decode_part(data[:end])


async def test_damaged_messages_are_gaps(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        published, skipped = Published(journal), list[int]()
        journal.on_skip = skipped.append
        await journal.listen()
        await journal.commit(commit(message("a")))
        await journal.commit(commit(message("other", "t"), stream="t"))
        changed = bytearray(encode_part(encode_commit(commit(message("b")), "me/1", 0, 1_000_000)[0]))
        changed[30] ^= 1
        assert [await replace(journal, data) for data in (bytes(changed), b"", b"no msgpack")] == [3, 4, 5]
        await journal.commit(commit(message("c", "t"), stream="t", base=1))
        await until(lambda: len(published.events) == 3)

        assert texts(await everything(journal)) == texts(published.events) == ["a", "other", "c"]
        assert skipped == [end_of(3), end_of(4), end_of(5)]
        assert list(journal.corrupt) == [(3 * EVENTS_A_MESSAGE, end_of(5))]
        assert journal.statistics()["damages"] == 3
        assert journal.statistics()["corrupt"] == 3 * EVENTS_A_MESSAGE
        assert await journal.event(3 * EVENTS_A_MESSAGE) is None
        assert texts((await journal.read_back(journal.latest + 1, limit=9))[0]) == ["c", "other", "a"]


async def test_stream_continues_after_its_last_intact_commit(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a"), tail=[Line(b"1")]))
        await replace(journal, b"what nobody can read")

    async with opened(nats_place) as other:
        stored = await other.load_stream("s")
        assert stored is not None
        assert (stored.info.lines, stored.tail) == (1, [Line(b"1")])
        await other.commit(commit(message("b"), base=1, position=stored.info.position))
        assert (await position(other)).lines == 2
        assert texts(await everything(other)) == ["a", "b"]


async def test_stream_of_which_nothing_can_be_read_begins_anew(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await replace(journal, b"what nobody can read")
        info = await position(journal)
        assert (info.lines, info.position) == (0, 1)
        await journal.commit(commit(message("a"), position=info.position))
        assert texts(await everything(journal)) == ["a"]


@pytest.mark.parametrize("wanted", [ALL_EVENTS, Filter(stream=("s",)), Filter(kind=("message",))])
async def test_message_that_the_server_cannot_read_is_a_gap(tmp_path: Path, wanted: Filter) -> None:
    """One bit on the server's disk: it leaves the message out, and says nothing."""
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            for line in range(20):
                await journal.commit(commit(message(f"MARK{line:03}"), base=line))
                await journal.commit(commit(message("other", "t"), stream="t", base=line))
            server.stop()
            (block,) = (tmp_path / "js").glob("jetstream/*/streams/tooltap/msgs/1.blk")
            data = bytearray(block.read_bytes())
            data[data.index(b"MARK011")] ^= 1
            block.write_bytes(data)
            server.start()

            found, after = list[str](), 0
            while after < journal.latest:
                events, after = await journal.read(after, wanted)
                found += [text for text in texts(events) if text != "other"]
            assert found == [f"MARK{line:03}" for line in range(20) if line != 11]
            assert list(journal.corrupt) == whole(23)
            assert journal.statistics()["resets"] == 0


async def test_deleted_message_is_a_gap(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        for line in range(5):
            await journal.commit(commit(message(str(line)), base=line))
        await journal._connection.api(f"STREAM.MSG.DELETE.{nats_place.name}", seq=3)

    async with opened(nats_place) as other:
        assert list(other.corrupt) == whole(3)
        assert texts((await other.read(0, Filter(stream=("s",))))[0]) == ["0", "1", "3", "4"]


@pytest.mark.parametrize("wanted", [ALL_EVENTS, Filter(stream=("s",)), Filter(kind=("message",))])
async def test_message_deleted_meanwhile_is_a_gap_backwards(nats_place: NatsPlace, wanted: Filter) -> None:
    async with opened(nats_place) as journal:
        for line in range(5):
            await journal.commit(commit(message(str(line)), base=line))
        await journal._connection.api(f"STREAM.MSG.DELETE.{nats_place.name}", seq=3)

        found, _ = await journal.read_back(journal.latest, wanted, limit=9)  # not from the end, where it asks first
        assert texts(found) == ["4", "3", "1", "0"]
        assert list(journal.corrupt) == whole(3)


async def test_retention_of_another_daemon_is_known_backwards(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal, opened(nats_place) as other:
        await journal.commit(commit(message("old", session="gone"), state="ended", updated=1))
        await journal.commit(commit(message("kept", "t"), stream="t"))
        await other.read_back(2**63 - 1, limit=9)
        await journal.expire(2)

        assert texts((await other.read_back(other.latest, limit=9))[0]) == ["kept"]
        assert other.last_expired == journal.last_expired > 0


async def test_loss_at_the_end_of_a_stream_is_a_gap_for_a_filter(nats_place: NatsPlace) -> None:
    """No later message of the stream says that there was one."""
    async with opened(nats_place) as journal:
        for line in range(3):
            await journal.commit(commit(message(str(line)), base=line))
        for line in range(2):
            await journal.commit(commit(message("other", "t"), stream="t", base=line))
        for lost, stream, left in ((3, "s", ["0", "1"]), (5, "t", ["other"])):  # the second is the journal's last
            await journal._connection.api(f"STREAM.MSG.DELETE.{nats_place.name}", seq=lost)
            assert texts((await journal.read(0, Filter(stream=(stream,))))[0]) == left
            assert list(journal.corrupt)[-1:] == whole(lost)


async def test_bodies_are_compressed(nats_place: NatsPlace) -> None:
    body = b"the same line again and again\n" * 100_000
    async with opened(nats_place) as journal:
        await journal.commit(commit(OutputChunk("s:1:o0", 0, body, "text/plain"), message("a")))
        await journal._check()
        assert journal.statistics()["bytes"] < len(body) // 20
        for offset in (0, 262_143, 262_144, 1_999_999):
            found = await journal.output("s:1:o0", offset, 1_000, "bytes")
            assert found is not None
            assert found.data == body[offset : offset + 1_000]
        found = await journal.output("s:1:o0", 99_998, 10, "lines")
        assert found == (b"the same line again and again\n" * 2, 99_998, 100_000, "text/plain")


async def test_failed_purge_is_completed(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a"), message("b"), state="ended", updated=1))
        await journal._state.write()
        api, failed = journal._connection.api, list[str]()

        async def fail(call: str, **arguments: object) -> dict[str, object]:
            if call == f"STREAM.PURGE.{nats_place.name}" and len(failed) < 2:
                failed.append(call)
                raise TimeoutError
            return await api(call, **arguments)

        monkeypatch.setattr(journal._connection, "api", fail)
        assert await journal.remove_session("session-1") == 2
        assert len(failed) == 2
        assert await everything(journal) == []
        assert await journal.sessions() == []
        assert await journal.remove_session("session-1") == 0


async def test_stream_that_goes_on_after_an_unfinished_purge_is_not_purged_again(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(nats_place) as journal:
        await journal.commit(commit(message("a"), state="ended", updated=1))
        await journal._state.write()
        api = journal._connection.api

        async def die(call: str, **arguments: object) -> dict[str, object]:
            done = await api(call, **arguments)
            if call == f"STREAM.PURGE.{nats_place.name}":
                raise SystemError
            return done

        monkeypatch.setattr(journal._connection, "api", die)
        with pytest.raises(SystemError):
            await journal.remove_session("session-1")

    async with opened(nats_place) as journal:
        stored = await journal.load_stream("s")
        assert stored is not None
        await journal.commit(commit(message("b"), base=1, state="ended", updated=2, position=stored.info.position))
        await journal.expire(0)
        assert texts(await everything(journal)) == ["b"]
        assert [one["events"] for one in await journal.sessions()] == [1]
