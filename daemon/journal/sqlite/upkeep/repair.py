"""Writes a new journal from all intact parts of a damaged one, and puts it in its place.

The new one is written beside the old, and checked. Then the damaged file and its log get names of what they are, as
links, and the new file gets the name `….swap`: from then on it counts. What is left, removing the old log and renaming,
is done by the next process that opens the journal, wherever this was killed.

Numbers that are missing become gaps. What can be made again from events is: a session whose row is damaged, the row of
a stream. A stream whose snapshot or tail is not whole keeps its lines, and its parser is reset.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import JournalError, StreamInfo
from tooltap.daemon.journal.sqlite.file import JournalLock, create_or_check, finish_swap, swap_path, sync_folder
from tooltap.daemon.journal.sqlite.high_water import HighWater, HighWaterFile, read_high_water
from tooltap.daemon.journal.sqlite.open_checks import Tally, add_gap, write_tally
from tooltap.daemon.journal.sqlite.sessions.rebuild import rebuild_sessions
from tooltap.daemon.journal.sqlite.side_files import steady_place
from tooltap.daemon.journal.sqlite.tables import UNINDEXED, event_sum, lines_of, row_sum, set_meta, stream_sum, tail_sum
from tooltap.daemon.journal.sqlite.upkeep.check import check_file
from tooltap.daemon.journal.sqlite.upkeep.salvage import Rows, salvage
from tooltap.daemon.system.failpoints import failpoint
from tooltap.protocol.events import decode
from tooltap.protocol.filters import meta_of
from tooltap.protocol.stats import Statistics

COPIED = ("sources", "labels", "contents", "bodies", "pieces", "calls", "session_streams")


class Repaired(NamedTuple):
    """The result of a repair."""

    events: int
    gaps: list[tuple[int, int]]
    """Numbers whose events are gone, those of earlier repairs included."""
    reset: list[str]
    """Streams whose parsers are reset at their next line."""
    rebuilt: Counter[str]
    """Table -> rows that were made again."""
    damaged: Path
    """The damaged file, under its new name."""


def repair(path: Path, progress: Callable[[int, int], None] = lambda done, pages: None) -> Repaired:
    """Raises `JournalError`, also if a daemon uses the journal."""
    if not path.exists():
        raise JournalError(f"there is no journal {path}")
    path = steady_place(path)
    lock = JournalLock(path)
    try:
        finish_swap(path)
        rows = salvage(path, progress)
        if not rows["meta"] and not rows["events"]:
            raise JournalError(f"{path} is not a tooltap journal, or no part of it is intact")
        new = Path(f"{path}.repaired")
        _remove(new)
        repaired, mark = _write(rows, new, read_high_water(path))
        for found in check_file(new):
            raise JournalError(f"the repaired journal {new} is damaged too: {found.text}")
        for suffix in ("-wal", "-shm"):
            Path(f"{new}{suffix}").unlink(missing_ok=True)
        failpoint("during-repair")
        damaged = _keep_damaged(path)
        failpoint("during-repair")
        os.replace(new, swap_path(path))
        sync_folder(path.parent)
        failpoint("during-repair")
        finish_swap(path)
        noted = HighWaterFile(path)
        noted.write(mark)
        noted.close()
        return repaired._replace(damaged=damaged)
    finally:
        lock.release()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _keep_damaged(path: Path) -> Path:
    number = 1
    while (damaged := Path(f"{path}.damaged-{number}")).exists():
        number += 1
    os.link(path, damaged)
    with suppress(FileNotFoundError):
        os.link(f"{path}-wal", f"{damaged}-wal")
    return damaged


def _write(rows: Rows, new: Path, mark: HighWater | None) -> tuple[Repaired, HighWater]:
    with closing(create_or_check(new, "power")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("BEGIN IMMEDIATE")
        repaired, opened = _Writing(connection, rows, mark).write()
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA main.wal_checkpoint(TRUNCATE)")
    descriptor = os.open(new, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return repaired, opened


class _Writing:
    """Writes the intact rows, and those rebuilt from them."""

    def __init__(self, connection: sqlite3.Connection, rows: Rows, mark: HighWater | None) -> None:
        self._connection = connection
        self._rows = rows
        self._meta = {key: row[1] for (key,), row in rows["meta"].items()}
        self._mark = mark if mark is not None and mark.journal == self._meta.get("id", mark.journal) else None
        self._rebuilt: Counter[str] = Counter()

    def write(self) -> tuple[Repaired, HighWater]:
        rows, mark = self._rows, self._mark
        self._add_names()
        for table in COPIED:
            self._insert(table, rows[table].values())
        self._insert("events", (rows["events"][seq] for seq in sorted(rows["events"])))
        self._bodies()
        gaps, next_seq, expired = self._number()
        reset = self._streams()
        name = str(self._meta.get("id") or (mark.journal if mark is not None else secrets.token_hex(8)))
        stored = str(self._meta.get("tally", "0 0")).split()
        transactions = max(int(stored[0]), 0 if mark is None else mark.transactions) + 1
        for key, value in self._meta.items():
            if key not in ("format", "tally"):
                set_meta(self._connection, key, value)
        set_meta(self._connection, "id", name)
        set_meta(self._connection, "next_seq", next_seq)
        set_meta(self._connection, "expired", expired)
        write_tally(self._connection, Tally(transactions, len(rows["events"])))
        self._sessions()
        repaired = Repaired(len(rows["events"]), gaps, reset, self._rebuilt, Path())
        return repaired, HighWater(name, transactions, next_seq, expired)

    def _insert(self, table: str, values: Any) -> None:
        values = list(values)
        if values:
            marks = ",".join("?" * len(values[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)

    def _add_names(self) -> None:
        """Rebuild sources and labels that events need from an event that has them."""
        sources, labels = self._rows["sources"], self._rows["labels"]
        for seq, source, label, _, body, _ in list(self._rows["events"].values()):
            if (source,) in sources and (label,) in labels:
                continue
            try:
                meta = meta_of(decode(body))
            except msgspec.MsgspecError:  # of a kind that this version does not know
                del self._rows["events"][seq]
                continue
            if (source,) not in sources:
                row = (source, meta.stream, meta.session)
                sources[source,] = (*row, row_sum("sources", *row))
                self._rebuilt["sources"] += 1
            if (label,) not in labels:
                if (label < 0) != (meta.kind in UNINDEXED):
                    continue
                names = (label, meta.kind, meta.provider, meta.tool, meta.raw_tool)
                labels[label,] = (*names, row_sum("labels", *names))
                self._rebuilt["labels"] += 1
        self._without_twins(sources, slice(1, 3))

    def _without_twins(self, rows: dict[Any, tuple[Any, ...]], names: slice) -> None:
        """One row for each name: the events of the others get its number."""
        first: dict[Any, int] = {}
        for key in sorted(rows):
            first.setdefault(rows[key][names], key[0])
        twins = {key: first[row[names]] for key, row in rows.items() if first[row[names]] != key[0]}
        for key in twins:
            del rows[key]
        if not twins:
            return
        events = self._rows["events"]
        for seq, (_, source, label, agent, body, _) in list(events.items()):
            if (source,) in twins:
                source = twins[source,]
                events[seq] = (seq, source, label, agent, body, event_sum(seq, source, label, agent, body))

    def _bodies(self) -> None:
        """Bodies end where their parts do, and contents have the uses that they have."""
        execute = self._connection.execute
        execute("UPDATE contents SET uses=(SELECT count(*) FROM pieces WHERE content=contents.id)")
        execute("DELETE FROM contents WHERE uses=0")
        incomplete = execute(
            "SELECT id FROM bodies WHERE bytes<>(SELECT coalesce(sum(coalesce(size, length(pieces.data))), 0)"
            " FROM pieces LEFT JOIN contents ON contents.id=content WHERE body=bodies.id)"
        ).fetchall()
        for (body,) in incomplete:
            execute("DELETE FROM pieces WHERE body=?", (body,))
            execute("DELETE FROM bodies WHERE id=?", (body,))
        execute("DELETE FROM pieces WHERE body NOT IN (SELECT id FROM bodies)")

    def _number(self) -> tuple[list[tuple[int, int]], int, int]:
        """The gaps, the next number, and up to where retention has deleted events."""
        events, mark = self._rows["events"], self._mark
        newest = max(events, default=0)
        stated = self._meta.get("next_seq")
        next_seq = max(newest + 1, stated if isinstance(stated, int) else 1, 1 if mark is None else mark.next_seq)
        expired = self._meta.get("expired")
        if not isinstance(expired, int):
            expired = 0 if mark is None else mark.expired
        missing = []
        reached = expired
        for seq in [*sorted(one for one in events if one > expired), next_seq]:
            if seq > reached + 1:
                missing.append((reached + 1, seq - 1))
            reached = seq
        earlier = [row[:2] for row in self._rows["gaps"].values() if row[1] <= expired]
        for first, last in [*earlier, *missing]:
            add_gap(self._connection, first, last)
        return [*earlier, *missing], next_seq, expired

    def _streams(self) -> list[str]:
        """The rows of all streams, with their state where it is whole. Returns the others."""
        rows, reset = self._rows, []
        names = dict.fromkeys(  # in the order in which they were
            [
                *(key for (key,) in rows["streams"]),
                *(key for (key,) in rows["snapshots"]),
                *(row[1] for row in rows["tail"].values()),
                *(row[1] for row in rows["sources"].values()),
            ]
        )
        tails: dict[str, list[tuple[int, bytes, int]]] = {}
        for number, stream, records, checksum in sorted(rows["tail"].values()):
            tails.setdefault(stream, []).append((number, records, checksum))
        last_lines = self._last_lines()
        for stream in sorted(names):
            row, snapshot, tail = (
                rows["streams"].get((stream,)),
                rows["snapshots"].get((stream,)),
                tails.get(stream, []),
            )
            reached = _reached(stream, None if snapshot is None else snapshot[1], tail)
            if row is None and snapshot is None and not tail and stream not in last_lines:
                continue
            lines = max(reached, last_lines.get(stream, 0), 0 if row is None else row[2])
            was_deleted = row is not None and row[1] == "ended" and snapshot is None and not tail
            if row is None or row[2] != lines:
                row = self._stream_row(stream, row, lines)
                self._rebuilt["streams"] += 1
            self._insert("streams", [row])
            if reached == lines and (snapshot or tail or not lines):
                self._insert("snapshots", [] if snapshot is None else [snapshot])
                self._insert("tail", [(number, stream, *rest) for number, *rest in tail])
            elif not was_deleted:
                # An empty snapshot is one that no parser can be loaded from.
                snapshot = (stream, lines, b"")
                self._insert("snapshots", [(*snapshot, row_sum("snapshots", *snapshot))])
                reset.append(stream)
        self._connection.execute("DELETE FROM calls WHERE stream NOT IN (SELECT stream FROM streams)")
        return reset

    def _last_lines(self) -> dict[str, int]:
        """Stream -> the line of its last event."""
        latest: dict[int, tuple[int, bytes]] = {}
        for seq, source, _, _, body, _ in self._rows["events"].values():
            if source not in latest or latest[source][0] < seq:
                latest[source] = (seq, body)
        lines: dict[str, int] = {}
        for source, (_, body) in latest.items():
            stream = self._rows["sources"][source,][1]
            with suppress(ValueError, IndexError, msgspec.MsgspecError):
                lines[stream] = max(lines.get(stream, 0), int(decode(body).id.rsplit(":", 2)[1]))
        return lines

    def _stream_row(self, stream: str, row: tuple[Any, ...] | None, lines: int) -> tuple[Any, ...]:
        if row is None:
            statistics = Statistics(stream=stream, dialect="auto", provider="")
            info = StreamInfo(stream=stream, state="suspended", statistics=statistics)
        else:
            info = msgspec.json.decode(row[6], type=StreamInfo)
            info.state, info.updated = row[1], row[3]
        # The line that is compared when the publisher resumes is not the last one.
        info.lines, info.crc, info.crc_line = lines, 0, 0
        values = (stream, info.state, lines, info.updated)
        rest = (int(info.followed), msgspec.json.encode(info))
        return (*values, 0, *rest, stream_sum(*values, *rest))

    def _sessions(self) -> None:
        self._insert("sessions", self._rows["sessions"].values())
        self._rebuilt += rebuild_sessions(self._connection)
        execute = self._connection.execute
        execute("DELETE FROM session_streams WHERE stream NOT IN (SELECT stream FROM streams)")
        execute("DELETE FROM session_streams WHERE session NOT IN (SELECT session FROM sessions)")
        execute("DELETE FROM sessions WHERE session NOT IN (SELECT session FROM session_streams)")


def _reached(stream: str, covered: int | None, tail: list[tuple[int, bytes, int]]) -> int:
    """Number of lines in a stream's snapshot and tail; -1 if a row of the tail is missing."""
    lines = covered or 0
    for _, records, checksum in tail:
        if tail_sum(stream, lines, records) != checksum:
            return -1
        lines += lines_of(records)
    return lines
