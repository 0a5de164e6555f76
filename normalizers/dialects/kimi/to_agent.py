"""What a client of Kimi's wire mode writes to the agent: answers to its requests, prompts, and cancels."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, answer_text, for_agent, rpc_for_agent
from tooltap.protocol.answers import ForAgent

OPTIONS = [
    {"id": "approve", "name": "Approve", "kind": "allow_once"},
    {
        "id": "approve_for_session",
        "name": "Approve for this session",
        "kind": "allow_always",
        "remembers": "Until the session ends: similar actions",
    },
    {"id": "reject", "name": "Reject", "kind": "reject_once"},
]
"""The possible answers to every approval request, which the wire does not repeat. What Kimi takes for similar is not
stated."""
_V2 = {"jsonrpc": "2.0"}
_DISMISSED = {"code": -32_000, "message": "The user dismissed this."}


def word_answer(permission_id: str, kept: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
    """Word an answer. `kept`: `id`, the JSON-RPC id, and `asks`, whether it is a question. Raises
    `CannotWriteError`."""
    answer: dict[str, Any] = {**_V2, "id": kept["id"]}
    result: dict[str, Any] = {"request_id": permission_id}
    if kept["asks"]:
        if chosen.outcome == "denied":
            raise CannotWriteError("Kimi's questions are answered, or dismissed with the outcome cancelled")
        result["answers"] = {key: answer_text(one) for key, one in (chosen.answers or {}).items()}
    elif option is not None:
        result["response"] = option["id"]
        if chosen.message is not None:
            result["feedback"] = chosen.message
    else:
        return for_agent(chosen.id, {**answer, "error": {**_DISMISSED}})
    return for_agent(chosen.id, {**answer, "result": result})


def word_prompt(text: str, id: str, *, steers: bool) -> ForAgent:  # noqa: A002 -- the schema's word
    return rpc_for_agent(id, "steer" if steers else "prompt", {"user_input": text}, **_V2)


def word_cancel(id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    return rpc_for_agent(id, "cancel", {}, **_V2)
