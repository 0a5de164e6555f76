"""High-water mark of the journal in a side file, so that lost commits are detected.

SQLite cannot notice that its write-ahead log was deleted or torn, or that an older copy stands in the journal's place:
what is left looks like an earlier, intact journal. After each transaction the writer notes here how many there were. A
journal that has fewer has lost the rest. The numbers of lost events are not given to others: they become a gap, and a
subscriber's cursor stays right.

The mark is not synced. After a power failure it may count fewer transactions than the journal has, which means nothing,
or more: then the newest transactions were lost, as `durability = "process"` allows.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tooltap.traces.recording.own_file import NotOursError, open_own

LENGTH = 128
"""Bytes of the file."""


class HighWater(NamedTuple):
    """The extent of a journal after a transaction."""

    journal: str
    """Its id."""
    transactions: int
    """Number of transactions."""
    next_seq: int
    expired: int
    """The highest `seq` that retention has deleted."""


def high_water_path(path: Path) -> Path:
    return Path(f"{path}.tip")


def read_high_water(path: Path) -> HighWater | None:
    """Read the mark; None if there is none, or it is damaged."""
    try:
        with open(open_own(high_water_path(path), os.O_RDONLY), "rb") as file:
            text, _, checksum = file.read(LENGTH).decode("ascii").strip().rpartition(" ")
        if crc32(text.encode()) != int(checksum, 16):
            return None
        name, *numbers = text.split()
        return HighWater(name, *map(int, numbers))
    except (FileNotFoundError, ValueError, TypeError):
        return None


class HighWaterFile:
    """The mark of the journal `path`, opened for writing."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`."""
        place = high_water_path(path)
        try:
            self._descriptor = open_own(place, os.O_RDWR | os.O_CREAT)
        except NotOursError as error:
            raise NotOursError(str(place), f"{place} does not belong to the journal: {error.strerror}") from None
        if os.fstat(self._descriptor).st_size > LENGTH:
            os.close(self._descriptor)
            raise NotOursError(str(place), f"{place} is too long to belong to the journal; move it away")

    def write(self, mark: HighWater) -> None:
        text = f"{mark.journal} {mark.transactions} {mark.next_seq} {mark.expired}"
        line = f"{text} {crc32(text.encode()):08x}\n"
        os.pwrite(self._descriptor, line.encode().ljust(LENGTH, b" "), 0)

    def close(self) -> None:
        os.close(self._descriptor)
