"""What the figures of ACP agents cover: a turn, a request, a process, a session, or a lineage of sessions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.acp.helpers import SESSION, answers, asks, chunk, prompt, read, update
from tests.normalizers.reading import of
from tooltap.normalizers.dialects.acp.sessions import _COSTS, covered
from tooltap.protocol.events import Event, Message, SessionEvent, Usage
from tooltap.testing import Line

FORK = "sess-2"


def agent(name: str, version: str) -> list[Line]:
    info = {"name": name, "version": version}
    return [
        asks(1, "initialize", protocolVersion=1, clientCapabilities={}),
        answers(1, protocolVersion=1, agentCapabilities={}, agentInfo=info),
    ]


def new() -> list[Line]:
    return [asks(2, "session/new", cwd="/ws", mcpServers=[]), answers(2, sessionId=SESSION)]


def load(request_id: int = 2, *history: Line) -> list[Line]:
    return [
        asks(request_id, "session/load", sessionId=SESSION, cwd="/ws", mcpServers=[]),
        *history,
        answers(request_id),
    ]


def costs(amount: float, used: int = 10, session: str = SESSION, **more: Any) -> Line:
    cost = {"amount": amount, "currency": "USD"}
    return update("usage_update", session=session, used=used, size=100, cost=cost, **more)


def turn(request_id: int, *inside: Line, session: str = SESSION, **usage: int) -> list[Line]:
    stated: dict[str, Any] = {"usage": usage} if usage else {}
    return [prompt(request_id, session=session), *inside, answers(request_id, stopReason="end_turn", **stated)]


def counters(found: list[Event]) -> list[tuple[float | None, str | None]]:
    return [(one.cost_usd, one.counter) for one in of(Usage, found) if one.scope == "session"]


def tokens(found: list[Event]) -> list[tuple[str, int | None, int | None]]:
    return [(one.scope, one.input_tokens, one.output_tokens) for one in of(Usage, found)]


# -- costs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "version", "counter"),
    [
        ("claude", "0.23.1", "process"),
        ("claude", "0.79.0", "process"),
        ("claude", "0.80.0", "lineage"),
        ("claude", "0.101.0", "lineage"),
        ("claude", "1.0", "lineage"),
        ("claude", None, None),
        ("codex", "2.6.0", "process"),
        ("opencode", "1.18.33", "lineage"),
        ("some-agent", "1.0", None),
        (None, "1.0", None),
    ],
)
def test_version_of_the_agent_says_what_its_cost_covers(
    provider: str | None, version: str | None, counter: str | None
) -> None:
    assert covered(_COSTS, provider, version) == counter


def test_cost_of_a_process_says_so() -> None:
    first = read(*agent("claude-code-acp", "0.23.1"), *new(), *turn(3, costs(0.5)))
    second = read(*agent("claude-code-acp", "0.23.1"), *load(), *turn(3, costs(0.1)))

    assert counters(first) + counters(second) == [(0.5, "process"), (0.1, "process")]


def test_cost_that_is_there_before_a_prompt_is_the_sessions() -> None:
    found = read(*agent("acme", "1.0"), *load(), costs(0.5), *turn(3, costs(0.6, used=20)))

    assert counters(found) == [(0.5, "session"), (0.6, "session")]


def test_cost_of_an_unknown_agent_says_nothing() -> None:
    found = read(*agent("acme", "1.0"), *new(), *turn(3, costs(0.5)))

    assert counters(found) == [(0.5, None)]


def test_context_alone_has_no_counter() -> None:
    found = read(*agent("claude-agent-acp", "0.100.0"), *new(), *turn(3, update("usage_update", used=5, size=100)))

    assert counters(found) == [(None, None)]


# -- tokens in the answer to a prompt ---------------------------------------------------------------------------------


def test_totals_of_a_process_become_the_usage_of_turns() -> None:
    """Copilot 1.0.102: three requests of 1200 tokens in two turns, and two more in a new process."""
    first = read(
        *agent("copilot-cli", "1.0.102"),
        *new(),
        *turn(3, inputTokens=1200, outputTokens=42, totalTokens=1242),
        *turn(4, inputTokens=3600, outputTokens=126, totalTokens=3726),
    )
    second = read(
        *agent("copilot-cli", "1.0.102"), *load(), *turn(3, inputTokens=2400, outputTokens=84, totalTokens=2484)
    )

    assert tokens(first) == [("turn", 1200, 42), ("turn", 2400, 84)]
    assert tokens(second) == [("turn", 2400, 84)]


def test_totals_of_a_session_become_the_usage_of_turns() -> None:
    """Vibe 3.0.2 states what the session used before a prompt: 4800 and 168 here."""
    earlier = {"promptTokens": 4800, "completionTokens": 168, "cachedTokens": 3600}
    found = read(
        *agent("mistral-vibe", "3.0.2"),
        *load(),
        update("usage_update", used=1242, size=200000, _meta=earlier),
        *turn(3, inputTokens=7200, outputTokens=252, totalTokens=7452, cachedReadTokens=5400),
    )

    (used,) = [one for one in of(Usage, found) if one.scope == "turn"]
    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens) == (2400, 84, 1800)


def test_total_of_a_session_whose_earlier_part_is_not_known_is_a_total() -> None:
    found = read(
        *agent("mistral-vibe", "3.0.2"), *load(), *turn(3, inputTokens=7200, outputTokens=252, totalTokens=7452)
    )

    (used,) = of(Usage, found)
    assert (used.scope, used.counter, used.input_tokens) == ("session", "session", 7200)


def test_total_that_falls_began_anew() -> None:
    found = read(
        *agent("copilot-cli", "1.0.102"),
        *new(),
        *turn(3, inputTokens=3600, outputTokens=126, totalTokens=3726),
        *turn(4, inputTokens=1200, outputTokens=42, totalTokens=1242),
    )

    assert tokens(found) == [("turn", 3600, 126), ("turn", 1200, 42)]


def test_opencode_states_the_last_request_of_a_turn() -> None:
    found = read(
        *agent("OpenCode", "1.18.33"),
        *new(),
        *turn(3, inputTokens=300, outputTokens=35, totalTokens=1242, thoughtTokens=7, cachedReadTokens=900),
    )

    assert tokens(found) == [("step", 1200, 42)]


# -- forks and resumes ------------------------------------------------------------------------------------------------


def fork(*history: Line) -> list[Line]:
    return [asks(7, "session/fork", sessionId=SESSION, cwd="/ws", mcpServers=[]), *history, answers(7, sessionId=FORK)]


def test_fork_names_its_parent_and_costs_what_it_adds() -> None:
    found = read(
        *agent("claude-agent-acp", "0.100.0"),
        *new(),
        *turn(3, costs(0.02)),
        *fork(),
        *turn(4, costs(0.05, session=FORK), session=FORK),
    )

    (started,) = [one for one in of(SessionEvent, found) if one.session == FORK]
    assert (started.state, started.forked_from) == ("started", SESSION)
    assert [(one.session, round(one.cost_usd or 0, 6)) for one in of(Usage, found)] == [(SESSION, 0.02), (FORK, 0.03)]


def test_what_comes_before_the_answer_to_a_fork_is_history() -> None:
    old = update("user_message_chunk", session=FORK, content={"type": "text", "text": "Hello"})
    found = read(
        *agent("acme", "1.0"),
        *new(),
        *fork(old, costs(0.5, session=FORK)),
        *turn(4, update("agent_message_chunk", session=FORK, content={"type": "text", "text": "Yes"}), session=FORK),
    )

    assert [(one.text, one.replay, one.turn) for one in of(Message, found)] == [
        ("Hello", True, None),
        ("go", False, "t1"),
        ("Yes", False, "t1"),
    ]
    assert [one.replay for one in of(Usage, found)] == [True]


def test_loaded_history_uses_nothing() -> None:
    old = update("agent_message_chunk", content={"type": "text", "text": ""}, _meta={"usage": {"inputTokens": 5}})
    found = read(*agent("qwen-code", "0.24.4"), *load(2, chunk("Hello"), old, costs(0.5)))

    assert [one.replay for one in of(Usage, found)] == [True, True]
    assert [one.turn for one in found] == [None] * len(found)


def test_facts_that_a_loaded_history_states_hold() -> None:
    found = read(*agent("acme", "1.0"), *load(2, update("session_info_update", title="A title")))

    assert [(one.title, one.replay) for one in of(SessionEvent, found) if one.title] == [("A title", False)]


def test_session_that_continues_under_a_new_id_names_the_old_one() -> None:
    found = read(
        *agent("acme", "1.0"),
        asks(2, "session/resume", sessionId=SESSION, cwd="/ws", mcpServers=[]),
        answers(2, sessionId=FORK),
    )

    (resumed,) = [one for one in of(SessionEvent, found) if one.state == "resumed"]
    assert (resumed.session, resumed.resumes) == (FORK, SESSION)


@pytest.mark.parametrize(
    ("options", "session", "expected"),
    [
        ({"resume": SESSION}, SESSION, ("resumed", None, None)),
        ({"resume": SESSION}, FORK, ("started", None, SESSION)),
        ({"resume": SESSION, "forkSession": True}, FORK, ("started", SESSION, None)),
        ({}, FORK, ("started", None, None)),
    ],
)
def test_new_session_may_resume_with_claudes_options(
    options: dict[str, Any], session: str, expected: tuple[str, str | None, str | None]
) -> None:
    found = read(
        *agent("claude-agent-acp", "0.100.0"),
        asks(2, "session/new", cwd="/ws", mcpServers=[], _meta={"claudeCode": {"options": options}}),
        answers(2, sessionId=session),
    )

    begun = of(SessionEvent, found)[-1]
    assert (begun.state, begun.forked_from, begun.resumes) == expected
