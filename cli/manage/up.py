"""`tooltap up`: starts the daemon with everything on, or joins the running one, and shows its progress."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import ask_web, daemon_errors, socket_option
from tooltap.cli.common.printing import Clean, at_terminal, on_stderr, say, short, terminal, warn
from tooltap.daemon.formats import counted

if TYPE_CHECKING:
    from tooltap.daemon.config import Config


PORTS = range(8422, 8432)
"""Ports of the page that are tried, before any free one: a browser stays logged in at the same port."""
PATIENCE = 10.0
"""Seconds to wait for the first reply of a running daemon."""


@click.command("up", cls=Command, examples=("tooltap up", "tooltap up --no-open"))
@click.option(
    "--open/--no-open",
    "opens",
    default=True,
    help="Open the page in a browser, unless there is no screen or you are logged in over SSH.",
)
@click.option("--verbose", is_flag=True, help="Print the daemon's log here, instead of writing it to a file.")
@socket_option
def command(opens: bool, verbose: bool, socket: Path | None) -> None:
    """Start here: run the daemon, follow every agent, show the page.

    It reads the sessions that agents have stored, the newest first, and follows them and new ones. Unless your settings
    say otherwise, it serves the page at 127.0.0.1:8422, or at another port if that one is taken. Ctrl-C ends it. If a
    daemon is already running, this command shows its page and its progress, and Ctrl-C leaves it running. The daemon's
    log is the file `up.log` in the data directory.
    """
    running = _running(socket)
    try:
        if running is None:
            _start(opens, verbose, socket)
        else:
            _join(opens, socket, running)
    except KeyboardInterrupt:
        pass


def _running(socket: Path | None) -> dict[str, Any] | None:
    """Return the statistics of the running daemon; None if none runs."""
    from tooltap.daemon.client.blocking import ask
    from tooltap.daemon.client.discovery import NoDaemonError

    with daemon_errors():
        try:
            statistics: dict[str, Any] = ask("stats", path=socket, timeout=PATIENCE, part="summary")
        except NoDaemonError:
            return None
    return statistics


def _join(opens: bool, socket: Path | None, running: dict[str, Any]) -> None:

    if "web" not in running:
        raise click.ClickException(
            f"the running daemon (pid {running['pid']}) serves no page: end it with `tooltap serve stop`, then run"
            " `tooltap up` again"
        )
    say(f"a daemon is already running (pid {running['pid']}); Ctrl-C leaves it running")
    if "following" not in running:
        warn("it follows no agent: to have all followed, end it with `tooltap serve stop`, then run `tooltap up` again")
    url = running["web"]["url"]
    _show_page(url, lambda: str(ask_web(socket, "POST", "/api/logins")["link"]), opens)
    if not show_progress(socket or Path(running["socket"]), threading.Event()):
        say("the daemon has ended")


def _start(opens: bool, verbose: bool, socket: Path | None) -> None:
    from tooltap.daemon.config import ConfigError
    from tooltap.daemon.journal.interface import JournalError
    from tooltap.daemon.process import run
    from tooltap.daemon.system.listener import ListenError

    ended = threading.Event()
    log = None if verbose else _open_log()
    try:
        settings = _settings(socket)
        showing = threading.Thread(target=partial(show_progress, settings.socket_path, ended), name="progress")

        def show_link(new_link: Callable[[], str]) -> None:
            _show_page(new_link().partition("/#")[0], new_link, opens)

        def ready() -> None:
            say("Ctrl-C ends it")
            showing.start()

        try:
            try:
                run(settings, ready, show_link=show_link, log=log)
            except ListenError:
                other = _settings(socket)
                if other.web.listen == settings.web.listen:
                    raise
                run(other, ready, show_link=show_link, log=log)  # the port was taken since it was found free
        finally:
            ended.set()
            if showing.is_alive():
                showing.join()
    except ConfigError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    except (ListenError, JournalError) as error:
        raise click.ClickException(str(error)) from None


LOG_BYTES = 4_194_304
"""Size from which the log is emptied at the next start."""


def _open_log() -> int:
    """Open the file of the daemon's log to append. What cannot be logged is dropped: the journal says what is wrong
    with the folder."""
    from tooltap.daemon.system.paths import log_path
    from tooltap.traces.recording.own_file import open_own, private_folder

    path = log_path()
    try:
        private_folder(path.parent)
        log = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if os.fstat(log).st_size > LOG_BYTES:
            os.ftruncate(log, 0)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
    return log


def _settings(socket: Path | None) -> Config:
    """Load the user's settings. What they do not set is turned on. Raises `ConfigError`."""
    from tooltap.daemon.config import load_config
    from tooltap.daemon.system.paths import config_path

    file = usual if (usual := config_path()).exists() else None
    return load_config(
        file,
        unless_set={
            "follow": {"agents": ["all"], "backfill": "all"},
            "web": {"listen": _free_address()},
            "log_level": "warning",
        },
        socket=None if socket is None else str(socket),
        web={"enabled": True},
    )


