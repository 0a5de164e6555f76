"""OpenCode's event stream and the requests beside it: tools, permissions, subagents."""

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.opencode.helpers import (
    CHILD,
    SESSION,
    USER,
    bus,
    event,
    fixture,
    idle,
    message,
    part,
    read_bus,
    request,
    tool,
)
from tests.normalizers.reading import answer, lines_of, of, outline
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import PermissionRequest, PermissionResponse, ToolCall, ToolResult, ToolUpdate
from tooltap.testing import Line

# -- tools ------------------------------------------------------------------------------------------------------------


def test_command_with_its_permission() -> None:
    found = bus("shell")
    (call,), (result,) = of(ToolCall, found), of(ToolResult, found)

    assert (call.status, answer(call.input)) == ("pending", {})
    given = next(one.input for one in of(ToolUpdate, found) if one.input is not None)
    assert given["command"] == "echo hello from shell; ls src; git status --short"
    assert [one.status for one in of(ToolUpdate, found)] == ["running", "awaiting-permission", "running"]
    assert answer(result.output) == {"stdout": "hello from shell\napp.py\nutil.py\n", "exit_code": 0}
    assert result.duration_ms == 1795294724565 - 1795294724306


def test_running_output_is_partial() -> None:
    def printed(text: str) -> dict[str, Any]:
        return tool("bash", "c1", status="running", input={"command": "x"}, metadata={"output": text})

    normalizer = StreamNormalizer(Context(stream="s", partials=True), "opencode-bus")
    lines = lines_of((printed("one\n"), printed("one\ntwo\n"), printed("one\ntwo\n")))
    found: list[Any] = [out.event for line in lines for out in normalizer.feed(line.data)]  # type: ignore[union-attr]
    chunks = [one.chunk for one in of(ToolUpdate, found) if one.chunk is not None]

    assert [(one.text, one.offset) for one in chunks] == [("one\n", 0), ("two\n", 4)]


def test_tools_that_could_not_run_have_failed() -> None:
    results = of(ToolResult, bus("tool-errors"))

    assert [(one.name, one.status) for one in results] == [
        ("Edit", "failed"),
        ("no_such_tool", "failed"),
        ("Read", "failed"),
    ]
    assert results[0].output["errorMessage"].startswith("Could not find oldString in the file.")
    assert results[1].output["errorMessage"].startswith("Model tried to call unavailable tool 'no_such_tool'.")


def test_pictures_are_attached() -> None:
    (result,) = of(ToolResult, bus("picture"))

    assert [(one.mime_type, one.bytes) for one in result.attachments or []] == [("image/png", 70)]
    assert b"iVBORw0KGgo" not in orjson.dumps(result.output)
    assert result.output["message"] == "Image read successfully"
    assert "file" not in result.output


def test_mcp_tools_of_a_known_server() -> None:
    names = ["fixture_echo", "fixture_change_title", "fixture_fail", "fixture_picture"]
    split = [name.replace("fixture_", "mcp__fixture__", 1) for name in names]
    call = tool("fixture_echo", "c1", status="running", input={"text": "hi"})

    assert [one.name for one in of(ToolCall, bus("mcp"))] == names
    assert [one.name for one in of(ToolCall, fixture("opencode-bus", "mcp", mcp_servers=("fixture",)))] == split
    announced = {"type": "mcp.tools.changed", "properties": {"server": "fixture"}}
    assert [one.name for one in of(ToolCall, read_bus(announced, call))] == split[:1]


@pytest.mark.parametrize(
    "line",
    [
        Line(b'{"fixture": {"status": "connected"}, "other": {"status": "failed", "error": "x"}}', None, "reply"),
        Line(b'{"mcp": {"fixture": {"type": "local"}, "off": {"enabled": false}}}', None, "reply"),
        request("/mcp", name="fixture", config={}),
    ],
)
def test_server_may_be_named_by_a_request_or_its_reply(line: Line) -> None:
    call = tool("fixture_echo", "c1", status="running", input={"text": "hi"})

    assert [one.name for one in of(ToolCall, read_bus(line, call))] == ["mcp__fixture__echo"]


def test_todo_list_may_come_before_the_input_of_its_call() -> None:
    todos = [{"content": "Read", "status": "pending", "priority": "high"}]
    found = read_bus(
        tool("todowrite", "c1", status="pending", input={}, raw=""),
        event("todo.updated", todos=todos),
        tool("todowrite", "c1", status="running", input={"todos": todos}),
        tool("todowrite", "c1", status="completed", input={"todos": todos}, output="[]", metadata={"todos": todos}),
        event("todo.updated", todos=todos),
    )

    assert [one.call_id for one in of(ToolCall, found)] == ["c1"]
    assert [one.call_id for one in of(ToolResult, found)] == ["c1"]


def test_todo_list_without_a_call_is_a_synthetic_call() -> None:
    todos = [{"content": "Read", "status": "pending", "priority": "high"}]
    called = tool("todowrite", "c1", status="running", input={"todos": todos})
    told = event("todo.updated", todos=todos)

    assert [one.call_id for one in of(ToolCall, read_bus(called, told))] == ["c1"]
    (plan,) = of(ToolCall, read_bus(told, told))
    assert (plan.call_id, plan.name, plan.synthetic, plan.input["todos"]) == ("plan-1", "TodoWrite", True, todos)


