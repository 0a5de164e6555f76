"""Tests of the `openai-responses` dialect: requests, whole responses, streamed events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.openai.responses import OpenAIResponses
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.protocol.model_view import model_text
from tooltap.testing import check_recording, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "openai-responses" / "responses-written"


def recorded(name: str) -> list[Event]:
    return check_recording("openai-responses", read_recording((FIXTURES / f"{name}.jsonl").read_bytes()))


def run(*values: Any) -> tuple[list[Any], list[str]]:
    parser = OpenAIResponses(Context(stream="s"))
    events: list[Any] = []
    classes = []
    for value in values:
        line_class, items = parser.feed(value if isinstance(value, bytes) else orjson.dumps(value))
        classes.append(line_class)
        events += emitted(items)
    return events + emitted(parser.close("end")), classes


def request(*items: Any, **keys: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items), **keys}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def response(*output: Any, status: str = "completed", **keys: Any) -> dict[str, Any]:
    return {"object": "response", "status": status, "model": "m", "output": list(output), **keys}


def function_call(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "shell", "arguments": "{}"}


def function_output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "ok"}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def texts(events: list[Any], role: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Message) and event.role == role]


def turns(events: list[Any]) -> list[tuple[str, str | None]]:
    return [(event.state, event.reason) for event in events if isinstance(event, Turn)]


def ends(events: list[Any]) -> dict[str, tuple[str, str]]:
    return {event.call_id: (event.name, event.status) for event in events if isinstance(event, ToolResult)}


# -- whole files --------------------------------------------------------------------------------------------------


def test_turn_lasts_over_the_responses_of_its_calls() -> None:
    events = recorded("streamed")

    assert turns(events) == [
        ("started", None),
        ("completed", "completed"),
        ("started", None),
        ("cancelled", "interrupted"),
    ]
    assert ends(events) == {"call_S5a": ("Bash", "failed"), "call_S5b": ("Read", "completed")}
    assert [event.input_tokens for event in events if isinstance(event, Usage)] == [1200, 1500]


def test_id_of_a_response_identifies_its_request() -> None:
    response_id = "resp_0a1b2c3d4e5f60718293a4b5"
    usage = {"input_tokens": 5, "output_tokens": 2}
    events, _ = run(request(user("Hi")), response(id=response_id, usage=usage))

    assert [(one.request, one.input_tokens) for one in events if isinstance(one, Usage)] == [(response_id, 5)]


def test_repeated_items_are_emitted_once() -> None:
    events = recorded("streamed")

    assert texts(events, "user") == ["Run the failing command.", "Thanks."]
    assert texts(events, "assistant") == ["The command failed with exit code 3.", "You are welcome"]
    assert [event.text for event in events if isinstance(event, Reasoning)] == [
        "**Running it**",
        "I run the command first.",
    ]


def test_response_that_begins_again_in_the_middle_is_one() -> None:
    """llama.cpp does so while it continues a message that the request ended with."""
    began = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
    events, classes = run(
        request(user("Go on.")),
        began,
        {"type": "response.output_item.added", "item": {"id": "m", "type": "message", "content": []}},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "One "},
        began,
        {"type": "response.output_text.delta", "item_id": "m", "delta": "two"},
        {"type": "response.completed", "response": response(said("Said before. One two"), id="r")},
    )

    assert texts(events, "assistant") == ["Said before. One two"]
    assert classes[4] == "skipped.progress"


def test_request_ends_what_was_cut_off() -> None:
    """The next response may have the id of the one before."""
    began = {"type": "response.created", "response": {"id": "resp_0", "status": "in_progress"}}
    part = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    events, _ = run(
        request(user("One?")),
        began,
        {**part, "delta": "One"},
        request(user("One?"), user("Two?")),
        began,
        {**part, "delta": "Tw"},
        {"type": "response.completed", "response": response(said("Two."), id="resp_0")},
    )

    assert texts(events, "assistant") == ["One", "Two."]


def test_incomplete_text_is_synthetic() -> None:
    last = [event for event in recorded("streamed") if isinstance(event, Message)][-1]

    assert (last.text, last.synthetic, last.message_id) == ("You are welcome", True, "msg_03")


def test_streamed_call_is_updated_with_its_arguments() -> None:
    about = [event for event in recorded("streamed") if getattr(event, "call_id", None) == "call_S5a"]

    assert [type(event).__name__ for event in about] == ["ToolCall", "ToolUpdate", "ToolResult"]
    assert isinstance(about[0], ToolCall)
    assert isinstance(about[1], ToolUpdate)
    assert isinstance(about[2], ToolResult)
    assert about[1].input is not None
    assert about[0].status == "pending"
    assert about[1].input["command"] == "echo partial output; echo 'boom: something broke' >&2; exit 3"
    assert about[2].output["stdout"] == "partial output\nboom: something broke\n"
    assert about[2].output["exit_code"] == 3
    assert about[2].output["_raw"]["type"] == "function_call_output"


def test_hosted_tools_have_results_in_the_response() -> None:
    events = recorded("hosted-tools")

    assert ends(events) == {
        "mcpr_01": ("mcp__zip1__create_short_url", "completed"),
        "mcp_02": ("mcp__zip1__validate_url", "failed"),
        "ws_01": ("WebSearch", "completed"),
        "fs_01": ("CodeSearch", "completed"),
        "ci_01": ("code_interpreter_call", "completed"),
        "ig_01": ("image_generation_call", "completed"),
        "call_sh01": ("Bash", "failed"),
        "tsc_01": ("ToolSearch", "completed"),
        "mcpr_02": ("mcp__zip1__create_short_url", "denied"),
    }
    results = {event.call_id: event for event in events if isinstance(event, ToolResult)}
    assert results["mcp_02"].output["errorMessage"] == "Invalid URL"
    assert [one["url"] for one in results["ws_01"].output["results"]] == [
        "https://example.org/blog",
        "https://example.org/docs",
    ]
    assert (results["call_sh01"].output["stdout"], results["call_sh01"].output["exit_code"]) == ("hello\n", 1)
    assert texts(events, "assistant") == ["Done: https://zip1.example/a1", "I left the second alone."]


def test_image_is_an_output_body() -> None:
    about = [
        one for one in recorded("hosted-tools") if isinstance(one, ToolCall | ToolResult) and one.call_id == "ig_01"
    ]
    call, result = about

    assert isinstance(call, ToolCall)
    assert {key: value for key, value in call.input.items() if key[0] != "_"} == {
        "output_format": "png",
        "size": "1024x1024",
    }
    assert isinstance(result, ToolResult)
    assert result.attachments is not None
    assert result.output["outputId"] == result.attachments[0].output_id
    assert [(one.mime_type, one.bytes) for one in result.attachments] == [("image/png", 8)]
    assert "iVBORw0KGgo" not in repr(about)


def test_approval_request_and_its_call_are_one_call() -> None:
    events = recorded("hosted-tools")

    asked = [event.call_id for event in events if isinstance(event, PermissionRequest)]
    answered = [(event.call_id, event.outcome) for event in events if isinstance(event, PermissionResponse)]
    assert asked == ["mcpr_01", "mcpr_02"]
    assert answered == [("mcpr_01", "allowed"), ("mcpr_02", "denied")]
    assert [event.call_id for event in events if isinstance(event, ToolCall)][:3] == ["mcpr_01", "mcpr_02", "mcp_02"]


def test_client_tools_have_results_in_the_next_request() -> None:
    events = recorded("client-tools")

    assert ends(events) == {
        "call_p1": ("Patch", "completed"),
        "call_l1": ("Bash", "completed"),
        "call_p2": ("Patch", "failed"),
    }
    updates = {event.call_id: event.input for event in events if isinstance(event, ToolUpdate) and event.input}
    assert updates["call_p1"]["changes"]["src/a.py"]["modify"] == {"old_content": "x = 1", "new_content": "x = 2"}
    assert updates["call_l1"]["command"] == "ls -a src"
    assert updates["call_p2"]["changes"]["list.md"]["add"] == {"content": "## List\n\n- [ ] Milk\n"}
    assert turns(events) == [("started", None), ("completed", "max_output_tokens")]


@pytest.mark.parametrize(
    "output",
    [
        "boom\n<shellId: 0 completed with exit code 3>",
        [{"type": "input_text", "text": "boom\n\nCommand exited with code 3"}],
        "Exit code: 3\nWall time: 0.1 seconds\nOutput:\nboom",
    ],
)
def test_exit_code_in_the_text_of_a_shell(output: Any) -> None:
    """Agents other than Codex use the API, too."""
    call = {**function_call("c"), "name": "bash", "arguments": '{"command": "false"}'}
    events, _ = run(
        request(user("Go.")), response(call), request(user("Go."), call, {**function_output("c"), "output": output})
    )

    (result,) = [one for one in events if isinstance(one, ToolResult)]
    assert (result.status, result.output["exit_code"], result.output["stdout"].strip()) == ("failed", 3, "boom")
    seen = output if isinstance(output, str) else output[0]["text"]
    assert model_text(msgspec.to_builtins(result), lambda _: None) == seen


def test_error_is_emitted_once_and_fails_the_turn() -> None:
    events = recorded("errors")

    assert [event.data for event in events if isinstance(event, Notice)] == [
        {"type": "insufficient_quota", "code": "insufficient_quota"},
        {"type": "invalid_request_error", "param": "tool_choice"},
        {"code": "rate_limit_exceeded"},
    ]
    assert turns(events) == [
        ("started", None),
        ("failed", "invalid_request_error"),  # of the same prompt again
        ("started", None),
        ("failed", "rate_limit_exceeded"),
    ]
    assert texts(events, "user") == ["Hello?", "Still there?"]


def test_items_are_known_by_place_where_ids_change() -> None:
    events = recorded("ids-change")

    assert texts(events, "assistant") == ["There are **3**."]
    assert len([event for event in events if isinstance(event, ToolCall)]) == 1


# -- single lines -------------------------------------------------------------------------------------------------


def test_history_is_skipped() -> None:
    first, second = request(user("a")), request(user("a"), said("b"), user("c"))

    events, classes = run(first, response(said("b")), second, second)

    assert texts(events, "user") == ["a", "c"]
    assert classes[-1] == "skipped.history"


def test_same_prompt_again_is_new() -> None:
    again = request(user("go on"), said("b"), user("go on"))

    assert texts(run(request(user("go on")), response(said("b")), again)[0], "user") == ["go on", "go on"]
    continued = request(user("go on"), previous_response_id="r")
    assert texts(run(request(user("go on")), response(said("b")), continued)[0], "user") == ["go on", "go on"]


def test_conversation_tapped_in_the_middle_starts_at_new_items() -> None:
    history = [user("a"), function_call("old"), function_output("old"), said("b"), user("c"), function_call("new")]

    events, _ = run(request(*history, function_output("new")))

    assert ends(events) == {"new": ("Bash", "completed")}
    assert texts(events, "user") == []


def test_parallel_calls_have_their_own_results() -> None:
    calls = [function_call("a"), function_call("b")]
    answers = [calls[0], function_output("a"), calls[1], function_output("b")]

    events, _ = run(request(user("x")), response(*calls), request(user("x"), *answers))

    assert ends(events) == {"a": ("Bash", "completed"), "b": ("Bash", "completed")}


def test_new_prompt_interrupts_waiting_calls() -> None:
    later = request(user("x"), function_call("a"), user("stop"))

    events, _ = run(request(user("x")), response(function_call("a")), later)

    assert ends(events) == {"a": ("Bash", "interrupted")}
    assert turns(events)[:3] == [("started", None), ("cancelled", None), ("started", None)]


def test_polled_response_is_emitted_once() -> None:
    done = response(said("b"), id="r")

    events, classes = run(response(id="r", status="queued"), response(id="r", status="in_progress"), done, done)

    assert texts(events, "assistant") == ["b"]
    assert classes == ["skipped.progress", "skipped.progress", "withEvents", "skipped.unchanged"]


def test_conversation_names_the_session() -> None:
    events, _ = run(response(said("b"), conversation={"id": "conv_1"}))

    assert {event.session for event in events if isinstance(event, Message)} == {"conv_1"}


def test_unknown_kind_of_call_passes_through() -> None:
    item = {"type": "teleport_call", "call_id": "t", "id": "tp_1", "action": {"to": "moon"}, "status": "completed"}
    answer = {"type": "teleport_call_output", "call_id": "t", "output": "arrived"}

    events, _ = run(response(item), request(answer, previous_response_id="r"))

    assert [(one.name, one.input["to"]) for one in events if isinstance(one, ToolCall)] == [("teleport_call", "moon")]
    assert ends(events) == {"t": ("teleport_call", "completed")}


@pytest.mark.parametrize(("reason", "state"), [("content_filter", "failed"), ("max_output_tokens", "completed")])
def test_response_that_a_filter_cut_has_failed(reason: str, state: str) -> None:
    cut = response(said("Hel"), status="incomplete", incomplete_details={"reason": reason})
    events, _ = run(request(user("Hi.")), cut)

    assert turns(events) == [("started", None), (state, reason)]


def test_lines_beside_a_response_are_skipped() -> None:
    """`keepalive` is OpenAI's (openai/openai-node issue 1964), `codex.rate_limits` and `response.metadata` are those of
    ChatGPT's server, and `ping` is OpenCode Zen's."""
    lines = [{"type": kind} for kind in ("keepalive", "ping", "codex.rate_limits", "response.metadata")]
    _, classes = run(request(user("Hi.")), *lines, b"data: {}", b"data: null")

    reasons = ["keep-alive", "keep-alive", "rate-limits", "metadata", "empty", "empty"]
    assert classes[1:] == [f"skipped.{reason}" for reason in reasons]


def test_cost_in_a_later_ping_corrects_the_usage() -> None:
    """As OpenCode Zen states it (anomalyco/opencode issue 39061)."""
    done = {"type": "response.completed", "response": response(said("Hi."), id="r1", usage=USED)}
    pings: list[Any] = [{"type": "ping"}, *[{"type": "ping", "cost": "0.0039"}] * 2]
    more = {"type": "ping", "usage": {"input_tokens": 5, "output_tokens": 3}, "cost": "0.0039"}
    events, classes = run(request(user("Hi.")), done, *pings, more, request(user("On.")), pings[1])

    used = [event for event in events if isinstance(event, Usage)]
    assert [(one.input_tokens, one.output_tokens, one.cost_usd) for one in used] == [
        (5, 2, None),
        (5, 2, 0.0039),
        (5, 3, 0.0039),
    ]
    assert [one.replaces for one in used] == [None, used[0].id, used[1].id]
    assert {one.turn for one in used} == {"t1"}
    assert classes[2:] == [
        "skipped.keep-alive",
        "withEvents",
        "skipped.keep-alive",
        "withEvents",
        "withEvents",
        "skipped.keep-alive",
    ]


def test_unknown_lines_are_unparsed() -> None:
    events, classes = run({"type": "response.teleported", "response": {}}, {"hello": 1}, response({"type": "dream"}))

    assert classes[:2] == ["unparsed", "unparsed"]
    assert [event.reason for event in events if isinstance(event, Unparsed)] == ["unknown-type"] * 3


@pytest.mark.parametrize(
    "value",
    [
        {"model": "text-embedding-3", "input": "hello"},
        {"type": "response.created", "event_id": "event_1", "response": {"object": "realtime.response"}},
        {"type": "response_item", "payload": {"type": "message"}, "timestamp": "x"},
        {"object": "chat.completion", "choices": []},
    ],
)
def test_similar_formats_are_not_recognised(value: dict[str, Any]) -> None:
    normalizer = StreamNormalizer(Context(stream="s"))
    normalizer.feed(orjson.dumps(value))

    assert normalizer.dialect != "openai-responses"


# -- the end of an exchange, as the gateway states it -----------------------------------------------------------------


def ended(by: Any = "server", complete: bool = True, status: int | None = 200, **more: Any) -> bytes:
    return ExchangeEnd(by, complete, status, **more).write()


CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"}


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([CREATED, DELTA, ended("client", False)], ("cancelled", "client-left")),
        ([ended("client", False, None)], ("cancelled", "client-left")),
        ([CREATED, DELTA, ended("tap", False)], ("failed", "gateway-stopped")),
        ([{"error": {"code": "wrong", "message": "No."}}, ended(status=400)], ("failed", "wrong")),
        ([response(said("Hello.")), ended()], ("completed", "completed")),
        ([ended(status=404, body="<html>Bad</html>")], ("failed", "404")),
    ],
)
def test_turn_ends_with_its_exchange(lines: list[Any], end: tuple[str, str | None]) -> None:
    found, _ = read_so_far(request(user("Hi.")), *lines)

    assert turns(found) == [("started", None), end]
    assert len([event for event in found if isinstance(event, Notice)]) == (end[0] == "failed")


def read_so_far(*lines: Any) -> tuple[list[Event], OpenAIResponses]:
    """The events of a stream that has not ended."""
    parser = OpenAIResponses(Context(stream="s"))
    fed = [parser.feed(one if isinstance(one, bytes) else orjson.dumps(one)) for one in lines]
    return [event for _, items in fed for event in emitted(items)], parser


FAILURES = [
    ([CREATED, DELTA, ended("server", False)], "connection-lost"),
    ([CREATED, DELTA, ended()], "unfinished"),
    ([{"type": "error", "code": "overloaded", "message": "Full."}, ended()], "overloaded"),
    ([CREATED, {"type": "error", "code": "overloaded"}, ended("server", False)], "overloaded"),
    ([CREATED, response(status="failed", error={"code": "overloaded"}), ended()], "overloaded"),
    ([{"error": {"code": "limit", "message": "Later."}}, ended(status=429)], "limit"),
    ([ended(status=502, body="<html>Bad</html>")], "502"),
]
"""Lines of exchanges that a client may repeat, and the reason of the turn's end if it does not."""