def _free_address() -> str:
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.system.tcp import Address, listen

    for port in PORTS:
        try:
            listen(Address("127.0.0.1", port), allow_remote=False).close()
        except ListenError:
            continue
        return f"127.0.0.1:{port}"
    return "127.0.0.1:0"


def _show_page(url: str, new_link: Callable[[], str], opens: bool) -> None:
    """Print the page's address, with a login only where a terminal shows it, and open it in a browser."""
    from tooltap.cli.common.terminal import open_in_browser

    if not at_terminal():
        say(f"page: {url} (`tooltap serve link` prints a link that logs a browser in)")
        return
    say(f"page: {new_link()}")
    if opens and open_in_browser(new_link()):
        say("it opens in your browser; the link above logs in another browser, once")
    else:
        say("open this link in a browser: it logs that browser in, once, within ten minutes")


PERIOD = 1.0
"""Minimum seconds between two requests to the daemon."""
SHARE = 4
"""Minimum pause between two requests, as a multiple of the time that one takes."""
CALM = 60.0
"""Seconds between two requests while nothing happens: problems of the daemon are no events."""
PRINTED = 5.0
"""Minimum seconds between printed lines where there is no terminal."""
KINDS = ("session", "turn", "permission-request", "permission-response")
"""Kinds of events that may change what is shown."""
USUAL_COLUMNS = 80
"""The width of a terminal that does not state it."""
ANSWER = 30.0
"""Seconds to wait for a reply of a busy daemon."""


class Progress(NamedTuple):
    sessions: int
    running: int
    waiting: int
    events: float
    """Events per second."""
    backfill: dict[str, Any] | None
    """`following.backfill` of the `stats` reply: progress of reading stored sessions; None if absent."""
    problem: str | None

    @property
    def is_complete(self) -> bool:
        """Whether all stored sessions have been read."""
        return self.backfill is None or bool(self.backfill["complete"])


def show_progress(socket: Path, ended: threading.Event) -> bool:
    """Show the daemon's progress in one line, redrawn on a terminal, and printed when it changes elsewhere. Return True
    when `ended` is set, and False when the daemon has ended.

    The daemon is asked again while it reads stored sessions, or an event has come since the last time."""
    from tooltap.daemon.client.blocking import ask
    from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError

    line = _Line()
    news = _News(socket)
    before: tuple[float, int] | None = None
    try:
        while not ended.is_set():
            news.listen()
            begun = time.monotonic()
            try:
                statistics = ask("stats", path=socket, timeout=ANSWER, part="summary")
                # No session is before the first: the daemon counts them and estimates the cost of none.
                sessions = ask("sessions", path=socket, timeout=ANSWER, limit=1, before=0, facets=True)
            except (ConnectError, DaemonError, DisconnectedError):
                return ended.wait(PERIOD)
            latest = statistics.get("journal", {}).get("latest", 0)
            rate = 0.0 if before is None else (latest - before[1]) / max(begun - before[0], 0.001)
            progress = _progress(statistics, sessions, rate)
            line.show(progress)
            if progress.is_complete and (drifted := _drifted(statistics)):
                line.say_once(drifted)
            ended.wait(max(PERIOD, SHARE * (time.monotonic() - begun)))
            if progress.is_complete and before is not None and latest == before[1]:
                news.wait(CALM)
            before = begun, latest
        return True
    finally:
        line.end()