def test_changes_of_a_turn_are_one_diff() -> None:
    found = bus("write")
    (diff,) = [one for one in of(ToolCall, found) if one.name == "Diff"]

    assert diff.input["unified_diff"].endswith("@@ -0,0 +1,4 @@\n+# Notes\n+\n+- first\n+- second\n")
    assert outline(found)[-4:] == ["tool-call Diff", "tool-result Diff completed", "turn completed", "usage"]


# -- permissions and questions ----------------------------------------------------------------------------------------


def test_denied_command() -> None:
    found = bus("denied")
    (asked,), (answered,) = of(PermissionRequest, found), of(PermissionResponse, found)
    (result,) = of(ToolResult, found)

    assert (asked.call_id, asked.name) == (result.call_id, "Bash")
    assert (asked.input or {})["metadata"] == {"command": "rm README.md"}
    assert [one["kind"] for one in asked.options or []] == ["allow_once", "allow_always", "reject_once"]
    assert (answered.outcome, answered.option_id, answered.by) == ("denied", "reject", "user")
    assert (result.status, result.is_error) == ("denied", False)
    assert result.output["errorMessage"] == "The user rejected permission to use this specific tool call."


def test_question_is_answered_once() -> None:
    found = bus("question")
    (asked,), (answered,) = of(PermissionRequest, found), of(PermissionResponse, found)

    assert (asked.type, asked.name) == ("question", "AskUserQuestion")
    assert [one["question"] for one in asked.questions or []] == ["Which database?"]
    assert (answered.outcome, answered.answers) == ("answered", {"Which database?": "SQLite"})
    assert of(ToolResult, found)[0].output["answers"] == {"Which database?": "SQLite"}


def test_permission_request_opens_an_unknown_call() -> None:
    found = read_bus(
        event("permission.asked", id="per_1", permission="edit", metadata={"filepath": "a"}, tool={"callID": "c1"}),
        tool("write", "c1", status="running", input={"filePath": "a", "content": "x"}),
    )

    (call,) = of(ToolCall, found)
    assert (call.call_id, call.synthetic) == ("c1", False)
    last = of(ToolUpdate, found)[-1]
    assert (last.name, (last.input or {})["_happy"]["rawToolName"]) == ("Write", "write")
    assert of(PermissionResponse, found)[-1].outcome == "expired"


@pytest.mark.parametrize(
    "reply", [{"requestID": "per_1", "reply": "always"}, {"permissionID": "per_1", "response": "always"}]
)
def test_permissions_of_older_and_newer_streams(reply: dict[str, str]) -> None:
    asked = event(
        "permission.updated", id="per_1", type="bash", pattern="ls *", callID="c1", title="ls src", metadata={}
    )
    found = read_bus(
        tool("bash", "c1", status="running", input={"command": "ls src"}), asked, event("permission.replied", **reply)
    )

    assert [(one.call_id, one.title) for one in of(PermissionRequest, found)] == [("c1", "ls src")]
    assert [(one.outcome, one.option_id) for one in of(PermissionResponse, found)] == [("allowed", "always")]


# -- subagents --------------------------------------------------------------------------------------------------------


def test_subagent_session_belongs_to_its_root() -> None:
    child = {"id": CHILD, "parentID": SESSION, "title": "Look (@explore subagent)"}
    task = {"description": "Look", "prompt": "Look around.", "subagent_type": "explore"}
    spawned = tool("task", "c1", status="running", input=task, metadata={"sessionId": CHILD})
    found = read_bus(
        *USER,
        tool("task", "c1", status="running", input=task),
        event("session.created", CHILD, info=child),
        spawned,
        message("msg_c", "user", CHILD),
        part("text", "prt_c", "msg_c", CHILD, text="Look around."),
        tool("read", "c2", CHILD, status="running", input={"filePath": "a"}),
        tool("read", "c2", CHILD, status="completed", input={"filePath": "a"}, output="x"),
        part("step-finish", "prt_s", "msg_d", CHILD, reason="stop", tokens={"input": 5, "output": 1}),
        idle(CHILD),
        tool("task", "c1", status="completed", input=task, output="Found."),
        idle(),
    )

    inner = [one for one in found if one.agent is not None]
    assert outline(inner) == ["message user", "tool-call Read", "tool-result Read completed", "usage"]
    assert {(one.session, one.agent, one.parent, one.turn) for one in inner} == {(SESSION, CHILD, "c1", "t1")}
    assert outline(found)[-2:] == ["tool-result Task completed", "turn completed"]
    assert {one.session for one in found} == {SESSION}


def test_answer_belongs_to_the_subagent_that_asked() -> None:
    found = read_bus(
        *USER,
        tool("task", "c1", status="running", input={"prompt": "x"}, metadata={"sessionId": CHILD}),
        tool("bash", "c2", CHILD, status="running", input={"command": "ls"}),
        event("permission.asked", CHILD, id="per_1", permission="bash", tool={"callID": "c2"}),
        request("/permission/per_1/reply", reply="once"),
        event("permission.replied", CHILD, requestID="per_1", reply="once"),
    )

    assert [(one.agent, one.parent) for one in of(PermissionRequest, found)] == [(CHILD, "c1")]
    assert [(one.agent, one.parent) for one in of(PermissionResponse, found)] == [(CHILD, "c1")]
