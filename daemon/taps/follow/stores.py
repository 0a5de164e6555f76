"""The places in which agents store their sessions, and readers for them: files, rows of a database, or folders of
files.

Files are read incrementally from a position while the agent writes them. No file stays open between two reads, except a
compressed one, which the agent does not write (`compressed.py`). So at the next read, the path may have another file,
or the file may have been truncated. Both are detected by content: the bytes before the position (its `mark`) must be
unchanged. The functions block: call them in a thread.

Links in a store are followed if they belong to the user: a folder or a file that is kept elsewhere. Links of others are
not, nor links behind links, so that nobody plants a file for us to read.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote_to_bytes

import orjson

from tooltap.normalizers.catalog.dialect import DatabaseReader, FolderList, FolderReader, Query, SessionGoneError, Store
from tooltap.normalizers.catalog.registry import load, stores
from tooltap.traces.recording.compressed import Decompressor, Decompressors, identity_of, is_compressed, plain_path

MARK_BYTES = 4_096
BLOCK = 65_536
NOTE_BYTES = 65_536
COMPARED_BYTES = 1_048_576
LIST_BYTES = 1_048_576
"""Most bytes of a file that lists folders (`FolderList`)."""
OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class ReplacedError(Exception):
    """The file at the path is not the one that was read up to the position, or it was truncated."""


class Position(NamedTuple):
    offset: int = 0
    mark: bytes = b""
    """The last bytes before `offset`, for comparison."""
    inode: int | None = None
    """Inode of the file that was read."""

    taken: Mapping[str, int] = {}
    """For a database: what was read of it (`DatabaseReader.rows`)."""


class Chunk(NamedTuple):
    """The bytes that one read returns."""

    data: bytes
    after: Position
    mtime: int
    """Time of the last change, in ms since the epoch."""


class Found(NamedTuple):
    """A session file, with its state when its folder was listed."""

    path: str
    size: int
    mtime: int
    """Nanoseconds since the epoch."""
    is_appended: bool = True
    """Whether the size of what was read of it is a position in it."""

    @property
    def mtime_ms(self) -> int:
        return self.mtime // 1_000_000


class Roots(Protocol):
    """Folders that change while they are followed."""

    path: str
    """The file that names them; empty: none."""

    @property
    def state(self) -> object:
        """A value that differs after each change; None: nothing is known, and all stays as it is."""

    def read(self) -> tuple[list[Root], int]:
        """Return the folders to follow, and how many there are. Raises `OSError`."""


class Reader(Protocol):
    """Reads the sessions of a store. All methods raise `OSError`."""

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """Read the first `limit` bytes, or a few more. Return them and the time of the last change in ms since the
        epoch."""

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        """Return the position where reading stopped earlier: after a line with this CRC-32 (None: unknown). `offset`:
        bytes, or rows. Raises `ReplacedError`."""

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        """Read what follows the position, about `limit` bytes. Raises `ReplacedError`."""


def read_from(path: str, position: Position, limit: int) -> Chunk:
    """Read at most `limit` bytes from the position on. Raises `ReplacedError` and `OSError`."""
    offset, mark = position.offset, position.mark
    if is_compressed(path):
        data, status = _decompress(path, position, limit)
    else:
        with opened(path) as (descriptor, status):
            data = os.pread(descriptor, len(mark) + limit, offset - len(mark))
    mtime = status.st_mtime_ns // 1_000_000
    if data == mark[:-1] and mark.endswith(b"\n"):  # the last line was ingested before its newline was written
        return Chunk(b"", position, mtime)
    if not data.startswith(mark):
        raise ReplacedError
    return Chunk(data[len(mark) :], Position(offset + len(data) - len(mark), data[-MARK_BYTES:], status.st_ino), mtime)


def _decompress(path: str, position: Position, limit: int) -> tuple[bytes, os.stat_result]:
    """Read the mark of the position, and at most `limit` bytes after it."""
    offset, mark = position.offset, position.mark
    with opened(path) as (descriptor, status):
        identity = identity_of(status)
        decompressor, data = _decompressors.take(identity, offset), mark
        if decompressor is None:
            decompressor, data = Decompressor(FileIO(os.dup(descriptor))), b""
    try:
        if not data:
            for _ in decompressor.skip(offset - len(mark)):
                pass
            data = decompressor.read(len(mark))
        more = decompressor.read(limit)
    except BaseException:
        decompressor.close()
        raise
    if len(more) < limit:
        decompressor.close()
    else:
        _decompressors.keep(identity, decompressor)
    return data + more, status


_decompressors = Decompressors()


def position_after(path: str, offset: int, crc: int | None) -> Position:
    """Return the position where reading stopped earlier: after the newline of a line with this CRC-32 (None: unknown).
    Raises `ReplacedError` and `OSError`."""
    if offset == 0:
        return Position()
    with opened(path) as (descriptor, status):
        if is_compressed(path):
            found, end = _decompressed_line(descriptor, offset)
        else:
            if status.st_size < offset - 1:
                raise ReplacedError
            if status.st_size >= offset and os.pread(descriptor, 1, offset - 1) != b"\n":
                raise ReplacedError
            line = _line_before(descriptor, offset - 1)
            found, end = zlib.crc32(line), (line + b"\n")[-MARK_BYTES:]
    if crc is not None and found != crc:
        raise ReplacedError
    return Position(offset, end, status.st_ino)


def _decompressed_line(descriptor: int, offset: int) -> tuple[int, bytes]:
    """Return the CRC-32 of the line that ends at this offset, and the last bytes before it, newline included."""
    with closing(Decompressor(FileIO(os.dup(descriptor)))) as decompressor:
        crc, end = 0, b""
        for block in decompressor.skip(offset - 1):
            _, newline, last = block.rpartition(b"\n")
            crc = zlib.crc32(last, 0 if newline else crc)
            end = (last if newline else end + last)[-MARK_BYTES:]
        if decompressor.offset < offset - 1 or decompressor.read(1) not in (b"", b"\n"):
            raise ReplacedError
    return crc, (end + b"\n")[-MARK_BYTES:]


def read_head(path: str, limit: int) -> tuple[bytes, int]:
    """Read the first bytes. Return them and the time of the last change in ms since the epoch. Raises `OSError`."""
    with opened(path) as (descriptor, status):
        if is_compressed(path):
            with closing(Decompressor(FileIO(os.dup(descriptor)))) as decompressor:
                data = decompressor.read(limit)
        else:
            data = b""
            while len(data) < limit and (block := os.pread(descriptor, limit - len(data), len(data))):
                data += block
    return data, status.st_mtime_ns // 1_000_000


def common_lines(path: str, other: str) -> tuple[int, bool]:
    """Compare the beginnings of two files. Returns how many bytes of whole lines they have in common, and whether the
    other one has all of the first. Raises `OSError`."""
    offset = common = 0
    with opened(path) as (one, _), opened(other) as (two, _):
        while block := os.pread(one, COMPARED_BYTES, offset):
            compared = os.pread(two, len(block), offset)
            same = len(block) if block == compared else _same_bytes(block, compared)
            common = offset + newline if (newline := block.rfind(b"\n", 0, same) + 1) else common
            if same < len(block):
                return common, False
            offset += same
    return common, True


def _same_bytes(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning."""
    return next(
        (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


class Files:
    """Reads session files."""

    head = staticmethod(read_head)
    position_after = staticmethod(position_after)
    read_from = staticmethod(read_from)


def read_note(path: str, key: str) -> str | None:
    """Return a string of the JSON object in a small file; None if there is none, or not yet."""
    try:
        data, _ = read_head(path, NOTE_BYTES)
        value = orjson.loads(data)
    except (OSError, orjson.JSONDecodeError):
        return None
    noted = value.get(key) if isinstance(value, dict) else None
    return noted if isinstance(noted, str) and noted else None


def find_moved(path: str, inode: int | None) -> str | None:
    """Return the new path of the file that was at this path, if it was renamed in its folder."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next((one.path for one in entries if one.inode() == inode and one.path != path), None)
    except OSError:
        return None


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    try:
        descriptor = os.open(path, OPENING)
    except OSError as error:
        if error.errno != errno.ELOOP or not is_own_link(path):
            raise
        descriptor = os.open(os.path.realpath(path), OPENING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def is_own_link(path: str) -> bool:
    """Return whether a path is a symbolic link of the user's own."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid()


def _line_before(descriptor: int, end: int) -> bytes:
    """Read the line that ends at this offset."""
    parts: list[bytes] = []
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(descriptor, end - start, start)
        _, newline, last = block.rpartition(b"\n")
        parts.append(last)
        if newline:
            break
        end = start
    return b"".join(reversed(parts))


def as_text(name: str) -> str:
    """Return a path, or a name, as it can be stored. If it is not UTF-8, it is encoded as in URLs: a path becomes a
    `file:` URL."""
    try:
        name.encode()
    except UnicodeEncodeError:
        encoded = quote(os.fsencode(name))
        return f"file://{encoded}" if name.startswith("/") else encoded
    return name


def from_text(text: str) -> str:
    """Return the path that `as_text` was given."""
    return os.fsdecode(unquote_to_bytes(text.removeprefix("file://"))) if text.startswith("file:") else text


# -- stores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Root:
    """A folder in which an agent stores its sessions."""

    agent: str
    place: Store
    path: str
    """Resolved, without symbolic links. It need not exist."""
    home: str = ""
    """The folder that holds `place.below`."""
    newer: Root | None = None
    """The database in the same folder into which a newer version of the agent has copied such sessions."""

    @cached_property
    def reader(self) -> Files | Database | SessionFolders:
        if self.place.reader is None:
            return Files()
        reader = load(self.place.reader)()
        if self.place.database is not None:
            return Database(self.path, self.place.within, self.place.database, reader)
        return SessionFolders(reader)

    def match(self, path: str) -> re.Match[str] | None:
        """Match the path of a session file below the root."""
        return self.place.files.fullmatch(path, len(self.path) + 1)

    def is_document(self, path: str) -> bool:
        """Return whether a session is a document that is rewritten as a whole, and does not grow by lines."""
        return path.endswith(".json") or isinstance(self.reader, SessionFolders)

    def was_copied(self, path: str) -> bool:
        """Return whether a newer version of the agent has copied the session of this file. Raises `OSError`."""
        match = self.match(path)
        reader = None if self.newer is None else self.newer.reader
        return match is not None and isinstance(reader, Database) and reader.has(match["session"])

    def has_copied(self, path: str) -> bool:
        """Return whether a path is that of a session that this store has from an older one in its folder."""
        return self.place.database is not None and path.startswith(f"{self.path}/") and self.match(path) is None

    @property
    def is_moved_to(self) -> bool:
        """Whether the agent moves files here that it has written elsewhere."""
        return self.path != os.path.realpath(os.path.join(self.home, self.place.below))

    def session_of(self, path: str) -> str:
        """Return the path of the session file for a file that is part of a session; any other path unchanged."""
        session = self.reader.session_of(path) if isinstance(self.reader, SessionFolders) else None
        return session if session is not None and self.match(session) else path


def homes(place: Store, environment: Mapping[str, str], further: Sequence[str] = ()) -> list[Path]:
    """Return the folders that hold `place.below`: those of its variable, which may name several, separated by commas,
    or else the usual one; and further ones. `~` is the user's home."""
    named = environment.get(place.variable, "") if place.variable else ""
    several = [named] if os.path.isdir(os.path.expanduser(named)) else named.split(",")
    found = [one.strip() for one in several if one.strip()] or [str(Path.home() / place.home)]
    return [Path(one).expanduser() for one in (*found, *further)]


def roots(
    names: Iterable[str], environment: Mapping[str, str], further: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Root]:
    """Return where these agents store their sessions, each folder once for each pattern of files. `further`: agent ->
    further folders of the kind that its variable names."""
    found: dict[tuple[str, str, str], Root] = {}
    for name in names:
        for place in stores()[name]:
            for home in homes(place, environment, further.get(name, ())):
                for folder in (place.below, *place.moved):
                    path = os.path.realpath(home / folder)
                    root = Root(name, place, path, str(home), _database_in(path, place, found.values()))
                    found.setdefault((place.dialect, place.files.pattern, path), root)
    return list(found.values())


def _database_in(path: str, place: Store, found: Iterable[Root]) -> Root | None:
    """Return the root of the database of the same dialect in a folder, for a store that has none."""
    if place.database is not None:
        return None
    same = (one for one in found if (one.path, one.place.dialect) == (path, place.dialect))
    return next((one for one in same if one.place.database is not None), None)


class RootList:
    """A file in which an agent lists further folders of a store (`FolderList`)."""

    def __init__(self, agent: str, place: Store, path: str, most: int) -> None:
        """`most`: folders that are followed of it."""
        self.path = path
        self._agent = agent
        self._place = place
        self._most = most

    @property
    def state(self) -> object:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> tuple[list[Root], int]:
        """Return the folders, those at the beginning of the list if there are too many, and how many there are. Raises
        `OSError`, also for a file that is no such list."""
        data, _ = read_head(self.path, LIST_BYTES + 1)
        if len(data) > LIST_BYTES:
            raise OSError(errno.EFBIG, f"a list of projects has at most {LIST_BYTES // 2**20} MiB", self.path)
        layout = self._place.listed
        assert layout is not None
        try:
            listed = orjson.loads(data)[layout.array]
            if not isinstance(listed, list):
                raise TypeError
            named = list(dict.fromkeys(filter(None, (_folder_of(one, layout) for one in listed))))
            found = [self._root(home) for home in named[: self._most]]
        except (LookupError, TypeError, ValueError):
            raise OSError(errno.EINVAL, "not a list of projects of a known form", self.path) from None
        return found, len(named)

    def _root(self, home: str) -> Root:
        return Root(self._agent, self._place, os.path.realpath(os.path.join(home, self._place.below)), home)


class ProjectRoots:
    """The folders in which sessions were, and their repositories, as roots of a store that may be in each
    (`Store.in_projects`)."""

    def __init__(self, agent: str, place: Store, most: int) -> None:
        self.path = ""
        self.folders: tuple[str, ...] = ()
        """The folders, those in which sessions were last first."""
        self._agent = agent
        self._place = place
        self._most = most

    @property
    def state(self) -> object:
        return self.folders or None

    def read(self) -> tuple[list[Root], int]:
        """Return the first folders, and how many they are."""
        found: dict[str, None] = {}
        for folder in self.folders:
            found |= dict.fromkeys(one for one in (folder, _repository_of(folder)) if one is not None)
        roots = [
            Root(self._agent, self._place, os.path.realpath(one), one) for one in itertools.islice(found, self._most)
        ]
        return list(dict.fromkeys(roots)), len(set(roots))


def _repository_of(folder: str) -> str | None:
    """Return the folder above that has a repository, or a worktree of one."""
    above = map(str, Path(folder).parents)
    return next((one for one in (folder, *above) if os.path.lexists(os.path.join(one, ".git"))), None)


def project_roots(names: Iterable[str], most: int) -> list[ProjectRoots]:
    """Return the roots of these agents that may be in every project. `most`: folders to look at."""
    return [ProjectRoots(name, place, most) for name in names for place in stores()[name] if place.in_projects]


def _folder_of(project: object, layout: FolderList) -> str | None:
    """Return the folder of a listed project; None if it names no absolute one."""
    if not isinstance(project, dict) or not isinstance(named := project.get(layout.folder), str) or not named:
        return None
    base = project.get(layout.base)
    folder = os.path.join(base, named) if isinstance(base, str) else named
    return folder if os.path.isabs(folder) and "\0" not in folder else None


def root_lists(names: Iterable[str], environment: Mapping[str, str], most: int) -> list[RootList]:
    """Return the lists of these agents. `most`: folders to follow of each."""
    found = []
    for name in names:
        for place in stores()[name]:
            if place.listed is not None:
                ways = ((environment.get(variable), file) for variable, file in place.listed.places)
                named = next((Path(folder).expanduser() / file for folder, file in ways if folder), None)
                path = named or Path.home() / place.listed.home
                found.append(RootList(name, place, str(path), most))
    return found


def scan(
    root: Root,
    folder: str,
    trouble: Callable[[OSError], None],
    watch: Callable[[str, str], None] = lambda path, name: None,
) -> Iterator[Found]:
    """List the session files in `folder` and below, also behind one link of the user's own. `watch` is called with each
    folder before it is listed, and with what a link leads to, even if nothing is there: with its path, and the name
    that changes of it have."""
    if root.place.names:
        yield from _scan_names(root, trouble)
        return
    folders = [(folder, os.path.realpath(folder) != folder)]
    while folders:
        place, is_linked = folders.pop()
        watch(place, place)
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    try:
                        if entry.is_symlink() and (is_linked or not _leads_elsewhere(root, entry.path)):
                            continue
                        is_folder = entry.is_dir()
                        is_session = not is_folder and entry.is_file() and _is_followed(root, entry.path)
                        if entry.is_symlink() and (is_folder or is_session or not os.path.exists(entry.path)):
                            watch(os.path.realpath(entry.path), entry.path)
                        if is_folder:
                            folders.append((entry.path, is_linked or entry.is_symlink()))
                        elif is_session:
                            yield _look(root, entry.path)
                    except FileNotFoundError:  # it has just been deleted
                        continue
                    except OSError as error:  # the others are listed
                        trouble(error)
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble(error)


def _scan_names(root: Root, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """List the files that have the names of the store. The folder may be everybody's, as `/tmp` is: a file of another
    user is none."""
    for name in root.place.names:
        path = os.path.join(root.path, name)
        try:
            status = os.stat(path)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if is_own and (not os.path.islink(path) or _leads_elsewhere(root, path)):
                yield _look(root, path)
        except FileNotFoundError:  # it has just been deleted
            continue
        except OSError as error:
            trouble(error)


def look_at(
    root: Root,
    path: str,
    trouble: Callable[[OSError], None],
    watch: Callable[[str, str], None] = lambda path, name: None,
) -> Iterator[Found]:
    """List the session files that a change at this path may concern. A deleted file has size and time 0. `watch`: as
    for `scan`."""
    if os.path.realpath(path) != path and not _is_reachable(root, path):
        return
    path = root.session_of(path)
    if os.path.isdir(path):
        yield from scan(root, path, trouble, watch)
    elif _is_followed(root, path):
        if os.path.islink(path):
            watch(os.path.realpath(path), path)
        try:
            yield _look(root, path)
        except FileNotFoundError:
            yield Found(path, 0, 0)
        except OSError as error:
            trouble(error)


def _leads_elsewhere(root: Root, link: str) -> bool:
    """Return whether a link is the user's own, and what it names is not listed anyway: it is outside the root, and does
    not contain it."""
    target = os.path.realpath(link)
    return is_own_link(link) and os.path.commonpath([target, root.path]) not in (target, root.path)


def _is_reachable(root: Root, path: str) -> bool:
    """Return whether the only link in a path below the root is one that `scan` follows."""
    below = path[len(root.path) + 1 :].split("/")
    ways = itertools.accumulate(below, os.path.join, initial=root.path)
    links = [way for way in itertools.islice(ways, 1, None) if os.path.islink(way)]
    return len(links) == 1 and _leads_elsewhere(root, links[0])


def _is_followed(root: Root, path: str) -> bool:
    """Return whether a path is that of a session file. While an agent compresses one, the file before counts."""
    return root.match(path) is not None and not (is_compressed(path) and os.path.lexists(plain_path(path)))


def _look(root: Root, path: str) -> Found:
    if isinstance(root.reader, SessionFolders):
        return root.reader.look_at(path)
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid():
        status = os.stat(path)
    return Found(path, status.st_size, status.st_mtime_ns, not is_compressed(path))


# -- databases --------------------------------------------------------------------------------------------------------

ROW_BYTES = 1_024
"""Assumed size of a row in bytes, for the progress of a backfill."""
LOCK_TIMEOUT = 1.0
"""Seconds to wait for a lock, which readers need only while the write-ahead log is recovered."""
HEADER_BYTES = 48
"""Length of the header of the write-ahead log's index (`-shm`), which every commit changes."""


def state_of(path: str) -> object:
    """Return a value that differs after each commit; None if there is no database."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    try:
        descriptor = os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        header = b""
    else:
        try:
            header = os.pread(descriptor, HEADER_BYTES, 0)
        finally:
            os.close(descriptor)
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, header


class Database:
    """The sessions in an agent's SQLite databases, each presented as a file of lines: a row is a line. So the number of
    lines of a stream is its position, where the agent never changes a row. Otherwise each state of a row is a line, and
    a stream that is opened again begins with the first row. The tables are read by the agent's reader
    (`catalog/dialect.py`).

    The agent must not be disturbed: connections are read-only, open for one short transaction, and create no files.
    While no process has the database open, there is no write-ahead log, and reading could create one; so the main file
    is opened as immutable.

    The path of a session is that of the database, a slash and the session's name. A name with a slash is that of the
    session in newer tables of the agent; what follows the slash is its name in the older ones.
    """

    def __init__(self, folder: str, within: tuple[str, ...], names: re.Pattern[str], reader: DatabaseReader) -> None:
        self._folder = folder
        self._within = within
        self._names = names
        self._reader = reader

    @property
    def state(self) -> object:
        """A value that differs after each commit; None if there is no database."""
        return [(path, state_of(path)) for path in self._paths()] or None

    def list_sessions(self, trouble: Callable[[OSError], None]) -> list[Found]:
        """List the sessions that are no subagents'. Their size is the number of rows."""
        listed: list[Found] = []
        for path in self._paths():
            try:
                with _opened(path) as query:
                    found = list(self._reader.sessions(query, _changed(path)))
            except FileNotFoundError:  # it has just been deleted
                continue
            except OSError as error:  # the others are listed
                trouble(error)
                continue
            listed += [
                Found(f"{path}/{one.session}", one.rows, one.changed * 1_000_000, one.is_appended) for one in found
            ]
        return listed

    def has(self, session: str) -> bool:
        """Return whether a database has this session, with something in it. Raises `OSError`."""
        return any(self._has(path, session) for path in self._paths())

    def _has(self, path: str, session: str) -> bool:
        with (
            suppress(FileNotFoundError, SessionGoneError),
            _opened(path) as query,
            closing(self._reader.rows(query, session, {}, _changed(path))) as rows,
        ):
            return any(row.number >= 0 for row in rows)
        return False

    def older(self, path: str) -> str | None:
        """Return the path of a session in older tables; None if it is in the oldest."""
        database, session = self._split(path)
        _, slash, name = session.rpartition("/")
        return f"{database}/{name}" if slash else None

    def _paths(self) -> list[str]:
        folders = [self._folder]
        for name in self._within:
            folders = [f"{one}/{each}" for one in folders for each in (_names_in(one) if name == "*" else (name,))]
        return [f"{one}/{name}" for one in folders for name in _names_in(one) if self._names.fullmatch(name)]

    def _split(self, path: str) -> tuple[str, str]:
        """Return the path of the database, and the session's name."""
        names = path[len(self._folder) + 1 :].split("/", len(self._within) + 1)
        return "/".join((self._folder, *names[:-1])), names[-1]

    def unread(self, tables: re.Pattern[str]) -> dict[tuple[str, str], int]:
        """Return (path of a database, table) -> number of rows, for tables whose names do not match. A database that
        cannot be read is left out."""
        listed = "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite#_%' ESCAPE '#'"
        counts: dict[tuple[str, str], int] = {}
        for path in self._paths():
            with suppress(OSError), _opened(path) as query:
                others = [name for (name,) in query(listed) if not tables.fullmatch(name)]
                counts |= {(path, name): _rows_of(query, name) for name in others}
        return {place: rows for place, rows in counts.items() if rows}

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        chunk = self.read_from(path, Position(), limit)
        return chunk.data, chunk.mtime

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        """Return the position after so many rows of a session. Raises `ReplacedError` and `OSError`."""
        database, session = self._split(path)
        if offset == 0:
            return Position()
        taken: dict[str, int] = {}
        before: dict[str, int] = {}
        with _opened(database) as query, _present(session):
            all_numbers = self._reader.numbers(query, session)
            if all_numbers is None:
                return Position(offset)
            with closing(all_numbers) as numbers:
                for owner, number in itertools.islice(numbers, offset):
                    before = {owner: number}
                    taken[owner] = number + 1
            if sum(taken.values()) != offset:
                raise ReplacedError
            with closing(self._reader.rows(query, session, taken | before, _changed(database))) as rows:
                if crc is not None and zlib.crc32(next(rows).line) != crc:
                    raise ReplacedError
        return Position(offset, taken=taken)

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        """Read rows until they have at least `limit` bytes. Raises `OSError`."""
        database, session = self._split(path)
        taken = dict(position.taken)
        lines: list[bytes] = []
        size, at = 0, 0
        with _opened(database) as query, _present(session):
            changed = _changed(database)
            with closing(self._reader.rows(query, session, position.taken, changed)) as rows:
                for row in rows:
                    lines.append(row.line + b"\n")
                    size += len(row.line) + 1
                    taken[row.owner] = max(taken.get(row.owner, 0), row.number + 1)
                    taken.pop(key := f"{row.owner}/{row.number}", None)
                    if row.state is not None:
                        taken[key] = row.state
                    at = row.time
                    if size >= limit:
                        break
        return Chunk(b"".join(lines), Position(position.offset + len(lines), taken=taken), at or changed)


def _names_in(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _changed(path: str) -> int:
    """Return when a database was last written, in ms since the epoch. While an agent has it open, what it writes is in
    the write-ahead log."""
    changed = os.stat(path).st_mtime_ns
    with suppress(OSError):
        changed = max(changed, os.stat(f"{path}-wal").st_mtime_ns)
    return changed // 1_000_000


def _rows_of(query: Query, table: str) -> int:
    quoted = table.replace('"', '""')
    return next(int(count) for (count,) in query(f'SELECT count(*) FROM "{quoted}"'))


@contextmanager
def _present(session: str) -> Iterator[None]:
    try:
        yield
    except SessionGoneError:
        raise FileNotFoundError(errno.ENOENT, "the session is deleted", session) from None


@contextmanager
def _opened(path: str) -> Iterator[Query]:
    """Open a database for one transaction. Raises `OSError`, also for whatever SQLite says."""
    before = state_of(path)
    if before is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    is_idle = not os.path.exists(f"{path}-wal")
    place = f"file:{quote(path)}?{'immutable=1' if is_idle else 'mode=ro'}"
    try:
        connection = sqlite3.connect(place, timeout=LOCK_TIMEOUT, uri=True, isolation_level=None)
        try:
            connection.execute("BEGIN")
            yield connection.execute
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), path) from error
    if is_idle and state_of(path) != before:  # it was opened meanwhile, so what was read may be of two states
        raise OSError(errno.EAGAIN, "the agent has just opened it", path)


# -- folders of files -------------------------------------------------------------------------------------------------

ATTEMPTS = 3
DOCUMENT_BLOCK = 1024 * 1024


class SessionFolders:
    """The sessions of an agent that are folders of files, each presented as one document composed of them. The files
    are read by the agent's reader (`catalog/dialect.py`). If the agent deletes a file meanwhile, because there is a
    newer one, the document is composed again. The path of a session is that of its first file
    (`FolderReader.files`)."""

    def __init__(self, reader: FolderReader) -> None:
        self._reader = reader

    def session_of(self, path: str) -> str | None:
        """Return the path of the session to which a file may belong; None if it belongs to none."""
        folder, name = os.path.split(path)
        above, inner = os.path.split(folder)
        main, *others = self._reader.files
        if name in others:
            return os.path.join(folder, main)
        return os.path.join(above, main) if f"{inner}/" in others else None

    def look_at(self, path: str) -> Found:
        """Return the state of a session: total size and last change of its files. Raises `OSError`."""
        folder = os.path.dirname(path)
        status = os.lstat(path)
        size, mtime = status.st_size, status.st_mtime_ns
        for one in _listed(folder, self._reader.files[1:]):
            try:
                status = os.lstat(one)
            except FileNotFoundError:
                continue
            size, mtime = size + status.st_size, max(mtime, status.st_mtime_ns)
        return Found(path, size, mtime)

    def head(self, path: str, limit: int) -> tuple[bytes, int]:
        """Return the document, and the time of the last change in ms since the epoch; of one that has more than `limit`
        bytes, at least as many. Raises `OSError`."""
        for attempt in range(ATTEMPTS):
            mtime = self.look_at(path).mtime_ms
            try:
                return self._reader.document(_Folder(os.path.dirname(path), limit)), mtime
            except _AboveLimitError:
                return bytes(limit + 1), mtime
            except FileNotFoundError as error:
                if not os.path.lexists(path):  # the session has been deleted
                    raise
                if attempt == ATTEMPTS - 1:
                    reason = f"a file that this session names is missing: {error.filename}"
                    raise OSError(errno.EINVAL, reason, path) from error
            except (LookupError, TypeError, ValueError) as error:
                raise OSError(errno.EINVAL, f"not a session of a known form: {error!r}", path) from error
        raise AssertionError("the last attempt returns or raises")

    def position_after(self, path: str, offset: int, crc: int | None) -> Position:
        return position_after(path, offset, crc)

    def read_from(self, path: str, position: Position, limit: int) -> Chunk:
        return read_from(path, position, limit)


class _AboveLimitError(Exception):
    """The files of a session have more bytes than the limit."""


class _Folder:
    """Implements `Folder`."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = os.path.realpath(path)
        self._limit = limit
        self._left = limit

    def names(self, folder: str) -> list[str]:
        with os.scandir(self._inside(folder)) as entries:
            names = [entry.name for entry in entries]
        self._take(sum(map(len, names)))
        return names

    def read(self, name: str) -> bytes:
        data = read_head(self._inside(name), self._left + 1)[0]
        self._take(len(data))
        return data

    def lines(self, name: str, end: bytes) -> Iterator[bytes]:
        with (
            opened(self._inside(name)) as (descriptor, _),
            open(descriptor, "rb", DOCUMENT_BLOCK, closefd=False) as file,
        ):
            while line := file.readline(self._limit + 1):
                last = line
                while not last.endswith(b"\n") and (more := file.readline(self._limit + 1)):
                    last = last[-len(end) :] + more
                if last.endswith(end):
                    self._take(len(line))
                    yield line

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _AboveLimitError

    def _inside(self, name: str) -> str:
        """Return the path of a file named in another file. Raises `FileNotFoundError` if it is outside the folder."""
        path = os.path.join(self._path, name)
        if os.path.realpath(path) != path or not path.startswith(f"{self._path}/"):
            raise FileNotFoundError(errno.ENOENT, "not in the session's folder", path)
        return path


def _listed(folder: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith("/"):
            yield path
            continue
        try:
            with os.scandir(path) as entries:
                yield from [entry.path for entry in entries]
        except FileNotFoundError:  # a new session
            continue
