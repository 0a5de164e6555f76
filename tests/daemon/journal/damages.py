"""Damages a real journal at random, by seed, and checks what becomes of it. `make lab-damages` tries a thousand.

    python -m tests.daemon.journal.damages [FIRST [LAST]]

What must hold for each:

- `check` reports it, or it is harmless: then SQLite by itself reads the same rows as before.
- A daemon serves no event that is not as it was, and names each that is missing; or it does not start, with a sentence.
- `repair` finds every event that is not on a damaged page, as it was, and leaves a journal that is intact.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.daemon.journal.recorded import begin, records
from tests.daemon.publishing import daemon, journal_of, publish
from tooltap.daemon.journal.interface import CorruptError, JournalError
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.repair import repair
from tooltap.normalizers.core.items import Limits

PAGE = 8_192
FRAME = 24 + PAGE
SUFFIXES = ("", "-wal", "-shm", ".tip")
NAME = "journal.db"


class Template(NamedTuple):
    """A journal as a killed daemon leaves it, with part of it in the write-ahead log."""

    folder: Path
    rows: dict[str, list[Any]]
    """Table -> its rows, as SQLite reads them."""
    events: dict[int, bytes]
    pages: dict[int, set[int]]
    """`seq` -> the pages that the event's body may be on."""
    outputs: dict[str, bytes]
    frames: list[tuple[int, int]]
    """Frames of the write-ahead log: (page, index of the transaction)."""


async def make(folder: Path) -> Template:
    """Make a template. `folder` must be empty, and must exist as long as the template is used."""
    path = folder / "live" / NAME
    path.parent.mkdir()
    await begin(path)
    async with daemon(path, limits=Limits(string_bytes=2_000), snapshot_bytes=3_000) as streams:
        for number in range(12):
            publisher = await publish(streams, f"more-{number}", dialect="auto")
            lines = records(("acp", "claude", "claude-long", "codex")[number % 4])
            await publisher.ingest.feed(b"".join(lines[: len(lines) - number % 3]))
            if number < 4:
                await publisher.record(op="end")
            await publisher.ingest.finish()
        journal = journal_of(streams)
        await journal.expire(2**62, 400_000)
    journal = await SqliteJournal.open(path)
    async with daemon_on(journal) as streams:
        for number in range(12, 20):
            publisher = await publish(streams, f"more-{number}", dialect="auto")
            await publisher.ingest.feed(b"".join(records(("acp", "codex")[number % 2])))
            await publisher.ingest.finish()
    for suffix in SUFFIXES:
        shutil.copy(f"{path}{suffix}", folder / f"{NAME}{suffix}")
    await journal.close()
    return await read_template(folder)


def daemon_on(journal: SqliteJournal) -> Any:
    from tests.daemon.publishing import streams_on

    return streams_on(journal, limits=Limits(string_bytes=2_000))


