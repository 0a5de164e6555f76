"""What each agent adds to the protocol, or leaves out: names, lineage, methods, and results beside the content."""

from typing import Any

import msgspec
import pytest

from tests.normalizers.dialects.acp.helpers import (
    FIXTURES,
    SESSION,
    answers,
    asks,
    chunk,
    content,
    line,
    only,
    prompt,
    read,
    result_of,
    set_up,
    spoken,
    statistics,
    tool,
    tool_update,
    update,
    whole_input,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.dialects.acp.inputs import raw_name
from tooltap.normalizers.dialects.acp.parser import Acp, is_extension
from tooltap.protocol.events import (
    Event,
    Message,
    PermissionRequest,
    PermissionResponse,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)
from tooltap.testing import read_recording


def recorded(agent: str, name: str) -> list[Event]:
    return read(*read_recording((FIXTURES / agent / f"{name}.jsonl").read_bytes()))


def names(found: list[Event]) -> list[str]:
    return [call.name for call in of(ToolCall, found)]


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "kind", "raw", "expected"),
    [
        # Copilot CLI 1.0.102
        ("Viewing /ws/a.py", "read", {"path": "/ws/a.py"}, "view"),
        ("Creating /ws/a.py", "edit", {"path": "/ws/a.py", "file_text": "x"}, "create"),
        ("Searching for 'greet'", "read", {"pattern": "greet"}, "grep"),
        ("Finding files matching *.py", "read", {"pattern": "*.py"}, "glob"),
        ("Reading shell output", "read", {"shellId": "1", "delay": 5}, "read_bash"),
        ("Find greet", "other", {"prompt": "x", "agent_type": "explore"}, "task"),
        ("List", "other", {"description": "List", "query": "SELECT 1"}, "sql"),
        ("Start", "other", {"description": "Start", "query": "UPDATE a"}, "sql"),
        ("fixture-echo", "other", {"text": "hi"}, "fixture-echo"),
        ("Run", "execute", {"command": "ls", "description": "Run"}, "execute"),
        # Droid 0.215
        ("Grep greet", "search", {"pattern": "greet"}, "Grep"),
        ("Create /ws/a.py", "edit", {"file_path": "/ws/a.py", "content": "x"}, "Create"),
        ("`ls` (low)", "execute", {"command": "ls"}, "execute"),
        # Kimi Code 2.1: the first title
        ("Grep", "read", None, "Grep"),
        ("TodoList", "other", None, "TodoList"),
        # codex-acp 0.16.0
        ("Read a.py", "read", {"call_id": "1", "command": ["cat"], "parsed_cmd": []}, "exec_command"),
        ("Edit /ws/a.py", "edit", {"call_id": "1", "changes": {}}, "patch_apply"),
        ("Searching the Web", "fetch", None, "web_search"),
        # no names
        ("Done", "other", {"note": "Done"}, "other"),
        ("Thinking", "other", {"note": "a"}, "other"),
        ("ls", "execute", None, "execute"),
        ("Makefile", "read", None, "read"),
        ("Fetching https://a.b", "fetch", {"url": "https://a.b"}, "fetch"),
    ],
)
def test_name_of_a_tool(title: str, kind: str, raw: dict[str, Any] | None, expected: str) -> None:
    call = {"title": title, "kind": kind} if raw is None else {"title": title, "kind": kind, "rawInput": raw}
    assert raw_name(call, "call_1") == expected


def test_update_of_an_unknown_call_has_the_name_in_its_id() -> None:
    found = read(tool_update("read_file-1769335045695", status="completed", content=content("x")))
    call = only(ToolCall, found)
    assert (call.name, call.input["_happy"]["rawToolName"], call.synthetic) == ("Read", "read_file", True)


def test_call_that_only_its_kind_describes_learns_its_tool_from_the_input() -> None:
    found = read(
        tool("c", kind="read", title="Searching…", rawInput={}),
        tool_update("c", title="Searching for 'x'", rawInput={"pattern": "x"}, status="in_progress"),
    )
    assert [one.name for one in found if isinstance(one, ToolCall | ToolUpdate)] == ["Read", "Grep"]


