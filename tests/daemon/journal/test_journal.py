"""Every journal: what is committed is there, in order, entirely or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.interface import (
    Committed,
    Journal,
    JournalError,
    StoredEvent,
    StreamConflictError,
    TailRecord,
)
from tooltap.daemon.journal.slices import MAX_SLICE
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent, ToolUpdate, Usage, decode
from tooltap.protocol.filters import Filter, meta_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


@pytest.fixture
async def sqlite_journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = await SqliteJournal.open(path)
    yield journal
    await journal.close()


async def numbers(journal: Journal) -> dict[int | None, int]:
    """`seq` of each event -> its number, as each journal chooses its own `seq`."""
    return {one.seq: number for number, one in enumerate(await everything(journal), 1)}


async def until_published(journal: Journal) -> None:
    """Wait for `on_commit`, which may come later."""
    await journal.listen()


def texts(events: list[StoredEvent]) -> list[str]:
    return [orjson.loads(one.body)["text"] for one in events]


async def everything(journal: Journal, wanted: Filter | None = None) -> list[StoredEvent]:
    events: list[StoredEvent] = []
    after = 0
    while after < journal.latest:
        found, after = await journal.read(after, wanted, max_bytes=1_000)
        events += found
    return events


# -- events -------------------------------------------------------------------------------------------------------


async def test_new_journal_is_empty(journal: Journal) -> None:
    assert (journal.oldest, journal.latest, journal.expired) == (1, 0, 0)
    assert await journal.read(0) == ([], 0)


async def test_events_are_read_in_order(journal: Journal) -> None:
    await journal.commit(commit(message("a"), message("b")))
    await journal.commit(commit(message("c"), base=1))

    events, looked = await journal.read(0)

    first, second, third = [one.seq for one in events]
    assert 0 < first < second < third <= looked == journal.latest
    assert texts(events) == ["a", "b", "c"]
    assert await journal.read(first, up_to=second) == (events[1:2], second)
    assert await journal.event(second) == events[1]
    assert await journal.event(third + 1) is None
    assert await journal.event(third + 10_000) is None


async def test_read_is_bounded_but_returns_one_event(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    await journal.commit(commit(*(message("x" * 300) for _ in range(5))))

    assert [one.seq for one in (await journal.read(0, max_bytes=1))[0]] == [1]
    events, looked = await journal.read(1, max_bytes=800)
    assert [one.seq for one in events] == [2, 3]
    assert looked == 3


async def test_filter_is_or_within_and_between_keys(journal: Journal) -> None:
    await journal.commit(commit(message("m"), call("1"), call("2", name="Read", agent="child")))
    await journal.commit(commit(message("other"), call("3", stream="t"), stream="t"))

    number = await numbers(journal)

    async def seqs(**keys: tuple[str, ...]) -> list[int]:
        wanted = Filter(**keys)
        events = await everything(journal, wanted)
        assert all(wanted.matches(meta_of(decode(one.body))) for one in events)
        return [number[one.seq] for one in events]

    assert await seqs(kind=("tool-call",)) == [2, 3, 5]
    assert await seqs(tool=("Bash", "Read")) == [2, 3, 5]
    assert await seqs(tool=("sh",), stream=("t",)) == [5]
    assert await seqs(agent=("child",)) == [3]
    assert await seqs(session=("nobody",)) == []


async def test_filter_without_match_needs_one_read(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.reader.WINDOW", 3)
    await journal.commit(commit(*(message(str(n)) for n in range(10)), call("1")))

    (found,), _ = await journal.read(0, Filter(kind=("tool-call",)))
    assert (await numbers(journal))[found.seq] == 11
    assert await journal.read(0, Filter(kind=("usage",))) == ([], journal.latest)


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        Filter(),
        Filter(kind=("tool-call",)),
        Filter(stream=("s",)),
        Filter(session=("session-2",), kind=("message",)),
        Filter(kind=("usage",)),
    ],
    ids=["all", "empty", "kind", "stream", "session", "nothing"],
)
@pytest.mark.parametrize(("limit", "max_bytes"), [(1, 10_000), (3, 10_000), (100, 10_000), (100, 700), (100, 1)])
async def test_reading_back_returns_the_same_events(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, wanted: Filter | None, limit: int, max_bytes: int
) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.reader.WINDOW", 3)
    monkeypatch.setattr("tooltap.daemon.journal.nats.read.WINDOW", 1)
    for line in range(4):
        await journal.commit(commit(message(f"s{line}"), call(f"{line}"), message("x" * 300), base=line))
        other = message(f"t{line}", "t", session="session-2")
        await journal.commit(commit(other, call(f"{line}", "t"), stream="t", base=line))

    found: list[StoredEvent] = []
    before = 2**63 - 1
    while before > journal.oldest:
        page, looked = await journal.read_back(before, wanted, limit=limit, max_bytes=max_bytes)
        assert len(page) <= limit
        assert sum(len(one.body) for one in page[:-1]) < max_bytes
        assert all(looked <= one.seq < before for one in page)
        assert page or looked <= journal.oldest
        found += page
        before = looked

    assert found == (await everything(journal, wanted))[::-1]
    assert await journal.read_back(before, wanted, limit=1) == ([], before)


async def test_reading_back_in_a_new_journal_ends_at_once(journal: Journal) -> None:
    assert await journal.read_back(1, limit=1) == ([], 1)
    assert await journal.read_back(2**63 - 1, Filter(kind=("usage",)), limit=1) == ([], 1)


async def test_commits_are_published_in_order(journal: Journal) -> None:
    published: list[Committed] = []
    journal.on_commit = published.extend
    piece = OutputChunk("s:1:o0", 0, b"body", "text/plain")
    partial = message("pre", partial=True)

    await journal.commit(commit(piece, partial, message("final")))
    await until_published(journal)

    (final,) = await everything(journal)
    assert [one.seqs for one in published] == [[None, None, final.seq]]
    assert texts([final]) == ["final"]


async def test_many_streams_at_once_lose_nothing(journal: Journal) -> None:
    seqs: list[int | None] = []
    journal.on_commit = lambda committed: seqs.extend(seq for one in committed for seq in one.seqs)

    async def publish(stream: str) -> None:
        for line in range(20):
            await journal.commit(commit(message(f"{stream}-{line}", stream), stream=stream, base=line))

    await asyncio.gather(*(publish(f"s{n}") for n in range(20)))

    await until_published(journal)
    assert seqs == [one.seq for one in await everything(journal)]
    statistics = journal.statistics()
    assert statistics["commits"] == statistics["events"] == len(seqs) == 400
    if isinstance(journal, SqliteJournal):
        assert statistics["transactions"] < 400
    own = await everything(journal, Filter(stream=("s7",)))
    assert texts(own) == [f"s7-{line}" for line in range(20)]


async def test_seq_is_never_reused(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("a"), message("b"), state="ended", updated=1))
    assert await journal.expire(10) == 2
    assert (journal.oldest, journal.latest, journal.expired) == (3, 2, 2)
    await journal.close()

    journal = await SqliteJournal.open(path)
    assert (journal.oldest, journal.latest, journal.expired) == (3, 2, 2)
    await journal.commit(commit(message("c", "t"), stream="t"))
    assert (journal.oldest, journal.latest) == (3, 3)
    await journal.close()


# -- streams ------------------------------------------------------------------------------------------------------


async def test_conflicting_commit_is_refused_alone(journal: Journal) -> None:
    await journal.commit(commit(message("a"), lines=3))

    results = await asyncio.gather(
        journal.commit(commit(message("t", "t"), stream="t")),
        journal.commit(commit(message("wrong"), base=1)),
        journal.commit(commit(message("u", "u"), stream="u")),
        return_exceptions=True,
    )

    assert [type(one) for one in results] == [type(None), StreamConflictError, type(None)]
    assert texts(await everything(journal)) == ["a", "t", "u"]


async def test_unstorable_commit_is_refused_alone(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    too_large_for_sqlite = 2**63

    results = await asyncio.gather(
        journal.commit(commit(message("t", "t"), stream="t")),
        journal.commit(commit(message("wrong"), lines=too_large_for_sqlite)),
        journal.commit(commit(message("u", "u"), stream="u")),
        return_exceptions=True,
    )

    assert [type(one) for one in results] == [type(None), JournalError, type(None)]
    events = await everything(journal)
    assert (texts(events), [one.seq for one in events]) == (["t", "u"], [1, 2])
    assert await journal.load_stream("s") is None


async def test_snapshot_replaces_the_tail(journal: Journal) -> None:
    lines = [TailRecord("line", t=1, direction="out", line=b"one"), TailRecord("lost", size=5, lines=2, reason="full")]
    await journal.commit(commit(lines=3, tail=lines, session="x", asked_dialect="acp"))
    await journal.commit(commit(base=3, tail=[TailRecord("long", line=b"head", size=10**9)], session="x"))

    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.info.lines, stored.info.session, stored.snapshot, stored.snapshot_lines) == (4, "x", None, 0)
    assert stored.tail == [*lines, TailRecord("long", line=b"head", size=10**9)]

    await journal.commit(commit(base=4, tail=lines, snapshot=b"state"))
    stored = await journal.load_stream("s")
    assert stored is not None
    assert (stored.snapshot, stored.snapshot_lines, stored.tail) == (b"state", 5, [])
    assert await journal.load_stream("unknown") is None


async def test_lines_of_a_chunk_are_one_record(journal: Journal) -> None:
    block = TailRecord("block", t=1, direction="out", block=[b"one", b"", b"a\nb"], left_out_of=[1])
    await journal.commit(commit(lines=3, tail=[block]))

    stored = await journal.load_stream("s")
    assert stored is not None
    assert stored.tail == [block]


async def test_restart_suspends_open_streams(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    for stream, state in (("a", "open"), ("b", "ended"), ("c", "suspended")):
        await journal.commit(commit(stream=stream, state=state, updated=5))
    await journal.close()

    journal = await SqliteJournal.open(path, clock=lambda: 77)
    assert await journal.suspend_all() == 1
    assert [(one.stream, one.updated) for one in await journal.streams("suspended")] == [("a", 77), ("c", 5)]
    assert [(one.stream, one.state) for one in await journal.streams()] == [
        ("a", "suspended"),
        ("c", "suspended"),
        ("b", "ended"),
    ]
    assert [one.stream for one in await journal.streams(limit=1)] == ["a"]
    assert (await journal.count_streams("ended"), await journal.count_streams("open", "suspended")) == (1, 2)
    await journal.close()


# -- what is derived ----------------------------------------------------------------------------------------------


async def test_calls_are_open_until_their_result(journal: Journal) -> None:
    await journal.commit(commit(call("1", preview="ls"), call("2"), call("old", replay=True)))
    update = event(ToolUpdate, call_id="1", name="Bash", status="awaiting-permission", title="List")
    ask = event(PermissionRequest, permission_id="p", type="permission", call_id="1", name="Bash")
    await journal.commit(commit(update, ask, result("2", async_=True), base=1))

    found = await journal.open_calls("session-1")
    first, second, *_ = [one.seq for one in await everything(journal)]
    assert found["calls"] == [
        {
            "stream": "s",
            "session": "session-1",
            "seq": first,
            "callId": "1",
            "name": "Bash",
            "rawToolName": "sh",
            "status": "awaiting-permission",
            "title": "List",
            "preview": "ls",
        },
        {
            "stream": "s",
            "session": "session-1",
            "seq": second,
            "callId": "2",
            "name": "Bash",
            "rawToolName": "sh",
            "status": "running",
        },
    ]
    assert [one["permissionId"] for one in found["permissions"]] == ["p"]
    assert await journal.open_calls(stream="other") == {"calls": [], "permissions": []}

    answer = event(PermissionResponse, permission_id="p", outcome="allowed")
    await journal.commit(commit(answer, result("1"), result("2", final=True), base=2))
    assert await journal.open_calls() == {"calls": [], "permissions": []}


async def test_session_sums_over_its_streams(journal: Journal) -> None:
    start = event(SessionEvent, state="started", model="m1", cwd="/w", ts=50)
    await journal.commit(commit(start, call("1", ts=60), message("replayed", replay=True)))
    await journal.commit(commit(message("b", "t", session="session-2"), stream="t", state="ended"))
    late = event(SessionEvent, "u", state="updated", title="T", agent_version="1.2", ts=40)
    await journal.commit(commit(late, stream="u", state="suspended"))

    seqs = [one.seq for one in await everything(journal)]
    assert await journal.sessions() == [
        {
            "session": "session-1",
            "provider": "gemini",
            "agentVersion": "1.2",
            "model": "m1",
            "title": "T",
            "cwd": "/w",
            "state": "open",
            "firstSeq": seqs[0],
            "lastSeq": seqs[4],
            "firstTs": 40,
            "lastTs": 60,
            "events": 3,
            "calls": 1,
            "streams": ["s", "u"],
        },
        {
            "session": "session-2",
            "provider": "gemini",
            "state": "ended",
            "firstSeq": seqs[3],
            "lastSeq": seqs[3],
            "events": 1,
            "calls": 0,
            "streams": ["t"],
        },
    ]
    assert [one["session"] for one in await journal.sessions(limit=1)] == ["session-1"]
    assert [one["session"] for one in await journal.sessions(before=seqs[4])] == ["session-2"]


@pytest.mark.parametrize(
    ("figures", "tokens", "cost"),
    [
        ([("step", 1, None), ("step", 2, None)], 3, None),
        ([("step", 1, None), ("turn", 10, 0.5), ("step", 2, None), ("turn", 20, 0.25)], 30, 0.75),
        ([("turn", 10, None), ("session", 70, 1.0), ("session", 80, 2.0), ("turn", 5, None)], 80, 2.0),
        ([("turn", 10, None), ("session", None, 3.0)], 10, 3.0),
    ],
)
async def test_session_total_comes_from_one_scope(
    journal: Journal, figures: list[tuple[str, int | None, float | None]], tokens: int, cost: float | None
) -> None:
    usage = [event(Usage, scope=scope, input_tokens=count, cost_usd=usd) for scope, count, usd in figures]
    for line, one in enumerate(usage):
        await journal.commit(commit(one, base=line))

    (session,) = await journal.sessions()

    assert session["inputTokens"] == tokens
    assert session.get("costUsd") == cost


async def test_cost_may_have_its_own_scope(journal: Journal) -> None:
    for line, total in enumerate((0.5, 0.75)):
        usage = event(Usage, scope="turn", input_tokens=10, output_tokens=1, cost_usd=total, cost_scope="session")
        await journal.commit(commit(usage, base=line))

    (session,) = await journal.sessions()

    assert (session["inputTokens"], session["outputTokens"], session["costUsd"]) == (20, 2, 0.75)


async def test_late_session_id_takes_over_its_alias(journal: Journal) -> None:
    await journal.commit(commit(message("a", session="s", ts=1), call("1", session="s")))
    await journal.commit(commit(event(SessionEvent, session="real", state="updated", alias="s", ts=9), base=1))

    (session,) = await journal.sessions()
    assert (session["session"], session["events"], session["calls"], session["streams"]) == ("real", 3, 1, ["s"])
    assert (session["firstSeq"], session["firstTs"], session["lastTs"]) == ((await everything(journal))[0].seq, 1, 9)
    assert [one["callId"] for one in (await journal.open_calls("real"))["calls"]] == ["1"]


async def test_session_ends_when_its_provider_reports_it(journal: Journal) -> None:
    await journal.commit(commit(event(SessionEvent, state="ended")))
    assert (await journal.sessions())[0]["state"] == "ended"

    await journal.commit(commit(message("more"), base=1))
    assert (await journal.sessions())[0]["state"] == "open"


# -- output bodies ------------------------------------------------------------------------------------------------


async def test_body_is_read_across_chunks(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.writer.CHUNK_BYTES", 5)
    monkeypatch.setattr("tooltap.daemon.journal.nats.outputs.COUNTED_BYTES", 5)
    body = b"one\ntwo\n\nfour and a longer one\nlast"
    for line, (start, end) in enumerate([(0, 7), (7, 8), (8, 30), (30, len(body))]):
        await journal.commit(commit(OutputChunk("s:1:o0", start, body[start:end], "text/x"), base=line))

    for offset in range(len(body) + 2):
        for length in (0, 1, 6, 100):
            found = await journal.output("s:1:o0", offset, length, "bytes")
            assert found == (body[offset : offset + length], offset, len(body), "text/x")
    lines = body.splitlines(keepends=True)
    for offset in range(len(lines) + 2):
        for length in (0, 1, 2, 100):
            found = await journal.output("s:1:o0", offset, length, "lines")
            assert found == (b"".join(lines[offset : offset + length]), offset, 5, "text/x")
    assert await journal.output("unknown", 0, 1, "bytes") is None


async def test_slice_is_bounded(journal: Journal) -> None:
    lines = [b"a" * (MAX_SLICE // 2) + b"\n", b"b" * (MAX_SLICE // 4) + b"\n", b"c" * (2 * MAX_SLICE) + b"\n"]
    body = b"".join(lines)
    await journal.commit(commit(OutputChunk("s:1:o0", 0, body, "text/plain")))

    async def part(offset: int, length: int, unit: str) -> bytes:
        found = await journal.output("s:1:o0", offset, length, unit)  # type: ignore[arg-type]
        assert found is not None
        return found.data

    assert await part(0, len(body), "bytes") == body[:MAX_SLICE]
    assert await part(1, 9, "lines") == lines[1]
    assert await part(2, 9, "lines") == lines[2][:MAX_SLICE]
