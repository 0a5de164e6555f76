"""Loads for the daemon, and the memory it uses."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import orjson

from tests.bench.lines.recorded import Recorded
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tooltap.testing import Line

__all__ = ["TEXT", "open_stream", "message_line", "message_lines", "message_recording", "peak", "publish", "resident"]

TEXT = "The quick brown fox jumps over the lazy dog. " * 10


def message_line(number: int, text: str) -> bytes:
    """A line of Claude Code that gives one event (the first of a stream gives two)."""
    message = {"id": f"msg_{number}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return orjson.dumps({"type": "assistant", "message": message, "session_id": "5e55", "uuid": f"u{number}"}) + b"\n"


def message_lines(count: int, first: int = 0) -> bytes:
    """Lines of 0.6 kB, whose events have the same size."""
    return b"".join([message_line(number, TEXT) for number in range(first, first + count)])


def message_recording(count: int) -> Recorded:
    return Recorded("claude-stream", None, [Line(line) for line in message_lines(count).splitlines()])


def open_stream(daemon: DaemonProcess, stream: str, dialect: str = "claude-stream") -> Wire:
    """A connection that publishes raw lines."""
    wire = daemon.connect()
    wire.send("ingest", stream=stream, dialect=dialect)
    wire.until("ingesting")
    return wire


def publish(daemon: DaemonProcess, stream: str, data: bytes, dialect: str = "claude-stream") -> dict[str, Any]:
    """Publish a whole stream, wait until it is durable, and return its statistics."""
    with open_stream(daemon, stream, dialect) as wire:
        wire.write(data)
        wire.finish()
        return wire.until("done")[-1]


def resident(daemon: DaemonProcess) -> float:
    """The daemon's resident memory in megabytes."""
    return _memory(daemon.process.pid, "VmRSS")


def peak(daemon: DaemonProcess) -> float:
    """The daemon's peak memory in megabytes; on macOS, which does not report it, the resident memory."""
    return _memory(daemon.process.pid, "VmHWM")


def _memory(pid: int, key: str) -> float:
    if os.path.exists("/proc/self/status"):
        with open(f"/proc/{pid}/status") as file:
            kilobytes = next(line.split()[1] for line in file if line.startswith(key))
    else:
        kilobytes = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True).stdout
    return int(kilobytes) * 1024 / 1e6
