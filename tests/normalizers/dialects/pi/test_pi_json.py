"""The `pi-json` dialect."""

from typing import Any

import orjson

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, statistics, turns
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Usage,
)
from tooltap.testing import Line, normalize

START = {"type": "agent_start"}


def stream(name: str) -> list[Event]:
    return normalize("pi-json", recording("pi-json", name, "pi-0.73.1"), Context(stream="s"))


def message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "message_end", "message": {"role": "assistant", "content": list(content), **more}}


def tool_start(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_execution_start", "toolCallId": "c", "toolName": name, "args": arguments}


def result(text: str, name: str = "bash", is_error: bool = False) -> dict[str, Any]:
    content = {"content": [{"type": "text", "text": text}]}
    return {
        "type": "tool_execution_end",
        "toolCallId": "c",
        "toolName": name,
        "result": content,
        "isError": is_error,
    }


def update(text: str) -> dict[str, Any]:
    partial = {"content": [{"type": "text", "text": text}]}
    return {"type": "tool_execution_update", "toolCallId": "c", "toolName": "bash", "partialResult": partial}


def delta(text: str, kind: str = "text_delta", index: int = 0) -> dict[str, Any]:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, "contentIndex": index, "delta": text}}


def ended(text: str) -> ToolResult:
    (done,) = of(ToolResult, read("pi-json", tool_start("bash", command="x"), result(text, is_error=True)))
    return done


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_run_is_one_turn_with_steps() -> None:
    found = stream("edit")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "session",
        "tool-call Read",
        "usage",
        "tool-update",
        "tool-result Read completed",
        "message assistant",
        "tool-call MultiEdit",
        "usage",
        "tool-update",
        "tool-result MultiEdit completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]
    started, updated = of(SessionEvent, found)
    assert (started.session, started.cwd, updated.model) == (
        "01a1ffe5-79d7-710e-922d-7e06fc36e4f9",
        "/tmp/ws",
        "fake-model",
    )
    assert {event.protocol for event in found} == {"pi"}


def test_repeated_results_are_emitted_once() -> None:
    found = stream("tool-errors")

    assert said(found) == [("user", "[[S24]] Make some tool errors."), ("assistant", "Errors seen.")]
    assert len(of(ToolResult, found)) == 2
    stats = statistics("pi-json", recording("pi-json", "tool-errors", "pi-0.73.1"))
    assert (stats.unparsed, stats.skipped["repeated"]) == (0, 2)


def test_input_tokens_include_cached_tokens() -> None:
    # {"input":300,"output":42,"cacheRead":900,"cacheWrite":0,"totalTokens":1242}
    (first, *_) = of(Usage, stream("image"))

    assert (first.scope, first.input_tokens, first.cache_read_tokens, first.output_tokens) == ("step", 1200, 900, 42)


def test_deltas_are_kept_only_without_the_whole() -> None:
    whole = message({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}, responseId="r")
    found = read("pi-json", START, delta("H", "thinking_delta"), delta("Ye", index=1), whole, delta("And th"))

    assert [(type(one), one.text, one.block, one.message_id, one.synthetic) for one in of(Reasoning, found)] == [
        (Reasoning, "Hm.", 0, "r", False)
    ]
    assert [(one.text, one.synthetic) for one in of(Message, found)] == [("Yes.", False), ("And th", True)]


def test_api_error_fails_turn() -> None:
    failed = message(stopReason="error", errorMessage="400 bad request")
    found = read("pi-json", START, failed, {"type": "agent_end", "messages": [failed["message"]]})

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("error", "provider-error", "400 bad request")
    ]
    assert turns(found)[-1] == ("t1", "failed", False)


def test_retried_run_continues() -> None:
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "overloaded"}
    end = {"type": "agent_end", "messages": [], "willRetry": True}
    found = read("pi-json", START, end, retry, START, {"type": "agent_end", "messages": []})

    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]
    (notice,) = of(Notice, found)
    assert (notice.code, notice.text) == ("retry", "overloaded")
    assert notice.data == {"attempt": 1, "maxAttempts": 3, "delayMs": 2000}


def test_aborted_run_drops_incomplete_call() -> None:
    half = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "rm -r"}}
    stopped = message(half, stopReason="aborted")
    found = read("pi-json", START, stopped, {"type": "agent_end", "messages": [stopped["message"]]})

    assert of(ToolCall, found) == []
    assert turns(found)[-1] == ("t1", "cancelled", False)


