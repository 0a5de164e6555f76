"""Every door of a daemon, opened on a damaged journal: whoever reads through one gets what is intact, and the place of
everything else. `make lab-damages` tries every page of a journal at every door.

    python -m tests.daemon.doors [FLIPS [DOOR]]

`FLIPS`: bits to flip in each page, 1 if it is not given; `DOOR`: a part of the names of the doors to try.

A door passes if each event that it selects is there as it was, or in a gap that is named; or if it is refused with a
sentence. Each door has its own daemon, so that none profits from what another has found. The doors of the TypeScript
client need Node, and are tried with a sample of the damages.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.command import here
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import TIMEOUT, Running, running
from tests.daemon.web.browsing import Browser, browsed
from tooltap.client import Filter, Gap, subscribe
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.events import SessionEvent
from tooltap.protocol.inputs import Line

EVENTS = 240
PAGE = 8_192
TYPESCRIPT = Path(__file__).parents[2] / "clients/typescript"
SAMPLE = 8
"""The doors that start a process are tried with each of `DAMAGES`, and with one of so many others."""
SUFFIXES = ("", "-wal", ".tip")
Event = dict[str, Any]


class DoorRefusedError(Exception):
    """The door is closed, with a sentence."""


class Taken(NamedTuple):
    """What came through a door."""

    events: dict[int, Any]
    """`seq` -> the event, or None where the door shows less."""
    gaps: list[tuple[int, int]]
    texts: Collection[int] = ()
    """Instead of events: the numbers of the messages that it shows."""


# -- the journal ------------------------------------------------------------------------------------------------------


COMMITS = EVENTS // 4
IN_FILE = COMMITS * 5 // 6
"""The commits that are in the main file; the others are in the log."""


async def fill_journal(journal: Journal, first: int = 0, last: int = COMMITS) -> None:
    """Commit to two sessions, in three streams: four events each."""
    for number in range(first, last):
        stream = f"s{number % 3}"
        fields: dict[str, Any] = {"session": "one" if number % 3 else "two", "line": number + 1}
        outputs = [
            event(SessionEvent, stream, state="updated", title=f"title {number}", **fields),
            message(f"text {number} " + "x" * 150, stream, agent=None if number % 5 else "child", **fields),
            call(f"c{number}", stream=stream, name=("Bash", "Edit")[number % 2], **fields),
            result(f"c{number}", stream=stream, **fields),
        ]
        tail = [Line(f"line {number}".encode())]
        done = commit(*outputs, stream=stream, base=number // 3, tail=tail, session=fields["session"])
        done.info.updated = wall_clock()
        await journal.commit(done)


async def events_of(journal: Journal) -> list[Event]:
    found: list[Event] = []
    after = 0
    while after < journal.latest:
        events, after = await journal.read(after)
        found += [{"seq": one.seq, **json.loads(one.body)} for one in events]
    return found


async def fill(path: Path) -> list[Event]:
    """A journal of `EVENTS` events in a file, the last sixth of it in the write-ahead log. It is copied into `whole`
    beside the file, with a search index of all of it. Returns its events."""
    journal = await SqliteJournal.open(path)
    await fill_journal(journal, 0, IN_FILE)
    await journal.close()
    journal = await SqliteJournal.open(path)
    await fill_journal(journal, IN_FILE)
    folder = path.parent / "whole"
    folder.mkdir()
    for suffix in SUFFIXES:
        shutil.copy(f"{path}{suffix}", folder / f"journal.db{suffix}")
    events = await events_of(journal)
    await journal.close()
    await asyncio.to_thread(_add_index, folder)
    return events


def _add_index(template: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        copied(template, Path(name) / "indexed")
        with running(Path(name) / "indexed") as daemon:
            daemon.until_indexed()
        _copy_index(Path(name) / "indexed", template)


def _copy_index(folder: Path, to: Path) -> None:
    for file in folder.glob("journal.db.search*"):
        if file.suffix != ".search-shm":
            shutil.copy(file, to)


# -- the doors --------------------------------------------------------------------------------------------------------


def lines_taken(lines: Iterable[Event]) -> Taken:
    """What event lines and frames say. Raises `DoorRefusedError` for an error."""
    taken = Taken({}, [])
    for one in lines:
        match one.get("op"):
            case None:
                assert one["seq"] > max(taken.events, default=0), f"event {one['seq']} is out of order, or twice"
                assert not taken.gaps or one["seq"] > taken.gaps[-1][1], f"event {one['seq']} is in a gap"
                taken.events[one["seq"]] = one
            case "gap":
                taken.gaps.append((one["from"], one["to"]))
            case "error":
                assert one["code"] != "internal", one
                raise DoorRefusedError(one["message"])
    return taken


class Door(NamedTuple):
    name: str
    take: Callable[[Running, Browser, Filter], Taken]
    wanted: Filter = Filter()

    def selects(self, one: Event) -> bool:
        wanted = self.wanted
        return (
            (wanted.kind is None or one["kind"] in wanted.kind)
            and (wanted.session is None or one["session"] in wanted.session)
            and (wanted.stream is None or one["stream"] in wanted.stream)
            and (wanted.tool is None or one.get("name") in wanted.tool)
            and (wanted.agent is None or one.get("agent") in wanted.agent)
        )


def _as_json(wanted: Filter) -> Event:
    found = {key: getattr(wanted, key) for key in ("kind", "session", "stream", "tool", "agent")}
    return {key: value for key, value in found.items() if value is not None}


def _query(wanted: Filter) -> str:
    return "".join(f"&{key}={value}" for key, values in _as_json(wanted).items() for value in values)


def socket(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    wire = daemon.connect()
    wire.send("subscribe", after="start", follow=False, filter=_as_json(wanted))
    return lines_taken(wire.rest())


def socket_without_filter(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    wire = daemon.connect()
    wire.send("subscribe", after="start", follow=False)
    return lines_taken(wire.rest())


def display(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    wire = daemon.connect()
    wire.send("subscribe", after="start", follow=False, filter=_as_json(wanted), **{"as": "display"})
    return lines_taken({**one, **({"op": "shown"} if "op" not in one else {})} for one in wire.rest())


def _pages(browser: Browser, way: str, at: str, wanted: Filter) -> Taken:
    taken, more = Taken({}, []), True
    while more:
        answer = browser.get(f"/api/events?{way}={at}&limit=50{_query(wanted)}")
        if answer.status != 200:
            raise DoorRefusedError(answer.error[2])
        page = answer.json
        taken.events.update({one["seq"]: one for one in page["events"]})
        taken.gaps.extend([(page["gap"]["from"], page["gap"]["to"])] if "gap" in page else [])
        at, more = page["next"], page["more"]
    return taken


def pages_after(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    return _pages(browser, "after", "start", wanted)


def pages_before(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    return _pages(browser, "before", str(2**62), wanted)


def server_sent_events(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    with browser.stream(f"/api/events?after=start{_query(wanted)}") as stream:
        return lines_taken(one.json for one in stream.until("live") if one.event in ("gap", "message", "error"))


def client(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    taken = Taken({}, [])
    for one in subscribe(after="start", follow=False, path=daemon.path, filter=wanted):
        if isinstance(one, Gap):
            taken.gaps.append((one.from_, one.to))
        elif one.seq is not None:
            taken.events[one.seq] = None
    return taken


_NOTE = re.compile(r"[Ee]vents? ([\d,]+)(?: to ([\d,]+))? (?:is|are) (?:damaged|gone)")


def _noted(text: str) -> list[tuple[int, int]]:
    ranges = [(first.replace(",", ""), last.replace(",", "")) for first, last in _NOTE.findall(text)]
    return [(int(first), int(last or first)) for first, last in ranges]


def session_page(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    html = _file(browser, "/sessions/one?kind=message")
    return Taken({int(seq): None for seq in re.findall(r'id="e(\d+)"', html)}, _noted(html))


def live_cards(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    """What an open page gets: cards, of which each has its number."""
    with browser.stream(f"/live?after=start{_query(wanted)}") as stream:
        messages = list(stream.until("live"))
    cards = [int(one.id) for one in messages if one.event == "card" and one.id]
    gaps = [(one.json["from"], one.json["to"]) for one in messages if one.event == "gap"]
    return Taken(dict.fromkeys(cards), gaps)


def tail(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    words = [f"--{key}={value}" for key, values in _as_json(wanted).items() for value in values]
    return _printed("tail", "--after", "start", "--no-follow", "--mode", "json", *words, daemon=daemon)


def show(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    return _printed("show", "one", "--json", daemon=daemon)


def journal_export(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    return _printed("journal", "export", "--no-redact", "--journal", daemon.stats()["journal"]["path"])


def _printed(*words: str, daemon: Running | None = None) -> Taken:
    """What a command prints: event lines, and gaps among them or as warnings."""
    done = here(*words, *([] if daemon is None else ["--socket", daemon.path]))
    warnings = _noted(done.stderr.decode())
    if done.returncode and not warnings:
        raise DoorRefusedError(done.stderr.decode())
    # The log of the daemon of this process is there, too.
    lines = [one for one in done.stdout.splitlines() if one.startswith(b"{")]
    taken = lines_taken(map(json.loads, lines))
    return taken._replace(gaps=[*taken.gaps, *warnings])


def exported(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    """`tooltap export`: its warnings, and the texts in its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.md"
        done = here("export", "--socket", daemon.path, "--markdown", "one", "-o", file)
        warnings = _noted(done.stderr.decode())
        if done.returncode and not warnings:
            raise DoorRefusedError(done.stderr.decode())
        return Taken({}, warnings, _numbers(file.read_text()) if file.exists() else ())


