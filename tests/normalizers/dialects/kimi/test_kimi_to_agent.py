"""What is written to Kimi's wire mode."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError

QUESTIONS = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], "multi_select": True}]


def rpc(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


def event(kind: str, **payload: Any) -> tuple[str, Any]:
    return "out", rpc(method="event", params={"type": kind, "payload": payload})


def ask(kind: str, **payload: Any) -> tuple[str, Any]:
    asked = {"type": kind, "payload": {"id": "q-1", "tool_call_id": "c", **payload}}
    return "out", rpc(method="request", id="rpc-1", params=asked)


APPROVAL = ask("ApprovalRequest", sender="Shell", action="run", description="Run `rm x`", display=[])


def agent(*lines: tuple[str, Any]) -> Asking:
    return Asking("kimi-json", event("TurnBegin", user_input="hi"), *lines)


@pytest.mark.parametrize(("outcome", "more", "result"), [
    ("allowed", {}, {"response": "approve"}), ("allowed", {"remember": True}, {"response": "approve_for_session"}),
    ("denied", {}, {"response": "reject"}), ("denied", {"message": "No."}, {"response": "reject", "feedback": "No."}),
])  # fmt: skip
def test_approval_is_answered(outcome: str, more: dict[str, Any], result: dict[str, Any]) -> None:
    asking = agent(APPROVAL)
    written = asking.answer(outcome, **more)

    assert line_of(written) == rpc(id="rpc-1", result={"request_id": "q-1", **result})
    assert written.answers == 'rpc:"rpc-1"'
    assert asking.takes(written) == (outcome, result["response"], None, result.get("feedback"))


def test_cancelled_approval_is_an_error() -> None:
    asking = agent(APPROVAL)

    assert asking.takes(asking.answer("cancelled")) == ("cancelled", None, None, "The user dismissed this.")


def test_questions_are_answered_or_dismissed() -> None:
    asking = agent(ask("QuestionRequest", questions=QUESTIONS))
    written, dismissed = asking.answer("answered", answers={"Which?": ["A", "B"]}), asking.answer("cancelled")

    assert line_of(written) == rpc(id="rpc-1", result={"request_id": "q-1", "answers": {"Which?": "A, B"}})
    assert line_of(dismissed) == rpc(id="rpc-1", result={"request_id": "q-1", "answers": {}})
    with pytest.raises(CannotWriteError):
        asking.answer("denied")
    with pytest.raises(NotOfferedError):
        asking.answer("answered", answers={"Who?": "A"})
    assert asking.takes(written) == ("answered", None, {"Which?": "A, B"}, None)


def test_prompt_starts_a_turn_or_steers_it() -> None:
    asking = agent()

    steer = asking.normalizer.prompt("s", "go on", "p1")
    assert line_of(steer) == rpc(id="tooltap-p1", method="steer", params={"user_input": "go on"})
    assert steer.asks == 'rpc:"tooltap-p1"'
    asking.feed(event("TurnEnd"))
    assert line_of(asking.normalizer.prompt("s", "go on", "p2"))["method"] == "prompt"


def test_interrupt_is_a_cancel() -> None:
    assert line_of(agent().normalizer.interrupt("s", "i1")) == rpc(id="tooltap-i1", method="cancel", params={})


def test_printed_stream_is_not_prompted() -> None:
    with pytest.raises(CannotWriteError, match="--wire"):
        Asking("kimi-json", ("out", {"role": "assistant", "content": "hi"})).normalizer.prompt("s", "go on", "p1")
