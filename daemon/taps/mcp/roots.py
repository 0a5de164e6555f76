"""Which files display tools may show: only files in the folders that the user allowed, with all links resolved.

To resolve a path only finds its name; what is opened is opened below the folder (`beneath.py`).

An MCP client may name folders of its own ("roots"). They narrow what the user allowed and never widen it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import unquote, urlsplit

from tooltap.daemon.taps.mcp.beneath import open_beneath, open_folder

__all__ = ["NotShownError", "Opened", "Roots", "folder_of_uri"]


class NotShownError(Exception):
    """The file is not shown; the message is a predicate that says why ("is not a file"). `denied`: it is outside of the
    allowed folders."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Opened(NamedTuple):
    """An open file."""

    file: IO[bytes]
    path: str
    """For clients: relative to the first folder, or else absolute."""


class Roots:
    """`folders` must exist. Relative paths are resolved in the first. Holds the folders open until it is closed: files
    are opened below these, whatever is renamed since."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [Path(os.path.realpath(folder)) for folder in folders]
        self._descriptors = [open_folder(folder) for folder in self.folders]

    def close(self) -> None:
        for one in self._descriptors:
            os.close(one)
        self._descriptors = []

    @contextmanager
    def open(self, path: str, narrowed_to: Sequence[Path] | None = None) -> Iterator[Opened]:
        """Open the regular file at `path`. Raises `NotShownError`."""
        try:
            folder, found = self._resolve(path, narrowed_to)
            # The resolved path has no links. One that is there by now was put there since, and is not followed.
            descriptor = open_beneath(self._descriptors[folder], found.relative_to(self.folders[folder]).parts)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise NotShownError(f"cannot be opened: {reason}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotShownError("is not a file")
        first = self.folders[0]
        with open(descriptor, "rb") as file:
            yield Opened(file, str(found.relative_to(first) if found.is_relative_to(first) else found))

    def _resolve(self, path: str, narrowed_to: Sequence[Path] | None) -> tuple[int, Path]:
        """Return the number of the folder that the file is in, and the path without links."""
        found = Path(os.path.realpath(self.folders[0] / path))
        folder = next((number for number, one in enumerate(self.folders) if found.is_relative_to(one)), None)
        if folder is None:
            raise NotShownError("is outside of the folders the user allowed", denied=True)
        if narrowed_to is not None and not any(found.is_relative_to(os.path.realpath(one)) for one in narrowed_to):
            raise NotShownError("is outside of the folders this client works in", denied=True)
        return folder, found


def folder_of_uri(uri: str) -> Path | None:
    """Return the folder of a root; None if it is not a `file:` URI."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path else None
