"""Deleting from the journal: streams that ended long ago, more than `max_bytes`, and removed sessions.

What may be deleted, in what order, and what only together says `expiring.py`. Before any group of streams is deleted
because of the size, the output bodies of the older half of the groups go (`Plan`): the newer half keeps its bodies
until then. A group's streams are deleted in the order of their first events. So if that is interrupted, or one of them
is resumed meanwhile, the first event of the session is gone, which tells its readers that events are missing.

The position of an ended stream (`without_content`) outlives its events, so that a late publisher does not start again
at line 0, and a session file is not read again before its user asks.

What is deleted, and in what order, is planned once (`groups_to_delete`), by a reader: commits do not wait for it.

Each step is one transaction of bounded cost, as commits wait for it. The transaction that deletes events also raises
`expired` in `meta`, so readers can report a gap for every missing event, and adds to the totals of what retention has
removed (`Journal.removed`), so that nothing is counted twice, or not at all.

Failures are isolated: a stream that cannot be deleted (a damaged page, a bug) does not hold up others. In each run,
streams that failed before are skipped until all others are deleted, and then retried.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.expiring import Group, ListedStream, expiring
from tooltap.daemon.journal.interface import (
    OUTPUT_ID,
    REMOVED,
    JournalError,
    NotEndedError,
    RemovedBody,
    StreamInfo,
    UnstorableError,
    decode_removed,
    place_of_output,
    without_content,
)
from tooltap.daemon.journal.sqlite.damage import is_unreadable
from tooltap.daemon.journal.sqlite.tables import (
    STREAM_SUM,
    get_meta,
    note_key,
    removed_key,
    set_meta,
    verified_meta,
)
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import decode, head_of
from tooltap.protocol.stats import Removed, RetentionStatistics

STEP = 500
"""Cost of a step, in events. Deleting them takes about 1.5 ms, during which commits wait."""
LONGEST_STEP = 10_000
CHUNK = 12
STREAM = 10
"""Cost in events of deleting a chunk of an output body (`CHUNK`), and the remaining rows of a stream (`STREAM`)."""
VACUUM_PAGES = 64
"""Free pages returned to the file system by one step; more if it deletes many events. 500 events are about 20 pages."""

EXPIRED_SUM = STREAM_SUM.format(state="state", updated="updated", expired="1")
KEPT_SUM = STREAM_SUM.format(state="state", updated="updated", expired="expired")


class DeletionStep(NamedTuple):
    """The result of one transaction."""

    events: int
    """Number of deleted events."""
    oldest: int | None
    """`seq` of the oldest event left."""
    expired: int
    """The highest `seq` ever deleted."""
    done: bool
    removed: RetentionStatistics = RetentionStatistics()
    """What retention has removed in this step."""
    total: RetentionStatistics | None = None
    """What it has removed since the journal was created; None if that has not changed."""


class StuckError(Exception):
    """A stream cannot be deleted, for a reason that concerns it alone (`__cause__`)."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.stream = stream


def size_of_step(arrived: int) -> int:
    """The budget of a step, in events, if `arrived` were committed since the last one: deletion must outpace
    commits."""
    return min(max(STEP, 2 * arrived), LONGEST_STEP)


def groups_to_delete(
    connection: sqlite3.Connection, before: int, max_bytes: int | None, pinned: Collection[str]
) -> list[Group]:
    """What may be deleted now: what is old, and then, if the journal has more than `max_bytes`, all others that have
    ended. `before`: see `expiring`."""
    is_too_long = max_bytes is not None and _used(connection) > max_bytes
    if not is_too_long and not connection.execute(f"SELECT 1 FROM streams WHERE {_AGED}", (before,)).fetchone():
        return []
    found = expiring(_listed(connection), before, pinned)
    return found if is_too_long else [group for group in found if group.is_old]


_AGED = "state='ended' AND expired=0 AND followed=0 AND updated<?"
_LISTED = """
SELECT stream, state='ended', followed, updated, session, last_ts
 FROM streams LEFT JOIN session_streams USING (stream) LEFT JOIN sessions USING (session)
 WHERE expired=0 ORDER BY stream
"""