async def read_template(folder: Path) -> Template:
    copied = copy(folder, folder / "whole")
    rows = rows_of(copied)
    with closing(sqlite3.connect(copied)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    image = copied.read_bytes()
    events = {row[0]: row[4] for row in rows["events"]}
    pages = {seq: pages_of(image, body) for seq, body in events.items()}
    journal = await SqliteJournal.open(copied)
    outputs = {}
    for row in rows["bodies"]:
        found = await journal.output(row[1], 0, 2**30, "bytes")
        assert found is not None
        outputs[row[1]] = found.data
    await journal.close()
    assert not list(check_file(copied))
    log = (folder / f"{NAME}-wal").read_bytes()
    frames, transaction = [], 0
    for start in range(32, len(log) - FRAME + 1, FRAME):
        frames.append((int.from_bytes(log[start : start + 4], "big"), transaction))
        transaction += int.from_bytes(log[start + 4 : start + 8], "big") > 0
    return Template(folder, rows, events, pages, outputs, frames)


def pages_of(image: bytes, body: bytes) -> set[int]:
    """Return the pages that hold the body of an event: one page, or the first page and its overflow pages."""
    at = image.find(body)
    if at >= 0:
        return {at // PAGE + 1}
    found = set()
    for start in range(0, len(body), 200):
        at = image.find(body[start : start + 200])
        if at >= 0:
            found.add(at // PAGE + 1)
    return found


def copy(folder: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            shutil.copy(folder / f"{NAME}{suffix}", to)
    return to / NAME


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Return all rows of all tables, read by SQLite alone."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = {name: sorted(database.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables}
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return rows


# -- damages ------------------------------------------------------------------------------------------------------


class Damage(NamedTuple):
    kind: str
    pages: set[int]
    """Pages whose newest versions are damaged, or may be lost with the damage."""


def damage(template: Template, path: Path, seed: int) -> Damage:
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    return Damage(kind, DAMAGES[kind](template, path, chance))


def newest_in_file(template: Template, pages: set[int]) -> set[int]:
    return pages  # those that the log has too are touched as well: the log may be checkpointed no more


def change(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def flip_bit(template: Template, path: Path, chance: random.Random) -> set[int]:
    size = path.stat().st_size
    at = chance.randrange(size)
    byte = path.read_bytes()[at]
    change(path, at, bytes([byte ^ 1 << chance.randrange(8)]))
    return {at // PAGE + 1}


def flip_bytes(template: Template, path: Path, chance: random.Random) -> set[int]:
    data = path.read_bytes()
    found = set()
    for _ in range(20):
        at = chance.randrange(len(data))
        change(path, at, bytes([data[at] ^ chance.randrange(1, 256)]))
        found.add(at // PAGE + 1)
    return found


def zero_page(template: Template, path: Path, chance: random.Random) -> set[int]:
    page = chance.randrange(path.stat().st_size // PAGE)
    change(path, page * PAGE, bytes(PAGE))
    return {page + 1}


def zero_sector(template: Template, path: Path, chance: random.Random) -> set[int]:
    sector = chance.randrange(path.stat().st_size // 512)
    change(path, sector * 512, bytes(512))
    return {sector * 512 // PAGE + 1}


def random_sector(template: Template, path: Path, chance: random.Random) -> set[int]:
    sector = chance.randrange(path.stat().st_size // 512)
    change(path, sector * 512, chance.randbytes(512))
    return {sector * 512 // PAGE + 1}


def swap_pages(template: Template, path: Path, chance: random.Random) -> set[int]:
    data = path.read_bytes()
    one, other = chance.sample(range(len(data) // PAGE), 2)
    change(path, one * PAGE, data[other * PAGE : other * PAGE + PAGE])
    change(path, other * PAGE, data[one * PAGE : one * PAGE + PAGE])
    return {one + 1, other + 1}


def truncate(template: Template, path: Path, chance: random.Random) -> set[int]:
    size = path.stat().st_size
    end = chance.randrange(1, size)
    with open(path, "r+b") as file:
        file.truncate(end)
    return set(range(end // PAGE + 1, size // PAGE + 2))


def lose_log(template: Template, path: Path, chance: random.Random) -> set[int]:
    Path(f"{path}-wal").unlink()
    if chance.random() < 0.5:
        Path(f"{path}-shm").unlink()
    return {page for page, _ in template.frames}


def tear_log(template: Template, path: Path, chance: random.Random) -> set[int]:
    log = Path(f"{path}-wal")
    end = chance.randrange(log.stat().st_size)
    with open(log, "r+b") as file:
        file.truncate(end)
    return behind(template, max(end - 32, 0) // FRAME)


def behind(template: Template, frame: int) -> set[int]:
    """Return the pages in the transaction of a frame, and in all later ones."""
    if frame >= len(template.frames):
        return set()
    transaction = template.frames[frame][1]
    return {page for page, one in template.frames if one >= transaction}


def within(template: Template, at: int) -> set[int]:
    """Return the pages in the transactions that a damaged byte of the log invalidates."""
    if at < 32:
        return {page for page, one in template.frames if one == 0}
    frame = (at - 32) // FRAME
    if frame >= len(template.frames):
        return set()
    # The next frame is verified against the checksum in this one.
    touched = {template.frames[frame][1], template.frames[min(frame + 1, len(template.frames) - 1)][1]}
    return {page for page, one in template.frames if one in touched}


def flip_log(template: Template, path: Path, chance: random.Random) -> set[int]:
    log = Path(f"{path}-wal")
    data = log.read_bytes()
    at = chance.randrange(len(data))
    change(log, at, bytes([data[at] ^ 1 << chance.randrange(8)]))
    return within(template, at)


def zero_log(template: Template, path: Path, chance: random.Random) -> set[int]:
    log = Path(f"{path}-wal")
    sector = chance.randrange(log.stat().st_size // 512)
    change(log, sector * 512, bytes(512))
    return within(template, sector * 512) | within(template, sector * 512 + 511)


def lose_index(template: Template, path: Path, chance: random.Random) -> set[int]:
    index = Path(f"{path}-shm")
    if chance.random() < 0.5:
        index.unlink()
    else:
        index.write_bytes(chance.randbytes(index.stat().st_size))
    return set()


def damage_tip(template: Template, path: Path, chance: random.Random) -> set[int]:
    tip = Path(f"{path}.tip")
    data = tip.read_bytes()
    at = chance.randrange(len(data.rstrip()))
    change(tip, at, bytes([data[at] ^ 1 << chance.randrange(8)]))
    return set()


DAMAGES = {
    "bit": flip_bit,
    "bytes": flip_bytes,
    "page": zero_page,
    "sector": zero_sector,
    "garbage": random_sector,
    "swap": swap_pages,
    "truncate": truncate,
    "lost log": lose_log,
    "torn log": tear_log,
    "log bit": flip_log,
    "log sector": zero_log,
    "index": lose_index,
    "tip": damage_tip,
}
WEIGHTS = {"bit": 4, "bytes": 3, "page": 4, "sector": 2, "garbage": 2, "swap": 4, "log bit": 3}
KINDS = [kind for kind in DAMAGES for _ in range(WEIGHTS.get(kind, 1))]


# -- what must hold -----------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    kind: str
    reported: bool
    started: bool
    missing: int
    """Events that the daemon did not serve."""
    lost: int
    """Events that the repaired journal does not have."""


def try_damage(template: Template, folder: Path, seed: int) -> Outcome:
    path = copy(template.folder, folder / "damaged")
    damaged = damage(template, path, seed)
    reports = list(check_file(copy(path.parent, folder / "checked")))
    if not reports:
        found = rows_of(copy(path.parent, folder / "read"))
        for table, rows in template.rows.items():
            assert found[table] == rows, f"{table} differs, and nothing was reported"
    assert all(one.text and "Traceback" not in one.text for one in reports)
    missing = asyncio.run(serve(template, copy(path.parent, folder / "served")))
    lost = check_repaired(template, copy(path.parent, folder / "repaired"), damaged)
    return Outcome(damaged.kind, bool(reports), missing is not None, missing or 0, lost)


async def serve(template: Template, path: Path) -> int | None:
    """Return how many events the daemon does not serve; None if it does not start."""
    try:
        journal = await SqliteJournal.open(path)
    except JournalError:
        return None
    try:
        await journal.suspend_all()
        await journal.load_note("drift")
        served: dict[int, bytes] = {}
        after = 0
        while after < journal.latest:
            events, after = await journal.read(after, max_bytes=50_000)
            served |= {one.seq: one.body for one in events}
        compare_events(template, served)
        latest = max(template.events)
        reported = {seq for first, last in journal.corrupt.within(1, latest) for seq in range(first, last + 1)}
        missing = template.events.keys() - served.keys()
        unreported = {one for one in missing if one not in reported and one > journal.last_expired}
        assert not unreported, f"events {sorted(unreported)[:10]} are missing without a gap"
        for name, data in template.outputs.items():
            with suppress(CorruptError):
                output = await journal.output(name, 0, 2**30, "bytes")
                assert output is None or output.data == data
        for seq in list(template.events)[:: max(len(template.events) // 20, 1)]:
            with suppress(CorruptError):
                event = await journal.event(seq)
                assert event is None or event.body == template.events[seq]
        for call in (journal.sessions, journal.streams, journal.open_calls):
            with suppress(JournalError):
                await call()
        return len(missing)
    finally:
        await journal.close()


def compare_events(template: Template, served: dict[int, bytes]) -> None:
    for seq, body in served.items():
        assert template.events.get(seq) == body, f"event {seq} is not what it was"


def check_repaired(template: Template, path: Path, damaged: Damage) -> int:
    repaired = repair(path)
    assert not list(check_file(path))
    rows = rows_of(path)
    events = {row[0]: row[4] for row in rows["events"]}
    compare_events(template, events)
    lost = template.events.keys() - events.keys()
    intact = {seq for seq in lost if not template.pages[seq] & damaged.pages}
    assert not intact, f"events {sorted(intact)[:10]} were intact and are lost"
    covered = {seq for first, last in repaired.gaps for seq in range(first, last + 1)}
    expired = next(row[1] for row in rows["meta"] if row[0] == "expired")
    assert all(seq in covered or seq <= expired for seq in lost)
    return len(lost)


def main(arguments: list[str]) -> int:
    first, last = (list(map(int, arguments)) + [0, 999][len(arguments) :])[:2]
    counts: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="tooltap-damages-") as name:
        folder = Path(name)
        (folder / "template").mkdir()
        template = asyncio.run(make(folder / "template"))
        for seed in range(first, last + 1):
            try:
                outcome = try_damage(template, folder, seed)
            except Exception as error:
                failures += 1
                kind = random.Random(seed).choice(KINDS)
                print(f"seed {seed} ({kind}): {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            counts["reported" if outcome.reported else "harmless"] += 1
            counts["not started"] += not outcome.started
            counts["events not served"] += outcome.missing
            counts["events lost"] += outcome.lost
    print(f"{last - first + 1} damages: {dict(counts)}, {failures} failures; {len(template.events)} events each")
    return 1 if failures else 0


if __name__ == "__main__":
    from tooltap.daemon.system.logs import configure

    configure("critical")
    sys.exit(main(sys.argv[1:]))
