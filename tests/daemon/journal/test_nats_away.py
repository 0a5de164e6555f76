"""A server that is down, frozen, slow or full: nothing is acknowledged, and clients get an error."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.cli.command import here
from tests.daemon.constants import VARIABLE
from tests.daemon.events import commit, message
from tests.daemon.journal.nats_cluster import Proxy
from tests.daemon.journal.on_nats import everything, opened, texts, until
from tests.daemon.nats_server import NatsServer
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url

pytestmark = pytest.mark.anyio
STOP = TIMEOUT / 2
"""Seconds in which a daemon has to end whose `PATIENT` shutdown may take twice as long: it waits for no server."""
PATIENT = {VARIABLE: json.dumps({"shutdown_timeout": TIMEOUT})}


async def limit(place: NatsPlace, **limits: object) -> None:
    async with opened(place) as operator:
        config = (await operator._connection.api(f"STREAM.INFO.{place.name}"))["config"]
        await operator._connection.api(f"STREAM.UPDATE.{place.name}", **{**config, **limits})


async def fill(journal: NatsJournal, size: int) -> tuple[int, str]:
    """Commit until it is refused; how often that was possible, and why it is not any more."""
    with anyio.fail_after(20):
        for stored in range(1_000):
            try:
                await journal.commit(commit(message("m" * size), base=stored))
            except JournalError as error:
                return stored, str(error)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("limits", "freed", "why"),
    [
        ({"max_msgs": 2, "discard": "new"}, {"max_msgs": -1}, "maximum messages exceeded"),
        ({"max_bytes": 3_000, "discard": "new"}, {"max_bytes": -1}, "maximum bytes exceeded"),
    ],
)
async def test_full_journal_refuses_and_goes_on(
    nats_place: NatsPlace, limits: dict[str, object], freed: dict[str, object], why: str
) -> None:
    async with opened(nats_place) as journal:
        await limit(nats_place, **limits)
        stored, refusal = await fill(journal, 1)
        assert re.fullmatch(rf"the journal .* refused: {why} \(NATS error \d+\)", refusal)
        assert refusal == journal.problem
        assert 0 < stored < 5
        await limit(nats_place, **freed)
        await journal.commit(commit(message("on"), base=stored))
        assert journal.problem == ""
        assert texts(await everything(journal)) == ["m"] * stored + ["on"]


async def test_server_without_room_refuses(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("jetstream { max_file_store: 2MB }\n")
    with NatsServer(tmp_path, "-c", str(config)) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            stored, refusal = await fill(journal, 100_000)
            assert re.fullmatch(r"the journal .* refused: insufficient resources \(NATS error \d+\)", refusal)
            assert refusal == journal.problem
            assert len(await everything(journal)) == stored > 5


async def test_commit_survives_a_server_that_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.nats.connection.ANSWER_TIMEOUT", 0.1)
    with NatsServer(tmp_path) as server:
        async with opened(parse_nats_url(server.url)) as journal:
            journal._connection._answer_timeout = 0.1
            for line in range(3):
                server.pause()
                waiting = asyncio.create_task(journal.commit(commit(message(str(line)), base=line)))
                await until(lambda: "cannot be reached: no answer in time" in journal.problem)
                assert not waiting.done()
                server.resume()
                with anyio.fail_after(20):
                    await waiting
                await until(lambda: journal.problem == "")
            assert texts(await everything(journal)) == ["0", "1", "2"]


@asynccontextmanager
async def slow(server: NatsServer, seconds: float) -> AsyncIterator[str]:
    """The URL of a server whose answers take so long."""
    port = int(server.url.rpartition(":")[2])

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        while data := await reader.read(65_536):
            await asyncio.sleep(delay)
            writer.write(data)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        ways = [relay(reader, there_writer, 0), relay(there_reader, writer, seconds)]
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for one in (writer, there_writer):
                one.transport.abort()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def test_slow_server_is_given_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer takes longer than a request waits at first."""
    monkeypatch.setattr("tooltap.daemon.journal.nats.connection.ANSWER_TIMEOUT", 0.05)
    with NatsServer(tmp_path) as server:
        async with slow(server, 0.15) as url, opened(parse_nats_url(url)) as journal:
            journal._connection._answer_timeout = 0.05
            with anyio.fail_after(30):
                for line in range(3):
                    await journal.commit(commit(message(str(line)), base=line))
                assert texts(await everything(journal)) == ["0", "1", "2"]


async def test_connection_without_answers_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers on others."""
    monkeypatch.setattr("tooltap.daemon.journal.nats.connection.ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr("tooltap.daemon.journal.nats.connection.SILENCE", 0.3)
    with NatsServer(tmp_path) as server:
        front = socket.socket()
        front.bind(("127.0.0.1", 0))
        proxy = Proxy("", front, int(server.url.rpartition(":")[2]), set())
        await proxy.start()
        async with opened(parse_nats_url(f"nats://127.0.0.1:{front.getsockname()[1]}")) as journal:
            await journal.commit(commit(message("a")))
            proxy.silence()
            journal._connection._answer_timeout = 0.1
            with anyio.fail_after(20):
                await journal.commit(commit(message("b"), base=1))
            assert texts(await everything(journal)) == ["a", "b"]
            assert journal._connection.connections >= 2
        await proxy.close()


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_daemon_says_what_it_waits_for_and_ends(tmp_path: Path, how: str) -> None:
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats") as server, DaemonProcess(tmp_path, journal=server.url, **PATIENT) as daemon:
        daemon.wait_ready()
        with daemon.connect() as publisher, daemon.connect() as subscriber, daemon.connect() as asking:
            publisher.send("ingest", stream="s", framing="tapped")
            publisher.until("ingesting")
            publisher.write(b'{"line":"{}"}\n')
            publisher.until("ack")
            subscriber.send("subscribe", after="start")
            subscriber.until("live")
            if how == "killed":
                server.kill()
            else:
                server.pause()
            publisher.write(b'{"line":"{}"}\n')
            while "problem" not in (journal := asking.ask("stats")["journal"]):
                pass
            assert journal["problem"].startswith(f"the journal {server.url}/tooltap cannot be reached: ")
            examined = here("doctor", "--socket", daemon.path)
            assert journal["problem"].rpartition(":")[0].encode() in examined.stdout

            started = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.wait() == 0
            assert time.monotonic() - started < STOP
            said = publisher.rest()
            assert [frame["op"] for frame in said] in ([], ["error"])
            for frame in said:
                assert frame["code"] == "journal"
                assert "cannot be reached" in frame["message"]
            assert any(
                entry["event"] in ("waiting for the journal", "the journal cannot be reached") for entry in daemon.log
            )
        server.resume() if how == "paused" else server.start()


def test_daemon_that_cannot_start_ends(tmp_path: Path) -> None:
    """Its server accepts the connection, and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}?connect_timeout=60"
        with DaemonProcess(tmp_path, journal=url, **PATIENT) as daemon:
            connection, _ = silent.accept()
            started = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.wait() == 0
            assert time.monotonic() - started < STOP
            connection.close()
