"""Fault scenarios of daemons that start and stop."""

from __future__ import annotations

import json
import shutil
from typing import ClassVar

from tests.faults.place import FAILED, STOPPED, Broken, recording
from tests.faults.scenario import AGENT, TRACED, Scenario, start

__all__ = ["Create", "Shutdown", "Start"]


class Start(Scenario):
    """A daemon starts on a journal with streams that were being published, serves browsers, traces and follows."""

    arguments: ClassVar = ["--web", "127.0.0.1:0", "--follow", "claude"]
    environment: ClassVar = {**TRACED, "CLAUDE_CONFIG_DIR": "FOLDER/claude"}

    def before(self) -> None:
        place = self.place
        (place.folder / "claude" / "projects" / "-ws").mkdir(parents=True, exist_ok=True)
        place.ensure()
        self.streams = [place.stream(recording(AGENT)) for _ in range(2)]
        for stream, end in zip(self.streams, (True, False), strict=True):
            place.publish(stream, end=end)
        place.catch_up(place.stats()["journal"]["latest"])
        place.unsubscribe()
        place.stop()
        place.news()

    def act(self) -> list[str]:
        return start(self.place)

    def after(self) -> None:
        for stream in self.streams:
            self.complete(stream)
        self.check(*self.streams)


class Create(Start):
    """A daemon starts without any file: it creates its folders, its journal and its token."""

    def before(self) -> None:
        place = self.place
        if place.daemon is not None:
            place.daemon.kill()
        for path in place.folder.glob("journal.db*"):
            path.unlink()
        for name in ("run", "home", "claude"):
            shutil.rmtree(place.folder / name, ignore_errors=True)
        (place.folder / "home").mkdir()
        place.unsubscribe()
        place.last = 0
        self.streams = [place.stream(recording(AGENT))]


class Shutdown(Start):
    """A daemon stops while streams are being published and read. It is given time, or it would end as it is on a busy
    machine."""

    settings: ClassVar = f"shutdown_timeout = 10.0\n{Scenario.settings}"

    def before(self) -> None:
        place = self.place
        place.ensure()
        place.subscribe()
        self.streams = [place.stream(recording(AGENT)) for _ in range(2)]
        place.publish(self.streams[0], end=False)
        self._wire = place.connect()
        stream = self.streams[1]
        self._wire.send("ingest", stream=stream.name, framing="tapped", dialect="claude-stream")
        self._wire.write(b"".join(stream.records[:12]))

    def act(self) -> list[str]:
        place = self.place
        assert place.daemon is not None
        code = place.stop()
        if code is None:
            raise Broken("the daemon does not stop")
        stream = self.streams[1]
        for line in self._wire.lines():
            frame = json.loads(line) if line.endswith(b"\n") else {}
            if frame.get("op") in ("ack", "suspended"):
                stream.acked = max(stream.acked, frame["lines"])
        self._wire.close()
        if code not in (STOPPED, FAILED) and code >= 0:
            raise Broken(f"exit code {code}")
        return [] if code <= 0 else [f"exit code {code}"]
