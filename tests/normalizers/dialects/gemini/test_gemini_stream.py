"""Tests of the `gemini-stream` dialect."""

from typing import Any

import pytest

from tests.normalizers.dialects.gemini.helpers import RECORDED, WRITTEN, stream
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
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Display,
    Notice,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, normalize, read_recording

ALL = sorted((FIXTURES / "gemini-stream").rglob("*.jsonl"))
NOW = "2026-11-21T20:45:09.996Z"
INIT = {"type": "init", "timestamp": NOW, "session_id": "one", "model": "gemini-2.5-flash"}
PROMPT = {"type": "message", "timestamp": NOW, "role": "user", "content": "Go."}
DONE = {"type": "result", "timestamp": NOW, "status": "success"}


def use(call_id: str, name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "tool_use", "timestamp": NOW, "tool_name": name, "tool_id": call_id, "parameters": parameters}


def result(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "timestamp": NOW, "tool_id": call_id, "status": "success", **more}


def text(content: str) -> dict[str, Any]:
    return {"type": "message", "timestamp": NOW, "role": "assistant", "content": content, "delta": True}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_fixture_line_has_events(path: Any) -> None:
    lines = read_recording(path.read_bytes())
    stats = statistics("gemini-stream", lines)

    assert (stats.with_events, stats.unparsed, stats.skipped) == (len(lines), 0, {})


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_run_is_a_session_with_one_turn() -> None:
    found = stream("read")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "message assistant",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    (session,) = of(SessionEvent, found)
    assert (session.state, session.model) == ("started", "gemini-2.5-flash")
    assert {event.session for event in found} == {"a774addb-e820-460e-877b-2418090c3cb4"}
    assert {(event.protocol, event.provider, event.dialect) for event in found} == {
        ("gemini", "gemini", "gemini-stream")
    }
    ended = of(Turn, found)[-1]
    assert (ended.reason, ended.duration_ms) == ("success", 120)
    assert ended.ts == 1795293911357


def test_text_deltas_become_one_message() -> None:
    assert said(stream("read")) == [
        ("user", "[[S1]] Read src/app.py and tell me what it does."),
        ("assistant", "I'll read the file."),
        ("assistant", "It prints a greeting: `greet(name)` returns **Hello, name!**."),
    ]


def test_whole_text_is_its_own_message() -> None:
    whole = {**text("Whole."), "delta": False}

    assert said(read("gemini-stream", INIT, PROMPT, text("A "), text("piece."), whole))[1:] == [
        ("assistant", "A piece."),
        ("assistant", "Whole."),
    ]


def test_usage_includes_cache_and_thoughts() -> None:
    # 2,498 tokens in total: 2,400 of prompt (1,800 cached), 84 of answer, and 14 that the line does not name. The
    # saved chat of the same run has 7 thought tokens for each of its two requests.
    (used,) = of(Usage, stream("read"))

    assert (used.scope, used.input_tokens, used.cache_read_tokens, used.output_tokens) == ("turn", 2400, 1800, 98)
    assert used.reasoning_tokens is None


def test_run_without_an_end_is_cancelled() -> None:
    found = stream("interrupted")

    assert turns(found) == [("t1", "started", False), ("t1", "cancelled", True)]
    ended = results(found)["run_shell_command"]
    assert (ended.status, ended.synthetic, answer(ended.output)) == ("interrupted", True, {})
    assert turns(stream("overload")) == [("t1", "started", False), ("t1", "cancelled", True)]


def test_api_error_fails_the_turn() -> None:
    found = stream("api-error")

    (notice,) = of(Notice, found)
    assert (notice.level, notice.code) == ("error", "provider-error")
    assert '"message":"scripted bad request"' in notice.text
    assert turns(found)[-1] == ("t1", "failed", False)


def test_error_line_is_a_notice_of_its_severity() -> None:
    found = stream("shell-endings", WRITTEN)

    (notice,) = of(Notice, found)
    assert (notice.level, notice.text) == ("warning", "Loop detected, stopping execution")


def test_cancelled_run_cancels_the_turn() -> None:
    ended = of(Turn, stream("shell-endings", WRITTEN))[-1]

    assert (ended.state, ended.reason, ended.synthetic) == ("cancelled", "FatalCancellationError", False)


