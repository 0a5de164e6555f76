"""Generates `docs/reference/tables.md` from the definitions of the exported tables; `make schema` writes it."""

from __future__ import annotations

from pathlib import Path

from tooltap.daemon.export.tables import TABLES, Table

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tables.md"
_HEAD = """# Tables

`tooltap export --format sqlite` and `--format parquet` write these tables; `make schema` generates this page from
`daemon/export/tables.py`. [Export sessions for other programs](../how-to/export.md#tables) has queries.

Columns in bold are the key of a row; ids are those of the [events](events.md). Empty (`NULL`) means that the value is
not known. JSON is a text, valid also where it is shortened. In SQLite, times are texts in UTC, such as
`2026-11-29T10:46:58.125Z`, which its functions read, and a boolean is 1 or 0. In Parquet, they have types of their own.
"""


def page() -> str:
    return "\n".join([_HEAD, *map(_section, TABLES)])


def _section(table: Table) -> str:
    lines = [f"## {table.name}", "", f"{table.about}."]
    for one in table.references:
        to = ", ".join(f"`{name}`" for name in one.to)
        lines.append(f"{', '.join(f'`{name}`' for name in one.columns)}: {to} of [{one.table}](#{one.table}).")
    lines += ["", "| column | type | meaning |", "|---|---|---|"]
    for column in table.columns:
        name = f"**`{column.name}`**" if column.name in table.key else f"`{column.name}`"
        lines.append(f"| {name} | {column.kind} | {column.about} |")
    return "\n".join([*lines, ""])
