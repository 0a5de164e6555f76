"""`_raw` is truncated to its limits, at code-point boundaries."""

from typing import Any

from tests.test_layout import ROOT
from tooltap.normalizers.tools.payload import truncate_raw


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else "leaf"


def test_short_value_is_unchanged() -> None:
    value = {"a": [1, None, True, 1.5, "x"], "b": {}}

    assert truncate_raw(value) == value


def test_truncated_string_states_cut_length() -> None:
    assert truncate_raw("x" * 2_000) == "x" * 2_000
    assert truncate_raw("\U0001f600" * 2_005) == "\U0001f600" * 2_000 + "…(truncated 5 chars)"


def test_truncated_containers_state_cut_count() -> None:
    assert truncate_raw(list(range(52))) == [*range(50), "…(truncated 2 items)"]
    assert truncate_raw({str(n): n for n in range(203)})["_truncatedKeys"] == 3
    assert len(truncate_raw({str(n): n for n in range(203)})) == 201


def test_seventh_level_is_truncated() -> None:
    assert truncate_raw(nested(6)) == nested(6)
    assert truncate_raw(nested(7))["a"]["a"]["a"]["a"]["a"]["a"] == {"a": "[truncated depth]"}
    assert truncate_raw([[[[[[[None]]]]]]]) == [[[[[[["[truncated depth]"]]]]]]]


def test_limits_are_in_the_schema() -> None:
    [stated] = [
        line for line in (ROOT / "docs" / "schema.md").read_text().splitlines() if "…(truncated N chars)" in line
    ]
    cut = truncate_raw(["x" * 3_000, list(range(60)), {str(n): n for n in range(210)}, nested(8)])

    assert cut[0] == "x" * 2_000 + "…(truncated 1000 chars)"
    assert cut[1][50:] == ["…(truncated 10 items)"]
    assert cut[2]["_truncatedKeys"] == 10
    assert "[truncated depth]" in str(cut[3])
    for limit in ("2,000 code points", "50 items", "200 keys", "_truncatedKeys", "6 levels", "[truncated depth]"):
        assert limit in stated
