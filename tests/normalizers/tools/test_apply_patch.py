"""The patch format of `apply_patch`."""

from tooltap.normalizers.tools.patches import parse_patch
from tooltap.normalizers.tools.registry import tool_input

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
