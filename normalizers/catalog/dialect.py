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
    """Description of the dialect, for the table of dialects."""
    tapped_with: str
    """The command that taps it."""
    arrives: str
    """When its events arrive; `docs/reference/providers.md` explains the words."""
    omits: str
    """Things that the wire never states: first which of prompts, reasoning, permission requests, tokens and cost; then,
    after `;`, anything else. `–`: nothing."""
    hides_subagents: bool = False
    """True if the stream never shows the work of subagents, although the agent has some."""
    unproven: str | None = None
    """Parts that are parsed according to the vendor's source or others' recordings, and that none of our recordings
    covers."""
    takes_from: tuple[str, ...] = ()
    """Dialects whose rule also accepts lines of this one; a line that both rules accept belongs to this dialect."""
    shows_prompts: bool = True
    """Whether a line has the prompt that the agent was given as an argument."""
    product: str | None = None
    """Name in README of a product of its own that writes the dialect, where the folder has another."""
    recognises_text: Callable[[bytes], bool] | None = None
    """Whether a line is the beginning of a text in this dialect, whose lines are not JSON."""
    apis: tuple[str, ...] = ()
    """Suffixes of the URL paths of a language model API whose requests and responses are lines of this dialect."""


class OwnDeletion(NamedTuple):
    """How an agent deletes its session files by itself."""

    file: str
    """JSON file with the setting, in the folder that holds `Store.below`."""
    key: str
    days: float
    """Age at which it deletes them if the setting is absent."""


class FolderList(NamedTuple):
    """A JSON file in which an agent lists its projects, each with the folder that holds `Store.below`. Nobody goes
    through these folders: such a store has a `database`."""

    places: tuple[tuple[str, str], ...]
    """Environment variables, the first of which that is set says where the file is: (variable, path relative to it)."""
    home: str
    """Path relative to the user's home directory, if none of them is set."""
    array: str
    """Key of the array of projects."""
    folder: str
    """Key of the folder in each project."""
    base: str
    """Key of the folder to which that may be relative."""


class Store(NamedTuple):
    """The place where an agent keeps the files of its sessions."""

    dialect: str
    variable: str
    """The environment variable that overrides `home`: the folder that holds `below`."""
    home: str
    """Folder that holds `below`, relative to the user's home directory."""
    below: str
    files: re.Pattern[str]
    """Pattern of the paths of session files, relative to `below`. Group `session`: the session, if the file does not
    state it."""
    printed: bool = False
    """Whether the agent prints the same dialect."""
    moved: tuple[str, ...] = ()
    """Other folders beside `below`, to which the agent moves session files."""
    reader: str | None = None
    """`module:Class` in the dialect's folder. The class makes lines of a store that holds neither lines (`.jsonl`) nor
    whole documents (`.json`): a `DatabaseReader` if `database` is set, else a `FolderReader`."""
    database: re.Pattern[str] | None = None
    """Pattern of the names of the SQLite databases in `below` that hold all sessions; `files` matches such a name, a
    slash and a session."""
    within: tuple[str, ...] = ()
    """Folders between `below` and the databases, from the top: each a name, or `*` for any."""
    beside: re.Pattern[str] | None = None
    """Pattern of the paths in `below` that hold no sessions, or are read together with one; a folder's ends with a
    slash. All other files with data should be sessions: `tooltap doctor` names those that are not read."""
    unread: tuple[str, ...] = ()
    """Further folders beside `below` in which some version of the agent keeps sessions; what no store reads there is
    named as well."""
    tables: re.Pattern[str] | None = None
    """Pattern of the tables of the databases that are read, or hold no sessions; others that have rows are named."""
    deletes: OwnDeletion | None = None
    """None: the agent keeps its files until the user deletes them."""
    note: tuple[str, str] | None = None
    """Sidecar file of a subagent's session that names the call which started it: (suffix that replaces the extension,
    key in its JSON object)."""
    listed: FolderList | None = None
    """The list of further folders that hold `below`."""
    names: tuple[str, ...] = ()
    """Names of the session files in `below`, where that is a folder of the user's: nothing else in it is looked at."""
    in_projects: bool = False
    """Whether there may be such files in every project: `home` is one, and the folders in which any agent had sessions,
    and their repositories. Such a store has `names`."""
    subagents: tuple[str, ...] = ()
    """Paths of the file that a subagent may have, relative to the folder of the session's file, with `{session}` for
    the name of that file without extension, and `{agent}`. What the session's file repeats of such a subagent is left
    out."""


