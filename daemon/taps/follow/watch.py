"""Watches a folder or database in which an agent stores its sessions: reports all sessions in it, and then changes.

Each watch has its own thread, because watching and listing thousands of folders takes time. Changes may be missed
between listing and watching, or when the system's queue overflows. So the folder is listed again periodically
(`rescan`), without reading files. Watching a folder includes those that are linked in it, but not single files, so
these are watched themselves. A database is polled without opening it, and its sessions are listed after each commit.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from watchfiles import Change, watch

from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow.stores import Database, Found, Root, look_at, scan
from tooltap.normalizers.stream.reset import place_of

DEBOUNCE_MS = 50
STEP_MS = 20
TIMEOUT_MS = 1_000
"""Milliseconds after which a watch without changes returns, to check for a rescan."""
POLL = 1.0
"""Seconds between listings of a folder that cannot be watched."""
RETRY = 5.0
"""Seconds until a folder is listed again after an internal error."""
STEP = 0.05
"""Polling interval of a database, in seconds."""
ABSENT_STEP = 1.0
"""Polling interval in seconds while there is no database."""
LIST_RETRY = 1.0
"""Seconds after which a failed listing of a database is retried: a new one may have no tables yet."""


class Watch(NamedTuple):
    """Watch of one folder or database; `run` ends when `stop` is set. It waits for a place that does not exist yet."""

    root: Root
    polling: bool
    rescan: float
    """Seconds between two full listings."""
    stop: threading.Event
    found: Callable[[Iterable[Found]], None]
    """Called with all sessions, and again with those that may have changed."""
    trouble: Callable[[OSError], None]
    """Called with errors of listing and watching."""

    def run(self) -> None:
        if isinstance(self.root.reader, Database):
            self._run_database(self.root.reader)
        else:
            self._run_folder()

    def _run_folder(self) -> None:
        path, polling = self.root.path, self.polling
        while not self.stop.is_set():
            try:
                files = list(scan(self.root, path, self.trouble))
                self.found(files)
                identity = _identity(path)
                if polling or identity is None:
                    # watchfiles can poll as well, but misses the second of two changes within a second (1.3).
                    self.stop.wait(POLL)
                    continue
                try:
                    self._watch(identity, _linked(files))
                except FileNotFoundError:
                    pass  # the folder is gone, or a linked file: wait for another one
                except (OSError, RuntimeError) as error:  # the limit of watches is reached, or the file system has none
                    self.trouble(OSError(None, f"listed periodically, because it cannot be watched: {error}", path))
                    polling = True
            except Exception as error:  # an internal error
                faults.note("listing a folder failed; it is tried again later", place_of(error), error, folder=path)
                self.stop.wait(RETRY)

    def _watch(self, identity: tuple[int, int], linked: Mapping[str, Sequence[str]]) -> None:
        """Watch until the path has a different folder, or there are other links. `linked`: see `_linked`."""
        path = self.root.path
        links = {link for several in linked.values() for link in several}
        listed = -math.inf  # something may have changed before the watch was set
        for changes in watch(
            path,
            *linked,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            stop_event=self.stop,
            rust_timeout=TIMEOUT_MS,
            yield_on_timeout=True,
            force_polling=False,
            ignore_permission_denied=True,
        ):
            names = [name for _, changed in sorted(changes) for name in linked.get(changed, (changed,))]
            if names:
                self.found(one for name in names for one in look_at(self.root, name, self.trouble))
            if time.monotonic() - listed >= self.rescan:
                listed = time.monotonic()
                files = list(scan(self.root, path, self.trouble))
                self.found(files)
                if _linked(files) != linked:
                    return
            # A new folder may have got the number of the deleted one.
            if (Change.deleted, path) in changes or _identity(path) != identity:
                return
            # A linked file was replaced, or another one was linked.
            is_gone = any(kind is Change.deleted and changed in linked for kind, changed in changes)
            if is_gone or any(name not in links and os.path.islink(name) for name in names):
                return

    def _run_database(self, database: Database) -> None:
        listed: object = ()
        due = 0.0
        while not self.stop.is_set():
            state = database.state
            if state == listed and time.monotonic() < due:
                self.stop.wait(ABSENT_STEP if state is None else STEP)
                continue
            troubles: list[OSError] = []
            try:
                self.found([one for one in database.list_sessions(troubles.append) if self.root.match(one.path)])
            except Exception as error:  # an internal error
                faults.note(
                    "listing a database failed; it is tried again later", place_of(error), error, folder=self.root.path
                )
                self.stop.wait(LIST_RETRY)
            else:
                for trouble in troubles:
                    if "no such table" not in str(trouble):
                        self.trouble(trouble)
                if troubles:
                    self.stop.wait(LIST_RETRY)
                else:
                    listed, due = state, time.monotonic() + self.rescan


def _linked(files: Iterable[Found]) -> dict[str, list[str]]:
    """Return the files that single links among these lead to, and the links to each."""
    linked: dict[str, list[str]] = {}
    for one in files:
        if os.path.islink(one.path):
            linked.setdefault(os.path.realpath(one.path), []).append(one.path)
    return linked


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
