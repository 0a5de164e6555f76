"""Repair: writes a new journal from all intact rows of a damaged one, and replaces it.

The new journal is written beside the old one, and checked. Then the damaged file and its log are hard-linked under
names that say so, and the new file is renamed to `….swap`: this is the point of no return. The rest, removing the old
log and the final rename, is done by this process or, if it is killed, by the next one that opens the journal.

Missing `seq` become gaps. Rows of sessions and streams are rebuilt from events where possible. A stream whose snapshot
or tail is incomplete keeps its number of lines, and its parser is reset.

`salvage` finds every intact row of the damaged file, on any page. The checksum of a row identifies its table and
verifies it. Pages are parsed as bytes, without SQLite, which refuses a file whose parts are often intact. If the
write-ahead log has a newer version of a page, that is used. Each frame of the log is verified on its own, with the
checksum stated by the frame before it: SQLite ignores everything after a damaged frame; this does not. File format:
https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import JournalError, StreamInfo
from tooltap.daemon.journal.sqlite.check import check_file
from tooltap.daemon.journal.sqlite.file import (
    COPY_IT,
    MAGIC,
    PAGE_SIZE,
    SCRUB_NOTE,
    HighWater,
    HighWaterFile,
    JournalLock,
    create_or_check,
    finish_swap,
    read_high_water,
    steady_place,
    swap_path,
    sync_folder,
)
from tooltap.daemon.journal.sqlite.opening import Tally, add_gap, write_tally
from tooltap.daemon.journal.sqlite.sessions import rebuild_sessions
from tooltap.daemon.journal.sqlite.tables import (
    FORMAT,
    UNINDEXED,
    event_sum,
    lines_of,
    note_key,
    piece_sum,
    row_sum,
    set_meta,
    stream_sum,
    tail_sum,
    unpacked,
)
from tooltap.daemon.system.failpoints import failpoint
from tooltap.protocol.events import decode
from tooltap.protocol.filters import meta_of
from tooltap.protocol.stats import Statistics

COPIED = ("sources", "labels", "contents", "bodies", "pieces", "calls", "session_streams")


class Repaired(NamedTuple):
    """The result of a repair."""

    events: int
    gaps: list[tuple[int, int]]
    """Ranges of `seq` whose events are lost, including those of earlier repairs."""
    reset: list[str]
    """Streams whose parsers are reset at their next line."""
    rebuilt: Counter[str]
    """Table -> number of rebuilt rows."""
    damaged: Path
    """The damaged file, under its new name."""


def repair(path: Path) -> Repaired:
    """Repair a journal that no daemon uses. Raises `JournalError`, also if a daemon uses it, if it has another format
    version, or if there is no room for a new file; nothing is changed then."""
    if not path.exists():
        raise JournalError(f"there is no journal {path}")
    path = steady_place(path)
    try:
        return _repair(path)
    except (OSError, sqlite3.OperationalError) as error:
        with suppress(OSError):
            _remove(_new_path(path))
        reason = error.strerror if isinstance(error, OSError) else str(error)
        is_writable = os.access(path.parent, os.W_OK)
        advice = "free some space: the repaired one is written beside it" if is_writable else COPY_IT
        raise JournalError(f"the journal {path} cannot be repaired: {reason}; {advice}") from error


def _new_path(path: Path) -> Path:
    return Path(f"{path}.repaired")


def _repair(path: Path) -> Repaired:
    lock = JournalLock(path)
    try:
        finish_swap(path)
        rows = salvage(path)
        if not rows["meta"] and not rows["events"]:
            raise JournalError(
                f"{path} is not a tooltap journal, or no part of it is intact: put a backup in its place, or move it"
                " away, and the daemon starts a new one"
            )
        if (version := rows["meta"].get(("format",), ("", FORMAT))[1]) != FORMAT:
            raise JournalError(
                f"the journal {path} has format {version}, and this version of tooltap reads format {FORMAT} only:"
                " nothing was changed"
            )
        new = _new_path(path)
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
    """Writes the intact rows, and rows rebuilt from them, to the new journal."""

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
            if key not in ("format", "tally", note_key(SCRUB_NOTE)):  # the note is about the damaged file
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
        """Rebuild missing sources and labels from the events that refer to them."""
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
        """Remove duplicates of sources: keep one row for each name, and point the events of the others to it."""
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
        """Delete incomplete output bodies, and recompute the reference counts of contents."""
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
        """Store the gaps. Returns them, the next `seq`, and the highest `seq` that retention has deleted."""
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
        """Write the rows of all streams, with snapshot and tail where these are complete. Returns the streams whose
        parsers are reset."""
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
        """Stream -> line number of its last event."""
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


# -- finding the intact rows ------------------------------------------------------------------------------------------

Rows: TypeAlias = dict[str, dict[Any, tuple[Any, ...]]]
"""Table -> key -> row, with all columns."""


def salvage(path: Path) -> Rows:
    """The intact rows of each table."""
    pages = Pages(path)
    try:
        rows: Rows = {table: {} for table in _TABLES}
        for number in pages.live_pages():
            for cell in pages.cells(number):
                _sort_in(rows, cell)
    finally:
        pages.close()
    _drop_wrong_pieces(rows)
    return rows


def _sort_in(rows: Rows, cell: Cell) -> None:
    for table in _BY_COLUMNS.get(len(cell.values), ()):
        key, row = _TABLES[table](cell)
        if row is None:
            continue
        other = rows[table].get(key)
        if other is None or _NEWER.get(table, _first)(row, other):
            rows[table][key] = row
        return


def _first(row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return False


# A page that was moved may be there twice; the newer row is the one that says more.
_NEWER: dict[str, Callable[[tuple[Any, ...], tuple[Any, ...]], bool]] = {
    "streams": lambda row, other: (row[2], row[3]) > (other[2], other[3]),
    "snapshots": lambda row, other: row[1] > other[1],
    "sessions": lambda row, other: row[1] > other[1],
    "bodies": lambda row, other: row[4] > other[4],
}

KeyedRow: TypeAlias = tuple[Any, tuple[Any, ...] | None]
WRONG: KeyedRow = (None, None)


def _summed(table: str, *, rowid: bool = False, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """Make a reader that verifies a cell by its `row_sum`. `rowid`: the first column is an alias of the row id, which a
    cell stores as NULL. `keys`: number of leading columns that are the key."""

    def read(cell: Cell) -> KeyedRow:
        values = [cell.rowid, *cell.values[1:]] if rowid else cell.values
        if (cell.rowid is None) == rowid or (rowid and cell.values[0] is not None):
            return WRONG
        return (tuple(values[:keys]), tuple(values)) if _is_right(table, values) else WRONG

    return read


def _is_right(table: str, values: Iterable[Any]) -> bool:
    *covered, checksum = values
    try:
        return bool(row_sum(table, *covered) == checksum)
    except (TypeError, OverflowError, UnicodeError):
        return False


def _stored(table: str, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """Make a reader for a table whose row id is not a column."""

    def read(cell: Cell) -> KeyedRow:
        if cell.rowid is None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _keyed(table: str, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """Make a reader for a table without row ids."""

    def read(cell: Cell) -> KeyedRow:
        if cell.rowid is not None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _event(cell: Cell) -> KeyedRow:
    _, source, label, agent, body, checksum = cell.values
    seq = cell.rowid
    try:
        if seq is None or event_sum(seq, source, label, agent, body) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, AttributeError, UnicodeError):
        return WRONG
    return seq, (seq, source, label, agent, body, checksum)


def _tail(cell: Cell) -> KeyedRow:
    _, stream, records, checksum = cell.values
    if cell.rowid is None or cell.values[0] is not None or not isinstance(stream, str) or not isinstance(checksum, int):
        return WRONG
    try:
        base = checksum - row_sum("tail", stream, records)  # type: ignore[arg-type]
    except (TypeError, UnicodeError):
        return WRONG
    # Whether the base is right is seen with the rows before it.
    return (cell.rowid, (cell.rowid, stream, records, checksum)) if 0 <= base < 2**31 else WRONG


def _piece(cell: Cell) -> KeyedRow:
    """Read a piece unverified: its checksum covers its content, and is checked by `_drop_wrong_pieces`."""
    body, start, newlines, data, content, checksum = cell.values
    if cell.rowid is None or not all(isinstance(one, int) for one in (body, start, newlines, checksum)):
        return WRONG
    if not isinstance(data, bytes) or not isinstance(content, int | None):
        return WRONG
    return (body, start), (body, start, newlines, data, content, checksum)


def _content(cell: Cell) -> KeyedRow:
    _, digest, uses, size, data, checksum = cell.values
    try:
        if cell.rowid is None or row_sum("contents", digest, size, data) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, UnicodeError):
        return WRONG
    return cell.rowid, (cell.rowid, digest, uses, size, data, checksum)


_TABLES: dict[str, Callable[[Cell], KeyedRow]] = {
    "meta": _keyed("meta"),
    "session_streams": _keyed("session_streams", 2),
    "gaps": _summed("gaps", rowid=True),
    "sources": _summed("sources", rowid=True),
    "snapshots": _stored("snapshots"),
    "sessions": _stored("sessions"),
    "events": _event,
    "labels": _summed("labels", rowid=True),
    "contents": _content,
    "calls": _stored("calls", 3),
    "bodies": _summed("bodies", rowid=True),
    "streams": _stored("streams"),
    "tail": _tail,
    "pieces": _piece,
}
_COLUMNS = {
    **dict.fromkeys(("meta", "session_streams", "gaps"), 3),
    **dict.fromkeys(("sources", "snapshots", "tail"), 4),
    **dict.fromkeys(("events", "labels", "contents", "pieces"), 6),
    "calls": 7,
    **dict.fromkeys(("bodies", "sessions", "streams"), 8),
}
_BY_COLUMNS = {
    number: [table for table in _TABLES if _COLUMNS[table] == number] for number in sorted(set(_COLUMNS.values()))
}


def _drop_wrong_pieces(rows: Rows) -> None:
    contents, pieces = rows["contents"], rows["pieces"]
    for key in [key for key, row in pieces.items() if not _piece_is_right(row, contents)]:
        del pieces[key]


def _piece_is_right(row: tuple[Any, ...], contents: dict[Any, tuple[Any, ...]]) -> bool:
    body, start, newlines, data, content, checksum = row
    if content is not None:
        found = contents.get(content)
        if found is None:
            return False
        try:
            data = unpacked(found[4], found[3])
        except zlib.error:
            return False
    return bool(piece_sum(body, start, newlines, data, content) == checksum)


# -- pages -----------------------------------------------------------------------------------------------------------

Value: TypeAlias = int | float | str | bytes | None

LEAF, INNER = 0x0D, 0x05
INDEX_LEAF, INDEX_INNER = 0x0A, 0x02
FREE, ROOT, BTREE = 2, 1, 5
"""Types of pages in the pointer map."""
HEADER, FRAME = 32, 24
"""Bytes of the header of the write-ahead log, and of the header of a frame."""
MOST_COLUMNS = 16


class Cell(NamedTuple):
    """A decoded row on a page (SQLite's term is cell)."""

    rowid: int | None
    """None in a table without row ids."""
    values: list[Value]


class Pages:
    """The pages of a file and its write-ahead log. Pages of the file are read one by one; the log is in memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._size = _page_size(self._file.read(100))
        self._file.seek(0, 2)
        self._in_file = -(-self._file.tell() // self._size)
        self._log, self._frames = self._read_log(Path(f"{path}-wal"))
        self.count = max([self._in_file, *self._frames])

    def close(self) -> None:
        self._file.close()

    def page(self, number: int) -> bytes:
        """Read a page; missing bytes are zeros."""
        start = self._frames.get(number)
        if start is not None:
            return self._log[start : start + self._size]
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size).ljust(self._size, b"\0")

    def live_pages(self) -> Iterator[int]:
        """Numbers of the pages in use, according to the pointer map and the freelist. Free pages may hold deleted rows,
        and are skipped."""
        free = self._free_pages()
        per_map = self._size // 5
        for number in range(2, self.count + 1):
            behind = (number - 2) % (per_map + 1)
            if behind == 0:
                continue
            entry = self.page(number - behind)[(behind - 1) * 5]
            if entry in (ROOT, BTREE) or (entry not in (FREE, 3, 4) and number not in free):
                yield number

    def cells(self, number: int) -> Iterator[Cell]:
        """The rows on a page that can be parsed, not yet verified."""
        page = self.page(number)
        kind = page[0]
        if kind == INNER:
            return
        if kind not in (LEAF, INDEX_LEAF, INDEX_INNER):
            kind = LEAF
        inner = kind == INDEX_INNER
        (count,) = struct.unpack_from(">H", page, 3)
        start = 12 if inner else 8
        for position in range(start, min(start + 2 * count, self._size - 1), 2):
            (offset,) = struct.unpack_from(">H", page, position)
            with suppress(IndexError, ValueError, struct.error, OverflowError):
                yield self._cell(page, offset + (4 if inner else 0), kind)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _cell(self, page: bytes, at: int, kind: int) -> Cell:
        """Parse a cell, following its overflow pages. Raises `IndexError`, `ValueError`, `struct.error`."""
        length, at = _varint(page, at)
        rowid = None
        usable = self._size
        if kind == LEAF:
            rowid, at = _varint(page, at)
            rowid = rowid - (1 << 64) if rowid >> 63 else rowid
            most = usable - 35
        else:
            most = (usable - 12) * 64 // 255 - 23
        if length > self.count * usable:
            raise ValueError
        if length <= most:
            return Cell(rowid, _values(page[at : at + length], length))
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        payload = [page[at : at + local]]
        left = length - local
        (following,) = struct.unpack_from(">I", page, at + local)
        while left > 0:
            if not 1 < following <= self.count:
                raise ValueError
            overflow = self.page(following)
            payload.append(overflow[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            (following,) = struct.unpack_from(">I", overflow)
        return Cell(rowid, _values(b"".join(payload), length))

    def _free_pages(self) -> set[int]:
        free: set[int] = set()
        (trunk,) = struct.unpack_from(">I", self.page(1), 32)
        while 1 < trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self.page(trunk)
            trunk, count = struct.unpack_from(">II", page)
            count = min(count, self._size // 4 - 2)
            free.update(struct.unpack_from(f">{count}I", page, 8))
        return free

    def _read_log(self, path: Path) -> tuple[bytes, dict[int, int]]:
        """The log, and page number -> offset in it of the latest intact and committed version of the page."""
        try:
            log = path.read_bytes()
        except FileNotFoundError:
            return b"", {}
        frames: dict[int, int] = {}
        pending: dict[int, int] = {}
        if len(log) < HEADER + FRAME:
            return log, frames
        order = ">" if log[3] & 1 else "<"
        step = FRAME + self._size
        # The header's, unless it is damaged: then most of the first frames agree on others.
        stated = [log[16:24], *(log[at + 8 : at + 16] for at in range(HEADER, len(log) - FRAME, step))][:4]
        salts = max(stated, key=stated.count)
        before = struct.unpack_from(">II", log, 24)
        for start in range(HEADER, len(log) - step + 1, step):
            number, committed = struct.unpack_from(">II", log, start)
            if log[start + 8 : start + 16] != salts:  # of an earlier log, or damaged
                before = struct.unpack_from(">II", log, start + 16)
                continue
            data = start + FRAME
            checksum = _log_checksum(log[start : start + 8] + log[data : data + self._size], order, before)
            before = struct.unpack_from(">II", log, start + 16)
            if checksum == before and number > 0:
                pending[number] = data
                if committed:
                    frames |= pending
                    pending = {}
        return log, frames


def _page_size(head: bytes) -> int:
    if len(head) < 18 or head[:16] != MAGIC:
        return PAGE_SIZE
    (size,) = struct.unpack_from(">H", head, 16)
    return size if size in (512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768) else PAGE_SIZE


def _log_checksum(data: bytes, order: str, before: tuple[Any, ...]) -> tuple[int, int]:
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(at, at + 8):
        byte = data[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value << 8 | data[at + 8], at + 9


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""SQLite's serial types of integers -> length in bytes."""


def _values(payload: bytes, length: int) -> list[Value]:
    """Decode a record: its columns. Raises `IndexError`, `ValueError`."""
    if len(payload) != length:
        raise ValueError
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
        if len(kinds) > MOST_COLUMNS:
            raise ValueError
    values: list[Value] = []
    at = end
    for kind in kinds:
        size = _INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        data = payload[at : at + size]
        if len(data) != size:
            raise ValueError
        at += size
        if kind in _INTEGERS:
            values.append(int.from_bytes(data, "big", signed=True))
        elif kind >= 12:
            values.append(data.decode() if kind % 2 else data)
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind == 7:
            values.append(struct.unpack(">d", data)[0])
        elif kind == 0:
            values.append(None)
        else:
            raise ValueError
    return values
