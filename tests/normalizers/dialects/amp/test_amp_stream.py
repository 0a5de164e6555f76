"""The `amp-stream` dialect: Claude Code's lines under Amp's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.normalizers.reading import FIXTURES, of, read, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Message, ToolResult, Turn, Usage
from tooltap.testing import normalize

THREAD = "T-019e47a8-5090-7538-9035-f2fde2685900"


def test_stream_is_amps() -> None:
    found = normalize("auto", recording("amp-stream", "shell", "amp-written"))

    assert {(one.dialect, one.provider, one.session) for one in found[1:]} == {("amp-stream", "amp", THREAD)}
    said = {one.role: one.text for one in of(Message, found)}
    assert said == {"user": "List the files", "assistant": "a and b"}
    assert [(one.name, one.output["stdout"]) for one in of(ToolResult, found)] == [("Bash", "a\nb\n")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_tokens_of_each_answer_are_counted() -> None:
    found = normalize("auto", recording("amp-stream", "shell", "amp-written"))

    assert sum(one.output_tokens or 0 for one in of(Usage, found)) == 13


@pytest.mark.parametrize(
    "line", [{"type": "user", "session_id": "T-1"}, {"type": "stream_event", "session_id": THREAD}, {"type": "user"}]
)
def test_other_lines_are_not_taken(line: dict[str, Any]) -> None:
    assert not builtin()["amp-stream"].recognises(line)


def test_no_line_of_claude_code_is_taken() -> None:
    path = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "compaction.jsonl"

    assert not any(map(builtin()["amp-stream"].recognises, map(json.loads, path.read_text().splitlines())))


@pytest.mark.parametrize(("stated", "scopes"), [({"output_tokens": 13}, ["step"]), (None, ["turn"])])
def test_sum_at_the_end_is_counted_only_if_no_answer_has_its_tokens(stated: Any, scopes: list[str]) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "So."}], "usage": stated}
    end = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "usage": {"output_tokens": 13}}
    lines = ({"type": "assistant", "message": answer, "parent_tool_use_id": None}, end)
    found = of(Usage, read("amp-stream", *({**line, "session_id": THREAD} for line in lines)))

    assert [(one.scope, one.output_tokens) for one in found] == [(scope, 13) for scope in scopes]
