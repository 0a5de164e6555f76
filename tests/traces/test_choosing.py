"""Examples are chosen for variety and information, and deterministically."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.traces.fixtures.choosing import RULES, choose, score
from tooltap.traces.fixtures.examples import Example

KEY = "acp/gemini/tool-result/read_file"


def event(call: str = "c", status: str = "completed", **more: Any) -> dict[str, Any]:
    output = {"_happy": {"rawToolName": "read_file"}, **more.pop("output", {})}
    envelope = {
        "line": 1,
        "protocol": "acp",
        "provider": "gemini",
        "kind": "tool-result",
        "callId": call,
        "name": "Read",
    }
    return {**envelope, "status": status, "output": output, **more}


def example(number: int = 0, version: str | None = "1.0", dialect: str = "acp", **more: Any) -> Example:
    lines = [{"line": {"number": number}}]
    return Example(
        key=KEY, dialect=dialect, provider="gemini", agent_version=version, lines=lines, events=[event(**more)]
    )


INFORMATIVE: dict[str, dict[str, Any]] = {
    "synthetic: not stated by the agent": {"synthetic": True},
    "a replay of the agent": {"replay": True},
    "a payload with a value": {"output": {"ok": True}},
    "a file": {"output": {"file_path": "a.py"}},
    "content in a result": {"output": {"content": "x"}},
    "output of a command": {"output": {"stdout": "x"}},
    "exit code of a command": {"output": {"exit_code": 0}},
    "an error message of the provider": {"output": {"errorMessage": "x"}},
    "a display for the user": {"display": {"text": "x"}},
    "attachments": {"attachments": [{}]},
    "options or questions": {"options": [{}]},
    "from a subagent": {"agent": "a"},
    "a title": {"title": "x"},
}


def test_every_rule_has_a_case() -> None:
    assert [rule.what for rule in RULES] == list(INFORMATIVE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.what)
def test_rule_changes_score(rule: Any) -> None:
    plain, informative = event(), event(**INFORMATIVE[rule.what])

    assert rule.holds(informative)
    assert not rule.holds(plain)
    assert (score(informative) > score(plain)) == (rule.points > 0)


def test_more_keys_score_higher_up_to_a_limit() -> None:
    scores = [score(event(output={f"key{n}": 1 for n in range(size)})) for size in (1, 3, 8, 20)]

    assert scores[0] < scores[1] < scores[2] == scores[3]


def test_informative_then_shorter_example_is_chosen() -> None:
    empty = example(1)
    long = example(2, output={"stdout": "many words"})
    short = example(3, output={"stdout": "word"})

    assert choose([empty, long, short], 3) == [short, long, empty]
    assert choose([empty, long, short], 1) == [short]


def test_choice_rotates_over_dialects_and_variants() -> None:
    old, second = example(1, output={"stdout": "x", "exit_code": 0}), example(2, output={"stdout": "y", "exit_code": 0})
    failed = example(3, status="failed")
    newer = example(4, version="1.10")
    elsewhere = example(5, dialect="happier-trace", version=None)

    assert choose([second, failed, old, elsewhere, newer], 5) == [newer, elsewhere, old, failed, second]


def test_shortest_of_equal_examples_is_kept() -> None:
    long, short = example(1234, call="a"), example(5, call="b")

    assert choose([long, short], 3) == [short]


def test_example_without_its_key_is_dropped() -> None:
    stray = example()
    stray.events[0]["kind"] = "tool-update"

    assert choose([stray], 3) == []


EXAMPLES = st.lists(
    st.builds(
        example,
        st.integers(0, 3),
        version=st.sampled_from(["1.9", "1.10", None]),
        dialect=st.sampled_from(["acp", "happier-trace"]),
        status=st.sampled_from(["completed", "failed"]),
        output=st.dictionaries(st.sampled_from(["stdout", "content", "other"]), st.text("ab", max_size=2), max_size=2),
    ),
    max_size=12,
)


@given(examples=EXAMPLES, maximum=st.integers(1, 4), data=st.data())
def test_choice_is_independent_of_order_and_batches(examples: list[Example], maximum: int, data: st.DataObject) -> None:
    chosen = choose(examples, maximum)
    shuffled = data.draw(st.permutations(examples))
    cut = data.draw(st.integers(0, len(examples)))

    assert choose(shuffled, maximum) == chosen
    assert choose([*choose(shuffled[:cut], maximum), *shuffled[cut:]], maximum) == chosen
    assert len(chosen) <= maximum
