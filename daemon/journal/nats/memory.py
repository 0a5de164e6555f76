"""What this host remembers of journals on NATS between the lives of its daemons: the newest message of each.

A store that was restored from a backup does not say so. A file on the daemon's own host does: see `identity.py`. It is
not needed for anything else, so it is not synced, and what cannot be read or written is treated as missing.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import msgspec

from tooltap.traces.recording.own_file import open_own, private_folder

__all__ = ["Memory"]

JOURNALS = 32
"""Files in the folder; beyond this, the oldest are deleted."""

_decoder = msgspec.json.Decoder(tuple[int, str])


class Memory:
    """`folder`: None to remember nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written: tuple[str, int, str] | None = None

    def read(self, journal: str) -> tuple[int, str] | None:
        """Sequence of the journal's newest message, and its commit."""
        if self._folder is None:
            return None
        try:
            with open(open_own(_file(self._folder, journal), os.O_RDONLY), "rb") as file:
                return _decoder.decode(file.read())
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, journal: str, seq: int, commit: str) -> None:
        if self._folder is None or self._written == (journal, seq, commit):
            return
        self._written = journal, seq, commit
        file = _file(self._folder, journal)
        beside = file.with_suffix(f".{os.urandom(8).hex()}")
        with suppress(OSError):
            private_folder(self._folder)
            is_new = not file.exists()
            with open(open_own(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as new:
                new.write(msgspec.json.encode((seq, commit)))
            beside.replace(file)
            if is_new:
                _forget(self._folder)


def _file(folder: Path, journal: str) -> Path:
    return folder / re.sub(r"[^A-Za-z0-9_-]", "_", journal)


def _forget(folder: Path) -> None:
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[JOURNALS:]:
        file.unlink()
