"""What is missing is named at every door: a sample of `make lab-damages`, which tries every page of the file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.daemon import doors_nats
from tests.daemon.doors import (
    DAMAGES,
    DOORS,
    Damage,
    Door,
    Event,
    NoCompilerError,
    build_typescript,
    events_of,
    fill,
    fill_journal,
    flip,
    merged,
    show,
    swap,
    try_door,
    typescript_doors,
)
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import parse_nats_url

by_name = pytest.mark.parametrize("door", DOORS, ids=[door.name for door in DOORS])


class Whole(NamedTuple):
    folder: Path
    events: list[Event]
    pages: int


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    events = asyncio.run(fill(folder / "journal.db"))
    pages = merged(folder / "whole", folder / "merged").stat().st_size // 8_192
    return Whole(folder / "whole", events, pages)


@by_name
def test_intact_journal_has_no_gap(whole: Whole, tmp_path: Path, door: Door) -> None:
    merged(whole.folder, tmp_path / "intact")
    assert try_door(door, whole.events, tmp_path / "intact", lost=()) == "whole"


@by_name
@pytest.mark.parametrize("kind", ["the first rows", "a range"])
def test_deleted_rows(whole: Whole, tmp_path: Path, door: Door, kind: str) -> None:
    DAMAGES[kind].make(whole.folder, tmp_path / "damaged")
    before = door.take == show and kind == "the first rows"  # they are before the session
    assert try_door(door, whole.events, tmp_path / "damaged", DAMAGES[kind].lost) == ("whole" if before else "gaps")


@by_name
def test_no_row_is_left(whole: Whole, tmp_path: Path, door: Door) -> None:
    DAMAGES["all rows"].make(whole.folder, tmp_path / "damaged")
    assert try_door(door, whole.events, tmp_path / "damaged", DAMAGES["all rows"].lost) in ("gaps", "refused")


@by_name
def test_damaged_pages_and_a_lost_log(whole: Whole, tmp_path: Path, door: Door) -> None:
    """Each door has other pages."""
    number = DOORS.index(door)
    page, other = 2 + number * 7 % (whole.pages - 1), 2 + number * 11 % (whole.pages - 1)
    tried: list[Damage] = [flip(page, number), swap(other, 2 + other % (whole.pages - 1)), DAMAGES["the log"]]
    for damage in tried:
        damage.make(whole.folder, tmp_path / "damaged")
        try_door(door, whole.events, tmp_path / "damaged", damage.lost)


@by_name
def test_log_is_lost_with_its_tip(whole: Whole, tmp_path: Path, door: Door) -> None:
    lost = DAMAGES["the log and its tip"]
    lost.make(whole.folder, tmp_path / "damaged")
    assert try_door(door, whole.events, tmp_path / "damaged", lost.lost) == "gaps"


@pytest.mark.parametrize("door", [door for door in DOORS if "download" in door.name], ids=lambda door: door.name)
def test_download_of_a_session_whose_row_is_lost_is_refused(whole: Whole, tmp_path: Path, door: Door) -> None:
    """Its events are still there, so it is not a session that nobody knows."""
    file = merged(whole.folder, tmp_path / "damaged")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM sessions")
    assert try_door(door, whole.events, tmp_path / "damaged", lost=()) == "refused"


def test_schema_that_is_no_text_is_one_sentence(whole: Whole, tmp_path: Path) -> None:
    flip(1, 0).make(whole.folder, tmp_path / "damaged")
    assert try_door(DOORS[0], whole.events, tmp_path / "damaged") == "refused"


class OnNats(NamedTuple):
    url: str
    events: list[Event]
    lost: set[int]


@pytest.fixture(scope="module")
def on_nats(nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> OnNats:
    """Two messages were deleted, and the newest part of a stream was purged but for its last message."""
    url = f"{nats_server.url}/{tmp_path_factory.mktemp('doors').name}"
    return asyncio.run(_damaged_on_nats(url))


async def _damaged_on_nats(url: str) -> OnNats:
    place = parse_nats_url(url)
    journal = await NatsJournal.open(place)
    try:
        await fill_journal(journal)
        whole = await events_of(journal)
        delete, purge = f"STREAM.MSG.DELETE.{place.name}", f"STREAM.PURGE.{place.name}"
        for number in (11, 12):
            await journal._connection.api(delete, seq=number)
        await journal._connection.api(purge, filter=journal._messages.subject("s1"), keep=10)
        lost = {one["seq"] for one in whole} - {one["seq"] for one in await events_of(journal)}
    finally:
        await journal.close()
    return OnNats(url, whole, lost)


@by_name
def test_deleted_messages_of_nats(on_nats: OnNats, tmp_path: Path, door: Door) -> None:
    assert len(on_nats.lost) == (2 + 10) * 4 - 4  # one message was both
    assert try_door(door, on_nats.events, tmp_path, on_nats.lost, on_nats.url) == "gaps"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> doors_nats.Whole:
    return doors_nats.fill(tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("nothing", "whole"),
        ("a message", "gaps"),
        ("the first message", "anew"),
        ("the last message", "gaps"),
        ("a range", "gaps"),
        ("purged range", "anew"),
        ("the index", "whole"),
        ("older copy", "anew"),
        ("wiped", "anew"),
    ],
)
@pytest.mark.parametrize("while_it_runs", [False, True])
def test_damaged_store_of_nats(
    store: doors_nats.Whole, tmp_path: Path, kind: str, outcome: str, while_it_runs: bool
) -> None:
    """`make lab-damages` tries each at every door."""
    damage = doors_nats.DAMAGES[kind]
    assert doors_nats.try_door(store, tmp_path / "s", damage, DOORS[0], while_it_runs=while_it_runs) == outcome


@pytest.mark.parametrize("number", range(0, 40, 7))
def test_damaged_block_of_nats(store: doors_nats.Whole, tmp_path: Path, number: int) -> None:
    """Each at another door."""
    _, damage = list(doors_nats.of_blocks(1))[number]
    assert doors_nats.try_door(store, tmp_path / "s", damage, DOORS[number % 18]) in ("gaps", "anew")


@pytest.mark.process
@pytest.mark.programs("npm", "npx", "node")
def test_typescript_client(whole: Whole, on_nats: OnNats, tmp_path: Path) -> None:
    """One test, because it compiles the client."""
    try:
        doors = typescript_doors(build_typescript(tmp_path))
    except NoCompilerError as error:
        pytest.skip(str(error))
    damaged = tmp_path / "damaged"
    for door in doors:
        merged(whole.folder, damaged)
        assert try_door(door, whole.events, damaged, lost=()) == "whole"
        for kind in ("a row", "the first rows", "a range", "the last row"):
            DAMAGES[kind].make(whole.folder, damaged)
            assert try_door(door, whole.events, damaged, DAMAGES[kind].lost) == "gaps"
        DAMAGES["all rows"].make(whole.folder, damaged)
        assert try_door(door, whole.events, damaged, DAMAGES["all rows"].lost) in ("gaps", "refused")
        assert try_door(door, on_nats.events, tmp_path / "nats", on_nats.lost, on_nats.url) == "gaps"
