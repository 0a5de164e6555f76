"""Names and inputs of the tools in ACP calls."""

import itertools
from typing import Any

import msgspec
import pytest

from tests.normalizers.dialects.acp.helpers import CODEX, events, named, only, read, tool, tool_update, whole_input
from tests.normalizers.reading import answer, of
from tooltap.normalizers.dialects.acp.inputs import ToolUse, mcp_name, raw_name
from tooltap.protocol.events import ToolCall, ToolResult

# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "call_id", "expected"),
    [
        ({"name": "Bash", "kind": "execute"}, "c", "Bash"),
        ({"_meta": {"claudeCode": {"toolName": "Grep"}}, "kind": "search"}, "c", "Grep"),
        ({"_meta": {"toolName": "run_shell_command"}}, "c", "run_shell_command"),
        ({"kind": "read", "title": "a.py"}, "read_file__read_file_1795293973564_0", "read_file"),
        ({"kind": "other"}, "mcp_fixture_echo__mcp_fixture_echo_1795294073621_0", "mcp_fixture_echo"),
        ({"kind": "execute", "title": "ls"}, "run_shell_command-1769335045695", "run_shell_command"),
        ({"kind": "read", "title": "read", "rawInput": {}}, "call_8ab3", "read"),
        ({"kind": "execute", "title": "bash", "rawInput": {"cwd": "/ws"}}, "call_8ab3", "bash"),
        # A replayed session: the title is an argument, the input is whole.
        ({"kind": "execute", "title": "make", "rawInput": {"command": "make"}}, "call_8ab3", "execute"),
        ({"kind": "execute", "title": "mcp.fixture.echo"}, "call_1", "mcp.fixture.echo"),
        ({"kind": "other", "title": "spawnAgent", "rawInput": {"prompt": "x"}}, "call_1", "spawnAgent"),
        ({"kind": "edit", "title": "Editing files"}, "call_1", "edit"),
        ({"title": "Tracking file"}, "call_1", "other"),
    ],
)
def test_raw_name_is_the_agents_name_or_the_kind(call: dict[str, Any], call_id: str, expected: str) -> None:
    assert raw_name(call, call_id) == expected


@pytest.mark.parametrize(
    ("name", "title", "raw_input", "expected"),
    [
        ("fixture_echo", "", None, "mcp__fixture__echo"),
        ("my_server_tool_x", "", None, "mcp__my-server__tool_x"),
        ("execute", "fixture - echo", None, "mcp__fixture__echo"),
        ("execute", "other - echo", None, None),
        ("other", "echo (elsewhere MCP Server)", None, "mcp__elsewhere__echo"),
        ("other", "Tool: elsewhere/echo", {"server": "elsewhere", "tool": "echo"}, "mcp__elsewhere__echo"),
        ("unknown_tool_x", "", None, None),
        ("fetch_url", "", None, None),  # a tool of the agent's own, although a server is called `fetch`
        ("mcp__fixture__echo", "", None, None),
    ],
)
def test_mcp_name_is_split_as_the_wire_states(name: str, title: str, raw_input: Any, expected: str | None) -> None:
    assert mcp_name(name, title, raw_input, ["fixture", "my-server", "fetch"]) == expected


def test_codex_shell_is_bash_when_it_shows_a_read() -> None:
    found = events(CODEX, "edit")

    assert named(found)[0] == ("exec_command", "Bash")
    assert answer(of(ToolCall, found)[0].input) == {"description": "Read file '/tmp/ws/src/app.py'"}
    assert answer(of(ToolResult, found)[0].output)["exit_code"] == 0


# -- inputs without a raw input ----------------------------------------------------------------------------------------


