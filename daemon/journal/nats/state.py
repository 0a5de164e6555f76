"""The second JetStream stream of a journal: state shared by its daemons (rows of streams, heartbeats, leases, notes).

Each stream of the journal has a row: a projection of its events (sessions, open calls), and the message up to which it
goes. Rows are small, and written asynchronously, at most once a second, so that a commit costs only one message. So a
row may lack the last commits; where that matters, it is brought up to date from the stream's messages (`rebuild.py`).
It outlives the messages: retention leaves only the row of an ended stream.

Each daemon writes a heartbeat that expires on the server. For work that only one daemon should do, it takes a lease: a
key that expires, too. The JetStream stream retains one value per key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import JournalError, StoredEvent, StreamInfo
from tooltap.daemon.journal.nats.connection import AwayError, Connection, FencedError
from tooltap.daemon.journal.nats.message import token
from tooltap.daemon.sessions.files import SessionChanges
from tooltap.daemon.sessions.projection import CALL, FROM_HOOK, PERMISSION, CallRow, Projection
from tooltap.daemon.sessions.row import Pending, SessionRow
from tooltap.daemon.sessions.usage import Spending
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.events import Event, decode
from tooltap.protocol.filters import Filter, meta_of
from tooltap.protocol.replies import StreamState

WRITE_PERIOD = 1.0
HEARTBEAT_PERIOD = 60
DEAD_AFTER = 180
"""Seconds after its last heartbeat after which a daemon counts as dead."""
READ_BYTES = 1_048_576
MOST_ROW_BYTES = 1_048_576
MOST_FORKS = 1_000

_log = get_logger("journal")


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The derived state of one stream."""

    info: StreamInfo
    message: int = 0
    """Sequence of the last message that the row includes."""
    since: int = 0
    """Sequence of the message from which the stream's parser can be rebuilt; 0 before the first message."""
    owner: str = ""
    """The daemon that committed last."""
    expired: bool = False
    """True if retention has deleted the events."""
    purge: int = 0
    """Retention is deleting the messages before this sequence; 0: it is not. The row keeps its sessions until then."""
    sessions: dict[str, SessionRow] = {}
    calls: dict[str, CallRow] = {}
    forks: dict[str, str] = {}
    """Session in other streams -> the session of this stream that it has copied, and is a fork of; the latest ones."""


_decoder = msgspec.msgpack.Decoder(Row)


def decode_row(data: bytes) -> Row:
    return _decoder.decode(data)


