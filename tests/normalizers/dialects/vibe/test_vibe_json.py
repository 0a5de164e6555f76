"""The `vibe-json` dialect."""

from typing import Any

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, statistics, turns
from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Event,
    Message,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolUpdate,
)
from tooltap.testing import normalize


def stream(name: str) -> list[Event]:
    return normalize("vibe-json", recording("vibe-json", name, "vibe-3.0.2"), Context(stream="s"))


def entry(entry_id: str, kind: str, status: str = "completed", turn: str = "t", **more: Any) -> dict[str, Any]:
    common = {"id": entry_id, "sessionId": "one", "turnId": turn, "createdAt": 1_000, "updatedAt": 2_000}
    return {**common, "type": kind, "generationStatus": status, **more}


def message(
    entry_id: str, text: str, status: str = "completed", role: str = "assistant", **more: Any
) -> dict[str, Any]:
    return entry(entry_id, "message", status, role=role, content=[{"type": "text", "text": text}], **more)


def effect(status: str, state: dict[str, Any], name: str = "file_system.bash") -> dict[str, Any]:
    detail = {"toolName": name, "kind": "shell", "input": {"command": "x"}}
    return entry("effect-1", "effect", status, detail=detail, state=state)


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_turn_ending_with_model_text_is_completed() -> None:
    found = stream("read")

    assert outline(found) == [
        "turn started",
        "message user",
        "message assistant",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "turn completed",
    ]
    turn = "turn-0dcb67565a7a3395d67d558533ce671f"
    assert turns(found) == [(turn, "started", False), (turn, "completed", True)]
    assert {event.session for event in found} == {"ff57c8b1-9dd5-091f-fb58-4f76bb9c699e"}
    assert {event.protocol for event in found} == {"vibe"}
    assert [event.ts for event in found][:2] == [1795295021278, 1795295021278]


def test_turn_ending_with_prompt_is_cancelled() -> None:
    assert [state for _, state, _ in turns(stream("api-error"))] == ["started", "cancelled"]


def test_turn_whose_answer_was_cut_is_cancelled() -> None:
    outcome = {"type": "discarded", "cause": "interrupt"}
    found = read("vibe-json", message("a", "Go.", role="user"), message("b", "It se", outcome=outcome))

    assert [state for _, state, _ in turns(found)] == ["started", "cancelled"]
    assert said(found)[-1] == ("assistant", "It se")


def test_next_turn_ends_previous_turn() -> None:
    found = read("vibe-json", message("a", "Go.", role="user"), message("b", "Done."), message("c", "More.", turn="u"))

    assert turns(found) == [
        ("t", "started", False),
        ("t", "completed", True),
        ("u", "started", False),
        ("u", "completed", True),
    ]


def test_growing_message_is_emitted_once() -> None:
    lines = [
        message("m", "Hel", "in_progress"),
        message("m", "Hello", "in_progress"),
        message("m", "Hello."),
        message("m", "Hello."),
    ]
    found = read("vibe-json", *lines)

    assert [(one.text, one.message_id, one.synthetic) for one in of(Message, found)] == [("Hello.", "m", False)]


def test_unfinished_message_is_kept() -> None:
    found = read("vibe-json", message("m", "Hel", "in_progress"), message("m", "Hello", "in_progress"))

    assert [(one.text, one.synthetic) for one in of(Message, found)] == [("Hello", True)]


# -- calls ------------------------------------------------------------------------------------------------------------


def test_command_has_stdout_and_stderr() -> None:
    found = stream("shell")

    call, done = calls(found)["file_system.bash"], results(found)["file_system.bash"]
    assert (call.name, call.title) == ("Bash", "bash: echo hello from shell; ls src; git status --short")
    assert answer(done.output) == {"stdout": "hello from shell\napp.py\nutil.py\n", "stderr": "", "truncated": False}
    assert done.ts == 1795295042123


