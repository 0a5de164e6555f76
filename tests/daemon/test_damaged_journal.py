"""A daemon on a damaged journal: every reader learns which events are missing, and gets all others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.events import commit, message
from tests.daemon.journal.test_journal_damage import COLUMNS, EVENTS, PAGE, damage, everything, fill, rewrite
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import Browser, browsed
from tooltap.client import Gap, subscribe
from tooltap.daemon import doctor as findings
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.protocol.filters import Filter

LOST = (41, 42, 150)
GAPS = [(41, 42), (150, 150)]
INTACT = [seq for seq in range(1, EVENTS + 1) if seq not in LOST]

MAYBE_LOST = "the journal is damaged, and has no intact row of a session 'unlisted'"
"""What is said of a session that is not found where the row of one is damaged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    asyncio.run(fill(folder / "journal.db"))
    for seq in LOST:
        damage(folder / "journal.db", COLUMNS["body"], seq)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[Running, Browser]]:
    with browsed(folder) as served:
        yield served


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    """A daemon that has found the row of a session damaged."""
    folder = tmp_path_factory.mktemp("lacking")
    asyncio.run(fill(folder / "journal.db"))
    damage(folder / "journal.db", "UPDATE sessions SET data=zeroblob(length(data)) WHERE session='session-1'")
    with browsed(folder) as served, served[0].connect() as wire:
        assert "session-1" not in [one["session"] for one in wire.ask("sessions", empty=True)["sessions"]]
        yield served


