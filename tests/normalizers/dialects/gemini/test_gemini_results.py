"""Tests of the texts of Gemini CLI's tools. The older and rarer forms are from the CLI's source."""

from typing import Any

import pytest

from tooltap.normalizers.dialects.gemini.answers import (
    mcp_name,
    name_in_id,
    read_call,
    read_shown,
    read_shown_shell,
    read_text,
    unwrap,
)

TAIL = "Signal: 0\nBackground PIDs: (none)\nProcess Group PGID: 88536"
CUT = (
    "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines 3-4 of 90 total lines.\n"
    "Action: To read more of the file, …\n\n--- FILE CONTENT (truncated) ---\nthree\nfour"
)


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("Output: hi\nProcess Group PGID: 1", {"stdout": "hi"}),
        ("Output: (empty)\nProcess Group PGID: 1", {"stdout": ""}),
        ("Output: a\n\nb\nExit Code: 127\nProcess Group PGID: 1", {"stdout": "a\n\nb", "exit_code": 127}),
        ("Output: (empty)\nExit Code: -1\nSignal: 9", {"stdout": "", "exit_code": -1, "signal": "9"}),
        (
            f"Command: ls\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 0\n{TAIL}",
            {"stdout": "a", "exit_code": 0},
        ),
        (
            f"Command: cat <<X\nDirectory: no\nX\nDirectory: src\nOutput: a\nError: (none)\nExit Code: (none)\n{TAIL}",
            {"stdout": "a"},
        ),
        (
            f"Command: x\nDirectory: (root)\nStdout: out\nStderr: err\nError: (none)\nExit Code: 1\n{TAIL}",
            {"stdout": "out", "stderr": "err", "exit_code": 1},
        ),
        (
            f"Command: x\nDirectory: (root)\nStdout: (empty)\nStderr: (empty)\nError: (none)\nExit Code: 0\n{TAIL}",
            {"stdout": "", "exit_code": 0},
        ),
        ("Output: Error: from the program\nProcess Group PGID: 1", {"stdout": "Error: from the program"}),
        ("A summary of the output.", {"stdout": "A summary of the output."}),
        ("Output too large. …\nlast line\nExit Code: 2", {"stdout": "Output too large. …\nlast line", "exit_code": 2}),
    ],
)
def test_shell_text_is_split_into_fields(text: str, payload: dict[str, Any]) -> None:
    value = read_text("Bash", text).value

    assert {key: item for key, item in value.items() if item is not None} == payload


def test_spawn_failure_is_an_error_without_output() -> None:
    text = "Output: (empty)\nError: spawn bash ENOENT\nProcess Group PGID: 1"

    answer = read_text("Bash", text, "spawn bash ENOENT")

    assert (answer.value["stdout"], answer.error) == ("", "spawn bash ENOENT")


@pytest.mark.parametrize(
    ("text", "error", "value"),
    [
        (
            "Command was cancelled by user before it could complete."
            " Below is the output before it was cancelled:\na\nb",
            "Command was cancelled by user before it could complete.",
            {"stdout": "a\nb"},
        ),
        (
            "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output."
            " There was no output before it was cancelled.",
            "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output.",
            None,
        ),
        ("Command cancelled by user.", "Command cancelled by user.", None),
    ],
)
def test_stopped_command_is_cancelled(text: str, error: str, value: Any) -> None:
    for answer in (read_text("Bash", text), read_shown_shell(text)):
        assert (answer.status, answer.error, answer.value) == ("cancelled", error, value)


BLOCKED = (
    "Command injection detected: command substitution syntax ($(), backticks, <() or >()) found in command arguments."
    " On PowerShell, @() array subexpressions and $() subexpressions are also blocked."
    " This is a security risk and the command was blocked."
)
"""From `shell.ts` of Gemini CLI 0.61, as is what the user sees of it."""
BLOCKED_SHOWN = "Blocked: command substitution detected in shell command."


def test_command_that_the_agent_does_not_run_is_denied() -> None:
    """Neither the chat nor the stream flags it."""
    response = {"id": "c", "name": "run_shell_command", "response": {"output": BLOCKED}}
    stored = {"status": "success", "resultDisplay": BLOCKED_SHOWN, "result": [{"functionResponse": response}]}

    answer = read_call("Bash", stored)
    assert (answer.status, answer.error, answer.value, answer.model) == ("denied", BLOCKED, None, BLOCKED)
    assert answer.display is not None
    assert answer.display.text == BLOCKED_SHOWN

    shown = read_shown("Bash", {"status": "success", "output": BLOCKED_SHOWN})
    assert (shown.status, shown.error, shown.value) == ("denied", BLOCKED_SHOWN, None)


