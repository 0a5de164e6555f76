"""What starting processes depends on: how many cores there are for them, and the environment they get."""

from __future__ import annotations

import os
import sys

__all__ = ["import_nothing_from_here", "usable_cores", "users_environment"]

SAFE_PATH = "PYTHONSAFEPATH"
_users_safe_path = os.environ.get(SAFE_PATH)


def usable_cores() -> int:
    """Return how many processor cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def import_nothing_from_here() -> None:
    """Keep Python processes that this one starts with `-m` or `-c` from importing modules of the current folder, which
    may be an agent's."""
    os.environ[SAFE_PATH] = "1"


def users_environment() -> dict[str, str]:
    """Return the environment for the user's own programs: the one in which tooltap was started."""
    environment = {name: value for name, value in os.environ.items() if name != SAFE_PATH}
    return environment if _users_safe_path is None else {**environment, SAFE_PATH: _users_safe_path}
