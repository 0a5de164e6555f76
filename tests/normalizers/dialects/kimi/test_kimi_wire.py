"""Kimi's wire mode, `kimi --wire`."""

from __future__ import annotations

from typing import Any

import orjson

from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, statistics, turns
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
    Turn,
    Usage,
)
from tooltap.protocol.inputs import Direction
from tooltap.testing import Line, normalize

FAILED = {"code": -32003, "message": "Overloaded"}


def stream(name: str) -> list[Event]:
    return normalize("kimi-json", recording("kimi-json", f"wire-{name}", "kimi-1.40.0"), Context(stream="s"))


def rpc(direction: Direction, **fields: Any) -> Line:
    return Line(orjson.dumps({"jsonrpc": "2.0", **fields}), direction=direction)


def event(kind: str, **payload: Any) -> Line:
    return rpc("out", method="event", params={"type": kind, "payload": payload})


def request(kind: str, key: str, **payload: Any) -> Line:
    return rpc("out", method="request", id=key, params={"type": kind, "payload": {"id": f"p-{key}", **payload}})


def client(method: str, key: str, **params: Any) -> Line:
    return rpc("in", method=method, id=key, params=params)


def said_in(part: str) -> Line:
    return event("ContentPart", type="text", text=part)


def call(name: str, arguments: str, call_id: str = "c") -> Line:
    return event("ToolCall", type="function", id=call_id, function={"name": name, "arguments": arguments})


def result(output: Any, message: str = "", *, is_error: bool = False, call_id: str = "c") -> Line:
    returned = {"is_error": is_error, "output": output, "message": message, "display": []}
    return event("ToolResult", tool_call_id=call_id, return_value=returned)


PROMPT = client("prompt", "r1", user_input="Go.")
BEGIN = event("TurnBegin", user_input="Go.")
END = event("TurnEnd")


def finished(status: str = "finished") -> Line:
    return rpc("out", id="r1", result={"status": status})


# -- recordings -------------------------------------------------------------------------------------------------------


def test_shell_with_an_approval() -> None:
    found = stream("shell")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "session",
        "session",
        "message assistant",
        "tool-call Bash",
        "tool-update",
        "permission-request",
        "tool-update",
        "permission-response",
        "usage",
        "tool-result Bash completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert of(SessionEvent, found)[0].agent_version == "1.40.0"
    assert answer(calls(found)["Shell"].input) == {"command": "echo hello from shell; ls src; git status --short"}
    assert answer(results(found)["Shell"].output) == {
        "stdout": "hello from shell\napp.py\nutil.py\n",
        "message": "Command executed successfully.",
    }
    used = of(Usage, found)[0]
    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens) == (1200, 42, 900)
    assert (used.context_used, used.context_size) == (1200, 128_000)


def test_line_of_a_log_is_no_answer() -> None:
    """A JSON log on standard output, with the `id` of the open prompt, but no `jsonrpc`."""
    logged = Line(orjson.dumps({"level": "info", "id": "r1", "result": {"status": "cancelled"}}), direction="out")
    lines = [PROMPT, BEGIN, said_in("Hello."), logged, END, finished()]

    assert outline(read("kimi-json", *lines)).count("unparsed") == 1
    assert [one.state for one in of(Turn, read("kimi-json", *lines))] == ["started", "completed"]


def test_nothing_is_unparsed() -> None:
    for name in ("shell", "subagent", "denied", "thinking", "image", "tool-errors"):
        assert statistics("kimi-json", recording("kimi-json", f"wire-{name}", "kimi-1.40.0")).unparsed == 0


def test_pieces_of_text_and_reasoning_are_joined() -> None:
    found = stream("thinking")

    assert [thought.text for thought in of(Reasoning, found)] == [
        "Let me think. The user wants the greeting fixed; first I should read the file.",
        "The string is on line 6. I will edit it, then verify by running it.",
        "Verify.",
        "All fine.",
    ]
    assert [text for role, text in said(found) if role == "assistant"][:2] == [
        "First I will read the file.",
        "Now editing.",
    ]


