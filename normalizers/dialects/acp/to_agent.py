"""What a client of ACP writes to its agent: answers to permission requests and forms, prompts, and cancels."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, for_agent, rpc_for_agent
from tooltap.normalizers.core.forms import form_answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import record, records, strings
from tooltap.protocol.answers import ForAgent

_V2 = {"jsonrpc": "2.0"}


def options_of(params: Line) -> list[dict[str, Any]]:
    """The options of a permission request. Only Vibe states what they remember (3.0.2)."""
    return [
        {
            "id": option["optionId"],
            "name": option.get("name"),
            "kind": option.get("kind"),
            **({"remembers": labels} if (labels := _remembered(option)) else {}),
        }
        for option in records(params.get("options"))
        if isinstance(option.get("optionId"), str)
    ]


def _remembered(option: Line) -> str:
    stated = records(record(option.get("_meta")).get("required_permissions"))
    return ", ".join(strings([one.get("label") for one in stated]))


def word_answer(kept: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
    """Word an answer. `kept`: `id`, the JSON-RPC id, and for a form `types`, the types of its fields. Raises
    `CannotWriteError`."""
    if "types" in kept:
        result = form_answer(chosen, kept["types"])
    elif chosen.outcome == "cancelled":
        result = {"outcome": {"outcome": "cancelled"}}
    elif option is not None:
        result = {"outcome": {"outcome": "selected", "optionId": option["id"]}}
    else:
        raise CannotWriteError("the agent takes one of its options as the answer, or that the request is cancelled")
    closes = {**_V2, "method": "$/cancel_request", "params": {"requestId": kept["id"]}}
    return for_agent(chosen.id, {**_V2, "id": kept["id"], "result": result}, closes)


def word_prompt(session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return rpc_for_agent(id, "session/prompt", params, **_V2)


def word_cancel(session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
    """A client that cancels also answers the session's open requests with `cancelled`: some agents wait for that
    (Gemini CLI 0.61)."""
    return for_agent(id, {**_V2, "method": "session/cancel", "params": {"sessionId": session}})
