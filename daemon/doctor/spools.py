"""The spools: which daemon each waits for, and what is damaged. It needs no daemon, which may be gone for good."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tooltap.daemon.doctor.disk import folder
from tooltap.daemon.doctor.finding import Finding, fine, note, problem
from tooltap.daemon.formats import counted
from tooltap.daemon.system.listener import is_listening
from tooltap.daemon.taps.delivery.quarantine import is_unread, quarantine_folder
from tooltap.daemon.taps.delivery.spool import SpoolError, read_header, spools

__all__ = ["spools_of"]

AREA = "spool"
NAMED = 5
"""Spools that one finding names."""
MIB = 2**20


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
    return f"{counted(len(found), 'spool')} ({sum(found.values()) / MIB:.1f} MiB)"


def _are(found: dict[Path, int]) -> str:
    return "is" if len(found) == 1 else "are"


def _names(found: dict[Path, int]) -> str:
    names = [path.name for path in found]
    return ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")
