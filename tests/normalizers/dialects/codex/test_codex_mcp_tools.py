"""Codex's tools in events that are in no recording; shapes as in `test_codex_mcp_events.py`."""

from typing import Any

import pytest

from tests.normalizers.dialects.codex.helpers import (
    ONE_SECOND,
    PNG,
    THREAD,
    answered,
    begin,
    calls,
    completed,
    delta,
    end,
    ends,
    event,
    item,
    lines,
    raw,
    read,
    results,
    started,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import ToolUpdate

# -- commands ---------------------------------------------------------------------------------------------------------


def test_background_command_ends_with_final_result() -> None:
    running = "Chunk ID: a\nWall time: 1.0006 seconds\nProcess running with session ID 92193\nOutput:\nbg 1\n"
    exited = "Chunk ID: b\nWall time: 2.9 seconds\nProcess exited with code 0\nOutput:\nbg 2\n"
    found = read(
        started(),
        raw("function_call", name="exec_command", call_id="c1", arguments='{"cmd": "slow"}'),
        begin("c1", "slow"),
        answered("c1", running),
        raw("function_call", name="write_stdin", call_id="c2", arguments='{"session_id": 92193, "chars": "y"}'),
        event("terminal_interaction", call_id="c1", process_id="92193", stdin="y"),
        answered("c2", exited),
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


def test_late_result_replaces_synthetic_one() -> None:
    found = read(
        started(),
        begin("c1", "ls"),
        delta("c1", b"a.py\n"),
        completed(),
        end("c1", stdout="a.py\nb.py\n", exit_code=0),
        end("c1", stdout="a.py\nb.py\n", exit_code=0),
    )
    inferred, real = results(found)

    assert (inferred.status, inferred.synthetic, answer(inferred.output)) == (
        "interrupted",
        True,
        {"stdout": "a.py\n"},
    )
    assert (real.replaces, real.output["stdout"], real.turn) == (inferred.id, "a.py\nb.py\n", "2")


def test_output_deltas_may_split_characters() -> None:
    made = [
        started(),
        begin("c1", "x"),
        delta("c1", b"caf\xc3"),
        delta("c1", b"\xa9\xff"),
        delta("c1", b"!", "stderr"),
    ]
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "codex-mcp")
    found = [
        output.event
        for line in lines(*made)
        for output in normalizer.feed(line.data, line.t, line.direction)
        if not isinstance(output, OutputChunk)
    ]

    chunks = [update.chunk for update in of(ToolUpdate, found) if update.chunk is not None]
    assert [(chunk.stream, chunk.text, chunk.offset) for chunk in chunks] == [
        ("stdout", "caf", 0),
        ("stdout", "é\ufffd", 3),
        ("stderr", "!", 0),
    ]


def test_long_output_of_interrupted_command_is_complete() -> None:
    made = [
        started(),
        begin("c1", "x"),
        *(delta("c1", b"x" * 40_000) for _ in range(3)),
        answered("c1", "aborted by user"),
    ]
    normalizer = StreamNormalizer(Context(stream="s"), "codex-mcp")
    outputs = [output for line in lines(*made) for output in normalizer.feed(line.data)]

    body = b"".join(output.data for output in outputs if isinstance(output, OutputChunk))
    (result,) = results([output.event for output in outputs if not isinstance(output, OutputChunk)])
    assert body == b"x" * 120_000
    assert result.outputs is not None
    assert result.outputs["/output/stdout"].bytes == 120_000
    assert len(result.output["stdout"]) == 65_536


def test_declined_command_is_denied() -> None:
    said_no = "exec command rejected by user"
    found = read(
        started(),
        begin("c1", "rm x"),
        end("c1", stdout="", stderr=said_no, formatted_output=said_no, exit_code=-1, status="declined"),
        completed(),
    )

    (result,) = results(found)
    assert (result.status, result.output["errorMessage"]) == ("denied", said_no)


def test_command_items_merge_with_events() -> None:
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


def test_local_shell_call_is_command() -> None:
    action = {"type": "exec", "command": ["bash", "-lc", "ls"], "working_directory": "/ws"}

    (call,) = calls(read(started(), raw("local_shell_call", call_id="c1", status="completed", action=action)))

    assert (call.name, call.input["command"], call.input["cwd"]) == ("Bash", "ls", "/ws")


# -- patches ----------------------------------------------------------------------------------------------------------

CHANGES = {"/ws/a.py": {"type": "add", "content": "x\n"}}


def test_shell_command_becomes_patch() -> None:
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
def test_patch_result_from_model_output(output: str, status: str, expected: dict[str, Any]) -> None:
    call = raw("custom_tool_call", name="apply_patch", call_id="c1", input="*** Begin Patch\n*** End Patch")

    (result,) = results(read(started(), call, answered("c1", output)))

    assert result.status == status
    assert expected.items() <= answer(result.output).items()


def test_declined_file_change_is_denied() -> None:
    change = {"id": "c1", "changes": CHANGES}
    found = read(
        started(),
        item("started", "FileChange", status="inProgress", **change),
        item("completed", "FileChange", status="declined", stderr="patch rejected by user", **change),
    )

    assert ends(found) == [("c1", "denied")]


def test_last_turn_diff_counts_and_long_one_is_output_body() -> None:
    long = "diff --git a/x b/x\n" + "+x\n" * 40_000
    outputs: list[Any] = []
    normalizer = StreamNormalizer(Context(stream="s"), "codex-mcp")
    for line in lines(
        started(), event("turn_diff", unified_diff="short"), event("turn_diff", unified_diff=long), completed()
    ):
        outputs += normalizer.feed(line.data)

    (body,) = [output for output in outputs if isinstance(output, OutputChunk)]
    (call,) = calls([output.event for output in outputs if not isinstance(output, OutputChunk)])
    assert body.data.decode() == long
    assert call.outputs is not None
    assert call.outputs["/input/unified_diff"].output_id == body.output_id
    assert long.startswith(call.input["unified_diff"])


def test_undone_changes_have_no_diff() -> None:
    diffs = [event("turn_diff", unified_diff=diff) for diff in ("@@", "")]

    found = read(started(), *diffs, completed())

    assert calls(found) == []


# -- other tools ------------------------------------------------------------------------------------------------------


def test_plan_without_call_is_synthetic_call() -> None:
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
def test_mcp_tool_results(result: dict[str, Any], status: str, expected: dict[str, Any]) -> None:
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


def test_mcp_item_merges_with_namespaced_call() -> None:
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
        answered("c1", [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]),
    )
    (call,), (result,) = calls(found), results(found)

    assert call.name == "mcp__fixture__picture"
    assert result.attachments is not None
    assert [(one.mime_type, one.bytes) for one in result.attachments] == [("image/png", 8)]
    assert result.output["text"] == "a picture"
    assert PNG not in str(result.output)


