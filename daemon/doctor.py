"""The checks of `tooltap doctor`: installation, configuration, running daemon, journal, spools, agents.

`examine` runs all checks; a failing check does not prevent the others. It changes nothing, and starts no programs
except agents with `--version`, with a timeout, and queries to systemd.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import resource
import shutil
import stat
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from tooltap import __version__
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError, NoDaemonError
from tooltap.daemon.config import Config, ConfigError, load_config
from tooltap.daemon.formats import counted
from tooltap.daemon.journal.interface import CorruptError, JournalError
from tooltap.daemon.journal.sqlite.file import (
    format_of,
    high_water_path,
    journal_files,
    last_scrub,
    removed_by_retention,
)
from tooltap.daemon.system.clock import iso_time, wall_clock
from tooltap.daemon.system.listener import is_listening, listening_pid
from tooltap.daemon.system.optional_packages import how_to_install
from tooltap.daemon.system.paths import config_path, daemon_folders, spool_path
from tooltap.daemon.system.processes import run_briefly
from tooltap.daemon.system.running_daemons import recorded
from tooltap.daemon.system.services import NAME, ask_systemctl, unit_path
from tooltap.daemon.system.shell import can_be_pasted, shell_line
from tooltap.daemon.taps.delivery.spool import SpoolError, is_unread, quarantine_folder, read_header, spools
from tooltap.daemon.taps.follow.settings import ALL, Follow
from tooltap.daemon.taps.follow.stores import Database, Found, Root, read_head, root_lists, roots, scan
from tooltap.normalizers.catalog.registry import (
    BrokenDialectError,
    dialects,
    package_of,
    parser_class,
    session_dialects,
    stores,
)
from tooltap.traces.drift.baselines import PACKAGED, age, load
from tooltap.traces.recording.own_file import LINKED, has_other_name, why_not_writable, why_unsteady
from tooltap.traces.recording.writer import trace_path


def examine(
    *, config_file: Path | None, socket_place: Path | None, commands: Mapping[str, str], timeout: float
) -> Iterator[Finding]:
    """Yield each finding as soon as it is known. `commands`: an agent's program name -> its provider. `timeout`:
    seconds for each program or daemon that is asked."""
    yield from installation()
    config, finding = _configuration(config_file)
    yield finding
    place = socket_place or config.socket_path
    finding, statistics = ask_daemon(place, timeout)
    yield finding
    yield from troubles(statistics or {})
    yield from _guarded("socket", partial(socket, place))
    where = (statistics and journal_place(statistics)) or str(config.journal_place)
    if "://" in where:
        yield from served_journal(where, statistics)
    else:
        # SQLite would make a new log in place of one that was removed.
        is_opened = not (statistics or {}).get("journal", {}).get("problem")
        yield from _guarded("journal", partial(journal, Path(where), is_opened=is_opened))
        if statistics is None:
            yield from _guarded("journal", partial(scrubbed, Path(where)))
            yield from retention(msgspec.to_builtins(removed_by_retention(Path(where))), config.retention_bytes)
        else:
            yield from damage(statistics)
    if statistics is not None:
        yield from retention(
            statistics.get("journal", {}).get("retention", {}), statistics.get("limits", {}).get("retention_bytes", 0)
        )
    yield from _guarded("spool", partial(spools_of, spool_path(), statistics))
    yield from _guarded("traces", partial(traces, statistics))
    if statistics is not None:
        yield record(statistics)
        yield web(statistics)
        yield from collector(statistics)
        yield drift(statistics)
        yield stalls(statistics)
        yield from search_index(statistics)
        yield from remotes(statistics)
        yield log(statistics)
    yield from _guarded("service", partial(service, timeout))
    yield from _guarded("agents", partial(agents, commands, timeout))
    yield from _guarded("sessions", partial(sessions, config.follow, statistics))


def _configuration(file: Path | None) -> tuple[Config, Finding]:
    """The configuration, or the default if it is broken."""
    if file is None and not os.path.lexists(file := config_path()):
        return Config(), fine("config", f"there is no configuration file {file}; the defaults apply")
    try:
        config = load_config(file)
        _ = config.journal_place
    except ConfigError as error:
        advice = "Correct it, and check it with `tooltap config check`. The findings below assume the defaults."
        return Config(), problem("config", str(error), advice)
    return config, fine("config", f"{file} is valid")


def _guarded(area: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Turn an `OSError` into a finding."""
    try:
        yield from look()
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        yield problem(area, f"cannot read {what}", "Make it readable, or choose another place.")


# -- what a check finds -----------------------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True):
    """A finding of a check."""

    level: Literal["ok", "note", "problem"]
    """`note`: everything works, but something is missing or new. `problem`: something is broken or not private."""
    area: str
    text: str
    """The finding in one sentence."""
    advice: str | None = None
    """What to do, in one sentence; every note and problem has one."""


