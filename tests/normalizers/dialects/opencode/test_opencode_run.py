"""The dialect of `opencode run --format json`."""

from typing import Any

import pytest

from tests.normalizers.dialects.opencode.helpers import NOW, SESSION, fixture
from tests.normalizers.reading import answer, lines_of, of, outline, read, statistics
from tooltap.protocol.events import Event, Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed, Usage


def run(name: str) -> list[Event]:
    return fixture("opencode-run", name)


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": NOW, "sessionID": SESSION, **fields}


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return line(kind, part={"messageID": "msg_1", "sessionID": SESSION, **fields})


def tool(name: str, call_id: str, **state: Any) -> dict[str, Any]:
    return part("tool_use", id=f"prt_{call_id}", type="tool", tool=name, callID=call_id, state=state)


STEP = part("step_start", id="prt_0", type="step-start")


def step_finish(reason: str | None, tokens: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return part("step_finish", id="prt_9", type="step-finish", reason=reason, tokens=tokens, **fields)


# -- turns ------------------------------------------------------------------------------------------------------------


def test_run_is_one_turn() -> None:
    found = run("failing-shell")

    assert outline(found) == [
        "turn started",
        "tool-call Bash",
        "tool-result Bash failed",
        "usage",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert {event.session for event in found} == {"ses_e00229778ffeVRCGqCAZzOR424"}
    assert {event.turn for event in found} == {"t1"}
    assert of(Turn, found)[1].reason == "stop"


def test_stream_without_an_end_cancels_the_turn() -> None:
    denied = tool("bash", "c1", status="error", input={"command": "rm x"}, error=REJECTED)
    found = read("opencode-run", STEP, denied, step_finish("tool-calls", {"input": 1, "output": 1}))

    last = of(Turn, found)[-1]
    assert (last.state, last.synthetic) == ("cancelled", True)


def test_error_fails_the_turn() -> None:
    error = {"name": "APIError", "data": {"message": "Rate limit exceeded", "statusCode": 429, "isRetryable": True}}
    found = read("opencode-run", STEP, line("error", error=error))

    (notice,) = of(Notice, found)
    assert (notice.code, notice.text, notice.level) == ("provider-error", "Rate limit exceeded", "error")
    assert notice.data == {"name": "APIError", **error["data"]}  # type: ignore[dict-item]
    assert [(turn.state, turn.reason) for turn in of(Turn, found)] == [("started", None), ("failed", "APIError")]


def test_abort_cancels_the_turn() -> None:
    aborted = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    found = read("opencode-run", STEP, line("error", error=aborted))

    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]
    assert of(Turn, found)[-1].state == "cancelled"


def test_error_after_the_end_is_only_a_notice() -> None:
    error = {"name": "APIError", "data": {"message": "late"}}
    found = read("opencode-run", STEP, step_finish("stop", {"input": 1, "output": 1}), line("error", error=error))

    assert outline(found) == ["turn started", "usage", "turn completed", "notice"]


def test_done_line_of_later_versions_ends_the_turn() -> None:
    done = line("done", reason="idle", rejected=[])
    found = read("opencode-run", STEP, step_finish("tool-calls", {"input": 1, "output": 1}), done)

    assert (of(Turn, found)[-1].state, of(Turn, found)[-1].reason) == ("completed", "idle")


# -- texts ------------------------------------------------------------------------------------------------------------


def test_texts_have_message_id_and_block() -> None:
    found = read(
        "opencode-run",
        part("reasoning", id="prt_1", type="reasoning", text="Hm.", time={"start": 1, "end": 2}),
        part("text", id="prt_2", type="text", text="Hello.", time={"start": 1, "end": 2}),
        part("text", id="prt_2", type="text", text="Hello.", time={"start": 1, "end": 2}),
    )

    assert [(one.text, one.message_id, one.block) for one in of(Reasoning, found)] == [("Hm.", "msg_1", 0)]
    assert [(one.text, one.message_id, one.block) for one in of(Message, found)] == [("Hello.", "msg_1", 1)]


# -- usage ------------------------------------------------------------------------------------------------------------


def test_usage_includes_cache_and_reasoning() -> None:
    """Stated: input 300, output 35, reasoning 7, cache read 900, total 1242."""
    usage = of(Usage, run("failing-shell"))

    assert [one.scope for one in usage] == ["step", "step"]
    assert (usage[0].input_tokens, usage[0].output_tokens, usage[0].reasoning_tokens) == (1200, 42, 7)
    assert (usage[0].cache_read_tokens, usage[0].cache_write_tokens, usage[0].cost_usd) == (900, 0, 0.0)


def test_output_includes_reasoning_without_a_total() -> None:
    tokens = {"input": 534, "output": 128, "reasoning": 64, "cache": {"read": 10, "write": 1}}
    (usage,) = of(Usage, read("opencode-run", step_finish("stop", tokens, cost=0.0123)))

    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (545, 128, 0.0123)


# -- tools ------------------------------------------------------------------------------------------------------------

REJECTED = "The user rejected permission to use this specific tool call."


def test_exit_code_fails_a_completed_command() -> None:
    (result,) = of(ToolResult, run("failing-shell"))

    assert answer(result.output) == {"stdout": "partial output\nboom: something broke\n", "exit_code": 3}
    assert (result.status, result.is_error) == ("failed", True)
    assert result.duration_ms == 1795294066209 - 1795294066064


def test_parallel_calls() -> None:
    found = run("parallel-calls")

    ids = ["call_adb613614db14fcd96a6b9e4", "call_f93bf6aacd2648e19ebf331e", "call_fa1afe24cdd94fc68f686250"]
    assert [call.call_id for call in of(ToolCall, found)] == ids
    assert [result.call_id for result in of(ToolResult, found)] == ids
    file = of(ToolResult, found)[1].output["file"]
    assert (file["content"], file["totalLines"]) == ("def add(a, b):\n    return a + b", 2)


def test_missing_file_is_a_failed_call() -> None:
    (result,) = of(ToolResult, run("missing-file"))

    assert answer(result.output) == {"errorMessage": "File not found: /tmp/ws/src/missing.py"}
    assert (result.name, result.status) == ("Read", "failed")


def test_unavailable_tool_has_failed() -> None:
    (result,) = of(ToolResult, run("unavailable-tool"))

    assert (result.name, result.status) == ("AskUserQuestion", "failed")
    assert result.output["errorMessage"].startswith("Model tried to call unavailable tool 'question'.")


def test_todo_lists() -> None:
    found = run("todo-list")

    written = [[todo["status"] for todo in call.input["todos"]] for call in of(ToolCall, found)]
    assert written == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed"] * 3,
    ]
    assert {result.name for result in of(ToolResult, found)} == {"TodoWrite"}


