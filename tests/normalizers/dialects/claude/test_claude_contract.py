"""Whatever a session repeats, its total is what was used before, plus the new request.

The recordings are three runs of 2.1.330: a session of two requests, its resumption in a new process, and a fork of it.
Each request has a prompt of 2,400 tokens (1,200 + 300 written + 900 read), an answer of 42, and costs $0.00732."""

from pathlib import Path

import pytest

from tests.normalizers.dialects.claude.test_claude_history import TWO_TURNS, answer, prompt
from tests.normalizers.dialects.claude.transcripts import line, read
from tests.normalizers.reading import of
from tooltap.protocol.events import Event, Usage
from tooltap.testing import Line, check_recording

PROMPT, ANSWER = 2_400, 42
RUNS = Path(__file__).parent / "runs"


def requests(*found: list[Event]) -> tuple[int, int]:
    """(input, output) of all requests of these streams, each once."""
    steps = [one for events in found for one in of(Usage, events) if one.scope == "step" and not one.replay]
    once = {step.request: step for step in steps}
    return sum(step.input_tokens or 0 for step in once.values()), sum(step.output_tokens or 0 for step in once.values())


def last_total(found: list[Event]) -> Usage:
    return [usage for usage in of(Usage, found) if usage.scope == "session" and not usage.replay][-1]


def run(name: str, until: bytes | None = None) -> list[Event]:
    """The events of a recording; `until`: of its lines up to the first one with these bytes."""
    lines = (RUNS / f"{name}.jsonl").read_bytes().splitlines()
    if until is not None:
        lines = lines[: next(at for at, one in enumerate(lines, 1) if until in one)]
    dialect = "claude-transcript" if name.startswith("stored") else "claude-stream"
    return check_recording(dialect, [Line(one) for one in lines])


def test_resumption_in_a_new_process_adds_its_request() -> None:
    first, both = run("stored", until=b'"cost-state"'), run("stored")

    assert requests(first) == (2 * PROMPT, 2 * ANSWER)
    assert requests(both) == (3 * PROMPT, 3 * ANSWER)
    assert [last_total(one).input_tokens for one in (first, both)] == [2 * PROMPT, 3 * PROMPT]


def test_fork_adds_its_request() -> None:
    parent, fork = run("stored"), run("stored-fork")

    assert requests(fork) == (PROMPT, ANSWER)
    assert requests(parent, fork) == (4 * PROMPT, 4 * ANSWER)
    assert [last_total(one).input_tokens for one in (parent, fork)] == [3 * PROMPT, PROMPT]


def test_streams_of_three_processes_add_up() -> None:
    totals = [last_total(run(name)) for name in ("printed", "printed-resumption", "printed-fork")]

    assert [(total.input_tokens, total.output_tokens) for total in totals] == [
        (2 * PROMPT, 2 * ANSWER),
        (PROMPT, ANSWER),
        (PROMPT, ANSWER),
    ]
    assert [total.cost_usd for total in totals] == [pytest.approx(cost) for cost in (0.01464, 0.00732, 0.00732)]
    assert {total.counter for total in totals} == {"process"}


def test_compaction_that_writes_the_history_again_adds_the_new_request() -> None:
    boundary = line("system", "b1", subtype="compact_boundary", logicalParentUuid="a2", content="Compacted")
    compacted = [boundary, prompt("b2", "b1", isCompactSummary=True), *TWO_TURNS]

    assert requests(read(*TWO_TURNS)) == (200, 20)
    assert requests(read(*TWO_TURNS, *compacted, prompt("p3", "b2"), answer("a3", "p3"))) == (300, 30)


def test_rewind_adds_the_new_request_to_what_it_drops() -> None:
    assert requests(read(*TWO_TURNS, prompt("p3", "a1"), answer("a3", "p3"))) == (300, 30)
