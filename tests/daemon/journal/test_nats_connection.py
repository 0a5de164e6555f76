"""The connection to NATS: however it ends, there is another one, and none stays open that is not used any more."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import anyio
import msgspec
import pytest
from nats.aio.client import Client

from tests.daemon.events import commit, message
from tests.daemon.journal.nats_cluster import Proxy
from tests.daemon.journal.on_nats import everything, opened, texts, until
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.connection import AwayError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import parse_nats_url

pytestmark = pytest.mark.anyio
CONNECTION = "tooltap.daemon.journal.nats.connection"


async def test_connection_is_lost_when_a_request_has_run_out_of_time(tmp_path: Path) -> None:
    """The request does not know yet that its time is over."""
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0) as limit:
                    await anyio.sleep_forever()
            journal._connection._limits.add(limit)
            server.kill()
            server.start()
            with anyio.fail_after(30):
                await journal.commit(commit(message("a")))
            journal.stop_waiting()


async def test_client_that_has_given_up_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTION}.SILENCE", 1)
    monkeypatch.setattr(f"{CONNECTION}.RETRY_MOST", 0.1)

    async def never(client: Client) -> None:
        """The task that reconnects has died."""

    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            monkeypatch.setattr(Client, "_attempt_reconnect", never)
            server.kill()
            server.start()
            with anyio.fail_after(30):
                await journal.commit(commit(message("a")))
            assert journal._connection.connections >= 2
        gc.collect()


def lose_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTION}.ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr(f"{CONNECTION}.LONGEST_ANSWER", 0.1)
    monkeypatch.setattr(f"{CONNECTION}.SILENCE", 0.5)


async def test_connection_without_answers_is_left_while_somebody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To send a request is no sign that the server is there."""
    lose_patience(monkeypatch)
    with NatsServer(tmp_path) as server:
        front = socket.create_server(("127.0.0.1", 0))
        proxy = Proxy("", front, int(server.url.rpartition(":")[2]), set())
        await proxy.start()
        async with opened(parse_nats_url(f"nats://127.0.0.1:{front.getsockname()[1]}")) as journal:
            await journal.commit(commit(message("a")))
            journal._tasks[1].cancel()  # it looks for the journal itself
            proxy.silence()
            journal._connection._answer_timeout = 0.1
            with anyio.fail_after(30):
                found, _ = await journal.read(0)
            assert texts(found) == ["a"]
            assert journal._connection.connections >= 2
        await proxy.close()


async def test_connections_on_which_nobody_greets_are_closed(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            await journal.commit(commit(message("a")))
            server.kill()
            with socket.create_server(("127.0.0.1", int(server.url.rpartition(":")[2]))) as rude:
                rude.setblocking(False)
                for _ in range(3):
                    connection, _ = await asyncio.get_running_loop().sock_accept(rude)
                    connection.close()
            await until(lambda: not journal._connection.connected)
            server.start()
            await journal.commit(commit(message("b"), base=1))
            assert texts(await everything(journal)) == ["a", "b"]
            gc.collect()  # a connection that was left open would be a warning now


@pytest.mark.parametrize("is_paused", [True, False])
async def test_server_that_cannot_be_used_has_no_connection_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    monkeypatch.setattr(f"{CONNECTION}.OLDEST_SERVER", (99, 0))
    with NatsServer(tmp_path) as server:
        place = parse_nats_url(server.url)
        if is_paused:
            server.pause()
            place = msgspec.structs.replace(place, options=msgspec.structs.replace(place.options, connect_timeout=0.1))
        with pytest.raises(JournalError, match="no answer in time" if is_paused else "or later is required"):
            await NatsJournal.open(place)
        gc.collect()


async def test_what_was_sent_to_a_server_that_takes_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still with a full buffer, and the connection is given up."""
    lose_patience(monkeypatch)
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            connection = journal._connection
            client, connection._answer_timeout = connection._client, 0.1
            server.pause()
            waiting = [
                asyncio.create_task(journal.commit(commit(message("m" * 900_000, str(n)), stream=str(n))))
                for n in range(20)
            ]
            await until(lambda: connection._client is not client)
            assert client.is_closed
            server.resume()
            with anyio.fail_after(60):
                await asyncio.gather(*waiting)
            assert len(await everything(journal)) == 20


async def test_patience_does_not_grow_with_the_number_of_requests(tmp_path: Path) -> None:
    """Else a connection without answers would be left late."""
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            connection = journal._connection
            server.pause()
            connection._answer_timeout = 0.1
            asked = [connection.api("STREAM.INFO.tooltap") for _ in range(20)]
            assert {type(one) for one in await asyncio.gather(*asked, return_exceptions=True)} == {AwayError}
            assert 0.2 <= connection._answer_timeout < 1
            server.resume()
