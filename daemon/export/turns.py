"""The turns of a session, from its events: what was asked, how many calls and errors it took, and how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from tooltap.daemon.show.blocks import short
from tooltap.protocol.events import AnyEvent, Message, ToolCall, ToolResult, Turn

WORDS = 80
"""Characters of the prompt."""
ERRORS = 5
"""Failed calls of a turn that are named."""


@dataclass(slots=True)
class TurnOfSession:
    number: int
    first: int
    """`seq` of its first event."""
    anchor: int
    """`seq` of its prompt, else of its first event."""
    words: str = ""
    """The beginning of the prompt; empty if the stream has none."""
    calls: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)
    """`seq` and tool of the first failed calls."""
    state: str = "started"
    stated: int | None = None
    """Milliseconds that it took, by the agent's word."""
    began: int | None = None
    ended: int | None = None

    @property
    def duration(self) -> int | None:
        if self.stated is not None or self.began is None or self.ended is None:
            return self.stated
        return self.ended - self.began


class Turns:
    """Add the events of a session in their order; `all` has its turns."""

    def __init__(self) -> None:
        self.all: list[TurnOfSession] = []

    def add(self, event: AnyEvent) -> TurnOfSession | None:
        """Return the turn that begins with the event, if one does."""
        if event.replay:
            return None
        begun = self._begun(event)
        if not self.all:
            return None
        turn = self.all[-1]
        if event.ts is not None:
            turn.began = event.ts if turn.began is None else turn.began
            turn.ended = event.ts
        match event:
            case Message(role="user", agent=None) if not turn.words:
                turn.words, turn.anchor = short(event.text, WORDS), event.seq or 0
            case ToolCall():
                turn.calls += 1
            case ToolResult(is_error=True):
                turn.failed += 1
                if len(turn.errors) < ERRORS:
                    turn.errors.append((event.seq or 0, event.name))
            case Turn(agent=None) if event.state != "started":
                turn.state = event.state
                turn.stated = event.duration_ms
        return begun

    def _begun(self, event: AnyEvent) -> TurnOfSession | None:
        last = self.all[-1] if self.all else None
        match event:
            case Turn(state="started", agent=None):
                pass
            case Message(role="user", agent=None) if last is None or (last.words and last.state != "started"):
                pass
            case _:
                return None
        seq = event.seq or 0
        self.all.append(TurnOfSession(len(self.all) + 1, seq, seq))
        return self.all[-1]
