"""Reading the messages of a journal: those of all streams, or of one.

Batches are read from any replica that has the stream, which is fast but may be slightly behind. So where a batch is
empty, the leader is asked whether there is more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from tooltap.daemon.journal.nats.link import Link, StoredMessage
from tooltap.daemon.journal.nats.message import CommitPart, decode_part, token

__all__ = ["CommitMessages", "Log"]

BATCH_BYTES = 4_194_304
LAST = 2**63 - 1


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
    def __init__(self, link: Link) -> None:
        self._link = link
        self.stream = link.place.name
        self.everything = f"{self.stream}.event.>"

    def subject(self, stream: str) -> str:
        return f"{self.stream}.event.{token(stream)}"

    async def after(self, first: int, last: int, stream: str | None, max_bytes: int) -> list[StoredMessage]:
        """Messages `first` to `last`, about `max_bytes`, at least one if there is one. Raises `AwayError`,
        `JournalError`."""
        subject = self.everything if stream is None else self.subject(stream)
        found = await self._link.read(self.stream, first, subject, max_bytes)
        if not found and (one := await self._link.next(self.stream, first, subject)) is not None:
            found = [one]
        return [message for message in found if message.seq <= last]

    async def message(self, seq: int) -> StoredMessage | None:
        """Raises `JournalError`."""
        found = await self._link.retry(self._link.next, self.stream, seq, self.everything)
        return found if found is not None and found.seq == seq else None

    async def last(self, stream: str) -> StoredMessage | None:
        """The stream's last message. Raises `AwayError`, `JournalError`."""
        return await self._link.last(self.stream, self.subject(stream))

    async def commits(self, stream: str, first: int) -> AsyncIterator[CommitMessages]:
        """A stream's commits from message `first` on. A commit whose first messages were deleted is skipped. Raises
        `JournalError`."""
        parts: list[CommitPart] = []
        while found := await self._link.retry(self.after, first, LAST, stream, BATCH_BYTES):
            for message in found:
                part = decode_part(message.data)
                if part.index == len(parts):
                    parts.append(part)
                if part.is_last:
                    if len(parts) == part.count:
                        yield CommitMessages(message.seq - part.index, message.seq, parts)
                    parts = []
            first = found[-1].seq + 1
