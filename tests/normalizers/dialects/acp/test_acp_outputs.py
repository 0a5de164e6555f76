"""Outputs of the tools in ACP calls, wherever the agent states them."""

import base64
from typing import Any

import pytest

from tests.normalizers.dialects.acp.helpers import (
    SESSION,
    answers,
    asks,
    content,
    events,
    only,
    prompt,
    read,
    set_up,
    statistics,
    tool,
    tool_update,
    update,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, Item, Limits, OutputChunk, Produced
from tooltap.normalizers.dialects.acp.parser import Acp
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import ToolCall, ToolResult, ToolUpdate
from tooltap.testing import Line

# -- outputs -----------------------------------------------------------------------------------------------------------


def answered(*updates: Any, **call: Any) -> ToolResult:
    return only(ToolResult, read(tool("c1", **{"kind": "execute", "title": "t", **call}), *updates))


def test_empty_content_is_not_output() -> None:
    assert answer(answered(tool_update("c1", status="completed", content=[])).output) == {}


def test_description_is_not_output() -> None:
    result = answered(tool_update("c1", status="completed"), content=content("Run a command"))

    assert answer(result.output) == {}


def test_code_fence_is_removed() -> None:
    failed = answered(tool_update("c1", status="failed", content=content("```\nno such file\n```")), kind="read")
    shown = answered(tool_update("c1", status="completed", content=content("```sh\na\n```\n")))

    assert failed.output["errorMessage"] == "no such file"
    assert shown.output["stdout"] == "a"


def test_error_in_content_blocks() -> None:
    result = answered(tool_update("c1", status="failed", content=content("one", "two")), kind="read")

    assert (result.status, result.output["errorMessage"]) == ("failed", "one\ntwo")


@pytest.mark.parametrize(
    ("raw_output", "error"),
    [
        ({"error": "gone"}, "gone"),
        ({"error": {"message": "gone"}}, "gone"),
        ("gone", "gone"),
        ({"message": "gone"}, "gone"),
    ],
)
def test_error_in_the_raw_output(raw_output: Any, error: str) -> None:
    result = answered(tool_update("c1", status="failed", rawOutput=raw_output), kind="read")

    assert result.output["errorMessage"] == error


def test_opencode_invalid_tool_has_failed() -> None:
    found = events("opencode-1.18.33", "tool-errors")
    (result,) = [one for one in of(ToolResult, found) if one.name == "no_such_tool"]

    assert (result.status, result.is_error) == ("failed", True)
    assert list(answer(result.output)) == ["errorMessage"]
    assert result.output["errorMessage"].startswith("Model tried to call unavailable tool 'no_such_tool'.")


CLAUDE_STARTS = "Command running in background with ID: b1"


def claude_background(*later: Any) -> list[ToolResult]:
    """Results of a session in which Claude starts a command in the background, and then these lines come."""
    response = {"stdout": "", "stderr": "", "interrupted": False, "backgroundTaskId": "b1"}
    claude = {"toolName": "Bash"}
    return of(
        ToolResult,
        read(
            *set_up("@agentclientprotocol/claude-agent-acp"),
            prompt(3),
            tool("c1", name="Bash", rawInput={"command": "sleep 9"}, _meta={"claudeCode": claude}),
            tool_update("c1", _meta={"claudeCode": {**claude, "toolResponse": response}}),
            tool_update(
                "c1",
                status="completed",
                content=content(CLAUDE_STARTS),
                rawOutput=CLAUDE_STARTS,
                _meta={"claudeCode": claude},
            ),
            *later,
            answers(3, stopReason="end_turn"),
        ),
    )


def claude_asks(name: str, given: dict[str, Any], response: dict[str, Any], text: str) -> tuple[Any, ...]:
    """Lines of a call of Claude's that polls or stops a task."""
    claude = {"toolName": name}
    return (
        tool("c2", name=name, rawInput=given, _meta={"claudeCode": claude}),
        tool_update("c2", _meta={"claudeCode": {**claude, "toolResponse": response}}),
        tool_update("c2", status="completed", rawOutput=text, _meta={"claudeCode": claude}),
    )


def test_claude_background_command_is_acknowledged() -> None:
    acknowledged, ended = claude_background()

    assert (acknowledged.status, acknowledged.async_) == ("completed", True)
    assert (ended.status, ended.final, ended.synthetic) == ("interrupted", True, True)


def test_claude_background_command_that_is_stopped_is_cancelled() -> None:
    response = {"message": "Successfully stopped task: b1 (sleep 9)", "task_id": "b1", "task_type": "local_bash"}
    _, stop, ended = claude_background(*claude_asks("TaskStop", {"task_id": "b1"}, response, response["message"]))

    assert (stop.call_id, stop.name, stop.status) == ("c2", "TaskStop", "completed")
    assert (ended.call_id, ended.status, ended.final, ended.synthetic) == ("c1", "cancelled", True, False)


def test_claude_background_command_ends_as_a_poll_states() -> None:
    task = {"task_id": "b1", "task_type": "local_bash", "status": "completed", "output": "tick\n", "exitCode": 0}
    response = {"retrieval_status": "success", "task": task}
    text = "<retrieval_status>success</retrieval_status>"
    _, _, ended = claude_background(*claude_asks("TaskOutput", {"task_id": "b1", "block": True}, response, text))

    assert (ended.call_id, ended.status, ended.final) == ("c1", "completed", True)
    assert (ended.output["stdout"], ended.output["exit_code"]) == ("tick\n", 0)


def test_end_that_is_not_stated_does_not_repeat_the_acknowledgement() -> None:
    terminal = {"terminal_output": {"terminal_id": "c1", "data": CLAUDE_STARTS}}
    claude = {"toolName": "Bash"}
    found = read(
        *set_up("@agentclientprotocol/claude-agent-acp"),
        tool("c1", name="Bash", rawInput={"command": "sleep 9"}, _meta={"claudeCode": claude}),
        tool_update("c1", _meta=terminal),
        tool_update("c1", status="completed", rawOutput=CLAUDE_STARTS, _meta={"claudeCode": claude}),
    )
    acknowledged, ended = of(ToolResult, found)

    assert (acknowledged.async_, ended.status, answer(ended.output)) == (True, "interrupted", {})


# -- terminals ---------------------------------------------------------------------------------------------------------


def test_terminal_output_in_meta_belongs_to_the_call() -> None:
    """codex-acp and Zed's clients: the output is in `_meta` alone."""
    terminal = {"terminal_id": "c1"}
    found = read(
        tool(
            "c1",
            kind="execute",
            title="ls",
            rawInput={"command": "ls"},
            content=[{"type": "terminal", "terminalId": "c1"}],
        ),
        tool_update("c1", _meta={"terminal_output": {**terminal, "data": "a\n"}}),
        tool_update("c1", _meta={"terminal_output_delta": {**terminal, "data": "é\n"}}),
        tool_update("c1", status="completed", _meta={"terminal_exit": {**terminal, "exit_code": 0, "signal": None}}),
        partials=True,
    )

    chunks = [one.chunk for one in of(ToolUpdate, found) if one.chunk is not None]
    assert [(one.text, one.offset) for one in chunks] == [("a\n", 0), ("é\n", 2)]
    assert answer(only(ToolResult, found).output) == {"stdout": "a\né\n", "exit_code": 0}


def test_claude_exit_code_from_the_terminal() -> None:
    claude = {"toolName": "Bash"}
    shown = [{"type": "terminal", "terminalId": "c1"}]
    found = read(
        tool(
            "c1",
            name="Bash",
            rawInput={"command": "x"},
            content=shown,
            _meta={"claudeCode": claude, "terminal_info": {"terminal_id": "c1"}},
        ),
        tool_update("c1", _meta={"terminal_output": {"terminal_id": "c1", "data": "Exit code 3\nboom"}}),
        tool_update(
            "c1",
            status="failed",
            content=shown,
            _meta={"claudeCode": claude, "terminal_exit": {"terminal_id": "c1", "exit_code": 3, "signal": None}},
        ),
    )

    assert answer(only(ToolResult, found).output) == {"stdout": "boom", "exit_code": 3, "errorMessage": "Exit code 3"}


@pytest.mark.parametrize("truncated", [False, True])
def test_partly_listed_folder_has_its_totals(truncated: bool) -> None:
    """OpenCode 1.18 states `offset` and `totalEntries` of every folder; for a whole folder they are left out."""
    part = {"offset": 2, "totalEntries": 3, "truncated": truncated}
    shown = {"type": "directory", "path": "/w", "entries": ["b.py"], **part}
    found = read(
        *set_up("OpenCode"),
        prompt(3),
        tool("c1", kind="read", title="read", rawInput={"filePath": "/w"}),
        tool_update("c1", status="completed", rawOutput={"output": "<entries>…", "metadata": {"display": shown}}),
    )

    wanted = {"entries": ["b.py"], **(part if truncated else {})}
    assert answer(only(ToolResult, found).output) == wanted


def test_client_terminal_belongs_to_the_call_that_embeds_it() -> None:
    lines = [
        *set_up(),
        prompt(3),
        tool("c1", kind="execute", title="`make`", status="in_progress"),
        asks(0, "terminal/create", "out", sessionId=SESSION, command="make"),
        answers(0, "in", terminalId="term-1"),
        tool_update("c1", content=[{"type": "terminal", "terminalId": "term-1"}]),
        asks(1, "terminal/output", "out", sessionId=SESSION, terminalId="term-1"),
        answers(1, "in", output="one\n", truncated=False),
        asks(2, "terminal/wait_for_exit", "out", sessionId=SESSION, terminalId="term-1"),
        answers(2, "in", exitCode=2),
        asks(3, "terminal/output", "out", sessionId=SESSION, terminalId="term-1"),
        answers(3, "in", output="one\ntwo\n", truncated=False, exitStatus={"exitCode": 2}),
        asks(4, "terminal/release", "out", sessionId=SESSION, terminalId="term-1"),
        answers(4, "in"),
        tool_update("c1", status="completed"),
        answers(3, stopReason="end_turn"),
    ]

    found = read(*lines)
    result = only(ToolResult, found)
    assert (result.name, result.status) == ("Bash", "failed")
    assert answer(result.output) == {"stdout": "one\ntwo\n", "exit_code": 2}
    assert statistics(*lines).skipped["client-terminal"] == 7


def test_agent_terminal_in_v2() -> None:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    found = read(
        *set_up("agent", version=2),
        tool_update(
            "c1", kind="execute", name="bash", status="in_progress", content=[{"type": "terminal", "terminalId": "t"}]
        ),
        update("terminal_update", terminalId="t", command="ls", cwd="/ws"),
        update("terminal_output_chunk", terminalId="t", data=encoded("a\n")),
        update("terminal_output_chunk", terminalId="t", data=encoded("b\n")),
        update("terminal_update", terminalId="t", exitStatus={"exitCode": None, "signal": "SIGTERM"}),
        tool_update("c1", status="cancelled"),
    )

    call, result = only(ToolCall, found), only(ToolResult, found)
    assert not call.synthetic
    assert result.status == "cancelled"
    assert answer(result.output) == {"stdout": "a\nb\n", "signal": "SIGTERM"}


def test_long_terminal_output_goes_to_an_output_body() -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "acp")
    normalizer.feed(tool("c1", kind="execute", title="seq", rawInput={"command": "seq"}).data)
    pieces: list[OutputChunk] = []
    for _ in range(20):
        printed = {"terminal_output_delta": {"terminal_id": "c1", "data": "x" * 9_999 + "\n"}}
        outputs = normalizer.feed(tool_update("c1", _meta=printed).data)
        pieces += [one for one in outputs if isinstance(one, OutputChunk)]
    outputs = normalizer.feed(tool_update("c1", status="completed").data)

    (produced,) = [one for one in outputs if not isinstance(one, OutputChunk)]
    assert isinstance(produced.event, ToolResult)
    ref = (produced.event.outputs or {})["/output/stdout"]
    assert sum(len(one.data) for one in pieces) == ref.bytes == 200_000
    assert ref.lines == 20
    assert len(produced.event.output["stdout"]) == 65_536
    assert len(normalizer.dump()) < 10_000


