"""What the tab *Usage* knows of a session: how full the context was, when it was compacted, and what each turn took."""

from __future__ import annotations

from collections import deque
from typing import ClassVar, NamedTuple

from tooltap.daemon.sessions.turn_costs import Ledger, Spent
from tooltap.daemon.web.page.tabs.places import Place, TurnCount
from tooltap.protocol.events import Notice, SessionEvent, ToolCall, Turn, Usage, decode

__all__ = ["Compaction", "Point", "Spending", "SpentTurn"]

POINTS = 4_096
"""Of the curve; with more, two neighbours become the higher one."""
COMPACTIONS = 500
TURNS = 2_000
AGENTS = 1_000
"""Subagents whose task is remembered."""
LABEL = 60


class Point(NamedTuple):
    """How full the main agent's context was at one request."""

    seq: int
    used: int
    turn: int


class Compaction(NamedTuple):
    place: Place
    has_failed: bool
    before: int | None
    """Tokens, if the agent states them."""
    after: int | None


class SpentTurn:
    def __init__(self, place: Place, spent: Spent) -> None:
        self.place = place
        self.spent = spent
        self.state = "started"
        self.milliseconds: int | None = None
        self.calls = 0


class Spending:
    KINDS: ClassVar[tuple[str, ...]] = ("session", "turn", "tool-call", "usage", "notice")

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.size: int | None = None
        """Of the context window, in tokens."""
        self.compactions: deque[Compaction] = deque(maxlen=COMPACTIONS)
        self.turns: deque[SpentTurn] = deque(maxlen=TURNS)
        self._ledger = Ledger()
        self._count = TurnCount()
        self._compacted_at = -1
        """How many points there were at the last compaction."""
        self._seen = 0
        """All points, also those that were joined."""
        self._tasks: dict[str, str] = {}
        """Call -> the task that it gave a subagent."""
        self._parents: dict[str, str] = {}

    def note(self, seq: int, body: bytes) -> None:
        event = decode(body)
        if event.replay:
            return
        if event.agent and event.parent and len(self._parents) < AGENTS:
            self._parents[event.agent] = event.parent
        match event:
            case Turn():
                self._note_turn(seq, event)
            case ToolCall():
                self._current(seq, event.ts).calls += 1
                if event.name == "Task" and len(self._tasks) < AGENTS:
                    self._tasks[event.call_id] = _task(event)
            case Usage():
                turn = self._current(seq, event.ts)
                turn.spent.add(event, event.agent, event.ts)
                if event.agent is None:
                    self._note_context(seq, event, turn.spent.used.context_used)
            case SessionEvent(model=str(model)):
                self._ledger.use_model(event.agent, model)
            case Notice(code="compaction") if event.agent is None:
                self._note_compaction(seq, event)
            case _:
                pass

    def task_of(self, agent: str) -> str:
        """Return what a subagent was to do; empty if it is not known."""
        return self._tasks.get(self._parents.get(agent, agent), "")

    def _note_turn(self, seq: int, event: Turn) -> None:
        if self._count.note(event.state, event.agent):
            self.turns.append(SpentTurn(Place(seq, event.ts, self._count.number), Spent(self._ledger)))
        elif event.agent is None and self.turns:
            turn = self.turns[-1]
            turn.state = event.state
            turn.milliseconds = event.duration_ms
            if turn.milliseconds is None and event.ts is not None and turn.place.ts is not None:
                turn.milliseconds = max(event.ts - turn.place.ts, 0)

    def _note_context(self, seq: int, event: Usage, used: int | None) -> None:
        self.size = event.context_size or self.size
        states_it = event.context_used is not None or (event.scope == "step" and event.input_tokens is not None)
        if used is None or used < 0 or not states_it:
            return
        self._seen += 1
        self.points.append(Point(seq, used, self._count.number))
        if len(self.points) > POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [*(max(pair, key=lambda point: point.used) for pair in pairs), self.points[-1]]

    def _note_compaction(self, seq: int, event: Notice) -> None:
        data = event.data or {}
        found = Compaction(
            Place(seq, event.ts, self._count.number),
            event.level != "info",
            _tokens(data.get("preTokens")),
            _tokens(data.get("postTokens")),
        )
        if self._compacted_at == self._seen and self.compactions:
            self.compactions.pop()  # its beginning
        self.compactions.append(found)
        self._compacted_at = self._seen

    def _current(self, seq: int, ts: int | None) -> SpentTurn:
        if not self.turns:
            self.turns.append(SpentTurn(Place(seq, ts, 0), Spent(self._ledger)))
        return self.turns[-1]


def _task(call: ToolCall) -> str:
    parts = (call.input.get("subagent_type"), call.input.get("description"))
    return ": ".join(part[:LABEL] for part in parts if isinstance(part, str) and part)


def _tokens(stated: object) -> int | None:
    return stated if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0 else None
