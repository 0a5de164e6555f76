"""An archive of one journal, read into another: the same events, bodies and sessions, each once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.importing import Imported, Importer, begins_archive
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.json_lines import archive_lines
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.normalizers.core.items import OutputChunk
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import Usage

pytestmark = pytest.mark.anyio

TEXT, BYTES = b"line\n" * 300_000, b"\xff\x00" * 10
LONG = {"/stdout": {"outputId": "b:3:o0", "bytes": len(TEXT), "lines": 300_000, "mimeType": "text/plain"}}


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[list[bytes]]:
    """Two streams of one session, interleaved; a body of two parts, and one of bytes; a pinned session."""
    source = await SqliteJournal.open(tmp_path / "source.db")
    usage = event(Usage, "a", 2, scope="step", input_tokens=10, output_tokens=5, request="msg_01234567890123456789/req")
    for one in (
        commit(message("first", "a"), stream="a"),
        commit(message("second", "b", line=1), call("c", "b", line=2), stream="b", lines=2),
        commit(usage, stream="a", base=1),
        commit(
            result("c", "b", line=3, outputs=LONG),
            OutputChunk("b:3:o0", 0, TEXT, "text/plain"),
            OutputChunk("b:3:o1", 0, BYTES, "image/png"),
            stream="b",
            base=2,
            state="ended",
        ),
        commit(message("last", "a", line=3), stream="a", base=2, state="ended"),
    ):
        await source.commit(one)
    await source.pin("session-1", pinned=True)
    yield [line async for line in archive_lines(source)]
    await source.close()


async def restored(journal: Journal, lines: Sequence[bytes]) -> tuple[Imported, list[int]]:
    """What an import has done, and the numbers of the lines that it could not read."""
    unread: list[int] = []
    importer = Importer(journal, lambda number, _: unread.append(number))
    await importer.read([line.removesuffix(b"\n") for line in lines])
    await journal.listen()
    return importer.done, unread


async def facts(journal: Journal) -> tuple[list[bytes], bytes, list[dict[str, object]]]:
    """The events, an output body and the sessions of a journal."""
    events, _ = await journal.read(0, max_bytes=10_000_000)
    body = b""
    while part := await journal.output("b:3:o0", len(body), 1_000_000, "bytes"):
        if not part.data:
            break
        body += part.data
    return [one.body for one in events], body, await journal.sessions()


async def test_journal_has_what_the_archived_one_had(journal: Journal, archive: list[bytes], tmp_path: Path) -> None:
    done, unread = await restored(journal, archive)

    assert (done, unread) == (Imported(streams=2, events=6), [])
    source = await SqliteJournal.open(tmp_path / "copy.db")
    await restored(source, archive)
    for one in (journal, source):
        events, body, (row,) = await facts(one)
        assert [orjson.loads(one)["id"] for one in events] == ["a:1:0", "b:1:0", "b:2:0", "a:2:0", "b:3:0", "a:3:0"]
        assert body == TEXT
        assert row["pinned"] is True
        assert (row["inputTokens"], row["outputTokens"], row["calls"]) == (10, 5, 1)
        states = {info.stream: (info.state, info.lines, info.restored) for info in await one.streams()}
        assert states == {"a": ("ended", 3, None), "b": ("ended", 3, None)}
    await source.close()


async def test_nothing_is_there_twice(journal: Journal, archive: list[bytes]) -> None:
    await restored(journal, archive)
    before = await facts(journal)

    assert await restored(journal, archive) == (Imported(known=2), [])
    assert await facts(journal) == before


@pytest.mark.parametrize("lines", range(3, 12))
async def test_interrupted_import_continues(journal: Journal, archive: list[bytes], lines: int) -> None:
    """Its process was killed: what it has committed is there, and no stream has ended."""
    importer = Importer(journal, lambda *_: None)
    for line in archive[:lines]:
        await importer._read(line.removesuffix(b"\n"))
    await importer._flush()

    await restored(journal, archive)
    events, body, _ = await facts(journal)
    assert [orjson.loads(one)["id"] for one in events] == ["a:1:0", "b:1:0", "b:2:0", "a:2:0", "b:3:0", "a:3:0"]
    assert body == TEXT


async def test_interrupted_import_is_no_damage(sqlite_journal: SqliteJournal, archive: list[bytes]) -> None:
    importer = Importer(sqlite_journal, lambda *_: None)
    for line in archive[:-1]:
        await importer._read(line.removesuffix(b"\n"))
    await importer._flush()
    loaded = [await sqlite_journal.load_stream(stream) for stream in ("a", "b")]
    assert [(one.info.state, one.info.lines) for one in loaded if one is not None] == [("suspended", 3)] * 2
    assert sqlite_journal.statistics()["damages"] == 0
    await sqlite_journal.close()

    assert list(check_file(sqlite_journal.path)) == []


async def test_what_retention_has_deleted_is_restored(journal: Journal, archive: list[bytes]) -> None:
    await restored(journal, archive)
    await journal.pin("session-1", pinned=False)
    before = await facts(journal)
    assert await journal.expire(2**53) == 6

    done, _ = await restored(journal, archive)
    assert done == Imported(streams=2, events=6)
    assert (await facts(journal))[:2] == before[:2]


async def test_lines_that_another_program_has_rewritten(journal: Journal, archive: list[bytes]) -> None:
    rewritten = [orjson.dumps(orjson.loads(line), option=orjson.OPT_SORT_KEYS) for line in archive]
    assert await restored(journal, rewritten) == (Imported(streams=2, events=6), [])


async def test_lines_that_are_no_part_of_an_archive_are_left_out(journal: Journal, archive: list[bytes]) -> None:
    wrong = [b"", b"no JSON", b'{"op":"unknown"}', b'{"kind":"unknown"}', b'"\xff"']
    assert await restored(journal, [*archive[:5], *wrong, *archive[5:]]) == (
        Imported(streams=2, events=6, unread=5),
        [6, 7, 8, 9, 10],
    )


async def test_events_of_later_lines_come_with_their_lines(journal: Journal, archive: list[bytes]) -> None:
    """A daemon wrote to the journal while the archive was made."""
    later = [b'{"seq":7,' + message("new", "a", line=4).body[1:], b'{"seq":8,' + message("new", "c").body[1:]]
    done, _ = await restored(journal, [*archive, *later])
    assert done == Imported(streams=2, events=6, later=2)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"{}",
        LongLine(b"{", 10**9),
        b'{"seq":1,"kind":"message"}',
        b'{"op":"gap","from":1,"to":2,"reason":"corrupt"}',
    ],
)
def test_other_lines_begin_no_archive(first: bytes | LongLine) -> None:
    assert not begins_archive(first)


async def test_archive_begins_as_one(archive: list[bytes]) -> None:
    assert begins_archive(archive[0])
    assert begins_archive(b'{"op":"pinned","sessions":[]}')