def test_locations_name_the_file_that_the_input_does_not() -> None:
    """Copilot's permission request: `fileName` and a diff."""
    found = read(
        tool("c", kind="edit", title="Edit file", rawInput={"old_str": "a", "new_str": "b"}, locations=[{"path": "/a"}])
    )
    assert only(ToolCall, found).input["file_path"] == "/a"


# -- Copilot ---------------------------------------------------------------------------------------------------------


def test_copilots_queries_are_no_to_do_lists() -> None:
    found = recorded("copilot-1.0.102", "sql")
    assert names(found) == ["sql"] * 4


def test_copilots_subagent_has_the_call_that_spawned_it_as_parent() -> None:
    found = recorded("copilot-1.0.102", "subagent")
    task, *others = of(ToolCall, found)
    assert task.name == "Task"
    assert [(call.name, call.parent) for call in others] == [("Grep", task.call_id), ("Read", task.call_id)]
    assert len({call.agent for call in others} - {None}) == 1


def test_two_subagents_at_once_have_their_own_calls_but_no_invented_parent() -> None:
    def task(call_id: str) -> Any:
        return tool(call_id, kind="other", title="Look", rawInput={"prompt": "x", "agent_type": "explore"})

    def looks(call_id: str, agent: str) -> Any:
        meta = {"github.com/copilot": {"agentId": agent}}
        return tool(call_id, kind="read", title="x", rawInput={"path": "/a"}, _meta=meta)

    found = read(looks("c0", "main"), task("t1"), task("t2"), looks("c1", "a1"), looks("c2", "a2"))
    assert [(one.agent, one.parent) for one in of(ToolCall, found) if one.name == "Read"] == [
        (None, None),
        ("a1", None),
        ("a2", None),
    ]


def test_copilots_exit_code_is_a_mark_beside_the_text() -> None:
    mark = {"type": "shell_exit", "shellId": "0", "exitCode": 3, "outputPreview": "no\n"}
    text = "no\n<shellId: 0 completed with exit code 3>"
    found = read(
        *set_up("Copilot"),
        tool("c", kind="execute", title="Run", rawInput={"command": "false"}),
        tool_update("c", status="completed", content=content(text), rawOutput={"content": text, "contents": [mark]}),
    )
    result = only(ToolResult, found)
    assert (result.status, result.output["exit_code"], result.output["stdout"]) == ("failed", 3, "no\n")


@pytest.mark.parametrize(
    ("title", "kind", "raw_input", "ending", "status", "code"),
    [
        ("Reading shell output", "read", {"shellId": "b1", "delay": 5},
         {"contents": [{"type": "shell_exit", "shellId": "b1", "exitCode": 2, "outputPreview": "x"}]}, "failed", 2),
        ("Reading shell output", "read", {"shellId": "b1", "delay": 5},
         {"content": "x\n<shellId: b1 completed with exit code 0>"}, "completed", 0),
        ("Sending input to shell", "execute", {"shellId": "b1", "input": "q{enter}"},
         {"content": "x\n<command with id: b1 exited with exit code 0>"}, "completed", 0),
        ("Stopping shell session", "execute", {"shellId": "b1"},
         {"content": "<command with id: b1 stopped>"}, "cancelled", None),
    ],
)  # fmt: skip
def test_command_in_the_background_ends_when_its_shell_does(
    title: str, kind: str, raw_input: dict[str, Any], ending: dict[str, Any], status: str, code: int | None
) -> None:
    started = "<command started in background with shellId: b1>"
    found = read(
        *set_up("Copilot"),
        tool("c", kind="execute", title="Run", rawInput={"command": "x", "mode": "async"}),
        tool_update("c", status="completed", content=content(started), rawOutput={"content": started}),
        tool("r", kind=kind, title=title, rawInput=raw_input),
        tool_update("r", status="completed", content=content("x"), rawOutput={"content": "x", **ending}),
    )
    first, *_, last = of(ToolResult, found)
    assert (first.call_id, first.async_, last.call_id, last.final) == ("c", True, "c", True)
    assert (last.status, last.output.get("exit_code")) == (status, code)
    assert "Bash" not in names(found)[1:]


