"""Which streams retention may delete, in what order, and which of them only together.

A session is there as a whole or not at all. So streams that have a session in common are one group, also by way of
others: it is deleted when all of its streams have ended, and none of its sessions is pinned. By age expires what only
taps have sent: a group that has a stream from an agent's own store is kept. By size, the groups whose events happened
first go first, whenever they were ingested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class ListedStream(NamedTuple):
    """A stream that has not been deleted."""

    stream: str
    is_ended: bool
    is_followed: bool
    """Whether it is from an agent's own store."""
    updated: int
    """Time of its last commit. All times are in ms since the epoch."""
    sessions: Mapping[str, int]
    """Its sessions -> when the latest event of each happened, in whatever stream; 0: unknown. A session file has one
    even if it has no events, because a tap has reported them all."""


class Group(NamedTuple):
    """Streams that may be deleted, and only together."""

    streams: Mapping[str, int]
    """Stream -> time of its last commit."""
    happened: int
    """When the latest event happened."""
    is_old: bool
    """True if it expires by age."""


def expiring(streams: Iterable[ListedStream], before: int, pinned: Collection[str]) -> list[Group]:
    """The groups that may be deleted: those that are old, and then all others; of both, those whose latest events
    happened first are first. `before`: what happened and was ingested earlier is old; `pinned`: sessions that are
    kept."""
    kept, found = set(pinned), []
    for group in _linked(streams):
        sessions = {name: happened for one in group for name, happened in one.sessions.items()}
        if not all(one.is_ended for one in group) or not kept.isdisjoint(sessions):
            continue
        updated = {one.stream: one.updated for one in group}
        happened = max(sessions.values(), default=0) or max(updated.values())
        is_old = max(happened, *updated.values()) < before and not any(one.is_followed for one in group)
        found.append(Group(updated, happened, is_old))
    return sorted(found, key=lambda group: (not group.is_old, group.happened, min(group.streams)))


def _linked(streams: Iterable[ListedStream]) -> list[list[ListedStream]]:
    """Put streams together that have a session in common."""
    alone: list[list[ListedStream]] = []
    of_session: dict[str, list[ListedStream]] = {}
    for stream in streams:
        if not stream.sessions:
            alone.append([stream])
            continue
        known = {id(group): group for name in stream.sessions if (group := of_session.get(name)) is not None}
        group = max(known.values(), key=len, default=[])
        for other in known.values():
            if other is not group:
                group += other
                of_session.update((name, group) for one in other for name in one.sessions)
        group.append(stream)
        of_session.update((name, group) for name in stream.sessions)
    return alone + list({id(group): group for group in of_session.values()}.values())