def test_rejected_call_is_denied() -> None:
    found = stream("denied")

    assert [(one.outcome, one.option_id) for one in of(PermissionResponse, found)] == [("denied", "reject")]
    done = results(found)["Shell"]
    assert (done.status, done.display and done.display.text) == ("denied", "Rejected by user")
    assert [(turn.state, turn.reason) for turn in of(Turn, found)][1:] == [("completed", "finished")]


def test_events_of_a_subagent_name_their_call() -> None:
    found = stream("subagent")

    task = calls(found)["Agent"]
    assert (task.name, task.input["subagent_type"]) == ("Task", "coder")
    assert {(one.agent, one.parent) for one in of(ToolCall, found) if one.name != "Task"} == {
        ("aecc1abfe", task.call_id)
    }
    prompts = [one for one in of(Message, found) if one.role == "user"]
    assert [one.agent for one in prompts] == [None, "aecc1abfe", "aecc1abfe"]
    assert [state for _, state, _ in turns(found)] == ["started", "completed"]


def test_errors_are_the_programs_words() -> None:
    assert [(done.status, done.output["errorMessage"]) for done in of(ToolResult, stream("tool-errors"))] == [
        ("failed", "No replacements were made. The old string was not found in the file."),
        ("failed", "Tool `NoSuchTool` not found"),
    ]


def test_picture_is_attached() -> None:
    (done,) = of(ToolResult, stream("image"))

    assert done.attachments is not None
    assert [(one.mime_type, one.bytes) for one in done.attachments] == [("image/png", 70)]


# -- turns ------------------------------------------------------------------------------------------------------------


def test_prompt_is_there_once() -> None:
    both = read("kimi-json", PROMPT, BEGIN, said_in("Done."), END, finished())
    agents_alone = read("kimi-json", BEGIN, said_in("Done."), END, finished())

    for found in (both, agents_alone):
        assert said(found) == [("user", "Go."), ("assistant", "Done.")]
        assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]


def test_answer_states_how_the_turn_ended() -> None:
    interrupted = event("StepInterrupted")
    for lines, state in (
        ((PROMPT, BEGIN, client("cancel", "r2"), interrupted, END, finished("cancelled")), "cancelled"),
        ((PROMPT, BEGIN, interrupted, END, rpc("out", id="r1", error=FAILED)), "failed"),
        ((PROMPT, BEGIN, END, finished("max_steps_reached")), "failed"),
        ((PROMPT, rpc("out", id="r1", error=FAILED)), "failed"),
        ((PROMPT, BEGIN, interrupted, END), "cancelled"),
    ):
        assert [one[1] for one in turns(read("kimi-json", *lines))] == ["started", state]


def test_error_of_a_prompt_is_a_notice() -> None:
    (notice,) = of(Notice, read("kimi-json", PROMPT, BEGIN, rpc("out", id="r1", error=FAILED)))

    assert (notice.level, notice.code, notice.text) == ("error", "provider-error", "Overloaded")


def test_prompt_refused_during_a_turn_does_not_end_it() -> None:
    second = client("prompt", "r2", user_input="And?")
    refusal = rpc("out", id="r2", error={"code": -32000, "message": "A turn is already in progress"})
    found = read("kimi-json", PROMPT, BEGIN, second, refusal, said_in("Done."), END, finished())

    assert [one[1] for one in turns(found)] == ["started", "completed"]
    assert said(found) == [("user", "Go."), ("assistant", "Done.")]


def test_steering_is_a_message_of_the_turn() -> None:
    steer = client("steer", "r2", user_input="Use Python.")
    lines = PROMPT, BEGIN, steer, rpc("out", id="r2", result={"status": "steered"})
    found = read("kimi-json", *lines, event("SteerInput", user_input="Use Python."), END, finished())

    assert said(found) == [("user", "Go."), ("user", "Use Python.")]
    assert [one[1] for one in turns(found)] == ["started", "completed"]


def test_client_may_leave_out_the_version_of_json_rpc() -> None:
    prompt = Line(orjson.dumps({"id": "r1", "method": "prompt", "params": {"user_input": "Go."}}), direction="in")

    assert said(read("kimi-json", prompt, BEGIN)) == [("user", "Go.")]


def test_nothing_that_comes_late_opens_a_turn() -> None:
    late = event("StatusUpdate", context_tokens=1), event("StepInterrupted"), result("a")
    found = read("kimi-json", PROMPT, BEGIN, call("Shell", "{}"), result("a"), END, finished(), *late, END)

    assert [one[1] for one in turns(found)] == ["started", "completed"]


