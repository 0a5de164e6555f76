"""Stream ids of files, for `normalize`, `ingest` and `serve --follow`."""

from __future__ import annotations

import os
import re

from tooltap.traces.recording.compressed import plain_path

MAX_NAME = 160
"""Longest name in a stream id: leaves room for hashes and a number within the limit of 200 characters."""


_OTHERS = re.compile(r"[^A-Za-z0-9._~-]")


def stream_name(path: str) -> str:
    """The base name without its extension, in the characters a stream id may have. Compression does not change it."""
    name = "stdin" if path == "-" else os.path.basename(plain_path(path).rstrip("/"))
    if 0 < (dot := name.rfind(".")) < len(name) - 1:  # as `Path.stem`, which takes longer than all the rest
        name = name[:dot]
    return _OTHERS.sub("-", name)[:MAX_NAME] or "stream"


def recording_id(path: str) -> str:
    """The stream id of a recording: the same file always has the same id; files of the same name elsewhere have
    others."""
    return real_path_id(os.path.realpath(path))


def real_path_id(path: str) -> str:
    """`recording_id` for a path that is already resolved (no symbolic links). A compressed file has the id that it had
    before."""
    import hashlib  # costs a command that names no file more than all the rest of this module

    path = plain_path(path)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()
    return f"{stream_name(path)}~{digest[:12]}"


def name_of_id(stream: str) -> str:
    """The part of a stream id that is derived from the file name; equal for files of the same name in any folder."""
    return stream.partition("~")[0]
