"""Every row of the benchmark runs with minimal work. The figures themselves are not tested."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.bench.__main__ import ROWS, main
from tests.bench.compare import Comparison, compare, comparison_table, exported
from tests.bench.harness import ROOT, Figure, Note, Options, alternate, table
from tests.bench.lines.cost import Cost
from tests.bench.lines.cost import figures as cost_figures
from tests.bench.lines.generated import KINDS
from tests.bench.lines.recorded import FIXTURES

pytestmark = pytest.mark.programs("git", "ps")


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    """A file in the format of the ancestor's records."""
    records = [line for path in FIXTURES.glob("happier-trace/*/*.jsonl") for line in path.read_text().splitlines()]
    path = tmp_path / "goldens.jsonl"
    path.write_text("".join(f'{{"key":"k","event":{one},"canonicalToolName":"Bash"}}\n' for one in records))
    return path


@pytest.mark.parametrize("row", ROWS)
def test_every_row_returns_figures(row: str, tmp_path: Path, goldens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = run(row, tmp_path, "--goldens", goldens)

    figures = [one for one in results if "samples" in one]
    assert [len(one["samples"]) for one in figures] == [1] * len(figures)
    printed = capsys.readouterr().out
    assert all(one["name"] in printed for one in figures)
    assert figures or all(one["note"] in printed for one in results)


def run(row: str, folder: Path, *options: object) -> list[dict[str, Any]]:
    """What a row reports with minimal work."""
    path = folder / "new" / "bench.json"
    assert main([row, "--runs", "1", "--scale", "0.01", "--json", str(path), *map(str, options)]) == 0
    result = json.loads(path.read_bytes())
    assert result["machine"]["cores"] > 0
    return list(result["rows"][row])


def test_row_of_goldens_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["goldens"]) == 0

    assert "not measured: it needs a file of the ancestor's records" in capsys.readouterr().out


def test_row_that_cannot_measure_another_tree_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["lines", "fanout", "--tree", "."])

    assert end.value.code == 2
    assert "these rows measure only the tree they are in: fanout" in capsys.readouterr().err


def test_other_tree_is_measured_by_its_own_row(tmp_path: Path) -> None:
    for path in ROOT.iterdir():
        (tmp_path / path.name).symlink_to(path)

    results = compare(tmp_path, "lines", Options(runs=1, scale=0.01))

    compared = [one for one in results if isinstance(one, Comparison)]
    assert {one.how for one in compared} == {"the trees' own rows"}
    assert {one.name for one in compared} == set(KINDS)
    [title, first, *_] = comparison_table("lines: …", results)
    assert title == "lines: … (the trees' own rows)"
    assert re.fullmatch(r"  claude-stream, short +old +[0-9.]+   new +[0-9.]+ µs/line +new/old +[0-9.]+   .*", first)


def test_other_tree_without_the_row_is_measured_by_its_commands(tmp_path: Path, goldens: Path) -> None:
    (tmp_path / "src").symlink_to(ROOT / "src")

    results = compare(tmp_path, "goldens", Options(runs=1, scale=0.01, goldens=goldens))

    compared = [one for one in results if isinstance(one, Comparison)]
    assert {one.how for one in compared} == {"the trees' commands, by this tree's row"}
    assert ("goldens", "µs/line") in {(one.name, one.unit) for one in compared}
    assert all(one.ratios and one.old and one.new for one in compared)


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    (tmp_path / "src").symlink_to(ROOT / "src")

    [note] = compare(tmp_path, "fanout", Options(runs=1, scale=0.01))

    assert isinstance(note, Note)
    assert note.note.startswith("not compared: the other tree does not have this row")


def test_reference_is_exported_with_its_links() -> None:
    with exported("HEAD") as tree:
        assert (tree / "src" / "tooltap" / "protocol").is_symlink()
        assert (tree / "pyproject.toml").exists()


def test_unknown_reference_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["lines", "--compare", "no-such-thing"])

    assert end.value.code == 2
    assert "--compare no-such-thing: fatal: not a valid object name" in capsys.readouterr().err


def test_sides_alternate_and_first_round_is_not_counted() -> None:
    order: list[str] = []

    def side(name: str) -> int:
        order.append(name)
        return len(order)

    results = alternate({"a": lambda: side("a"), "b": lambda: side("b")}, 2)

    assert "".join(order) in ("abbaab", "baabba")
    assert sorted(results["a"] + results["b"]) == [3, 4, 5, 6]


def test_one_measurement_in_several_units_is_one_line() -> None:
    costs = [Cost(seconds=2e-3, lines=100, events=50, size=40_000, bare=5e-4)]

    [_, line, note] = table({"title": [*cost_figures("acp", costs, "3 recordings", ratio=0.3), Note("skipped")]})

    assert line.endswith("≥ 0.3 × bare   missed   3 recordings")
    assert [word for word in line.split() if word[0].isdigit()][:4] == ["20", "40", "20", "0.25"]
    assert note == "  skipped"


def test_missed_target_is_marked() -> None:
    slow = Figure("kept", 0.8, "×", target=0.9, samples=[0.8])
    large = Figure("used", 12.0, "MB", target=16, better="less", samples=[11.0, 13.0])

    lines = list(table({"title": [slow, large]}))

    assert (slow.on_target, large.on_target) == (False, True)
    assert lines[0] == "title"
    assert lines[1].endswith("≥ 0.9   missed")
    assert lines[2].endswith("≤ 16")


def test_rows_and_variables_of_the_documentation_exist() -> None:
    page = (ROOT / "tests" / "bench" / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    rule = makefile[makefile.index("\nbench:") :].split("\n\n")[0]

    table_rows = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert {"normalize", "daemon"} <= table_rows <= set(ROWS)
    variables = set(re.findall(r"\b([A-Z]+)=(?:FILE|FOLDER|REF|[a-z]+)", page))
    assert {"ROWS", "CAPTURES", "GOLDENS", "COMPARE"} <= variables
    assert all(f"$({one}" in rule for one in variables), variables


def test_unknown_row_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nothing"])

    assert end.value.code == 2
    assert "unknown row nothing; choose from" in capsys.readouterr().err