def encode_row(row: Row, max_bytes: int) -> bytes:
    """Encode the row in at most `max_bytes`, dropping the oldest open calls, sessions and forks if
    necessary."""
    data = msgspec.msgpack.encode(row)
    while len(data) > max_bytes and (row.calls or row.sessions):
        sessions = sorted(row.sessions.items(), key=lambda item: item[1].last_seq)
        row = msgspec.structs.replace(
            row,
            calls=dict(list(row.calls.items())[(len(row.calls) + 1) // 2 :]),
            sessions=dict(sessions[(len(sessions) + 1) // 2 :]),
            forks=dict(list(row.forks.items())[(len(row.forks) + 1) // 2 :]),
        )
        data = msgspec.msgpack.encode(row)
    return data


def read_event(stored: StoredEvent) -> Event | None:
    """Decode an event. Returns None and logs an error if this version cannot decode it."""
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
    """Projection of sessions and open calls that is stored in a `Row`."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def _calls(self, stream: str) -> Mapping[str, CallRow]:
        return self.row.calls

    def _put_call(self, stream: str, key: str, row: CallRow | None) -> None:
        if row is None:
            del self.row.calls[key]
        else:
            self.row.calls[key] = row

    def _known(self, name: str) -> SessionRow | None:
        return self.row.sessions.get(name)

    def _change(self, name: str, row: SessionRow) -> SessionRow:
        return row

    def _note_fork(self, fork: str, parent: str) -> None:
        self.row.forks = dict([*self.row.forks.items(), (fork, parent)][-MOST_FORKS:])

    def _session(self, name: str, stream: str, new: SessionRow) -> SessionRow:
        return self.row.sessions.setdefault(name, new)

    def _rename(self, alias: str, stream: str) -> SessionRow | None:
        return self.row.sessions.pop(alias, None)


class StoredRow(NamedTuple):
    row: Row
    entry: int
    """Sequence of the row's own message in the second stream."""


class OwnRow:
    """The row of a stream that this daemon has loaded or commits to."""

    def __init__(self, row: Row, entry: int = 0) -> None:
        self.projection = RowProjection(row)
        self.entry = entry
        """Sequence of the row's own message in the second stream; 0 for a new row."""
        self.is_lost = False
        """True if another daemon has written the row since, or it was deleted."""

    @property
    def row(self) -> Row:
        return self.projection.row


class State:
    """The second JetStream stream. Calls raise `AwayError` and `JournalError`."""

    def __init__(self, connection: Connection, daemon: str) -> None:
        name = connection.place.name
        self.stream = f"{name}-state"
        self.subjects = [f"{name}.{kind}.>" for kind in ("row", "daemon", "meta")]
        self._connection = connection
        self._name = name
        self._daemon = daemon
        self._rows: dict[str, bytes] = {}
        """Subject -> encoded row, for the rows read so far."""
        self._read = 0
        self._changed: dict[str, OwnRow] = {}
        self._being_written: OwnRow | None = None
        self._writing = asyncio.Lock()

    # -- rows ---------------------------------------------------------------------------------------------------

    async def get(self, stream: str) -> StoredRow | None:
        found = await self._connection.last(self.stream, self._subject(stream))
        return None if found is None else StoredRow(decode_row(found.data), found.seq)

    def change(self, own: OwnRow) -> None:
        """Mark the row as changed: it is written within `WRITE_PERIOD`."""
        self._changed[own.row.info.stream] = own

    def drop(self, stream: str) -> None:
        """Unmark a changed row, which may be out of date: it is not written."""
        self._changed.pop(stream, None)

    async def write(self) -> None:
        """Write the changed rows. Raises `AwayError`, `JournalError`."""
        async with self._writing:
            while changed := self._changed:
                stream, own = changed.popitem()
                self._being_written = own
                try:
                    await self.put(own)
                except BaseException:  # it may be that whoever asked for the rows has gone
                    changed.setdefault(stream, own)
                    raise
                finally:
                    self._being_written = None

    def unwritten(self) -> list[Row]:
        """The changed rows that may not be stored yet."""
        being_written = [] if self._being_written is None else [self._being_written]
        return [own.row for own in (*self._changed.values(), *being_written)]

    async def put(self, own: OwnRow) -> bool:
        """Write a row now; False if another daemon has written it since."""
        subject = self._subject(own.row.info.stream)
        while True:
            data = encode_row(own.row, self._connection.max_payload - 1_024)
            try:
                own.entry = await self._connection.publish(subject, [data], expected=own.entry)
            except FencedError:
                found = await self._connection.last(self.stream, subject)
                if found is not None and found.data == data:
                    own.entry = found.seq  # it was stored, and the answer was lost
                elif found is not None and _is_behind(decode_row(found.data), own.row):
                    own.entry = found.seq
                    continue
                else:
                    own.is_lost = True
                    return False
            self._rows[subject] = data
            return True

    def reread(self, *, drop_changes: bool) -> None:
        """Clear the cache of rows. `drop_changes`: also discard changed rows, because they are of another journal."""
        self._rows = {}
        self._read = 0
        if drop_changes:
            self._changed = {}

    @property
    def read_up_to(self) -> int:
        """Sequence of the last row that was read."""
        return self._read

    def known_rows(self) -> list[Row]:
        """The cached rows and the changed rows of this daemon, without asking the server."""
        rows = {**self._rows}
        for own in self._changed.values():
            rows[self._subject(own.row.info.stream)] = encode_row(own.row, MOST_ROW_BYTES)
        return _decode(list(rows.values()), {self._daemon})

    async def forget(self, stream: str) -> None:
        subject = self._subject(stream)
        await self._connection.api(f"STREAM.PURGE.{self.stream}", filter=subject)
        self._rows.pop(subject, None)

    async def rows(self) -> list[Row]:
        """All rows, newest commit first. Those of other daemons may be a second old. An open stream whose daemon is
        gone is returned as suspended."""
        await self.write()
        while True:
            rows = self._rows
            found = await self._connection.read(self.stream, self._read + 1, f"{self._name}.row.>", READ_BYTES)
            if rows is not self._rows:
                continue  # they were dropped meanwhile
            if not found:
                break
            rows |= {message.subject: message.data for message in found}
            self._read = found[-1].seq
        alive = await self.alive()
        return await asyncio.to_thread(_decode, list(self._rows.values()), alive)

    async def rows_after(self, entry: int) -> list[Row]:
        """The rows that were written after the one at `entry`, all that are stored at the moment of the call."""
        rows = f"{self._name}.row.>"
        found: list[Row] = []
        newest = await self._connection.last(self.stream, rows)
        while newest is not None and newest.seq > entry:
            read = await self._connection.read(self.stream, entry + 1, rows, READ_BYTES)
            if not read:
                raise AwayError("a server lags behind its cluster")
            found += [decode_row(message.data) for message in read]
            entry = read[-1].seq
        return found

    def _subject(self, stream: str) -> str:
        return f"{self._name}.row.{token(stream)}"

    # -- the daemons --------------------------------------------------------------------------------------------

    async def send_heartbeat(self) -> None:
        await self._connection.publish(f"{self._name}.daemon.{self._daemon}", [b""], seconds=DEAD_AFTER)

    async def withdraw(self) -> None:
        """Delete this daemon's heartbeat at shutdown, so that others can take over its streams at once."""
        await self._connection.api(f"STREAM.PURGE.{self.stream}", filter=f"{self._name}.daemon.{self._daemon}")

    async def alive(self) -> set[str]:
        alive = {self._daemon}
        first = 1
        while found := await self._connection.read(self.stream, first, f"{self._name}.daemon.>", READ_BYTES):
            alive |= {message.subject.rpartition(".")[2] for message in found}
            first = found[-1].seq + 1
        return alive

    async def take_lease(self, work: str, seconds: int) -> bool:
        """Try to take the lease on some work; returns whether this daemon holds it. It expires after `seconds`."""
        subject = f"{self._name}.meta.{work}"
        me = self._daemon.encode()
        try:
            await self._connection.publish(subject, [me], expected=0, seconds=seconds)
        except FencedError:
            found = await self._connection.last(self.stream, subject)
            return found is not None and found.data == me
        return True

    async def return_lease(self, work: str) -> None:
        await self._connection.api(f"STREAM.PURGE.{self.stream}", filter=f"{self._name}.meta.{work}")

    async def note(self, name: str) -> bytes | None:
        found = await self._connection.last(self.stream, f"{self._name}.meta.note.{token(name)}")
        return None if found is None else found.data

    async def put_note(self, name: str, data: bytes) -> None:
        await self._connection.publish(f"{self._name}.meta.note.{token(name)}", [data])

    def request(self, key: int) -> str:
        """The subject of a request's claim (`requests.py`)."""
        return f"{self._name}.meta.request.{key & (2**64 - 1):016x}"

    async def expired(self) -> int:
        """The highest `seq` that retention has deleted."""
        found = await self._connection.last(self.stream, f"{self._name}.meta.expired")
        return 0 if found is None else int(found.data)

    async def raise_expired(self, seq: int) -> None:
        """Raise `expired`. Called before the events are deleted, so that no reader misses a gap."""
        subject = f"{self._name}.meta.expired"
        while True:
            found = await self._connection.last(self.stream, subject)
            if found is not None and int(found.data) >= seq:
                return
            try:
                await self._connection.publish(subject, [str(seq).encode()], expected=found.seq if found else 0)
            except FencedError:
                continue
            return

    async def run(self) -> None:
        """Write rows and heartbeats until cancelled."""
        next_heartbeat = 0.0
        reported = ""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(WRITE_PERIOD)
            try:
                await self.write()
                if clock() >= next_heartbeat:
                    await self.send_heartbeat()
                    next_heartbeat = clock() + HEARTBEAT_PERIOD
                reported = ""
            except AwayError:
                continue
            except JournalError as error:
                if str(error) != reported:
                    reported = str(error)
                    _log.warning("cannot write the journal's state", error=reported)


def _is_behind(stored: Row, row: Row) -> bool:
    """Whether a stored row can be overwritten, because it has nothing that `row` lacks: the answer to an earlier write
    was lost, or the row was loaded while it was being written."""
    return stored.message <= row.message and not stored.expired


def _decode(rows: list[bytes], alive: set[str]) -> list[Row]:
    decoded = [decode_row(data) for data in rows]
    for row in decoded:
        row.info.expired = row.expired
        if row.info.state == "open" and row.owner not in alive:
            row.info.state = "suspended"
    decoded.sort(key=lambda row: row.info.updated, reverse=True)
    return decoded


def sessions_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """All sessions, in no particular order. Modifies the sessions of `rows`."""
    rows = list(rows)
    pending: dict[str, Pending] = {}
    for call in (call for row in rows for call in row.calls.values() if call.kind == PERMISSION):
        if pending.get(call.session) != "dialog":
            pending[call.session] = "dialog" if FROM_HOOK in call.data else "request"
    return [session.describe(name, states, pending=pending.get(name, "")) for name, session, states in _whole(rows)]


def spending_of(rows: Iterable[Row]) -> Iterator[Spending]:
    """Usage and cost of every session. Modifies the sessions of `rows`."""
    for name, session, _ in _whole(rows):
        yield session.spending(name)


def changes_of(rows: Iterable[Row]) -> Iterator[SessionChanges]:
    """The changed files of every session. Modifies the sessions of `rows`."""
    for name, session, _ in _whole(rows):
        yield session.changed_files(name)


def _whole(rows: Iterable[Row]) -> Iterator[tuple[str, SessionRow, dict[str, StreamState]]]:
    """Merge the parts of each session from its streams: name, row, and the states of its streams."""
    parts: dict[str, list[tuple[SessionRow, StreamInfo]]] = {}
    forks: dict[str, str] = {}
    for row in rows:
        if not row.expired:
            forks |= row.forks
        for name, session in row.sessions.items() if not row.expired else ():
            parts.setdefault(name, []).append((session, row.info))
    for name, found in parts.items():
        # A file that is read beside a tap says nothing of what the agent does now.
        found.sort(key=lambda part: (part[0].worked_seq, part[0].last_seq))
        whole = found[0][0]
        for later, _ in found[1:]:
            later.absorb(whole)
            whole = later
        if (parent := forks.get(name)) is not None and whole.is_fork_of(parent):
            whole.forked_from = parent
        yield name, whole, {info.stream: info.state for _, info in found}


def open_calls_of(rows: Iterable[Row], session: str | None, stream: str | None) -> dict[str, list[dict[str, Any]]]:
    """Implements `Journal.open_calls`."""
    calls = [
        (call, row.info.stream)
        for row in rows
        for call in row.calls.values()
        if stream in (None, row.info.stream) and session in (None, call.session)
    ]
    calls.sort(key=lambda one: one[0].seq)
    found: dict[str, list[dict[str, Any]]] = {CALL: [], PERMISSION: []}
    for call, of_stream in calls:
        found[call.kind].append({"stream": of_stream, "session": call.session, "seq": call.seq, **call.data})
    return {"calls": found[CALL], "permissions": found[PERMISSION]}