def test_replayed_history_is_marked() -> None:
    answered = rpc("out", id="r0", result={"status": "finished", "events": 3, "requests": 0})
    found = read("kimi-json", client("replay", "r0"), BEGIN, said_in("Done."), END, answered, PROMPT, BEGIN, END)

    assert [(one.text, one.replay) for one in of(Message, found)] == [("Go.", True), ("Done.", True), ("Go.", False)]


# -- calls ------------------------------------------------------------------------------------------------------------


def test_call_is_shown_when_its_arguments_are_whole() -> None:
    pieces = [event("ToolCallPart", arguments_part=part) for part in ('{"comm', 'and": "ls"}')]
    found = read("kimi-json", BEGIN, call("Shell", ""), *pieces, result("a"))

    assert [answer(one.input) for one in of(ToolCall, found)] == [{"command": "ls"}]
    assert outline(found)[-3:-1] == ["tool-call Bash", "tool-result Bash completed"]


def test_events_between_the_pieces_do_not_end_the_call() -> None:
    notification = event("Notification", type="x", source_kind="y", source_id="z", title="T", body="B")
    first, last = (event("ToolCallPart", arguments_part=part) for part in ('{"command": ', '"ls"}'))
    found = read("kimi-json", BEGIN, call("Shell", ""), first, notification, last, result("a"))

    assert [answer(one.input) for one in of(ToolCall, found)] == [{"command": "ls"}]


def test_parallel_calls_run_while_the_next_one_is_written() -> None:
    """The result of the first call, and its request for permission, come between the pieces of the second one."""
    first, last = (event("ToolCallPart", arguments_part=part) for part in ('{"command": ', '"ls"}'))
    path = event("ToolCallPart", arguments_part='{"path": "a"}')
    asked = request("ApprovalRequest", "q1", tool_call_id="a", sender="ReadFile", action="read", description="a")
    running = (call("ReadFile", "", "a"), path, call("Shell", "", "b"), first, asked)
    found = read("kimi-json", BEGIN, *running, result("A", call_id="a"), last, result("B", call_id="b"))

    assert [answer(one.input).get("command") for one in of(ToolCall, found)] == [None, "ls"]
    assert [(one.call_id, one.status) for one in of(ToolResult, found)] == [("a", "completed"), ("b", "completed")]


def test_subagents_write_beside_the_main_agent() -> None:
    inner = {"type": "ContentPart", "payload": {"type": "text", "text": "Hm."}}
    background = event("SubagentEvent", task_tool_call_id="old", agent_id=None, event=inner)
    first, last = (event("ToolCallPart", arguments_part=part) for part in ('{"command": ', '"ls"}'))
    found = read("kimi-json", BEGIN, call("Shell", ""), first, background, last, result("a"))

    assert [answer(one.input) for one in of(ToolCall, found)] == [{"command": "ls"}]
    assert [(one.agent, one.parent) for one in of(Message, found) if one.text == "Hm."] == [("old", "old")]


def test_call_that_was_cut_off_is_kept() -> None:
    found = read("kimi-json", BEGIN, call("Shell", ""), event("ToolCallPart", arguments_part='{"comm'))

    assert [answer(one.input) for one in of(ToolCall, found)] == [{"arguments": '{"comm'}]


def test_arguments_are_bounded() -> None:
    context = Context(stream="s")
    part = event("ToolCallPart", arguments_part="x" * 900_000)
    found = normalize("kimi-json", [BEGIN, call("Shell", ""), part, part, part], context)

    (one,) = of(ToolCall, found)
    assert one.outputs is not None
    assert one.outputs["/input/arguments"].bytes == 1_800_000


def test_servers_give_their_tools_a_name() -> None:
    servers = [
        {"name": "fixture", "status": "connected", "tools": ["echo", "both"]},
        {"name": "other", "status": "failed", "tools": ["both"]},
    ]
    status = event("StatusUpdate", mcp_status={"loading": False, "servers": servers})
    lines = status, BEGIN, call("echo", '{"text": "a"}'), result("echo: a"), call("both", "{}", "d")
    found = read("kimi-json", *lines, status)

    assert [one.name for one in of(ToolCall, found)] == ["mcp__fixture__echo", "both"]
    assert answer(results(found)["echo"].output) == {"text": "echo: a"}
    assert [one.mcp_servers for one in of(SessionEvent, found)] == [
        [{"name": "fixture", "status": "connected"}, {"name": "other", "status": "failed"}]
    ]


