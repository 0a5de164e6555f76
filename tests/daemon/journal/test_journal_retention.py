"""Deletion: old ended streams, the oldest beyond a size, sessions by name; everything else stays."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgspec
import orjson
import pytest
from structlog.testing import capture_logs

from tests.daemon.containment.test_retention import fail
from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.importing import Importer
from tooltap.daemon.journal.interface import (
    Dispatch,
    Journal,
    JournalError,
    NotEndedError,
    OutputSlice,
    StreamConflictError,
    StreamInfo,
    Unsaid,
)
from tooltap.daemon.journal.json_lines import archive_lines
from tooltap.daemon.journal.nats.connection import AwayError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.state import State
from tooltap.daemon.journal.open import Place, open_journal
from tooltap.daemon.journal.sqlite import retention
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.journal.sqlite.file import connect
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.retention import Plan, expire_step, groups_to_delete, size_of_step
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import Message, OutputRef, SessionEvent, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.inputs import Line
from tooltap.protocol.replies import StreamState
from tooltap.protocol.stats import RetentionStatistics

pytestmark = pytest.mark.anyio

DAY = 24 * 3600 * 1000
NOW = 1_000 * DAY


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_only_old_ended_streams_expire(journal: Journal) -> None:
    for stream, state, updated in (
        ("old", "ended", NOW + 1),
        ("unended", "suspended", NOW + 1),
        ("older", "ended", NOW),
        ("recent", "ended", NOW + 50),
    ):
        body = OutputChunk(f"{stream}:1:o0", 0, b"x" * 1_000, "text/plain")
        one = commit(
            body,
            message(stream, stream, session=stream),
            call("1", stream, session=stream),
            stream=stream,
            state=state,
            updated=updated,
            tail=[Line(b"l")],
        )
        await journal.commit(one)

    events, _ = await journal.read(0)

    assert await journal.expire(NOW + 50) == 4

    left, looked = await journal.read(0)
    assert [decode(one.body).stream for one in left] == ["unended"] * 2 + ["recent"] * 2
    assert [one.seq for one in left] == [events[n].seq for n in (2, 3, 6, 7)]
    assert journal.oldest == left[0].seq
    assert [await journal.event(one.seq) for one in events] == [one if one in left else None for one in events]
    assert await journal.read_back(events[-1].seq, limit=10) == (left[2::-1], journal.oldest)
    assert events[5].seq <= journal.last_expired < left[2].seq < left[3].seq <= journal.latest == looked
    for stream, kept in (("old", False), ("older", False), ("unended", True), ("recent", True)):
        assert (await journal.output(f"{stream}:1:o0", 0, 1, "bytes") is not None) == kept
        stored = await journal.load_stream(stream)
        assert stored is not None
        assert stored.info.lines == 1
        assert bool(stored.tail) == kept
    assert [one["session"] for one in await journal.sessions()] == ["recent", "unended"]
    assert [one["stream"] for one in (await journal.open_calls())["calls"]] == ["unended"]
    assert await journal.expire(NOW + 50) == 0


async def test_a_read_beside_a_deletion_knows_what_it_misses(sqlite_journal: SqliteJournal) -> None:
    """The deletion is durable, and the event loop has not heard of it yet."""
    await sqlite_journal.commit(commit(*[message(str(number)) for number in range(5)], state="ended", updated=1))
    with closing(connect(sqlite_journal.path, "process")) as other:
        plan = Plan(groups_to_delete(other, before=2, max_bytes=None, pinned=()))
        other.execute("BEGIN IMMEDIATE")
        expire_step(other, plan, forget_before=0, max_bytes=None, budget=100, now=NOW)
        other.execute("COMMIT")

    assert await sqlite_journal.read(2) == ([], 5)
    assert sqlite_journal.last_expired == 5


@pytest.mark.parametrize("limit", [None, 1])
async def test_session_lives_until_all_its_streams_have_ended(journal: Journal, limit: int | None) -> None:
    """And so does one that shares a stream with it, whose stream has ended."""
    linked = {"first": ["a"], "second": ["a", "b"], "third": ["b", "c"], "open": ["c"]}
    for stream, sessions in linked.items():
        said = [message(name, stream, session=name) for name in sessions]
        state: StreamState = "open" if stream == "open" else "ended"
        await journal.commit(commit(*said, stream=stream, state=state, updated=NOW))

    assert await journal.expire(NOW + 50, limit) == 0
    assert {one["session"]: set(one["streams"]) for one in await journal.sessions()} == {
        "a": {"first", "second"},
        "b": {"second", "third"},
        "c": {"third", "open"},
    }
    await journal.commit(commit(stream="open", base=1, lines=0, state="ended", updated=NOW))
    assert await journal.expire(NOW + 50, limit) == 6
    assert await journal.sessions() == []


async def test_session_whose_deletion_is_interrupted_has_lost_its_first_event(
    sqlite_journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readers look for that one."""
    for stream in ("z", "a"):
        await sqlite_journal.commit(commit(message(stream, stream), stream=stream, state="ended", updated=NOW))
    monkeypatch.setattr(retention, "STEP", 1)
    fail(monkeypatch, "_shrink", lambda connection, stream, budget: stream == "a", TypeError("put in by the test"))

    assert await sqlite_journal.expire(0, 1) == 1
    (session,) = await sqlite_journal.sessions()
    assert (session["firstSeq"], session["streams"]) == (1, ["a"])
    assert not await sqlite_journal.is_stored(session["firstSeq"])


