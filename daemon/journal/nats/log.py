"""Reading the messages of a journal: those of all streams, or of one.

Batches are read from any replica that has the stream, which is fast but may be slightly behind. So where a batch is
empty, the leader is asked whether there is more. A server that was cut off may believe for a while that it is the
leader. So messages that must exist are missing only if the server that says so has later ones (`after`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from tooltap.daemon.journal.nats.link import GoneError, Link, StoredMessage
from tooltap.daemon.journal.nats.message import CommitPart, DamagedError, decode_part, token

__all__ = ["CommitMessages", "Log"]

BATCH_BYTES = 4_194_304


class CommitMessages(NamedTuple):
    """One commit, reassembled."""

    first: int
    last: int
    """Sequences of its first and last message."""
    parts: list[CommitPart]

    @property
    def rest(self) -> bytes:
        return b"".join([part.rest for part in self.parts])

    @property
    def part_bytes(self) -> int:
        return len(self.parts[0].rest)


class Log:
    """`on_damage` is called with the first and last sequence of messages that cannot be read."""

    def __init__(self, link: Link, on_damage: Callable[[int, int], None]) -> None:
        self.on_damage = on_damage
        self._link = link
        self.stream = link.place.name
        self.everything = f"{self.stream}.event.>"

    def subject(self, stream: str) -> str:
        return f"{self.stream}.event.{token(stream)}"

    async def read(self, first: int, last: int, stream: str | None, max_bytes: int) -> list[StoredMessage] | None:
        """As `after`, once the server is there; None if the journal was replaced meanwhile. Raises `JournalError`."""
        journals = self._link.journals

        async def ask() -> list[StoredMessage] | None:
            return await self.after(first, last, stream, max_bytes) if self._link.journals == journals else None

        return await self._link.retry(ask)

    async def after(self, first: int, last: int, stream: str | None, max_bytes: int) -> list[StoredMessage]:
        """Messages `first` to `last`, about `max_bytes`, at least one if there is one. Message `last` has been stored.
        Raises `AwayError`, `JournalError`."""
        if first > last:
            return []
        subject = self.everything if stream is None else self.subject(stream)
        found = await self._link.read(self.stream, first, subject, max_bytes)
        if not found and (one := await self._next(first, last, subject)) is not None:
            found = [one]
        return [message for message in found if message.seq <= last]

    async def _next(self, first: int, last: int, subject: str) -> StoredMessage | None:
        found = await self._link.next(self.stream, first, subject)
        if found is None:
            await self.prove(last)
            found = await self._link.next(self.stream, first, subject)
        return found

    async def prove(self, seq: int) -> None:
        """Raise `GoneError` if the server has nothing as new as this message: it lags behind its cluster, or has lost
        it. Raises `AwayError`, `JournalError`."""
        if await self.last_seq() < seq:
            raise GoneError("the server has lost part of the journal")

    async def last_seq(self) -> int:
        """Raises `AwayError`, `JournalError`."""
        return int((await self._link.api(f"STREAM.INFO.{self.stream}"))["state"]["last_seq"])

    async def message(self, seq: int) -> StoredMessage | None:
        """Raises `JournalError`."""
        found = await self._link.retry(self._link.next, self.stream, seq, self.everything)
        return found if found is not None and found.seq == seq else None

    async def last(self, stream: str) -> StoredMessage | None:
        """The stream's last message. Raises `AwayError`, `JournalError`."""
        return await self._link.last(self.stream, self.subject(stream))

    def part(self, message: StoredMessage) -> CommitPart | None:
        """None if it is damaged."""
        try:
            return decode_part(message.data)
        except DamagedError:
            self.on_damage(message.seq, message.seq)
            return None

    async def commits(self, stream: str, first: int, last: int) -> AsyncIterator[CommitMessages]:
        """A stream's commits from message `first` to `last`, which has been stored. A commit of which a message was
        deleted or is damaged is skipped. Raises `JournalError`."""
        parts: list[CommitPart] = []
        while found := await self.read(first, last, stream, BATCH_BYTES):
            for message in found:
                part = self.part(message)
                if part is None:
                    parts = []
                    continue
                if part.index == len(parts):
                    parts.append(part)
                if part.is_last:
                    if len(parts) == part.count:
                        yield CommitMessages(message.seq - part.index, message.seq, parts)
                    parts = []
            first = found[-1].seq + 1
