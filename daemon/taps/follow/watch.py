"""Watches the folders and databases in which agents store their sessions: reports all sessions in them, then changes.

One thread watches all of them, so that an idle daemon wakes once a second: to see whether a folder is there, or another
one. Each folder is watched before it is listed, so that nothing between the two is missed. It is listed again
periodically (`rescan`), without reading files, for changes that the system did not report, and where the system says
that it dropped some. A folder that cannot be watched is listed periodically instead; if it has too many folders, those
in which sessions were written last are watched, too. A folder on a file system that others change (`mounts.py`) is
watched and listed. When something is mounted or unmounted in a folder, or where its links lead, it is listed as a new
one. A database is looked at without opening it, often while it changes, and its sessions are listed after each commit.

A listing may take seconds. What the system reports meanwhile is reported at once, and not after it.
"""

from __future__ import annotations

import errno
import heapq
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow.mounts import Mount, concerning, is_below, read_mounts, remote_type
from tooltap.daemon.taps.follow.notify import Notifier, notifier
from tooltap.daemon.taps.follow.stores import Database, Found, Root, Roots, look_at, scan
from tooltap.normalizers.stream.reset import place_of

PERIOD = 1.0
"""Seconds between two looks at each folder and database, and between listings of a folder that cannot be watched."""
RETRY = 5.0
"""Seconds until a place is listed again after an error."""
STEP = 0.05
"""Seconds between two looks at a database that has changed within `ACTIVE`."""
ACTIVE = 2.0
POLL_SHARE = 0.1
"""Most of the time that is spent listing a folder that cannot be watched."""
LATEST = 128
"""Most folders that are watched of a place that has too many."""
LISTING_STEP = 0.25
"""Seconds of a listing between two looks at what the system has reported meanwhile."""
RESCAN_SHARE = 0.002
"""Most of the time that is spent listing a watched folder again."""


@dataclass(slots=True)
class _Place:
    root: Root
    is_polled: bool
    """Whether it is listed periodically, and not watched."""
    reason: str | None = None
    """Why it cannot be watched; None if it can, or the user does not want it."""
    identity: tuple[int, int] | None = None
    """Device and inode of the folder that was listed; None if it was absent."""
    state: object = None
    """State of the database, or of the files with names that are known, when it was listed."""
    due: float = -math.inf
    """Monotonic time of the next listing."""
    active: float = -math.inf
    """Monotonic time until which a database is looked at often."""
    watched: int = 0
    """Folders and files that were watched since it was last listed."""
    most: int = 0
    """Most folders to watch though it is polled: fewer than it had when the limit was reached, so that others have
    some, too."""
    latest: set[str] = field(default_factory=set)
    """These folders: those in which sessions were written last, and those above them."""
    links: set[str] = field(default_factory=set)
    """Where links in the folder lead."""
    mounts: frozenset[Mount] = frozenset()
    """Those on which it depended when it was listed."""
    remote: str | None = None
    """Type of the remote file system on which a part of it is; None if there is none."""
    noted: Listed | None = None
    """What was reported last of how it is listed."""

    @property
    def is_listed(self) -> bool:
        """Whether it is listed periodically because not all of its changes are reported."""
        return self.is_polled or self.remote is not None


@dataclass(slots=True)
class _List:
    """A list of roots, and its state (`Roots.state`) when it was read, and when it could not be read."""

    roots: Roots
    named: set[Root] = field(default_factory=set)
    """The roots that are watched because the list names them."""
    read: object = None
    tried: object = None
    failed: object = None
    """State in which it could not be read twice, which has been reported."""


class Listed(NamedTuple):
    """A folder that is listed periodically."""

    reason: str | None
    """Why it cannot be watched; None if it is, or the user wants it."""
    remote: str | None
    """Type of the remote file system on which a part of it is; None if there is none."""
    delay: float
    """Most seconds after which a change is noticed, at the pace of the latest listing."""
    latest: int
    """Number of folders in it that are watched nevertheless."""