@pytest.mark.parametrize("begun", ["_mark", "_purge"])
async def test_deletion_of_a_session_that_is_interrupted_is_completed(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    journal = await NatsJournal.open(nats_place)
    try:
        for stream in ("a", "b"):
            await journal.commit(commit(message(stream, stream), stream=stream, state="ended", updated=NOW))
        usual, calls = getattr(Retention, begun), list[object]()

        async def interrupted(self: Retention, one: object) -> object:
            calls.append(one)
            if len(calls) == 2:
                raise JournalError("put in by the test")
            return await usual(self, one)

        with monkeypatch.context() as patch:
            patch.setattr(Retention, begun, interrupted)
            with pytest.raises(JournalError, match="put in by the test"):
                await journal.expire(0, 1)
        assert len(calls) == 2

        await journal.expire(0, 1_000_000)
        assert await streams_left(journal) == set()
        assert {one.expired for one in await journal.streams()} == {True}
    finally:
        await journal.close()


async def test_position_is_remembered_for_90_days(journal: Journal, clock: Clock) -> None:
    ended = clock.now
    await journal.commit(commit(message("a"), state="ended", updated=ended, lines=7, crc=5, crc_line=7))
    clock.now += 89 * DAY
    await journal.expire(clock.now)
    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.info.crc, stored.info.crc_line) == (7, 5, 7)

    clock.now += 2 * DAY
    await journal.expire(clock.now)
    assert await journal.load_stream("s") is None


async def test_session_of_a_store_does_not_expire_by_age(journal: Journal, clock: Clock) -> None:
    """Nor does what a tap has reported of it."""
    ended = clock.now
    for stream, followed in (("file", True), ("tap", False)):
        said = message(stream, stream, session=stream)
        await journal.commit(commit(said, stream=stream, state="ended", updated=ended, followed=followed))
    both = event(SessionEvent, "other", session="file", state="started")
    await journal.commit(commit(both, stream="other", state="ended", updated=ended))
    # A tap has reported all that this file has.
    said = message("all", "owner", session="covered")
    await journal.commit(commit(said, stream="owner", state="ended", updated=ended))
    covered = commit(stream="covered", state="ended", updated=ended, followed=True, session="covered")
    await journal.commit(covered)

    for days in (31, 91, 365):
        clock.now = ended + days * DAY
        assert await journal.expire(clock.now - 30 * DAY) == (1 if days == 31 else 0)
        assert await streams_left(journal) == {"file", "other", "owner"}
        assert [one["session"] for one in await journal.sessions()] == ["covered", "file"]
        stored = await journal.load_stream("file")
        assert stored is not None
        assert (stored.info.followed, stored.info.expired) == (True, False)

    # Its size is limited as that of all others. Its position is remembered: it is read again only if the user asks.
    assert await journal.expire(0, 1) == 3
    assert await journal.sessions() == []
    clock.now += 365 * DAY
    assert await journal.expire(clock.now, 1) == 0
    assert {one.stream: one.expired for one in await journal.streams()} == {"file": True, "covered": True}


async def test_age_is_that_of_the_latest_event_or_commit(journal: Journal) -> None:
    """A spool may be taken in long after its events happened; then its events are old, and have just been stored."""
    for stream, happened, updated in (("both", 1, 1), ("stored", 1, 3), ("happened", 3, 1)):
        said = message(stream, stream, session=stream, ts=NOW + happened * DAY)
        await journal.commit(commit(said, stream=stream, state="ended", updated=NOW + updated * DAY))

    assert await journal.expire(NOW + 2 * DAY) == 1
    assert await streams_left(journal) == {"stored", "happened"}


