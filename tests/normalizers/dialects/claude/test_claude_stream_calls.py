"""Calls, results, subagents and background work in Claude Code's stream."""

import base64
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.helpers import (
    V1,
    V2,
    assistant,
    calls,
    events,
    init,
    read,
    recording,
    result,
    results,
    text,
    tool_result,
    use,
    user,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, OutputPiece
from tooltap.normalizers.stream.bounds import Produced
from tooltap.normalizers.stream.contract import normalize
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Message, PermissionResponse, ToolResult, ToolUpdate


def task(subtype: str, task_id: str = "task", **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, "task_id": task_id, **more}


# -- calls and their results ------------------------------------------------------------------------------------------


def test_a_failed_command() -> None:
    found = events("shell-fails")

    (call,), (ended,) = calls(found), results(found)
    assert (call.call_id, call.name, call.status) == ("toolu_01a29337955c9a4d669331e297", "Bash", "running")
    assert call.input["command"] == "echo partial output; echo 'boom: something broke' >&2; exit 3"
    assert (ended.call_id, ended.status, ended.is_error) == (call.call_id, "failed", True)
    assert answer(ended.output) == {
        "stdout": "partial output\nboom: something broke",
        "exit_code": 3,
        "errorMessage": "Exit code 3",
    }


def test_payloads_carry_meta_and_the_providers_objects() -> None:
    """`_raw` of a result is its block with `tool_use_result` beside it."""
    found = events("shell-fails")
    (call,), (ended,) = calls(found), results(found)
    call_line, result_line = (orjson.loads(recording("shell-fails")[line - 1].data) for line in (8, 12))  # type: ignore[arg-type]

    assert call.input["_happy"] == {
        "v": 2,
        "protocol": "claude",
        "provider": "claude",
        "rawToolName": "Bash",
        "canonicalToolName": "Bash",
    }
    assert call.input["_raw"] == call_line["message"]["content"][0]
    block = result_line["message"]["content"][0]
    assert ended.output["_raw"] == {**block, "tool_use_result": result_line["tool_use_result"]}


def test_parallel_results_belong_to_their_calls_whatever_their_order() -> None:
    """The second call's result (line 6) comes before the first one's (line 7)."""
    found = events("parallel-calls")

    first, second, third = (call.call_id for call in calls(found))
    assert [(ended.line, ended.call_id) for ended in results(found)] == [(6, second), (7, first), (8, third)]
    assert {call.turn for call in calls(found)} == {"t1"}


def test_a_line_with_several_results_gives_the_twin_to_none() -> None:
    found = read(
        init(),
        assistant(use("a", "Bash", command="x"), use("b", "Bash", command="y")),
        user(tool_result("a", "one"), tool_result("b", "two"), tool_use_result={"stdout": "?"}),
    )

    assert [answer(ended.output) for ended in results(found)] == [{"stdout": "one"}, {"stdout": "two"}]


def test_a_repeated_line_is_told_once() -> None:
    lines = [init(), assistant(use("a", "Bash", command="x")), user(tool_result("a", "one")), result()]
    found = read(lines[0], lines[1], lines[1], lines[2], lines[2], lines[1], lines[3])

    assert (len(calls(found)), len(results(found))) == (1, 1)


def test_an_id_that_a_later_message_uses_again_is_another_call() -> None:
    """Models behind Claude Code that are not Anthropic's number their calls anew."""
    found = read(
        init(),
        assistant(use("call_0", "Bash", command="one"), message_id="msg_1"),
        user(tool_result("call_0", "1")),
        assistant(use("call_0", "Read", file_path="two"), message_id="msg_2"),
        user(tool_result("call_0", "2")),
        result(),
    )

    assert [(call.name, call.preview) for call in calls(found)] == [("Bash", "one"), ("Read", "two")]
    assert [(ended.name, ended.line, ended.status) for ended in results(found)] == [
        ("Bash", 3, "completed"),
        ("Read", 5, "completed"),
    ]


def test_a_call_without_a_result_is_closed_with_its_turn() -> None:
    found = read(init(), assistant(use("a", "Bash", command="x")), result())

    (closed,) = results(found)
    assert (closed.status, closed.synthetic, closed.line) == ("interrupted", True, 3)


def test_mcp_calls_keep_their_names_and_say_what_users_are_shown() -> None:
    found = calls(events("mcp"))

    assert [(call.name, call.title) for call in found] == [
        ("mcp__fixture__echo", "Echo"),
        ("mcp__fixture__change_title", "Change Title"),
        ("mcp__fixture__fail", "Fail"),
        ("mcp__fixture__picture", "Picture"),
    ]


@pytest.mark.parametrize(("fixture", "line"), [("picture", 10), ("mcp", 37)])
def test_a_picture_is_an_attachment_kept_once_and_nowhere_inline(fixture: str, line: int) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    outputs = [one for raw in recording(fixture) for one in normalizer.feed(raw.data)]
    raw = orjson.loads(recording(fixture)[line - 1].data)  # type: ignore[arg-type]
    body = raw["message"]["content"][0]["content"][0]["source"]["data"]

    (piece,) = [one for one in outputs if isinstance(one, OutputPiece)]
    assert (piece.data, piece.mime_type) == (base64.b64decode(body), "image/png")
    (pictured,) = [one for one in outputs if isinstance(one, Produced) and one.event.line == line]
    assert body.encode() not in pictured.body
    assert isinstance(pictured.event, ToolResult)
    assert pictured.event.attachments is not None
    (attachment,) = pictured.event.attachments
    assert (attachment.output_id, attachment.bytes) == (piece.output_id, 70)


# -- denials ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "line"), [(V2, 14), (V1, 25)])
def test_a_denial_is_told_once_and_the_call_is_denied(version: str, line: int) -> None:
    """2.1 says so on a line of its own and again in the `result`; 1.0 in the `result` alone."""
    found = events("denied", version)

    (response,), (denied,) = of(PermissionResponse, found), results(found)
    assert (response.line, response.outcome, response.by) == (line, "denied", "policy")
    assert response.call_id == response.permission_id == denied.call_id
    assert (denied.status, denied.is_error) == ("denied", False)
    assert "stdout" not in denied.output


def test_a_denied_call_without_a_result_is_denied_at_the_turns_end() -> None:
    denial = {"tool_name": "Write", "tool_use_id": "a", "tool_input": {}}
    found = read(init(), assistant(use("a", "Write")), result(permission_denials=[denial]))

    (closed,) = results(found)
    assert (closed.status, closed.synthetic) == ("denied", True)


# -- subagents --------------------------------------------------------------------------------------------------------


def test_calls_of_subagents_carry_their_agent_and_the_call_that_spawned_it() -> None:
    found = events("subagents-parallel")

    agents = {call.call_id: (call.agent, call.parent) for call in calls(found)}
    first, second = "toolu_01c86c6d0afbe34b8e9c9b2290", "toolu_01caa5a9d7154a4954957efec1"
    assert agents[first] == agents[second] == (None, None)
    assert agents["toolu_0115237693c5584f0299aabe58"] == ("a9ce45233075fe3af", second)
    assert agents["toolu_018f931129f68a445cb4b3a1d9"] == ("a0f54c909e02c9b1d", first)
    assert all((one.agent, one.parent) == agents[one.call_id] for one in results(found))


def test_before_2_1_the_spawning_call_stands_for_the_agent() -> None:
    spawned = "toolu_0116ff1ef7b3e44de78190d3d3"
    inner = [call for call in calls(events("subagent", V1)) if call.parent is not None]

    assert [(call.name, call.agent, call.parent) for call in inner] == [
        ("Grep", spawned, spawned),
        ("Read", spawned, spawned),
    ]


def test_task_lines_are_progress_of_the_call_they_belong_to() -> None:
    """`task_updated` (line 37) names the task alone."""
    updates = of(ToolUpdate, events("subagent-async"))

    assert {update.call_id for update in updates} == {"toolu_01f4dfea411e7f4c22aef2c79d"}
    assert [(update.line, (update.progress or {})["text"]) for update in updates] == [
        (16, "Find greet"),
        (31, "Searching for def greet"),
        (34, "Reading src/app.py"),
        (37, "completed"),
    ]
    assert (updates[1].progress or {})["data"]["usage"] == {"total_tokens": 2410, "tool_uses": 1, "duration_ms": 148}


def test_an_asynchronous_agent_is_acknowledged_and_ends_with_its_notification() -> None:
    started, ended = (one for one in results(events("subagent-async")) if one.agent is None)

    assert (started.line, started.status, started.async_, started.final) == (17, "completed", True, False)
    assert (ended.line, ended.status, ended.async_, ended.final) == (38, "completed", False, True)
    assert started.call_id == ended.call_id
    assert ended.output["content"] == "greet is defined at src/app.py line 4."
    assert ended.duration_ms == 378


def test_the_notification_of_a_call_that_waits_for_its_result_is_progress() -> None:
    """Lines 21 and 22: the notification, then the result of the same call."""
    found = events("subagents-parallel")

    assert [type(event) for event in found if event.line in (21, 22)] == [ToolUpdate, ToolResult]


def test_calls_of_a_subagent_that_ends_are_closed_before_it() -> None:
    inner = assistant(use("b", "Read"), message_id="msg_2", parent_tool_use_id="a")
    found = read(init(), assistant(use("a", "Task")), inner, user(tool_result("a", "done")), result())

    assert [(one.call_id, one.status, one.agent) for one in results(found)] == [
        ("b", "interrupted", "a"),
        ("a", "completed", None),
    ]


# -- background work --------------------------------------------------------------------------------------------------


def test_a_background_command_ends_with_the_exit_code_of_its_notification() -> None:
    started, ended, waited = results(events("background-shell"))

    assert (started.line, started.async_) == (14, True)
    assert (ended.line, ended.final, ended.status, ended.output["exit_code"]) == (25, True, "completed", 0)
    assert (waited.line, waited.final, waited.output["stdout"]) == (29, False, "waited")


def test_a_background_command_that_fails_is_failed() -> None:
    acknowledged = user(tool_result("a", "Command running in background with ID: task."))
    summary = 'Background command "x" failed with exit code 3'
    ended = task("task_notification", tool_use_id="a", status="failed", summary=summary)
    found = read(init(), assistant(use("a", "Bash", command="x")), acknowledged, result(), ended)

    _, final = results(found)
    assert (final.status, final.final, final.turn, final.line) == ("failed", True, "t1", 5)
    assert (final.output["exit_code"], final.output["errorMessage"]) == (3, summary)


def test_background_work_of_which_nothing_more_is_heard_is_interrupted_at_the_streams_end() -> None:
    lines = recording("background-shell", V1)[:20]
    *_, ended = results(normalize("claude-stream", lines, Context(stream="s")))

    assert (ended.name, ended.status, ended.final, ended.synthetic) == ("Bash", "interrupted", True, True)


def test_a_background_command_that_was_killed_is_cancelled() -> None:
    """1.0 says so in the answer of `KillShell` (line 27) alone."""
    _, _, killer, killed = results(events("background-shell", V1))

    assert (killer.name, killer.line, killer.status) == ("KillShell", 27, "completed")
    assert (killed.name, killed.line, killed.status, killed.final) == ("Bash", 27, "cancelled", True)
    assert str(killed.output["errorMessage"]).startswith("Successfully killed shell: bdfb53")


def test_an_end_that_came_as_an_update_alone_is_the_end() -> None:
    acknowledged = user(tool_result("a", [text("started")]), tool_use_result={"isAsync": True, "agentId": "task"})
    updated = task("task_updated", patch={"status": "killed"})
    begun = task("task_started", tool_use_id="a", description="look")
    found = read(init(), assistant(use("a", "Agent")), begun, acknowledged, result(), updated)

    _, final = results(found)
    assert (final.status, final.final, final.synthetic) == ("cancelled", True, True)


def test_reports_of_a_call_that_was_never_seen_open_it_and_those_of_a_finished_one_are_stale() -> None:
    started = task("task_started", tool_use_id="a", task_type="local_agent", description="look", prompt="Look!")
    late = task("task_progress", tool_use_id="a", description="looking")
    found = read(init(), started, user(tool_result("a", "found")), late)

    (call,) = calls(found)
    assert (call.name, call.synthetic, call.input["prompt"]) == ("Task", True, "Look!")
    assert [update.line for update in of(ToolUpdate, found)] == [2]


def test_text_of_subagents_is_theirs() -> None:
    found = of(Message, events("subagent-async"))

    assert [(one.text, one.agent) for one in found if one.agent] == [
        ("greet is defined at src/app.py line 4.", "ad0a7d162f9d16959")
    ]
