"""The client: subscribe, publish, request, and its errors."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.daemon.events import call, commit, message
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Running, running
from tooltap.daemon.client.asynchronous import (
    OtherInputError,
    Publisher,
    Subscription,
    connect,
    ingest,
    request,
    subscribe,
)
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.protocol.events import decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import At, Gap, Live, Subscribed

pytestmark = pytest.mark.anyio

T = 1_700_000_000_000


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        monkeypatch.setenv("TOOLTAP_SOCKET", str(daemon.path))
        yield daemon


async def text_lines(subscription: Subscription, count: int) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < count:
        item = await anext(subscription)
        if isinstance(item, bytes):
            lines.append(item)
    return lines


# -- connecting ---------------------------------------------------------------------------------------------------


async def test_missing_daemon_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    with pytest.raises(ConnectError) as raised:
        await request("ping", path=path)

    assert str(raised.value) == f"no daemon is listening at {path}; start one with `tooltap up`"


async def test_other_server_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    listener = await anyio.create_unix_listener(path)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"220 smtp.example.org ESMTP\r\n")

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with pytest.raises(ConnectError, match=r"what is listening at .* is not a tooltap daemon"):
            await request("ping", path=path)
        tasks.cancel_scope.cancel()


async def test_full_daemon_is_explained(tmp_path: Path) -> None:
    with running(tmp_path, max_connections=1) as daemon:
        async with connect(daemon.path):
            with pytest.raises(DaemonError) as raised:
                await request("ping", path=daemon.path)

    assert raised.value.code == "too-many-connections"


# -- asking -------------------------------------------------------------------------------------------------------


async def test_requests(daemon: Running) -> None:
    daemon.commit(commit(message("one")))
    async with connect() as client:
        assert client.welcome.latest == 1
        assert await client.request("ping") == {}
        assert (await client.request("event", seq=1))["event"]["text"] == "one"
        with pytest.raises(DaemonError, match="there is no event 9") as raised:
            await client.request("event", seq=9)

    assert raised.value.code == "not-found"


# -- subscribing --------------------------------------------------------------------------------------------------


async def test_subscription_has_lines_and_control_frames(daemon: Running) -> None:
    daemon.commit(commit(message("one")))
    journal = daemon.daemon.journal.id
    async with subscribe(after="start", follow=False) as subscription:
        items = [item async for item in subscription]

    assert items[0] == Subscribed(after=0, journal=journal, oldest=1, latest=1)
    assert isinstance(items[1], bytes)
    assert items[1].startswith(b'{"seq":1,')
    assert items[2] == Live(seq=1)
    assert subscription.cursor == f"{journal}:1"


async def test_cursor_follows_items(daemon: Running) -> None:
    journal = daemon.daemon.journal.id
    daemon.commit(commit(message("one"), call("c1"), message("two")))
    async with subscribe(after="start", filter=Filter(kind=("tool-call",))) as subscription:
        seen = [(type(await anext(subscription)).__name__, subscription.cursor) for _ in range(3)]

    assert seen == [("Subscribed", f"{journal}:0"), ("bytes", f"{journal}:2"), ("Live", f"{journal}:3")]
    async with subscribe(after=seen[1][1] or "", follow=False) as subscription:
        assert len(await text_lines(subscription, 1)) == 1


async def test_at_frame_moves_the_cursor(tmp_path: Path) -> None:
    with running(tmp_path, at_interval=0.02) as daemon:
        async with subscribe(after="now", filter=Filter(kind=("usage",)), path=daemon.path) as subscription:
            while not isinstance(await anext(subscription), At):
                pass
            await anyio.to_thread.run_sync(daemon.commit, commit(message("one")))
            while subscription.cursor != f"{daemon.daemon.journal.id}:1":
                await anext(subscription)


async def test_gap_is_an_item(daemon: Running) -> None:
    daemon.commit(commit(message("one")))
    async with subscribe(after="other:5", follow=False) as subscription:
        items = [item async for item in subscription]

    assert items[1] == Gap(from_=1, to=0, reason="reset")
    assert isinstance(items[2], bytes)


async def test_refused_subscription_raises(daemon: Running) -> None:
    async with subscribe(after="yesterday") as subscription:
        with pytest.raises(DaemonError, match="`after` is"):
            await anext(subscription)


async def test_write_that_fails_ends_the_connection(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon, which still reads, would wait for the rest."""

    async def fail(data: bytes) -> None:
        raise anyio.BrokenResourceError

    async with connect() as client:
        monkeypatch.setattr(client._stream, "send", fail)
        with anyio.fail_after(10), pytest.raises(DisconnectedError):
            await client.request("ping")


