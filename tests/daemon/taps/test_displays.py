"""What `tooltap mcp` shows is there once: with the result of the agent that called it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.lives import Lives
from tests.daemon.running import Wire
from tooltap.protocol.inputs import write_tapped

OUTPUT = "display-3a23d09468918ad3-edf062db"
TEXT = "Displayed package.json to the user (5 lines)"
TOOL = "mcp__tooltap__render_file_contents"


class Daemon(Lives):
    """A daemon that ends with the connections to it."""

    def __init__(self, directory: Path, patience: float) -> None:
        super().__init__(directory, display_patience=patience)
        self.environment["TOOLTAP_SPOOL"] = str(directory / "spool")
        self._wires: list[Wire] = []

    def connect(self) -> Wire:
        self._wires.append(wire := super().connect())
        return wire

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for wire in self._wires:
            wire.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, 3600.0) as daemon:
        daemon.start()
        yield daemon


class Publisher:
    """A stream on a connection of its own, whose lines are sent one after another."""

    def __init__(self, daemon: Daemon, stream: str, dialect: str) -> None:
        self._wire: Wire = daemon.connect()
        self._wire.send("ingest", stream=stream, framing="tapped", dialect=dialect)
        self._lines = self._wire.until("ingesting")[-1]["lines"]

    def send(self, *lines: dict[str, Any]) -> None:
        """Return when they are durable."""
        self._lines += len(lines)
        for line in lines:
            self._wire.write(write_tapped(json.dumps(line).encode(), None, "out") + b"\n")
        while self._wire.until("ack")[-1]["lines"] < self._lines:
            pass

    def end(self) -> dict[str, Any]:
        self._wire.send("end")
        done: dict[str, Any] = self._wire.until("done")[-1]
        return done


def server(daemon: Daemon, client: str = "claude-code") -> Publisher:
    publisher = Publisher(daemon, "mcp-1", "display-tools")
    publisher.send({"type": "display/session", "client": {"name": client, "version": "2"}, "cwd": "/ws"})
    return publisher


def show(publisher: Publisher, call_id: str = "call-1", text: str = TEXT, **result: Any) -> None:
    call = {"callId": call_id, "tool": "render_file_contents"}
    publisher.send({"type": "display/call", **call, "arguments": {"path": "package.json"}})
    display = {"outputId": OUTPUT, "type": "file", "path": "package.json", "mimeType": "application/json"}
    ended = {"status": "completed", "text": text, "durationMs": 3, "display": display, **result}
    publisher.send({"type": "display/result", **call, **ended})


def agent(daemon: Daemon) -> Publisher:
    publisher = Publisher(daemon, "run-1", "claude-stream")
    publisher.send({"type": "system", "subtype": "init", "session_id": "S", "tools": [], "model": "m", "cwd": "/ws"})
    return publisher


def asks(call_id: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": call_id, "name": TOOL, "input": {"path": "package.json"}}
    message = {"id": f"m-{call_id}", "role": "assistant", "content": [use]}
    return {"type": "assistant", "message": message, "session_id": "S", "parent_tool_use_id": None}


def gets(call_id: str, text: str = TEXT, *, meta: bool = True) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    line = {"type": "user", "message": {"role": "user", "content": [result]}, "session_id": "S"}
    more = {"content": content, **({"_meta": {"tooltap/outputId": OUTPUT}} if meta else {})}
    return {**line, "parent_tool_use_id": None, "tool_use_result": more}


def events_until(daemon: Daemon, kind: str, count: int = 1) -> list[dict[str, Any]]:
    """Return all events so far, once there are so many of this kind."""
    wire = daemon.connect()
    wire.send("subscribe", after="start")
    events: list[dict[str, Any]] = []
    while sum(event["kind"] == kind for event in events) < count:
        event = wire.read()
        if "op" not in event:
            events.append(event)
    return events


def calls(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(event["kind"], event["session"], event["callId"]) for event in events if "callId" in event]


@pytest.mark.parametrize("call_id", ["toolu_1", "call-1"], ids=["id of the call", "id of the output"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_display_belongs_to_the_agents_result(daemon: Daemon, call_id: str, is_killed: bool) -> None:
    tapped = agent(daemon)
    tools = server(daemon)
    show(tools, call_id)
    if is_killed:
        daemon.kill()
        daemon.wait()
        daemon.start()
        tapped = Publisher(daemon, "run-1", "claude-stream")
        tools = Publisher(daemon, "mcp-1", "display-tools")
    tapped.send(asks("toolu_1"), gets("toolu_1", meta=call_id == "call-1"))
    tapped.end()
    done = tools.end()
    events = events_until(daemon, "turn", 2)

    assert calls(events) == [("tool-call", "S", "toolu_1"), ("tool-result", "S", "toolu_1")]
    assert events[-2 - (events[-2]["kind"] != "tool-result")]["display"]["outputId"] == OUTPUT
    assert {event["session"] for event in events} == {"S"}
    assert (done["lines"], done["withEvents"], done["events"]) == (3, 3, 0)


def test_denied_call_is_matched_by_its_text(daemon: Daemon) -> None:
    """It shows nothing, so there is no output; and only Claude Code tells its server the id of a call."""
    tapped, tools = agent(daemon), server(daemon)
    show(tools, text="Not displayed: /etc/passwd is outside the folders", status="denied", display=None)
    tapped.send(asks("toolu_1"), gets("toolu_1", "Not displayed: /etc/passwd is outside the folders", meta=False))
    tapped.end()
    tools.end()

    assert calls(events_until(daemon, "turn", 2)) == [("tool-call", "S", "toolu_1"), ("tool-result", "S", "toolu_1")]


def test_gemini_prints_no_answer_so_the_tool_and_its_argument_decide(daemon: Daemon) -> None:
    tapped, tools = Publisher(daemon, "run-1", "gemini-stream"), server(daemon, client="gemini-cli-mcp-client")
    named = {"tool_name": "mcp_tooltap_render_file_contents", "tool_id": "t-1"}
    tapped.send({"type": "init", "session_id": "S", "model": "m"})
    tapped.send({"type": "tool_use", **named, "parameters": {"path": "package.json"}})
    show(tools)
    tapped.send({"type": "tool_result", "tool_id": "t-1", "status": "success"}, {"type": "result", "status": "success"})
    tools.end()
    events = events_until(daemon, "turn", 2)

    assert calls(events) == [("tool-call", "S", "t-1"), ("tool-result", "S", "t-1")]
    assert next(event for event in events if event["kind"] == "tool-result")["display"]["outputId"] == OUTPUT


def test_without_a_tapped_agent_it_stands_alone(daemon: Daemon) -> None:
    tools = server(daemon)
    show(tools)
    events = events_until(daemon, "tool-result")

    assert [event["kind"] for event in events] == ["session", "tool-call", "tool-result"]
    assert {event["session"] for event in events} == {"mcp-1"}


def test_another_client_than_the_tapped_agent_stands_alone(daemon: Daemon) -> None:
    agent(daemon)
    show(server(daemon, client="some-editor"))

    assert calls(events_until(daemon, "tool-result")) == [
        ("tool-call", "mcp-1", "call-1"),
        ("tool-result", "mcp-1", "call-1"),
    ]


def test_result_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    with Daemon(tmp_path, 0.05) as daemon:
        daemon.start()
        tapped = agent(daemon)
        tools = server(daemon)
        show(tools)
        events = events_until(daemon, "tool-result")
        done = tools.end()
        tapped.end()

    of_server = [event for event in events if event["stream"] == "mcp-1"]
    assert [event["kind"] for event in of_server] == ["session", "tool-call", "tool-result"]
    assert (done["lines"], done["withEvents"], done["events"]) == (3, 3, 3)
