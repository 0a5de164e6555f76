"""What the line being read emits: events with their numbers and envelope, and output bodies.

The scope of a line says which session and agent it belongs to and when it was written. It is reset before each line;
dialects set it where a line says something else.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from tooltap.normalizers.core.call_ids import CallIds
from tooltap.normalizers.core.items import Context, Item, OutputChunk
from tooltap.normalizers.core.numbers import Numbers
from tooltap.normalizers.core.state import OpenTurn, State
from tooltap.protocol.events import Event
from tooltap.protocol.tapped import Direction

__all__ = ["Writer"]

E = TypeVar("E", bound=Event)


class Writer:
    """The scope of the line being read, and the only way to emit an event."""

    dialect: ClassVar[str]
    protocol: ClassVar[str]
    default_provider: ClassVar[str]

    session: str
    agent: str | None
    parent: str | None
    replay: bool
    ts: int | None
    direction: Direction | None
    """Which way the line went, where a tap records both ways."""
    origin: tuple[str, str] | None
    """(protocol, provider) where one stream holds the output of several agents; None: the stream's own."""

    def __init__(self, context: Context, state: State) -> None:
        self.context = context
        self.state: Any = state
        self.items: list[Item] = []
        self.partials = context.partials
        """Whether partial events are wanted. May change at any time, and changes nothing else."""
        self.provider = context.provider or state.provider or self.default_provider
        self.call_ids = CallIds(self, state.calls)
        self._publishers_name = context.session or context.stream
        self._numbers = Numbers(context.stream, state.line)
        self._is_guest = False
        self._reset_scope(None)

    def be_guest_of(self, host: Writer) -> None:
        """Read a part of the host's lines: the events of this parser are numbered as the host's."""
        self.partials = host.partials
        self._numbers = host._numbers
        self._is_guest = True

    def begin_between_lines(self, index: int, t: int | None) -> None:
        """Emit events that belong to no line; their ids are numbered from `index`."""
        self._reset_scope(t)
        self._restart_numbers("d", index)

    def origin_of_line(self) -> tuple[str, str]:
        """(protocol, provider) of the line's events."""
        return self.origin or (self.protocol, self.provider)

    def set_provider(self, provider: str) -> None:
        """Set the provider that the stream states; one that the publisher states takes precedence."""
        self.state.provider = provider
        self.provider = self.context.provider or provider or self.default_provider

    @property
    def turn(self) -> str | None:
        """The newest open turn of the line's session: the agent's own, where agents have turns."""
        turns: list[OpenTurn] = self.state.turns
        if not turns:
            return None
        session, agent, newest = self.session, self.agent, None
        last = turns[-1]  # nearly always the one
        if last.session == session and last.agent == agent:
            return last.id
        for turn in reversed(turns):
            if turn.session == session:
                if turn.agent == agent:
                    return turn.id
                newest = newest or turn.id
        return newest

    def emit(self, kind: type[E], **fields: Any) -> E:
        """Append an event of the line being read. Fields may override the envelope's keys by name."""
        event = self._make(kind, self._numbers.event(), fields)
        if self.state.session is None and event.session == self._publishers_name:
            self.state.named = True
        return event

    def emit_partial(self, kind: type[E], **fields: Any) -> None:
        """Emit a partial event. It uses no event index, so that ids are the same whether partials are wanted or not."""
        if self.partials:
            self._make(kind, self._numbers.partial(), {**fields, "partial": True})

    def put_output(self, data: bytes, mime_type: str) -> str:
        """Store a whole output body; returns its id."""
        output_id = self.new_output_id()
        self.items.append(OutputChunk(output_id, 0, data, mime_type))
        return output_id

    def new_output_id(self) -> str:
        return self._numbers.output()

    # -- internals ----------------------------------------------------------------------------------------------

    def _restart_numbers(self, mark: str = "", events: int = 0) -> None:
        if not self._is_guest:
            self._numbers.restart(self.state.line, mark, events)

    def _reset_scope(self, t: int | None) -> None:
        context = self.context
        self.session = self.state.session or self._publishers_name
        self.agent = context.agent
        self.parent = context.parent
        self.replay = False
        self.ts = t
        self.origin = None

    def _take(self) -> list[Item]:
        items, self.items = self.items, []
        return items

    def _make(self, kind: type[E], event_id: str, fields: dict[str, Any]) -> E:
        protocol, provider = self.origin or (self.protocol, self.provider)
        if "turn" not in fields:
            fields["turn"] = self.turn
        event = kind(
            **{
                "v": 2,
                "id": event_id,
                "stream": self.context.stream,
                "line": self._numbers.line,
                "ts": self.ts,
                "session": self.session,
                "agent": self.agent,
                "parent": self.call_ids.of(self.parent) if self.parent is not None else None,
                "protocol": protocol,
                "provider": provider,
                "dialect": self.dialect,
                "replay": self.replay,
                **fields,
            }
        )
        self.items.append(event)
        return event
