"""Migrates a journal of an earlier format in place.

Format 3 stores events in other tables. They are copied in steps, each a transaction, into tables beside the old ones;
the last transaction puts the copy in their place and raises the format. So a journal has one format or the other,
wherever the daemon is killed, and no step needs more memory than its events. A copy that was not finished is discarded
when the migration begins again: an earlier version may have written to the journal in between.

The file is nearly twice as long until retention returns the free pages. Without room for the copy, the migration is
refused and the journal stays as it is.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from shutil import disk_usage

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.tables import EVENT_TABLES, FORMAT, label_id, set_meta
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
        set_meta(connection, "format", 2)
        connection.execute("COMMIT")
    if version < 3:
        try:
            _discard_copy(connection)
            _check_room(connection, path)
            (cache,) = connection.execute("PRAGMA cache_size").fetchone()
            connection.execute(f"PRAGMA cache_size={-CACHE_KIB}")
            _number_names(connection, path)
            connection.execute(f"PRAGMA cache_size={cache}")
        except sqlite3.Error as error:
            raise JournalError(f"the journal {path} cannot be migrated to format {FORMAT}: {error}") from error


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
    for statement in EVENT_TABLES.format(events="events_3").strip().split(";\n"):
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
    set_meta(connection, "format", 3)
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
            labels[label] = label_id(connection, *label)
    execute(
        "INSERT INTO events_3 SELECT seq, sources.id, labels.id, agent, body FROM events"
        " CROSS JOIN sources ON sources.stream=events.stream AND sources.session=events.session"
        " CROSS JOIN labels ON labels.kind=events.kind AND labels.tool IS events.tool"
        " AND labels.raw_tool IS events.raw_tool AND labels.provider=events.provider"
        " WHERE seq>? AND seq<=? ORDER BY seq",
        step,
    )
    return end
