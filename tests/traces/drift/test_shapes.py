"""The shape of a JSON value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.traces.drift.shapes import MAX_DEPTH, MAX_KEYS, MAX_VARIANTS, Shape, compare, example, render, shape_of

BLOCKS = {
    "type": "assistant",
    "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t1", "input": {"any": 1}}],
}


def union(*values: Any) -> Shape:
    shape = Shape()
    for value in values:
        shape.add(shape_of(value))
    return shape


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, 2.5], "number"),
        ([True, None], "boolean|null"),
        ([[]], []),
        ([[1], ["a"]], ["number|string"]),
        ([[1, "a", None]], ["null|number|string"]),
        ([{"a": 1}, {"a": 1, "b": "x"}], {"a": "number", "b?": "string"}),
        (["x", ["x"]], {"|": ["string", ["string"]]}),
        ([{"type": "text"}, {"type": "a text"}], {"|": [{"type": "string"}, {"type": "=text"}]}),
        ([{"/tmp/a.py": 1, "/tmp/b.py": 2}], {"*?": "number"}),
        ([{"gpt-5": 1, "019775f93f82": 2, "What now?": 3, "named": 4}], {"*?": "number", "named": "number"}),
        ([{"arguments": {"a": 1}}, {"arguments": {"b": 1}}], {"arguments": "object"}),
        (
            [BLOCKS],
            {
                "type": "=assistant",
                "content": [
                    {"type": "=text", "text": "string"},
                    {"type": "=tool_use", "id": "string", "input": "object"},
                ],
            },
        ),
    ],
)
def test_shape_is_the_union_of_examples(values: list[Any], written: Any) -> None:
    assert union(*values).to_json() == written
    assert Shape.from_json(written) == union(*values)


KEYS = st.sampled_from(["type", "id", "text", "a/b", "input"]) | st.text(max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "id", "text", "a/b", "input"]) | st.text(max_size=4), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_values, json_values)
def test_union_covers_both_and_round_trips(one: Any, other: Any) -> None:
    shape = union(one, other)

    assert Shape.from_json(shape.to_json()) == shape
    assert union(other, one) == shape
    assert list(compare(shape, shape_of(one))) == []
    assert list(compare(shape, shape_of(other))) == []


def test_changes_render_as_diff() -> None:
    after = {
        "type": "assistant",
        "content": [{"type": "text", "text": ["hi"]}, {"type": "call", "name": "x"}],
        "extra": {"a": 1},
    }
    changes = list(compare(shape_of(BLOCKS), shape_of(after)))

    assert list(render(changes)) == [
        "~ $<assistant>.content[]<text>.text  string → [string]",
        "+ $<assistant>.content[]<call>       {type, name}",
        "+ $<assistant>.extra                 {a}",
    ]
    assert [example(after, change.path) for change in changes] == [["hi"], {"type": "call", "name": "x"}, {"a": 1}]


def test_example_of_vanished_key_is_its_object() -> None:
    [change] = compare(shape_of({"a": {"b": 1, "c": 2}}), shape_of({"a": {"c": 2}}))

    assert (change.kind, change.path) == ("vanished-key", "$.a.b")
    assert example({"a": {"c": 2}}, change.path) == {"c": 2}


def test_shapes_are_bounded() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 50):
        deep = {"a": [deep]}
    wide = union(*({f"key{chr(97 + n % 26)}{chr(97 + n // 26)}": 1} for n in range(MAX_KEYS * 2)))
    many = union(*({"type": f"t{chr(97 + n % 26)}{chr(97 + n // 26)}"} for n in range(MAX_VARIANTS * 2)))

    assert list(compare(shape_of(deep), shape_of(deep))) == []
    assert str(shape_of(deep).to_json()).count("a") <= MAX_DEPTH
    assert len(wide.variants[""].keys) <= MAX_KEYS + 1
    assert len(many.variants) == MAX_VARIANTS
    assert list(compare(many, shape_of({"type": "yet_another"}))) == []
