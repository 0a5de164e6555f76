"""Results that several lines report, and older Codex, whose own items come after the results of their calls."""

from typing import Any

import msgspec
import pytest

from tests.normalizers.dialects.codex.helpers import (
    answered,
    begin,
    calls,
    completed,
    delta,
    end,
    ends,
    event,
    events,
    item,
    raw,
    read,
    results,
    said,
    started,
    statistics,
)
from tests.normalizers.dialects.codex.helpers import lines as tapped
from tests.normalizers.dialects.codex.test_codex_rollout import api, line
from tests.normalizers.dialects.codex.test_codex_rollout import read as read_rollout
from tests.normalizers.reading import answer, of
from tests.normalizers.reading import recording as recorded
from tooltap.normalizers.core.items import Context, Limits
from tooltap.protocol.events import Notice, PermissionResponse, ToolResult, Turn
from tooltap.protocol.model_view import model_text
from tooltap.testing import check_recording, normalize

OLD = "codex-0.58"


@pytest.mark.parametrize("name", ["plan", "picture", "command-denied"])
def test_recordings_of_0_58_are_fully_parsed(name: str) -> None:
    lines = recorded("codex-mcp", name, OLD)

    check_recording("codex-mcp", lines)

    assert statistics(lines).unparsed == 0


def of_0_58(name: str) -> list[Any]:
    return normalize("codex-mcp", recorded("codex-mcp", name, OLD), Context(stream="s"))


def test_item_with_its_type_as_key_is_read() -> None:
    text = item("completed", "")
    text["params"]["msg"]["item"] = {"AgentMessage": {"id": "m", "content": [{"Text": {"text": "Hi."}}]}}
    found = read(started(), text, event("agent_message", message="Hi."), completed())

    assert said(found) == [("assistant", "Hi.", False)]


def test_plan_of_0_58_is_told_once() -> None:
    found = of_0_58("plan")

    assert [(one.name, one.synthetic) for one in calls(found)] == [("TodoWrite", False)] * 3
    assert ends(found) == [(one.call_id, "completed") for one in calls(found)]


def test_plan_without_its_call_is_emitted_when_the_turn_ends() -> None:
    plan = event("plan_update", plan=[{"step": "Read", "status": "pending"}])
    found = read(started(), raw("ghost_snapshot"), plan, plan, completed())

    assert [(one.call_id, one.synthetic) for one in calls(found)] == [("plan-1", True), ("plan-2", True)]


def test_picture_of_0_58_is_attached_to_its_result() -> None:
    found = of_0_58("picture")

    (call,), (result,) = calls(found), results(found)
    assert (call.name, call.input["file_path"]) == ("Read", "/tmp/ws/logo.png")
    assert (result.call_id, result.status, [one.mime_type for one in result.attachments or []]) == (
        call.call_id,
        "completed",
        ["image/png"],
    )
    assert answer(result.output) == {"message": "attached local image path"}


@pytest.mark.parametrize(
    "after",
    [
        [],
        [raw("function_call", name="exec_command", call_id="c2", arguments="{}")],
        [raw("message", role="user", content=[{"type": "input_text", "text": "<turn_aborted>"}])],
    ],
)
def test_picture_that_does_not_come_is_not_waited_for(after: list[dict[str, Any]]) -> None:
    found = read(
        started(),
        raw("function_call", name="view_image", call_id="c1", arguments='{"path": "a.png"}'),
        answered("c1", "attached local image path"),
        *after,
        completed(),
    )

    assert ("c1", "completed") in ends(found)
    assert results(found)[0].attachments is None


def test_picture_in_a_rollout_of_0_58() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    found = read_rollout(
        line("session_meta", id="s"),
        api("function_call", name="view_image", arguments='{"path": "a.png"}', call_id="c1"),
        api("function_call_output", call_id="c1", output="attached local image path"),
        api("message", role="user", content=[image]),
    )

    (result,) = of(ToolResult, found)
    assert [one.mime_type for one in result.attachments or []] == ["image/png"]


def test_refused_command_of_0_58_is_denied() -> None:
    found = of_0_58("command-denied")

    (result,) = results(found)
    assert (result.status, result.is_error, result.output["exit_code"]) == ("denied", False, -1)
    assert result.output["errorMessage"] == "exec command rejected by user"
    assert [one.outcome for one in of(PermissionResponse, found)] == ["denied"]


def test_command_whose_output_reads_like_a_refusal_is_completed() -> None:
    found = read(started(), begin("c1", "cat log"), end("c1", stdout="exec command rejected by user", exit_code=0))

    assert ends(found) == [("c1", "completed")]


