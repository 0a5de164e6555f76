"""The `kimi-json` dialect."""

from typing import Any

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, turns
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, Notice, Reasoning, ToolCall, ToolResult, Unparsed
from tooltap.testing import normalize

RECORDED = "kimi-1.40.0"
WRITTEN = "kimi-written"
"""Written by hand after `background/manager.py` and `ui/print/visualize.py` of MoonshotAI/kimi-cli."""


def stream(name: str, version: str = RECORDED) -> list[Event]:
    return normalize("kimi-json", recording("kimi-json", name, version), Context(stream="s"))


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    entry = {"type": "function", "id": "c", "function": function}
    return {"role": "assistant", "content": [], "tool_calls": [entry]}


def result(content: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": "c"}


def test_message_without_calls_ends_turn() -> None:
    found = stream("read")

    assert outline(found) == [
        "turn started",
        "message assistant",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "turn completed",
    ]
    assert turns(found) == [("t1", "started", True), ("t1", "completed", True)]
    assert {(event.protocol, event.provider, event.session) for event in found} == {("kimi", "kimi", "s")}


def test_read_file_has_no_line_numbers() -> None:
    found = stream("read")

    assert answer(calls(found)["ReadFile"].input)["file_path"] == "src/app.py"
    output = answer(results(found)["ReadFile"].output)
    assert output["file"]["content"].startswith('import sys\n\n\ndef greet(name):\n    """Return')
    assert (output["file"]["startLine"], output["file"]["numLines"]) == (1, 15)
    assert output["message"].startswith("15 lines read from file starting from line 1.")


def test_exit_code_is_in_the_note() -> None:
    done = results(stream("shell-failing"))["Shell"]

    assert (done.name, done.status, done.is_error) == ("Bash", "failed", True)
    assert answer(done.output) == {
        "stdout": "partial output\nboom: something broke\n",
        "exit_code": 3,
        "errorMessage": "Command failed with exit code: 3.",
    }


def test_successful_command_has_no_exit_code() -> None:
    done = results(stream("thinking"))["Shell"]

    assert (done.status, answer(done.output)) == (
        "completed",
        {"stdout": "Good day, world!\n", "message": "Command executed successfully."},
    )


def test_interrupted_command_fails() -> None:
    found = stream("interrupted")

    done = results(found)["Shell"]
    assert (done.status, done.output["stdout"]) == ("failed", "tick 1\ntick 2\ntick 3\ntick 4\ntick 5\n")
    (noise,) = of(Unparsed, found)
    assert (noise.reason, noise.text, noise.line) == ("not-json", "Interrupted by user", 4)


def test_reasoning_and_text_keep_order() -> None:
    found = stream("thinking")

    assert [thought.text for thought in of(Reasoning, found)][1:] == [
        "The string is on line 6. I will edit it, then verify by running it.",
        "Verify.",
        "All fine.",
    ]
    assert [(type(event), event.block) for event in found if isinstance(event, Reasoning | Message)][:2] == [
        (Reasoning, 0),
        (Message, 1),
    ]


def test_replacement_is_an_edit() -> None:
    edit = answer(calls(stream("thinking"))["StrReplaceFile"].input)

    assert (edit["file_path"], edit["old_string"], edit["new_string"]) == ("src/app.py", '"Hello, "', '"Good day, "')


def test_several_replacements_are_a_multi_edit() -> None:
    arguments = '{"path": "a", "edit": [{"old": "1", "new": "2"}, {"old": "3", "new": "4", "replace_all": true}]}'
    (edit,) = of(ToolCall, read("kimi-json", call("StrReplaceFile", arguments)))

    assert edit.name == "MultiEdit"
    assert [(one["old_string"], one["new_string"]) for one in edit.input["edits"]] == [("1", "2"), ("3", "4")]


def test_error_messages_are_the_notes() -> None:
    found = stream("tool-errors")

    assert [(done.status, done.output["errorMessage"]) for done in of(ToolResult, found)] == [
        ("failed", "No replacements were made. The old string was not found in the file."),
        ("failed", "Tool `NoSuchTool` not found"),
    ]


def test_mcp_tools_have_bare_names() -> None:
    found = stream("mcp-tools")

    assert [one.name for one in of(ToolCall, found)] == ["echo", "change_title", "fail", "picture"]
    failed = results(found)["fail"]
    assert (failed.status, failed.output["value"]) == ("failed", "failed: testing")
    assert answer(results(found)["echo"].output) == {"value": "echo: hi there"}
    picture = results(found)["picture"]
    assert picture.attachments is not None
    assert [(one.mime_type, one.bytes) for one in picture.attachments] == [("image/png", 70)]
    assert answer(picture.output) == {
        "value": "a picture",
        "content": [{"type": "image_url", "image_url": {"outputId": picture.attachments[0].output_id}}],
    }


def test_read_file_has_total_lines() -> None:
    """In a note of the program: `15 lines read from file starting from line 1. Total lines in file: 15. …`"""
    file = results(stream("read"))["ReadFile"].output["file"]

    assert (file["startLine"], file["numLines"], file["totalLines"]) == (1, 15, 15)


def test_todo_list_is_complete_each_time() -> None:
    written = [one.input["todos"] for one in of(ToolCall, stream("todo-list"))]

    assert [[todo["status"] for todo in todos] for todos in written] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "completed"],
    ]
    assert written[0][0]["content"] == "Read the code"


