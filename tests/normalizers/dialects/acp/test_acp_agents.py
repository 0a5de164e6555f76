"""The same work by four ACP agents: the same calls, statuses and results, as far as the wire states them."""

from typing import Any

import pytest

from tests.normalizers.dialects.acp.helpers import (
    AGENTS,
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    agents_side,
    answers,
    chunk,
    content,
    events,
    named,
    only,
    prompt,
    read,
    recording,
    result_of,
    set_up,
    statistics,
    tool,
    tool_update,
    update,
    whole_input,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Message, Notice, PermissionRequest, PermissionResponse, ToolCall, ToolResult

FAILING = "echo partial output; echo 'boom: something broke' >&2; exit 3"


# -- the same work by different agents ---------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_failing_command_of_each_agent(agent: str) -> None:
    found = events(agent, "shell-fails")

    call, result = only(ToolCall, found), only(ToolResult, found)
    assert (call.name, result.name) == ("Bash", "Bash")
    assert whole_input(found, call.call_id)["command"] == FAILING


@pytest.mark.parametrize(
    ("agent", "output"),
    [
        (CLAUDE, {"stdout": "partial output\nboom: something broke", "exit_code": 3, "errorMessage": "Exit code 3"}),
        (CODEX, {"stdout": "partial output\nboom: something broke\n", "exit_code": 3}),
        (OPENCODE, {"stdout": "partial output\nboom: something broke\n", "exit_code": 3, "truncated": False}),
    ],
)
def test_stated_exit_code_fails_a_completed_command(agent: str, output: dict[str, Any]) -> None:
    result = only(ToolResult, events(agent, "shell-fails"))

    assert (result.status, result.is_error) == ("failed", True)
    assert answer(result.output) == output


def test_gemini_omits_output_and_exit_code() -> None:
    result = only(ToolResult, events(GEMINI, "shell-fails"))

    assert (result.status, result.is_error) == ("completed", False)
    assert answer(result.output) == {}
    assert result.assistant_view == "unknown"


@pytest.mark.parametrize("agent", AGENTS)
def test_stopped_command_is_cancelled_with_its_output(agent: str) -> None:
    result = only(ToolResult, events(agent, "interrupted"))

    assert (result.status, result.is_error) == ("cancelled", False)
    stdout = {GEMINI: "tick 1\ntick 2\ntick 3\ntick 4\ntick 5\ntick 6", OPENCODE: "tick 1\ntick 2\ntick 3\ntick 4\n"}
    stdout[CODEX] = "tick 2\ntick 3\ntick 4\ntick 5\n"  # the first tick is not on the wire
    assert result.output.get("stdout") == stdout.get(agent)
    words = {GEMINI: "Command cancelled by user.", OPENCODE: "User aborted the command", CODEX: None}
    if agent in words:
        assert result.output.get("errorMessage") == words[agent]
    assert result.synthetic == (agent == CODEX)


def test_output_after_the_turn_is_a_late_update() -> None:
    assert statistics(*recording(CODEX, "interrupted")).skipped["late-update"] == 1


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        (CLAUDE, "User refused permission to run tool"),
        (OPENCODE, "The user rejected permission to use this specific tool call."),
        (GEMINI, None),  # no update at all
    ],
)
def test_refused_call_is_denied(agent: str, error: str | None) -> None:
    found = events(agent, "denied")

    asked, answered, result = only(PermissionRequest, found), only(PermissionResponse, found), only(ToolResult, found)
    assert (asked.permission_id, asked.call_id, asked.name) == ("0", result.call_id, "Bash")
    assert (answered.permission_id, answered.outcome, answered.by) == ("0", "denied", "user")
    assert (result.status, result.is_error, result.output.get("errorMessage")) == ("denied", False, error)
    assert result.synthetic == (agent == GEMINI)


def test_opencode_refusal_without_the_clients_side() -> None:
    found = read(*agents_side(recording(OPENCODE, "denied")))

    assert only(PermissionResponse, found).outcome == "expired"
    assert only(ToolResult, found).status == "denied"


