"""Reads OpenCode's databases. Each row is a line. The sessions of subagents are read together with the one that they
belong to.

OpenCode 1 appends rows to an event log: its table `event` numbers the rows of each session (`seq`) from 0 on, and rows
never change. Learned from 1.18.33. OpenCode 2 stores messages (`message_store.py`), and takes the sessions of OpenCode
1 over into its tables; a session that they have is read there.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Generator, Iterator, Mapping

import orjson

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession
from tooltap.normalizers.core.state import make_room
from tooltap.normalizers.dialects.opencode import message_store

TIME_BITS = 36
"""Low bits of the time, in ms, that an id of an event has."""
MOST_KNOWN = 100_000
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_LOG = frozenset({"event", "event_sequence"})
_LAST = "SELECT aggregate_id, seq FROM event_sequence"
_ID = "SELECT id FROM event WHERE aggregate_id = ? AND seq = ?"
_FIRST = "SELECT data FROM event WHERE aggregate_id = ? AND seq = 0"
_NEXT = "SELECT rowid, id, aggregate_id, seq, type, data FROM event WHERE aggregate_id = ? AND seq >= ? ORDER BY seq"
_FIRST_MESSAGE = "SELECT min(seq) FROM event WHERE aggregate_id = ? AND type GLOB 'message.updated.*'"
_PROJECTED = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('message', 'session')"
_CREATED = "SELECT time_created, title FROM session WHERE id = ?"
_OLDER = "SELECT time_created FROM message WHERE session_id = ? AND time_created < ? ORDER BY time_created LIMIT 32"
_SHARING = """
SELECT session.id, session.title, count(*) FROM message JOIN session ON session.id = message.session_id
WHERE message.time_created IN ({}) AND session.id != ? AND session.time_created < ?
GROUP BY session.id ORDER BY session.time_created
"""
"""Sessions that have messages of these times, the oldest first."""
_FORK = re.compile(r"(?P<of>.+) \(fork #(?P<number>\d+)\)")
_NUMBERS = "SELECT rowid, aggregate_id, seq FROM event WHERE aggregate_id = ? ORDER BY seq"


class OpencodeStore:
    """Implements `DatabaseReader`."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        """Session -> its parent session; empty if it has none. The parent never changes."""
        self._first_messages: dict[str, int] = {}
        """Session -> number of the row with its first message."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        tables = {name for (name,) in query(_TABLES)}
        newer = set()
        if tables >= message_store.TABLES:
            for one in message_store.sessions(query):
                newer.add(one.session.removeprefix(message_store.PREFIX))
                yield one
        if tables >= _LOG:
            yield from (one for one in self._logged(query, changed) if one.session not in newer)

    def _logged(self, query: Query, changed: int) -> Iterator[StoredSession]:
        """List the sessions in the event log."""
        found: dict[str, tuple[int, int]] = {}
        last = dict(query(_LAST))
        owners = self._owners(query, last)
        for session, seq in last.items():
            root = _root(session, owners)
            rows, at = found.get(root, (0, 0))
            found[root] = rows + seq + 1, max([at, *(_time(one, changed) for (one,) in query(_ID, (session, seq)))])
        for session, (rows, at) in found.items():
            yield StoredSession(session, rows, at)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None if session.startswith(message_store.PREFIX) else self._numbers(query, session)

    def _numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None]:
        for _, owner, seq in heapq.merge(*(query(_NUMBERS, (one,)) for one in self._family(query, session))):
            yield owner, seq

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        if session.startswith(message_store.PREFIX):
            yield from message_store.rows(query, session, taken)
            return
        family = self._family(query, session)
        for row in heapq.merge(*(query(_NEXT, (one, taken.get(one, 0))) for one in family)):
            _, event, owner, seq, kind, data = row
            stated = {"id": event, "aggregate_id": owner, "seq": seq, "type": kind}
            if kind.startswith("message.updated") and seq == self._first_message(query, owner):
                origin = _origin(query, owner)
                stated |= {} if origin is None else {"forked_from": origin}
            head = json.dumps(stated)
            line = f'{head[:-1]}, "data": {data}}}'.replace("\n", " ").encode(errors="replace")
            yield Row(owner, seq, line, _time(event, changed))

    def _family(self, query: Query, session: str) -> list[str]:
        """Return the ids of a session and of its subagents' sessions. Raises `SessionGoneError`."""
        known = dict(query(_LAST))
        owners = self._owners(query, known)
        family = [one for one in known if _root(one, owners) == session]
        if not family:
            raise SessionGoneError
        return family

    def _first_message(self, query: Query, session: str) -> int:
        """Return the number of the row with the first message of a session that has one."""
        known = self._first_messages
        if session not in known:
            [(seq,)] = query(_FIRST_MESSAGE, (session,))
            make_room(known, MOST_KNOWN)
            known[session] = seq
        return known[session]

    def _owners(self, query: Query, sessions: Mapping[str, int]) -> dict[str, str]:
        """Return session -> parent session, for those of these sessions that have one. A session's first row states
        it."""
        for session in sessions:
            if session not in self._known:
                for (data,) in query(_FIRST, (session,)):
                    make_room(self._known, MOST_KNOWN)
                    self._known[session] = _owner(data)
        owners = {session: self._known.get(session, "") for session in sessions}
        return {session: owner for session, owner in owners.items() if owner in sessions}


def _owner(data: str) -> str:
    try:
        value = orjson.loads(data)
        owner = value["info"].get("parentID")
    except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError):
        return ""
    return owner if isinstance(owner, str) else ""


def _origin(query: Query, session: str) -> str | None:
    """Return the session that this one was forked from, of which OpenCode only states the copied messages: they keep
    their times, so they are older than the session. Of several sessions that share them, it is the one whose title the
    fork's title is made of, else the oldest."""
    if list(query(_PROJECTED)) != [(2,)]:
        return None
    for created, title in query(_CREATED, (session,)):
        times = tuple(time for (time,) in query(_OLDER, (session, created)))
        if not times:
            return None
        sharing = list(query(_SHARING.format(", ".join("?" * len(times))), (*times, session, created)))
        most = max((count for _, _, count in sharing), default=0)
        whole = [(one, named) for one, named, count in sharing if count == most]
        named_after = [one for one, named in whole if title == _title_of_fork(named)]
        return next(iter([*named_after, *(one for one, _ in whole)]), None)
    return None


def _title_of_fork(title: str) -> str:
    """Return the title that OpenCode gives to a fork of a session with this title."""
    found = _FORK.fullmatch(title)
    return f"{title} (fork #1)" if found is None else f"{found['of']} (fork #{int(found['number']) + 1})"


def _root(session: str, owners: Mapping[str, str]) -> str:
    seen = {session}
    while (owner := owners.get(session)) is not None and owner not in seen:
        session = owner
        seen.add(owner)
    return session


def _time(event: str, near: int) -> int:
    """Return the time of an event, in ms since the epoch. The event's id has its low bits; `near`, a time close to it,
    supplies the high bits."""
    try:
        low = int(event.partition("_")[2][:12], 16) >> 12
    except ValueError:
        return near
    time = near & ~((1 << TIME_BITS) - 1) | low
    return min((time + shift for shift in (-(1 << TIME_BITS), 0, 1 << TIME_BITS)), key=lambda at: abs(at - near))
