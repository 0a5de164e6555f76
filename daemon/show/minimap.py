"""The overview of a session: its minimap, and the outline of its turns and their subagents.

    history = SessionHistory()
    history.add(events)          # in the order of `seq`; may be called again, and skips events that were added before
    html = template("minimap.html", map=drawn(history, is_live=False), link="#e{0}")

`SessionHistory` collects what the overview needs: calls, turns, subagents, and requests that waited for a person. Of
most events only the head is decoded. Everything is bounded: of a session with more calls than `CALLS`, neighbors are
merged, and of one with more turns than `TURNS`, the oldest are only counted.

On the map the main agent has a lane, and each subagent one below, at most `LANES` in all: where there are more
subagents, those that did not run at the same time share one. A lane has a bar for each call. Where there are more than
`BARS`, bars that lie close together are merged; failures are never merged with the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.formats import cost_words, counted, spent
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.sessions.row import first_line_of, title_of
from tooltap.daemon.sessions.usage import Cost, Ledger, Spent, cost_of
from tooltap.daemon.show.facts import NOTICED
from tooltap.daemon.show.turn_naming import TurnNaming
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import TIMED, EventHead, Usage

# -- what happened ---------------------------------------------------------------------------------------------------


KINDS = (
    *("session", "turn", "message", "tool-call", "tool-update", "tool-result"),
    *("permission-request", "permission-response", "usage"),
)
"""Kinds of events that the overview needs."""
CALLS = 10_000
TURNS = 200
AGENTS = 1_000
WAITS = 2_000
LATEST = 2**53
"""Upper bound of valid times; agents may write any number."""
NAME = 80
"""Maximum code points of the name of a call or a subagent."""


class TimedCall(msgspec.Struct):
    seq: int
    agent: str
    """Id of the subagent; empty for the main agent."""
    name: str
    preview: str
    start: int
    end: int | None = None
    end_seq: int = 0
    failed: bool = False
    waited: int = 0
    """Milliseconds for which it waited for the user."""
    calls: int = 1
    """Number of calls that were merged into this one."""


class Wait(msgspec.Struct):
    """A request of an agent that waits, or waited, for a person."""

    seq: int
    agent: str
    start: int
    end: int | None = None
    end_seq: int = 0


class Work(msgspec.Struct):
    """Usage, calls and errors of a turn or a subagent."""

    spent: Spent
    calls: int = 0
    errors: int = 0
    """Number of failed calls, plus one if the turn failed."""


class TurnWork(msgspec.Struct):
    number: int
    """Number of the turn, from 1; 0 for what precedes the first turn."""
    seq: int
    start: int
    share: Work
    end: int | None = None
    settled: str | None = None
    """Its id, after a provisional end."""
    state: str = "started"
    """State as in a `turn` event; empty if the next turn has begun without the end of this one."""
    prompt: str = ""
    """The first line of the user's first message."""
    answer: str = ""
    """The beginning of the agent's first message."""
    duration: int | None = None
    """Milliseconds, as the agent states them."""
    last: int = 0
    """When the agent, or a subagent, last worked."""

    @property
    def is_ahead(self) -> bool:
        """Whether this is no turn, but what a file states before the tap reports the first one."""
        return self.share.spent.is_ahead and not (self.number or self.share.calls or self.answer)


class SubagentWork(msgspec.Struct):
    """A subagent."""

    id: str
    seq: int
    start: int
    share: Work
    turn: int
    """Number of the latest turn in the journal when the subagent first appeared."""
    end: int
    """When it last worked."""
    parent: str | None = None
    """Id of the call that spawned it."""


class _Task(msgspec.Struct):
    """A call that may have spawned a subagent."""

    title: str
    agent: str
    turn: int