@pytest.mark.parametrize("agent", AGENTS)
def test_edit_of_each_agent(agent: str) -> None:
    found = events(agent, "edit")

    edit = of(ToolCall, found)[-1]
    given = whole_input(found, edit.call_id)
    assert edit.name == "Edit"
    assert given["file_path"] == "/tmp/ws/src/app.py"
    assert '"Hello, "' in given["old_string"]
    assert given["new_string"] == given["old_string"].replace("Hello", "Howdy")
    assert result_of(found, edit.call_id).status == "completed"


@pytest.mark.parametrize("agent", [GEMINI, OPENCODE, CODEX])
def test_mcp_tools_of_an_announced_server(agent: str) -> None:
    found = events(agent, "mcp")

    assert [call.name for call in of(ToolCall, found)] == [
        "mcp__fixture__echo",
        "mcp__fixture__change_title",
        "mcp__fixture__fail",
        "mcp__fixture__picture",
    ]
    inputs = [whole_input(found, call.call_id) for call in of(ToolCall, found)]
    assert [next(iter(one.items())) for one in inputs] == [
        ("text", "hi there"),
        ("title", "Demo title"),
        ("reason", "testing"),
        ("name", "p"),
    ]
    answered = of(ToolResult, found)
    assert [one.status for one in answered] == ["completed", "completed", "failed", "completed"]
    assert answered[0].output["text"] == "echo: hi there"
    assert "failed: testing" in answered[2].output["errorMessage"]


def test_mcp_tools_of_an_unknown_server_keep_their_names() -> None:
    alone = agents_side(recording(OPENCODE, "mcp"))

    assert named(read(*alone))[0] == ("fixture_echo", "fixture_echo")
    published = Context(stream="s", mcp_servers=("fixture",))
    assert named(read(*alone, context=published))[0] == ("fixture_echo", "mcp__fixture__echo")


@pytest.mark.parametrize(("agent", "lists"), [(CLAUDE, 3), (CODEX, 3), (OPENCODE, 3)])
def test_plan_is_a_todo_list(agent: str, lists: int) -> None:
    found = events(agent, "todos")

    calls = of(ToolCall, found)
    assert [call.name for call in calls] == ["TodoWrite"] * lists
    last = whole_input(found, calls[-1].call_id)["todos"]
    assert [item["status"] for item in last] == ["completed"] * 3
    assert [item["content"] for item in last] == ["Read the code", "Edit the greeting", "Run the tests"]
    if agent != OPENCODE:
        assert [(call.call_id, call.synthetic) for call in calls] == [(f"plan-{n}", True) for n in (1, 2, 3)]


def test_plan_that_repeats_a_call_is_skipped() -> None:
    todos = [{"content": "a", "status": "pending", "priority": "high"}]
    lines = [
        tool("c1", title="todowrite", kind="other", rawInput={}),
        tool_update("c1", status="completed", rawInput={"todos": todos}),
        update("plan", entries=todos),
        update("plan", entries=[{**todos[0], "status": "completed"}]),
    ]

    assert [call.call_id for call in of(ToolCall, read(*lines))] == ["c1", "plan-1"]
    assert statistics(*lines).skipped["unchanged"] == 1


def test_picture_is_stored_once() -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "acp")
    outputs = [out for one in recording(CLAUDE, "picture") for out in normalizer.feed(one.data, None, one.direction)]

    pieces = [one for one in outputs if isinstance(one, OutputChunk)]
    (result,) = [one for one in outputs if not isinstance(one, OutputChunk) and isinstance(one.event, ToolResult)]
    assert [len(piece.data) for piece in pieces] == [70]
    assert isinstance(result.event, ToolResult)
    assert result.event.attachments is not None
    assert [one.output_id for one in result.event.attachments] == [pieces[0].output_id]
    assert b"iVBORw0KGgo" not in result.body


def test_link_in_a_result_stays_a_link() -> None:
    result = only(ToolResult, events(CODEX, "picture"))

    assert result.attachments is not None
    assert [(one.uri, one.name) for one in result.attachments] == [("/tmp/ws/logo.png", "/tmp/ws/logo.png")]


