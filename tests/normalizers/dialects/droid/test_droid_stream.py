"""What `droid exec --output-format stream-json` prints (Droid 0.215)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, said
from tooltap.normalizers.catalog.registry import recognise
from tooltap.protocol.events import Notice, Reasoning, ToolResult, Turn, Usage

SESSION = "7826164c-e80c-415e-8f64-aab38557213e"


def line(kind: str, second: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": 1_795_338_100_000 + 1_000 * second, "session_id": SESSION, **fields}


INIT = {
    "type": "system",
    "subtype": "init",
    "cwd": "/tmp/ws",
    "session_id": SESSION,
    "tools": ["Read", "Execute"],
    "model": "m",
    "reasoning_effort": "none",
}
PROMPT = line("message", 1, role="user", id="u", text="Run it.")
THOUGHT = line("reasoning", 2, id="a", text="It has to run.")
CALL = line("tool_call", 3, id="c", messageId="a", toolId="Execute", toolName="Execute", parameters={"command": "ls"})
ANSWER = line("message", 5, role="assistant", id="b", text="Done.")
USED = {"input_tokens": 900, "output_tokens": 126, "cache_read_input_tokens": 2_700, "cache_creation_input_tokens": 0}
END = line("completion", 6, finalText="Done.", numTurns=2, durationMs=5_000, usage=USED)


def returned(**fields: Any) -> dict[str, Any]:
    return line("tool_result", 4, id="c", messageId="r", toolId="Execute", **fields)


def test_reasoning_is_printed_twice_and_read_once() -> None:
    again = line("reasoning", 4, id="b", text=THOUGHT["text"])
    found = read("droid-stream", INIT, PROMPT, THOUGHT, THOUGHT, again, ANSWER, END)

    assert [(one.message_id, one.text) for one in of(Reasoning, found)] == [
        ("a", THOUGHT["text"]),
        ("b", THOUGHT["text"]),
    ]
    assert said(found) == [("user", "Run it."), ("assistant", "Done.")]


def test_run_is_one_turn_with_its_tokens() -> None:
    found = read("droid-stream", INIT, PROMPT, ANSWER, END)

    (usage,) = of(Usage, found)
    assert (usage.scope, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (
        "turn",
        3_600,
        2_700,
        126,
    )
    started, ended = of(Turn, found)
    assert (started.state, ended.state, ended.ended_by, ended.duration_ms) == (
        "started",
        "completed",
        "provider",
        5_000,
    )


def test_run_without_its_last_line_was_cut() -> None:
    found = read("droid-stream", INIT, PROMPT, ANSWER)

    assert [(one.state, one.ended_by) for one in of(Turn, found)][-1] == ("cancelled", "eof")


def test_results() -> None:
    printed = "a\n\n\n[Process exited with code 0]"
    refused = {"type": "tool_error", "message": "Error: Execute call rejected: missing required parameter"}
    (done,) = of(ToolResult, read("droid-stream", INIT, PROMPT, CALL, returned(isError=False, value=printed), END))
    (failed,) = of(ToolResult, read("droid-stream", INIT, PROMPT, CALL, returned(isError=True, error=refused), END))

    assert (done.name, done.status, done.output["stdout"], done.output["exit_code"]) == ("Bash", "completed", "a\n", 0)
    assert (failed.status, failed.output["errorMessage"]) == ("failed", refused["message"])


def test_error_is_a_notice() -> None:
    found = read("droid-stream", INIT, PROMPT, line("error", 2, message="No credits."))

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("error", "provider-error", "No credits.")
    ]


def test_lines_of_2025_are_recognised() -> None:
    """As the vendor documented them then: without `toolId` and `reasoning_effort`."""
    older = [
        {key: item for key, item in one.items() if key not in ("toolId", "reasoning_effort")}
        for one in (INIT, PROMPT, THOUGHT, CALL, returned(isError=False, value="a"), ANSWER, END)
    ]
    for one in older:
        assert recognise(one) == "droid-stream"
    (done,) = of(ToolResult, read("auto", *older))

    assert (done.name, done.output["stdout"]) == ("Bash", "a")


@pytest.mark.parametrize("key", ["apiKeySource", "mcp_servers", "permissionMode", "uuid"])
def test_first_line_of_an_early_claude_code_is_not_droid(key: str) -> None:
    """It has no version, and of these keys perhaps a single one."""
    line = {"type": "system", "subtype": "init", "cwd": "/ws", "session_id": "s", "tools": [], "model": "claude-sonnet"}
    assert recognise(line) == "droid-stream"
    assert recognise({**line, key: "default"}) != "droid-stream"
