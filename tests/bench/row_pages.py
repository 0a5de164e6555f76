"""What it costs to show one event on many open pages of a session: the daemon's processor time, from its socket until
all pages have the card. Each event is a commit of its own.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, cpu_seconds_since, median
from tests.bench.processes.load import TEXT, message_line, open_stream
from tests.daemon.processes import DaemonProcess
from tests.daemon.web.browsing import Browser
from tooltap.daemon.web.http.token import read_token

__all__ = ["TITLE", "measure"]

TITLE = "pages: one event on the open pages of its session"
PAGES = (1, 50)
EVENTS, WARM_UP = 100, 5


def measure(options: Options) -> list[Figure]:
    events = max(2, round(EVENTS * options.scale))
    runs = alternate({pages: partial(_run, pages, events) for pages in PAGES}, options.runs)
    return [
        median(f"pages {pages}", (1_000 * one / events for one in samples), "ms/event", better="less")
        for pages, samples in runs.items()
    ]


def _run(pages: int, events: int) -> float:
    """The daemon's processor time in seconds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "tooltap.toml").write_text('[web]\nlisten = "127.0.0.1:0"\n')
        environment = {"XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state")}
        arguments = ("--config", folder / "tooltap.toml", "--web")
        daemon = stack.enter_context(DaemonProcess(folder, *arguments, **environment)).wait_ready()
        with daemon.connect() as wire:
            web = wire.ask("stats")["web"]
        browser = Browser(web["url"], read_token(Path(web["tokenFile"])))
        publisher = stack.enter_context(open_stream(daemon, "s"))
        publisher.write(message_line(0, TEXT))
        publisher.until("ack")
        streams = [browser.stream("/live?session=5e55") for _ in range(pages)]
        for stream in streams:
            stack.callback(stream.close)
        for stream in streams:
            stream.until("live")
        before = 0.0
        for number in range(1, events + WARM_UP + 1):
            if number == WARM_UP + 1:
                before = cpu_seconds(daemon.process.pid)
            publisher.write(message_line(number, TEXT))
            for stream in streams:
                stream.until("card")
        return cpu_seconds_since(before, daemon.process.pid)