def _listed(connection: sqlite3.Connection) -> Iterator[ListedStream]:
    of_files = dict(_sessions_of_files(connection))
    for (stream, *facts), rows in groupby(connection.execute(_LISTED), key=lambda row: row[:4]):
        sessions = {session: last_ts or 0 for *_, session, last_ts in rows if session is not None}
        if (of_file := of_files.get(stream)) is not None:
            sessions.setdefault(of_file, 0)
        is_ended, is_followed, updated = facts
        yield ListedStream(stream, bool(is_ended), bool(is_followed), updated, sessions)


class _Named(msgspec.Struct):
    """The session of a stream, as its info has it."""

    session: str | None = None
    last_session: str | None = None


# Created at import: two threads that decode a type for the first time at once crash msgspec 0.22.
_named_decoder = msgspec.json.Decoder(_Named)


class _Renamed(msgspec.Struct):
    """The earlier ids of a session, as its row has them."""

    first_seq: int = 0
    aliases: dict[str, int] = {}
    """Id -> `seq` of its last event under it."""


_renamed_decoder = msgspec.json.Decoder(_Renamed)
_info_decoder = msgspec.json.Decoder(StreamInfo)


def _sessions_of_files(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for stream, info in connection.execute("SELECT stream, info FROM streams WHERE followed=1 AND expired=0"):
        with suppress(msgspec.MsgspecError, TypeError, UnicodeDecodeError):  # damaged
            named = _named_decoder.decode(info)
            if (session := named.last_session or named.session) is not None:
                yield stream, session


class Target(NamedTuple):
    """What is to be deleted next: a stream, or all its output bodies."""

    group: Group
    stream: str
    only_bodies: bool


class Plan:
    """The groups that are still to be deleted in a run, and the streams that lose their output bodies before."""

    def __init__(self, found: Sequence[Group] = ()) -> None:
        self._left = deque(found)
        by_size = [group for group in found if not group.is_old]
        older = by_size[: (len(by_size) + 1) // 2]
        self._with_bodies = deque((group, stream) for group in older for stream in group.streams)
        self._begun: tuple[Group, deque[str]] | None = None
        """The group that is being deleted, and its streams that are left."""

    def next(self, connection: sqlite3.Connection, max_bytes: int | None, skipped: Collection[str]) -> Target | None:
        """What to delete next; None if there is nothing, or no need. A group that has been begun is deleted as a
        whole."""
        while True:
            if self._begun is not None:
                group, streams = self._begun
                while streams:
                    if _is_as_planned(connection, group, streams[0]):
                        return Target(group, streams[0], only_bodies=False)
                    streams.popleft()
            if not self._left:
                return None
            group = self._left[0]
            if not group.is_old:
                if max_bytes is None or _used(connection) <= max_bytes:
                    return None
                if (with_bodies := self._next_with_bodies(connection, skipped)) is not None:
                    return Target(*with_bodies, only_bodies=True)
            self._left.popleft()
            if _is_whole(connection, group) and not any(stream in skipped for stream in group.streams):
                self._begun = group, deque(sorted(group.streams, key=partial(_first_seq, connection)))

    def _next_with_bodies(self, connection: sqlite3.Connection, skipped: Collection[str]) -> tuple[Group, str] | None:
        while self._with_bodies:
            group, stream = self._with_bodies[0]
            has_bodies = connection.execute("SELECT 1 FROM bodies WHERE stream=?", (stream,)).fetchone()
            if has_bodies and stream not in skipped and _is_whole(connection, group):
                return group, stream
            self._with_bodies.popleft()
        return None


def _is_as_planned(connection: sqlite3.Connection, group: Group, stream: str) -> bool:
    """Whether a stream of the group has not been resumed since, nor deleted."""
    sql = "SELECT 1 FROM streams WHERE stream=? AND state='ended' AND expired=0 AND updated=?"
    return connection.execute(sql, (stream, group.streams[stream])).fetchone() is not None


def _is_whole(connection: sqlite3.Connection, group: Group) -> bool:
    """Whether no stream of the group has been resumed since, and no other has begun to report its sessions."""
    sql = (
        "SELECT other.stream FROM session_streams AS one JOIN session_streams AS other USING (session)"
        " WHERE one.stream=?"
    )
    return all(
        _is_as_planned(connection, group, stream)
        and all(other in group.streams for (other,) in connection.execute(sql, (stream,)))
        for stream in group.streams
    )


def _first_seq(connection: sqlite3.Connection, stream: str) -> int:
    """`seq` of the first event of a stream; 0 if it has none."""
    first = "SELECT min(seq) FROM events WHERE source=sources.id"
    sql = f"SELECT coalesce(min(({first})), 0) FROM sources WHERE stream=?"
    return int(connection.execute(sql, (stream,)).fetchone()[0])


def expire_step(
    connection: sqlite3.Connection,
    plan: Plan,
    forget_before: int,
    max_bytes: int | None,
    budget: int,
    now: int,
    skipped: Collection[str] = (),
) -> DeletionStep:
    """Delete one transaction's worth of what is planned. `forget_before`: the rows of expired streams whose last commit
    is older are deleted, too (ms since the epoch), save those of session files; `budget`: in events; `now`: ms since
    the epoch; `skipped`: streams left untouched. Raises `StuckError`."""
    by_age, by_size = Removed(), Removed()
    done = False
    while budget > 0:
        target = plan.next(connection, max_bytes, skipped)
        if target is None:
            forgotten = "state='ended' AND expired=1 AND updated<? AND followed=0"
            connection.execute(f"DELETE FROM streams WHERE {forgotten}", (forget_before,))
            _forget_labels(connection)
            done = True
            break
        try:
            if target.only_bodies:
                removed, cost = _delete_one_body(connection, target, max_bytes or 0, now)
            else:
                removed, cost = _shrink(connection, target.stream, min(budget, STEP))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not is_unreadable(error):
                raise  # the file cannot be written
            raise StuckError(target.stream) from error
        budget -= cost
        if removed != Removed():
            removed = msgspec.structs.replace(removed, at=now)
            if target.group.is_old:
                by_age = by_age.plus(removed)
            else:
                by_size = by_size.plus(removed)
    step = _step(connection, by_age.events + by_size.events, done=done)
    limit = None if by_size == Removed() else max_bytes
    return _with_total(connection, step, RetentionStatistics(age=by_age, size=by_size, size_limit=limit))


def _with_total(connection: sqlite3.Connection, step: DeletionStep, removed: RetentionStatistics) -> DeletionStep:
    """Add what the step has removed to the journal's total."""
    if removed == RetentionStatistics():
        return step
    key = note_key(REMOVED)
    note = verified_meta(connection, key)
    total = decode_removed(note if isinstance(note, bytes) else None).plus(removed)
    set_meta(connection, key, msgspec.json.encode(total))
    return step._replace(removed=removed, total=total)


def remove_step(connection: sqlite3.Connection, session: str, budget: int) -> DeletionStep:
    """Delete one transaction's worth of a session. Raises `NotEndedError`."""
    execute = connection.execute
    streams = execute(
        "SELECT stream, state FROM session_streams JOIN streams USING (stream) WHERE session=?", (session,)
    ).fetchall()
    for stream, state in streams:
        if state != "ended":
            raise NotEndedError(f"session {session} has not ended: its stream {stream} is {state}")
    for stream, _ in streams:
        shared = execute("SELECT 1 FROM session_streams WHERE stream=? AND session<>?", (stream, session)).fetchone()
        if shared is None:  # delete the whole stream, with the events before its session had a name
            return _step(connection, _shrink(connection, stream, budget)[0].events, done=False)
    events = _next_events(connection, "session", session, budget) or _next_earlier_events(connection, session, budget)
    for number, (seq, body) in enumerate(events):
        affordable = (budget - number) // CHUNK
        pieces = _delete_bodies(connection, body, affordable)
        if pieces >= affordable:  # the event is deleted after its bodies, which are found through it
            return _step(connection, number, done=False)
        budget -= CHUNK * pieces
        execute("DELETE FROM events WHERE seq=?", (seq,))
        _raise_expired(connection, seq)
    if events:
        return _step(connection, len(events), done=False)
    for table in ("sessions", "session_streams"):
        execute(f"DELETE FROM {table} WHERE session=?", (session,))
    for stream, _ in streams:
        _forget_lines(connection, stream)
        execute(f"UPDATE streams SET checksum={KEPT_SUM} WHERE stream=?", (stream,))
    _forget_labels(connection)
    return _step(connection, 0, done=True)


def forget_expired(connection: sqlite3.Connection, stream: str) -> bool:
    """Delete the row of an expired stream. Returns whether there was one."""
    return connection.execute("DELETE FROM streams WHERE stream=? AND expired=1", (stream,)).rowcount > 0


def _next_events(
    connection: sqlite3.Connection, column: Literal["stream", "session"], name: str, limit: int
) -> list[tuple[int, bytes]]:
    """The first events (`seq` and body) of one source of this stream or session. Deletes sources without events."""
    for source in connection.execute(f"SELECT id FROM sources WHERE {column}=?", (name,)).fetchall():
        events = connection.execute(
            "SELECT seq, body FROM events WHERE source=? ORDER BY seq LIMIT ?", (*source, limit)
        ).fetchall()
        if events:
            return events
        connection.execute("DELETE FROM sources WHERE id=?", source)
    return []


def _next_earlier_events(connection: sqlite3.Connection, session: str, limit: int) -> list[tuple[int, bytes]]:
    """The first events of a session that are stored under an id that it had earlier, which other sessions of its
    streams may have had, too (`listing.is_of`). Deletes sources without events."""
    row = connection.execute("SELECT data FROM sessions WHERE session=?", (session,)).fetchone()
    try:
        known = _Renamed() if row is None else _renamed_decoder.decode(row[0])
    except (msgspec.MsgspecError, UnicodeDecodeError):  # damaged
        known = _Renamed()
    for name, last in known.aliases.items():
        sources = (
            "SELECT id FROM sources WHERE session=? AND stream IN (SELECT stream FROM session_streams WHERE session=?)"
        )
        for source in connection.execute(sources, (name, session)).fetchall():
            events = connection.execute(
                "SELECT seq, body FROM events WHERE source=? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
                (*source, known.first_seq, last, limit),
            ).fetchall()
            if events:
                return events
            connection.execute(
                "DELETE FROM sources WHERE id=? AND NOT EXISTS (SELECT 1 FROM events WHERE source=sources.id)", source
            )
    return []


def _forget_labels(connection: sqlite3.Connection) -> None:
    """Delete unused labels. Negative labels stay: no index finds their events, and they are few, two per provider."""
    connection.execute(
        "DELETE FROM labels WHERE id>0 AND NOT EXISTS (SELECT 1 FROM events WHERE label=labels.id AND label>0)"
    )


def _delete_bodies(connection: sqlite3.Connection, event: bytes, limit: int) -> int:
    """Delete at most `limit` chunks of the output bodies that an event refers to and its stream owns; returns how
    many."""
    pieces = 0
    for output_id in OUTPUT_ID.findall(event):
        try:
            name, stream = msgspec.json.decode(output_id, type=str), decode(event).stream
        except msgspec.MsgspecError:  # the event is damaged; its bodies go with its stream
            continue
        found = connection.execute("SELECT id FROM bodies WHERE output_id=? AND stream=?", (name, stream)).fetchone()
        if found is None:
            continue
        pieces += connection.execute(
            "DELETE FROM pieces WHERE (body, start) IN (SELECT body, start FROM pieces WHERE body=? LIMIT ?)",
            (found[0], limit - pieces),
        ).rowcount
        if pieces >= limit:
            break
        connection.execute("DELETE FROM bodies WHERE id=?", found)
    return pieces


def _delete_one_body(connection: sqlite3.Connection, target: Target, limit: int, now: int) -> tuple[Removed, int]:
    """Delete an output body of a stream in one go, and note that: a reader finds it whole, or learns why it is not
    there, also after a crash. Returns what that is, and the cost in events."""
    body, size, output_id = connection.execute(
        "SELECT id, bytes, output_id FROM bodies WHERE stream=? ORDER BY id LIMIT 1", (target.stream,)
    ).fetchone()
    place = place_of_output(output_id)
    _note(connection, target.stream, RemovedBody(0 if place is None else place[1], now, limit))
    pieces = connection.execute("DELETE FROM pieces WHERE body=?", (body,)).rowcount
    connection.execute("DELETE FROM bodies WHERE id=?", (body,))
    return Removed(bodies=1, bytes=size, oldest=target.group.happened, newest=target.group.happened), CHUNK * max(
        1, pieces
    )


def _note(connection: sqlite3.Connection, stream: str, removed: RemovedBody) -> None:
    """Note that an output body of a stream was removed, and with it those of earlier lines."""
    key = removed_key(stream)
    note = verified_meta(connection, key)
    if isinstance(note, bytes):
        removed = msgspec.structs.replace(removed, line=max(removed.line, _removed_decoder.decode(note).line))
    set_meta(connection, key, msgspec.json.encode(removed))


_removed_decoder = msgspec.json.Decoder(RemovedBody)


def note_removed(connection: sqlite3.Connection, output_id: str, removed: RemovedBody) -> None:
    """Implements `Journal.note_removed`."""
    if (place := place_of_output(output_id)) is not None:
        _note(connection, place[0], msgspec.structs.replace(removed, line=place[1]))


def count_notes_of_bodies(connection: sqlite3.Connection) -> int:
    """Of how many streams it is noted that output bodies were removed."""
    first, last = removed_key(""), removed_key("\U0010ffff")
    found: int = connection.execute("SELECT count(*) FROM meta WHERE key BETWEEN ? AND ?", (first, last)).fetchone()[0]
    return found


def removed_bodies(connection: sqlite3.Connection, output_ids: Collection[str]) -> dict[str, RemovedBody]:
    """Implements `Journal.removed_bodies`. Bodies of a stream are removed in the order of its lines."""
    found = {}
    for output_id in output_ids:
        if (place := place_of_output(output_id)) is None:
            continue
        note = verified_meta(connection, removed_key(place[0]))
        if not isinstance(note, bytes) or (removed := _removed_decoder.decode(note)).line < place[1]:
            continue
        if connection.execute("SELECT 1 FROM bodies WHERE output_id=?", (output_id,)).fetchone() is None:
            found[output_id] = removed
    return found


def _removed_events(bodies: Sequence[bytes]) -> Removed:
    """What these events of a stream are, in the order of their `seq`. To decode all of them would take as long as to
    delete them, so their times are those of the first and the last one."""
    times = []
    for body in (bodies[0], bodies[-1]):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # damaged
            times.append(head_of(body).ts)
    stated = [one for one in times if one is not None]
    return Removed(
        events=len(bodies),
        bytes=sum(map(len, bodies)),
        oldest=min(stated, default=None),
        newest=max(stated, default=None),
    )


def _shrink(connection: sqlite3.Connection, stream: str, budget: int) -> tuple[Removed, int]:
    """Delete a part of a stream: first its events, then its output bodies, then everything else but its row. Returns
    what that is, and the cost in events."""
    execute = connection.execute
    events = _next_events(connection, "stream", stream, budget)
    if events:
        connection.executemany("DELETE FROM events WHERE seq=?", [(seq,) for seq, _ in events])
        _raise_expired(connection, events[-1][0])
        return _removed_events([body for _, body in events]), len(events)
    pieces = execute(
        "DELETE FROM pieces WHERE rowid IN"
        " (SELECT pieces.rowid FROM pieces JOIN bodies ON bodies.id=body WHERE stream=? LIMIT ?)",
        (stream, max(1, budget // CHUNK)),
    )
    if pieces.rowcount:
        return Removed(), CHUNK * pieces.rowcount
    bodies, size = execute("SELECT count(*), coalesce(sum(bytes), 0) FROM bodies WHERE stream=?", (stream,)).fetchone()
    execute("DELETE FROM bodies WHERE stream=?", (stream,))
    _forget_lines(connection, stream)
    sessions = execute(
        "DELETE FROM sessions WHERE session IN (SELECT session FROM session_streams WHERE stream=?)"
        " AND NOT EXISTS (SELECT 1 FROM session_streams AS other WHERE other.session=sessions.session AND stream<>?)",
        (stream, stream),
    ).rowcount
    execute("DELETE FROM session_streams WHERE stream=?", (stream,))
    execute("DELETE FROM meta WHERE key=?", (removed_key(stream),))
    execute(f"UPDATE streams SET expired=1, checksum={EXPIRED_SUM} WHERE stream=?", (stream,))
    return Removed(sessions=sessions, bodies=bodies, bytes=size), STREAM


def _forget_lines(connection: sqlite3.Connection, stream: str) -> None:
    """Delete what a stream has of its lines, apart from its events and their bodies. The checksum of its row is then to
    be renewed."""
    for table in ("snapshots", "tail"):
        connection.execute(f"DELETE FROM {table} WHERE stream=?", (stream,))
    (data,) = connection.execute("SELECT info FROM streams WHERE stream=?", (stream,)).fetchone()
    with suppress(msgspec.MsgspecError, TypeError, UnicodeDecodeError):  # damaged
        left = msgspec.json.encode(without_content(_info_decoder.decode(data)))
        connection.execute("UPDATE streams SET info=? WHERE stream=?", (left, stream))


def _step(connection: sqlite3.Connection, events: int, *, done: bool) -> DeletionStep:
    """Return free pages to the file system, and describe what this transaction deleted."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    pages = min(free, max(VACUUM_PAGES, events // 8))
    for _ in range(pages):
        # `execute` takes one step, which frees one page whatever the argument.
        connection.execute("PRAGMA incremental_vacuum(1)")
    (oldest,) = connection.execute("SELECT min(seq) FROM events").fetchone()
    return DeletionStep(events, oldest, int(get_meta(connection, "expired") or 0), done=done and free == pages)


def _raise_expired(connection: sqlite3.Connection, seq: int) -> None:
    set_meta(connection, "expired", max(seq, int(get_meta(connection, "expired") or 0)))


def _used(connection: sqlite3.Connection) -> int:
    """Bytes of the file in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


# -- in a daemon -----------------------------------------------------------------------------------------------------

MOST_NEW = 100
"""Most streams that may fail for the first time in one run; more count as a failure of the journal."""

Take: TypeAlias = Callable[[Callable[[sqlite3.Connection], DeletionStep]], Awaitable[DeletionStep]]
Look: TypeAlias = Callable[[Callable[[sqlite3.Connection], list[Group]]], Awaitable[list[Group]]]


class Deletion:
    """Runs retention and removal step by step, skipping streams that cannot be deleted. `take` runs a step in its own
    transaction; `look` reads; `arrived` returns the number of events committed so far."""

    def __init__(self, take: Take, look: Look, arrived: Callable[[], int], clock: Clock) -> None:
        self._take = take
        self._look = look
        self._arrived = arrived
        self._clock = clock
        self.removed = RetentionStatistics()
        """What the latest run of retention has removed so far."""
        self._stuck: set[str] = set()
        """Streams that are skipped for now."""
        self._earlier: set[str] = set()
        """Streams that had failed before this run."""

    async def expire(self, before: int, forget_before: int, max_bytes: int | None, pinned: Collection[str]) -> int:
        """Implements `Journal.expire`. Also deletes the rows of expired streams that are older than `forget_before`.
        `pinned`: sessions that are kept."""

        async def planned() -> Callable[..., DeletionStep]:
            plan = Plan(await self._look(partial(groups_to_delete, before=before, max_bytes=max_bytes, pinned=pinned)))
            return partial(
                expire_step,
                plan=plan,
                forget_before=forget_before,
                max_bytes=max_bytes,
                now=self._clock(),
                skipped=self._stuck,
            )

        self.removed = RetentionStatistics()
        self._earlier = set(self._stuck)
        deleted = await self._delete(planned)
        if self._earlier:
            self._stuck -= self._earlier
            deleted += await self._delete(planned)
        return deleted

    async def remove_session(self, session: str) -> int:
        """Implements `Journal.remove_session`."""

        async def planned() -> Callable[..., DeletionStep]:
            return partial(remove_step, session=session)

        try:
            return await self._delete(planned)
        except UnstorableError as error:
            faults.note("a session could not be removed", place_of(error), error, session=session)
            raise

    async def _delete(self, planned: Callable[[], Awaitable[Callable[..., DeletionStep]]]) -> int:
        """Repeat the planned step until it is done; commits are written in between. Returns the number of deleted
        events. Where a stream cannot be deleted, the rest is planned again."""
        deleted, known = 0, self._arrived()
        step = await planned()
        while True:
            budget = size_of_step(self._arrived() - known)
            known = self._arrived()
            try:
                taken = await self._take(partial(step, budget=budget))
            except StuckError as error:
                self._leave(error)
                step = await planned()
                continue
            deleted += taken.events
            self.removed = self.removed.plus(taken.removed)
            if taken.done:
                return deleted

    def _leave(self, error: StuckError) -> None:
        """Skip a stream that could not be deleted, and log it once. Raises `JournalError` if there are too many."""
        self._stuck.add(error.stream)
        if error.stream in self._earlier:
            return
        cause = error.__cause__ or error
        what = "a stream could not be deleted; it is tried again later"
        faults.note(what, place_of(cause), cause, stream=error.stream)
        if len(self._stuck - self._earlier) > MOST_NEW:
            raise JournalError(f"more than {MOST_NEW} streams could not be deleted, the last one because of: {cause}")
