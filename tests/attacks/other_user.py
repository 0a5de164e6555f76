"""Runs whole programs as another user of this machine, for tests that a function in a `Stranger` cannot do."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.stranger import USER

__all__ = ["BECOME", "NOBODY", "PYTHON_FOR_ALL", "needs_another_user", "running_as_nobody"]

NOBODY = pwd.getpwnam(USER)
LIFE = 60
"""Seconds after which a program is ended by an alarm."""

BECOME = ["setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups"]
ROOT = Path(__file__).parents[2]


def _first_closed(path: Path) -> Path | None:
    """Return the first folder on the way to a path that others cannot enter."""
    return next((one for one in (*reversed(path.parents), path) if not one.stat().st_mode & stat.S_IXOTH), None)


def _opened(paths: Iterable[str]) -> str:
    """Return shell commands that mount, over each folder that others cannot enter, one with nothing but these paths."""
    ways = {path: _first_closed(path) for path in map(Path, paths)}
    closed = {path: folder for path, folder in sorted(ways.items()) if folder is not None}
    kept = [f"mkdir /mnt/{number}; mount --bind {path} /mnt/{number}" for number, path in enumerate(closed)]
    hidden = [f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in sorted(set(closed.values()))]
    back = [f"mkdir -p {path}; mount --move /mnt/{number} {path}" for number, path in enumerate(closed)]
    return "\n".join(["mount -t tmpfs tmpfs /mnt", *kept, *hidden, *back, ""])


PYTHON_FOR_ALL = _opened({sys.base_prefix, sys.prefix, str(ROOT)})
"""Shell commands for a mount namespace of its own: they let others run this Python and this tree, wherever they are."""


def needs_another_user(function: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that acts as another user."""
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")(function)
    pytest.mark.programs("setpriv", "unshare")(function)
    return function


@contextmanager
def running_as_nobody(code: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python code as `nobody`, with pipes and without root's capabilities, for the duration of the block."""
    become = ["sh", "-euc", f'{PYTHON_FOR_ALL}exec "$@"', "sh", *BECOME, "--bounding-set=-all", "--"]
    bounded = f"import signal\nsignal.alarm({LIFE})\n{code}"
    command = ["unshare", "--mount", *become, sys.executable, "-c", bounded, *map(str, arguments)]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()
