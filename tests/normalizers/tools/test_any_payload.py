"""For any value, a family returns an object, loses no key, and does not change its argument."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tooltap.normalizers.tools.files import NEW_TEXT_KEYS, OLD_TEXT_KEYS, PATH_KEYS
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS, PREVIEW_LENGTH, preview, tool_input, tool_output
from tooltap.protocol.tools import TOOLS

ALIASES = {
    *("argv", "cmd", "diff", "edit", "exit", "files", "filenames", "glob", "items", "kind", "locations", "metadata"),
    *("mode", "name", "newTodos", "numLines", "output", "plan", "q", "queries", "question", "rawInput", "requests"),
    *("startLine", "view_range", *PATH_KEYS, *OLD_TEXT_KEYS, *NEW_TEXT_KEYS),
}
FIELDS = {field.encode_name for types in TOOLS.values() for struct in types for field in msgspec.structs.fields(struct)}
KEYS = sorted((ALIASES | FIELDS) - {"_happy", "_raw"})
PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
TEXT = st.sampled_from(["", " ", "x", "a:1:b\n", "@@ -1 +1 @@\n-a\n+b", PATCH, "[1]", '{"a": 1}'])
LEAF = st.none() | st.booleans() | st.integers(-3, 3) | st.just(0.5) | TEXT
JSON: Any = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*CANONICAL_TOOLS, "mcp__a__b", "no_such_tool"])
many = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(NAMES, JSON)
@example("Patch", {"changes": {"a": {"diff": 3, "kind": {}}}})
@example("Read", {"view_range": [1, None]})
def test_inputs(name: str, value: Any) -> None:
    before = copy.deepcopy(value)

    payload = tool_input(name, value, name)

    assert value == before
    assert None not in payload.values()
    assert len(preview(name, payload, "/w") or "") <= PREVIEW_LENGTH
    assert isinstance(canonical_name(name, value, "1"), str)
    msgspec.json.encode(payload)
    if isinstance(value, dict):
        assert {key for key, item in value.items() if item is not None} <= payload.keys()


@many
@given(NAMES, JSON)
def test_outputs(name: str, value: Any) -> None:
    before = copy.deepcopy(value)

    payload = tool_output(name, value, name)

    assert value == before
    assert None not in payload.values()
    msgspec.json.encode(payload)


@many
@given(NAMES, JSON)
@example("Task", {"operation": None})
def test_canonical_input_is_idempotent(name: str, value: Any) -> None:
    once = tool_input(name, value, name)

    assert tool_input(name, once, name) == once