@pytest.mark.parametrize("pinned", [False, True])
async def test_long_journal_loses_first_what_happened_first(journal: Journal, pinned: bool) -> None:
    """A backfill reads the newest session first."""
    for days, session, streams in ((9, "new", ("n",)), (5, "middle", ("m", "m-agent")), (1, "old", ("o",))):
        for number, stream in enumerate(streams):
            texts = [message("x" * 10_000, stream, session=session, ts=NOW + days * DAY - number) for _ in range(100)]
            await journal.commit(
                commit(*texts, stream=stream, state="ended", updated=NOW + 10 * DAY - days, followed=True)
            )
    if pinned:
        await journal.pin("old", pinned=True)
    left = {"new", "old"} if pinned else {"new", "middle"}

    # 4 MB of text, each session as a whole.
    assert await journal.expire(0, 3_500_000) == (200 if pinned else 100)
    assert {one["session"] for one in await journal.sessions()} == left
    assert {one["session"]: one.get("pinned") for one in await journal.sessions()}["new"] is None
    assert await journal.expire(0, 2_500_000) == (0 if pinned else 200)
    assert await journal.expire(0, 1) == 100
    assert [(one["session"], one.get("pinned")) for one in await journal.sessions()] == [("old", True)] * pinned


async def fill_with_bodies(journal: Journal, size: int = 300_000) -> None:
    """Four sessions of one event with a body of `size` bytes each, the newest read first."""
    incompressible = Random(2)
    for days, name in ((8, "newest"), (6, "newer"), (4, "older"), (2, "oldest")):
        body = OutputChunk(f"{name}:1:o0", 0, incompressible.randbytes(size), "application/octet-stream")
        said = message(name, name, session=name, ts=NOW + days * DAY)
        await journal.commit(commit(body, said, stream=name, state="ended", updated=NOW + 9 * DAY - days, lines=1))


