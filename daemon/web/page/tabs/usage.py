"""The tab *Usage*: the context as a curve, tokens, costs by model and by agent, and a row for each turn.

Costs are those that the journal has of the session (`Journal.usage`); a turn has its share of them. A cost that
the agent does not state is an estimate, and is called `about`; one that nobody knows is `not known`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.sessions.usage import Cost, Ledger, Spent, cost_of
from tooltap.daemon.web.page.tabs.digests import Place, TurnCount
from tooltap.protocol.events import Notice, SessionEvent, ToolCall, Turn, Usage, decode
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.replies import UsageResult, UsageRow

DRAWN = 600
"""Maximum points of the drawn curve; with more, each shows the highest of its neighbors."""
TURN_LINES = 40
"""Maximum lines between turns; more would hide the curve."""
TOP = 12
"""Height above the curve, for labels."""


class Mark(NamedTuple):
    x: float
    word: str
    """Label; empty if there is no room for it."""
    anchor: str
    """`text-anchor` of the label: `start`, right of the line, or `end`."""


class Curve(NamedTuple):
    width: int
    height: int
    line: str
    """SVG path of the curve."""
    area: str
    marks: list[Mark]
    """Marks of compactions."""
    turns: list[float]


def curve_of(
    points: Sequence[Point], compactions: Sequence[Compaction], size: int | None, width: int, height: int
) -> Curve | None:
    """Return the curve; None if there are too few points for one. `size`: of the context window, drawn at full
    height."""
    if len(points) < 2:
        return None
    most = max(size or 0, *(point.used for point in points), 1)
    drawn = _thinned(points)
    step = width / (len(drawn) - 1)
    bottom = height - 1
    places = [
        (round(at * step, 1), round(bottom - (bottom - TOP) * point.used / most, 1)) for at, point in enumerate(drawn)
    ]
    line = "M" + " L".join(f"{x:g} {y:g}" for x, y in places)
    starts = [round(at * step, 1) for at, (one, other) in enumerate(pairwise(drawn), 1) if one.turn != other.turn]
    return Curve(
        width,
        height,
        line,
        f"{line} L{width} {height} L0 {height} Z",
        _marks(drawn, compactions, step, width),
        starts if len(starts) <= TURN_LINES else [],
    )


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    if len(points) <= DRAWN:
        return points
    parts = [points[len(points) * at // DRAWN : len(points) * (at + 1) // DRAWN] for at in range(DRAWN)]
    return [*(max(part, key=lambda point: point.used) for part in parts), points[-1]]


def _marks(drawn: Sequence[Point], compactions: Sequence[Compaction], step: float, width: int) -> list[Mark]:
    """Place each compaction between the requests before and after it."""
    marks: list[Mark] = []
    room = -1.0
    for one in compactions:
        after = sum(point.seq < one.place.seq for point in drawn)
        x = round(min(max((after - 0.5) * step, 0), width), 1)
        word = "compaction failed" if one.has_failed else "compacted"
        length = 5.2 * len(word)
        anchor = "start" if x + length < width else "end"
        begins = x if anchor == "start" else x - length
        has_room = begins > room
        marks.append(Mark(x, word if has_room else "", anchor))
        room = begins + length if has_room else room
    return marks


POINTS = 4_096
"""Maximum points kept of the curve; with more, neighbors are merged in pairs into the higher one."""
COMPACTIONS = 500
TURNS = 2_000
AGENTS = 1_000
"""Maximum subagents whose task is remembered."""
LABEL = 60


class Point(NamedTuple):
    """Use of the main agent's context at one request, in tokens."""

    seq: int
    used: int
    turn: int


class Compaction(NamedTuple):
    place: Place
    has_failed: bool
    before: int | None
    """Tokens before the compaction, if the agent states them."""
    after: int | None


class SpentTurn:
    def __init__(self, place: Place, spent: Spent) -> None:
        self.place = place
        self.spent = spent
        self.state = "started"
        self.milliseconds: int | None = None
        self.calls = 0

    @property
    def is_ahead(self) -> bool:
        """Whether this is no turn, but what a file states before the tap reports the first one."""
        return self.spent.is_ahead and not (self.place.turn or self.calls)


