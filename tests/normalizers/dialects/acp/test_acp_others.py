"""Agents without recordings here: messages as their sources and users show them."""

from typing import Any

import pytest

from tests.normalizers.dialects.acp.helpers import (
    SESSION,
    answers,
    asks,
    chunk,
    content,
    line,
    only,
    read,
    result_of,
    set_up,
    tool,
    tool_update,
    whole_input,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.dialects.acp.inputs import mcp_name, raw_name
from tooltap.protocol.events import PermissionRequest, SessionEvent, ToolCall, ToolResult, ToolUpdate, Turn

DIFF = [{"type": "diff", "path": "/ws/a.txt", "newText": "hello"}]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"title": "Shell: ls", "content": content('{"command":"ls"}')}, "Shell"),  # Kimi
        ({"title": "patch (replace): /ws/a.txt", "kind": "edit", "content": DIFF}, "patch"),  # Hermes
        (
            {"title": "Approve edit: a.txt", "kind": "edit", "rawInput": {"tool": "write_file", "arguments": {}}},
            "write_file",
        ),
        (
            {"title": "Task: look", "kind": "other", "rawInput": {"_toolName": "task", "prompt": "look"}},
            "task",
        ),  # Cursor
        ({"title": "delegate", "_meta": {"goose": {"toolCall": {"toolName": "summon__delegate"}}}}, "summon__delegate"),
        ({"title": "TODO|FIXME", "rawInput": {"variant": "Grep"}, "_meta": {"x.ai/tool": {"name": "grep"}}}, "grep"),
        ({"title": "Note: this is no tool", "kind": "other"}, "other"),
        ({"title": "`npm test`", "kind": "execute", "rawInput": {}}, "execute"),
    ],
)
def test_tool_name_of_each_agent(call: dict[str, Any], expected: str) -> None:
    assert raw_name(call, "call_1") == expected


def test_cursor_states_the_mcp_server_in_the_raw_input() -> None:
    raw_input = {"providerIdentifier": "fixture", "toolName": "echo", "args": {"text": "hi"}}

    assert mcp_name("other", "fixture: echo", raw_input, []) == "mcp__fixture__echo"
    assert answer(only(ToolCall, read(tool("c", kind="other", rawInput=raw_input))).input)["text"] == "hi"


@pytest.mark.parametrize(
    ("login", "provider"),
    [("claude-login", "claude"), ("gemini-api-key", "gemini"), ("cursor_login", "cursor"), ("password", "acp")],
)
def test_provider_of_a_nameless_agent_is_its_login(login: str, provider: str) -> None:
    hello = answers(1, protocolVersion=1, authMethods=[{"id": "other", "name": "x"}, {"id": login, "name": "Log in"}])

    found = read(asks(1, "initialize", protocolVersion=1), hello, chunk("hi"))

    assert {event.provider for event in found} == {provider}


def test_claude_code_acp_before_it_had_a_name() -> None:
    """Zed's first adapter, its side alone: a description precedes the run, and no call states that it runs."""
    command = {"command": "python a.py", "description": "Run the script"}
    permission = {
        "sessionId": SESSION,
        "toolCall": {"toolCallId": "toolu_1", "rawInput": command},
        "options": [{"optionId": "allow", "name": "Allow", "kind": "allow_once"}],
    }

    hello = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{"id": "claude-login", "name": "Log in"}]}

    found = read(
        line(None, id=1, result=hello),
        line(None, id=2, result={"sessionId": SESSION, "modes": {"currentModeId": "default", "availableModes": []}}),
        tool(
            "toolu_1",
            rawInput=command,
            status="pending",
            title="`python a.py`",
            kind="execute",
            content=content("Run the script"),
        ),
        line(None, id=0, method="session/request_permission", params=permission),
        tool_update("toolu_1", status="completed", content=content("done\n")),
        line(None, id=3, result={"stopReason": "end_turn"}),
    )

    assert only(SessionEvent, found).mode == "default"
    assert answer(only(ToolCall, found).input) == command
    assert only(PermissionRequest, found).call_id == "toolu_1"
    assert answer(only(ToolResult, found).output) == {"stdout": "done\n"}
    assert of(Turn, found)[-1].state == "completed"
    assert {event.provider for event in found} == {"claude"}


def test_kimi_streams_arguments_as_content() -> None:
    call = {"toolCallId": "t/Shell:0", "title": "Shell: ls", "content": content("Requesting approval to perform: ls")}

    found = read(
        *set_up("Kimi Code CLI"),
        tool("t/Shell:0", title="Shell", status="in_progress", content=content("")),
        tool_update("t/Shell:0", title="Shell", status="in_progress", content=content('{"comm')),
        tool_update("t/Shell:0", title="Shell: ls", status="in_progress", content=content('{"command": "ls"}')),
        asks(7, "session/request_permission", "out", sessionId=SESSION, toolCall=call, options=[]),
        tool_update("t/Shell:0", status="completed", content=content("a.py\n")),
        partials=True,
    )

    assert only(ToolCall, found).provider == "kimi"
    assert [answer(one.input) for one in of(ToolUpdate, found) if one.input is not None] == [{"command": "ls"}]
    assert answer(only(ToolResult, found).output) == {"stdout": "a.py\n"}


def test_hermes_truncates_the_command_in_the_title() -> None:
    command = "echo " + "long " * 40
    called = {"tool": "write_file", "arguments": {"path": "/ws/a.txt", "content": "hello"}}
    edit = {"toolCallId": "edit-approval-1", "kind": "edit", "title": "Approve edit: a.txt", "rawInput": called}

    found = read(
        *set_up("hermes-agent"),
        tool("tc-1", kind="execute", title=f"terminal: {command[:77]}...", content=content(f"$ {command}")),
        tool("tc-2", kind="edit", title="write: /ws/a.txt", content=DIFF),
        asks(7, "session/request_permission", "out", sessionId=SESSION, toolCall=edit, options=[]),
    )

    assert [(call.name, answer(call.input)) for call in of(ToolCall, found)] == [
        ("Bash", {"command": command}),
        ("Write", {"file_path": "/ws/a.txt", "content": "hello"}),
        ("Write", {"path": "/ws/a.txt", "content": "hello", "file_path": "/ws/a.txt"}),
    ]


def test_cursor_command_is_in_the_title() -> None:
    found = read(
        tool("c", kind="execute", title="`npm test`", status="pending", rawInput={}),
        tool_update("c", status="completed", rawOutput={"exitCode": 1, "stdout": "", "stderr": "no tests\n"}),
    )

    assert whole_input(found, "c") == {"command": "npm test"}
    assert (result_of(found, "c").status, answer(result_of(found, "c").output)["exit_code"]) == ("failed", 1)


def test_vibe_sends_json_in_strings() -> None:
    found = read(
        *set_up("@mistralai/mistral-vibe"),
        tool("c", kind="execute", title="ls", rawInput='{"command": "ls"}', _meta={"tool_name": "bash"}),
        tool_update(
            "c",
            status="completed",
            rawOutput='{"stdout": "a.py\\n", "stderr": "", "returncode": 0}',
            content=content("Ran ls"),
        ),
    )

    assert answer(only(ToolCall, found).input) == {"command": "ls"}
    result = only(ToolResult, found)
    stated = {"stdout": "a.py\n", "stderr": "", "returncode": 0, "exit_code": 0}
    assert answer(result.output) == {**stated, "message": "Ran ls"}
    assert result.display is not None
    assert result.display.text == "Ran ls"
