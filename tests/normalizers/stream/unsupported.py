"""Streams of agents that have no dialect, written by hand in the shape that the named source documents.

`test_unsupported.py` states what `auto` does with each.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["UNSUPPORTED", "UnsupportedAgent"]


class UnsupportedAgent(NamedTuple):
    agent: str
    source: str
    """Where the shape is documented, or tested by another project."""
    lines: list[str]


def _json(common: dict[str, Any], *values: dict[str, Any]) -> list[str]:
    return [json.dumps({**value, **common}) for value in values]


def _sse(*values: dict[str, Any]) -> list[str]:
    return [f"data: {json.dumps(value)}" for value in values]


def _message(role: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": list(blocks), **more}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


TRAE = UnsupportedAgent(
    "Trae CLI, `--output-format stream-json`",
    "public tests of a reader, cut from a capture",
    _json(
        {"session_id": "t-1"},
        {"type": "system", "subtype": "init"},
        {"type": "stream_event", "delta": {"role": "assistant", "content": "2"}},
        _message("assistant", _text("2")),
        {"type": "result", "subtype": "success", "result": "2", "is_error": False},
    ),
)

GROK = UnsupportedAgent(
    "Grok CLI, `grok --prompt`",
    "its `processPromptHeadless` (`src/index.ts`) and that of its forks: messages in the shape of the chat API",
    _json(
        {},
        {"role": "user", "content": "List the files"},
        {
            "role": "assistant",
            "content": "Using tools...",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
            ],
        },
        {"role": "tool", "content": "a", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "One file."},
    ),
)

KILO = UnsupportedAgent(
    "Kilo Code CLI, `kilocode --auto --json`",
    "Kilo-Org/kilocode: `cli/src/ui/JsonRenderer.tsx`",
    _json(
        {},
        {"timestamp": 1, "source": "cli", "id": "msg-1", "type": "welcome", "content": "", "metadata": {}},
        {"timestamp": 2, "source": "extension", "type": "say", "say": "text", "partial": False, "content": "hi"},
        {"timestamp": 3, "source": "extension", "type": "ask", "ask": "command", "content": "ls"},
    ),
)

LETTA = UnsupportedAgent(
    "Letta, streamed messages",
    "letta-ai/letta: the message classes of its API; public tests of readers",
    _sse(
        {"message_type": "reasoning_message", "id": "r", "reasoning": "hm"},
        {
            "message_type": "tool_call_message",
            "id": "t",
            "tool_call": {"name": "Bash", "tool_call_id": "c", "arguments": "{}"},
        },
        {
            "message_type": "tool_return_message",
            "id": "u",
            "tool_call_id": "c",
            "status": "success",
            "tool_return": "a",
        },
        {"message_type": "assistant_message", "id": "a", "content": "One file."},
    ),
)

OLLAMA = UnsupportedAgent(
    "Ollama's own chat API, streamed",
    "ollama/ollama: `docs/api.md`; attogram/ollama-bash-lib: `demos/`",
    _json(
        {"model": "gpt-oss:20b", "created_at": "2025-08-09T18:22:39.995999988Z"},
        {
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "ls", "arguments": {}}}],
            }
        },
        {"message": {"role": "assistant", "content": "hi"}, "done_reason": "stop", "done": True, "eval_count": 2},
    ),
)

SWE_AGENT = UnsupportedAgent(
    "SWE-agent, a trajectory with one step per line",
    "SWE-agent/SWE-agent: `docs/usage/trajectories.md`",
    _json(
        {},
        {"role": "tool", "content": "a", "agent": "main", "tool_call_ids": ["c"], "message_type": "observation"},
        {
            "response": "Listing.",
            "action": "ls",
            "observation": "a",
            "thought": "t",
            "state": {},
            "execution_time": 0.1,
        },
    ),
)

AMAZON_Q = UnsupportedAgent(
    "Amazon Q Developer CLI, `q chat --no-interactive`",
    "the vendor's documentation and transcripts in public issues",
    [
        "\x1b[38;5;141m> \x1b[0mI'll list the files.",
        "\N{HAMMER AND WRENCH}  Using tool: execute_bash (trusted)",
        " \N{BLACK CIRCLE} Completed in 0.10s",
    ],
)

UNSUPPORTED = {
    "amazon-q": AMAZON_Q,
    "grok-cli": GROK,
    "kilo": KILO,
    "letta": LETTA,
    "ollama": OLLAMA,
    "swe-agent": SWE_AGENT,
    "trae": TRAE,
}
