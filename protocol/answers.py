"""What a publisher writes to its agent: answers to what the agent asks, prompts, interrupts.

A client asks the daemon with the requests `answer`, `send` and `interrupt`. The stream's dialect words it for the agent
(`ForAgent`), the daemon journals it, and the publisher writes it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

__all__ = ["SINCE", "ForAgent", "joined_since", "request_key", "response_key"]

SINCE = "-since-"
"""In the id of a tap's own request that joins a session: comes before when the tap has heard of the session, in ms
since the epoch."""

_PIS = {"extension_ui_response": "dialog", "response": "command"}
"""Type of a response in Pi's RPC mode -> what it responds to."""


class ForAgent(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The payload of a `to-agent` frame."""

    line: str
    """What the agent gets: a line without its newline, or with `path` the body of an HTTP request."""
    path: str | None = None
    """The line is posted to this path of the agent's server."""
    answers: str | None = None
    """`response_key` of the line, if it answers a request of the agent. A publisher that has written a response with
    this key, its own or its client's, refuses the frame, and drops every later response of its client with this key.
    Written again, the same frame (`id`) has no effect."""
    asks: str | None = None
    """`response_key` of the agent's response, if the line is a request: the client does not get that response."""
    to_client: str | None = None
    """A line for the agent's client: it closes the client's dialog."""
    id: str
    """Id of the answer, prompt or interrupt: the daemon sends it again, with the same id, if a connection was lost."""


def joined_since(message: dict[str, Any]) -> int | None:
    """Return what the id of a response says after `SINCE`, in ms since the epoch, or None."""
    _, found, since = str(message.get("id")).rpartition(SINCE)
    return (
        int(since) if found and len(since) == len("1700000000000") and since.isascii() and since.isdecimal() else None
    )


def response_key(message: Any) -> str | None:
    """Return a key of the request to which a decoded line responds; None if it is no response. JSON-RPC, also as Codex
    writes it, without `jsonrpc`: `rpc:<id as JSON>`; Claude Code's control protocol: `control:<request id>`; Pi's RPC
    mode: `dialog:<id>` and `command:<id>`."""
    if not isinstance(message, dict) or "method" in message:
        return None
    kind = message.get("type")
    if kind == "control_response":
        response = message.get("response")
        request_id = response.get("request_id") if isinstance(response, dict) else None
        return f"control:{request_id}" if isinstance(request_id, str) else None
    if isinstance(kind, str) and kind in _PIS:
        return f"{_PIS[kind]}:{message['id']}" if isinstance(message.get("id"), str) else None
    return _rpc_key(message) if "result" in message or "error" in message else None


def request_key(message: Any) -> str | None:
    """Return the `response_key` of the response to a decoded line; None if it is no request that has one."""
    if not isinstance(message, dict):
        return None
    if (kind := message.get("type")) in ("control_request", "extension_ui_request"):
        name, of = ("control", "request_id") if kind == "control_request" else ("dialog", "id")
        return f"{name}:{message[of]}" if isinstance(message.get(of), str) else None
    return _rpc_key(message) if "method" in message else None


def _rpc_key(message: dict[str, Any]) -> str | None:
    number = message.get("id")
    return f"rpc:{orjson.dumps(number).decode()}" if isinstance(number, str | int | float) else None
