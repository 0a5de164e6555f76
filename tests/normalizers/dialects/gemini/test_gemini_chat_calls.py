"""Tests of the `gemini-chat` dialect: calls, results, subagents."""

from tests.normalizers.dialects.gemini.helpers import ECHO, HEADER, WRITTEN, call, chat, message, response
from tests.normalizers.reading import answer, calls, of, outline, read, results
from tooltap.protocol.events import Display, SessionEvent, ToolCall, ToolResult, ToolUpdate, Turn

# -- calls and results ------------------------------------------------------------------------------------------------


def test_exit_code_is_read_from_the_text() -> None:
    # "Output: partial output\nboom: something broke\nExit Code: 3\nProcess Group PGID: 14321", `"status":"success"`.
    failed = results(chat("shell-fails"))["run_shell_command"]

    assert (failed.status, failed.is_error) == ("failed", True)
    assert answer(failed.output) == {
        "stdout": "partial output\nboom: something broke",
        "exit_code": 3,
        "errorMessage": "Exit Code: 3",
    }
    assert failed.display is None


def test_unstated_exit_code_is_absent() -> None:
    done = results(chat("parallel-calls"))["run_shell_command"]

    assert answer(done.output) == {"stdout": "done"}


def test_parallel_calls_begin_before_the_first_result() -> None:
    assert outline(chat("parallel-calls"))[6:12] == [
        "tool-call Read",
        "tool-call Read",
        "tool-call Bash",
        "tool-result Read completed",
        "tool-result Read completed",
        "tool-result Bash completed",
    ]


def test_output_is_the_models_side_and_display_the_users() -> None:
    found = results(chat("glob-and-list"))

    assert answer(found["glob"].output) == {"matches": ["/tmp/ws/src/util.py", "/tmp/ws/src/app.py"]}
    assert found["glob"].display == Display(origin="provider", text="Found 2 matching file(s)")
    assert answer(found["list_directory"].output) == {"entries": ["app.py", "util.py"]}
    assert found["list_directory"].display == Display(origin="provider", text="Found 2 item(s).")


def test_display_of_a_change_is_its_diff() -> None:
    edited = results(chat("rewind-and-compaction", WRITTEN))["replace"]

    assert edited.output["message"] == "Successfully modified file: README.md (1 replacements)."
    assert edited.display is not None
    assert (edited.display.mime_type, edited.display.text) == (
        "text/x-diff",
        "--- README.md\n+++ README.md\n@@ -1 +1 @@\n-# boats\n+# Harbor\n",
    )


def test_web_search_lists_its_sources() -> None:
    assert results(chat("web"))["google_web_search"].output["results"] == [
        {"title": "Fixture page", "url": "http://127.0.0.1:18080/page"},
        {"snippet": "Search summary[1]: the fixture page says 42."},
    ]


def test_error_message_is_the_providers() -> None:
    missing = results(chat("read-missing"))["read_file"]
    unknown = results(chat("tool-errors"))["no_such_tool"]

    assert (missing.status, answer(missing.output)) == (
        "failed",
        {"errorMessage": "File not found: /tmp/ws/src/missing.py"},
    )
    assert missing.display == Display(origin="provider", text="File not found.")
    assert (unknown.status, unknown.display) == ("failed", None)
    assert results(chat("question-unavailable"))["ask_user"].name == "AskUserQuestion"


def test_image_is_attached_once() -> None:
    found = chat("picture")

    (seen,) = of(ToolResult, found)
    assert seen.attachments is not None
    assert [(one.mime_type, one.bytes) for one in seen.attachments] == [("image/png", 70)]
    assert answer(seen.output) == {"message": "Binary content provided (1 item(s))."}
    assert "iVBOR" not in str(seen.output["_raw"])


def test_mcp_name_is_split_by_the_title() -> None:
    found = chat("mcp")

    assert [one.name for one in of(ToolCall, found)] == [
        "mcp__fixture__echo",
        "mcp__fixture__change_title",
        "mcp__fixture__fail",
        "mcp__fixture__picture",
    ]
    assert calls(found)["mcp_fixture_echo"].title == "echo (fixture MCP Server)"
    assert answer(results(found)["mcp_fixture_echo"].output) == {"text": "echo: hi there"}
    picture = results(found)["mcp_fixture_picture"]
    assert picture.attachments is not None
    assert [one.mime_type for one in picture.attachments] == ["image/png"]


def test_bare_mcp_name_of_2025_is_split_by_the_title() -> None:
    assert calls(chat("document.json", WRITTEN))["get_figma_file"].name == "mcp__figma__get_figma_file"


def test_refused_call_is_denied_and_stopped_call_cancelled() -> None:
    found = of(ToolResult, chat("document.json", WRITTEN))

    assert [(one.name, one.status, one.output["errorMessage"]) for one in found[-2:]] == [
        ("Edit", "denied", "[Operation Cancelled] Reason: User did not allow tool call"),
        ("Bash", "cancelled", "[Operation Cancelled] Reason: User cancelled the operation."),
    ]


