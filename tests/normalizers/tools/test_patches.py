"""Patch and Diff."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.files import parse_patch
from tooltap.normalizers.tools.registry import tool_input, tool_output
from tooltap.normalizers.tools.unified_diff import hunks, split_files

DIFF = '@@ -5,3 +5,3 @@\n     """Doc."""\n-    return "Hello"\n+    return "Good day"\n \n'
MODIFY = {
    "old_content": '    """Doc."""\n    return "Hello"\n',
    "new_content": '    """Doc."""\n    return "Good day"\n',
}


def changes(value: Any) -> Any:
    return tool_input("Patch", value, "apply_patch").get("changes")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"type": "add", "content": "a\nb\n"}, {"type": "add", "add": {"content": "a\nb\n"}}),
        ({"type": "add", "content": ""}, {"type": "add", "add": {"content": ""}}),
        ({"type": "update", "unified_diff": DIFF, "move_path": None}, {"type": "modify", "modify": MODIFY}),
        (
            {"type": "update", "unified_diff": DIFF, "move_path": "b.py"},
            {"type": "rename", "move_path": "b.py", "modify": MODIFY},
        ),
        (
            {"type": "update", "old_content": "a\n", "new_content": "b\n", "unified_diff": DIFF},
            {"type": "modify", "modify": {"old_content": "a\n", "new_content": "b\n"}},
        ),
        ({"type": "delete", "content": "x\n"}, {"type": "delete", "delete": {"content": "x\n"}}),
        ({"type": "delete"}, {"type": "delete", "delete": {}}),
        ({"kind": "update"}, {"type": "modify"}),
        ({"kind": {"type": "add"}, "diff": "new\n"}, {"type": "add", "add": {"content": "new\n"}}),
        ({"kind": {"type": "delete"}, "diff": "old\n"}, {"type": "delete", "delete": {"content": "old\n"}}),
        ({"kind": {"type": "add"}, "diff": ""}, {"type": "add", "add": {"content": ""}}),
        ({"kind": {"type": "add"}, "diff": DIFF}, {"type": "add", "add": {"content": DIFF}}),
        ({"kind": {"type": "delete"}, "diff": DIFF}, {"type": "delete", "delete": {"content": DIFF}}),
        (
            {"kind": {"type": "update", "move_path": "b.py"}, "diff": DIFF + "\n\nMoved to: b.py"},
            {"type": "rename", "move_path": "b.py", "modify": MODIFY},
        ),
        ({"add": {"content": "new\n"}}, {"type": "add", "add": {"content": "new\n"}}),
        ({"delete": {"content": "old\n"}}, {"type": "delete", "delete": {"content": "old\n"}}),
        ({"update": {"unified_diff": DIFF, "move_path": None}}, {"type": "modify", "modify": MODIFY}),
        (
            {"update": {"unified_diff": DIFF, "move_path": "b.py"}},
            {"type": "rename", "move_path": "b.py", "modify": MODIFY},
        ),
        ({"unified_diff": DIFF}, {"type": "modify", "modify": MODIFY}),
        ({"type": "diff", "oldText": None, "newText": "x\n"}, {"type": "add", "add": {"content": "x\n"}}),
        (
            {"type": "diff", "oldText": "a\n", "newText": "b\n"},
            {"type": "modify", "modify": {"old_content": "a\n", "new_content": "b\n"}},
        ),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_single_change(change: dict[str, Any], expected: dict[str, Any], listed: bool) -> None:
    value = {"changes": [{**change, "path": "a.py"}] if listed else {"a.py": change}}

    got = changes(value)["a.py"]

    assert {key: got.get(key) for key in ("type", "move_path", "add", "modify", "delete")} == {
        "move_path": None,
        "add": None,
        "modify": None,
        "delete": None,
        **expected,
    }


@pytest.mark.parametrize(
    "change",
    [{"touch": {"content": "x\n"}}, {"type": "touch"}, {"add": {"content": "x\n"}, "delete": {"content": "x\n"}}, {}],
)
def test_change_of_an_unknown_form_has_no_type(change: dict[str, Any]) -> None:
    assert "type" not in changes({"changes": {"a.py": change}})["a.py"]


def test_unknown_keys_of_patch_are_retained() -> None:
    value = {"auto_approved": True, "changes": {"a": {"type": "add", "content": "x", "note": 1}}}

    assert tool_input("Patch", value, "CodexPatch") == {
        "auto_approved": True,
        "changes": {"a": {"type": "add", "content": "x", "note": 1, "add": {"content": "x"}}},
    }


TWO_HUNKS = "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -9 +9,2 @@ def f():\n c\n+d\n\\ No newline at end of file\n"


def test_several_hunks_stay_separate() -> None:
    assert changes({"changes": {"a": {"type": "update", "unified_diff": TWO_HUNKS}}})["a"]["modify"] == {
        "hunks": [
            {"old_start": 1, "new_start": 1, "old_content": "a\nb", "new_content": "A\nb"},
            {"old_start": 9, "new_start": 9, "old_content": "c", "new_content": "c\nd"},
        ]
    }


def test_hunks_without_line_numbers() -> None:
    diff = "@@ class A:\n@@ def f():\n a\n-b\n+c\n\n@@\n-x\n"

    assert changes({"changes": {"a": {"type": "update", "unified_diff": diff}}})["a"]["modify"] == {
        "hunks": [{"old_content": "a\nb\n", "new_content": "a\nc\n"}, {"old_content": "x", "new_content": ""}]
    }


def test_several_edits_of_one_file_in_patch() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]

    assert changes({"changes": {"a": {"type": "update", "edits": edits}}})["a"]["modify"] == {
        "hunks": [{"old_content": "a", "new_content": "b"}, {"old_content": "c", "new_content": "d"}]
    }


GIT = """diff --git a/src/app.py b/src/app.py
index 43f22fe..73ae2ad 100644
--- a/src/app.py
+++ b/src/app.py
@@ -1,2 +1,2 @@
--- a comment
+-- another
 x
