"""Events of Codex that no recording holds: older and newer versions, failures, sessions side by side.

Shapes are those of Codex's `EventMsg`, `TurnItem` and `ResponseItem` (codex-rs/protocol, 0.46 to 0.169).
"""

import base64
from typing import Any

import pytest

from tests.normalizers.codex import (
    THREAD,
    calls,
    completed,
    event,
    item,
    lines,
    raw,
    read,
    results,
    started,
    statistics,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.contract import normalize
from tooltap.normalizers.items import Context, OutputPiece
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)

PNG = "iVBORw0KGgo="
ONE_SECOND: dict[str, Any] = {"duration": {"secs": 1, "nanos": 0}}


def said(found: list[Event]) -> list[tuple[str, str, bool]]:
    return [(message.role, message.text, message.synthetic) for message in of(Message, found)]


def ends(found: list[Event]) -> list[tuple[str, str]]:
    return [(result.call_id, result.status) for result in results(found)]


def piece(call_id: str, data: bytes, stream: str = "stdout") -> dict[str, Any]:
    chunk = base64.b64encode(data).decode()
    return event("exec_command_output_delta", call_id=call_id, stream=stream, chunk=chunk)


def begin(call_id: str, command: str, **more: Any) -> dict[str, Any]:
    return event("exec_command_begin", call_id=call_id, command=["/bin/bash", "-lc", command], cwd="/ws", **more)


def end(call_id: str, **more: Any) -> dict[str, Any]:
    return event("exec_command_end", call_id=call_id, **more)


def told(call_id: str, output: Any) -> dict[str, Any]:
    return raw("function_call_output", call_id=call_id, output=output)


# -- messages in other versions ---------------------------------------------------------------------------------------


def test_a_version_without_items_says_its_messages_in_events_alone() -> None:
    found = read(
        started(),
        event("user_message", message="hi"),
        event("agent_reasoning_delta", delta="**Plan"),
        event("agent_reasoning_delta", delta="ning**"),
        event("agent_reasoning", text="**Planning**"),
        event("agent_message_delta", delta="Hel"),
        event("agent_message_delta", delta="lo"),
        event("agent_message", message="Hello"),
        completed(last_agent_message="Hello"),
    )

    assert said(found) == [("user", "hi", False), ("assistant", "Hello", False)]
    assert [one.text for one in of(Reasoning, found)] == ["**Planning**"]


def test_deltas_whose_full_form_never_comes_are_emitted_once_when_their_turn_ends() -> None:
    delta: dict[str, Any] = {"thread_id": THREAD, "turn_id": "2", "item_id": "msg_1"}
    found = read(
        started(),
        event("agent_message_content_delta", delta="Hel", **delta),
        event("agent_message_delta", delta="Hel"),
        event("agent_message_content_delta", delta="lo", **delta),
        event("agent_message_delta", delta="lo"),
        event("turn_aborted", turn_id="2", reason="interrupted"),
    )

    assert said(found) == [("assistant", "Hello", True)]
    assert [type(one).__name__ for one in found] == ["Turn", "Message", "Turn"]
    assert statistics(lines(started(), event("agent_message_delta", delta="x"))).skipped == {"partial": 1}


def test_reasoning_in_several_parts_is_one_event_each_and_what_only_the_raw_item_has_is_kept() -> None:
    found = read(
        started(),
        item("completed", "Reasoning", id="rs_1", summary_text=["one", "two"], raw_content=[]),
        event("agent_reasoning", text="one"),
        event("agent_reasoning", text="two"),
        raw("reasoning", summary=[{"text": "one"}, {"text": "two"}], content=[{"text": "the thought itself"}]),
        raw("reasoning", summary=[], encrypted_content="ZmFrZQ=="),
        completed(),
    )

    assert [(one.text, one.message_id, one.block) for one in of(Reasoning, found)] == [
        ("one", "rs_1", 0),
        ("two", "rs_1", 1),
        ("the thought itself", None, None),
    ]


