"""What happened in a session, as far as its overview needs it: calls, turns, subagents, and what waited for a person.

    history = History()
    history.add(events)          # in the order of `seq`; later more of them, those that it has are skipped

Of most events only the head is decoded. Everything is bounded: of a session with more calls than `CALLS`, neighbours
are merged, and of one with more turns than `TURNS`, the oldest are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.sessions.row import title_of
from tooltap.daemon.sessions.usage import Ledger, Spent
from tooltap.protocol.events import EventHead, Usage

KINDS = (
    *("session", "turn", "message", "tool-call", "tool-update", "tool-result"),
    *("permission-request", "permission-response", "usage"),
)
"""The kinds of events that it needs."""
CALLS = 10_000
TURNS = 200
AGENTS = 1_000
WAITS = 2_000
LATEST = 2**53
"""Times beyond are no times: agents write them."""
NAME = 80
"""Code points of the name of a call or a subagent."""


class Call(msgspec.Struct):
    seq: int
    agent: str
    """The subagent; empty for the main agent."""
    name: str
    preview: str
    start: int
    end: int | None = None
    end_seq: int = 0
    failed: bool = False
    calls: int = 1
    """How many calls it represents."""


class Wait(msgspec.Struct):
    """What an agent asked a person."""

    seq: int
    agent: str
    start: int
    end: int | None = None
    end_seq: int = 0


class Share(msgspec.Struct):
    """What a turn or a subagent did."""

    spent: Spent
    calls: int = 0
    errors: int = 0
    """Calls that failed, and the turn if it did."""


class Turn(msgspec.Struct):
    number: int
    """From 1. 0: what came before the first turn."""
    seq: int
    start: int
    share: Share
    end: int | None = None
    state: str = "started"
    """As in a `turn` event; empty: the next turn has begun without its end."""
    prompt: str = ""
    """The beginning of what the user said."""
    answer: str = ""
    """The beginning of what the agent said."""
    duration: int | None = None
    """Milliseconds, as the agent states them."""


class Agent(msgspec.Struct):
    """A subagent."""

    id: str
    seq: int
    start: int
    share: Share
    turn: int
    """The turn in which it started, by its place in the journal."""
    end: int = 0
    parent: str | None = None
    """Id of the call that spawned it."""


class _Task(msgspec.Struct):
    """A call that spawned a subagent, or may have."""

    title: str
    agent: str
    turn: int


class History:
    def __init__(self) -> None:
        self.seq = 0
        """Of the last event that was added."""
        self.calls: list[Call] = []
        self.turns: list[Turn] = []
        self.earlier_turns = 0
        """How many of the oldest turns are not in `turns`."""
        self.agents: dict[str, Agent] = {}
        self.waits: list[Wait] = []
        self.first: int | None = None
        self.last: int | None = None
        """Times of the first and the last event that has one."""
        self._ledger = Ledger()
        self._by_key: dict[tuple[str, str], Call] = {}
        self._asked: dict[tuple[str, str], tuple[Wait, str]] = {}
        """Open questions by stream and id, and the ids of their calls."""
        self._tasks: dict[str, _Task] = {}
        self._prompt = ""
        """What the user said outside of a turn."""
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
            if head.kind == "usage":
                self._share(head).spent.add(_usage_decoder.decode(stored.body), head.agent, head.ts)
            elif (rule := _RULES.get(head.kind)) is not None:
                rule(self, seq, head)
        if len(self.calls) > CALLS:
            self._merge_calls()
        if len(self.turns) > TURNS:
            self._drop_turns()

    def turn_of(self, agent: Agent) -> int:
        """Return the number of the turn that a subagent belongs to: that of the call which spawned it, if it is known,
        else the one in which it happened."""
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

    def title_of(self, agent: Agent) -> str:
        """Return what a subagent was asked; empty if that is not known."""
        task = self._tasks.get(agent.parent or agent.id)
        return "" if task is None else task.title

    # -- internals ----------------------------------------------------------------------------------------------

    @property
    def _turn(self) -> Turn:
        """The latest turn; one without a number for what comes before the first."""
        if not self.turns:
            self.turns.append(Turn(0, self.seq, self._now, self._new_share(), end=self._now, state=""))
        return self.turns[-1]

    def _share(self, head: EventHead) -> Share:
        agent = self.agents.get(head.agent or "")
        return self._turn.share if agent is None else agent.share

    def _new_share(self) -> Share:
        return Share(Spent(self._ledger))

    def _note_agent(self, seq: int, head: EventHead) -> None:
        agent = self.agents.get(head.agent or "")
        if agent is None:
            if len(self.agents) >= AGENTS:
                return
            name = head.agent or ""
            agent = self.agents[name] = Agent(name, seq, self._now, self._new_share(), self._turn.number)
        agent.end = max(agent.end, self._now)
        agent.parent = agent.parent or head.parent

    def _note_session(self, seq: int, head: EventHead) -> None:
        if head.model is not None:
            self._ledger.use_model(head.agent, head.model)

    def _note_turn(self, seq: int, head: EventHead) -> None:
        if head.agent is not None:
            return
        if head.state == "started":
            number = 1 + (self.turns[-1].number if self.turns else 0)
            if self.turns and self.turns[-1].state == "started":
                self.turns[-1].state, self.turns[-1].end = "", self._now
            self.turns.append(Turn(number, seq, self._now, self._new_share(), prompt=self._prompt))
            self._prompt = ""
            return
        turn = self._turn
        turn.state, turn.end, turn.duration = head.state or "", self._now, head.duration_ms
        turn.share.errors += head.state == "failed"
        for key in [key for key in self._asked if key[0] == head.stream]:
            self._answer(key, seq)

    def _note_message(self, seq: int, head: EventHead) -> None:
        if head.agent is not None:
            return
        if head.role == "assistant":
            if not self._turn.answer:
                self._turn.answer = title_of(head.text)
        elif head.role != "user":
            return
        elif not self.turns or self.turns[-1].state != "started":
            self._prompt = self._prompt or title_of(head.text)
        elif not self.turns[-1].prompt:
            self.turns[-1].prompt = title_of(head.text)

    def _open_call(self, seq: int, head: EventHead) -> None:
        agent = head.agent or ""
        preview = (head.preview or head.title or "")[:NAME]
        call = Call(seq, agent, (head.name or "")[:NAME], preview, self._now)
        self.calls.append(call)
        self._by_key[head.key] = call
        share = self._share(head)
        share.calls += 1
        if len(self._tasks) < 8 * AGENTS:
            self._tasks[head.call_id or ""] = _Task(preview, agent, self._turn.number)

    def _update_call(self, seq: int, head: EventHead) -> None:
        call = self._by_key.get(head.key)
        if call is not None and head.preview is not None:
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
            call.end, call.end_seq = max(self._now, call.start), seq
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
        """Halve the calls that have ended, by merging neighbours of one agent that ended alike."""
        kept: list[Call] = []
        last: dict[tuple[str, bool], Call] = {}
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


def _commoner(one: Call, other: Call) -> str:
    counts = Counter({one.name: one.calls})
    counts[other.name] += other.calls
    return counts.most_common(1)[0][0]


_usage_decoder = msgspec.json.Decoder(Usage)
_RULES: dict[str, Callable[[History, int, EventHead], None]] = {
    "session": History._note_session,
    "turn": History._note_turn,
    "message": History._note_message,
    "tool-call": History._open_call,
    "tool-update": History._update_call,
    "tool-result": History._end_call,
    "permission-request": History._ask,
    "permission-response": History._note_response,
}
