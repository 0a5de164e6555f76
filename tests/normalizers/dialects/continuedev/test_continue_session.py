"""The `continue-session` dialect: the session's cost, and histories that are shortened."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, read
from tooltap.protocol.events import Notice, Usage


def user(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


def reply(text: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "model": "m"}
    return {"message": {"role": "assistant", "content": text, "usage": usage}}


def document(cost: float, *history: dict[str, Any]) -> dict[str, Any]:
    return {
        "sessionId": "one",
        "workspaceDirectory": "/w",
        "history": list(history),
        "usage": {"totalCost": cost},
    }


FIRST = (user("First"), reply("One."))


def test_total_cost_is_the_sessions_and_stated_once() -> None:
    more = document(0.5, *FIRST, user("Second"), reply("Two."))
    found = of(Usage, read("continue-session", document(0.2, *FIRST), document(0.2, *FIRST), more))

    assert [(one.scope, one.counter, one.cost_usd, one.input_tokens) for one in found] == [
        ("step", None, None, 100),
        ("session", "session", 0.2, None),
        ("step", None, None, 100),
        ("session", "session", 0.5, None),
    ]


def test_nothing_has_cost_anything_before_the_first_answer() -> None:
    found = of(Usage, read("continue-session", document(0.0, FIRST[0]), document(0.0, *FIRST)))

    assert [(one.scope, one.cost_usd, one.line) for one in found] == [("step", None, 2), ("session", 0.0, 2)]


def test_session_that_is_resumed_adds_one_request() -> None:
    """`cn --resume` goes on with the same document."""
    found = read("continue-session", document(0.2, *FIRST), document(0.5, *FIRST, user("Second"), reply("Two.")))

    assert sum(one.input_tokens or 0 for one in of(Usage, found)) == 200
    assert of(Notice, found) == []


def test_shortened_history_rewinds() -> None:
    found = read("continue-session", document(0.2, *FIRST), document(0.4, user("First, better"), reply("Two.")))

    assert [(one.code, one.data) for one in of(Notice, found)] == [("rewound", {"items": 0})]
    assert sum(one.input_tokens or 0 for one in of(Usage, found)) == 200