class SessionHistory:
    def __init__(self) -> None:
        self.seq = 0
        """`seq` of the last event that was added."""
        self.calls: list[TimedCall] = []
        self.turns: list[TurnWork] = []
        self.earlier_turns = 0
        """Number of the oldest turns that were dropped from `turns`."""
        self.agents: dict[str, SubagentWork] = {}
        self.waits: list[Wait] = []
        self.first: int | None = None
        self.last: int | None = None
        """`first`, `last`: the earliest and the latest time of an event."""
        self._ledger = Ledger()
        self._by_key: dict[tuple[str, str], TimedCall] = {}
        self._asked: dict[tuple[str, str], tuple[Wait, str]] = {}
        """(stream, permission id) -> the open request, and the id of its call."""
        self._tasks: dict[str, _Task] = {}
        self._naming = TurnNaming[str]()
        self._now = 0

    def add(self, events: Iterable[StoredEvent]) -> None:
        for stored in events:
            seq = stored.seq
            if seq <= self.seq:
                continue
            head = stored.head
            self.seq = seq
            if head.replay:
                continue
            if head.ts is not None and 0 <= head.ts < LATEST:
                self._now = head.ts
                self.first = head.ts if self.first is None else min(self.first, head.ts)
                self.last = head.ts if self.last is None else max(self.last, head.ts)
            if head.agent is not None:
                self._note_agent(seq, head)
            elif self.turns and self.turns[-1].settled is not None:
                self._reopen(self.turns[-1], head)
            if head.kind in TIMED and self.turns:
                self.turns[-1].last = max(self.turns[-1].last, self._now)
            if head.kind == "usage":
                usage = _usage_decoder.decode(stored.body)
                spent = self._share(head, usage).spent
                spent.add(usage, head.agent, head.ts, head.stream, head.id)
            elif (rule := _RULES.get(head.kind)) is not None:
                rule(self, seq, head)
        if len(self.calls) > CALLS:
            self._merge_calls()
        if len(self.turns) > TURNS:
            self._drop_turns()

    def turn_of(self, agent: SubagentWork) -> int:
        """Return the number of the turn that a subagent belongs to: that of the call which spawned it, if it is known,
        else the latest one that had begun."""
        parent, above = agent.parent, 0
        while parent is not None and above < 8:
            task = self._tasks.get(parent)
            if task is None:
                break
            if not task.agent or task.agent not in self.agents:
                return task.turn
            parent, above = self.agents[task.agent].parent, above + 1
        began = [one.number for one in self.turns if one.start <= agent.start]
        return began[-1] if began else agent.turn

    def title_of(self, agent: SubagentWork) -> str:
        """Return the task of a subagent; empty if it is not known."""
        task = self._tasks.get(agent.parent or agent.id)
        return "" if task is None else task.title

    # -- internals ----------------------------------------------------------------------------------------------

    @property
    def _turn(self) -> TurnWork:
        """The latest turn; before the first one, a turn with the number 0."""
        if not self.turns:
            self.turns.append(TurnWork(0, self.seq, self._now, self._new_share(), end=self._now, state=""))
        return self.turns[-1]

    def _share(self, head: EventHead, usage: Usage | None = None) -> Work:
        agent = self.agents.get(head.agent or "")
        if agent is not None:
            return agent.share
        if usage is None or usage.beside is None or head.ts is None:
            return self._turn.share
        # A file may be read after the tap has gone on.
        return next((one for one in reversed(self.turns) if one.start <= head.ts), self._turn).share

    def _new_share(self) -> Work:
        return Work(Spent(self._ledger))

    def _note_agent(self, seq: int, head: EventHead) -> None:
        agent = self.agents.get(head.agent or "")
        if agent is None:
            if len(self.agents) >= AGENTS:
                return
            name = head.agent or ""
            agent = SubagentWork(name, seq, self._now, self._new_share(), self._turn.number, self._now)
            self.agents[name] = agent
        if head.kind in TIMED:
            agent.end = max(agent.end, self._now)
        agent.parent = agent.parent or head.parent

    def _note_session(self, seq: int, head: EventHead) -> None:
        self._ledger.note_session(head.stream, head.agent, head.state, head.model)

    def _note_turn(self, seq: int, head: EventHead) -> None:
        if head.agent is not None:
            return
        if head.starts_turn:
            number = 1 + (self.turns[-1].number if self.turns else 0)
            if self.turns and self.turns[-1].state == "started":
                self.turns[-1].state, self.turns[-1].end = "", self.turns[-1].last
            prompt = self._naming.start() or ""
            share = self._new_share()
            if len(self.turns) == 1 and self.turns[0].is_ahead:
                share = self.turns.pop().share  # of its file, which was read before the tap
            self.turns.append(TurnWork(number, seq, self._now, share, prompt=prompt, last=self._now))
            return
        turn = self._turn
        turn.share.errors += (head.state == "failed") - (turn.state == "failed")
        turn.state, turn.end, turn.duration = head.state or "", self._now, head.duration_ms
        turn.settled = head.turn if head.provisional else None
        for key in [key for key in self._asked if key[0] == head.stream]:
            self._answer(key, seq)

    def _reopen(self, turn: TurnWork, head: EventHead) -> None:
        """Take a provisional end back if the turn goes on with this event."""
        if head.goes_on and head.turn == turn.settled:
            turn.share.errors -= turn.state == "failed"
            turn.state, turn.end, turn.settled = "started", None, None

    def _note_message(self, seq: int, head: EventHead) -> None:
        if head.agent is not None:
            return
        if head.role == "assistant":
            self._naming.act()
            if not self._turn.answer:
                self._turn.answer = title_of(head.text)
        elif head.role == "user" and (said := first_line_of(head.text)):
            in_turn = bool(self.turns) and self.turns[-1].state == "started"
            if (prompt := self._naming.say(said, in_turn=in_turn)) is not None:
                self.turns[-1].prompt = prompt

    def _open_call(self, seq: int, head: EventHead) -> None:
        agent = head.agent or ""
        preview = "" if head.hidden else (head.preview or head.title or "")[:NAME]
        call = TimedCall(seq, agent, (head.name or "")[:NAME], preview, self._now)
        self.calls.append(call)
        self._naming.act()
        self._by_key[head.key] = call
        share = self._share(head)
        share.calls += 1
        if len(self._tasks) < 8 * AGENTS:
            self._tasks[head.call_id or ""] = _Task(preview, agent, self._turn.number)

    def _update_call(self, seq: int, head: EventHead) -> None:
        call = self._by_key.get(head.key)
        if call is not None and head.preview is not None and not head.hidden:
            call.preview = head.preview[:NAME]
            if head.call_id in self._tasks:
                self._tasks[head.call_id or ""].title = call.preview

    def _end_call(self, seq: int, head: EventHead) -> None:
        if head.async_:
            return
        call = self._by_key.get(head.key)
        share = self._share(head)
        if call is None:
            share.errors += head.is_error
        else:
            share.errors += head.is_error - call.failed
            call.failed = head.is_error
            call.end, call.end_seq, call.waited = max(self._now, call.start), seq, head.wait_ms or 0
        for key in [key for key, (_, of_call) in self._asked.items() if (key[0], of_call) == head.key]:
            self._answer(key, seq)

    def _ask(self, seq: int, head: EventHead) -> None:
        wait = Wait(seq, head.agent or "", self._now)
        self._asked[head.stream, head.permission_id or ""] = wait, head.call_id or ""
        self.waits.append(wait)
        if len(self.waits) > WAITS:
            del self.waits[0]

    def _note_response(self, seq: int, head: EventHead) -> None:
        self._answer((head.stream, head.permission_id or ""), seq)

    def _answer(self, key: tuple[str, str], seq: int) -> None:
        found = self._asked.pop(key, None)
        if found is not None:
            found[0].end, found[0].end_seq = max(self._now, found[0].start), seq

    def _merge_calls(self) -> None:
        """Halve the calls that have ended, by merging neighbors of one agent with the same outcome."""
        kept: list[TimedCall] = []
        last: dict[tuple[str, bool], TimedCall] = {}
        for call in self.calls:
            before = None if call.end is None else last.pop((call.agent, call.failed), None)
            if before is None:
                kept.append(call)
                if call.end is not None:
                    last[call.agent, call.failed] = call
            else:
                before.name, before.preview = _commoner(before, call), ""
                before.calls += call.calls
                before.end, before.end_seq = max(before.end or 0, call.end or 0), call.end_seq
        self.calls = kept
        single = {id(call) for call in kept if call.calls == 1}
        self._by_key = {key: call for key, call in self._by_key.items() if id(call) in single}

    def _drop_turns(self) -> None:
        gone = len(self.turns) - TURNS // 2
        self.earlier_turns += gone
        del self.turns[:gone]


