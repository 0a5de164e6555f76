"""Calls and subagents of Claude's transcripts."""

from typing import Any

from tests.normalizers.dialects.claude.transcripts import V1, V2, events, line, read, recording, said, turns
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Message,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)
from tooltap.testing import normalize

# -- calls --------------------------------------------------------------------------------------------------------


def test_twin_is_object_string_or_list() -> None:
    by_name = {
        result.name: result.output for result in of(ToolResult, events("interactive", "claude-code-2.1.220-written"))
    }
    old = {result.name: result.output for result in of(ToolResult, events("plan-mode", V1))}
    sides = {
        result.call_id: result.output
        for result in of(ToolResult, events("sidechains-and-torn-line", "claude-code-1.0.51-written"))
    }

    assert by_name["mcp__notes__find"]["_raw"]["tool_use_result"] == [{"type": "text", "text": "test_a"}]
    assert old["ExitPlanMode"]["errorMessage"] == "Exit plan mode?"  # the twin is "Error: Exit plan mode?"
    assert [match["filePath"] for match in sides["toolu_b"]["matches"]] == ["/home/user/project/b.py"]
    assert sides["toolu_a"]["_raw"]["tool_use_result"].startswith("- /home/user/project/")


def test_denial_precedes_its_result() -> None:
    found = events("denied")
    (response,) = of(PermissionResponse, found)
    (result,) = of(ToolResult, found)

    assert (response.outcome, response.by, response.call_id) == ("denied", "policy", result.call_id)
    assert (result.status, result.is_error) == ("denied", False)
    assert found.index(response) < found.index(result)


def test_picture_is_attachment() -> None:
    (result,) = of(ToolResult, events("picture"))

    assert result.attachments is not None
    assert [attachment.mime_type for attachment in result.attachments] == ["image/png"]


def test_killed_background_command_has_two_results() -> None:
    found = [result for result in of(ToolResult, events("background-shell", V1)) if result.name == "Bash"]

    assert [(result.status, result.async_, result.final) for result in found] == [
        ("completed", True, False),
        ("cancelled", False, True),
    ]


def test_task_notification_is_result() -> None:
    found = events("subagent-async")
    acknowledged, final = of(ToolResult, found)

    assert (acknowledged.async_, final.final, final.status) == (True, True, "completed")
    assert final.output["content"] == "greet is defined at src/app.py line 4."
    assert final.duration_ms == 378
    assert [message.text for message in of(Message, found) if message.role == "user"] == [
        "[[S12]] Use a subagent to find where greet is defined."
    ]
    assert [turn for turn, state, _, _ in turns(found) if state == "started"] == ["t1", "t2"]


def test_queued_task_notification_is_result() -> None:
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Bash",
        "input": {"command": "make", "run_in_background": True},
    }
    started = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Command running in background with ID: b1"}
    fields = "<task-id>b1</task-id>\n<status>failed</status>\n<summary>failed with exit code 2</summary>"
    prompt = f"<task-notification>\n{fields}\n</task-notification>"
    queued = {"type": "queued_command", "prompt": prompt, "commandMode": "task-notification"}
    found = read(
        said("assistant", call, uuid="u1"),
        said("user", started, uuid="u2", toolUseResult={"backgroundTaskId": "b1"}),
        line("attachment", "u3", attachment=queued),
    )
    acknowledged, final = of(ToolResult, found)

    assert (acknowledged.async_, final.final, final.status, final.output["exit_code"]) == (True, True, "failed", 2)
    assert of(Message, found) == []
    assert len(of(Turn, found)) == 2  # one turn, begun and ended


# -- subagents ----------------------------------------------------------------------------------------------------


def test_subagent_file_has_agent_and_root_session() -> None:
    found = events("subagent-async.agent")

    assert {event.agent for event in found} == {"ad0a7d162f9d16959"}
    assert {event.session for event in found} == {"2f40b229-18f4-43db-8092-c2cc387ac019"}
    assert [call.name for call in of(ToolCall, found)] == ["Grep", "Read"]
    assert not any(isinstance(event, Turn | SessionEvent) for event in found)


def test_publisher_states_parent() -> None:
    context = Context(stream="s", parent="toolu_01f4dfea411e7f4c22aef2c79d")
    found = normalize("claude-transcript", recording("subagent-async.agent", V2), context)

    assert {event.parent for event in found} == {"toolu_01f4dfea411e7f4c22aef2c79d"}


