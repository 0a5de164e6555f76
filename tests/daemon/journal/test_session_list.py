"""Lists of sessions, on every journal: their order, pages, filters and counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import commit, event, message
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.listing import ANY_SESSION, SessionFilter, SessionOrder, place_of
from tooltap.protocol.events import Message, PermissionRequest, SessionEvent, Turn

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


async def fill(journal: Journal) -> dict[str, int]:
    """Five sessions, ingested in the order of their names; returns the last `seq` of each."""
    seqs: dict[str, int] = {}

    async def add(name: str, hour: int | None, provider: str, project: str | None, state: str) -> None:
        ts = None if hour is None else hour * HOUR
        stated: dict[str, Any] = {"session": name, "provider": provider, "ts": ts}
        events = [event(SessionEvent, name, state="started", cwd=project, **stated)]
        stream_state = "open" if state in ("running", "waiting") else "ended"
        turn = {"running": "started", "waiting": "started"}.get(state, state)
        events.append(event(Turn, name, state=turn, **stated))
        if state == "waiting":
            events.append(event(PermissionRequest, name, permission_id="p", type="permission", **stated))
        await journal.commit(commit(*events, stream=name, state=stream_state))
        seqs[name] = (await journal.sessions(limit=1))[0]["lastSeq"]

    await add("a", 4, "claude", "/w/one", "completed")
    await add("b", 1, "codex", "/w/two", "failed")
    await add("c", 5, "claude", "/w/one", "running")
    await add("d", None, "codex", None, "completed")
    await add("e", 2, "claude", "/w/two", "waiting")
    return seqs


async def names(journal: Journal, wanted: SessionFilter = ANY_SESSION, order: SessionOrder = "time") -> str:
    return "".join(one["session"] for one in await journal.sessions(order=order, wanted=wanted))


async def test_order_is_that_of_ingest_or_of_time(journal: Journal) -> None:
    await fill(journal)

    assert await names(journal, order="seq") == "edcba"
    assert await names(journal) == "caebd"


@pytest.mark.parametrize("order", ["seq", "time"])
async def test_pages_continue_where_the_one_before_ended(journal: Journal, order: SessionOrder) -> None:
    await fill(journal)
    whole = await names(journal, order=order)

    found, before = "", None
    while page := await journal.sessions(limit=2, before=before, order=order):
        found += "".join(one["session"] for one in page)
        before = place_of(page[-1])

    assert found == whole


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (SessionFilter(session=("b", "x")), "b"),
        (SessionFilter(status=("completed",)), "ad"),
        (SessionFilter(status=("running", "waiting")), "ce"),
        (SessionFilter(status=("interrupted",)), ""),
        (SessionFilter(provider=("codex",)), "bd"),
        (SessionFilter(project=("/w/two",)), "eb"),
        (SessionFilter(project=("/w/two",), provider=("claude",)), "e"),
        (SessionFilter(since=4 * HOUR), "ca"),
        (SessionFilter(until=4 * HOUR), "ebd"),
        (SessionFilter(since=2 * HOUR, until=5 * HOUR), "ae"),
    ],
)
async def test_filters_and_counts(journal: Journal, wanted: SessionFilter, found: str) -> None:
    await fill(journal)

    assert await names(journal, wanted) == found
    counts = await journal.count_sessions(wanted)
    assert sum(counts["status"].values()) == sum(counts["provider"].values()) == len(found)


async def test_counts(journal: Journal) -> None:
    await fill(journal)

    assert await journal.count_sessions() == {
        "status": {"completed": 2, "failed": 1, "running": 1, "waiting": 1},
        "provider": {"claude": 3, "codex": 2},
        "project": {"/w/one": 2, "/w/two": 2},
    }


async def test_changed_sessions_alone(journal: Journal) -> None:
    seqs = await fill(journal)
    await journal.commit(commit(message("more", "b", session="b", provider="codex", ts=6 * HOUR), stream="b", base=1))

    assert await names(journal, SessionFilter(changed_after=seqs["d"])) == "be"
    assert await names(journal, SessionFilter(changed_after=journal.latest)) == ""


async def test_sessions_that_come_from_others(journal: Journal) -> None:
    """A title that looks like an encoded origin is none."""

    async def add(name: str, **fields: Any) -> None:
        await journal.commit(commit(event(SessionEvent, name, session=name, state="started", **fields), stream=name))

    await add("a", title='"forked_from":"a"')
    await add("b", forked_from="a")
    await add("c", resumes="b", parent_session='ö"')
    await add("d", parent_session="a")

    assert await names(journal, SessionFilter(origin=("a",)), order="seq") == "db"
    assert await names(journal, SessionFilter(origin=("b", 'ö"'))) == "c"
    [b] = await journal.sessions(wanted=SessionFilter(session=("b",)))
    assert await names(journal, SessionFilter(origin=("a",), changed_after=b["lastSeq"])) == "d"
    assert await names(journal, SessionFilter(origin=("c",))) == ""


async def test_what_is_cut_off_counts_as_interrupted(journal: Journal) -> None:
    await fill(journal)
    for stream in ("c", "e"):
        await journal.commit(commit(stream=stream, base=1, state="suspended"))

    assert await names(journal, SessionFilter(status=("interrupted",))) == "ce"
    assert (await journal.count_sessions())["status"] == {"completed": 2, "failed": 1, "interrupted": 2}


async def test_session_is_found_by_every_day_that_it_touches(journal: Journal) -> None:
    for line, hours in enumerate((20, 23, 26), 1):
        one = event(Message, "s", line, session="s", role="user", text="hi", ts=hours * HOUR)
        await journal.commit(commit(one, stream="s", base=line - 1))

    day = 24 * HOUR
    assert await names(journal, SessionFilter(since=0, until=day)) == "s"
    assert await names(journal, SessionFilter(since=day, until=2 * day)) == "s"
    assert await names(journal, SessionFilter(since=21 * HOUR, until=22 * HOUR)) == "s"
    assert await names(journal, SessionFilter(until=20 * HOUR)) == ""
    assert await names(journal, SessionFilter(since=27 * HOUR)) == ""
