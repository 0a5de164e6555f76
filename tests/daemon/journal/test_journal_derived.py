"""Every journal: open calls, sessions, streams and output bodies, which follow from the events."""

from __future__ import annotations

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.journal.whole import everything
from tooltap.daemon.journal.interface import (
    MAX_SLICE,
    Journal,
)
from tooltap.daemon.journal.open import Place, open_journal
from tooltap.daemon.sessions.listing import THIS_MACHINE, SessionFilter, SessionPlace
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent, ToolUpdate, Usage

pytestmark = pytest.mark.anyio


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
            "models": ["m1"],
            "title": "T",
            "cwd": "/w",
            "project": "/w",
            "state": "open",
            "status": "completed",
            "turns": 0,
            "firstSeq": seqs[0],
            "lastSeq": seqs[4],
            "firstTs": 40,
            "lastTs": 60,
            "events": 3,
            "calls": 1,
            "families": {"shell": 1},
            "activity": [{"shell": 1}],
            "activityMs": 1000,
            "files": 0,
            "linesAdded": 0,
            "linesRemoved": 0,
            "errors": 0,
            "durationMs": 20,
            "streams": ["s", "u"],
        },
        {
            "session": "session-2",
            "provider": "gemini",
            "state": "ended",
            "status": "completed",
            "turns": 0,
            "firstSeq": seqs[3],
            "lastSeq": seqs[3],
            "events": 1,
            "calls": 0,
            "files": 0,
            "linesAdded": 0,
            "linesRemoved": 0,
            "errors": 0,
            "streams": ["t"],
        },
    ]
    assert [one["session"] for one in await journal.sessions(limit=1)] == ["session-1"]
    assert [one["session"] for one in await journal.sessions(before=SessionPlace(seqs[4]))] == ["session-2"]


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


async def test_hosts_of_sessions_are_told_apart(journal: Journal) -> None:
    await journal.commit(commit(message("a", "box/s", session="box/a", host="box"), stream="box/s"))
    await journal.commit(commit(message("b", "t", session="local/b"), stream="t"))

    assert await journal.remotes() == ["box"]
    for host, found in (("box", ["box/a"]), (THIS_MACHINE, ["local/b"]), ("local", [])):
        rows = await journal.sessions(wanted=SessionFilter(host=(host,)))
        assert [one["session"] for one in rows] == found


async def test_late_session_id_takes_over_its_alias(journal: Journal) -> None:
    await journal.commit(commit(message("a", session="s", ts=1), call("1", session="s")))
    await journal.commit(commit(event(SessionEvent, session="real", state="updated", alias="s", ts=9), base=1))

    (session,) = await journal.sessions()
    assert (session["session"], session["events"], session["calls"], session["streams"]) == ("real", 3, 1, ["s"])
    assert (session["firstSeq"], session["firstTs"], session["lastTs"]) == ((await everything(journal))[0].seq, 1, 9)
    assert session["aliases"] == {"s": session["lastSeq"]}
    assert [one["callId"] for one in (await journal.open_calls("real"))["calls"]] == ["1"]


@pytest.mark.parametrize("earlier", ["s", 'a "quoted" 🙂 id'])
async def test_session_is_found_by_an_id_that_it_had(journal: Journal, earlier: str) -> None:
    await journal.commit(commit(message(earlier, session=earlier)))
    for base, (before, name) in enumerate(((earlier, "middle"), ("middle", "real")), 1):
        await journal.commit(commit(event(SessionEvent, session=name, state="updated", alias=before), base=base))
    titled = event(SessionEvent, "t", session="other", state="updated", title=f'{{"{earlier}":1}}')
    await journal.commit(commit(titled, stream="t"))

    for wanted, found in (((earlier,), ["real"]), (("none", "middle"), ["real"]), (("real",), [])):
        rows = await journal.sessions(wanted=SessionFilter(earlier_id=wanted))
        assert [one["session"] for one in rows] == found


async def test_session_ends_when_its_provider_reports_it(journal: Journal) -> None:
    await journal.commit(commit(event(SessionEvent, state="ended")))
    assert (await journal.sessions())[0]["state"] == "ended"

    await journal.commit(commit(message("more"), base=1))
    assert (await journal.sessions())[0]["state"] == "open"


# -- output bodies ------------------------------------------------------------------------------------------------


async def test_body_is_read_across_chunks(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.journal.sqlite.writer.CHUNK_BYTES", 5)
    monkeypatch.setattr("tooltap.daemon.journal.nats.events.BLOCK_BYTES", 5)
    monkeypatch.setattr("tooltap.daemon.journal.nats.message.BLOCK_BYTES", 5)
    monkeypatch.setattr("tooltap.daemon.journal.nats.message.SHORTEST", 1)
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


async def test_empty_body_has_no_line(journal: Journal) -> None:
    await journal.commit(commit(OutputChunk("s:1:o0", 0, b"", "text/x")))
    assert await journal.output("s:1:o0", 0, 10, "bytes") == (b"", 0, 0, "text/x")
    assert await journal.output("s:1:o0", 0, 10, "lines") == (b"", 0, 0, "text/x")


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


async def test_notes_are_replaced_and_survive(journal: Journal, place: Place) -> None:
    assert await journal.load_note("drift") is None
    await journal.store_note("drift", b"\x00first")
    await journal.store_note("drift", b"second")
    await journal.store_note("other", b"")

    assert await journal.load_note("drift") == b"second"
    assert await journal.load_note("other") == b""
    await journal.close()
    again = await open_journal(place, "process")
    assert await again.load_note("drift") == b"second"
    await again.close()
