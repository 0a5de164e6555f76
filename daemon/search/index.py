"""The search index, a SQLite file: its tables, the ids of documents, and how documents are added and dropped.

Everything in the index is derived from the journal. So a file that is damaged, of another format, or of another journal
is deleted, and rebuilt in the background.

Parts. Documents are divided into parts, each for a range of consecutive events. A part has a table of SQLite's
full-text search with the words (`text_1`, …; see `words`), and a table with the `seq`, the label and the call of each
document (`docs_1`, …); a label is a kind, a tool and the outcome of a call. Both have the same ids. The full-text table
is contentless (`content=''`), so no single document can be deleted: a part of which events were deleted is dropped and
rebuilt. The outcome of every call is a document, even if it has no words.

Ids. A document's id encodes its time and its source: `second << SLOT_BITS | slot`. So ids order the documents of a part
by time, whenever they were ingested, and hits are assigned to sessions by their ids alone. A slot belongs to one source
of the part; a source takes another slot for each further document of the same second while there are spare ones, and
then the next second. An id is unique in its part; id and part make a key, which orders all documents.

Writing. Documents are added in batches, by one thread. A batch and the `seq` up to which events are indexed are one
transaction, so a daemon that was killed continues where it was. The high-water mark (`upto`, or `built` of a part that
is being rebuilt) says which events are indexed; none is added twice.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.sqlite.file import SIDE_FILES, claim_side_files, index_end
from tooltap.daemon.search.words import words_of
from tooltap.normalizers.stream.searchable import VERSION, Searchable, searchable
from tooltap.traces.recording.own_file import open_own

FORMAT = f"3.{VERSION}"
"""Format of the tables, and version of the extracted texts. An index of another format is rebuilt."""
TOKENIZER = "unicode61 remove_diacritics 2"
WAL_LIMIT = 16 * 1024 * 1024

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, stream TEXT, named TEXT, session TEXT, provider TEXT, cwd TEXT,"
    " first INTEGER, last INTEGER, UNIQUE (stream, named))",
    "CREATE INDEX sources_of_session ON sources (session)",
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, kind TEXT, tool TEXT, raw_tool TEXT, outcome TEXT,"
    " UNIQUE (kind, tool, raw_tool, outcome))",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER, last INTEGER, docs INTEGER,"
    " built INTEGER, closed INTEGER, low INTEGER, high INTEGER)",
    "CREATE TABLE slots (part INTEGER, slot INTEGER, source INTEGER, PRIMARY KEY (part, slot)) WITHOUT ROWID",
)


def open_file(path: Path, journal: str) -> sqlite3.Connection:
    """Open the index of a journal for writing; begin a new one if there is none, or none of this version and journal.
    Raises `OSError`, `JournalError`, `sqlite3.Error`."""
    connection = _open(path)
    try:
        if _is_of(connection, journal):
            return connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            connection.close()
            raise
    connection.close()
    delete_file(path)
    connection = _open(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            connection.execute(statement)
        for key, value in (("format", FORMAT), ("journal", journal), ("upto", 0), ("floor", 0)):
            put(connection, key, value)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode, to a file that `open_file` has made."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    # Losing the latest documents to a power failure costs no more than to make them again.
    connection.execute("PRAGMA synchronous=NORMAL")
    # What is deleted is overwritten: it was text of someone's sessions.
    connection.execute("PRAGMA secure_delete=ON")
    return connection


def delete_file(path: Path) -> None:
    """Raises `OSError`."""
    for suffix in ("", *SIDE_FILES):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def free_pages(connection: sqlite3.Connection) -> None:
    """Return freed pages to the file system, and truncate the write-ahead log, which still has what was dropped."""
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def size_of(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def unbuilt_of(connection: sqlite3.Connection) -> int:
    """Return the number of `seq` in parts that are being rebuilt, and not indexed there yet."""
    (found,) = connection.execute("SELECT coalesce(sum(last-built), 0) FROM parts WHERE built IS NOT NULL").fetchone()
    return int(found)


def get(connection: sqlite3.Connection, key: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return None if row is None else row[0]


def put(connection: sqlite3.Connection, key: str, value: int | str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _open(path: Path) -> sqlite3.Connection:
    claim_side_files(path)
    descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    connection = connect(path)
    try:
        with suppress(sqlite3.DatabaseError):  # it is no database: `_is_of` finds out
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        claim_side_files(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_of(connection: sqlite3.Connection, journal: str) -> bool:
    with closing(connection.execute("SELECT 1 FROM sqlite_master WHERE name='meta'")) as found:
        if found.fetchone() is None:
            return False
    return (get(connection, "format"), get(connection, "journal")) == (FORMAT, journal)


# -- ids of documents ------------------------------------------------------------------------------------------------

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS
SPARE = 2_048
"""Maximum slots of a part that sources may take beyond their first ones."""
PART_BITS = 6
"""Bits of a key for its part, which distinguish parts with documents of the same second. A key has 53 bits, all that
JavaScript can represent."""
PARTS = 1 << PART_BITS
LAST_SECOND = (1 << 53 - PART_BITS - SLOT_BITS) - 1


def first_id(second: int) -> int:
    """Return the least id of this second, and of later ones."""
    return _within(second) << SLOT_BITS


def last_id(second: int) -> int:
    return first_id(second) | (SLOTS - 1)


def key_of(number: int, part: int) -> int:
    return number << PART_BITS | part % PARTS


def second_of(key: int) -> int:
    return key >> PART_BITS + SLOT_BITS


def high_before(key: int, part: int) -> int:
    """Return the greatest id that a part's documents before a key may have."""
    number, of_part = key >> PART_BITS, key % PARTS
    return number if part % PARTS < of_part else number - 1