@pytest.mark.parametrize(
    "text",
    [
        'exec_command failed: CreateProcess{Rejected("rejected by user")}',
        'exec_command failed for `rm a`: CreateProcess { message: "Rejected(\\"rejected by user\\")" }',
    ],
)
def test_command_refused_before_it_starts_is_denied(text: str) -> None:
    found = read_rollout(
        line("session_meta", id="s"),
        api("function_call", name="exec_command", arguments='{"cmd": "rm a"}', call_id="c1"),
        api("function_call_output", call_id="c1", output=text),
    )

    assert [(one.status, one.output["errorMessage"]) for one in of(ToolResult, found)] == [("denied", text)]


# -- held until the model's own line -----------------------------------------------------------------------------------


def called(call_id: str, command: str) -> dict[str, Any]:
    return raw("function_call", name="exec_command", call_id=call_id, arguments=f'{{"cmd": "{command}"}}')


def test_result_has_its_parts_and_what_the_model_gets() -> None:
    found = events("two-turns")

    (result,) = results(found)
    assert (result.output["stderr"], result.output["exit_code"]) == ("", 0)
    assert result.line == 49  # the model's own line, after `exec_command_end`
    text = model_text(msgspec.to_builtins(result), lambda _: None)
    assert text is not None
    assert text.startswith("Chunk ID: ")
    assert text.endswith(f"Output:\n{result.output['stdout']}")
    assert (result.model_view.differs if result.model_view else None, result.assistant_view) == (True, None)


def test_formatted_output_is_what_the_model_gets_where_no_line_of_the_models_says_it() -> None:
    found = read(
        started(), begin("c1", "ls"),
        end("c1", aggregated_output="a" * 90, formatted_output="a… truncated", exit_code=0),
    )  # fmt: skip

    assert model_text(msgspec.to_builtins(results(found)[0]), lambda _: None) == "a… truncated"


def test_output_that_the_model_did_not_get_is_unknown() -> None:
    found = read(started(), item("completed", "CommandExecution", id="c1", command=["ls"], aggregated_output="a"))

    assert (results(found)[0].model_view, results(found)[0].assistant_view) == (None, "unknown")


def test_held_result_is_emitted_when_the_turn_ends() -> None:
    found = read(
        started(), called("c1", "ls"), begin("c1", "ls"), end("c1", stdout="a.py", exit_code=0), completed()
    )  # fmt: skip

    assert [type(one) for one in found[-2:]] == [ToolResult, Turn]
    assert (results(found)[0].output["stdout"], results(found)[0].synthetic) == ("a.py", False)


def test_held_result_is_emitted_when_the_stream_ends() -> None:
    found = read(started(), called("c1", "ls"), begin("c1", "ls"), end("c1", stdout="a.py", exit_code=0))

    assert ends(found) == [("c1", "completed")]


def test_result_that_is_too_much_to_hold_is_emitted_at_once() -> None:
    lines = [started(), called("c1", "ls"), begin("c1", "ls"), end("c1", stdout="a" * 2_000, exit_code=0)]
    small = Context(stream="s", limits=Limits(call_bytes=1_000))

    found = normalize("codex-mcp", tapped(*lines, answered("c1", "a"), completed()), small)

    assert [(one.line, one.status) for one in results(found)] == [(4, "completed")]


def test_line_whose_result_is_held_may_have_other_events() -> None:
    """The end of a command that was not seen before also opens its call."""
    lines = tapped(started(), raw("ghost_snapshot"), end("c1", stdout="a.py", exit_code=0), end("c1", exit_code=0))

    assert statistics(lines).with_events == 2
    assert statistics(lines).skipped == {"housekeeping": 1, "duplicate-result": 1}


def test_command_that_is_run_again_has_its_last_result() -> None:
    found = read(
        started(), called("c1", "ls"), begin("c1", "ls"), end("c1", stdout="", stderr="sandbox", exit_code=1),
        event("exec_approval_request", call_id="c1", command=["ls"]), begin("c1", "ls"),
        end("c1", stdout="a.py", exit_code=0), answered("c1", "a.py"), completed(),
    )  # fmt: skip

    assert [(one.output["stdout"], one.status) for one in results(found)] == [("a.py", "completed")]


def test_command_of_the_user_is_not_held() -> None:
    found = read(
        started(), raw("ghost_snapshot"), begin("c1", "ls", is_user_shell_command=True),
        end("c1", stdout="a", exit_code=0, is_user_shell_command=True), event("agent_message", message="Hi."),
    )  # fmt: skip

    assert [result.line for result in results(found)] == [4]


