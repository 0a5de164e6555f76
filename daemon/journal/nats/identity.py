"""Detecting that the journal on the server was replaced by another one of the same name, and giving that a new id.

A store can be wiped, truncated, restored from a backup, or purged by hand, while a daemon runs or between two runs.
`seq` numbers are then reused for other events, so the journal gets a new id, and every cursor and position of the old
one is invalid. A replacement is detected in these ways:

- Both JetStream streams of a journal have its id in their metadata. A missing stream is created again, with a new id.
  If the second stream (`state.py`) has another id than the first, its rows belong to an earlier journal, and are
  deleted.
- A daemon remembers the newest message that it has seen (`Anchor`): its sequence, and the unique id of its commit. A
  journal that ends before it, or has another commit at this sequence, was replaced. The anchor is also written to a
  file on the daemon's host (`Memory`), to detect after a restart that the store was restored from a backup.
- Everything that tooltap deletes is at or below the last expired `seq`, which is raised first. If the first message is
  beyond it, and the stream has no limit that deletes old messages, somebody else has purged it.

The daemon that notices first assigns the new id, under a lease, so that only one does; the others see the new id. A
server cut off by a network partition may believe for some seconds that it still leads its cluster, and report an
earlier end of the journal. So if the journal is replicated, a message is stored first (`_confirm`), which requires a
majority.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import Commit, JournalError, StreamInfo
from tooltap.daemon.journal.nats.connection import AwayError, Connection, GoneError, RefusedError
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, commit_of, encode_commit, encode_part
from tooltap.daemon.journal.nats.state import State, decode_row, encode_row
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.own_file import open_own, private_folder

FORMAT = 1
"""Format version of messages and rows. A journal of another version is refused."""
ID_KEY, FORMAT_KEY = "tooltap-journal", "tooltap-format"
NEXT_KEY, KEEP_KEY = "tooltap-next", "tooltap-keep"
READ_BYTES = 1_048_576
ROW_TOKEN = ".row."

LEASE = 10
"""Seconds of the lease under which one daemon assigns a new id."""
CHECK_STREAM = "journal check"
"""Stream of the message that `_confirm` stores; no publisher's stream can have this name."""
PURGED = "its oldest events were deleted by somebody else"
LIMITS = ("max_bytes", "max_msgs", "max_age", "max_msgs_per_subject")
JOURNALS = 32
"""Most anchor files in the folder; beyond this, the oldest are deleted."""

_decoder = msgspec.json.Decoder(tuple[int, str])
_log = get_logger("journal")

Keep: TypeAlias = Literal["all", "expired"]
"""Rows that survive a change of the id: `all`, or only those whose events retention has deleted."""


class Anchor(NamedTuple):
    """The newest message that a daemon has seen."""

    seq: int
    """Sequence of the message."""
    commit: str
    """Id of its commit."""


