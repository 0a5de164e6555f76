"""`tooltap export --format parquet`: the same tables as of `sqlite`, a file for each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.command import CLAUDE, DEMO, here, sentence, tooltap
from tests.daemon.events import call, message, result
from tests.daemon.export.exporting import Tables, numbered
from tooltap.daemon.export.parquet import ROWS
from tooltap.daemon.export.tables import TABLES, Table
from tooltap.protocol.events import encode

TYPES = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMP WITH TIME ZONE",
    "json": "VARCHAR",
}


def asked(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        return database.execute(query).fetchall()


def rows_of(folder: Path, table: Table) -> list[tuple[Any, ...]]:
    """The rows as SQLite has them."""
    columns = [
        f"strftime({one.name} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ')" if one.kind == "time" else one.name
        for one in table.columns
    ]
    return asked(f"SELECT {', '.join(columns)} FROM '{folder / table.name}.parquet'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both exports of the same recordings, one with texts that are hard to quote."""
    folder = tmp_path_factory.mktemp("tables")
    odd = numbered(message("a\x00b 'c' \"d\"\n\\ \u2028 😀"), call("c", input={"n": "x" * 70_000}), result("c"))
    (folder / "odd.jsonl").write_bytes(b"".join(encode(one) + b"\n" for one in odd))
    for form in ("sqlite", "parquet"):
        sources = [*(DEMO / f"{name}.jsonl" for name in ("claude-code", "codex", "opencode")), folder / "odd.jsonl"]
        finished = here("export", "--format", form, *sources, "-o", folder / form)
        assert (finished.returncode, finished.stderr) == (0, b"")
    return folder


@pytest.mark.parametrize("table", [one for one in TABLES if one.name != "about"], ids=lambda table: table.name)
def test_rows_are_those_of_the_database(folder: Path, table: Table) -> None:
    with Tables(folder / "sqlite") as tables:
        wanted = [tuple(row.values()) for row in tables.rows(table.name)]

    assert wanted or table.name == "permissions"
    assert rows_of(folder / "parquet", table) == wanted


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_have_their_types(folder: Path, table: Table) -> None:
    described = asked(f"DESCRIBE SELECT * FROM '{folder / 'parquet' / table.name}.parquet'")

    assert [(name, kind) for name, kind, *_ in described] == [(one.name, TYPES[one.kind]) for one in table.columns]


def test_folder_has_nothing_but_the_tables(folder: Path) -> None:
    assert sorted(path.name for path in (folder / "parquet").iterdir()) == sorted(
        f"{table.name}.parquet" for table in TABLES
    )


def test_many_rows_are_in_groups(tmp_path: Path) -> None:
    made = numbered(*(message(f"text {number}") for number in range(ROWS + 10)))
    (tmp_path / "many.jsonl").write_bytes(b"".join(encode(one) + b"\n" for one in made))
    assert here("export", "--format", "parquet", tmp_path / "many.jsonl", "-o", tmp_path / "tables").returncode == 0

    path = tmp_path / "tables" / "messages.parquet"
    assert asked(f"SELECT count(DISTINCT text) FROM '{path}'") == [(ROWS + 10,)]
    assert asked(f"SELECT max(row_group_num_rows) FROM parquet_metadata('{path}')") == [(ROWS,)]


def test_files_need_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for options in ((), ("-o", tmp_path / "file")):
        finished = here("export", "--format", "parquet", CLAUDE, *options)
        assert finished.returncode == 2
        assert sentence(finished).startswith("the files of this format need a folder: name it with -o FOLDER")


def test_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "duckdb.py").write_text("raise ModuleNotFoundError(name='duckdb')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    finished = tooltap("export", "--format", "parquet", CLAUDE, "-o", tmp_path / "tables", PYTHONPATH=path)

    assert finished.returncode == 2
    assert sentence(finished).startswith("duckdb is not installed: pip install 'duckdb>=1.1'")
