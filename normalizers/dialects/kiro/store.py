"""Reads Amazon Q's database, written after its source: `conversations`, with a JSON document for each
folder.

A conversation is stored as a whole after each answer, and replaced when another is begun in its folder. Each state of
it is a line. It is named after the checksum of its folder, since a name has no slashes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from zlib import crc32

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession

_SESSIONS = "SELECT key, length(value) FROM conversations"
_KEYS = "SELECT key FROM conversations"
_VALUE = "SELECT value FROM conversations WHERE key = ?"


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
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            line = text.replace("\n", " ").encode(errors="replace")
            state = crc32(line)
            if taken.get(f"{session}/0") != state:
                yield Row(session, 0, line, changed, state)


def _name(folder: str) -> str:
    return f"{crc32(folder.encode()):08x}"
