"""Watches one folder of session files: tells what is there, and then what changes.

Runs in a thread of its own: setting a watch on thousands of folders, and looking through them, takes its time. Changes
may be missed (between a look and the watch, when the system's queue overflows), so that it looks again from time to
time; that costs a listing of the folders, and reads no file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import watch

from tooltap.daemon.follow_places import Found, Root, look_at, scan

__all__ = ["watch_root"]

DEBOUNCE_MS = 50
STEP_MS = 20
TIMEOUT_MS = 1_000
"""How often a quiet watch is looked after."""
POLL_MS = 500


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
        found(list(scan(root, root.path, trouble)))
        identity = _identity(root.path)
        if identity is None:
            stop.wait(TIMEOUT_MS / 1000)
            continue
        try:
            _watch(root, identity, polling, rescan, stop, found, trouble)
        except FileNotFoundError:
            continue
        except (OSError, RuntimeError) as error:  # the system watches no more, or not this file system
            trouble(OSError(None, f"changes are looked for by polling: {error}", root.path))
            polling = True


def _watch(
    root: Root,
    identity: tuple[int, int],
    polling: bool,
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Until the folder is another one."""
    looked = 0.0
    for changes in watch(
        Path(root.path),
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=TIMEOUT_MS,
        yield_on_timeout=True,
        force_polling=polling or None,
        poll_delay_ms=POLL_MS,
        ignore_permission_denied=True,
    ):
        if changes:
            found([one for _, path in sorted(changes) for one in look_at(root, path, trouble)])
        if time.monotonic() - looked >= rescan:
            looked = time.monotonic()
            found(list(scan(root, root.path, trouble)))
        if _identity(root.path) != identity:
            return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
