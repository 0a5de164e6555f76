"""Reads Goose's database, written after its source (1.51): `sessions` and `messages`.

A row of `messages` never changes, but all of a session are deleted and stored anew when Goose shortens the
conversation; they get greater ids then. What is stated of a session is a line, too, in each of its states.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from zlib import crc32

import orjson

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession
from tooltap.normalizers.wire.values import milliseconds

_SESSIONS = """
SELECT id, updated_at, (SELECT max(messages.id) FROM messages WHERE session_id = sessions.id) AS last
FROM sessions WHERE last IS NOT NULL
"""
_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_SESSION = "SELECT {}, updated_at FROM sessions WHERE id = ?"
_FACTS = (
    "id",
    "name",
    "description",
    "working_dir",
    "created_at",
    "accumulated_total_tokens",
    "accumulated_input_tokens",
    "accumulated_output_tokens",
)
_FACTS_NUMBER = -1
_MESSAGES = """
SELECT id, role, created_timestamp, content_json, {} FROM messages WHERE session_id = ? AND id >= ? ORDER BY id
"""
_METADATA = "metadata_json"
"""Column that the tables of older versions lack."""


class GooseStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        for session, updated, last in query(_SESSIONS):
            yield StoredSession(session, last, milliseconds(updated) or changed, is_appended=False)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        columns = {name for (name,) in query(_COLUMNS, ("sessions",))}
        stated = [name for name in _FACTS if name in columns]
        found = next(iter(query(_SESSION.format(", ".join(stated)), (session,))), None)
        if found is None:
            raise SessionGoneError
        *facts, updated = found
        time = milliseconds(updated) or changed
        line = orjson.dumps(dict(zip(stated, facts, strict=True)))
        state = crc32(line)
        if taken.get(f"{session}/{_FACTS_NUMBER}") != state:
            yield Row(session, _FACTS_NUMBER, line, time, state)
        has_metadata = any(name == _METADATA for (name,) in query(_COLUMNS, ("messages",)))
        messages = _MESSAGES.format(_METADATA if has_metadata else "NULL")
        for number, role, created, content, metadata in query(messages, (session, taken.get(session, 0))):
            head = json.dumps({"role": role, "created": created})
            text = f'{head[:-1]}, "content": {content}, "metadata": {metadata or "null"}}}'.replace("\n", " ")
            yield Row(session, number, text.encode(errors="replace"), time)
