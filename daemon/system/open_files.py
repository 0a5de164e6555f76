"""How many files and sockets this process may have open."""

from __future__ import annotations

import resource

from tooltap.daemon.system.logs import get_logger

__all__ = ["allow_open_files"]

_log = get_logger("process")


def allow_open_files(wanted: int) -> None:
    """Raise the limit of open files, which on many systems is 256 or 1,024, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        except (OSError, ValueError):
            _log.warning("the limit of open files cannot be raised", limit=soft, wanted=wanted)
