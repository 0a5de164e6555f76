"""Read, Write and Delete."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.registry import tool_input, tool_output


@pytest.mark.parametrize("name", ["Read", "Write", "Edit", "Delete"])
@pytest.mark.parametrize(
    "key", ["file_path", "filePath", "filepath", "path", "absolute_path", "abs_path", "target_file"]
)
def test_path_aliases(name: str, key: str) -> None:
    assert tool_input(name, {key: "/tmp/ws/a b.py"}, "read")["file_path"] == "/tmp/ws/a b.py"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"files": [{"path": "a.py"}, {"path": "b.py"}]}, ["a.py", "b.py"]),
        ({"paths": ["a.py", "b.py", "a.py"]}, ["a.py", "b.py"]),
        ({"locations": [{"path": "a.py", "line": 1}, {"path": "b.py"}]}, ["a.py", "b.py"]),
        (["a.py", "b.py"], ["a.py", "b.py"]),
    ],
)
def test_several_files_are_a_list(value: Any, expected: list[str]) -> None:
    read = tool_input("Read", value, "read_files")

    assert read["file_paths"] == expected
    assert "file_path" not in read


@pytest.mark.parametrize(
    "value",
    [{"files": [{"path": "a.py"}]}, {"locations": [{"path": "a.py"}]}, {"locations": [], "path": "a.py"}, "a.py"],
)
def test_one_file_is_a_path(value: Any) -> None:
    assert tool_input("Read", value, "read")["file_path"] == "a.py"


@pytest.mark.parametrize(
    ("value", "offset", "limit"),
    [
        ({"path": "a", "offset": 10, "limit": 5}, 10, 5),
        ({"path": "a", "line_offset": 10, "n_lines": 5}, 10, 5),
        ({"path": "a", "start_line": 10, "end_line": 14}, 10, 5),
        ({"path": "a", "start_line": 10}, 10, None),
        ({"path": "a", "view_range": [10, 14]}, 10, 5),
        ({"path": "a", "view_range": [10, -1]}, 10, None),
        ({"path": "a", "offset": None, "limit": 2000}, None, 2000),
        ({"path": "a"}, None, None),
    ],
)
def test_line_range_of_read(value: dict[str, Any], offset: int | None, limit: int | None) -> None:
    read = tool_input("Read", value, "read")

    assert (read.get("offset"), read.get("limit")) == (offset, limit)


OPENCODE_0 = "<file>\n00001| a\n00002|   b: c\n00003| \n\n(End of file - total 3 lines)\n</file>"
OPENCODE_1 = (
    "<path>/tmp/ws/src/app.py</path>\n<type>file</type>\n<content>\n1: import sys\n2: \n3: def greet(name):\n"
    "4:     return 1\n\n(End of file - total 4 lines)\n</content>"
)
CLAUDE = {
    "type": "text",
    "file": {"filePath": "/tmp/ws/a", "content": "x\n", "numLines": 2, "startLine": 1, "totalLines": 2},
}


@pytest.mark.parametrize(
    ("raw_name", "value", "file"),
    [
        ("read", "import sys\n\n  x\n", {"content": "import sys\n\n  x\n"}),
        ("read", [{"type": "text", "text": "x\n"}], {"content": "x\n"}),
        ("read", [{"type": "content", "content": {"type": "text", "text": "x\n"}}], {"content": "x\n"}),
        ("read", OPENCODE_0, {"content": "a\n  b: c\n", "startLine": 1, "numLines": 3, "totalLines": 3}),
        (
            "read",
            {"output": OPENCODE_1, "metadata": {"truncated": False}},
            {
                "content": "import sys\n\ndef greet(name):\n    return 1",
                "startLine": 1,
                "numLines": 4,
                "totalLines": 4,
                "filePath": "/tmp/ws/src/app.py",
            },
        ),
        ("Read", {**CLAUDE, "content": "1\tx\n2\t"}, CLAUDE["file"]),
        ("Read", "4\tdef f():\n5\t    pass", {"content": "def f():\n    pass", "startLine": 4, "numLines": 2}),
        ("Read", "     1→a\n     2→b", {"content": "a\nb", "startLine": 1, "numLines": 2}),
        ("Read", "1\ta\nand so on", {"content": "1\ta\nand so on"}),
        ("ReadFile", "     1\ta\n     2\tb\n", {"content": "a\nb\n", "startLine": 1, "numLines": 2}),
        ("read", "1\ta\n2\tb", {"content": "1\ta\n2\tb"}),
        (
            "read_file",
            {"filePath": "/tmp/ws/a", "content": "x\n", "numLines": 1, "startLine": 1, "totalLines": None},
            {"filePath": "/tmp/ws/a", "content": "x\n", "numLines": 1, "startLine": 1},
        ),
        ("read", {"stdout": "a\n", "exit_code": 0}, {"content": "a\n"}),
    ],
)
def test_text_of_a_file(raw_name: str, value: Any, file: dict[str, Any]) -> None:
    assert tool_output("Read", value, raw_name)["file"] == file


@pytest.mark.parametrize("value", ["", [], {"content": []}, {"error": "no such file"}, None])
def test_empty_read_has_no_file(value: Any) -> None:
    assert "file" not in tool_output("Read", value, "read")


def test_text_next_to_structured_result_is_not_repeated() -> None:
    assert tool_output("Read", {**CLAUDE, "content": "1\tx\n2\t"}, "Read") == CLAUDE


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"file_path": "a", "content": "  x\n\n"}, "  x\n\n"),
        ({"file_path": "a", "content": ""}, ""),
        ({"path": "a", "file_text": "x"}, "x"),
        ({"path": "a", "new_text": "x"}, "x"),
        ({"path": "a", "contents": "x"}, "x"),
        ({"items": [{"type": "diff", "path": "a", "oldText": "", "newText": "x\n"}]}, "x\n"),
        ({"content": [{"type": "diff", "path": "a", "newText": "x\n"}]}, "x\n"),
    ],
)
def test_written_content(value: dict[str, Any], content: str) -> None:
    write = tool_input("Write", value, "write")

    assert (write["file_path"], write["content"]) == ("a", content)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Wrote file.", {"message": "Wrote file."}),
        ([{"type": "text", "text": "Wrote file."}], {"message": "Wrote file."}),
        ("", {}),
        ({"success": True}, {"success": True, "applied": True}),
        ({"error": "no"}, {"error": "no", "applied": False, "errorMessage": "no"}),
        (
            {"type": "create", "filePath": "a", "structuredPatch": [], "originalFile": None, "content": "Created a"},
            {"type": "create", "filePath": "a", "structuredPatch": [], "message": "Created a"},
        ),
        (
            {"filePath": "a", "fileExisted": False, "previousContent": None},
            {"filePath": "a", "fileExisted": False},
        ),
    ],
)
def test_write_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("Write", value, "write") == expected


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"file_paths": ["a", "", "b"]}, ["a", "b"]),
        ({"path": "a"}, ["a"]),
        ({"locations": [{"path": "a"}, {"path": "b"}]}, ["a", "b"]),
    ],
)
def test_deleted_paths(value: dict[str, Any], paths: list[str]) -> None:
    delete = tool_input("Delete", value, "delete")

    assert delete["file_paths"] == paths
    assert delete.get("file_path") == (paths[0] if len(paths) == 1 else None)


@pytest.mark.parametrize(
    ("value", "deleted"), [({"ok": True}, True), ({"deleted": False}, False), ({"error": "no"}, False), ("gone", None)]
)
def test_deleted_flag(value: Any, deleted: bool | None) -> None:
    assert tool_output("Delete", value, "delete").get("deleted") is deleted
