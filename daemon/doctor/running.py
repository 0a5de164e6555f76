"""The daemon that runs, and its socket.

It may be of another version: what it does not tell is not missed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tooltap import __version__
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.connection import ConnectError, DaemonError, DisconnectedError, NoDaemonError
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
        return problem(AREA, str(error), "See what the daemon logs, or stop its process and start it anew."), None
    except DisconnectedError:
        advice = "See what it logs; if it stays so, stop its process and start it anew."
        return problem(AREA, f"the daemon at {place} does not answer", advice), None
    version = statistics.get("version")
    if version != __version__:
        text = f"the daemon is tooltap {version}, this is {__version__}"
        return note(AREA, text, "Start it anew: `tooltap serve stop`, then as you started it."), statistics
    return fine(AREA, f"tooltap {version}, pid {statistics['pid']}, listening at {place}"), statistics


def socket(place: Path) -> Iterator[Finding]:
    """Whether nobody else gets in."""
    yield from _folder(place.parent)
    try:
        status = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        yield problem("socket", f"{place} is there, but is no socket", "Move it away, or set TOOLTAP_SOCKET.")
    elif status.st_uid != os.geteuid():
        yield problem("socket", f"{place} belongs to another user", "Set TOOLTAP_SOCKET to a place of your own.")
    elif status.st_mode & 0o077:
        text = f"{place} has mode {stat.S_IMODE(status.st_mode):04o}, which is not for you alone"
        yield problem("socket", text, f"Run chmod 600 {place}.")
    else:
        yield fine("socket", f"{place} is for you alone")


def _folder(folder: Path) -> Iterator[Finding]:
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield fine("socket", f"{folder} is not there yet; the daemon makes it for you alone")
        return
    if status.st_uid != os.geteuid():
        yield problem("socket", f"{folder} belongs to another user", "Set TOOLTAP_SOCKET to a place of your own.")
    elif status.st_mode & 0o022:
        text = f"others may write to {folder}, where the socket is (mode {stat.S_IMODE(status.st_mode):04o})"
        yield problem("socket", text, f"Run chmod go-w {folder}, or set TOOLTAP_SOCKET to another place.")
    else:
        yield fine("socket", f"nobody else may write to {folder}, where the socket is")


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
        text = f"since its start the daemon has found {alarms} things that agents print and tooltap misreads"
        return note("drift", text, "Run `tooltap drift` to see them.")
    return fine("drift", "the daemon has found nothing that is read wrongly since its start")
