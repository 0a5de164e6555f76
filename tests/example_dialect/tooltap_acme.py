"""The `acme-json` dialect: what `acme --json` prints, an agent made up to show how a dialect is written.

One object per line: `hello`, the user's `prompt`, what the model `says`, a `tool` and its `answer` by the tool's id,
`done` at the end of the turn with the tokens made since `hello`; `ping` keeps the connection alive.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.protocol.events import Message, SessionEvent, Usage
from tooltap.protocol.tapped import Direction


class AcmeState(State, kw_only=True):
    """All that is remembered from line to line; it is dumped and loaded, so nothing may be kept elsewhere."""

    tokens: int = 0


class AcmeJson(Parser):
    dialect = "acme-json"
    protocol = "acme"
    default_provider = "acme"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "ping", "unchanged"})
    state_type = AcmeState
    state: AcmeState

    @staticmethod
    def sniff(value: dict[str, Any]) -> bool:
        """Whether only this agent prints such a line; asked of lines that no built-in dialect claims."""
        return isinstance(value.get("acme"), str)

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        match value:
            case {"acme": "ping"}:
                return skip("ping")
            case {"acme": "hello", "session": str(session)}:
                self.set_session(session)
                self.emit(SessionEvent, state="started")
            case {"acme": "prompt", "text": str(text)}:
                self.start_turn()
                self.emit(Message, role="user", text=text)
            case {"acme": "says", "text": str(text)}:
                self.ensure_turn()
                self.emit(Message, role="assistant", text=text)
            case {"acme": "tool", "id": str(call_id), "name": str(name)}:
                self.ensure_turn()
                if (known := self.calls.get(call_id)) is not None:
                    return WITH_EVENTS if self.calls.update(known, value.get("with"), raw=value) else skip("unchanged")
                self.calls.open(call_id, name, value.get("with"), raw=value)
            case {"acme": "answer", "id": str(call_id)}:
                self.ensure_turn()
                status = "failed" if value.get("failed") is True else "completed"
                return self.calls.result(call_id, value.get("value"), raw=value, status=status)
            case {"acme": "done", "tokens": int(total)}:
                self.ensure_turn()
                used = {"scope": "turn", "output_tokens": total - self.state.tokens}
                self.state.tokens = total
                self.end_turn("completed", before=((Usage, used),))
            case _:
                return self.unparsed("unknown-type", value)
        return WITH_EVENTS
