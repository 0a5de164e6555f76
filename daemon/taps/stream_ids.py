"""Stream ids of files, for `normalize`, `ingest` and `serve --follow`."""

from __future__ import annotations

import os
import re
from pathlib import Path

MAX_NAME = 160
"""Leaves room for what follows within the 200 characters of a stream id: hashes, and a number."""


def stream_name(path: str) -> str:
    """The base name without its extension, in the characters a stream id may have."""
    name = "stdin" if path == "-" else Path(path).stem
    return re.sub(r"[^A-Za-z0-9._~-]", "-", name)[:MAX_NAME] or "stream"


def recording_id(path: str) -> str:
    """The stream id of a file fed to the daemon: the same file again is the same stream, a namesake is another."""
    return real_path_id(os.path.realpath(path))


def real_path_id(path: str) -> str:
    """The same for a path without symbolic links."""
    import hashlib  # costs a command that names no file more than all the rest of this module

    digest = hashlib.sha256(os.fsencode(path)).hexdigest()
    return f"{stream_name(path)}~{digest[:12]}"


def name_of_id(stream: str) -> str:
    """What namesakes have in common, wherever they are."""
    return stream.partition("~")[0]
