"""Declarations of an agent's folder: its dialects, its commands, the store of its sessions, its name.

`dialects/<family>/__init__.py` holds `DIALECTS`; `AGENTS`, where tooltap knows the command of an agent; `PRODUCT`, the
name that pages and README show for it; and `LISTED_AS`, where README lists the folder under another name. `registry.py`
collects them. These modules are imported whenever a dialect is looked up, so they import no parser.

The reader of a store knows the layout of one agent's store, and does no I/O. What follows the store
(`daemon/taps/follow`) opens, watches and bounds it, and hands the reader a way to query a database, or to read files in
a folder; the reader says which queries and which files, and makes lines of what they hold. `Store.reader` names the
class; an instance reads one store, and is used by several threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol


class Dialect(NamedTuple):
    name: str
    parser: str
    """`module:Class`; the module is in the dialect's folder."""
    recognises: Callable[[dict[str, Any]], bool]
    """Whether a decoded line is of this dialect. It looks at the telling keys of every common line, not only of the
    first one: a stream may be tapped from the middle."""
    reads: str
    """What the dialect is, for the table of dialects."""
    tapped_with: str
    """The command that taps it."""
    arrives: str
    """When its events arrive; `docs/reference/providers.md` explains the words."""
    omits: str
    """Whatever the wire never states: of prompts, reasoning, permission requests, tokens and cost; then, behind `;`,
    what else. `–`: nothing."""
    hides_subagents: bool = False
    """Whether it never shows what subagents do, although the agent has some."""
    unproven: str | None = None
    """Parts that are parsed according to the vendor's source or others' recordings, and are in none of ours."""
    takes_from: tuple[str, ...] = ()
    """Dialects whose rule also accepts lines of this one; such lines are this one's."""
    shows_prompts: bool = True
    """Whether a line has the prompt that the agent was given as an argument."""
    api: str | None = None
    """The end of the paths of an API for language models whose requests and answers are lines of this dialect."""


class Store(NamedTuple):
    """The place where an agent keeps the files of its sessions."""

    dialect: str
    variable: str
    """The environment variable that names the folder which holds `below`, where it is not `home`."""
    home: str
    """Relative to the user's home directory."""
    below: str
    files: re.Pattern[str]
    """Paths of session files, relative to `below`. Group `session`: the session, where the file does not say it."""
    printed: bool = False
    """Whether the agent prints the same dialect."""
    reader: str | None = None
    """`module:Class`, in the dialect's folder, of what makes lines of a store that is neither lines (`.jsonl`) nor
    whole documents (`.json`): a `DatabaseReader` with `database`, else a `FolderReader`."""
    database: str | None = None
    """The SQLite database in `below` that holds all sessions; `files` matches its name, a slash and a session."""
    note: tuple[str, str] | None = None
    """The file beside a subagent's session that names the call which started it: its ending in place of the extension,
    and the key of its JSON object."""


class Prompt(NamedTuple):
    """The place of the prompt in a command line.

    Lists of options are separated by blanks. They need not be complete: after an unknown option only what is certain
    counts.
    """

    options: tuple[str, ...] = ()
    """Options whose value is the prompt."""
    words: Literal["none", "first", "all"] = "first"
    """The words that are the prompt, of those that are no options; all are joined by blanks."""
    after: tuple[str, ...] = ()
    """The commands, one of which comes before these words."""
    skipped: Mapping[str, int] = {}
    """A word with which the prompt comes so many words later: a command within the command, and what it is given."""
    not_skipped: str = ""
    """An option that replaces what the command within the command is given."""
    flags: str = ""
    """Options without a value."""
    valued: str = ""
    """Options with a value, which may be missing at the end or before another option."""
    several: str = ""
    """Options with any number of values."""
    never: str = ""
    """Options, and commands within the command, with which there is no prompt, or not as it stands."""
    stdin: bool = False
    """Without a prompt, the agent reads it from its standard input."""


class EventServer(NamedTuple):
    """A server of an agent that sends its events to whoever asks for them (server-sent events), one line in each."""

    dialect: str
    path: str
    """Of the stream of events, after the server's URL."""
    example: str
    """A URL of such a server."""
    username: tuple[str, str]
    """The environment variable with the name for HTTP Basic authentication, and what it is without."""
    password: str
    """The environment variable with the password; without one there is no authentication."""


class Agent(NamedTuple):
    """A program that prints a dialect. In its interactive mode an agent needs the terminal for itself."""

    command: str
    machine_readable: tuple[str, ...]
    """Any of these, in its command line, makes it print a stream; `…` matches anything between."""
    advice: str | None
    """The arguments to add where they are missing; None: it never prints a stream."""
    provider: str | None = None
    """The provider of its events, where that is not the command's name."""
    package: str | None = None
    """Its name for npx and the like."""
    store: Store | None = None
    prompt: Prompt | None = None
    server: EventServer | None = None
    """What `tooltap attach` taps."""


# -- readers of stores that are neither files of lines nor single documents ---------------------------------------


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