def test_glob_read_folder_and_write() -> None:
    glob, folder = of(ToolResult, run("glob-and-list"))
    write = of(ToolCall, run("write"))[0]

    assert glob.output["matches"] == ["/tmp/ws/src/app.py", "/tmp/ws/src/util.py"]
    assert (folder.name, folder.output["entries"]) == ("Read", ["app.py", "util.py"])
    assert "file" not in folder.output
    assert write.input["content"] == "# Notes\n\n- first\n- second\n"
    assert write.input["_happy"]["rawToolName"] == "write"


def test_partly_read_folder_has_its_totals() -> None:
    shown = {"type": "directory", "entries": ["b.py"], "offset": 2, "totalEntries": 3, "truncated": True}
    state = {"input": {"filePath": "/w"}, "output": "<entries>…</entries>", "metadata": {"display": shown}}
    (result,) = of(ToolResult, read("opencode-run", tool("read", "c1", status="completed", **state)))

    assert {key: value for key, value in result.output.items() if key[0] != "_"} == {
        "entries": ["b.py"],
        "offset": 2,
        "totalEntries": 3,
        "truncated": True,
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (REJECTED, "denied"),
        ("The user has specified a rule which prevents you from using this specific tool call. Rules: []", "denied"),
        ("Tool execution aborted", "cancelled"),
        ("Could not find oldString in the file.", "failed"),
    ],
)
def test_error_message_decides_the_status(error: str, status: str) -> None:
    (result,) = of(ToolResult, read("opencode-run", tool("edit", "c1", status="error", input={}, error=error)))

    assert (result.status, result.output["errorMessage"]) == (status, error)


def test_output_of_an_interrupted_command_is_kept() -> None:
    state = {"status": "error", "input": {"command": "sleep 9"}, "error": "Tool execution aborted"}
    printed = {"output": "one\n", "interrupted": True}
    (result,) = of(ToolResult, read("opencode-run", tool("bash", "c1", **state, metadata=printed)))

    assert answer(result.output) == {"stdout": "one\n", "errorMessage": "Tool execution aborted"}
    assert result.status == "cancelled"


