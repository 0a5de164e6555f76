"""Watches one folder of session files: tells what is there, and then what changes.

Runs in a thread of its own: setting a watch on thousands of folders, and looking through them, takes its time. Changes
may be missed (between a look and the watch, when the system's queue overflows), so that it looks again from time to
time; that costs a listing of the folders, and reads no file.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable

from watchfiles import watch

from tooltap.daemon.taps.follow.places import Found, Root, look_at, scan

__all__ = ["watch_root"]

DEBOUNCE_MS = 50
STEP_MS = 20
TIMEOUT_MS = 1_000
"""How often a quiet watch is looked after."""
POLL = 1.0
"""Seconds between looks where nothing is reported."""


def watch_root(
    root: Root,
    *,
    polling: bool,
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Until `stop` is set. `found` is told of every file, and again when it may have changed. A folder that does not
    exist is waited for. `rescan`: seconds."""
    while not stop.is_set():
        found(scan(root, root.path, trouble))
        identity = _identity(root.path)
        if polling or identity is None:
            # watchfiles polls as well, but takes two changes within a second for one (1.3).
            stop.wait(POLL)
            continue
        try:
            _watch(root, identity, rescan, stop, found, trouble)
        except FileNotFoundError:
            continue
        except (OSError, RuntimeError) as error:  # the system watches no more, or not this file system
            trouble(OSError(None, f"looked through again and again, as it cannot be watched: {error}", root.path))
            polling = True


def _watch(
    root: Root,
    identity: tuple[int, int],
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Until the folder is another one."""
    looked = -math.inf  # something may have changed before the watch was set
    for changes in watch(
        root.path,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=TIMEOUT_MS,
        yield_on_timeout=True,
        force_polling=False,
        ignore_permission_denied=True,
    ):
        if changes:
            found(one for _, path in sorted(changes) for one in look_at(root, path, trouble))
        if time.monotonic() - looked >= rescan:
            looked = time.monotonic()
            found(scan(root, root.path, trouble))
        if _identity(root.path) != identity:
            return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