@pytest.mark.parametrize("text", ["the server is not ready", "Not allowed.", ""])
def test_mcp_item_that_failed_without_a_body(text: str) -> None:
    """What the item states beats what the model's copy of its text suggests (rollout, 0.166)."""
    failed = {"server": "hub", "tool": "boom", "status": "failed", "error": {"message": "the server is not ready"}}
    found = read(
        started(),
        raw("function_call", name="boom", namespace="mcp__hub", call_id="c1", arguments="{}"),
        item("completed", "McpToolCall", id="c1", arguments={}, **failed),
        answered(
            "c1",
            [{"type": "input_text", "text": "Wall time: 1 seconds\nOutput:"}, {"type": "input_text", "text": text}],
        ),
    )
    (result,) = results(found)

    assert (result.status, result.is_error) == ("failed", True)
    assert answer(result.output)["errorMessage"] == "the server is not ready"
    assert result.model_view is not None


def test_viewed_image_is_read_call() -> None:
    path = "/ws/logo.png"
    shown = answered("c1", [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}])
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


def test_raw_web_search_is_call() -> None:
    search = {"type": "search", "query": "tapir"}
    found = read(started(), raw("web_search_call", status="completed", action=search), completed())

    assert [(call.call_id, call.name) for call in calls(found)] == [("web_search-1", "WebSearch")]
    assert ends(found) == [("web_search-1", "completed")]


def test_spawned_agent_is_task() -> None:
    sender: dict[str, Any] = {"call_id": "c1", "sender_thread_id": THREAD}
    found = read(
        started(),
        event("collab_agent_spawn_begin", prompt="Find greet", model="m", **sender),
        event("collab_agent_spawn_end", prompt="Find greet", model="m", new_thread_id="t2", status="running", **sender),
    )
    (call,), (start, unended) = calls(found), results(found)

    assert (call.name, call.input["prompt"], start.output["new_thread_id"]) == ("Task", "Find greet", "t2")
    assert (start.async_, unended.status, unended.synthetic) == (True, "interrupted", True)


def test_waiting_for_a_spawned_agent_states_its_end() -> None:
    sender: dict[str, Any] = {"sender_thread_id": THREAD}
    found = read(
        started(),
        event("collab_agent_spawn_end", call_id="c1", prompt="x", new_thread_id="t2", status="pending_init", **sender),
        event("collab_waiting_end", call_id="c2", statuses={"t2": {"completed": "Line 4."}}, **sender),
    )

    assert [(one.call_id, one.async_, one.final) for one in results(found)] == [
        ("c1", True, False),
        ("c1", False, True),
        ("c2", False, False),
    ]
    assert results(found)[1].output["content"] == "Line 4."
