"""The SQLite file: its format version, lock and permissions, connections to it, and its side files.

One daemon owns a journal; the lock file beside it holds the owner's pid. The file and SQLite's side files (`-wal`,
`-shm`, which inherit its mode) are private to the user, whatever the umask. In a folder like `/tmp`, where every user
may create files but not replace those of others, the side files are created before SQLite opens them. SQLite would use
a log that another user has planted: it would read it into the journal, or write to it, for that user to read.
"""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import stat
import struct
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from tooltap.daemon.journal.interface import REMOVED, CorruptError, JournalError, decode_removed
from tooltap.daemon.journal.sqlite.damage import is_corrupt, is_unreadable
from tooltap.daemon.journal.sqlite.tables import (
    FORMAT,
    REQUESTS_TABLE,
    TABLES,
    add_functions,
    get_meta,
    note_key,
    set_meta,
    verified_meta,
)
from tooltap.daemon.system.shell import shell_line
from tooltap.protocol.stats import RetentionStatistics
from tooltap.traces.recording.own_file import (
    LockedError,
    NotOursError,
    is_shared,
    lock_own,
    open_own,
    steady_folder,
    without_planted_links,
)

Durability: TypeAlias = Literal["process", "power"]
"""`process`: a commit survives the death of the daemon; `power`: a power failure too."""

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}
PAGE_SIZE = 8_192
MAGIC = b"SQLite format 3\0"
PLACE = "place"
"""Key in `meta` of the path at which the journal was opened last."""
WAL_LIMIT = 64 * 1024 * 1024
STAMP_OFFSET = 60
"""Place of `user_version` in SQLite's header."""
LAST_STAMP = 2**31 - 1
LOG_HEADER, FRAME_HEADER = 32, 24
"""Bytes of the headers of the log, and of each of its frames: see https://www.sqlite.org/walformat.html."""
INDEX_HEADER = 48
"""Bytes of the header of the log's index (`-shm`), which is there twice."""


