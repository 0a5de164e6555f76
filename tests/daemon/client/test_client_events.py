"""`tooltap.client.subscribe`: typed events and gaps, by `for` and by `async for`, across the lives of daemons.

What is true of both is tested of both: `events` takes the first few items, whichever way.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from threading import Lock, Thread

import anyio
import anyio.to_thread
import pytest

import tooltap.client
from tests.daemon.events import call, commit, message
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Running, Wire, running
from tooltap.client import (
    AnyEvent,
    ConnectError,
    DaemonError,
    DisconnectedError,
    EventOrGap,
    EventStream,
    Filter,
    Gap,
    ask,
    subscribe,
)
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.display import DisplayText, DisplayToolUse
from tooltap.protocol.events import Message, ToolCall, Unparsed

Take = Callable[[EventStream[AnyEvent], int | None], Awaitable[list[EventOrGap]]]

pytestmark = pytest.mark.anyio


async def blocking(stream: EventStream[AnyEvent], count: int | None = None) -> list[EventOrGap]:
    """Iterate like a program without an event loop: in a thread, because the daemon may use this thread's loop."""
    return await anyio.to_thread.run_sync(lambda: list(itertools.islice(stream, count)))


async def asynchronous(stream: EventStream[AnyEvent], count: int | None = None) -> list[EventOrGap]:
    taken: list[EventOrGap] = []
    async with aclosing(aiter(stream)) as items:
        while count is None or len(taken) < count:
            try:
                taken.append(await anext(items))
            except StopAsyncIteration:
                break
    return taken


@pytest.fixture(params=[blocking, asynchronous])
def take(request: pytest.FixtureRequest) -> Take:
    taken: Take = request.param
    return taken


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with running(tmp_path, retention_days=0) as daemon:  # tests delete old events themselves
        monkeypatch.setenv("TOOLTAP_SOCKET", str(daemon.path))
        yield daemon


def texts(items: list[EventOrGap]) -> list[str]:
    """Return the texts of messages, other lines, and gaps as `from..to`."""
    return [
        f"{item.from_}..{item.to} {item.reason}" if isinstance(item, Gap) else item.text
        for item in items
        if isinstance(item, Message | Unparsed | Gap)
    ]


# -- events -------------------------------------------------------------------------------------------------------


