"""Display lines: what a user interface shows of an event, the same for every provider."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import orjson
import pytest

from tests.same_task import EDIT, FIXTURES, PROVIDERS, SHELL_FAILS, Session
from tooltap.daemon.show.skins.display import (
    PROJECTIONS,
    CallTimes,
    display_body,
    display_events,
    display_of,
    display_text,
)
from tooltap.normalizers.core.items import Limits, Produced
from tooltap.normalizers.stream.bounds import bound
from tooltap.protocol.display import (
    DisplaySession,
    DisplayText,
    DisplayToolResult,
    DisplayToolUse,
    DisplayTurn,
    decode_display,
    encode_display,
)
from tooltap.protocol.events import AnyEvent, Event, Message, decode, encode
from tooltap.testing import normalize, read_recording

PREVIEW = "echo partial output; echo 'boom: somethi"
TEXT = "The command failed with exit code 3."
STATUS = {"gemini": "completed", "openai-compatible": "completed"}
"""Providers whose lines do not state that the command failed."""
ENVELOPE = {
    "v": 2,
    "id": "s:1:0",
    "stream": "s",
    "line": 1,
    "session": "session",
    "protocol": "acp",
    "provider": "gemini",
    "dialect": "acp",
}
CALL = {"callId": "c", "name": "Bash"}
LISTED = "List " + "x" * 35
HALF = {"text": "50%"}
VIEW = {"origin": "rewriter", "text": "one line"}
NOTICE = {"kind": "notice", "code": "turn", "text": "x"}
ANSWER = {"outcome": "allowed", "by": "me", "reason": "gone"}
RETRY = {"level": "info", "code": "retry"}
HAPPY = {"_happy": {"v": 2}, "_raw": {"title": "x"}}


def event(kind: str, **fields: Any) -> Event:
    return decode(orjson.dumps({**ENVELOPE, "kind": kind, **fields}))


def displayed(kind: str, **fields: Any) -> dict[str, Any] | None:
    """The encoded display line of an event, without the envelope."""
    shown = display_of(event(kind, **fields))
    return None if shown is None else _without_envelope(orjson.loads(encode_display(shown)))


def _without_envelope(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ENVELOPE}


def steps(session: Session) -> Iterator[tuple[str, ...]]:
    """Tools and texts in order: the steps that every provider's session shows."""
    for shown in display_events(session.events()):
        match shown:
            case DisplayToolUse():
                yield "tool_use", shown.name, shown.arg
            case DisplayToolResult():
                yield "tool_result", shown.name, shown.status
            case DisplayText():
                yield "text", shown.text


# -- the same for every provider ----------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_recorded_session_has_same_steps(provider: str) -> None:
    assert list(steps(SHELL_FAILS[provider])) == [
        ("tool_use", "Bash", PREVIEW),
        ("tool_result", "Bash", STATUS.get(provider, "failed")),
        ("text", TEXT),
    ]


@pytest.mark.parametrize("name", SHELL_FAILS)
def test_every_tap_has_same_steps(name: str) -> None:
    assert [step[:2] for step in steps(SHELL_FAILS[name])] == [
        ("tool_use", "Bash"),
        ("tool_result", "Bash"),
        ("text", TEXT),
    ]


@pytest.mark.parametrize("name", EDIT)
def test_text_stays_between_tools(name: str) -> None:
    """Names of the tools that read and edit differ by agent."""
    found = list(steps(EDIT[name]))

    assert [kind for kind, *_ in found] == ["tool_use", "tool_result", "text", "tool_use", "tool_result", "text"]
    assert [step[1] for step in found if step[0] == "text"] == [
        "Now the edit.",
        "Changed Hello to Howdy in src/app.py.",
    ]


def test_blocks_of_one_line_keep_order() -> None:
    """A line of Claude may hold several texts and calls."""
    blocks = [
        {"type": "text", "text": "One."},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/w/a.py"}},
        {"type": "text", "text": "Two."},
        {"type": "tool_use", "id": "b", "name": "Grep", "input": {"pattern": "x"}},
        {"type": "text", "text": "Three."},
    ]
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": blocks}
    line = orjson.dumps({"type": "assistant", "message": message, "session_id": "s"})
    events = normalize("claude-stream", read_recording(line + b"\n"))
    shown = [one for one in display_events(events) if not isinstance(one, DisplaySession | DisplayTurn)]

    assert [type(one).__name__ for one in shown[:5]] == ["DisplayText", "DisplayToolUse"] * 2 + ["DisplayText"]
    assert [getattr(one, "text", "") or getattr(one, "name", "") for one in shown[:5]] == [
        "One.",
        "Read",
        "Two.",
        "Grep",
        "Three.",
    ]


