"""The same shapes as in recordings, spelled as another version may spell them: other words for a status, an error as an
object or as a text, a text as a string or as parts, keys that are absent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read
from tooltap.protocol.events import Message, Notice, PermissionResponse, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line


def result_of(found: list[Any]) -> tuple[str, str | None]:
    (result,) = of(ToolResult, found)
    return result.status, result.output.get("errorMessage")


def end_of(found: list[Any]) -> tuple[str, str | None]:
    end = of(Turn, found)[-1]
    return end.state, end.ended_by


# -- Gemini CLI ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["Good morning.", [{"text": "Good "}, {"text": "morning."}], {"text": "Good morning."}]
)
def test_a_message_of_gemini_as_text_or_parts(content: Any) -> None:
    found = read("gemini-stream", {"type": "message", "role": "assistant", "content": content})
    assert [message.text for message in of(Message, found)] == ["Good morning."]


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({"status": "success"}, "completed"),
        ({"status": "COMPLETED"}, "completed"),
        ({}, "completed"),
        ({"error": "no quota"}, "failed"),
        ({"status": "error", "error": {"type": "FatalCancellationError", "message": "stopped"}}, "cancelled"),
        ({"status": "aborted"}, "cancelled"),
    ],
)
def test_ends_of_gemini(ending: dict[str, Any], state: str) -> None:
    found = read("gemini-stream", {"type": "message", "role": "user", "content": "Hi"}, {"type": "result", **ending})
    assert end_of(found) == (state, "provider")
    assert [notice.text for notice in of(Notice, found)] == (["no quota"] if ending.get("error") == "no quota" else [])


@pytest.mark.parametrize("error", ["no such file", {"message": "no such file"}, {"error": {"message": "no such file"}}])
def test_errors_of_gemini(error: Any) -> None:
    found = read(
        "gemini-stream",
        {"type": "tool_use", "tool_id": "a", "tool_name": "read_file", "parameters": {"file_path": "/x"}},
        {"type": "tool_result", "tool_id": "a", "status": "failed", "error": error},
    )
    assert result_of(found) == ("failed", "no such file")


# -- OpenCode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"status": "success", "output": "two files"}, "completed"),
        ({"status": "failed", "error": "no such folder"}, "failed"),
        ({"status": "error", "error": {"message": "no such folder"}}, "failed"),
        ({"status": "cancelled", "error": "no such folder"}, "cancelled"),
    ],
)
def test_words_of_opencode(state: dict[str, Any], status: str) -> None:
    part = {"type": "tool", "id": "p", "messageID": "m", "callID": "c", "tool": "list"}
    found = read("opencode-run", {"type": "tool_use", "part": {**part, "state": {"input": {"path": "."}, **state}}})
    assert result_of(found) == (status, None if status == "completed" else "no such folder")


def test_a_word_that_opencode_never_used() -> None:
    part = {"type": "tool", "callID": "c", "tool": "list", "state": {"status": "dreaming", "input": {}}}
    assert len(of(Unparsed, read("opencode-run", {"type": "tool_use", "part": part}))) == 1


def test_the_stand_in_for_a_tool_that_opencode_does_not_have() -> None:
    state = {
        "status": "completed",
        "input": {"tool": "grep", "error": "no tool 'grep'"},
        "output": "The arguments are …",
    }
    part = {"type": "tool", "id": "p", "messageID": "m", "callID": "c", "tool": "invalid", "state": state}
    found = read("opencode-run", {"type": "tool_use", "part": part})
    assert [call.name for call in of(ToolCall, found)] == ["Grep"]
    assert result_of(found) == ("failed", "no tool 'grep'")


# -- Claude Code --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({"subtype": "success", "is_error": False}, "completed"),
        ({"is_error": False, "result": "Done."}, "completed"),
        ({"is_error": True, "result": "no quota"}, "failed"),
        ({"error": "no quota"}, "failed"),
    ],
)
def test_ends_of_claude(ending: dict[str, Any], state: str) -> None:
    message = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    found = read("claude-stream", {"type": "assistant", "message": message}, {"type": "result", **ending})
    assert end_of(found) == (state, "provider")


@pytest.mark.parametrize(("word", "status"), [("success", "completed"), ("error", "failed"), ("killed", "cancelled")])
def test_ends_of_background_work(word: str, status: str) -> None:
    call = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "make", "run_in_background": True}}
    started = {"type": "tool_result", "tool_use_id": "a", "content": "Command running in background with ID: b1"}
    found = read(
        "claude-stream",
        {"type": "assistant", "message": {"id": "m", "content": [call]}},
        {
            "type": "user",
            "message": {"role": "user", "content": [started]},
            "tool_use_result": {"backgroundTaskId": "b1"},
        },
        {"type": "system", "subtype": "task_notification", "task_id": "b1", "status": word, "summary": "make ended"},
    )
    assert [result.status for result in of(ToolResult, found) if not result.async_] == [status]


def test_a_command_after_the_answer_is_no_part_of_its_turn() -> None:
    found = read(
        "claude-transcript",
        {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hello"}},
        {"type": "assistant", "sessionId": "s", "message": {"id": "m", "content": [{"type": "text", "text": "Hi."}]}},
        {
            "type": "user",
            "sessionId": "s",
            "message": {"role": "user", "content": "<command-name>/cost</command-name>"},
        },
    )
    assert [message.text for message in of(Message, found)] == ["Hello", "Hi.", "/cost"]
    assert end_of(found) == ("completed", "answer")


# -- Codex --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "item_type"), [("codex-rollout", "UserMessage"), ("codex-app-server", "userMessage")]
)
def test_a_prompt_of_codex_as_a_text(dialect: str, item_type: str) -> None:
    item = {"type": item_type, "id": "u", "content": "List the files."}
    if dialect == "codex-rollout":
        line: dict[str, Any] = {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}
    else:
        line = {"method": "item/completed", "params": {"threadId": "t", "turnId": "1", "item": item}}
    found = read(dialect, line)
    assert [message.text for message in of(Message, found)] == ["List the files."]


@pytest.mark.parametrize("error", ["no quota", {"message": "no quota"}])
def test_errors_of_codex(error: Any) -> None:
    found = read(
        "codex-app-server",
        {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "1"}}},
        {"method": "error", "params": {"threadId": "t", "turnId": "1", "error": error, "willRetry": False}},
        {
            "method": "turn/completed",
            "params": {"threadId": "t", "turn": {"id": "1", "status": "failed", "error": error}},
        },
    )
    assert [notice.text for notice in of(Notice, found)] == ["no quota"]
    assert end_of(found) == ("failed", "provider")


def test_a_tool_of_codex_without_its_server() -> None:
    item = {"type": "mcp_tool_call", "id": "i", "tool": "lookup", "arguments": {"word": "tap"}, "status": "in_progress"}
    found = read("codex-exec", {"type": "item.started", "item": item})
    assert [call.name for call in of(ToolCall, found)] == ["lookup"]


# -- others -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [{"error": {"message": "no such file"}}, {"error": "no such file"}, {"success": False, "error": "no such file"}],
)
def test_errors_of_copilot(answer: dict[str, Any]) -> None:
    call = {"toolCallId": "a", "toolName": "view", "arguments": {"path": "/x"}}
    found = read(
        "copilot-json",
        {"type": "tool.execution_start", "data": call},
        {"type": "tool.execution_complete", "data": {"toolCallId": "a", **answer}},
    )
    assert result_of(found) == ("failed", "no such file")


@pytest.mark.parametrize("error", ["no such file", {"message": "no such file"}])
def test_errors_of_cline(error: Any) -> None:
    content = {"contentType": "tool", "toolCallId": "a", "toolName": "read_files"}
    found = read(
        "cline-json",
        {"type": "agent_event", "event": {"type": "content_start", **content, "input": {"files": [{"path": "/x"}]}}},
        {"type": "agent_event", "event": {"type": "content_end", **content, "error": error}},
    )
    assert result_of(found) == ("failed", "no such file")


@pytest.mark.parametrize(("word", "status"), [("failed", "failed"), ("error", "failed"), ("rejected", "denied")])
def test_words_of_an_acp_bridge(word: str, status: str) -> None:
    update = {"toolCallId": "a", "_meta": {"claudeCode": {"toolName": "Read"}}}

    def line(kind: str, /, **keys: Any) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "s", "update": {**update, "sessionUpdate": kind, **keys}},
        }

    found = read(
        "acp",
        line("tool_call", rawInput={"file_path": "/x"}, title="Read /x", kind="read", status="pending"),
        line("tool_call_update", rawOutput="no such file", status=word),
    )
    assert result_of(found) == (status, "no such file")


# -- what was stopped ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "state"), [([], "cancelled"), ([{"role": "assistant", "stopReason": "stop"}], "completed")]
)
def test_a_run_of_pi_that_ends_with_a_call_open(messages: list[Any], state: str) -> None:
    found = read(
        "pi-json",
        {"type": "agent_start"},
        {"type": "tool_execution_start", "toolCallId": "a", "toolName": "bash", "args": {"command": "make"}},
        {"type": "agent_end", "messages": messages},
    )
    assert end_of(found) == (state, "provider")


@pytest.mark.parametrize(
    ("status", "state"),
    [("finished", "completed"), ("interrupted", "cancelled"), ("canceled", "cancelled"), ("error", "failed")],
)
def test_ends_of_kimi(status: str, state: str) -> None:
    found = read(
        "kimi-json",
        Line(b'{"jsonrpc": "2.0", "id": "1", "method": "prompt", "params": {"user_input": "Go"}}', direction="in"),
        {"jsonrpc": "2.0", "method": "event", "params": {"type": "TurnBegin", "payload": {"user_input": "Go"}}},
        {"jsonrpc": "2.0", "id": "1", "result": {"status": status}},
    )
    assert end_of(found) == (state, "provider")


def test_what_codex_tells_the_model_of_a_call_it_stopped() -> None:
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["make"]}', "call_id": "a"}
    found = read(
        "codex-rollout",
        {"type": "response_item", "payload": call},
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "a", "output": "aborted"}},
    )
    assert result_of(found) == ("cancelled", "aborted")


# -- Vibe ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["exit status 2", {"message": "exit status 2"}])
def test_a_failed_command_of_vibe_with_its_output(error: Any) -> None:
    entry = {"id": "e", "type": "effect", "generationStatus": "completed", "sessionId": "s", "turnId": "t"}
    detail = {"toolName": "bash", "kind": "shell", "input": {"command": "make"}}
    state = {"status": "failed", "error": error, "output": {"stdout": "no rule", "stderr": "", "returncode": 2}}
    (result,) = of(ToolResult, read("vibe-json", {**entry, "detail": detail, "state": state}))
    assert (result.status, result.output["exit_code"], result.output["stdout"]) == ("failed", 2, "no rule")
    assert result.output["errorMessage"] == "exit status 2"


@pytest.mark.parametrize(("kind", "outcome"), [("allow_session", "allowed"), ("reject_session", "denied")])
def test_kinds_of_options_that_acp_does_not_define(kind: str, outcome: str) -> None:
    options = [{"optionId": "1", "name": "For now", "kind": kind}]
    asked = {"sessionId": "s", "toolCall": {"toolCallId": "a", "title": "make", "kind": "execute"}, "options": options}
    found = read(
        "acp",
        {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": asked},
        {"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "1"}}},
    )
    assert [response.outcome for response in of(PermissionResponse, found)] == [outcome]
