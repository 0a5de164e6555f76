"""What is written to Pi's RPC mode."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError

STATE = ("out", {"type": "response", "command": "get_state", "success": True, "data": {"sessionId": "p"}})


def dialog(method: str, **fields: Any) -> Asking:
    return Asking("pi-json", STATE, ("out", {"type": "extension_ui_request", "id": "d", "method": method, **fields}))


@pytest.mark.parametrize(("method", "fields", "text", "answer"), [
    ("select", {"options": ["A", "B"]}, "A", {"value": "A"}),
    ("confirm", {}, "Yes", {"confirmed": True}), ("confirm", {}, "No", {"confirmed": False}),
    ("input", {}, "any words", {"value": "any words"}), ("editor", {}, "a\nb", {"value": "a\nb"}),
])  # fmt: skip
def test_dialog_is_answered(method: str, fields: dict[str, Any], text: str, answer: dict[str, Any]) -> None:
    asking = dialog(method, title="Delete?", **fields)
    written = asking.answer("answered", answers={"Delete?": text})

    assert line_of(written) == {"type": "extension_ui_response", "id": "d", **answer}
    assert written.answers == "dialog:d"
    assert asking.takes(written) == ("answered", None, answer, None)


def test_dialog_is_dismissed() -> None:
    asking = dialog("confirm", title="Delete?")

    with pytest.raises(CannotWriteError):
        asking.answer("denied")
    assert asking.takes(asking.answer("cancelled"))[0] == "cancelled"


@pytest.mark.parametrize(("outcome", "answers"), [
    ("answered", {"Delete?": "Perhaps"}), ("answered", {"Else?": "Yes"}), ("answered", {}), ("allowed", None),
])  # fmt: skip
def test_other_answers_are_refused(outcome: str, answers: Any) -> None:
    with pytest.raises(NotOfferedError):
        dialog("confirm", title="Delete?").answer(outcome, answers=answers)


def test_prompt_steers_and_abort_interrupts() -> None:
    normalizer = Asking("pi-json", STATE).normalizer
    prompt, abort = normalizer.prompt("p", "go on", "p1"), normalizer.interrupt("p", "i1")

    assert line_of(prompt) == {
        "id": "tooltap-p1", "type": "prompt", "message": "go on", "streamingBehavior": "steer",
    }  # fmt: skip
    assert line_of(abort) == {"id": "tooltap-i1", "type": "abort"}
    assert (prompt.asks, abort.asks) == ("command:tooltap-p1", "command:tooltap-i1")


@pytest.mark.parametrize(("dialect", "why"), [("pi-json", "--mode rpc"), ("pi-session", "is stored")])
def test_what_only_prints_is_not_prompted(dialect: str, why: str) -> None:
    with pytest.raises(CannotWriteError, match=why):
        Asking(dialect).normalizer.prompt("p", "go on", "p1")
