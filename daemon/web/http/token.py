"""The token that admits a browser: created once, stored in a file that only the user can read."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from pathlib import Path

from tooltap.daemon.system.listener import ListenError
from tooltap.traces.recording.own_file import open_own, why_not_writable
from tooltap.traces.recording.whole_file import whole_file

_TOKEN = re.compile(rb"[A-Za-z0-9_-]{32,128}")
TOKEN_BYTES = 32


def load_token(path: Path) -> str:
    """Read the token, or create it if there is no file. Raises `ListenError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return read_token(path)
    except OSError as error:
        if reason := why_not_writable(path.parent):
            advice = "make it writable, or set `token_file` in the table `[web]` of the configuration file"
            raise ListenError(f"{reason}; {advice}") from error
        raise ListenError(f"the token in {path} cannot be used: {error.strerror}") from error


def is_token(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())


def why_not_readable(path: Path, token: str) -> str:
    """Say in one sentence why programs that read the file do not get this token; empty if they do."""
    try:
        found = read_token(path)
    except FileNotFoundError:
        return f"the token {path} was removed or renamed in use: put it back, or restart the daemon for a new one"
    except ListenError as error:
        return str(error)
    except OSError as error:
        return f"the token in {path} cannot be read: {error.strerror}"
    return "" if found == token else f"the token in {path} was replaced in use: restart the daemon, which has another"


def _make(path: Path) -> None:
    """Create the file atomically, and never over one that another daemon creates at the same time."""
    with whole_file(path, 0o600, replace=False) as file:
        file.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")


def read_token(path: Path) -> str:
    """Read the token. Raises `ListenError` and `OSError`."""
    with open(open_own(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_mode & 0o077:
            raise ListenError(f"other users can read the token in {path}; remove the file to get a new one")
        token = file.read(1_024).strip()
    if not _TOKEN.fullmatch(token):
        raise ListenError(f"there is no token in {path}; remove the file to get a new one")
    return token.decode()