def test_repeated_effect_is_one_call() -> None:
    lines = [
        effect("in_progress", {"status": "pending"}),
        effect("in_progress", {"status": "running"}),
        effect("in_progress", {"status": "running"}),
        effect("completed", {"status": "completed", "output": {"stdout": "a", "stderr": ""}}),
        effect("completed", {"status": "completed", "output": {"stdout": "a", "stderr": ""}}),
    ]
    found = read("vibe-json", *lines)

    assert [one.status for one in of(ToolCall, found)] == ["pending"]
    assert [one.status for one in of(ToolUpdate, found)] == ["running"]
    assert [(one.status, one.output["stdout"]) for one in of(ToolResult, found)] == [("completed", "a")]


def test_exit_code_is_in_the_error() -> None:
    words = "Command failed: 'x'\nReturn code: 3\nStderr: boom\nStdout: partial"
    state = {"status": "failed", "outputText": "", "error": {"message": words, "code": "tool_failed"}}
    (done,) = of(ToolResult, read("vibe-json", effect("completed", state)))

    assert (done.status, answer(done.output)) == (
        "failed",
        {"stdout": "partial", "stderr": "boom", "exit_code": 3, "errorMessage": words},
    )


def test_long_output_is_replaced_by_a_note() -> None:
    note = '<system>The tool output is large.</system>\n<truncated-output>\n{\n  "returncode": 0,\n  "stdout": "a"'
    (done,) = of(ToolResult, read("vibe-json", effect("completed", {"status": "completed", "outputText": note})))

    assert answer(done.output) == {"message": note, "exit_code": 0}


def test_command_that_could_not_be_run_has_failed() -> None:
    """Only its display says so (3.1)."""
    words = "/usr/bin/bash: line 1: frobnicate-x: command not found\n"
    output = {"stdout": "", "stderr": words, "output": "", "truncated": False}
    state = {"status": "completed", "outputText": words, "display": {"success": False}, "output": output}
    (done,) = of(ToolResult, read("vibe-json", effect("completed", state)))

    assert (done.status, done.is_error) == ("failed", True)
    assert answer(done.output) == {"stdout": "", "stderr": words, "truncated": False}


def test_cancelled_effect_is_cancelled() -> None:
    (done,) = of(ToolResult, read("vibe-json", effect("cancelled", {"status": "running"})))

    assert (done.status, done.synthetic) == ("cancelled", False)


def test_read_and_write() -> None:
    file = results(stream("read"))["file_system.read_file"].output["file"]
    assert (file["filePath"], file["startLine"], file["numLines"]) == ("/tmp/ws/src/app.py", 1, 15)
    assert file["content"].startswith("import sys\n\n\ndef greet(name):")
    found = stream("write")
    assert calls(found)["file_system.write_file"].input["content"] == "# Notes\n\n- first\n- second\n"
    assert answer(results(found)["file_system.write_file"].output) == {
        "filePath": "/tmp/ws/docs/notes.md",
        "fileExisted": False,
    }


def test_replacement_is_a_multi_edit() -> None:
    edit = calls(stream("edit"))["file_system.search_replace"]

    assert (edit.name, edit.input["file_path"]) == ("MultiEdit", "src/app.py")
    assert edit.input["edits"][0]["old_string"] == '    return "Hello, " + name + "!"'


def test_grep_and_todo_list() -> None:
    assert results(stream("search"))["grep"].output["matches"][0] == {
        "filePath": "src/app.py",
        "line": 4,
        "excerpt": "def greet(name):",
    }
    found = stream("todo-list")
    assert [[todo["status"] for todo in one.input["todos"]] for one in of(ToolCall, found)] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "completed"],
    ]
    assert [one.name for one in of(ToolResult, found)] == ["TodoWrite"] * 3


def test_result_has_display_text() -> None:
    shown = results(stream("read"))["file_system.read_file"].display

    assert shown is not None
    assert (shown.origin, shown.text) == ("provider", "Read 15 lines from src/app.py")