def used(journal: SqliteJournal) -> int:
    """Bytes of the file in use, as retention counts them."""
    with closing(connect(journal.path, "process")) as other:
        pages, free, size = (
            other.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


async def bodies_left(journal: Journal) -> set[str]:
    names = ("newest", "newer", "older", "oldest")
    return {name for name in names if await journal.output(f"{name}:1:o0", 0, 1, "bytes") is not None}


@pytest.mark.parametrize("pinned", [False, True])
async def test_bodies_of_the_older_half_go_before_any_event(sqlite_journal: SqliteJournal, pinned: bool) -> None:
    journal = sqlite_journal
    await fill_with_bodies(journal)
    if pinned:
        await journal.pin("oldest", pinned=True)

    assert await journal.expire(0, used(journal) - 200_000) == 0
    assert await bodies_left(journal) == {"newest", "newer", "oldest" if pinned else "older"}
    assert await journal.expire(0, used(journal) - 200_000) == 0
    assert await bodies_left(journal) == {"newest", "oldest" if pinned else "newer"}
    assert len((await journal.read(0))[0]) == 4

    assert await journal.expire(0, 1) == (3 if pinned else 4)
    left = {"oldest"} if pinned else set()
    assert {one["session"] for one in await journal.sessions()} == left == await bodies_left(journal)


async def test_newer_half_keeps_its_bodies_until_the_older_sessions_are_gone(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    await fill_with_bodies(journal)
    assert await journal.expire(0, used(journal) - 500_000) == 0
    assert await bodies_left(journal) == {"newest", "newer"}

    assert await journal.expire(0, used(journal) - 200_000) == 3
    assert {one["session"] for one in await journal.sessions()} == {"newest"} == await bodies_left(journal)


EXPIRE = """
import sys
from pathlib import Path
import anyio
from tooltap.daemon.journal.sqlite.journal import SqliteJournal

async def expire():
    journal = await SqliteJournal.open(Path(sys.argv[1]))
    await journal.expire(0, int(sys.argv[2]))

anyio.run(expire)
"""


@pytest.mark.parametrize("nth", [1, 2])
async def test_kill_9_during_removal_of_bodies_loses_nothing_else(sqlite_journal: SqliteJournal, nth: int) -> None:
    size = 12_000_000  # so much that a step deletes one body
    await fill_with_bodies(sqlite_journal, size)
    before, bound = (await sqlite_journal.read(0))[0], used(sqlite_journal) - 15_000_000
    path = sqlite_journal.path
    await sqlite_journal.close()

    environment = {**os.environ, "TOOLTAP_FAILPOINT": f"before-deletion:{nth}"}
    killed = await anyio.run_process(
        [sys.executable, "-c", EXPIRE, str(path), str(bound)], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    assert not list(check_file(path))
    journal = await SqliteJournal.open(path)
    try:
        assert (journal.removed.size.bodies, journal.removed.size.bytes) == (nth - 1, (nth - 1) * size)
        left = await bodies_left(journal)
        assert left == {"newest", "newer", "older"} | ({"oldest"} if nth == 1 else set())
        for name in left:
            assert len(await whole_body(journal, f"{name}:1:o0")) == size
        assert await journal.expire(0, bound) == 0
        assert await bodies_left(journal) == {"newest", "newer"}
        assert (await journal.read(0))[0] == before
        assert (journal.removed.size.bodies, journal.removed.size.bytes) == (2, 2 * size)
    finally:
        await journal.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_kill_9_during_deletion_counts_nothing_twice(sqlite_journal: SqliteJournal, nth: int) -> None:
    events = [message("x", "old", session="old", ts=NOW + number) for number in range(1_200)]  # steps of 500
    await sqlite_journal.commit(commit(*events, stream="old", state="ended", updated=NOW))
    path = sqlite_journal.path
    await sqlite_journal.close()

    environment = {**os.environ, "TOOLTAP_FAILPOINT": f"before-deletion:{nth}"}
    killed = await anyio.run_process([sys.executable, "-c", EXPIRE, str(path), "1"], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    journal = await SqliteJournal.open(path)
    try:
        assert 1_200 - len((await journal.read(0, max_bytes=10_000_000))[0]) == journal.removed.size.events
        await journal.expire(0, 1)
        gone = journal.removed.size
        assert (gone.sessions, gone.events, gone.bytes) == (1, 1_200, sum(len(one.body) for one in events))
        assert (gone.oldest, gone.newest) == (NOW, NOW + 1_199)
    finally:
        await journal.close()


def stated(logs: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What the log says of runs of retention."""
    found = [one for one in logs if one["event"].startswith("retention has removed")]
    return [tuple(one[key] for key in ("setting", "sessions", "events", "bodies", "oldest", "newest")) for one in found]


async def test_run_of_retention_says_what_it_removed(journal: Journal) -> None:
    for number, name in enumerate(("old", "older", "recent")):
        said = [message(name, name, session=name, ts=1_000 * (number + more)) for more in (1, 2)]
        await journal.commit(commit(*said, stream=name, state="ended", updated=NOW + number))

    with capture_logs() as logs:
        assert await journal.expire(NOW + 2) == 4
        assert await journal.expire(NOW + 2) == 0
    assert stated(logs) == [("retention_days", 2, 4, 0, "1970-01-01T00:00:01Z", "1970-01-01T00:00:03Z")]
    with capture_logs() as logs:
        assert await journal.expire(0, 1) == 2
    assert stated(logs) == [("retention_bytes", 1, 2, 0, "1970-01-01T00:00:03Z", "1970-01-01T00:00:04Z")]

    by_age, by_size = journal.removed.age, journal.removed.size
    assert (by_age.sessions, by_age.events, by_age.oldest, by_age.newest) == (2, 4, 1_000, 3_000)
    assert (by_size.sessions, by_size.events, by_size.oldest, by_size.newest) == (1, 2, 3_000, 4_000)
    assert (by_age.at, by_size.at, journal.removed.size_limit) == (NOW, NOW, 1)


async def test_what_was_removed_is_known_to_the_next_daemon(place: Place) -> None:
    journal = await open_journal(place, "process")
    await journal.commit(commit(message("old"), state="ended", updated=1))
    assert await journal.expire(2) == 1
    removed = journal.removed
    await journal.close()

    again = await open_journal(place, "process")
    assert again.removed == removed
    assert (removed.age.sessions, removed.age.events) == (1, 1)
    await again.close()


@pytest.mark.parametrize("is_stored", [False, True])
async def test_answer_that_is_lost_counts_nothing_twice(
    nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    usual = State.put_note
    lost = 1

    async def put_note(self: State, name: str, data: bytes) -> None:
        nonlocal lost
        if not lost or is_stored:
            await usual(self, name, data)
        if lost:
            lost -= 1
            raise AwayError("put in by the test")

    journal = await NatsJournal.open(nats_place)
    try:
        monkeypatch.setattr(State, "put_note", put_note)
        await journal.commit(commit(message("old"), state="ended", updated=1))
        assert await journal.expire(2) == 1
        assert not lost
        assert (journal.removed.age.sessions, journal.removed.age.events) == (1, 1)
    finally:
        await journal.close()


async def test_removed_bodies_are_counted_once(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    await fill_with_bodies(journal)
    said = sum(len(one.body) for one in (await journal.read(0))[0])
    with capture_logs() as logs:
        await journal.expire(0, used(journal) - 200_000)
    assert stated(logs) == [("retention_bytes", 0, 0, 1, *2 * ["1972-09-29T00:00:00Z"])]
    gone = journal.removed.size
    assert (gone.sessions, gone.events, gone.bodies, gone.bytes) == (0, 0, 1, 300_000)

    await journal.expire(0, 1)
    gone = journal.removed.size
    assert (gone.sessions, gone.events, gone.bodies, gone.bytes) == (4, 4, 4, 4 * 300_000 + said)


async def test_removed_session_is_not_counted(journal: Journal) -> None:
    await journal.commit(commit(message("a"), state="ended"))
    assert await journal.remove_session("session-1") == 1
    await journal.expire(NOW)
    assert journal.removed == RetentionStatistics()


async def test_archive_names_the_bodies_that_were_removed(sqlite_journal: SqliteJournal) -> None:
    piece = OutputChunk("s:1:o0", 0, Random(3).randbytes(300_000), "text/plain")
    said = result("1", outputs={"/output/stdout": reference(piece)})
    await sqlite_journal.commit(commit(piece, said, state="ended", lines=1))
    assert await sqlite_journal.expire(0, used(sqlite_journal) - 100_000) == 0

    lines = [line async for line in archive_lines(sqlite_journal)]

    last = orjson.loads(lines[-1])
    assert last == {
        "op": "output",
        "outputId": "s:1:o0",
        "offset": 0,
        "error": "removed",
        "removed": {"line": 1, "at": last["removed"]["at"], "limit": last["removed"]["limit"]},
    }


async def test_imported_journal_knows_which_bodies_were_removed_before(
    sqlite_journal: SqliteJournal, tmp_path: Path
) -> None:
    """Also after it was opened again; what it has removed itself is not counted for that."""
    pieces = [OutputChunk(f"s:{line}:o0", 0, Random(line).randbytes(300_000), "text/plain") for line in (1, 2)]
    for line, piece in enumerate(pieces, 1):
        said = result(str(line), line=line, outputs={"/output/stdout": reference(piece)})
        state: dict[str, Any] = {"state": "ended"} if line == len(pieces) else {}
        await sqlite_journal.commit(commit(said, piece, base=line - 1, **state))
    await sqlite_journal.expire(0, used(sqlite_journal) - 100_000)
    names = [piece.output_id for piece in pieces]
    gone = await sqlite_journal.removed_bodies(names)
    assert list(gone) == names[:1]
    lines = [line.removesuffix(b"\n") async for line in archive_lines(sqlite_journal)]

    place = tmp_path / "other.db"
    for is_first in (True, False):
        other = await SqliteJournal.open(place)
        try:
            if is_first:
                await Importer(other, lambda number, why: pytest.fail(f"{number}: {why}")).read(lines)
                await other.listen()
            assert await other.removed_bodies([*names, "s:9:o0"]) == gone
            assert other.removals
            assert other.removed == RetentionStatistics()
            assert (await other.output(names[1], 0, 1, "bytes")) is not None
        finally:
            await other.close()


async def test_archives_without_the_note_are_read(sqlite_journal: SqliteJournal) -> None:
    """Those of earlier versions, and notes of later ones."""
    lines = [
        b'{"op":"output","outputId":"s:1:o0","offset":0,"error":"removed"}',
        b'{"op":"output","outputId":"s:1:o0","offset":0,"error":"removed","removed":{"line":1,"at":2,"limit":3,"by":"x"}}',
    ]
    unread: list[int] = []
    await Importer(sqlite_journal, lambda number, _: unread.append(number)).read(lines)
    assert unread == []


async def test_pinned_session_is_kept_until_it_is_unpinned_or_removed(journal: Journal) -> None:
    for session in ("a", "b", "c"):
        said = message(session, session, session=session)
        await journal.commit(commit(said, stream=session, state="ended", updated=NOW))
        await journal.pin(session, pinned=True)
    assert await journal.pinned() == {"a", "b", "c"}
    await journal.pin("b", pinned=False)

    assert await journal.expire(NOW + DAY, 1) == 1
    assert [one["session"] for one in await journal.sessions()] == ["c", "a"]
    assert await journal.remove_session("a") == 1
    assert await journal.pinned() == {"c"}


async def test_expired_stream_is_forgotten_and_begins_again(journal: Journal) -> None:
    body = OutputChunk("gone:1:o0", 0, b"long", "text/plain")
    for stream in ("gone", "there"):
        made = commit(message("a", stream, session=stream), stream=stream, state="ended", followed=True)
        await journal.commit(made._replace(outputs=[*made.outputs, body]) if stream == "gone" else made)
        if stream == "gone":
            assert await journal.output("gone:1:o0", 0, 9, "bytes") == OutputSlice(b"long", 0, 4, "text/plain")
            assert await journal.expire(0, 1) == 1
    assert not await journal.forget_expired("there")
    assert not await journal.forget_expired("unknown")
    assert await journal.forget_expired("gone")
    assert await journal.load_stream("gone") is None

    await journal.commit(commit(message("a", "gone", session="gone"), body, stream="gone", followed=True))
    assert await journal.output("gone:1:o0", 2, 9, "bytes") == OutputSlice(b"ng", 2, 4, "text/plain")
    assert [(one["session"], one["events"]) for one in await journal.sessions()] == [("gone", 1), ("there", 1)]


async def test_reopened_stream_does_not_expire(journal: Journal) -> None:
    await journal.commit(commit(message("a"), state="ended", updated=NOW))
    await journal.expire(NOW + 50)
    stored = await journal.load_stream("s")
    assert stored is not None
    position = stored.info.position
    await journal.commit(commit(message("b"), base=1, state="open", updated=NOW + 60, position=position))

    assert await journal.expire(NOW + 100) == 0
    (left,) = (await journal.read(0))[0]
    assert journal.last_expired < left.seq == journal.oldest


@pytest.mark.parametrize("deletes", ["expire", "remove_session"])
async def test_stream_that_was_loaded_before_its_deletion_continues_with_a_snapshot(
    journal: Journal, deletes: str
) -> None:
    await journal.commit(commit(message("a"), state="ended", updated=NOW, tail=[Line(b"a")]))
    stored = await journal.load_stream("s")
    assert stored is not None
    position = stored.info.position
    assert await (journal.expire(NOW + 50) if deletes == "expire" else journal.remove_session("session-1")) == 1

    await journal.commit(commit(message("b"), base=1, state="open", position=position, snapshot=b"of b"))
    await journal.commit(commit(message("c"), base=2, state="open", position=position, tail=[Line(b"c")]))

    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.info.expired) == (3, False)
    assert (stored.snapshot, stored.snapshot_lines, stored.tail) == (b"of b", 2, [Line(b"c")])
    assert [(one["session"], one["events"]) for one in await journal.sessions()] == [("session-1", 2)]


async def test_file_that_was_open_when_its_stream_was_deleted_is_to_be_read_again(journal: Journal) -> None:
    await journal.commit(commit(message("a"), state="ended", updated=NOW, followed=True))
    stored = await journal.load_stream("s")
    assert stored is not None
    assert await journal.expire(0, 1) == 1

    with pytest.raises(StreamConflictError):
        await journal.commit(
            commit(message("b"), base=1, position=stored.info.position, snapshot=b"of b", followed=True)
        )

    assert (await journal.read(0))[0] == []
    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.info.expired) == (1, True)
    # Whoever loads it now may continue it: another stream has its session.
    await journal.commit(
        commit(message("b"), base=1, position=stored.info.position, snapshot=b"of b", followed=True, expired=True)
    )
    assert len((await journal.read(0))[0]) == 1


async def test_retention_frees_space(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    incompressible = Random(1)
    for line in range(20):
        body = OutputChunk(f"s:{line}:o0", 0, incompressible.randbytes(300_000), "application/octet-stream")
        await journal.commit(commit(body, message("m" * 50_000), base=line, state="ended", updated=NOW))
    await journal.close()
    full = journal.path.stat().st_size
    assert full > 6_000_000

    journal = await SqliteJournal.open(journal.path, clock=lambda: NOW)
    await journal.expire(NOW + 50)
    await journal.close()

    assert journal.path.stat().st_size < full / 10


async def test_bytes_of_bodies_are_stored_once_and_compressed(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    same = "".join(f"{number} green bottles\n" for number in range(20_000)).encode()

    def contents() -> list[tuple[int, int, int]]:
        with closing(connect(journal.path, "process")) as database:
            found = "SELECT uses, size, length(data) FROM contents ORDER BY id"
            return database.execute(found).fetchall()

    for stream in ("s", "t"):
        body = OutputChunk(f"{stream}:1:o0", 0, same, "text/plain")
        named = message("m", stream, session=stream, outputs={"/text": reference(body)})
        await journal.commit(commit(body, named, stream=stream, state="ended", updated=NOW))
    assert [(uses, size) for uses, size, _ in contents()] == [(2, 262_144), (2, len(same) - 262_144)]
    assert sum(length for _, _, length in contents()) < len(same) / 3

    await journal.remove_session("s")
    assert [uses for uses, _, _ in contents()] == [1, 1]
    assert await whole_body(journal, "t:1:o0") == same
    assert await journal.output("s:1:o0", 0, 1, "bytes") is None
    await journal.expire(NOW + 1)
    assert contents() == []


async def whole_body(journal: Journal, output_id: str) -> bytes:
    found, total = b"", 1
    while len(found) < total:
        part = await journal.output(output_id, len(found), 100_000, "bytes")
        assert part is not None
        found, total = found + part.data, part.total
    return found


def reference(body: OutputChunk) -> OutputRef:
    return OutputRef(output_id=body.output_id, bytes=len(body.data), lines=1, mime_type=body.mime_type)


async def test_names_are_forgotten_with_their_events(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal

    async def names() -> tuple[list[str], list[str]]:
        with closing(connect(journal.path, "process")) as connection:
            sources = connection.execute("SELECT stream || '/' || session FROM sources ORDER BY 1").fetchall()
            labels = connection.execute("SELECT coalesce(tool, kind) FROM labels ORDER BY 1").fetchall()
        return [name for (name,) in sources], [name for (name,) in labels]

    for stream, tool in (("s", "Old"), ("t", "Both"), ("u", "Both"), ("v", "New")):
        outputs = [call("1", stream, name=tool, session=stream), message("m", stream, session=f"{stream}2")]
        await journal.commit(commit(*outputs, stream=stream, state="ended", updated=NOW))
    assert await names() == (
        ["s/s", "s/s2", "t/t", "t/t2", "u/u", "u/u2", "v/v", "v/v2"],
        ["Both", "New", "Old", "message"],
    )

    await journal.remove_session("s")
    assert await names() == (["s/s2", "t/t", "t/t2", "u/u", "u/u2", "v/v", "v/v2"], ["Both", "New", "message"])
    await journal.remove_session("t")
    await journal.remove_session("t2")
    assert await names() == (["s/s2", "u/u", "u/u2", "v/v", "v/v2"], ["Both", "New", "message"])
    await journal.expire(NOW + 1)
    assert await names() == ([], ["message"])

    await journal.commit(commit(call("1", "w", name="Both", session="w"), stream="w"))
    assert [one.seq for one in (await journal.read(0, Filter(tool=("Both",))))[0]] == [journal.latest]


# -- by size ------------------------------------------------------------------------------------------------------


async def test_long_journal_loses_the_stream_that_ended_first(journal: Journal) -> None:
    for stream, state, updated in (("first", "ended", NOW), ("open", "open", NOW), ("last", "ended", NOW + 1)):
        texts = [message(f"{number}".ljust(10_000), stream, session=stream) for number in range(200)]
        await journal.commit(commit(*texts, stream=stream, state=state, updated=updated))

    assert await journal.expire(0, 10_000_000) == 0
    assert journal.statistics()["bytes"] > 6_000_000
    assert await journal.expire(0, 5_000_000) == 200
    assert await streams_left(journal) == {"open", "last"}
    assert await journal.expire(0, 1) == 200
    assert await streams_left(journal) == {"open"}


async def streams_left(journal: Journal) -> set[str]:
    after, found = 0, set[str]()
    while after < journal.latest:
        events, after = await journal.read(after)
        found |= {decode(one.body).stream for one in events}
    return found


async def test_commits_continue_during_deletion(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    await journal.commit(commit(*[message("m")] * 20_000, state="ended", updated=NOW))
    over: list[str] = []

    async def delete() -> None:
        assert await journal.expire(NOW + 50) == 20_000
        over.append("deleted")

    async def write() -> None:
        for line in range(10):
            await journal.commit(commit(message("new", "t", session="new"), stream="t", base=line, updated=NOW))
        over.append("written")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(delete)
        tasks.start_soon(write)
    assert over == ["written", "deleted"]


# -- by name ------------------------------------------------------------------------------------------------------


async def test_deletion_outpaces_what_arrives() -> None:
    assert size_of_step(0) > 0
    assert size_of_step(3_000) == 6_000
    assert size_of_step(10**9) == size_of_step(10**6)


async def test_removed_session_leaves_only_positions(journal: Journal) -> None:
    body = OutputChunk("s:1:o0", 0, b"secret" * 100_000, "text/plain")
    named = event(SessionEvent, session="removed", state="started", alias="before")
    tail = [Line(b"secret")]
    await journal.commit(commit(message("secret", session="before"), body, named, state="ended", lines=3, tail=tail))
    await journal.commit(commit(message("kept", "t", session="kept"), stream="t", tail=tail))

    assert await journal.remove_session("removed") == 2

    assert await streams_left(journal) == {"t"}
    assert [one["session"] for one in await journal.sessions()] == ["kept"]
    assert await journal.output("s:1:o0", 0, 10, "bytes") is None
    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.tail) == (3, [])
    (left,) = (await journal.read(0))[0]
    assert 0 < journal.last_expired < left.seq
    assert await journal.remove_session("removed") == 0


SAID: dict[str, Any] = {
    "prompt": "secret",
    "prompts": [("s:1:0", "secret")],
    "pending_displays": ["secret"],
    "rewriting": {"secret": "daemon"},
    "repeated": ["secret"],
    "unsaid": [Unsaid("1", "Bash", "s", [], ["secret"])],
    "own_calls": {"secret": "s:1:0"},
    "shared_ids": ["secret"],
    "answers": {"1": Dispatch(id="1", what="answer", session="s", by="secret", ts=1, frame=None)},
    "sent": {"1": Dispatch(id="1", what="prompt", session="s", by="secret", ts=1, frame=None)},
}
POSITION = {
    *("stream", "asked_dialect", "dialect", "provider", "session", "agent", "parent", "mcp_servers", "state", "lines"),
    *("crc", "crc_line", "ids", "last_session", "agent_version", "first_t", "last_t", "started", "cwd", "roles"),
    *("begins", "followed", "path", "head", "copied", "missing_at", "last_reported_ts", "left_out", "restored"),
    *("unsettled", "daemon", "takes_answers", "told", "statistics", "updated", "expired", "forgotten"),
    *("position", "remote"),
}


@pytest.mark.parametrize("deletes", ["expire", "remove_session"])
async def test_position_of_a_deleted_stream_says_nothing_of_its_lines(journal: Journal, deletes: str) -> None:
    await journal.commit(commit(message("a"), state="ended", updated=NOW, crc=7, path="/a", **SAID))
    assert await (journal.expire(NOW + 50) if deletes == "expire" else journal.remove_session("session-1")) == 1

    stored = await journal.load_stream("s")
    assert stored is not None
    assert b"secret" not in msgspec.json.encode(stored.info)
    assert (stored.info.lines, stored.info.crc, stored.info.path) == (1, 7, "/a")


def test_each_fact_of_a_stream_is_known_to_outlive_its_lines_or_not() -> None:
    assert SAID.keys() | POSITION == set(StreamInfo.__struct_fields__)
    assert not SAID.keys() & POSITION


async def test_removal_spares_the_other_session_of_a_stream(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    mine, theirs = (OutputChunk(f"s:{line}:o0", 0, b"x" * 300_000, "text/plain") for line in (1, 2))
    removed = result("a", session="removed", output={"content": "x", "outputId": "s:1:o0"})
    kept = result("b", session="kept", output={"content": "x", "outputId": "s:2:o0"})
    await journal.commit(commit(mine, removed, theirs, kept, state="ended", tail=[Line(b"l")], **SAID))

    assert await journal.remove_session("removed") == 1

    ((_, body),) = (await journal.read(0))[0]
    assert decode(body).session == "kept"
    assert await journal.output("s:1:o0", 0, 10, "bytes") is None
    assert await journal.output("s:2:o0", 0, 10, "bytes") is not None
    stored = await journal.load_stream("s")
    assert stored is not None
    assert stored.tail == []
    assert b"secret" not in msgspec.json.encode(stored.info)
    assert journal.statistics()["damages"] == 0


async def test_removal_takes_what_is_stored_under_an_earlier_id(sqlite_journal: SqliteJournal) -> None:
    """And nothing of the other session of the stream, which had the same id."""
    journal = sqlite_journal
    for base, name in enumerate(("first", "second", "third")):
        late: dict[str, Any] = {"line": base + 1, "session": name}
        await journal.commit(
            commit(
                message(f"early {name}", line=base + 1, session="early"),
                event(SessionEvent, index=1, state="updated", alias="early", **late),
                message(f"late {name}", index=2, **late),
                base=base,
                state="ended",
            )
        )

    assert await journal.remove_session("second") == 3

    left = [decode(one.body) for one in (await journal.read(0))[0]]
    said = [one.text for one in left if isinstance(one, Message)]
    assert said == ["early first", "late first", "early third", "late third"]


async def test_new_session_of_a_removed_name_starts_at_zero(journal: Journal) -> None:
    await journal.commit(commit(message("a"), call("1"), state="ended", updated=NOW))
    await journal.remove_session("session-1")
    await journal.commit(commit(message("b", "t"), stream="t"))

    (session,) = await journal.sessions()
    assert (session["events"], session["calls"], session["streams"]) == (1, 0, ["t"])


@pytest.mark.parametrize("state", ["open", "suspended"])
async def test_unended_session_is_not_removed(journal: Journal, state: StreamState) -> None:
    await journal.commit(commit(message("a"), state=state))
    with pytest.raises(NotEndedError, match=f"session session-1 has not ended: its stream s is {state}"):
        await journal.remove_session("session-1")
    assert await streams_left(journal) == {"s"}