@pytest.mark.parametrize(("lines", "reason"), FAILURES)
def test_failed_turn_ends_when_nothing_follows(lines: list[Any], reason: str) -> None:
    found, parser = read_so_far(request(user("Hi.")), *lines)
    [settled] = emitted(parser.settle_all(0))
    closed = emitted(parser.close("eof"))

    assert turns(found) == [("started", None)]
    assert len([event for event in found if isinstance(event, Notice)]) == 1
    assert (settled.state, settled.reason, settled.provisional) == ("failed", reason, True)
    assert turns(closed) == [("failed", reason)]


def test_failure_after_the_turn_was_given_up_is_its_end() -> None:
    _, parser = read_so_far(CREATED)
    given_up = emitted(parser.close("suspended-too-long"))
    _, items = parser.feed(orjson.dumps(response(status="failed", error={"code": "overloaded"})))

    assert turns(given_up) == [("cancelled", "interrupted")]
    assert turns(emitted(items)) == [("failed", "overloaded")]


@pytest.mark.parametrize(("lines", "reason"), FAILURES)
def test_failed_turn_ends_at_another_prompt(lines: list[Any], reason: str) -> None:
    found, _ = read_so_far(request(user("Hi.")), *lines, request(user("Hi."), user("Well?")))

    assert turns(found) == [("started", None), ("failed", reason), ("started", None)]