def test_copilots_background_agent_ends_with_its_report() -> None:
    """Texts of exported sessions in public repositories."""
    started = "Agent started in background with agent_id: look-1. You can use read_agent tool with this agent_id."
    report = "Agent completed. agent_id: look-1, agent_type: explore, status: completed, elapsed: 9s\n\nLine 4."
    found = read(
        *set_up("Copilot"),
        tool("c", kind="other", title="Look", rawInput={"prompt": "x", "agent_type": "explore", "mode": "background"}),
        tool_update("c", status="completed", content=content(started), rawOutput={"content": started}),
        tool("r", kind="read", title="Explore agent (Look)", rawInput={"agent_id": "look-1", "wait": True}),
        tool_update("r", status="completed", content=content(report), rawOutput={"content": report}),
    )
    first, other, last = of(ToolResult, found)
    assert (first.name, first.async_, other.name) == ("Task", True, "TaskOutput")
    assert (last.call_id, last.final, last.status, last.output["content"]) == ("c", True, "completed", "Line 4.")


# -- Qwen Code -------------------------------------------------------------------------------------------------------


def test_content_says_more_than_qwens_raw_output() -> None:
    found = recorded("qwen-0.24.4", "grep")
    assert len(only(ToolResult, found).output["matches"]) == 4


def test_qwens_subagent_is_stated() -> None:
    found = recorded("qwen-0.24.4", "subagent")
    task, *others = of(ToolCall, found)
    assert [(call.name, call.parent) for call in others] == [("Grep", task.call_id), ("Read", task.call_id)]
    assert result_of(found, others[1].call_id).output["file"]["content"].startswith("import sys")
    said = [message for message in of(Message, found) if message.parent == task.call_id]
    assert [message.text for message in said] == ["greet is defined at src/app.py line 4."]
    progress = [one.progress for one in of(ToolUpdate, found) if one.progress]
    assert [one["text"] for one in progress] == ["Grep: 'def greet'", "ReadFile: src/app.py"]


def test_qwens_denied_call_is_denied() -> None:
    assert only(ToolResult, recorded("qwen-0.24.4", "denied")).status == "denied"


def test_each_answer_of_qwens_model_is_a_message() -> None:
    found = recorded("qwen-0.24.4", "loop-stopped")
    assert [text for role, text in spoken(found) if role == "assistant"] == ["Updating the plan."] * 3
    assert of(Turn, found)[-1].state == "failed"
    steps = [one for one in of(Usage, found) if one.scope == "step"]
    assert {(one.input_tokens, one.output_tokens, one.cache_read_tokens) for one in steps} == {(1200, 42, 900)}


def test_qwens_proxy_is_the_tool_that_it_calls() -> None:
    proxy = {"toolName": "tool_call"}
    found = read(
        *set_up("qwen-code"),
        tool("c", title="ToolCall", kind="other", rawInput={}, _meta=proxy),
        tool_update("c", rawInput={"name": "web_fetch", "arguments": {"url": "http://a"}}, _meta=proxy),
        tool_update("c", status="failed", content=content("no"), _meta=proxy),
    )
    assert whole_input(found, "c")["url"] == "http://a"
    assert only(ToolResult, found).name == "WebFetch"


def test_qwens_background_command_that_is_stopped_is_cancelled() -> None:
    started = "Background shell started.\nid: bg_a0\npid: 27\noutput file: /t/shell-bg_a0.output"
    shell, stop = {"toolName": "run_shell_command"}, {"toolName": "task_stop"}
    given = {"command": "npm run watch", "is_background": True}
    found = read(
        *set_up("qwen-code"),
        tool("c", title="Shell", kind="execute", rawInput=given, _meta=shell),
        tool_update("c", status="completed", content=content(started), _meta=shell),
        tool("r", title="TaskStop", kind="other", rawInput={"task_id": "bg_a0"}, _meta=stop),
        tool_update("r", status="completed", content=content("Cancellation requested."), _meta=stop),
    )
    first, other, last = of(ToolResult, found)
    assert (first.async_, other.name, other.status) == (True, "TaskStop", "completed")
    assert (last.call_id, last.final, last.status) == ("c", True, "cancelled")


