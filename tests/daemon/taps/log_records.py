"""Requests of OTLP with log records, as agents send them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

SECOND = 1_000_000_000
START = 1_796_031_847 * SECOND


def request(*records: dict[str, Any], service: str = "claude-code", version: str = "2.1.332") -> dict[str, Any]:
    """A request in the form of JSON. `records`: those of `event`."""
    resource = {"attributes": attributes({"service.name": service, "service.version": version})}
    scope = {"scope": {"name": "events"}, "logRecords": list(records)}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}


def event(name: str, place: int, session: str = "s-1", **more: Any) -> dict[str, Any]:
    """The record of an event of Claude Code. `place`: in the session; `more`: its attributes."""
    known = {"session.id": session, "event.name": name, "event.sequence": place}
    return {
        "timeUnixNano": str(START + place * SECOND),
        "body": {"stringValue": f"claude_code.{name}"},
        "attributes": attributes({**known, **{key.replace("__", "."): value for key, value in more.items()}}),
    }


def turn(session: str = "s-1", first: int = 1, prompt: str = "Do it.") -> list[dict[str, Any]]:
    """A turn with a call that fails."""
    call: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": f"toolu-{first}"}
    spent = {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.5, "model": "opus"}
    return [
        event("user_prompt", first, session, prompt=prompt, prompt_length=str(len(prompt))),
        event("tool_decision", first + 1, session, decision="accept", source="config", **call),
        event("api_request", first + 2, session, **spent),
        event("tool_result", first + 3, session, success="false", duration_ms="7", error="It fails.", **call),
        event("assistant_response", first + 4, session, response="Done.", response_length=5),
    ]


def spans(*found: dict[str, Any]) -> dict[str, Any]:
    """A request with spans in the form of JSON."""
    resource = {"attributes": attributes({"service.name": "claude-code", "service.version": "2.1.332"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "t"}, "spans": list(found)}]}]}


def span(call_id: str, output: str, session: str = "s-1", name: str = "claude_code.tool") -> dict[str, Any]:
    """The span of a command of Claude Code."""
    stated = {"session.id": session, "tool_name": "Bash", "tool_use_id": call_id}
    said = {"timeUnixNano": str(START), "name": "tool.output", "attributes": attributes({"output": output})}
    return {
        "traceId": "dd2670c76900d8a9e86ad008eaf08706",
        "spanId": "ec4a17b3a9dc0852",
        "name": name,
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 5 * SECOND),
        "attributes": attributes(stated),
        "events": [said],
    }


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any(value)} for key, value in values.items()]


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": value}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(one) for one in value]}}
    return {"stringValue": value}


def encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def gists(events: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What events say, in short."""
    keys = ("role", "text", "status", "state", "costUsd", "agentVersion")
    return [(one["kind"], *(one[key] for key in keys if key in one)) for one in events]