def given(**call: Any) -> tuple[str, dict[str, Any]]:
    """Name and input of a call that this line opens."""
    found = only(ToolCall, read(tool(call.pop("id", "c1"), **call)))
    return found.name, answer(found.input)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"kind": "execute", "title": "`ls -la`"}, ("Bash", {"command": "ls -la"})),
        (
            {"kind": "execute", "title": "ls [current working directory /ws] (List it)"},
            ("Bash", {"command": "ls", "cwd": "/ws", "description": "List it"}),
        ),
        ({"kind": "read", "title": "a", "locations": [{"path": "/ws/a"}]}, ("Read", {"file_path": "/ws/a"})),
        (
            {"id": "grep_search__x", "kind": "search", "title": "'greet' in *.py within src"},
            ("Grep", {"pattern": "greet", "include": "*.py", "path": "src"}),
        ),
        (
            {"id": "google_web_search__x", "kind": "search", "title": 'Searching the web for: "an answer"'},
            ("WebSearch", {"query": "an answer"}),
        ),
        ({"kind": "fetch", "title": "Fetching http://a.b/c"}, ("WebFetch", {"url": "http://a.b/c"})),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}]},
            ("Write", {"file_path": "/a", "content": "x"}),
        ),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "/a", "oldText": " x\n", "newText": ""}]},
            ("Edit", {"file_path": "/a", "old_string": " x\n", "new_string": ""}),
        ),
        (
            {
                "kind": "edit",
                "content": [{"type": "diff", "path": "/a", "oldText": "x", "newText": "", "_meta": {"kind": "delete"}}],
            },
            ("Delete", {"file_path": "/a", "file_paths": ["/a"]}),
        ),
        (
            {
                "kind": "edit",
                "content": [
                    {"type": "diff", "path": "/a", "oldText": "1", "newText": "2"},
                    {"type": "diff", "path": "/a", "oldText": "3", "newText": "4"},
                ],
            },
            (
                "MultiEdit",
                {
                    "file_path": "/a",
                    "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": "4"}],
                },
            ),
        ),
    ],
)
def test_input_from_title_locations_and_diffs(call: dict[str, Any], expected: tuple[str, dict[str, Any]]) -> None:
    name, found = given(**call)

    assert (name, {key: found.get(key) for key in expected[1]}) == expected


def test_diffs_of_several_files_are_one_patch() -> None:
    name, found = given(
        kind="edit",
        content=[
            {"type": "diff", "path": "/a", "oldText": "1", "newText": "2", "_meta": {"kind": "update"}},
            {"type": "diff", "path": "/b", "oldText": None, "newText": "new", "_meta": {"kind": "add"}},
        ],
    )

    assert name == "Patch"
    assert sorted(found["changes"]) == ["/a", "/b"]
    assert found["changes"]["/b"]["type"] == "add"


def test_diff_in_the_result_updates_the_input() -> None:
    """Gemini CLI in its `yolo` mode requests no permission, and shows the diff only with the result."""
    diff = {"type": "diff", "path": "/ws/a", "oldText": "x", "newText": "y"}
    found = read(
        tool("replace__1", kind="edit", title="a: x => y", content=[], locations=[{"path": "/ws/a"}]),
        tool_update("replace__1", status="completed", content=[diff]),
    )

    assert [type(one).__name__ for one in found[1:4]] == ["ToolCall", "ToolUpdate", "ToolResult"]
    assert whole_input(found, "replace__1") == {"file_path": "/ws/a", "old_string": "x", "new_string": "y"}


def test_raw_input_may_be_json_in_a_string() -> None:
    assert given(name="bash", rawInput='{"command": "ls"}') == ("Bash", {"command": "ls"})


def test_codex_event_as_raw_input_and_output() -> None:
    """codex-acp before 1.0."""
    event = {"call_id": "c1", "command": ["/bin/zsh", "-lc", "ls"], "cwd": "/ws"}
    output = {
        "stdout": "a\n",
        "stderr": "",
        "aggregated_output": "a\n",
        "exit_code": 2,
        "duration": {"secs": 1, "nanos": 5000000},
    }
    found = read(
        tool("c1", kind="execute", title="Run ls", rawInput=event),
        tool_update("c1", status="failed", rawOutput={**event, **output}),
    )

    assert whole_input(found, "c1")["command"] == "ls"
    result = only(ToolResult, found)
    assert (result.output["stdout"], result.output["exit_code"], result.duration_ms) == ("a\n", 2, 1005)


# -- memory ------------------------------------------------------------------------------------------------------------

_STATED: dict[str, tuple[Any, ...]] = {
    "kind": ("", "edit"),
    "title": ("a.py",),
    "raw_input": ({}, "", 0, {"b": 1, "a": [2]}),
    "content": ([], [{"type": "diff"}]),
    "locations": ([{"path": "/a"}],),
    "running": ("", "so far"),
    "streams_input": (True,),
    "terminals": (["t1"],),
    "response": (False, {"stdout": "x"}),
}


def test_memory_is_the_struct_without_defaults() -> None:
    """A dump has the memory as it is: each field in its place, unless it has its default."""
    assert tuple(_STATED) == ToolUse.__struct_fields__
    for values in itertools.product(*((msgspec.UNSET, *some) for some in _STATED.values())):
        use = ToolUse(**{name: one for name, one in zip(_STATED, values, strict=True) if one is not msgspec.UNSET})
        expected = msgspec.to_builtins(use)
        assert list(use.memory().items()) == list(expected.items())
        assert msgspec.convert(use.memory(), ToolUse) == use