def test_qwens_shell_result_states_how_the_command_ended() -> None:
    raw = {"type": "shell_result", "output": "tick", "exitCode": 0, "signal": 15, "outcome": "cancelled"}
    found = read(
        *set_up("qwen-code"),
        tool("c", title="Shell", kind="execute", rawInput={"command": "x"}, _meta={"toolName": "run_shell_command"}),
        tool_update("c", status="failed", content=content("Discarded."), rawOutput=raw),
    )
    result = only(ToolResult, found)
    assert (result.status, result.output["stdout"], result.output["signal"]) == ("cancelled", "tick", "15")


def test_call_that_qwen_gave_up_before_it_ran_is_cancelled() -> None:
    meta = {"toolName": "edit", "preparationDiscarded": True}
    found = read(
        tool("c", kind="edit", rawInput={}, _meta={"toolName": "edit"}), tool_update("c", status="failed", _meta=meta)
    )
    assert only(ToolResult, found).status == "cancelled"


def test_call_whose_result_qwen_has_not_stored_was_interrupted() -> None:
    words = "Tool result missing from saved history; the previous run likely ended before this tool completed."
    found = read(
        *set_up("qwen-code"),
        tool("c", kind="execute", rawInput={"command": "x"}, _meta={"toolName": "run_shell_command"}),
        tool_update("c", status="failed", content=content(words), _meta={"toolName": "run_shell_command"}),
    )
    result = only(ToolResult, found)
    assert (result.status, result.output["errorMessage"]) == ("interrupted", words)


# -- Vibe, Kimi Code, Droid ------------------------------------------------------------------------------------------


def test_plan_that_repeats_a_call_is_shown_once() -> None:
    assert names(recorded("vibe-3.0.2", "todos")) == ["TodoWrite"] * 3


def test_plan_with_canonical_states_repeats_the_agents_own() -> None:
    """Kimi Code 2.1: `title` and `done` in the call, `content` and `completed` in the plan."""
    found = read(
        tool("c", title="TodoList", kind="other", rawInput={"todos": [{"title": "a", "status": "done"}]}),
        update("plan", entries=[{"content": "a", "status": "completed", "priority": "medium"}]),
    )
    assert names(found) == ["TodoWrite"]


def test_empty_plan_before_any_list_is_nothing() -> None:
    """Copilot CLI 1.0.102."""
    assert names(read(update("plan", entries=[]))) == []
    assert names(read(update("plan", entries=[{"content": "a"}]), update("plan", entries=[]))) == ["TodoWrite"] * 2


def test_arguments_that_kimi_streams_are_no_output() -> None:
    lines = read_recording((FIXTURES / "kimi-code-2.1.0" / "edit.jsonl").read_bytes())
    found = read(*lines, partials=True)
    assert [(call.name, call.title) for call in of(ToolCall, found)] == [("Read", "Read"), ("Edit", "Edit")]
    assert not [one for one in of(ToolUpdate, found) if one.chunk is not None]
    for call in of(ToolCall, found):
        assert whole_input(found, call.call_id)["file_path"].endswith("app.py")


def test_text_alone_in_droids_raw_output_is_the_answer() -> None:
    found = recorded("droid-0.215.0", "edit")
    assert names(found) == ["Read", "Edit"]
    assert of(ToolResult, found)[0].output["file"]["content"].startswith("import sys")


def test_text_that_says_less_than_the_raw_output_is_a_message() -> None:
    found = read(
        tool("c", kind="read", title="Read a", rawInput={"path": "/a"}),
        tool_update("c", status="completed", content=content("2 lines"), rawOutput={"text": "a\nb\n", "lines": 2}),
    )
    output = answer(only(ToolResult, found).output)
    assert (output["file"]["content"], output["message"]) == ("a\nb\n", "2 lines")


@pytest.mark.parametrize(("truncated", "stdout"), [(True, "…\n\nb\nc\n"), (False, "c\n")])
def test_opencodes_truncated_output_is_the_longer_one(truncated: bool, stdout: str) -> None:
    text = "…\n\nb\nc\n"
    raw = {"output": text, "metadata": {"output": "c\n", "exit": 0, "truncated": truncated}}
    found = read(
        *set_up("OpenCode"),
        tool("c", kind="execute", title="bash", rawInput={}),
        tool_update("c", status="completed", rawOutput=raw, content=content(text)),
    )
    assert only(ToolResult, found).output["stdout"] == stdout


