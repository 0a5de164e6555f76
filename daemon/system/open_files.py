"""The limit on open files and sockets of this process."""

from __future__ import annotations

import resource

from tooltap.daemon.system.logs import get_logger

__all__ = ["allow_open_files"]

_log = get_logger("process")


def allow_open_files(wanted: int) -> None:
    """Raise the limit, which is 256 or 1,024 on many systems, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        except (OSError, ValueError):
            _log.warning("cannot raise the limit of open files", limit=soft, wanted=wanted)