LATE = 60_000
"""Milliseconds after which a collector that has not got everything is reported."""
RECENTLY = 7 * 86_400_000
"""Milliseconds for which it is reported what retention has removed."""


def fine(area: str, text: str, advice: str | None = None) -> Finding:
    return Finding("ok", area, text, advice)


def note(area: str, text: str, advice: str) -> Finding:
    return Finding("note", area, text, advice)


def problem(area: str, text: str, advice: str) -> Finding:
    return Finding("problem", area, text, advice)


# -- tooltap itself ---------------------------------------------------------------------------------------------------

TOOLTAP = "tooltap"


class Extra(NamedTuple):
    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "attach": Extra("`tooltap attach`", ("httpx", "websockets")),
    "gateway": Extra("`tooltap gateway`", ("brotli", "httpx")),
    "hyperscan": Extra("fast masking of secrets", ("hyperscan",)),
    "nats": Extra("a journal on NATS", ("nats", "nkeys")),
    "parquet": Extra("an export in Parquet", ("duckdb",)),
    "prices": Extra("an estimate of costs", ("genai_prices",)),
}


def installation() -> Iterator[Finding]:
    place = Path(__file__).parents[1]
    yield fine(TOOLTAP, f"tooltap {__version__} in {place}, Python {platform.python_version()} at {sys.executable}")
    for name, extra in EXTRAS.items():
        missing = [module for module in extra.modules if find_spec(module) is None]
        if missing:
            text = f"{extra.purpose} needs packages that are not installed: {', '.join(missing)}"
            yield note(TOOLTAP, text, f"Run {how_to_install(name)} to use it.")
        else:
            yield fine(TOOLTAP, f"the packages for {extra.purpose} are installed")
    for name in dialects():
        if (package := package_of(name)) is not None:
            yield _dialect(name, package)


def _dialect(name: str, package: str) -> Finding:
    try:
        parser_class(name)
    except BrokenDialectError as error:
        return problem(TOOLTAP, str(error), f"Correct or uninstall the package {package.partition(' ')[0]}.")
    return fine(TOOLTAP, f"the package {package} brings the dialect {name}")


def service(timeout: float) -> Iterator[Finding]:
    path = unit_path()
    if not path.exists():
        yield fine("service", "the daemon is not a service", "`tooltap service install` starts it with your session.")
        return
    answer = ask_systemctl("is-active", NAME, timeout=timeout)
    state = "" if answer is None else answer.text.strip()
    if state == "failed":
        yield problem("service", f"the service {NAME} has failed", f"See why: journalctl --user -u {NAME}.")
    elif state.isalpha():
        yield fine("service", f"the service {NAME} is installed in {path}, and {state}")
    else:  # an error message, not a state
        yield fine("service", f"{path} exists, but no systemd answers queries about it")


# -- the running daemon and its socket --------------------------------------------------------------------------------

DAEMON = "daemon"
TOO_FEW_FILES = "Raise the limit of open files (ulimit -n), or close clients; those that wait are served then."
SOCKET_TAKEN = "Move away what is there, or end that program: the daemon makes its socket again within seconds."
NAMED = 5
"""Most daemons or spools named in one finding."""


def ask_daemon(place: Path, timeout: float) -> tuple[Finding, dict[str, Any] | None]:
    """Check that a daemon answers, and return its statistics, or None. The daemon may have another version: checks must
    tolerate missing statistics."""
    try:
        statistics: dict[str, Any] = ask("stats", path=place, timeout=timeout)
    except NoDaemonError:
        if (taken := _socket_taken(place)) is not None:
            return taken, None
        advice = "Start one with `tooltap serve`, or have it started for you with `tooltap service install`."
        return note(DAEMON, f"no daemon is listening at {place}", advice), None
    except (ConnectError, DaemonError, DisconnectedError) as error:
        if (taken := _socket_taken(place)) is not None:
            return taken, None
        if isinstance(error, DisconnectedError):
            advice = f"Read its log; if this persists, stop {_process(place)} and start it again."
            return problem(DAEMON, f"the daemon at {place} does not answer", advice), None
        if _has_no_file_left(_pid(place)):
            return problem(DAEMON, f"{error}: the daemon has as many files open as it may", TOO_FEW_FILES), None
        advice = f"Read the daemon's log, or stop {_process(place)} and start it again."
        return problem(DAEMON, str(error), advice), None
    version = statistics.get("version")
    if version != __version__:
        text = f"the daemon is tooltap {version}, this is {__version__}"
        return note(DAEMON, text, "Restart it: `tooltap serve stop`, then as you started it."), statistics
    return fine(DAEMON, f"tooltap {version}, pid {statistics['pid']}, listening at {place}"), statistics


