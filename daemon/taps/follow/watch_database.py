"""Watches a database in which an agent stores its sessions: reports all sessions in it, and then changes.

Like `watch.py`, it runs in a thread of its own. It looks for commits often and without opening the database.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow.database import list_sessions, state_of
from tooltap.daemon.taps.follow.places import Found, Root
from tooltap.normalizers.stream.guard import place_of

__all__ = ["watch_database"]

STEP = 0.05
"""Seconds between two looks at a database …"""
ABSENT_STEP = 1.0
"""… and at a place that has none."""
RETRY = 1.0
"""Seconds until sessions are listed again that could not be: a new database has no tables yet."""


def watch_database(
    root: Root,
    name: str,
    *,
    rescan: float,
    stop: threading.Event,
    found: Callable[[Iterable[Found]], None],
    trouble: Callable[[OSError], None],
) -> None:
    """Watch the database `name` in a folder until `stop` is set. `found` is called with every session, and again when
    some may have changed; `trouble` with what cannot be read. `rescan`: seconds."""
    path = os.path.join(root.path, name)
    listed: object = ()
    due = 0.0
    while not stop.is_set():
        state = state_of(path)
        if state == listed and time.monotonic() < due:
            stop.wait(ABSENT_STEP if state is None else STEP)
            continue
        try:
            found([] if state is None else [one for one in list_sessions(path) if root.match(one.path)])
        except FileNotFoundError:
            continue
        except OSError as error:
            found([])
            if "no such table" not in str(error):
                trouble(error)
            stop.wait(RETRY)
        except Exception as error:  # an internal error
            faults.note("listing a database failed; it is tried again later", place_of(error), error, file=path)
            stop.wait(RETRY)
        else:
            listed, due = state, time.monotonic() + rescan
