"""Retention by age, in small steps: streams that ended long ago lose their events and bodies, later their row too.

What belongs to a stream that has not ended is never touched. Of an ended one `lines` and `crc` are remembered, so that
a late publisher does not start again at 0.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from tooltap.daemon.journal_schema import get_meta, set_meta

__all__ = ["Step", "expire_step"]

EVENTS_A_STEP = 500
PIECES_A_STEP = 40
VACUUM_PAGES = 256


class Step(NamedTuple):
    events: int
    oldest: int | None
    """`seq` of the oldest event left."""
    expired: int
    """The highest `seq` ever deleted."""
    done: bool


def expire_step(connection: sqlite3.Connection, before: int, forget_before: int) -> Step:
    """One transaction's worth. `before`, `forget_before`: ms since the epoch of a stream's last commit."""
    found = connection.execute(
        "SELECT stream FROM streams WHERE state='ended' AND expired=0 AND updated<? ORDER BY updated LIMIT 1", (before,)
    ).fetchone()
    events = 0
    if found is not None:
        events = _shrink(connection, found[0])
    else:
        connection.execute("DELETE FROM streams WHERE state='ended' AND expired=1 AND updated<?", (forget_before,))
    connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
    (oldest,) = connection.execute("SELECT min(seq) FROM events").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return Step(events, oldest, int(get_meta(connection, "expired") or 0), done=found is None and not free)


def _shrink(connection: sqlite3.Connection, stream: str) -> int:
    """Delete some of the stream's events; when none are left its bodies; then what else is kept of it."""
    execute = connection.execute
    seqs = execute("SELECT seq FROM events WHERE stream=? ORDER BY seq LIMIT ?", (stream, EVENTS_A_STEP)).fetchall()
    if seqs:
        last = seqs[-1][0]
        execute("DELETE FROM events WHERE stream=? AND seq<=?", (stream, last))
        set_meta(connection, "expired", max(last, int(get_meta(connection, "expired") or 0)))
        return len(seqs)
    pieces = execute(
        "DELETE FROM pieces WHERE rowid IN"
        " (SELECT pieces.rowid FROM pieces JOIN bodies ON bodies.id=body WHERE stream=? LIMIT ?)",
        (stream, PIECES_A_STEP),
    )
    if pieces.rowcount:
        return 0
    for table in ("bodies", "snapshots", "tail"):
        execute(f"DELETE FROM {table} WHERE stream=?", (stream,))
    execute(
        "DELETE FROM sessions WHERE session IN (SELECT session FROM session_streams WHERE stream=?)"
        " AND NOT EXISTS (SELECT 1 FROM session_streams AS other WHERE other.session=sessions.session AND stream<>?)",
        (stream, stream),
    )
    execute("DELETE FROM session_streams WHERE stream=?", (stream,))
    execute("UPDATE streams SET expired=1 WHERE stream=?", (stream,))
    return 0
