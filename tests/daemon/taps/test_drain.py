"""Taking in spools: each line takes effect once, in order, and losses are reported."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from tests.daemon.publishing import daemon, events, journal_of, publish
from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.daemon.taps.delivery.spool import (
    DAMAGED,
    TORN,
    UNREAD,
    Ending,
    Header,
    QuarantineLimits,
    Spool,
    encode,
    encode_lost,
    frame,
    spools,
)
from tooltap.daemon.taps.drain import Drain
from tooltap.protocol.frames import Ingest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SOCKET = Path("/run/t.sock")


def record(number: int) -> bytes:
    line = orjson.dumps({"do": "say", "text": str(number)})
    return encode(Entry(number, 1, len(line), line, 1_700_000_000_000 + number, "out"))


def left(directory: Path, numbers: range, *, torn: bytes = b"", ending: Ending | None = None, **header: Any) -> Path:
    """Leave behind a spool of these lines."""
    ingest = Ingest(stream=header.pop("stream", "s"), framing="tapped", dialect=header.pop("dialect", "toy"))
    spool = Spool.create(
        directory, Header(**{"socket": str(SOCKET), "ingest": ingest, "after": numbers.start - 1, **header})
    )
    spool.append(b"".join(frame(record(number), number) for number in numbers) + torn, len(numbers))
    if ending is not None:
        spool.end(ending)
    spool.close()
    return spool.path


def drain(streams: Streams, directory: Path, files: int = 10) -> Drain:
    return Drain(streams, SOCKET, directory, QuarantineLimits(files, 1_000_000))


def quarantined(directory: Path) -> list[str]:
    return [path.name for path in spools(directory / "quarantined")]


async def texts_and_losses(streams: Streams) -> list[Any]:
    """Return the texts of messages, and (lines, reason) of losses."""
    return [
        one["text"] if one["kind"] == "message" else (one["data"]["lines"], one["data"]["reason"])
        for one in await events(journal_of(streams))
        if one["kind"] == "message" or one.get("code") == "lost"
    ]


@pytest.mark.parametrize("ending", [None, Ending(9)], ids=["open", "ended"])
async def test_spool_stays_if_the_daemon_stops_meanwhile(
    ending: Ending | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It suspends all streams: that of a spool perhaps before it has the lines."""
    path = left(tmp_path / "spool", range(1, 10), ending=ending)
    async with daemon(tmp_path / "journal.db") as streams:
        feed = IngestConnection.feed

        async def stopped(self: IngestConnection, data: bytes) -> None:
            await self.suspend()
            await feed(self, data)

        with monkeypatch.context() as patched:
            patched.setattr(IngestConnection, "feed", stopped)
            await drain(streams, tmp_path / "spool").run()
        assert path.exists()
        await drain(streams, tmp_path / "spool").run()
        assert not path.exists()
        assert await texts_and_losses(streams) == [str(number) for number in range(1, 10)]


async def test_spool_is_taken_in_and_removed(tmp_path: Path) -> None:
    left(tmp_path / "spool", range(1, 10), ending=Ending(9))
    async with daemon(tmp_path / "journal.db") as streams:
        one = drain(streams, tmp_path / "spool")
        await one.run()

        assert await texts_and_losses(streams) == [str(number) for number in range(1, 10)]
        assert {one["ts"] for one in await events(journal_of(streams))} == {1_700_000_000_000 + n for n in range(1, 10)}
        [stored] = await journal_of(streams).streams()
        assert (stored.stream, stored.state, stored.lines) == ("s", "ended", 9)
        assert one.statistics()["drained"] == 1
        await one.run()
        assert one.statistics() == {
            "directory": str(tmp_path / "spool"),
            "waiting": 0,
            "bytes": 0,
            "drained": 1,
            "perSpool": [],
            "quarantined": {
                "directory": str(tmp_path / "spool/quarantined"),
                "files": 0,
                "bytes": 0,
                "names": [],
                "unread": [],
            },
        }


@pytest.mark.parametrize("known", [0, 3, 4, 5, 9, 11])
async def test_known_lines_are_not_taken_again(known: int, tmp_path: Path) -> None:
    """The publisher had sent `known` lines; its spool begins after line 3."""
    left(tmp_path / "spool", range(4, 10))
    async with daemon(tmp_path / "journal.db") as streams:
        publisher = await publish(streams)
        for number in range(1, known + 1):
            await publisher.ingest.feed(record(number))
        await publisher.ingest.finish()
        await drain(streams, tmp_path / "spool").run()

        expected: list[Any] = [str(number) for number in range(1, max(known, 9) + 1)]
        if known == 0:  # it is another journal than the one that has the first three
            expected[:3] = [(3, "the daemon's journal was replaced")]
        assert await texts_and_losses(streams) == expected


