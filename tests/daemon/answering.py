"""An ACP agent that asks, its tap, and clients that answer: real connections to a real daemon."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable
from typing import Any, Self

import orjson

from tests.daemon.lives import Gone
from tests.daemon.running import Wire

SESSION = "sess-1"
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
OPENING: list[tuple[str, dict[str, Any]]] = [
    ("in", {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
    ("out", {"id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "test-agent", "version": "1"}}}),
    ("in", {"id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
    ("out", {"id": 1, "result": {"sessionId": SESSION}}),
    (
        "in",
        {
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": SESSION, "prompt": [{"type": "text", "text": "Go"}]},
        },
    ),
]


def question(number: int) -> dict[str, Any]:
    call = {
        "toolCallId": f"call-{number}",
        "title": "rm -r build",
        "kind": "execute",
        "rawInput": {"command": "rm -r build"},
    }
    params = {"sessionId": SESSION, "toolCall": call, "options": OPTIONS}
    return {"id": 100 + number, "method": "session/request_permission", "params": params}


def response(number: int, option: str = "yes") -> dict[str, Any]:
    return {"id": 100 + number, "result": {"outcome": {"outcome": "selected", "optionId": option}}}


def turn_end() -> dict[str, Any]:
    return {"id": 2, "result": {"stopReason": "end_turn"}}


class Tap:
    """A publisher that writes each frame for its agent once, taps the line that it wrote, and tells the daemon."""

    def __init__(self, stream: str = "s") -> None:
        self.stream = stream
        self.lines: list[bytes] = []
        """All tapped lines of the stream."""
        self.sent = 0
        self.written: list[str] = []
        """What the agent got from clients of the daemon."""
        self.ids: list[str] = []
        """Ids of all frames that came, also of those that came again."""
        self.wire: Wire
        self._frames: list[dict[str, Any]] = []

    def connect(self, wire: Wire, **options: Any) -> Self:
        self.wire, self._frames = wire, []
        wire.send(
            "ingest", **{"stream": self.stream, "framing": "tapped", "dialect": "acp", "toAgent": True, **options}
        )
        self.sent = self.until("ingesting")["lines"]
        self._publish()
        return self

    def tap(self, *lines: tuple[str, dict[str, Any]]) -> Self:
        """Publish lines, each with its direction, and wait until they are durable."""
        for direction, line in lines:
            self.lines.append(orjson.dumps({"dir": direction, "line": json.dumps({"jsonrpc": "2.0", **line})}) + b"\n")
        self._publish()
        return self

    def receive(self, seconds: float = math.inf) -> dict[str, Any]:
        """Return the next frame for the agent. Raises `TimeoutError` if none has come after so many seconds, and the
        daemon has sent something else since, a heartbeat at least."""
        frame = self._frames.pop(0) if self._frames else self.until("to-agent", seconds)
        self.ids.append(frame["payload"]["id"])
        return frame

    def write(self, frame: dict[str, Any]) -> None:
        """Write a frame's line for the agent, unless it was written before."""
        payload = frame["payload"]
        if self.ids.count(payload["id"]) == 1:
            self.written.append(payload["line"])
            self.lines.append(orjson.dumps({"dir": "in", "line": payload["line"]}) + b"\n")
        self.wire.write(b"".join(self.lines[self.sent :]))
        self.sent = len(self.lines)
        self.wire.send("to-agent", id=frame["id"])

    @property
    def has_frames(self) -> bool:
        return bool(self._frames)

    def refuse(self, frame: dict[str, Any], why: str) -> None:
        self.wire.send("to-agent", id=frame["id"], refused=why)

    def until(self, op: str, seconds: float = math.inf) -> dict[str, Any]:
        """Return the next frame with this op; frames for the agent are kept. Raises `Gone`, and `TimeoutError` as
        `receive` does."""
        deadline = time.monotonic() + seconds
        while True:
            frame = read(self.wire)
            assert frame["op"] != "error", frame
            if frame["op"] == op:
                return frame
            if frame["op"] == "to-agent":
                self._frames.append(frame)
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {op} in {seconds:.0f} s")

    def _publish(self) -> None:
        self.wire.write(b"".join(self.lines[self.sent :]))
        while self.sent < len(self.lines):
            self.sent = self.until("ack")["lines"]


def read(wire: Wire) -> dict[str, Any]:
    """Return the next frame. Raises `Gone` if the daemon has died."""
    try:
        line = wire.line()
    except ConnectionError as error:
        raise Gone from error
    if not line.endswith(b"\n"):
        raise Gone
    frame: dict[str, Any] = json.loads(line)
    return frame


def asking(wire: Wire, *numbers: int, stream: str = "s") -> Tap:
    """A tap whose agent asks questions with these numbers, one for each."""
    return Tap(stream).connect(wire).tap(*OPENING, *(("out", question(number)) for number in numbers))


def answer(wire: Wire, number: int = 1, outcome: str = "allowed", **more: Any) -> None:
    """Send an answer to a question, without waiting for the reply."""
    wire.send("answer", **{"id": number, "permissionId": str(100 + number), "outcome": outcome, "by": "ada", **more})


def result(wire: Wire) -> dict[str, Any]:
    """Return the result that the next reply has."""
    reply = wire.until("reply")[-1]
    assert reply["ok"], reply
    found: dict[str, Any] = reply["result"]
    return found


def refusal(wire: Wire) -> tuple[str, str]:
    """Return the code and the sentence, as `timeless`, with which the next reply refuses."""
    reply = wire.until("reply")[-1]
    assert not reply["ok"], reply
    return reply["error"]["code"], timeless(reply["error"]["message"])


def timeless(sentence: str) -> str:
    """The sentence with `N s ago` for how long ago something was."""
    return re.sub(r"\b[0-9]+ s ago", "N s ago", sentence)


def told(events: Iterable[dict[str, Any]]) -> list[str]:
    """What became of questions and answers: codes of the notices about them, and outcomes of the responses."""
    return [
        one["code"] if one["kind"] == "notice" else one["outcome"]
        for one in events
        if (one["kind"] == "notice" and one["code"].partition("-")[0] in ("answer", "send"))
        or one["kind"] == "permission-response"
    ]
