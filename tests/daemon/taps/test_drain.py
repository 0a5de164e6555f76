"""Taking in spools: each line takes effect once, in order, and losses are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.publishing import daemon, events, journal_of, publish
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.daemon.taps.delivery.records import encode, encode_lost
from tooltap.daemon.taps.delivery.spool import Ending, Header, Spool, spools
from tooltap.daemon.taps.drain import Drain
from tooltap.protocol.frames import Ingest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("toy")]

SOCKET = Path("/run/t.sock")


def record(number: int) -> bytes:
    line = orjson.dumps({"do": "say", "text": str(number)})
    return encode(Entry(number, 1, len(line), line, 1_700_000_000_000 + number, "out"))


def left(directory: Path, numbers: range, *, torn: bytes = b"", ending: Ending | None = None, **header: Any) -> Path:
    """Leave behind a spool of these lines."""
    ingest = Ingest(stream="s", framing="tapped", dialect=header.pop("dialect", "toy"))
    spool = Spool.create(
        directory, Header(**{"socket": str(SOCKET), "ingest": ingest, "after": numbers.start - 1, **header})
    )
    spool.append(b"".join(map(record, numbers)) + torn, len(numbers))
    if ending is not None:
        spool.end(ending)
    spool.close()
    return spool.path


def drain(streams: Streams, directory: Path) -> Drain:
    return Drain(streams, SOCKET, directory)


async def texts_and_losses(streams: Streams) -> list[Any]:
    """Return the texts of messages, and (lines, reason) of losses."""
    return [
        one["text"] if one["kind"] == "message" else (one["data"]["lines"], one["data"]["reason"])
        for one in await events(journal_of(streams))
        if one["kind"] == "message" or one.get("code") == "lost"
    ]


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
        assert one.statistics() == {"directory": str(tmp_path / "spool"), "waiting": 0, "bytes": 0, "drained": 1}


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
    torn = record(3)[:20]
    left(tmp_path / "spool", range(1, 3), torn=torn)
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", "2", (1, "the publisher was killed in the middle of a line")]
        [stored] = await journal_of(streams).streams()
        assert (stored.state, stored.lines, stored.statistics.skipped) == ("ended", 3, {"lost": 1})


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
        for directory in ("other", "broken", "used"):
            await drain(streams, tmp_path / directory).run()
            assert len(spools(tmp_path / directory)) == 1
        assert await journal_of(streams).streams() == []
        user.close()
        await drain(streams, tmp_path / "used").run()
        assert await texts_and_losses(streams) == ["1", "2"]


async def test_unknown_dialect_is_recognized(tmp_path: Path) -> None:
    left(tmp_path / "spool", range(1, 3), dialect="klingon")
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", "2"]


async def test_invalid_record_keeps_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left(tmp_path / "spool", range(1, 3), torn=b'{"no":"tapped line"}\n' + record(4))
    async with daemon(tmp_path / "journal.db") as streams:
        one = drain(streams, tmp_path / "spool")
        await one.run()
        await one.run()

        assert await texts_and_losses(streams) == ["1", "2"]
        assert len(spools(tmp_path / "spool")) == 1
    assert capsys.readouterr().out.count("line 3 of stream s did not come as a tapped line") == 1


async def test_losses_keep_their_place(tmp_path: Path) -> None:
    spool = Spool.create(
        tmp_path / "spool",
        Header(socket=str(SOCKET), ingest=Ingest(stream="s", framing="tapped", dialect="toy")),
    )
    spool.append(record(1) + encode_lost(3, 99, "the spool is full") + record(5), 5)
    spool.close()
    async with daemon(tmp_path / "journal.db") as streams:
        await drain(streams, tmp_path / "spool").run()

        assert await texts_and_losses(streams) == ["1", (3, "the spool is full"), "5"]