async def test_torn_line_is_reported_lost(tmp_path: Path) -> None:
    torn = frame(record(3), 3)[:20]
    left(tmp_path / "spool", range(1, 3), torn=torn)
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", "2", (1, "the publisher was killed in the middle of a line")]
        [stored] = await journal_of(streams).streams()
        assert (stored.state, stored.lines, stored.statistics.skipped) == ("suspended", 3, {"lost": 1})
    assert quarantined(tmp_path / "spool") == ["s.spool"]


async def test_loss_at_end_is_reported(tmp_path: Path) -> None:
    left(tmp_path / "spool", range(1, 3), ending=Ending(7, 1_000, "the spool is full"))
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", "2", (5, "the spool is full")]


async def test_second_drain_changes_nothing(tmp_path: Path) -> None:
    """As after a daemon that was killed before it removed the spool."""
    path = left(tmp_path / "spool", range(1, 3), torn=b'{"t', ending=None)
    copy = path.read_bytes()
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()
        once = await events(journal_of(streams))
        path.write_bytes(copy)
        await drain(streams, tmp_path / "spool").run()

        assert await events(journal_of(streams)) == once
        assert spools(tmp_path / "spool") == {}


async def test_foreign_spools_are_left_alone(tmp_path: Path) -> None:
    left(tmp_path / "other", range(1, 3), socket="/run/other.sock")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "s.spool").write_text("?\n")
    used = left(tmp_path / "used", range(1, 3))
    user = Spool.adopt(used)
    assert user is not None
    async with daemon(tmp_path / "journal.db") as streams:
        states = {}
        for directory in ("other", "broken", "used"):
            one = drain(streams, tmp_path / directory)
            await one.run()
            states[directory] = [(spool["state"], spool.get("socket")) for spool in one.statistics()["perSpool"]]
        assert states == {"other": [("of another daemon", "/run/other.sock")], "broken": [], "used": [("in use", None)]}
        assert quarantined(tmp_path / "broken") == ["s.spool"]
        assert await journal_of(streams).streams() == []
        user.close()
        await drain(streams, tmp_path / "used").run()
        assert await texts_and_losses(streams) == ["1", "2"]


async def test_spool_of_another_daemon_is_not_locked(tmp_path: Path) -> None:
    """While it is locked, `doctor` would take it for one in use. A reader's lock refuses every other but a reader's."""
    path = left(tmp_path / "spool", range(1, 3), socket="/run/other.sock")
    with path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        async with daemon(tmp_path / "journal.db") as streams:
            one = drain(streams, tmp_path / "spool")
            await one.run()
            assert [spool["state"] for spool in one.statistics()["perSpool"]] == ["of another daemon"]


async def test_unknown_dialect_is_recognized(tmp_path: Path) -> None:
    left(tmp_path / "spool", range(1, 3), dialect="klingon")
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", "2"]


BAD = [b'{"no":"tapped line"}\n', b"\0" * 100, frame(record(3), 3).replace(b"text", b"tixt"), b"\n", b"\xff\n"]


@pytest.mark.parametrize("bad", BAD)
async def test_damage_is_reported_and_the_rest_is_taken_in(bad: bytes, tmp_path: Path) -> None:
    path = left(tmp_path / "spool", range(1, 3), torn=bad + frame(record(4), 4), ending=Ending(4))
    content = path.read_bytes()
    async with daemon(tmp_path / "journal.db") as streams:
        with capture_logs() as logs:
            one = drain(streams, tmp_path / "spool")
            await one.run()
            await one.run()

        assert await texts_and_losses(streams) == ["1", "2", (1, DAMAGED), "4"]
        [loss] = [event for event in await events(journal_of(streams)) if event.get("code") == "lost"]
        assert loss["data"]["bytes"] == len(bad)
        [stored] = await journal_of(streams).streams()
        assert (stored.state, stored.lines) == ("ended", 4)
        statistics = one.statistics()
        assert (statistics["waiting"], statistics["drained"], statistics["perSpool"]) == (0, 1, [])
        assert statistics["quarantined"] == {
            "directory": str(tmp_path / "spool/quarantined"),
            "files": 1,
            "bytes": len(content),
            "names": ["s.spool"],
            "unread": [],
        }
    assert (tmp_path / "spool/quarantined/s.spool").read_bytes() == content
    [warning] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["reason"] == "a part of it cannot be read, and was reported as lost"


@pytest.mark.parametrize("killed_after", [0, 2, 3, 4])
async def test_damage_is_reported_once(killed_after: int, tmp_path: Path) -> None:
    """As after a daemon that was killed while it took in the spool."""
    path = left(tmp_path / "spool", range(1, 3), torn=BAD[1] + frame(record(4), 4), ending=Ending(4))
    async with daemon(tmp_path / "journal.db") as streams:
        publisher = await publish(streams)
        sent = [record(1), record(2), encode_lost(1, 100, DAMAGED), record(4)]
        for one in sent[:killed_after]:
            await publisher.ingest.feed(one)
        await publisher.ingest.finish()
        await drain(streams, path.parent).run()

        assert await texts_and_losses(streams) == ["1", "2", (1, DAMAGED), "4"]


def zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def without_headers(data: bytes) -> bytes:
    """The records are intact."""
    return data.replace(b"tooltap-spool-", b"tooltap-\0pool-")


@pytest.mark.parametrize("damage", [zeroed, without_headers])
async def test_spool_without_a_header_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = left(tmp_path / "spool", range(1, 3))
    path.write_bytes(damage(path.read_bytes()))
    left(tmp_path / "spool", range(1, 4), torn=b"?", stream="t")
    for life in range(2):  # the next daemon names it, too
        async with daemon(tmp_path / "journal.db") as streams:
            one = drain(streams, tmp_path / "spool")
            with capture_logs() as logs:
                await one.run()
                await one.run()

            assert await texts_and_losses(streams) == ["1", "2", "3", (1, TORN)]
            assert sorted(quarantined(path.parent)) == ["s.spool", "t.spool"]
            assert spools(path.parent) == {}
            assert one.statistics()["quarantined"]["unread"] == ["s.spool"]
        if life == 0:
            reasons = [one["reason"] for one in logs if one.get("spool", "").endswith("s.spool")]
            assert reasons == [f"its header cannot be read: {UNREAD}"]


async def test_full_quarantine_takes_no_more(tmp_path: Path) -> None:
    """What is damaged stays where it is, is not read again, and harms no other spool."""
    for stream in "abc":
        left(tmp_path / "spool", range(1, 3), torn=b"?", stream=stream)
    path = left(tmp_path / "spool", range(1, 3), stream="d")
    async with daemon(tmp_path / "journal.db") as streams:
        with capture_logs() as logs:
            one = drain(streams, path.parent, files=2)
            for _ in range(3):
                await one.run()

        assert await texts_and_losses(streams) == 3 * ["1", "2", (1, TORN)] + ["1", "2"]
        [spool] = one.statistics()["perSpool"]
        assert (spool["state"], one.statistics()["drained"]) == ("taken in", 4)
        assert spool["problem"].startswith("it is damaged, and the quarantine is full: ")
    assert sum(entry["event"] == "a spool cannot be taken in" for entry in logs) == 1
    assert len(quarantined(path.parent)) == 2


async def test_one_spool_harms_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in "abc":
        left(tmp_path / "spool", range(1, 3), stream=stream)
    async with daemon(tmp_path / "journal.db") as streams:
        usual = streams.open

        async def fail(ingest: Ingest, send: Any) -> Any:
            if ingest.stream == "a":
                raise TypeError("an error of the program")
            return await usual(ingest, send)

        monkeypatch.setattr(streams, "open", fail)
        one = drain(streams, tmp_path / "spool")
        with capture_logs() as logs:
            await one.run()
            await one.run()

        assert await texts_and_losses(streams) == ["1", "2"] * 2
        [spool] = one.statistics()["perSpool"]
        assert (spool["stream"], spool["state"]) == ("a", "stuck")
        assert spool["problem"] == "TypeError: an error of the program"
        assert sum(entry["log_level"] == "error" for entry in logs) == 1
        monkeypatch.undo()
        await one.run()
        assert await texts_and_losses(streams) == ["1", "2"] * 3


async def test_spool_that_cannot_be_removed_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that is read-only now."""
    left(tmp_path / "spool", range(1, 3), ending=Ending(2))
    async with daemon(tmp_path / "journal.db") as streams:
        one = drain(streams, tmp_path / "spool")
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "remove", lambda spool: os.rmdir("/proc"))
            await one.run()
            await one.run()
            [spool] = one.statistics()["perSpool"]
            assert (spool["state"], one.statistics()["drained"]) == ("taken in", 1)
        await one.run()
        assert (one.statistics()["waiting"], one.statistics()["drained"], spools(tmp_path / "spool")) == (0, 1, {})
        assert await texts_and_losses(streams) == ["1", "2"]


async def test_spool_that_is_used_again_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not be removed, and its publisher has come back, and was killed."""
    path = left(tmp_path / "spool", range(1, 3))
    size = path.stat().st_size
    async with daemon(tmp_path / "journal.db") as streams:
        one = drain(streams, tmp_path / "spool")
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "remove", lambda spool: os.rmdir("/proc"))
            await one.run()
        spool = Spool.adopt(path)
        assert spool is not None
        spool.restart(2)
        spool.append(frame(record(3), 3) + frame(record(4), 4), 2)
        spool.close()
        assert path.stat().st_size == size
        await one.run()

        assert (one.statistics()["drained"], spools(tmp_path / "spool")) == (2, {})
        assert await texts_and_losses(streams) == ["1", "2", "3", "4"]


async def test_losses_keep_their_place(tmp_path: Path) -> None:
    spool = Spool.create(
        tmp_path / "spool",
        Header(socket=str(SOCKET), ingest=Ingest(stream="s", framing="tapped", dialect="toy")),
    )
    loss = encode_lost(3, 99, "the spool is full")
    spool.append(frame(record(1), 1) + frame(loss, 4) + frame(record(5), 5), 5)
    spool.close()
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", (3, "the spool is full"), "5"]