# -- Codex' adapters -------------------------------------------------------------------------------------------------


def test_shell_call_of_codex_is_one_whatever_the_command_does() -> None:
    found = recorded("codex-acp-zed-0.16.0", "search")
    call, result = only(ToolCall, found), only(ToolResult, found)
    assert (call.name, call.input["command"], result.status) == ("Bash", "rg -n 'greet' .", "failed")
    assert set(answer(result.output)) == {"stdout", "stderr", "exit_code"}
    assert not {"call_id", "turn_id", "started_at_ms"} & set(call.input)


def test_review_by_codexs_guardian_is_a_permission_and_no_reasoning() -> None:
    found = recorded("codex-acp-2.6.0", "reviewed")
    reviews = [call for call in of(ToolCall, found) if call.name == "guardian_assessment"]
    assert reviews
    assert "Reasoning" not in names(found)
    assert {result_of(found, call.call_id).status for call in reviews} == {"failed"}
    requests, responses = of(PermissionRequest, found), of(PermissionResponse, found)
    assert [one.permission_id for one in requests] == [one.permission_id for one in responses]
    assert len(requests) == len(reviews)
    assert {one.by for one in responses} == {"agent"}


# -- extensions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "expected"),
    [("craft/drain", True), ("_x", True), ("_auth/y", True), ("qwen/notify/session/a", True),
     ("session/brand_new", False), ("fs/brand_new", False), ("brand_new", False)],
)  # fmt: skip
def test_form_of_an_extension(method: str, expected: bool) -> None:
    assert is_extension(method) is expected


def test_extensions_are_skipped_and_counted_by_name() -> None:
    counted = statistics(
        asks(7, "craft/drain", side="out", sessionId=SESSION),
        line("in", id=7, error={"code": -32601, "message": "Method not found"}),
        asks(8, "_vendor/x", sessionId=SESSION),
        answers(8, anything=1),
        line("out", method="qwen/notify/news", params={}),
    )
    assert (counted.skipped, counted.unparsed, counted.events) == ({"extension": 5}, 0, 0)
    assert counted.extensions == {"craft/drain": 1, "_vendor/x": 1, "qwen/notify/news": 1}


def test_refused_extension_fails_no_turn() -> None:
    found = read(
        prompt(3),
        asks(7, "craft/drain", side="out", sessionId=SESSION),
        line("in", id=7, error={"code": -32601, "message": "Method not found"}),
        answers(3, stopReason="end_turn"),
    )
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


@pytest.mark.parametrize(
    "result",
    [
        {"messages": ["And lint.", " "]},
        {"items": [{"content": [{"type": "text", "text": "And lint."}]}, {"content": []}], "hasQueuedPrompt": False},
    ],
)
def test_what_the_user_typed_during_the_turn_is_a_message(result: dict[str, Any]) -> None:
    """Both forms of the answer that Qwen Code reads (`parseMidTurnDrainResponse` in its `Session.ts`)."""
    found = read(
        prompt(3),
        asks(7, "craft/drainMidTurnQueue", side="out", sessionId=SESSION),
        line("in", id=7, result=result),
        answers(3, stopReason="end_turn"),
    )

    assert [(one.role, one.text, one.turn) for one in of(Message, found)][1:] == [("user", "And lint.", "t1")]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_elicitation_without_a_direction_is_the_agents() -> None:
    asked = {"method": "session/elicitation", "params": {"sessionId": SESSION, "message": "Which?"}}
    found = read(line(None, id=5, **asked), line(None, id=5, result={"action": "decline"}))
    assert only(PermissionResponse, found).outcome == "denied"


def test_newest_request_of_an_id_is_answered_first() -> None:
    """Kimi Code 2.1 requests files of the client, which number their requests alike; no direction is known."""
    missing = {"code": -32002, "message": "Resource not found: /ws/AGENTS.md"}
    found = read(
        line(None, id=3, method="session/prompt", params={"sessionId": SESSION, "prompt": []}),
        line(None, id=3, method="fs/read_text_file", params={"sessionId": SESSION, "path": "/ws/AGENTS.md"}),
        line(None, id=3, error=missing),
        line(None, id=3, result={"stopReason": "end_turn"}),
    )
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


