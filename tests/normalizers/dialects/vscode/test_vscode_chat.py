"""The `vscode-chat` dialect: a document and a log of changes, parts that are written again, and how calls ended."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import answer, of, read, recording, said
from tooltap.protocol.events import Notice, Reasoning, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line, normalize

COUNT = recording("vscode-chat", "count", "vscode-written")
START = {"kind": 0, "v": {"version": 3, "sessionId": "s1", "creationDate": 1795692000000, "requests": []}}
OVER = {"kind": 1, "k": ["requests", 0, "modelState"], "v": {"value": 1}}


def request(name: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"requestId": name, "timestamp": 1795692001000, "message": {"text": name}, "response": list(parts), **more}


def chat(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "responderUsername": "GitHub Copilot", "sessionId": "s1", "requests": list(requests)}


def adds(path: list[Any], *items: dict[str, Any], **more: int) -> dict[str, Any]:
    return {"kind": 2, "k": path, "v": list(items), **more}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "toolInvocationSerialized", "toolCallId": "c1", "toolId": name, "isComplete": True, **more}


ASKED = adds(["requests"], request("Go"))
RESPONSE = ["requests", 0, "response"]


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider, one.session) for one in found} == {("vscode-chat", "vscode", "0c1d")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting the lines of `notes.txt`."),
        ("assistant", "It has 12 lines."),
    ]
    assert [one.text for one in of(Reasoning, found)] == ["wc does it."]
    assert [(one.model, one.title) for one in of(SessionEvent, found)] == [
        (None, None),
        ("model-a", None),
        (None, "Lines of notes.txt"),
    ]
    shell, file = of(ToolResult, found)
    assert answer(shell.output) == {"stdout": "12 notes.txt\n", "exit_code": 0}
    assert (file.name, file.status) == ("Read", "completed")
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_document_is_read_like_the_log_of_its_changes() -> None:
    whole = chat(request("Go", {"value": "Done."}, result={"metadata": {}}))
    lines = [Line(one) for one in orjson.dumps(whole, option=orjson.OPT_INDENT_2).splitlines()]
    found = normalize("auto", lines)

    assert said(found) == [("user", "Go"), ("assistant", "Done.")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_what_was_read_does_not_come_again() -> None:
    first = chat(request("Go", {"value": "Done."}, modelState={"value": 1}))
    second = chat(*first["requests"], request("More", {"value": "Yes."}, modelState={"value": 1}))
    found = read("vscode-chat", first, second, {"kind": 0, "v": second})

    assert [text for _, text in said(found)] == ["Go", "Done.", "More", "Yes."]


def test_text_that_is_written_again_comes_once() -> None:
    first, again = adds(RESPONSE, {"value": "I"}), adds(RESPONSE, {"value": "I count."}, i=0)
    steps = first, again, adds(RESPONSE, {"value": " Now."})
    found = read("vscode-chat", START, ASKED, *steps, OVER)

    assert said(found) == [("user", "Go"), ("assistant", "I count. Now.")]


def test_part_before_a_text_that_is_written_again_is_not_repeated() -> None:
    thought, call = {"kind": "thinking", "value": "Hm."}, tool("copilot_readFile", isComplete=False)
    again = adds(RESPONSE, {**call, "isComplete": True}, {"value": "Read."}, i=1)
    found = read("vscode-chat", START, ASKED, adds(RESPONSE, thought, call), again, OVER)

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.name for one in of(ToolCall, found)] == ["Read"]
    assert [one.status for one in of(ToolResult, found)] == ["completed"]


def test_text_of_a_request_that_is_not_over_is_not_lost() -> None:
    assert said(read("vscode-chat", START, ASKED, adds(RESPONSE, {"value": "Half"})))[-1] == ("assistant", "Half")


@pytest.mark.parametrize(
    ("more", "status", "error"),
    [
        ({"toolSpecificData": {"terminalCommandState": {"exitCode": 1}}}, "failed", None),
        ({"resultDetails": {"isError": True, "output": "boom"}}, "failed", "boom"),
        ({"resultDetails": {"output": [{"isText": True, "value": "ok"}]}}, "completed", None),
        ({"isConfirmed": {"type": 0}}, "denied", None),
        ({"isConfirmed": False}, "denied", None),
    ],
)
def test_call_states_how_it_ended(more: dict[str, Any], status: str, error: str | None) -> None:
    [found] = of(ToolResult, read("vscode-chat", START, ASKED, adds(RESPONSE, tool("run_in_terminal", **more)), OVER))

    assert (found.status, found.output.get("errorMessage")) == (status, error)


@pytest.mark.parametrize(("value", "state"), [(1, "completed"), (2, "cancelled"), (3, "failed"), (4, "cancelled")])
def test_state_of_a_request_is_the_end_of_its_turn(value: int, state: str) -> None:
    over = {**OVER, "v": {"value": value}}

    assert [one.state for one in of(Turn, read("vscode-chat", START, ASKED, over))] == ["started", state]


def test_error_of_a_request_is_noticed() -> None:
    failed = chat(request("Go", result={"errorDetails": {"message": "No network."}}))
    found = read("vscode-chat", failed)

    assert [(one.code, one.text) for one in of(Notice, found)] == [("provider-error", "No network.")]
    assert [one.state for one in of(Turn, found)] == ["started", "failed"]


def test_requests_that_the_user_removed_are_noticed() -> None:
    lines = START, adds(["requests"], request("Go"), request("More")), adds(["requests"], request("Other"), i=1)
    removed = {"kind": 2, "k": ["requests"], "v": [], "i": 1}

    assert [one.code for one in of(Notice, read("vscode-chat", *lines, removed))] == ["rewound"]


def test_what_has_no_known_shape_is_kept() -> None:
    odd = [
        adds(RESPONSE, {"kind": "hologram"}),
        {"kind": 1, "k": ["mood"], "v": 1},
        {"kind": 1, "k": ["requests", 0, "mood"], "v": 1},
        {"kind": 1, "k": ["requests", 7, "result"], "v": {}},
        {"kind": 9, "k": ["requests"]},
        adds(RESPONSE, {"kind": ["hologram"]}),
        {**OVER, "v": {"value": []}},
    ]

    assert [one.reason for one in of(Unparsed, read("vscode-chat", START, ASKED, *odd))] == ["unknown-type"] * 6
