"""The `grok-history` dialect: who wrote an item of the user, reasoning, and results."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, outline, read, recording, said
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Notice, Reasoning, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

COUNT = recording("grok-history", "count", "grok-1.0-written")


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user", "content": [{"type": "text", "text": text}], **more}


def assistant(text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "content": text, "tool_calls": list(calls), "model_id": "m"}


CALL = {"id": "c1", "name": "read_file", "arguments": '{"target_file":"a"}'}


def test_recording_is_one_turn_that_its_answer_ends() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("grok-history", "grok")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [one.text for one in of(Reasoning, found)] == ["wc does it."]
    assert [one.model for one in of(SessionEvent, found)] == ["grok-model"]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        (user("typed"), ["Go", "typed"]),
        (user("Stopped.\n<user_query>\nuse tabs\n</user_query>\nSo?"), ["Go", "use tabs"]),
        (user("<user_query>\nand this\n</user_query>", synthetic_reason="interjection"), ["Go", "and this"]),
        (user("<user_info>linux</user_info>"), ["Go"]),
        (user("rules", synthetic_reason="project_instructions"), ["Go"]),
    ],
)
def test_only_what_the_user_typed_is_a_prompt(item: dict[str, Any], texts: list[str]) -> None:
    assert [text for _, text in said(read("grok-history", user("Go"), item))] == texts


def test_interjection_is_part_of_the_turn() -> None:
    found = read("grok-history", user("Go"), assistant("", CALL), user("wait", synthetic_reason="interjection"))

    assert [one.state for one in of(Turn, found)] == ["started", "cancelled"]


def test_what_the_agent_tells_the_model_later_is_noticed() -> None:
    items = user("Counted.", synthetic_reason="compaction_meta"), user("Done.", synthetic_reason="task_completed")

    assert [(one.code, one.text) for one in of(Notice, read("grok-history", user("Go"), *items))] == [
        ("compaction", "Counted."),
        ("reminder", "Done."),
    ]


def test_failed_call_has_its_text_as_the_error() -> None:
    result = {"type": "tool_result", "tool_call_id": "c1", "content": "no such file", "is_error": True}
    found = read("grok-history", user("Go"), assistant("", CALL), result)

    assert [one.name for one in of(ToolCall, found)] == ["Read"]
    [one] = of(ToolResult, found)
    assert (one.status, one.output["errorMessage"]) == ("failed", "no such file")


@pytest.mark.parametrize("key", ["sessionId", "timestamp", "uuid", "message"])
def test_lines_of_others_with_the_same_types_are_not_taken(key: str) -> None:
    recognises = builtin()["grok-history"].recognises
    line = {"type": "reasoning", "id": "r", "summary": []}

    assert recognises(line)
    assert not recognises({**line, key: "x"})


def test_encrypted_reasoning_says_nothing() -> None:
    assert outline(read("grok-history", {"type": "reasoning", "id": "r", "summary": []})) == []


def test_what_has_no_known_shape_is_kept() -> None:
    odd = {"type": "hologram", "content": "x"}, assistant("", {"id": "c"}), {"type": "tool_result", "content": "x"}

    assert [one.reason for one in of(Unparsed, read("grok-history", *odd))] == ["unknown-type"] * 3
