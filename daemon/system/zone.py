"""The name of this machine's, or this process's, time zone."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo

_LINK = Path("/etc/localtime")
_NAME = Path("/etc/timezone")


def zone_name() -> str | None:
    """Return the IANA name of the time zone: `TZ`, else the system's; None if it has no name."""
    names = [os.environ["TZ"].removeprefix(":")] if os.environ.get("TZ") else _names_of_system()
    for name in names:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):  # not a name, a folder, or unknown
            continue
        return name
    return None


def _names_of_system() -> list[str]:
    found = []
    try:
        found.append(str(_LINK.resolve()).partition("zoneinfo/")[2])
        found.append(_NAME.read_text().strip())
    except (OSError, UnicodeError):
        pass
    return [name for name in found if name]
