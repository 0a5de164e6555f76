"""Copies of recordings, and generated lines: what the benchmark reads is what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench.lines.generated import KINDS, generate
from tests.bench.lines.recorded import Recorded, recordings, renewed
from tooltap.normalizers.core.items import Context
from tooltap.testing import Line, normalize

DIALECTS = sorted({one.dialect for one in recordings(())})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_copies_give_the_same_events_with_other_ids(dialect: str) -> None:
    recorded = [one for one in recordings(()) if one.dialect == dialect]

    for one in recorded:
        copies = renewed(one), renewed(one)
        kinds = [[type(event) for event in events_of(some)] for some in (one, *copies)]
        assert kinds[0] == kinds[1] == kinds[2]


def events_of(recorded: Recorded) -> list[Any]:
    context = Context(stream="bench", provider=recorded.provider)
    return normalize(recorded.dialect, [*recorded.before, *recorded.lines], context)


def test_copy_changes_ids_wherever_they_are_and_nothing_else() -> None:
    line = b'{"session_id":"5e55-0001","modelId":"model-2-large","call":"call_5e55-0001","text":"of 5e55-0001"}'

    [one] = renewed(Recorded("acp", None, [Line(line)])).lines
    [two] = renewed(Recorded("acp", None, [Line(line)])).lines

    assert one.data != two.data
    values = json.loads(bytes(one.data))  # type: ignore[arg-type]
    session = values["session_id"]
    assert session.startswith("5e55-0001r")
    assert values == {
        "session_id": session,
        "modelId": "model-2-large",
        "call": f"call_{session}",
        "text": f"of {session}",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_generated_lines_are_what_their_names_say(kind: str) -> None:
    lines = 40
    first, second = ([line.data for one in generate(KINDS[kind], lines) for line in one.lines] for _ in range(2))
    recorded = generate(KINDS[kind], lines)

    assert not set(first) & set(second)
    events = [event for one in recorded for event in events_of(one) if event.line > len(one.before)]
    kinds = {type(event).__name__ for event in events}
    if kind.endswith(("deltas", "skipped")):
        assert len(events) < sum(len(one.lines) for one in recorded) / 10
    else:
        assert len(events) >= sum(len(one.lines) for one in recorded)
        assert ("ToolResult" if kind.endswith("results") else "Message") in kinds
