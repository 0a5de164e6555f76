"""A journal on NATS whose server goes away, loses an answer, or deletes by its own limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.daemon.events import call, commit, message
from tests.daemon.journal.on_nats import Published, everything, opened, position, texts, until
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url
from tooltap.protocol.inputs import Line

pytestmark = pytest.mark.anyio


# -- servers that go ----------------------------------------------------------------------------------------------


async def test_commit_waits_for_the_server(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as one, opened(parse_nats_url(server.url)) as other:
            published = Published(other)
            await other.listen()
            await one.commit(commit(message("a")))
            for life in range(3):
                server.kill()
                await until(lambda: not one._connection.connected)
                waiting = asyncio.create_task(one.commit(commit(message(str(life)), base=1 + life)))
                server.start()
                with anyio.fail_after(20):
                    await waiting
            await until(lambda: len(published.events) == 4)

            assert texts(published.events) == texts(await everything(one)) == ["a", "0", "1", "2"]


async def test_commit_without_answer_is_stored_once(nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(nats_place) as journal:
        client = journal._connection._client
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
            monkeypatch.setattr(journal._connection.retry.__func__, "__kwdefaults__", {"timeout": 0.2})  # type: ignore[attr-defined]
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
        await journal.commit(commit(call("1"), tail=[Line(b"first")], updated=1))
        cursor = (await everything(journal))[0].seq
        await journal._state.write()
        for line in range(30):
            await journal.commit(commit(message("m" * 50_000, "t"), stream="t", base=line, updated=1))

        for one in (journal, other):
            found, _ = await one.read(cursor)
            assert cursor < one.last_expired < one.oldest == found[0].seq
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
                await journal._connection.api(f"STREAM.DELETE.{stream}")
        async with opened(place) as journal:
            assert journal.id != first
            assert (journal.oldest, journal.latest, journal.last_expired) == (1, 0, 0)
