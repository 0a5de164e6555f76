"""Rows that somebody has deleted: whoever reads everything gets a gap for each of them, through every door.

A subscription's filter is empty unless one is given, and so is that of a page of events: it must be taken for none.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import here
from tests.daemon.events import commit, message
from tests.daemon.journal.test_journal_damage import EVENTS, PAGE, damage, fill
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tooltap.client import Filter, Gap, subscribe
from tooltap.daemon.client.events import EventOrGap
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, end_of
from tooltap.daemon.journal.nats.place import NatsPlace, parse_nats_url
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.replies import StreamState

LOST = (41, 42, 150)
"""Events of the SQLite file, and messages on NATS."""


class Served(NamedTuple):
    daemon: Running
    browser: Browser
    intact: list[int]
    gaps: list[tuple[int, int]]


def flip_number(path: Path, seq: int) -> None:
    """Flip a bit of an event's row id, where SQLite keeps it: it becomes greater than all others, and SQLite ends its
    scan of a range there. The row id has two bytes."""
    number = bytes((0x80 | seq >> 7, seq & 0x7F))
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as database:
        (body,) = database.execute("SELECT body FROM events WHERE seq=?", (seq,)).fetchone()
    at = data.rindex(number, 0, data.index(body))
    assert data.index(body) - at < 30
    assert at % PAGE > 100
    data[at] ^= 0x40
    path.write_bytes(data)


async def fill_nats(place: NatsPlace) -> list[int]:
    """160 messages of two events each; returns the `seq` of those that are not lost."""
    journal = await NatsJournal.open(place)
    seqs: list[int] = []
    try:
        for number in range(160):
            state: StreamState = "open" if number < 159 else "ended"
            said = commit(message(f"{number}"), message("again"), base=number, state=state)
            said.info.updated = wall_clock()
            await journal.commit(said)
        for number in LOST:
            await journal._connection.api(f"STREAM.MSG.DELETE.{place.name}", seq=number)
        after = 0
        while after < journal.latest:
            found, after = await journal.read(after)
            seqs += [one.seq for one in found]
    finally:
        await journal.close()
    return seqs


class Prepared(NamedTuple):
    folder: Path
    journal: str
    intact: list[int]
    gaps: list[tuple[int, int]]


@pytest.fixture(scope="module", params=["deleted", "flipped", "nats"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A journal that no daemon has read since."""
    folder = tmp_path_factory.mktemp("missing")
    if request.param == "nats":
        url = f"{request.getfixturevalue('nats_server').url}/{folder.name}"
        intact = asyncio.run(fill_nats(parse_nats_url(url)))
        gaps = [(41 * EVENTS_A_MESSAGE, end_of(42)), (150 * EVENTS_A_MESSAGE, end_of(150))]
        return Prepared(folder, url, intact, gaps)
    journal = folder / "journal.db"
    asyncio.run(fill(journal))
    lost: tuple[int, ...] = LOST
    gaps = [(41, 42), (150, 150)]
    if request.param == "deleted":
        for seq in LOST:
            damage(journal, "DELETE FROM events WHERE seq=?", seq)
    else:
        flip_number(journal, 150)
        # SQLite does not find the next one either: its search ends at the greater number.
        lost, gaps = (150, 151), [(150, 151)]
    return Prepared(folder, str(journal), [seq for seq in range(1, EVENTS + 1) if seq not in lost], gaps)


@pytest.fixture
def served(prepared: Prepared) -> Iterator[Served]:
    """A daemon that has just started: no door profits from what another one has found."""
    with browsed(prepared.folder, journal=prepared.journal) as (daemon, browser):
        yield Served(daemon, browser, prepared.intact, prepared.gaps)


def check(served: Served, lines: list[dict[str, Any]]) -> None:
    """Each intact event, in order, and the gaps in their places."""
    assert [one["seq"] for one in lines if "op" not in one] == served.intact
    gaps = [one for one in lines if one.get("op") == "gap"]
    assert [(one["from"], one["to"], one["reason"]) for one in gaps] == [(*gap, "corrupt") for gap in served.gaps]
    order = [one["from"] if "from" in one else one["seq"] for one in lines if one.get("op") in (None, "gap")]
    assert order == sorted(order)


@pytest.mark.parametrize("arguments", [{}, {"filter": {}}], ids=["no filter", "empty filter"])
def test_socket(served: Served, arguments: dict[str, Any]) -> None:
    check(served, served.daemon.subscribe(after="start", follow=False, **arguments).until("live"))
    shown = served.daemon.subscribe(after="start", follow=False, **{"as": "display"}, **arguments).until("live")
    gaps = [(one["from"], one["to"]) for one in shown if one.get("op") == "gap"]
    assert gaps == served.gaps


@pytest.mark.parametrize(("way", "at"), [("after", "start"), ("before", str(2**62))])
def test_pages(served: Served, way: str, at: str) -> None:
    more, seqs, gaps = True, list[int](), list[dict[str, Any]]()
    while more:
        page = served.browser.get(f"/api/events?{way}={at}&limit=50").json
        seqs += [one["seq"] for one in page["events"]]
        gaps += [page["gap"]] if "gap" in page else []
        at, more = page["next"], page["more"]
    assert seqs == sorted(set(seqs), reverse=way == "before")
    # Backwards, SQLite finds the event after a flipped number.
    assert set(served.intact) <= set(seqs)
    # A page has one gap: the least that has all of its own.
    assert {one["reason"] for one in gaps} == {"corrupt"}
    named = {seq for one in gaps for seq in range(one["from"], one["to"] + 1)}
    assert {seq for first, last in served.gaps for seq in range(first, last + 1)} <= named | set(seqs)


def test_server_sent_events(served: Served) -> None:
    with served.browser.stream("/api/events?after=start") as stream:
        check(served, [one.json for one in stream.until("live") if one.event in ("gap", "message")])


async def _all(path: Path, **options: Any) -> list[EventOrGap]:
    return [one async for one in subscribe(after="start", follow=False, path=path, **options)]


Take = Callable[..., list[EventOrGap]]


@pytest.mark.parametrize("options", [{}, {"filter": Filter()}], ids=["no filter", "empty filter"])
@pytest.mark.parametrize(
    "take",
    [
        lambda path, **options: list(subscribe(after="start", follow=False, path=path, **options)),
        lambda path, **options: asyncio.run(_all(path, **options)),
    ],
    ids=["sync", "async"],
)
def test_client(served: Served, take: Take, options: dict[str, Any]) -> None:
    items = take(served.daemon.path, **options)
    assert [(one.from_, one.to) for one in items if isinstance(one, Gap)] == served.gaps
    assert [one.seq for one in items if not isinstance(one, Gap)] == served.intact


def test_tail(served: Served) -> None:
    tail = here("tail", "--socket", served.daemon.path, "--after", "start", "--no-follow")
    for first, last in served.gaps:
        assert f"tooltap: events {first} to {last} are gone: they are damaged" in tail.stderr.decode()
