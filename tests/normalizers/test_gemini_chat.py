"""Gemini CLI's saved chats, as their lines state them."""

from typing import Any

import pytest

from tests.normalizers.gemini import RECORDED, WRITTEN, chat
from tests.normalizers.reading import (
    FIXTURES,
    answer,
    calls,
    of,
    outline,
    read,
    recording,
    results,
    said,
    statistics,
    turns,
)
from tooltap.normalizers.contract import check_recording, check_survives, normalize, read_recording
from tooltap.normalizers.items import Context
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.events import (
    Display,
    Message,
    Notice,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)

ALL = sorted((FIXTURES / "gemini-chat").rglob("*.json*"))
NOW = "2026-11-21T20:45:09.996Z"
HEADER = {"sessionId": "one", "projectHash": "h", "startTime": NOW, "lastUpdated": NOW, "kind": "main"}
ECHO = {"output": "hi"}


def message(message_id: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": NOW, "type": kind, "content": content, **more}


def call(call_id: str, name: str, status: str = "success", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "args": {}, "status": status, "timestamp": NOW, **more}


def response(call_id: str, name: str, **answered: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": name, "response": answered}}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_line_of_every_fixture_is_understood(path: Any) -> None:
    lines = read_recording(path.read_bytes())
    stats = statistics("gemini-chat", lines)

    assert stats.unparsed == 0
    assert stats.with_events + sum(stats.skipped.values()) == stats.lines == len(lines)


def test_what_is_left_out_is_counted_by_reason() -> None:
    stats = statistics("gemini-chat", recording("gemini-chat", "read", RECORDED))

    # The context for the model; four changes of `lastUpdated`; the result once more, as the model was given it.
    assert stats.skipped == {"prompt-context": 1, "metadata": 4, "duplicate-result": 1}


# -- sessions and turns -----------------------------------------------------------------------------------------------


def test_a_chat_is_a_session_with_a_turn_for_each_prompt() -> None:
    found = chat("read")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "session",
        "message assistant",
        "usage",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert {event.session for event in found} == {"a774addb-e820-460e-877b-2418090c3cb4"}
    started, updated = of(SessionEvent, found)
    assert (started.state, started.ts) == ("started", 1795293911233)
    assert (updated.state, updated.model) == ("updated", "gemini-2.5-flash")


def test_no_line_ends_a_turn_so_we_do() -> None:
    assert turns(chat("read"))[-1] == ("t1", "completed", True)
    assert turns(chat("overload"))[-1] == ("t1", "cancelled", True)
    assert turns(chat("document.json", WRITTEN)) == [
        ("t1", "started", False),
        ("t1", "cancelled", True),
        ("t2", "started", False),
        ("t2", "completed", True),
    ]


def test_a_request_that_the_user_cancelled_ends_its_turn() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    ended = next(turn for turn in of(Turn, found) if turn.turn == "t3" and turn.state != "started")
    assert (ended.state, ended.reason, ended.synthetic) == ("cancelled", "Request cancelled.", False)


def test_an_error_at_the_end_of_a_turn_fails_it() -> None:
    assert turns(chat("rewind-and-compaction", WRITTEN))[-1] == ("t4", "failed", True)


def test_a_chat_taken_up_again_is_resumed_and_named_by_its_summary() -> None:
    sessions = of(SessionEvent, chat("rewind-and-compaction", WRITTEN))

    assert [(one.state, one.model, one.title) for one in sessions] == [
        ("started", None, None),
        ("updated", "gemini-3-pro-preview", None),
        ("resumed", None, None),
        ("updated", None, "Name the project Harbor"),
    ]


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_prompt_is_what_the_user_typed_with_the_pictures_it_names() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    prompt = of(Message, found)[0]
    assert prompt.text == "Look at @sketch.png, then name the project Harbor"
    assert prompt.message_id == "m-u1"
    assert prompt.attachments is not None
    assert [(one.mime_type, one.bytes) for one in prompt.attachments] == [("image/png", 70)]


def test_the_context_for_the_model_is_no_prompt() -> None:
    assert said(chat("read"))[0] == ("user", "[[S1]] Read src/app.py and tell me what it does.")


def test_a_message_written_again_gives_only_what_is_new() -> None:
    # `m-g1` comes twice: with text, thought and tokens, and again with its call.
    found = chat("rewind-and-compaction", WRITTEN)

    assert [one.text for one in of(Reasoning, found)] == ["Renaming\nOne line of the README has to change."]
    assert [one.text for one in of(Message, found) if one.message_id == "m-g1"] == [
        "A harbour, drawn by hand. I rename the project."
    ]
    blocks = [one.block for one in of(Reasoning, found)] + [one.block for one in of(Message, found)[1:2]]
    assert blocks == [0, 1]
    assert len(of(ToolCall, found)) == 1


def test_a_text_that_grows_gives_its_rest() -> None:
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", "One"),
        message("g", "gemini", [{"text": "One"}, {"text": " two"}]),
        message("g", "gemini", "Masked"),
    )

    assert [(one.text, one.block) for one in of(Message, found)[1:]] == [("One", 0), (" two", 1)]


def test_thoughts_come_before_the_text_they_lead_to() -> None:
    found = chat("document.json", WRITTEN)

    assert [one.text.split("\n")[0] for one in of(Reasoning, found)] == ["Running the Tests", "Looking Around"]
    assert outline(found)[4:7] == ["reasoning", "reasoning", "tool-call Bash"]
    assert [one.ts for one in of(Reasoning, found)] == [1791361804000, 1791361804500]


def test_thoughts_among_the_parts_are_no_text() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Yes."}]
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", parts))

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert said(found) == [("user", "Go."), ("assistant", "Yes.")]


def test_notes_of_the_cli_are_notices() -> None:
    notices = of(Notice, chat("rewind-and-compaction", WRITTEN))

    assert [(one.level, one.code, one.text) for one in notices if one.code not in ("rewound", "compaction")] == [
        ("info", "info", "Server harbour is ready."),
        ("warning", "warning", "Approaching the token limit."),
        ("info", "interrupt", "Request cancelled."),
        ("error", "provider-error", "[API Error: Quota exceeded]"),
    ]


def test_tokens_are_a_steps_and_add_up_to_the_stated_total() -> None:
    # input 1000, output 30, cached 600, thoughts 12, tool 5: total 1047.
    used = of(Usage, chat("rewind-and-compaction", WRITTEN))[0]

    assert (used.scope, used.input_tokens, used.output_tokens) == ("step", 1005, 42)
    assert (used.cache_read_tokens, used.reasoning_tokens) == (600, 12)


def test_tokens_that_come_late_are_told_once() -> None:
    # `m-g2` is written with `tokens: null` first.
    used = of(Usage, chat("rewind-and-compaction", WRITTEN))

    assert [one.input_tokens for one in used] == [1005, 1100, 1005]


# -- what the model remembers -----------------------------------------------------------------------------------------


def test_a_rewind_is_a_notice_and_takes_nothing_back() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    rewound = next(one for one in of(Notice, found) if one.code == "rewound")
    assert rewound.data == {"messageId": "m-u3", "messages": 2}
    assert ("user", "Add tests") in said(found)


def test_a_compaction_is_a_notice_and_its_copies_are_no_messages() -> None:
    found = chat("rewind-and-compaction", WRITTEN)

    assert [one.text for one in of(Notice, found) if one.code == "compaction"] == [
        "Chat history compressed from 9000 to 1200 tokens.",
        "history summed up",
    ]
    assert [text for _, text in said(found)].count("Sum up what we did") == 1
    assert not any("state_snapshot" in text or text.startswith("Got it.") for _, text in said(found))


def test_a_prompt_taken_back_after_an_api_error_is_a_notice() -> None:
    found = chat("api-error")

    (notice,) = of(Notice, found)
    assert (notice.code, notice.data) == ("rewound", {"messages": 1})
    assert said(found) == [("user", "[[S19]] Trigger an API error.")]


def test_messages_left_out_are_a_notice_and_masked_ones_nothing() -> None:
    masked = {"$patch": {"updates": [{"id": "g", "content": "…"}]}}
    removed = {"$patch": {"removeIds": ["u", "unknown"]}}
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", "Yes."), masked, removed)

    assert [one.data for one in of(Notice, found)] == [{"messages": 1}]


def test_a_history_that_is_the_only_carrier_is_told() -> None:
    first = [message("u", "user", "Yes"), message("g", "gemini", "Done.", toolCalls=[call("c", "glob")])]
    second = [*first, message("u2", "user", "Yes"), message("g2", "gemini", "Done again.")]
    found = read("gemini-chat", HEADER, {"$set": {"messages": first}}, {"$set": {"messages": second}})

    assert said(found) == [("user", "Yes"), ("assistant", "Done."), ("user", "Yes"), ("assistant", "Done again.")]
    assert len(of(ToolCall, found)) == len(of(ToolResult, found)) == 1
    assert not of(Notice, found)


def test_calls_in_the_parts_alone_are_calls() -> None:
    asked = {"functionCall": {"id": "c", "name": "read_file", "args": {"file_path": "x.py"}}}
    found = read(
        "gemini-chat",
        HEADER,
        message("u", "user", "Go."),
        message("g", "gemini", [{"text": "Reading."}, asked]),
        message("r", "user", [response("c", "read_file", output="x = 1")]),
    )

    assert calls(found)["read_file"].input["file_path"] == "x.py"
    assert results(found)["read_file"].output["file"]["content"] == "x = 1"


# -- calls and results ------------------------------------------------------------------------------------------------


def test_an_exit_code_is_read_from_the_text() -> None:
    # "Output: partial output\nboom: something broke\nExit Code: 3\nProcess Group PGID: 14321", `"status":"success"`.
    failed = results(chat("shell-fails"))["run_shell_command"]

    assert (failed.status, failed.is_error) == ("failed", True)
    assert answer(failed.output) == {
        "stdout": "partial output\nboom: something broke",
        "exit_code": 3,
        "errorMessage": "Exit Code: 3",
    }
    assert failed.display is None


def test_a_command_without_a_stated_code_has_none() -> None:
    done = results(chat("parallel-calls"))["run_shell_command"]

    assert answer(done.output) == {"stdout": "done"}


def test_calls_of_one_message_begin_before_the_first_ends() -> None:
    assert outline(chat("parallel-calls"))[6:12] == [
        "tool-call Read",
        "tool-call Read",
        "tool-call Bash",
        "tool-result Read completed",
        "tool-result Read completed",
        "tool-result Bash completed",
    ]


def test_what_the_model_saw_is_the_answer_and_what_was_shown_the_display() -> None:
    found = results(chat("glob-and-list"))

    assert answer(found["glob"].output) == {"matches": ["/tmp/ws/src/util.py", "/tmp/ws/src/app.py"]}
    assert found["glob"].display == Display(origin="provider", text="Found 2 matching file(s)")
    assert answer(found["list_directory"].output) == {"entries": ["app.py", "util.py"]}
    assert found["list_directory"].display == Display(origin="provider", text="Found 2 item(s).")
    assert {one.assistant_view for one in found.values()} == {None}


def test_a_change_is_shown_as_its_diff() -> None:
    edited = results(chat("rewind-and-compaction", WRITTEN))["replace"]

    assert edited.output["message"] == "Successfully modified file: README.md (1 replacements)."
    assert edited.display is not None
    assert (edited.display.mime_type, edited.display.text) == (
        "text/x-diff",
        "--- README.md\n+++ README.md\n@@ -1 +1 @@\n-# boats\n+# Harbor\n",
    )


def test_a_web_search_has_its_sources() -> None:
    assert results(chat("web"))["google_web_search"].output["results"] == [
        {"title": "Fixture page", "url": "http://127.0.0.1:18080/page"},
        {"snippet": "Search summary[1]: the fixture page says 42."},
    ]


def test_errors_are_in_the_providers_words() -> None:
    missing = results(chat("read-missing"))["read_file"]
    unknown = results(chat("tool-errors"))["no_such_tool"]

    assert (missing.status, answer(missing.output)) == (
        "failed",
        {"errorMessage": "File not found: /tmp/ws/src/missing.py"},
    )
    assert missing.display == Display(origin="provider", text="File not found.")
    assert (unknown.status, unknown.display) == ("failed", None)
    assert results(chat("question-unavailable"))["ask_user"].name == "AskUserQuestion"


def test_a_picture_is_an_attachment_once() -> None:
    found = chat("picture")

    (seen,) = of(ToolResult, found)
    assert seen.attachments is not None
    assert [(one.mime_type, one.bytes) for one in seen.attachments] == [("image/png", 70)]
    assert answer(seen.output) == {"message": "Binary content provided (1 item(s))."}
    assert "iVBOR" not in str(seen.output["_raw"])


def test_mcp_tools_are_split_where_their_title_names_the_server() -> None:
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


def test_in_2025_mcp_tools_had_bare_names() -> None:
    assert calls(chat("document.json", WRITTEN))["get_figma_file"].name == "mcp__figma__get_figma_file"


def test_refused_is_denied_and_stopped_is_cancelled() -> None:
    found = of(ToolResult, chat("document.json", WRITTEN))

    assert [(one.name, one.status, one.output["errorMessage"]) for one in found[-2:]] == [
        ("Edit", "denied", "[Operation Cancelled] Reason: User did not allow tool call"),
        ("Bash", "cancelled", "[Operation Cancelled] Reason: User cancelled the operation."),
    ]


def test_a_shell_result_of_2025_keeps_the_commands_own_error_lines() -> None:
    failed = of(ToolResult, chat("document.json", WRITTEN))[0]

    assert answer(failed.output) == {
        "stdout": "1 failed\nError: expected 2",
        "exit_code": 2,
        "errorMessage": "Exit Code: 2",
    }


def test_a_call_that_waits_is_updated_and_answered_by_the_message_after_it() -> None:
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


def test_a_command_in_the_background_is_acknowledged_once() -> None:
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


def test_a_call_with_only_a_display_says_that_the_rest_is_unknown() -> None:
    shown = call("c", "run_shell_command", resultDisplay="hello", result=None)
    found = read("gemini-chat", HEADER, message("u", "user", "Go."), message("g", "gemini", "", toolCalls=[shown]))

    (result,) = of(ToolResult, found)
    assert (result.assistant_view, answer(result.output)) == ("unknown", {"stdout": "hello"})


def test_an_answer_to_an_unknown_call_has_a_synthetic_call() -> None:
    found = read("gemini-chat", HEADER, message("r", "user", [response("c", "glob", output="/w/a.py")]))

    (call,) = of(ToolCall, found)
    assert (call.name, call.synthetic) == ("Glob", True)
    assert answer(results(found)["glob"].output) == {"matches": ["/w/a.py"]}


# -- subagents --------------------------------------------------------------------------------------------------------


def test_a_subagents_call_is_a_task_whatever_its_tool_is_called() -> None:
    found = chat("subagent-call", WRITTEN)

    task = calls(found)["codebase_investigator"]
    assert (task.name, task.input["subagent_type"]) == ("Task", "codebase_investigator")
    assert answer(results(found)["codebase_investigator"].output) == {
        "content": "Two packages: core and cli.",
        "terminationReason": "GOAL",
    }


def test_a_subagents_chat_belongs_to_the_subagent() -> None:
    found = chat("subagent-chat", WRITTEN, session="root", parent="call")

    assert {(event.session, event.agent, event.parent) for event in found} == {
        ("root", "20000000-0000-4000-8000-000000000001", "call")
    }
    assert not of(SessionEvent, found)
    assert results(found)["list_directory"].output["entries"] == ["cli/", "core/", "main.py"]


# -- documents --------------------------------------------------------------------------------------------------------


def test_a_document_over_many_lines_keeps_the_contract() -> None:
    check_recording("gemini-chat", recording("gemini-chat", "document.json", WRITTEN))


def test_a_document_is_told_with_its_last_line() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)
    found = normalize("gemini-chat", lines, Context(stream="s"))

    assert {event.line for event in found} == {len(lines)}
    assert of(SessionEvent, found)[0].ts == 1791361800000


