"""Readers of the stores in which agents keep sessions, where these are neither files of lines nor single documents.

A reader knows the layout of one agent's store, and does no I/O. What follows the store (`daemon/taps/follow`) opens,
watches and bounds it, and hands the reader a way to query a database, or to read files in a folder; the reader says
which queries and which files, and makes lines of what they hold. `Store.reader` names the class; an instance reads one
store, and is used by several threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol


class SessionGoneError(Exception):
    """The database does not have the session."""


class StoredSession(NamedTuple):
    """A session in a database, as it is listed."""

    session: str
    rows: int
    changed: int
    """The time of its latest row, in ms since the epoch."""


class Row(NamedTuple):
    """A row of a database that is a line of a session's stream."""

    owner: str
    """The session that the row is of: the one that is read, or a subagent's in it."""
    number: int
    """Counts the rows of its owner, from 0 on."""
    line: bytes
    """The same bytes each time, without a line feed: their CRC shows whether the row is the one that was read."""
    time: int
    """When it was written, in ms since the epoch."""


class Query(Protocol):
    """Runs one statement in a read transaction, and returns its rows."""

    def __call__(self, sql: str, parameters: tuple[str | int, ...] = (), /) -> Iterable[tuple[Any, ...]]: ...


class DatabaseReader(Protocol):
    """Reads the sessions in an SQLite database (`Store.database`), which appends rows to them and never changes one.

    `changed` is the time of the last change of the database, in ms since the epoch.
    """

    def sessions(self, query: Query, changed: int) -> Iterable[StoredSession]:
        """List the sessions that are followed; those of subagents are part of the one that they belong to."""

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None]:
        """Return owner and number of all rows of a session, in the order in which they were written. Raises
        `SessionGoneError`."""

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        """Return the rows of a session in the same order, without those that are `taken`: of each owner so many. Raises
        `SessionGoneError`."""


class Folder(Protocol):
    """The folder of one session. What is read is bounded together.

    Both raise `FileNotFoundError`, also for a file outside of the folder, and `OSError`.
    """

    def read(self, name: str) -> bytes:
        """Return the content of a file; `name` is relative to the folder."""

    def lines(self, name: str, end: bytes) -> Iterator[bytes]:
        """Return the lines of a file that end so, the line feed included; others are skipped."""


class FolderReader(Protocol):
    """Reads sessions of which each is a folder of files, as one document that is made again after each change."""

    files: tuple[str, ...]
    """Whatever changes with a session, relative to its folder: files, and folders of files, which end with a slash. The
    first is the one that `Store.files` matches."""

    def document(self, folder: Folder) -> bytes:
        """Return the document. Where it raises `FileNotFoundError`, because the agent has just deleted what another
        file names, it is called again. Raises `LookupError`, `TypeError` or `ValueError` for an unknown layout."""
