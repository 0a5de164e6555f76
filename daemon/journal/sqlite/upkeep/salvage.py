"""Finds every intact row of a damaged file, on whatever page it is.

The checksum of a row says of which table it is, and that it is right. The pages are read as bytes, without SQLite: what
it refuses to read as a whole is often intact in parts. A page comes from the write-ahead log if that has a later
version of it. Each frame of the log is verified alone, with the checksum that the frame before it states: SQLite
ignores everything after a damaged frame; this does not.

https://www.sqlite.org/fileformat2.html describes the format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tooltap.daemon.journal.sqlite.file import MAGIC, PAGE_SIZE
from tooltap.daemon.journal.sqlite.tables import event_sum, piece_sum, row_sum, unpacked

Rows: TypeAlias = dict[str, dict[Any, tuple[Any, ...]]]
"""Table -> key -> row, with all columns."""


def salvage(path: Path, progress: Callable[[int, int], None] = lambda done, pages: None) -> Rows:
    """The rows of each table. `progress`: called with the number of pages that were read, and of all."""
    pages = Pages(path)
    try:
        rows: Rows = {table: {} for table in _TABLES}
        for number in pages.live_pages():
            if number % 1_000 == 0:
                progress(number, pages.count)
            for cell in pages.cells(number):
                _sort_in(rows, cell)
    finally:
        pages.close()
    _drop_wrong_pieces(rows)
    return rows


def _sort_in(rows: Rows, cell: Cell) -> None:
    for table in _BY_COLUMNS.get(len(cell.values), ()):
        key, row = _TABLES[table](cell)
        if row is None:
            continue
        other = rows[table].get(key)
        if other is None or _NEWER.get(table, _first)(row, other):
            rows[table][key] = row
        return


def _first(row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return False


# A page that was moved may be there twice; the newer row is the one that says more.
_NEWER: dict[str, Callable[[tuple[Any, ...], tuple[Any, ...]], bool]] = {
    "streams": lambda row, other: (row[2], row[3]) > (other[2], other[3]),
    "snapshots": lambda row, other: row[1] > other[1],
    "sessions": lambda row, other: row[1] > other[1],
    "bodies": lambda row, other: row[4] > other[4],
}

KeyedRow: TypeAlias = tuple[Any, tuple[Any, ...] | None]
WRONG: KeyedRow = (None, None)


def _summed(table: str, *, rowid: bool = False, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """`rowid`: the first column is the row id, which a cell does not repeat. `keys`: how many columns are the key."""

    def read(cell: Cell) -> KeyedRow:
        values = [cell.rowid, *cell.values[1:]] if rowid else cell.values
        if (cell.rowid is None) == rowid or (rowid and cell.values[0] is not None):
            return WRONG
        return (tuple(values[:keys]), tuple(values)) if _is_right(table, values) else WRONG

    return read


def _is_right(table: str, values: Iterable[Any]) -> bool:
    *covered, checksum = values
    try:
        return bool(row_sum(table, *covered) == checksum)
    except (TypeError, OverflowError, UnicodeError):
        return False


def _stored(table: str, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """A row of a table with row ids that are no column."""

    def read(cell: Cell) -> KeyedRow:
        if cell.rowid is None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _keyed(table: str, keys: int = 1) -> Callable[[Cell], KeyedRow]:
    """A row of a table without row ids."""

    def read(cell: Cell) -> KeyedRow:
        if cell.rowid is not None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _event(cell: Cell) -> KeyedRow:
    _, source, label, agent, body, checksum = cell.values
    seq = cell.rowid
    try:
        if seq is None or event_sum(seq, source, label, agent, body) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, AttributeError, UnicodeError):
        return WRONG
    return seq, (seq, source, label, agent, body, checksum)


def _tail(cell: Cell) -> KeyedRow:
    _, stream, records, checksum = cell.values
    if cell.rowid is None or cell.values[0] is not None or not isinstance(stream, str) or not isinstance(checksum, int):
        return WRONG
    try:
        base = checksum - row_sum("tail", stream, records)  # type: ignore[arg-type]
    except (TypeError, UnicodeError):
        return WRONG
    # Whether the base is right is seen with the rows before it.
    return (cell.rowid, (cell.rowid, stream, records, checksum)) if 0 <= base < 2**31 else WRONG


def _piece(cell: Cell) -> KeyedRow:
    """Verified with its content."""
    body, start, newlines, data, content, checksum = cell.values
    if cell.rowid is None or not all(isinstance(one, int) for one in (body, start, newlines, checksum)):
        return WRONG
    if not isinstance(data, bytes) or not isinstance(content, int | None):
        return WRONG
    return (body, start), (body, start, newlines, data, content, checksum)


def _content(cell: Cell) -> KeyedRow:
    _, digest, uses, size, data, checksum = cell.values
    try:
        if cell.rowid is None or row_sum("contents", digest, size, data) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, UnicodeError):
        return WRONG
    return cell.rowid, (cell.rowid, digest, uses, size, data, checksum)


_TABLES: dict[str, Callable[[Cell], KeyedRow]] = {
    "meta": _keyed("meta"),
    "session_streams": _keyed("session_streams", 2),
    "gaps": _summed("gaps", rowid=True),
    "sources": _summed("sources", rowid=True),
    "snapshots": _stored("snapshots"),
    "sessions": _stored("sessions"),
    "events": _event,
    "labels": _summed("labels", rowid=True),
    "contents": _content,
    "calls": _stored("calls", 3),
    "bodies": _summed("bodies", rowid=True),
    "streams": _stored("streams"),
    "tail": _tail,
    "pieces": _piece,
}
_COLUMNS = {
    **dict.fromkeys(("meta", "session_streams", "gaps"), 3),
    **dict.fromkeys(("sources", "snapshots", "tail"), 4),
    **dict.fromkeys(("events", "labels", "contents", "pieces"), 6),
    "calls": 7,
    **dict.fromkeys(("bodies", "sessions", "streams"), 8),
}
_BY_COLUMNS = {
    number: [table for table in _TABLES if _COLUMNS[table] == number] for number in sorted(set(_COLUMNS.values()))
}


def _drop_wrong_pieces(rows: Rows) -> None:
    contents, pieces = rows["contents"], rows["pieces"]
    for key in [key for key, row in pieces.items() if not _piece_is_right(row, contents)]:
        del pieces[key]


def _piece_is_right(row: tuple[Any, ...], contents: dict[Any, tuple[Any, ...]]) -> bool:
    body, start, newlines, data, content, checksum = row
    if content is not None:
        found = contents.get(content)
        if found is None:
            return False
        try:
            data = unpacked(found[4], found[3])
        except zlib.error:
            return False
    return bool(piece_sum(body, start, newlines, data, content) == checksum)


# -- pages -----------------------------------------------------------------------------------------------------------

Value: TypeAlias = int | float | str | bytes | None

LEAF, INNER = 0x0D, 0x05
INDEX_LEAF, INDEX_INNER = 0x0A, 0x02
FREE, ROOT, BTREE = 2, 1, 5
"""Types of pages in the pointer map."""
HEADER, FRAME = 32, 24
"""Bytes of the header of the log, and of a frame's."""
MOST_COLUMNS = 16


