"""Every row of the benchmark runs with minimal work. The figures themselves are not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import ROWS, main
from tests.bench.harness import Figure, alternate, table


@pytest.mark.parametrize("row", ROWS)
def test_every_row_returns_figures(row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([row, "--runs", "1", "--scale", "0.01", "--json", str(tmp_path / "new" / "bench.json")]) == 0

    result = json.loads((tmp_path / "new" / "bench.json").read_bytes())
    assert result["machine"]["cores"] > 0
    figures = result["rows"][row]
    assert [len(one["samples"]) for one in figures] == [1] * len(figures)
    printed = capsys.readouterr().out
    assert all(one["name"] in printed for one in figures)


def test_sides_alternate_and_first_round_is_not_counted() -> None:
    order: list[str] = []

    def side(name: str) -> int:
        order.append(name)
        return len(order)

    results = alternate({"a": lambda: side("a"), "b": lambda: side("b")}, 2)

    assert "".join(order) in ("abbaab", "baabba")
    assert sorted(results["a"] + results["b"]) == [3, 4, 5, 6]


def test_missed_target_is_marked() -> None:
    slow = Figure("kept", 0.8, "×", target=0.9, samples=[0.8])
    large = Figure("used", 12.0, "MB", target=16, better="less", samples=[11.0, 13.0])

    lines = list(table({"title": [slow, large]}))

    assert (slow.on_target, large.on_target) == (False, True)
    assert lines[0] == "title"
    assert lines[1].endswith("≥ 0.9   missed")
    assert lines[2].endswith("≤ 16")


def test_unknown_row_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nothing"])

    assert end.value.code == 2
    assert "unknown row nothing; choose from" in capsys.readouterr().err