@pytest.mark.parametrize(("lines", "reason"), FAILURES)
def test_retried_request_belongs_to_its_turn(lines: list[Any], reason: str) -> None:
    again = [request(user("Hi.")), response(said("Hello."), id="resp_2"), ended()]
    found, parser = read_so_far(request(user("Hi.")), *lines, *again)

    assert turns(found) == [("started", None), ("completed", "completed")]
    assert texts(found, "user") == ["Hi."]
    assert texts(found, "assistant")[-1] == "Hello."
    assert emitted(parser.close("eof")) == []


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ({}, [response(function_call("a")), ended()]),
        ({"background": True}, [response(status="queued"), ended()]),
        ({"background": True}, [CREATED, DELTA, ended("server", False)]),
        ({}, [ended(unread=900)]),
        ({"background": True}, [response(status="in_progress"), ended(), response(status="queued")]),
    ],
)
def test_turn_goes_on_after_its_exchange(asked: dict[str, Any], lines: list[Any]) -> None:
    events, _ = run(request(user("Hi."), **asked), *lines)

    assert turns(events)[-1] == ("cancelled", "interrupted")
    assert [event.ended_by for event in events if isinstance(event, Turn)][-1] == "eof"


def test_retry_after_an_exchange_that_broke_off_is_read_whole() -> None:
    whole = {"type": "response.completed", "response": response(said("Hello."), id="resp_2")}
    events, _ = run(request(user("Hi.")), CREATED, DELTA, ended("server", False), request(user("Hi.")), whole, ended())

    assert texts(events, "assistant") == ["Hel", "Hello."]
    assert [state for state, _ in turns(events)] == ["started", "completed"]