def _socket_taken(place: Path) -> Finding | None:
    """Report that a daemon runs, and something else is where its socket was."""
    if (pid := _pid(place)) is None:
        return None
    if not is_listening(str(place)):
        text = f"the daemon (pid {pid}) runs, but its socket {place} was removed or replaced"
        return problem(DAEMON, text, SOCKET_TAKEN)
    if (other := listening_pid(str(place))) not in (None, pid):
        text = f"another program (pid {other}) listens at {place}, in place of the daemon (pid {pid})"
        return problem(DAEMON, text, SOCKET_TAKEN)
    return None


def _pid(place: Path) -> int | None:
    return next((one.pid for one in recorded() if one.socket == os.path.realpath(place)), None)


def _process(place: Path) -> str:
    """The process of a daemon that does not answer."""
    pid = _pid(place)
    return "its process" if pid is None else f"its process ({pid})"


def _has_no_file_left(pid: int | None) -> bool:
    """Whether a process can open no more files, and so accept no connection. Known on Linux only."""
    if pid is None or sys.platform != "linux":
        return False
    try:
        most, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        return len(os.listdir(f"/proc/{pid}/fd")) >= most
    except OSError:  # it has ended
        return False


def socket(place: Path) -> Iterator[Finding]:
    """Check that the socket is private, and cannot be replaced in its folder."""
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
        yield problem("socket", text, f"Run {shell_line('chmod', '600', place)}.")
    else:
        yield fine("socket", f"{place} is private")


def _folder(folder: Path) -> Iterator[Finding]:
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield fine("socket", f"{folder} does not exist yet; the daemon creates it, private")
        return
    if (trouble := why_unsteady(status)) is not None:
        advice = f"Run {shell_line('chmod', 'go-w', folder)}, or set TOOLTAP_SOCKET to a place of your own."
        yield problem("socket", f"the socket cannot be in {folder}: {trouble}", advice)
    else:
        yield fine("socket", f"nobody else may replace the socket in {folder}")


def record(statistics: dict[str, Any]) -> Finding:
    """Check that programs that do not know the daemon's socket can find it by its record."""
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
    """Check a journal on a server, as far as its daemon reports on it."""
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
    if reason := page.get("problem"):
        return problem("web", reason, "Programs with the daemon's token, and browsers that are logged in, go on.")
    return fine("web", f"the web page is at {page['url']}")


