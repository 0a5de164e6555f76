"""Long and huge lines, which are read aside from the event loop, give what short ones give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.adversaries import answer, call, said, start
from tests.daemon.publishing import Publisher, daemon, events, journal_of, publish, tapped
from tooltap.daemon.ingest.offload import Offload
from tooltap.protocol.frames import Ack, Done, ErrorFrame, Ingesting, Suspended

pytestmark = [pytest.mark.anyio, pytest.mark.process]

LONG = 20_000
HUGE = 50_000
LINES = [
    start(),
    said(1, "a"),
    call(1, command="x" * LONG),
    answer(1, "y" * HUGE),
    said(2, "b"),
    call(2, "Write", file_path="/f", content="z\n" * HUGE),
    b"x" * LONG,
    b"x" * HUGE,
    answer(2, "done"),
    said(3, "c"),
]
SETTINGS: dict[str, Callable[[], Offload]] = {
    "in the loop": Offload,
    "in a thread": lambda: Offload(long_bytes=10_000, huge_bytes=10**9),
    "in a process": lambda: Offload(long_bytes=10_000, huge_bytes=10_000),
    "each where it belongs": lambda: Offload(long_bytes=10_000, huge_bytes=40_000),
}


async def journaled(path: Path, offload: Offload, **keys: Any) -> list[dict[str, Any]]:
    """The events of `LINES`, in two lives of a daemon."""
    async with daemon(path, offload=offload) as streams:
        first = await publish(streams, **keys)
        await first.lines(*LINES[:6])
        await first.ingest.suspend()
        assert first.last(Suspended).lines == 6
        second = await publish(streams, **keys)
        assert second.last(Ingesting).lines == 6
        await second.lines(*LINES[6:])
        await second.ingest.end()
        assert second.last(Done).lines == len(LINES)
        return await events(journal_of(streams))


@pytest.mark.parametrize("dialect", ["claude-stream", "auto"])
@pytest.mark.parametrize("where", list(SETTINGS)[1:])
async def test_lines_give_the_same_events_wherever_they_are_read(tmp_path: Path, where: str, dialect: str) -> None:
    expected = await journaled(tmp_path / "a.db", Offload(), dialect=dialect)
    found = await journaled(tmp_path / "b.db", SETTINGS[where](), dialect=dialect)

    assert found == expected
    assert len(found) > len(LINES)


async def test_raw_bytes_are_read_aside_as_well(tmp_path: Path) -> None:
    async with daemon(tmp_path / "j.db", offload=Offload(10_000, 40_000)) as streams:
        publisher = await publish(streams, framing="raw", dialect="claude-stream")
        data = b"\n".join(LINES)  # the last line has no newline
        for at in range(0, len(data), 30_000):
            await publisher.ingest.feed(data[at : at + 30_000])
        await publisher.ingest.finish()

        assert publisher.last(Done).lines == len(LINES)


async def test_a_line_that_takes_too_long_stops_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path / "j.db", offload=Offload(10_000, 10_000, seconds=0.001)) as streams:
        publisher = await publish(streams, dialect="claude-stream")
        await publisher.lines(start(), said(1, "x" * LONG), said(2, "after"))
        await publisher.ingest.suspend()
        again = await publish(streams, dialect="claude-stream")
        await again.lines(said(3, "later"))
        await again.ingest.end()
        found = await events(journal_of(streams))

    [unparsed] = [one for one in found if one["kind"] == "unparsed"]
    assert unparsed["reason"] == "too-long"
    assert [one["text"] for one in found if one["kind"] == "message"] == ["after", "later"]
    assert again.last(Done).lines == 4
    assert again.last(Done).unparsed == 1


async def begin_huge(publisher: Publisher, tasks: Any) -> None:
    """Feed a huge line, and return while a process is about to read it."""
    await publisher.lines(start())
    tasks.start_soon(publisher.lines, said(1, "x" * LONG), said(2, "after"))
    with anyio.fail_after(10):
        while publisher.ingest._offload_scope is None:
            await anyio.sleep(0)


async def test_a_stop_does_not_wait_for_a_huge_line(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path / "j.db", offload=Offload(10_000, 10_000)) as streams,
        anyio.create_task_group() as tasks,
    ):
        publisher = await publish(streams, dialect="claude-stream")
        await begin_huge(publisher, tasks)
        await streams.suspend_all()

        assert publisher.last(Suspended).lines == 1
        again = await publish(streams, dialect="claude-stream")
        assert again.last(Ingesting).lines == 1
        await again.lines(said(1, "x" * LONG), said(2, "after"))
        await again.ingest.end()
        found = await events(journal_of(streams))

    assert [one["text"] for one in found if one["kind"] == "message"] == ["x" * LONG, "after"]


async def test_a_stream_is_taken_over_in_the_middle_of_a_huge_line(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path / "j.db", offload=Offload(10_000, 10_000)) as streams,
        anyio.create_task_group() as tasks,
    ):
        publisher = await publish(streams, dialect="claude-stream")
        await begin_huge(publisher, tasks)
        again = await publish(streams, dialect="claude-stream")

        assert publisher.last(ErrorFrame).code == "superseded"
        await again.lines(said(1, "mine"))
        await again.ingest.end()
        found = await events(journal_of(streams))

    assert [one["text"] for one in found if one["kind"] == "message"] == ["mine"]


async def test_what_else_changes_the_stream_waits_for_the_line(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path / "j.db", offload=Offload(10_000, 10_000)) as streams,
        anyio.create_task_group() as tasks,
    ):
        publisher = await publish(streams, dialect="claude-stream", agent="helper")
        await begin_huge(publisher, tasks)
        tasks.start_soon(streams.set_parent, "s", "toolu_7")
        await publisher.until(Ack(lines=3))
        statistics = await streams.end("s")
        found = await events(journal_of(streams))

    assert statistics.lines == 3
    assert {one.get("parent") for one in found if one.get("text") == "after"} <= {None, "toolu_7"}
    assert any(one.get("parent") == "toolu_7" for one in found)
    assert len({one["id"] for one in found}) == len(found)


async def test_a_stream_with_many_open_calls_is_closed_aside(tmp_path: Path) -> None:
    calls = [call(number) for number in range(600)]
    async with daemon(tmp_path / "j.db") as streams:
        for stream in ("ended", "suspended"):
            publisher = await publish(streams, stream, dialect="claude-stream")
            await publisher.ingest.feed(b"".join(map(tapped, calls)))
            if stream == "ended":
                await publisher.ingest.end()
            else:
                await publisher.ingest.suspend()
        await streams.end("suspended")
        found = await events(journal_of(streams))

    for stream in ("ended", "suspended"):
        results = [one for one in found if one["kind"] == "tool-result" and one["stream"] == stream]
        assert len(results) == 600
