"""Reading and writing the state of streams. A stream with damaged parts is resumed from the intact ones, or its parser
is reset.

The number of lines is stored three times: in the row of a stream, in its `info`, and as the lines of its snapshot and
tail. So a damaged row can be rewritten (`mend`). If none of them can be read, the line of the last event is taken as
the end; the publisher has to send the lines after it again.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from tooltap.daemon.journal.interface import FilePosition, StoredStream, StreamInfo
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt, read_transaction
from tooltap.daemon.journal.sqlite.tables import lines_of, row_sum, stream_sum, tail_sum
from tooltap.protocol.events import decode
from tooltap.protocol.inputs import Input
from tooltap.protocol.replies import StreamState
from tooltap.protocol.stats import Statistics

# Not `INSERT OR REPLACE`, which creates a new row and writes more pages.
_PUT_STREAM = """
INSERT INTO streams VALUES (?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (stream) DO UPDATE
SET state=excluded.state, lines=excluded.lines, updated=excluded.updated, expired=0, followed=excluded.followed,
 info=excluded.info, checksum=excluded.checksum
"""

# Created at import: two threads that decode a type for the first time at once crash msgspec 0.22.
_tail_decoder = msgspec.msgpack.Decoder(list[Input])
_info_decoder = msgspec.json.Decoder(StreamInfo)
_position_decoder = msgspec.json.Decoder(FilePosition)


class _Forgotten(msgspec.Struct):
    """Whether what the lines of a stream said was deleted, as its info has it."""

    forgotten: bool = False


_forgotten_decoder = msgspec.json.Decoder(_Forgotten)

T = TypeVar("T")

_STATES: tuple[StreamState, ...] = get_args(StreamState)
_COLUMNS = "streams.stream, state, lines, updated, info, expired, followed, streams.checksum"
_TYPES = (str, str, int, int, bytes, int, int, int)


def is_forgotten(info: bytes) -> bool:
    """Whether what the lines of a stream said was deleted since its last commit; False if its info is damaged."""
    try:
        return _forgotten_decoder.decode(info).forgotten
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


class LoadedStream(NamedTuple):
    """A stream as read by `load_stream`."""

    stored: StoredStream
    is_rebuilt: bool
    """True if the row is damaged and was reconstructed; `mend` rewrites it."""


def load_stream(connection: sqlite3.Connection, stream: str, damages: Damages) -> LoadedStream | None:
    with read_transaction(connection):
        return _load(connection, stream, damages)


def _load(connection: sqlite3.Connection, stream: str, damages: Damages) -> LoadedStream | None:
    sql = f"SELECT {_COLUMNS} FROM streams{{}} WHERE stream=?"
    rows = damages.rows(connection, "streams", sql, (stream,))
    if not rows:
        if not _is_known(connection, stream, damages):
            return None
        rows = damages.rows(connection, "streams", sql.format(" NOT INDEXED"), (stream,))
    info = _info(rows[0]) if rows else None
    sql = "SELECT data, lines, checksum FROM snapshots{} WHERE stream=?"
    snapshots, no_snapshots = damages.readable(connection, "snapshots", sql, (stream,))
    sql = "SELECT records, checksum FROM tail{} WHERE stream=? ORDER BY id"
    tail, no_tail = damages.readable(connection, "tail", sql, (stream,))
    data, reached = None, 0
    if snapshots:
        data, reached, checksum = snapshots[0]
        if checksum != row_sum("snapshots", stream, reached, data):
            damages.add("snapshots", stream)
            data, reached = None, -1
    records, reached = _tail(stream, tail, reached)
    # Retention deletes the state of a stream that has ended, and `sessions rm` does; of others it is always there.
    is_all = no_snapshots is None and no_tail is None
    was_deleted = info is not None and info.state == "ended" and not (snapshots or tail) and is_all
    if info is not None and (reached == info.lines or was_deleted):
        return LoadedStream(StoredStream(info, data, snapshots[0][1] if data is not None else 0, records), False)
    # Without its whole state a parser is not rebuilt: it is reset at the next line.
    if info is not None:
        damages.add("tail", stream)
        return LoadedStream(StoredStream(info, None, 0, []), False)
    damages.add("streams", stream)
    info = _rebuilt(connection, stream, rows[0] if rows else None, reached if snapshots or tail else -1, damages)
    return LoadedStream(StoredStream(info, None, 0, []), True)


def _tail(stream: str, rows: list[Any], lines: int) -> tuple[list[Input], int]:
    """Decode a tail that begins after `lines` lines. Returns its records, and the number of lines including them; -1 if
    a row is missing or damaged."""
    records: list[Input] = []
    for batch, checksum in rows:
        if lines < 0 or checksum != tail_sum(stream, lines, batch):
            return [], -1
        records += _tail_decoder.decode(batch)
        lines += lines_of(batch)
    return records, lines


def _info(row: tuple[Any, ...]) -> StreamInfo | None:
    """Decode a row of `streams`; None if it is damaged."""
    if (info := _decoded(row, _info_decoder)) is not None:
        info.state, info.updated, info.expired = row[1], row[3], bool(row[5])
    return info


def _decoded(row: tuple[Any, ...], decoder: msgspec.json.Decoder[T]) -> T | None:
    """Decode the `info` of a row; None if the row is damaged."""
    if tuple(map(type, row)) != _TYPES:
        return None
    stream, state, lines, updated, data, expired, followed, checksum = row
    if checksum != stream_sum(stream, state, lines, updated, followed, data, expired):
        return None
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, msgspec.MsgspecError):
        return None


def _is_known(connection: sqlite3.Connection, stream: str, damages: Damages) -> bool:
    """Whether other tables refer to the stream, so that it exists though its row was not found. Raises `sqlite3.Error`
    if they cannot be read: mistaking an existing stream for a new one, or the reverse, would produce wrong events."""
    return any(
        damages.has(connection, table, f"SELECT 1 FROM {table}{{}} WHERE stream=? LIMIT 1", (stream,))
        for table in ("sources", "snapshots", "tail")
    )


def _rebuilt(
    connection: sqlite3.Connection, stream: str, row: tuple[Any, ...] | None, reached: int, damages: Damages
) -> StreamInfo:
    """Reconstruct the info of a stream whose row is damaged. `reached`: the number of lines in its snapshot and tail,
    -1 if unknown."""
    sql = "SELECT body FROM events{} WHERE source IN (SELECT id FROM sources WHERE stream=?) ORDER BY seq DESC LIMIT 1"
    events = damages.rows(connection, "events", sql, (stream,))
    provider = session = None
    lines = 0
    if events:
        try:
            last = decode(events[0][0])
            provider, session = last.provider, last.session
            lines = int(last.id.rsplit(":", 2)[1])
        except (TypeError, ValueError, IndexError, msgspec.MsgspecError):  # damaged too
            pass
    if reached >= 0:
        lines = reached
    elif row is not None and (agreed := _agreed_lines(row)) is not None:
        lines = agreed
    state: StreamState = row[1] if row is not None and row[1] in _STATES else "suspended"
    return StreamInfo(
        stream=stream,
        provider=provider,
        session=session,
        last_session=session,
        state=state,
        lines=lines,
        updated=row[3] if row is not None and isinstance(row[3], int) else 0,
        statistics=Statistics(stream=stream, dialect="auto", provider=provider or "", lines=lines),
    )


def _agreed_lines(row: tuple[Any, ...]) -> int | None:
    """The number of lines if the column of the row and its `info` agree on it, else None."""
    try:
        info = _info_decoder.decode(row[4])
    except (TypeError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    return info.lines if info.lines == row[2] and info.stream == row[0] else None


def put_stream(connection: sqlite3.Connection, info: StreamInfo) -> None:
    """Write the row of a stream."""
    row = (info.stream, info.state, info.lines, info.updated, int(info.followed), msgspec.json.encode(info))
    connection.execute(_PUT_STREAM, (*row, stream_sum(*row)))


def streams(
    connection: sqlite3.Connection, state: StreamState | None, limit: int | None, damages: Damages
) -> list[StreamInfo]:
    rows = damages.rows(
        connection,
        "streams",
        f"SELECT {_COLUMNS} FROM streams{{}} {'' if state is None else 'WHERE state=?1'}"
        " ORDER BY updated DESC LIMIT ?2",
        (state, -1 if limit is None else limit),
    )
    return _infos(connection, rows, damages)


def abandoned(connection: sqlite3.Connection, before: int, damages: Damages) -> list[str]:
    """See `Journal.abandoned`. Other rows are not decoded: after a big home was read, there are very many."""
    rows = damages.rows(
        connection,
        "streams",
        f"SELECT {_COLUMNS} FROM streams{{}} WHERE state IN ('suspended', 'open') AND updated<=? ORDER BY updated",
        (before,),
    )
    return [info.stream for info in _infos(connection, rows, damages)]


def file_positions(connection: sqlite3.Connection, damages: Damages) -> list[FilePosition]:
    """See `Journal.file_positions`. Sorting here is faster than reading rows by an index."""
    rows = damages.rows(connection, "streams", f"SELECT {_COLUMNS} FROM streams{{}}", ())
    found = []
    for row in rows:
        if (position := _decoded(row, _position_decoder)) is not None:
            position.updated = row[3]
            found.append(position)
        else:  # it is damaged
            infos = _infos(connection, [row], damages)
            found += [msgspec.convert(info, FilePosition, from_attributes=True) for info in infos]
    return sorted(found, key=lambda one: one.updated, reverse=True)


def streams_of(connection: sqlite3.Connection, session: str, damages: Damages) -> list[StreamInfo]:
    sql = f"SELECT {_COLUMNS} FROM session_streams{{}} JOIN streams USING (stream) WHERE session=?"
    return _infos(connection, damages.rows(connection, "session_streams", sql, (session,)), damages)


def _infos(connection: sqlite3.Connection, rows: list[Any], damages: Damages) -> list[StreamInfo]:
    found = []
    for row in rows:
        info = _info(row)
        if info is None:
            damages.add("streams", row[0])
            info = _known(connection, row[0], damages)
        if info is not None:
            found.append(info)
    return found


def _known(connection: sqlite3.Connection, name: object, damages: Damages) -> StreamInfo | None:
    """Reconstruct the info of a stream whose row is damaged, as `load_stream` does. None if its name is damaged too, or
    no other part of it can be read."""
    try:
        if not isinstance(name, str) or not _is_known(connection, name, damages):
            return None
        loaded = _load(connection, name, damages)
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise
        return None
    return None if loaded is None else loaded.stored.info


def count_streams(
    connection: sqlite3.Connection, states: tuple[StreamState, ...], followed: bool | None, damages: Damages
) -> int:
    wanted = f"state IN ({','.join('?' * len(states))})"
    if followed is not None:
        wanted += f" AND followed={followed:d}"
    rows = damages.rows(connection, "streams", f"SELECT count(*) FROM streams{{}} WHERE {wanted}", states)
    return int(rows[0][0]) if rows else 0
