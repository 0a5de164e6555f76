"""The `anthropic-messages` dialect: requests and answers of Anthropic's API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.anthropic.messages import (
    answer,
    deltas,
    read_messages,
    request,
    result,
    streamed,
    use,
    user,
)
from tests.normalizers.reading import of, outline
from tests.normalizers.reading import recording as recorded
from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.protocol.events import Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, normalize

TEXT = {"type": "text", "text": ""}


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_claude_code_runs_a_command_that_fails() -> None:
    found = normalize(
        "anthropic-messages",
        recorded("anthropic-messages", "shell-fails", "claude-code-2.1.332"),
        Context(stream="s"),
    )

    assert outline(found) == [
        "turn started",
        "message user",
        "session",
        "tool-call Bash",
        "usage",
        "tool-result Bash failed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    (output,) = [one.output for one in of(ToolResult, found)]
    assert (output["stdout"], output["exit_code"]) == ("hello", 3)
    assert [one.text for one in of(Message, found)] == ["Run the failing command.", "It failed with 3."]


def test_text_and_thought_arrive_in_deltas() -> None:
    thought = deltas(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "Two "},
        {"type": "thinking_delta", "thinking": "words."},
        {"type": "signature_delta", "signature": "x"},
    )
    text = deltas(1, TEXT, {"type": "text_delta", "text": "Hello"}, {"type": "text_delta", "text": " you."})
    found = read_messages(request(user("Hi.")), *streamed(thought, text))

    assert [one.text for one in of(Reasoning, found)] == ["Two words."]
    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello you."]
    assert of(Turn, found)[-1].reason == "end_turn"


def test_call_is_emitted_when_its_input_is_complete() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"comm', 'and": "ls"}')]
    found = read_messages(
        request(user("Go.")), *streamed(deltas(0, {**use("t1"), "input": {}}, *pieces), stop="tool_use")[:-2]
    )

    (call,) = of(ToolCall, found)
    assert (call.call_id, call.name, call.input["command"]) == ("t1", "Bash", "ls")


def test_next_request_has_the_results_of_parallel_calls() -> None:
    called = [use("t1", "ls"), use("t2", "pwd")]
    answers = user(result("t1", "a"), result("t2", [say("b")], is_error=True))
    found = read_messages(
        request(user("Go.")),
        answer(*called, stop="tool_use"),
        request(user("Go."), {"role": "assistant", "content": called}, answers),
        answer(say("Done.")),
    )

    assert [(one.call_id, one.status) for one in of(ToolResult, found)] == [("t1", "completed"), ("t2", "failed")]
    assert len(of(ToolCall, found)) == 2
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_repeated_answer_is_said_once_though_the_client_strips_it() -> None:
    text = deltas(0, TEXT, {"type": "text_delta", "text": "Hello. "}, {"type": "text_delta", "text": "\n"})
    repeated = {"role": "assistant", "content": [say("Hello.")]}
    found = read_messages(request(user("Hi.")), *streamed(text), request(user("Hi."), repeated, user("And?")))

    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello. \n", "And?"]


def test_text_beside_a_result_belongs_to_the_same_turn() -> None:
    called = {"role": "assistant", "content": [use("t1")]}
    found = read_messages(
        request(user("Go.")),
        answer(use("t1"), stop="tool_use"),
        request(user("Go."), called, user(result("t1"), say("Wait."))),
    )

    assert [turn.state for turn in of(Turn, found)].count("started") == 1
    assert len({one.turn for one in of(Message, found)}) == 1


def test_reminders_to_the_model_are_no_prompt() -> None:
    reminder = say("<system-reminder>\nBe brief.\n</system-reminder>\n")
    found = read_messages(request(user(reminder, say("Hi.")), {"role": "system", "content": "It is Monday."}))

    assert [(one.role, one.text) for one in of(Message, found)] == [("user", "Hi.")]


def test_tokens_of_the_cache_are_part_of_the_prompt() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 9,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_1h_input_tokens": 60},
        "output_tokens_details": {"thinking_tokens": 4},
    }
    (used,) = of(Usage, read_messages(request(user("Hi.")), answer(say("Hello."), usage=usage)))

    assert (used.input_tokens, used.output_tokens, used.reasoning_tokens) == (123, 9, 4)
    assert (used.cache_read_tokens, used.cache_write_tokens, used.cache_write_1h_tokens) == (20, 100, 60)


def test_last_figure_of_a_streamed_answer_counts() -> None:
    (used,) = of(Usage, read_messages(request(user("Hi.")), *streamed(output_tokens=70)))

    assert (used.input_tokens, used.output_tokens) == (1, 70)


def test_tools_that_run_at_the_api_have_their_results_in_the_answer() -> None:
    searched = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "news"}}
    hits = [{"type": "web_search_result", "url": "https://example.org", "title": "News"}]
    asked = {"type": "mcp_tool_use", "id": "m1", "name": "look", "server_name": "files", "input": {}}
    found = read_messages(
        request(user("Go.")),
        answer(
            searched,
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": hits},
            asked,
            {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [say("No.")]},
            say("Done."),
        ),
    )

    assert [(one.name, one.status) for one in of(ToolResult, found)] == [
        ("WebSearch", "completed"),
        ("mcp__files__look", "failed"),
    ]
    assert of(Turn, found)[-1].state == "completed"


@pytest.mark.parametrize(
    ("stop", "state"),
    [
        ("end_turn", "completed"),
        ("max_tokens", "completed"),
        ("stop_sequence", "completed"),
        ("refusal", "failed"),
    ],
)
def test_reason_to_stop_ends_the_turn(stop: str, state: str) -> None:
    turn = of(Turn, read_messages(request(user("Hi.")), *streamed(stop=stop)))[-1]

    assert (turn.state, turn.reason) == (state, stop)


def test_paused_turn_goes_on_with_the_next_request() -> None:
    said = {"role": "assistant", "content": [say("Searching.")]}
    found = read_messages(
        request(user("Go.")),
        answer(say("Searching."), stop="pause_turn"),
        request(user("Go."), said),
        answer(say("Found.")),
    )

    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]
    assert [one.text for one in of(Message, found)] == ["Go.", "Searching.", "Found."]


@pytest.mark.parametrize("begun", [0, 3])
def test_error_fails_the_turn(begun: int) -> None:
    answered = streamed(deltas(0, TEXT, {"type": "text_delta", "text": "Hel"}, stops=False))
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    found = read_messages(request(user("Hi.")), *answered[:begun], error)

    (notice,) = of(Notice, found)
    assert (notice.code, notice.text) == ("provider-error", "Overloaded")
    assert [(turn.state, turn.reason) for turn in of(Turn, found)][1:] == [("failed", "overloaded_error")]
    assert [one.text for one in of(Message, found)] == ["Hi.", *(["Hel"] if begun else [])]


def test_client_that_leaves_cancels_the_turn() -> None:
    answered = streamed(deltas(0, TEXT, {"type": "text_delta", "text": "Hel"}, stops=False))[:3]
    left = Line(ExchangeEnd("client", complete=False, status=200).write(), direction="out")
    found = read_messages(request(user("Hi.")), *answered, left)

    assert [one.text for one in of(Message, found)] == ["Hi.", "Hel"]
    assert [(turn.state, turn.reason) for turn in of(Turn, found)][1:] == [("cancelled", "client-left")]


def test_picture_of_a_prompt_is_an_attachment() -> None:
    data = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    link = {"type": "url", "url": "https://example.org/a.pdf"}
    pictures = [{"type": "image", "source": data}, {"type": "document", "source": link, "title": "A"}]
    (prompt,) = of(Message, read_messages(request(user(*pictures, say("What is it?")))))

    assert [(one.mime_type, one.uri) for one in prompt.attachments or []] == [
        ("image/png", None),
        ("application/octet-stream", "https://example.org/a.pdf"),
    ]


def test_unknown_block_is_unparsed() -> None:
    (unparsed,) = of(Unparsed, read_messages(request(user("Hi.")), answer({"type": "hologram"}, say("Hello."))))

    assert "hologram" in unparsed.text


@pytest.mark.parametrize(
    "line",
    [
        request(user("Hi."), system="Be brief."),
        request(user("Hi."), tools=[{"name": "ls", "input_schema": {}}]),
        request(user(result("t1"))),
        answer(say("Hello.")),
        *streamed(deltas(0, TEXT, {"type": "text_delta", "text": "Hi."})),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"},
    ],
)
def test_line_is_recognised(line: dict[str, Any]) -> None:
    assert recognise(line) == "anthropic-messages"


def test_request_of_chat_completions_is_not() -> None:
    system = {"role": "system", "content": "Be brief."}

    assert recognise({"model": "m", "max_tokens": 9, "messages": [system, user("Hi.")]}) == "openai-chat"


def test_block_whose_type_is_no_text_is_no_error() -> None:
    assert read_messages({"messages": [{"role": "assistant", "content": [{"type": {}}]}]}) == []