async def test_events_are_typed_and_in_order(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one"), call("c1"), message("two")))
    items = await take(subscribe(after="start", follow=False), None)

    assert [type(item) for item in items] == [Message, ToolCall, Message]
    assert texts(items) == ["one", "two"]


async def test_events_are_filtered(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one"), call("c1"), message("two")))
    stream = subscribe(after="start", filter=Filter(kind=("tool-call",)), follow=False)

    assert [type(item) for item in await take(stream, None)] == [ToolCall]


async def test_display_events_are_typed(daemon: Running) -> None:
    daemon.commit(commit(message("one"), call("c1")))
    stream = subscribe(as_="display", after="start", follow=False)

    assert [type(item) async for item in stream] == [DisplayText, DisplayToolUse]
    assert stream.cursor == f"{daemon.daemon.journal.id}:2"


async def test_cursor_resumes_in_another_program(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one"), message("two"), message("three")))
    assert subscribe().cursor is None
    stream = subscribe(after="start", follow=False)
    assert texts(await take(stream, 2)) == ["one", "two"]
    assert stream.cursor == f"{daemon.daemon.journal.id}:2"

    assert texts(await take(subscribe(after=stream.cursor, follow=False), None)) == ["three"]


async def test_iterating_again_resumes(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one"), message("two")))
    stream = subscribe(after="start", follow=False)

    assert texts(await take(stream, 1)) == ["one"]
    assert texts(await take(stream, None)) == ["two"]
    assert texts(await take(stream, None)) == []
    daemon.commit(commit(message("three"), base=1))
    assert texts(await take(stream, None)) == ["three"]


async def test_cursor_of_other_journal_is_a_gap(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one")))
    items = await take(subscribe(after="other:5", follow=False), None)

    assert texts(items) == ["1..0 reset", "one"]


async def test_expired_events_are_a_gap(daemon: Running, take: Take) -> None:
    daemon.commit(
        commit(message("one"), message("two"), state="ended", updated=1),
        commit(message("three", "t", session="kept"), stream="t"),
    )
    stream = subscribe(after="start", follow=False)
    assert texts(await take(stream, 1)) == ["one"]
    daemon.expire(1_000)

    assert texts(await take(stream, None)) == ["2..2 retention", "three"]


async def test_unknown_events_are_counted(daemon: Running, take: Take) -> None:
    known = message("known")
    bodies = [known.body.replace(b'"assistant"', b'"narrator"'), known.body.replace(b'"message"', b'"hologram"', 1)]
    daemon.commit(commit(*(Produced.of(known.event, body) for body in bodies), known))
    stream = subscribe(after="start", follow=False)

    assert texts(await take(stream, None)) == ["known", "known"]  # the first with the new role
    assert stream.unknown == 1


async def test_leaving_the_loop_disconnects(daemon: Running, take: Take) -> None:
    daemon.commit(commit(message("one"), message("two")))
    await take(subscribe(after="start"), 1)

    while await anyio.to_thread.run_sync(daemon.stats) is not None:
        if not daemon.daemon.hub.subscriptions:
            break


# -- what goes wrong ----------------------------------------------------------------------------------------------


async def test_missing_daemon_is_explained(tmp_path: Path, take: Take) -> None:
    path = tmp_path / "t.sock"
    with pytest.raises(ConnectError) as raised:
        await take(subscribe(path=path), None)

    assert str(raised.value) == f"no daemon is listening at {path}; start one with `tooltap up`"


async def test_refused_subscription_raises(daemon: Running, take: Take) -> None:
    with pytest.raises(DaemonError, match="`after` is"):
        await take(subscribe(after="yesterday"), None)


async def test_requests_without_an_event_loop(daemon: Running) -> None:
    daemon.commit(commit(message("one")))

    assert ask("ping") == {}
    assert ask("event", seq=1)["event"]["text"] == "one"
    with pytest.raises(DaemonError, match="there is no event 9") as raised:
        ask("event", seq=9)
    assert raised.value.code == "not-found"


# -- daemons that come and go -------------------------------------------------------------------------------------


class Lives:
    """A daemon that is killed and comes back; each life adds a line to the journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "run" / "t.sock"
        self._processes: list[DaemonProcess] = []
        self._beginning = Lock()

    def begin(self, text: str) -> None:
        with self._beginning:
            process = DaemonProcess(self._folder)
            self._processes.append(process)
            process.wait_ready()
            with Wire(self.path) as wire:
                wire.send("ingest", stream=f"s{len(self._processes)}", dialect="claude-stream")
                wire.write(text.encode() + b"\n")
                wire.finish()
                wire.until("done")

    def kill(self) -> None:
        with self._beginning:  # its event may be seen before the publisher hears that it is done
            self._processes[-1].process.kill()
            self._processes[-1].wait()

    def forget(self) -> None:
        """Lose the journal."""
        for file in self._folder.glob("journal.db*"):
            file.unlink()

    def close(self) -> None:
        for process in self._processes:
            with process:
                pass


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    lives = Lives(tmp_path)
    yield lives
    lives.close()


Act = Callable[[], None]
Watch = Callable[..., Awaitable[list[EventOrGap]]]
"""Takes a stream and acts: gives the items, doing the next act after each, while it waits for the next item."""


async def watch_blocking(stream: EventStream[AnyEvent], *acts: Act) -> list[EventOrGap]:
    def watch() -> list[EventOrGap]:
        items: list[EventOrGap] = []
        threads: list[Thread] = []
        for item in stream:
            items.append(item)
            if len(items) > len(acts):
                break
            threads.append(Thread(target=acts[len(items) - 1]))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return items

    return await anyio.to_thread.run_sync(watch)


async def watch_asynchronously(stream: EventStream[AnyEvent], *acts: Act) -> list[EventOrGap]:
    items: list[EventOrGap] = []
    async with anyio.create_task_group() as tasks, aclosing(aiter(stream)) as arriving:
        async for item in arriving:
            items.append(item)
            if len(items) > len(acts):
                break
            tasks.start_soon(anyio.to_thread.run_sync, acts[len(items) - 1])
    return items


@pytest.mark.parametrize("watch", [watch_blocking, watch_asynchronously])
async def test_every_event_comes_once_across_daemons(lives: Lives, watch: Watch) -> None:
    def again(text: str) -> Act:
        def act() -> None:
            lives.kill()
            lives.begin(text)

        return act

    lives.begin("one")
    stream = subscribe(after="start", path=lives.path, filter=Filter(kind=("unparsed",)))
    items = await watch(stream, again("two"), again("three"))

    assert texts(items) == ["one", "two", "three"]


@pytest.mark.parametrize("watch", [watch_blocking, watch_asynchronously])
async def test_lost_journal_is_a_gap(lives: Lives, watch: Watch) -> None:
    def lose() -> None:
        lives.kill()
        lives.forget()
        lives.begin("two")

    lives.begin("one")
    stream = subscribe(after="start", path=lives.path, filter=Filter(kind=("unparsed",)))
    items = await watch(stream, lose, lambda: None)

    assert texts(items) == ["one", "1..0 reset", "two"]


async def test_without_reconnect_end_of_daemon_raises(lives: Lives, take: Take) -> None:
    lives.begin("one")
    stream = subscribe(after="start", path=lives.path, reconnect=False)
    assert len(await take(stream, 1)) == 1
    lives.kill()
    with pytest.raises(ConnectError):
        await take(stream, None)


def test_without_reconnect_end_while_listening_raises(lives: Lives) -> None:
    lives.begin("one")
    stream = iter(subscribe(after="start", path=lives.path, reconnect=False))
    next(stream)
    lives.kill()
    with pytest.raises(DisconnectedError, match="the daemon has closed the connection"):
        list(stream)


def test_public_module_exports() -> None:
    assert all(hasattr(tooltap.client, name) for name in tooltap.client.__all__)
