"""`<think>…</think>` at the beginning of an answer is a thought, whole or in pieces, in every dialect."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.openai.chatting import chunk, completion, read_chat, request, user
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.core.thoughts import split_thought
from tooltap.normalizers.dialects.openai.chat import OpenAIChat
from tooltap.protocol.events import Event, Message, Reasoning, Turn
from tooltap.testing import Line, check_recording

DONE = Line(b"data: [DONE]")
ASKED = request(user("Go."))
ANSWER = "<think>\nHm, 1 < 2.\n</think>\n\nYes: <think> is a tag."
THOUGHT, TEXT = "Hm, 1 < 2.", "Yes: <think> is a tag."


def shown(found: list[Event]) -> list[tuple[str, str]]:
    """(role, text) of what the model thought and said."""
    return [
        ("thought" if isinstance(one, Reasoning) else "text", one.text)
        for one in found
        if isinstance(one, Reasoning) or (isinstance(one, Message) and one.role == "assistant")
    ]


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        (ANSWER, THOUGHT, TEXT),
        ("<think></think>Yes.", "", "Yes."),
        ("\n<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("<think>cut", "cut", ""),
        ("<think>one</think><think>two</think>", "one", "<think>two</think>"),
        ("<thinking>no</thinking>", "", "<thinking>no</thinking>"),
        ("Use <think>x</think>.", "", "Use <think>x</think>."),
        ("\n Yes.", "", "\n Yes."),
        ("", "", ""),
    ],
)
def test_thought_is_split_from_the_answer(text: str, thought: str, rest: str) -> None:
    assert split_thought(text) == (thought, rest)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 100])
@pytest.mark.parametrize(
    "answer", [ANSWER, f"\n{ANSWER}", f"{THOUGHT} {TEXT}", "<th", "<think>cut </thi", "\n\n", "<b>"]
)
def test_pieces_become_what_the_whole_becomes(answer: str, size: int) -> None:
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    found = read_chat(ASKED, *(chunk(content=one) for one in pieces), chunk("stop"), DONE)
    thought, rest = split_thought(answer)

    assert shown(found) == [*([("thought", thought)] if thought else []), *([("text", rest)] if rest else [])]


def test_partials_are_the_texts_in_pieces() -> None:
    parser = OpenAIChat(Context(stream="s"))
    parser.partials = True
    items = []
    for line in (ASKED, *(chunk(content=one) for one in ANSWER), chunk("stop")):
        items += parser.feed(orjson.dumps(line), 1)[1]
    parts: dict[str, str] = {}
    for one in (item.event for item in items if isinstance(item, Produced)):
        if isinstance(one, Message | Reasoning) and one.partial:
            kind = type(one).__name__
            assert one.offset == len(parts.get(kind, ""))
            parts[kind] = parts.get(kind, "") + one.text

    assert parts == {"Reasoning": THOUGHT, "Message": TEXT}


def test_many_thoughts_are_one_and_a_text() -> None:
    """No depth of marks is a depth of calls."""
    many = "<think>x</think>" * 1_000

    assert shown(read_chat(ASKED, completion({"content": many}))) == [
        ("thought", "x"),
        ("text", many.removeprefix("<think>x</think>")),
    ]


@pytest.mark.parametrize("sent_back", [ANSWER, TEXT])
@pytest.mark.parametrize("streamed", [True, False])
def test_answer_is_known_when_the_client_sends_it_back(streamed: bool, sent_back: str) -> None:
    """Most clients leave the thought out."""
    answer = [chunk(content=ANSWER), chunk("stop"), DONE] if streamed else [completion({"content": ANSWER})]
    again = request(user("Go."), {"role": "assistant", "content": sent_back}, user("On."))
    found = read_chat(ASKED, *answer, again)

    assert shown(found) == [("thought", THOUGHT), ("text", TEXT)]
    assert [one.state for one in of(Turn, found)] == ["started", "completed", "started", "cancelled"]


def _responses(*, streamed: bool) -> list[dict[str, Any]]:
    item = {"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    response = {"object": "response", "id": "r", "model": "m", "status": "completed", "output": [item]}
    place = {"output_index": 0, "content_index": 0, "item_id": "i"}
    deltas = [{"type": "response.output_text.delta", **place, "delta": one} for one in ANSWER]
    events = [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [{"model": "m", "input": "Go."}, *(events if streamed else [response])]


def _acp() -> list[dict[str, Any]]:
    def update(text: str) -> dict[str, Any]:
        content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": content}}

    return [update(ANSWER[at : at + 4]) for at in range(0, len(ANSWER), 4)]


def _pi() -> list[dict[str, Any]]:
    deltas = [
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": one}}
        for one in ANSWER
    ]
    message = {"role": "assistant", "content": [{"type": "text", "text": ANSWER}], "stopReason": "stop"}
    return [{"type": "agent_start"}, *deltas, {"type": "message_end", "message": message}]


def _pi_cut() -> list[dict[str, Any]]:
    return _pi()[:-1]


def _continue() -> list[dict[str, Any]]:
    item = {"message": {"role": "assistant", "content": ANSWER}, "contextItems": []}
    return [{"sessionId": "s", "title": "t", "workspaceDirectory": "/ws", "history": [item]}]


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        ("openai-responses", _responses(streamed=True)),
        ("openai-responses", _responses(streamed=False)),
        ("acp", _acp()),
        ("pi-json", _pi()),
        ("pi-json", _pi_cut()),
        ("continue-session", _continue()),
    ],
)
def test_every_dialect_has_them(dialect: str, lines: list[dict[str, Any]]) -> None:
    found = check_recording(dialect, [Line(orjson.dumps(line)) for line in lines])

    assert shown(found) == [("thought", THOUGHT), ("text", TEXT)]


def test_mark_in_a_later_block_is_text() -> None:
    """As a model writes it that was asked about the mark."""
    blocks = [{"type": "text", "text": text} for text in ("See:", "<think>x</think>")]
    found = check_recording(
        "pi-json",
        [
            Line(orjson.dumps(line))
            for line in (
                {"type": "agent_start"},
                {"type": "message_end", "message": {"role": "assistant", "content": blocks, "stopReason": "stop"}},
            )
        ],
    )

    assert shown(found) == [("text", "See:"), ("text", "<think>x</think>")]
