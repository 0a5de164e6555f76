"""The `claude-sdk` dialect: messages of the Claude Agent SDK, which are made of Claude Code's lines."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.stream import ClaudeStream
from tooltap.normalizers.wire.values import record, string

_OF_API = "srvtoolu_"
"""What the ids of calls begin with that run at the API."""
_BLOCKS = {"text": "text", "thinking": "thinking", "input": "tool_use", "tool_use_id": "tool_result"}
"""Field that only one class of blocks has -> type of the block in Claude Code's line."""


class ClaudeSdk(ClaudeStream):
    """Messages of the Claude Agent SDK, learned from claude-agent-sdk 0.2 for Python.

    Its classes leave out the `type` of a line and of a block, which their fields tell.
    """

    dialect = "claude-sdk"
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt

    def read(self, value: Line) -> Skip:
        return super().read(_line_of(value))


def _line_of(value: Line) -> Line:
    """Claude Code's line from which the SDK has made this message."""
    if data := record(value.get("data")):
        return data
    if "content" not in value:
        kind = "stream_event" if "event" in value else "rate_limit_event" if "rate_limit_info" in value else "result"
        return {"type": kind, **value, "modelUsage": value.get("model_usage")}
    content: Any = value["content"]
    message = {"content": [_block(one) for one in content] if isinstance(content, list) else content}
    if "model" not in value:
        return {**value, "type": "user", "message": {"role": "user", **message}}
    of_api = {"id": value.get("message_id"), "role": "assistant", **message}
    of_api |= {key: value.get(key) for key in ("model", "usage", "stop_reason")}
    return {**value, "type": "assistant", "message": of_api}


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    kind = next((kind for key, kind in _BLOCKS.items() if key in block), None)
    call_id = string(block.get("id")) or string(block.get("tool_use_id")) or ""
    if kind == "tool_use" and call_id.startswith(_OF_API):
        kind = "server_tool_use"
    return block if kind is None else {"type": kind, **block}
