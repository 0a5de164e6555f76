"""A daemon process that serves browsers, and what publishes to it: plain sockets and `tooltap ingest`, no event loop,
for the browser has one in this thread."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.cli.command import COMMAND, TIMEOUT, environment
from tests.daemon.constants import write_settings
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Wire
from tests.daemon.web.browsing import Browser as WebClient
from tooltap.daemon.web.http.token import read_token

__all__ = ["Publisher", "Site", "arrived"]


def arrived(page: Page) -> None:
    """Wait until the page is past the login page, which opens the address once more, with a signature."""
    page.wait_for_function("() => document.readyState === 'complete' && !document.querySelector('#login')")


class Site:
    """A daemon that serves browsers. `directory`: of its files; `settings`: lines of its configuration; `port`: 0 for
    any. After `kill`, `start` restarts it with the same files, at the same port."""

    def __init__(self, directory: Path, *settings: str, port: int = 0) -> None:
        self.directory = directory
        self._config = directory / "tooltap.toml"
        self._constants = write_settings(self._config, "\n".join(settings))
        self._wires: list[Wire] = []
        self._listen = f"127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        self.daemon = DaemonProcess(
            self.directory,
            *("--web", self._listen, "--config", self._config, "--log-level", "info"),
            XDG_DATA_HOME=str(self.directory),
            **self._constants,
        ).wait_ready()
        assert self.daemon.log, self.daemon.sentence
        self.url: str = self.daemon.log[-1]["web"]
        self._entries: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()
        self._listen = self.url.removeprefix("http://")

    @property
    def token(self) -> str:
        return read_token(next(self.directory.rglob("web-token")))

    def link(self, path: str = "", **query: str) -> str:
        """Return a link that logs a browser in, to any page; with a query alone, to the timeline."""
        path = path or ("/events" if query else "/")
        programs = WebClient(self.url, self.token)
        code = programs.get("/api/logins", method="POST").json["link"].partition("#")[2]
        return f"{self.url}{path}{'?' if query else ''}{urlencode(query)}#{code}"

    def enter(self, page: Page, path: str = "", **query: str) -> None:
        """Open a page of the site. The browser logs in by a link if it has not before."""
        known = any(one["name"] == f"tooltap-{self.url.rpartition(':')[2]}" for one in page.context.cookies(self.url))
        link = self.link(path, **query)
        self.open(page, link.partition("#")[0] if known else link)

    def open(self, page: Page, address: str) -> None:
        """Open an address of the site, and wait until the browser is past the login page."""
        page.goto(address)
        arrived(page)

    def sessions(self) -> list[dict[str, Any]]:
        """Return the newest sessions as `/api/sessions` has them."""
        found: list[dict[str, Any]] = WebClient(self.url, self.token).get("/api/sessions").json["sessions"]
        return found

    def ingest(self, *files: Path, **options: str) -> None:
        """Ingest whole recordings. `options`: those of the command."""
        given = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._tooltap("ingest", "--socket", self.daemon.path, *given, *files)

    def publish(self, stream: str, dialect: str, **options: Any) -> Publisher:
        wire = self.daemon.connect()
        self._wires.append(wire)
        return Publisher(wire, stream=stream, dialect=dialect, **options)

    def wait_for(self, event: str) -> None:
        """Wait until the daemon logs this."""
        while self._entries.get(timeout=TIMEOUT).get("event") != event:
            pass

    def _read_log(self) -> None:
        """Read the log continuously, since a daemon that cannot write its log blocks."""
        entries, log = self._entries, self.daemon.process.stderr
        assert log is not None
        with log:
            for line in log:
                entries.put(json.loads(line))

    def kill(self) -> None:
        """Kill the daemon, as the kernel does when memory is short."""
        self.daemon.process.kill()
        self.daemon.process.wait()
        self._reader.join()

    def _tooltap(self, *arguments: object) -> str:
        command = [*COMMAND, *map(str, arguments)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=environment(XDG_DATA_HOME=str(self.directory)),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for wire in self._wires:
            wire.close()
        self.kill()


class Publisher:
    """An agent that keeps printing lines."""

    def __init__(self, wire: Wire, framing: str = "raw", **arguments: Any) -> None:
        self._wire = wire
        wire.send("ingest", framing=framing, **arguments)
        self._written = self._stored = wire.until("ingesting")[-1]["lines"]

    def write(self, *lines: bytes | dict[str, Any]) -> None:
        for line in lines:
            self._wire.write(line if isinstance(line, bytes) else json.dumps(line).encode())
            self._wire.write(b"\n")
        self._written += len(lines)

    def wait_stored(self) -> None:
        """Wait until all lines so far are in the journal: a page that is opened then has them from the beginning."""
        while self._stored < self._written:
            self._stored = self._wire.until("ack")[-1]["lines"]

    def finish(self) -> dict[str, Any]:
        """End the stream when all of it is in the journal; return the accounting."""
        self._wire.finish()
        return self._wire.until("done")[-1]
