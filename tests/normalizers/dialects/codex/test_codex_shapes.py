"""Patches, commands, folders and structured results have one shape, in whatever words Codex states them."""

from typing import Any

import pytest

from tests.normalizers.dialects.codex.helpers import (
    answered,
    begin,
    calls,
    completed,
    event,
    item,
    raw,
    read,
    results,
    started,
)
from tests.normalizers.reading import answer, of
from tooltap.protocol.events import ToolUpdate

DIFF = "@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"/ws/a.py": {"update": {"unified_diff": DIFF, "move_path": None}}, "/ws/b.py": {"add": {"content": "b\n"}}},
        {"/ws/a.py": {"type": "update", "unified_diff": DIFF}, "/ws/b.py": {"type": "add", "content": "b\n"}},
        [
            {"path": "/ws/a.py", "kind": {"type": "update", "move_path": None}, "diff": DIFF},
            {"path": "/ws/b.py", "kind": {"type": "add"}, "diff": "b\n"},
        ],
    ],
    ids=["0.58", "0.120", "app-server"],
)
def test_changes_have_one_shape(changes: Any) -> None:
    found = read(started(), event("patch_apply_begin", call_id="c1", auto_approved=True, changes=changes))

    assert calls(found)[0].input["changes"] == {
        "/ws/a.py": {
            "type": "modify",
            "unified_diff": DIFF,
            "modify": {"old_content": "a", "new_content": "b"},
        },
        "/ws/b.py": {"type": "add", "content": "b\n", "add": {"content": "b\n"}},
    }


def test_shell_of_the_model_stays_in_the_command() -> None:
    command = "bash -c 'echo hi'"
    call = raw("function_call", name="exec_command", call_id="c1", arguments=f'{{"cmd": "{command}"}}')
    found = read(started(), call, begin("c1", command), answered("c1", "hi"), completed())

    updates = [one.input for one in of(ToolUpdate, found) if one.input is not None]
    assert {one["command"] for one in (calls(found)[0].input, *updates)} == {command}


@pytest.mark.parametrize(
    ("url", "path"),
    [("file:///tmp/my%20app", "/tmp/my app"), ("file:///C:/app", "C:/app"), ("/tmp/50%25", "/tmp/50%25")],
)
def test_folder_may_be_stated_as_url(url: str, path: str) -> None:
    run = item("completed", "CommandExecution", id="c1", command=["ls"], status="completed")
    run["params"]["msg"]["item"]["cwd"] = url
    found = read(started(), run)

    assert calls(found)[0].input["cwd"] == path


@pytest.mark.parametrize(
    "result",
    [
        {"Ok": {"content": [{"type": "text", "text": "short"}], "structuredContent": {"n": 1}, "isError": False}},
        {"content": [{"type": "text", "text": "short"}], "structuredContent": {"n": 1}, "_meta": None},
        {"content": [{"type": "text", "text": "short"}], "structured_content": {"n": 1}},
    ],
    ids=["event", "app-server", "exec"],
)
def test_structured_results_have_the_same_keys(result: dict[str, Any]) -> None:
    found = read(started(), item("completed", "McpToolCall", id="c1", server="s", tool="t", result=result))

    assert answer(results(found)[0].output) == {"structuredContent": {"n": 1}}