class _News:
    """Says when an event has come, by a subscription."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._has_come = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self) -> None:
        """Forget what has come so far, and subscribe, unless there is a subscription."""
        self._has_come.clear()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._read, name="news", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until an event comes, or the daemon ends."""
        self._has_come.wait(seconds)

    def _read(self) -> None:
        from tooltap.daemon.client.blocking import BlockingClient
        from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
        from tooltap.protocol.filters import Filter
        from tooltap.protocol.frames import At, Subscribe, decode_daemon_frame, encode_frame

        try:
            with closing(BlockingClient(self._socket)) as client:
                client.write(encode_frame(Subscribe(after="now", filter=Filter(kind=KINDS))))
                while line := client.receive_line():
                    if not (line.startswith(b'{"op":') and isinstance(decode_daemon_frame(line), At)):
                        self._has_come.set()
        except (ConnectError, DaemonError, DisconnectedError):
            pass
        finally:
            self._has_come.set()


def _progress(statistics: dict[str, Any], sessions: dict[str, Any], rate: float) -> Progress:
    states: dict[str, int] = sessions.get("facets", {}).get("status", {})
    return Progress(
        sum(states.values()),
        states.get("running", 0),
        states.get("waiting", 0),
        rate,
        statistics.get("following", {}).get("backfill"),
        statistics.get("journal", {}).get("problem"),
    )


def _drifted(statistics: dict[str, Any]) -> str:
    """Name the agents whose output this version does not know, in a sentence; empty if there are none."""
    findings = statistics.get("drift", {}).get("findings", [])
    agents = sorted({one["provider"] for one in findings if one["severity"] == "alarm"})
    return f"some output of {', '.join(agents)} is new to this version: `tooltap drift` shows it" if agents else ""


def describe(progress: Progress, *, live: bool) -> str:
    """Return the progress as one line. `live`: with the rate of events, which changes all the time."""
    parts = [counted(progress.sessions, "session")]
    parts += [f"{progress.running} running"] if progress.running else []
    parts += [f"{progress.waiting} waiting for you"] if progress.waiting else []
    parts += [f"{progress.events:,.0f} events/s"] if live and progress.events else []
    if (backfill := progress.backfill) is not None:
        if backfill["files"]:
            is_partial = not backfill["complete"] and backfill["bytes"]
            share = f" ({100 * backfill['bytesDone'] // backfill['bytes']} %)" if is_partial else ""
            parts.append(f"{backfill['filesDone']} of {counted(backfill['files'], 'stored file')} read{share}")
        elif not backfill["complete"]:
            parts.append("looking for stored sessions")
        elif progress.sessions:
            parts.append("all stored sessions read")
    parts += [short(progress.problem)] if progress.problem else []
    return " · ".join(parts)


class _Line:
    def __init__(self) -> None:
        self._is_drawn = at_terminal(err=True)
        self._text = ""
        self._printed = -PRINTED
        self._said = ""

    def show(self, progress: Progress) -> None:
        text = describe(progress, live=self._is_drawn)
        if self._is_drawn:
            self._draw(text)
            return
        is_news = text != self._text and time.monotonic() - self._printed >= PRINTED
        if is_news or ((progress.backfill or {}).get("complete") and text != self._text):
            on_stderr(text)
            self._text, self._printed = text, time.monotonic()

    def say_once(self, sentence: str) -> None:
        """Print a sentence above the line, unless it was the last one."""
        if sentence != self._said:
            self._said = sentence
            if self._is_drawn:
                stream = terminal(err=True)
                stream.write("\r\x1b[K")
                stream.flush()
            on_stderr(sentence)
            if self._is_drawn:
                self._draw(self._text)

    def end(self) -> None:
        if self._is_drawn and self._text:
            on_stderr(Clean(""))

    def _draw(self, text: str) -> None:
        """Draw the text over the previous one. The cursor returns to the start of the line, so that a line of the log
        overwrites it (`--verbose`)."""
        stream = terminal(err=True)
        room = (os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS) - 1
        self._text = text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"
        stream.write(f"\r\x1b[K{self._text}\r")
        stream.flush()
