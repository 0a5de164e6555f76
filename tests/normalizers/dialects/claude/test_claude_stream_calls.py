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
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Message, PermissionResponse, ToolResult, ToolUpdate
from tooltap.testing import normalize


def task(subtype: str, task_id: str = "task", **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, "task_id": task_id, **more}


# -- calls and their results ------------------------------------------------------------------------------------------


def test_failed_command() -> None:
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


def test_payloads_have_meta_and_raw() -> None:
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


def test_parallel_results_match_by_id() -> None:
    """The second call's result (line 6) comes before the first one's (line 7)."""
    found = events("parallel-calls")

    first, second, third = (call.call_id for call in calls(found))
    assert [(ended.line, ended.call_id) for ended in results(found)] == [(6, second), (7, first), (8, third)]
    assert {call.turn for call in calls(found)} == {"t1"}


def test_twin_is_ignored_with_several_results() -> None:
    found = read(
        init(),
        assistant(use("a", "Bash", command="x"), use("b", "Bash", command="y")),
        user(tool_result("a", "one"), tool_result("b", "two"), tool_use_result={"stdout": "?"}),
    )

    assert [answer(ended.output) for ended in results(found)] == [{"stdout": "one"}, {"stdout": "two"}]


def test_repeated_line_is_emitted_once() -> None:
    lines = [init(), assistant(use("a", "Bash", command="x")), user(tool_result("a", "one")), result()]
    found = read(lines[0], lines[1], lines[1], lines[2], lines[2], lines[1], lines[3])

    assert (len(calls(found)), len(results(found))) == (1, 1)


def test_reused_id_in_later_message_is_new_call() -> None:
    """Models of other vendors in Claude Code restart the numbers of their calls in each message."""
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


def test_unanswered_call_closes_with_turn() -> None:
    found = read(init(), assistant(use("a", "Bash", command="x")), result())

    (closed,) = results(found)
    assert (closed.status, closed.synthetic, closed.line) == ("interrupted", True, 3)


def test_mcp_calls_have_names_and_titles() -> None:
    found = calls(events("mcp"))

    assert [(call.name, call.title) for call in found] == [
        ("mcp__fixture__echo", "Echo"),
        ("mcp__fixture__change_title", "Change Title"),
        ("mcp__fixture__fail", "Fail"),
        ("mcp__fixture__picture", "Picture"),
    ]


@pytest.mark.parametrize(("fixture", "line"), [("picture", 10), ("mcp", 37)])
def test_picture_is_stored_once_as_attachment(fixture: str, line: int) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    outputs = [one for raw in recording(fixture) for one in normalizer.feed(raw.data)]
    raw = orjson.loads(recording(fixture)[line - 1].data)  # type: ignore[arg-type]
    body = raw["message"]["content"][0]["content"][0]["source"]["data"]

    (piece,) = [one for one in outputs if isinstance(one, OutputChunk)]
    assert (piece.data, piece.mime_type) == (base64.b64decode(body), "image/png")
    (pictured,) = [one for one in outputs if isinstance(one, Produced) and one.event.line == line]
    assert body.encode() not in pictured.body
    assert isinstance(pictured.event, ToolResult)
    assert pictured.event.attachments is not None
    (attachment,) = pictured.event.attachments
    assert (attachment.output_id, attachment.bytes) == (piece.output_id, 70)


# -- denials ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "line"), [(V2, 14), (V1, 25)])
def test_denial_is_emitted_once(version: str, line: int) -> None:
    """2.1 states it on a line of its own and again in the `result`; 1.0 in the `result` alone."""
    found = events("denied", version)

    (response,), (denied,) = of(PermissionResponse, found), results(found)
    assert (response.line, response.outcome, response.by) == (line, "denied", "policy")
    assert response.call_id == response.permission_id == denied.call_id
    assert (denied.status, denied.is_error) == ("denied", False)
    assert "stdout" not in denied.output


def test_denied_call_without_result_closes_denied() -> None:
    denial = {"tool_name": "Write", "tool_use_id": "a", "tool_input": {}}
    found = read(init(), assistant(use("a", "Write")), result(permission_denials=[denial]))

    (closed,) = results(found)
    assert (closed.status, closed.synthetic) == ("denied", True)


# -- subagents --------------------------------------------------------------------------------------------------------


def test_subagent_calls_have_agent_and_parent() -> None:
    found = events("subagents-parallel")

    agents = {call.call_id: (call.agent, call.parent) for call in calls(found)}
    first, second = "toolu_01c86c6d0afbe34b8e9c9b2290", "toolu_01caa5a9d7154a4954957efec1"
    assert agents[first] == agents[second] == (None, None)
    assert agents["toolu_0115237693c5584f0299aabe58"] == ("a9ce45233075fe3af", second)
    assert agents["toolu_018f931129f68a445cb4b3a1d9"] == ("a0f54c909e02c9b1d", first)
    assert all((one.agent, one.parent) == agents[one.call_id] for one in results(found))