# -- responses that a client asks for by their ids --------------------------------------------------------------------

ASKED = request(user("Hi."), background=True, store=True)
QUEUED, RUNNING = response(status="queued", id="r1"), response(status="in_progress", id="r1")
USED = {"input_tokens": 5, "output_tokens": 2}


def numbered(first: int, *events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events, first)]


def of_text(text: str) -> dict[str, Any]:
    place = {"output_index": 0, "content_index": 0, "item_id": "i"}
    return {"type": "response.output_text.delta", **place, "delta": text}


STREAMED = numbered(
    0,
    {"type": "response.created", "response": {"id": "r1", "model": "m", "status": "queued"}},
    of_text("Found "),
    of_text("it."),
    {"type": "response.output_item.done", "output_index": 0, "item": said("Found it.")},
    {"type": "response.completed", "response": response(said("Found it."), id="r1", usage=USED)},
)


@pytest.mark.parametrize(
    "polls",
    [
        pytest.param([QUEUED, RUNNING, STREAMED[-1]["response"]], id="whole"),
        pytest.param([QUEUED, RUNNING, *[STREAMED[-1]["response"]] * 3, *STREAMED], id="and again"),
        pytest.param([QUEUED, *STREAMED, STREAMED[-1]["response"]], id="as a stream"),
        pytest.param([*STREAMED[:2], *STREAMED[2:]], id="as a stream that breaks off and goes on behind what is known"),
        pytest.param([*STREAMED[:2], *STREAMED, *STREAMED], id="as a stream that breaks off and begins anew"),
        pytest.param([*STREAMED[:2], STREAMED[-1]["response"]], id="whole after a stream that breaks off"),
    ],
)
def test_response_that_is_polled_ends_the_turn_once(polls: list[Any]) -> None:
    events, _ = run(ASKED, polls[0], ended("server", polls[0] is QUEUED), *polls[1:])

    assert texts(events, "assistant") == ["Found it."]
    assert turns(events) == [("started", None), ("completed", "completed")]
    assert [one.input_tokens for one in events if isinstance(one, Usage)] == [5]


