"""Migrates a journal of an earlier format in place.

Format 3 stores events in other tables. They are copied in steps, each a transaction, into tables beside the old ones;
the last transaction puts the copy in their place and raises the format. So a journal has one format or the other,
wherever the daemon is killed, and no step needs more memory than its events. A copy that was not finished is discarded
when the migration begins again: an earlier version may have written to the journal in between.

Format 4 adds the table of contents, in one transaction. The bodies that are there remain as they are.

Format 5 adds a checksum to every row, in one transaction. Damage from before that cannot be detected.

Format 6 adds columns to sessions, and rebuilds their rows from the events, in one transaction.

The file is nearly twice as long until retention returns the free pages, or its log is. Without room for that, the
migration is refused and the journal stays as it is.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from shutil import disk_usage

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.checksums import EVENT_SUM, SUMS, lines_of, piece_sum, tail_sum
from tooltap.daemon.journal.sqlite.contents import CONTENT_TABLES, unpacked
from tooltap.daemon.journal.sqlite.sessions.rebuild import rebuild_sessions
from tooltap.daemon.journal.sqlite.tables import (
    COPIED_BELOW,
    EVENT_TABLES,
    FORMAT,
    GAPS_TABLE,
    UNINDEXED,
    set_meta,
)
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import get_logger

__all__ = ["migrate"]

STEP_EVENTS = 20_000
"""Events that one transaction copies."""
EVENTS_A_SECOND = 50_000
"""About how fast events are copied, for the log."""
CACHE_KIB = 65_536
"""Memory for pages. With SQLite's own 2 MB, pages of the indexes are read again for every step: a third slower."""
REPORT_PERIOD = 10.0
"""Seconds between two entries in the log."""
ROOM = 64 * 2**20
"""Bytes that must stay free on the disk."""

