"""Pages of the timeline: their events, their range, and the limits of a search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.journal.on_nats import opened
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.web.page.timeline import Bounds, Page, Selection, around, between, live_test, newer, older
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Notice, PermissionRequest, ToolUpdate
from tooltap.protocol.filters import Filter

pytestmark = pytest.mark.anyio

BOUNDS = Bounds(events=3, bytes=1_000_000, search_bytes=1_000_000)
ALL = Selection()


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


async def fill(journal: Journal, *events: Produced) -> None:
    """Commit events with `seq` 1, 2, 3 …"""
    await journal.commit(commit(*events))


def seqs(page: Page) -> list[int]:
    return [one.seq for one in page.events]


async def test_newest_page_ends_with_last_event(journal: Journal) -> None:
    await fill(journal, *(message(str(n)) for n in range(7)))

    page = await older(journal, ALL, BOUNDS)

    assert page == Page(page.events, 5, 7, older=True, newer=False)
    assert seqs(page) == [5, 6, 7]


async def test_pages_are_contiguous_both_ways(journal: Journal) -> None:
    await fill(journal, *(message(str(n)) for n in range(8)))

    back = [await older(journal, ALL, BOUNDS)]
    while back[0].older:
        back.insert(0, await older(journal, ALL, BOUNDS, back[0].first))
    onwards = [await newer(journal, ALL, BOUNDS, 0)]
    while onwards[-1].newer:
        onwards.append(await newer(journal, ALL, BOUNDS, onwards[-1].last))

    assert [seqs(page) for page in back] == [[1, 2], [3, 4, 5], [6, 7, 8]]
    assert [seqs(page) for page in onwards] == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert [(page.first, page.last) for page in onwards] == [(1, 3), (4, 6), (7, 8)]


async def test_newest_page_includes_events_of_other_daemons(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other:
        await one.commit(commit(message("a"), message("b")))

        page = await older(other, ALL, BOUNDS)

        assert [orjson.loads(event.body)["text"] for event in page.events] == ["a", "b"]
        assert (page.last, page.older, page.newer) == (page.events[-1].seq, False, False)


async def test_around_centres_the_event(journal: Journal) -> None:
    await fill(journal, *(message(str(n)) for n in range(9)))

    page = await around(journal, ALL, BOUNDS._replace(events=4), 5)

    assert seqs(page) == [4, 5, 6, 7]
    assert (page.first, page.last, page.older, page.newer) == (4, 7, True, True)


@pytest.mark.parametrize("seq", [0, 1, 9, 10, 2**63 - 1])
async def test_around_the_ends(journal: Journal, seq: int) -> None:
    await fill(journal, *(message(str(n)) for n in range(9)))

    page = await around(journal, ALL, BOUNDS, seq)

    assert page.events
    assert all(page.first <= one.seq <= page.last for one in page.events)
    assert page.older == (page.first > 1)
    assert page.newer == (page.last < 9)


async def test_empty_journal_is_an_empty_page(journal: Journal) -> None:
    assert await older(journal, ALL, BOUNDS) == Page([], 1, 0, older=False, newer=False)
    assert await newer(journal, ALL, BOUNDS, 0) == Page([], 1, 0, older=False, newer=False)
    assert await around(journal, ALL, BOUNDS, 5) == Page([], 1, 0, older=False, newer=False)


async def test_page_is_bounded_but_not_empty(journal: Journal) -> None:
    await fill(journal, *(message("x" * 1_000) for _ in range(5)))

    assert seqs(await older(journal, ALL, BOUNDS._replace(bytes=1_500))) == [4, 5]
    assert seqs(await older(journal, ALL, BOUNDS._replace(bytes=1))) == [5]
    assert seqs(await newer(journal, ALL, BOUNDS._replace(bytes=1_500), 0)) == [1, 2]


async def test_between_returns_former_page(journal: Journal) -> None:
    await fill(journal, *(message(str(n)) for n in range(9)))

    page = await between(journal, ALL, BOUNDS, 2, 6)

    assert seqs(page) == [2, 3, 4, 5, 6]
    assert (page.older, page.newer) == (True, True)


async def test_between_is_bounded(journal: Journal) -> None:
    await fill(journal, *(message(str(n)) for n in range(20)))

    page = await between(journal, ALL, BOUNDS, 2, 19)

    assert seqs(page) == [2, 3, 4, 5, 6, 7]
    assert (page.first, page.last, page.newer) == (2, 7, True)


async def test_filter_is_applied(journal: Journal) -> None:
    await fill(journal, message("a"), call("1"), message("b"), result("1"), message("c"))

    page = await older(journal, Selection(Filter(kind=("message",))), BOUNDS._replace(events=2))

    assert (seqs(page), page.first, page.older) == ([3, 5], 3, True)


async def open_and_ended(journal: Journal) -> None:
    await fill(
        journal,
        call("done"),
        result("done"),
        call("failed"),
        result("failed", status="failed", is_error=True),
        call("running"),
        call("asks", status="pending"),
        event(PermissionRequest, permission_id="p", type="permission", call_id="asks"),
        event(ToolUpdate, call_id="asks", name="Bash", status="awaiting-permission"),
        message("failed"),
    )


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (("completed",), [2]),
        (("failed",), [4]),
        (("completed", "failed"), [2, 4]),
        (("running",), [5]),
        (("awaiting-permission",), [6, 7]),
        (("failed", "running"), [4, 5]),
        (("denied",), []),
    ],
)
async def test_states_select_results_and_open_calls(journal: Journal, states: Any, found: list[int]) -> None:
    await open_and_ended(journal)

    assert seqs(await older(journal, Selection(states=states), BOUNDS)) == found
    assert seqs(await newer(journal, Selection(states=states), BOUNDS, 0)) == found


async def test_contradicting_state_and_kind_select_nothing(journal: Journal) -> None:
    await open_and_ended(journal)

    assert seqs(await older(journal, Selection(Filter(kind=("message",)), ("failed",)), BOUNDS)) == []


async def texts(journal: Journal) -> None:
    happy = {"v": 2, "protocol": "acp", "provider": "gemini", "rawToolName": "needle", "canonicalToolName": "Bash"}
    await fill(
        journal,
        message("A Needle in the hay"),
        message("hay"),
        result("1", output={"stdout": 'quoted "NEEDLE"\n', "_happy": happy, "_raw": {}}),
        result("2", output={"stdout": "", "_happy": happy, "_raw": {"text": "needle"}}),
        call("3", input={"changes": {"src/needle.py": {}}, "_happy": happy}),
        message("Nädel", session="needle"),
        event(Notice, level="info", code="x", text="", data={"deep": [{"down": "needle"}]}),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("needle", [1, 3, 5, 7]),
        ("NEEDLE", [1, 3, 5, 7]),
        ('"needle"\n', [3]),
        ("nÄDEL", [6]),
        ("session-1", []),
        ("rawToolName", []),
        ("%", []),
    ],
)
async def test_text_search_ignores_case(journal: Journal, text: str, found: list[int]) -> None:
    await texts(journal)

    assert seqs(await older(journal, Selection(text=text), BOUNDS._replace(events=10))) == found


async def test_search_is_bounded_and_resumable(journal: Journal) -> None:
    await fill(journal, message("needle"), *(message("x" * 500) for _ in range(200)))
    asked, bounds = Selection(text="needle"), BOUNDS._replace(search_bytes=20_000)

    pages = [await older(journal, asked, bounds)]
    while not pages[-1].events:
        assert pages[-1].older
        pages.append(await older(journal, asked, bounds, pages[-1].first))

    assert len(pages) > 3
    assert all(len_of(page) < 60 for page in pages)
    assert (seqs(pages[-1]), pages[-1].older) == ([1], False)


def len_of(page: Page) -> int:
    """Return how many events were read."""
    return page.last - page.first + 1


async def test_hits_continue_on_next_page(journal: Journal) -> None:
    await fill(journal, *(message("needle") for _ in range(5)))
    asked = Selection(text="needle")

    first = await older(journal, asked, BOUNDS)
    second = await older(journal, asked, BOUNDS, first.first)

    assert [seqs(first), seqs(second)] == [[3, 4, 5], [1, 2]]


def stored(produced: Produced) -> StoredEvent:
    return StoredEvent(1, orjson.dumps({"seq": 1, **orjson.loads(produced.body)}))


def test_live_test_matches_search() -> None:
    failed, running = live_test(Selection(states=("failed",))), live_test(Selection(states=("running",), text="needle"))

    assert failed(stored(result("1", status="failed")))
    assert not failed(stored(result("1")))
    assert running(stored(call("1", title="Needle")))
    assert not running(stored(call("1", title="Hay")))
    assert not running(stored(result("1", output={"stdout": "needle"})))
