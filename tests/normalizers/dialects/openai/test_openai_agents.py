"""The `openai-agents` dialect: responses in envelopes, which all have one id, and results of the SDK's tools."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, read, recording
from tooltap.normalizers.catalog.registry import products
from tooltap.protocol.events import Message, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

SHELL = recording("openai-agents", "shell", "openai-agents-0.24.0")


def test_both_responses_are_read() -> None:
    found = normalize("auto", SHELL)

    assert {one.dialect for one in found} == {"openai-agents"}
    assert [(one.text, one.message_id) for one in of(Message, found)] == [
        ("Running it.", None),
        ("src has app.py and util.py.", None),
    ]
    assert [one.input_tokens for one in of(Usage, found)] == [1200, 1200]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_readme_lists_the_sdk_beside_the_servers() -> None:
    assert {"OpenAI Agents SDK", "OpenAI-compatible servers"} <= set(products())


def test_items_of_the_run_repeat_what_was_said() -> None:
    repeated = [line for line in SHELL if b"message_output_item" in line.data or b'"tool_call_item"' in line.data]
    found = read("openai-agents", *repeated)

    assert (len(repeated), found) == (3, [])


def test_result_of_a_call_that_was_not_seen_has_a_call() -> None:
    raw = {"type": "function_call_output", "call_id": "c1", "output": "made"}
    item = {"type": "tool_call_output_item", "raw_item": raw}
    found = read("openai-agents", {"type": "run_item_stream_event", "name": "tool_output", "item": item})

    assert [one.synthetic for one in of(ToolCall, found)] == [True]


def test_item_and_event_of_unknown_types_are_kept() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "run_item_stream_event", "name": "strange", "item": {"type": "strange_item"}},
        {"type": "agent_updated_stream_event", "new_agent": {"name": "b"}},
    ]

    assert [one.reason for one in of(Unparsed, read("openai-agents", *lines))] == ["unknown-type"] * 2