def test_spawning_call_is_agent_before_2_1() -> None:
    spawned = "toolu_0116ff1ef7b3e44de78190d3d3"
    inner = [call for call in calls(events("subagent", V1)) if call.parent is not None]

    assert [(call.name, call.agent, call.parent) for call in inner] == [
        ("Grep", spawned, spawned),
        ("Read", spawned, spawned),
    ]


def test_task_lines_update_their_call() -> None:
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


def test_async_agent_ends_with_notification() -> None:
    started, ended = (one for one in results(events("subagent-async")) if one.agent is None)

    assert (started.line, started.status, started.async_, started.final) == (17, "completed", True, False)
    assert (ended.line, ended.status, ended.async_, ended.final) == (38, "completed", False, True)
    assert started.call_id == ended.call_id
    assert ended.output["content"] == "greet is defined at src/app.py line 4."
    assert ended.duration_ms == 378


def test_notification_before_result_is_progress() -> None:
    """Lines 21 and 22: the notification, then the result of the same call."""
    found = events("subagents-parallel")

    assert [type(event) for event in found if event.line in (21, 22)] == [ToolUpdate, ToolResult]


def test_subagent_calls_close_before_agent() -> None:
    inner = assistant(use("b", "Read"), message_id="msg_2", parent_tool_use_id="a")
    found = read(init(), assistant(use("a", "Task")), inner, user(tool_result("a", "done")), result())

    assert [(one.call_id, one.status, one.agent) for one in results(found)] == [
        ("b", "interrupted", "a"),
        ("a", "completed", None),
    ]


# -- background work --------------------------------------------------------------------------------------------------


def test_background_exit_code_from_notification() -> None:
    started, ended, waited = results(events("background-shell"))

    assert (started.line, started.async_) == (14, True)
    assert (ended.line, ended.final, ended.status, ended.output["exit_code"]) == (25, True, "completed", 0)
    assert (waited.line, waited.final, waited.output["stdout"]) == (29, False, "waited")


def test_failed_background_command() -> None:
    acknowledged = user(tool_result("a", "Command running in background with ID: task."))
    summary = 'Background command "x" failed with exit code 3'
    ended = task("task_notification", tool_use_id="a", status="failed", summary=summary)
    found = read(init(), assistant(use("a", "Bash", command="x")), acknowledged, result(), ended)

    _, final = results(found)
    assert (final.status, final.final, final.turn, final.line) == ("failed", True, "t1", 5)
    assert (final.output["exit_code"], final.output["errorMessage"]) == (3, summary)


def test_unfinished_background_work_is_interrupted() -> None:
    lines = recording("background-shell", V1)[:20]
    *_, ended = results(normalize("claude-stream", lines, Context(stream="s")))

    assert (ended.name, ended.status, ended.final, ended.synthetic) == ("Bash", "interrupted", True, True)


def test_killed_background_command_is_cancelled() -> None:
    """1.0 states it only in the answer of `KillShell` (line 27)."""
    _, _, killer, killed = results(events("background-shell", V1))

    assert (killer.name, killer.line, killer.status) == ("KillShell", 27, "completed")
    assert (killed.name, killed.line, killed.status, killed.final) == ("Bash", 27, "cancelled", True)
    assert str(killed.output["errorMessage"]).startswith("Successfully killed shell: bdfb53")


def test_task_update_alone_ends_call() -> None:
    acknowledged = user(tool_result("a", [text("started")]), tool_use_result={"isAsync": True, "agentId": "task"})
    updated = task("task_updated", patch={"status": "killed"})
    begun = task("task_started", tool_use_id="a", description="look")
    found = read(init(), assistant(use("a", "Agent")), begun, acknowledged, result(), updated)

    _, final = results(found)
    assert (final.status, final.final, final.synthetic) == ("cancelled", True, True)


def test_task_report_opens_unseen_call() -> None:
    started = task("task_started", tool_use_id="a", task_type="local_agent", description="look", prompt="Look!")
    late = task("task_progress", tool_use_id="a", description="looking")
    found = read(init(), started, user(tool_result("a", "found")), late)

    (call,) = calls(found)
    assert (call.name, call.synthetic, call.input["prompt"]) == ("Task", True, "Look!")
    assert [update.line for update in of(ToolUpdate, found)] == [2]


def test_subagent_text_has_agent() -> None:
    found = of(Message, events("subagent-async"))

    assert [(one.text, one.agent) for one in found if one.agent] == [
        ("greet is defined at src/app.py line 4.", "ad0a7d162f9d16959")
    ]