def test_a_raw_message_that_still_holds_its_citations_is_no_second_message() -> None:
    found = read(
        started(),
        item("completed", "AgentMessage", id="msg_1", content=[{"type": "Text", "text": "See it."}]),
        event("agent_message", message="See it."),
        raw("message", role="assistant", content=[{"type": "output_text", "text": "See it.<citation>x</citation>"}]),
        completed(),
    )

    assert said(found) == [("assistant", "See it.", False)]


def test_the_last_message_counts_where_no_other_line_of_the_turn_was_seen() -> None:
    found = read(completed(last_agent_message="Done."))

    assert said(found) == [("assistant", "Done.", False)]
    assert [(turn.state, turn.synthetic) for turn in of(Turn, found)] == [("started", True), ("completed", False)]


def test_pictures_of_a_prompt_are_attachments() -> None:
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "local_image", "path": "/ws/logo.png"},
    ]

    (message,) = of(Message, read(started(), item("completed", "UserMessage", id="u", content=content)))

    assert message.text == "what is this?"
    assert message.attachments is not None
    inline, local = message.attachments
    assert (inline.mime_type, inline.bytes, inline.output_id) == ("image/png", 8, "s:2:o0")
    assert local.uri == "/ws/logo.png"


# -- prompts and answers of the client --------------------------------------------------------------------------------


def prompt(text: str, request: int = 2, **arguments: Any) -> dict[str, Any]:
    params = {"name": "codex", "arguments": {"prompt": text, **arguments}}
    return {"dir": "in", "id": request, "method": "tools/call", "params": params}


def test_a_prompt_the_agent_does_not_repeat_comes_before_what_it_says() -> None:
    found = read(prompt("go"), started(), event("agent_message", message="gone"), completed())

    assert said(found) == [("user", "go", True), ("assistant", "gone", False)]
    assert [type(one).__name__ for one in found] == ["Turn", "Message", "Message", "Turn"]


def test_a_request_that_starts_nothing_is_a_failed_turn_with_its_prompt() -> None:
    refused = {"id": 2, "result": {"content": [{"type": "text", "text": "Failed to start"}], "isError": True}}

    found = read(prompt("go"), refused)

    assert said(found) == [("user", "go", True)]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("provider-error", "Failed to start")]
    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [("2", "started"), ("2", "failed")]


@pytest.mark.parametrize(
    "refused",
    [{"id": 2, "error": {"code": -32602, "message": "no"}}, {"id": 2, "result": {"error": "no"}}],
)
def test_errors_of_json_rpc_and_of_older_versions_fail_the_turn_too(refused: dict[str, Any]) -> None:
    found = read(started(), refused)

    assert [one.text for one in of(Notice, found)] == ["no"]
    assert [turn.state for turn in of(Turn, found)] == ["started", "failed"]


def test_a_turn_has_one_end_whatever_comes_after_its_error() -> None:
    found = read(
        started(),
        event("error", message="boom", codex_error_info={"http_connection_failed": {"http_status_code": 500}}),
        completed(),
        {"id": 2, "result": {"content": [], "isError": True}},
        event("error", message="not this turn's", codex_error_info="thread_rollback_failed"),
        started("3"),
        completed("3"),
    )

    assert [(turn.turn, turn.state, turn.reason) for turn in of(Turn, found)] == [
        ("2", "started", None),
        ("2", "failed", "http_connection_failed"),
        ("3", "started", None),
        ("3", "completed", None),
    ]


def test_an_error_between_turns_fails_none() -> None:
    found = read(event("error", turn="", message="no such model"), started(), completed())

    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_older_versions_name_type_and_session_elsewhere() -> None:
    def old(kind: str, **keys: Any) -> dict[str, Any]:
        params = {"id": "0", "msg": {"type": kind, **keys}, "conversationId": "c1"}
        return {"method": f"codex/event/{kind}", "params": params}

    found = read(old("task_started"), old("agent_message", message="hi"), old("task_complete"))

    assert {one.session for one in found} == {"c1"}
    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [("0", "started"), ("0", "completed")]