class Spending:
    KINDS: ClassVar[tuple[str, ...]] = ("session", "turn", "tool-call", "usage", "notice")

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.size: int | None = None
        """Size of the context window, in tokens."""
        self.compactions: deque[Compaction] = deque(maxlen=COMPACTIONS)
        self.turns: deque[SpentTurn] = deque(maxlen=TURNS)
        self._ledger = Ledger()
        self._count = TurnCount()
        self._compacted_at = -1
        """Value of `_seen` at the last compaction."""
        self._seen = 0
        """Number of all points, also those that were merged."""
        self._tasks: dict[str, str] = {}
        """Id of a call -> the task that it gave a subagent."""
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
                if event.beside is not None and event.ts is not None:
                    turn = self._turn_at(event.ts)
                turn.spent.add(event, event.agent, event.ts, event.stream, event.id)
                if event.agent is None:
                    self._note_context(seq, event, turn.spent.used.context_used)
            case SessionEvent():
                self._ledger.note_session(event.stream, event.agent, event.state, event.model)
            case Notice(code="compaction") if event.agent is None:
                self._note_compaction(seq, event)
            case _:
                pass

    def task_of(self, agent: str) -> str:
        """Return the task of a subagent; empty if it is not known."""
        return self._tasks.get(self._parents.get(agent, agent), "")

    def _note_turn(self, seq: int, event: Turn) -> None:
        if self._count.note(event.state, event.agent):
            spent = Spent(self._ledger)
            if len(self.turns) == 1 and self.turns[0].is_ahead:
                spent = self.turns.pop().spent
            self.turns.append(SpentTurn(Place(seq, event.ts, self._count.number), spent))
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

    def _turn_at(self, ts: int) -> SpentTurn:
        """Return the turn at a time, in ms since the epoch: a file may be read after the tap has gone on."""
        began = (one for one in reversed(self.turns) if one.place.ts is not None and one.place.ts <= ts)
        return next(began, self.turns[-1])

    def _current(self, seq: int, ts: int | None) -> SpentTurn:
        if not self.turns:
            self.turns.append(SpentTurn(Place(seq, ts, 0), Spent(self._ledger)))
        return self.turns[-1]


def _task(call: ToolCall) -> str:
    parts = (call.input.get("subagent_type"), call.input.get("description"))
    return ": ".join(part[:LABEL] for part in parts if isinstance(part, str) and part)


def _tokens(stated: object) -> int | None:
    return stated if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0 else None


ROWS = 50
"""Maximum rows of the tables by model and by agent."""
NARROW_TURNS, WIDE_TURNS = 50, 500
NARROW_CURVE, WIDE_CURVE = (318, 84), (960, 180)
"""Width and height. A page has both: a phone shows the first, and other screens the second."""
LISTED = 20
"""Maximum compactions in the list; the latest ones."""


class Costs(NamedTuple):
    by_model: UsageResult
    by_agent: UsageResult


class Share(NamedTuple):
    """The usage of one model or one agent."""

    name: str
    agent: str | None
    """Id of the subagent; None for the main agent, and for a model."""
    row: UsageRow


class TurnRow(NamedTuple):
    place: Place
    state: str
    milliseconds: int | None
    calls: int
    input: int
    cached: int
    output: int
    estimated_output: int | None
    """None if the output is exact."""
    is_counted: bool
    """True if the agent has reported tokens or a cost for the turn."""
    cost: Cost | None
    context_used: int | None
    context_size: int | None


async def costs_of(journal: Journal, session: str) -> Costs:
    """Raises `JournalError`."""
    by_model = await journal.usage(UsageRequest(id=None, by="model", session=(session,)))
    return Costs(by_model, await journal.usage(UsageRequest(id=None, by="subagent", session=(session,))))


def usage_values(known: Spending, costs: Costs, row: dict[str, Any], *, wide: bool) -> dict[str, Any]:
    """Return the values for the template. The prices may have to be loaded first: call it in a thread. `row`: of the
    session."""
    turns = [turn for turn in known.turns if turn.place.turn or turn.calls or turn.spent.used.parts]
    shown = turns[-(WIDE_TURNS if wide else NARROW_TURNS) :]
    compactions = list(known.compactions)
    size = known.size or row.get("contextSize")
    session = str(row["session"])
    sizes = (NARROW_CURVE, WIDE_CURVE) if wide else (NARROW_CURVE,)
    curves = [curve_of(known.points, compactions, size, *one) for one in sizes]
    return {
        "curves": [curve for curve in curves if curve is not None],
        "used": known.points[-1].used if known.points else None,
        "highest": max((point.used for point in known.points), default=None),
        "size": size,
        "compactions": compactions[-LISTED:],
        "hidden_compactions": max(len(compactions) - LISTED, 0),
        "total": costs.by_model.total,
        "is_subscription": bool(costs.by_model.subscriptions),
        "is_counted": bool(costs.by_model.rows),
        "models": _shares(costs.by_model, lambda key: key or "model not known", lambda key: None),
        "agents": _shares(
            costs.by_agent,
            lambda key: "main agent" if key is None else known.task_of(_agent(session, key)) or _agent(session, key),
            lambda key: None if key is None else _agent(session, key),
        ),
        "prices": costs.by_model.prices,
        "turns": [_turn_row(turn) for turn in shown],
        "hidden_turns": len(turns) - len(shown),
    }


def _agent(session: str, key: str) -> str:
    return key.removeprefix(f"{session}/")


def _shares(
    result: UsageResult, name_of: Callable[[str | None], str], agent_of: Callable[[str | None], str | None]
) -> Sequence[Share]:
    return [Share(name_of(row.key), agent_of(row.key), row) for row in result.rows[:ROWS]]


def _turn_row(turn: SpentTurn) -> TurnRow:
    amount = turn.spent.amount
    return TurnRow(
        place=turn.place,
        state=turn.state,
        milliseconds=turn.milliseconds,
        calls=turn.calls,
        input=amount.input_tokens,
        cached=amount.cache_read_tokens,
        output=amount.output_tokens,
        estimated_output=amount.estimated_output_tokens,
        is_counted=bool(turn.spent.used.parts),
        cost=cost_of([turn.spent]),
        context_used=turn.spent.used.context_used,
        context_size=turn.spent.used.context_size,
    )
