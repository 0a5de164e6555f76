"""What is posted to OpenCode's server."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError

ASKED = {"id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["rm x"], "always": ["rm *", "ls *"]}


def event(kind: str, **properties: Any) -> tuple[str, Any]:
    return "out", {"id": "evt", "type": kind, "properties": properties}


def asks(kind: str = "permission.asked", **more: Any) -> Asking:
    return Asking("opencode-bus", event(kind, **{**ASKED, **more}))


def question(**more: Any) -> Asking:
    one = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}], **more}
    asked = {"id": "que_1", "sessionID": "ses_1", "questions": [one, {"question": "Where?", "options": []}]}
    return Asking("opencode-bus", event("question.asked", **asked))


def test_option_says_which_patterns_are_remembered() -> None:
    assert [(one["id"], one["kind"], one.get("remembers")) for one in asks().request["options"]] == [
        ("once", "allow_once", None),
        ("always", "allow_always", "Until the server ends: bash of rm *, ls *"),
        ("reject", "reject_once", None),
    ]


@pytest.mark.parametrize(("outcome", "more", "body"), [
    ("allowed", {}, {"reply": "once"}), ("allowed", {"remember": True}, {"reply": "always"}),
    ("denied", {}, {"reply": "reject"}), ("denied", {"message": "No."}, {"reply": "reject", "message": "No."}),
])  # fmt: skip
def test_permission_is_answered(outcome: str, more: dict[str, Any], body: dict[str, Any]) -> None:
    asking = asks()
    written = asking.answer(outcome, **more)

    assert (written.path, line_of(written)) == ("/permission/per_1/reply", body)
    assert (written.answers, written.asks, written.to_client) == (None, None, None)
    assert asking.takes(written) == (outcome, body["reply"], None, body.get("message"))


def test_older_server_is_answered_in_its_session() -> None:
    older = {"id": "per_1", "sessionID": "ses_1", "type": "bash", "pattern": "ls *", "title": "ls", "metadata": {}}
    asking = Asking("opencode-bus", event("permission.updated", **older))
    written = asking.answer("allowed", remember=True)

    assert asking.request["options"][1]["remembers"] == "Until the server ends: bash of ls *"
    assert (written.path, line_of(written)) == ("/session/ses_1/permissions/per_1", {"response": "always"})
    assert asking.takes(written) == ("allowed", "always", None, None)


V2 = {"id": "per_1", "sessionID": "ses_1", "action": "bash", "resources": ["ls"], "metadata": {}}
"""A request as the server of 1.18.33 states it, which answers a reply with 204, and a second one with 404."""


@pytest.mark.parametrize(("outcome", "more", "body"), [
    ("allowed", {}, {"reply": "once"}), ("denied", {"message": "No."}, {"reply": "reject", "message": "No."}),
])  # fmt: skip
def test_second_version_is_answered_in_its_session(outcome: str, more: dict[str, Any], body: dict[str, Any]) -> None:
    asking = Asking("opencode-bus", event("permission.v2.asked", **V2))
    written = asking.answer(outcome, **more)

    assert (written.path, line_of(written)) == ("/api/session/ses_1/permission/per_1/reply", body)
    assert [one["id"] for one in asking.request["options"]] == ["once", "reject"]


def test_second_version_saves_what_it_states() -> None:
    asking = Asking("opencode-bus", event("permission.v2.asked", **V2, save=["ls *", "ls"]))

    assert line_of(asking.answer("allowed", remember=True)) == {"reply": "always"}
    assert asking.request["options"][1]["remembers"] == "From now on: bash of ls *, ls"


def test_form_that_is_not_known_cannot_be_answered() -> None:
    asking = Asking("opencode-bus", event("permission.asked", id="per_1", sessionID="ses_1"))

    with pytest.raises(CannotWriteError, match="a form that"):
        asking.answer("allowed")


@pytest.mark.parametrize("permission_id", ["../session", "a/b", "a?b", "..", "a%2Fb", "ä"])
def test_id_names_nothing_else(permission_id: str) -> None:
    with pytest.raises(CannotWriteError, match="no id"):
        asks(id=permission_id).answer("denied")


@pytest.mark.parametrize("option", ["always ", "", "accept", "x" * 10_000])
def test_other_options_are_refused(option: str) -> None:
    with pytest.raises(NotOfferedError):
        asks().answer("allowed", option_id=option)


def test_cancelled_permission_has_no_words() -> None:
    with pytest.raises(CannotWriteError, match="one of its options"):
        asks().answer("cancelled")


def test_questions_are_answered_in_their_order() -> None:
    asking = question(multiple=True)
    written = asking.answer("answered", answers={"Where?": "here", "Which?": ["A", "mine"]})

    assert (written.path, line_of(written)) == ("/question/que_1/reply", {"answers": [["A", "mine"], ["here"]]})
    assert asking.takes(written) == ("answered", None, {"Which?": "A, mine", "Where?": "here"}, None)


def test_question_without_an_answer_gets_none() -> None:
    assert line_of(question().answer("answered", answers={"Which?": "A"})) == {"answers": [["A"], []]}


@pytest.mark.parametrize("outcome", ["denied", "cancelled"])
def test_question_is_dismissed(outcome: str) -> None:
    asking = question()
    written = asking.answer(outcome)

    assert (written.path, line_of(written)) == ("/question/que_1/reject", {})
    assert asking.takes(written)[0] == "cancelled"


@pytest.mark.parametrize("answers", [{"Which?": "C"}, {"Who?": "A"}, {"Which?": ["A", "B"]}])
def test_other_answers_are_refused(answers: dict[str, Any]) -> None:
    with pytest.raises(NotOfferedError):
        question(custom=False).answer("answered", answers=answers)


def test_prompt_and_abort() -> None:
    asking = asks()
    prompt = asking.normalizer.prompt("ses_1", "go on", "p1")
    abort = asking.normalizer.interrupt("ses_1", "i1")

    assert (prompt.path, line_of(prompt)) == (
        "/session/ses_1/prompt_async", {"parts": [{"type": "text", "text": "go on"}]},
    )  # fmt: skip
    assert (abort.path, line_of(abort)) == ("/session/ses_1/abort", {})
    with pytest.raises(CannotWriteError, match="no session"):
        asking.normalizer.prompt("ses_2", "go on", "p2")


def test_database_has_no_way_back() -> None:
    with pytest.raises(CannotWriteError, match="is stored"):
        Asking("opencode-db").normalizer.prompt("ses_1", "go on", "p1")