def test_compaction_is_a_notice() -> None:
    done = {"type": "compaction_end", "reason": "threshold", "result": {"summary": "So far."}, "aborted": False}
    (notice,) = of(Notice, read("pi-json", {"type": "compaction_start", "reason": "threshold"}, done))

    assert (notice.code, notice.text, notice.data) == (
        "compaction",
        "So far.",
        {"reason": "threshold", "aborted": False},
    )


# -- calls ------------------------------------------------------------------------------------------------------------


def test_calls_are_pending_until_started() -> None:
    found = stream("edit")

    assert [(one.name, one.status) for one in of(ToolCall, found)] == [("Read", "pending"), ("MultiEdit", "pending")]
    assert [one.status for one in of(ToolUpdate, found)] == ["running"] * 2


def test_output_of_a_command_is_its_standard_output() -> None:
    found = normalize("pi-session", recording("pi-session", "parallel", "pi-0.73.1"), Context(stream="s"))

    assert answer(results(found)["bash"].output) == {"stdout": "done\n"}


def test_edit_has_replacements_and_diff() -> None:
    found = stream("edit")

    edit = answer(calls(found)["edit"].input)
    assert (edit["file_path"], len(edit["edits"])) == ("src/app.py", 1)
    assert edit["edits"][0]["new_string"] == '    return "Howdy, " + name + "!"'
    done = results(found)["edit"]
    assert done.output["message"] == "Successfully replaced 1 block(s) in src/app.py."
    assert done.display is not None
    assert '+ 6     return "Howdy, " + name + "!"' in (done.display.text or "")


def test_grep_matches_have_no_leading_space() -> None:
    """`README.md:5: - greet people`; context lines have another form, and are only in the text."""
    (found,) = [one for one in stream("search") if isinstance(one, ToolResult) and one.name == "Grep"]
    text = "a.py-3- before\na.py:4:     hit"
    start = {"type": "tool_execution_start", "toolCallId": "c", "toolName": "grep", "args": {"pattern": "hit"}}
    end = {"type": "tool_execution_end", "toolCallId": "c", "toolName": "grep", "isError": False}
    with_context = read("pi-json", start, {**end, "result": {"content": [{"type": "text", "text": text}]}})

    assert [match["excerpt"] for match in found.output["matches"]] == [
        "- greet people",
        "def greet(name):",
        '    """Return a greeting."""',
        "    print(greet(who))",
    ]
    assert answer(results(with_context)["grep"].output) == {
        "matches": [{"filePath": "a.py", "line": 4, "excerpt": "    hit"}],
        "text": text,
    }


def test_grep_ls_and_find() -> None:
    assert results(stream("search"))["grep"].output["matches"][1] == {
        "filePath": "src/app.py",
        "line": 4,
        "excerpt": "def greet(name):",
    }
    found = stream("listing")
    assert results(found)["ls"].output["entries"] == ["app.py", "util.py"]
    failed = results(found)["find"]
    assert (failed.name, failed.status, answer(failed.output)) == (
        "Glob",
        "failed",
        {"errorMessage": "fd is not available and could not be downloaded"},
    )


def test_picture_is_an_attachment() -> None:
    done = results(stream("image"))["read"]

    assert answer(done.output) == {"message": "Read image file [image/png]"}
    assert done.attachments is not None
    assert [(one.mime_type, one.bytes) for one in done.attachments] == [("image/png", 70)]


def test_exit_code_follows_output() -> None:
    done = ended("partial output\nboom\n\n\nCommand exited with code 3")

    assert (done.status, answer(done.output)) == (
        "failed",
        {"stdout": "partial output\nboom\n", "exit_code": 3, "errorMessage": "Command exited with code 3"},
    )
    assert answer(ended("(no output)\n\nCommand exited with code 1").output)["stdout"] == ""
    assert answer(ended("Command exited with code 1").output)["exit_code"] == 1


def test_aborted_timed_out_and_blocked_commands() -> None:
    assert (ended("x\n\nCommand aborted").status, ended("x\n\nCommand timed out after 5 seconds").status) == (
        "cancelled",
        "failed",
    )
    blocked = ended("Tool execution was blocked")
    assert (blocked.status, answer(blocked.output)) == ("denied", {"errorMessage": "Tool execution was blocked"})