def _commoner(one: TimedCall, other: TimedCall) -> str:
    counts = Counter({one.name: one.calls})
    counts[other.name] += other.calls
    return counts.most_common(1)[0][0]


_usage_decoder = msgspec.json.Decoder(Usage)
_RULES: dict[str, Callable[[SessionHistory, int, EventHead], None]] = {
    "session": SessionHistory._note_session,
    "turn": SessionHistory._note_turn,
    "message": SessionHistory._note_message,
    "tool-call": SessionHistory._open_call,
    "tool-update": SessionHistory._update_call,
    "tool-result": SessionHistory._end_call,
    "permission-request": SessionHistory._ask,
    "permission-response": SessionHistory._note_response,
}


# -- the map and the outline -----------------------------------------------------------------------------------------


WIDTH = 1200
LANES = 6
BARS = 600
"""Maximum number of bars in all lanes."""
NARROWEST = 2.0
MARKS = 150
"""Maximum number of lines where turns begin."""
FRAMES = 50
"""Maximum number of frames around times in which an agent waited for a person."""
MAIN_TOP, MAIN_HEIGHT = 8, 12
LANE_TOP, LANE_STEP, LANE_HEIGHT = 28, 12, 8


class Bar(NamedTuple):
    """One call, or several merged ones."""

    seq: int
    x: float
    width: float
    family: str
    failed: bool
    running: bool
    title: str
    seconds: int
    """Seconds from the beginning of the map."""
    calls: int = 1