diff --git a/new.md b/new.md
new file mode 100644
index 0000000..3e75765
--- /dev/null
+++ b/new.md
@@ -0,0 +1 @@
+new
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/util.py b/maths.py
similarity index 100%
rename from util.py
rename to maths.py
"""
PLAIN = "--- a.txt\t2026-11-21\n+++ a.txt\t2026-11-21\n@@ -1 +1 @@\n-a\n+b\n--- c.txt\n+++ c.txt\n@@ -1 +1 @@\n-c\n+d\n"


def test_diff_is_split_only_at_file_headers() -> None:
    assert [(file.path, file.kind, file.move_path) for file in split_files(GIT)] == [
        ("src/app.py", "modify", None),
        ("new.md", "add", None),
        ("old.txt", "delete", None),
        ("util.py", "rename", "maths.py"),
    ]
    assert [(file.path, file.kind) for file in split_files(PLAIN)] == [("a.txt", "modify"), ("c.txt", "modify")]
    without_newline = PLAIN.replace("-a\n", "-a\n\\ No newline at end of file\n")
    assert [(file.path, file.kind) for file in split_files(without_newline)] == [
        ("a.txt", "modify"),
        ("c.txt", "modify"),
    ]
    assert split_files("no diff at all") == []


@pytest.mark.parametrize("key", ["patch", "unified_diff", "diff", "patchText"])
def test_unified_diff_gives_changes(key: str) -> None:
    got = changes({key: GIT})

    assert {path: change["type"] for path, change in got.items()} == {
        "src/app.py": "modify",
        "new.md": "add",
        "old.txt": "delete",
        "util.py": "rename",
    }
    assert got["src/app.py"]["modify"] == {"old_content": "-- a comment\nx", "new_content": "-- another\nx"}


APPLY_PATCH = """*** Begin Patch
*** Update File: src/util.py
*** Move to: src/maths.py
@@
 def add(a, b):
