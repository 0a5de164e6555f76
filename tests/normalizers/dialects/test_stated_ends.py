"""A run that was cut: where an agent always states the end of a turn, a text that nothing follows is no end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Turn

CODEX = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "I look at the files."}},
]
CODEX_END = {"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}
OPENCODE = [
    {
        "type": "step_start",
        "timestamp": 1,
        "sessionID": "s",
        "part": {"id": "a", "messageID": "m", "type": "step-start"},
    },
    {
        "type": "text",
        "timestamp": 2,
        "sessionID": "s",
        "part": {
            "id": "b",
            "messageID": "m",
            "type": "text",
            "text": "I look at the files.",
            "time": {"start": 1, "end": 2},
        },
    },
]
OPENCODE_END = {
    "type": "step_finish",
    "timestamp": 3,
    "sessionID": "s",
    "part": {"id": "c", "messageID": "m", "type": "step-finish", "reason": "stop", "cost": 0, "tokens": {}},
}
COPILOT = [
    {"type": kind, "data": data, "id": str(number), "timestamp": "2026-07-01T10:00:01.000Z", "parentId": None}
    for number, (kind, data) in enumerate(
        [
            ("user.message", {"content": "Go."}),
            ("assistant.turn_start", {"turnId": "0"}),
            ("assistant.message", {"messageId": "m", "content": "I look at the files.", "toolRequests": []}),
        ]
    )
]
COPILOT_END = {**COPILOT[1], "type": "assistant.turn_end", "id": "9"}
COPILOT_LIVE = [*COPILOT[:2], {**COPILOT[1], "type": "session.tools_updated", "ephemeral": True}, COPILOT[2]]
COPILOT_LIVE_END = {**COPILOT_END, "type": "assistant.idle"}


def last_turn(dialect: str, lines: list[dict[str, Any]]) -> tuple[str, str | None]:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    outputs: list[Any] = [output for line in lines for output in normalizer.feed(orjson.dumps(line))]
    turns = [one for one in emitted(outputs + normalizer.close("end")) if isinstance(one, Turn)]
    return turns[-1].state, turns[-1].reason


@pytest.mark.parametrize(
    ("dialect", "lines", "end"),
    [
        ("codex-exec", CODEX, CODEX_END),
        ("opencode-run", OPENCODE, OPENCODE_END),
        ("copilot-json", COPILOT, COPILOT_END),
        ("copilot-json", COPILOT_LIVE, COPILOT_LIVE_END),
    ],
)
def test_stream_that_was_cut_is_interrupted(dialect: str, lines: list[dict[str, Any]], end: dict[str, Any]) -> None:
    assert last_turn(dialect, lines) == ("cancelled", "interrupted")
    assert last_turn(dialect, [*lines, end])[0] == "completed"