def test_response_that_is_polled_after_later_ones_is_known() -> None:
    later = [request(user("On."), previous_response_id="r1"), response(said("Two."), id="r2", usage=USED), ended()]
    events, _ = run(ASKED, QUEUED, ended(), *STREAMED, *later, STREAMED[-1]["response"], *STREAMED)

    assert texts(events, "assistant") == ["Found it.", "Two."]
    assert len([one for one in events if isinstance(one, Usage)]) == 2


def test_background_response_may_be_cancelled() -> None:
    events, _ = run(ASKED, QUEUED, ended(), RUNNING, response(status="cancelled", id="r1"))

    assert turns(events) == [("started", None), ("cancelled", "cancelled")]


def test_request_for_a_background_response_may_fail() -> None:
    events, _ = run(ASKED, ended(status=502, body="<html>Bad</html>"))

    assert turns(events) == [("started", None), ("failed", "502")]


CONTEXT = "<environment_context>\n  <cwd>/ws</cwd>\n</environment_context>"


@pytest.mark.parametrize(("provider", "expected"), [("codex", ["Go."]), (None, [CONTEXT, "Go."])])
def test_context_that_codex_adds_is_no_prompt(provider: str | None, expected: list[str]) -> None:
    """As its session file has it. Of an unknown client, the user may have written it."""
    parser = OpenAIResponses(Context(stream="s", provider=provider))
    parts = {"role": "user", "content": [{"type": "input_text", "text": CONTEXT}]}
    _, items = parser.feed(orjson.dumps(request(parts, user("Go."))))
    assert [event.text for event in emitted(items) if isinstance(event, Message)] == expected


def test_context_that_codex_adds_stops_no_turn() -> None:
    parser = OpenAIResponses(Context(stream="s", provider="codex"))
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}
    parser.feed(orjson.dumps(request(user("Go."))))
    parser.feed(orjson.dumps(response(call)))
    _, items = parser.feed(orjson.dumps(request(user("Go."), call, user(CONTEXT))))
    assert not [event for event in emitted(items) if isinstance(event, Turn | Message)]


def test_words_beside_the_context_are_a_prompt() -> None:
    parser = OpenAIResponses(Context(stream="s", provider="codex"))
    parts = {"role": "user", "content": [{"type": "input_text", "text": text} for text in (CONTEXT, "Go.")]}
    _, items = parser.feed(orjson.dumps(request(parts)))
    assert [event.text for event in emitted(items) if isinstance(event, Message)] == [f"{CONTEXT}\nGo."]
