"""The `cline-json` dialect."""

from typing import Any

import msgspec
import orjson
import pytest

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, turns
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
from tooltap.protocol.model_view import model_text
from tooltap.testing import Line, normalize

TS = "2026-11-21T21:05:00.812Z"


def stream(name: str) -> list[Event]:
    return normalize("cline-json", recording("cline-json", name, "cline-3.0.65"), Context(stream="s"))


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"ts": TS, "type": "agent_event", "event": {"type": kind, **more}}


def text(content: str, kind: str = "text", event_type: str = "content_start") -> dict[str, Any]:
    return event(event_type, contentType=kind, **{kind: content})


def tool(event_type: str, **more: Any) -> dict[str, Any]:
    return event(event_type, contentType="tool", toolCallId="c", toolName="run_commands", **more)


START = {
    "ts": TS,
    "type": "hook_event",
    "hookEventName": "agent_start",
    "agentId": "a",
    "taskId": "one",
    "parentAgentId": None,
}


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_run_is_one_turn() -> None:
    found = stream("shell-failing")

    assert outline(found) == [
        "session",
        "turn started",
        "usage",
        "tool-call Bash",
        "tool-result Bash failed",
        "usage",
        "message assistant",
        "session",
        "usage",
        "turn completed",
        "usage",
    ]
    started, updated = of(SessionEvent, found)
    assert (started.session, updated.model) == ("conv_1795295100802_ilyw5qt", "fake-model")
    ended = found[-2]
    assert getattr(ended, "duration_ms", None) == 339
    assert {one.protocol for one in found} == {"cline"}


def test_usage_of_steps_turn_and_session() -> None:
    used = [
        (one.scope, one.input_tokens, one.cache_read_tokens, one.output_tokens) for one in of(Usage, stream("denied"))
    ]

    assert used == [
        ("step", 1200, 900, 42),
        ("step", 1200, 900, 42),
        ("turn", 2400, 1800, 84),
        ("session", 2400, 1800, 84),
    ]


def used(prompt: int, cost: float, cost_key: str = "totalCost") -> dict[str, Any]:
    return {"inputTokens": prompt, "outputTokens": 10, cost_key: cost}


def run(prompt: int, cost: float, total: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        START,
        event("usage", **used(prompt, cost, "cost")),
        event("done", reason="completed", usage=used(prompt, cost)),
        {"ts": TS, "type": "run_result", "finishReason": "completed", "aggregateUsage": total},
    ]


def totals(*lines: dict[str, Any]) -> list[tuple[str | None, int | None, float | None]]:
    found = of(Usage, read("cline-json", *lines))
    return [(one.counter, one.input_tokens, one.cost_usd) for one in found if one.scope == "session"]


def test_total_that_equals_what_the_process_used_began_with_it() -> None:
    assert totals(*run(100, 0.02, used(100, 0.02))) == [("process", 100, 0.02)]


def test_total_that_exceeds_it_continued_that_of_an_earlier_process() -> None:
    first, second = run(100, 0.02, used(400, 0.07)), run(200, 0.03, used(600, 0.1))

    assert totals(*first, *second) == [("process", 100, 0.02), ("process", 200, 0.03)]


def test_total_without_requests_says_not_what_it_covers() -> None:
    result = {"ts": TS, "type": "run_result", "finishReason": "completed", "aggregateUsage": used(100, 0.02)}

    assert totals(START, result) == [(None, 100, 0.02)]


def test_text_is_emitted_once() -> None:
    assert said(stream("denied")) == [
        ("assistant", "I need to delete it."),
        ("assistant", "Understood, I will not delete the README."),
    ]


def test_reasoning_precedes_its_text() -> None:
    found = stream("thinking")

    assert [one.text for one in found if isinstance(one, Reasoning | Message)][:2] == [
        "Let me think. The user wants the greeting fixed; first I should read the file.",
        "First I will read the file.",
    ]
    assert [one.text for one in of(Reasoning, found)][2:] == ["Verify.", "All fine."]
    assert len(of(Message, found)) == 3


