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
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError, NoDaemonError
from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.formats import counted
from tooltap.daemon.system.paths import daemon_folders
from tooltap.daemon.system.running_daemons import recorded
from tooltap.traces.recording.own_file import why_unsteady

AREA = "daemon"
NAMED = 5
"""Daemons that one finding names."""


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
    if (trouble := why_unsteady(status)) is not None:
        advice = f"Run chmod go-w {folder}, or set TOOLTAP_SOCKET to a place of your own."
        yield problem("socket", f"the socket cannot be in {folder}: {trouble}", advice)
    else:
        yield fine("socket", f"nobody else may replace the socket in {folder}")


def record(statistics: dict[str, Any]) -> Finding:
    """Whether programs that do not know the daemon's socket can find it."""
    found = recorded()
    others = [one for one in found if one.pid != statistics["pid"]]
    if len(others) == len(found):
        text = f"the daemon has no record in {daemon_folders()[0]}, so programs with a filtered environment miss it"
        return note("record", text, "Read the daemon's log, or give these programs TOOLTAP_SOCKET.")
    if others:
        text = f"you run other daemons: {', '.join(f'{one.socket} (pid {one.pid})' for one in others[:NAMED])}"
        return note("record", text, "Set TOOLTAP_SOCKET where it matters which of them a program talks to.")
    return fine("record", "programs find the daemon without TOOLTAP_SOCKET")


def journal_place(statistics: dict[str, Any]) -> str | None:
    place: str | None = statistics.get("journal", {}).get("path")
    return place


def served_journal(place: str, statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """Whether a journal on a server can be read and written. Its daemon knows."""
    known = (statistics or {}).get("journal", {})
    if statistics is None:
        yield fine("journal", f"the journal is {place}; its daemon checks it")
    elif "problem" not in known:
        yield fine("journal", f"the journal {place} answers")
    if resets := known.get("resets"):
        times = "once" if resets == 1 else f"{resets} times"
        text = f"the journal {place} was replaced {times} since the daemon started"
        yield note("journal", text, "The daemon's log says when; find out who wiped, restored or purged its store.")
    if damages := known.get("damages"):
        text = f"{counted(damages, 'message is', 'messages are')} lost or damaged in the journal {place}"
        yield problem("journal", text, "Subscribers get a gap in their place; look at the server's disks and its log.")


def web(statistics: dict[str, Any]) -> Finding:
    page = statistics.get("web")
    if page is None:
        return fine("web", "the daemon serves no web page")
    return fine("web", f"the web page is at {page['url']}")


def damage(statistics: dict[str, Any]) -> Iterator[Finding]:
    """What the daemon has found damaged in its file."""
    journal = statistics.get("journal", {})
    lost, parts = journal.get("lost", 0), journal.get("damages", 0)
    corrupt = journal.get("corrupt", 0) - lost
    if lost:
        text = f"events that the journal records as lost: {lost}"
        yield note("journal", text, "They were damaged. Subscribers get a gap in their place.")
    if parts or corrupt:
        found = f"{counted(corrupt, 'event')} and {counted(parts, 'other part')}"
        text = f"the daemon has found damage in its journal: {found}"
        advice = "Run `tooltap journal check`; with the daemon stopped, `tooltap journal repair` keeps what is intact."
        yield problem("journal", text, advice)


def troubles(statistics: dict[str, Any]) -> Iterator[Finding]:
    """What the daemon cannot do at the moment."""
    if reason := statistics.get("journal", {}).get("problem"):
        advice = "Nothing is lost: publishers retain their lines. Free some space, or read the daemon's log."
        yield problem(AREA, f"the daemon cannot commit lines: {reason}", advice)
    if reason := statistics.get("connections", {}).get("problem"):
        advice = "Raise the limit of open files (ulimit -n), or close clients; those that wait are served then."
        yield problem(AREA, f"the daemon cannot accept connections: {reason}", advice)


def drift(statistics: dict[str, Any]) -> Finding:
    findings = statistics.get("drift", {}).get("findings", [])
    alarms = sum(finding["severity"] == "alarm" for finding in findings)
    if alarms:
        text = f"the daemon has found {alarms} changes in agents' output that tooltap misreads"
        return note("drift", text, "Run `tooltap drift` to see them.")
    return fine("drift", "the daemon has found nothing that tooltap misreads")


def search_index(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Whether everything can be searched."""
    index = statistics.get("search")
    if index is None:
        return
    if reason := index.get("problem"):
        advice = "Everything else works. Free some space, or read the daemon's log; the daemon tries again by itself."
        yield note("search", reason, advice)
    elif floor := index["floor"]:
        text = f"events up to {floor} are not searched: the index would be larger than `index_bytes`"
        yield note("search", text, "Raise `index_bytes` in the configuration file to search more of them.")
    else:
        yield fine("search", f"the search index has {counted(index['documents'], 'text')}")


def stalls(statistics: dict[str, Any]) -> Finding:
    """Whether anything has held the daemon's event loop."""
    loop = statistics.get("loop", {})
    longest = loop.get("longest")
    if longest is None:
        return fine("replies", "nothing has held up the daemon's replies")
    times = "once" if loop["stalls"] == 1 else f"{loop['stalls']} times"
    text = f"the daemon did not reply for more than {loop['limitMs']} ms {times}, at worst {longest['ms']} ms"
    busy = longest["cpuMs"] < longest["ms"] / 2
    advice = "The machine was busy." if busy else "Report this, with the lines, if you can; the log has the place."
    return note("replies", f"{text}: {longest['what']}", advice)


def log(statistics: dict[str, Any]) -> Finding:
    left_out = statistics.get("log", {}).get("leftOut", 0)
    if left_out:
        text = (
            f"the daemon has left out {counted(left_out, 'line')} of its log, because nobody reads its standard error"
        )
        return note("log", text, "Direct its standard error to a file, or read the pipe.")
    return fine("log", "the daemon's log is complete")
