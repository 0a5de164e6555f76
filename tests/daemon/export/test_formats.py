"""The formats of exports that other packages add."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tests.cli.command import CLAUDE, here, sentence
from tooltap.daemon.export import formats
from tooltap.daemon.export.jsonl import EventLines


class Counted(EventLines):
    ENDING = "count"


class Incomplete:
    ENDING = "x"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    points: dict[str, Any] = {
        "counted": f"{__name__}:Counted",
        "incomplete": f"{__name__}:Incomplete",
        "missing": "no_such_package:Exporter",
        "html": f"{__name__}:Counted",
    }
    found = {name: EntryPoint(name, value, formats.ENTRY_POINTS) for name, value in points.items()}
    monkeypatch.setattr(formats, "_plugins", lambda: found)


def test_exporter_of_a_package_is_a_format(added: None) -> None:
    assert formats.names()[-3:] == ["counted", "incomplete", "missing"]
    assert formats.exporter_class("counted").ENDING == "count"
    assert here("export", "--format", "counted", CLAUDE).stdout == here("export", "--format", "jsonl", CLAUDE).stdout


def test_formats_of_tooltap_are_not_replaced(added: None) -> None:
    assert formats.exporter_class("html").ENDING == "html"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "the exporter missing of no_such_package:Exporter cannot be loaded: No module named"),
        ("incomplete", f"the exporter incomplete of {__name__}:Incomplete has no add"),
    ],
)
def test_broken_exporter_is_one_sentence(added: None, name: str, said: str) -> None:
    assert sentence(here("export", "--format", name, CLAUDE)).startswith(said)