@pytest.mark.parametrize("name", SHELL_FAILS)
def test_display_text_is_message_text(name: str) -> None:
    events = SHELL_FAILS[name].events()
    written = "".join(one.text for one in events if isinstance(one, Message) and one.role == "assistant")

    assert display_text(display_events(events)) == written == TEXT


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/*/unicode.jsonl")), ids=lambda path: path.parts[-3])
def test_fields_have_no_renderer_glyphs(path: Any) -> None:
    """The recordings contain ANSI escapes, emoji and combining characters; text stays as the agent wrote it."""
    events = normalize(path.parts[-3], read_recording(path.read_bytes()))
    shown = list(display_events(events))

    assert [one.text for one in shown if isinstance(one, DisplayText)] == [
        one.text for one in events if isinstance(one, Message) and one.role == "assistant"
    ]
    for one in shown:
        if isinstance(one, DisplayToolUse):
            assert re.fullmatch(r"[^\x00-\x1f\x7f▸✓✗■]{0,40}", one.arg)
            assert re.fullmatch(r"[\w.-]+", one.name)


# -- kind by kind -------------------------------------------------------------------------------------------------


RUNNING = {**CALL, "input": {}, "status": "running"}
OF_SHELL = {**CALL, "family": "shell"}
ASKED = {
    "permissionId": "p",
    "type": "permission",
    **CALL,
    "title": "ls",
    "input": {"command": "ls", "_raw": {"a": 1}},
    "options": [{"id": "a", "name": "Allow", "kind": "allow_once", "more": 1}],
}
FAILED = {"level": "error", "text": "failed: limit", "state": "failed"}
CANCELLED = {"level": "warning", "text": "cancelled", "state": "cancelled"}
QUESTIONS = [
    {
        "id": "q",
        "question": "Which?",
        "header": "Colour",
        "multiSelect": True,
        "options": [{"label": "Red", "description": "warm"}, "Blue"],
    }
]


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("message", {"role": "assistant", "text": "a\r\n\x1b[1mb"}, {"kind": "text", "text": "a\r\nb"}),
        ("message", {"role": "user", "text": "do"}, {"kind": "prompt", "role": "user", "text": "do"}),
        (
            "message",
            {"role": "assistant", "text": "b", "messageId": "m", "block": 1, "offset": 1, "partial": True},
            {"kind": "text", "text": "b", "messageId": "m", "block": 1, "offset": 1, "partial": True},
        ),
        ("reasoning", {"text": "Hm.", "block": 0}, {"kind": "reasoning", "text": "Hm.", "block": 0}),
        (
            "tool-call",
            {**RUNNING, "preview": "ls", "title": "List"},
            {"kind": "tool_use", **OF_SHELL, "status": "running", "arg": "ls"},
        ),
        (
            "tool-call",
            {**RUNNING, "title": "List\x1b[31m\n" + "x" * 99},
            {"kind": "tool_use", **OF_SHELL, "status": "running", "arg": LISTED},
        ),
        ("tool-call", {**RUNNING, "title": "bash"}, {"kind": "tool_use", **OF_SHELL, "status": "running"}),
        (
            "tool-call",
            {**RUNNING, "title": "Terminal", "status": "pending", "synthetic": True},
            {"kind": "tool_use", **OF_SHELL, "status": "pending", "synthetic": True},
        ),
        ("tool-update", {**CALL, "preview": "ls"}, {"kind": "tool_update", **OF_SHELL, "arg": "ls"}),
        ("tool-update", {**CALL, "status": "running"}, {"kind": "tool_update", **OF_SHELL, "status": "running"}),
        ("tool-update", {**CALL, "progress": HALF}, {"kind": "tool_update", **OF_SHELL, "progress": HALF}),
        ("tool-update", {**CALL, "display": VIEW}, {"kind": "tool_update", **OF_SHELL, "display": VIEW}),
        (
            "permission-request",
            ASKED,
            {
                "kind": "permission",
                "permissionId": "p",
                "state": "requested",
                "type": "permission",
                **OF_SHELL,
                "title": "ls",
                "input": {"command": "ls"},
                "options": [{"id": "a", "name": "Allow", "kind": "allow_once"}],
            },
        ),
        (
            "permission-request",
            {"permissionId": "p", "type": "question", "questions": QUESTIONS},
            {
                "kind": "permission",
                "permissionId": "p",
                "state": "requested",
                "type": "question",
                "name": "question",
                "questions": [
                    {
                        "id": "q",
                        "question": "Which?",
                        "header": "Colour",
                        "multiSelect": True,
                        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}],
                    }
                ],
            },
        ),
        (
            "permission-request",
            {
                "permissionId": "p",
                "type": "question",
                "questions": [{"question": "Which?", "multiple": True, "freeText": True, "options": ["Red"]}],
            },
            {
                "kind": "permission",
                "permissionId": "p",
                "state": "requested",
                "type": "question",
                "name": "question",
                "questions": [
                    {"question": "Which?", "multiSelect": True, "freeText": True, "options": [{"label": "Red"}]}
                ],
            },
        ),
        (
            "permission-response",
            {"permissionId": "p", "outcome": "denied", "by": "user", "message": "no"},
            {"kind": "permission", "permissionId": "p", "state": "denied", "by": "user", "message": "no"},
        ),
        (
            "permission-response",
            {"permissionId": "p", "outcome": "answered", "optionId": "a", "answers": {"Which?": "Red"}},
            {
                "kind": "permission",
                "permissionId": "p",
                "state": "answered",
                "optionId": "a",
                "answers": {"Which?": "Red"},
            },
        ),
        ("notice", {"level": "info", "code": "hook", "text": "x"}, NOTICE | {"level": "info", "code": "hook"}),
        (
            "notice",
            {
                "level": "warning",
                "code": "answer-failed",
                "text": "x",
                "data": {"permissionId": "p", **ANSWER, "seq": 1},
            },
            NOTICE | {"level": "warning", "code": "answer-failed", "permissionId": "p"} | ANSWER,
        ),
        (
            "notice",
            {
                "level": "info",
                "code": "send-accepted",
                "text": "x",
                "data": {"sendId": "a", "what": "prompt", "by": "me"},
            },
            NOTICE | {"level": "info", "code": "send-accepted", "sendId": "a", "by": "me"},
        ),
        ("notice", {"level": "info", "code": "retry", "text": "x", "data": {"by": "me"}}, NOTICE | RETRY),
        ("turn", {"state": "failed", "reason": "limit"}, NOTICE | FAILED),
        (
            "turn",
            {"state": "cancelled", "durationMs": 5, "endedBy": "eof"},
            NOTICE | CANCELLED | {"durationMs": 5, "endedBy": "eof"},
        ),
        (
            "turn",
            {"state": "failed", "reason": "429", "provisional": True, "endedBy": "provider"},
            NOTICE
            | {"level": "error", "code": "turn", "text": "failed: 429", "state": "failed"}
            | {"provisional": True, "endedBy": "provider"},
        ),
        (
            "unparsed",
            {"reason": "not-json", "text": "x", "bytes": 1},
            NOTICE | {"level": "warning", "code": "unparsed", "text": "not-json: x"},
        ),
        ("turn", {"state": "started"}, {"kind": "turn", "state": "started"}),
        (
            "turn",
            {"state": "completed", "durationMs": 5, "provisional": True, "reason": "end_turn", "endedBy": "answer"},
            {
                "kind": "turn",
                "state": "completed",
                "durationMs": 5,
                "provisional": True,
                "reason": "end_turn",
                "endedBy": "answer",
            },
        ),
        ("tool-update", {**CALL, "input": {}}, None),
        (
            "session",
            {"state": "started", "title": "Fix", "cwd": "/w", "model": "m", "alias": "run-1", "tools": ["Bash"]},
            {"kind": "session", "state": "started", "title": "Fix", "cwd": "/w", "model": "m", "alias": "run-1"},
        ),
        ("session", {"state": "ended"}, {"kind": "session", "state": "ended"}),
        ("session", {"state": "updated", "tools": ["Bash"]}, None),
        (
            "usage",
            {"scope": "step", "inputTokens": 7, "costUsd": 0.5, "costScope": "turn", "contextUsed": 9, "request": "r"},
            {
                "kind": "usage",
                "scope": "step",
                "inputTokens": 7,
                "costUsd": 0.5,
                "costScope": "turn",
                "contextUsed": 9,
            },
        ),
        ("message", {"role": "assistant", "text": "again", "replay": True}, None),
    ],
)
def test_display_line_by_kind(kind: str, fields: dict[str, Any], shown: dict[str, Any] | None) -> None:
    assert displayed(kind, **fields) == shown


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"output": {"stdout": "a", "exit_code": 0}}, {"exitCode": 0, "output": {"stdout": "a", "exit_code": 0}}),
        (
            {"output": {"stdout": "a"}, "display": {"origin": "rule", "text": "1 line"}},
            {"display": {"origin": "rule", "text": "1 line"}},
        ),
        (
            {"output": {"stdout": "a"}, "display": {"origin": "rewriter", "outputId": "o"}},
            {"display": {"origin": "rewriter", "outputId": "o"}},
        ),
        ({"output": {"stdout": "a", "exit_code": 0}, "silent": True}, {"silent": True}),
        ({"output": {"stdout": "a"}, "display": VIEW, "ask": True, "durationMs": 5}, {"ask": True, "durationMs": 5}),
        (
            {"output": {"stdout": "a"}, "assistantView": "unknown"},
            {"output": {"stdout": "a"}, "assistantView": "unknown"},
        ),
        (
            {"output": {"errorMessage": "no way"}, "status": "denied", "durationMs": 5},
            {"status": "denied", "durationMs": 5, "error": "no way", "output": {"errorMessage": "no way"}},
        ),
        ({"output": {}, "async": True}, {"async": True, "output": {}}),
        (
            {"output": {}, "synthetic": True, "modelView": {"differs": True, "blocks": []}},
            {"output": {}, "synthetic": True, "modelDiffers": True},
        ),
        ({"output": {}, "final": True, "replaces": "s:0:0"}, {"final": True, "replaces": "s:0:0", "output": {}}),
    ],
)
def test_result_shows_display_else_output(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    result = {**CALL, "status": "completed", "isError": False, **fields, "output": {**fields["output"], **HAPPY}}

    assert displayed("tool-result", **result) == {"kind": "tool_result", **OF_SHELL, "status": "completed", **shown}


HOSTILE = "a\x1b[5mb\x1b]0;title\x07c\x9b31md\x1bPq\x1b\\e\x1b(Bf\x1b[0"
"""Colours, a title, an 8-bit sequence, a device control, a character set, and a sequence that is cut."""


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("message", {"role": "assistant", "text": HOSTILE}),
        ("reasoning", {"text": HOSTILE}),
        ("tool-call", {**RUNNING, "name": HOSTILE, "preview": "ls"}),
        ("tool-update", {**CALL, "display": {"origin": "rewriter", "text": HOSTILE}}),
        ("tool-update", {**CALL, "chunk": {"stream": "stdout", "text": HOSTILE, "offset": 0}, "partial": True}),
        ("tool-result", {**CALL, "status": "completed", "isError": False, "output": {HOSTILE: [{"a": HOSTILE}]}}),
        ("permission-request", {**ASKED, "options": [{"name": HOSTILE}]}),
        ("notice", {"level": "info", "code": "hook", "text": HOSTILE}),
        ("session", {"state": "started", "title": HOSTILE}),
    ],
)
def test_no_field_has_an_escape_sequence(kind: str, fields: dict[str, Any]) -> None:
    shown = display_of(event(kind, **fields))
    body = display_body(encode(event(kind, **fields)), CallTimes())

    assert shown is not None
    assert body == encode_display(shown)
    assert "abcdef" in body.decode()
    assert not re.search(r"[\x1b\x9b]", str(orjson.loads(body)))


def test_partial_is_marked() -> None:
    chunk = {"stream": "stdout", "text": "a", "offset": 3}

    partial = {"text": "He", "partial": True, "offset": 2}

    assert displayed("message", role="assistant", **partial) == {"kind": "text", **partial}
    assert displayed("tool-update", **CALL, chunk=chunk, partial=True) == {
        "kind": "tool_update",
        **OF_SHELL,
        "chunk": chunk,
        "partial": True,
    }
    assert display_text(display_events([event("message", role="assistant", **partial)])) == ""


def test_attribution_is_kept() -> None:
    attribution = {"seq": 7, "ts": 5, "agent": "sub", "parent": "c1", "turn": "t1"}
    shown = display_of(event("message", role="assistant", text="x", **attribution))

    assert shown is not None
    assert orjson.loads(encode_display(shown)) == {
        "kind": "text",
        "text": "x",
        **{key: ENVELOPE[key] for key in ("id", "stream", "session", "provider")},
        **attribution,
    }


def test_shown_fields_keep_their_outputs() -> None:
    long = "x" * 100
    result = event(
        "tool-result", **CALL, status="completed", isError=False, output={"stdout": long, "_raw": {"text": long}}
    )
    produced, _ = bound(Produced.of(result), Limits(string_bytes=50), iter("ab").__next__)
    cut = produced.event
    shown = display_of(cut)
    hidden = display_of(msgspec.structs.replace(cut, silent=True))

    assert cut.outputs is not None
    assert len(cut.outputs) == 2
    assert shown is not None
    assert shown.outputs == {"/output/stdout": cut.outputs["/output/stdout"]}
    assert isinstance(hidden, DisplayToolResult)
    assert hidden.outputs is None


def test_display_body_encodes_display_line() -> None:
    message = event("message", role="assistant", text="x")
    shown = display_of(message)

    assert shown is not None
    assert display_body(encode(message), CallTimes()) == encode_display(shown)
    assert decode_display(encode_display(shown)) == shown
    assert display_body(encode(event("session", state="updated")), CallTimes()) is None


def test_unknown_kind_is_left_out() -> None:
    assert display_body(orjson.dumps({**ENVELOPE, "kind": "telepathy"}), CallTimes()) is None
    assert decode_display(orjson.dumps({**ENVELOPE, "kind": "telepathy"})) is None


def test_every_kind_is_projected() -> None:
    assert set(PROJECTIONS) == set(get_args(AnyEvent))
