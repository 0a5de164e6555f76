"""Edit and MultiEdit."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output

INDENTED = '    return "Hello"\n'


@pytest.mark.parametrize(
    "value",
    [
        {"file_path": "a.py", "old_string": INDENTED, "new_string": ""},
        {"filePath": "a.py", "oldString": INDENTED, "newString": ""},
        {"path": "a.py", "oldText": INDENTED, "newText": ""},
        {"path": "a.py", "old_str": INDENTED, "new_str": ""},
        {"path": "a.py", "old_text": INDENTED, "new_text": ""},
        {"path": "a.py", "edit": {"old": INDENTED, "new": ""}},
        {"items": [{"type": "diff", "path": "a.py", "oldText": INDENTED, "newText": ""}]},
        {"content": [{"type": "diff", "path": "a.py", "oldText": INDENTED, "newText": ""}]},
    ],
)
def test_edit_keeps_whitespace(value: dict[str, Any]) -> None:
    edit = tool_input("Edit", value, "edit")

    assert (edit["file_path"], edit["old_string"], edit["new_string"]) == ("a.py", INDENTED, "")


@pytest.mark.parametrize("key", ["replace_all", "replaceAll", "allow_multiple"])
def test_replace_all_aliases(key: str) -> None:
    assert tool_input("Edit", {"file_path": "a", key: False}, "edit")["replace_all"] is False


def test_insertion_has_new_text_and_line() -> None:
    """Cline 3.0.65: `editor`."""
    value = {"path": "a.py", "new_text": "x\n", "insert_line": 3}

    assert tool_input("Edit", value, "editor") == {**value, "file_path": "a.py", "new_string": "x\n"}


@pytest.mark.parametrize(
    "value",
    [
        {
            "file_path": "a.py",
            "edits": [{"old_string": " a ", "new_string": ""}, {"old_string": "b", "new_string": "c"}],
        },
        {"path": "a.py", "edits": [{"oldText": " a ", "newText": ""}, {"oldText": "b", "newText": "c"}]},
        {"path": "a.py", "edit": [{"old": " a ", "new": ""}, {"old": "b", "new": "c"}]},
        {"filePath": "a.py", "changes": [{"oldString": " a ", "newString": ""}, {"oldString": "b", "newString": "c"}]},
    ],
)
def test_several_edits_of_one_file(value: dict[str, Any]) -> None:
    multi = tool_input("MultiEdit", value, "edit")

    assert multi["file_path"] == "a.py"
    assert [(edit["old_string"], edit["new_string"]) for edit in multi["edits"]] == [(" a ", ""), ("b", "c")]


def test_edits_of_several_files_keep_paths_and_flags() -> None:
    value = {"edits": [{"path": "a", "old_string": "x", "new_string": "y", "replaceAll": True, "note": 1}]}

    assert tool_input("MultiEdit", value, "edit")["edits"] == [
        {
            "path": "a",
            "old_string": "x",
            "new_string": "y",
            "replaceAll": True,
            "note": 1,
            "file_path": "a",
            "replace_all": True,
        }
    ]


def test_missing_edits_are_an_empty_list() -> None:
    assert tool_input("MultiEdit", {"file_path": "a", "edits": ["x"]}, "MultiEdit")["edits"] == []


@pytest.mark.parametrize("name", ["Edit", "MultiEdit"])
def test_structured_result_is_retained(name: str) -> None:
    structured = {
        "filePath": "/tmp/ws/src/app.py",
        "oldString": "greet",
        "newString": "salute",
        "structuredPatch": [
            {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-greet", "+salute"]}
        ],
        "userModified": False,
    }

    output = tool_output(name, {**structured, "content": "The file has been updated."}, name)

    assert output == {**structured, "message": "The file has been updated."}