class Prompt(NamedTuple):
    """Rule that finds the prompt in an agent's command line.

    Lists of options are separated by blanks. They may be incomplete: after an unknown option, only an unambiguous
    prompt is returned.
    """

    options: tuple[str, ...] = ()
    """Options whose value is the prompt."""
    words: Literal["none", "first", "all"] = "first"
    """The positional words that make up the prompt; `all` joins them with blanks."""
    after: tuple[str, ...] = ()
    """Subcommands, one of which must be the first word; the prompt follows it."""
    skipped: Mapping[str, int] = {}
    """Nested subcommand -> number of its arguments before the prompt (`codex exec resume <session> <prompt>`: 1)."""
    not_skipped: str = ""
    """An option that replaces the nested subcommand's arguments (`--last`): then none is skipped."""
    flags: str = ""
    """Options without a value."""
    valued: str = ""
    """Options with a value, which may be missing at the end or before another option."""
    several: str = ""
    """Options with any number of values."""
    never: str = ""
    """Options and nested subcommands with which there is no prompt, or with which the prompt is not passed on
    verbatim."""
    stdin: bool = False
    """True if the agent reads the prompt from standard input when its command line has none."""


class EventServer(NamedTuple):
    """HTTP server of an agent that streams its events to clients as server-sent events, one line per event."""

    dialect: str
    path: str
    """Path of the event stream on the server."""
    example: str
    """A URL of such a server."""
    username: tuple[str, str]
    """User name for HTTP Basic authentication: (environment variable, default)."""
    password: str
    """The environment variable that holds the password; if it is unset, no authentication is used."""
    posts: re.Pattern[str]
    """The paths to which answers, prompts and interrupts are posted. Nothing else is posted to the server."""
    global_path: str
    """Path of the stream of all projects, if the server has several."""


class HookEvent(NamedTuple):
    """An event at which an agent runs a hook."""

    name: str
    matcher: str | None = None
    """Of which events with this name the hook is run; None: of all."""


class Hooks(NamedTuple):
    """The hooks in an agent's settings through which it asks: `tooltap hooks install` writes them."""

    file: str
    """JSON file with the hooks, relative to the folder that `Store.variable` or `Store.home` names."""
    asks: str | None
    """The event whose hook can answer; None: a hook can only tell that a dialog is open."""
    tells: tuple[HookEvent, ...]
    """The events that tell that a dialog is open, and those at which one is over."""
    keeps_dialog: bool = False
    """Whether the agent's own dialog stays usable while a hook waits for an answer."""
    timeout_unit: int = 1
    """Units of a hook's timeout in a second."""
    is_flat: bool = False
    """Whether an event has a list of handlers, not of groups of them."""
    toml: str | None = None
    """TOML file beside `file` that may have the hooks in its place."""
    off: tuple[tuple[tuple[str, ...], bool], ...] = ((("disableAllHooks",), True),)
    """Settings, each with the value that turns all hooks off: in `file`, or in `toml` if there is one."""
    remark: str | None = None
    """What the agent demands before it runs the hooks, as one sentence."""


class ControlSocket(NamedTuple):
    """Unix socket at which the server behind an agent's terminal takes further clients. It is in the agent's folder:
    that of its `Store`."""

    dialect: str
    below: str
    """Path of the socket in that folder."""


SESSION = "{session}"