def test_gemini_note_for_the_user_is_a_message() -> None:
    result = only(ToolResult, events(GEMINI, "picture"))

    assert answer(result.output) == {"message": "Read image file: logo.png"}
    assert result.assistant_view == "unknown"


def test_command_that_gemini_does_not_run_is_denied() -> None:
    """Gemini CLI 0.61 (`shell.ts`) states that it completed."""
    words = "Blocked: command substitution detected in shell command."
    call = tool("run_shell_command-1", kind="execute", title="echo $(id)", status="in_progress")
    over = tool_update("run_shell_command-1", status="completed", content=content(words))

    result = only(ToolResult, read(*set_up(), prompt(), call, over))

    assert (result.name, result.status) == ("Bash", "denied")
    assert answer(result.output) == {"errorMessage": words}


def test_task_result_is_the_reported_text() -> None:
    found = events(OPENCODE, "subagent")

    call = only(ToolCall, found)
    assert call.name == "Task"
    assert whole_input(found, call.call_id)["subagent_type"] == "general"
    assert answer(only(ToolResult, found).output) == {
        "content": "greet is defined at src/app.py line 4.",
        "sessionId": "ses_e001c9ae7ffeBFRRYT9r6DIp8f",
    }


def test_opencode_read_has_the_file_and_its_lines() -> None:
    read_result = of(ToolResult, events(OPENCODE, "edit"))[0]

    file = answer(read_result.output)["file"]
    assert file["content"].startswith("import sys\n")
    assert (file["filePath"], file["startLine"], file["numLines"], file["totalLines"]) == (
        "/tmp/ws/src/app.py",
        1,
        15,
        15,
    )


def test_failure_without_a_message() -> None:
    result = only(ToolResult, events(CODEX, "write-fails"))

    assert (result.name, result.status, answer(result.output)) == ("Write", "failed", {})


def test_refusal_by_the_classifier_is_denied() -> None:
    """claude-agent-acp 0.101 in its default mode: the reason is first where the tool's own result would be, and then
    repeated as if it were the result."""
    reason = "Auto mode could not evaluate this action and is blocking it for safety"
    decision = {"decisionReasonType": "classifier", "decisionReason": reason, "message": f"{reason}. Try it again."}
    meta = {"claudeCode": {"toolName": "Bash", "toolResponse": decision}}
    late = {"claudeCode": {"toolName": "Bash", "nonExecutionKind": "automode-parsing-error"}}
    found = read(
        *set_up("@agentclientprotocol/claude-agent-acp"),
        prompt(),
        tool("c1", kind="execute", rawInput={"command": "ls"}, _meta={"claudeCode": {"toolName": "Bash"}}),
        tool_update("c1", status="failed", content=content(f"Permission denied: {reason}"), _meta=meta),
        tool_update("c1", rawOutput=decision["message"], content=content(decision["message"]), _meta=late),
    )
    result = only(ToolResult, found)

    assert (result.status, result.is_error) == ("denied", False)
    assert answer(result.output) == {"errorMessage": decision["message"]}
    response = only(PermissionResponse, found)
    assert (response.call_id, response.outcome, response.by) == ("c1", "denied", "policy")


def test_words_of_the_bridge_are_a_notice() -> None:
    """claude-agent-acp 0.101; they come in the middle of what the model says."""
    report = {"claudeCode": {"kind": "informational", "level": "warning"}}
    found = read(
        *set_up("@agentclientprotocol/claude-agent-acp"),
        prompt(),
        chunk("One "),
        chunk("**Warning:** it is billed as before.", _meta=report),
        chunk("two."),
        answers(3, stopReason="end_turn"),
    )

    assert [one.text for one in of(Message, found) if one.role == "assistant"] == ["One two."]
    notice = only(Notice, found)
    assert (notice.level, notice.code, notice.text) == (
        "warning",
        "informational",
        "**Warning:** it is billed as before.",
    )