def test_subagent_is_a_task() -> None:
    found = stream("subagent")

    assert (calls(found)["Agent"].name, calls(found)["Agent"].input["subagent_type"]) == ("Task", "coder")
    assert results(found)["Agent"].output["content"].endswith("[summary]\nAll done.")


def test_rejected_call_is_denied() -> None:
    words = "The tool call is rejected by the user. Stop what you are doing."
    lines = call("Shell", '{"command": "rm x"}'), result(f"<system>ERROR: {words}</system>")
    (done,) = of(ToolResult, read("kimi-json", *lines))

    assert (done.status, done.is_error, answer(done.output)) == ("denied", False, {"errorMessage": words})


def test_error_may_be_two_notes() -> None:
    notes = [{"type": "text", "text": f"<system>{note}</system>"} for note in ("ERROR", "It broke.")]
    (done,) = of(ToolResult, read("kimi-json", call("Glob"), result(notes)))

    assert (done.status, done.output["errorMessage"]) == ("failed", "It broke.")


def test_broken_arguments_are_kept_as_text() -> None:
    (one,) = of(ToolCall, read("kimi-json", call("Shell", '{"command": "ls')))

    assert answer(one.input) == {"arguments": '{"command": "ls'}


def test_notification_ends_background_task() -> None:
    found = stream("background", WRITTEN)

    first, last = of(ToolResult, found)
    assert (first.status, first.async_, first.final) == ("completed", True, False)
    assert (last.call_id, last.status, last.async_, last.final) == ("call_1", "failed", False, True)
    assert (last.output["exit_code"], last.output["errorMessage"]) == (4, "Command failed with exit code 4")
    assert turns(found)[1:3] == [("t1", "completed", True), ("t2", "started", True)]


def test_other_notifications_are_notices() -> None:
    line = {
        "id": "n",
        "category": "x",
        "type": "x.y",
        "source_kind": "z",
        "title": "T",
        "body": "B",
        "severity": "warning",
    }
    (notice,) = of(Notice, read("kimi-json", line))

    assert (notice.level, notice.code, notice.text) == ("warning", "x.y", "T: B")


def test_side_question_is_two_messages() -> None:
    found = read("kimi-json", {"id": "b", "question": "Why?"}, {"id": "b", "response": "Because."})

    assert said(found) == [("user", "Why?"), ("assistant", "Because.")]
