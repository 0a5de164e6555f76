"""The `gptme-log` dialect: calls in texts, who says what, and what no recording shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolCall, ToolResult, Turn
from tooltap.testing import normalize

TIME = "2026-11-26T11:21:02.164149"
SHELL = recording("gptme-log", "shell", "gptme-0.35.1")


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": TIME, **more}


def test_recording_is_recognised_and_states_where_the_agent_is() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"gptme-log"}
    facts = [(one.cwd, one.branch, one.model, one.agent_version) for one in of(SessionEvent, found)]
    assert facts == [
        (None, None, None, "0.35.1"),
        ("/tmp/ws", None, None, None),
        (None, "main", None, None),
        (None, None, "local/fake-model", None),
    ]


def test_several_calls_in_a_text_are_calls() -> None:
    text = 'Both.\n@shell(c1): {"command": "make a"}\n@save(c2): {"path": "/w/b", "content": "x\\ny"}\nThen more.'
    found = read("gptme-log", message("user", "Go"), message("assistant", text))

    assert [(one.call_id, one.input.get("command")) for one in of(ToolCall, found)] == [("c1", "make a"), ("c2", None)]
    assert of(Message, found)[-1].text == "Both.\nThen more."


@pytest.mark.parametrize(
    "text", ["@someone (c1): hello", "Write @shell(c1): now", "@shell(c1): [1]", "@shell(c1): {torn", "@(c1): {}"]
)
def test_text_like_a_call_is_text(text: str) -> None:
    found = read("gptme-log", message("user", "Go"), message("assistant", text))

    assert of(ToolCall, found) == []
    assert of(Message, found)[-1].text == text


def test_output_is_in_a_fence_and_the_model_saw_all() -> None:
    text = "Ran command: `make`\n\n```stdout\na\nb\n```\n\n"
    lines = message("user", "Go"), message("assistant", '@shell(c1): {"command": "make"}')
    [result] = of(ToolResult, read("gptme-log", *lines, message("system", text, call_id="c1")))

    assert (result.output["stdout"], result.status) == ("a\nb", "completed")
    assert result.model_view is not None


def test_what_gptme_says_in_the_users_place_is_no_prompt() -> None:
    own = message("user", "<system>No tool call detected.</system>")
    found = read("gptme-log", message("user", "Go"), message("assistant", "Done."), own, message("assistant", "Yes."))

    assert [one.text for one in of(Message, found) if one.role == "user"] == ["Go"]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("reminder", "No tool call detected.")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_message_of_the_system_that_is_not_hidden_is_shown() -> None:
    found = read("gptme-log", message("user", "Go"), message("system", "Saved to /w/a"))

    assert [(one.role, one.text) for one in of(Message, found)] == [("user", "Go"), ("system", "Saved to /w/a")]


@pytest.mark.parametrize(
    ("more", "is_its"),
    [({}, False), ({"metadata": {"n": 1}}, False), ({"hide": True}, True), ({"metadata": {"tool": "shell"}}, True)],
)
def test_other_conversations_are_not_taken_for_its_own(more: dict[str, Any], is_its: bool) -> None:
    assert builtin()["gptme-log"].recognises(message("system", "Hello", **more)) is is_its