class Watcher:
    """Watches roots: `run` returns after `stop`. It waits for places that do not exist yet."""

    def __init__(
        self,
        roots: Iterable[Root],
        lists: Iterable[Roots],
        polling: bool,
        rescan: float,
        most: int,
        found: Callable[[Root, Iterable[Found]], None],
        trouble: Callable[[OSError], None],
        listed: Callable[[str, Listed | None], None],
    ) -> None:
        """`lists`: what names further roots, which are listed before the others; `rescan`: least seconds between two
        full listings; `most`: folders and files to watch, 0: as many as the system allows. The functions are called in
        the thread of `run`. `found`: with all sessions of a root, and again with those that may have changed;
        `trouble`: with errors of listing; `listed`: with a folder that is listed periodically, also when its delay
        changes; with None when it no longer is."""
        self._mounts = read_mounts()
        self._is_polling = polling
        self._lists = [_List(one) for one in lists]
        self._places = [self._place(root) for root in roots]
        self._rescan = rescan
        self._found = found
        self._trouble = trouble
        self._listed = listed
        self._stopping = threading.Event()
        self._looked = math.inf
        """Monotonic time of the latest look at what the system has reported during a listing; infinite until everything
        was listed once."""
        self._notifier: Notifier | None = None
        self._reason = ""
        """Why nothing can be watched."""
        try:
            self._notifier = notifier(most)
        except OSError as error:
            self._reason = error.strerror or str(error)

    def stop(self) -> None:
        self._stopping.set()
        if self._notifier is not None:
            self._notifier.wake()

    def close(self) -> None:
        """Call this after `run` has returned."""
        if self._notifier is not None:
            self._notifier.close()

    def run(self) -> None:
        looked = -math.inf
        while not self._stopping.is_set():
            now = time.monotonic()
            is_due = now >= looked + PERIOD
            looked = now if is_due else looked
            for one in self._lists if is_due else ():
                self._look_at_list(one)
            for place in self._places:
                if is_due or place.active > now or place.due == -math.inf:
                    self._try(place, partial(self._look, place))
            self._looked = now = time.monotonic()
            is_active = any(place.active > now for place in self._places)
            self._report(STEP if is_active else max(0.0, looked + PERIOD - now))

    def _report(self, seconds: float) -> None:
        """Wait for changes, and report what they concern."""
        for place, paths in self._wait(seconds):
            self._try(place, partial(self._look_at, place, paths))

    def _try(self, place: _Place, work: Callable[[], None]) -> None:
        """Contain errors, so that one place does not affect the others."""
        try:
            if not self._stopping.is_set():
                work()
        except Exception as error:  # an internal error
            path = place.root.path
            faults.note("listing a folder failed; it is tried again later", place_of(error), error, folder=path)
            place.due = time.monotonic() + RETRY

    def _look(self, place: _Place) -> None:
        """List a place if it is due, has become another folder, or has a database with a new commit."""
        root = place.root
        identity = _identity(root.path)
        is_other = identity != place.identity
        if is_other:
            self._forget(place)
            place.identity = identity
        if isinstance(root.reader, Database):
            self._look_at_database(place, root.reader, is_other)
        elif root.place.names:
            self._look_at_names(place)
        elif is_other or time.monotonic() >= place.due:
            self._list(place)

    def _look_at_list(self, one: _List) -> None:
        """Watch what a list names, and no longer what it does not, after each change of it. A list that cannot be read
        is tried once more before that is reported, and one that is gone says nothing: the agent may be writing it."""
        state = one.roots.state
        if state is None or state in (one.read, one.failed):
            return
        try:
            named, number = one.roots.read()
        except OSError as error:
            if state == one.tried:
                one.failed = state
                self._trouble(error)
            one.tried = state
            return
        one.read, one.failed, one.tried = state, None, None
        if number > len(named):
            reason = f"of its {number:,} projects, only the first {len(named):,} are followed (follow.projects)"
            self._trouble(OSError(errno.ENOSPC, reason, one.roots.path))
        kept = {(place.root.place.dialect, place.root.path) for place in self._places if place.root not in one.named}
        wanted = {root for root in named if (root.place.dialect, root.path) not in kept}
        for place in [place for place in self._places if place.root in one.named - wanted]:
            self._forget(place)
            self._places.remove(place)
        new = [root for root in named if root in wanted - one.named]
        self._places[:0] = [self._place(root) for root in new]
        one.named = wanted

    def _place(self, root: Root) -> _Place:
        return _Place(root, self._is_polling, mounts=concerning(self._mounts, (root.path,)))

    def _list(self, place: _Place) -> None:
        root, begun = place.root, time.monotonic()
        place.links.clear()
        place.watched, place.due = 0, math.inf
        for folder in (root.path, *sorted(place.latest)) if place.most else ():
            self._watch_too(place, folder, folder)  # another place may have forgotten it
        found = list(scan(root, root.path, self._trouble, partial(self._watch, place)))
        spent = time.monotonic() - begun
        paths = (root.path, *place.links)
        place.mounts, place.remote = concerning(self._mounts, paths), remote_type(self._mounts, paths)
        least, share = (0.0, POLL_SHARE) if place.is_listed else (self._rescan, RESCAN_SHARE)
        if place.due != -math.inf:  # else it is to be listed once more
            place.due = begun + max(least, spent / share)
        self._found(root, found)
        if place.most:
            self._watch_latest(place, found)
        delay = round(max(PERIOD, spent / POLL_SHARE) + spent, 1)
        listed = Listed(place.reason, place.remote, delay, len(place.latest)) if place.is_listed else None
        if listed != place.noted:
            place.noted = listed
            self._listed(root.path, listed)

    def _watch_latest(self, place: _Place, found: list[Found]) -> None:
        """Watch the folders in which sessions were written last, and those above them, where new ones begin."""
        root, latest = place.root, {place.root.path}
        for one in heapq.nlargest(place.most, found, key=lambda one: one.mtime):
            above = [str(folder) for folder in PurePath(one.path).parents if is_below(str(folder), root.path)]
            if len(latest.union(above)) > place.most:
                break
            latest.update(above)
        for folder in place.latest - latest:
            self._forget_below(place, folder)
        added, place.latest = latest - place.latest, place.latest & latest
        for folder in sorted(added):
            self._watch_too(place, folder, folder)
        # What has changed in them between the listing and now.
        again = [path for folder in sorted(added) for path in _files_in(folder)]
        self._found(root, [one for path in again for one in look_at(root, path, self._trouble)])

    def _watch_too(self, place: _Place, path: str, name: str) -> None:
        """Watch a folder of a place that is listed anyway."""
        if self._notifier is not None:
            with suppress(OSError):
                self._notifier.watch(path, name)
                place.latest.add(name)

    def _look_at_mounts(self) -> None:
        """Have a place listed as a new one when what is mounted in it, or where its links lead, has changed."""
        self._mounts = read_mounts()
        for place in self._places:
            mounts = concerning(self._mounts, (place.root.path, *place.links))
            if mounts != place.mounts:
                self._forget(place)
                place.mounts, place.identity, place.due = mounts, None, -math.inf

    def _look_at_database(self, place: _Place, database: Database, is_other: bool) -> None:
        folder = place.root.path
        if is_other and place.identity is not None and self._notifier is not None and not self._notifier.is_recursive:
            with suppress(OSError):  # it is looked at anyway, only less often
                self._notifier.watch(folder, folder)
        begun, state = time.monotonic(), database.state
        if state == place.state and begun < place.due:
            return
        if state != place.state:
            place.state, place.active = state, begun + ACTIVE
        troubles: list[OSError] = []
        self._found(place.root, [one for one in database.list_sessions(troubles.append) if place.root.match(one.path)])
        for trouble in troubles:
            if "no such table" not in str(trouble):  # a new one may have none yet
                self._trouble(trouble)
        place.due = begun + (RETRY if troubles else max(self._rescan, (time.monotonic() - begun) / RESCAN_SHARE))

    def _look_at_names(self, place: _Place) -> None:
        found = list(scan(place.root, place.root.path, self._trouble))
        if found != place.state:
            place.state = found
            self._found(place.root, found)

    def _look_at(self, place: _Place, paths: Iterable[str]) -> None:
        """Report what changes at these paths concern."""
        root, watch = place.root, partial(self._watch_too if place.most else self._watch, place)
        if isinstance(root.reader, Database):
            place.active = time.monotonic() + ACTIVE
            return
        self._found(root, (one for path in paths for one in look_at(root, path, self._trouble, watch)))

    def _wait(self, seconds: float) -> list[tuple[_Place, list[str]]]:
        """Wait for changes, and return their paths by place. If some were dropped, all places are due."""
        if self._notifier is None:
            self._stopping.wait(seconds)
            return []
        try:
            changes = self._notifier.wait(seconds)
        except OSError as error:
            for place in self._places:
                self._poll(place, error.strerror or str(error))
            return []
        if changes.mounted:
            self._look_at_mounts()
        changed = []
        for place in self._places:
            path = place.root.path
            if changes.missed:
                place.due = -math.inf
            if path in changes.paths:  # a new folder may have got the number of the deleted one
                place.identity, place.due = None, -math.inf
            if paths := [one for one in changes.paths if one != path and is_below(one, path)]:
                changed.append((place, paths))
        return changed

    def _watch(self, place: _Place, path: str, name: str) -> None:
        """Watch a folder or file of a place; if that is impossible, list the place periodically. `path` is not `name`
        for what a link leads to."""
        if time.monotonic() >= self._looked + LISTING_STEP:
            self._looked = math.inf  # not again while it reports
            self._report(0.0)
            self._looked = time.monotonic()
        if path != name:
            place.links.add(path)
        if place.is_polled:
            return
        if self._notifier is None:
            self._poll(place, self._reason)
            return
        try:
            self._notifier.watch(path, name)
            place.watched += 1
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # listing says what is wrong
            pass
        except OSError as error:
            self._poll(place, error.strerror or str(error))

    def _poll(self, place: _Place, reason: str) -> None:
        if not (place.is_polled or isinstance(place.root.reader, Database)):
            place.is_polled, place.reason, place.due = True, reason, time.monotonic()
            place.most = min(LATEST, place.watched // 2)
            self._forget(place)

    def _forget(self, place: _Place) -> None:
        """Watch nothing of a place."""
        place.latest.clear()
        self._forget_below(place, place.root.path)

    def _forget_below(self, place: _Place, folder: str) -> None:
        """Watch nothing of a place in this folder. What another place has in common with it is watched again."""
        if self._notifier is None:
            return
        self._notifier.forget(folder)
        for other in self._places:
            if other is not place and (is_below(folder, other.root.path) or is_below(other.root.path, folder)):
                other.due = -math.inf


def _files_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.path for one in entries if not one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
