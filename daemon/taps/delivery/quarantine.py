"""The quarantine: a folder beside the spools, for those of which something could not be read.

What could be read is in the journal by then, and what is missing was reported as lost. Only if neither copy of the
header can be read, nobody knows whose lines they are: they are in no journal, and every report says so (`is_unread`).

A damaged spool is never deleted: it may be of use to whoever wants to know what happened. So the folder is bounded by
taking no more in. Then a damaged spool stays where it was, where it counts as a spool.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tooltap.daemon.taps.delivery.spool import SUFFIX, DamagedSpoolError, SpoolError, read_header, spools
from tooltap.traces.recording.own_file import private_folder

__all__ = ["UNREAD", "QuarantineLimits", "is_unread", "quarantine", "quarantine_folder"]

UNREAD = "no header can be read, so that none of its lines is in a journal"


class QuarantineLimits(NamedTuple):
    files: int = 100
    """Damaged spools that are retained; further ones stay where they are."""
    bytes: int = 256 * 1024 * 1024
    """Of all damaged spools together."""


def quarantine_folder(directory: Path) -> Path:
    """`directory`: of the spools."""
    return directory / "quarantined"


def quarantine(path: Path, limits: QuarantineLimits) -> Path | None:
    """Move a spool to the quarantine, and return its new place; None if the quarantine is full. Raises `OSError`."""
    folder = quarantine_folder(path.parent)
    private_folder(folder)
    there = spools(folder)
    if len(there) >= limits.files or sum(there.values()) + path.lstat().st_size > limits.bytes:
        return None
    for number in range(1, limits.files + 2):
        place = folder / (path.name if number == 1 else f"{path.name.removesuffix(SUFFIX)}.{number}{SUFFIX}")
        try:
            os.link(path, place, follow_symlinks=False)  # unlike a rename it replaces nothing
        except FileExistsError:
            continue
        path.unlink()
        return place
    return None


def is_unread(path: Path) -> bool:
    """Whether no part of a spool in the quarantine was taken in."""
    try:
        read_header(path)
    except DamagedSpoolError:
        return True
    except (SpoolError, OSError):
        pass
    return False
