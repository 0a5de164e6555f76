"""Turns of an ACP session: from a prompt to its answer, in v2 to the state `idle`.

Where only the agent's side is on the wire, or the agent acts on its own, content opens a turn.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.acp.sessions import Sessions, usage_fields
from tooltap.normalizers.wire.values import string
from tooltap.protocol.events import Event, Usage

__all__ = ["Turns"]

_OUTCOMES = {
    "cancelled": "cancelled",
    "error": "failed",
    "max_turn_requests": "failed",
    "refusal": "failed",
}
"""Stop reason -> how the turn ended, where it was not just completed."""


class Turns:
    def __init__(self, parser: Parser, sessions: Sessions) -> None:
        self._parser = parser
        self._sessions = sessions

    @property
    def is_prompted(self) -> bool:
        """Whether a prompt on the wire began the running turn."""
        turn = self._parser.turn
        return turn is not None and turn != self._sessions.info.own_turn

    def begin(self) -> str:
        """A prompt: it ends the turn that no prompt began."""
        if (own := self._sessions.info.own_turn) is not None:
            self.end("completed", turn=own, synthetic=True)
        return self._parser.start_turn()

    def ensure(self) -> None:
        """Content outside of any turn, and not of an old session told again, opens one."""
        parser = self._parser
        if not parser.replay and parser.turn is None:
            self._sessions.info.own_turn = parser.start_turn(synthetic=True)

    def end_with(self, stated: dict[str, Any], reason: Any, turn: str | None) -> None:
        """The agent ends a turn; `stated` holds what it used."""
        usage = usage_fields(stated)
        self.end(
            _OUTCOMES.get(str(reason), "completed"),
            turn=turn,
            reason=string(reason),
            before=((Usage, usage),) if usage is not None else (),
        )

    def end(
        self,
        outcome: str,
        *,
        turn: str | None,
        reason: str | None = None,
        before: tuple[tuple[type[Event], dict[str, Any]], ...] = (),
        synthetic: bool = False,
    ) -> None:
        self._parser.end_turn(outcome, turn_id=turn, reason=reason, before=before, synthetic=synthetic)
        info = self._sessions.info
        info.stopping = False
        if turn in (None, info.own_turn):
            info.own_turn = None

    def end_history(self) -> None:
        """An old session was told again: what is open of it ends with the telling."""
        parser, info = self._parser, self._sessions.info
        if info.loading:
            parser.texts.flush()
            parser.calls.close_turn(parser.session, None, None, "interrupted")
            info.loading = parser.replay = False
        elif info.own_turn is not None:  # the request is not on the wire, and the history looked like content
            self.end("completed", turn=info.own_turn, synthetic=True)
