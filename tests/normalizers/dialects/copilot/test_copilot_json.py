"""Tests of the `copilot-json` dialect."""

from typing import Any

import pytest

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, turns
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Unparsed,
    Usage,
)
from tooltap.testing import normalize

PROMPT_ID = "i"


def stream(name: str) -> list[Event]:
    return normalize("copilot-json", recording("copilot-json", name, "copilot-1.0.102"), Context(stream="s"))


def line(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": "x", "timestamp": "2026-11-21T20:58:06.444Z", "parentId": None}


def start(name: str, **arguments: Any) -> dict[str, Any]:
    return line("tool.execution_start", toolCallId="c", toolName=name, arguments=arguments)


def done(content: str, **more: Any) -> dict[str, Any]:
    return line("tool.execution_complete", toolCallId="c", success=True, result={"content": content}, **more)


PROMPT = line("user.message", content="Go.", interactionId=PROMPT_ID, delivery="idle")
IDLE = line("assistant.idle")
RESULT = {"type": "result", "timestamp": "2026-11-21T20:58:06.444Z", "sessionId": "one", "exitCode": 0, "usage": {}}


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_turn_lasts_from_prompt_to_idle() -> None:
    found = stream("shell")

    assert outline(found) == [
        "session",
        "session",
        "turn started",
        "message user",
        "message assistant",
        "tool-call Bash",
        "tool-update",
        "tool-result Bash completed",
        "usage",
        "message assistant",
        "turn completed",
        "session",
    ]
    assert turns(found) == [
        ("9a4b44b8-7028-41d3-a9df-dd2ca7473739", "started", False),
        ("9a4b44b8-7028-41d3-a9df-dd2ca7473739", "completed", False),
    ]
    last = of(SessionEvent, found)[-1]
    assert (last.session, last.alias, last.state) == ("5d1b7905-fffe-4268-bf91-10617e2b9695", "s", "updated")
    assert found[0].session == "s"
    assert {event.protocol for event in found} == {"copilot"}


def test_session_lists_servers_and_model() -> None:
    servers, model, _ = of(SessionEvent, stream("shell"))

    assert {"name": "fixture", "status": "connected"} in (servers.mcp_servers or [])
    assert model.model == "gpt-5.1"


def test_streamed_text_is_emitted_once() -> None:
    assert said(stream("shell")) == [
        ("user", "[[S4]] Run a shell command that lists src."),
        ("assistant", "Running it."),
        ("assistant", "src has app.py and util.py."),
    ]


def test_incomplete_text_is_emitted_as_synthetic() -> None:
    found = read("copilot-json", PROMPT, line("assistant.message_delta", messageId="m", deltaContent="Half"))

    assert [(one.text, one.synthetic) for one in of(Message, found)] == [("Go.", False), ("Half", True)]


def test_reasoning_precedes_its_message() -> None:
    message = line("assistant.message", messageId="m", content="Yes.", reasoningText="Hm.", toolRequests=[])
    found = read("copilot-json", PROMPT, message)

    assert [type(event) for event in found if isinstance(event, Reasoning | Message)] == [Message, Reasoning, Message]


def think(text: str, thought_id: str = "r") -> dict[str, Any]:
    return line("assistant.reasoning", content=text, reasoningId=thought_id)


def thought(text: str, thought_id: str = "r") -> dict[str, Any]:
    return line("assistant.reasoning_delta", deltaContent=text, reasoningId=thought_id)


def says(text: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return line("assistant.message", messageId="m", content=text, toolRequests=list(requests), **more)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([thought("Hm, "), thought("so."), says("Yes.", reasoningText="Hm, so.")], id="pieces-and-message"),
        pytest.param([think("Hm, so."), says("Yes.", reasoningText="Hm, so.")], id="whole-and-message"),
        pytest.param([says("Yes.", reasoningText="Hm, so."), think("Hm, so.")], id="message-and-whole"),
        pytest.param([thought("Hm, so."), think("Hm, so."), says("Yes.", reasoningText="Hm, so.")], id="all-three"),
        pytest.param([thought("Hm, so."), says("Yes.")], id="pieces"),
    ],
)
def test_reasoning_is_emitted_once(lines: list[dict[str, Any]]) -> None:
    found = read("copilot-json", PROMPT, *lines, IDLE)

    assert [(one.text, one.synthetic) for one in of(Reasoning, found)] == [("Hm, so.", False)]


