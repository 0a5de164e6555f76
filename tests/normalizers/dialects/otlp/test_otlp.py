"""The `otlp` dialect: what records of agents' telemetry say, and what they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.dialects.otlp.parser import OUTPUT_BYTES, OUTPUTS, SEEN
from tooltap.protocol.events import (
    Message,
    Notice,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import normalize

CLAUDE = normalize("otlp", recording("otlp", "failed", "claude-code-2.1.332"))
CODEX = normalize("otlp", recording("otlp", "shell", "codex-0.171.0"))
GEMINI = normalize("otlp", recording("otlp", "failed", "gemini-0.61.0"))
QWEN = normalize("otlp", recording("otlp", "failed", "qwen-0.24.4"))


SPAN = recording("otlp", "span", "claude-code-2.1.332")
"""A span that came before the records of its call."""


def line(name: str, number: int = 0, **attributes: Any) -> dict[str, Any]:
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    record = {"otlp": "log", "id": f"{number:016x}", "session": "s", "name": name, "time": 1_796_031_847_000 + number}
    return {**record, "attributes": given}


def prompt(text: str, length: int | str) -> dict[str, Any]:
    return line("claude_code.user_prompt", prompt=text, prompt_length=length)


@pytest.mark.parametrize(
    ("events", "provider"), [(CLAUDE, "claude"), (CODEX, "codex"), (GEMINI, "gemini"), (QWEN, "qwen")]
)
def test_agent_is_known_by_its_events(events: Any, provider: str) -> None:
    assert {one.provider for one in events} == {provider}


def test_claude_code_states_the_call_its_cost_and_how_it_ended() -> None:
    [call], [result] = of(ToolCall, CLAUDE), of(ToolResult, CLAUDE)
    [usage] = of(Usage, CLAUDE)
    assert (call.name, call.preview) == ("Bash", None)
    assert (result.status, result.duration_ms, result.output["errorMessage"]) == ("failed", 126, "Shell command failed")
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.model) == (
        100,
        10,
        0.0006000000000000001,
        "claude-opus-5-5",
    )
    assert [(one.role, one.text) for one in of(Message, CLAUDE)] == [
        ("user", "[[script]] Do it."),
        ("assistant", "It is done."),
    ]


def test_codex_states_the_output_and_withholds_the_prompt() -> None:
    [result] = of(ToolResult, CODEX)
    assert (result.output["stdout"], result.output["exit_code"], result.duration_ms) == ("hello\n", 0, 72)
    assert of(Message, CODEX) == []
    assert [one.state for one in of(Turn, CODEX)] == ["started", "completed"]


def test_gemini_states_the_exit_code_and_the_text_of_the_answer() -> None:
    [result] = of(ToolResult, GEMINI)
    assert (result.status, result.output["exit_code"]) == ("failed", 3)
    assert [one.text for one in of(Message, GEMINI)] == ["[[script]] Do it.", "It is done."]


def test_version_of_node_is_not_that_of_gemini() -> None:
    other = {**line("gen_ai.client.inference.operation.details"), "service": "gemini-cli", "version": "v22.23.3"}
    assert of(SessionEvent, [*GEMINI, *read("otlp", other)]) == []
    assert [one.agent_version for one in of(SessionEvent, QWEN)] == ["0.24.4"]


def test_what_no_record_states_is_absent() -> None:
    [result] = of(ToolResult, CLAUDE)
    assert {key for key in result.output if not key.startswith("_")} == {"errorMessage"}
    assert (result.assistant_view, result.model_view) == ("unknown", None)


@pytest.mark.parametrize("mark", ["<REDACTED>", "[REDACTED]"])
def test_withheld_prompt_is_no_message(mark: str) -> None:
    assert [(type(one), getattr(one, "text", None)) for one in read("otlp", prompt(mark, "17"))[:1]] == [(Turn, None)]
    assert of(Message, read("otlp", prompt(mark, "17"))) == []


def test_prompt_that_reads_like_a_withheld_one_is_a_message() -> None:
    [message] = of(Message, read("otlp", prompt("<REDACTED>", 10)))
    assert message.text == "<REDACTED>"


def test_turn_whose_answer_is_withheld_is_completed() -> None:
    answer = line("claude_code.assistant_response", 1, response="<REDACTED>", response_length=40)
    events = read("otlp", prompt("<REDACTED>", 17), answer)
    assert [one.state for one in of(Turn, events)] == ["started", "completed"]
    assert of(Message, events) == []


def test_record_that_is_sent_again_is_skipped() -> None:
    events = read("otlp", *[prompt("Do it.", 6)] * 3)
    assert [one.text for one in of(Message, events)] == ["Do it."]


def test_only_the_latest_records_are_known() -> None:
    others = [line("codex.turn_ttft", number) for number in range(1, SEEN + 1)]
    events = read("otlp", prompt("Do it.", 6), *others, prompt("Do it.", 6))
    assert [one.text for one in of(Message, events)] == ["Do it."] * 2


CALLS: dict[str, dict[str, Any]] = {
    "claude_code.tool_decision": {"tool_use_id": "c-1", "tool_name": "Bash"},
    "claude_code.tool_result": {"tool_use_id": "c-1", "tool_name": "Bash"},
    "codex.tool_decision": {"call_id": "c-1", "tool_name": "shell"},
    "codex.tool_result": {"call_id": "c-1", "tool_name": "shell"},
    "gemini_cli.tool_call": {"function_name": "read_file"},
    "qwen-code.tool_call": {"function_name": "read_file"},
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, stated in CALLS.items() for key in stated])
def test_record_of_a_call_without_its_id_or_name_is_unparsed(name: str, key: str) -> None:
    stated = {**CALLS[name], key: None}
    assert len(of(Unparsed, read("otlp", line(name, **stated)))) == 1
    assert of(Unparsed, read("otlp", line(name, **CALLS[name]))) == []


def test_record_without_an_id_is_unparsed() -> None:
    record = {key: value for key, value in prompt("Do it.", 6).items() if key != "id"}
    assert len(of(Unparsed, read("otlp", record))) == 1


def test_call_that_is_rejected_is_denied() -> None:
    given: dict[str, Any] = {"decision": "reject", "source": "config", "tool_name": "Bash", "tool_use_id": "toolu"}
    events = read("otlp", line("claude_code.tool_decision", **given))
    assert [one.status for one in of(ToolResult, events)] == ["denied"]


def test_tool_of_an_mcp_server_has_its_name_where_details_are_sent() -> None:
    details = '{"mcp_server_name":"files","mcp_tool_name":"read"}'
    given: dict[str, Any] = {"tool_name": "mcp_tool", "tool_use_id": "toolu", "tool_parameters": details}
    decided = line("claude_code.tool_decision", 1, decision="accept", **given)
    events = read("otlp", decided, line("claude_code.tool_result", 2, success="true", **given))
    assert [one.name for one in of(ToolCall, events)] == ["mcp__files__read"]
    assert [one.status for one in of(ToolResult, events)] == ["completed"]


@pytest.mark.parametrize("name", ["claude_code.api_error", "gemini_cli.api_error", "qwen-code.api_error"])
def test_error_of_the_api_is_a_notice(name: str) -> None:
    [notice] = of(Notice, read("otlp", line(name, error="It refuses.", status_code="400", attempt=1)))
    assert (notice.level, notice.code, notice.text) == ("error", "provider-error", "It refuses.")
    assert notice.data == {"status_code": "400", "attempt": 1}


def test_error_of_codex_is_a_notice_and_its_success_is_none() -> None:
    given = {"http__response__status_code": 200, "attempt": 0}
    refused = line("codex.api_request", 2, error__message="It refuses.", **given)
    events = read("otlp", line("codex.api_request", 1, **given), refused)
    assert [one.text for one in of(Notice, events)] == ["It refuses."]


@pytest.mark.parametrize("count", ["-1", "x", "9" * 40, "٣", True, 1.5, None, -1])
def test_what_is_no_count_is_absent(count: Any) -> None:
    [usage] = of(Usage, read("otlp", line("claude_code.api_request", input_tokens=count, output_tokens=1)))
    assert usage.input_tokens is None


def test_input_of_claude_code_comes_with_the_result_where_details_are_sent() -> None:
    given: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "toolu"}
    decided = line("claude_code.tool_decision", 1, decision="accept", **given)
    ended = line("claude_code.tool_result", 2, success="true", tool_input='{"command":"make"}', **given)
    [update] = of(ToolUpdate, read("otlp", decided, ended))
    assert update.preview == "make"


# -- spans of Claude Code ---------------------------------------------------------------------------------------------


def span(call_id: str, output: str, tool: str = "Bash", number: int = 9, key: str = "output") -> dict[str, Any]:
    one = line("claude_code.tool", number, tool_use_id=call_id, tool_name=tool)
    return {**one, "otlp": "span", "events": [{"name": "tool.output", "attributes": {key: output}}]}


def ended(call_id: str, number: int, **more: Any) -> dict[str, Any]:
    stated = {"success": "true", "duration_ms": "7", **more}
    return line("claude_code.tool_result", number, tool_use_id=call_id, tool_name="Bash", **stated)


def test_output_of_a_span_that_came_first_is_that_of_the_result() -> None:
    [result] = of(ToolResult, normalize("otlp", SPAN))
    assert (result.output["stdout"], result.status, result.duration_ms) == ("hello", "completed", 56)


def test_output_of_a_span_that_came_last_replaces_the_result() -> None:
    first, second = of(ToolResult, normalize("otlp", [*SPAN[1:], SPAN[0]]))
    assert "stdout" not in first.output
    assert (second.output["stdout"], second.status, second.duration_ms) == ("hello", "completed", 56)
    assert (second.replaces, second.turn) == (first.id, first.turn)


def test_output_in_a_span_of_qwen_code_is_that_of_the_result() -> None:
    first, result = of(ToolResult, normalize("otlp", recording("otlp", "span", "qwen-0.24.4")))
    assert (result.output["stdout"], result.output["exit_code"], result.status) == ("hello", 0, "completed")
    assert (result.replaces, result.duration_ms) == (first.id, 145)


def test_span_that_is_sent_again_is_skipped() -> None:
    assert len(of(ToolResult, normalize("otlp", [*SPAN, SPAN[0]]))) == 1


def test_span_of_a_file_that_was_read_has_its_text() -> None:
    read_file = line("claude_code.tool_result", 2, tool_use_id="c", tool_name="Read", success="true")
    [result] = of(ToolResult, read("otlp", span("c", "one\n", "Read", key="content"), read_file))
    assert result.output["file"] == {"content": "one\n"}


def test_input_that_a_span_of_another_tool_states_is_no_output() -> None:
    written = line("claude_code.tool_result", 2, tool_use_id="c", tool_name="Write", success="true")
    [result] = of(ToolResult, read("otlp", span("c", "one\n", "Write", key="content"), written))
    assert "one" not in str(result.output)


def test_result_of_a_call_that_failed_is_not_replaced() -> None:
    [result] = of(ToolResult, read("otlp", ended("c", 1, success="false", error="It fails."), span("c", "out")))
    assert (result.status, result.output["errorMessage"]) == ("failed", "It fails.")


@pytest.mark.parametrize(("count", "length"), [(OUTPUTS, 1), (2, OUTPUT_BYTES // 2)])
def test_only_the_latest_outputs_wait_for_their_records(count: int, length: int) -> None:
    spans = [span(f"c-{number}", "x" * length, number=number) for number in range(count + 1)]
    results = [ended(f"c-{number}", 1_000 + number) for number in range(count + 1)]
    found = of(ToolResult, read("otlp", *spans, *results))
    assert ["stdout" in one.output for one in found] == [False] + [True] * count
