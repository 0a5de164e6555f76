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


def server(daemon: Daemon, client: str = "claude-code", *, stream: str = "mcp-1", cwd: str = "/ws") -> Publisher:
    publisher = Publisher(daemon, stream, "display-tools")
    publisher.send({"type": "display/session", "client": {"name": client, "version": "2"}, "cwd": cwd})
    return publisher


def show(
    publisher: Publisher, call_id: str = "call-1", text: str = TEXT, *, output: str = OUTPUT, **result: Any
) -> None:
    call = {"callId": call_id, "tool": "render_file_contents"}
    publisher.send({"type": "display/call", **call, "arguments": {"path": "package.json"}})
    display = {"outputId": output, "type": "file", "path": "package.json", "mimeType": "application/json"}
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


GEMINI = "gemini-cli-mcp-client"


def gemini(daemon: Daemon, name: str) -> Publisher:
    """An agent that has called the tool."""
    publisher = Publisher(daemon, f"run-{name}", "gemini-stream")
    publisher.send({"type": "init", "session_id": name, "model": "m"}, gemini_asks(f"call-of-{name}"))
    return publisher


def gemini_asks(call_id: str) -> dict[str, Any]:
    named = {"tool_name": "mcp_tooltap_render_file_contents", "tool_id": call_id}
    return {"type": "tool_use", **named, "parameters": {"path": "package.json"}}


def gemini_gets(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_id": call_id, "status": "success"}


def shown_by_call(events: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return the output that is shown for the result of each call."""
    results = [event for event in events if event["kind"] == "tool-result"]
    return {event["callId"]: event.get("display", {}).get("outputId") for event in results}


def test_agents_that_show_files_of_one_name_do_not_get_each_others(daemon: Daemon) -> None:
    """Nothing tells whose file is whose, so neither is joined."""
    one, other = gemini(daemon, "A"), gemini(daemon, "B")
    show(server(daemon, GEMINI, stream="mcp-A", cwd="/a"), "shown-A", output="display-A")
    show(server(daemon, GEMINI, stream="mcp-B", cwd="/b"), "shown-B", output="display-B")
    other.send(gemini_gets("call-of-B"))
    one.send(gemini_gets("call-of-A"))

    assert shown_by_call(events_until(daemon, "tool-result", 2)) == {"call-of-A": None, "call-of-B": None}


def test_open_call_of_another_agent_may_be_the_one_that_was_shown(daemon: Daemon) -> None:
    one, other = gemini(daemon, "A"), gemini(daemon, "B")
    show(server(daemon, GEMINI), output="display-A")
    other.send(gemini_gets("call-of-B"))
    one.send(gemini_gets("call-of-A"))

    assert shown_by_call(events_until(daemon, "tool-result", 2)) == {"call-of-A": None, "call-of-B": None}


def test_open_call_of_another_product_is_no_candidate(daemon: Daemon) -> None:
    one, other = gemini(daemon, "A"), agent(daemon)
    other.send(asks("toolu_1"))
    show(server(daemon, GEMINI), output="display-A")
    one.send(gemini_gets("call-of-A"))

    assert shown_by_call(events_until(daemon, "tool-result")) == {"call-of-A": "display-A"}


def test_parallel_calls_of_one_agent_for_one_path_are_not_guessed(daemon: Daemon) -> None:
    tapped, tools = gemini(daemon, "A"), server(daemon, GEMINI)
    tapped.send(gemini_asks("second"))
    show(tools, "shown-1", "Displayed package.json to the user (2 lines)", output="display-1")
    show(tools, "shown-2", "Displayed package.json to the user (3 lines)", output="display-2")
    tapped.send(gemini_gets("second"), gemini_gets("call-of-A"))

    assert shown_by_call(events_until(daemon, "tool-result", 2)) == {"call-of-A": None, "second": None}


def test_text_of_another_folder_or_product_does_not_match(daemon: Daemon) -> None:
    """The first agent works in /ws, and is Claude Code."""
    tapped = agent(daemon)
    for stream, client, cwd in (("mcp-1", "claude-code", "/other"), ("mcp-2", GEMINI, "/ws")):
        gemini(daemon, stream)
        show(server(daemon, client, stream=stream, cwd=cwd), f"shown by {stream}")
    tapped.send(asks("toolu_1"), gets("toolu_1", meta=False))

    assert shown_by_call(events_until(daemon, "tool-result")) == {"toolu_1": None}


def test_text_matches_in_the_folder_of_the_agent(daemon: Daemon) -> None:
    tapped = agent(daemon)
    show(server(daemon, stream="mcp-1", cwd="/other"), "shown-1", output="display-1")
    show(server(daemon, stream="mcp-2", cwd="/ws"), "shown-2", output="display-2")
    tapped.send(asks("toolu_1"), gets("toolu_1", meta=False))

    assert shown_by_call(events_until(daemon, "tool-result")) == {"toolu_1": "display-2"}


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
