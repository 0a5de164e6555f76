"""The running daemon, and its socket.

The daemon may have another version: statistics that it does not have are skipped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tooltap import __version__
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.greeting import ConnectError, DaemonError, DisconnectedError, NoDaemonError
from tooltap.daemon.doctor.finding import Finding, fine, note, problem

__all__ = ["ask_daemon", "drift", "journal_place", "socket", "web"]

AREA = "daemon"


def ask_daemon(place: Path, timeout: float) -> tuple[Finding, dict[str, Any] | None]:
    """Whether a daemon answers, and its statistics."""
    try:
        statistics: dict[str, Any] = ask("stats", path=place, timeout=timeout)
    except NoDaemonError:
        advice = "Start one with `tooltap serve`, or have it started for you with `tooltap service install`."
        return note(AREA, f"no daemon is listening at {place}", advice), None
    except (ConnectError, DaemonError) as error:
        return problem(AREA, str(error), "Read the daemon's log, or stop its process and start it again."), None
    except DisconnectedError:
        advice = "Read its log; if this persists, stop its process and start it again."
        return problem(AREA, f"the daemon at {place} does not answer", advice), None
    version = statistics.get("version")
    if version != __version__:
        text = f"the daemon is tooltap {version}, this is {__version__}"
        return note(AREA, text, "Restart it: `tooltap serve stop`, then as you started it."), statistics
    return fine(AREA, f"tooltap {version}, pid {statistics['pid']}, listening at {place}"), statistics


def socket(place: Path) -> Iterator[Finding]:
    """Whether the socket and its folder are private."""
    yield from _folder(place.parent)
    try:
        status = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        yield problem("socket", f"{place} exists, but is not a socket", "Move it away, or set TOOLTAP_SOCKET.")
    elif status.st_uid != os.geteuid():
        yield problem("socket", f"{place} belongs to another user", "Set TOOLTAP_SOCKET to a place of your own.")
    elif status.st_mode & 0o077:
        text = f"{place} has mode {stat.S_IMODE(status.st_mode):04o}, which is not private"
        yield problem("socket", text, f"Run chmod 600 {place}.")
    else:
        yield fine("socket", f"{place} is private")


def _folder(folder: Path) -> Iterator[Finding]:
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield fine("socket", f"{folder} does not exist yet; the daemon creates it, private")
        return
    if status.st_uid != os.geteuid():
        yield problem("socket", f"{folder} belongs to another user", "Set TOOLTAP_SOCKET to a place of your own.")
    elif status.st_mode & 0o022:
        text = f"other users may write to {folder}, where the socket is (mode {stat.S_IMODE(status.st_mode):04o})"
        yield problem("socket", text, f"Run chmod go-w {folder}, or set TOOLTAP_SOCKET to another place.")
    else:
        yield fine("socket", f"only you may write to {folder}, where the socket is")


def journal_place(statistics: dict[str, Any]) -> str | None:
    place: str | None = statistics.get("journal", {}).get("path")
    return place


def web(statistics: dict[str, Any]) -> Finding:
    page = statistics.get("web")
    if page is None:
        return fine("web", "the daemon serves no web page")
    return fine("web", f"the web page is at {page['url']}")


def drift(statistics: dict[str, Any]) -> Finding:
    findings = statistics.get("drift", {}).get("findings", [])
    alarms = sum(finding["severity"] == "alarm" for finding in findings)
    if alarms:
        text = f"since its start the daemon has found {alarms} things in agents' output that tooltap misreads"
        return note("drift", text, "Run `tooltap drift` to see them.")
    return fine("drift", "since its start the daemon has found nothing that tooltap misreads")
