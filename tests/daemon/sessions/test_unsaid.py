"""What a file's stream keeps of calls that no tap has reported yet: in bounds, with their output bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.daemon.events import event, info
from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.sessions.unsaid import MOST_BYTES, MOST_CALLS, Said, keep_unsaid, take_unsaid
from tooltap.normalizers.core.items import Item, OutputChunk, Produced
from tooltap.protocol.events import ToolCall, ToolResult

TAP, SESSION = "run-1", "session-1"


def call(number: int, **fields: Any) -> Produced:
    stated = {"call_id": f"c{number}", "name": "Bash", "input": {}, "status": "running", "session": SESSION, **fields}
    return event(ToolCall, "file", number, **stated)


def result(number: int, line: int, **fields: Any) -> Produced:
    stated = {"call_id": f"c{number}", "name": "Bash", "output": {}, "status": "completed", "is_error": False}
    return event(ToolResult, "file", line, session=SESSION, **{**stated, **fields})


def keep(of_file: StreamInfo, items: Sequence[Item], said: Mapping[str, Said] | None = None) -> None:
    keep_unsaid(of_file, items, [TAP], [said or {}], alone=True)


def reported(of_file: StreamInfo, said: Mapping[str, Said]) -> list[str]:
    outputs = take_unsaid(of_file, of_file.statistics, {(SESSION, TAP): said}) or []
    return [one.fields.call_id for one in outputs if isinstance(one, Produced) and one.kind == "tool-call"]


def test_the_latest_calls_are_kept() -> None:
    of_file = info("file")
    for number in range(1, MOST_CALLS + 3):
        keep(of_file, [call(number)])
    assert reported(of_file, {}) == [f"c{number}" for number in range(3, MOST_CALLS + 3)]


def test_calls_that_are_too_large_together_are_not_kept() -> None:
    of_file = info("file")
    for number in (1, 2, 3):
        keep(of_file, [call(number, input={"command": "x" * (MOST_BYTES // 2 - 1_000)})])
    assert reported(of_file, {}) == ["c2", "c3"]


def test_output_body_is_reported_with_its_result() -> None:
    of_file = info("file")
    body = OutputChunk("file:2:o0", 0, b"all of it", "text/plain")
    keep(of_file, [call(1)])
    keep(of_file, [body, result(1, 2, output={"stdout": "all", "outputId": body.output_id})])
    assert body in (take_unsaid(of_file, of_file.statistics, {(SESSION, TAP): {}}) or [])


def test_line_that_is_read_again_is_kept_once() -> None:
    of_file = info("file")
    for _ in range(2):
        keep(of_file, [call(1)])
    assert [len(one.events) for one in of_file.unsaid] == [1]


def test_call_that_a_tap_has_reported_meanwhile_is_not_kept() -> None:
    of_file = info("file")
    keep(of_file, [call(1)])
    keep(of_file, [call(2)], {"c1": Said("Bash", is_stopped=False)})
    assert [one.call_id for one in of_file.unsaid] == ["c2"]


def test_completed_calls_are_not_compared_with_other_ids() -> None:
    """What the tap calls `item_1` may be any of them."""
    of_file = info("file")
    said = {"item_1": Said("Bash", is_stopped=False)}
    keep(of_file, [call(1)], said)
    keep(of_file, [result(1, 2)], said)
    assert reported(of_file, said) == []


@pytest.mark.parametrize(("stopped", "expected"), [(0, ["c1", "c2"]), (1, ["c2"]), (2, [])])
def test_stopped_calls_with_other_ids_are_compared_by_their_number(stopped: int, expected: list[str]) -> None:
    of_file = info("file")
    said = {f"item_{number}": Said("Bash", is_stopped=number < stopped) for number in range(3)}
    for number in (1, 2):
        keep(of_file, [call(number)], said)
    assert reported(of_file, said) == expected


def test_calls_wait_for_all_their_taps() -> None:
    of_file = info("file")
    keep_unsaid(of_file, [call(1)], [TAP, "gateway-1"], [{}, {}], alone=True)
    assert take_unsaid(of_file, of_file.statistics, {(SESSION, TAP): {}}) is None
    assert len(of_file.unsaid) == 1


def test_line_is_counted_once() -> None:
    of_file = info("file")
    of_file.statistics.count_skip("told-elsewhere")
    keep(of_file, [call(1), call(1, call_id="c2", id="file:1:1")])
    take_unsaid(of_file, of_file.statistics, {(SESSION, TAP): {}})
    assert (of_file.statistics.with_events, of_file.statistics.skipped.get("told-elsewhere", 0)) == (1, 0)
