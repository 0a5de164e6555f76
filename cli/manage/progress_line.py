"""The daemon's progress in one line: redrawn on a terminal, and printed when it changes elsewhere."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from tooltap.cli.common.printing import Clean, at_terminal, on_stderr, short, terminal
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.formats import counted

PERIOD = 1.0
"""Seconds between looks at the daemon, …"""
SHARE = 4
"""… or so many times what a look takes, if that is more."""
PRINTED = 5.0
"""Seconds between lines where no terminal shows them."""
PAGE = 1_000
"""Sessions that are looked at."""
USUAL_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""
ANSWER = 30.0
"""Seconds that a busy daemon may take for an answer."""


class Progress(NamedTuple):
    sessions: int
    more: bool
    """Whether there are more sessions than these."""
    running: int
    waiting: int
    events: float
    """Events a second."""
    backfill: dict[str, Any] | None
    """As in `stats`."""
    problem: str | None


def show_progress(socket: Path, ended: Event) -> bool:
    """Show it until `ended` is set: then return True, and False if the daemon has ended."""
    line = _Line()
    before: tuple[float, int] | None = None
    try:
        while not ended.is_set():
            begun = time.monotonic()
            try:
                statistics = ask("stats", path=socket, timeout=ANSWER)
                sessions = ask("sessions", path=socket, timeout=ANSWER, limit=PAGE)
            except (ConnectError, DaemonError, DisconnectedError):
                return ended.wait(PERIOD)
            latest = statistics.get("journal", {}).get("latest", 0)
            rate = 0.0 if before is None else (latest - before[1]) / max(begun - before[0], 0.001)
            before = begun, latest
            line.show(_progress(statistics, sessions, rate))
            ended.wait(max(PERIOD, SHARE * (time.monotonic() - begun)))
        return True
    finally:
        line.end()


def _progress(statistics: dict[str, Any], sessions: dict[str, Any], rate: float) -> Progress:
    states = [one.get("status") for one in sessions["sessions"]]
    return Progress(
        len(states),
        sessions.get("next") is not None,
        states.count("running"),
        states.count("waiting"),
        rate,
        statistics.get("following", {}).get("backfill"),
        statistics.get("journal", {}).get("problem"),
    )


def describe(progress: Progress, *, live: bool) -> str:
    """`live`: with what changes all the time."""
    count = counted(progress.sessions, "session")
    parts = [f"more than {count}" if progress.more else count]
    parts += [f"{progress.running} running"] if progress.running else []
    parts += [f"{progress.waiting} waiting for you"] if progress.waiting else []
    parts += [f"{progress.events:,.0f} events/s"] if live else []
    if (backfill := progress.backfill) is not None:
        if not backfill["complete"]:
            share = f" ({100 * backfill['bytesDone'] // backfill['bytes']} %)" if backfill["bytes"] else ""
            parts.append(f"{backfill['filesDone']} of {counted(backfill['files'], 'stored file')} read{share}")
        elif backfill["files"]:
            parts.append("all stored sessions read")
    parts += [short(progress.problem)] if progress.problem else []
    return " · ".join(parts)


class _Line:
    def __init__(self) -> None:
        self._is_drawn = at_terminal(err=True)
        self._text = ""
        self._printed = -PRINTED

    def show(self, progress: Progress) -> None:
        text = describe(progress, live=self._is_drawn)
        if self._is_drawn:
            self._draw(text)
            return
        is_news = text != self._text and time.monotonic() - self._printed >= PRINTED
        if is_news or ((progress.backfill or {}).get("complete") and text != self._text):
            on_stderr(text)
            self._text, self._printed = text, time.monotonic()

    def end(self) -> None:
        if self._is_drawn and self._text:
            on_stderr(Clean(""))

    def _draw(self, text: str) -> None:
        """Draw it over the line before. The cursor goes back, so that a line of the log takes its place."""
        stream = terminal(err=True)
        room = (os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS) - 1
        self._text = text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"
        stream.write(f"\r\x1b[K{self._text}\r")
        stream.flush()
