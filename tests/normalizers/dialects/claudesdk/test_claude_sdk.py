"""The `claude-sdk` dialect: messages of the Claude Agent SDK become what Claude Code's own lines become."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import FIXTURES, of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, Reasoning, SessionEvent, ToolCall, ToolResult, Turn, Usage
from tooltap.testing import normalize

VERSION = "claude-agent-sdk-0.2.189"
ANSWER: dict[str, Any] = {"model": "m", "parent_tool_use_id": None, "error": None, "message_id": "m1"}


def test_recorded_run_has_all_facts() -> None:
    found = normalize("auto", recording("claude-sdk", "shell", VERSION))

    assert {one.dialect for one in found} == {"claude-sdk"}
    assert [(one.state, one.model) for one in of(SessionEvent, found)] == [("started", "claude-opus-5-5")]
    assert [(one.name, one.output["stdout"]) for one in of(ToolResult, found)] == [("Bash", "3 notes.txt")]
    assert [one.text for one in of(Message, found)] == ["It has 3 lines."]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]
    assert [one.models[0].model for one in of(Usage, found) if one.models] == ["claude-opus-5-5"]


def test_failed_command_has_its_exit_code() -> None:
    [result] = of(ToolResult, normalize("auto", recording("claude-sdk", "shell-fails", VERSION)))

    assert (result.status, result.output["exit_code"]) == ("failed", 2)


@pytest.mark.parametrize(("call_id", "kind"), [("toolu_1", "tool_use"), ("srvtoolu_1", "server_tool_use")])
def test_type_of_a_block_is_told_by_its_fields(call_id: str, kind: str) -> None:
    blocks = [{"thinking": "Hm.", "signature": ""}, {"text": "So."}, {"id": call_id, "name": "Bash", "input": {}}]
    found = read("claude-sdk", {"content": blocks, **ANSWER})

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.text for one in of(Message, found)] == ["So."]
    assert [one.input["_raw"]["type"] for one in of(ToolCall, found)] == [kind]


def test_prompt_that_the_program_writes_is_a_message() -> None:
    prompt = {"content": "Go.", "uuid": "u", "parent_tool_use_id": None, "tool_use_result": None, "origin": None}

    assert [(one.role, one.text) for one in of(Message, read("claude-sdk", prompt))] == [("user", "Go.")]


@pytest.mark.parametrize("name", ["subagents-parallel.jsonl", "compaction.jsonl", "api-error.jsonl"])
def test_no_line_of_claude_code_is_taken_for_a_message(name: str) -> None:
    lines = map(orjson.loads, (FIXTURES / "claude-stream/claude-code-2.1.330" / name).read_bytes().splitlines())

    assert not any(map(builtin()["claude-sdk"].recognises, lines))
