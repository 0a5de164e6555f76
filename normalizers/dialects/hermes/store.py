"""Reads the database of Hermes Agent, learned from Hermes 0.19: `sessions`, and `messages` with a row for each message.

A message is never changed, but a compaction marks those that it stands for. Row 0 is the session itself, without what
changes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

import orjson

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession

_SESSIONS = (
    "SELECT s.id, s.started_at, count(m.id), max(m.timestamp) FROM sessions s"
    " LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id"
)
_OWN = ("id", "source", "model", "cwd", "git_branch", "started_at")
_SESSION = f"SELECT {', '.join(_OWN)} FROM sessions WHERE id = ?"
_KEYS = (
    *("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "finish_reason"),
    *("reasoning", "reasoning_content", "observed"),
)
_MESSAGES = f"SELECT {', '.join(_KEYS)} FROM messages WHERE session_id = ? ORDER BY id LIMIT -1 OFFSET ?"


class HermesStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        for session, started, messages, latest in query(_SESSIONS):
            yield StoredSession(session, messages + 1, _ms(latest or started))

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None]:
        for row in self.rows(query, session, {}, 0):
            yield row.owner, row.number

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        first = taken.get(session, 0)
        own = next(iter(query(_SESSION, (session,))), None)
        if own is None:
            raise SessionGoneError
        if first == 0:
            yield Row(session, 0, _line(_OWN, own), _ms(own[-1]))
        for number, values in enumerate(query(_MESSAGES, (session, max(first - 1, 0))), max(first, 1)):
            yield Row(session, number, _line(_KEYS, values), _ms(values[_KEYS.index("timestamp")]))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _line(keys: tuple[str, ...], values: tuple[object, ...]) -> bytes:
    stated = dict(zip(keys, values, strict=True))
    return orjson.dumps({key: value for key, value in stated.items() if not isinstance(value, bytes)})
