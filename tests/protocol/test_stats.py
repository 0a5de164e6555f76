"""Statistics of a stream."""

from __future__ import annotations

from tooltap.protocol.stats import MAX_NAMES, Statistics


def test_only_calls_are_counted_by_tool_and_what_is_taken_back_is_gone() -> None:
    statistics = Statistics(stream="s", dialect="acp", provider="gemini")
    for kind in ("tool-call", "tool-result", "tool-call"):
        statistics.adjust(kind, "Bash", "sh", 1)

    assert (statistics.events, statistics.kinds) == (3, {"tool-call": 2, "tool-result": 1})
    assert (statistics.tools, statistics.raw_tools) == ({"Bash": 2}, {"sh": 2})

    statistics.adjust("tool-result", "Bash", "sh", -1)
    statistics.adjust("tool-call", "Bash", "sh", -1)
    assert (statistics.events, statistics.kinds) == (1, {"tool-call": 1})
    statistics.adjust("tool-call", "Bash", "sh", -1)
    assert (statistics.kinds, statistics.tools, statistics.raw_tools) == ({}, {}, {})


def test_names_beyond_the_bound_are_counted_together() -> None:
    statistics = Statistics(stream="s", dialect="acp", provider="gemini")
    for number in range(MAX_NAMES + 3):
        statistics.count_skip(f"reason {number}")
    statistics.count_skip("reason 0")

    assert len(statistics.skipped) == MAX_NAMES + 1
    assert (statistics.skipped["reason 0"], statistics.skipped["…"]) == (2, 3)
