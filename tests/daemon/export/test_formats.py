"""The formats of exports that other packages add."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CLAUDE, CODEX, here, sentence
from tests.daemon.export.exporting import Tables
from tooltap.daemon.export import formats
from tooltap.daemon.export.jsonl import EventLines
from tooltap.daemon.export.sqlite import Database


class Counted(EventLines):
    ENDING = "count"


class Incomplete:
    ENDING = "x"


class Together(Database):
    ENDING = "together"


class Endless:
    ENDING = "x"
    IS_FOLDER = False

    def source(self) -> None: ...


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    points: dict[str, Any] = {
        "counted": f"{__name__}:Counted",
        "endless": f"{__name__}:Endless",
        "incomplete": f"{__name__}:Incomplete",
        "missing": "no_such_package:Exporter",
        "html": f"{__name__}:Counted",
        "together": f"{__name__}:Together",
    }
    found = {name: EntryPoint(name, value, formats.ENTRY_POINTS) for name, value in points.items()}
    monkeypatch.setattr(formats, "_plugins", lambda: found)


def test_exporter_of_a_package_is_a_format(added: None) -> None:
    assert formats.names()[-5:] == ["counted", "endless", "incomplete", "missing", "together"]
    assert formats.exporter_class("counted").ENDING == "count"
    assert here("export", "--format", "counted", CLAUDE).stdout == here("export", "--format", "jsonl", CLAUDE).stdout


def test_collection_of_a_package_is_a_format(added: None, tmp_path: Path) -> None:
    finished = here("export", "--format", "together", CLAUDE, CODEX, "-o", tmp_path / "both")

    assert (finished.returncode, finished.stderr) == (0, b"")
    with Tables(tmp_path / "both") as tables:
        assert tables.ask("SELECT agent FROM sessions ORDER BY agent") == [("claude",), ("codex",)]


def test_formats_of_tooltap_are_not_replaced(added: None) -> None:
    assert formats.exporter_class("html").ENDING == "html"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "the exporter missing of no_such_package:Exporter cannot be loaded: No module named"),
        ("endless", f"the exporter endless of {__name__}:Endless has no finish"),
        ("incomplete", f"the exporter incomplete of {__name__}:Incomplete has no add"),
    ],
)
def test_broken_exporter_is_one_sentence(added: None, name: str, said: str) -> None:
    assert sentence(here("export", "--format", name, CLAUDE)).startswith(said)
