"""The daemon as an agent of launchd, on macOS: its property list, and where that is."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tooltap.daemon.system.services.systemd import variables

LABEL = "tooltap"
MARK = "<!-- Written by `tooltap service install`, which writes it anew. -->"
LOG = "Library/Logs/tooltap.log"
_BEGIN = "<plist "


def plist(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The property list (launchd.plist(5)). `command`: the absolute path of a program, and its arguments.
    `environment`: provides `variables`."""
    text = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": {name: environment[name] for name in variables() if environment.get(name)},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "Umask": 0o077,
            "StandardErrorPath": str(Path.home() / LOG),
        },
        sort_keys=False,
    ).decode()
    return text.replace(_BEGIN, f"{MARK}\n{_BEGIN}", 1)


def plist_path() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def is_ours(path: Path) -> bool:
    """Whether tooltap wrote the file. Raises `OSError` if it cannot be read."""
    return MARK in path.read_text(errors="replace")
