"""Every door of a daemon whose journal is on NATS, opened on a damaged store: the damages of `doors.py`, as far as they
mean something to a server. `make lab-damages` tries them, by seed.

    python -m tests.daemon.doors_nats [SEED [DOOR]]

Each opening has a server of its own on a copy of the store, and a daemon with a copy of what its host remembers of the
journal. A server leaves out what it cannot read, and says nothing: then the numbers say that something is missing. If
the beginning or the end of the store is missing, no number says so. Then the journal must get a new id: whoever has
read more of it gets a gap.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.daemon.doors import (
    DOORS,
    Door,
    DoorRefusedError,
    Event,
    check_taken,
    events_of,
    fill_journal,
)
from tests.daemon.nats_server import NatsServer
from tests.daemon.running import Running
from tests.daemon.test_files_in_use import until
from tests.daemon.web.browsing import browsed
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE
from tooltap.daemon.journal.nats.place import parse_nats_url
from tooltap.daemon.system.paths import journals_folder

NAME = "doors"
OF_SMALL_BLOCKS = 120_000
"""`max_bytes` of a stream for which the server makes blocks of 32 kB, its shortest."""
BLOCKS = 4
OLDER = 40
"""The messages that the older copy of the store has."""
DOORS_A_BLOCK = 2
"""Doors that are tried with each damage of a block."""
OFTEN: dict[str, Any] = {"nats.check_period": 0.1}
Damaging = Callable[["Store"], None]


class Whole(NamedTuple):
    """An intact store, as `template/js`, the same with the first `OLDER` messages, as `template/older`, and what the
    host of its daemon remembers, as `template/memory`."""

    template: Path
    events: list[Event]
    journal: str
    """Its id."""


class Store:
    """A copy of the store, and its server."""

    def __init__(self, whole: Whole, folder: Path) -> None:
        self.template = whole.template
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._copy("js", folder / "js")
        self._copy("memory", journals_folder())
        self.server = NatsServer(folder)
        self.url = f"{self.server.url}/{NAME}"

    @property
    def files(self) -> Path:
        (found,) = (self.server.directory / "js").glob(f"jetstream/*/streams/{NAME}/msgs")
        return found

    @property
    def blocks(self) -> list[Path]:
        return sorted(self.files.glob("*.blk"))

    def lose_index(self) -> None:
        (self.files / "index.db").unlink(missing_ok=True)

    def replace(self, name: str | None) -> None:
        """Put a copy of the template in place of the store, or nothing."""
        shutil.rmtree(self.server.directory / "js")
        if name is not None:
            self._copy(name, self.server.directory / "js")

    def suffer(self, damage: Damage) -> None:
        if damage.is_request:
            damage.make(self)
        else:
            self.server.stop()
            damage.make(self)
            self.server.start()

    def _copy(self, name: str, to: Path) -> None:
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.template / name, to)

    def api(self, call: str, **arguments: Any) -> None:
        """Ask the server, as its operator does."""

        async def ask() -> None:
            import nats

            client = await nats.connect(self.server.url)
            reply = await client.request(f"$JS.API.{call}.{NAME}", orjson.dumps(arguments))
            assert "error" not in orjson.loads(reply.data), reply.data
            await client.close()

        asyncio.run(ask())


async def _fill(server: NatsServer, template: Path) -> tuple[list[Event], str]:
    journal = await NatsJournal.open(parse_nats_url(f"{server.url}/{NAME}"), memory=template / "memory")
    try:
        api = journal._connection.api
        config = (await api(f"STREAM.INFO.{NAME}"))["config"]
        await api(f"STREAM.DELETE.{NAME}")
        await api(f"STREAM.CREATE.{NAME}", **{**config, "max_bytes": OF_SMALL_BLOCKS})
        await fill_journal(journal, 0, OLDER)
        server.stop()
        shutil.copytree(template / "js", template / "older")
        server.start()
        await fill_journal(journal, OLDER)
        await api(f"STREAM.UPDATE.{NAME}", **config)
        return await events_of(journal), journal.id
    finally:
        await journal.close()


def fill(template: Path) -> Whole:
    """Make a store of four blocks."""
    with NatsServer(template) as server:
        events, journal = asyncio.run(_fill(server, template))
        server.stop()
    whole = Whole(template, events, journal)
    assert len([*template.glob(f"js/jetstream/*/streams/{NAME}/msgs/*.blk")]) == BLOCKS
    return whole


# -- the damages ------------------------------------------------------------------------------------------------------


class Damage(NamedTuple):
    make: Damaging
    lost: Collection[int] | None = None
    """The messages that are gone, if that is known."""
    is_request: bool = False
    """The server does it, so it is not stopped."""


def delete(*messages: int) -> Damage:
    def make(store: Store) -> None:
        for one in messages:
            store.api("STREAM.MSG.DELETE", seq=one)

    return Damage(make, messages, is_request=True)


def purge(first_left: int) -> Damage:
    """Delete all messages before one."""
    return Damage(lambda store: store.api("STREAM.PURGE", seq=first_left), range(1, first_left), is_request=True)


def flip(block: int, seed: int, *, with_index: bool) -> Damage:
    """Flip a bit of a block, by seed."""

    def make(store: Store) -> None:
        chance = random.Random(f"{block} {seed}")
        file = store.blocks[block]
        data = bytearray(file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        if not with_index:
            store.lose_index()

    return Damage(make)


def swap(one: int, other: int, *, with_index: bool) -> Damage:
    def make(store: Store) -> None:
        first, second = store.blocks[one], store.blocks[other]
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)
        if not with_index:
            store.lose_index()

    return Damage(make)


def truncate(block: int, part: float, *, with_index: bool) -> Damage:
    """Cut a block off; of `part` 0, nothing is left."""

    def make(store: Store) -> None:
        file = store.blocks[block]
        with file.open("r+b") as opened:
            opened.truncate(int(file.stat().st_size * part))
        if not with_index:
            store.lose_index()

    return Damage(make)


def lose(block: int, *, with_index: bool) -> Damage:
    def make(store: Store) -> None:
        store.blocks[block].unlink()
        if not with_index:
            store.lose_index()

    return Damage(make)


DAMAGES = {
    "nothing": Damage(lambda store: None, ()),
    "a message": delete(11),
    "the first message": delete(1),
    "the last message": delete(60),
    "a range": delete(*range(25, 35)),
    "purged range": purge(11),
    "the index": Damage(Store.lose_index, ()),
    "older copy": Damage(lambda store: store.replace("older"), range(OLDER + 1, 61)),
    "wiped": Damage(lambda store: store.replace(None), range(1, 61)),
}


def of_blocks(seed: int) -> Iterator[tuple[str, Damage]]:
    """Damages of each of the four blocks, with and without the index of the store."""
    for with_index in (True, False):
        how = "" if with_index else " and the index"
        for block in range(BLOCKS):
            yield f"bit {seed} of block {block}{how}", flip(block, seed, with_index=with_index)
            yield (
                f"blocks {block} and {(block + 1) % BLOCKS}{how}",
                swap(block, (block + 1) % BLOCKS, with_index=with_index),
            )
            yield f"half of block {block}{how}", truncate(block, 0.5, with_index=with_index)
            yield f"all of block {block}{how}", truncate(block, 0, with_index=with_index)
            yield f"block {block}{how}", lose(block, with_index=with_index)


# -- the openings -----------------------------------------------------------------------------------------------------


def try_door(whole: Whole, folder: Path, damage: Damage, door: Door, *, while_it_runs: bool = False) -> str:
    """Open a door of a daemon on a damaged store: damaged before the daemon is started, or before the door is opened.
    Returns what became of it: whole, gaps, refused, or anew, if the journal has a new id. Raises `AssertionError` as
    `check_taken` does, and for a journal that begins later or ends earlier, and keeps its id."""
    store = Store(whole, folder)
    with store.server:
        if not while_it_runs:
            store.suffer(damage)
        try:
            with browsed(folder, journal=store.url, **OFTEN) as (daemon, browser):
                if while_it_runs:
                    store.suffer(damage)
                taken = door.take(daemon, browser, door.wanted)
                journal = daemon.daemon.journal
                first, last = journal.oldest, journal.latest
                is_cut = first > whole.events[0]["seq"] or last < whole.events[-1]["seq"]
                if is_cut:
                    until(lambda: journal.id != whole.journal)
                is_new = journal.id != whole.journal
                before = lines_of_before(daemon, whole)
        except (DoorRefusedError, JournalError):
            return "refused"
    gone = damage.lost
    lost = None if gone is None else {one["seq"] for one in whole.events if one["seq"] // EVENTS_A_MESSAGE in gone}
    there = [one for one in whole.events if not is_cut or first <= one["seq"] <= last]
    named = check_taken(door, there, taken, lost)
    if not is_new:
        return "gaps" if named else "whole"
    gap = next(one for one in before if one["op"] == "gap")
    assert gap["reason"] == "reset", gap
    return "anew"


def lines_of_before(daemon: Running, whole: Whole) -> list[Event]:
    """What gets a subscriber that has read the journal to its end, before it was damaged."""
    wire = daemon.connect()
    wire.send("subscribe", after=f"{whole.journal}:{whole.events[-1]['seq']}", follow=False)
    return [one for one in wire.rest() if "op" in one]


def main(arguments: list[str]) -> int:
    seed = int(arguments[0]) if arguments else 1
    only = arguments[1] if len(arguments) > 1 else ""
    chance = random.Random(seed)
    doors = [door for door in DOORS if only in door.name]
    failures = tried = 0
    outcomes: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="tooltap-doors-") as name:
        folder = Path(name)
        os.environ["XDG_DATA_HOME"] = str(folder / "data")
        (folder / "whole").mkdir()
        whole = fill(folder / "whole")
        every = list(DAMAGES.items())
        for kind, damage in [*every, *of_blocks(seed)]:
            for door in doors if kind in DAMAGES else chance.sample(doors, min(len(doors), DOORS_A_BLOCK)):
                tried += 1
                while_it_runs = chance.random() < 0.5
                try:
                    outcome = try_door(whole, folder / "damaged", damage, door, while_it_runs=while_it_runs)
                except Exception as error:
                    failures += 1
                    outcome = "FAILED"
                    when = ", while it runs" if while_it_runs else ""
                    print(f"{kind}{when}: {door.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                counts = outcomes.setdefault(kind, {})
                counts[outcome] = counts.get(outcome, 0) + 1
    for kind, counts in outcomes.items():
        print(f"{kind:40} {counts}")
    print(f"{tried} openings of {len(doors)} doors on NATS, {failures} failures; {len(whole.events)} events each")
    return 1 if failures else 0


if __name__ == "__main__":
    from tooltap.daemon.system.logs import configure

    configure("critical")
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
