"""What is written to Claude Code over its control protocol."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tests.normalizers.dialects.claude.helpers import init
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError
from tooltap.normalizers.core.permissions import REPLY_BYTES

RULE = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm *"}], "behavior": "allow"}
LOCAL = {**RULE, "destination": "localSettings"}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
PROMPT = ("in", {"type": "user", "message": {"role": "user", "content": "hi"}, "session_id": "default"})


def ask(name: str = "Bash", *suggestions: Any, request_id: str = "r", **given: Any) -> tuple[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": f"call-{request_id}"}
    if suggestions:
        request["permission_suggestions"] = list(suggestions)
    return "out", {"type": "control_request", "request_id": request_id, "request": request}


def agent(*lines: tuple[str, Any]) -> Asking:
    return Asking("claude-stream", PROMPT, ("out", {**init(), "session_id": "sess"}), *lines)


def test_allowed_call_repeats_its_input() -> None:
    asking = agent(ask(command="rm x"))
    written = asking.answer("allowed")

    response = {"behavior": "allow", "updatedInput": {"command": "rm x"}}
    whole = {"subtype": "success", "request_id": "r", "response": response}
    assert line_of(written) == {"type": "control_response", "response": whole}
    assert written.answers == "control:r"
    assert written.to_client == '{"type":"control_cancel_request","request_id":"r"}'
    assert asking.takes(written) == ("allowed", "allow", None, None)


def test_suggestions_are_options_that_say_what_they_remember() -> None:
    asking = agent(ask("Bash", LOCAL, MODE, command="rm x"))

    assert [(one["id"], one["kind"], one.get("remembers")) for one in asking.request["options"]] == [
        ("allow", "allow_once", None),
        ("always-1", "allow_always", "In this project, for you (.claude/settings.local.json): allow Bash(rm *)"),
        ("always-2", "allow_always", "Until the session ends: permission mode acceptEdits: edits of files are allowed"),
        ("deny", "reject_once", None),
    ]
    with pytest.raises(NotOfferedError, match="several options"):
        asking.answer("allowed", remember=True)
    written = asking.answer("allowed", option_id="always-2")
    assert line_of(written)["response"]["response"]["updatedPermissions"] == [MODE]
    assert asking.takes(written) == ("allowed", "always-2", None, None)


def test_one_suggestion_is_what_remembering_means() -> None:
    asking = agent(ask("Bash", LOCAL, command="rm x"))

    assert asking.takes(asking.answer("allowed", remember=True)) == ("allowed", "always-1", None, None)


@pytest.mark.parametrize("suggestion", [
    {**RULE, "destination": "session", "behavior": "deny"},
    {**RULE, "destination": "moon"},
    {**RULE, "destination": ["session"]},
    {**RULE, "destination": "session", "rules": [{"toolName": "Bash"}, "Read"]},
    {**RULE, "destination": "session", "rules": []},
    {**RULE, "destination": "session", "rules": [{"toolName": "Bash", "ruleContent": "x" * 2_000}]},
    {**RULE, "destination": "session", "type": "replaceRules"},
    {**MODE, "mode": "new"},
    {"type": "addDirectories", "directories": [], "destination": "session"},
    "all",
])  # fmt: skip
def test_suggestion_that_cannot_be_said_in_full_is_not_offered(suggestion: Any) -> None:
    asking = agent(ask("Bash", suggestion, command="rm x"))

    assert [one["id"] for one in asking.request["options"]] == ["allow", "deny"]
    with pytest.raises(NotOfferedError):
        asking.answer("allowed", option_id="always-1")


def test_denial_has_a_reason_for_the_model() -> None:
    asking = agent(ask(command="rm x"))

    assert asking.takes(asking.answer("denied", message="Keep it.")) == ("denied", "deny", None, "Keep it.")
    asking.feed(ask(request_id="r2", command="rm y"))
    assert asking.takes(asking.answer("denied")) == ("denied", "deny", None, "The user denied this.")


def test_cancelled_request_is_an_error() -> None:
    asking = agent(ask(command="rm x"))
    written = asking.answer("cancelled")

    assert line_of(written)["response"] == {"subtype": "error", "request_id": "r", "error": "The user dismissed this."}
    assert asking.takes(written) == ("cancelled", None, None, "The user dismissed this.")


def test_plan_is_allowed_with_its_own_input() -> None:
    """2.1.330 ignores a bare allow."""
    asking = agent(ask("ExitPlanMode", plan="1. Read"))

    assert line_of(asking.answer("allowed"))["response"]["response"]["updatedInput"] == {"plan": "1. Read"}


def test_questions_are_answered_beside_their_input() -> None:
    questions = [
        {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
        {"question": "Where?", "options": [{"label": "C"}, {"label": "D"}], "multiSelect": True},
    ]
    asking = agent(ask("AskUserQuestion", questions=questions))
    written = asking.answer("answered", answers={"Which?": "Another", "Where?": ["C", "D"]})

    answers = {"Which?": "Another", "Where?": "C, D"}
    given = line_of(written)["response"]["response"]["updatedInput"]
    assert given == {"questions": questions, "answers": answers}
    assert "options" not in asking.request
    assert asking.takes(written) == ("answered", None, answers, None)


@pytest.mark.parametrize(("outcome", "more"), [
    ("allowed", {}), ("answered", {}), ("answered", {"answers": {"Who?": "A"}}),
    ("answered", {"answers": {"Which?": ["A", "B"]}}), ("denied", {"option_id": "deny"}),
])  # fmt: skip
def test_what_a_question_does_not_offer_is_refused(outcome: str, more: dict[str, Any]) -> None:
    asking = agent(ask("AskUserQuestion", questions=[{"question": "Which?", "options": [{"label": "A"}]}]))

    with pytest.raises(NotOfferedError):
        asking.answer(outcome, **more)


def test_input_that_was_not_kept_can_only_be_denied() -> None:
    asking = agent(ask("Write", file_path="/w/x", content="x" * (REPLY_BYTES + 1)))

    with pytest.raises(CannotWriteError, match="too long"):
        asking.answer("allowed")
    assert asking.takes(asking.answer("denied"))[0] == "denied"


def test_oldest_input_is_given_up_first() -> None:
    half = "x" * (REPLY_BYTES * 2 // 3)
    asking = agent(ask(command=half), ask(request_id="r2", command=half))
    second, first = asking.request, next(one for one in asking.events if one["kind"] == "permission-request")

    assert asking.answer("allowed").line
    asking.events = [first]
    with pytest.raises(CannotWriteError):
        asking.answer("allowed")
    assert (first["permissionId"], second["permissionId"]) == ("r", "r2")


def test_answered_request_is_not_answered_again() -> None:
    asking = agent(ask(command="rm x"))
    asking.takes(asking.answer("denied"))

    with pytest.raises(NotOfferedError, match="does not wait"):
        asking.answer("allowed")


def test_several_suggestions_of_a_client_are_no_option() -> None:
    asking = agent(ask("Bash", LOCAL, MODE, command="rm x"))
    answer = {"behavior": "allow", "updatedInput": {"command": "rm x"}, "updatedPermissions": [LOCAL, MODE]}
    response = {"subtype": "success", "request_id": "r", "response": answer}
    found = asking.feed(("in", {"type": "control_response", "response": response}))

    (read,) = [one for one in found if one["kind"] == "permission-response"]
    assert (read["outcome"], "optionId" in read) == ("allowed", False)


def test_prompt_is_a_line_of_the_user() -> None:
    asking = agent()
    written = asking.normalizer.prompt(asking.session, "go on", "p1")

    found = asking.feed(("in", line_of(written)))
    assert [(one["role"], one["text"]) for one in found if one["kind"] == "message"] == [("user", "go on")]
    assert (written.asks, written.answers, written.path) == (None, None, None)


def test_interrupt_is_a_request_of_our_own() -> None:
    asking = agent()
    written = asking.normalizer.interrupt(asking.session, "i1")

    assert line_of(written) == {
        "type": "control_request", "request_id": "tooltap-i1", "request": {"subtype": "interrupt"},
    }  # fmt: skip
    assert written.asks == "control:tooltap-i1"
    assert [one["code"] for one in asking.feed(("in", line_of(written)))] == ["interrupt"]


def test_agent_that_reads_no_input_is_not_prompted() -> None:
    asking = Asking("claude-stream", ("out", init()))

    with pytest.raises(CannotWriteError, match="input-format"):
        asking.normalizer.prompt(asking.session, "go on", "p1")


def test_another_session_is_not_prompted() -> None:
    with pytest.raises(CannotWriteError, match="no session"):
        agent().normalizer.prompt("other", "go on", "p1")
