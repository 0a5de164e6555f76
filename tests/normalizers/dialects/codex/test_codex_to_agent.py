"""What is written to Codex's app-server."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError

BOTH = {"threadId": "a", "turnId": "1"}
COMMAND = "item/commandExecution/requestApproval"
AMENDMENT = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["rm", "my file"]}}


def network(action: str, host: str) -> dict[str, Any]:
    return {"applyNetworkPolicyAmendment": {"network_policy_amendment": {"action": action, "host": host}}}


def turn(state: str) -> tuple[str, Any]:
    return "out", {"method": f"turn/{state}", "params": {"threadId": "a", "turn": {"id": "1", "status": state}}}


def ask(method: str, request_id: Any = 0, **params: Any) -> tuple[str, Any]:
    return "out", {"method": method, "id": request_id, "params": {**BOTH, "itemId": "c", **params}}


def agent(*lines: tuple[str, Any]) -> Asking:
    return Asking("codex-app-server", turn("started"), *lines)


def offered(asking: Asking) -> list[tuple[str, str | None, str | None]]:
    return [(one["id"], one.get("kind"), one.get("remembers")) for one in asking.request["options"]]


def test_decisions_are_options_that_say_what_they_remember() -> None:
    decisions = ["accept", AMENDMENT, network("allow", "a.example"), network("deny", "b.example"), "cancel", "new", 5]
    asking = agent(ask(COMMAND, command="rm", availableDecisions=decisions))

    assert offered(asking) == [
        ("accept", "allow_once", None),
        ("acceptWithExecpolicyAmendment", "allow_always", "From now on: commands that begin with rm 'my file'"),
        ("allow", "allow_always", "From now on: connections to a.example"),
        ("deny", "reject_always", "From now on: no connections to b.example"),
        ("decline", "reject_once", None),
        ("cancel", "reject_once", None),
        ("new", None, None),
    ]
    with pytest.raises(NotOfferedError):
        asking.answer("allowed", option_id="new")


@pytest.mark.parametrize(("outcome", "more", "decision", "option"), [
    ("allowed", {}, "accept", "accept"),
    ("allowed", {"option_id": "acceptWithExecpolicyAmendment"}, AMENDMENT, "acceptWithExecpolicyAmendment"),
    ("allowed", {"option_id": "allow"}, network("allow", "a.example"), "allow"),
    ("allowed", {"option_id": "allow-2"}, network("allow", "b.example"), "allow-2"),
    ("denied", {}, "decline", "decline"),
    ("denied", {"option_id": "cancel"}, "cancel", "cancel"),
])  # fmt: skip
def test_decision_is_written_as_it_was_offered(outcome: str, more: dict[str, Any], decision: Any, option: str) -> None:
    decisions = ["accept", AMENDMENT, network("allow", "a.example"), network("allow", "b.example"), "cancel"]
    asking = agent(ask(COMMAND, command="rm", availableDecisions=decisions))
    written = asking.answer(outcome, **more)

    assert line_of(written) == {"id": 0, "result": {"decision": decision}}
    assert (written.answers, written.to_client) == ("rpc:0", None)
    assert asking.takes(written) == (outcome, option, None, None)


@pytest.mark.parametrize(("method", "remembers"), [
    (COMMAND, "Until the session ends: this command"),
    ("item/fileChange/requestApproval", "Until the session ends: these files"),
])  # fmt: skip
def test_request_without_decisions_takes_the_protocols(method: str, remembers: str) -> None:
    asking = agent(ask(method))

    assert offered(asking) == [
        ("accept", "allow_once", None), ("acceptForSession", "allow_always", remembers),
        ("decline", "reject_once", None), ("cancel", "reject_once", None),
    ]  # fmt: skip
    assert asking.takes(asking.answer("allowed", remember=True)) == ("allowed", "acceptForSession", None, None)


def test_older_words() -> None:
    asking = agent(ask("execCommandApproval", conversationId="a", callId="c", command=["rm"]))

    assert line_of(asking.answer("denied"))["result"] == {"decision": "denied"}
    assert line_of(asking.answer("allowed", remember=True))["result"] == {"decision": "approved_for_session"}


@pytest.mark.parametrize("outcome", ["cancelled", "answered"])
def test_outcome_that_is_no_decision(outcome: str) -> None:
    with pytest.raises((CannotWriteError, NotOfferedError)):
        agent(ask(COMMAND, command="rm")).answer(outcome)


def test_decision_that_was_not_offered_cannot_be_chosen() -> None:
    """Codex 0.169 would take it: a recorded client has chosen it."""
    asking = agent(ask(COMMAND, command="rm", availableDecisions=["accept", "cancel"]))

    with pytest.raises(NotOfferedError):
        asking.answer("allowed", option_id="acceptForSession")


PERMISSIONS = {"network": {"enabled": True}, "fileSystem": None}


@pytest.mark.parametrize(("outcome", "remember", "result", "option"), [
    ("allowed", False, {"permissions": PERMISSIONS, "scope": "turn"}, "turn"),
    ("allowed", True, {"permissions": PERMISSIONS, "scope": "session"}, "session"),
    ("denied", False, {"permissions": {}, "scope": "turn"}, "decline"),
])  # fmt: skip
def test_permissions_are_granted_as_asked(outcome: str, remember: bool, result: Any, option: str) -> None:
    asking = agent(ask("item/permissions/requestApproval", permissions=PERMISSIONS))
    written = asking.answer(outcome, remember=remember)

    assert line_of(written)["result"] == result
    assert asking.takes(written) == (outcome, option, None, None)


def tool(**meta: Any) -> tuple[str, Any]:
    stated = {"codex_approval_kind": "mcp_tool_call", "tool_name": "echo", "tool_params": {"a": 1}, **meta}
    schema = {"type": "object", "properties": {}}
    return ask("mcpServer/elicitation/request", serverName="fixture", mode="form", message="Allow?", _meta=stated,
               requestedSchema=schema)  # fmt: skip


@pytest.mark.parametrize(("option", "action", "meta", "outcome"), [
    ("accept", "accept", None, "allowed"), ("acceptForSession", "accept", {"persist": "session"}, "allowed"),
    ("acceptAlways", "accept", {"persist": "always"}, "allowed"), ("decline", "decline", None, "denied"),
])  # fmt: skip
def test_tool_of_an_mcp_server_is_approved(option: str, action: str, meta: Any, outcome: str) -> None:
    asking = agent(tool(persist=["session", "always", "moon"]))
    written = asking.answer(outcome, option_id=option)

    assert offered(asking) == [
        ("accept", "allow_once", None),
        ("acceptForSession", "allow_always", "Until the session ends: the tool echo of fixture"),
        ("acceptAlways", "allow_always", "From now on: the tool echo of fixture"),
        ("decline", "reject_once", None),
        ("cancel", "reject_once", None),
    ]
    result = line_of(written)["result"]
    assert (result["action"], result["_meta"]) == (action, meta)
    assert asking.takes(written) == (outcome, option, None, None)


def test_tool_is_remembered_only_if_that_is_offered() -> None:
    assert [one[0] for one in offered(agent(tool()))] == ["accept", "decline", "cancel"]
    assert [one[0] for one in offered(agent(tool(persist="session")))][1] == "acceptForSession"


def test_form_of_an_mcp_server_is_answered() -> None:
    schema = {"type": "object", "properties": {"dbName": {"type": "string"}, "size": {"type": "integer"}}}
    asking = agent(ask("mcpServer/elicitation/request", serverName="s", message="Which?", requestedSchema=schema))
    written = asking.answer("answered", answers={"dbName": "x", "size": "2"})

    assert [one["id"] for one in asking.request["questions"]] == ["dbName", "size"]
    content = {"dbName": "x", "size": 2}
    assert line_of(written)["result"] == {"action": "accept", "content": content, "_meta": None}
    assert asking.takes(written) == ("answered", "accept", content, None)


@pytest.mark.parametrize(("outcome", "action"), [("denied", "decline"), ("cancelled", "cancel")])
def test_form_of_an_mcp_server_is_refused(outcome: str, action: str) -> None:
    asking = agent(ask("mcpServer/elicitation/request", serverName="s", message="Log in", mode="url", url="http://a.b"))
    written = asking.answer(outcome)

    assert line_of(written)["result"] == {"action": action, "content": None, "_meta": None}
    assert asking.takes(written) == (outcome, action, None, None)


QUESTIONS = [
    {"id": "db", "question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
    {"id": "name", "question": "Name?", "options": [{"label": "x"}], "isOther": True},
]


def test_questions_are_answered_by_their_ids() -> None:
    asking = agent(ask("item/tool/requestUserInput", questions=QUESTIONS))
    written = asking.answer("answered", answers={"db": "A", "name": ["mine"]})

    answers = {"db": {"answers": ["A"]}, "name": {"answers": ["mine"]}}
    assert line_of(written) == {"id": 0, "result": {"answers": answers}}
    assert asking.takes(written) == ("answered", None, answers, None)


@pytest.mark.parametrize("answers", [{"db": "C"}, {"Which?": "A"}, {"db": ["A", "B"]}, {}])
def test_other_answers_are_refused(answers: dict[str, Any]) -> None:
    with pytest.raises(NotOfferedError):
        agent(ask("item/tool/requestUserInput", questions=QUESTIONS)).answer("answered", answers=answers)


def test_dismissed_questions_are_an_error() -> None:
    asking = agent(ask("item/tool/requestUserInput", questions=QUESTIONS))
    written = asking.answer("denied", message="Not now.")

    assert line_of(written) == {"id": 0, "error": {"code": -32000, "message": "Not now."}}
    assert asking.takes(written) == ("denied", None, None, "Not now.")


def test_prompt_starts_a_turn_or_steers_it() -> None:
    asking = agent()
    text = [{"type": "text", "text": "go on", "text_elements": []}]
    steer, wanted = asking.normalizer.prompt("a", "go on", "p1"), {"threadId": "a", "input": text}

    assert line_of(steer) == {
        "id": "tooltap-p1", "method": "turn/steer", "params": {**wanted, "expectedTurnId": "1"},
    }  # fmt: skip
    assert steer.asks == 'rpc:"tooltap-p1"'
    asking.feed(turn("completed"))
    start = line_of(asking.normalizer.prompt("a", "go on", "p2"))
    assert start == {"id": "tooltap-p2", "method": "turn/start", "params": wanted}


def test_turn_is_interrupted_by_its_id() -> None:
    asking = agent()
    written = asking.normalizer.interrupt("a", "i1")

    assert line_of(written) == {"id": "tooltap-i1", "method": "turn/interrupt", "params": BOTH}
    asking.feed(turn("completed"))
    with pytest.raises(CannotWriteError, match="not working"):
        asking.normalizer.interrupt("a", "i2")


def test_unknown_thread_is_not_prompted() -> None:
    with pytest.raises(CannotWriteError, match="no session"):
        agent().normalizer.prompt("b", "go on", "p1")
