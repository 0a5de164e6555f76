"""What is written to disk: journal, spools, traces. Whether it can be, how much room there is, and who may read it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.schema import format_of
from tooltap.traces.recording.writer import trace_path

__all__ = ["folder", "journal", "traces"]

MIB = 2**20
LITTLE, TOO_LITTLE = 1024 * MIB, 64 * MIB
"""Bytes of room, below which it is worth a word, and below which writing is about to fail."""


def journal(file: Path) -> Iterator[Finding]:
    yield from folder("journal", file.parent)
    try:
        status = file.stat()
    except FileNotFoundError:
        yield fine("journal", f"there is no journal yet; {file} begins with the first `tooltap serve`")
        return
    if status.st_mode & 0o077:
        text = f"others may read {file} (mode {stat.S_IMODE(status.st_mode):04o}), which holds what agents printed"
        yield problem("journal", text, f"Run chmod 600 {file}.")
    try:
        version = format_of(file)
    except JournalError as error:
        advice = "Upgrade tooltap, or name another file: `tooltap serve --journal sqlite:PATH`."
        yield problem("journal", str(error), advice)
    else:
        yield fine("journal", f"{file} has {status.st_size / MIB:.1f} MiB, format {version}")


def folder(area: str, place: Path) -> Iterator[Finding]:
    """Whether files can be written there, and how much room there is."""
    existing = next(one for one in (place, *place.parents) if one.exists())
    room = shutil.disk_usage(existing).free
    left = f"{room / 1024 / MIB:.1f} GiB" if room >= LITTLE else f"{room / MIB:.0f} MiB"
    if (reason := _refused(existing, made=existing == place)) is not None:
        advice = "Make it yours to write to, or choose another place; see `Settings` in the README."
        yield problem(area, f"cannot write to {place}: {reason}", advice)
    elif room < TOO_LITTLE:
        yield problem(area, f"only {left} are left for {place}", "Make room: what does not fit is lost.")
    elif room < LITTLE:
        yield note(area, f"{left} are left for {place}", "Make room before it is full.")
    else:
        yield fine(area, f"{place} can be written to, {left} are left")


def _refused(existing: Path, *, made: bool) -> str | None:
    """Why a file, or a folder on the way to it, cannot be made in it. A place of ours is tried in earnest."""
    if not existing.is_dir():
        return f"{existing} is no folder"
    if not made:
        return None if os.access(existing, os.W_OK | os.X_OK) else f"{existing} is not yours to write to"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return error.strerror


def traces(statistics: dict[str, Any] | None) -> Iterator[Finding]:
    """Of the daemon that runs, else of one that would be started here."""
    if statistics is None:
        path = trace_path(os.environ, datetime.now(UTC), os.getpid())
        who = "a daemon started here would write"
    else:
        told = statistics.get("trace")
        path, who = None if told is None else Path(told["path"]), "the daemon writes"
        if told is not None and told["problem"]:
            advice = "Make it writable, or choose another place with HAPPIER_STACK_TOOL_TRACE_DIR."
            yield problem("traces", f"the trace {path} is not written: {told['problem']}", advice)
    if path is None:
        yield fine("traces", f"{who} no trace of raw lines", "HAPPIER_STACK_TOOL_TRACE=1 switches it on.")
        return
    yield fine("traces", f"{who} raw lines to {path}")
    yield from folder("traces", path.parent)
