"""A folder with a daemon under the shim, a subscriber that resumes by `seq`, and streams whose events are checked."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.daemon.constants import write_settings
from tests.daemon.running import Wire
from tests.faults.shim import Control
from tests.faults.zygote import Process, Zygote
from tooltap.protocol.inputs import write_tapped

__all__ = ["FAILED", "MISTAKEN", "PATIENCE", "STOPPED", "Broken", "Place", "T", "Stream", "eventually", "recording"]

FIXTURES = Path(__file__).parents[1] / "fixtures"
PATIENCE = 30.0
"""Seconds after which a wait counts as stuck."""
POLL = 0.003
T = 1_790_000_000_000
"""Time of the lines, in milliseconds since the epoch."""
STOPPED, FAILED, MISTAKEN = 0, 1, 2
"""Documented exit codes; 2: the configuration is wrong, or cannot be read."""
TELLING = ("warning", "error", "critical")
FRESH = re.compile(
    rb"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|(?<=\"msg_)\w{8}|(?<=\"req_)\w{8}"
)
"""Matches what differs from stream to stream: the beginnings of UUIDs, and of the ids of requests, of which each counts
once."""


class Broken(Exception):
    """A promise is broken; the message says how."""


def eventually(what: str, holds: Any, patience: float = PATIENCE) -> Any:
    """Wait until `holds()` is true, and return its value. Raises `Broken`."""
    deadline = time.monotonic() + patience
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise Broken(f"{what}: not after {patience:.0f} s")
        time.sleep(POLL)
    return value


def recording(name: str) -> list[bytes]:
    """The lines of a recording."""
    return (FIXTURES / name).read_bytes().splitlines()


class Stream:
    """A stream to be published, with a session of its own."""

    def __init__(self, number: int, lines: list[bytes]) -> None:
        self.name = f"s{number:07d}"
        self._fresh = b"%08x" % number
        self.records = [write_tapped(FRESH.sub(self._fresh, line), T, "out") + b"\n" for line in lines]
        self.acked = 0
        self.ended = False

    def comparable(self, event: dict[str, Any]) -> str:
        """Return the event as a text without what differs from stream to stream."""
        kept = {key: value for key, value in event.items() if key not in ("seq", "ts")}
        text = json.dumps(kept, sort_keys=True)
        return text.replace(self.name, "STREAM").replace(self._fresh.decode(), "SESSION")


class Place:
    """Daemon, subscriber and streams in one folder. `settings`: lines of the configuration file."""

    def __init__(
        self, folder: Path, zygote: Zygote, control: Control, settings: str, arguments: list[str], **environment: str
    ) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir()
        self.zygote = zygote
        self.control = control
        self.control.watch(self.folder)
        self.socket = self.folder / "run" / "t.sock"
        self.journal = self.folder / "journal.db"
        self.errors = self.folder / "errors.log"
        self.errors.touch()
        constants = write_settings(self.folder / "tooltap.toml", settings)
        self._arguments = arguments
        home = self.folder / "home"
        home.mkdir()
        self.environment = {
            "HOME": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_RUNTIME_DIR": str(home),
            "TOOLTAP_SPOOL": str(self.folder / "spool"),
            **{name: value.replace("FOLDER", str(self.folder)) for name, value in environment.items()},
            **constants,
        }
        self.daemon: Process | None = None
        self.deletes = False
        """Whether the scenario deletes events, so that gaps are allowed."""
        self.streams = 0
        self.last = 0
        """Highest `seq` that the subscriber has received."""
        self.seen: dict[int, dict[str, Any]] = {}
        """`seq` -> event, as the subscriber got them."""
        self.gaps: list[tuple[int, int]] = []
        self._subscriber: Wire | None = None
        self._read_to = 0

    # -- the daemon ---------------------------------------------------------------------------------------------

    def launch(self, *arguments: object, output: Path | None = None) -> Process:
        return self.zygote.launch(
            *arguments, errors=self.errors, output=output or self.folder / "output.log", **self.environment
        )

    def start(self) -> bool:
        """Start a daemon, and wait until it answers; False if it ends first."""
        options = ["--socket", self.socket, "--journal", self.journal, "--config", self.folder / "tooltap.toml"]
        daemon = self.daemon = self.launch("serve", *options, *self._arguments)
        deadline = time.monotonic() + PATIENCE
        while not daemon.ended:
            try:
                with Wire(self.socket) as wire:
                    wire.socket.settimeout(PATIENCE)
                    if wire.line():
                        return True
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise Broken("the daemon neither serves nor ends")
            time.sleep(POLL)
        return False

    def ensure(self) -> None:
        """Start a daemon unless one is running. Raises `Broken` if it does not start."""
        if (self.daemon is None or self.daemon.ended) and not self.start():
            assert self.daemon is not None
            raise Broken(f"the daemon does not start again: code {self.daemon.wait()}: {self.news()}")

    def stop(self) -> int | None:
        assert self.daemon is not None
        self.daemon.signal(signal.SIGTERM)
        return self.daemon.wait(PATIENCE)

    def close(self) -> None:
        self.control.disarm()
        if self._subscriber is not None:
            self._subscriber.close()
        if self.daemon is not None:
            self.daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def news(self) -> list[str]:
        """Return what the daemon has reported since the last call: warnings, errors, and other messages. Raises
        `Broken` for a traceback."""
        with self.errors.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        self._read_to += len(text)
        told = []
        for line in text.decode("utf-8", "replace").splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                if "exception" in entry:
                    raise Broken(f"a traceback is logged: {_brief(entry)}")
                if entry["level"] in TELLING:
                    told.append(f"{entry['event']}: {entry.get('reason') or entry.get('problem') or ''}")
            elif line.startswith("tooltap: "):
                if "unexpected " in line or "bug in tooltap" in line:
                    raise Broken(f"not foreseen: {line}")
                told.append(line)
            elif line.startswith("tooltap "):  # `tooltap run` about its tap
                told.append(line)
            elif line.strip():
                raise Broken(f"neither a sentence nor an entry of the log: {text[-3000:].decode('utf-8', 'replace')}")
        return told

    # -- clients ------------------------------------------------------------------------------------------------

    def connect(self) -> Wire:
        wire = Wire(self.socket)
        wire.socket.settimeout(PATIENCE)
        if not wire.line():
            wire.close()
            raise ConnectionError("closed before the greeting")
        return wire

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and return the reply."""
        with self.connect() as wire:
            wire.send(op, id=1, **arguments)
            while (line := wire.line()).endswith(b"\n"):
                frame: dict[str, Any] = json.loads(line)
                if frame.get("op") in ("reply", "error"):
                    return frame
        raise ConnectionError("closed before the reply")

    def stats(self) -> Any:
        """Return the daemon's statistics. Raises `OSError` if there is no reply, or an error."""
        reply = self.ask("stats")
        if "result" not in reply:
            raise OSError(reply["error"]["message"])
        return reply["result"]

    def damages(self) -> int:
        """Return how many parts of its journal the daemon has found damaged."""
        journal = self.stats()["journal"]
        return int(journal["corrupt"] + journal["damages"])

    def subscribe(self) -> None:
        """Start a live subscription unless there is one."""
        if self._subscriber is None:
            self._subscriber = self.connect()
            self._subscriber.send("subscribe", after=self.last or "start")

    def unsubscribe(self) -> None:
        if self._subscriber is not None:
            self._subscriber.close()
            self._subscriber = None

    def catch_up(self, latest: int) -> None:
        """Let the subscriber read, and resume if it is cut off, until it has everything."""
        for _ in range(3):
            self.subscribe()
            assert self._subscriber is not None
            try:
                while self.last < latest and (line := self._subscriber.line()):
                    self._take(line)
                if self.last >= latest:
                    return
            except TimeoutError:
                raise Broken(f"the subscriber is at {self.last} and gets nothing more of {latest}") from None
            except OSError:
                pass
            self.unsubscribe()
        raise Broken(f"the subscriber is at {self.last} of {latest} and is cut off again and again")

    def read_all(self, after: int) -> list[dict[str, Any]]:
        """Return the events that a new subscriber gets, up to now."""
        with self.connect() as wire:
            wire.send("subscribe", after=after or "start", follow=False)
            lines = [json.loads(line) for line in wire.lines() if line.endswith(b"\n")]
        return [one for one in lines if "op" not in one]

    def catch_up_with(self, after: int) -> None:
        """Like `catch_up`, where the newest events may be deleted."""
        self.unsubscribe()
        with self.connect() as wire:
            wire.send("subscribe", after=after or "start", follow=False)
            for line in wire.lines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\n"):  # the last line of a connection that was cut off
            return
        frame = json.loads(line)
        if frame.get("op") == "gap":
            if not self.deletes:
                raise Broken(f"a gap is reported, though nothing was deleted: {frame}")
            self.gaps.append((frame["from"], frame["to"]))
            self.last = max(self.last, frame["to"])
        elif "op" not in frame:
            seq = frame["seq"]
            if seq <= self.last and not any(first <= seq <= last for first, last in self.gaps):
                raise Broken(f"the subscriber got seq {seq} after {self.last}")
            if seq in self.seen and self.seen[seq] != frame:
                raise Broken(f"seq {seq} is another event now: {self.seen[seq]} -> {frame}")
            self.seen[seq] = frame
            self.last = max(self.last, seq)

    # -- streams ------------------------------------------------------------------------------------------------

    def stream(self, lines: list[bytes]) -> Stream:
        self.streams += 1
        return Stream(self.streams, lines)

    def publish(self, stream: Stream, portions: int = 3, *, end: bool = True) -> list[str]:
        """Publish what the daemon does not have of a stream; return why not all of it is acknowledged."""
        try:
            return list(self._publish(stream, portions, end))
        except TimeoutError:
            raise Broken(f"a publisher of {stream.name} waits for ever, at {stream.acked} lines") from None
        except OSError as error:
            return [f"cut off: {error}"]

    def _publish(self, stream: Stream, portions: int, end: bool) -> Iterator[str]:
        with self.connect() as wire:
            wire.send("ingest", stream=stream.name, framing="tapped", dialect="claude-stream")
            frame = _next(wire, "ingesting")
            if frame["op"] == "error":
                yield frame["message"]
                return
            if frame["lines"] < stream.acked:
                raise Broken(f"{stream.acked} lines of {stream.name} were acknowledged, {frame['lines']} are stored")
            if frame["lines"] > len(stream.records):
                raise Broken(f"{frame['lines']} lines of {stream.name} are stored, it has {len(stream.records)}")
            step = -(-len(stream.records) // portions)
            for start in range(frame["lines"], len(stream.records), step):
                portion = stream.records[start : start + step]
                with suppress(BrokenPipeError, ConnectionResetError):  # the last frame says why
                    wire.write(b"".join(portion))
                while stream.acked < start + len(portion):
                    frame = _next(wire, "ack")
                    if frame["op"] == "error":
                        yield frame["message"]
                        return
                    stream.acked = frame["lines"]
            if end:
                with suppress(BrokenPipeError, ConnectionResetError):
                    wire.write(b'{"op":"end","t":%d}\n' % T)
                frame = _next(wire, "done")
                if frame["op"] == "error":
                    yield frame["message"]
                    return
                stream.ended = True


def _next(wire: Wire, op: str) -> dict[str, Any]:
    while (line := wire.line()).endswith(b"\n"):  # the last of a connection that is cut off may be torn
        frame: dict[str, Any] = json.loads(line)
        if frame["op"] in (op, "error"):
            return frame
    raise ConnectionError("closed by the daemon")


def _brief(entry: dict[str, Any]) -> str:
    frames = [
        f"{exception['exc_type']}: {exception['exc_value']} at "
        + " < ".join(f"{Path(one['filename']).name}:{one['lineno']}" for one in reversed(exception["frames"][-6:]))
        for exception in entry["exception"]
    ]
    return f"{entry['event']}: {'; '.join(frames)}"