def test_sessions_side_by_side_keep_their_turns_calls_and_usage_apart_though_turn_ids_repeat() -> None:
    def of_thread(thread: str) -> list[dict[str, Any]]:
        keys: dict[str, Any] = {"thread": thread, "turn": "0", "request": 0}
        total = {"total_token_usage": {"input_tokens": 5, "output_tokens": 1}}
        return [
            event("task_started", **keys),
            event("exec_command_begin", call_id=f"call_{thread}", command=["ls"], cwd="/ws", **keys),
            event("token_count", info=total, **keys),
            event("task_complete", **keys),
        ]

    found = read(*(line for pair in zip(of_thread("a"), of_thread("b"), strict=True) for line in pair))

    for thread in ("a", "b"):
        kinds = [type(one).__name__ for one in found if one.session == thread]
        assert kinds == ["Turn", "ToolCall", "Usage", "ToolResult", "Turn"]
    assert [(one.session, one.call_id, one.line) for one in results(found)] == [("a", "call_a", 7), ("b", "call_b", 8)]


def test_a_session_changes_its_name_and_model_and_ends() -> None:
    found = read(
        event("session_configured", turn="", session_id=THREAD, model="m", cwd="/ws", approval_policy="never"),
        event("thread_name_updated", thread_id=THREAD, thread_name="Greetings"),
        event("model_reroute", from_model="m", to_model="n"),
        event("shutdown_complete"),
    )

    assert [(one.state, one.title, one.model, one.mode) for one in of(SessionEvent, found)] == [
        ("started", None, "m", "never"),
        ("updated", "Greetings", None, None),
        ("updated", None, "n", None),
        ("ended", None, None, None),
    ]


# -- commands ---------------------------------------------------------------------------------------------------------


def test_a_command_that_goes_on_in_the_background_ends_when_it_does() -> None:
    running = "Chunk ID: a\nWall time: 1.0006 seconds\nProcess running with session ID 92193\nOutput:\nbg 1\n"
    exited = "Chunk ID: b\nWall time: 2.9 seconds\nProcess exited with code 0\nOutput:\nbg 2\n"
    found = read(
        started(),
        raw("function_call", name="exec_command", call_id="c1", arguments='{"cmd": "slow"}'),
        begin("c1", "slow"),
        told("c1", running),
        raw("function_call", name="write_stdin", call_id="c2", arguments='{"session_id": 92193, "chars": "y"}'),
        event("terminal_interaction", call_id="c1", process_id="92193", stdin="y"),
        told("c2", exited),
        completed(),
        end("c1", stdout="bg 1\nbg 2\n", stderr="", exit_code=0, duration={"secs": 3, "nanos": 900_260_626}),
    )
    first, typed, last = results(found)

    assert (first.call_id, first.async_, first.final, answer(first.output)) == ("c1", True, False, {"stdout": "bg 1\n"})
    assert (typed.call_id, answer(typed.output)) == ("c2", {"stdout": "bg 2\n", "exit_code": 0})
    assert (last.call_id, last.final, last.output["stdout"], last.duration_ms) == ("c1", True, "bg 1\nbg 2\n", 3900)
    assert [one.progress for one in of(ToolUpdate, found) if one.progress] == [
        {"data": {"stdin": "y", "process_id": "92193"}}
    ]


def test_a_result_that_comes_after_its_turn_replaces_the_one_we_made_up() -> None:
    found = read(
        started(),
        begin("c1", "ls"),
        piece("c1", b"a.py\n"),
        completed(),
        end("c1", stdout="a.py\nb.py\n", exit_code=0),
        end("c1", stdout="a.py\nb.py\n", exit_code=0),
    )
    made_up, real = results(found)

    assert (made_up.status, made_up.synthetic, answer(made_up.output)) == ("interrupted", True, {"stdout": "a.py\n"})
    assert (real.replaces, real.output["stdout"], real.turn) == (made_up.id, "a.py\nb.py\n", "2")


