"""Watches where an agent stores its sessions, a folder or a database: reports all sessions in it, and then changes.

Each runs in its own thread, because watching and listing thousands of folders takes time. Changes may be missed,
between a listing and the watch or when the system's queue overflows. So the folder is listed again periodically
(`rescan`), which reads no file. A database is looked at often, without opening it, and listed after each commit.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable

from watchfiles import watch

from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow.stores import Database, Found, Root, look_at, scan, state_of
from tooltap.normalizers.stream.reset import place_of

DEBOUNCE_MS = 50
STEP_MS = 20
TIMEOUT_MS = 1_000
"""How often a quiet watch returns, to check for a rescan."""
POLL = 1.0
"""Seconds between listings of a folder that cannot be watched."""
RETRY = 5.0
"""Seconds until a folder is listed again after an internal error."""


def watch_root(
    root: Root,
    *,
    polling: bool,
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Watch until `stop` is set; a folder that does not exist is waited for. `found` is called with every file, and
    again when a file may have changed; `trouble` with what cannot be read. `rescan`: seconds."""
    while not stop.is_set():
        try:
            found(scan(root, root.path, trouble))
            identity = _identity(root.path)
            if polling or identity is None:
                # watchfiles can poll as well, but misses the second of two changes within a second (1.3).
                stop.wait(POLL)
                continue
            try:
                _watch(root, identity, rescan, stop, found, trouble)
            except FileNotFoundError:
                pass  # the folder is gone: wait for another one
            except (OSError, RuntimeError) as error:  # the limit of watches is reached, or the file system has none
                trouble(OSError(None, f"listed periodically, because it cannot be watched: {error}", root.path))
                polling = True
        except Exception as error:  # an internal error
            faults.note("listing a folder failed; it is tried again later", place_of(error), error, folder=root.path)
            stop.wait(RETRY)


def _watch(
    root: Root,
    identity: tuple[int, int],
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Watch until the folder at the path is replaced."""
    listed = -math.inf  # something may have changed before the watch was set
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
        if time.monotonic() - listed >= rescan:
            listed = time.monotonic()
            found(scan(root, root.path, trouble))
        if _identity(root.path) != identity:
            return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


STEP = 0.05
"""Seconds between two looks at a database …"""
ABSENT_STEP = 1.0
"""… and at a place that has none."""
LIST_RETRY = 1.0
"""Seconds until sessions are listed again that could not be: a new database has no tables yet."""


def watch_database(
    root: Root,
    database: Database,
    *,
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Watch a database until `stop` is set. `found` is called with every session, and again when
    some may have changed; `trouble` with what cannot be read. `rescan`: seconds."""
    listed: object = ()
    due = 0.0
    while not stop.is_set():
        state = state_of(database.path)
        if state == listed and time.monotonic() < due:
            stop.wait(ABSENT_STEP if state is None else STEP)
            continue
        try:
            found([] if state is None else [one for one in database.list_sessions() if root.match(one.path)])
        except FileNotFoundError:
            continue
        except OSError as error:
            found([])
            if "no such table" not in str(error):
                trouble(error)
            stop.wait(LIST_RETRY)
        except Exception as error:  # an internal error
            faults.note(
                "listing a database failed; it is tried again later", place_of(error), error, file=database.path
            )
            stop.wait(LIST_RETRY)
        else:
            listed, due = state, time.monotonic() + rescan
