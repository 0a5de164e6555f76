"""Base of the scenarios: work during which a call fails, and checks of what must hold afterwards."""

from __future__ import annotations

import base64
import json
import random
from typing import Any, ClassVar

from tests.faults.place import FAILED, MISTAKEN, Broken, Place, Stream

__all__ = ["AGENT", "BODIES", "TRACED", "Scenario", "ask", "start", "with_output"]

AGENT = "claude-stream/claude-code-2.1.330/shell-fails.jsonl"
BODIES = "string_bytes = 200\nview_bytes = 200\n"
TRACED = {"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_FILE": "FOLDER/trace.jsonl"}


class Scenario:
    """A scenario: one daemon after another in one folder. `before` prepares; `act` is the work during which a call
    fails, and returns the failures that clients saw; `after` completes the work, and checks the result."""

    settings: ClassVar[str] = f"drain_interval = 3600.0\n[stream]\n{BODIES}"
    arguments: ClassVar[list[str]] = []
    environment: ClassVar[dict[str, str]] = {}
    silent: ClassVar[frozenset[str]] = frozenset({"recv", "send", "accept"})
    """Classes of calls whose failure only disconnects a client, which notices it; the daemon need not report it."""
    deletes = False

    def __init__(self, place: Place) -> None:
        self.place = place
        place.deletes = self.deletes
        self.expected: dict[str, list[str]] = {}
        """Kind of stream -> its expected events."""
        self.told: list[str] = []
        """What the daemon reported while the call failed."""

    def before(self) -> None:
        self.place.ensure()
        self.place.subscribe()

    def act(self) -> list[str]:
        raise NotImplementedError

    def after(self) -> None:
        raise NotImplementedError

    # -- what scenarios share -----------------------------------------------------------------------------------

    def complete(self, stream: Stream) -> None:
        """Publish the rest of a stream, now without a fault."""
        if not stream.ended and (failed := self.place.publish(stream, 1)):
            raise Broken(f"{stream.name} cannot be published to its end: {failed[0]}")

    def check(self, *streams: Stream, kind: str = "agent") -> None:
        """Check that the journal has exactly the expected events of the streams, and that the subscriber has seen
        them."""
        place = self.place
        latest = place.stats()["journal"]["latest"]
        if self.deletes:
            place.catch_up_with(place.last)
        else:
            place.catch_up(latest)
        for stream in streams:
            found = self._events(stream)
            events = [stream.comparable(one) for one in found]
            expected = self.expected.setdefault(kind, events)
            if events != expected:
                raise Broken(f"{stream.name} became other events: {_differences(expected, events)}")
            seen = [event for event in place.seen.values() if event["stream"] == stream.name]
            if not self.deletes and seen != found:
                ids = [[one["id"] for one in some] for some in (seen, found)]
                raise Broken(f"the subscriber saw {ids[0]}, the journal has {ids[1]}")
            for one in found:
                for reference in one.get("outputs", {}).values():
                    reply = place.ask("output", outputId=reference["outputId"])
                    if not reply.get("ok"):
                        raise Broken(f"an output of {stream.name} is gone: {reply}")
        place.seen.clear()

    def _events(self, stream: Stream) -> list[dict[str, Any]]:
        with self.place.connect() as wire:
            wire.send("subscribe", after="start", follow=False, filter={"stream": [stream.name]})
            frames = [json.loads(line) for line in wire.lines()]
        if refused := [one["message"] for one in frames if one.get("op") == "error"]:
            raise Broken(f"{stream.name} cannot be read: {refused[0]}")
        return [one for one in frames if "op" not in one]


def start(place: Place) -> list[str]:
    """Start a daemon; return its exit code as a sentence if it ends."""
    if place.start():
        return []
    assert place.daemon is not None
    code = place.daemon.wait()
    if code is not None and code not in (FAILED, MISTAKEN) and code >= 0:
        raise Broken(f"the daemon does not start, and ends with {code}")
    return [f"exit code {code}"]


def ask(place: Place, op: str, **arguments: Any) -> list[str]:
    try:
        reply = place.ask(op, **arguments)
    except TimeoutError:
        raise Broken(f"{op} is not answered") from None
    except OSError as error:
        return [f"cut off: {error}"]
    if reply.get("ok"):
        return []
    return [reply["error"]["message"] if "error" in reply else reply["message"]]


def with_output(lines: list[bytes], size: int, seed: int) -> list[bytes]:
    """Return the recording with a long output of its command: a fixed beginning, and `size` random bytes."""
    output = "x" * 1_000 + base64.b64encode(random.Random(seed).randbytes(size)).decode()
    found = []
    for line in map(json.loads, lines):
        if isinstance(result := line.get("tool_use_result"), dict) and "stdout" in result:
            result["stdout"] = output
        for block in line.get("message", {}).get("content", ()) if line.get("type") == "user" else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                block["content"] = output
        found.append(json.dumps(line, separators=(",", ":")).encode())
    return found


def _differences(expected: list[str], found: list[str]) -> str:
    for number, (wanted, one) in enumerate(zip(expected, found, strict=False)):
        if wanted != one:
            return f"event {number} of {len(found)}/{len(expected)}: {wanted[:600]} -> {one[:600]}"
    return f"{len(expected)} events, {len(found)} now"