class Cell(NamedTuple):
    """A row on a page."""

    rowid: int | None
    """None in a table without row ids."""
    values: list[Value]


class Pages:
    """The pages of a file and its write-ahead log. Only their positions are in memory: pages are read one by one."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._size = _page_size(self._file.read(100))
        self._file.seek(0, 2)
        self._in_file = -(-self._file.tell() // self._size)
        self._log, self._frames = self._read_log(Path(f"{path}-wal"))
        self.count = max([self._in_file, *self._frames])

    def close(self) -> None:
        self._file.close()

    def page(self, number: int) -> bytes:
        """Read a page; missing bytes are zeros."""
        start = self._frames.get(number)
        if start is not None:
            return self._log[start : start + self._size]
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size).ljust(self._size, b"\0")

    def live_pages(self) -> Iterator[int]:
        """The pages that are not free, as the pointer map says: a free page may hold what was deleted."""
        free = self._free_pages()
        per_map = self._size // 5
        for number in range(2, self.count + 1):
            behind = (number - 2) % (per_map + 1)
            if behind == 0:
                continue
            entry = self.page(number - behind)[(behind - 1) * 5]
            if entry in (ROOT, BTREE) or (entry not in (FREE, 3, 4) and number not in free):
                yield number

    def cells(self, number: int) -> Iterator[Cell]:
        """The rows on a page that can be read. Nothing says yet that they are right."""
        page = self.page(number)
        kind = page[0]
        if kind == INNER:
            return
        if kind not in (LEAF, INDEX_LEAF, INDEX_INNER):
            kind = LEAF
        inner = kind == INDEX_INNER
        (count,) = struct.unpack_from(">H", page, 3)
        start = 12 if inner else 8
        for position in range(start, min(start + 2 * count, self._size - 1), 2):
            (offset,) = struct.unpack_from(">H", page, position)
            with suppress(IndexError, ValueError, struct.error, OverflowError):
                yield self._cell(page, offset + (4 if inner else 0), kind)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _cell(self, page: bytes, at: int, kind: int) -> Cell:
        """Raises `IndexError`, `ValueError`, `struct.error`."""
        length, at = _varint(page, at)
        rowid = None
        usable = self._size
        if kind == LEAF:
            rowid, at = _varint(page, at)
            rowid = rowid - (1 << 64) if rowid >> 63 else rowid
            most = usable - 35
        else:
            most = (usable - 12) * 64 // 255 - 23
        if length > self.count * usable:
            raise ValueError
        if length <= most:
            return Cell(rowid, _values(page[at : at + length], length))
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        payload = [page[at : at + local]]
        left = length - local
        (following,) = struct.unpack_from(">I", page, at + local)
        while left > 0:
            if not 1 < following <= self.count:
                raise ValueError
            overflow = self.page(following)
            payload.append(overflow[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
            (following,) = struct.unpack_from(">I", overflow)
        return Cell(rowid, _values(b"".join(payload), length))

    def _free_pages(self) -> set[int]:
        free: set[int] = set()
        (trunk,) = struct.unpack_from(">I", self.page(1), 32)
        while 1 < trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self.page(trunk)
            trunk, count = struct.unpack_from(">II", page)
            count = min(count, self._size // 4 - 2)
            free.update(struct.unpack_from(f">{count}I", page, 8))
        return free

    def _read_log(self, path: Path) -> tuple[bytes, dict[int, int]]:
        """The log, and where in it the latest intact version of a page is."""
        try:
            log = path.read_bytes()
        except FileNotFoundError:
            return b"", {}
        frames: dict[int, int] = {}
        pending: dict[int, int] = {}
        if len(log) < HEADER + FRAME:
            return log, frames
        order = ">" if log[3] & 1 else "<"
        step = FRAME + self._size
        # The header's, unless it is damaged: then most of the first frames agree on others.
        stated = [log[16:24], *(log[at + 8 : at + 16] for at in range(HEADER, len(log) - FRAME, step))][:4]
        salts = max(stated, key=stated.count)
        before = struct.unpack_from(">II", log, 24)
        for start in range(HEADER, len(log) - step + 1, step):
            number, committed = struct.unpack_from(">II", log, start)
            if log[start + 8 : start + 16] != salts:  # of an earlier log, or damaged
                before = struct.unpack_from(">II", log, start + 16)
                continue
            data = start + FRAME
            checksum = _log_checksum(log[start : start + 8] + log[data : data + self._size], order, before)
            before = struct.unpack_from(">II", log, start + 16)
            if checksum == before and number > 0:
                pending[number] = data
                if committed:
                    frames |= pending
                    pending = {}
        return log, frames


def _page_size(head: bytes) -> int:
    if len(head) < 18 or head[:16] != MAGIC:
        return PAGE_SIZE
    (size,) = struct.unpack_from(">H", head, 16)
    return size if size in (512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768) else PAGE_SIZE


def _log_checksum(data: bytes, order: str, before: tuple[Any, ...]) -> tuple[int, int]:
    first, second = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(at, at + 8):
        byte = data[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    return value << 8 | data[at + 8], at + 9


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Serial type -> bytes."""


def _values(payload: bytes, length: int) -> list[Value]:
    """Raises `IndexError`, `ValueError`."""
    if len(payload) != length:
        raise ValueError
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
        if len(kinds) > MOST_COLUMNS:
            raise ValueError
    values: list[Value] = []
    at = end
    for kind in kinds:
        size = _INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        data = payload[at : at + size]
        if len(data) != size:
            raise ValueError
        at += size
        if kind in _INTEGERS:
            values.append(int.from_bytes(data, "big", signed=True))
        elif kind >= 12:
            values.append(data.decode() if kind % 2 else data)
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind == 7:
            values.append(struct.unpack(">d", data)[0])
        elif kind == 0:
            values.append(None)
        else:
            raise ValueError
    return values