def test_reasoning_splits_text() -> None:
    whole = text("One. Two.", event_type="content_end")
    found = read("cline-json", START, text("One. "), text("Hm.", "reasoning"), text("Two."), whole)

    assert [one.text for one in found if isinstance(one, Reasoning | Message)] == ["One. ", "Hm.", "Two."]


def test_unfinished_text_is_kept() -> None:
    assert said(read("cline-json", START, text("Half"))) == [("assistant", "Half")]
    assert said(read("cline-json", START, text("Whole.", event_type="content_end"))) == [("assistant", "Whole.")]


def test_api_error_fails_turn() -> None:
    found = stream("api-error")

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("error", "provider-error", "scripted bad request")
    ]
    assert turns(found)[-1] == ("t1", "failed", False)


def test_done_event_ends_run_without_result() -> None:
    found = read("cline-json", START, event("done", reason="aborted", text="", usage={}))

    assert turns(found) == [("t1", "started", False), ("t1", "cancelled", False)]


def test_run_without_end_is_cancelled() -> None:
    assert turns(read("cline-json", START))[-1] == ("t1", "cancelled", True)


def test_recoverable_errors_are_notices() -> None:
    failed = event("error", error={"message": "rate limited"}, recoverable=True)
    retried = event("notice", noticeType="recovery", message="Trying again", reason="api_error")
    found = read("cline-json", START, failed, retried)

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("warning", "provider-error", "rate limited"),
        ("warning", "retry", "Trying again"),
    ]


# -- calls ------------------------------------------------------------------------------------------------------------


def test_failed_command_has_streams_and_exit_code() -> None:
    done = results(stream("shell-failing"))["run_commands"]

    assert (done.name, done.status, answer(done.output)) == (
        "Bash",
        "failed",
        {
            "stdout": "partial output\n",
            "stderr": "boom: something broke\n",
            "exit_code": 3,
            "errorMessage": "Command exited with code 3",
        },
    )


def test_batch_of_commands_is_one_call() -> None:
    found = stream("batches")

    ran = calls(found)["run_commands"].input
    assert ran["command"] == "git status --short; sleep 1; echo done\necho second"
    assert ran["commands"] == ["git status --short; sleep 1; echo done", "echo second"]
    assert answer(results(found)["run_commands"].output) == {
        "stdout": "done\nsecond\n",
        "results": [
            {"command": "git status --short; sleep 1; echo done", "stdout": "done\n"},
            {"command": "echo second", "stdout": "second\n"},
        ],
    }


def test_failed_command_fails_batch() -> None:
    parts = [
        {"query": "a", "result": "fine\n", "success": True},
        {"query": "b", "result": "[Command exited with code 2]\n[stderr]\nno\n", "error": "code 2", "success": False},
    ]
    started = tool("content_start", input={"commands": ["a", "b"]})
    (done,) = of(ToolResult, read("cline-json", START, started, tool("content_end", output=parts)))

    assert (done.status, done.output["errorMessage"], done.output["stdout"]) == ("failed", "code 2", "fine\n")
    assert done.output["results"][1] == {"command": "b", "stdout": "", "stderr": "no\n", "exit_code": 2}
    assert "exit_code" not in done.output


def test_several_files_are_one_call() -> None:
    found = stream("batches")

    assert calls(found)["read_files"].input["file_paths"] == ["/tmp/ws/src/app.py", "/tmp/ws/src/util.py"]
    first, second = results(found)["read_files"].output["files"]
    assert first["content"].startswith("import sys\n\n\ndef greet(name):\n    ")
    assert second == {
        "filePath": "/tmp/ws/src/util.py",
        "content": "def add(a, b):\n    return a + b",
        "startLine": 1,
        "numLines": 2,
    }


def test_search_has_positions() -> None:
    found = results(stream("batches"))["search_codebase"]

    assert (found.name, found.output["matches"][1]) == ("Grep", {"filePath": "src/app.py", "line": 4, "column": 5})
    assert found.output["text"].startswith("Found 3 results for pattern: greet")


def test_editor_writes_and_edits() -> None:
    written = calls(stream("write"))["editor"]
    assert (written.name, written.input["content"]) == ("Write", "# Notes\n\n- first\n- second\n")
    edited = calls(stream("thinking"))["editor"]
    assert (edited.name, edited.input["old_string"], edited.input["new_string"]) == (
        "Edit",
        '"Hello, "',
        '"Good day, "',
    )
    assert results(stream("write"))["editor"].output["message"] == (
        "File created successfully at: /tmp/ws/docs/notes.md"
    )


