"""Reads the databases of Amazon Q and of Kiro, written after their source. Each state of a conversation is a line.

Amazon Q has a table `conversations`, with a JSON document for each folder, which is stored as a whole after each
answer, and replaced when another conversation is begun in its folder. It is named after the checksum of its folder,
since a name has no slashes. Kiro has taken these over into `conversations_v2`, which has all conversations of a folder.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from zlib import crc32

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession
from tooltap.normalizers.wire.values import after_epoch

_SESSIONS = "SELECT key, length(value) FROM conversations"
_KEYS = "SELECT key FROM conversations"
_VALUE = "SELECT value FROM conversations WHERE key = ?"
_OF_KIRO = "SELECT conversation_id, length(value), updated_at FROM conversations_v2"
_ROW = "SELECT key, created_at, updated_at, value FROM conversations_v2 WHERE conversation_id = ? ORDER BY updated_at"
_HAS_ROWS = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'conversations_v2'"


class AmazonQStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        for folder, size in query(_SESSIONS):
            yield StoredSession(_name(folder), size, changed, is_appended=False)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        folder = next((key for (key,) in query(_KEYS) if _name(key) == session), None)
        if folder is None:
            raise SessionGoneError
        for (value,) in query(_VALUE, (folder,)):
            line = _text(value).encode(errors="replace")
            state = crc32(line)
            if taken.get(f"{session}/0") != state:
                yield Row(session, 0, line, changed, state)


class KiroStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        if next(count for (count,) in query(_HAS_ROWS)):
            for session, size, updated in query(_OF_KIRO):
                yield StoredSession(session, size, after_epoch(updated) or changed, is_appended=False)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        *_, row = (None, *query(_ROW, (session,)))
        if row is None:
            raise SessionGoneError
        folder, created, updated, value = row
        head = json.dumps({"key": folder, "created_at": created, "updated_at": updated})
        line = f'{head[:-1]}, "conversation": {_text(value)}}}'.encode(errors="replace")
        state = crc32(line)
        if taken.get(f"{session}/0") != state:
            yield Row(session, 0, line, after_epoch(updated) or changed, state)


def _text(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.replace("\n", " ")


def _name(folder: str) -> str:
    return f"{crc32(folder.encode()):08x}"