class Ids:
    """Assigns ids to the documents of one part, in the order of their `seq`. The same documents get the same ids, in
    however many batches they come."""

    def __init__(self, connection: sqlite3.Connection, part: int) -> None:
        self.part = part
        self._execute = connection.execute
        self._slots: dict[int, list[int]] = {}
        """Source -> its slots, in the order in which it took them."""
        owner: dict[int, int] = {}
        for slot, source in self._execute("SELECT slot, source FROM slots WHERE part=? ORDER BY slot", (part,)):
            self._slots.setdefault(source, []).append(slot)
            owner[slot] = source
        self._used = len(owner)
        self._latest: dict[int, tuple[int, int]] = {}
        """Source -> the latest second of its documents, and their number in that second."""
        for (number,) in self._execute(f"SELECT id FROM docs_{part} ORDER BY id"):
            source, second = owner[number % SLOTS], number >> SLOT_BITS
            latest, count = self._latest.get(source, (second, 0))
            self._latest[source] = second, count + 1 if latest == second else 1
        (high,) = self._execute("SELECT max(high) FROM parts WHERE id<?", (part,)).fetchone()
        self._start = 0 if high is None else (high >> SLOT_BITS) + 1

    def take(self, source: int, second: int | None) -> int | None:
        """Return the id of the next document. Without a time it gets the second of the latest one in its source. None
        if the part has no room for another source. All documents that have an id must be in the table."""
        own = self._slots.get(source)
        if own is None:
            if len(self._slots) >= SLOTS - SPARE:
                return None
            own = self._slots[source] = []
        latest, count = self._latest.get(source, (-1, 0))
        if second is None:
            second = max(latest, self._start)
        second = _within(second)
        if second < latest:
            slot = self._slot(source, own, self._taken(own, second))
            if slot is not None:
                return second << SLOT_BITS | slot
        elif second > latest:
            latest, count = second, 0
        slot = self._slot(source, own, count)
        if slot is None:
            latest, count = latest + 1, 0
            slot = own[0]
        self._latest[source] = latest, count + 1
        return latest << SLOT_BITS | slot

    def _slot(self, source: int, own: list[int], place: int) -> int | None:
        """Return the slot for the document number `place` of one second, from 0; None if the source may have no
        more."""
        if place < len(own):
            return own[place]
        if own and self._used - len(self._slots) >= SPARE:
            return None
        slot = self._used
        self._execute("INSERT INTO slots VALUES (?, ?, ?)", (self.part, slot, source))
        self._used += 1
        own.append(slot)
        return slot

    def _taken(self, own: list[int], second: int) -> int:
        """Return the number of a source's documents in a second. They have the first of its slots."""

        def is_free(slot: int) -> bool:
            number = (second << SLOT_BITS | slot,)
            return self._execute(f"SELECT 1 FROM docs_{self.part} WHERE id=?", number).fetchone() is None

        return bisect_left(own, True, key=is_free)


def _within(second: int) -> int:
    """Clamp a second to the range of ids: times come from agents, and may be any number."""
    return min(max(second, 0), LAST_SECOND)


# -- writing ---------------------------------------------------------------------------------------------------------

PART_DOCUMENTS = 50_000
"""Documents after which a part is closed and the next one begun. Rebuilding a part takes about a second."""
HASH_BYTES = 8_388_608
"""Maximum bytes of words held in memory during a batch."""
NAMES_IN_MEMORY = 10_000