class Lane(NamedTuple):
    name: str
    """Names of the lane's subagents; empty for the main agent."""
    y: int
    height: int
    bars: list[Bar]


class Mark(NamedTuple):
    """The beginning of a turn."""

    seq: int
    x: float
    number: int
    title: str
    seconds: int


class Frame(NamedTuple):
    """A time in which an agent waited for a person."""

    seq: int
    x: float
    width: float
    y: int
    height: int
    is_open: bool


class SessionMap(NamedTuple):
    start: int | None
    """Milliseconds since the epoch; None if no event has a time."""
    height: int
    lanes: list[Lane]
    marks: list[Mark]
    frames: list[Frame]
    outline: list[OutlineEntry]
    earlier_turns: int
    """Number of the oldest turns that are not in the outline."""
    calls: int
    width: int = WIDTH


class _Placed(NamedTuple):
    call: TimedCall
    x: float
    end: float


def drawn(history: SessionHistory, *, is_live: bool) -> SessionMap:
    """Return the map of what happened so far. `is_live`: the session is running. It may take a second: call it in a
    thread."""
    axis = _Axis(history)
    numbers = _lanes_of(history.agents.values())
    count = 1 + max(numbers.values(), default=0)
    placed: list[list[_Placed]] = [[] for _ in range(count)]
    for call in history.calls:
        placed[numbers.get(call.agent, 0)].append(_Placed(call, *axis.extent(call)))
    names = [", ".join(_names(history, numbers, lane)) for lane in range(count)]
    start = history.first or 0
    lanes = [
        Lane(name, *_extent_of_lane(lane), [_bar(several, start) for several in bars])
        for lane, (name, bars) in enumerate(zip(names, _merged(placed), strict=True))
    ]
    return SessionMap(
        start=history.first,
        height=MAIN_TOP + LANE_TOP + LANE_STEP * (count - 1) - 8,
        lanes=lanes,
        marks=_marks(history, axis, start),
        frames=_frames(history, axis, numbers),
        outline=outline_of(history, is_live=is_live),
        earlier_turns=history.earlier_turns + max(len(history.turns) - SHOWN, 0),
        calls=sum(call.calls for call in history.calls),
    )


