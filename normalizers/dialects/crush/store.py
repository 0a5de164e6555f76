"""Reads Crush's database, written after its source: `sessions` and `messages`.

A message is stored as soon as it begins, and changes until it is finished; it is read when it is, and those behind it
wait. One that a crash left unfinished is read when a prompt follows it. What is stated of a session is a line, too, in
each of its states. A subagent has a session of its own, which names its parent; it is not read.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from zlib import crc32

import orjson

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession
from tooltap.normalizers.wire.values import after_epoch

_SESSIONS = """
SELECT id, updated_at, (
    SELECT max(rowid) FROM messages
    WHERE session_id = sessions.id AND (role != 'assistant' OR finished_at IS NOT NULL)
) AS last
FROM sessions WHERE parent_session_id IS NULL AND last IS NOT NULL
"""
_FACTS = ("id", "title", "prompt_tokens", "completion_tokens", "cost", "created_at")
_SESSION = f"SELECT {', '.join(_FACTS)}, updated_at FROM sessions WHERE id = ?"
_FACTS_NUMBER = -1
_LAST_PROMPT = "SELECT coalesce(max(rowid), 0) FROM messages WHERE session_id = ? AND role = 'user'"
_COLUMNS = "SELECT name FROM pragma_table_info('messages')"
_KEYS = ("id", "session_id", "role", "model", "created_at", "finished_at")
_NEWER = ("provider", "is_summary_message")
"""Columns that the tables of older versions lack."""
_MESSAGES = "SELECT rowid, parts, {} FROM messages WHERE session_id = ? AND rowid >= ? ORDER BY rowid"


class CrushStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        for session, updated, last in query(_SESSIONS):
            yield StoredSession(session, last, after_epoch(updated) or changed, is_appended=False)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        found = next(iter(query(_SESSION, (session,))), None)
        if found is None:
            raise SessionGoneError
        *facts, updated = found
        time = after_epoch(updated) or changed
        line = orjson.dumps(dict(zip(_FACTS, facts, strict=True)))
        state = crc32(line)
        if taken.get(f"{session}/{_FACTS_NUMBER}") != state:
            yield Row(session, _FACTS_NUMBER, line, time, state)
        last_prompt = next(number for (number,) in query(_LAST_PROMPT, (session,)))
        columns = {name for (name,) in query(_COLUMNS)}
        keys = (*_KEYS, *(name for name in _NEWER if name in columns))
        messages = _MESSAGES.format(", ".join(keys))
        for number, parts, *values in query(messages, (session, taken.get(session, 0))):
            stated = dict(zip(keys, values, strict=True))
            if stated["role"] == "assistant" and stated["finished_at"] is None and number > last_prompt:
                return
            text = parts.decode(errors="replace") if isinstance(parts, bytes) else str(parts)
            line = f'{json.dumps(stated)[:-1]}, "parts": {text}}}'.replace("\n", " ").encode(errors="replace")
            yield Row(session, number, line, time)
