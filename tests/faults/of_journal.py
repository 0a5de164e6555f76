"""Fault scenarios of the journal: commits and deletion."""

from __future__ import annotations

import base64
import random
import time
from contextlib import closing
from typing import ClassVar

from tests.faults.place import Broken, eventually, recording
from tests.faults.scenario import AGENT, Scenario, ask, with_output
from tooltap.daemon.journal.sqlite.file import open_read_only

__all__ = ["Checkpoint", "Commit", "Ingest", "Removal", "Retention", "Snapshot", "Vacuum"]


class Ingest(Scenario):
    """A stream is published in portions, each acknowledged, and subscribed to."""

    def before(self) -> None:
        super().before()
        self.stream = self.place.stream(recording(AGENT))

    def act(self) -> list[str]:
        return self.place.publish(self.stream)

    def after(self) -> None:
        self.complete(self.stream)
        self.check(self.stream)


class Commit(Ingest):
    """Like `Ingest`, with each commit synced to the disk."""

    arguments: ClassVar = ["--durability", "power"]


class Snapshot(Ingest):
    """Like `Ingest`, with a snapshot at each commit in place of the tail."""

    settings: ClassVar = f"snapshot_bytes = 0\n{Scenario.settings}"


class Checkpoint(Scenario):
    """So much is written that SQLite checkpoints the write-ahead log."""

    def before(self) -> None:
        super().before()
        text = base64.b64encode(random.Random(self.place.streams).randbytes(44_000))
        self.stream = self.place.stream([b"not json " + b"%08d" % number + text for number in range(150)])

    def act(self) -> list[str]:
        return self.place.publish(self.stream, 4)

    def after(self) -> None:
        self.complete(self.stream)
        place = self.place
        place.unsubscribe()
        events = place.read_all(place.last)
        if [one["line"] for one in events if one["kind"] == "unparsed"] != list(range(1, 151)):
            raise Broken(f"{self.stream.name} has other lines: {[one['line'] for one in events]}")
        place.last = events[-1]["seq"]


class Removal(Scenario):
    """An ended session is deleted; others stay."""

    deletes = True
    bodies = 0
    """Size in bytes of an output body of the session."""

    def before(self) -> None:
        place = self.place
        place.ensure()
        lines = recording(AGENT)
        if self.bodies:
            lines = with_output(lines, self.bodies, place.streams)
        self.stream, self.other = place.stream(lines), place.stream(recording(AGENT))
        for stream in (self.stream, self.other):
            self.complete(stream)
        events = self._events(self.stream)
        self.session = events[-1]["session"]
        place.catch_up_with(place.last)

    def act(self) -> list[str]:
        return ask(self.place, "remove", session=self.session)

    def after(self) -> None:
        place = self.place
        if self._events(self.stream) or self._is_listed():
            reply = place.ask("remove", session=self.session)
            if not reply.get("ok"):
                raise Broken(f"the session cannot be removed: {reply}")
        if self._events(self.stream) or self._is_listed():
            raise Broken("the session is still there")
        self.check(self.other, kind="other")
        reply = place.ask("remove", session=self._events(self.other)[-1]["session"])
        if not reply.get("ok"):
            raise Broken(f"the other session cannot be removed: {reply}")

    def _is_listed(self) -> bool:
        sessions = self.place.ask("sessions")["result"]["sessions"]
        return any(one["session"] == self.session for one in sessions)


class Vacuum(Removal):
    """A large session is deleted, and its pages are returned to the file system in steps."""

    bodies = 600_000


class Retention(Scenario):
    """The oldest streams are deleted because the journal is too large."""

    settings: ClassVar = (
        f"retention_bytes = 900000\nretention_interval = 0.05\nlog_level = 'warning'\n{Scenario.settings}"
    )
    deletes = True

    def before(self) -> None:
        place = self.place
        place.ensure()
        self.stream = place.stream(with_output(recording(AGENT), 150_000, place.streams))
        self.open = place.stream(recording(AGENT))
        place.publish(self.open, end=False)
        self._expired = place.stats()["journal"]["expired"]

    def act(self) -> list[str]:
        failed = self.place.publish(self.stream)
        deadline = time.monotonic() + 0.3
        while not failed and time.monotonic() < deadline:
            try:
                if self.place.stats()["journal"]["expired"] > self._expired:
                    break
                time.sleep(0.02)
            except OSError:
                break
        return failed

    def after(self) -> None:
        self.complete(self.stream)
        self.complete(self.open)
        eventually("the journal shrinks", lambda: self._is_small())
        journal = self.place.stats()["journal"]
        gone = [first for first, last in self.place.gaps if last > journal["expired"]]
        if gone:
            raise Broken(f"gaps are reported where nothing was deleted: {gone}")
        for stream in (self.stream, self.open):
            events = self._events(stream)
            if events and events[-1]["seq"] > journal["expired"] and events[0]["seq"] > journal["expired"]:
                kind = "large" if stream is self.stream else "agent"
                self.check(stream, kind=kind)

    def _is_small(self) -> bool:
        with closing(open_read_only(self.place.journal)) as connection:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return bool((pages - free) * size <= 900_000)
