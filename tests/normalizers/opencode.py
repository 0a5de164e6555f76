"""What the tests of OpenCode's dialects share: fixtures as events, and lines made by hand."""

from pathlib import Path
from typing import Any, TypeVar

import orjson

from tooltap.normalizers.contract import Line, normalize, read_recording
from tooltap.normalizers.items import Context
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult, Turn
from tooltap.protocol.stats import Statistics

FIXTURES = Path(__file__).parent.parent / "fixtures"
SESSION = "ses_one"
NOW = 1795294033788

E = TypeVar("E", bound=Event)


def recording(dialect: str, name: str) -> list[Line]:
    return read_recording((FIXTURES / dialect / "opencode-1.18.33" / f"{name}.jsonl").read_bytes())


def fixture(dialect: str, name: str, **context: Any) -> list[Event]:
    return normalize(dialect, recording(dialect, name), Context(stream="s", **context))


def lines_of(values: tuple[Any, ...]) -> list[Line]:
    return [value if isinstance(value, Line) else Line(orjson.dumps(value)) for value in values]


def read(dialect: str, *values: Any, **context: Any) -> list[Event]:
    """The events of lines made by hand."""
    return normalize(dialect, lines_of(values), Context(stream="s", **context))


def statistics(dialect: str, lines: list[Line]) -> Statistics:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    for line in lines:
        normalizer.feed(line.data, line.t, line.direction)
    return normalizer.statistics


def of(kind: type[E], found: list[Event]) -> list[E]:
    return [event for event in found if isinstance(event, kind)]


def answer(payload: dict[str, Any]) -> dict[str, Any]:
    """A payload without what every payload has."""
    return {key: value for key, value in payload.items() if key not in ("_happy", "_raw")}


def outline(found: list[Event]) -> list[str]:
    """One word or two per event, in order."""
    return [_outline(event) for event in found]


def _outline(event: Event) -> str:
    kind = str(type(event).__struct_config__.tag)
    if isinstance(event, ToolCall):
        return f"{kind} {event.name}"
    if isinstance(event, ToolResult):
        return f"{kind} {event.name} {event.status}"
    if isinstance(event, Message):
        return f"{kind} {event.role}"
    return f"{kind} {event.state}" if isinstance(event, Turn) else kind


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