def test_blocks_of_reasoning_are_not_repeated_by_their_message() -> None:
    found = read("copilot-json", PROMPT, think("One.", "a"), think("Two.", "b"), says("", reasoningText="One.\nTwo."))

    assert [one.text for one in of(Reasoning, found)] == ["One.", "Two."]


def test_same_reasoning_in_another_step_is_emitted() -> None:
    step = line("assistant.turn_start", turnId="1")
    found = read("copilot-json", PROMPT, step, think("Verify."), says("A."), step, think("Verify."), says("B."))

    assert [one.text for one in of(Reasoning, found)] == ["Verify.", "Verify."]


def test_half_answer_before_a_retry_is_dropped() -> None:
    half = line("assistant.message_delta", messageId="m", deltaContent="Half")
    retry = line("assistant.turn_retry", turnId="0", reason="api_error")
    found = read("copilot-json", PROMPT, thought("Hm."), half, retry, says("Whole."), IDLE)

    assert [one.text for one in of(Message, found)] == ["Go.", "Whole."]
    assert of(Reasoning, found) == []


def test_saved_session_ends_with_its_answer() -> None:
    """A session that is saved has no line that the process prints only for its reader."""
    ends = line("assistant.turn_end", turnId="0")
    shutdown = line("session.shutdown", shutdownType="routine")
    called = {"toolCallId": "c", "name": "view", "arguments": {"path": "a"}}
    step = [says("Look.", called), done("1"), ends]

    saved = read("copilot-json", PROMPT, *step, says("Done."), ends, shutdown)
    assert [state for _, state, _ in turns(saved)] == ["started", "completed"]
    assert outline(saved)[-2:] == ["turn completed", "notice"]
    for last in (shutdown, PROMPT):  # the process may have been asked to stop before
        broken = read("copilot-json", PROMPT, says("Look.", called), last)
        assert [state for _, state, _ in turns(broken)][:2] == ["started", "cancelled"]


def test_process_that_shuts_down_has_not_cancelled_its_answer() -> None:
    live = line("assistant.message_delta", messageId="m", deltaContent="Done.")
    ends = line("assistant.turn_end", turnId="0")
    found = read("copilot-json", PROMPT, live, says("Done."), ends, line("session.shutdown", shutdownType="routine"))

    assert turns(found)[-1][1] == "completed"


def test_error_of_a_subagent_does_not_fail_the_turn() -> None:
    error = {**line("session.error", message="overloaded"), "agentId": "a"}
    found = read("copilot-json", PROMPT, error, says("Done anyway."), IDLE)

    assert turns(found)[-1][1] == "completed"


def test_answer_after_an_error_completes_the_turn() -> None:
    found = read("copilot-json", PROMPT, line("session.error", message="rate limit"), says("Done."), IDLE)

    assert turns(found)[-1][1] == "completed"


def test_call_takes_the_name_it_runs_under() -> None:
    called = {"toolCallId": "c", "name": "str_replace_editor", "arguments": {"path": "a"}}
    found = read("copilot-json", PROMPT, says("", called), start("view", path="a"), done("1"))

    assert list(results(found)) == ["view"]


def test_api_error_fails_the_turn() -> None:
    found = stream("api-error")

    assert [(one.level, one.code, one.text) for one in of(Notice, found)][1] == (
        "error",
        "provider-error",
        "400 scripted bad request",
    )
    assert turns(found)[-1][1] == "failed"


