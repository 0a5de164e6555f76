"""Storing a commit exactly once, and fencing out other daemons: optimistic locking on the stream's last message.

Two daemons may believe that they own the same stream, for instance when a network partition heals. A commit may only
extend the state of the stream from which its parser was rebuilt:

1. `load_stream` returns the sequence of the subject's last message as `StreamInfo.position`.
2. The first commit after that is published with this position as the expected last sequence, each later one with the
   sequence of the commit before it (`_chains`). The server compares and stores in one step, so of two commits on the
   same position one is refused. A commit of several messages is an atomic batch with one expectation.
3. A commit without an answer may have been stored. It is published again with the same expectation. If it is refused
   then, the last message tells the cases apart: with this commit's id it was stored the first time, with another id a
   different daemon has resumed the stream, and the publisher gets `StreamConflictError`.
4. A commit is refused, too, if retention has deleted the message that it continues. If it has a snapshot, it needs
   nothing of what was deleted, and begins the stream's messages anew (`begin_anew`); a session file is read again.

The key of a chain includes the position. So when this daemon loads a stream again, the chains of its old and its new
ingest connection stay separate.

Only the newest chains are in memory. An evicted one is recovered from the last message of its stream: if that is a
commit of this daemon with the same position and the expected number of lines, it is the end of the chain. When the
journal is replaced (`identity.py`), all chains are forgotten. A stream that is the same in the new journal continues;
for any other, the publisher gets its number of lines in the new journal, and resumes there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from tooltap.daemon.journal.interface import Commit, JournalError, StreamConflictError, StreamInfo
from tooltap.daemon.journal.nats.connection import Connection, FencedError, RefusedError
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import CommitPart, decode_part, encode_part

CHAINS_IN_MEMORY = 4_096


class PurgedError(StreamConflictError):
    """The stream has no messages any more, not even the one that the commit continues."""


class ChainEnd(NamedTuple):
    """The newest commit of a chain: consecutive commits of this daemon to one stream."""

    message: int
    """Sequence of its last message."""
    lines: int


class Commits:
    """Stores commits, and remembers the end of each chain of them."""

    def __init__(self, connection: Connection, messages: Messages, daemon: str) -> None:
        self.refusal = ""
        """The server's reason for not storing the last commit; empty if it stored it."""
        self._connection = connection
        self._messages = messages
        self._daemon = daemon
        self._chains: OrderedDict[tuple[str, int], ChainEnd] = OrderedDict()
        """(Stream, `StreamInfo.position` when it was loaded) -> end of the chain. An LRU cache."""

    def has(self, stream: str, position: int) -> bool:
        return (stream, position) in self._chains

    def loaded(self, info: StreamInfo) -> None:
        """Note that a stream was loaded: its next commit begins a chain."""
        self._put(info, info.position)

    def forget(self, stream: str) -> None:
        """Forget the chains of a stream, which begins again."""
        for chain in [one for one in self._chains if one[0] == stream]:
            del self._chains[chain]

    def begin_anew(self, commit: Commit, deleted: int) -> bool:
        """Let a commit be the first message of its stream, if it continues the message with the sequence `deleted`.
        Returns whether it does."""
        chain = commit.info.stream, commit.info.position
        if self._chains.get(chain) != (deleted, commit.base_lines):
            return False
        self._chains[chain] = ChainEnd(0, commit.base_lines)
        return True

    def replaced(self) -> None:
        """Forget all chains: the journal was replaced."""
        self._chains.clear()

    async def is_current(self, info: StreamInfo) -> bool:
        """Whether the stream's last message is the one at which it was loaded, or of the chain since. Raises
        `AwayError`, `JournalError`."""
        last = await self._messages.last(info.stream)
        if last is None or last.seq == info.position:
            return True
        found = self._messages.part(last)
        return found is None or (self.is_own(found) and found.stream_info().position == info.position)

    def is_own(self, part: CommitPart) -> bool:
        """Whether this daemon has made a commit."""
        return part.commit.startswith(f"{self._daemon}/")

    async def store(self, commit: Commit, parts: list[CommitPart]) -> int:
        """Store the messages and return the sequence of the last. Waits while the server is away. Raises
        `StreamConflictError`, `JournalError`."""
        info = commit.info
        tip = self._chains.get((info.stream, info.position))
        if tip is not None and tip.lines != commit.base_lines:
            raise StreamConflictError(f"stream {info.stream} has {tip.lines} lines, not {commit.base_lines}")
        subject = self._messages.subject(info.stream)
        messages = [encode_part(part) for part in parts]
        journals = self._connection.journals
        is_new = tip is None and not info.position and not commit.base_lines
        expected = 0 if is_new else None if tip is None else tip.message

        async def store() -> int:
            nonlocal expected
            if expected is not None and (is_new or self._connection.journals == journals):
                try:
                    return await self._connection.publish(subject, messages, expected=expected)
                except FencedError:
                    pass
            last = await self._messages.last(info.stream)
            found = None if last is None else decode_part(last.data)
            if last is not None and found is not None:
                if found.commit == parts[0].commit:
                    return last.seq  # it was stored, and the answer was lost
                if self._continues(found, commit) and last.seq != expected:
                    expected = last.seq
                    return await self._connection.publish(subject, messages, expected=expected)
            if last is None and expected and self._connection.journals == journals:
                raise PurgedError(f"stream {info.stream} was deleted")
            raise self._refused(info, found, was_replaced=self._connection.journals > (1 if tip is None else journals))

        try:
            last = await self._connection.retry(store, timeout=None)
        except RefusedError as error:
            self.refusal = str(error)
            raise
        except FencedError:
            raise StreamConflictError(f"another daemon has resumed stream {info.stream}") from None
        self.refusal = ""
        self._put(info, last)
        return last

    def _continues(self, found: CommitPart, commit: Commit) -> bool:
        """Whether the stream's last message, `found`, is the end of the chain that the commit extends."""
        if not (found.is_last and self.is_own(found)):
            return False
        info = found.stream_info()
        return (info.position, info.lines) == (commit.info.position, commit.base_lines)

    def _refused(self, info: StreamInfo, found: CommitPart | None, *, was_replaced: bool) -> Exception:
        if not was_replaced:
            return StreamConflictError(f"another daemon has resumed stream {info.stream}")
        lines = 0 if found is None or not found.is_last else found.stream_info().lines
        return JournalError(
            f"the journal {self._connection.place} was replaced: it has {lines} lines of stream {info.stream};"
            " resume there"
        )

    def _put(self, info: StreamInfo, message: int) -> None:
        key = (info.stream, info.position)
        self._chains[key] = ChainEnd(message, info.lines)
        self._chains.move_to_end(key)
        if len(self._chains) > CHAINS_IN_MEMORY:
            self._chains.popitem(last=False)