class Identity:
    """The id of the journal on the server, checked and repaired by `check`."""

    def __init__(self, connection: Connection, messages: Messages, state: State, memory: Memory, daemon: str) -> None:
        self.id = ""
        self.rows_are_lost = False
        """True if the rows must be rebuilt from the messages."""
        self.rows_are_stale = False
        """True if the rows read so far are no longer valid."""
        self._connection = connection
        self._messages = messages
        self._state = state
        self._memory = memory
        self._daemon = daemon
        self._anchor: Anchor | None = None
        self._first = 0
        """Sequence of the first message at the last check."""

    def learn(self, seq: int, commit: str) -> None:
        """Advance the anchor to a message, if that is newer."""
        if self._anchor is None or seq > self._anchor.seq:
            self._anchor = Anchor(seq, commit)

    async def check(self) -> None:
        """Find out which journal the server has, create missing streams, and set `id`. Raises `AwayError`,
        `JournalError`."""
        anchor = self._anchor  # what is learned from here on may be newer than the answer
        found = await self._set_up()
        known = self.id or found.id
        if not self.id and (remembered := self._memory.read(found.id)) is not None:
            anchor = self._anchor = Anchor(*remembered)
        if found.id == known and (what := await self._differs(found, anchor)):
            found = await self._rename(found, what)
        if found.id != known:
            self._anchor = None
        self.rows_are_stale |= found.id != self.id or found.last_row < self._state.read_up_to
        self.id, self._first = found.id, found.first
        is_newer = self._anchor is None or found.last > self._anchor.seq
        last = (
            await self._connection.last(self._messages.stream, self._messages.everything)
            if found.last and is_newer
            else None
        )
        if last is not None:
            self.learn(last.seq, commit_of(last.data))
        await self.remember()

    async def remember(self) -> None:
        """Write the anchor to its file, for the next run of the daemon."""
        if self._anchor is not None:
            await asyncio.to_thread(self._memory.write, self.id, *self._anchor)

    async def _set_up(self) -> ServerJournal:
        messages, state = self._messages, self._state
        found = await set_up(self._connection, (messages.stream, messages.everything), (state.stream, state.subjects))
        self.rows_are_lost |= found.rows_are_lost
        return found

    async def _differs(self, found: ServerJournal, anchor: Anchor | None) -> str:
        """The reason why the journal found is not the known one, although it has the same id; empty if it is the
        same."""
        if anchor is not None and found.last < anchor.seq:
            return await self._confirm(found, anchor)
        if anchor is not None and found.last > anchor.seq:
            message = await self._connection.next(self._messages.stream, anchor.seq, self._messages.everything)
            if message is not None and message.seq == anchor.seq and commit_of(message.data) != anchor.commit:
                return "its events are different from before"
        if found.first > max(self._first, 1):
            if any(found.config.get(limit, -1) > 0 for limit in LIMITS):
                await self._state.raise_expired(found.first * EVENTS_A_MESSAGE - 1)
            elif (found.first - 1) * EVENTS_A_MESSAGE > await self._state.expired():
                return PURGED
        return ""

    async def _confirm(self, found: ServerJournal, anchor: Anchor) -> str:
        if found.config.get("num_replicas", 1) > 1:
            commit_id = f"{self._daemon}/check-{secrets.token_hex(4)}"
            info = StreamInfo(
                stream=CHECK_STREAM, state="ended", statistics=Statistics(stream=CHECK_STREAM, dialect="", provider="")
            )
            (part,) = encode_commit(Commit(info, 0, (), ()), commit_id, 0, self._connection.max_payload)
            if await self._connection.publish(self._messages.subject(CHECK_STREAM), [encode_part(part)]) > anchor.seq:
                return ""
        return "it ends earlier than it did"

    async def _rename(self, found: ServerJournal, what: str) -> ServerJournal:
        """Give the journal a new id."""
        if not await self._state.take_lease("renaming", LEASE):
            raise AwayError("another daemon is finding out what happened to the journal")
        keep: Keep = "all" if what == PURGED else "expired"
        if keep == "all":
            await self._state.raise_expired(found.first * EVENTS_A_MESSAGE - 1)
        _log.warning("the journal was replaced, and gets a new id", journal=str(self._connection.place), why=what)
        await rename(self._connection, self._messages.stream, self._state.stream, secrets.token_hex(8), keep)
        found = await self._set_up()
        await self._state.return_lease("renaming")
        return found


class ServerJournal(NamedTuple):
    """The journal that a server has under a name."""

    id: str
    first: int
    last: int
    """Sequences of the journal's first and last message."""
    config: dict[str, Any]
    rows_are_lost: bool
    """True if the rows must be rebuilt from the messages."""
    last_row: int
    """Sequence of the last message of the second stream."""


async def set_up(connection: Connection, events: tuple[str, str], state: tuple[str, list[str]]) -> ServerJournal:
    """Create or check both JetStream streams of the journal. `events`, `state`: name and subjects of each. Raises
    `AwayError`, `JournalError`."""
    options = connection.place.options
    wishes = {"num_replicas": options.replicas, "max_bytes": options.max_bytes}
    name, subject = events
    info, _ = await _create(
        connection,
        {
            "name": name,
            "subjects": [subject],
            "storage": "file",
            "allow_direct": True,
            "allow_atomic": True,
            "metadata": {ID_KEY: secrets.token_hex(8), FORMAT_KEY: str(FORMAT)},
            **_given(wishes),
        },
    )
    metadata = info["config"].get("metadata") or {}
    if ID_KEY not in metadata:
        raise JournalError(f"the stream {name} of {connection.place} exists, but is not a tooltap journal")
    if metadata.get(FORMAT_KEY) != str(FORMAT):
        raise JournalError(
            f"the journal {connection.place} has format {metadata.get(FORMAT_KEY)}, written by another version of"
            f" tooltap; this one knows only {FORMAT}"
        )
    journal_id = str(metadata[ID_KEY])
    await _change(connection, info["config"], wishes)
    known = info["state"]
    are_lost, last_row = await _set_up_state(connection, *state, journal_id)
    return ServerJournal(
        journal_id,
        known["first_seq"],
        known["last_seq"],
        info["config"],
        are_lost and bool(known["messages"]),
        last_row,
    )


async def rename(connection: Connection, events: str, state: str, journal_id: str, keep: Keep) -> None:
    """Give the journal another id. Raises `AwayError`, `JournalError`."""
    await _set_metadata(connection, state, {NEXT_KEY: journal_id, KEEP_KEY: keep})
    await _set_metadata(connection, events, {ID_KEY: journal_id})