class JournalLock:
    """The lock of a journal, held while its daemon lives; the kernel releases it however the daemon dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = f"{path}.lock"
        try:
            self._descriptor = lock_own(self._name)
        except LockedError as error:
            raise JournalError(f"the journal {path} is used by another daemon (pid {error or 'unknown'})") from None
        except NotOursError as error:
            raise JournalError(f"{path}.lock cannot be the journal's lock: {error.strerror}; move it away") from None
        try:
            claim_side_files(path)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        with suppress(OSError):
            _is_lost(self._name, self._descriptor)
        os.close(self._descriptor)

    def renew(self) -> str:
        """Lock the file again if it was removed. Returns why that is not possible, in one sentence; empty if the
        journal is locked."""
        try:
            if not _is_lost(self._name, self._descriptor):
                return ""
        except OSError:  # the disk does not say whether it was removed
            return ""
        try:
            descriptor = lock_own(self._name)
        except LockedError as error:
            daemon = f"another daemon (pid {error or 'unknown'})"
            return f"{daemon} has opened the journal {self._path}, whose lock was removed: stop one of them"
        except OSError as error:
            return f"the journal's lock {self._name} was removed, and cannot be made again: {error.strerror}"
        os.close(self._descriptor)
        self._descriptor = descriptor
        return ""


class OpenFiles:
    """The files of an open journal. SQLite goes on with a file that was removed, renamed or replaced, and what it
    commits there is lost when the daemon ends. So the writer asks before and after each commit.

    Can be used in several threads.
    """

    def __init__(self, path: Path, lock: JournalLock, stamp: int) -> None:
        """`stamp`: that which the file has, or gets when the log is copied into it, see `write_stamp`."""
        self._path = path
        self._known: dict[str, tuple[int, int]] = {}
        # It stays open: with any descriptor of a file, a process closes its locks on it, SQLite's too.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._stamps = [stamp]
        """Those that the file may have, oldest first: it gets one when SQLite copies its log into it."""
        self._stamping = threading.Lock()
        with suppress(OSError):
            self._stamps.insert(0, self._stamp_of_file())
        self._log: tuple[int, int] | None = None
        """Descriptors of the log and its index. They stay open for the same reason."""
        with suppress(OSError):
            log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._log = log, os.open(f"{path}-shm", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                os.close(log)
        for name in (str(path), f"{path}-wal"):
            with suppress(OSError):
                if (known := _identity(name)) is not None:
                    self._known[name] = known
        self._lock = lock
        self._one_at_a_time = threading.Lock()

    def problem(self) -> str:
        """Return one sentence on what has happened to the files; empty if they are where they were."""
        with self._one_at_a_time:
            if name := self.overwritten():
                return f"{name} was overwritten in use: restart the daemon, which then serves what is there now"
            for name, known in self._known.items():
                try:
                    is_there = _identity(name) == known
                except OSError:  # the disk says nothing now, and that is no reason to refuse what it takes
                    continue
                if not is_there:
                    return f"{name} was removed, renamed or replaced in use: put it back, or restart the daemon"
            return self._lock.renew()

    def overwritten(self) -> str:
        """Return the path of the file or the log if another program has written over it; empty if none has. Can be
        used in any thread."""
        if self._is_file_overwritten():
            return str(self._path)
        return f"{self._path}-wal" if self._is_log_overwritten() else ""

    def _is_file_overwritten(self) -> bool:
        """As `cp` does, so that it lacks our stamp."""
        try:
            for _ in range(2):  # SQLite may be writing it
                with self._stamping:
                    found = self._stamp_of_file()
                    if found in self._stamps:
                        self._stamps = self._stamps[self._stamps.index(found) :]
                        return False
        except OSError:
            return False
        return True

    def _is_log_overwritten(self) -> bool:
        """Whether the log's header and its last frame are not what SQLite has written. It would append to a garbled
        log, and nobody could read what it appends; and it would copy the garbled pages into the file."""
        try:
            return all(self._is_log_garbled() for _ in range(2))  # the disk may fail once
        except OSError:
            return False

    def _is_log_garbled(self) -> bool:
        """Raises `OSError`."""
        if self._log is None:
            return False
        log, index = self._log
        found = os.pread(index, 2 * INDEX_HEADER, 0)
        if len(found) < 2 * INDEX_HEADER or found[:INDEX_HEADER] != found[INDEX_HEADER:]:  # SQLite is writing it
            return False
        page, frames, *sums, salts = struct.unpack("=14xHI4x2I8s8x", found[:INDEX_HEADER])
        if not frames:
            return False
        head = os.pread(log, LOG_HEADER, 0)
        frame = os.pread(log, FRAME_HEADER, LOG_HEADER + (frames - 1) * (FRAME_HEADER + page))
        if head[16:24] == salts and frame[8:] == salts + struct.pack(">2I", *sums):
            return False
        return os.pread(index, 2 * INDEX_HEADER, 0) == found  # else SQLite has begun the log anew meanwhile

    def restamp(self, connection: sqlite3.Connection) -> None:
        """Stamp the file anew, so that a copy that was made before can be told from it. Raises `sqlite3.Error`."""
        stamp = secrets.randbelow(LAST_STAMP) + 1
        with self._stamping:
            self._stamps.append(stamp)
        write_stamp(connection, stamp)

    def _stamp_of_file(self) -> int:
        found = os.pread(self._descriptor, 4, STAMP_OFFSET)
        return int.from_bytes(found, "big") if len(found) == 4 else -1

    def is_read_only(self) -> bool:
        """Whether the file system has become read-only, as after an error of its disk; SQLite says only that the disk
        failed."""
        try:
            os.utime(f"{self._path}.lock")
        except OSError as error:
            return error.errno == errno.EROFS
        return False

    def close(self) -> None:
        """Call after SQLite has closed the file."""
        for one in (self._descriptor, *(self._log or ())):
            os.close(one)


def write_stamp(connection: sqlite3.Connection, stamp: int) -> None:
    """Write a number into the header of the file (`user_version`). Whoever overwrites the file with a copy that was
    made before brings back another number, which `OpenFiles` notices; SQLite does not. Raises `sqlite3.Error`."""
    connection.execute(f"PRAGMA user_version={stamp}")


def set_log_aside(path: Path) -> Path | None:
    """Rename the log of a file that was overwritten, which would garble what is there now. Returns its new path; None
    if there is none. Raises `OSError`."""
    aside = Path(f"{path}-wal.overwritten")
    Path(f"{path}-shm").unlink(missing_ok=True)
    try:
        os.replace(f"{path}-wal", aside)
    except FileNotFoundError:
        return None
    return aside


def _identity(file: str | int) -> tuple[int, int] | None:
    """Return device and inode of a file; None if there is none. Raises `OSError`."""
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _is_lost(name: str, descriptor: int) -> bool:
    """Whether the name of an open file leads to another one, or to none. If the file has a second name, the first one
    is removed: the next daemon opens no such file, and whoever copied the folder by links wants what was there then.
    Raises `OSError`."""
    if _identity(name) != _identity(descriptor):
        return True
    if os.fstat(descriptor).st_nlink < 2:
        return False
    os.unlink(name)
    return True


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection to an existing file, in autocommit mode: transactions are begun explicitly."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute(f"PRAGMA synchronous={SYNCHRONOUS[durability]}")
    add_functions(connection)
    return connection


def connect_guard(path: Path) -> sqlite3.Connection:
    """A connection to an existing file that cannot write. If it is the last one to be closed, SQLite does not copy the
    log into the file. Raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    guard = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
    guard.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only now has it opened the log
    return guard


