"""A daemon with rules for results, and streams of the toy dialect with such results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon.publishing import tapped
from tests.daemon.running import TIMEOUT, Running, Wire, running

__all__ = ["call", "ended", "history", "made_view", "publish", "result", "shell", "viewing"]

END = b'{"op":"end"}\n'


@contextmanager
def viewing(directory: Path, tools: dict[str, Any], **settings: Any) -> Iterator[Running]:
    with running(directory, tools=tools, **settings) as daemon:
        yield daemon


def call(call_id: str, name: str, **asked: Any) -> dict[str, Any]:
    return {"do": "call", "id": call_id, "name": name, "input": asked}


def result(call_id: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"do": "result", "id": call_id, "output": output, **more}


def publish(daemon: Running, *lines: dict[str, Any], stream: str = "s", end: bool = True) -> Wire:
    """Publish the lines and wait for the acknowledgement."""
    wire = daemon.connect()
    wire.send("ingest", stream=stream, framing="tapped", dialect="toy")
    before = wire.until("ingesting")[-1]["lines"]
    wire.write(b"".join(map(tapped, lines)) + END * end)
    if end:
        wire.until("done")
    else:
        while wire.until("ack")[-1]["lines"] < before + len(lines):
            pass
    return wire


def history(daemon: Running, **wanted: Any) -> list[dict[str, Any]]:
    """Return the journal's events."""
    wire = daemon.subscribe(after="start", follow=False, filter=wanted)
    return [event for event in wire.rest() if "op" not in event]


def ended(daemon: Running, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a stream that is published and ended."""
    publish(daemon, *lines)
    return history(daemon, kind=["tool-result"])


def made_view(daemon: Running) -> dict[str, Any]:
    """Return the first view that a command makes; waits for it. The daemon's regular frames keep the wire alive."""
    wire = daemon.subscribe(after="start", filter={"kind": ["tool-update"]})
    deadline = time.monotonic() + TIMEOUT
    while "display" not in (event := wire.read()):
        assert time.monotonic() < deadline, "no view is made"
    return event


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]
