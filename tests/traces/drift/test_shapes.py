"""The shape of a JSON value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooltap.traces.drift.shapes import (
    MAX_DEPTH,
    MAX_KEYS,
    MAX_VARIANTS,
    Shape,
    Source,
    compare,
    example,
    render,
    shape_of,
)

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


def learned(*recordings: list[Any]) -> Shape:
    """As a baseline learns from recordings, each of another configuration."""
    shape = Shape()
    for number, values in enumerate(recordings):
        one = union(*values)
        one.mark(Source(f"configuration {number}", f"recording {number}"))
        shape.add(one)
    shape.fold_maps()
    shape.settle(3, 2)
    return Shape.from_json(shape.to_json())


def changes(known: Shape, value: Any) -> list[tuple[str, str, str]]:
    return [(change.kind, change.path, change.found) for change in compare(known, shape_of(value))]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        # Names of tools, which the characters of only one of them give away.
        ([{"tools": {"mcp__fixture": "a", "spawn": "b"}}] * 3, {"tools": {"*?": "string"}}),
        # Counts by a name.
        ([{"by_type": {"Explore": 1}}, {"by_type": {}}, {"by_type": {"Plan": 2}}], {"by_type": {"*?": "number"}}),
        # Keys that vary, with values of one shape.
        ([{"m": {"a": 1, "b": 1}}, {"m": {"c": 1}}, {"m": {"d": 1, "e": 2}}], {"m": {"*?": "number"}}),
        ([{"m": {"a": {"n": 1}, "b-1": {"n": 2}}}, {"m": {"c": {"n": 1}}}] * 2, {"m": {"*?": {"n": "number"}}}),
        # Fields, though some are optional and all are numbers.
        ([{"u": {"in": 1, "out": 1}}] * 2 + [{"u": {"in": 1, "out": 1, "cached": 2}}], None),
        # Fields, though their keys vary: the values are of several shapes.
        ([{"m": {"a": 1, "b": 1}}, {"m": {"c": "x"}}, {"m": {"d": 1, "e": [2]}}], None),
    ],
)
def test_maps_are_recognised_by_their_keys(values: list[Any], written: Any) -> None:
    shape = learned(*[[value] for value in values])

    if written is None:
        assert "*" not in str(shape.to_json())
        return
    assert shape.to_json() == written
    [name] = written
    foreign = shape_of({name: {"mcp__other": next(iter(values[0][name].values()), 1)}})
    assert list(compare(shape, foreign)) == []


def test_value_of_a_map_is_compared() -> None:
    known = learned(*[[{"models": {"gpt-5": {"in": 1, "out": 2}}}]] * 3)

    assert changes(known, {"models": {"local": {"in": 1, "outNow": 2}}}) == [
        ("new-key", "$.models.*.outNow", "number"),
        ("vanished-key", "$.models.*.out", "outNow"),
    ]


def test_field_is_expected_if_several_recordings_of_several_configurations_had_it() -> None:
    often = learned(*[[{"id": 1, "text": "x"}]] * 3)
    seldom = learned(*[[{"id": 1, "text": "x"}]] * 2)
    gone = {"id": 1}

    assert often.to_json() == {"id": "number", "text": "string"}
    assert changes(often, gone) == [("vanished-key", "$.text", "")]
    assert seldom.to_json() == {"?": "few", "id": "number", "text": "string"}
    assert changes(seldom, gone) == []

    one_configuration = union(*[{"id": 1}] * 9)
    one_configuration.mark(Source("alone", "a"))
    one_configuration.settle(1, 2)
    assert changes(one_configuration, {}) == []


@pytest.mark.parametrize("count", [1, 3])
def test_field_with_another_name_is_noticed_however_few_had_it(count: int) -> None:
    known = learned(*[[{"id": 1, "text": "x", "kind": "user"}]] * count)

    assert changes(known, {"id": 1, "body": "x", "kind": "user"}) == [
        ("new-key", "$.body", "string"),
        ("vanished-key", "$.text", "body"),
    ]
    # A value of another shape, or fewer new keys than there were: another object.
    assert ("vanished-key", "$.text", "n") not in changes(known, {"id": 1, "n": 2, "kind": "user"})
    assert "body" not in [now for kind, _, now in changes(known, {"body": "x"}) if kind == "vanished-key"]


def test_error_in_place_of_a_result_is_no_other_name() -> None:
    known = learned(*[[{"id": 1, "output": "x"}]] * 3)
    failing = learned(*[[{"id": 1, "error": "x"}]] * 3)

    assert ("vanished-key", "$.output", "") in changes(known, {"id": 1, "error": "x"})
    assert ("vanished-key", "$.error", "errorText") in changes(failing, {"id": 1, "errorText": "x"})


def test_each_name_is_the_new_one_of_one_key() -> None:
    known = learned(*[[{"input_tokens": 1, "output_tokens": 2}]] * 3)

    assert [change for change in changes(known, {"outputTokens": 1, "inputTokens": 2}) if change[0] != "new-key"] == [
        ("vanished-key", "$.input_tokens", "inputTokens"),
        ("vanished-key", "$.output_tokens", "outputTokens"),
    ]


@pytest.mark.parametrize(
    ("known", "found", "mild"),
    [
        (1, "x", False),
        ("x", ["x"], False),
        ("x", [{"type": "text", "text": "x"}], True),
        ([{"type": "text", "text": "x"}], "x", True),
        ("x", [{"value": "x"}], False),
    ],
)
def test_text_and_content_blocks_alternate(known: Any, found: Any, mild: bool) -> None:
    shape = learned(*[[{"content": known}]] * 3)

    [change] = compare(shape, shape_of({"content": found}))
    assert (change.kind, change.mild) == ("other-type", mild)


def test_null_alternates_with_a_value() -> None:
    always_null = learned(*[[{"error": None}]] * 3)
    either = learned([{"error": None}], [{"error": "x"}], [{"error": None}])

    assert changes(always_null, {"error": {"message": "x"}}) == []
    assert changes(either, {"error": None}) == changes(either, {"error": "y"}) == []
    assert changes(either, {"error": 1}) == [("other-type", "$.error", "number")]
