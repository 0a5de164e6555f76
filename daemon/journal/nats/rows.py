"""One stream's row: what is derived from its events, and up to which message; small, and rewritten as the stream grows.

A row is a hint: it is written some time after a commit, and may lack the last commits. Whoever needs certainty brings
it up to date from the stream's messages (`load.py`). It outlives the messages: of an ended stream it is all that
retention leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tooltap.daemon.journal.interface import StoredEvent, StreamInfo
from tooltap.daemon.sessions.projection import CallRow, Projection
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.events import Event, decode
from tooltap.protocol.filters import Filter, meta_of

_log = get_logger("journal")


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    info: StreamInfo
    message: int = 0
    """Sequence of the last message that it includes."""
    since: int = 0
    """As in `CommitPart`, but never 0 once there was a message."""
    owner: str = ""
    """The daemon that committed last."""
    expired: bool = False
    """Retention has deleted the events."""
    purge: int = 0
    """Retention is about to delete the messages before this one. The sessions are in the row until that is done."""
    sessions: dict[str, SessionRow] = {}
    calls: dict[str, CallRow] = {}


_decoder = msgspec.msgpack.Decoder(Row)


def decode_row(data: bytes) -> Row:
    return _decoder.decode(data)


def encode_row(row: Row, max_bytes: int) -> bytes:
    """Encode the row in at most `max_bytes`, without the oldest open calls and sessions if there are too many."""
    data = msgspec.msgpack.encode(row)
    while len(data) > max_bytes and (row.calls or row.sessions):
        sessions = sorted(row.sessions.items(), key=lambda item: item[1].last_seq)
        row = msgspec.structs.replace(
            row,
            calls=dict(list(row.calls.items())[(len(row.calls) + 1) // 2 :]),
            sessions=dict(sessions[(len(sessions) + 1) // 2 :]),
        )
        data = msgspec.msgpack.encode(row)
    return data


def read_event(stored: StoredEvent) -> Event | None:
    """The event; None, and a log entry, if this version cannot read it."""
    try:
        return decode(stored.body)
    except msgspec.MsgspecError as error:
        _log.error("cannot read an event", seq=stored.seq, error=str(error))
        return None


def matches(wanted: Filter, stored: StoredEvent) -> bool:
    if wanted.matches_all:
        return True
    event = read_event(stored)
    return event is not None and wanted.matches(meta_of(event))


class RowProjection(Projection):
    """Stores the derived rows in a `Row`."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        return self.row.calls

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        if row is None:
            del self.row.calls[key]
        else:
            self.row.calls[key] = row

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        return self.row.sessions.setdefault(name, new)

    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        return self.row.sessions.pop(alias, None)
