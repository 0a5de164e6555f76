"""The report of pytest becomes the table, and the table the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live import report
from tests.live.__main__ import chosen
from tests.live.report import of_junit, page, read, record

JUNIT = """<testsuites><testsuite>
<testcase name="test_agent_runs_as_alone_and_is_understood[claude-run-text]"/>
<testcase name="test_agent_runs_as_alone_and_is_understood[claude-both-killed-shell]">
<failure message="AssertionError: said twice&#10;and more"/></testcase>
<testcase name="test_terminal_is_answered_from_elsewhere[allowed]"/>
</testsuite></testsuites>
"""


@pytest.fixture
def junit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.xml"
    path.write_text(JUNIT)
    (tmp_path / "results.json").write_text(
        '{"claude": {"version": "1.0", "date": "2026-01-01", "cells": {"run/x": ""}}}'
    )
    monkeypatch.setattr(report, "TABLE", tmp_path / "results.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "agents.md")
    return path


def test_cells_are_found_in_a_report_of_pytest(junit: Path) -> None:
    assert of_junit(junit) == {
        ("claude", "run", "text"): "",
        ("claude", "both-killed", "shell"): "AssertionError: said twice",
    }


def test_cells_of_another_version_replace_those_before(junit: Path) -> None:
    record(junit, "2026-11-29")

    assert read()["claude"]["cells"] == {"run/text": "", "both-killed/shell": "AssertionError: said twice"}
    assert read()["claude"]["date"] == "2026-11-29"
    assert report.PAGE.read_text() == page(read())


def test_page_has_each_cell_and_why_it_is_red(junit: Path) -> None:
    record(junit, "2026-11-29")
    text = report.PAGE.read_text()

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    [row] = [row for row in rows if row[0] == "shell" and len(row) > 2]
    notes = re.findall(r"\d+\. (.*)", text)
    assert "| text | yes | – | none (1) | – | – | none (1) | – |" in text
    assert notes[0] == "The daemon is killed in mid-command, and there is none."
    assert row[6] == f"no ({notes.index('AssertionError: said twice') + 1})"


def test_page_says_once_which_ways_an_agent_has_not(junit: Path) -> None:
    record(junit, "2026-11-29")

    assert "\nNo `attach`: The agent has no server that `attach` can join.\n" in report.PAGE.read_text()


def test_chosen_cells_are_tests_of_the_agents_and_ways_that_are_named() -> None:
    tests = [test.partition("::")[2] for test in chosen(["gemini"], ["run/text", "proxy/te*", "nothing/*"])]

    assert tests == [
        "test_agent_runs_as_alone_and_is_understood[gemini-run-text]",
        "test_agent_works_for_its_client_and_is_understood[gemini-proxy-text]",
    ]