def test_interrupted_command_keeps_last_output() -> None:
    done = results(stream("interrupted"))["bash"]

    assert (done.status, done.synthetic, answer(done.output)) == (
        "interrupted",
        True,
        {"stdout": "tick 1\ntick 2\ntick 3\n"},
    )


def test_repeated_output_becomes_new_chunks_only() -> None:
    assert chunks("a\n", "a\nb\n", "a\nb\n", "a\nb\nb\n") == [("a\n", 0), ("b\n", 2), ("b\n", 4)]


def test_output_without_its_head_continues() -> None:
    lines = [f"line {number:06}\n" for number in range(100)]

    assert chunks("".join(lines[:50]), "".join(lines[30:60])) == [
        ("".join(lines[:50]), 0),
        ("".join(lines[50:60]), 600),
    ]


def chunks(*outputs: str) -> list[tuple[str, int]]:
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "pi-json")
    lines = [Line(orjson.dumps(line)) for line in (tool_start("bash", command="x"), *map(update, outputs))]
    found = [out.event for line in lines for out in normalizer.feed(line.data) if isinstance(out, Produced)]
    pieces = [event.chunk for event in found if isinstance(event, ToolUpdate) and event.chunk is not None]
    return [(piece.text, piece.offset) for piece in pieces]


def test_result_without_call_has_tool_name() -> None:
    found = read("pi-json", result("a\nb", name="ls"))

    assert [(one.name, one.synthetic) for one in of(ToolCall, found)] == [("LS", True)]


# -- what 1.x adds ---------------------------------------------------------------------------------------------------


def structured(text: str, value: Any, name: str = "bash", **more: Any) -> dict[str, Any]:
    content = {"content": [{"type": "text", "text": text}], "structuredContent": value}
    return {"type": "tool_execution_end", "toolCallId": "c", "toolName": name, "result": content, **more}


def test_command_states_its_whole_output_and_its_exit_code() -> None:
    told = {"output": "a\nb\n", "truncated": False, "exit_code": 0, "wall_time_seconds": 0.1}
    failed = {**told, "exit_code": 3}
    (passed,) = of(ToolResult, read("pi-json", tool_start("bash", command="x"), structured("a\n[cut]", told)))
    text = "a\nb\n\n\nCommand exited with code 3"
    (broken,) = of(
        ToolResult,
        read("pi-json", tool_start("bash", command="x"), structured(text, failed, isError=True, durationMs=21)),
    )

    assert answer(passed.output) == {"stdout": "a\nb\n", "exit_code": 0}
    assert (passed.status, passed.duration_ms) == ("completed", None)
    assert answer(broken.output) == {
        "stdout": "a\nb\n",
        "exit_code": 3,
        "errorMessage": "Command exited with code 3",
    }
    assert (broken.status, broken.duration_ms) == ("failed", 21)


def test_file_that_was_read_is_whole() -> None:
    start = tool_start("read", path="a.txt")
    (done,) = of(ToolResult, read("pi-json", start, structured("one\n[1 more line]", "one\ntwo\n", "read")))

    assert done.output["file"]["content"] == "one\ntwo\n"


def test_call_of_a_script_belongs_to_the_scripts_call() -> None:
    """What it returns goes to the script; the model sees what the script prints."""
    outer = {**tool_start("codemode", code="tools.bash()"), "toolCallId": "o"}
    inner = {**tool_start("bash", command="x"), "toolCallId": "o/1", "parentToolCallId": "o"}
    printed = structured("hi\n", {"output": "hi\n", "exit_code": 0}, toolCallId="o/1", parentToolCallId="o")
    found = read("pi-json", outer, inner, {**printed, "toolCallId": "o/1"})

    assert [(one.call_id, one.parent) for one in of(ToolCall, found)] == [("o", None), ("o/1", "o")]
    (result_of_it, _) = of(ToolResult, found)
    assert (result_of_it.parent, result_of_it.output["stdout"]) == ("o", "hi\n")
    assert (result_of_it.assistant_view, result_of_it.model_view) == ("unknown", None)


def test_edit_of_the_context_is_a_notice() -> None:
    edit = {"type": "context_edit", "id": "e", "targetId": "b", "replacement": {"content": "less"}}
    found = read("pi-json", {"type": "entry_appended", "entry": edit}, {"type": "entry_appended", "entry": {}})

    assert [(one.code, one.text) for one in of(Notice, found)] == [("context-edit", "less")]
