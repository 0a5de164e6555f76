"""Reads Zed's database, written after its source (zed-industries/zed: `crates/agent/src/db.rs`): `threads`.

A thread is a JSON document that is stored whole after each message, compressed with Zstandard. Each state of it is a
line: what the columns state, and under `thread` the document. A subagent's thread names its parent, and is not read.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from io import BytesIO
from zlib import crc32

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession
from tooltap.normalizers.wire.values import milliseconds

MAX_BYTES = 2**28
"""Most bytes that a thread is decompressed to; of a longer one, as of any line that is too long, the beginning is
read."""
WINDOW_BYTES = 2**27
"""Most memory for what compressed data may refer back to."""
_COLUMNS = "SELECT name FROM pragma_table_info('threads')"
_PARENT = "parent_id"
_FACTS = ("id", "summary", "updated_at")
_NEWER = ("created_at", "folder_paths", "folder_paths_order")
"""Columns that the table of older versions lacks."""


class ZedStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        roots = f" WHERE {_PARENT} IS NULL" if _PARENT in _columns(query) else ""
        for session, updated, size in query(f"SELECT id, updated_at, length(data) FROM threads{roots}"):
            yield StoredSession(session, size, milliseconds(updated) or changed, is_appended=False)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        return None

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        columns = _columns(query)
        keys = (*_FACTS, *(name for name in _NEWER if name in columns))
        thread = f"SELECT data_type, data, {', '.join(keys)} FROM threads WHERE id = ?"
        found = next(iter(query(thread, (session,))), None)
        if found is None:
            raise SessionGoneError
        data_type, data, *facts = found
        stated = dict(zip(keys, facts, strict=True))
        text = _decompress(data) if data_type == "zstd" else _bytes(data)
        line = json.dumps(stated)[:-1].encode() + b', "thread": ' + text.replace(b"\n", b" ") + b"}"
        state = crc32(line)
        if taken.get(f"{session}/0") != state:
            yield Row(session, 0, line, milliseconds(stated["updated_at"]) or changed, state)


def _columns(query: Query) -> set[str]:
    return {name for (name,) in query(_COLUMNS)}


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode(errors="replace")


def _decompress(data: bytes | str) -> bytes:
    """Return what the data holds; `null` if they are not Zstandard's."""
    import zstandard  # costs a daemon that does not follow Zed more than all the rest of this module

    try:
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        return decompressor.stream_reader(BytesIO(_bytes(data)), read_across_frames=True).read(MAX_BYTES)
    except zstandard.ZstdError:
        return b"null"
