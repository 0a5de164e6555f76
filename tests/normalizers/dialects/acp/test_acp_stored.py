"""Stored sessions of ACP agents, as they repeat them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read
from tooltap.protocol.events import Event, Message, Notice, Turn

CLAUDE = "@agentclientprotocol/claude-agent-acp"
INTERRUPT = "[Request interrupted by user for tool use]"


def session(agent: str, *prompts: str) -> list[Event]:
    """The events of a session with these prompts, each of which has an answer but an interrupt."""
    lines: list[dict[str, Any]] = [{"acp": "session", "agent": {"name": agent}, "session": {"sessionId": "s-1"}}]
    for number, prompt in enumerate(prompts):
        for kind, text in (("user", prompt), ("agent", "One."))[: 1 if prompt == INTERRUPT else 2]:
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": f"{kind}_message_chunk", "messageId": f"{kind}-{number}", "content": content}
            lines.append({"acp": "update", "params": {"sessionId": "s-1", "update": update}})
    return read("acp-stored", *lines)


def turns(found: list[Event]) -> list[str]:
    return [one.state for one in of(Turn, found)]


def test_interrupt_that_claude_repeats_ends_the_turn() -> None:
    found = session(CLAUDE, "Count.", INTERRUPT)

    assert turns(found) == ["started", "cancelled"]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("interrupt", INTERRUPT)]
    assert [one.text for one in of(Message, found) if one.role == "user"] == ["Count."]


def test_prompt_after_an_interrupt_begins_a_turn() -> None:
    found = session(CLAUDE, "Count.", INTERRUPT, "Go on.")

    assert turns(found) == ["started", "cancelled", "started", "completed"]


@pytest.mark.parametrize("agent", ["OpenCode", "other"])
def test_the_same_words_of_another_agent_are_a_prompt(agent: str) -> None:
    found = session(agent, "Count.", INTERRUPT)

    assert [one.text for one in of(Message, found) if one.role == "user"] == ["Count.", INTERRUPT]
