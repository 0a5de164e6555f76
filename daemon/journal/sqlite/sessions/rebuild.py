"""Makes the rows of all sessions again, of the events that are in the journal, for a repair.

All of it is one transaction, which the caller commits: a journal has the old rows or the new ones, wherever the daemon
is killed. Events are only read, so the transaction is as long as the rows, however many events there are.

What events say that are gone is kept from the earlier row.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Mapping

import msgspec

from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.open_checks import read_gaps
from tooltap.daemon.journal.sqlite.projection import SqliteProjection
from tooltap.daemon.journal.sqlite.reader import KnownDamage, read
from tooltap.daemon.journal.sqlite.tables import SESSIONS_TABLE
from tooltap.daemon.sessions.projection import CallRow
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.system.logs import get_logger
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import decode
from tooltap.protocol.filters import ALL_EVENTS

STEP_BYTES = 4_194_304
"""Events that are in memory at once."""
REPORT_PERIOD = 10.0
"""Seconds between two entries in the log."""

_log = get_logger("journal")
_decoder = msgspec.json.Decoder(SessionRow)


class _Sessions(SqliteProjection):
    """Sessions alone: the open calls are in the journal already."""

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        return {}

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        pass


def rebuild_sessions(connection: sqlite3.Connection) -> Counter[str]:
    """Returns how many rows were not there before, by table."""
    execute = connection.execute
    for table in ("sessions", "session_streams"):
        execute(f"DROP TABLE IF EXISTS temp.earlier_{table}")
        execute(f"CREATE TEMP TABLE earlier_{table} AS SELECT * FROM {table}")
    execute("DELETE FROM session_streams")
    execute("DROP TABLE sessions")
    for statement in SESSIONS_TABLE.strip().split(";\n"):
        execute(statement)
    damages = Damages()
    rebuilt = _Sessions(connection, damages)
    _apply_all(connection, rebuilt, damages)
    made = {
        "sessions": "session NOT IN (SELECT session FROM earlier_sessions)",
        "session_streams": "(session, stream) NOT IN (SELECT session, stream FROM earlier_session_streams)",
    }
    new = Counter[str]()
    for table, condition in made.items():
        new[table] = execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]
    _keep_earlier(connection, rebuilt)
    for table in made:
        execute(f"DROP TABLE temp.earlier_{table}")
    return +new


def _apply_all(connection: sqlite3.Connection, rebuilt: _Sessions, damages: Damages) -> None:
    first, last = connection.execute("SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM events").fetchone()
    gaps = read_gaps(connection, damages).within(first, last)
    after = first - 1
    started = time.monotonic()
    report_at = started + REPORT_PERIOD
    while after < last:
        found = read(connection, after, last, ALL_EVENTS, STEP_BYTES, KnownDamage(gaps))
        for stored in found.events:
            try:
                event = decode(stored.body)
            except msgspec.MsgspecError:  # of a kind that this version does not know
                continue
            rebuilt.apply(event.stream, [(stored.seq, Produced.of(event, stored.body))])
        rebuilt.flush()
        after = found.searched
        if time.monotonic() >= report_at:
            _log.info("rebuilding the list of sessions", done=after - first + 1, events=last - first + 1)
            report_at += REPORT_PERIOD
    seconds = round(time.monotonic() - started, 1)
    _log.info("rebuilt the list of sessions", events=last - first + 1, seconds=seconds)


def _keep_earlier(connection: sqlite3.Connection, rebuilt: _Sessions) -> None:
    """Add what is known of events that retention or a damage has taken, and sessions of which none is left."""
    execute = connection.execute
    earlier_rows = execute("SELECT session, data FROM earlier_sessions")
    while rows := earlier_rows.fetchmany(1_000):
        for name, data in rows:
            rebuilt.keep(name, _decoder.decode(data))
        rebuilt.flush()
    execute(
        "INSERT OR IGNORE INTO session_streams SELECT session, stream, row_sum('session_streams', session, stream)"
        " FROM earlier_session_streams WHERE session IN (SELECT session FROM sessions)"
    )