# -- statuses and memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "raw", "expected"),
    [
        ("cancelled", None, "cancelled"),
        ("canceled", None, "cancelled"),
        ("rejected", None, "denied"),
        ("error", "it broke", "failed"),
        ("failed", "The user rejected permission to use this specific tool call.", "denied"),
        ("failed", "Tool call was cancelled by the user", "cancelled"),
        ("completed", {"success": False, "message": "no"}, "failed"),
        ("completed", {"isError": True, "message": "no"}, "failed"),
    ],
)
def test_status_of_a_result(status: str, raw: Any, expected: str) -> None:
    found = read(
        tool("c", kind="read", title="a", rawInput={"path": "/a"}), tool_update("c", status=status, rawOutput=raw)
    )
    assert only(ToolResult, found).status == expected


def test_call_shown_after_its_result_is_not_remembered() -> None:
    parser = Acp(Context(stream="s"))
    for one in (tool_update("c", status="completed"), tool("c", kind="read", title="a", rawInput={"path": "/a"})):
        assert isinstance(one.data, bytes)
        parser.feed(one.data, direction=one.direction)
    assert (parser.state.calls.memory_bytes, parser.state.calls.remembered) == (0, {})


def test_lineage_survives_a_restart() -> None:
    meta = {"github.com/copilot": {"agentId": "a1"}}
    lines = [
        *set_up("Copilot"),
        tool("t", kind="other", title="Look", rawInput={"prompt": "x", "agent_type": "explore"}),
        tool("c", kind="read", title="Viewing /a", rawInput={"path": "/a"}, _meta=meta),
        tool("d", kind="read", title="Viewing /b", rawInput={"path": "/b"}, _meta=meta),
        chunk("x"),
    ]
    parser = Acp(Context(stream="s"))
    parents: list[str | None] = []
    for one in lines:
        parser = Acp.load(parser.dump(), Context(stream="s"))
        assert isinstance(one.data, bytes)
        _, items = parser.feed(one.data, direction=one.direction)
        shown = [item for item in items if isinstance(item, Produced) and item.kind == "tool-call"]
        parents += [msgspec.json.decode(item.body).get("parent") for item in shown]
    assert parents == [None, "t", "t"]


def agents_call(call_id: str, title: str, states: dict[str, Any]) -> tuple[Any, Any]:
    """Lines of a call that starts, waits for or closes agents, in the form of codex-acp's public source."""
    given: dict[str, Any] = {"prompt": None, "senderThreadId": "t1", "receiverThreadIds": list(states)}
    begun: dict[str, Any] = {**given, "agentsStates": {}, "status": "inProgress"}
    ended = {**given, "agentsStates": states, "status": "completed"}
    return (
        tool(call_id, kind="other", title=title, status="in_progress", rawInput=begun),
        tool_update(call_id, title=title, status="completed", rawInput=ended),
    )


@pytest.mark.parametrize(
    ("title", "name", "state", "status"),
    [
        ("wait", "TaskOutput", {"status": "completed", "message": "Line 4."}, "completed"),
        ("wait", "TaskOutput", {"status": "errored", "message": "No quota."}, "failed"),
        ("closeAgent", "TaskStop", {"status": "running", "message": None}, "cancelled"),
    ],
)
def test_codex_agent_ends_as_its_state_says(title: str, name: str, state: dict[str, Any], status: str) -> None:
    found = read(
        *set_up("codex-acp"),
        *agents_call("c1", "spawnAgent", {"t2": {"status": "pendingInit", "message": None}}),
        *agents_call("c2", title, {"t2": state}),
    )
    first, other, last = of(ToolResult, found)
    assert (first.name, first.async_, other.name, other.status) == ("Task", True, name, "completed")
    assert (last.call_id, last.final, last.status) == ("c1", True, status)


def test_codex_agent_that_still_works_runs_on() -> None:
    running = {"status": "running", "message": None}
    found = read(
        *set_up("codex-acp"),
        *agents_call("c1", "spawnAgent", {"t2": {"status": "pendingInit", "message": None}}),
        *agents_call("c2", "wait", {"t2": running}),
    )
    *_, last = of(ToolResult, found)
    assert (last.call_id, last.status, last.synthetic) == ("c1", "interrupted", True)