def test_pieces_may_part_a_character_and_may_be_no_text() -> None:
    made = [started(), begin("c1", "x"), piece("c1", b"caf\xc3"), piece("c1", b"\xa9\xff"), piece("c1", b"!", "stderr")]
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "codex-mcp")
    found = [
        output.event
        for line in lines(*made)
        for output in normalizer.feed(line.data, line.t, line.direction)
        if not isinstance(output, OutputPiece)
    ]

    chunks = [update.chunk for update in of(ToolUpdate, found) if update.chunk is not None]
    assert [(chunk.stream, chunk.text, chunk.offset) for chunk in chunks] == [
        ("stdout", "caf", 0),
        ("stdout", "é\ufffd", 3),
        ("stderr", "!", 0),
    ]


def test_output_of_a_broken_off_command_is_whole_however_long_it_was() -> None:
    made = [started(), begin("c1", "x"), *(piece("c1", b"x" * 40_000) for _ in range(3)), told("c1", "aborted by user")]
    normalizer = StreamNormalizer(Context(stream="s"), "codex-mcp")
    outputs = [output for line in lines(*made) for output in normalizer.feed(line.data)]

    body = b"".join(output.data for output in outputs if isinstance(output, OutputPiece))
    (result,) = results([output.event for output in outputs if not isinstance(output, OutputPiece)])
    assert body == b"x" * 120_000
    assert result.outputs is not None
    assert result.outputs["/output/stdout"].bytes == 120_000
    assert len(result.output["stdout"]) == 65_536


def test_a_declined_command_is_denied() -> None:
    said_no = "exec command rejected by user"
    found = read(
        started(),
        begin("c1", "rm x"),
        end("c1", stdout="", stderr=said_no, formatted_output=said_no, exit_code=-1, status="declined"),
        completed(),
    )

    (result,) = results(found)
    assert (result.status, result.output["errorMessage"]) == ("denied", said_no)


def test_commands_as_items_are_the_same_calls() -> None:
    running = {"id": "c1", "command": ["/bin/bash", "-lc", "ls"], "cwd": "file:///ws", "source": "agent"}
    found = read(
        started(),
        item("started", "CommandExecution", status="inProgress", **running),
        begin("c1", "ls", source="agent"),
        item("completed", "CommandExecution", status="failed", aggregated_output="no", exit_code=2, **running),
        end("c1", stdout="no", exit_code=2, status="failed"),
        completed(),
    )
    (call,), (result,) = calls(found), results(found)

    assert (call.name, call.input["command"], call.input["cwd"]) == ("Bash", "ls", "/ws")
    assert (result.status, result.output["stdout"], result.output["exit_code"]) == ("failed", "no", 2)
    assert of(ToolUpdate, found) == []


def test_a_local_shell_call_is_a_command_too() -> None:
    action = {"type": "exec", "command": ["bash", "-lc", "ls"], "working_directory": "/ws"}

    (call,) = calls(read(started(), raw("local_shell_call", call_id="c1", status="completed", action=action)))

    assert (call.name, call.input["command"], call.input["cwd"]) == ("Bash", "ls", "/ws")


# -- patches ----------------------------------------------------------------------------------------------------------

CHANGES = {"/ws/a.py": {"type": "add", "content": "x\n"}}


def test_a_shell_command_that_turns_out_to_be_a_patch_becomes_one() -> None:
    found = read(
        started(),
        raw("function_call", name="shell", call_id="c1", arguments='{"command": ["apply_patch", "…"]}'),
        event("patch_apply_begin", call_id="c1", auto_approved=True, changes=CHANGES),
        event("patch_apply_end", call_id="c1", stdout="", stderr="no such file", success=False),
        completed(),
    )
    (call,), (update,), (result,) = calls(found), of(ToolUpdate, found), results(found)

    assert (call.name, update.name, result.name) == ("Bash", "Patch", "Patch")
    assert result.output["_happy"]["rawToolName"] == "shell"
    assert (result.status, result.output["errorMessage"], result.output["applied"]) == ("failed", "no such file", False)


