"""Typed payloads lose nothing and never raise, and their fields are the keys that the families write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tooltap.normalizers.tools.registry import REGISTRY, tool_input, tool_output
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import (
    TOOLS,
    AskUserQuestionInput,
    FileText,
    McpInput,
    McpResult,
    Modification,
    MultiEditInput,
    PatchInput,
    ReadResult,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def keys(struct: type[OpenStruct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)} - {"extra"}


def test_every_canonical_tool_has_rules_and_examples() -> None:
    assert set(TOOLS) == {name for name, tool in REGISTRY.items() if tool.types is not None}
    assert set(INPUTS) == set(RESULTS) == {*TOOLS, "mcp__a__b"}


ALL_TYPES: list[type[OpenStruct]] = sorted(
    {struct for types in TOOLS.values() for struct in types} | {McpInput, McpResult}, key=str
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_payload_round_trip(data: st.DataObject) -> None:
    struct = data.draw(st.sampled_from(ALL_TYPES))
    payload = data.draw(st.dictionaries(st.sampled_from([*sorted(keys(struct)), "extra"]), JSON, max_size=4))

    assert struct.from_payload(payload).to_payload() == payload


def test_unknown_keys_and_values_are_retained_at_every_depth() -> None:
    payload = {
        "changes": {"a.py": {"type": "modify", "modify": {"hunks": [{"old_start": 1, "note": "x"}]}, "mode": 420}},
        "auto_approved": "yes",
        "_happy": {"v": 2, "canonicalToolName": "Patch", "more": True},
        "_raw": {"changes": []},
        "turn_id": "1",
    }

    patch = TOOLS["Patch"].input.from_payload(payload)

    assert patch.extra == {"auto_approved": "yes", "turn_id": "1"}
    assert patch.happy is not None
    assert patch.happy.canonicalToolName == "Patch"
    assert patch.to_payload() == payload


DIFF = "@@ -1 +1 @@\n-a\n+b\n"
EDIT = {"path": "a", "oldText": "x", "newText": "y", "replaceAll": True}
INPUTS: dict[str, list[Any]] = {
    "Bash": [{"cmd": "ls", "workdir": "/"}, {"commands": ["a", "b"]}],
    "Read": [{"path": "a", "start_line": 1, "end_line": 2}, {"files": ["a", "b"]}],
    "Write": [{"path": "a", "text": "x"}],
    "Edit": [EDIT],
    "MultiEdit": [{"path": "a", "changes": [EDIT]}],
    "Delete": [{"path": "a"}],
    "Patch": [{"diff": f"--- a\n+++ b\n{DIFF}"}, "x", {"changes": {"a": {"type": "update", "unified_diff": DIFF}}}],
    "Diff": [DIFF],
    "Glob": [{"glob": "*", "cwd": "/"}],
    "Grep": [{"query": "x", "dir": "/", "include": "*"}],
    "LS": [{"dir": "/"}],
    "CodeSearch": [{"q": "x"}],
    "WebFetch": [{"href": "http://a"}, {"requests": [{"url": "http://a"}, {"url": "http://b"}]}],
    "WebSearch": [{"q": "x"}],
    "TodoWrite": [{"plan": [{"step": "x"}]}],
    "TodoRead": [{}],
    "Task": [{"message": "x", "agent_type": "y"}],
    "Reasoning": ["x"],
    "EnterPlanMode": [{}],
    "ExitPlanMode": ["x"],
    "AskUserQuestion": [{"question": "x", "choices": ["a"], "multiple": True}],
    "AcpHistoryImport": [{}],
    "WorkspaceIndexingPermission": [{}],
    "change_title": ["x"],
    "mcp__a__b": [{}],
}
RESULTS: dict[str, list[Any]] = {
    "Bash": ["x", {"output": "x", "stderr": "y", "metadata": {"exit": 1}}],
    "Read": ["x", "<file>\n00001| a\n(End of file - total 1 lines)\n</file>"],
    "Write": ["x", {"success": True}],
    "Edit": ["x", {"success": True}],
    "MultiEdit": ["x", {"success": True}],
    "Delete": ["x", {"success": True}],
    "Patch": ["x", {"success": False, "stdout": "y", "changes": {"a": {"type": "add", "content": "x"}}}],
    "Diff": [3],
    "Glob": ["a\n(cut, use a narrower pattern)"],
    "Grep": ["a:1:x\nand more"],
    "LS": ["a\n(cut, use another path)"],
    "CodeSearch": ["a:1:x\nand more"],
    "WebFetch": ["x", {"error": "no"}],
    "WebSearch": ["x"],
    "TodoWrite": ["x", {"newTodos": ["a"]}],
    "TodoRead": ["[]"],
    "Task": ["x", [{"id": "1"}]],
    "Reasoning": ["x"],
    "EnterPlanMode": [3],
    "ExitPlanMode": [3],
    "AskUserQuestion": ["x", {"answers": {"a": ["b"]}}],
    "AcpHistoryImport": [3],
    "WorkspaceIndexingPermission": [3],
    "change_title": ["x", 'title to: "y"'],
    "mcp__a__b": ["x", [{"type": "image"}, {"type": "text", "text": "x"}]],
}
"""Values that make the families write each of their keys."""


def written(payload: dict[str, Any], value: Any) -> set[str]:
    return {key for key, item in payload.items() if not isinstance(value, dict) or value.get(key) != item}


def types_of(name: str) -> tuple[type[OpenStruct], type[OpenStruct]]:
    return TOOLS.get(name, (McpInput, McpResult))


@pytest.mark.parametrize("name", INPUTS)
def test_every_written_key_is_a_field(name: str) -> None:
    input_type, result_type = types_of(name)

    for value in INPUTS[name]:
        payload = tool_input(name, value, "x")
        assert written(payload, value) <= keys(input_type)
        assert not written(payload, value) & input_type.from_payload(payload).extra.keys()
    for value in RESULTS[name]:
        payload = tool_output(name, value, "x")
        assert written(payload, value) <= keys(result_type)
        assert not written(payload, value) & result_type.from_payload(payload).extra.keys()


def test_nested_keys_are_fields() -> None:
    multi = MultiEditInput.from_payload(tool_input("MultiEdit", INPUTS["MultiEdit"][0], "edit"))
    patch = PatchInput.from_payload(tool_input("Patch", INPUTS["Patch"][2], "edit"))
    read = ReadResult.from_payload(tool_output("Read", RESULTS["Read"][1], "read"))
    asked = AskUserQuestionInput.from_payload(tool_input("AskUserQuestion", INPUTS["AskUserQuestion"][0], ""))

    assert multi.edits is not None
    assert multi.edits[0].old_string == "x"
    assert multi.edits[0].extra == EDIT
    assert patch.changes is not None
    assert patch.changes["a"].modify == Modification(old_content="a", new_content="b")
    assert patch.changes["a"].extra == {}
    assert read.file == FileText(content="a", startLine=1, numLines=1, totalLines=1)
    assert asked.questions is not None
    assert asked.questions[0].extra == {"multiple": True}
