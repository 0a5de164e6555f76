"""Which exchanges with a model server belong to one conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.daemon.taps.gateway.conversations import KEYS, Conversation, Conversations, Place
from tooltap.daemon.taps.gateway.histories import (
    MAX_ANSWER,
    ChatAnswer,
    GeminiAnswer,
    MessagesAnswer,
    ResponsesAnswer,
    chat_history,
    gemini_history,
    messages_history,
    responses_history,
)

SYSTEM = {"role": "system", "content": "It is ten o'clock."}


class Client:
    """Makes requests like a client; nothing is published."""

    def __init__(self, folder: Path, most: int = 100) -> None:
        def begin(dialect: str, place: Place) -> Tap:
            return Tap(StreamOptions("s", dialect), folder / "none.sock", SpoolLimits(folder))

        self.conversations = Conversations(begin, most)

    def ask(self, *messages: dict[str, Any]) -> Conversation:
        return self.conversations.enter("openai-chat", chat_history({"messages": [SYSTEM, *messages]}))

    def answer(self, conversation: Conversation, *values: dict[str, Any], complete: bool = True) -> None:
        answer = ChatAnswer()
        for value in values:
            answer.read(value)
        self.conversations.leave(conversation, answer, complete=complete)

    def exchange(self, *messages: dict[str, Any], answer: dict[str, Any]) -> Conversation:
        conversation = self.ask(*messages)
        self.answer(conversation, {"choices": [{"message": answer}]})
        return conversation

    def respond(self, request: dict[str, Any], *values: dict[str, Any]) -> Conversation:
        conversation = self.conversations.enter("openai-responses", responses_history(request))
        answer = ResponsesAnswer()
        for value in values:
            answer.read(value)
        self.conversations.leave(conversation, answer, complete=True)
        return conversation


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    one = Client(tmp_path)
    yield one
    one.conversations.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_repeated_history_continues_conversation(client: Client) -> None:
    first = client.exchange(user("Hi."), answer=model("Hello."))
    other = client.exchange(user("Ho."), answer=model("Hello."))
    second = client.conversations.enter(
        "openai-chat",
        chat_history({"messages": [{**SYSTEM, "content": "Eleven."}, user("Hi."), model("Hello."), user("So?")]}),
    )

    assert second is first
    assert other is not first


def test_same_prompt_is_another_conversation(client: Client) -> None:
    first = client.exchange(user("Hi."), answer=model("Hello."))

    assert client.exchange(user("Hi."), answer=model("Good day.")) is not first


def test_answer_distinguishes_same_prompts(client: Client) -> None:
    one, other = client.ask(user("Hi.")), client.ask(user("Hi."))
    client.answer(one, {"choices": [{"message": model("Hello.")}]})
    client.answer(other, {"choices": [{"message": model("Good day.")}]})

    assert one is not other
    assert client.ask(user("Hi."), model("Hello."), user("So?")) is one
    assert client.ask(user("Hi."), model("Good day."), user("So?")) is other


def test_retry_stays_in_conversation(client: Client) -> None:
    first = client.ask(user("Hi."))
    client.answer(first, {"error": {"message": "Too many."}})

    assert client.ask(user("Hi.")) is first


def test_retry_after_an_answer_that_broke_off_stays_in_conversation(client: Client) -> None:
    first = client.ask(user("Hi."))
    client.answer(first, {"choices": [{"delta": {"content": "Hel"}}]}, complete=False)

    assert client.ask(user("Hi.")) is first


def test_answer_in_other_words_is_recognized(client: Client) -> None:
    first = client.exchange(user("Hi."), answer=model(" Hello. "))

    assert client.ask(user("Hi."), model("Hello."), user("So?")) is first


def test_conversation_may_continue_from_earlier_prefix(client: Client) -> None:
    first = client.exchange(user("Hi."), answer=model("Hello."))
    client.exchange(user("Hi."), model("Hello."), user("So?"), answer=model("So what?"))

    assert client.ask(user("Hi."), model("Hello."), user("And?")) is first


def test_busy_conversation_is_not_continued(client: Client) -> None:
    client.exchange(user("Hi."), answer=model("Hello."))
    asked = [user("Hi."), model("Hello."), user("So?")]
    first = client.ask(*asked)

    assert client.ask(*asked) is not first


def test_streamed_answer_is_recognized(client: Client) -> None:
    def delta(**delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta}]}

    def call(**keys: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, **keys}]}

    pieces = [
        delta(content="Let "),
        delta(content="me."),
        {"choices": [{"index": 1, "delta": {"content": "No."}}]},
        delta(**call(id="call_1", function={"name": "bash", "arguments": ""})),
        delta(**call(function={"arguments": '{"command":"ls"}'})),
    ]
    one, other = client.ask(user("Hi.")), client.ask(user("Hi."))
    client.answer(one, *pieces)
    client.answer(other, delta(content="Let me."))
    answer = {
        "role": "assistant",
        "content": "Let me.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        ],
    }

    assert client.ask(user("Hi."), answer, {"role": "tool", "tool_call_id": "call_1", "content": "a"}) is one
    assert client.ask(user("Hi."), model("Let me."), user("Go.")) is other


def test_response_is_continued_by_id(client: Client) -> None:
    first = client.respond({"input": "Hi."}, {"object": "response", "id": "resp_1", "output": []})
    other = client.respond({"input": "Hi."}, {"type": "response.created", "response": {"id": "resp_2"}})

    assert client.respond({"input": "So?", "previous_response_id": "resp_1"}) is first
    assert client.respond({"input": "So?", "previous_response_id": "resp_2"}) is other
    assert client.respond({"input": "So?", "previous_response_id": "resp_3"}) not in (first, other)


def test_response_items_are_recognized_without_optional_parts(client: Client) -> None:
    """Not all clients send back ids, statuses and reasoning."""
    text = {"type": "output_text", "text": "Let me.", "annotations": []}
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": "{}"},
    ]
    items = [{"type": "response.output_item.done", "item": item} for item in output]
    first = client.respond({"input": "Hi."}, *items)
    client.respond({"input": "Hi."}, {"object": "response", "id": "resp_2", "output": output[:2]})
    repeated = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Let me."}]},
        {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a"},
    ]

    assert client.respond({"input": repeated}) is first


def test_dialects_do_not_share_conversations(client: Client) -> None:
    first = client.ask(user("Hi."))
    client.conversations.leave(first, ChatAnswer(), complete=True)

    assert client.respond({"input": "Hi."}) is not first


def test_keys_are_bounded(tmp_path: Path) -> None:
    client = Client(tmp_path, most=2)
    first = client.exchange(user("Hi."), answer=model("0"))
    history = [user("Hi."), model("0")]
    for number in range(KEYS):
        history.append(user(f"{number}?"))
        assert client.exchange(*history, answer=model(str(number))) is first
        history.append(model(str(number)))
    kept = len(client.conversations._by_key)
    for text in "ABC":
        client.exchange(user(text), answer=model("x"))

    assert kept == KEYS
    assert first not in client.conversations._open
    assert len(client.conversations._by_key) == 4
    client.conversations.close()


def test_busy_conversations_exceed_the_limit(tmp_path: Path) -> None:
    client = Client(tmp_path, most=2)
    waiting = [client.ask(user(text)) for text in "ABCD"]
    assert list(client.conversations._open) == waiting
    for conversation in waiting:
        client.answer(conversation)

    assert list(client.conversations._open) == waiting[2:]
    client.conversations.close()


def test_too_long_answer_has_no_digest() -> None:
    answer = ChatAnswer()
    for _ in range(3):
        answer.read({"choices": [{"delta": {"content": "x" * (MAX_ANSWER // 2)}}]})

    assert answer.items() == []


@pytest.mark.parametrize(
    "nonsense", [{}, {"messages": 1}, {"messages": [1, {"role": 2}]}, {"input": [None, {"type": []}]}]
)
def test_any_json_is_tolerated(nonsense: dict[str, Any]) -> None:
    for history in (chat_history, responses_history):
        history(nonsense)
    for answer in (ChatAnswer(), ResponsesAnswer()):
        answer.read({"choices": [1, {"delta": []}], "response": {"id": 1, "output": 1}, "item": 1})
        answer.read({"object": "response", "output": [1, {"type": {}}]})
        answer.items()


# -- subagents --------------------------------------------------------------------------------------------------------


def spawning(*tasks: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{number}", "function": {"name": "task", "arguments": json.dumps({"n": number, "prompt": task})}}
        for number, task in enumerate(tasks)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def test_conversations_of_subagents_belong_to_their_calls(client: Client) -> None:
    """Each has a text of its call, whatever the agent puts beside it; a subagent may have one of its own."""
    main = client.exchange(user("Go."), answer=spawning("Look for greet.", "Look for main."))
    second = client.ask(user("You are in /tmp/ws."), user("Look for main.\n"))
    first = client.exchange(user("Look for greet."), answer=spawning("Read the file app.py."))
    nested = client.ask(user("Read the file app.py."))

    root = main.place.stream
    assert main.place == Place(root)
    assert [(one.place.session, one.place.call) for one in (first, second, nested)] == [
        (root, "c0"),
        (root, "c1"),
        (root, "c0"),
    ]


def test_prompt_that_no_open_call_was_given_begins_a_session(client: Client) -> None:
    before = client.exchange(user("Go."), answer=spawning("Look for greet.", "ls"))
    short = client.ask(user("ls"))
    answered = [user("Go."), spawning("Look for greet.", "ls"), {"role": "tool", "tool_call_id": "c0", "content": "4"}]
    client.exchange(*answered, answer={"role": "assistant", "content": "Done."})
    late = client.ask(user("Look for greet."))

    assert [one.place.session for one in (before, short, late)] == [None, None, None]


def test_tasks_are_read_from_responses(client: Client) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "spawn", "arguments": '{"message": "Look for greet."}'}
    main = client.respond({"input": "Go."}, {"object": "response", "id": "r", "output": [call]})
    inner = client.respond({"input": [user("Look for greet.")]}, {"object": "response", "id": "s", "output": []})

    assert (inner.place.session, inner.place.call) == (main.place.stream, "c")


SESSION = "b55f79f8-5740-4c52-a1e8-fe55fa854628"


def messages_answer(*values: dict[str, Any]) -> MessagesAnswer:
    answer = MessagesAnswer()
    for value in values:
        answer.read(value)
    return answer


def called(prompt: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "Agent", "input": {"prompt": prompt}}


def in_deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    given = json.dumps(block["input"])
    return [
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"partial_json": piece}}
            for piece in (given[:9], given[9:])
        ),
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_messages_of_a_subagent_belong_to_its_call(client: Client, streamed: bool) -> None:
    block = called("Read the whole log.")
    answer = in_deltas(block) if streamed else [{"type": "message", "content": [block]}]
    asked = {"messages": [user("Go.")], "metadata": {"user_id": json.dumps({"session_id": SESSION})}}
    main = client.conversations.enter("anthropic-messages", messages_history(asked))
    client.conversations.leave(main, messages_answer(*answer), complete=True)
    inner = client.conversations.enter(
        "anthropic-messages", messages_history({"messages": [user("Read the whole log.")]})
    )

    assert (main.place.session, main.place.call) == (SESSION, None)
    assert (inner.place.session, inner.place.call) == (SESSION, "t1")


@pytest.mark.parametrize("streamed", [False, True])
def test_messages_that_repeat_an_answer_continue_it(client: Client, streamed: bool) -> None:
    block = called("Read the whole log.")
    answer = in_deltas(block) if streamed else [{"type": "message", "content": [block]}]
    first = client.conversations.enter("anthropic-messages", messages_history({"messages": [user("Go.")]}))
    client.conversations.leave(first, messages_answer(*answer), complete=True)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]}
    again = {"messages": [user("Go."), {"role": "assistant", "content": [block]}, result]}

    assert client.conversations.enter("anthropic-messages", messages_history(again)) is first


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        (json.dumps({"session_id": SESSION}), SESSION),
        (f"user_0a_account__session_{SESSION}", SESSION),
        (json.dumps({"session_id": "../x"}), None),
        ("somebody", None),
        (3, None),
    ],
)
def test_session_is_stated_by_claude_code(user_id: object, session: str | None) -> None:
    assert messages_history({"messages": [], "metadata": {"user_id": user_id}}).session == session


def test_copy_of_a_session_is_another_conversation(client: Client) -> None:
    def ask(session: str, *messages: dict[str, Any]) -> Conversation:
        stated = {"user_id": json.dumps({"session_id": session})}
        request = {"metadata": stated, "messages": list(messages)}
        return client.conversations.enter("anthropic-messages", messages_history(request))

    original, copied = "683791b0-89ad-4a90-b205-5b0f40cbf391", "0b3b58f5-d5f1-4989-8ec6-71becf79c8f8"
    history = [user("Hi."), model("Hello."), user("Do it.")]
    first = ask(original, *history)
    client.conversations.leave(first, MessagesAnswer(), complete=True)

    copy = ask(copied, *history)
    client.conversations.leave(copy, MessagesAnswer(), complete=True)

    assert copy is not first
    assert copy.place.session == copied
    assert ask(original, *history) is first


def test_gemini_request_that_repeats_an_answer_in_chunks_continues_it(client: Client) -> None:
    def said(role: str, *texts: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": text} for text in texts]}

    first = client.conversations.enter("gemini-api", gemini_history({"contents": [said("user", "Hi.")]}))
    answer = GeminiAnswer()
    for text in ("Hel", "lo."):
        answer.read({"candidates": [{"content": said("model", text)}]})
    client.conversations.leave(first, answer, complete=True)
    again = [said("user", "Hi."), said("model", "Hello."), said("user", "And?")]

    assert client.conversations.enter("gemini-api", gemini_history({"contents": again})) is first
    assert client.conversations.enter("gemini-api", gemini_history({"contents": [said("user", "Hi.")]})) is not first