class _Axis:
    def __init__(self, history: SessionHistory) -> None:
        now = max([history.last or 0, *(one.start for one in history.calls[-1:])])
        is_open = any(call.end is None for call in history.calls) or any(wait.end is None for wait in history.waits)
        if is_open:
            now += IDLE  # so that what is open has room
        moments = [Moment(turn.start, turn.seq) for turn in history.turns]
        moments.append(Moment(now, history.seq))
        for call in history.calls:
            moments += _ends(call, is_call=True, size=call.calls)
        for wait in history.waits:
            moments += _ends(wait, is_call=False, size=1)
        moments.sort()
        self._places: dict[tuple[int, int], float] = {}
        for moment, x in zip(moments, places(moments, WIDTH), strict=True):
            self._places.setdefault(moment[:2], x)
        self._now = self._places[now, history.seq]

    def at(self, ts: int, seq: int) -> float:
        return self._places[ts, seq]

    def extent(self, one: TimedCall | Wait) -> tuple[float, float]:
        start = self.at(one.start, one.seq)
        return start, max(start, self._now if one.end is None else self.at(one.end, one.end_seq))


def _ends(one: TimedCall | Wait, *, is_call: bool, size: int) -> Iterator[Moment]:
    running, waiting = (size, 0) if is_call else (0, size)
    yield Moment(one.start, one.seq, is_call, running, waiting)
    if one.end is not None:
        yield Moment(one.end, one.end_seq, False, -running, -waiting)


def _lanes_of(agents: Iterable[SubagentWork]) -> dict[str, int]:
    """Return the lane of each subagent; the main agent has lane 0."""
    ordered = sorted(agents, key=attrgetter("start", "seq"))
    if len(ordered) < LANES:
        return {agent.id: lane for lane, agent in enumerate(ordered, 1)}
    free = [0] * (LANES - 1)
    found = {}
    for agent in ordered:
        lane = next((one for one, end in enumerate(free) if end <= agent.start), free.index(min(free)))
        free[lane] = max(free[lane], agent.end)
        found[agent.id] = lane + 1
    return found


def _names(history: SessionHistory, numbers: dict[str, int], lane: int) -> list[str]:
    agents = [agent for agent in history.agents.values() if numbers[agent.id] == lane]
    if len(agents) > 3:
        return [counted(len(agents), "subagent")]
    return [history.title_of(agent) or "Subagent" for agent in agents]


def _extent_of_lane(lane: int) -> tuple[int, int]:
    return (LANE_TOP + LANE_STEP * (lane - 1), LANE_HEIGHT) if lane else (MAIN_TOP, MAIN_HEIGHT)


def _merged(lanes: list[list[_Placed]]) -> list[list[list[_Placed]]]:
    """Return the bars of each lane, each as a list of its calls. The distance for merging is doubled until `BARS`
    suffice."""
    apart = 0.0
    while True:
        found = [_joined(lane, apart) for lane in lanes]
        if sum(map(len, found)) <= BARS or apart > WIDTH:
            return found
        apart = 2 * apart or 0.5


def _joined(lane: list[_Placed], apart: float) -> list[list[_Placed]]:
    """Merge calls with the same outcome that begin within `apart` of the first one; running calls are never merged."""
    if not apart:
        return [[one] for one in lane]
    groups: list[list[_Placed]] = []
    latest: dict[bool, list[_Placed]] = {}
    for one in sorted(lane, key=attrgetter("x")):
        group = latest.get(one.call.failed)
        if one.call.end is None or group is None or one.x - group[0].x > apart:
            group = []
            groups.append(group)
            if one.call.end is not None:
                latest[one.call.failed] = group
        group.append(one)
    return groups