def test_shell_result_of_2025_keeps_error_lines_of_the_command() -> None:
    failed = of(ToolResult, chat("document.json", WRITTEN))[0]

    assert answer(failed.output) == {
        "stdout": "1 failed\nError: expected 2",
        "exit_code": 2,
        "errorMessage": "Exit Code: 2",
    }


def test_waiting_call_is_updated_then_answered() -> None:
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", "", toolCalls=[call("c", "read_file", "awaiting_approval")]),
        message("g", "gemini", "", toolCalls=[call("c", "read_file", "executing", args={"file_path": "x"})]),
        message("r", "user", [response("c", "read_file", output="text")]),
        message("g", "gemini", "", toolCalls=[call("c", "read_file", result=[response("c", "read_file", **ECHO)])]),
    )

    assert of(ToolCall, found)[0].status == "awaiting-permission"
    (update,) = of(ToolUpdate, found)
    assert (update.status, update.input and update.input["file_path"]) == ("running", "x")
    (result,) = of(ToolResult, found)
    assert result.output["file"]["content"] == "text"


def test_background_command_is_acknowledged_once() -> None:
    text = "Command moved to background (PID: 4711). Output hidden. Press Ctrl+B to view."
    result = [response("c", "run_shell_command", output=text)]
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", "", toolCalls=[call("c", "run_shell_command", result=result, resultDisplay=text)]),
        message("r", "user", result),
        message("g2", "gemini", "It runs."),
    )

    assert [(one.status, one.async_, one.final) for one in of(ToolResult, found)] == [
        ("completed", True, False),
        ("interrupted", False, True),
    ]


def test_assistant_view_is_unknown_without_a_result() -> None:
    shown = call("c", "run_shell_command", resultDisplay="hello", result=None)
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", "", toolCalls=[shown]))

    (result,) = of(ToolResult, found)
    assert (result.assistant_view, answer(result.output)) == ("unknown", {"stdout": "hello"})


def test_result_of_an_unknown_call_has_a_synthetic_call() -> None:
    found = read("gemini-chat", HEADER, message("r", "user", [response("c", "glob", output="/w/a.py")]))

    (call,) = of(ToolCall, found)
    assert (call.name, call.synthetic) == ("Glob", True)
    assert answer(results(found)["glob"].output) == {"matches": ["/w/a.py"]}


# -- subagents --------------------------------------------------------------------------------------------------------


def test_subagent_call_is_a_task() -> None:
    found = chat("subagent-call", WRITTEN)

    task = calls(found)["codebase_investigator"]
    assert (task.name, task.input["subagent_type"]) == ("Task", "codebase_investigator")
    assert answer(results(found)["codebase_investigator"].output) == {
        "agentId": "20000000-0000-4000-8000-000000000001",
        "content": "Two packages: core and cli.",
        "terminationReason": "GOAL",
    }


def test_subagent_chat_belongs_to_the_subagent() -> None:
    found = chat("subagent-chat", WRITTEN, session="root", parent="call")

    assert {(event.session, event.agent, event.parent) for event in found} == {
        ("root", "20000000-0000-4000-8000-000000000001", "call")
    }
    assert not of(SessionEvent, found)
    assert results(found)["list_directory"].output["entries"] == ["cli/", "core/", "main.py"]


def test_server_of_one_tool_names_the_other_tools() -> None:
    """Only some of a chat's calls have a title: the parts of a message that was written from memory have none."""
    echo = call("a", "mcp_fixture_echo", displayName="echo (fixture MCP Server)")
    part = {"functionCall": {"id": "b", "name": "mcp_fixture_fail", "args": {}}}
    found = read("gemini-chat", HEADER, message("1", "gemini", "", toolCalls=[echo]), message("2", "gemini", [part]))

    assert [one.name for one in of(ToolCall, found)] == ["mcp__fixture__echo", "mcp__fixture__fail"]


def test_call_takes_the_name_it_is_shown_under_last() -> None:
    first, last = call("a", "read_file", "scheduled"), call("a", "read_many_files", result=[response("a", "x", **ECHO)])
    shown = [message("1", "gemini", "", toolCalls=[one]) for one in (first, last)]

    assert list(results(read("gemini-chat", HEADER, *shown))) == ["read_many_files"]


def test_report_of_a_subagent_ends_its_turn() -> None:
    header = {**HEADER, "kind": "subagent"}
    report = call("a", "complete_task", result=[response("a", "complete_task", output="Output submitted.")])
    found = read("gemini-chat", header, message("1", "user", "Go."), message("2", "gemini", "", toolCalls=[report]))

    assert [(turn.state, turn.synthetic) for turn in of(Turn, found)] == [("started", False), ("completed", False)]