@pytest.mark.parametrize(
    ("output", "status", "expected"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nDone\n", "completed", {"success": True, "stdout": "Done\n"}),
        ('{"output": "bad hunk", "metadata": {"exit_code": 1}}', "failed", {"errorMessage": "bad hunk"}),
        ("apply_patch verification failed: no", "failed", {"errorMessage": "apply_patch verification failed: no"}),
        ("patch rejected by user", "denied", {"errorMessage": "patch rejected by user"}),
    ],
)
def test_a_patch_that_only_the_model_is_told_of(output: str, status: str, expected: dict[str, Any]) -> None:
    call = raw("custom_tool_call", name="apply_patch", call_id="c1", input="*** Begin Patch\n*** End Patch")

    (result,) = results(read(started(), call, told("c1", output)))

    assert result.status == status
    assert expected.items() <= answer(result.output).items()


def test_a_declined_file_change_is_denied() -> None:
    change = {"id": "c1", "changes": CHANGES}
    found = read(
        started(),
        item("started", "FileChange", status="inProgress", **change),
        item("completed", "FileChange", status="declined", stderr="patch rejected by user", **change),
    )

    assert ends(found) == [("c1", "denied")]


def test_only_the_last_diff_of_a_turn_counts_and_a_long_one_is_kept_aside() -> None:
    long = "diff --git a/x b/x\n" + "+x\n" * 40_000
    outputs: list[Any] = []
    normalizer = StreamNormalizer(Context(stream="s"), "codex-mcp")
    for line in lines(
        started(), event("turn_diff", unified_diff="short"), event("turn_diff", unified_diff=long), completed()
    ):
        outputs += normalizer.feed(line.data)

    (body,) = [output for output in outputs if isinstance(output, OutputPiece)]
    (call,) = calls([output.event for output in outputs if not isinstance(output, OutputPiece)])
    assert body.data.decode() == long
    assert call.outputs is not None
    assert call.outputs["/input/unified_diff"].output_id == body.output_id
    assert long.startswith(call.input["unified_diff"])


def test_a_turn_whose_changes_were_undone_has_no_diff() -> None:
    diffs = [event("turn_diff", unified_diff=diff) for diff in ("@@", "")]

    found = read(started(), *diffs, completed())

    assert calls(found) == []


# -- other tools ------------------------------------------------------------------------------------------------------


def test_a_plan_without_a_call_is_a_call_of_its_own() -> None:
    plan = [{"step": "Read", "status": "completed"}]
    found = read(started(), event("plan_update", plan=plan), event("plan_update", plan=plan), completed())

    assert [(call.call_id, call.name, call.synthetic) for call in calls(found)] == [
        ("plan-1", "TodoWrite", True),
        ("plan-2", "TodoWrite", True),
    ]
    assert ends(found) == [("plan-1", "completed"), ("plan-2", "completed")]


@pytest.mark.parametrize(
    ("result", "status", "expected"),
    [
        ({"Ok": {"content": [{"type": "text", "text": "hi"}]}}, "completed", {"text": "hi"}),
        ({"Ok": {"content": [{"type": "text", "text": "no"}], "isError": True}}, "failed", {"errorMessage": "no"}),
        ({"Err": "connection closed"}, "failed", {"errorMessage": "connection closed"}),
        ({"Err": "user rejected MCP tool call"}, "denied", {"errorMessage": "user rejected MCP tool call"}),
    ],
)
def test_an_mcp_tools_end(result: dict[str, Any], status: str, expected: dict[str, Any]) -> None:
    invocation = {"server": "fixture", "tool": "echo", "arguments": {"text": "hi"}}
    found = read(
        started(),
        event("mcp_tool_call_begin", call_id="c1", invocation=invocation),
        event("mcp_tool_call_end", call_id="c1", invocation=invocation, result=result, **ONE_SECOND),
    )
    (call,), (ended,) = calls(found), results(found)

    assert (call.name, call.input["text"]) == ("mcp__fixture__echo", "hi")
    assert (ended.status, ended.duration_ms) == (status, 1000)
    assert expected.items() <= answer(ended.output).items()


