"""The reference pages name everything there is, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.test_layout import ROOT
from tooltap import client
from tooltap.cli.main import COMMANDS
from tooltap.daemon.config import Config, Follow, Web
from tooltap.daemon.views.rules import Rewriting
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.core.registry import dialects
from tooltap.protocol.events import KINDS, ToolCall, decode

REFERENCE = DOCS / "reference"
TABLES = {"socket": Config, "agents": Follow, "enabled": Web, "line_bytes": Limits, "timeout": Rewriting}
"""The first key of each table of the configuration -> the struct that reads it."""


def rows_of(page: Path, head: str) -> list[list[str]]:
    """The cells of the table with this head, row by row."""
    table = page.read_text().split(f"\n{head}\n")[1].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in table.splitlines()[1:]
        if line.startswith("|")
    ]


def test_dialects_are_listed() -> None:
    rows = rows_of(REFERENCE / "dialects.md", "| dialect | what it reads |")

    assert sorted(row[0].strip("` ") for row in rows) == dialects()


def test_commands_are_listed_in_order() -> None:
    rows = rows_of(REFERENCE / "commands.md", "| command | what it does |")

    assert [row[0] for row in rows] == [f"`tooltap {name}`" for name in COMMANDS]


def test_kinds_of_events_are_listed() -> None:
    [row] = [row for row in rows_of(REFERENCE / "events.md", "| key | meaning |") if row[0] == "`kind`"]

    assert re.findall(r"`([\w-]+)`", row[1]) == list(KINDS.values())


def test_example_event_decodes() -> None:
    [block] = [block for block in blocks_of(REFERENCE / "events.md") if block.language == "json"]
    event = decode(block.text)

    assert isinstance(event, ToolCall)
    assert event.name == event.input["_happy"]["canonicalToolName"]


def tables() -> list[list[list[str]]]:
    """The tables of the configuration file."""
    _, *found = (REFERENCE / "settings.md").read_text().split("\n| key | default | meaning |\n|---|---|---|\n")
    texts = [table.split("\n\n")[0] for table in found]
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()] for text in texts]


@pytest.mark.parametrize("rows", tables(), ids=[struct.__name__ for struct in TABLES.values()])
def test_configuration_keys_and_defaults_are_listed(rows: list[list[str]]) -> None:
    struct: Any = TABLES[rows[0][0].strip("` ")]
    defaults = {
        field.name: "–" if field.default is None else f"`{text}`" if text[0] in '"[' else text
        for field in msgspec.structs.fields(struct)
        if isinstance(field.default, str | int | float | tuple | None)
        for text in [json.dumps(field.default)]
    }

    assert {row[0].strip("` "): row[1] for row in rows} == defaults


def test_exports_of_python_client_are_listed() -> None:
    rows = rows_of(REFERENCE / "python.md", "| name | what it is |")

    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row[0])) == sorted(client.__all__)


def test_make_targets_are_listed() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [targets] = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    named = re.findall(r"`make (\w+)", (ROOT / "CONTRIBUTING.md").read_text())

    assert set(targets.replace("\\", "").split()) == set(named)
