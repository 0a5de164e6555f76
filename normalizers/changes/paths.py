"""Paths of files as calls name them: absolute with the session's directory, and relative to it for people."""

from __future__ import annotations

import posixpath
import re

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def absolute(path: str, cwd: str | None) -> str:
    """Without `.` and `..`; relative if the directory is not known."""
    path = path.removeprefix("file://")
    if _DRIVE.match(path) or _DRIVE.match(cwd or ""):
        path = path.replace("\\", "/")
        cwd = cwd.replace("\\", "/") if cwd else cwd
        if _DRIVE.match(path):
            return posixpath.normpath(path)
    return posixpath.normpath(posixpath.join(cwd or "", path))


def relative(path: str, cwd: str | None) -> str:
    """The path relative to the directory; unchanged if it is outside."""
    start = f"{absolute(cwd, None).rstrip('/')}/" if cwd else ""
    return path.removeprefix(start)