def _bar(group: list[_Placed], start: int) -> Bar:
    first = group[0].call
    calls = sum(one.call.calls for one in group)
    families: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for one in group:
        families[family_of(one.call.name)] += one.call.calls
        names[one.call.name] += one.call.calls
    title = _title(first) if calls == 1 else _title_of_several(names, calls, first.failed)
    x = min(group[0].x, WIDTH - NARROWEST)
    return Bar(
        first.seq,
        round(x, 1),
        round(max(max(one.end for one in group) - x, NARROWEST), 1),
        families.most_common(1)[0][0],
        first.failed,
        first.end is None,
        title,
        max(first.start - start, 0) // 1000,
        calls,
    )


def _title(call: TimedCall) -> str:
    took = None if call.end is None else spent(max(call.end - call.start - call.waited, 0) or None)
    waited = f"waited {spent(call.waited)}" if call.waited >= NOTICED else None
    state = "failed" if call.failed else "running" if call.end is None else None
    return " · ".join(part for part in (f"{call.name} {call.preview}".strip(), state, waited, took) if part)


def _title_of_several(names: Counter[str], calls: int, failed: bool) -> str:
    common = ", ".join(f"{count:,} {name}" for name, count in names.most_common(3))
    more = " …" if len(names) > 3 else ""
    return f"{counted(calls, 'failed call' if failed else 'call')}: {common}{more}"


