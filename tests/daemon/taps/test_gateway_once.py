"""A session that uses the gateway and is tapped as well is one session, and each event is there once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.lives import Lives
from tests.daemon.running import Wire
from tooltap.daemon.taps.gateway.histories import chat_history, responses_history
from tooltap.protocol.inputs import Direction, write_tapped

SESSION = "01a20476-ade6-7eb0-9716-0700aaec1ec0"
REQUEST = {"model": "m", "input": [{"role": "user", "content": "Say hello"}], "prompt_cache_key": SESSION}
OUTPUT = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
RESPONSE = {"id": "r1", "object": "response", "status": "completed", "model": "m", "output": [OUTPUT]}
PRINTED = (
    {"type": "thread.started", "thread_id": SESSION},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "Hello"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
)


class Daemon(Lives):
    """A daemon that ends with the connections to it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._wires: list[Wire] = []

    def connect(self) -> Wire:
        self._wires.append(wire := super().connect())
        return wire

    def publish(self, stream: str, direction: Direction, *lines: dict[str, Any], **options: Any) -> None:
        """Publish lines, on a new connection. Return when they are durable; the stream stays open."""
        wire = self.connect()
        wire.send("ingest", stream=stream, framing="tapped", **options)
        count = wire.until("ingesting")[-1]["lines"] + len(lines)
        for line in lines:
            wire.write(write_tapped(json.dumps(line).encode(), None, direction) + b"\n")
        while wire.until("ack")[-1]["lines"] < count:
            pass

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for wire in self._wires:
            wire.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path) as daemon:
        daemon.start()
        yield daemon


@pytest.mark.parametrize("first", ["run", "before the answer", "gateway"])
def test_gateway_reports_it_if_the_model_answers_before_the_agent_names_the_session(daemon: Daemon, first: str) -> None:
    gateway = {"dialect": "openai-responses", "session": SESSION}
    if first == "run":
        daemon.publish("run-1", "out", *PRINTED[:1])
    daemon.publish("gateway-1", "in", REQUEST, **gateway)
    if first == "before the answer":
        daemon.publish("run-1", "out", *PRINTED[:1])
    daemon.kill()
    daemon.wait()
    daemon.start()
    daemon.publish("gateway-1", "out", RESPONSE, **gateway)
    daemon.publish("run-1", "out", *(PRINTED if first == "gateway" else PRINTED[1:]))
    daemon.publish("other", "out", {"type": "thread.started", "thread_id": "another"})
    wire = daemon.connect()
    wire.send("subscribe", after="start", follow=False)
    events = [json.loads(line) for line in wire.lines() if not line.startswith(b'{"op"')]

    said = [event["text"] for event in events if event["kind"] == "message" and event["role"] == "assistant"]
    assert said == ["Hello"]
    prompts = [event["stream"] for event in events if event.get("role") == "user"]
    assert prompts == (["gateway-1"] if first != "run" else [])
    told = {event["stream"] for event in events if event["kind"] == "message" and event["role"] == "assistant"}
    assert told == {"gateway-1" if first == "gateway" else "run-1"}
    assert {event["session"] for event in events} == {SESSION, "another"}


def test_session_is_stated_by_codex_and_opencode() -> None:
    codex = {"client_metadata": {"session_id": "S"}, "prompt_cache_key": "T", "input": []}
    opencode = {"prompt_cache_key": "ses_7Q", "messages": []}
    other = {"prompt_cache_key": "my-application", "messages": []}

    assert responses_history(codex).session == "S"
    assert [chat_history(one).session for one in (opencode, other, {})] == ["ses_7Q", None, None]