def test_missing_file_fails() -> None:
    done = results(stream("missing-file"))["read_files"]

    words = "Error reading file: ENOENT: no such file or directory, statx '/tmp/ws/src/missing.py'"
    assert (done.status, answer(done.output)) == ("failed", {"errorMessage": words})


def test_disallowed_call_is_denied() -> None:
    done = results(stream("denied"))["run_commands"]

    assert (done.status, done.is_error) == ("denied", False)
    assert done.output["errorMessage"].startswith("Tool approval requires an interactive session")


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"output": "boom", "isError": True}, "failed"),
        ({"output": {"content": [{"type": "text", "text": "boom"}], "isError": True}}, "failed"),
        ({"output": [{"query": "x", "result": "boom", "success": True, "is_error": True}]}, "failed"),
        ({"output": [{"query": "x", "result": "", "success": False, "error": "boom"}]}, "failed"),
        ({"output": "boom", "error": "This is NOT a tool or system failure. boom"}, "denied"),
        ({"output": "boom"}, "completed"),
    ],
)
def test_failure_is_stated_in_any_part_of_a_result(more: dict[str, Any], status: str) -> None:
    ended = event("content_end", contentType="tool", toolCallId="c", toolName="fixture__fail", **more)
    (done,) = of(ToolResult, read("cline-json", START, ended))

    assert (done.status, "boom" in str(answer(done.output))) == (status, True)


def test_text_of_a_result_went_to_the_model() -> None:
    def view(output: Any) -> str | None:
        ended = event("content_end", contentType="tool", toolCallId="c", toolName="ask", output=output)
        return model_text(msgspec.to_builtins(of(ToolResult, read("cline-json", START, ended))[0]), lambda _: None)

    assert view("SQLite") == "SQLite"
    assert view({"content": [{"type": "text", "text": "SQLite"}]}) == "SQLite"
    assert view([{"query": "x", "result": "y", "success": True}]) is None  # the model does not get these objects


def test_picture_is_an_attachment() -> None:
    done = results(stream("image"))["read_files"]

    assert answer(done.output) == {"filePath": "/tmp/ws/logo.png", "message": "Successfully read image"}
    assert done.attachments is not None
    assert [(one.mime_type, one.bytes) for one in done.attachments] == [("image/png", 70)]


def test_interrupted_command_keeps_chunks() -> None:
    lines = [
        START,
        tool("content_start", input={"commands": ["x"]}),
        tool("content_update", update={"stream": "stdout", "chunk": "a\n"}),
        tool("content_update", update={"stream": "stderr", "chunk": "b\n"}),
    ]
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "cline-json")
    shown = [one for line in lines for one in normalizer.feed(orjson.dumps(line))]
    updates = [one.event for one in shown if isinstance(one, Produced) and isinstance(one.event, ToolUpdate)]

    assert [(one.chunk.stream, one.chunk.text) for one in updates if one.chunk] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
    ]
    (done,) = of(ToolResult, normalize("cline-json", [Line(orjson.dumps(line)) for line in lines]))
    assert (done.status, answer(done.output)) == ("interrupted", {"stdout": "a\n", "stderr": "b\n"})


def test_subagent_calls_have_agent() -> None:
    child = {"agentId": "b", "parentAgentId": "a"}
    started = event("content_start", contentType="tool", toolCallId="k", toolName="run_commands", input={}, **child)
    found = read("cline-json", START, {**START, **child}, started)

    assert [(one.call_id, one.agent) for one in of(ToolCall, found)] == [("k", "b")]
    assert [state for _, state, _ in turns(found)] == ["started", "cancelled"]


