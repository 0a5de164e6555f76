"""The preview of a call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.normalizers.tools.registry import CANONICAL_TOOLS, PREVIEW_LENGTH, preview
from tooltap.protocol.tools import TOOLS

CWD = "/tmp/ws"
WITHOUT_PREVIEW = ("Diff", "EnterPlanMode", "TodoRead")
"""Tools whose input is a whole diff, or empty."""


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        (
            "Bash",
            {"command": "echo partial output; echo 'boom: something broke' >&2; exit 3"},
            "echo partial output; echo 'boom: somethi",
        ),
        ("Bash", {"command": "\x1b[31mls\x1b[0m \t-la\n\ncat \u202ex\x00y"}, "ls -la cat xy"),
        ("Bash", {"command": "\x1b]8;;http://example.com\x07link\x1b]8;;\x07"}, "link"),
        ("Bash", {"command": "printf 😀👩\u200d💻 日本語"}, "printf 😀👩\u200d💻 日本語"),
        ("Bash", {"command": "x" * 10_000_000}, "x" * 40),
        ("Bash", {"command": ["ls", 1]}, None),
        ("Read", {"file_path": "/tmp/ws/src/app.py"}, "src/app.py"),
        ("Read", {"file_path": "/tmp/ws"}, "/tmp/ws"),
        ("Read", {"file_path": "/tmp/wsx/app.py"}, "/tmp/wsx/app.py"),
        ("Read", {"file_paths": ["/tmp/ws/a.py", "/tmp/ws/b.py", "c"]}, "a.py +2"),
        ("Read", {}, None),
        ("Read", {"file_path": 3}, None),
        ("Write", {"file_path": "/tmp/ws/" + "d" * 50 + "/app.py", "content": "x"}, "…" + "d" * 32 + "/app.py"),
        ("Edit", {"file_path": "src/a\nb.py"}, "src/a b.py"),
        ("MultiEdit", {"file_path": "a.py", "edits": []}, "a.py"),
        ("Delete", {"file_paths": ["a.py"]}, "a.py"),
        ("Patch", {"changes": {"/tmp/ws/a.py": {}, "/tmp/ws/b.py": {}}}, "a.py +1"),
        ("Patch", {"changes": {}}, None),
        ("Patch", {"changes": 3}, None),
        ("Grep", {"pattern": "def greet", "path": "src"}, "def greet"),
        ("Glob", {"pattern": "**/*.py"}, "**/*.py"),
        ("LS", {"path": "/tmp/ws/src"}, "src"),
        ("WebFetch", {"url": "http://127.0.0.1:18080/page", "prompt": "What?"}, "http://127.0.0.1:18080/page"),
        ("WebSearch", {"query": "fixture page answer"}, "fixture page answer"),
        (
            "TodoWrite",
            {"todos": [{"content": "Read", "status": "completed"}, {"content": "Edit", "status": "in_progress"}]},
            "Edit",
        ),
        ("TodoWrite", {"todos": [{"content": "Read", "status": "pending"}]}, "Read"),
        ("TodoWrite", {"todos": []}, None),
        ("Task", {"operation": "run", "description": "Find greet", "prompt": "Find where …"}, "Find greet"),
        ("Task", {"operation": "update", "taskId": "1"}, "1"),
        ("AskUserQuestion", {"questions": [{"question": "Which database?"}]}, "Which database?"),
        ("ExitPlanMode", {"plan": "1. Read\n2. Edit"}, "1. Read 2. Edit"),
        ("change_title", {"title": "Demo title"}, "Demo title"),
        ("mcp__fixture__echo", {"text": "hi there", "_mcp": {"serverId": "fixture"}}, "hi there"),
        ("mcp__fixture__echo", {"text": "x" * 41}, None),
        ("no_such_tool", {"a": 1}, "1"),
        ("no_such_tool", {"a": 1, "b": 2}, None),
        ("no_such_tool", {"a": {"b": 1}}, None),
        ("no_such_tool", {}, None),
        ("Diff", {"unified_diff": "@@"}, None),
    ],
)
def test_preview_of_payload(name: str, payload: dict[str, Any], expected: str | None) -> None:
    assert preview(name, payload, CWD) == expected


@pytest.mark.parametrize("name", CANONICAL_TOOLS)
def test_every_canonical_tool_has_a_preview_rule(name: str) -> None:
    """Its keys are fields of the tool's input."""
    payload = {field.encode_name: "x" for field in msgspec.structs.fields(TOOLS[name].input)}

    assert (preview(name, payload, None) == "x") != (name in WITHOUT_PREVIEW)


@pytest.mark.parametrize("text", ["\x1b[31m" * 30, "a\u2028b", "e\u0301" * 60, "\u200f\u061c\u2066x", "\ud800x"])
def test_preview_is_short_and_on_one_line(text: str) -> None:
    shown = preview("Bash", {"command": text}, None) or ""

    assert len(shown) <= PREVIEW_LENGTH
    assert shown.isprintable()