def _marks(history: SessionHistory, axis: _Axis, start: int) -> list[Mark]:
    turns = [turn for turn in history.turns if turn.number]
    step = -(-len(turns) // MARKS)
    return [
        Mark(
            turn.seq,
            round(min(axis.at(turn.start, turn.seq), WIDTH - 1), 1),
            turn.number,
            turn.prompt,
            max(turn.start - start, 0) // 1000,
        )
        for turn in turns[:: step or 1]
    ]


def _frames(history: SessionHistory, axis: _Axis, numbers: dict[str, int]) -> list[Frame]:
    found = []
    for wait in history.waits:
        if wait.end is not None and wait.end - wait.start < NOTICED:
            continue
        x, end = axis.extent(wait)
        x = min(x, WIDTH - 6.0)
        lane = numbers.get(wait.agent, 0)
        found.append(
            Frame(wait.seq, round(x, 1), round(max(end - x, 6.0), 1), *_extent_of_lane(lane), wait.end is None)
        )
    return found[-FRAMES:]


IDLE = 20_000
BUSY = 60_000
APART = 200
"""Minimum distance of a call from what precedes it, in milliseconds."""


class Moment(NamedTuple):
    """The beginning or end of a call or a wait. Moments are sorted by time, then by `seq`."""

    ts: int
    seq: int
    is_call: bool = False
    """True if a call begins."""
    running: int = 0
    """Change of the number of running calls."""
    waiting: int = 0
    """Change of the number of open requests."""


def places(moments: Sequence[Moment], width: float) -> list[float]:
    """Return the position of each of these sorted moments, from 0 to `width`. The time axis is compressed, so that busy
    times have room. The distance of two moments is proportional to the time between them, except that

    - where no call runs, or all that run wait for a person, it is at most `IDLE`;
    - where a call runs, the part of it beyond `BUSY` grows logarithmically;
    - every call begins at least `APART` after the moment before, so that calls with the same time, or without times,
      lie side by side.
    """
    reached, found = 0.0, []
    running = waiting = 0
    before: Moment | None = None
    for moment in moments:
        if before is not None:
            step = _length(moment.ts - before.ts, is_busy=running > waiting)
            reached += max(step, APART) if moment.is_call else step
        found.append(reached)
        running, waiting = running + moment.running, waiting + moment.waiting
        before = moment
    scale = width / reached if reached else 0.0
    return [one * scale for one in found]


def _length(milliseconds: int, *, is_busy: bool) -> float:
    if not is_busy:
        return min(milliseconds, IDLE)
    return milliseconds if milliseconds <= BUSY else BUSY * (1 + log(milliseconds / BUSY))


SHOWN = 300
"""Maximum turns in the outline; the latest ones."""
SUBAGENTS = 12
"""Maximum subagents in the outline of one turn."""
State: TypeAlias = Literal["running", "waiting", "failed", "cancelled", ""]


class SubEntry(NamedTuple):
    seq: int
    title: str
    facts: list[str]


class OutlineEntry(NamedTuple):
    seq: int
    number: int
    """Number of the turn; 0 for what precedes the first one."""
    prompt: str
    """The beginning of the prompt; empty if the stream does not have it."""
    answer: str
    """The beginning of the first answer."""
    state: State
    calls: int
    errors: int
    duration: int | None
    """Milliseconds."""
    cost: Cost | None
    facts: list[str]
    """Calls, errors, duration and cost, in words."""
    subagents: list[SubEntry]
    more_subagents: int


def outline_of(history: SessionHistory, *, is_live: bool) -> list[OutlineEntry]:
    """`is_live`: the session is running."""
    agents: defaultdict[int, list[SubagentWork]] = defaultdict(list)
    for agent in history.agents.values():
        agents[history.turn_of(agent)].append(agent)
    waiting = is_live and any(wait.end is None for wait in history.waits)
    entries = []
    for turn in history.turns[-SHOWN:]:
        own = sorted(agents[turn.number], key=lambda agent: agent.seq)
        if turn.number or turn.share.calls or own:
            entries.append(_entry(history, turn, own, is_live, waiting and turn is history.turns[-1]))
    return entries


def _entry(
    history: SessionHistory, turn: TurnWork, agents: list[SubagentWork], is_live: bool, is_waiting: bool
) -> OutlineEntry:
    shares = [turn.share, *(agent.share for agent in agents)]
    calls, errors = sum(share.calls for share in shares), sum(share.errors for share in shares)
    cost = cost_of([share.spent for share in shares])
    duration = _duration(history, turn)
    return OutlineEntry(
        seq=turn.seq,
        number=turn.number,
        prompt=turn.prompt,
        answer=turn.answer,
        state=_state(turn, is_live, is_waiting),
        calls=calls,
        errors=errors,
        duration=duration,
        cost=cost,
        facts=_facts(calls, errors, duration, cost),
        subagents=[_sub_entry(history, agent) for agent in agents[:SUBAGENTS]],
        more_subagents=max(len(agents) - SUBAGENTS, 0),
    )


def _sub_entry(history: SessionHistory, agent: SubagentWork) -> SubEntry:
    share: Work = agent.share
    facts = _facts(share.calls, share.errors, max(agent.end - agent.start, 0) or None, cost_of([share.spent]))
    return SubEntry(agent.seq, history.title_of(agent), facts)


def _state(turn: TurnWork, is_live: bool, is_waiting: bool) -> State:
    if is_waiting:
        return "waiting"
    if turn.state == "started":
        return "running" if is_live else "cancelled"
    return turn.state if turn.state in ("failed", "cancelled") else ""  # type: ignore[return-value]


def _duration(history: SessionHistory, turn: TurnWork) -> int | None:
    if turn.duration is not None:
        return turn.duration
    end = turn.last if turn.end is None else turn.end
    return None if end is None or history.first is None else max(end - turn.start, 0)


def _facts(calls: int, errors: int, duration: int | None, cost: Cost | None) -> list[str]:
    facts = [
        counted(calls, "call") if calls else None,
        counted(errors, "error") if errors else None,
        spent(duration) if duration else None,
        None if cost is None or not cost.usd else cost_words(cost.usd, cost.estimated, cost.at_least),
    ]
    return [fact for fact in facts if fact]