def test_command_that_prints_such_words_completed() -> None:
    answer = read_text("Bash", f"Output: {BLOCKED}\nProcess Group PGID: 1")

    assert (answer.status, answer.value["stdout"]) == ("completed", BLOCKED)


def test_command_killed_by_a_signal_failed() -> None:
    answer = read_shown_shell("Command terminated by signal: SIGKILL")

    assert (answer.status, answer.error, answer.value) == (
        "failed",
        "Command terminated by signal: SIGKILL",
        {"stdout": ""},
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("Read", "plain", "plain"),
        ("Read", CUT, {"file": {"content": "three\nfour", "startLine": 3, "numLines": 2, "totalLines": 90}}),
        ("LS", "Directory listing for /w:\n[DIR] src\na.py (7 bytes)", {"entries": ["src/", "a.py"]}),
        ("LS", "Directory /w is empty.", {"entries": []}),
        ("LS", "anything else", "anything else"),
        ("WebSearch", 'No search results or information found for query: "x"', {"results": []}),
        ("WebSearch", 'Web search results for "x":\n\nAn answer.', {"results": [{"snippet": "An answer."}]}),
        (
            "Task",
            "Subagent 'a' finished.\nTermination Reason: GOAL\nResult:\nYes.",
            {"content": "Yes.", "terminationReason": "GOAL"},
        ),
        ("mcp__a__b", "text", "text"),
    ],
)
def test_texts_of_other_tools(name: str, text: str, value: Any) -> None:
    assert read_text(name, text).value == value


def test_failed_subagent_is_known_by_its_text() -> None:
    answer = read_text("Task", "Subagent 'a' failed. Error: no model")

    assert (answer.status, answer.error) == ("failed", "no model")


@pytest.mark.parametrize(
    "text",
    [
        "<untrusted_context>\nhi\n</untrusted_context>",
        "hi\n\n[System] Tool input parameters were modified by a hook before execution.",
        "hi\n\n<hook_context>note</hook_context>",
    ],
)
def test_unwrap_removes_tags_and_hook_notes(text: str) -> None:
    assert unwrap(text) == "hi"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Tool execution denied by policy.", "denied"),
        ('Tool execution for "notify (x MCP Server)" denied by policy.', "denied"),
        ('Tool execution for "Shell" requires user confirmation, which is not supported in …', "denied"),
        ("Tool execution blocked: not on Fridays", "denied"),
        ("File not found: Tool execution denied by policy", "failed"),
    ],
)
def test_refusal_is_known_by_its_first_words(words: str, status: str) -> None:
    shown = {"status": "error", "output": words, "error": {"type": "unknown", "message": words}}
    saved = {"status": "error", "result": [{"functionResponse": {"response": {"error": words}}}]}

    for answer in (read_shown("Bash", shown), read_call("Bash", saved)):
        assert (answer.status, answer.error, answer.display) == (status, words, None)


def test_text_beside_an_error_is_not_file_content() -> None:
    response = {"output": "Error reading file", "error": "EACCES"}
    answer = read_call("Read", {"status": "error", "result": [{"functionResponse": {"response": response}}]})

    assert (answer.status, answer.value, answer.error) == ("failed", {"message": "Error reading file"}, "EACCES")


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ("bare text", "bare text"),
        ([{"text": "a"}, {"text": "b"}], "ab"),
        ({"functionResponse": {"response": {"output": {"n": 1}}}}, {"n": 1}),
        ([{"functionResponse": {"response": {"content": [1]}}}], {"content": [1]}),
        ([{"functionResponse": {"response": {}}}], None),
    ],
)
def test_result_forms(result: Any, value: Any) -> None:
    assert read_call("tool", {"status": "success", "result": result}).value == value


def test_names_from_ids_and_titles() -> None:
    assert name_in_id("read_file__read_file_1795293911268_0") == "read_file"
    assert name_in_id("write_file-1700000000000-0123456789ab") == "write_file"
    assert name_in_id("toolu_01AbC") is None

    assert mcp_name("echo", "echo (my server MCP Server)", ()) == "mcp__my server__echo"
    assert mcp_name("mcp_my_server_echo", None, ("my server",)) == "mcp__my server__echo"
    assert mcp_name("my_server__echo", None, ("my", "my_server")) == "mcp__my_server__echo"
    assert mcp_name("mcp_other_echo", "Echo", ("my",)) is None