def gaps_in(lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
    assert {one["reason"] for one in lines if one.get("op") == "gap"} <= {"corrupt"}
    return [(one["from"], one["to"]) for one in lines if one.get("op") == "gap"]


def test_subscriber_gets_gaps_in_the_places_of_damaged_events(served: tuple[Running, Browser]) -> None:
    lines = served[0].subscribe(after="start", follow=False).until("live")

    assert [one["seq"] for one in lines if "seq" in one and "op" not in one] == INTACT
    assert gaps_in(lines) == GAPS
    order = [one["seq"] if "seq" in one else one["from"] for one in lines[:-1]]
    assert order == sorted(order)
    # From within the gap, only what is after the cursor.
    lines = served[0].subscribe(after=41, follow=False).until("live")
    assert gaps_in(lines) == [(42, 42), (150, 150)]
    shown = served[0].subscribe(after="start", follow=False, **{"as": "display"}).until("live")
    assert gaps_in(shown) == GAPS


def test_filter_on_a_large_journal_names_what_is_missing_once_that_is_checked(tmp_path: Path) -> None:
    """Nobody waits for the check: until it is done, the gap may be left out, but no event that is there."""
    asyncio.run(fill(tmp_path / "journal.db"))
    damage(tmp_path / "journal.db", "DELETE FROM events WHERE seq=20")
    replays: list[list[dict[str, Any]]] = []
    with running(tmp_path, surveyed_first=0) as daemon:
        while not replays or not gaps_in(replays[-1]):
            wire = daemon.subscribe(after="start", follow=False, filter={"kind": ["tool-result"]})
            replays.append(wire.until("live"))

    assert gaps_in(replays[-1]) == [(20, 20)]
    intact = [seq for seq in range(4, EVENTS + 1, 4) if seq != 20]
    assert all([one["seq"] for one in lines if "kind" in one] == intact for lines in replays)


def without_entries(path: Path, index: str) -> None:
    """Make an index an empty one, which SQLite does not notice."""
    with closing(sqlite3.connect(path)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (index,)).fetchone()
    rewrite(path, page, lambda _: bytes([10, 0, 0, 0, 0, *PAGE.to_bytes(2), 0]).ljust(PAGE, b"\0"))


@pytest.mark.parametrize("part", ["index", "name"])
def test_filter_reads_every_event_where_what_it_uses_is_damaged(tmp_path: Path, part: str) -> None:
    path = tmp_path / "journal.db"
    asyncio.run(fill(path))
    if part == "index":
        without_entries(path, "events_by_label")
    else:
        damage(path, "UPDATE labels SET kind='tool-call' WHERE kind='tool-result'")
    with running(tmp_path) as daemon:
        wire = daemon.subscribe(after="start", follow=False, filter={"kind": ["tool-result"]})
        found = wire.until("live")[:-1]
        damages = daemon.stats()["journal"]["damages"]

    assert [one["seq"] for one in found if one.get("kind") == "tool-result"] == list(range(4, EVENTS + 1, 4))
    assert gaps_in(found) == []
    assert damages >= 1


def test_session_whose_row_is_damaged_starts_again_in_lists_with_all_its_events(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asyncio.run(fill(path))
    damage(path, "UPDATE sessions SET data=zeroblob(length(data)) WHERE session='session-1'")
    with running(tmp_path) as daemon, daemon.connect() as wire:
        daemon.commit(commit(message("more", "s0"), stream="s0", base=50))
        listed = {one["session"]: one["events"] for one in wire.ask("sessions")["sessions"]}
        found = daemon.subscribe(after="start", follow=False, filter={"session": ["session-1"]}).until("live")[:-1]

    assert listed == {"session-1": 1}
    assert [one["seq"] for one in found] == [*(seq for seq in range(1, EVENTS + 1) if seq % 4 != 1), EVENTS + 1]


def test_request_for_a_damaged_event_is_refused(served: tuple[Running, Browser]) -> None:
    wire, browser = served[0].connect(), served[1]
    wire.send("event", id=1, seq=41)
    reply = wire.read()
    assert reply["error"] == {"code": "corrupt", "message": "event 41 is damaged in the journal"}
    assert wire.ask("event", seq=43)["event"]["seq"] == 43
    answer = browser.get("/api/events/41")
    assert (answer.status, answer.json["error"]["code"]) == (410, "corrupt")


def test_list_of_sessions_goes_on_after_a_damaged_row(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        for name in "abcde":
            daemon.commit(commit(message("Hi", name, session=name), stream=name))
    damage(tmp_path / "journal.db", "UPDATE sessions SET data=zeroblob(length(data)) WHERE session IN ('c', 'd')")
    listed, page = [], dict[str, Any]()
    with running(tmp_path) as daemon, daemon.connect() as wire:
        while True:
            found = wire.ask("sessions", limit=1, **page)
            listed += [one["session"] for one in found["sessions"]]
            if "cursor" not in found:
                break
            page = {"cursor": found["cursor"]}

    assert listed == ["e", "b", "a"]


@pytest.mark.parametrize(
    ("op", "arguments"),
    [("remove", {}), ("pin", {}), ("files", {}), ("send", {"text": "go on"})],
    ids=["remove", "pin", "files", "send"],
)
def test_request_says_that_a_session_may_be_lost(
    lacking: tuple[Running, Browser], op: str, arguments: dict[str, str]
) -> None:
    with lacking[0].connect() as wire:
        wire.send(op, id=1, session="unlisted", **arguments)
        reply = wire.read()
    assert reply["error"] == {"code": "journal", "message": MAYBE_LOST}


@pytest.mark.parametrize(
    "target",
    [
        "/sessions/unlisted",
        "/sessions/unlisted/files",
        "/map?session=unlisted",
        "/compare?left=unlisted",
        "/api/sessions/unlisted/files",
    ],
)
def test_page_says_that_a_session_may_be_lost(lacking: tuple[Running, Browser], target: str) -> None:
    answer = lacking[1].get(target)
    assert (answer.status, answer.json["error"]) == (503, {"code": "journal", "message": MAYBE_LOST})


def test_command_says_that_a_session_may_be_lost(lacking: tuple[Running, Browser]) -> None:
    printed = here("show", "unlisted", "--socket", lacking[0].path)
    assert printed.returncode == 1
    assert printed.stderr.decode() == f"tooltap: {MAYBE_LOST}; list them with `tooltap sessions`\n"


def test_session_is_unknown_where_only_events_are_damaged(served: tuple[Running, Browser]) -> None:
    assert served[0].subscribe(after="start", follow=False).until("live")
    assert served[1].get("/sessions/unlisted").status == 404
    printed = here("show", "unlisted", "--socket", served[0].path)
    assert printed.stderr.decode().startswith("tooltap: the journal has no session 'unlisted'")


def test_pages_have_the_gap(served: tuple[Running, Browser]) -> None:
    browser = served[1]
    page = browser.get("/api/events?after=38&limit=5").json
    assert [one["seq"] for one in page["events"]] == [39, 40]
    following = browser.get(f"/api/events?after={page['next']}&limit=5").json
    assert following["gap"] == {"from": 41, "to": 42, "reason": "corrupt"}
    assert [one["seq"] for one in following["events"]] == [43, 44, 45, 46, 47]
    back = browser.get("/api/events?before=45&limit=3").json
    assert [one["seq"] for one in back["events"]] == [44, 43, 40]
    assert back["gap"] == {"from": 41, "to": 42, "reason": "corrupt"}
    html = browser.get("/events?at=40").body.decode()
    assert "Events 41 to 42 are damaged in the journal." in html


def test_client_yields_gaps(served: tuple[Running, Browser]) -> None:
    items = list(subscribe(after="start", follow=False, path=served[0].path))
    assert [(one.from_, one.to, one.reason) for one in items if isinstance(one, Gap)] == [
        (41, 42, "corrupt"),
        (150, 150, "corrupt"),
    ]
    assert len(items) == EVENTS - len(LOST) + len(GAPS)


def test_commands_and_statistics_name_the_damage(served: tuple[Running, Browser], folder: Path, tmp_path: Path) -> None:
    daemon, browser = served
    daemon.subscribe(after="start", follow=False).until("live")
    assert daemon.stats()["journal"]["corrupt"] == len(LOST)
    assert "\ntooltap_journal_corrupt_events 3\n" in browser.get("/metrics").body.decode()
    assert (
        b"damaged: 3 events, 0 other parts; see `tooltap journal check`"
        in here("serve", "--socket", daemon.path, "status").stdout
    )
    tail = here("tail", "--socket", daemon.path, "--after", "start", "--no-follow")
    assert b"tooltap: events 41 to 42 are gone: they are damaged in the journal" in tail.stderr
    report = json.loads(here("doctor", "--json", "--socket", daemon.path).stdout)
    assert "the daemon has found damage in its journal: 3 events and 0 other parts" in [
        one["text"] for one in report["findings"] if one["level"] == "problem"
    ]
    page = tmp_path / "page.html"
    written = here("export", "--socket", daemon.path, "--html", "session-1", "-o", page)
    assert b"events 41 to 42 are damaged in the journal" in written.stderr
    assert "Events 41 to 42 are damaged in the journal." in page.read_text()

    journal = f"sqlite:{folder / 'journal.db'}"
    checked = here("journal", "check", "--journal", journal)
    assert checked.returncode == 1
    assert checked.stdout.decode().splitlines()[:2] == ["events 41 to 42 are damaged", "event 150 is damaged"]
    as_json = json.loads(here("journal", "check", "--json", "--journal", journal).stdout)
    assert [(one["first"], one["last"]) for one in as_json["damages"]] == GAPS
    exported = [json.loads(line) for line in here("journal", "export", "--journal", journal).stdout.splitlines()]
    assert gaps_in(exported) == GAPS
    assert [one["seq"] for one in exported if "seq" in one] == INTACT
    refused = here("journal", "repair", "--journal", journal)
    assert (refused.returncode, b"is used by another daemon" in refused.stderr) == (1, True)


def test_damaged_output_is_refused(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path / "journal.db"))
    damage(tmp_path / "journal.db", "UPDATE contents SET data=zeroblob(length(data)) WHERE id=5")
    with browsed(tmp_path) as (daemon, browser), daemon.connect() as wire:
        wire.send("output", id=1, outputId="out:4")
        reply = wire.read()
        intact = wire.ask("output", outputId="out:5")
        answer = browser.get("/api/outputs/out:4")

    assert reply["error"] == {"code": "corrupt", "message": "output out:4 is damaged in the journal"}
    assert intact["text"] == "line 5\n" * 100
    assert (answer.status, answer.json["error"]["code"]) == (410, "corrupt")


@pytest.mark.anyio
async def test_repair_keeps_events_that_sqlite_cannot_reach(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    before = await fill(path)
    with closing(sqlite3.connect(path)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name='events'").fetchone()
    rewrite(path, root, lambda _: bytes(PAGE))
    with closing(sqlite3.connect(path)) as database, pytest.raises(sqlite3.DatabaseError):
        database.execute("SELECT count(body) FROM events").fetchone()

    assert here("journal", "repair", "--journal", f"sqlite:{path}").returncode == 0
    with running(tmp_path) as daemon:
        lines = daemon.subscribe(after="start", follow=False).until("live")[:-1]
    assert [(one["seq"], one["id"]) for one in lines] == [(one.seq, json.loads(one.body)["id"]) for one in before]


@pytest.mark.anyio
async def test_scrub_finds_what_nobody_has_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    before = await fill(path)
    damage(path, COLUMNS["body"], 77)
    damage(path, "UPDATE labels SET kind='usage' WHERE kind='message'")
    journal = await SqliteJournal.open(path)
    try:
        assert await journal.scrub(1.0) >= 2
        statistics = journal.statistics()
        assert (statistics["scrubs"], statistics["scrubbing"], statistics["corrupt"]) == (1, 0, 1)
        assert statistics["scrubbedRows"] > EVENTS
        # What an index or a name says is not believed any more.
        messages = [one for one in before if one.seq % 4 == 2]
        assert await everything(journal, Filter(kind=("message",))) == messages
        assert journal.corrupt.within(1, EVENTS) == [(77, 77)]
    finally:
        await journal.close()
    report = here("journal", "check", "--journal", f"sqlite:{path}")
    assert report.returncode == 1
    assert here("journal", "repair", "--journal", f"sqlite:{path}").returncode == 0
    repaired = here("journal", "check", "--journal", f"sqlite:{path}")
    assert (repaired.returncode, repaired.stdout.decode()) == (
        0,
        f"{path} is intact; it records events as lost: 1\n",
    )
    journal = await SqliteJournal.open(path)
    try:
        assert await everything(journal) == [one for one in before if one.seq != 77]
        assert await everything(journal, Filter(kind=("message",))) == messages
        assert await journal.scrub(1.0) == 0
        assert (journal.statistics()["corrupt"], journal.statistics()["lost"]) == (1, 1)
        [finding] = findings.damage({"journal": journal.statistics()})
        assert (finding.level, finding.text) == ("note", "events that the journal records as lost: 1")
    finally:
        await journal.close()


@pytest.mark.anyio
async def test_scrub_of_a_busy_journal_finds_nothing(tmp_path: Path) -> None:
    from tests.daemon.journal.recorded import records
    from tests.daemon.publishing import publish, streams_on

    journal = await SqliteJournal.open(tmp_path / "journal.db")
    async with streams_on(journal) as streams:
        done = False

        async def write() -> None:
            number = 0
            while not done:
                number += 1
                publisher = await publish(streams, f"s{number}", dialect="auto")
                await publisher.ingest.feed(b"".join(records("claude-long")))
                await publisher.record(op="end")
                await publisher.ingest.finish()
                await journal.expire(2**62, 200_000)

        writing = asyncio.create_task(write())
        for _ in range(5):
            assert await journal.scrub(1.0) == 0
        done = True
        await writing
    await journal.close()


def test_daemon_scrubs_by_itself(tmp_path: Path) -> None:
    with running(tmp_path, scrub_interval=0.05) as daemon:
        while not daemon.stats()["journal"]["scrubs"]:
            pass
        report = json.loads(here("doctor", "--json", "--socket", daemon.path).stdout)
    assert [one for one in report["findings"] if "damage" in one["text"]] == []


def test_filter_misses_nothing_once_a_scrub_has_found_a_damaged_name(tmp_path: Path) -> None:
    """The name is damaged while the daemon runs; until the scrub, a filter believes it."""
    asyncio.run(fill(tmp_path / "journal.db"))
    wanted = {"kind": ["message"]}
    with running(tmp_path, scrub_interval=0.05) as daemon:
        whole = daemon.subscribe(after="start", follow=False, filter=wanted).until("live")[:-1]
        damage(tmp_path / "journal.db", "UPDATE labels SET kind='usage' WHERE kind='message'")
        while daemon.subscribe(after="start", follow=False, filter=wanted).until("live")[:-1] != whole:
            pass

    assert len(whole) == EVENTS // 4