async def _set_up_state(connection: Connection, name: str, subjects: list[str], journal_id: str) -> tuple[bool, int]:
    """Create or check the second stream. Returns whether the rows were lost (the stream was missing, or had the rows of
    another journal), and the sequence of its last message."""
    wishes = {"num_replicas": connection.place.options.replicas}
    info, is_new = await _create(
        connection,
        {
            "name": name,
            "subjects": subjects,
            "storage": "file",
            "allow_direct": True,
            "allow_msg_ttl": True,
            "max_msgs_per_subject": 1,
            "metadata": {ID_KEY: journal_id},
            **_given(wishes),
        },
    )
    metadata = info["config"].get("metadata") or {}
    await _change(connection, info["config"], wishes)
    if ID_KEY not in metadata:
        raise JournalError(f"the stream {name} of {connection.place} exists, but is not of a tooltap journal")
    if metadata[ID_KEY] != journal_id:
        keep = metadata.get(KEEP_KEY) if metadata.get(NEXT_KEY) == journal_id else ""
        if keep != "all":
            await _delete_rows(connection, name, subjects, keep_expired=keep == "expired")
            is_new = True
        await _set_metadata(connection, name, {ID_KEY: journal_id})
    return is_new, info["state"]["last_seq"]


async def _delete_rows(connection: Connection, name: str, subjects: list[str], *, keep_expired: bool) -> None:
    rows = next(subject for subject in subjects if ROW_TOKEN in subject)
    kept: list[tuple[str, bytes]] = []
    first = 1
    while keep_expired and (found := await connection.read(name, first, rows, READ_BYTES)):
        for subject, row in [(one.subject, decode_row(one.data)) for one in found]:
            if row.expired:  # its messages are not those that the journal has now
                kept.append((subject, encode_row(msgspec.structs.replace(row, message=0), READ_BYTES)))
        first = found[-1].seq + 1
    await connection.api(f"STREAM.PURGE.{name}", filter=rows)
    for subject, data in kept:
        await connection.publish(subject, [data])
    if not keep_expired:
        for subject in subjects:
            if ".meta." in subject:
                await connection.api(f"STREAM.PURGE.{name}", filter=subject.replace(">", "expired"))


async def _create(connection: Connection, config: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Create the stream unless it exists. Returns its `STREAM.INFO`, and whether it is new."""
    name = config["name"]
    try:
        return await _info(connection, name), False
    except GoneError:
        pass
    try:
        await connection.api(f"STREAM.CREATE.{name}", **config)
    except RefusedError:
        try:  # another daemon may have been faster
            return await _info(connection, name), False
        except GoneError:
            pass
        raise
    return await _info(connection, name), True


async def _info(connection: Connection, name: str) -> dict[str, Any]:
    return await connection.api(f"STREAM.INFO.{name}")


async def _set_metadata(connection: Connection, name: str, changes: dict[str, str]) -> None:
    config = (await _info(connection, name))["config"]
    await connection.api(
        f"STREAM.UPDATE.{name}", **{**config, "metadata": {**(config.get("metadata") or {}), **changes}}
    )


async def _change(connection: Connection, config: dict[str, Any], wishes: dict[str, Any]) -> None:
    """Apply the URL's options to an existing journal."""
    if any(config.get(key) != value for key, value in _given(wishes).items()):
        await connection.api(f"STREAM.UPDATE.{config['name']}", **{**config, **_given(wishes)})


def _given(wishes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wishes.items() if value is not None}


class Memory:
    """Stores anchors on this host, one file for each journal that it has used. This is best effort: files are not
    synced, and errors count as a missing anchor. `folder`: None to store nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written: tuple[str, int, str] | None = None

    def read(self, journal: str) -> tuple[int, str] | None:
        """The stored anchor of a journal (sequence, commit id), or None."""
        if self._folder is None:
            return None
        try:
            with open(open_own(_file(self._folder, journal), os.O_RDONLY), "rb") as file:
                return _decoder.decode(file.read())
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, journal: str, seq: int, commit: str) -> None:
        if self._folder is None or self._written == (journal, seq, commit):
            return
        self._written = journal, seq, commit
        file = _file(self._folder, journal)
        new_file = file.with_suffix(f".{os.urandom(8).hex()}")
        with suppress(OSError):
            private_folder(self._folder)
            is_new = not file.exists()
            with open(open_own(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as new:
                new.write(msgspec.json.encode((seq, commit)))
            new_file.replace(file)
            if is_new:
                _forget(self._folder)


def _file(folder: Path, journal: str) -> Path:
    return folder / re.sub(r"[^A-Za-z0-9_-]", "_", journal)


def _forget(folder: Path) -> None:
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[JOURNALS:]:
        file.unlink()
