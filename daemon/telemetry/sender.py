"""Sends the spans of turns, calls and requests to a collector as they end, and metrics of them from time to time: OTLP
over HTTP, as Protobuf.

It reads the journal behind a cursor, which is stored in the journal after the collector has taken the spans before it.
So what a daemon that is killed has not sent is sent by the next one, and what it had sent and not noted is sent again,
with the same ids. It reads in a thread of its own and works for a part of the time only, so ingest never waits for it.
"""

from __future__ import annotations

import random
import socket
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import checkpoint

from tooltap import __version__
from tooltap.daemon.export.otlp import SessionSpans, Span, attribute_list, scope
from tooltap.daemon.export.otlp_names import Name
from tooltap.daemon.export.redaction import masked_event
from tooltap.daemon.journal.interface import Journal, JournalError, StoredEvent
from tooltap.daemon.sessions.listing import RUNNING, SessionFilter
from tooltap.daemon.sessions.waiting import find_waiting
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.telemetry.metrics import Metrics, Sums, Waits, count_of_points, groups_of
from tooltap.daemon.telemetry.protobuf import encode_metrics, encode_request, rejected_of
from tooltap.daemon.telemetry.settings import Telemetry
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import AnyEvent, SessionEvent
from tooltap.protocol.filters import Filter
from tooltap.traces.recording.secrets import mask_secrets

if TYPE_CHECKING:
    from tooltap.daemon.system.post import Answer