def test_an_mcp_tool_as_item_and_in_a_namespace_is_the_same_tool_and_its_picture_an_attachment() -> None:
    content = [{"type": "image", "data": PNG, "mimeType": "image/png"}, {"type": "text", "text": "a picture"}]
    found = read(
        started(),
        raw("function_call", name="picture", namespace="mcp__fixture", call_id="c1", arguments='{"name": "p"}'),
        item(
            "completed",
            "McpToolCall",
            id="c1",
            server="fixture",
            tool="picture",
            arguments={"name": "p"},
            status="completed",
            result={"content": content, "isError": False},
        ),
        told("c1", [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]),
    )
    (call,), (result,) = calls(found), results(found)

    assert call.name == "mcp__fixture__picture"
    assert result.attachments is not None
    assert [(one.mime_type, one.bytes) for one in result.attachments] == [("image/png", 8)]
    assert result.output["text"] == "a picture"
    assert PNG not in str(result.output)


def test_a_viewed_image_is_read_and_what_the_model_sees_is_its_result() -> None:
    path = "/ws/logo.png"
    shown = told("c1", [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}])
    whole = read(
        started(),
        raw("function_call", name="view_image", call_id="c1", arguments='{"path": "logo.png"}'),
        event("view_image_tool_call", call_id="c1", path=path),
        shown,
    )
    alone = read(started(), event("view_image_tool_call", call_id="c1", path=path))

    assert [(call.name, call.input["file_path"]) for call in calls(whole)] == [("Read", "logo.png")]
    assert results(whole)[0].attachments is not None
    assert [(call.name, call.input["file_path"]) for call in calls(alone)] == [("Read", path)]
    assert ends(alone) == [("c1", "completed")]


def test_a_search_that_only_the_raw_item_tells_of_is_a_call() -> None:
    search = {"type": "search", "query": "tapir"}
    found = read(started(), raw("web_search_call", status="completed", action=search), completed())

    assert [(call.call_id, call.name) for call in calls(found)] == [("web_search-1", "WebSearch")]
    assert ends(found) == [("web_search-1", "completed")]


def test_another_agent_is_a_task() -> None:
    sender: dict[str, Any] = {"call_id": "c1", "sender_thread_id": THREAD}
    found = read(
        started(),
        event("collab_agent_spawn_begin", prompt="Find greet", model="m", **sender),
        event("collab_agent_spawn_end", prompt="Find greet", model="m", new_thread_id="t2", status="running", **sender),
    )
    (call,), (result,) = calls(found), results(found)

    assert (call.name, call.input["prompt"], result.output["new_thread_id"]) == ("Task", "Find greet", "t2")


# -- questions and approvals ------------------------------------------------------------------------------------------


def test_a_question_is_asked_and_answered() -> None:
    questions = [{"id": "db", "question": "Which database?"}]
    found = read(
        started(),
        raw("function_call", name="request_user_input", call_id="c1", arguments='{"questions": []}'),
        event("request_user_input", call_id="c1", questions=questions),
        told("c1", '{"answers": {"db": {"answers": ["SQLite"]}}}'),
    )
    (request,), (response,), (result,) = of(PermissionRequest, found), of(PermissionResponse, found), results(found)

    assert (request.type, request.call_id, request.questions) == ("question", "c1", questions)
    assert (response.outcome, response.answers) == ("answered", {"db": {"answers": ["SQLite"]}})
    assert result.output["answers"] == {"db": "SQLite"}


def elicitation(request: int = 0, **codex: Any) -> dict[str, Any]:
    params = {"message": "Allow Codex to run `ls`?", "threadId": THREAD, "codex_event_id": "2", **codex}
    return {"id": request, "method": "elicitation/create", "params": params}


DENY = {"network_policy_amendment": {"host": "x", "action": "deny"}}