def test_each_retry_and_error_is_a_notice() -> None:
    codes = [(one.code, one.text) for one in of(Notice, stream("overload"))]

    assert codes[1] == ("retry", "api_error")
    assert [code for code, _ in codes].count("retry") == 5
    assert "Overloaded (scripted)" in codes[0][1]
    assert codes[-1][1].startswith("Failed to get response from the AI model; retried 5 times")


def test_usage_of_a_request_has_scope_step() -> None:
    used = line("assistant.usage", model="m", inputTokens=100, outputTokens=7, cacheReadTokens=60)
    (usage,) = of(Usage, read("copilot-json", PROMPT, used))

    assert (usage.scope, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == ("step", 100, 7, 60)


def test_context_usage_is_emitted_on_change() -> None:
    assert [(one.scope, one.context_used, one.context_size) for one in of(Usage, stream("listing"))] == [
        ("session", 10875, 128000),
        ("session", 10942, 128000),
    ]


def test_aborted_turn_is_cancelled() -> None:
    found = read("copilot-json", PROMPT, line("abort", reason="user initiated"), IDLE)

    assert turns(found)[-1] == (PROMPT_ID, "cancelled", False)
    assert [(one.code, one.text) for one in of(Notice, found)] == [("interrupt", "user initiated")]


# -- calls ------------------------------------------------------------------------------------------------------------


def test_shell_output_excludes_the_exit_code_line() -> None:
    ran = results(stream("shell"))["bash"]

    assert answer(ran.output) == {"stdout": "hello from shell\napp.py\nutil.py\n", "exit_code": 0}
    assert calls(stream("shell"))["bash"].title == "Running command"


def test_nonzero_exit_code_overrides_success() -> None:
    lines = (
        start("bash", command="x"),
        done("boom\n<shellId: 0 completed with exit code 3>", shellExecution={"exitCode": 3}),
    )
    (ran,) = of(ToolResult, read("copilot-json", PROMPT, *lines))

    assert (ran.status, answer(ran.output)) == (
        "failed",
        {"stdout": "boom\n", "exit_code": 3, "errorMessage": "shellId: 0 completed with exit code 3"},
    )


def test_output_too_large_for_the_result_is_taken_from_shell_output() -> None:
    printed = [line("tool.shell_output", toolCallId="c", stream="stdout", text=text) for text in ("a" * 50_000, "b")]
    note = done("Output too large to read at once (50 KB). Saved to: /tmp/x", shellExecution={"exitCode": 0})
    (ran,) = of(ToolResult, read("copilot-json", PROMPT, start("bash", command="x"), *printed, note))

    assert (ran.output["stdout"], ran.output["exit_code"]) == ("a" * 50_000 + "b", 0)
    assert ran.output["message"].startswith("Output too large")


def test_interrupted_command_keeps_its_output() -> None:
    printed = line("tool.shell_output", toolCallId="c", stream="stderr", text="oh\n")
    (ran,) = of(ToolResult, read("copilot-json", PROMPT, start("bash", command="x"), printed))

    assert (ran.status, ran.synthetic, answer(ran.output)) == ("interrupted", True, {"stderr": "oh\n"})


def test_background_command_is_acknowledged() -> None:
    lines = start("bash", command="x", mode="async"), done("<command started in background with shellId: 1>")
    first, last = of(ToolResult, read("copilot-json", PROMPT, *lines, IDLE))

    assert (first.status, first.async_) == ("completed", True)
    assert (last.status, last.final, last.synthetic) == ("interrupted", True, True)


def steer(name: str, text: str, call_id: str = "r", **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that polls or stops what runs in the background, and its result."""
    return (
        line("tool.execution_start", toolCallId=call_id, toolName=name, arguments=arguments),
        line("tool.execution_complete", toolCallId=call_id, success=True, result={"content": text}),
    )


STARTED = start("bash", command="x", mode="async"), done("<command started in background with shellId: w1>")
SPAWNED = (
    start("task", prompt="Look.", agent_type="explore", mode="background"),
    done("Agent started in background with agent_id: explore-3. You can use read_agent tool with this agent_id."),
)


@pytest.mark.parametrize(
    ("name", "text", "status", "output"),
    [
        ("stop_bash", "<command with id: w1 stopped>", "cancelled", {}),
        (
            "read_bash",
            "tick\n<shellId: w1 completed with exit code 0>",
            "completed",
            {"stdout": "tick\n", "exit_code": 0},
        ),
        # exported sessions of other versions, in public repositories
        (
            "read_bash",
            "no\n<command with id: w1 exited with exit code 2>",
            "failed",
            {
                "stdout": "no\n",
                "exit_code": 2,
                "errorMessage": "command with id: w1 exited with exit code 2",
            },
        ),
        (
            "write_bash",
            "bye\n<command with id: w1 exited with exit code 0>",
            "completed",
            {"stdout": "bye\n", "exit_code": 0},
        ),
    ],
)
def test_background_command_ends_as_another_call_states(
    name: str, text: str, status: str, output: dict[str, Any]
) -> None:
    found = read("copilot-json", PROMPT, *STARTED, *steer(name, text, shellId="w1"), IDLE)
    first, _, last = of(ToolResult, found)

    assert (first.call_id, first.async_) == ("c", True)
    assert (last.call_id, last.final, last.synthetic, last.status) == ("c", True, False, status)
    assert answer(last.output) == output


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        (
            "read_bash",
            "tick\n<command with shellId: w1 is still running after 5 seconds. Use read_bash to read more.>",
            {"shellId": "w1", "delay": 5},
        ),
        ("read_bash", "<command with id: w2 exited with exit code 0>", {"shellId": "w2", "delay": 5}),
        ("stop_bash", "Invalid shell ID: w1. Please supply a valid shell ID.", {"shellId": "w1"}),
        ("view", "<command with id: w1 exited with exit code 0>", {"path": "/log", "shellId": "w1"}),
    ],
)
def test_background_command_runs_on_until_its_end_is_stated(name: str, text: str, arguments: dict[str, Any]) -> None:
    found = read("copilot-json", PROMPT, *STARTED, *steer(name, text, **arguments), IDLE)
    first, other, last = of(ToolResult, found)

    assert (first.async_, other.call_id) == (True, "r")
    assert (last.call_id, last.status, last.synthetic) == ("c", "interrupted", True)


def test_command_that_outlives_its_wait_is_known_by_its_shell() -> None:
    waited = "a\n<command with shellId: 4 is still running after 30 seconds. Use read_bash to continue waiting.>"
    lines = start("bash", command="x"), done(waited), *steer("stop_bash", "<command with id: 4 stopped>", shellId="4")
    first, _, last = of(ToolResult, read("copilot-json", PROMPT, *lines))

    assert (first.async_, last.call_id, last.status) == (True, "c", "cancelled")


def test_what_a_background_command_prints_is_its_final_output() -> None:
    printed = [line("tool.shell_output", toolCallId="c", stream="stdout", text=text) for text in ("a\n", "b\n")]
    ended = steer("read_bash", "b\n<shellId: w1 completed with exit code 0>", shellId="w1", delay=1)
    *_, last = of(ToolResult, read("copilot-json", PROMPT, *STARTED, *printed, *ended))

    assert (last.call_id, answer(last.output)) == ("c", {"stdout": "a\nb\n", "exit_code": 0})


@pytest.mark.parametrize(
    ("lines", "kind", "status", "output"),
    [
        (
            STARTED,
            {"type": "shell_completed", "shellId": "w1", "exitCode": 3},
            "failed",
            {"exit_code": 3, "errorMessage": "exit code 3"},
        ),
        (STARTED, {"type": "shell_detached_completed", "shellId": "w1"}, "completed", {}),
        (SPAWNED, {"type": "agent_completed", "agentId": "explore-3", "status": "failed"}, "failed", {}),
    ],
)
def test_notification_ends_what_ran_in_the_background_once(
    lines: tuple[dict[str, Any], ...], kind: dict[str, Any], status: str, output: dict[str, Any]
) -> None:
    """Kinds of notifications as the SDK's types have them."""
    notified = {**line("system.notification"), "data": {"content": "It has ended.", "kind": kind}}
    late = steer("read_bash", "<shellId: w1 completed with exit code 0>", shellId="w1")
    found = read("copilot-json", PROMPT, *lines, notified, *late, IDLE)
    first, last = [one for one in of(ToolResult, found) if one.call_id == "c"]

    assert (first.async_, last.final, last.status, answer(last.output)) == (True, True, status, output)
    assert [notice.text for notice in of(Notice, found)] == ["It has ended."]


def test_background_agent_ends_with_its_report() -> None:
    head = "agent_id: explore-3, agent_type: explore, status"
    running = steer("read_agent", f"Agent is still running. {head}: running, elapsed: 2s", "r1", agent_id="explore-3")
    report = f"Agent completed. {head}: completed, elapsed: 9s\n\nLine 4."
    ended = steer("read_agent", report, "r2", agent_id="explore-3")
    found = of(ToolResult, read("copilot-json", PROMPT, *SPAWNED, *running, *ended, IDLE))

    assert [(one.call_id, one.name, one.status) for one in found] == [
        ("c", "Task", "completed"),
        ("r1", "TaskOutput", "completed"),
        ("r2", "TaskOutput", "completed"),
        ("c", "Task", "completed"),
    ]
    assert (found[0].async_, found[-1].final, answer(found[-1].output)) == (True, True, {"content": "Line 4."})


def test_background_agent_whose_end_only_its_own_line_states_has_not_been_interrupted() -> None:
    over = {**line("subagent.failed", toolCallId="c", agentName="explore", error="No quota."), "agentId": "explore-3"}
    *_, last = of(ToolResult, read("copilot-json", PROMPT, *SPAWNED, over, IDLE))

    assert (last.call_id, last.status, last.final) == ("c", "failed", True)


def test_refused_call_is_denied() -> None:
    refused = results(stream("denied"))["bash"]

    assert (refused.status, refused.is_error) == ("denied", False)
    assert refused.output["errorMessage"].startswith("Permission denied because no interactive user response")
    assert "stdout" not in refused.output


def test_error_message_is_the_tools() -> None:
    assert [(one.status, one.output["errorMessage"]) for one in of(ToolResult, stream("tool-errors"))] == [
        ("failed", "No match found"),
        ("failed", "Tool 'no_such_tool' does not exist."),
    ]


def test_image_is_an_attachment_and_its_path_the_display() -> None:
    seen = results(stream("image"))["view"]

    assert answer(seen.output) == {"message": "Viewed image file successfully."}
    assert seen.attachments is not None
    assert [(one.mime_type, one.bytes) for one in seen.attachments] == [("image/png", 70)]
    assert seen.display is not None
    assert seen.display.text == "Viewed image file at path /tmp/ws/logo.png"


def test_viewed_directory_has_entries() -> None:
    found = results(stream("listing"))

    assert answer(found["view"].output) == {"entries": ["app.py", "util.py"]}
    assert answer(found["glob"].output) == {"matches": ["./src/app.py", "./src/util.py"]}
    assert results(stream("search"))["grep"].output["matches"][1]["line"] == 4


def test_subagent_calls_belong_to_the_subagent() -> None:
    found = stream("subagent")

    spawn = calls(found)["task"]
    assert (spawn.name, spawn.agent, spawn.input["subagent_type"]) == ("Task", None, "explore")
    children = [one for one in of(ToolCall, found) if one.agent is not None]
    assert [(one.name, one.agent, one.parent) for one in children] == [
        ("Grep", "413c0e57-f9b0-4c4f-9b02-136d5212fdf5", spawn.call_id),
        ("Read", "413c0e57-f9b0-4c4f-9b02-136d5212fdf5", spawn.call_id),
    ]
    assert [one.role for one in of(Message, found) if one.agent is not None] == ["user", "assistant"]
    assert results(found)["task"].output["content"] == "greet is defined at src/app.py line 4."
    progress = [one.progress for one in of(ToolUpdate, found) if one.progress]
    assert progress[-1]["data"] == {
        "agentName": "explore",
        "model": "gpt-5.1",
        "totalToolCalls": 2,
        "totalTokens": 3726,
        "durationMs": 131,
    }


def test_mcp_tool_is_named_after_an_announced_server() -> None:
    servers = line("session.mcp_servers_loaded", servers=[{"name": "fixture", "status": "connected"}])
    found = read("copilot-json", servers, PROMPT, start("fixture-echo", text="hi"), done("echo: hi"))

    (call,) = of(ToolCall, found)
    assert (call.name, call.input["_happy"]["rawToolName"]) == ("mcp__fixture__echo", "fixture-echo")
    (result,) = of(ToolResult, found)
    assert result.output["text"] == "echo: hi"
    (other,) = of(ToolCall, read("copilot-json", PROMPT, start("other-echo", text="hi")))
    assert other.name == "other-echo"


def test_sql_passes_through() -> None:
    query = "INSERT INTO todos (id, title) VALUES ('a', 'Read the code')"
    (call,) = of(ToolCall, read("copilot-json", PROMPT, start("sql", description="plan", query=query)))

    assert (call.name, answer(call.input)) == ("sql", {"description": "plan", "query": query})


def test_denied_permission_denies_the_call() -> None:
    asked = line("permission.requested", requestId="p", permissionRequest={"kind": "shell", "toolCallId": "c"})
    refused = line("permission.completed", requestId="p", result={"kind": "denied-interactively-by-user"})
    found = read("copilot-json", PROMPT, start("bash", command="x"), asked, refused)

    assert [(one.permission_id, one.call_id) for one in of(PermissionRequest, found)] == [("p", "c")]
    assert [(one.outcome, one.by) for one in of(PermissionResponse, found)] == [("denied", "user")]
    assert results(found)["bash"].status == "denied"


def test_turn_without_idle_ends_with_the_process() -> None:
    found = read("copilot-json", PROMPT, {**RESULT, "exitCode": 1})

    assert turns(found)[-1] == (PROMPT_ID, "failed", False)


# -- assets -----------------------------------------------------------------------------------------------------------


def test_result_has_the_asset_that_a_line_before_it_states() -> None:
    """1.0.102 in a session file; a result may name an asset again."""
    asset = line("session.binary_asset", assetId="sha256:c4", type="image", mimeType="image/png", data="iVBORw0K")
    named = [{"type": "image", "assetId": "sha256:c4"}, {"type": "image", "assetId": "unknown"}]
    ended = line(
        "tool.execution_complete",
        toolCallId="c",
        success=True,
        result={"content": "a picture", "binaryResultsForLlm": named},
    )
    prompt = line("user.message", content="And this?", attachments=named, delivery="idle")
    found = read("copilot-json", PROMPT, start("view", path="a.png"), asset, ended, prompt, IDLE)

    (result,), (_, second) = of(ToolResult, found), of(Message, found)
    for attachments in (result.attachments, second.attachments):
        assert [(one.mime_type, one.bytes) for one in attachments or []] == [("image/png", 6)]
    assert of(Unparsed, found) == []


def test_interrupted_agent_cancels_its_turn() -> None:
    found = read(
        "copilot-json", PROMPT, line("agent.interrupted", reason="SIGINT"), line("session.todos_changed"), IDLE
    )

    assert turns(found)[-1] == (PROMPT_ID, "cancelled", False)
    assert [(one.code, one.text) for one in of(Notice, found)] == [("interrupt", "SIGINT")]
