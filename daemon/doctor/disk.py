"""What is on disk: journal, spools, traces. Whether they can be written, how much room is left, and who may read
them."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.formats import counted
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.file import format_of, last_scrub
from tooltap.daemon.system.listener import is_listening
from tooltap.daemon.taps.delivery.spool import SpoolError, is_unread, quarantine_folder, read_header, spools
from tooltap.traces.recording.own_file import why_unsteady
from tooltap.traces.recording.writer import trace_path

MIB = 2**20
LITTLE, TOO_LITTLE = 1024 * MIB, 64 * MIB
"""Bytes left, below which there is a note, and below which there is a problem."""


def journal(file: Path) -> Iterator[Finding]:
    yield from folder("journal", file.parent)
    yield from _steadiness(file.resolve().parent)
    try:
        status = file.stat()
    except FileNotFoundError:
        yield fine("journal", f"there is no journal yet; the first `tooltap serve` creates {file}")
        return
    if status.st_mode & 0o077:
        text = f"other users may read {file} (mode {stat.S_IMODE(status.st_mode):04o}), which holds what agents printed"
        yield problem("journal", text, f"Run chmod 600 {file}.")
    try:
        version = format_of(file)
    except JournalError as error:
        advice = "Upgrade tooltap, or name another file: `tooltap serve --journal sqlite:PATH`."
        yield problem("journal", str(error), advice)
    else:
        yield fine("journal", f"{file} has {status.st_size / MIB:.1f} MiB, format {version}")


def _steadiness(place: Path) -> Iterator[Finding]:
    """Whether other users may exchange the journal, and the daemon therefore refuses to start."""
    with suppress(OSError):  # it is created, private, or another finding is about it
        if (trouble := why_unsteady(place.stat())) is not None:
            advice = f"Run chmod go-w {place}, or choose another place: `tooltap serve --journal sqlite:PATH`."
            yield problem("journal", f"the journal cannot be in {place}: {trouble}", advice)


def scrubbed(file: Path) -> Iterator[Finding]:
    """What the last verification by a daemon found."""
    last = last_scrub(file)
    if last is None:
        return
    when = datetime.fromtimestamp(last.at / 1000, UTC)
    if last.number:
        text = f"{file} is damaged; this was found on {when:%Y-%m-%d}: {last.damages[0]}"
        advice = "Run `tooltap journal check`; `tooltap journal repair` keeps what is intact."
        yield problem("journal", text, advice)
    else:
        yield fine("journal", f"all of {file} was verified on {when:%Y-%m-%d}")


def folder(area: str, place: Path) -> Iterator[Finding]:
    """Whether files can be written there, and how much room is left."""
    existing = next(one for one in (place, *place.parents) if one.exists())
    room = shutil.disk_usage(existing).free
    left = f"{room / 1024 / MIB:.1f} GiB" if room >= LITTLE else f"{room / MIB:.0f} MiB"
    if (reason := _refused(existing, made=existing == place)) is not None:
        advice = "Make it writable, or choose another place; see `Settings` in the README."
        yield problem(area, f"cannot write to {place}: {reason}", advice)
    elif room < TOO_LITTLE:
        yield problem(area, f"only {left} are left for {place}", "Free some space: what does not fit is lost.")
    elif room < LITTLE:
        yield note(area, f"{left} are left for {place}", "Free some space before the disk is full.")
    else:
        yield fine(area, f"{place} is writable, {left} are left")


def _refused(existing: Path, *, made: bool) -> str | None:
    """Why nothing can be created in it, else None. An existing folder is tried by creating a file."""
    if not existing.is_dir():
        return f"{existing} is not a folder"
    if not made:
        return None if os.access(existing, os.W_OK | os.X_OK) else f"{existing} is not writable"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return error.strerror


def traces(statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """The traces of the running daemon, else those of one that would be started here."""
    if statistics is None:
        path = trace_path(os.environ, datetime.now(UTC), os.getpid())
        who = "a daemon started here would write"
    else:
        trace = statistics.get("trace")
        path, who = None if trace is None else Path(trace["path"]), "the daemon writes"
        if trace is not None and trace["problem"]:
            advice = "Make it writable, or choose another place with HAPPIER_STACK_TOOL_TRACE_DIR."
            yield problem("traces", f"the trace {path} cannot be written: {trace['problem']}", advice)
    if path is None:
        yield fine("traces", f"{who} no trace of raw lines", "HAPPIER_STACK_TOOL_TRACE=1 switches it on.")
        return
    yield fine("traces", f"{who} raw lines to {path}")
    yield from folder("traces", path.parent)


AREA = "spool"
NAMED = 5
"""Spools that one finding names."""


def spools_of(directory: Path, statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """`statistics`: of the daemon that was asked."""
    yield from folder(AREA, directory)
    waiting: defaultdict[str, dict[Path, int]] = defaultdict(dict)
    for path, size in spools(directory).items():
        try:
            header, is_used = read_header(path)
        except FileNotFoundError:  # it has just been taken in
            continue
        except (SpoolError, OSError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            advice = "A running daemon moves damaged ones to the quarantine; move others away."
            yield problem(AREA, f"{path} cannot be read: {what}", advice)
            continue
        if not is_used:
            waiting[header.socket][path] = size
    for socket, found in sorted(waiting.items()):
        yield _waiting(socket, found)
    for one in (statistics or {}).get("spools", {}).get("perSpool", ()):
        if "problem" in one:
            advice = "Read the daemon's log; the spool stays until it can be taken in."
            yield problem(AREA, f"the spool of stream {one['stream']} is {one['state']}: {one['problem']}", advice)
    damaged = spools(quarantine_folder(directory))
    if unread := {path: size for path, size in damaged.items() if is_unread(path)}:
        text = f"{_count(unread)} in {quarantine_folder(directory)} cannot be read: {_names(unread)}"
        advice = "Their lines are in no journal; the files are named after their streams. Delete them when you like."
        yield problem(AREA, text, advice)
        damaged = {path: size for path, size in damaged.items() if path not in unread}
    if damaged:
        text = f"{_count(damaged)} in {quarantine_folder(directory)} {_are(damaged)} damaged: {_names(damaged)}"
        advice = "What could be read is in the journal, and the rest was reported as lost; delete them when you like."
        yield note(AREA, text, advice)


def _waiting(socket: str, found: dict[Path, int]) -> Finding:
    """Say who takes in the spools for this socket."""
    text = f"{_count(found)} {'waits' if len(found) == 1 else 'wait'} for the daemon at {socket}"
    if is_listening(socket):
        return fine(AREA, f"{text}, which takes them in")
    running = "" if os.path.exists(os.path.dirname(socket)) else ", whose folder is gone"
    advice = f"Run tooltap serve --socket {socket} once: it takes them in. A journal has one daemon at a time."
    return note(AREA, f"{text}{running}, where none is listening: {_names(found)}", advice)


def _count(found: dict[Path, int]) -> str:
    return f"{counted(len(found), 'spool')} ({sum(found.values()) / 2**20:.1f} MiB)"


def _are(found: dict[Path, int]) -> str:
    return "is" if len(found) == 1 else "are"


def _names(found: dict[Path, int]) -> str:
    names = [path.name for path in found]
    return ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")