def downloaded(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    """The page's download of a session as Markdown."""
    text = _file(browser, "/sessions/one/export.md")
    return Taken({}, _noted(text), _numbers(text))


def downloaded_html(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
    html = _file(browser, "/sessions/one/export.html")
    return Taken({}, _noted(html), _numbers(html))


def _file(browser: Browser, target: str) -> str:
    answer = browser.get(target)
    if answer.status == 404:  # this says that there is nothing
        return ""
    if answer.status != 200:
        raise DoorRefusedError(str(answer.status))
    return answer.body.decode()


def _numbers(text: str) -> set[int]:
    return set(map(int, re.findall(r"text (\d+) xxx", text)))


FILTERS = {
    "kind in the index": Filter(kind=("tool-call",)),
    "kind not in the index": Filter(kind=("message",)),
    "session": Filter(session=("one",)),
    "stream": Filter(stream=("s1",)),
    "tool": Filter(tool=("Edit",)),
    "agent": Filter(agent=("child",)),
    "session and kind": Filter(session=("one",), kind=("message", "tool-result")),
}
ONE_KIND, ONE_SESSION = FILTERS["kind in the index"], FILTERS["session"]
MESSAGES = Filter(session=("one",), kind=("message",))

DOORS = [
    Door("socket", socket_without_filter),
    Door("socket, empty filter", socket),
    *(Door(f"socket, {name}", socket, wanted) for name, wanted in FILTERS.items()),
    Door("socket as display", display),
    Door("pages onwards", pages_after),
    Door("pages onwards, session", pages_after, ONE_SESSION),
    Door("pages back", pages_before),
    Door("pages back, session", pages_before, ONE_SESSION),
    Door("pages back, kind", pages_before, ONE_KIND),
    Door("server-sent events", server_sent_events),
    Door("server-sent events, kind", server_sent_events, ONE_KIND),
    Door("Python client", client),
    Door("Python client, session", client, ONE_SESSION),
    Door("page of a session", session_page, MESSAGES),
    Door("live cards of a page, kind", live_cards, FILTERS["kind not in the index"]),
    Door("tooltap tail", tail),
    Door("tooltap tail, kind", tail, ONE_KIND),
    Door("tooltap show", show, ONE_SESSION),
    Door("tooltap journal export", journal_export),
    Door("tooltap export", exported, MESSAGES),
    Door("download as Markdown", downloaded, MESSAGES),
    Door("download as HTML", downloaded_html, MESSAGES),
]


class NoCompilerError(Exception):
    """The compiler of TypeScript cannot be installed."""


def build_typescript(folder: Path) -> Path:
    """Compile the TypeScript client in a copy of its folder, which takes some seconds: another check may be building
    it in its own place. Returns the copy. Raises `NoCompilerError`."""
    copy = folder / "typescript"
    shutil.copytree(TYPESCRIPT, copy, ignore=shutil.ignore_patterns("dist", "node_modules", "test", "examples"))
    install = ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-fund", "--no-audit"]
    done = subprocess.run(install, cwd=copy, capture_output=True, check=False)
    if done.returncode:
        raise NoCompilerError(done.stderr.decode())
    subprocess.run(["npx", "--no-install", "tsc"], cwd=copy, check=True)
    return copy


def typescript_doors(built: Path) -> list[Door]:
    """The doors of the TypeScript client. Each opening is a process."""

    def take(wanted: Filter, token: str = "", **where: str) -> Taken:
        options = json.dumps({"filter": _as_json(wanted), **where})
        command = ["node", str(Path(__file__).with_name("door.mjs")), str(built), options]
        done = subprocess.run(command, input=token.encode(), stdout=subprocess.PIPE, timeout=TIMEOUT, check=True)
        return lines_taken(map(json.loads, done.stdout.splitlines()))

    def over_socket(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
        return take(wanted, path=str(daemon.path))

    def over_http(daemon: Running, browser: Browser, wanted: Filter) -> Taken:
        return take(wanted, browser.token, url=browser.url)

    return [
        Door("TypeScript client", over_socket),
        Door("TypeScript client, session", over_socket, ONE_SESSION),
        Door("TypeScript client over HTTP", over_http),
        Door("TypeScript client over HTTP, session", over_http, ONE_SESSION),
    ]


MERGED = (pages_after, pages_before)
"""Doors at which several gaps become one, which may cover intact events."""
GAPS_ALONE = (display,)


def try_door(
    door: Door, whole: list[Event], folder: Path, lost: Collection[int] | None = None, journal: str | None = None
) -> str:
    """Open a door of a daemon on the journal in `folder`. `lost`: the events that are gone, if that is known. Returns
    what became of it: whole, gaps or refused. Raises `AssertionError` for what is missing without a word, is not as it
    was, or is called lost and is not."""
    settings: dict[str, Any] = {} if journal is None else {"journal": journal}
    try:
        with browsed(folder, **settings) as (daemon, browser):
            taken = door.take(daemon, browser, door.wanted)
    except (DoorRefusedError, JournalError):
        return "refused"
    return "gaps" if check_taken(door, whole, taken, lost) else "whole"


def check_taken(door: Door, whole: list[Event], taken: Taken, lost: Collection[int] | None) -> set[int]:
    """Check what came through a door. Returns the numbers in its gaps. Raises `AssertionError` as `try_door` does."""
    known = {one["seq"]: one for one in whole}
    taken.events.update({seq: None for seq, one in known.items() if _numbers(one.get("text", "")) & {*taken.texts}})
    for seq, found in taken.events.items():
        assert seq in known, f"{door.name}: event {seq} was never there"
        assert found is None or found == known[seq], f"{door.name}: event {seq} is not what it was"
        assert door.selects(known[seq]), f"{door.name}: event {seq} is not wanted"
    named = {seq for first, last in taken.gaps for seq in range(first, last + 1)}
    missing = [one["seq"] for one in whole if door.selects(one) and one["seq"] not in taken.events]
    if door.take not in GAPS_ALONE:
        silent = [seq for seq in missing if seq not in named]
        assert not silent, f"{door.name}: events {silent[:10]} are missing without a word"
    if door.take not in MERGED:
        invented = sorted(named & (taken.events.keys() if lost is None else known.keys() - set(lost)))
        assert not invented, f"{door.name}: events {invented[:10]} are there, in a gap"
    return named


# -- the damages ------------------------------------------------------------------------------------------------------


def copied(template: Path, to: Path) -> Path:
    """A copy of the journal, of which a part is in its log."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for suffix in SUFFIXES:
        shutil.copy(template / f"journal.db{suffix}", to)
    return to / "journal.db"


def merged(template: Path, to: Path) -> Path:
    """A copy of the journal, all of it in the main file."""
    path = copied(template, to)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


class Damage(NamedTuple):
    make: Callable[[Path, Path], None]
    """Make a damaged copy of a journal: from a folder, to a folder."""
    lost: Collection[int] | None = None


def delete(first: int, last: int) -> Damage:
    def make(template: Path, to: Path) -> None:
        with closing(sqlite3.connect(merged(template, to))) as database, database:
            assert database.execute("DELETE FROM events WHERE seq BETWEEN ? AND ?", (first, last)).rowcount

    return Damage(make, range(first, last + 1))


def flip(page: int, seed: int) -> Damage:
    """Flip a bit of a page, by seed."""

    def make(template: Path, to: Path) -> None:
        path = merged(template, to)
        chance = random.Random(f"{page} {seed}")
        data = bytearray(path.read_bytes())
        start = (page - 1) * PAGE
        used = [at for at in range(start, start + PAGE) if data[at]]
        if used:
            data[chance.choice(used)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)

    return Damage(make)


def swap(one: int, other: int) -> Damage:
    def make(template: Path, to: Path) -> None:
        path = merged(template, to)
        data = bytearray(path.read_bytes())
        first, second = slice((one - 1) * PAGE, one * PAGE), slice((other - 1) * PAGE, other * PAGE)
        data[first], data[second] = data[second], data[first]
        path.write_bytes(data)

    return Damage(make)


def lose_log(template: Path, to: Path) -> None:
    Path(f"{copied(template, to)}-wal").unlink()


def lose_log_and_tip(template: Path, to: Path) -> None:
    """Only the search index knows that there was more."""
    path = copied(template, to)
    _copy_index(template, to)
    for suffix in ("-wal", ".tip"):
        Path(f"{path}{suffix}").unlink()


DAMAGES = {
    "a row": delete(42, 42),
    "the first rows": delete(1, 2),
    "the last row": delete(EVENTS, EVENTS),
    "a range": delete(100, 139),
    "all rows": delete(1, EVENTS),
    "the log": Damage(lose_log),
    "the log and its tip": Damage(lose_log_and_tip, range(IN_FILE * 4 + 1, EVENTS + 1)),
}


def every_page(template: Path, folder: Path, flips: int) -> Iterator[tuple[str, Damage]]:
    """Flips of bits in each page, and swaps of each page with another one."""
    pages = merged(template, folder / "merged").stat().st_size // PAGE
    for page in range(1, pages + 1):
        for seed in range(flips):
            yield f"bit {seed} of page {page}", flip(page, seed)
        if page > 1:
            other = random.Random(page).randrange(2, pages + 1)
            yield f"pages {page} and {other}", swap(page, other)


def main(arguments: list[str]) -> int:
    flips = int(arguments[0]) if arguments else 1
    only = arguments[1] if len(arguments) > 1 else ""
    tried = failures = 0
    outcomes: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="tooltap-doors-") as name:
        folder = Path(name)
        whole = asyncio.run(fill(folder / "journal.db"))
        template = folder / "whole"
        doors = [*DOORS]
        try:
            doors += typescript_doors(build_typescript(folder))
        except NoCompilerError as error:
            failures += "TOOLTAP_NO_SKIP" in os.environ
            print(f"the TypeScript client was not tried: {error}", flush=True)
        for number, (kind, damage) in enumerate([*DAMAGES.items(), *every_page(template, folder, flips)]):
            for door in doors if number < len(DAMAGES) or number % SAMPLE == 0 else DOORS:
                if only not in door.name:
                    continue
                damage.make(template, folder / "damaged")
                tried += 1
                try:
                    outcome = try_door(door, whole, folder / "damaged", damage.lost)
                except Exception as error:
                    failures += 1
                    outcome = "FAILED"
                    print(f"{kind}: {door.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                counts = outcomes.setdefault(door.name, {})
                counts[outcome] = counts.get(outcome, 0) + 1
    for door_name, counts in outcomes.items():
        print(f"{door_name:40} {counts}")
    print(f"{tried} openings of {len(doors)} doors, {failures} failures; {len(whole)} events each")
    return 1 if failures else 0


if __name__ == "__main__":
    from tooltap.daemon.system.logs import configure

    configure("critical")
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
