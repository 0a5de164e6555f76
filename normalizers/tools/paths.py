"""Paths: absolute with the directory of a session, and relative to it for people. Those of Windows are read on any
system."""

from __future__ import annotations

import posixpath
import re

WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
"""The beginning of an absolute path on Windows: a drive, or a share."""
_DRIVE_IN_URL = re.compile(r"/[A-Za-z]:/")


def absolute(path: str, cwd: str | None) -> str:
    """The absolute path without `.` and `..`; relative if the directory is not known. One on Windows has `/` between
    its parts and an upper-case drive, as agents differ in both."""
    if path.startswith("file://"):
        path = path.removeprefix("file://")
        path = path[1:] if _DRIVE_IN_URL.match(path) else path
    if WINDOWS.match(path) or WINDOWS.match(cwd or ""):
        path, cwd = _with_slashes(path), _with_slashes(cwd or "")
        if path[1:2] == ":":
            return posixpath.normpath(path)
    return posixpath.normpath(posixpath.join(cwd or "", path))


def _with_slashes(path: str) -> str:
    path = path.replace("\\", "/")
    return path[0].upper() + path[1:] if path[1:2] == ":" else path


def relative(path: str, cwd: str | None) -> str:
    """The path relative to the directory; unchanged if it is outside."""
    if not cwd:
        return path
    if not WINDOWS.match(cwd):
        return path.removeprefix(f"{cwd.rstrip('/')}/")
    start = f"{_with_slashes(cwd).rstrip('/')}/"
    return path[len(start) :] if _with_slashes(path[: len(start)]) == start else path
