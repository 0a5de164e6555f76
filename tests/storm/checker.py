"""The checker of a storm: compares everything that clients got, and says what differs.

It is pure: a `Record` has what the actors have written down, and what the journal had at the end.
"""

from __future__ import annotations

import itertools
import json
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from tests.storm.agents import session_number, word
from tests.storm.collector import Exported
from tests.storm.readers import Received, plain
from tooltap.daemon.telemetry.sender import DELETED
from tooltap.protocol.events import decode, with_seq

__all__ = [
    "Answering",
    "Expected",
    "Export",
    "Ledger",
    "Record",
    "Row",
    "Search",
    "Subscriber",
    "check",
    "unexplained",
    "unsent",
]

OF_DISPATCHES = {"answer", "answer-delivered", "answer-failed"}
"""Notices about an answer, which are about an earlier line."""
FULL = "No space left on device"
"""Why a tap may lose lines, if it says so."""
SAID = 20
"""Differences of one kind that are named; the rest is counted."""


class Expected(NamedTuple):
    """A stream of a session. `acked`: lines that must be there; `total`: lines that may be."""

    acked: int
    total: int


class Subscriber(NamedTuple):
    name: str
    filter: dict[str, list[str]]
    received: Received


class Answering(NamedTuple):
    """A question, and what became of it."""

    session: str
    permission: str
    attempts: list[tuple[str, str]]
    """What was answered, and how it ended: `accepted`, `refused`, `expired` or `unknown`."""
    written: list[str]
    """What the agent got."""


class Export(NamedTuple):
    """A file of a session whose stream had ended before."""

    name: str
    session: int
    code: int
    text: str | None
    """None if there is no file."""
    is_named: bool
    """Whether a sentence says that events are missing."""
    said: str = ""


class Search(NamedTuple):
    session: int
    line: int
    hits: list[int]
    is_final: bool
    """Whether everything was indexed."""


class Row(NamedTuple):
    """The figures of a session, as the daemon lists them."""

    session: str
    events: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass
class Record:
    lines: Iterable[bytes]
    """What one subscriber without a filter has received."""
    streams: dict[int, Expected]
    stored: Received
    """What the journal had at the end."""
    latest: int
    subscribers: list[Subscriber] = field(default_factory=list)
    answers: list[Answering] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps that the subscriber of `lines` got."""
    spans: Iterable[Exported] = ()
    """What the collector has taken."""
    unsent: list[tuple[int, int]] = field(default_factory=list)
    """From and to: events of which the daemons have said that retention deleted them before their spans were sent."""
    other: Received | None = None
    """What the daemon has of which this one is a remote, with the checksums of what the remote has."""
    cursors: list[int] = field(default_factory=list)
    """After which `seq` the other daemon has read, at each of its connections; the last one is of the end."""
    wrong: list[str] = field(default_factory=list)
    """What actors have found themselves."""


class _Event(msgspec.Struct, rename="camel"):
    seq: int
    kind: str
    id: str
    stream: str
    session: str = ""
    line: int = 0
    text: str = ""
    replay: bool = False
    code: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    permission_id: str = ""
    outcome: str = ""
    data: Any = None
    ts: int = 0
    turn: str = ""
    state: str = ""
    call_id: str = ""
    status: str = ""
    scope: str = ""
    beside: str | None = None
    replaces: str = ""
    request: str = ""


class Version(NamedTuple):
    """What a span says of a turn, a call or a request."""

    operation: str
    session: str
    about: str
    """As in `Exported`."""
    began: int | None
    """None: not compared."""
    ended: int
    failed: bool

    @property
    def name(self) -> str:
        return f"{self.operation} {self.about} of {self.session}, which ended at {self.ended}"


@dataclass
class Spanned:
    """A turn, a call or a request, of which a span is to be sent."""

    session: str
    opened: str = ""
    """Id of the event with which it began."""
    opened_seq: int = 0
    """Its `seq`."""
    began: int | None = None
    versions: list[tuple[int, Version]] = field(default_factory=list)
    """`seq` of each event that ended or corrected it, and what it was then."""


@dataclass
class Tally:
    """What the events of a session add up to."""

    events: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    last: dict[str, int] = field(default_factory=dict)
    """Stream -> the line of its last event."""
    lines: set[int] = field(default_factory=set)
    words: Counter[int] = field(default_factory=Counter)
    """Line -> messages with its word."""
    said: dict[int, int] = field(default_factory=dict)
    """Line -> `seq` of the latest of them."""
    seqs: list[int] = field(default_factory=list)


class Ledger:
    """Every event that there ever was, by its `seq`."""

    def __init__(self) -> None:
        self.crc: array[int] = array("Q", [0])
        self.plain: array[int] = array("Q", [0])
        """Checksums without `seq`."""
        self.kind: array[int] = array("H", [0])
        self.session: array[int] = array("L", [0])
        self.kinds: dict[str, int] = {"": 0}
        self.sessions: dict[str, int] = {"": 0}
        self.tallies: dict[str, Tally] = {}
        self.responses: dict[tuple[str, str], list[str]] = {}
        """Session and permission -> the outcomes in the journal."""
        self.wrong: list[str] = []
        self.again: list[tuple[int, int, str]] = []
        """Two `seq` of one event or message, and its id: a file that grows after its session was deleted is read
        again."""
        self._ids: dict[str, int] = {}
        self.history: dict[int, int] = {}
        """`seq` of a request that is read again under another id -> its checksum at a daemon that has the first one."""
        self._requests: set[str] = set()
        self._read_again: set[str] = set()
        """Streams of such events."""
        self.spanned: list[Spanned] = []
        self._spanned: dict[tuple[str, ...], Spanned] = {}
        self._decode = msgspec.json.Decoder(_Event).decode

    def add(self, raw: bytes) -> None:
        one = self._decode(raw)
        if one.seq < len(self.crc):
            self.wrong.append(f"event {one.seq} came again, or out of order")
            return
        for column in (self.crc, self.plain, self.kind, self.session):
            column.extend([0] * (one.seq - len(column)))
        self.crc.append(zlib.crc32(raw))
        self.plain.append(zlib.crc32(plain(raw)))
        self.kind.append(self.kinds.setdefault(one.kind, len(self.kinds)))
        self.session.append(self.sessions.setdefault(one.session, len(self.sessions)))
        if not one.replay:
            self._span(one)
        tally = self.tallies.setdefault(one.session, Tally())
        if (earlier := self._ids.get(one.id)) is not None:
            self.again.append((earlier, one.seq, one.id))
            self._read_again.add(one.stream)
            self._ids[one.id] = one.seq
            tally.seqs.append(one.seq)
            return
        self._ids[one.id] = one.seq
        if one.request and one.request in self._requests and one.stream in self._read_again:
            self.history[one.seq] = zlib.crc32(plain(_as_history(one.seq, raw)))
        self._requests.add(one.request)
        is_behind = one.line < tally.last.get(one.stream, 0) and one.stream not in self._read_again
        if is_behind and one.code not in OF_DISPATCHES:
            self.wrong.append(f"event {one.seq}: line {one.line} of {one.stream} is out of order")
        tally.last[one.stream] = max(one.line, tally.last.get(one.stream, 0))
        tally.seqs.append(one.seq)
        tally.lines.add(one.line)
        if not one.replay:
            tally.events += 1
        if one.kind == "tool-call":
            tally.calls += 1
        elif one.kind == "usage":
            tally.input_tokens += one.input_tokens
            tally.output_tokens += one.output_tokens
            tally.cost = one.cost_usd if one.cost_usd is not None else tally.cost
        elif one.kind == "message" and one.text.startswith("w"):
            self._word(one, tally)
        elif one.kind == "permission-response":
            self.responses.setdefault((one.session, one.permission_id), []).append(one.outcome)
        elif one.code == "lost" and FULL in one.data["reason"]:
            tally.lines.update(range(one.line - one.data["lines"] + 1, one.line))
        elif one.kind == "unparsed" or one.code in ("parser-reset", "lost"):
            self.wrong.append(f"event {one.seq}: line {one.line} of {one.stream} is {one.kind} {one.code}")

    def _span(self, one: _Event) -> None:
        """Note what begins or ends with an event, of what spans are made of."""
        match one.kind:
            case "turn" if one.state == "started":
                self._begin(one, "turn", one.stream, one.turn)
            case "turn":
                self._end(one, ("turn", one.stream, one.turn), "invoke_agent", one.state, one.state == "failed")
            case "tool-call":
                self._begin(one, "call", one.stream, one.call_id)
            case "tool-result":
                key = ("call", one.stream, one.call_id)
                self._end(one, key, "execute_tool", one.call_id, one.status == "failed")
            case "usage" if one.scope == "step" and one.beside is None:
                request = self._spanned.get(("chat", one.replaces or one.id)) or self._new(one)
                self._spanned["chat", one.id] = request
                self._end(one, ("chat", one.id), "chat", f"{one.input_tokens}/{one.output_tokens}", failed=False)

    def _new(self, one: _Event) -> Spanned:
        self.spanned.append(Spanned(one.session, one.id))
        return self.spanned[-1]

    def _begin(self, one: _Event, *key: str) -> None:
        known = self._spanned.get(key)
        if known is None or known.opened != one.id:
            self._spanned[key] = self._new(one)
            self._spanned[key].opened_seq, self._spanned[key].began = one.seq, one.ts

    def _end(self, one: _Event, key: tuple[str, ...], operation: str, about: str, failed: bool) -> None:
        known = self._spanned.get(key)
        if known is None:
            known = self._spanned[key] = self._new(one)
        ended = max(one.ts, known.began or 0)  # the clock may have jumped back meanwhile
        known.versions.append((one.seq, Version(operation, one.session, about, known.began, ended, failed)))

    def _word(self, one: _Event, tally: Tally) -> None:
        try:
            number = session_number(one.session)
        except ValueError:
            return
        earlier, tally.said[one.line] = tally.said.get(one.line), one.seq
        if earlier is not None and one.stream in self._read_again:
            # Under another id: the first time, the stream was settled before this line, and not the second time.
            self.again.append((earlier, one.seq, one.id))
        else:
            tally.words[one.line] += 1
        if not one.text.startswith(word(number, one.line)):
            self.wrong.append(f"event {one.seq}: line {one.line} of {one.stream} has the text of another: {one.text}")

    def matches(self, seq: int, wanted: dict[str, list[str]]) -> bool:
        kinds = [self.kinds.get(one) for one in wanted.get("kind", [])]
        sessions = [self.sessions.get(one) for one in wanted.get("session", [])]
        return (not kinds or self.kind[seq] in kinds) and (not sessions or self.session[seq] in sessions)

    def has(self, seq: int) -> bool:
        return seq < len(self.crc) and self.kind[seq] != 0


def _as_history(seq: int, raw: bytes) -> bytes:
    event = decode(b"{" + raw[raw.index(b",") + 1 :])
    return with_seq(seq, msgspec.json.encode(msgspec.structs.replace(event, replay=True, turn=None)))


def check(record: Record) -> list[str]:
    """Return the differences, one sentence each."""
    ledger = Ledger()
    for line in record.lines:
        ledger.add(line)
    return check_with(record, ledger)


def check_with(record: Record, ledger: Ledger) -> list[str]:
    parts = {
        "actor": record.wrong,
        "journal": [*ledger.wrong, *_twice(record, ledger)],
        "recorder": _recorder(record, ledger),
        "stored": _stored(record, ledger),
        "stream": _streams(record, ledger),
        "subscriber": _subscribers(record, ledger),
        "answer": _answers(record, ledger),
        "export": _exports(record, ledger),
        "search": _searches(record, ledger),
        "figure": _figures(record, ledger),
        "span": _spans(record, ledger),
        "remote": _remote(record, ledger),
    }
    found = []
    for name, sentences in parts.items():
        all_of_it = list(sentences)
        found += [f"{name}: {one}" for one in all_of_it[:SAID]]
        if len(all_of_it) > SAID:
            found.append(f"{name}: and {len(all_of_it) - SAID} more")
    return found


def _within(seq: int, gaps: list[tuple[int, int]]) -> bool:
    return any(first <= seq <= last for first, last in gaps)


def _overlap(part: tuple[int, int], gaps: list[tuple[int, int]]) -> bool:
    return part[0] <= part[1] and any(first <= part[1] and part[0] <= last for first, last in gaps)


def _twice(record: Record, ledger: Ledger) -> Iterator[str]:
    stored = {seq for seq, _ in record.stored.events}
    for earlier, seq, name in ledger.again:
        if earlier in stored:
            yield f"event {name} is in the journal twice: {earlier} and {seq}"


def _recorder(record: Record, ledger: Ledger) -> Iterator[str]:
    for seq in range(1, record.latest + 1):
        if not ledger.has(seq) and not _within(seq, record.gaps):
            yield f"event {seq} was not delivered, and is in no gap"


def _stored(record: Record, ledger: Ledger) -> Iterator[str]:
    """What is stored at the end is what was delivered; what is not is in a gap."""
    before = 0
    present = bytearray(record.latest + 1)
    for seq, crc in record.stored.events:
        if seq <= before:
            yield f"event {seq} comes after {before} in the journal"
        before = seq
        if seq > record.latest:
            yield f"event {seq} is beyond the end, {record.latest}"
            continue
        present[seq] = 1
        if ledger.has(seq) and ledger.crc[seq] != crc:
            yield f"event {seq} is another one in the journal than was delivered"
        elif not ledger.has(seq):
            yield f"event {seq} is in the journal and was never delivered"
    oldest = record.stored.events[0][0] if record.stored.events else record.latest + 1
    for seq in range(oldest, record.latest + 1):
        if not present[seq] and not _within(seq, record.stored.gaps):
            yield f"event {seq} is neither in the journal nor in a gap"
    yield from (f"events {first} to {last} are damaged or reset" for first, last in record.stored.faulty)


def _streams(record: Record, ledger: Ledger) -> Iterator[str]:
    """Each acknowledged line has its events, once, and no line has any that was not sent."""
    by_number = {}
    for session, tally in ledger.tallies.items():
        try:
            by_number[session_number(session)] = tally
        except ValueError:
            continue
    for number, tally in by_number.items():
        expected = record.streams.get(number)
        if expected is None:
            yield f"session {number:x} is in the journal, and nobody published it"
            continue
        yield from (
            f"session {number:x} has a line {at} of {expected.total}" for at in tally.lines if at > expected.total
        )
        yield from (
            f"the message of line {at} of session {number:x} is there {n} times"
            for at, n in tally.words.items()
            if n > 1
        )
    for number, expected in record.streams.items():
        tally = by_number.get(number, Tally())
        if record.gaps:  # what the recorder has missed is not known
            continue
        missing = [at for at in range(1, expected.acked + 1) if at not in tally.lines]
        if missing:
            of_all = f"{len(missing)} of {expected.acked} acknowledged lines of session {number:x}"
            yield f"{of_all} are missing, first {missing[0]}"
        last = max(tally.lines, default=0)
        if last > expected.acked and len([at for at in tally.lines if at > 0]) < last:
            yield f"session {number:x} has a hole before line {last}"


def _subscribers(record: Record, ledger: Ledger) -> Iterator[str]:
    """Each has every event that it wanted, once, in order and unchanged, or in a gap."""
    still = {seq for seq, _ in record.stored.events}
    for name, wanted, received in record.subscribers:
        before = 0
        seen = bytearray(record.latest + 1)
        for seq, crc in received.events:
            if seq <= before:
                yield f"{name} got event {seq} after {before}"
            before = max(before, seq)
            if seq > record.latest or (ledger.has(seq) and ledger.crc[seq] != crc):
                yield f"{name} got another event {seq} than is in the journal"
                continue
            seen[seq] = 1
            if ledger.has(seq) and not ledger.matches(seq, wanted):
                yield f"{name} got event {seq}, which its filter does not want"
        gaps = bytearray(record.latest + 2)
        for first, last in received.gaps:
            gaps[first : min(last, record.latest) + 1] = b"\1" * (min(last, record.latest) + 1 - first)
        for seq in range(1, record.latest + 1):
            if seen[seq] or not ledger.has(seq) or not ledger.matches(seq, wanted):
                continue
            if not gaps[seq]:
                yield f"{name} did not get event {seq}, and got no gap for it"
            elif seq in still:
                yield f"{name} got a gap with event {seq}, which is still in the journal"
        yield from (f"{name} got events {first} to {last} as damaged or reset" for first, last in received.faulty)


def _answers(record: Record, ledger: Ledger) -> Iterator[str]:
    for one in record.answers:
        what = f"question {one.permission} of {one.session}"
        accepted = [outcome for outcome, end in one.attempts if end == "accepted"]
        unknown = [outcome for outcome, end in one.attempts if end == "unknown"]
        expired = [outcome for outcome, end in one.attempts if end == "expired"]
        journaled = ledger.responses.get((one.session, one.permission), [])
        if len(accepted) > 1:
            yield f"{what}: {len(accepted)} answers were accepted"
        if expired:
            if one.written or accepted or (journaled != ["expired"] and not record.gaps):
                yield f"{what} expired; the agent got {one.written}, attempts {one.attempts}, journaled {journaled}"
            continue
        if len(one.written) != 1:
            yield f"{what}: the agent got {len(one.written)} answers: {one.written}; attempts {one.attempts}"
        elif accepted and one.written != accepted[:1]:
            yield f"{what}: {accepted[0]} was accepted, and the agent got {one.written[0]}"
        elif not accepted and one.written[0] not in unknown:
            yield f"{what}: the agent got {one.written[0]}, which nobody answered"
        if journaled != one.written and not record.gaps:
            yield f"{what}: the agent got {one.written}, and the journal has {journaled}"


def _exports(record: Record, ledger: Ledger) -> Iterator[str]:
    for one in record.exports:
        what = f"{one.name} of session {one.session:x}"
        if one.code not in (0, 1):
            yield f"{what} ended with {one.code}"
        if one.text is None:
            if one.code == 0:
                yield f"{what}: there is no file"
            continue
        if one.name == "html" and not one.text.rstrip().endswith("</html>"):
            yield f"{what}: half a page is under the name of the file"
        tally = next((tally for name, tally in ledger.tallies.items() if _is(name, one.session)), Tally())
        missing = [at for at in tally.words if word(one.session, at) not in one.text]
        if missing and not one.is_named:
            yield f"{what}: {len(missing)} messages are missing, first that of line {missing[0]}: {one.said}"


def _is(session: str, number: int) -> bool:
    try:
        return session_number(session) == number
    except ValueError:
        return False


def _searches(record: Record, ledger: Ledger) -> Iterator[str]:
    stored = {seq for seq, _ in record.stored.events}
    numbers = {index: name for name, index in ledger.sessions.items()}
    for number, line, hits, is_final in record.searches:
        what = f"the word of line {line} of session {number:x}"
        if len(hits) > 1:
            yield f"{what} is found {len(hits)} times"
        for seq in hits:
            if not ledger.has(seq) and not record.gaps:
                yield f"{what} is found at event {seq}, which does not exist"
            elif ledger.has(seq) and not _is(numbers[ledger.session[seq]], number):
                yield f"{what} is found at event {seq} of {numbers[ledger.session[seq]]}"
            elif is_final and seq not in stored:
                yield f"{what} is found at event {seq}, which is deleted"
        if is_final and not hits:
            tally = next((tally for name, tally in ledger.tallies.items() if _is(name, number)), Tally())
            if tally.words[line] and all(seq in stored for seq in tally.seqs):
                yield f"{what} is not found, and is in the journal"


def _figures(record: Record, ledger: Ledger) -> Iterator[str]:
    stored = {seq for seq, _ in record.stored.events}
    for row in record.rows:
        tally = ledger.tallies.get(row.session, Tally())
        if record.gaps or not all(seq in stored for seq in tally.seqs):
            continue
        try:
            session_number(row.session)
        except ValueError:
            continue
        for name in ("events", "calls", "input_tokens", "output_tokens"):
            listed, counted = getattr(row, name), getattr(tally, name)
            if listed != counted:
                yield f"{row.session} has {counted} {name}, and {listed} are listed"
        if tally.cost is not None and (row.cost is None or abs(row.cost - tally.cost) > 1e-9):
            yield f"{row.session} cost {tally.cost}, and {row.cost} is listed"


def _spans(record: Record, ledger: Ledger) -> Iterator[str]:
    """Each turn, call and request has its span, the same one each time, inside of what it was in, or was deleted before
    its span could be sent, as the daemon says."""
    taken: dict[tuple[str, str], dict[Version, int]] = {}
    """Trace and id of each span -> what it was, and the checksum of that."""
    inside: dict[tuple[str, str], str] = {}
    """Trace and id of what has spans inside -> its session."""
    starts = {version for one in ledger.spanned for _, version in one.versions if version.began is not None}
    for one in record.spans:
        version = Version(one.operation, one.session, one.about, one.began, one.ended, one.failed)
        version = version if version in starts else version._replace(began=None)
        if one.parent:
            inside[one.trace, one.parent] = one.session
        versions = taken.setdefault((one.trace, one.id), {})
        if versions.setdefault(version, one.checksum) != one.checksum:
            yield f"{version.name}: its span {one.id} came again, and is another one"
    counts = Counter(version for versions in taken.values() for version in versions)
    possible: dict[Version, list[Spanned]] = {}
    promised: dict[Version, list[int]] = {}
    unknown = Counter[str]()
    """Session -> turns and calls whose spans need not have come."""
    for spanned in ledger.spanned:
        for version in {version for _, version in spanned.versions}:
            possible.setdefault(version, []).append(spanned)
        # Nothing is sent either of what began in deleted events.
        places = (spanned.versions[-1][0], spanned.opened_seq) if spanned.versions else ()
        if places and not any(_within(place, record.unsent) for place in places):
            seq, last = spanned.versions[-1]
            promised.setdefault(last, []).append(seq)
        else:
            unknown[spanned.session] += 1
    for version, seqs in promised.items():
        if counts[version] < len(seqs):
            what = f"{counts[version]} spans for {len(seqs)} of them" if len(seqs) > 1 else "its span was not sent"
            yield f"{version.name}: {what} (event {seqs[-1]} of {record.latest})"
    if record.gaps:  # what the recorder has missed is not known
        return
    for version, count in counts.items():
        known = len(possible.get(version, ()))
        if count > known:
            yield f"{version.name}: {count} spans, and {known} of them in the journal"
    for (_, span), versions in taken.items():
        of_one = possible.get(next(iter(versions)), [])
        if of_one and not any(versions.keys() <= {version for _, version in one.versions} for one in of_one):
            yield f"span {span} is of several things: {', '.join(one.name for one in versions)}"
    missing = Counter(session for link, session in inside.items() if link not in taken)
    for session, count in missing.items():
        if count > unknown[session]:
            yield f"{session} has spans inside of {count} others that did not come; {unknown[session]} may be missing"


def _remote(record: Record, ledger: Ledger) -> Iterator[str]:
    """The other daemon has each event once, in order and unchanged, or says that it is missing, as it is here; and it
    would read on after the end."""
    if record.other is None:
        return
    still = {seq for seq, _ in record.stored.events}
    places: dict[int, list[int]] = {}
    """Checksum -> `seq` of the events that have it."""
    for seq in range(1, record.latest + 1):
        if ledger.has(seq):
            places.setdefault(ledger.plain[seq], []).append(seq)
    for seq, crc in ledger.history.items():
        places.setdefault(crc, []).append(seq)
    missing = bytearray(record.latest + 2)
    for first, last in record.other.missing:
        missing[first : last + 1] = b"\1" * (min(last, record.latest) + 1 - first)
    before = reached = 0
    have: set[int] = set()
    """Checksums of the events that the other daemon got."""
    for number, crc in [*record.other.events, (0, 0)]:
        is_end = number == 0
        found = [record.latest + 1] if is_end else places.get(crc, [])
        later = [one for one in found if one > reached]
        if found and not later:
            yield f"the other daemon got event {found[-1]} again, or out of order, as {number}"
        elif not found and not record.gaps:
            yield f"event {number} of the other daemon is none of its remote"
        between, before = (before + 1, number - 1), number
        if not later:
            continue
        skipped = range(reached + 1, later[0])
        if skipped and not is_end and _overlap(between, record.other.gaps):
            skipped = range(0)  # what its recorder has missed is not known
        for one in skipped:
            if ledger.has(one) and ledger.plain[one] in have:
                continue  # the file was read again here, and what it had said before is still there
            if ledger.has(one) and not missing[one]:
                yield f"the other daemon did not get event {one}, and does not say so"
            elif ledger.has(one) and one in still:
                yield f"the other daemon did not get event {one}, which is still in the journal"
        reached = later[0]
        have.add(crc)
    yield from (f"the other daemon got events {first} to {last} as damaged" for first, last in record.other.faulty)
    for one, then in itertools.pairwise(record.cursors):
        if then < one:
            yield f"the other daemon has read after event {then}, and before that after {one}"
    if record.cursors and record.cursors[-1] != record.latest:
        yield f"the other daemon would read on after event {record.cursors[-1]}, and the end is {record.latest}"


def unsent(log: bytes) -> Iterator[tuple[int, int]]:
    """Events of which daemons have logged that retention deleted them before their spans were sent."""
    for line in log.splitlines():
        if DELETED.encode() in line:
            entry = json.loads(line)
            yield entry["first"], entry["last"]


def unexplained(log: bytes) -> Iterator[str]:
    """What daemons have logged that no fault of a storm explains: errors of the code, and damage of the journal, as a
    storm does none."""
    for line in log.splitlines():
        try:
            entry: dict[str, Any] = json.loads(line)
        except ValueError:
            if b"Traceback" in line or b"bug in tooltap" in line:
                yield f"logged: {line[:1_500]!r}"
            continue
        is_damage = (entry.get("area"), entry.get("level")) == ("journal", "error")
        if is_damage or "exception" in entry or entry.get("level") == "critical":
            yield f"logged: {json.dumps(entry)[:1_500]}"