_log = get_logger("journal")


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Raises `JournalError`."""
    if version < 2:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE INDEX streams_by_updated ON streams (updated)")
        _set_format(connection, 2)
        connection.execute("COMMIT")
    if version < COPIED_BELOW:
        try:
            _discard_copy(connection)
            _check_room(connection, path)
            (cache,) = connection.execute("PRAGMA cache_size").fetchone()
            connection.execute(f"PRAGMA cache_size={-CACHE_KIB}")
            _number_names(connection, path)
            connection.execute(f"PRAGMA cache_size={cache}")
        except sqlite3.Error as error:
            raise JournalError(f"the journal {path} cannot be migrated to format {FORMAT}: {error}") from error
    if version < 4:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ALTER TABLE pieces ADD COLUMN content INTEGER")
        for statement in CONTENT_TABLES:
            connection.execute(statement)
        _set_format(connection, 4)
        failpoint("during-migration")
        connection.execute("COMMIT")
        failpoint("during-migration")
    if version < 5:
        _check_room(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        _add_checksums(connection)
        failpoint("during-migration")
        connection.execute("COMMIT")
        failpoint("during-migration")
    if version < 6:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM sessions WHERE checksum<>row_sum('sessions', session, last_seq, data)")
        rebuild_sessions(connection)
        set_meta(connection, "format", 6)
        failpoint("during-migration")
        connection.execute("COMMIT")
        failpoint("during-migration")


def _set_format(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("UPDATE meta SET value=? WHERE key='format'", (version,))


def _add_checksums(connection: sqlite3.Connection) -> None:
    execute = connection.execute
    execute(GAPS_TABLE)
    for table in (*SUMS, "events", "pieces", "tail"):
        if "checksum" not in {column[1] for column in execute(f"PRAGMA table_info({table})").fetchall()}:
            execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
    _set_format(connection, 5)
    (events,) = execute("SELECT count(*) FROM events NOT INDEXED").fetchone()
    execute("INSERT INTO meta (key, value) VALUES ('tally', ?)", (f"0 {events}",))
    for table, columns in SUMS.items():
        if table == "sessions":  # made again for format 6
            continue
        execute(f"UPDATE {table} SET checksum=row_sum('{table}', {columns})")
    execute(f"UPDATE events SET checksum={EVENT_SUM}")
    connection.create_function("piece_sum", 7, _sum_of_piece, deterministic=True)
    execute(
        "UPDATE pieces SET checksum=piece_sum(body, start, newlines, data, content,"
        " (SELECT size FROM contents WHERE id=content), (SELECT data FROM contents WHERE id=content))"
    )
    _sum_tails(connection)


def _sum_of_piece(
    body: int, start: int, newlines: int, data: bytes, content: int | None, size: int | None, packed: bytes | None
) -> int:
    return piece_sum(body, start, newlines, data if packed is None else unpacked(packed, size), content)


def _sum_tails(connection: sqlite3.Connection) -> None:
    execute = connection.execute
    stream, base = "", 0
    after = ("", -1)
    while True:
        row = execute(
            "SELECT stream, id, records, (SELECT lines FROM snapshots WHERE snapshots.stream=tail.stream) FROM tail"
            " WHERE (stream, id)>(?, ?) ORDER BY stream, id LIMIT 1",
            after,
        ).fetchone()
        if row is None:
            return
        after = row[:2]
        if row[0] != stream:
            stream, base = row[0], row[3] or 0
        execute("UPDATE tail SET checksum=? WHERE id=?", (tail_sum(stream, base, row[2]), row[1]))
        base += lines_of(row[2])


def _discard_copy(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for table in ("sources", "labels", "events_3"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute("COMMIT")


def _check_room(connection: sqlite3.Connection, path: Path) -> None:
    pages, free_pages, page_size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    needed = (pages - 2 * free_pages) * page_size + ROOM
    free = disk_usage(path.parent).free
    if needed > free:
        raise JournalError(
            f"the journal {path} cannot be migrated to format {FORMAT}: its disk has {free >> 20} MiB left, and the"
            f" copy of its events needs up to {needed >> 20} MiB"
        )


def _number_names(connection: sqlite3.Connection, path: Path) -> None:
    """Format 3: numbers in place of names."""
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    for statement in EVENT_TABLES.format(events="events_3", checksum="").strip().split(";\n"):
        execute(statement)
    execute("COMMIT")
    first, last = execute("SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM events").fetchone()
    events = last - first + 1
    _log.info(
        "migrating the journal",
        path=str(path),
        to_format=FORMAT,
        events=events,
        about_seconds=events // EVENTS_A_SECOND + 1,
    )
    labels: dict[tuple[str, str, str | None, str | None], int] = {}
    report_at = time.monotonic() + REPORT_PERIOD
    after = first - 1
    while after < last:
        execute("BEGIN IMMEDIATE")
        after = _copy(connection, after, last, labels)
        failpoint("during-migration")
        execute("COMMIT")
        if time.monotonic() >= report_at:
            _log.info("migrating the journal", copied=after - first + 1, events=events)
            report_at += REPORT_PERIOD
    execute("BEGIN IMMEDIATE")
    execute("DROP TABLE events")
    execute("ALTER TABLE events_3 RENAME TO events")
    _set_format(connection, 3)
    failpoint("during-migration")
    execute("COMMIT")
    failpoint("during-migration")
    _log.info("the journal is migrated", path=str(path), format=FORMAT)


def _copy(
    connection: sqlite3.Connection, after: int, last: int, labels: dict[tuple[str, str, str | None, str | None], int]
) -> int:
    """Copy the next events, and return the `seq` of the last of them. `labels`: those that exist."""
    execute = connection.execute
    found = execute(
        "SELECT seq FROM events WHERE seq>? ORDER BY seq LIMIT 1 OFFSET ?", (after, STEP_EVENTS - 1)
    ).fetchone()
    end: int = last if found is None else found[0]
    step = (after, end)
    execute(
        "INSERT OR IGNORE INTO sources (stream, session)"
        " SELECT DISTINCT stream, session FROM events WHERE seq>? AND seq<=?",
        step,
    )
    found_labels = execute("SELECT DISTINCT kind, provider, tool, raw_tool FROM events WHERE seq>? AND seq<=?", step)
    for label in found_labels.fetchall():
        if label not in labels:
            number = len(labels) + 1  # all labels are from this migration
            labels[label] = -number if label[0] in UNINDEXED else number
            execute("INSERT INTO labels VALUES (?, ?, ?, ?, ?)", (labels[label], *label))
    execute(
        "INSERT INTO events_3 SELECT seq, sources.id, labels.id, agent, body FROM events"
        " CROSS JOIN sources ON sources.stream=events.stream AND sources.session=events.session"
        " CROSS JOIN labels ON labels.kind=events.kind AND labels.tool IS events.tool"
        " AND labels.raw_tool IS events.raw_tool AND labels.provider=events.provider"
        " WHERE seq>? AND seq<=? ORDER BY seq",
        step,
    )
    return end
