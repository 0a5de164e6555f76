"""Finds every intact row of a damaged file, on whatever page it is: its checksum says of which table it is, and that it
is right."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from tooltap.daemon.journal.sqlite.checksums import event_sum, piece_sum, row_sum
from tooltap.daemon.journal.sqlite.contents import unpacked
from tooltap.daemon.journal.sqlite.upkeep.pages import Cell, Pages

__all__ = ["Rows", "salvage"]

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

Found: TypeAlias = tuple[Any, tuple[Any, ...] | None]
WRONG: Found = (None, None)


def _summed(table: str, *, rowid: bool = False, keys: int = 1) -> Callable[[Cell], Found]:
    """`rowid`: the first column is the row id, which a cell does not repeat. `keys`: how many columns are the key."""

    def read(cell: Cell) -> Found:
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


def _stored(table: str, keys: int = 1) -> Callable[[Cell], Found]:
    """A row of a table with row ids that are no column."""

    def read(cell: Cell) -> Found:
        if cell.rowid is None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _keyed(table: str, keys: int = 1) -> Callable[[Cell], Found]:
    """A row of a table without row ids."""

    def read(cell: Cell) -> Found:
        if cell.rowid is not None or not _is_right(table, cell.values):
            return WRONG
        return tuple(cell.values[:keys]), tuple(cell.values)

    return read


def _event(cell: Cell) -> Found:
    _, source, label, agent, body, checksum = cell.values
    seq = cell.rowid
    try:
        if seq is None or event_sum(seq, source, label, agent, body) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, AttributeError, UnicodeError):
        return WRONG
    return seq, (seq, source, label, agent, body, checksum)


def _tail(cell: Cell) -> Found:
    _, stream, records, checksum = cell.values
    if cell.rowid is None or cell.values[0] is not None or not isinstance(stream, str) or not isinstance(checksum, int):
        return WRONG
    try:
        base = checksum - row_sum("tail", stream, records)  # type: ignore[arg-type]
    except (TypeError, UnicodeError):
        return WRONG
    # Whether the base is right is seen with the rows before it.
    return (cell.rowid, (cell.rowid, stream, records, checksum)) if 0 <= base < 2**31 else WRONG


def _piece(cell: Cell) -> Found:
    """Verified with its content."""
    body, start, newlines, data, content, checksum = cell.values
    if cell.rowid is None or not all(isinstance(one, int) for one in (body, start, newlines, checksum)):
        return WRONG
    if not isinstance(data, bytes) or not isinstance(content, int | None):
        return WRONG
    return (body, start), (body, start, newlines, data, content, checksum)


def _content(cell: Cell) -> Found:
    _, digest, uses, size, data, checksum = cell.values
    try:
        if cell.rowid is None or row_sum("contents", digest, size, data) != checksum:  # type: ignore[arg-type]
            return WRONG
    except (TypeError, UnicodeError):
        return WRONG
    return cell.rowid, (cell.rowid, digest, uses, size, data, checksum)


_TABLES: dict[str, Callable[[Cell], Found]] = {
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