class Agent(NamedTuple):
    """A program that prints a dialect. In its interactive mode an agent needs the terminal for itself."""

    command: str
    machine_readable: tuple[str, ...]
    """Options, any of which makes the agent print a stream; `…` matches any words in between."""
    advice: str | None
    """The arguments to add if none of `machine_readable` is given; None: the agent never prints a stream."""
    answerable: tuple[str, ...] = ()
    """Options, any of which makes the agent ask on standard output and take the answers from standard input; written as
    `machine_readable`."""
    provider: str | None = None
    """The provider of its events, where that is not the command's name."""
    product: str | None = None
    """Its name on pages and in README, where that is not `PRODUCT`."""
    fork_of: str | None = None
    """The provider of the agent of which it is a fork: its lines are that agent's, and do not say which of both has
    written them, so its taps do."""
    package: str | None = None
    """Package name for `npx` and similar runners."""
    store: Store | None = None
    older_stores: tuple[Store, ...] = ()
    """Stores that older versions of the agent have written."""
    prompt: Prompt | None = None
    hooks: Hooks | None = None
    server: EventServer | None = None
    """The server that `tooltap attach` taps."""
    control: ControlSocket | None = None
    """The socket that `tooltap attach` joins."""
    resume: tuple[str, ...] = ()
    """The arguments with which the agent continues a session, in the folder of that session; `SESSION` stands for its
    id. Empty: not known. Only what the agent's documentation or a run of it shows."""
    fork: tuple[str, ...] = ()
    """The arguments with which it continues a copy of a session."""
    context: tuple[str, ...] = ()
    """Beginnings of what it sends its model in the user's role, and the user did not write."""
    worktrees: str | None = None
    """Where the agent puts worktrees of every repository, as names joined by `/`: `*` is any name, `+` that of the
    repository."""


# -- readers of stores that are neither files of lines nor single documents ---------------------------------------


class SessionGoneError(Exception):
    """The database does not have the session."""


class StoredSession(NamedTuple):
    """A session in a database, as it is listed."""

    session: str
    rows: int
    changed: int
    """The time of its latest change, in ms since the epoch."""
    is_appended: bool = True
    """Whether rows are only appended to it, so that the number of rows read is a position."""


class Row(NamedTuple):
    """A row of a database that is a line of a session's stream."""

    owner: str
    """The session that the row belongs to: the one being read, or one of its subagents' sessions."""
    number: int
    """Index of the row among its owner's rows, from 0. In a session whose rows change: a number that grows from row to
    row; below 0, where the row is not one of the numbered rows."""
    line: bytes
    """The row as bytes, identical at every read, without a line feed. Its CRC shows whether a row is the one read
    before."""
    time: int
    """When it was written, in ms since the epoch. In a session whose rows change: when the session changed last."""
    state: int | None = None
    """Checksum of a row that may still change; it is yielded again when it has changed."""


class Query(Protocol):
    """Runs one statement in a read transaction, and returns its rows."""

    def __call__(self, sql: str, parameters: tuple[str | int, ...] = (), /) -> Iterable[tuple[Any, ...]]: ...


class DatabaseReader(Protocol):
    """Reads the sessions in an SQLite database (`Store.database`).

    The agent appends rows to a session and never changes one; or it may change and delete rows
    (`StoredSession.is_appended`). All rows of such a session may be read again: its dialect recognises what it has
    read.

    `changed` is the time of the last change of the database, in ms since the epoch.
    """

    def sessions(self, query: Query, changed: int) -> Iterable[StoredSession]:
        """List the sessions to follow. A subagent's session is not listed: it is part of its root session."""

    def numbers(self, query: Query, session: str) -> Generator[tuple[str, int], None, None] | None:
        """Return owner and number of all rows of a session, in the order in which they were written; None for a session
        whose rows change. Raises `SessionGoneError`."""

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        """Yield the rows of a session in the order in which they were written, except those already read. `taken`:
        owner -> number of rows read so far. Where rows change: owner -> number after that of the last row read so far,
        and `<owner>/<number>` -> `Row.state` of a row that was read and may still change. Raises `SessionGoneError`."""


class Folder(Protocol):
    """Read access to the folder of one session. A shared limit bounds how much is read.

    All methods raise `FileNotFoundError`, also for a file outside the folder, and `OSError`.
    """

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; `name` is relative to the folder."""

    def lines(self, name: str, end: bytes) -> Iterator[bytes]:
        """Yield the lines of a file that end with `end`, line feed included; other lines are skipped."""


class FolderReader(Protocol):
    """Reads sessions that are stored as one folder of files each. A session becomes one document, which is rebuilt
    after each change."""

    files: tuple[str, ...]
    """Files and folders to watch for changes, relative to the session's folder; names of folders end with a slash. The
    first is the file that `Store.files` matches."""

    def document(self, folder: Folder) -> bytes:
        """Return the document. Raises `FileNotFoundError` if the agent has just deleted a file that another one names;
        the caller then retries. Raises `LookupError`, `TypeError` or `ValueError` for an unknown layout."""