def swap_path(path: Path) -> Path:
    return Path(f"{path}.swap")


def finish_swap(path: Path) -> None:
    """Finish the replacement of a damaged journal that `repair.py` has begun. The caller holds the lock."""
    swap = swap_path(path)
    if not swap.exists():
        return
    try:
        os.close(open_own(swap, os.O_RDONLY))
    except NotOursError as error:
        raise JournalError(f"{swap} cannot be a repaired journal: {error.strerror}; move it away") from None
    for suffix in ("-wal", "-shm"):  # the damaged file's; they would garble the new one
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    os.replace(swap, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_foreign(path: Path) -> None:
    """Check an existing file before touching it or creating side files. Raises `JournalError` if it is not a
    journal."""
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            head = file.read(len(MAGIC))
    except FileNotFoundError:
        return
    except NotOursError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from None
    if not head:
        return
    if head != MAGIC:
        if high_water_path(path).exists():
            raise JournalError(f"the journal {path} is damaged in its first page; run `tooltap journal repair`")
        raise JournalError(f"{path} is not a tooltap journal: file is not a database")
    try:
        try:
            _check_tables(path, "mode=ro")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            # Whoever wrote to it was killed, as a daemon that was creating it. SQLite would have to undo that first; so
            # the file is looked at as it is.
            _check_tables(path, "immutable=1")
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise _not_opened(path, error) from None
        raise JournalError(f"the journal {path} cannot be opened: {error}; run `tooltap journal repair`") from None


def _check_tables(path: Path, how: str) -> None:
    check_side_files(path)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
        if tables := _tables(connection):  # a process killed while creating a journal leaves no tables
            _check_format(connection, path, tables)


def create_or_check(path: Path, durability: Durability) -> sqlite3.Connection:
    """Open the file for writing. An empty file becomes a journal. Raises `JournalError` for a file that is not a
    journal of this format."""
    # Read the mark before creating the file: an existing file that is empty has lost its events; a removed one is a
    # fresh start.
    mark = read_high_water(path) if path.exists() else None
    try:
        # To read, which allows a second name: a repair that was killed leaves one.
        descriptor = open_own(path, os.O_RDONLY | os.O_CREAT)
    except NotOursError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from None
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    connection = connect(path, durability)
    try:
        # The first three take effect only in this order, and before the first table is created.
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        tables = _tables(connection)
        claim_side_files(path)
        if not tables:
            _create(connection, secrets.token_hex(8) if mark is None else mark.journal)
        _check_format(connection, path, tables)
        _claim(connection, path)
        if tables and "requests" not in tables:
            _add_requests(connection)
        with suppress(sqlite3.Error):  # on a full disk, it keeps the one that it has
            write_stamp(connection, secrets.randbelow(LAST_STAMP) + 1)
        if durability == "power":  # the last daemon may have been killed before it synced what it had written
            copy_log(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _claim(connection: sqlite3.Connection, path: Path) -> None:
    """Record where the journal is, in the file itself. Raises `JournalError` if a daemon has opened the file under
    another of its names, which has another lock and another log. In a folder that is mounted twice, or where case does
    not matter, another name has the same ones."""
    known = verified_meta(connection, PLACE)
    if known == str(path):
        return
    if (
        isinstance(known, str)
        and _identity(known) == _identity(str(path))
        and _identity(f"{known}.lock") != _identity(f"{path}.lock")  # else it is ours, by another name of it
    ):
        try:
            os.close(lock_own(f"{known}.lock"))
        except LockedError as error:
            daemon = f"another daemon (pid {error or 'unknown'})"
            raise JournalError(f"the journal {path} is used by {daemon}, under its other name {known}") from None
    set_meta(connection, PLACE, str(path))
    copy_log(connection)  # the log of another name is another file


def copy_log(connection: sqlite3.Connection) -> None:
    """Copy the write-ahead log into the file, sync that, and empty the log. Raises `sqlite3.OperationalError`."""
    busy, _, _ = connection.execute("PRAGMA main.wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise sqlite3.OperationalError("its write-ahead log is in use")


def copy_some(connection: sqlite3.Connection) -> None:
    """Run a passive checkpoint: copy as much of the write-ahead log into the file as readers allow. SQLite does so
    automatically after large commits, but does not report when that fails and the log grows. Raises `JournalError`."""
    try:
        connection.execute("PRAGMA main.wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:
        raise JournalError(f"the journal's write-ahead log cannot be copied into it: {error}") from error


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a journal for reading, even while a daemon writes to it. Raises `JournalError`: a `CorruptError` if a repair
    may help."""
    check_side_files(path)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=30)
    except sqlite3.Error as error:
        raise _not_opened(path, error) from None
    add_functions(connection)
    try:
        _check_format(connection, path, _tables(connection) or {"none"})
    except sqlite3.Error as error:
        connection.close()
        raise _not_opened(path, error) from None
    except JournalError:
        connection.close()
        raise
    return connection


def format_of(path: Path) -> int:
    """Read the format version of a journal without changing the file. Raises `JournalError` for other files and
    unknown versions."""
    check_side_files(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _check_format(connection, path, _tables(connection) or {"none"})
    except sqlite3.Error as error:
        raise _not_opened(path, error) from None


def _not_opened(path: Path, error: sqlite3.Error) -> JournalError:
    text = f"the journal {path} cannot be opened: {error}"
    if is_unreadable(error):
        return CorruptError(text)
    if not os.access(path.parent, os.W_OK):  # SQLite creates `-shm` there to read the log
        return JournalError(f"{text}: {path.parent} cannot be written; {COPY_IT}")
    return JournalError(text)


COPY_IT = "copy it, and the files beside it whose names begin like its own, to another folder, and use the copy"
"""What to do with a journal in a folder that cannot be written."""


def _create(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES.split(";\n"):
        connection.execute(statement)
    set_meta(connection, "format", FORMAT)
    set_meta(connection, "id", name)
    set_meta(connection, "next_seq", 1)
    set_meta(connection, "expired", 0)
    set_meta(connection, "tally", "0 0")
    connection.execute("COMMIT")


def _add_requests(connection: sqlite3.Connection) -> None:
    """Add the table that journals of older versions lack. None of their events states a request."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in REQUESTS_TABLE.strip().split(";\n"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}


def _check_format(connection: sqlite3.Connection, path: Path, tables: set[str]) -> int:
    """Check and return the format version. Raises `JournalError` unless it is `FORMAT`: a `CorruptError` if the version
    is not as it was written."""
    version = get_meta(connection, "format") if not tables or "meta" in tables else None
    if not isinstance(version, int):
        raise CorruptError(f"{path} is a database, but not a tooltap journal")
    if version != FORMAT:
        try:
            is_damaged = verified_meta(connection, "format") != version
        except sqlite3.OperationalError:  # another version's table has other columns
            is_damaged = False
        raise (CorruptError if is_damaged else JournalError)(
            f"the journal {path} has format {version}, written by another version of tooltap; this one knows only"
            f" {FORMAT}"
        )
    return version


# -- the files beside it ----------------------------------------------------------------------------------------------

SIDE_FILES = ("-wal", "-shm", "-journal")
ADVICE = "choose another place for the journal"


def steady_place(path: Path) -> Path:
    """Resolve symbolic links in the journal's path. Creates its folder if missing, and checks that no other user may
    replace the journal in it. Raises `JournalError`."""
    try:
        place = Path(without_planted_links(path))
        try:
            steady_folder(place.parent)
        except NotOursError as error:
            advice = f"run {shell_line('chmod', 'go-w', place.parent)}, or {ADVICE}"
            raise JournalError(f"the journal cannot be in {place.parent}: {error.strerror}; {advice}") from None
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from None
    return place


def claim_side_files(path: Path) -> None:
    """Pre-create the side files, empty, so that nobody else can plant them. The caller holds the lock, and calls this
    once more when the journal is created: SQLite removes the side files of a new one. Raises `JournalError` and
    `OSError`."""
    if not is_shared(path.parent):
        return
    for companion in (Path(f"{path}{suffix}") for suffix in SIDE_FILES):
        try:
            os.close(open_own(companion, os.O_RDWR | os.O_CREAT))
        except NotOursError as error:
            raise JournalError(f"{companion} cannot be the journal's: {error.strerror}; {ADVICE}") from None


def journal_files(path: Path) -> list[Path]:
    """The files that hold the events of the journal `path`: the file and its write-ahead log."""
    return [path, Path(f"{path}-wal")]


def index_path(path: Path) -> Path:
    """The search index of the journal `path`."""
    return Path(f"{path}.search")


def index_end(journal: str, upto: int) -> str:
    """The last indexed `seq`, with a checksum: the key `end` in the index of the journal with the id `journal`."""
    return f"{upto} {crc32(f'{journal} {upto}'.encode()):08x}"


def check_side_files(path: Path) -> None:
    """Check, before reading a journal, that its side files belong to the same user. Raises `JournalError`."""
    try:
        if not is_shared(path.parent):
            return
        owner = os.stat(path).st_uid
    except OSError:  # to open it fails as well, and says why
        return
    for companion in (Path(f"{path}{suffix}") for suffix in SIDE_FILES):
        try:
            status = os.lstat(companion)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise JournalError(f"{companion} is not the journal's: another user has put it there")


# -- the high-water mark ----------------------------------------------------------------------------------------------

LENGTH = 128
"""Bytes of the file with the high-water mark."""


class HighWater(NamedTuple):
    """The extent of a journal after a transaction, stored in a side file, so that lost commits are detected.

    SQLite cannot detect that its write-ahead log was deleted or torn, or that the journal was replaced by an older
    copy: the result looks like an earlier, intact journal. So the writer records the number of transactions here after
    each one. A journal that has fewer has lost the newest ones. The `seq` of lost events are not reused: they become a
    gap, so cursors of subscribers stay valid.

    The mark is not synced. After a power failure it may count fewer transactions than the journal has, which is
    harmless, or more: then the newest transactions were lost, as `durability = "process"` allows.
    """

    journal: str
    """Id of the journal."""
    transactions: int
    """Number of transactions."""
    next_seq: int
    expired: int
    """The highest `seq` that retention has deleted."""


def high_water_path(path: Path) -> Path:
    return Path(f"{path}.tip")


def read_high_water(path: Path) -> HighWater | None:
    """Read the mark; None if there is none, or it is damaged."""
    try:
        with open(open_own(high_water_path(path), os.O_RDONLY), "rb") as file:
            text, _, checksum = file.read(LENGTH).decode("ascii").strip().rpartition(" ")
        if crc32(text.encode()) != int(checksum, 16):
            return None
        name, *numbers = text.split()
        return HighWater(name, *map(int, numbers))
    except (FileNotFoundError, ValueError, TypeError):
        return None


class HighWaterFile:
    """The high-water mark of the journal `path`, opened for writing."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`."""
        place = high_water_path(path)
        self._place = str(place)
        self._one_at_a_time = threading.Lock()
        try:
            self._descriptor = open_own(place, os.O_RDWR | os.O_CREAT)
        except NotOursError as error:
            raise NotOursError(str(place), f"{place} does not belong to the journal: {error.strerror}") from None
        if os.fstat(self._descriptor).st_size > LENGTH:
            os.close(self._descriptor)
            raise NotOursError(str(place), f"{place} is too long to belong to the journal; move it away")

    def write(self, mark: HighWater) -> None:
        """Raises `OSError`."""
        text = f"{mark.journal} {mark.transactions} {mark.next_seq} {mark.expired}"
        line = f"{text} {crc32(text.encode()):08x}\n"
        with self._one_at_a_time:
            self._put(line.encode().ljust(LENGTH, b" "))

    def keep(self) -> None:
        """Make the file again if it was removed or replaced, or has a second name. Raises `OSError`."""
        with self._one_at_a_time:
            if self._descriptor >= 0 and _is_lost(self._place, self._descriptor):
                self._put(os.pread(self._descriptor, LENGTH, 0))

    def _put(self, line: bytes) -> None:
        if _is_lost(self._place, self._descriptor):
            descriptor = open_own(self._place, os.O_RDWR | os.O_CREAT)
            os.close(self._descriptor)
            self._descriptor = descriptor
        os.pwrite(self._descriptor, line, 0)

    def close(self) -> None:
        with suppress(OSError):
            self.keep()
        with self._one_at_a_time:
            os.close(self._descriptor)
            self._descriptor = -1


# -- the result of the last scrub -------------------------------------------------------------------------------------

SCRUB_NOTE = "scrub"
"""Name of the note in the journal that holds a `Scrubbed`."""


class Scrubbed(msgspec.Struct):
    """The result of a scrub, stored as a note in the journal. It is here and not in `check.py` to keep the imports of
    `doctor` small."""

    at: int
    """Milliseconds since the epoch."""
    number: int
    damages: list[str]
    """Descriptions of the first damages."""


def removed_by_retention(path: Path) -> RetentionStatistics:
    """Read what retention has removed; nothing if that cannot be read."""
    try:
        with closing(open_read_only(path)) as connection:
            note = verified_meta(connection, note_key(REMOVED))
            return decode_removed(note if isinstance(note, bytes) else None)
    except (JournalError, sqlite3.Error, msgspec.MsgspecError):
        return RetentionStatistics()


def last_scrub(path: Path) -> Scrubbed | None:
    """Read the note of the last scrub. None if there was none, or it cannot be read."""
    try:
        with closing(open_read_only(path)) as connection:
            note = verified_meta(connection, note_key(SCRUB_NOTE))
            return msgspec.json.decode(note, type=Scrubbed) if isinstance(note, bytes) else None
    except (JournalError, sqlite3.Error, msgspec.MsgspecError):
        return None