-    return a + b
+    return b + a
*** Add File: docs/new.md
+new
*** Delete File: package.json
*** End Patch
"""


@pytest.mark.parametrize("value", [APPLY_PATCH, {"input": APPLY_PATCH}, {"patchText": APPLY_PATCH}])
def test_codex_patch_gives_changes(value: Any) -> None:
    got = changes(value)

    assert {path: change["type"] for path, change in got.items()} == {
        "src/util.py": "rename",
        "docs/new.md": "add",
        "package.json": "delete",
    }
    assert got["src/util.py"]["move_path"] == "src/maths.py"
    assert got["src/util.py"]["modify"] == {
        "old_content": "def add(a, b):\n    return a + b",
        "new_content": "def add(a, b):\n    return b + a",
    }
    assert got["docs/new.md"]["add"] == {"content": "new\n"}


@pytest.mark.parametrize(("diff", "count"), [("", 0), ("@@ -1 +1 @@", 1), ("@@ -1,5 +1,5 @@\n a", 1), ("@@ bad", 0)])
def test_broken_diff_gives_valid_hunks(diff: str, count: int) -> None:
    assert len(hunks(diff)) == count


@pytest.mark.parametrize("value", [{}, {"changes": {}}, {"changes": "x"}, {"note": 1}])
def test_input_without_changes_has_none(value: dict[str, Any]) -> None:
    assert tool_input("Patch", value, "patch") == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"stdout": "Success.\n", "stderr": "", "success": True},
            {"stdout": "Success.\n", "stderr": "", "success": True, "applied": True},
        ),
        (
            {"stdout": "", "stderr": "no such line\n", "success": False},
            {
                "stdout": "",
                "stderr": "no such line\n",
                "success": False,
                "applied": False,
                "errorMessage": "no such line",
            },
        ),
        (
            {"stdout": "bad hunk", "success": False},
            {"stdout": "bad hunk", "success": False, "applied": False, "errorMessage": "bad hunk"},
        ),
        ("Success. Updated the following files:\nA a\n", {"message": "Success. Updated the following files:\nA a\n"}),
    ],
)
def test_patch_result(value: Any, expected: dict[str, Any]) -> None:
    assert tool_output("Patch", value, "apply_patch") == expected


def test_result_changes_have_the_form_of_input_changes() -> None:
    change = {"type": "update", "unified_diff": DIFF, "move_path": None}

    output = tool_output("Patch", {"success": True, "changes": {"a.py": change}}, "patch_apply")

    assert output["changes"] == changes({"changes": {"a.py": change}})


@pytest.mark.parametrize(
    "value", [DIFF, {"unified_diff": DIFF}, {"unifiedDiff": DIFF}, {"diff": DIFF}, {"patch": DIFF}]
)
def test_diff_input(value: Any) -> None:
    assert tool_input("Diff", value, "CodexDiff")["unified_diff"] == DIFF


def test_diff_result_is_retained() -> None:
    assert tool_output("Diff", {"status": "completed"}, "CodexDiff") == {"status": "completed"}


# -- the patch format of `apply_patch` -------------------------------------------------------------------------------

PATCH = """*** Begin Patch
*** Add File: docs/new.md
+# New
+
+text
*** Update File: src/app.py
@@ def greet(name):
     return (
-        "Hello"
+        "Howdy"
     )
*** Delete File: old.txt
*** Update File: a.py
*** Move to: b.py
@@
-x = 1
+x = 2
*** End of File
*** Update File: src/app.py
@@ def main():
-    pass
+    greet("you")
*** End Patch
"""


def test_each_file_has_one_change() -> None:
    assert parse_patch(PATCH) == {
        "docs/new.md": {"type": "add", "content": "# New\n\ntext\n"},
        "src/app.py": {
            "type": "update",
            "unified_diff": '@@ def greet(name):\n     return (\n-        "Hello"\n+        "Howdy"\n     )\n'
            '@@ def main():\n-    pass\n+    greet("you")\n',
        },
        "old.txt": {"type": "delete"},
        "a.py": {"type": "update", "unified_diff": "@@\n-x = 1\n+x = 2\n", "move_path": "b.py"},
    }


def test_patch_tool_parses_it() -> None:
    changes = tool_input("Patch", {"input": PATCH}, "apply_patch")["changes"]

    assert {path: change["type"] for path, change in changes.items()} == {
        "docs/new.md": "add",
        "src/app.py": "modify",
        "old.txt": "delete",
        "a.py": "rename",
    }
    assert changes["docs/new.md"]["add"] == {"content": "# New\n\ntext\n"}
    assert changes["src/app.py"]["modify"]["hunks"][0] == {
        "old_content": '    return (\n        "Hello"\n    )',
        "new_content": '    return (\n        "Howdy"\n    )',
    }
    assert (changes["a.py"]["modify"]["new_content"], changes["a.py"]["move_path"]) == ("x = 2", "b.py")


def test_patch_in_heredoc_without_end_is_parsed() -> None:
    text = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n-x\n+y"

    assert parse_patch(text) == {"a.py": {"type": "update", "unified_diff": "@@\n-x\n+y\n"}}


def test_other_text_is_not_a_patch() -> None:
    assert parse_patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n") is None
    assert parse_patch("") is None
    assert parse_patch("*** Begin Patch\n*** End Patch") == {}