@pytest.mark.parametrize("parent", ["a", None, {}])
def test_subagent_has_no_turn_and_no_session_of_its_own(parent: Any) -> None:
    """Its hooks name a task of its own; what follows is still the main agent's."""
    child = {**START, "agentId": "b", "taskId": "two", "parentAgentId": parent}
    task = {"contentType": "tool", "toolCallId": "t", "toolName": "spawn_agent"}
    inner = {"contentType": "tool", "toolCallId": "k", "toolName": "run_commands", "agentId": "b"}
    found = read(
        "cline-json",
        START,
        event("content_start", **task, input={"task": "Look."}),
        child,
        event("content_start", **inner, input={"commands": ["x"]}),
        event("content_end", **inner, output=[{"query": "x", "result": "1", "success": True}]),
        {**child, "hookEventName": "agent_end"},
        event("content_end", **task, output="Found it."),
        text("Done.", event_type="content_end"),
        {**START, "hookEventName": "agent_end"},
        event("done", reason="completed"),
    )

    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]
    assert {one.session for one in found} == {"one"}
    assert [(one.call_id, one.agent, one.parent) for one in of(ToolCall, found)] == [("t", None, None), ("k", "b", "t")]


def hook(name: str, agent: str) -> dict[str, Any]:
    return {**START, "hookEventName": name, "agentId": agent, "parentAgentId": None if agent == "a" else "a"}


def begins(call_id: str, name: str) -> dict[str, Any]:
    return event("content_start", contentType="tool", toolCallId=call_id, toolName=name, input={})


def ends(call_id: str, name: str) -> dict[str, Any]:
    return event("content_end", contentType="tool", toolCallId=call_id, toolName=name, output="Done.")


def test_events_are_of_the_agent_that_the_hooks_leave() -> None:
    """The order is that of a run of Cline 3.0.65 whose subagent ran a command: only hooks name agents."""
    found = read(
        "cline-json",
        START,
        event("usage", inputTokens=10, outputTokens=1),
        hook("tool_call", "a"),
        begins("t", "spawn_agent"),
        hook("agent_start", "b"),
        text("I look."),
        event("usage", inputTokens=20, outputTokens=2),
        text("I look.", event_type="content_end"),
        hook("tool_call", "b"),
        begins("k", "run_commands"),
        hook("tool_result", "b"),
        ends("k", "run_commands"),
        hook("agent_end", "b"),
        event("done", reason="error", text="It broke.", usage={"inputTokens": 20, "outputTokens": 2}),
        hook("tool_result", "a"),
        ends("t", "spawn_agent"),
        text("Done.", event_type="content_end"),
        hook("agent_end", "a"),
        event("done", reason="completed", usage={"inputTokens": 10, "outputTokens": 1}),
        {"ts": TS, "type": "run_result", "finishReason": "completed", "aggregateUsage": used(10, 0.0)},
    )

    assert [(one.text, one.agent, one.parent) for one in of(Message, found)] == [
        ("I look.", "b", "t"),
        ("Done.", None, None),
    ]
    assert [(one.call_id, one.agent, one.parent) for one in of(ToolCall, found)] == [("t", None, None), ("k", "b", "t")]
    assert [(one.text, one.agent) for one in of(Notice, found)] == [("It broke.", "b")]
    assert [(one.scope, one.agent, one.input_tokens) for one in of(Usage, found)] == [
        ("step", None, 10),
        ("step", "b", 20),
        ("turn", None, 10),
        ("session", None, 10),
    ]
    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]


def test_hooks_of_two_agents_at_once_decide_nothing() -> None:
    """A call may be either's. The first of them to end says `done`; that is no end of the turn."""
    found = read(
        "cline-json",
        START,
        hook("tool_call", "a"),
        hook("tool_call", "a"),
        begins("t", "spawn_agent"),
        begins("u", "spawn_agent"),
        hook("agent_start", "b"),
        hook("agent_start", "c"),
        hook("tool_call", "b"),
        hook("tool_call", "c"),
        begins("k", "run_commands"),
        begins("l", "run_commands"),
        hook("tool_call", "c"),
        begins("m", "run_commands"),
        hook("agent_end", "c"),
        hook("agent_end", "b"),
        event("done", reason="error", usage={"inputTokens": 20, "outputTokens": 2}),
        hook("tool_result", "a"),
        ends("t", "spawn_agent"),
        hook("agent_end", "a"),
        {"ts": TS, "type": "run_result", "finishReason": "completed", "usage": used(10, 0.0)},
    )

    assert [(one.call_id, one.agent) for one in of(ToolCall, found)] == [
        ("t", None),
        ("u", None),
        ("k", None),
        ("l", None),
        ("m", "c"),
    ]
    assert [(one.scope, one.input_tokens) for one in of(Usage, found)] == [("turn", 10)]
    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]


