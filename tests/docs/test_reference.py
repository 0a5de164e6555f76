"""The reference pages name everything there is, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.test_layout import ROOT
from tooltap import client
from tooltap.cli.subcommands import COMMANDS
from tooltap.daemon.answers.rules import AnswerRule
from tooltap.daemon.config import Config
from tooltap.daemon.notifications.rules import NotifyRule
from tooltap.normalizers.catalog.registry import dialects
from tooltap.protocol.events import KINDS, ToolCall, decode

REFERENCE = DOCS / "reference"
CONFIG = Config()
TABLES = {
    "socket": CONFIG,
    "agents": CONFIG.follow,
    "enabled": CONFIG.web,
    "line_bytes": CONFIG.stream,
    "subscription": CONFIG.usage,
    "day": CONFIG.usage.budget,
    "url": CONFIG.otlp,
    "body_bytes": CONFIG.remotes,
    "timeout": CONFIG.rewriting,
}
"""The first key of each table of the configuration -> its default values."""


def rows_of(page: Path, head: str, after: str = "") -> list[list[str]]:
    """The cells of the first table with this head after a text, row by row."""
    table = page.read_text().partition(after)[2] if after else page.read_text()
    table = table.split(f"\n{head}\n")[1].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in table.splitlines()[1:]
        if line.startswith("|")
    ]


def test_dialects_are_listed() -> None:
    rows = rows_of(REFERENCE / "dialects.md", "| dialect | what it reads | states ends |")

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


@pytest.mark.parametrize("rows", tables(), ids=[type(defaults).__name__ for defaults in TABLES.values()])
def test_configuration_keys_and_defaults_are_listed(rows: list[list[str]]) -> None:
    values = msgspec.structs.asdict(TABLES[rows[0][0].strip("` ")])
    scalars = {key: value for key, value in values.items() if isinstance(value, str | int | float | tuple | None)}

    assert {row[0].strip("` "): row[1] for row in rows} == {key: shown(value) for key, value in scalars.items()}


@pytest.mark.parametrize(("name", "rule"), [("notify", NotifyRule), ("answers", AnswerRule)])
def test_keys_of_rules_are_listed(name: str, rule: type[msgspec.Struct]) -> None:
    rows = rows_of(REFERENCE / "settings.md", "| key | without it | meaning |", after=f"\n`[[{name}]]`: ")
    assert {row[0].strip("`"): row[1] for row in rows} == {
        field.name: shown(field.default) for field in msgspec.structs.fields(rule)
    }


def shown(value: object) -> str:
    """A default value as the page shows it."""
    if value is None or value is msgspec.NODEFAULT:
        return "–"
    text = json.dumps(value)
    return f"`{text}`" if isinstance(value, str | tuple) else text


def test_exports_of_python_client_are_listed() -> None:
    rows = rows_of(REFERENCE / "python.md", "| name | what it is |")

    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row[0])) == sorted(client.__all__)


def test_make_targets_are_listed() -> None:
    makefile = (ROOT / "Makefile").read_text() + (ROOT / "tests" / "Makefile").read_text()
    targets = " ".join(re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE))
    named = re.findall(r"`make ([\w-]+)", (DOCS / "contributing" / "commands.md").read_text())

    assert set(targets.split()) == set(named)
