"""Lists of sessions, by the columns of their rows: to find a page, no row is decoded that is not in it.

The columns and `sessions_by_time`, which has them all, are copies of what is in the row. Only what a session waits for
and whether its streams are open is not: that is asked of `calls` and `streams`, and only where it may matter.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, get_args

import msgspec

from tooltap.daemon.journal.sqlite.damage import Damages
from tooltap.daemon.journal.sqlite.tables import SUMS
from tooltap.daemon.sessions.listing import FACETS, MOST_COUNTED, SessionFilter, SessionOrder, SessionPlace
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import report
from tooltap.protocol.replies import StreamState, UsageResult
from tooltap.protocol.requests import UsageRequest

_COLUMNS = SUMS["sessions"]
_DATA = _COLUMNS.split(", ").index("data")
_STATES = frozenset(get_args(StreamState))
_ORDERS = {"seq": "last_seq", "time": "last_ts DESC, last_seq"}
_BEFORE = {"seq": "last_seq<:last_seq", "time": "(last_ts, last_seq)<(:last_ts, :last_seq)"}

_WAITING = "session IN (SELECT session FROM calls WHERE kind='permission')"
_OPEN = (
    "EXISTS (SELECT 1 FROM session_streams JOIN streams USING (stream)"
    " WHERE session_streams.session=sessions.session AND state='open')"
)
_STATUS = (
    f"CASE WHEN {_WAITING} THEN iif({_OPEN}, 'waiting', 'interrupted')"
    f" WHEN outcome='running' AND NOT {_OPEN} THEN 'interrupted' ELSE outcome END"
)
"""As `Work.status`."""

# Created at import: two threads that decode a type for the first time at once crash msgspec 0.22.
_decoder = msgspec.json.Decoder(SessionRow)


def sessions(
    connection: sqlite3.Connection,
    limit: int,
    before: SessionPlace | None,
    order: SessionOrder,
    wanted: SessionFilter,
    damages: Damages,
) -> list[dict[str, Any]]:
    conditions, values = _conditions(wanted)
    if before is not None:
        conditions.append(_BEFORE[order])
        values |= before._asdict()
    by = f"ORDER BY {_ORDERS[order]} DESC"
    rows = damages.rows(
        connection,
        "sessions",
        f"SELECT {_COLUMNS}, checksum FROM sessions{{0}} WHERE rowid IN"
        f" (SELECT rowid FROM sessions{{0}} {_where(conditions)} {by} LIMIT :limit) {by}",
        values | {"limit": limit},
    )
    found = []
    for *row, checksum in rows:
        if damages.is_intact("sessions", row, checksum):
            found.append(_described(connection, row[0], _decoder.decode(row[_DATA]), damages))
    return found


def count_sessions(
    connection: sqlite3.Connection, wanted: SessionFilter, damages: Damages
) -> dict[str, dict[str, int]]:
    conditions, values = _conditions(wanted)
    sql = f"SELECT {_STATUS}, provider, project, count(*) FROM sessions{{0}} {_where(conditions)} GROUP BY 1, 2, 3"
    counts = {key: Counter[str]() for key in FACETS}
    for *names, number in damages.rows(connection, "sessions", sql, values):
        for counted, name in zip(counts.values(), names, strict=True):
            if name is not None:
                counted[name] += number
    return {key: dict(counted.most_common(MOST_COUNTED)) for key, counted in counts.items()}


def usage(connection: sqlite3.Connection, request: UsageRequest, damages: Damages) -> UsageResult:
    conditions, values = _conditions(
        SessionFilter(session=request.session, provider=request.provider, project=request.project)
    )
    sql = f"SELECT {_COLUMNS}, checksum FROM sessions{{0}} {_where(conditions)}"
    rows = damages.rows(connection, "sessions", sql, values)
    whole = (row for *row, checksum in rows if damages.is_intact("sessions", row, checksum))
    return report((_decoder.decode(row[_DATA]).spending(row[0]) for row in whole), request)


def _conditions(wanted: SessionFilter) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    values: dict[str, Any] = {}
    for key in ("session", *FACETS):
        if (names := getattr(wanted, key)) is not None:
            named = {f"{key}{number}": name for number, name in enumerate(names)}
            conditions.append(f"{_STATUS if key == 'status' else key} IN ({','.join(f':{one}' for one in named)})")
            values |= named
    bounds = {"since": "last_ts>=:since", "until": "last_ts<:until", "changed_after": "last_seq>:changed_after"}
    for key, condition in bounds.items():
        if (value := getattr(wanted, key)) is not None:
            conditions.append(condition)
            values[key] = value
    return conditions, values


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _described(connection: sqlite3.Connection, name: str, row: SessionRow, damages: Damages) -> dict[str, Any]:
    of_session = damages.rows(
        connection,
        "session_streams",
        "SELECT streams.stream, state FROM session_streams{0} JOIN streams USING (stream) WHERE session=? ORDER BY 1",
        (name,),
    )
    waits = "SELECT 1 FROM calls{0} WHERE session=? AND kind='permission' LIMIT 1"
    return row.describe(
        name,
        {stream: state for stream, state in of_session if state in _STATES},
        pending=bool(damages.rows(connection, "calls", waits, (name,))),
    )
