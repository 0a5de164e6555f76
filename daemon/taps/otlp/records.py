"""Log records and spans of OTLP as lines of the dialect `otlp`, each with the session to which it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from tooltap.normalizers.wire.decode import decode_line
from tooltap.normalizers.wire.values import first_string, record, records
from tooltap.protocol import EPOCH_MS, LATEST_MS

SESSION = ("session.id", "conversation.id")
"""Attributes with the session: of Claude Code, Gemini CLI and Qwen Code, and of Codex."""
SPANS = {"claude_code.tool": "tool.output", "qwen-code.tool": "gen_ai.tool.call.result"}
"""Name of a span -> what in it no log record says: an event of Claude Code, an attribute of Qwen Code."""
MS = 1_000_000
"""Nanoseconds in a millisecond."""
DEPTH = 64
"""Deepest nesting of a body in JSON."""
LONGEST_NAME = 100
_OTHERS = re.compile(r"[^A-Za-z0-9._~-]")
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NANOSECONDS = re.compile(r"[0-9]{1,20}", re.ASCII)
_MOST = 2**63


class BodyError(ValueError):
    """A body is no request of OTLP; the message is a part of a sentence."""


class LogRecord(NamedTuple):
    stream: str
    session: str
    t: int | None
    """When it was written, in ms since the epoch, if it says so."""
    line: bytes


def read_json(body: bytes) -> dict[str, Any]:
    """Parse a body in JSON. Raises `BodyError`."""
    decoded = decode_line(body, DEPTH)
    if len(decoded.values) != 1 or decoded.torn or not isinstance(decoded.values[0], dict):
        raise BodyError("it is not one object of JSON, or too deep")
    return decoded.values[0]


def log_records(request: dict[str, Any]) -> Iterator[LogRecord | None]:
    """Yield the records of a request; None for one that names no session."""
    for group in records(request.get("resourceLogs")):
        resource = _attributes(record(group.get("resource")))
        for scope in records(group.get("scopeLogs")):
            for one in records(scope.get("logRecords")):
                yield _log_record(resource, one)


def spans(request: dict[str, Any]) -> Iterator[LogRecord]:
    """Yield the spans of a request that say what no log record does, and name a session."""
    for group in records(request.get("resourceSpans")):
        resource = _attributes(record(group.get("resource")))
        for scope in records(group.get("scopeSpans")):
            for one in records(scope.get("spans")):
                if (span := _span(resource, one)) is not None:
                    yield span


def _span(resource: dict[str, Any], one: dict[str, Any]) -> LogRecord | None:
    name, attributes = first_string(one, "name"), _attributes(one)
    session = first_string(attributes, *SESSION)
    wanted = SPANS.get(name or "")
    said = [event for event in records(one.get("events")) if event.get("name") == wanted]
    if session is None or wanted is None or not (said or wanted in attributes):
        return None
    service, t = first_string(resource, "service.name") or "unknown", _time(one.get("endTimeUnixNano"))
    line = {
        "otlp": "span",
        "id": _digest([one.get("traceId"), one.get("spanId"), session, service]),
        "service": service,
        "version": first_string(resource, "service.version"),
        "session": session,
        "name": name,
        "time": t,
        "attributes": attributes,
        "events": [{"name": event["name"], "attributes": _attributes(event)} for event in said],
    }
    return _line(service, session, t, line)


def _log_record(resource: dict[str, Any], one: dict[str, Any]) -> LogRecord | None:
    attributes = _attributes(one)
    session = first_string(attributes, *SESSION) or first_string(resource, *SESSION)
    if session is None:
        return None
    service, body = first_string(resource, "service.name") or "unknown", _value(one.get("body"))
    name = first_string(attributes, "event.name") or first_string(one, "eventName")
    if isinstance(body, str) and name is not None and body.endswith(f".{name}"):  # of Claude Code, with its prefix
        name, body = body, None
    t = _time(one.get("timeUnixNano")) or _time(one.get("observedTimeUnixNano"))
    line = {
        "otlp": "log",
        "id": _digest([one, session, service]),
        "service": service,
        "version": first_string(attributes, "app.version") or first_string(resource, "service.version"),
        "session": session,
        "name": name,
        "time": t,
        "body": body,
        "attributes": attributes,
    }
    return _line(service, session, t, line)


def _line(service: str, session: str, t: int | None, line: dict[str, Any]) -> LogRecord:
    present = {key: value for key, value in line.items() if value is not None}
    return LogRecord(stream_of(service, session), session, t, orjson.dumps(present))


def _digest(value: Any) -> str:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def stream_of(service: str, session: str) -> str:
    """The id of the stream of a session, which two sessions never share."""
    parts = [_OTHERS.sub("-", one)[:LONGEST_NAME] for one in (service, session)]
    digest = blake2b(f"{service}\0{session}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"otlp-{parts[0][:40]}-{parts[1]}~{digest}"


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for one in records(holder.get("attributes")):
        if isinstance(key := one.get("key"), str) and (value := _value(one.get("value"))) is not None:
            found[key] = value
    return found


def _value(stated: Any) -> Any:
    """The value of an `AnyValue`, without its type; None for an empty one."""
    for kind, value in record(stated).items():
        if kind == "arrayValue":
            return [_value(one) for one in records(record(value).get("values"))]
        if kind == "kvlistValue":
            return _attributes({"attributes": record(value).get("values")})
        if kind == "intValue" and isinstance(value, str):  # as JSON has integers of 64 bits
            return int(value) if _INTEGER.fullmatch(value) and -_MOST <= int(value) < _MOST else value
        return value
    return None


def _time(nanoseconds: Any) -> int | None:
    """A time in ms since the epoch; None for 0, and for what is none."""
    if isinstance(nanoseconds, str) and _NANOSECONDS.fullmatch(nanoseconds):
        nanoseconds = int(nanoseconds)
    ms = nanoseconds // MS if type(nanoseconds) is int else 0
    return ms if EPOCH_MS <= ms < LATEST_MS else None
