"""The `acme-json` dialect, an example: the output of the fictional agent `acme --json`.

Each line is an object: `hello`, the user's `prompt`, a text the model `says`, a call of a `tool` and its `answer` with
the same id, `done` at the end of a turn with the tokens since `hello`, and `ping` to keep the connection alive.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.protocol.events import Message, Usage


class AcmeState(SessionState, kw_only=True):
    """All that is remembered from line to line. It is dumped and loaded, so nothing may be stored elsewhere."""

    tokens: int = 0


class AcmeJson(Parser):
    dialect = "acme-json"
    protocol = default_provider = "acme"
    SKIPS = frozenset({"unchanged"})
    line = Lines("acme", skip={"ping": "ping"})
    state_type = AcmeState
    state: AcmeState

    @staticmethod
    def recognises(value: dict[str, Any]) -> bool:
        """Whether only this agent prints such a line. Called for lines that no built-in dialect claims."""
        return isinstance(value.get("acme"), str)

    @line("hello", session=str)
    def _hello(self, value: Line) -> None:
        self.begin_session(value["session"])

    @line("prompt", text=str)
    def _prompt(self, value: Line) -> None:
        self.start_turn()
        self.emit(Message, role="user", text=value["text"])

    @line("says", text=str)
    def _says(self, value: Line) -> None:
        self.ensure_turn()
        self.emit(Message, role="assistant", text=value["text"])

    @line("tool", id=str, name=str)
    def _tool(self, value: Line) -> Skip:
        self.ensure_turn()
        return self.calls.show(value["id"], value["name"], value.get("with"), raw=value)

    @line("answer", id=str)
    def _answer(self, value: Line) -> Skip:
        self.ensure_turn()
        status = "failed" if value.get("failed") is True else "completed"
        return self.calls.answer(value["id"], Answer(value.get("value"), status), raw=value)

    @line("done", tokens=int)
    def _done(self, value: Line) -> None:
        self.ensure_turn()
        used = {"scope": "turn", "output_tokens": value["tokens"] - self.state.tokens}
        self.state.tokens = value["tokens"]
        self.end_turn("completed", before=((Usage, used),))