def test_missing_file_fails() -> None:
    done = results(stream("missing-file"))["file_system.read_file"]

    assert (done.status, answer(done.output)) == (
        "failed",
        {"errorMessage": "File not found at: /tmp/ws/src/missing.py"},
    )


def test_vibe_tools_keep_their_names() -> None:
    assert [one.name for one in of(ToolCall, stream("tool-discovery"))] == ["search_tool_functions"]


def test_permission_precedes_its_call() -> None:
    found = stream("denied")

    (call,) = of(ToolCall, found)
    assert (call.line, call.synthetic, call.status, call.input["command"]) == (3, False, "pending", "rm README.md")
    (asked,) = of(PermissionRequest, found)
    assert (asked.permission_id, asked.call_id) == ("approval-call_d38645c23aa84e90a9002962", call.call_id)
    assert [option["id"] for option in asked.options or []] == [
        "approve",
        "approve_for_session",
        "approve_permanently",
        "deny",
        "cancel_turn",
    ]
    (answered,) = of(PermissionResponse, found)
    assert (answered.outcome, answered.option_id) == ("denied", "deny")
    (done,) = of(ToolResult, found)
    assert (done.status, answer(done.output)) == (
        "denied",
        {"errorMessage": "Tool execution denied by approval callback"},
    )


def test_unknown_entry_is_unparsed() -> None:
    stats = statistics("vibe-json", recording("vibe-json", "denied", "vibe-3.0.2"))
    assert (stats.unparsed, stats.skipped) == (0, {})
    assert outline(read("vibe-json", entry("x", "new"))) == ["unparsed"]
    assert said(stream("denied"))[0] == ("user", "[[S14]] Delete the README with rm.")


def test_messages_before_3_0_are_not_recognised() -> None:
    """They are chat messages with every field, and must not be taken for Kimi's.

    No recording of them is known; these are written after `core/output_formatters.py` and `LLMMessage` in
    `core/types.py` of mistralai/mistral-vibe.
    """
    fields = ("tool_calls", "name", "tool_call_id", "reasoning_content", "message_id")
    blank: dict[str, Any] = {"injected": False, **dict.fromkeys(fields)}
    called = {"id": "c", "index": 0, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    lines = [
        {"role": "system", "content": "…", **blank},
        {"role": "user", "content": "Go.", **blank},
        {"role": "assistant", "content": "", **blank, "tool_calls": [called]},
        {"role": "tool", "content": "x", **blank, "name": "bash", "tool_call_id": "c"},
        {"role": "assistant", "content": "Done.", **blank},
    ]

    assert [recognise(line) for line in lines] == [None] * 5


# -- reasoning --------------------------------------------------------------------------------------------------------


def reasoning(entry_id: str, **fields: Any) -> dict[str, Any]:
    return {**message(entry_id, ""), "type": "reasoning", "content": None, **fields}


def test_reasoning_has_its_text_beside_the_content() -> None:
    lines = recording("vibe-json", "thinking", "vibe-3.0.3")
    found = normalize("vibe-json", lines, Context(stream="s"))

    assert [one.text for one in of(Reasoning, found)] == [
        "Let me think. The user wants the greeting fixed; first I should read the file.",
        "The string is on line 6. I will edit it, then verify by running it.",
        "Verify.",
        "All fine.",
    ]


def test_reasoning_may_grow() -> None:
    lines = reasoning("r", text="Let", generationStatus="in_progress"), reasoning("r", text="Let me.")

    assert [(one.text, one.synthetic) for one in of(Reasoning, read("vibe-json", *lines))] == [("Let me.", False)]


def test_summary_stands_for_hidden_reasoning() -> None:
    lines = reasoning("r", text="", summary=["One.", {"type": "summary_text", "text": "Two."}]), reasoning("e", text="")

    assert [one.text for one in of(Reasoning, read("vibe-json", *lines))] == ["One.\n\nTwo."]