@pytest.mark.parametrize("ended", ["bca", "cba", "acb"])
def test_hooks_tell_the_calls_of_agents_apart_that_have_one_id(ended: str) -> None:
    """The hooks and events are those of a recorded call, of the main agent and of two subagents at once."""
    tool = {"contentType": "tool", "toolCallId": "call_0", "toolName": "run_commands"}

    def called(agent: str) -> tuple[dict[str, Any], ...]:
        return hook("tool_call", agent), event("content_start", **tool, input={"commands": [f"cat {agent}"]})

    def answered(agent: str) -> tuple[dict[str, Any], ...]:
        output = [{"query": f"cat {agent}", "result": f"text of {agent}", "success": True}]
        return hook("tool_result", agent), event("content_end", **tool, output=output)

    found = read(
        "cline-json",
        START,
        *called("a"),
        hook("agent_start", "b"),
        hook("agent_start", "c"),
        *called("b"),
        *called("c"),
        *(line for agent in ended for line in answered(agent)),
    )

    command_of = {one.call_id: one.input["command"] for one in of(ToolCall, found)}
    assert [(one.agent, one.input["command"]) for one in of(ToolCall, found)] == [
        (None, "cat a"),
        ("b", "cat b"),
        ("c", "cat c"),
    ]
    assert [(one.agent, command_of[one.call_id], one.output["stdout"]) for one in of(ToolResult, found)] == [
        (None if agent == "a" else agent, f"cat {agent}", f"text of {agent}") for agent in ended
    ]


def test_tools_of_a_known_server() -> None:
    def name(tool_name: str, **context: Any) -> str:
        started = event("content_start", contentType="tool", toolCallId="c", toolName=tool_name, input={})
        return of(ToolCall, read("cline-json", START, started, **context))[0].name

    assert name("fixture__echo") == "fixture__echo"
    assert name("fixture__echo", mcp_servers=("fixture",)) == "mcp__fixture__echo"
    assert name("tooltap__render_diff") == "mcp__tooltap__render_diff"


def spawned(call_id: str, words: str) -> dict[str, Any]:
    """The end of a call that had spawned a subagent, with its last words."""
    output = {"text": words, "iterations": 1, "finishReason": "completed"}
    return event("content_end", contentType="tool", toolCallId=call_id, toolName="spawn_agent", output=output)


def ties(*lines: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    """Each subagent and the call that had spawned it, where two ran at once. `lines`: those after their start."""
    calls = (hook("tool_call", "a"), hook("tool_call", "a"), begins("t", "spawn_agent"), begins("u", "spawn_agent"))
    found = read("cline-json", START, *calls, hook("agent_start", "b"), hook("agent_start", "c"), *lines)
    return [(one.agent, one.parent) for one in of(SessionEvent, found) if one.agent is not None]


def left(agent: str, words: str) -> tuple[dict[str, Any], ...]:
    """The end of a subagent."""
    return hook("agent_end", agent), event("done", reason="completed", text=words)


def test_last_words_of_a_subagent_say_which_call_had_spawned_it() -> None:
    """The order is that of a run of Cline 3.0.65 with two subagents at once."""
    result = hook("tool_result", "a")
    assert ties(*left("c", "Two."), result, spawned("u", "Two."), *left("b", "One."), result, spawned("t", "One.")) == [
        ("c", "u"),
        ("b", "t"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        (*left("b", "Done."), *left("c", "Done."), spawned("t", "Done."), spawned("u", "Done.")),
        (hook("agent_end", "b"), hook("agent_end", "c"), event("done", text="Done."), spawned("u", "Done.")),
        (*left("b", "One."), spawned("t", "Another.")),
        (*left("b", ""), spawned("t", "")),
    ],
)
def test_subagent_is_of_no_call_where_its_words_do_not_tell(lines: tuple[dict[str, Any], ...]) -> None:
    assert ties(*lines) == []