def test_new_process_ends_open_turns() -> None:
    other = {**INIT, "session_id": "two"}
    found = read("gemini-stream", INIT, PROMPT, use("a", "glob"), other, PROMPT, DONE, INIT)

    assert [(turn.session, turn.turn, turn.state) for turn in of(Turn, found)] == [
        ("one", "t1", "started"),
        ("one", "t1", "cancelled"),
        ("two", "t2", "started"),
        ("two", "t2", "completed"),
    ]
    assert [(one.session, one.state) for one in of(SessionEvent, found)] == [
        ("one", "started"),
        ("two", "started"),
        ("one", "started"),
    ]
    assert results(found)["glob"].status == "interrupted"


def test_same_session_is_resumed() -> None:
    found = read("gemini-stream", INIT, PROMPT, DONE, INIT, PROMPT, DONE)

    assert [one.state for one in of(SessionEvent, found)] == ["started", "resumed"]
    assert [turn for turn, state, _ in turns(found) if state == "completed"] == ["t1", "t2"]


def test_stream_tapped_in_the_middle_has_a_synthetic_turn() -> None:
    found = read("gemini-stream", text("…ing."), DONE)

    assert turns(found) == [("t1", "started", True), ("t1", "completed", False)]


def test_noise_is_unparsed() -> None:
    lines = recording("gemini-stream", "read", RECORDED)
    noisy = [Line(b"Loaded cached credentials."), *lines[:4], Line(b"(node:1) Warning: x"), *lines[4:]]

    found = normalize("gemini-stream", noisy, Context(stream="s"))

    assert [(one.reason, one.text) for one in of(Unparsed, found)] == [
        ("not-json", "Loaded cached credentials."),
        ("not-json", "(node:1) Warning: x"),
    ]
    assert said(found) == said(stream("read"))


def test_unknown_type_is_unparsed() -> None:
    (found,) = of(Unparsed, read("gemini-stream", {"type": "thought", "timestamp": NOW, "content": "Hm."}))

    assert found.reason == "unknown-type"


# -- tools ------------------------------------------------------------------------------------------------------------


def test_result_has_an_unknown_assistant_view() -> None:
    for name in ("read", "write", "edit", "grep", "todos", "shell", "topic"):
        for one in of(ToolResult, stream(name)):
            assert (one.status, one.assistant_view) == ("completed", "unknown"), name


def test_result_without_output_is_completed() -> None:
    assert answer(results(stream("write"))["write_file"].output) == {}
    assert answer(results(stream("grep"))["grep_search"].output) == {}


def test_read_file_has_no_content() -> None:
    assert answer(results(stream("read"))["read_file"].output) == {}


def test_shell_result_has_no_exit_code() -> None:
    # The command ended with exit code 3, but the line has `"status":"success"` and no code.
    failed = results(stream("shell-fails"))["run_shell_command"]

    assert failed.status == "completed"
    assert answer(failed.output) == {"stdout": "partial output\nboom: something broke"}


def test_failed_command_without_output_has_an_exit_code() -> None:
    failed = of(ToolResult, stream("shell-endings", WRITTEN))[0]

    assert (failed.status, failed.is_error) == ("failed", True)
    assert answer(failed.output) == {"stdout": "", "exit_code": 1, "errorMessage": "Command exited with code: 1"}


def test_call_refused_by_policy_is_denied() -> None:
    refused = of(ToolResult, stream("shell-endings", WRITTEN))[1]

    assert (refused.status, refused.is_error) == ("denied", False)
    assert answer(refused.output) == {"errorMessage": "Tool execution denied by policy. Deletion is forbidden."}


def test_background_command_outlives_its_turn() -> None:
    found = stream("shell-endings", WRITTEN)
    acknowledged, end = [one for one in of(ToolResult, found) if one.call_id.endswith("04000_0")]

    assert (acknowledged.status, acknowledged.async_, acknowledged.output["pid"]) == ("completed", True, 4711)
    assert (end.status, end.final, end.synthetic) == ("interrupted", True, True)
    assert found.index(end) > found.index(of(Turn, found)[-1])


def test_timed_out_command_is_cancelled_and_keeps_its_output() -> None:
    stopped = of(ToolResult, stream("shell-endings", WRITTEN))[3]

    assert stopped.status == "cancelled"
    assert stopped.output["stdout"] == "step 1\nstep 2"
    assert stopped.output["errorMessage"].startswith("Command was automatically cancelled because")


