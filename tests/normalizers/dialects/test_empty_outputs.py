"""Where an output is empty or is not shown, an agent's own words for that are no content."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.gemini.helpers import HEADER, call, message, response
from tests.normalizers.reading import answer, of, read
from tooltap.protocol.events import ToolResult

SAID = "completed with no output"


def claude(name: str, given: dict[str, Any], text: str) -> list[Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": False}
    return [
        {
            "type": "assistant",
            "session_id": "s",
            "uuid": "a",
            "message": {"id": "m", "role": "assistant", "content": [call]},
        },
        {"type": "user", "session_id": "s", "uuid": "b", "message": {"role": "user", "content": [result]}},
    ]


def qwen(name: str, given: dict[str, Any], text: str) -> list[Any]:
    line = {"sessionId": "s", "timestamp": "2026-11-24T02:00:01.000Z", "cwd": "/w", "version": "0.24.4"}
    call = {"functionCall": {"id": "c", "name": name, "args": given}}
    response = {"functionResponse": {"id": "c", "name": name, "response": {"output": text}}}
    return [
        {**line, "uuid": "a", "parentUuid": None, "type": "assistant", "message": {"role": "model", "parts": [call]}},
        {
            **line,
            "uuid": "b",
            "parentUuid": "a",
            "type": "tool_result",
            "message": {"role": "user", "parts": [response]},
        },
    ]


def kimi(name: str, given: dict[str, Any], content: Any) -> list[Any]:
    function = {"name": name, "arguments": '{"path": "a", "command": "true"}'}
    call = {"type": "function", "id": "c", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": content},
    ]


def opencode(name: str, given: dict[str, Any], text: str) -> list[Any]:
    state = {"status": "completed", "input": given, "output": text, "title": "a", "metadata": {}}
    part = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "tool", "callID": "c", "tool": name}
    return [{"type": "tool_use", "timestamp": 1, "sessionID": "ses_1", "part": {**part, "state": state}}]


def gemini(name: str, given: dict[str, Any], text: str) -> list[Any]:
    answered = call("c", name, result=[response("c", name, output=text)])
    return [HEADER, message("g", "gemini", "", toolCalls=[{**answered, "args": given}])]


FILE = {"file_path": "/w/a"}
COMMAND = {"command": "true"}
WRAPPED = "<path>/w/a</path>\n<type>file</type>\n<content>\n\n(End of file - total 0 lines)\n</content>"


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        ("qwen-chat", qwen("read_file", FILE, f"(read_file {SAID})")),
        ("kimi-json", kimi("ReadFile", FILE, [{"type": "text", "text": "<system>Tool output is empty.</system>"}])),
        ("kimi-json", kimi("Read", FILE, "Tool output is empty.")),
        ("opencode-run", opencode("read", {"filePath": "/w/a"}, WRAPPED)),
    ],
    ids=["qwen", "kimi-cli", "kimi-code", "opencode"],
)
def test_empty_file(dialect: str, lines: list[Any]) -> None:
    (done,) = of(ToolResult, read(dialect, *lines))

    assert (done.name, done.status, answer(done.output)["file"]["content"]) == ("Read", "completed", "")


@pytest.mark.parametrize(
    "text",
    [
        "Cannot display content of binary file: logo.bin",
        "Cannot display content of SVG file larger than 1MB: map.svg",
        "Skipped image file: logo.png (model doesn't support image input)",
        "Skipped large SVG file (>1MB): map.svg",
        "Skipped unhandled file type: logo.bin",
        "Read pdf file: paper.pdf",
        '[Unsupported image file: "logo.png". This model does not support image input.]',
    ],
)
@pytest.mark.parametrize(("dialect", "lines"), [("gemini-chat", gemini), ("qwen-chat", qwen)], ids=["gemini", "qwen"])
def test_file_that_is_not_shown(dialect: str, lines: Any, text: str) -> None:
    """The words are those of both agents' source (`fileUtils.ts`)."""
    (done,) = of(ToolResult, read(dialect, *lines("read_file", FILE, text)))

    assert (done.name, done.status) == ("Read", "completed")
    assert answer(done.output) == {"message": text}


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        ("claude-stream", claude("Bash", COMMAND, f"(Bash {SAID})")),
        ("qwen-chat", qwen("run_shell_command", COMMAND, f"(run_shell_command {SAID})")),
        ("kimi-json", kimi("Shell", COMMAND, [{"type": "text", "text": "<system>Tool output is empty.</system>"}])),
    ],
    ids=["claude", "qwen", "kimi"],
)
def test_command_that_prints_nothing(dialect: str, lines: list[Any]) -> None:
    (done,) = of(ToolResult, read(dialect, *lines))

    assert (done.name, done.status, answer(done.output)["stdout"]) == ("Bash", "completed", "")


def test_words_inside_an_output_are_its_own() -> None:
    (done,) = of(ToolResult, read("claude-stream", *claude("Bash", COMMAND, f"(Bash {SAID})\n")))

    assert answer(done.output)["stdout"] == f"(Bash {SAID})\n"