# -- what is remembered ------------------------------------------------------------------------------------------------


def feed(parser: Acp, line: Line) -> tuple[str, list[Item]]:
    assert isinstance(line.data, bytes)
    return parser.feed(line.data)


@pytest.mark.parametrize(
    "repeated",
    [
        {"title": "make", "kind": "execute"},
        {"rawInput": {}},
        {"locations": [], "content": []},
        {"status": "in_progress"},
        {"status": "in_progress", "content": content("one\ntwo")},
    ],
)
def test_update_that_states_nothing_new_changes_no_memory(repeated: dict[str, Any]) -> None:
    parser = Acp(Context(stream="s"))
    feed(parser, tool("c1", kind="execute", title="make", rawInput={"command": "make"}))
    feed(parser, tool_update("c1", status="in_progress", content=content("one\ntwo")))
    before = parser.dump()
    parser.state.line -= 1
    line_class, outputs = feed(parser, tool_update("c1", **repeated))

    assert (line_class, outputs) == ("skipped.unchanged", [])
    assert parser.dump() == before


@pytest.mark.parametrize(("call_bytes", "printed"), [(50_000, "so far"), (10_000, None)])
def test_result_of_a_call_whose_memory_was_dropped(call_bytes: int, printed: str | None) -> None:
    """What it printed while it ran is its output, unless another call's memory took the room."""
    parser = Acp(Context(stream="s", limits=Limits(call_bytes=call_bytes)))
    feed(parser, tool("c1", kind="execute", title="make", rawInput={"command": "make"}))
    feed(parser, tool_update("c1", status="in_progress", content=content("so far")))
    feed(parser, tool("c2", kind="execute", title="cat", rawInput={"command": "x" * 9_990}))
    _, (produced,) = feed(parser, tool_update("c1", status="completed"))

    assert isinstance(produced, Produced)
    assert isinstance(produced.event, ToolResult)
    assert produced.event.output.get("stdout") == printed
    assert parser.state.calls.memory_bytes <= call_bytes


TAGGED = "<return-code>12</return-code>\n<output>\na\nb\n</output>"


@pytest.mark.parametrize(
    ("agent", "text", "expected"),
    [
        ("auggie", TAGGED, {"stdout": "a\nb", "exit_code": 12}),
        ("auggie", "<return-code>0</return-code>", {"exit_code": 0}),
        ("auggie", "<return-code>x</return-code>", {"stdout": "<return-code>x</return-code>"}),
        ("goose", TAGGED, {"stdout": TAGGED}),
    ],
)
def test_only_auggie_puts_tags_around_an_output(agent: str, text: str, expected: dict[str, Any]) -> None:
    call = tool("c1", kind="execute", title="t")
    ended = tool_update("c1", status="completed", rawOutput={"output": text})

    found = answer(only(ToolResult, read(call, ended, context=Context(stream="s", provider=agent))).output)
    assert {key: found[key] for key in ("stdout", "exit_code") if key in found} == expected
