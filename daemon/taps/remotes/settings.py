"""The file that lists the remotes: beside the journal, written by `tooltap remote`, and read by the daemon.

Its commands are run, so a file that another user may have written is refused.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated

import msgspec

from tooltap.daemon.journal.open import Place
from tooltap.daemon.system.paths import remotes_path
from tooltap.traces.recording.own_file import open_own
from tooltap.traces.recording.whole_file import whole_file

MOST_REMOTES = 100
LONGEST_HOST = 255
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "--")
"""The command that runs another one on a host; its words are followed by the host's name."""
SCHEME = "ssh://"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class RemotesError(Exception):
    """The remotes cannot be read or changed; the message is one sentence for the user."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a remote may send; more than that stops it."""

    body_bytes: Annotated[int, msgspec.Meta(ge=1)] = 268_435_456
    """Most bytes of the output bodies of one event."""
    line_bytes: Annotated[int, msgspec.Meta(ge=1)] = 16_777_216
    """Longest line: more than an event or a part of a body has, unless the remote's own bounds were raised."""


class Remote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A remote: the name that its sessions bear, and where it is."""

    name: str
    host: str
    command: tuple[str, ...] = ()
    """What runs tooltap there; default: `ssh HOST tooltap`."""

    @property
    def program(self) -> tuple[str, ...]:
        """The words of the command, to which tooltap's own arguments are added."""
        return self.command or (*SSH, self.host, "tooltap")


class _File(msgspec.Struct, frozen=True):
    remotes: tuple[Remote, ...] = ()


def checked(host: str, name: str | None, command: tuple[str, ...]) -> Remote:
    """Return the remote that the user has asked for. Raises `RemotesError`."""
    if not host or len(host) > LONGEST_HOST or host.startswith("-") or not host.isprintable() or " " in host:
        raise RemotesError(f"{host[:LONGEST_HOST]!r} is not the name of a host")
    chosen = _machine(host) if name is None else name
    if _NAME.fullmatch(chosen) is None:
        letters = "use letters, digits, `.`, `_` and `-`, at most 40"
        advice = letters if name is not None else "choose another one with --name"
        raise RemotesError(f"{chosen!r} cannot be the name of a remote: {advice}")
    return Remote(chosen, host, command)


def _machine(host: str) -> str:
    """Return the name of the machine in `USER@HOST` or `ssh://USER@HOST:PORT`."""
    address = host.removeprefix(SCHEME)
    machine = address.rpartition("@")[2]
    return machine if address == host else machine.partition("/")[0].partition(":")[0]


def file_of(journal: Place) -> Path:
    """Return the file with the remotes of the daemon that has this journal."""
    return journal.with_name(f"{journal.name}.remotes.json") if isinstance(journal, Path) else remotes_path()


def load(path: Path) -> tuple[Remote, ...]:
    """Return the remotes in the order in which they were added. Raises `RemotesError`."""
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o022:
                raise RemotesError(f"{path} is not used: others may write to it")
            remotes = msgspec.json.decode(file.read(), type=_File).remotes
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RemotesError(f"{path} is not used: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemotesError(f"{path} is not used: {error}") from None
    for one in remotes:
        checked(one.host, one.name, one.command)
    return remotes


def store(path: Path, remotes: tuple[Remote, ...]) -> None:
    """Raises `RemotesError`."""
    if len(remotes) > MOST_REMOTES:
        raise RemotesError(f"there are {MOST_REMOTES} remotes; remove one first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, 0o600) as file:
            file.write(msgspec.json.format(msgspec.json.encode(_File(remotes))) + b"\n")
    except OSError as error:
        raise RemotesError(f"{path} cannot be written: {error.strerror}") from None
