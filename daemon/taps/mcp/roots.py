"""Which files display tools may show: only files in the folders that the user allowed, with all links resolved.

An MCP client may name folders of its own ("roots"). They narrow what the user allowed and never widen it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

__all__ = ["NotShownError", "Roots", "folder_of_uri"]


class NotShownError(Exception):
    """The file is not shown; the message is a predicate that says why ("is not a file"). `denied`: it is outside of the
    allowed folders."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Roots:
    """`folders` must exist. Relative paths are resolved in the first."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [Path(os.path.realpath(folder)) for folder in folders]

    @contextmanager
    def open(self, path: str, narrowed_to: Sequence[Path] | None = None) -> Iterator[IO[bytes]]:
        """Open the regular file at `path`. Raises `NotShownError`."""
        try:
            found = self._resolve(path, narrowed_to)
            # The resolved path has no links. A link created since then is not followed, and a pipe does not block.
            descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise NotShownError(f"cannot be opened: {reason}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotShownError("is not a file")
        with open(descriptor, "rb") as file:
            yield file

    def shown_path(self, path: str) -> str:
        """Return the path for clients: relative to the first folder, or else absolute."""
        found = Path(os.path.realpath(self.folders[0] / path))
        return str(found.relative_to(self.folders[0]) if found.is_relative_to(self.folders[0]) else found)

    def _resolve(self, path: str, narrowed_to: Sequence[Path] | None) -> Path:
        found = Path(os.path.realpath(self.folders[0] / path))
        if not _is_within(found, self.folders):
            raise NotShownError("is outside of the folders the user allowed", denied=True)
        if narrowed_to is not None and not _is_within(found, [Path(os.path.realpath(one)) for one in narrowed_to]):
            raise NotShownError("is outside of the folders this client works in", denied=True)
        return found


def _is_within(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def folder_of_uri(uri: str) -> Path | None:
    """Return the folder of a root; None if it is not a `file:` URI."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path else None