def test_tool_of_the_client_is_one_call() -> None:
    asked = rpc(
        "out", method="request", id="q", params={"type": "ToolCallRequest", "payload": {"id": "c", "name": "ide"}}
    )
    answered = rpc("in", id="q", result={"tool_call_id": "c", "return_value": {"is_error": False, "output": "ok"}})
    found = read("kimi-json", BEGIN, call("ide", "{}"), asked, answered, result("ok"))

    assert [(type(one).__name__) for one in found if isinstance(one, ToolCall | ToolResult)] == [
        "ToolCall",
        "ToolResult",
    ]


# -- questions --------------------------------------------------------------------------------------------------------

QUESTIONS = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]


def test_questions_are_answered() -> None:
    asked = request("QuestionRequest", "q", tool_call_id="c", questions=QUESTIONS)
    answered = rpc("in", id="q", result={"request_id": "p-q", "answers": {"Which?": "A"}})
    found = read("kimi-json", BEGIN, call("AskUserQuestion", "{}"), asked, answered)

    (one,), (other,) = of(PermissionRequest, found), of(PermissionResponse, found)
    assert (one.type, one.call_id, one.questions) == ("question", "c", [{**QUESTIONS[0], "freeText": True}])
    assert (other.outcome, other.answers) == ("answered", {"Which?": "A"})


def test_dismissed_questions_are_cancelled() -> None:
    asked = request("QuestionRequest", "q", tool_call_id="c", questions=QUESTIONS)
    answered = rpc("in", id="q", result={"request_id": "p-q", "answers": {}})

    assert [one.outcome for one in of(PermissionResponse, read("kimi-json", BEGIN, asked, answered))] == ["cancelled"]


def test_approval_may_be_answered_by_the_event_alone() -> None:
    asked = request("ApprovalRequest", "q", tool_call_id="c", sender="Shell", description="Run `ls`")
    resolved = event("ApprovalResponse", request_id="p-q", response="reject", feedback="Not now.")
    found = read("kimi-json", BEGIN, call("Shell", '{"command": "ls"}'), asked, resolved, result("", is_error=True))

    (one,) = of(PermissionResponse, found)
    assert (one.outcome, one.message, one.call_id) == ("denied", "Not now.", "c")
    assert results(found)["Shell"].status == "denied"


def test_client_that_cannot_answer_cancels() -> None:
    asked = request("ApprovalRequest", "q", tool_call_id="c", sender="Shell", description="Run `ls`")
    found = read("kimi-json", BEGIN, asked, rpc("in", id="q", error={"code": -1, "message": "No."}))

    assert [(one.name, one.title) for one in of(PermissionRequest, found)] == [("Bash", "Run `ls`")]
    assert [(one.outcome, one.message) for one in of(PermissionResponse, found)] == [("cancelled", "No.")]


# -- beside the turn --------------------------------------------------------------------------------------------------


def test_blocking_hook_is_a_notice() -> None:
    allowed = event("HookResolved", event="Stop", target="", action="allow", reason="")
    blocked = event("HookResolved", event="PreToolUse", target="Shell", action="block", reason="Not here.")
    (one,) = of(Notice, read("kimi-json", BEGIN, allowed, blocked))

    assert (one.code, one.text, one.data) == ("hook", "Not here.", {"event": "PreToolUse", "target": "Shell"})


def test_plan_mode_is_the_sessions_mode() -> None:
    found = read("kimi-json", *(event("StatusUpdate", plan_mode=on) for on in (False, True, True, None, False)))

    assert [one.mode for one in of(SessionEvent, found)] == ["plan", "default"]


def test_side_question_is_outside_the_turn() -> None:
    found = read(
        "kimi-json", BEGIN, event("BtwBegin", id="b", question="Why?"), event("BtwEnd", id="b", response="So.")
    )

    assert [(one.text, one.turn) for one in of(Message, found)] == [("Go.", "t1"), ("Why?", None), ("So.", None)]