async def test_without_reconnect_end_of_daemon_raises(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        async with subscribe(path=daemon.path) as subscription:
            while not isinstance(await anext(subscription), Live):
                pass
            daemon.process.kill()
            with pytest.raises(DisconnectedError, match="the daemon has closed the connection"):
                await anext(subscription)


async def test_with_reconnect_subscription_survives_daemon(tmp_path: Path) -> None:
    """Every event comes once, whichever daemon committed it."""
    with DaemonProcess(tmp_path) as first:
        first.wait_ready()
        async with subscribe(after="start", reconnect=True, path=first.path) as subscription:
            await publish_to(first.path, b"one", b"two")
            lines = await text_lines(subscription, 2)
            first.process.kill()
            first.wait()
            async with anyio.create_task_group() as tasks:

                async def restart() -> None:
                    second = DaemonProcess(tmp_path)
                    started.append(second)
                    await anyio.to_thread.run_sync(second.wait_ready)
                    await publish_to(second.path, b"three")

                started: list[DaemonProcess] = []
                tasks.start_soon(restart)
                lines += await text_lines(subscription, 1)
            with started[0]:
                pass

    assert [line.split(b",")[0] for line in lines] == [b'{"seq":1', b'{"seq":2', b'{"seq":3']


async def publish_to(path: Path, *lines: bytes) -> None:
    async with ingest(dialect="claude-stream", path=path) as publisher:
        for line in lines:
            await publisher.send(line)
        await publisher.end()


# -- publishing ---------------------------------------------------------------------------------------------------


async def test_publishing_tapped_lines(daemon: Running) -> None:
    async with ingest(stream="s", dialect="claude-stream", provider="me", session="a") as publisher:
        assert (publisher.stream, publisher.ingesting.state, publisher.acked) == ("s", "new", 0)
        await publisher.send(b"one", t=T, direction="out")
        await publisher.send(b"\xff\xfe", t=T + 1, direction="in")
        await publisher.lost(3, 100, "spool full")
        await publisher.wait_acked(5)
        done = await publisher.end()

    assert publisher.acked == 5
    assert (done.lines, done.unparsed, done.skipped) == (5, 2, {"lost": 3})
    async with subscribe(after="start", follow=False) as subscription:
        events = [decode(item) async for item in subscription if isinstance(item, bytes)]
    assert [event.ts for event in events][:2] == [T, T + 1]
    assert {(event.provider, event.session) for event in events} == {("me", "a")}


async def test_publishing_raw_bytes(daemon: Running) -> None:
    async with ingest(framing="raw", dialect="claude-stream") as publisher:
        await publisher.write(b"one\ntw")
        await publisher.write(b"o\nthree")
        done = await publisher.end()

    assert done.lines == 3


async def test_publisher_resumes_and_checks_its_input(daemon: Running) -> None:
    lines = [b"one", b"two", b"three", b"four"]
    async with ingest(stream="s", dialect="claude-stream") as publisher:
        for line in lines[:2]:
            await publisher.send(line)
        assert await publisher.suspend() == 2

    async with ingest(stream="s") as publisher:
        assert publisher.ingesting.crc == f"{zlib.crc32(b'two'):08x}"
        with pytest.raises(OtherInputError, match="stream s was another input up to line 2"):
            publisher.has(2, b"zwei")
        assert [publisher.has(number, line) for number, line in enumerate(lines, 1)] == [True, True, False, False]
        for line in lines[2:]:
            await publisher.send(line)
        assert (await publisher.end()).lines == 4


async def send_forever(publisher: Publisher) -> None:
    while True:
        await publisher.send(b"{}")


async def test_superseded_publisher_raises_on_write(daemon: Running) -> None:
    async with ingest(stream="s") as first, ingest(stream="s"):
        with pytest.raises(DaemonError) as raised:
            await send_forever(first)

    assert raised.value.code == "superseded"


async def test_refused_publisher_raises(daemon: Running) -> None:
    with pytest.raises(DaemonError, match="there is no dialect 'cobol'"):
        async with ingest(dialect="cobol"):
            pass


async def test_leaving_without_end_suspends_the_stream(daemon: Running) -> None:
    async with ingest(stream="s", dialect="claude-stream") as publisher:
        await publisher.send(b"one")
        await publisher.wait_acked(1)
    async with connect() as client:
        while (await client.request("stats"))["streams"] != {"open": 0, "suspended": 1, "ended": 0}:
            pass
