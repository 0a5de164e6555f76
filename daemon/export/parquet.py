"""Exports the tables of `tables.py` as Parquet files, one for each table, by DuckDB.

Rows change while events come, so they are collected in a database, as `sqlite.py` writes it, and copied at the end.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import msgspec

from tooltap.daemon.export.source import SessionWriter
from tooltap.daemon.export.sqlite import Database
from tooltap.daemon.export.tables import TABLES, Kind, Table

ROWS = 2_048
"""Rows of a group, which DuckDB holds in memory."""
_LONGEST = 16_777_216
"""Bytes of a row that DuckDB reads by default."""
_TYPES: dict[Kind, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "json": "VARCHAR",
}


class ParquetFolder:
    ENDING: ClassVar = "parquet"
    IS_FOLDER: ClassVar = True

    def __init__(self, path: Path, *, max_text: int, masked: bool) -> None:
        self._folder = path
        self._held = path / "tables.sqlite"
        self._longest = _LONGEST + 12 * max_text  # an input and an output, each character as `\u001f`
        self._database = Database(self._held, max_text=max_text, masked=masked)

    def source(self, name: str, stated: Mapping[str, Any] | None) -> SessionWriter:
        return self._database.source(name, stated)

    def finish(self, *remarks: str) -> None:
        self._database.finish(*remarks)
        try:
            with closing(sqlite3.connect(self._held)) as held, duckdb.connect() as writer:
                writer.execute("SET threads = 1")
                for table in TABLES:
                    self._write(table, held, writer)
        except (sqlite3.OperationalError, duckdb.Error) as error:
            raise OSError(errno.EIO, str(error)) from None
        self._held.unlink()

    def _write(self, table: Table, held: sqlite3.Connection, writer: duckdb.DuckDBPyConnection) -> None:
        lines = self._folder / f"{table.name}.jsonl"
        with lines.open("wb") as file:
            for row in _rows(table, held):
                file.write(msgspec.json.encode(row) + b"\n")
        columns = ", ".join(f"{_quoted(one.name)}: {_quoted(_TYPES[one.kind])}" for one in table.columns)
        source, target = _quoted(str(lines)), _quoted(str(self._folder / f"{table.name}.parquet"))
        writer.execute(
            f"COPY (SELECT * FROM read_json({source}, format = 'newline_delimited', columns = {{{columns}}},"
            f" maximum_object_size = {self._longest}))"
            f" TO {target} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS})"
        )
        lines.unlink()


def _rows(table: Table, held: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    values: dict[str, Callable[[Any], Any]] = {one.name: bool for one in table.columns if one.kind == "boolean"}
    for row in held.execute(f"SELECT {', '.join(table.names)} FROM {table.name} ORDER BY rowid"):
        found = dict(zip(table.names, row, strict=True))
        for name, convert in values.items():
            found[name] = None if found[name] is None else convert(found[name])
        yield found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