def test_error_is_the_models_side_and_display_the_users() -> None:
    missing = results(stream("read-missing"))["read_file"]

    assert (missing.status, missing.is_error) == ("failed", True)
    assert answer(missing.output) == {"errorMessage": "File not found: /tmp/ws/src/missing.py"}
    assert missing.display == Display(origin="provider", text="File not found.")


def test_unknown_tool_fails_without_output() -> None:
    failed = results(stream("tool-unavailable"))["run_shell_command"]

    assert failed.status == "failed"
    assert list(answer(failed.output)) == ["errorMessage"]
    assert failed.display is None


def test_sentence_about_a_result_is_its_message() -> None:
    # google_web_search shows `Search results for "fixture page answer" returned.`
    found = results(stream("web"))["google_web_search"]

    assert answer(found.output) == {"message": 'Search results for "fixture page answer" returned.'}


def test_results_are_matched_by_id() -> None:
    found = stream("parallel-calls")

    assert [event.call_id for event in of(ToolCall, found)] == [event.call_id for event in of(ToolResult, found)]
    assert outline(found)[4:10] == [
        "tool-call Read",
        "tool-call Read",
        "tool-call Bash",
        "tool-result Read completed",
        "tool-result Read completed",
        "tool-result Bash completed",
    ]


def test_calls_have_canonical_names_and_inputs() -> None:
    edit = calls(stream("edit"))["replace"]
    todos = calls(stream("todos"))["write_todos"]

    assert (edit.name, edit.input["old_string"]) == ("Edit", '    return "Hello, " + name + "!"')
    assert (todos.name, todos.input["todos"][0]["content"]) == ("TodoWrite", "Read the code")
    assert calls(stream("topic"))["update_topic"].name == "update_topic"


def test_unicode_and_control_characters_are_kept() -> None:
    found = stream("unicode")

    assert results(found)["run_shell_command"].output["stdout"].endswith("e\u0301\nprogress 10%\rprogress 100%")
    assert calls(found)["write_file"].input["content"] == "café 日本語 😀\ttab\n\x1b[31mred\x1b[0m\n"


def test_mcp_name_is_split_only_at_a_known_server() -> None:
    assert calls(stream("mcp"))["mcp_fixture_change_title"].name == "mcp_fixture_change_title"

    known = calls(stream("mcp", mcp_servers=("fix", "fixture")))["mcp_fixture_change_title"]
    assert known.name == "mcp__fixture__change_title"


def test_failure_of_an_mcp_tool_names_its_server() -> None:
    """The failure says `MCP tool 'fail'`, which the model calls `mcp_fixture_fail`: the rest is the server."""
    found = stream("mcp")
    named = results(found)

    assert [named[f"mcp_fixture_{tool}"].name for tool in ("echo", "fail", "picture")] == [
        "mcp_fixture_echo",
        "mcp__fixture__fail",
        "mcp__fixture__picture",
    ]
    assert [one.name for one in of(ToolUpdate, found)] == ["mcp__fixture__fail"]


def test_tools_of_our_own_server_are_known() -> None:
    called = {"type": "tool_use", "timestamp": NOW, "tool_name": "mcp_tooltap_render_diff", "tool_id": "c"}

    assert [one.name for one in of(ToolCall, read("gemini-stream", called))] == ["mcp__tooltap__render_diff"]


def test_mcp_output_is_its_text() -> None:
    found = results(stream("mcp"))

    assert answer(found["mcp_fixture_echo"].output) == {"value": "echo: hi there"}
    assert found["mcp_fixture_fail"].status == "failed"


def test_unknown_call_takes_its_name_from_the_id() -> None:
    found = read("gemini-stream", result("run_shell_command__run_shell_command_1795293915501_0", output="hello"))

    (call,) = of(ToolCall, found)
    assert (call.name, call.synthetic) == ("Bash", True)
    assert answer(results(found)["run_shell_command"].output) == {"stdout": "hello"}

    (old,) = of(ToolCall, read("gemini-stream", result("write_file-1700000000000-0123456789ab")))
    assert old.name == "Write"

    (nameless,) = of(ToolCall, read("gemini-stream", result("call_1")))
    assert nameless.name == "Unknown"


def test_second_result_is_skipped() -> None:
    lines = [INIT, PROMPT, use("a", "glob", pattern="*"), result("a"), result("a", output="again")]

    assert len(of(ToolResult, read("gemini-stream", *lines))) == 1
