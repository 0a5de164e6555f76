"""An agent shows whether it has accepted a prompt or an interrupt of tooltap's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.normalizers.asking import Asking, line_of
from tests.normalizers.dialects.acp import test_acp_to_agent as acp
from tests.normalizers.dialects.claude import test_claude_to_agent as claude
from tests.normalizers.dialects.codex import test_codex_to_agent as codex
from tests.normalizers.dialects.kimi import test_kimi_to_agent as kimi
from tests.normalizers.dialects.pi import test_pi_to_agent as pi
from tooltap.normalizers.core.answers import own_id, response_to_own

SENT = "0123456789abcdef"
V2 = {"jsonrpc": "2.0", "id": own_id(SENT)}
AGENTS: dict[str, tuple[Callable[[], Asking], str]] = {
    "acp": (acp.agent, "sess"),
    "claude": (claude.agent, ""),
    "codex": (codex.agent, "a"),
    "kimi": (kimi.agent, "s"),
    "pi": (lambda: Asking("pi-json", pi.STATE), "p"),
}


def lifecycle(state: str, uuid: str = "01234567-89ab-cdef-8000-746f6f6c7461") -> dict[str, Any]:
    """As Claude Code 2.1.332 prints it."""
    return {"type": "command_lifecycle", "command_uuid": uuid, "state": state, "session_id": "sess", "uuid": "u"}


def control(**response: Any) -> dict[str, Any]:
    return {"type": "control_response", "response": {"request_id": own_id(SENT), **response}}


def responded(**response: Any) -> dict[str, Any]:
    return {"id": own_id(SENT), "type": "response", **response}


def notices(agent: str, op: str, *responses: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what is shown after something was sent to an agent, which responds."""
    begin, session = AGENTS[agent]
    asking = begin()
    session = session or asking.session
    normalizer = asking.normalizer
    written = normalizer.prompt(session, "go on", SENT) if op == "prompt" else normalizer.interrupt(session, SENT)
    asking.feed(("in", line_of(written)))
    found = asking.feed(*(("out", one) for one in responses))
    assert all(one["session"] == session for one in found)
    shown = [one for one in found if one["kind"] == "notice" and one["code"].startswith("send-")]
    assert {one["data"].pop("sendId") for one in shown} <= {SENT}
    return [(one["code"], one["data"].get("reason")) for one in shown]


@pytest.mark.parametrize(("agent", "op", "responses"), [
    ("acp", "prompt", [{**V2, "result": {"stopReason": "end_turn"}}]),
    ("claude", "prompt", [lifecycle("queued"), lifecycle("started"), lifecycle("completed")]),
    ("claude", "interrupt", [control(subtype="success", response={})]),
    ("codex", "prompt", [{"id": own_id(SENT), "result": {"turnId": "1"}}]),
    ("codex", "interrupt", [{"id": own_id(SENT), "result": {}}]),
    ("kimi", "prompt", [{**V2, "result": {"status": "steered"}}]),
    ("kimi", "interrupt", [{**V2, "result": {}}]),
    ("pi", "prompt", [responded(command="prompt", success=True)]),
    ("pi", "interrupt", [responded(command="abort", success=True)]),
])  # fmt: skip
def test_accepted_once(agent: str, op: str, responses: list[dict[str, Any]]) -> None:
    assert notices(agent, op, *responses) == [("send-accepted", None)]


@pytest.mark.parametrize(("agent", "op", "response"), [
    ("acp", "prompt", {**V2, "error": {"code": -32600, "message": "busy"}}),
    ("claude", "interrupt", control(subtype="error", error="busy")),
    ("codex", "prompt", {"id": own_id(SENT), "error": {"code": -32600, "message": "busy"}}),
    ("kimi", "prompt", {**V2, "error": {"code": -32000, "message": "busy"}}),
    ("pi", "prompt", responded(command="prompt", success=False, error="busy")),
])  # fmt: skip
def test_refused_with_the_reason_of_the_agent(agent: str, op: str, response: dict[str, Any]) -> None:
    assert notices(agent, op, response) == [("send-refused", "busy")]


@pytest.mark.parametrize("state", ["queued", "completed", "new"])
def test_prompt_that_only_waits_is_not_accepted(state: str) -> None:
    assert notices("claude", "prompt", lifecycle(state)) == []


@pytest.mark.parametrize("uuid", [
    "01234567-89ab-cdef-8000-746f6f6c7462", "0123456789ab-cdef-8000-746f6f6c7461", "x-8000-746f6f6c7461", 7, None,
])  # fmt: skip
def test_prompt_of_somebody_else_is_no_prompt_of_ours(uuid: Any) -> None:
    assert notices("claude", "prompt", lifecycle("started", uuid)) == []


@pytest.mark.parametrize("value", [
    {"id": 7, "result": {}}, {"id": "7", "result": {}}, {**V2, "method": "x", "result": {}}, {"type": "response"},
    {"id": {}, "error": {}}, {"type": "control_response", "response": None}, [], None,
])  # fmt: skip
def test_other_lines_are_no_responses_to_ours(value: Any) -> None:
    assert response_to_own(value) is None


@pytest.mark.parametrize("error", [{}, {"message": ""}, "", [], {"message": 7}, 0])
def test_refusal_without_a_reason_says_so(error: Any) -> None:
    response = response_to_own({**V2, "error": error})

    assert response is not None
    assert response.refusal in ("it does not say why", "7")