@pytest.mark.parametrize(
    ("given", "outcome", "option"),
    [
        ({"result": {"decision": "approved"}}, "allowed", "approved"),
        ({"result": {"decision": {"approved_execpolicy_amendment": {}}}}, "allowed", "approved_execpolicy_amendment"),
        ({"result": {"decision": {"network_policy_amendment": DENY}}}, "denied", "deny"),
        ({"result": {"decision": "abort"}}, "denied", "abort"),
        ({"result": {"decision": "timed_out"}}, "expired", "timed_out"),
        ({"result": {"action": "accept"}}, "allowed", "accept"),
        ({"result": {"action": "cancel"}}, "cancelled", "cancel"),
        ({"error": {"code": 1, "message": "no"}}, "denied", None),
    ],
)
def test_a_clients_answer(given: dict[str, Any], outcome: str, option: str | None) -> None:
    found = read(
        started(),
        elicitation(codex_elicitation="exec-approval", codex_call_id="c1", codex_command=["ls"]),
        {"dir": "in", "id": 0, **given},
    )
    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)

    assert [(call.call_id, call.name, call.synthetic) for call in calls(found)] == [("c1", "Bash", False)]
    assert (request.permission_id, request.title) == ("c1", "Allow Codex to run `ls`?")
    assert (response.permission_id, response.outcome, response.option_id) == ("c1", outcome, option)


def test_an_elicitation_that_is_no_approval_is_one() -> None:
    (request,) = of(PermissionRequest, read(started(), elicitation(7)))

    assert (request.type, request.permission_id, request.call_id) == ("elicitation", "7", None)


# -- notices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys", "level", "code", "text"),
    [
        ("warning", {"message": "low disk"}, "warning", "warning", "low disk"),
        ("stream_error", {"message": "Reconnecting... 1/5"}, "warning", "retry", "Reconnecting... 1/5"),
        ("background_event", {"message": "indexing"}, "info", "background", "indexing"),
        ("deprecation_notice", {"summary": "use x"}, "warning", "deprecation", "use x"),
        ("thread_rolled_back", {"num_turns": 2}, "info", "rewound", "thread_rolled_back"),
        ("hook_completed", {"run": {"event_name": "stop", "status": "blocked"}}, "warning", "hook", "stop"),
    ],
)
def test_what_is_only_to_be_noticed(kind: str, keys: dict[str, Any], level: str, code: str, text: str) -> None:
    (notice,) = of(Notice, read(event(kind, **keys)))

    assert (notice.level, notice.code, notice.text) == (level, code, text)


def test_a_compaction_is_noticed_once() -> None:
    compacted = (item("completed", "ContextCompaction", id="x"), event("context_compacted"))

    assert [one.code for one in of(Notice, read(started(), *compacted, *compacted))] == ["compaction"] * 2


def test_a_server_that_does_not_start_is_told_once() -> None:
    found = read(
        event("mcp_startup_update", turn="", server="a", status={"state": "ready"}),
        event("mcp_startup_update", turn="", server="b", status={"state": "failed", "error": "no such file"}),
        event("mcp_startup_complete", turn="", ready=["a"], failed=[{"server": "b", "error": "no such file"}]),
    )

    assert [(one.code, one.text, one.data) for one in of(Notice, found)] == [
        ("mcp-startup", "no such file", {"server": "b"})
    ]


def test_a_limit_is_told_when_it_is_reached() -> None:
    reached = {"limit_id": "codex", "rate_limit_reached_type": "rate_limit_reached"}
    made = [event("token_count", info=None, rate_limits=limits) for limits in ({"limit_id": "codex"}, reached, reached)]

    assert [one.code for one in of(Notice, read(*made))] == ["rate-limit"]
    assert of(Usage, read(*made)) == []
    assert statistics(lines(*made)).skipped == {"no-usage": 2}


def test_what_is_not_known_is_shown_and_not_skipped() -> None:
    made = [
        event("brand_new_event", x=1),
        item("completed", "BrandNewItem", id="x"),
        raw("brand_new_item"),
        {"id": 9, "method": "brand/new"},
        {"neither": "request nor answer"},
    ]

    found = normalize("codex-mcp", lines(*made), Context(stream="s"))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"] * 5
    assert "brand_new_event" in of(Unparsed, found)[0].text
