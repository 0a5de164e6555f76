"""Helpers for the tests of ACP: events of fixtures, and handmade messages."""

from pathlib import Path
from typing import Any

import orjson

from tests.normalizers import reading
from tests.normalizers.reading import E, answer, of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, ToolCall, ToolResult, ToolUpdate, Turn
from tooltap.protocol.inputs import Direction
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "acp"
CLAUDE = "claude-agent-acp-0.100.0"
CODEX = "codex-acp-2.6.0"
GEMINI = "gemini-0.61.0"
OPENCODE = "opencode-1.18.33"
AGENTS = (CLAUDE, CODEX, GEMINI, OPENCODE)
SESSION = "sess-1"


def recording(agent: str, name: str) -> list[Line]:
    return read_recording((FIXTURES / agent / f"{name}.jsonl").read_bytes())


def agents_side(lines: list[Line]) -> list[Line]:
    """Return the lines that a tap on the agent's output alone sees."""
    return [Line(line.data) for line in lines if line.direction == "out"]


def events(agent: str, name: str) -> list[Event]:
    return read(*recording(agent, name))


def read(*lines: Line, partials: bool = False, context: Context | None = None) -> list[Event]:
    return normalize("acp", lines, context or Context(stream="s", partials=partials))


def statistics(*lines: Line) -> Statistics:
    return reading.statistics("acp", list(lines))


def only(kind: type[E], found: list[Event]) -> E:
    (one,) = of(kind, found)
    return one


def whole_input(found: list[Event], call_id: str) -> dict[str, Any]:
    """Return a call's input with all its updates applied."""
    inputs = [one.input for one in found if isinstance(one, ToolCall | ToolUpdate) and one.call_id == call_id]
    return answer(next(one for one in reversed(inputs) if one is not None))


def result_of(found: list[Event], call_id: str) -> ToolResult:
    (one,) = [one for one in of(ToolResult, found) if one.call_id == call_id]
    return one


def named(found: list[Event]) -> list[tuple[str, str]]:
    return [(call.input["_happy"]["rawToolName"], call.name) for call in of(ToolCall, found)]


def turns(found: list[Event]) -> list[tuple[str | None, str, str | None]]:
    return [(turn.turn, turn.state, turn.reason) for turn in of(Turn, found)]


def spoken(found: list[Event]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, found)]


# -- handmade messages ----------------------------------------------------------------------------------------------


def line(direction: Direction | None, **message: Any) -> Line:
    return Line(orjson.dumps({"jsonrpc": "2.0", **message}), direction=direction)


def asks(request_id: int, method: str, side: Direction = "in", **params: Any) -> Line:
    return line(side, id=request_id, method=method, params=params)


def answers(request_id: int, side: Direction = "out", **result: Any) -> Line:
    return line(side, id=request_id, result=result)


def update(what: str, /, *, session: str = SESSION, **fields: Any) -> Line:
    params = {"sessionId": session, "update": {"sessionUpdate": what, **fields}}
    return line("out", method="session/update", params=params)


def chunk(text: str, what: str = "agent_message_chunk", **fields: Any) -> Line:
    return update(what, content={"type": "text", "text": text}, **fields)


def tool(call_id: str, **fields: Any) -> Line:
    return update("tool_call", toolCallId=call_id, **fields)


def tool_update(call_id: str, **fields: Any) -> Line:
    return update("tool_call_update", toolCallId=call_id, **fields)


def prompt(request_id: int = 3, *blocks: dict[str, Any], session: str = SESSION) -> Line:
    return asks(
        request_id, "session/prompt", sessionId=session, prompt=list(blocks or [{"type": "text", "text": "go"}])
    )


def content(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}} for text in texts]


def set_up(name: str = "gemini-cli", *servers: str, version: int = 1) -> list[Line]:
    """The handshake and a new session."""
    return [
        asks(1, "initialize", protocolVersion=version, clientCapabilities={}),
        answers(1, protocolVersion=version, agentCapabilities={}, agentInfo={"name": name, "version": "1.2.3"}),
        asks(2, "session/new", cwd="/ws", mcpServers=[{"name": server} for server in servers]),
        answers(2, sessionId=SESSION),
    ]
