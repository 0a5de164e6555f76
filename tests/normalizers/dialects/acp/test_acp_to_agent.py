"""What is written to an ACP agent."""

from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError

OPTIONS = [
    {"optionId": "yes", "name": "Deny", "kind": "allow_once"},
    {"optionId": "session", "name": "This session", "kind": "allow_always"},
    {"optionId": "no", "name": "Allow", "kind": "reject_once"},
    {"optionId": "odd", "name": "Allow", "kind": "vendor_kind"},
]
"""Names say nothing: only kinds do."""


def rpc(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


def agent(*lines: tuple[str, Any], **capabilities: Any) -> Asking:
    about = {"agentInfo": {"name": "a", "version": "1"}, "agentCapabilities": capabilities}
    return Asking(
        "acp",
        ("in", rpc(id=0, method="initialize", params={})),
        ("out", rpc(id=0, result={"protocolVersion": 1, **about})),
        ("in", rpc(id=1, method="session/new", params={"cwd": "/w", "mcpServers": []})),
        ("out", rpc(id=1, result={"sessionId": "sess"})),
        *lines,
    )


PROMPT = (
    "in",
    rpc(id=2, method="session/prompt", params={"sessionId": "sess", "prompt": [{"type": "text", "text": "x"}]}),
)
STOPPED = ("out", rpc(id=2, result={"stopReason": "end_turn"}))


def permission(request_id: Any = 7, options: Any = OPTIONS) -> tuple[str, Any]:
    params = {"sessionId": "sess", "toolCall": {"toolCallId": "c", "title": "rm x", "kind": "execute"}}
    return "out", rpc(id=request_id, method="session/request_permission", params={**params, "options": options})


def form(**fields: Any) -> tuple[str, Any]:
    params = {"sessionId": "sess", "message": "Which?", "requestedSchema": {"type": "object", "properties": fields}}
    return "out", rpc(id="f", method="elicitation/create", params={**params, "mode": "form"})


@pytest.mark.parametrize("request_id", [7, "7", 0, "b-1"])
def test_option_is_selected_under_the_id_of_the_request(request_id: Any) -> None:
    asking = agent(PROMPT, permission(request_id))
    written = asking.answer("allowed")

    assert line_of(written) == rpc(id=request_id, result={"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert written.to_client is not None
    assert (
        written.to_client
        == f'{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{_json(request_id)}}}}}'
    )
    assert (written.answers, written.asks) == (f"rpc:{_json(request_id)}", None)
    assert asking.takes(written) == ("allowed", "yes", None, None)


def _json(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_each_outcome_has_its_line() -> None:
    asking = agent(PROMPT, permission())

    assert asking.takes(asking.answer("denied")) == ("denied", "no", None, None)
    asking.feed(permission())
    assert asking.takes(asking.answer("allowed", remember=True)) == ("allowed", "session", None, None)
    asking.feed(permission())
    written = asking.answer("cancelled")
    assert line_of(written)["result"] == {"outcome": {"outcome": "cancelled"}}
    assert asking.takes(written) == ("cancelled", None, None, None)


@pytest.mark.parametrize(("outcome", "option"), [
    ("allowed", "no"), ("allowed", "odd"), ("denied", "odd"), ("denied", "yes"), ("allowed", "other"), ("allowed", ""),
    ("allowed", "x" * 100_000), ("answered", "yes"),
])  # fmt: skip
def test_what_is_not_offered_is_refused(outcome: str, option: str) -> None:
    with pytest.raises(NotOfferedError):
        agent(PROMPT, permission()).answer(outcome, option_id=option)


def test_an_answer_belongs_to_its_own_request() -> None:
    """Agents use ids again: an answer to the earlier request does not answer the later one."""
    asking = agent(PROMPT, permission())
    earlier = asking.request
    asking.takes(asking.answer("denied"))
    asking.feed(permission(options=[{"optionId": "yes", "name": "Run everything", "kind": "allow_once"}]))
    later, asking.events = asking.request, [earlier]

    assert later["permissionId"] == earlier["permissionId"]
    with pytest.raises(NotOfferedError, match="does not wait"):
        asking.answer("allowed")


def test_form_is_answered_in_the_types_of_its_fields() -> None:
    fields = {
        "name": {"type": "string"}, "count": {"type": "integer"}, "size": {"type": "number"},
        "force": {"type": "boolean"}, "targets": {"type": "array", "items": {"enum": ["web", "cli"]}},
    }  # fmt: skip
    asking = agent(PROMPT, form(**fields))
    given = {"name": "7", "count": "7", "size": "1.5", "force": "no", "targets": "web"}
    written = asking.answer("answered", answers=given)

    content = {"name": "7", "count": 7, "size": 1.5, "force": False, "targets": ["web"]}
    assert line_of(written) == rpc(id="f", result={"action": "accept", "content": content})
    assert asking.takes(written) == ("answered", None, content, None)


@pytest.mark.parametrize(("outcome", "action"), [("denied", "decline"), ("cancelled", "cancel")])
def test_form_is_refused(outcome: str, action: str) -> None:
    asking = agent(PROMPT, form(name={"type": "string"}))
    written = asking.answer(outcome)

    assert line_of(written)["result"] == {"action": action}
    assert asking.takes(written)[0] == outcome


@pytest.mark.parametrize(
    "given", [{"count": "many"}, {"count": "9" * 30}, {"size": "nan"}, {"size": "1e999"}, {"force": "maybe"}]
)
def test_answer_of_another_type_cannot_be_written(given: dict[str, str]) -> None:
    asking = agent(PROMPT, form(count={"type": "integer"}, size={"type": "number"}, force={"type": "boolean"}))

    with pytest.raises(CannotWriteError, match="has the type"):
        asking.answer("answered", answers=given)


@pytest.mark.parametrize("given", [{"other": "x"}, {"name": {"a": 1}}, {}])
def test_answer_to_what_is_not_asked_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(NotOfferedError):
        agent(PROMPT, form(name={"type": "string"})).answer("answered", answers=given)


def test_options_say_what_they_remember_where_the_agent_does() -> None:
    """Mistral Vibe 3.0.2."""
    needed = {"required_permissions": [{"scope": "command_pattern", "session_pattern": "rm *", "label": "rm *"}]}
    options = [{"optionId": "a", "name": "Always allow", "kind": "allow_always", "_meta": needed}]

    assert agent(PROMPT, permission(options=options)).request["options"] == [
        {"id": "a", "name": "Always allow", "kind": "allow_always", "remembers": "rm *"}
    ]


def test_prompt_and_its_answer_are_our_own() -> None:
    asking = agent()
    written = asking.normalizer.prompt("sess", "go on", "p1")

    params = {"sessionId": "sess", "prompt": [{"type": "text", "text": "go on"}]}
    assert line_of(written) == rpc(id="tooltap-p1", method="session/prompt", params=params)
    assert (written.asks, written.answers) == ('rpc:"tooltap-p1"', None)
    found = asking.feed(("in", line_of(written)), ("out", rpc(id="tooltap-p1", result={"stopReason": "end_turn"})))
    assert [(one["kind"], one.get("state"), one.get("text")) for one in found] == [
        ("turn", "started", None), ("message", None, "go on"), ("turn", "completed", None),
        ("notice", None, "the agent has accepted it"),
    ]  # fmt: skip


def test_working_agent_is_prompted_only_if_it_queues_prompts() -> None:
    with pytest.raises(CannotWriteError, match="is working"):
        agent(PROMPT).normalizer.prompt("sess", "go on", "p1")
    assert agent(PROMPT, STOPPED).normalizer.prompt("sess", "go on", "p1").line
    queues = agent(PROMPT, _meta={"claudeCode": {"promptQueueing": True}})
    assert queues.normalizer.prompt("sess", "go on", "p1").line


def test_interrupt_is_a_cancel() -> None:
    asking = agent(PROMPT)
    written = asking.normalizer.interrupt("sess", "i1")

    assert line_of(written) == rpc(method="session/cancel", params={"sessionId": "sess"})
    assert (written.asks, written.answers) == (None, None)
    assert [one["code"] for one in asking.feed(("in", line_of(written)))] == ["interrupt"]


@pytest.mark.parametrize("session", ["other", "s", ""])
def test_only_known_sessions_are_prompted(session: str) -> None:
    with pytest.raises(CannotWriteError):
        agent().normalizer.prompt(session, "go on", "p1")
    with pytest.raises(CannotWriteError, match="not named"):
        Asking("acp").normalizer.interrupt(session, "i1")
