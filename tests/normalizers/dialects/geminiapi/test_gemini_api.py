"""The `gemini-api` dialect: requests and answers of the Gemini API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, outline, read
from tests.normalizers.reading import recording as recorded
from tooltap.normalizers.catalog.registry import recognise
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.protocol.events import Event, Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, normalize

ENDED = Line(ExchangeEnd("server", complete=True, status=200).write(), direction="out")


def read_api(*values: Any) -> list[Event]:
    return read("gemini-api", *values)


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def request(*contents: dict[str, Any]) -> dict[str, Any]:
    return {"contents": list(contents)}


def chunk(*parts: Any, finish: str | None = None, answer: str = "r1", **usage: int) -> dict[str, Any]:
    candidate = {"content": content("model", *parts), **({"finishReason": finish} if finish else {})}
    return {"candidates": [candidate], "responseId": answer, "modelVersion": "m", "usageMetadata": usage}


def call(name: str = "look", /, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}}


def result(name: str, text: str, **more: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": text}, **more}}


def test_gemini_cli_runs_a_command_that_fails() -> None:
    lines = recorded("gemini-api", "shell-fails", "gemini-cli-0.61.0")
    found = normalize("gemini-api", lines, Context(stream="s"))

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


def test_chunks_are_one_answer() -> None:
    found = read_api(
        request(content("user", "Hi.")),
        chunk({"text": "Two ", "thought": True}, promptTokenCount=9, candidatesTokenCount=1),
        chunk({"text": "words.", "thought": True}),
        chunk("Hello"),
        chunk(" you.", finish="STOP", promptTokenCount=9, candidatesTokenCount=5, thoughtsTokenCount=4),
        ENDED,
    )

    assert [one.text for one in of(Reasoning, found)] == ["Two words."]
    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello you."]
    (used,) = of(Usage, found)
    assert (used.input_tokens, used.output_tokens, used.reasoning_tokens) == (9, 9, 4)
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_array_of_chunks_is_a_stream() -> None:
    """As the API sends it without `alt=sse`."""
    found = read_api(request(content("user", "Hi.")), [chunk("Hello"), chunk(" you.", finish="STOP")], ENDED)

    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello you."]


@pytest.mark.parametrize("with_ids", [True, False])
def test_results_of_parallel_calls_of_one_tool_come_in_their_order(with_ids: bool) -> None:
    """Gemini CLI gives calls ids when it repeats them; other clients do not."""
    called = [call(at=1), call(at=2)]
    ids = [{"id": "a"}, {"id": "b"}] if with_ids else [{}, {}]
    repeated = [{"functionCall": {**one["functionCall"], **known}} for one, known in zip(called, ids, strict=True)]
    results = [result("look", text, **known) for text, known in zip(("one", "two"), ids, strict=True)]
    asked = content("user", "Go.")
    found = read_api(
        request(asked),
        chunk(*called, finish="STOP"),
        request(asked, content("model", *repeated), content("user", *results)),
        chunk("Done.", finish="STOP", answer="r2"),
        ENDED,
    )

    calls, answered = of(ToolCall, found), of(ToolResult, found)
    assert [one.input["at"] for one in calls] == [1, 2]
    assert [one.call_id for one in answered] == [one.call_id for one in calls]
    assert [one.status for one in answered] == ["completed", "completed"]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_result_that_the_client_shortens_later_is_no_other_result() -> None:
    asked, called = content("user", "Go."), content("model", call())
    found = read_api(
        request(asked),
        chunk(call(), finish="STOP"),
        request(asked, called, content("user", result("look", "a long text"))),
        chunk("Done.", finish="STOP", answer="r2"),
        request(
            asked, called, content("user", result("look", "…")), content("model", "Done."), content("user", "And?")
        ),
    )

    assert len(of(ToolResult, found)) == len(of(ToolCall, found)) == 1
    assert [one.text for one in of(Message, found)] == ["Go.", "Done.", "And?"]


def test_result_without_an_id_is_of_the_newest_answer() -> None:
    """The client has answered only one of the two calls of the answer before."""
    first, second = [call("look", at=1), call("read")], [call("look", at=2)]
    asked = content("user", "Go.")
    known = [asked, content("model", *first), content("user", result("read", "x"))]
    found = read_api(
        request(asked),
        chunk(*first, finish="STOP"),
        request(*known),
        chunk(*second, finish="STOP", answer="r2"),
        request(*known, content("model", *second), content("user", result("look", "two"))),
    )

    expected = [one.call_id for one in of(ToolCall, found)][1:]
    assert [one.call_id for one in of(ToolResult, found) if one.status == "completed"] == expected


def test_context_of_the_session_is_no_prompt() -> None:
    context = "<session_context>\nIt is Monday.\n</session_context>"
    found = read_api(request(content("user", context, "Hi.")))

    assert [one.text for one in of(Message, found)] == ["Hi."]


@pytest.mark.parametrize(
    ("finish", "state"), [("STOP", "completed"), ("MAX_TOKENS", "completed"), ("SAFETY", "failed"), ("NEW", "failed")]
)
def test_reason_to_finish_ends_the_turn(finish: str, state: str) -> None:
    turn = of(Turn, read_api(request(content("user", "Hi.")), chunk("Hello.", finish=finish), ENDED))[-1]

    assert (turn.state, turn.reason) == (state, finish)


def test_blocked_prompt_fails_the_turn() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    found = read_api(request(content("user", "Hi.")), blocked, ENDED)

    assert [(turn.state, turn.reason) for turn in of(Turn, found)][1:] == [("failed", "SAFETY")]
    assert [one.code for one in of(Notice, found)] == ["provider-error"]
    assert [one.input_tokens for one in of(Usage, found)] == [3]


@pytest.mark.parametrize("in_array", [False, True])
def test_error_fails_the_turn(in_array: bool) -> None:
    error = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
    found = read_api(request(content("user", "Hi.")), [error] if in_array else error, ENDED)

    assert [one.text for one in of(Notice, found)] == ["Quota exceeded"]
    assert [(turn.state, turn.reason) for turn in of(Turn, found)][1:] == [("failed", "RESOURCE_EXHAUSTED")]


@pytest.mark.parametrize(("outcome", "status"), [("OUTCOME_OK", "completed"), ("OUTCOME_FAILED", "failed")])
def test_code_that_runs_at_the_api_is_a_call(outcome: str, status: str) -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    ran = {"codeExecutionResult": {"outcome": outcome, "output": "1\n"}}
    found = read_api(request(content("user", "Run it.")), chunk(code, ran, "Done.", finish="STOP"), ENDED)

    assert [one.input["code"] for one in of(ToolCall, found)] == ["print(1)"]
    assert [one.status for one in of(ToolResult, found)] == [status]
    assert of(Turn, found)[-1].state == "completed"


def test_files_are_attachments() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    link = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a"}}
    found = read_api(request(content("user", picture, link, "Draw.")), chunk(picture, finish="STOP"))

    files = [[(one.mime_type, one.uri) for one in message.attachments or []] for message in of(Message, found)]
    assert files == [[("image/png", None), ("application/pdf", "https://example.org/a")], [("image/png", None)]]


def test_code_assist_has_an_envelope() -> None:
    lines = {"model": "m", "request": request(content("user", "Hi."))}, {"response": chunk("Hello.", finish="STOP")}
    found = read_api(*lines)

    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello."]
    assert [recognise(one) for one in lines] == ["gemini-api", "gemini-api"]


def test_unknown_part_is_unparsed() -> None:
    (unparsed,) = of(Unparsed, read_api(request(content("user", "Hi.")), chunk({"hologram": 1}, "Hello.")))

    assert "hologram" in unparsed.text


@pytest.mark.parametrize(
    "line",
    [
        request(content("user", "Hi.")),
        chunk("Hello.", finish="STOP"),
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m"},
    ],
)
def test_line_is_recognised(line: dict[str, Any]) -> None:
    assert recognise(line) == "gemini-api"
