"""Retention and removal, one step per transaction, and around the streams that cannot be deleted.

What keeps one stream from being deleted (a damaged page, a mistake of ours) concerns no other one. In each run those
that could not be deleted are left until all others are; then they are tried again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from tooltap.daemon.journal.interface import JournalError, UnstorableError
from tooltap.daemon.journal.sqlite.retention import Step, StuckError, expire_step, remove_step, size_of_step
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.guard import place_of

__all__ = ["MOST_NEW", "Deletion"]

MOST_NEW = 100
"""Streams that may fail in one run besides those that have failed before: more are a trouble of the journal."""

Take: TypeAlias = Callable[[Callable[[sqlite3.Connection], Step]], Awaitable[Step]]


class Deletion:
    """`take` takes a step in a transaction of its own; `arrived`: how many events were ever committed."""

    def __init__(self, take: Take, arrived: Callable[[], int]) -> None:
        self._take = take
        self._arrived = arrived
        self._stuck: set[str] = set()
        """Streams that are left for now."""
        self._earlier: set[str] = set()
        """Those that had failed before this run."""

    async def expire(self, before: int, forget_before: int, max_bytes: int | None) -> int:
        """As `Journal.expire`. `forget_before`: what is forgotten of streams that expired."""
        step = partial(
            expire_step, before=before, forget_before=forget_before, max_bytes=max_bytes, skipped=self._stuck
        )
        self._earlier = set(self._stuck)
        deleted = await self._delete(step)
        if self._earlier:
            self._stuck -= self._earlier
            deleted += await self._delete(step)
        return deleted

    async def remove_session(self, session: str) -> int:
        """As `Journal.remove_session`."""
        try:
            return await self._delete(partial(remove_step, session=session))
        except UnstorableError as error:
            faults.note("a session could not be removed", place_of(error), error, session=session)
            raise

    async def _delete(self, step: Callable[..., Step]) -> int:
        """Commits get their turn between two steps. Returns how many events were deleted."""
        deleted, known = 0, self._arrived()
        while True:
            budget = size_of_step(self._arrived() - known)
            known = self._arrived()
            try:
                taken = await self._take(partial(step, budget=budget))
            except StuckError as error:
                self._leave(error)
                continue
            deleted += taken.events
            if taken.done:
                return deleted

    def _leave(self, error: StuckError) -> None:
        """Leave a stream, which is logged once. Raises `JournalError` if there are too many."""
        self._stuck.add(error.stream)
        if error.stream in self._earlier:
            return
        cause = error.__cause__ or error
        what = "a stream could not be deleted; it is tried again later"
        faults.note(what, place_of(cause), cause, stream=error.stream)
        if len(self._stuck - self._earlier) > MOST_NEW:
            raise JournalError(f"more than {MOST_NEW} streams could not be deleted, the last one because of: {cause}")
