"""Helpers for the tests of OpenCode's dialects: events of fixtures, and handmade lines."""

from typing import Any

import orjson

from tests.normalizers import reading
from tests.normalizers.reading import read
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event
from tooltap.testing import Line, normalize

VERSION = "opencode-1.18.33"
SESSION = "ses_one"
NOW = 1795294033788


def recording(dialect: str, name: str) -> list[Line]:
    return reading.recording(dialect, name, VERSION)


def fixture(dialect: str, name: str, **context: Any) -> list[Event]:
    return normalize(dialect, recording(dialect, name), Context(stream="s", **context))


# -- lines of the bus -------------------------------------------------------------------------------------------------

CHILD = "ses_child"


def bus(name: str) -> list[Event]:
    return fixture("opencode-bus", name)


def event(kind: str, session: str = SESSION, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


def message(message_id: str, role: str, session: str = SESSION, **info: Any) -> dict[str, Any]:
    return event("message.updated", session, info={"id": message_id, "role": role, "sessionID": session, **info})


def part(kind: str, part_id: str, message_id: str, session: str = SESSION, **fields: Any) -> dict[str, Any]:
    fields = {"id": part_id, "messageID": message_id, "sessionID": session, "type": kind, **fields}
    return event("message.part.updated", session, part=fields, time=NOW)


def tool(name: str, call_id: str, session: str = SESSION, **state: Any) -> dict[str, Any]:
    return part("tool", f"prt_{call_id}", f"msg_{session}", session, tool=name, callID=call_id, state=state)


def delta(part_id: str, message_id: str, text: str) -> dict[str, Any]:
    return event("message.part.delta", messageID=message_id, partID=part_id, field="text", delta=text)


def request(path: str, **body: Any) -> Line:
    return Line(orjson.dumps({"POST": path, "body": body}), None, "in")


def idle(session: str = SESSION) -> dict[str, Any]:
    return event("session.idle", session)


USER = [message("msg_u", "user"), part("text", "prt_u", "msg_u", text="Go.")]
ASSISTANT = message("msg_a", "assistant")


def read_bus(*values: Any, **context: Any) -> list[Event]:
    return read("opencode-bus", *values, **context)