_Execute: TypeAlias = Callable[..., Any]


class StalePart(NamedTuple):
    """A part that has to be rebuilt, because events of it were deleted."""

    id: int
    first: int
    last: int
    """`first` to `last`: the `seq` of the events that it covers."""
    built: int
    """`seq` up to which it has been rebuilt."""


class Source(NamedTuple):
    """The events of one session in one stream."""

    id: int
    stream: str
    named: str
    """Name of the session in these events."""
    first: int
    """`seq` of its oldest event."""


class ReplacedError(Exception):
    """The file was removed, renamed, replaced or overwritten by another program."""


def _look(path: Path) -> tuple[int, ...]:
    """Return what changes if the file is replaced or overwritten, or its log replaced. Raises `OSError`."""
    status, log = os.stat(path), os.stat(f"{path}-wal")
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, log.st_ino


class Index:
    def __init__(self, path: Path, journal: str) -> None:
        """Raises `OSError`, `JournalError`, `sqlite3.Error`."""
        self.path = path
        self.journal = journal
        self._connection = open_file(path, journal)
        self._stamp: tuple[int, ...] | None = None
        """What the file looked like after our last write; None during a write, and if the disk did not say."""
        self._note_written()
        self._sources: dict[tuple[str, str], int] = {}
        self._labels: dict[tuple[str, str, str, str], int] = {}
        self._ids: Ids | None = None
        """Ids of the part to which documents were added last."""
        self.upto = int(get(self._connection, "upto"))
        """`seq` up to which events are indexed."""
        self.floor = int(get(self._connection, "floor"))
        """`seq` up to which events were dropped, to bound the size of the index."""
        self.limit = int(get(self._connection, "most") or 0)
        """Most bytes that it might have then."""

    def close(self) -> None:
        self._connection.close()

    def check_file(self) -> None:
        """Check that the file is where it was, and as this process has left it. SQLite goes on with one that was
        removed, and does not notice that another program overwrites it. Can be used in any thread. Raises
        `ReplacedError`."""
        known = self._stamp
        try:
            is_known = known in (None, _look(self.path))
        except FileNotFoundError:
            is_known = False
        except OSError:  # the disk does not say
            return
        if not is_known and self._stamp is known:  # else it was written meanwhile
            raise ReplacedError

    def _free_pages(self) -> None:
        self._stamp = None
        free_pages(self._connection)
        self._note_written()

    def _note_written(self) -> None:
        try:
            self._stamp = _look(self.path)
        except OSError:
            self._stamp = None

    def interrupt(self) -> None:
        """Abort what another thread does here: it raises, and is rolled back."""
        self._connection.interrupt()

    # -- adding -------------------------------------------------------------------------------------------------

    def add(self, events: Sequence[StoredEvent], upto: int) -> None:
        """Add the events after `self.upto`: all of them up to `upto`."""
        with self._transaction() as execute:
            part, left = self._open_part(), events
            while True:
                documents, added = self._insert(part, left)
                last = left[added].seq - 1 if added < len(left) else upto
                execute("UPDATE parts SET last=?, docs=docs+? WHERE id=?", (last, documents, part))
                if added == len(left):
                    break
                self._close(part)  # it has no room for another source
                part, left = self._new_part(last + 1), left[added:]
            put(self._connection, "upto", upto)
            put(self._connection, "end", index_end(self.journal, upto))
            if events:
                put(self._connection, "mark", f"{events[-1].seq} {zlib.crc32(events[-1].body)}")
        self.upto = upto

    def mark(self) -> tuple[int, int] | None:
        """Return `seq` and CRC-32 of the last added event: a journal without it is not the one that was indexed."""
        found = get(self._connection, "mark")
        if found is None:
            return None
        seq, crc = str(found).split()
        return int(seq), int(crc)

    def _open_part(self) -> int:
        """Return the newest part, or a new one if that is full."""
        row = self._connection.execute("SELECT id, docs, closed FROM parts ORDER BY id DESC LIMIT 1").fetchone()
        if row is not None and not row[2] and row[1] < PART_DOCUMENTS:
            return int(row[0])
        if row is not None and not row[2]:
            self._close(row[0])
        return self._new_part(self.upto + 1)

    def _new_part(self, first: int) -> int:
        (part,) = self._connection.execute(
            "INSERT INTO parts (first, last, docs, closed) VALUES (?, ?, 0, 0) RETURNING id", (first, first - 1)
        ).fetchone()
        self._create_tables(part)
        return int(part)

    def _create_tables(self, part: int) -> None:
        self._connection.execute(
            f"CREATE TABLE docs_{part} (id INTEGER PRIMARY KEY, seq INTEGER, label INTEGER, call INTEGER)"
        )
        self._connection.execute(
            f"CREATE VIRTUAL TABLE text_{part} USING fts5(text, humps, content='', columnsize=0,"
            f" tokenize='{TOKENIZER}')"
        )
        self._command(part, "hashsize", HASH_BYTES)

    def _close(self, part: int) -> None:
        """Close a part, and merge its index segments, which makes it smaller and quicker to search."""
        self._connection.execute(f"INSERT INTO text_{part} (text_{part}) VALUES ('optimize')")
        self._connection.execute("UPDATE parts SET closed=1 WHERE id=?", (part,))

    def _command(self, part: int, name: str, value: int) -> None:
        self._connection.execute(f"INSERT INTO text_{part} (text_{part}, rank) VALUES (?, ?)", (name, value))

    def _insert(self, part: int, events: Sequence[StoredEvent]) -> tuple[int, int]:
        """Insert documents. Return how many were added, and how many of the events were taken before the part had no
        room left."""
        if self._ids is None or self._ids.part != part:
            self._ids = Ids(self._connection, part)
        numbers: list[int] = []
        texts: list[tuple[int, str, str]] = []
        ranges: dict[int, tuple[int, int]] = {}
        execute, executemany = self._connection.execute, self._connection.executemany
        add, added = f"INSERT INTO docs_{part} VALUES (?, ?, ?, ?)", 0
        for seq, body in events:
            found = searchable(body)
            if found is not None:
                source = self._source(found, seq)
                if found.text or found.outcome is not None:
                    number = self._ids.take(source, None if found.ts is None else found.ts // 1000)
                    if number is None:
                        break
                    execute(add, (number, seq, self._label(found), found.call))
                    numbers.append(number)
                    if found.text:
                        texts.append((number, *words_of(found.text)))
                ranges[source] = (ranges[source][0] if source in ranges else seq, seq)
                if found.alias or found.cwd:
                    self._learn(source, found)
            added += 1
        executemany(
            "UPDATE sources SET first=min(first, ?), last=max(last, ?) WHERE id=?",
            [(first, last, source) for source, (first, last) in ranges.items()],
        )
        texts.sort()  # else each step back costs a segment
        executemany(f"INSERT INTO text_{part} (rowid, text, humps) VALUES (?, ?, ?)", texts)
        if numbers:
            low, high = min(numbers), max(numbers)
            execute(
                "UPDATE parts SET low=min(coalesce(low, ?1), ?1), high=max(coalesce(high, ?2), ?2) WHERE id=?3",
                (low, high, part),
            )
        return len(numbers), added

    def _source(self, found: Searchable, seq: int) -> int:
        key = (found.stream, found.session)
        known = self._sources.get(key)
        if known is not None:
            return known
        execute = self._connection.execute
        row = execute("SELECT id FROM sources WHERE stream=? AND named=?", key).fetchone()
        if row is None:
            row = execute(
                "INSERT INTO sources (stream, named, session, provider, first, last) VALUES (?, ?, ?, ?, ?, ?)"
                " RETURNING id",
                (*key, found.session, found.provider, seq, seq),
            ).fetchone()
        if len(self._sources) >= NAMES_IN_MEMORY:
            self._sources.clear()
        self._sources[key] = int(row[0])
        return int(row[0])

    def _label(self, found: Searchable) -> int:
        key = (found.kind, found.tool or "", found.raw_tool or "", found.outcome or "")
        known = self._labels.get(key)
        if known is not None:
            return known
        execute = self._connection.execute
        execute("INSERT OR IGNORE INTO labels (kind, tool, raw_tool, outcome) VALUES (?, ?, ?, ?)", key)
        (label,) = execute("SELECT id FROM labels WHERE kind=? AND tool=? AND raw_tool=? AND outcome=?", key).fetchone()
        if len(self._labels) >= NAMES_IN_MEMORY:
            self._labels.clear()
        self._labels[key] = int(label)
        return int(label)

    def _learn(self, source: int, found: Searchable) -> None:
        if found.cwd:
            self._connection.execute("UPDATE sources SET cwd=? WHERE id=?", (found.cwd, source))
        if found.alias:  # its events before this one have another name for the session
            self._connection.execute(
                "UPDATE sources SET session=? WHERE stream=? AND session=?", (found.session, found.stream, found.alias)
            )

    # -- deleting -----------------------------------------------------------------------------------------------

    def sources(self) -> list[Source]:
        return [
            Source(*row)
            for row in self._connection.execute("SELECT id, stream, named, first FROM sources ORDER BY id").fetchall()
        ]

    def forget(self, deleted: Sequence[tuple[Source, int | None]]) -> None:
        """Remove deleted events. Each source has the `seq` of its first event that is left, or None if none is. Parts
        with deleted events are emptied, to be rebuilt if they have others."""
        stale: set[int] = set()
        with self._transaction() as execute:
            for source, first in deleted:
                stale.update(self._parts_with(source, first))
                if first is None:
                    execute("DELETE FROM sources WHERE id=?", (source.id,))
                else:
                    execute("UPDATE sources SET first=? WHERE id=?", (first, source.id))
            self._sources.clear()
            for part in sorted(stale):
                self._empty(part)
                self._create_tables(part)
                # Closed: what comes next goes into a new part.
                execute("UPDATE parts SET docs=0, closed=1, built=first-1, low=NULL, high=NULL WHERE id=?", (part,))
        if deleted:
            self._free_pages()

    def _parts_with(self, source: Source, before: int | None) -> Iterator[int]:
        """Yield the parts with documents of a source before a `seq`; None: with any."""
        parts = self._connection.execute(
            "SELECT DISTINCT parts.id, parts.last FROM slots JOIN parts ON parts.id=slots.part"
            " WHERE source=? AND first<?",
            (source.id, 2**62 if before is None else before),
        ).fetchall()
        for part, last in parts:
            (has,) = self._connection.execute(
                f"SELECT ?2 > ?3 OR EXISTS (SELECT 1 FROM docs_{part} WHERE seq < ?2 AND id % {SLOTS} IN"
                " (SELECT slot FROM slots WHERE part=?4 AND source=?1))",
                (source.id, 2**62 if before is None else before, last, part),
            ).fetchone()
            if has:
                yield part

    def stale(self) -> StalePart | None:
        """Return the newest part that has to be rebuilt; None if there is none."""
        row = self._connection.execute(
            "SELECT id, first, last, built FROM parts WHERE built IS NOT NULL ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return None if row is None else StalePart(*row)

    def build(self, part: StalePart, events: Sequence[StoredEvent], built: int) -> None:
        """Add the events of a part after `part.built`: all of them up to `built`."""
        with self._transaction() as execute:
            documents, added = self._insert(part.id, events)
            assert added == len(events)  # there are no more sources than before
            execute("UPDATE parts SET docs=docs+?, built=? WHERE id=?", (documents, built, part.id))
            if built < part.last:
                return
            (left,) = execute("SELECT docs FROM parts WHERE id=?", (part.id,)).fetchone()
            if left:
                self._close(part.id)
                execute("UPDATE parts SET built=NULL WHERE id=?", (part.id,))
            else:
                self._drop(part.id)

    def shrink(self, most: int) -> bool:
        """Drop the oldest of several parts if the index is larger than `most` bytes; return whether one was dropped."""
        if size_of(self._connection) <= most:
            return False
        rows = self._connection.execute("SELECT id, last FROM parts ORDER BY id LIMIT 2").fetchall()
        if len(rows) < 2:
            return False
        with self._transaction():
            self._drop(rows[0][0])
            put(self._connection, "floor", rows[0][1])
            put(self._connection, "most", most)
        self.floor, self.limit = rows[0][1], most
        self._free_pages()
        return True

    def _drop(self, part: int) -> None:
        self._empty(part)
        self._connection.execute("DELETE FROM parts WHERE id=?", (part,))

    def _empty(self, part: int) -> None:
        for table in ("docs", "text"):
            self._connection.execute(f"DROP TABLE {table}_{part}")
        self._connection.execute("DELETE FROM slots WHERE part=?", (part,))
        self._ids = None

    # -- about it -----------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, int]:
        """Return the figures of the index; `unbuilt` is described at `unbuilt_of`."""
        documents, parts = self._connection.execute("SELECT coalesce(sum(docs), 0), count(*) FROM parts").fetchone()
        figures = {"documents": documents, "parts": parts, "bytes": size_of(self._connection)}
        return {**figures, "unbuilt": unbuilt_of(self._connection)}

    @contextmanager
    def _transaction(self) -> Iterator[_Execute]:
        connection = self._connection
        self.check_file()
        connection.execute("BEGIN IMMEDIATE")
        self._stamp = None
        try:
            yield connection.execute
            connection.execute("COMMIT")  # SQLite may copy its log into the file
        except BaseException:
            self._sources.clear()
            self._labels.clear()
            self._ids = None
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            self._note_written()