def test_a_document_without_its_end_is_shown_when_the_stream_ends() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)[:-1]

    (found,) = normalize("gemini-chat", lines, Context(stream="s"))

    assert isinstance(found, Unparsed)
    assert (found.reason, found.bytes) == ("truncated", sum(len(line.data) + 1 for line in lines))
    check_survives("gemini-chat", lines)


def test_lines_after_a_document_without_its_end_are_read() -> None:
    begun = recording("gemini-chat", "document.json", WRITTEN)[:9]
    lines = [*begun, *recording("gemini-chat", "read", RECORDED)]

    found = normalize("gemini-chat", lines, Context(stream="s"))

    assert [one.reason for one in of(Unparsed, found)] == ["truncated"]
    assert said(found) == said(chat("read"))


def test_a_document_read_again_gives_only_what_is_new() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)

    once = normalize("gemini-chat", lines, Context(stream="s"))
    twice = normalize("gemini-chat", [*lines, *lines], Context(stream="s"))

    assert outline(twice) == outline(once)


def test_auto_knows_a_document_by_its_first_lines() -> None:
    lines = recording("gemini-chat", "document.json", WRITTEN)
    normalizer = StreamNormalizer(Context(stream="s"))

    decided = None
    for number, line in enumerate(lines, 1):
        normalizer.feed(line.data)
        decided = decided or (number if normalizer.dialect == "gemini-chat" else None)

    assert decided == 3  # `{`, `sessionId`, `projectHash`
    assert normalizer.statistics.lines == normalizer.statistics.with_events == len(lines)


# -- what is not understood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        {"something": "else"},
        message("m", "mystery", "x"),
        {"id": 7, "type": "user", "content": "a number is no id"},
        {"$set": {"messages": [7]}},
        message("g", "gemini", "", toolCalls=[{"name": "glob"}]),
    ],
)
def test_a_line_of_an_unknown_form_is_unparsed(line: dict[str, Any]) -> None:
    assert {one.reason for one in of(Unparsed, read("gemini-chat", HEADER, line))} == {"unknown-type"}
