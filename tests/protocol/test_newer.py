"""Lines of a newer daemon: what this version does not know of them is passed on, or costs that line alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.protocol.display import DisplayToolResult, decode_display
from tooltap.protocol.events import Message, ToolCall, decode_known

ENVELOPE = {
    "v": 2,
    "id": "s:1:0",
    "stream": "s",
    "line": 1,
    "session": "S",
    "protocol": "acp",
    "provider": "gemini",
    "dialect": "acp",
}
CALL = {"kind": "tool-call", "callId": "c", "name": "Bash", "input": {}, "status": "running"}


def line(**fields: Any) -> bytes:
    return msgspec.json.encode({**ENVELOPE, **fields})


def test_new_value_of_a_required_key_is_passed_on() -> None:
    event = decode_known(line(**{**CALL, "status": "thinking"}))

    assert isinstance(event, ToolCall)
    assert (event.status, event.call_id, event.name) == ("thinking", "c", "Bash")


def test_new_values_of_several_keys_are_passed_on() -> None:
    result = {"kind": "tool_result", "callId": "c", "name": "Bash", "status": "paused", "family": "robot"}
    shown = decode_display(line(**result, assistantView="guessed"))

    assert isinstance(shown, DisplayToolResult)
    assert (shown.status, shown.family, shown.assistant_view) == ("paused", "robot", "guessed")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "hologram"},
        {**CALL, "status": 5},
        {**CALL, "callId": 5},
        {"kind": "message", "role": "narrator"},
        {"kind": "tool-update", "callId": "c", "name": "Bash", "display": {"origin": "oracle"}},
    ],
    ids=["kind", "type of a value", "type of a key", "missing key", "nested value"],
)
def test_other_mistakes_cost_the_line(fields: dict[str, Any]) -> None:
    assert decode_known(line(**fields)) is None


def test_known_line_is_decoded_as_ever() -> None:
    event = decode_known(line(kind="message", role="assistant", text="x", newKey=1))

    assert isinstance(event, Message)
    assert (event.role, event.text) == ("assistant", "x")


def test_what_is_no_json_raises() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_known(b"{")