def test_messages_in_progress_lines_are_subagents() -> None:
    found = events("subagent-in-progress", "claude-code-2.1.39-written")
    inner = [event for event in found if event.agent == "a2898e3"]

    assert {event.parent for event in inner} == {"toolu_task"}
    assert {event.turn for event in inner} == {"t1"}
    assert [(call.call_id, call.name) for call in of(ToolCall, inner)] == [("toolu_g1", "Glob"), ("toolu_b1", "Bash")]
    assert [(result.call_id, result.status) for result in of(ToolResult, inner)] == [
        ("toolu_g1", "completed"),
        ("toolu_b1", "failed"),
    ]
    assert [(message.role, message.text) for message in of(Message, inner)] == [
        ("user", "Find the views."),
        ("assistant", "There are none."),
    ]
    # msg_sub1 continues after the result of its first call, and is counted once.
    assert [usage.output_tokens for usage in of(Usage, inner)] == [3, 5]
    assert inner[0].ts == 1770912124500  # the nested message's own time: 2026-02-12T16:02:04.500Z


def test_bash_progress_updates_call() -> None:
    (update,) = of(ToolUpdate, events("subagent-in-progress", "claude-code-2.1.39-written"))

    assert update.call_id == "toolu_b1"
    assert update.progress == {
        "text": "one.ex\n",
        "data": {"type": "bash_progress", "elapsedTimeSeconds": 2, "totalLines": 1},
    }


def test_sidechain_belongs_to_call_with_its_prompt() -> None:
    """Two of them, interleaved; results come in the other order than calls."""
    found = events("sidechains-and-torn-line", "claude-code-1.0.51-written")
    calls = {call.call_id: call for call in of(ToolCall, found)}

    assert (calls["toolu_a"].agent, calls["toolu_a"].parent) == ("toolu_t1", "toolu_t1")
    assert (calls["toolu_b"].agent, calls["toolu_b"].parent) == ("toolu_t2", "toolu_t2")
    assert calls["toolu_t1"].agent is None
    assert [result.call_id for result in of(ToolResult, found)] == ["toolu_a", "toolu_b", "toolu_t2", "toolu_t1"]
    assert [state for _, state, _, _ in turns(found)] == ["started", "completed"]


def test_equal_prompts_belong_to_different_calls() -> None:
    """A resumed session may repeat the beginning of one."""

    def spawn(call_id: str) -> dict[str, Any]:
        given = {"prompt": "Count.", "subagent_type": "x"}
        return said("assistant", {"type": "tool_use", "id": call_id, "name": "Task", "input": given}, uuid=call_id)

    def began(name: str) -> dict[str, Any]:
        return said("user", {"type": "text", "text": "Count."}, uuid=f"{name}1", isSidechain=True)

    def answered(name: str) -> dict[str, Any]:
        block = {"type": "text", "text": name}
        return said("assistant", block, uuid=f"{name}2", parentUuid=f"{name}1", isSidechain=True)

    found = read(spawn("t1"), spawn("t2"), began("a"), began("b"), began("a"), answered("b"), answered("a"))

    assert [(one.text, one.agent, one.parent) for one in of(Message, found) if one.role == "assistant"] == [
        ("b", "t2", "t2"),
        ("a", "t1", "t1"),
    ]
    later = read(spawn("t1"), began("a"), answered("a"), spawn("t2"), began("b"), answered("b"))
    assert [one.parent for one in of(Message, later) if one.role == "assistant"] == ["t1", "t2"]


def test_acknowledgement_names_the_subagent_of_its_call() -> None:
    """From 2.0 on; the subagent's lines may begin with something else than the prompt of the call."""
    spawned = {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"description": "Look"}}
    launched = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Async agent launched successfully."}
    text = {"type": "text", "text": "Looking."}
    found = read(
        said("assistant", spawned, uuid="u1"),
        said("user", launched, uuid="u2", toolUseResult={"isAsync": True, "agentId": "a1"}),
        said("assistant", text, uuid="u3", isSidechain=True, agentId="a1"),
    )

    assert [(one.agent, one.parent) for one in of(Message, found)] == [("a1", "toolu_1")]