NOTE = "telemetry"
"""Name of the note with the cursor and the sums."""
KINDS = ("session", "turn", "message", "reasoning", "tool-call", "tool-update", "tool-result", "usage")
"""Events of which spans are made."""
LOOK_PERIOD = 1.0
"""Seconds between two looks at the journal."""
SHARE = 0.5
"""Part of the time for which it works while it catches up. What counts is the processor's time that the daemon takes
meanwhile, ingest included: neither waiting for the collector nor for other programs is work."""
SLICE = 32
"""Events that are taken in before others have their turn."""
READ = 262_144
"""Bytes of events that are read at a time."""
MOST_SESSIONS = 64
"""Sessions of which it is known what has begun; that of others is read again from the journal."""
NO_METRICS = frozenset((404, 405, 501))
"""Answers of a collector that takes no metrics: it gets none until the daemon is started again, or SIGHUP."""
MOST_SESSIONS_WAITING = 1_000
"""Sessions that run or wait, among which those that wait are counted."""
MOST_SPANS = 500
"""Spans in a request."""
NOTED_EVERY = 10_000
"""Events without a span after which the cursor is stored."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 60.0
"""Seconds before a request is sent again; they double each time, unless the collector says how long. The first one is
short, because nothing else is sent meanwhile: a collector that refuses a request now and then is no reason to lag."""
DELETED = "events were deleted before their spans were sent"
IN_NO_SPAN = "an event is in no span"
PROTOBUF = "application/x-protobuf"

_log = get_logger("telemetry")


class Noted(msgspec.Struct):
    """What is stored in the journal."""

    cursor: int
    sums: Sums
    """Of all before the cursor, since sending began."""


class _Group(NamedTuple):
    """Spans of one session that have ended."""

    resource: list[dict[str, Any]]
    spans: list[dict[str, Any]]


class Sender:
    """Sends spans, if the settings say where. `settings` can be replaced while it runs."""

    def __init__(self, journal: Journal, settings: Telemetry) -> None:
        self._journal = journal
        self._settings = settings
        self._headers = settings.all_headers()
        self._sessions: OrderedDict[str, SessionSpans] = OrderedDict()
        self._host = socket.gethostname()
        self._begun = ""
        """Id of the journal in which the cursor is."""
        self._cursor = self._noted = 0
        self._deleted: tuple[int, int] | None = None
        """From and to: events that retention has deleted, or some of them, before they were read."""
        self._metrics = Metrics(Sums(0))
        self._stored = b""
        """The stored note."""
        self._sent = self._refused = self._points = 0
        self._problem = self._problem_of_metrics = ""
        self._caught_up = time.monotonic()
        """When everything was sent, or sending began."""
        self._sending = anyio.CancelScope()

    @property
    def settings(self) -> Telemetry:
        return self._settings

    @settings.setter
    def settings(self, settings: Telemetry) -> None:
        """Send to another collector from now on, or with other content: all after the cursor, as after a restart."""
        if settings != self._settings:
            self._settings, self._headers = settings, settings.all_headers()
            self._sending.cancel()

    def statistics(self) -> dict[str, Any]:
        """Return the part `telemetry` of the reply to `stats`; empty if nothing is sent."""
        if self._settings.url is None:
            return {}
        behind = max(0, self._journal.latest - self._cursor)
        return {
            "telemetry": {
                "url": self._settings.address,
                "sent": self._sent,
                "refused": self._refused,
                "behind": behind,
                "behindMs": int((time.monotonic() - self._caught_up) * 1000) if behind else 0,
                "pointsSent": self._points,
                **({"deleted": {"from": self._deleted[0], "to": self._deleted[1]}} if self._deleted else {}),
                **({"problem": self._problem} if self._problem else {}),
                **({"metricsProblem": self._problem_of_metrics} if self._problem_of_metrics else {}),
            }
        }

    async def begin(self) -> None:
        """Continue after the stored cursor; the first time, with what comes from now on. Raises `JournalError`."""
        journal = self._journal.id
        note = await self._journal.load_note(NOTE)
        latest = self._journal.latest
        stored = None if note is None else msgspec.json.decode(note, type=int | Noted)
        if isinstance(stored, Noted):
            self._cursor, self._metrics, self._stored = min(stored.cursor, latest), Metrics(stored.sums), note or b""
        else:
            self._cursor = latest if stored is None else min(stored, latest)
            self._metrics = Metrics(Sums(wall_clock()))
            await self._store()
        self._noted = self._cursor
        self._deleted = None
        self._begun = journal

    async def run(self) -> None:
        """Send until cancelled, always as the settings say now."""
        while True:
            with self._sending:
                if self._settings.url is None:
                    await anyio.sleep_forever()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._send)
                    if self._settings.metrics_interval:
                        tasks.start_soon(self._send_metrics)
            self._sending = anyio.CancelScope()
            self._sessions.clear()
            self._begun = self._problem = self._problem_of_metrics = ""
            self._caught_up = time.monotonic()

    async def _send(self) -> None:
        """After an error, events are read again, so what is known of their sessions is, too."""
        while True:
            try:
                began = time.process_time()
                pause = LOOK_PERIOD
                if await self._step():
                    pause = min(LOOK_PERIOD, (time.process_time() - began) * (1 / SHARE - 1))
            except JournalError as error:
                self._sessions.clear()
                self._report(f"the journal cannot be read: {error}")
                pause = LOOK_PERIOD
            except Exception as error:
                self._sessions.clear()
                faults.note("spans were not sent", place_of(error), error)
                pause = LONGEST_PAUSE
            await anyio.sleep(pause)

    async def _step(self) -> bool:
        """Send what some events end; return whether there were any."""
        if self._journal.id != self._begun:
            self._sessions.clear()
            await self.begin()
        latest = self._journal.latest
        if self._cursor >= latest:
            self._caught_up = time.monotonic()
            return False
        wanted = Filter(kind=KINDS)
        events, reached = await self._journal.read(self._cursor, wanted, up_to=latest, max_bytes=READ)
        self._note_deleted()
        if self._cursor < self._journal.last_expired:  # the events may go on in the middle of what has begun since
            self._sessions.clear()
        groups: OrderedDict[str, tuple[SessionSpans, list[Span]]] = OrderedDict()
        for number, event in enumerate(await anyio.to_thread.run_sync(_decoded, events), 1):
            if number % SLICE == 0:
                await checkpoint()
            spans = await self._session_of(event)
            if ended := _added(spans, event):
                groups.setdefault(event.session, (spans, []))[1].extend(ended)
        for group in self._groups(groups):
            await self._deliver(group)
        self._cursor = reached
        for of_session, ended in groups.values():
            self._metrics.count(str(of_session.resource[Name.SERVICE]), ended)
        if groups:
            failpoint("spans-sent")
        if groups or reached - self._noted >= NOTED_EVERY:
            await self._store()
        return True

    def _note_deleted(self) -> None:
        """Say of which events nobody knows any more what spans they would have ended."""
        first = max(self._cursor, self._deleted[1] if self._deleted else 0) + 1
        last = self._journal.last_expired
        if first <= last:
            self._deleted = (self._deleted[0] if self._deleted else first, last)
            _log.warning(DELETED, first=first, last=last)

    async def _store(self) -> None:
        cursor = self._cursor
        note = msgspec.json.encode(Noted(cursor, self._metrics.sums))
        await self._journal.store_note(NOTE, note)
        self._stored, self._noted = note, cursor

    # -- metrics --------------------------------------------------------------------------------------------------

    async def _send_metrics(self) -> None:
        """Send the stored sums, and what waits, until the collector turns out to take no metrics. What it does not get
        is part of what it gets the next time."""
        is_taken = True
        while is_taken:
            await anyio.sleep(self._settings.metrics_interval)
            try:
                is_taken = not self._stored or await self._send_sums()
            except JournalError:
                pass  # it is reported with the spans
            except Exception as error:
                faults.note("metrics were not sent", place_of(error), error)

    async def _send_sums(self) -> bool:
        """Return whether the collector takes metrics."""
        sums = msgspec.json.decode(self._stored, type=Noted).sums
        groups = groups_of(sums, await self._waiting(), wall_clock(), self._host)
        if not groups:
            return True
        body = encode_metrics(groups, scope())
        answer = await anyio.to_thread.run_sync(
            self._post, self._settings.metrics_address, body, abandon_on_cancel=True
        )
        rejected = _rejected(answer)
        problem = answer.problem or (f"it has rejected {rejected:,} data points" if rejected else "")
        if problem and problem != self._problem_of_metrics:
            _log.warning("metrics are not sent", url=self._settings.metrics_address, reason=problem)
        self._problem_of_metrics = problem
        if answer.problem is None:
            self._points += max(0, count_of_points(groups) - rejected)
        return answer.code not in NO_METRICS

    async def _waiting(self) -> dict[str, Waits]:
        """Return what waits for a person, by agent."""
        wanted = SessionFilter(status=RUNNING)
        running = await self._journal.sessions(limit=MOST_SESSIONS_WAITING, wanted=wanted)
        opened = await self._journal.open_calls()
        found = find_waiting(running, opened, {}, before=0, now=0)
        return {
            agent: Waits(
                len({one.session for one in found if one.provider == agent}),
                sum(one.provider == agent for one in found),
            )
            for agent in dict.fromkeys(one.provider for one in found)
        }

    # -- sessions -------------------------------------------------------------------------------------------------

    async def _session_of(self, event: AnyEvent) -> SessionSpans:
        """Return what has begun in the session of an event, before this event."""
        earlier = None
        if isinstance(event, SessionEvent) and event.alias not in (None, event.session):
            earlier = self._sessions.pop(event.alias, None)
        spans = self._sessions.pop(event.session, None)
        if spans is None:
            spans = await self._read_again(event)
        if earlier is not None:
            spans.absorb(earlier)
        self._sessions[event.session] = spans
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return spans

    async def _read_again(self, event: AnyEvent) -> SessionSpans:
        """Read what has begun in a session before an event, under all of its names."""
        spans = SessionSpans(has_content=self._settings.content)
        first, last = self._journal.oldest, (event.seq or 1) - 1
        rows = await self._journal.sessions(limit=1, wanted=SessionFilter(session=(event.session,)))
        for row in rows:
            first = max(first, row["firstSeq"])
        reached, names = first - 1, [event.session]
        if isinstance(event, SessionEvent) and event.alias is not None:
            names.append(event.alias)
        while reached < last:
            wanted = Filter(session=(event.session,), kind=("session",))
            changes, reached = await self._journal.read(reached, wanted, up_to=last, max_bytes=READ)
            names += [one.head.alias for one in changes if one.head.alias is not None]
        reached = first - 1
        while reached < last:
            wanted = Filter(session=tuple(dict.fromkeys(names)), kind=KINDS)
            events, reached = await self._journal.read(reached, wanted, up_to=last, max_bytes=READ)
            for one in await anyio.to_thread.run_sync(_decoded, events):
                _added(spans, one)
        # Asked after the events: a session is deleted from its first event on.
        spans.lacks_beginning = not rows or not await self._journal.is_stored(rows[0]["firstSeq"])
        return spans

    def _groups(self, ended: OrderedDict[str, tuple[SessionSpans, list[Span]]]) -> list[list[_Group]]:
        """Return requests: the latest version of each span, at most `MOST_SPANS` together."""
        requests: list[list[_Group]] = []
        room = 0
        for spans, found in ended.values():
            resource = attribute_list({**spans.resource, Name.HOST: self._host})
            latest = list({one.id: one.value for one in found}.values())
            while latest:
                if not room:
                    requests.append([])
                    room = MOST_SPANS
                requests[-1].append(_Group(resource, latest[:room]))
                taken = len(requests[-1][-1].spans)
                latest, room = latest[taken:], room - taken
        return requests

    # -- requests -------------------------------------------------------------------------------------------------

    async def _deliver(self, groups: Sequence[_Group]) -> None:
        """Return when the collector has taken a request, or has refused it for good."""
        body = await anyio.to_thread.run_sync(encode_request, groups, scope())
        count = sum(len(one.spans) for one in groups)
        pause = FIRST_PAUSE
        while True:
            answer = await anyio.to_thread.run_sync(self._post, self._settings.address, body, abandon_on_cancel=True)
            if answer.problem is None:
                rejected = min(_rejected(answer), count)
                self._sent += count - rejected
                self._refused += rejected
                if rejected:
                    self._report(f"it has rejected {rejected:,} spans")
                elif self._problem:
                    self._problem = ""
                    _log.info("spans are sent again", url=self._settings.address)
                return
            self._report(answer.problem)
            if not answer.is_again:
                self._refused += count
                return
            stated = answer.pause
            await anyio.sleep(pause * random.uniform(0.75, 1.25) if stated is None else min(stated, LONGEST_PAUSE))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _post(self, address: str, body: bytes) -> Answer:
        from tooltap.daemon.system.post import post

        headers = {"User-Agent": f"tooltap/{__version__}", **self._headers, "Content-Type": PROTOBUF}
        return post(address, body, headers, self._settings.timeout)

    def _report(self, problem: str) -> None:
        """Log a problem, once as long as it is the same."""
        if problem != self._problem:
            self._problem = problem
            _log.warning("spans are not sent", url=self._settings.address, reason=problem)


def _rejected(answer: Answer) -> int:
    """Return how many spans or data points the collector has not taken, of a request that it has."""
    return rejected_of(answer.body) if answer.kind == PROTOBUF else 0


def _decoded(events: Sequence[StoredEvent]) -> list[AnyEvent]:
    """Decode events without their secrets; one that cannot be read, of a later version maybe, costs only itself."""
    found = []
    for one in events:
        try:
            event = masked_event(one.body, mask_secrets)
        except Exception as error:
            faults.note(IN_NO_SPAN, place_of(error), error, seq=one.seq)
            continue
        event.seq = one.seq
        found.append(event)
    return found


def _added(spans: SessionSpans, event: AnyEvent) -> list[Span]:
    """Add an event to a session; one at which that fails costs only itself."""
    try:
        return spans.add(event)
    except Exception as error:
        faults.note(IN_NO_SPAN, place_of(error), error, seq=event.seq)
        return []