@pytest.mark.parametrize(
    ("note", "status"),
    [
        ("User aborted the command", "cancelled"),
        ("bash tool terminated command after exceeding timeout 120000 ms", "failed"),
        ("shell tool truncated output as it exceeded 30000 char limit", "completed"),
        ("bash tool truncated output as it exceeded 30000 char limit\nUser aborted the command", "cancelled"),
    ],
)
@pytest.mark.parametrize("tag", ["shell_metadata", "bash_metadata"])
def test_note_of_the_shell_decides_the_status(tag: str, note: str, status: str) -> None:
    """The wire says `completed` for a command that was stopped (1.18.33; `bash_metadata` in 1.1)."""
    output = f"tick 1\n\n\n<{tag}>\n{note}\n</{tag}>"
    call = tool("bash", "c1", status="completed", input={"command": "x"}, output=output, metadata={"exit": None})
    (result,) = of(ToolResult, read("opencode-run", call))

    assert (result.status, result.output["stdout"]) == (status, "tick 1")
    assert result.output.get("errorMessage") == (None if status == "completed" else note)


def test_truncated_output_may_have_no_path() -> None:
    metadata = {"exit": 0, "truncated": True}
    call = tool("bash", "c1", status="completed", input={"command": "x"}, output="a", metadata=metadata)
    (result,) = of(ToolResult, read("opencode-run", call))

    assert answer(result.output) == {"stdout": "a", "exit_code": 0, "truncated": True}


def test_answer_of_a_subagent_is_taken_out_of_its_tags() -> None:
    output = "task_id: ses_b (for resuming)\n\n<task_result>\nFound it.\n</task_result>"
    metadata = {"sessionId": "ses_b"}
    call = tool("task", "c1", status="completed", input={"prompt": "x"}, output=output, metadata=metadata)
    (result,) = of(ToolResult, read("opencode-run", call))

    assert answer(result.output) == {"content": "Found it.", "sessionId": "ses_b"}


def test_tools_of_our_own_server_are_known() -> None:
    call = tool("tooltap_render_file_contents", "c1", status="running", input={"path": "a"})

    assert [one.name for one in of(ToolCall, read("opencode-run", call))] == ["mcp__tooltap__render_file_contents"]


def test_call_that_still_runs_is_updated() -> None:
    running = tool("bash", "c1", status="running", input={"command": "x"}, metadata={"output": "a"})
    stats = statistics("opencode-run", lines_of((running, running)))

    assert stats.skipped == {"partial": 1}


def test_output_of_a_failed_tool_is_kept() -> None:
    """Servers that speak OpenCode's protocol put it beside the status."""
    (result,) = of(ToolResult, read("opencode-run", tool("look", "c1", status="error", input={}, output="no such")))

    assert (result.status, answer(result.output)) == ("failed", {"value": "no such"})


def test_mcp_tools_of_a_known_server() -> None:
    call = tool("my_server_echo", "c1", status="completed", input={"text": "hi"}, output="echo: hi")

    (plain,) = of(ToolCall, read("opencode-run", call))
    (split,) = of(ToolCall, read("opencode-run", call, mcp_servers=("my", "my-server")))

    assert plain.name == "my_server_echo"
    assert (split.name, split.input["_happy"]["rawToolName"]) == ("mcp__my-server__echo", "my_server_echo")


@pytest.mark.parametrize(
    ("metadata", "code"), [({"exit": 3}, 3), ({"exitCode": 0}, 0), ({"exit": None}, None), ({}, None)]
)
def test_exit_code_is_in_the_metadata(metadata: dict[str, Any], code: int | None) -> None:
    call = tool("bash", "c1", status="completed", input={"command": "x"}, output="a", metadata=metadata)
    (done,) = of(ToolResult, read("opencode-run", call))

    assert done.output.get("exit_code") == code


def test_repeated_result_is_a_duplicate() -> None:
    call = tool("bash", "c1", status="completed", input={"command": "ls"}, output="a", metadata={"exit": 0})

    assert statistics("opencode-run", lines_of((call, call))).skipped == {"duplicate-result": 1}


def test_unknown_line_is_unparsed() -> None:
    (shown,) = of(Unparsed, read("opencode-run", line("novelty", part={})))

    assert shown.reason == "unknown-type"
