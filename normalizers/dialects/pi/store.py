"""Reads the databases of OpenClaw, written after its source (openclaw/openclaw: `src/state/openclaw-agent-schema.sql`,
`src/config/sessions/session-accessor.sqlite-read.ts`): `transcript_events`.

Each agent of OpenClaw's has a database. A row is an entry of a session, and its text is the line that earlier versions
wrote to a file, so the rows of a session that OpenClaw has taken over from a file continue the stream of that file.
Since 2026.9.6 a long text is compressed with Zstandard. OpenClaw moves entries of old sessions to archives, which are
not read; a session that is repaired is written anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from io import BytesIO

from tooltap.normalizers.catalog.dialect import Query, Row, SessionGoneError, StoredSession

MAX_BYTES = 2**26
"""Most bytes that an entry is decompressed to; of a longer one, the beginning is read."""
WINDOW_BYTES = 2**27
"""Most memory for what compressed data may refer back to."""
_SESSIONS = "SELECT session_id, count(*), max(created_at) FROM transcript_events GROUP BY session_id"
_COLUMNS = "SELECT name FROM pragma_table_info('transcript_events')"
_COMPRESSED = "event_zstd"


class OpenClawStore:
    """Implements `DatabaseReader`."""

    def sessions(self, query: Query, changed: int) -> Iterator[StoredSession]:
        for session, rows, latest in query(_SESSIONS):
            yield StoredSession(session, rows, latest)

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None]:
        for row in self.rows(query, session, {}, 0):
            yield row.owner, row.number

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        first = taken.get(session, 0)
        has_compressed = _COMPRESSED in {name for (name,) in query(_COLUMNS)}
        entries = (
            f"SELECT event_json, {_COMPRESSED if has_compressed else 'NULL'}, created_at FROM transcript_events"
            " WHERE session_id = ? ORDER BY seq LIMIT -1 OFFSET ?"
        )
        if not next(iter(query("SELECT count(*) FROM transcript_events WHERE session_id = ?", (session,))))[0]:
            raise SessionGoneError
        for number, (text, data, created) in enumerate(query(entries, (session, first)), first):
            line = text.encode(errors="replace") if isinstance(text, str) else _decompress(data)
            yield Row(session, number, line.replace(b"\n", b" "), created)


def _decompress(data: bytes | None) -> bytes:
    """Return what the data holds; nothing that is an entry if they are not Zstandard's."""
    import zstandard  # costs a daemon that does not follow OpenClaw more than all the rest of this module

    try:
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        return decompressor.stream_reader(BytesIO(data or b""), read_across_frames=True).read(MAX_BYTES)
    except zstandard.ZstdError:
        return b"null"
