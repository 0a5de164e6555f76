"""The benchmark runs: every row, with as little work as there is. What it measures is tested by nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import ROWS, main
from tests.bench.harness import Figure, alternate, table


@pytest.mark.parametrize("row", ROWS)
def test_every_row_gives_figures(row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([row, "--runs", "1", "--scale", "0.01", "--json", str(tmp_path / "new" / "bench.json")]) == 0

    result = json.loads((tmp_path / "new" / "bench.json").read_bytes())
    assert result["machine"]["cores"] > 0
    figures = result["rows"][row]
    assert [len(one["samples"]) for one in figures] == [1] * len(figures)
    printed = capsys.readouterr().out
    assert all(one["name"] in printed for one in figures)


def test_sides_take_turns_and_the_first_turn_is_not_counted() -> None:
    turns: list[str] = []

    def side(name: str) -> int:
        turns.append(name)
        return len(turns)

    results = alternate({"a": lambda: side("a"), "b": lambda: side("b")}, 2)

    assert "".join(turns) in ("abbaab", "baabba")
    assert sorted(results["a"] + results["b"]) == [3, 4, 5, 6]


def test_what_is_not_reached_is_marked() -> None:
    slow = Figure("kept", 0.8, "×", reach=0.9, samples=[0.8])
    large = Figure("used", 12.0, "MB", reach=16, better="less", samples=[11.0, 13.0])

    lines = list(table({"title": [slow, large]}))

    assert (slow.reached, large.reached) == (False, True)
    assert lines[0] == "title"
    assert lines[1].endswith("≥ 0.9   missed")
    assert lines[2].endswith("≤ 16")


def test_a_row_nobody_knows_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nothing"])

    assert end.value.code == 2
    assert "no row nothing; there are" in capsys.readouterr().err