def test_search_of_the_model_is_not_held() -> None:
    found = read(
        started(), raw("ghost_snapshot"), item("completed", "WebSearch", id="w", query="q"),
        event("agent_message", message="Hi."),
    )  # fmt: skip

    assert [(result.name, result.line) for result in results(found)] == [("WebSearch", 3)]


# -- in the background -------------------------------------------------------------------------------------------------


def test_write_stdin_tells_the_end_of_a_background_command() -> None:
    """In rollouts before commands had items of their own."""
    running = "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nbg 1\n"
    exited = "Chunk ID: b\nWall time: 2.9 seconds\nProcess exited with code 3\nOutput:\nbg 2\n"
    found = read_rollout(
        line("session_meta", id="s"),
        api("function_call", name="exec_command", arguments='{"cmd": "slow"}', call_id="c1"),
        api("function_call_output", call_id="c1", output=running),
        api("function_call", name="write_stdin", arguments='{"session_id": 7, "chars": ""}', call_id="c2"),
        api("function_call_output", call_id="c2", output=exited),
        api("message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
    )

    assert [(one.call_id, one.async_, one.final, one.status) for one in of(ToolResult, found)] == [
        ("c1", True, False, "completed"),
        ("c2", False, False, "failed"),
        ("c1", False, True, "failed"),
    ]
    assert of(ToolResult, found)[-1].output["exit_code"] == 3


def test_wait_tells_the_end_of_a_script_that_runs_on() -> None:
    def output(call_id: str, head: str) -> dict[str, Any]:
        text = f"Script {head}\nWall time 10.0 seconds\nOutput:\n"
        parts = [{"type": "input_text", "text": text}, {"type": "input_text", "text": "half"}]
        return api(
            "custom_tool_call_output" if call_id == "c1" else "function_call_output", call_id=call_id, output=parts
        )

    found = read_rollout(
        line("session_meta", id="s"),
        api("custom_tool_call", name="exec", input="await tools.exec_command({cmd: 'slow'})", call_id="c1"),
        output("c1", "running with cell ID 3"),
        api("function_call", name="wait", arguments='{"cell_id": "3"}', call_id="c2"),
        output("c2", "completed"),
        api("message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
    )

    assert [(one.call_id, one.async_, one.status) for one in of(ToolResult, found)] == [
        ("c1", True, "completed"),
        ("c2", False, "completed"),
        ("c1", False, "completed"),
    ]


def agent_call(call_id: str, name: str, given: str, output: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        api("function_call", name=name, arguments=given, call_id=call_id),
        api("function_call_output", call_id=call_id, output=output),
    )


def tasks(*later: dict[str, Any]) -> list[tuple[bool, bool, str]]:
    """(async, final, status) of the results of a call that starts an agent, before these lines."""
    spawned = agent_call("c1", "spawn_agent", '{"message": "Look."}', '{"agent_id": "t2", "nickname": "Ada"}')
    found = read_rollout(line("session_meta", id="s"), *spawned, *later)
    return [(one.async_, one.final, one.status) for one in of(ToolResult, found) if one.name == "Task"]


def test_output_for_the_model_tells_the_end_of_an_agent() -> None:
    failed = agent_call("c2", "wait_agent", '{"targets": ["t2"]}', '{"status": {"t2": {"errored": "No quota."}}}')
    late = agent_call("c3", "wait_agent", '{"targets": ["t2"]}', '{"status": {}, "timed_out": true}')
    assert tasks(*failed, *late) == [(True, False, "completed"), (False, True, "failed")]


def test_agent_that_is_closed_while_it_works_is_cancelled() -> None:
    closed = agent_call("c2", "close_agent", '{"target": "t2"}', '{"previous_status": "running"}')
    assert tasks(*closed) == [(True, False, "completed"), (False, True, "cancelled")]


def test_agent_that_had_ended_before_it_was_closed_is_completed() -> None:
    closed = agent_call("c2", "close_agent", '{"target": "t2"}', '{"previous_status": {"completed": "Line 4."}}')
    assert tasks(*closed) == [(True, False, "completed"), (False, True, "completed")]


def test_activity_of_an_agent_tells_its_start_and_its_end() -> None:
    """Codex 0.169 in code mode: the output of `spawn_agent` names no thread, that of `wait_agent` no state."""

    def active(item_id: str, kind: str) -> dict[str, Any]:
        activity = {"type": "SubAgentActivity", "id": item_id, "kind": kind, "agent_thread_id": "t2"}
        return line("event_msg", type="item_completed", item=activity)

    found = read_rollout(
        line("session_meta", id="s"),
        api("function_call", name="spawn_agent", arguments='{"message": "Look."}', call_id="c1"),
        active("c1", "started"),
        api("function_call_output", call_id="c1", output='{"task_name": "/root/look"}'),
        active("a1", "interacted"),
        active("a2", "completed"),
    )
    assert [(one.async_, one.final, one.status, one.synthetic) for one in of(ToolResult, found)] == [
        (True, False, "completed", False),
        (False, True, "completed", False),
    ]


# -- texts -------------------------------------------------------------------------------------------------------------


def content(item_id: str, text: str) -> dict[str, Any]:
    return event("agent_message_content_delta", item_id=item_id, delta=text)


def test_text_that_a_retry_discards_is_not_emitted() -> None:
    found = read(
        started(), content("m1", "The ans"), event("stream_error", message="Reconnecting... 1/5"),
        content("m2", "The answer."), item("completed", "AgentMessage", id="m2", content=[{"text": "The answer."}]),
        completed(last_agent_message="The answer."),
    )  # fmt: skip

    assert said(found) == [("assistant", "The answer.", False)]


def test_text_that_another_replaces_is_not_emitted() -> None:
    """The first retry is not reported by some versions."""
    found = read(
        started(), content("m1", "The ans"), item("started", "AgentMessage", id="m2", content=[]),
        content("m2", "The answer."), item("completed", "AgentMessage", id="m2", content=[{"text": "The answer."}]),
        completed(last_agent_message="The answer."),
    )  # fmt: skip

    assert said(found) == [("assistant", "The answer.", False)]


def test_item_whose_type_is_no_word_is_unparsed() -> None:
    odd = item("started", "")
    odd["params"]["msg"]["item"] = {"type": {"a": 1}, "id": "m2"}

    assert statistics(tapped(started(), content("m1", "The ans"), odd)).unparsed == 1


def test_text_of_a_stopped_turn_is_kept() -> None:
    found = read(started(), content("m1", "The ans"), event("turn_aborted", turn_id="2", reason="interrupted"))

    assert said(found) == [("assistant", "The ans", True)]


def test_notification_of_an_agent_is_no_prompt() -> None:
    text = '<subagent_notification>\n{"agent_path": "a", "status": {"completed": "Found."}}\n</subagent_notification>'
    prompt = item("completed", "UserMessage", id="u", content=[{"text": text}])
    found = read(started(), event("user_message", message=text), prompt, event("user_message", message="Go on."))

    assert said(found) == [("user", "Go on.", False)]


# -- scope and state ---------------------------------------------------------------------------------------------------


def test_request_behind_any_line_is_read_alike() -> None:
    """`check_recording` reloads the state between any two lines."""
    asked = {"message": "Allow?", "codex_elicitation": "exec-approval", "codex_call_id": "c1", "codex_command": ["ls"]}
    request = {"id": 0, "method": "elicitation/create", "params": {**asked, "codex_event_id": "2"}}
    for before in (begin("c0", "ls"), raw("function_call", name="x", call_id="c1", arguments="{}"), delta("c1", b"a")):
        found = check_recording("codex-mcp", tapped(started(), before, dict(request), begin("c1", "ls")))
        assert "c1" in [one.call_id for one in calls(found)]


def test_course_of_a_call_whose_id_is_reused_answers_its_request() -> None:
    again = [event("exec_approval_request", turn="3", call_id="c1", command=["ls"]), begin("c1", "ls")]
    again[1]["params"]["id"] = "3"
    found = read(
        started(), begin("c1", "ls"), end("c1", stdout="", exit_code=0), completed(), started("3"), *again,
    )  # fmt: skip

    assert [(one.call_id, one.outcome) for one in of(PermissionResponse, found)] == [("3/c1", "allowed")]


def test_failed_patch_may_say_nothing() -> None:
    found = read(
        started(), raw("custom_tool_call", name="apply_patch", call_id="c1", input="*** Begin Patch\n*** End Patch"),
        raw("custom_tool_call_output", call_id="c1", output='{"exit_code": 1}'),
    )  # fmt: skip

    assert [(one.status, answer(one.output)["success"]) for one in results(found)] == [("failed", False)]


def test_error_without_a_reason_fails_the_turn() -> None:
    found = read(started(), event("error", message="Broken.", codex_error_info=""))

    assert [turn.state for turn in of(Turn, found)] == ["started", "failed"]


def test_review_mode_shows_only_the_providers_keys() -> None:
    found = read(started(), item("completed", "EnteredReviewMode", id="r", review="the change"), completed())

    assert [one.data for one in of(Notice, found)] == [{"id": "r", "review": "the change"}]
