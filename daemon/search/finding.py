"""Reading the index: the newest hits, and how many there are in each session.

Parts are searched from the newest to the oldest, until enough was found or the time is over. What was cut off is told:
`complete` is false.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tooltap.daemon.search.file import connect

__all__ = ["Finding", "Hit", "Tally", "Wanted"]

STEPS = 2_000
"""Instructions of SQLite between two looks at the clock."""


class Wanted(NamedTuple):
    """What to find. None: any."""

    expression: str
    sessions: Sequence[str] | None = None
    providers: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    tools: Sequence[str] | None = None
    """Canonical or raw names."""
    folders: Sequence[str] | None = None
    """Working directories: the whole path, the path of a folder around it, or the last part of its name."""
    since: int | None = None
    until: int | None = None
    """Milliseconds since the epoch."""


class Hit(NamedTuple):
    seq: int
    session: str
    """Its name now, which may have come later than the event."""


class _Row(NamedTuple):
    seq: int
    source: int


class Tally(NamedTuple):
    """Hits in one session."""

    session: str
    provider: str
    cwd: str | None
    hits: int
    latest: int
    """`seq` of the newest."""


class _Scope(NamedTuple):
    """The condition of a query, and its parameters."""

    condition: str
    values: dict[str, Any]
    first: int
    last: int


class Finding:
    """A reading connection, which one thread uses at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute("PRAGMA query_only=ON")
        self._deadline = 0.0
        self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, STEPS)

    def close(self) -> None:
        self._connection.close()

    def hits(
        self, wanted: Wanted, before: int, limit: int, most_of_session: int | None, seconds: float
    ) -> tuple[list[Hit], bool]:
        """The newest hits with `seq` < `before`, newest first, and whether everything was searched that had to be."""
        found: list[_Row] = []
        full: list[int] = []
        with self._limited(seconds) as limited:
            scope = self._scope(wanted)
            while scope is not None and (room := limit - len(found)) > 0:
                added = self._next_hits(wanted, scope, before, room, full)
                found += added
                if most_of_session is not None:
                    found, full = self._thinned(found, most_of_session)
                if len(added) < room:
                    break
                before = added[-1].seq
        self._deadline = float("inf")
        sessions = self._sessions_of(found)
        return [Hit(seq, sessions[source]) for seq, source in found if source in sessions], not limited.is_over

    def tallies(self, wanted: Wanted, before: int, seconds: float) -> tuple[list[Tally], bool]:
        """All hits with `seq` < `before` counted by session, the session with the newest hit first; and whether all
        were counted."""
        counts: dict[int, tuple[int, int]] = {}
        with self._limited(seconds) as limited:
            scope = self._scope(wanted)
            if scope is not None:
                for part, low, high in self._parts(scope, before):
                    for source, hits, latest in self._connection.execute(
                        f"SELECT docs.source, count(*), max(docs.seq) {_hits_of(part, scope)} GROUP BY 1",
                        {**scope.values, "match": wanted.expression, "low": low, "high": high},
                    ).fetchall():
                        earlier = counts.get(source, (0, latest))
                        counts[source] = earlier[0] + hits, max(earlier[1], latest)
        is_complete = not limited.is_over
        return self._by_session(counts), is_complete

    def _by_session(self, counts: dict[int, tuple[int, int]]) -> list[Tally]:
        self._deadline = float("inf")
        found: dict[str, Tally] = {}
        rows = self._connection.execute(
            "SELECT id, session, provider, cwd FROM sources WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(counts)),),
        )
        for source, session, provider, cwd in rows.fetchall():
            hits, latest = counts[source]
            if (earlier := found.get(session)) is not None:
                hits, latest, cwd = hits + earlier.hits, max(latest, earlier.latest), cwd or earlier.cwd
            found[session] = Tally(session, provider, cwd, hits, latest)
        return sorted(found.values(), key=lambda one: -one.latest)

    def _sessions_of(self, found: Sequence[_Row]) -> dict[int, str]:
        """The session of each source."""
        return dict(
            self._connection.execute(
                "SELECT id, session FROM sources WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps([one.source for one in found]),),
            ).fetchall()
        )

    # -- one query ----------------------------------------------------------------------------------------------

    def _next_hits(self, wanted: Wanted, scope: _Scope, before: int, limit: int, without: Sequence[int]) -> list[_Row]:
        found: list[_Row] = []
        exclude = " AND docs.source NOT IN (SELECT value FROM json_each(:without))" if without else ""
        for part, low, high in self._parts(scope, before):
            found += map(
                _Row._make,
                self._connection.execute(
                    f"SELECT docs.seq, docs.source {_hits_of(part, scope)}{exclude}"
                    f" ORDER BY text_{part}.rowid DESC LIMIT :limit",
                    {
                        **scope.values,
                        "match": wanted.expression,
                        "low": low,
                        "high": high,
                        "limit": limit - len(found),
                        "without": json.dumps(list(without)),
                    },
                ).fetchall(),
            )
            if len(found) >= limit:
                break
        return found

    def _thinned(self, found: list[_Row], most: int) -> tuple[list[_Row], list[int]]:
        """The first `most` hits of each session, and the sources of the sessions that have as many."""
        sessions = self._sessions_of(found)
        count: dict[str, int] = {}
        kept = []
        for one in found:
            session = sessions.get(one.source, "")
            count[session] = count.get(session, 0) + 1
            if count[session] <= most:
                kept.append(one)
        full = [session for session, hits in count.items() if hits >= most]
        rows = self._connection.execute(
            "SELECT id FROM sources WHERE session IN (SELECT value FROM json_each(?))", (json.dumps(full),)
        )
        return kept, [source for (source,) in rows.fetchall()]

    def _parts(self, scope: _Scope, before: int) -> Iterator[tuple[int, int, int]]:
        """The parts that may have hits, newest first: number, and the first and last `seq` wanted of it."""
        high = min(scope.last, before - 1)
        for part, first, last in self._connection.execute(
            "SELECT id, first, last FROM parts WHERE first<=? AND last>=? AND docs>0 ORDER BY id DESC",
            (high, scope.first),
        ).fetchall():
            self._check_time()
            yield part, max(first, scope.first), min(last, high)

    def _scope(self, wanted: Wanted) -> _Scope | None:
        """None if no event can match."""
        conditions: list[str] = []
        values: dict[str, Any] = {}
        first, last = 0, 2**63 - 1
        of_source, names = [], {}
        for name, column in (("sessions", "session"), ("providers", "provider")):
            if (given := getattr(wanted, name)) is not None:
                of_source.append(f"{column} IN (SELECT value FROM json_each(:{name}))")
                names[name] = json.dumps(list(given))
        if wanted.folders is not None:
            of_source.append(f"session IN (SELECT session FROM sources JOIN json_each(:folders) WHERE {_IN_FOLDER})")
            names["folders"] = json.dumps([one.rstrip("/") for one in wanted.folders])
        if of_source:
            rows = self._connection.execute(
                f"SELECT id, first, last FROM sources WHERE {' AND '.join(of_source)}", names
            ).fetchall()
            if not rows:
                return None
            conditions.append("docs.source IN (SELECT value FROM json_each(:sources))")
            values["sources"] = json.dumps([row[0] for row in rows])
            first, last = min(row[1] for row in rows), max(row[2] for row in rows)
        of_label, names = [], {}
        if wanted.kinds is not None:
            of_label.append("kind IN (SELECT value FROM json_each(:kinds))")
            names["kinds"] = json.dumps(list(wanted.kinds))
        if wanted.tools is not None:
            of_label.append("EXISTS (SELECT 1 FROM json_each(:tools) WHERE value IN (tool, raw_tool))")
            names["tools"] = json.dumps(list(wanted.tools))
        if of_label:
            rows = self._connection.execute(f"SELECT id FROM labels WHERE {' AND '.join(of_label)}", names).fetchall()
            if not rows:
                return None
            conditions.append(f"docs.label IN ({','.join(str(row[0]) for row in rows)})")
        if wanted.since is not None:
            conditions.append("docs.ts >= :since")
            values["since"] = -(-wanted.since // 1000)
        if wanted.until is not None:
            conditions.append("docs.ts <= :until")
            values["until"] = wanted.until // 1000
        return _Scope("".join(f" AND {one}" for one in conditions), values, first, last)

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[_Limited]:
        limited = _Limited()
        self._deadline = time.monotonic() + seconds
        try:
            yield limited
        except _TimeIsOverError:
            limited.is_over = True
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            limited.is_over = True

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _TimeIsOverError


class _TimeIsOverError(Exception):
    pass


class _Limited:
    is_over = False


_IN_FOLDER = (
    "cwd=value OR substr(cwd, 1, length(value) + 1)=value||'/'"
    " OR (instr(value, '/')=0 AND substr(cwd, -length(value) - 1)='/'||value)"
)


def _hits_of(part: int, scope: _Scope) -> str:
    # CROSS: the words are looked up first, whatever the planner thinks.
    return (
        f"FROM text_{part} CROSS JOIN docs ON docs.seq=text_{part}.rowid WHERE text_{part} MATCH :match"
        f" AND text_{part}.rowid BETWEEN :low AND :high{scope.condition}"
    )
