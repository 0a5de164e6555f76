"""Agents start agents, as deep as they like: nothing recurses over that."""

from __future__ import annotations

import orjson
import pytest

from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer

MANY = 20_000
"""More than may be open."""


@pytest.mark.parametrize("depth", [400, 9_990])
def test_calls_of_nested_subagents_are_closed_however_deep(depth: int, toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)
    for number in range(depth):
        named = {"agent": f"a{number}", "parent": f"c{number - 1}"} if number else {}
        normalizer.feed(orjson.dumps({"do": "call", "id": f"c{number}", "name": "Task", **named}))

    closed = [one.fields.call_id for one in normalizer.close("end") if isinstance(one, Produced)]

    assert closed == [f"c{number}" for number in reversed(range(depth))]


def test_calls_beyond_the_limit_are_closed_with_their_subagents(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)
    results = 0
    for number in range(MANY):
        line = {"do": "call", "id": f"c{number}", "name": "Task", "agent": "a", "parent": f"c{number - 1}"}
        results += sum(
            one.kind == "tool-result" for one in normalizer.feed(orjson.dumps(line)) if isinstance(one, Produced)
        )

    assert results + len(normalizer.close("end")) == MANY


def test_calls_that_name_each_other_as_parent_are_closed_once(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)
    for call, parent in (("a", "b"), ("b", "a")):
        normalizer.feed(orjson.dumps({"do": "call", "id": call, "name": "Task", "parent": parent, "agent": parent}))

    closed = [one.fields.call_id for one in normalizer.close("end") if isinstance(one, Produced)]

    assert sorted(closed) == ["a", "b"]