def collector(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Check that the collector of OpenTelemetry takes what the daemon sends, and as fast as it comes."""
    sending = statistics.get("telemetry")
    if sending is None:
        yield fine("otlp", "the daemon sends nothing to a collector")
        return
    url, waiting = sending["url"], counted(sending["behind"], "event waits", "events wait")
    if reason := sending.get("problem"):
        advice = (
            "Start it, or correct `url` and `headers` in `[otlp]`, and send the daemon SIGHUP; what waits is sent then."
        )
        yield problem("otlp", f"the collector {url} does not take spans: {reason}; {waiting}", advice)
    elif sending.get("behindMs", 0) > LATE:
        text = f"the collector {url} falls behind: {waiting}, the first for {sending['behindMs'] // 1000} s"
        yield note("otlp", text, "Look at its load. What waits is sent, unless retention deletes it first.")
    else:
        yield fine("otlp", f"the collector {url} has got {counted(sending['sent'], 'span')} since the daemon started")
    if reason := sending.get("metricsProblem"):
        text = f"the collector {url} takes no metrics: {reason}"
        yield note("otlp", text, "If it takes only spans, set `metrics_interval = 0` in `[otlp]`, and send SIGHUP.")
    if deleted := sending.get("deleted"):
        events = f"events {deleted['from']} to {deleted['to']}, or some of them"
        advice = "Look at the collector's load, or raise `retention_bytes` or `retention_days`."
        yield note("otlp", f"retention deleted {events}, before their spans were sent", advice)
    if refused := sending["refused"]:
        text = f"the collector {url} has refused {counted(refused, 'span')} since the daemon started"
        yield note("otlp", text, "They are not sent again; the daemon's log says why it refused them.")


def damage(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Report the damage that the daemon has found in its journal file."""
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


def retention(removed: dict[str, Any], limit: int) -> Iterator[Finding]:
    """Report what retention has removed, if it has removed something lately. `removed`: `RetentionStatistics`; `limit`:
    `retention_bytes` as it is now."""
    since = wall_clock() - RECENTLY
    if (by_age := removed.get("age", {})).get("at") and by_age["at"] >= since:
        yield fine("journal", f"{_removed(by_age)}, because they were older than `retention_days`")
    if not (by_size := removed.get("size", {})).get("at") or by_size["at"] < since:
        return
    then = removed.get("sizeLimit") or 0
    text = f"{_removed(by_size)}, to keep the journal under `retention_bytes` ({then:,} bytes)"
    if limit and limit <= then:
        advice = "Raise `retention_bytes` in the configuration file, and restart the daemon, to keep more from now on."
        yield note("journal", text, advice)
    else:
        yield fine("journal", f"{text}, which is more now")


def _removed(one: dict[str, Any]) -> str:
    kinds = (("sessions", "session", None), ("bodies", "output body", "output bodies"))
    found = [counted(one[kind], name, several) for kind, name, several in kinds if one.get(kind)]
    what = " and ".join(found) or counted(one["events"], "event")
    return f"retention has removed {what} since the journal was created, the last on {(iso_time(one['at']) or '')[:10]}"


def troubles(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Report current problems of the daemon: failing commits, no file descriptors for connections, no watches."""
    if reason := statistics.get("journal", {}).get("problem"):
        advice = (
            "Free some space, unless it says what else to do. `run` and `proxy` spool meanwhile, as far as they can."
        )
        yield problem(DAEMON, f"the daemon cannot commit lines: {reason}", advice)
    if reason := statistics.get("connections", {}).get("problem"):
        yield problem(DAEMON, f"the daemon cannot accept connections: {reason}", TOO_FEW_FILES)
    following = statistics.get("following", {})
    for folder, reason in list(following.get("unwatched", {}).items())[:NAMED]:
        text = f"the daemon cannot watch {folder}, and lists it periodically{_how_late(following, folder)}: {reason}"
        advice = "Raise the limit (sysctl, or `follow.watches`), and restart the daemon."
        yield problem(DAEMON, text, advice)
    for folder, kind in list(following.get("remote", {}).items())[:NAMED]:
        text = f"{folder} is on a file system ({kind}) that does not report what other machines change"
        advice = "Follow on the machine where the agents run, if that is too late; what it caches comes later still."
        yield note(DAEMON, f"{text}, so the daemon lists it periodically{_how_late(following, folder)}", advice)


def remotes(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Report the remotes that are not connected."""
    known = statistics.get("remotes", {}).get("connections", [])
    away = [one for one in known if "problem" in one]
    for one in away[:NAMED]:
        text = f"{one['name']} is not connected: {one['problem']}"
        yield problem("remotes", text, "It is tried again. `tooltap remote list` says how all of them are.")
    if known and not away:
        yield fine("remotes", f"no problem with {counted(len(known), 'remote')}")


def _how_late(following: dict[str, Any], folder: str) -> str:
    delay = following.get("delays", {}).get(folder)
    if delay is None:
        return ""
    latest = following.get("latest", {}).get(folder)
    sooner = "" if latest is None else f", and at once in the {counted(latest, 'folder')} written last"
    return f": a change is noticed within {delay:g} s{sooner}"


def drift(statistics: dict[str, Any]) -> Finding:
    findings = statistics.get("drift", {}).get("findings", [])
    alarms = sum(finding["severity"] == "alarm" for finding in findings)
    if alarms:
        text = f"the daemon has found {counted(alarms, 'change')} in agents' output that tooltap misreads"
        return note("drift", text, "Run `tooltap drift` to see them.")
    return fine("drift", "the daemon has found nothing that tooltap misreads")


def search_index(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Check that the search index works and covers all events."""
    index = statistics.get("search")
    if index is None:
        return
    if reason := index.get("problem"):
        advice = "Everything else works. Free some space, or read the daemon's log; the daemon tries again by itself."
        yield note("search", reason, advice)
    elif reason := index.get("rebuilding"):
        text = f"{reason}, and is being rebuilt: {counted(index['behind'], 'event')} not searched yet"
        yield note("search", text, "Wait for it; until then, each search says up to which event it has searched.")
    elif floor := index["floor"]:
        text = f"events up to {floor} are not searched: the index would be larger than `index_bytes`"
        advice = "Raise `index_bytes` in the configuration file, and restart the daemon, to search more of them."
        yield note("search", text, advice)
    else:
        yield fine("search", f"the search index has {counted(index['documents'], 'text')}")


def stalls(statistics: dict[str, Any]) -> Finding:
    """Check for stalls of the daemon's event loop."""
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


# -- journal, spools and traces on disk -------------------------------------------------------------------------------

MIB = 2**20
LITTLE, TOO_LITTLE = 1024 * MIB, 64 * MIB
"""Free disk space in bytes below which there is a note (`LITTLE`), or a problem (`TOO_LITTLE`)."""


REPAIR = "Run `tooltap journal check`; `tooltap journal repair` keeps what is intact."


def journal(file: Path, *, is_opened: bool = True) -> Iterator[Finding]:
    """`is_opened`: also open it, to see its format."""
    yield from folder("journal", file.parent)
    yield from _steadiness(file.resolve().parent)
    try:
        status = file.stat()
    except FileNotFoundError:
        yield fine("journal", f"there is no journal at {file}; `tooltap serve` creates it when it starts")
        return
    if status.st_mode & 0o077:
        text = f"other users may read {file} (mode {stat.S_IMODE(status.st_mode):04o}), which holds what agents printed"
        yield problem("journal", text, f"Run {shell_line('chmod', '600', file)}.")
    for one in journal_files(file.resolve()):
        yield from _other_name("journal", one, copied=file.resolve())
    if not is_opened or why_not_writable(file.parent):  # which is a finding already, and SQLite needs files beside it
        return
    try:
        version = format_of(file)
    except JournalError as error:
        advice = "Do what it says, use the version that wrote it, or run `tooltap serve --journal sqlite:PATH`."
        if isinstance(error, CorruptError) and high_water_path(file).exists():  # so it was a journal
            advice = REPAIR
        yield problem("journal", str(error), advice)
    else:
        yield fine("journal", f"{file} has {status.st_size / MIB:.1f} MiB, format {version}")


def _other_name(area: str, file: Path, *, copied: Path) -> Iterator[Finding]:
    """Report another name of a file. `copied`: the file that a copy takes the place of; a log is gone by then."""
    if has_other_name(file):
        new = f"{copied}.copy"
        command = f"{shell_line('cp', '-p', copied, new)} && {shell_line('mv', new, copied)}"
        advice = f"With the daemon stopped, run {command}. Backups are made by `tooltap journal backup`."
        yield problem(area, f"{file} {LINKED}", advice)


def _steadiness(place: Path) -> Iterator[Finding]:
    """Report a folder in which other users may replace the journal: the daemon refuses to start there."""
    with suppress(OSError):  # it is created, private, or another finding is about it
        if (trouble := why_unsteady(place.stat())) is not None:
            command = shell_line("chmod", "go-w", place)
            advice = f"Run {command}, or choose another place: `tooltap serve --journal sqlite:PATH`."
            yield problem("journal", f"the journal cannot be in {place}: {trouble}", advice)


def scrubbed(file: Path) -> Iterator[Finding]:
    """Report the result of the last verification of the journal by a daemon."""
    last = last_scrub(file)
    if last is None:
        return
    when = datetime.fromtimestamp(last.at / 1000, UTC)
    if last.number:
        text = f"{file} is damaged; this was found on {when:%Y-%m-%d}: {last.damages[0]}"
        yield problem("journal", text, REPAIR)
    else:
        yield fine("journal", f"all of {file} was verified on {when:%Y-%m-%d}")


def folder(area: str, place: Path) -> Iterator[Finding]:
    """Check that a folder is writable, and that there is enough free disk space."""
    existing = next(one for one in (place, *place.parents) if one.exists())
    room = shutil.disk_usage(existing).free
    left = f"{room / 1024 / MIB:.1f} GiB" if room >= LITTLE else f"{room / MIB:.0f} MiB"
    if reason := why_not_writable(place):
        advice = "Make it writable, or choose another place: docs/reference/settings.md names the setting of each."
        yield problem(area, reason, advice)
    elif room < TOO_LITTLE:
        yield problem(area, f"only {left} are left for {place}", "Free some space: what does not fit is lost.")
    elif room < LITTLE:
        yield note(area, f"{left} are left for {place}", "Free some space before the disk is full.")
    else:
        yield fine(area, f"{place} is writable, {left} are left")


def traces(statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """Check the traces of the running daemon, or, without one, of a daemon that would be started here."""
    if statistics is None:
        path = trace_path(os.environ, datetime.now(UTC), os.getpid())
        who = "a daemon started here would write"
    else:
        trace = statistics.get("trace")
        path, who = None if trace is None else Path(trace["path"]), "the daemon writes"
        if trace is not None and trace["problem"]:
            advice = "Make it writable, or choose another place with TOOLTAP_TRACE_DIR."
            yield problem("traces", f"the trace {path} cannot be written: {trace['problem']}", advice)
        elif trace is not None and (gone := trace.get("restarted")):
            times = "once" if gone == 1 else f"{gone} times"
            text = f"the trace {path} was removed or renamed in use {times}, and a new file begun"
            yield note("traces", text, "Nothing need be removed: the daemon keeps its traces within a limit.")
    if path is None:
        yield fine("traces", f"{who} no trace of raw lines", "TOOLTAP_TRACE=1 switches it on.")
        return
    yield fine("traces", f"{who} raw lines to {path}")
    yield from _other_name("traces", path, copied=path)
    yield from folder("traces", path.parent)


SPOOL = "spool"
"""Area of the findings about spools."""


def spools_of(directory: Path, statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """Check the spools that wait for a daemon. `statistics`: those of the running daemon, if any."""
    yield from folder(SPOOL, directory)
    waiting: defaultdict[str, dict[Path, int]] = defaultdict(dict)
    for path in islice(filter(has_other_name, spools(directory)), NAMED):
        yield from _other_name(SPOOL, path, copied=path)
    for path, size in spools(directory).items():
        try:
            header, is_used = read_header(path)
        except FileNotFoundError:  # it has just been taken in
            continue
        except (SpoolError, OSError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            advice = "A running daemon moves damaged ones to the quarantine; move others away."
            yield problem(SPOOL, f"{path} cannot be read: {what}", advice)
            continue
        if not is_used:
            waiting[header.socket][path] = size
    for socket, found in sorted(waiting.items()):
        yield _waiting(socket, found)
    for one in (statistics or {}).get("spools", {}).get("perSpool", ()):
        if "problem" in one:
            advice = "Read the daemon's log; the spool stays until it can be taken in."
            yield problem(SPOOL, f"the spool of stream {one['stream']} is {one['state']}: {one['problem']}", advice)
    damaged = spools(quarantine_folder(directory))
    if unread := {path: size for path, size in damaged.items() if is_unread(path)}:
        text = f"{_count(unread)} in {quarantine_folder(directory)} cannot be read: {_names(unread)}"
        advice = "Their lines are in no journal; the files are named after their streams. Delete them when you like."
        yield problem(SPOOL, text, advice)
        damaged = {path: size for path, size in damaged.items() if path not in unread}
    if damaged:
        text = f"{_count(damaged)} in {quarantine_folder(directory)} {_are(damaged)} damaged: {_names(damaged)}"
        advice = "What could be read is in the journal, and the rest was reported as lost; delete them when you like."
        yield note(SPOOL, text, advice)


def _waiting(socket: str, found: dict[Path, int]) -> Finding:
    """Report the spools that wait for the daemon at this socket."""
    text = f"{_count(found)} {'waits' if len(found) == 1 else 'wait'} for the daemon at {socket}"
    if is_listening(socket):
        return fine(SPOOL, f"{text}, which takes them in")
    running = "" if os.path.exists(os.path.dirname(socket)) else ", whose folder is gone"
    command = shell_line("tooltap", "serve", "--socket", socket)
    advice = f"Run {command} once: it takes them in. A journal has one daemon at a time."
    return note(SPOOL, f"{text}{running}, where none is listening: {_names(found)}", advice)


def _count(found: dict[Path, int]) -> str:
    return f"{counted(len(found), 'spool')} ({sum(found.values()) / 2**20:.1f} MiB)"


def _are(found: dict[Path, int]) -> str:
    return "is" if len(found) == 1 else "are"


def _names(found: dict[Path, int]) -> str:
    names = [path.name for path in found]
    return ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")


# -- agents and their sessions ----------------------------------------------------------------------------------------

MAX_FILES = 100_000
"""Most session files counted per folder."""
SETTINGS_BYTES = 1_048_576
DAY = 86_400
ADAPTERS = frozenset({"acp"})
"""Dialects whose version may be an adapter's (`claude-agent-acp` 0.100.0 over ACP) instead of the agent's."""

_VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9}){1,8}(?:-[\w.]{1,64})?")


def agents(commands: Mapping[str, str], timeout: float) -> Iterator[Finding]:
    """Check the versions of installed agents. `commands`: program name -> provider. `timeout`: seconds for each; all
    run in parallel."""
    found = {name: path for name in commands if (path := shutil.which(name)) is not None}
    if not found:
        advice = "Install one, or tap one of your own: `tooltap run -- COMMAND`."
        yield note("agents", f"none of {', '.join(commands)} is on the PATH", advice)
        return
    known = _recorded()
    with ThreadPoolExecutor(len(found)) as pool:
        versions = pool.map(lambda path: _version(path, timeout), found.values())
        for (name, path), version in zip(found.items(), versions, strict=True):
            recorded = known.get(commands[name], [])
            if isinstance(version, str):
                yield _compared(f"{name} {version} at {path}", version, recorded)
            else:
                advice = f"Try it yourself: {name} --version."
                yield note("agents", f"{name} at {path} does not print its version: {version}", advice)


def _version(path: str, timeout: float) -> str | Exception:
    """The version that a program prints, or the reason why there is none."""
    try:
        printed = run_briefly([path, "--version"], timeout)
    except OSError as error:
        return Exception(error.strerror)
    if (version := _VERSION.search(printed.text)) is not None:
        return version[0]
    return Exception(f"it takes longer than {timeout:g} s" if printed.code is None else "it prints none")


def _recorded() -> dict[str, list[str]]:
    """Provider -> the versions whose output tooltap has baselines for, newest last."""
    versions: dict[str, set[str]] = {}
    for dialect, provider, version in (baseline.agent for baseline in load(PACKAGED)):
        if dialect not in ADAPTERS:
            versions.setdefault(provider, set()).add(version)
    return {provider: sorted(ones, key=age) for provider, ones in versions.items()}


def _compared(agent: str, version: str, recorded: list[str]) -> Finding:
    advice = "Run `tooltap drift` after a session to check for unknown output."
    if not recorded:
        return note("agents", f"{agent}: no version of it has been recorded", advice)
    newest = recorded[-1]
    if age(version) > age(newest):
        return note("agents", f"{agent}: newer than the newest recorded version, {newest}", advice)
    what = "recorded" if version in recorded else f"recorded versions are {', '.join(recorded)}"
    return fine("agents", f"{agent}: {what}")


def sessions(follow: Follow, statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """Check the stores of all agents: what lies there, and what of it is not read."""
    followed = (statistics or {}).get("following", {}).get("agents", {})
    named = (statistics or {}).get("limits", {}).get("follow", {}).get("agents", ())
    absent = []
    deletions: list[Finding] = []
    for agent in stores():
        found = roots((agent,), os.environ, follow.folders)
        projects = yield from _projects(agent, follow)
        found += [root for root in projects if root.path not in {one.path for one in found}]
        there = [root for root in found if os.path.lexists(root.path)]
        absent += [
            root
            for root in found
            if not (projects or root in there or root.is_moved_to) and root.place is stores()[agent][0]
        ]
        total = 0
        is_followed = agent in followed or agent in named or ALL in named
        for root in there:
            troubles: list[OSError] = []
            files = list(islice(_stored(root, troubles.append), MAX_FILES))
            total += len(files)
            for error in troubles[:1]:
                advice = "Make it readable; until then its sessions are not followed."
                yield problem("sessions", f"cannot read {error.filename}: {error.strerror}", advice)
            if root.place.database is None:
                yield from _unreadable(root, files)
            if files or not (troubles or root.place.names or root.newer):
                is_unread = bool(files) and not is_followed
                what = f"{agent} has {_counted(root, files)} in {root.path}"
                yield fine("sessions", what, f"{_to_follow(agent, statistics)} publishes them." if is_unread else None)
            deletions += _own_deletion(root, files, statistics, is_followed=is_followed)
        yield from _unread(agent, found)
        if 0 < followed.get(agent, 0) < min(total, MAX_FILES):
            text = f"the daemon follows {followed[agent]:,} of the {counted(total, 'file')} of {agent}"
            yield note("sessions", text, "It was started with other folders, or lists them still: restart it.")
    yield from deletions
    if absent:
        variables = ", ".join(sorted({root.place.variable for root in absent} - {""}))
        elsewhere = f"set {variables}, or `folders` in the table `[follow]` of the configuration file"
        advice = f"The first session creates them. If they are elsewhere, {elsewhere}."
        listed = ", ".join(f"{root.agent} ({root.path})" for root in absent)
        yield note("sessions", f"no folder of sessions: {listed}", advice)
    yield from _not_understood(statistics or {})


def _projects(agent: str, follow: Follow) -> Generator[Finding, None, list[Root]]:
    """Return the folders that an agent's lists of projects name."""
    named: list[Root] = []
    for one in root_lists((agent,), os.environ, follow.projects):
        try:
            found, number = one.read()
        except FileNotFoundError:
            continue
        except OSError as error:
            advice = "Until it can be read, name its folders in the configuration file (`follow.folders`)."
            yield problem("sessions", f"cannot read {one.path}: {error.strerror}", advice)
            continue
        if number > len(found):
            text = f"{agent}: {len(found):,} of the {number:,} projects in {one.path} are followed"
            yield note("sessions", text, "Raise `follow.projects` in the configuration file to follow more of them.")
        named += found
    return named


def _unreadable(root: Root, files: list[Found]) -> Iterator[Finding]:
    """Name the session files that this user may not read: the user's own, and those of others, as of an agent that ran
    as root."""
    own: list[str] = []
    foreign: list[str] = []
    for one in files:
        if not os.access(one.path, os.R_OK):
            with suppress(FileNotFoundError):
                (own if os.stat(one.path).st_uid == os.geteuid() else foreign).append(one.path)
    for paths, words in ((own, ("chmod", "u+rX")), (foreign, ("sudo", "chown", os.geteuid()))):
        if paths:
            is_one = len(paths) == 1
            what = paths[0] if is_one else f"{len(paths)} session files of {root.agent}, such as {min(paths)}"
            reason = os.strerror(errno.EACCES) if paths is own else "it belongs to another user"
            where = ("--", paths[0]) if is_one and can_be_pasted(paths) else ("-R", "--", root.path)
            missing = "its session is" if is_one else "their sessions are"
            advice = f"Run {shell_line(*words, *where)}; until then, {missing} not followed."
            yield problem("sessions", f"cannot read {what}: {reason}", advice)


def _to_follow(agent: str, statistics: dict[str, Any] | None) -> str:
    """The commands that follow an agent: a running daemon keeps the agents that it was started with."""
    command = f"`tooltap serve --follow {agent}`"
    return command if statistics is None else f"`tooltap serve stop`, then {command},"


DATA = frozenset([".json", ".jsonl", ".ndjson", ".db", ".sqlite", ".sqlite3"])
COMPRESSED = frozenset([".br", ".bz2", ".gz", ".lz4", ".xz", ".zst", ".zstd"])


def _unread(agent: str, found: list[Root]) -> Iterator[Finding]:
    """Name the files and tables of a store that nothing reads, by folder and suffix. Only names are looked at."""
    unread: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for root in found:
        others = (os.path.realpath(os.path.join(root.home, one)) for one in root.place.unread)
        for folder in () if root.place.names else (root.path, *others):
            beside = root.place.beside if folder == root.path else None
            for path in islice(_data_in(folder, beside), MAX_FILES):
                if not any(path.startswith(f"{one.path}/") and _is_read(one, path) for one in found):
                    unread[folder, _suffix(path)].add(path)
        if isinstance(root.reader, Database) and root.place.tables is not None:
            for (path, table), rows in sorted(root.reader.unread(root.place.tables).items()):
                many = counted(rows, "row is", "rows are")
                text = f"{agent}: {many} not read of the table {table} in {path}"
                yield note("sessions", text, NOT_READ)
    for (folder, suffix), paths in sorted(unread.items()):
        many = counted(len(paths), f"{suffix} file is", f"{suffix} files are")
        text = f"{agent}: {many} not read in {folder}, such as {os.path.relpath(min(paths), folder)}"
        yield note("sessions", text, NOT_READ)


def _is_read(root: Root, path: str) -> bool:
    """Whether a file in a store is one of its session files, or its database."""
    database = root.place.database
    return root.match(path) is not None or (database is not None and bool(database.fullmatch(os.path.basename(path))))


NOT_READ = "Their sessions are missing. Upgrade tooltap, or report which version of the agent wrote them."


def _data_in(folder: str, beside: re.Pattern[str] | None) -> Iterator[str]:
    """The files in a folder that may hold sessions. `beside`: those that do not."""
    folders = [folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                name = entry.path[len(folder) + 1 :]
                if entry.is_dir(follow_symlinks=False):
                    if beside is None or not beside.fullmatch(f"{name}/"):
                        folders.append(entry.path)
                elif _suffix(name) and not (beside is not None and beside.fullmatch(name)):
                    yield entry.path


def _suffix(path: str) -> str:
    """The suffix of a file with data, also a compressed one; empty for others."""
    stem, last = os.path.splitext(path)
    inner = os.path.splitext(stem)[1] if last in COMPRESSED else last
    return "" if inner not in DATA else last if inner == last else inner + last


def _own_deletion(
    root: Root, files: list[Found], statistics: dict[str, Any] | None, *, is_followed: bool
) -> Iterator[Finding]:
    """Say what the agent's own deletion takes, and that the journal keeps it."""
    rule = root.place.deletes
    if rule is None or not files:
        return
    file = os.path.join(root.home, rule.file)
    days, where, is_chosen = rule.days, "its default", False
    with suppress(OSError, msgspec.DecodeError):
        stated = msgspec.json.decode(read_head(file, SETTINGS_BYTES)[0]).get(rule.key)
        if isinstance(stated, int | float) and not isinstance(stated, bool):
            days, where, is_chosen = float(stated), f"`{rule.key}` in {file}", True
    limit = time.time() - days * DAY
    gone = sum(one.mtime_ms / 1000 < limit for one in files)
    soon = sum(limit <= one.mtime_ms / 1000 < limit + 7 * DAY for one in files)
    text = f"{root.agent} deletes session files after {days:g} days ({where})"
    if gone or soon:
        text += f"; {counted(gone, 'file is', 'files are')} older, and {counted(soon, 'file')} will be within a week"
    if is_followed:
        yield fine("sessions", f"{text}; the journal keeps what was read")
    elif is_chosen and not gone and not soon:
        yield fine("sessions", text)
    else:
        advice = f"{_to_follow(root.agent, statistics)} keeps them in the journal; or set `{rule.key}` in {file}."
        yield note("sessions", text, advice)


def _not_understood(statistics: dict[str, Any]) -> Iterator[Finding]:
    """Name the followed files of which no line was understood."""
    names = [
        one["stream"]
        for one in statistics.get("perStream", ())
        if one["dialect"] in session_dialects() and 0 < one["lines"] == one["unparsed"]
    ]
    if names:
        more = " and others" if len(names) > NAMED else ""
        text = f"no line was understood of {counted(len(names), 'session file')}: {', '.join(names[:NAMED])}{more}"
        yield note("sessions", text, "Run `tooltap drift`, and report which version of the agent wrote them.")


def _stored(root: Root, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """List the sessions of a store, except those that a newer store has copied."""
    if isinstance(root.reader, Database):
        yield from root.reader.list_sessions(trouble)
        return
    for found in scan(root, root.path, trouble):
        try:
            was_copied = root.was_copied(found.path)
        except OSError as error:
            trouble(error)
            was_copied = False
        if not was_copied:
            yield found


def _counted(root: Root, files: list[Found]) -> str:
    what = "session" if root.place.database is not None else "session file"
    if len(files) == MAX_FILES:
        return f"at least {MAX_FILES} {what}s"
    size = "" if root.place.database is not None else f" ({sum(file.size for file in files) / 2**20:.1f} MiB)"
    return f"{counted(len(files), what)}{size}"
