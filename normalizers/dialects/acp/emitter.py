"""What every reader of ACP emits with: the sessions of a connection, their turns, and what answers will confirm.

A turn runs from a prompt to its answer, in v2 to the state `idle`. Where only the agent's side is on the wire, or the
agent acts on its own, content opens a turn.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.bounded import make_room
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.lines import Line, Lines
from tooltap.normalizers.core.tokens import token_fields
from tooltap.normalizers.dialects.acp.state import AcpState, SessionInfo
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Chunk, ToolUpdate, Usage

__all__ = ["SKIPPED", "AcpEmitter"]

SESSIONS = 64

SKIPPED = {
    method: reason
    for reason, *methods in (
        ("administration", "providers/disable", "providers/list", "providers/set"),
        ("administration", "session/archive", "session/delete", "session/list", "session/status", "session/unarchive"),
        ("auth", "authenticate", "logout", "auth/login", "auth/logout"),
        ("auth", "auth/status", "auth/status_update", "_auth/status_update"),
        ("client-fs", "fs/read_text_file", "fs/write_text_file"),
        ("client-mcp", "mcp/connect", "mcp/disconnect", "mcp/message"),
        ("client-terminal", "terminal/cancel", "terminal/kill", "terminal/release"),
        ("request", "elicitation/complete", "tool_call/cancel"),
    )
    for method in methods
}
"""Method -> why it and its answer are skipped."""

_OUTCOMES = {"cancelled": "cancelled", "error": "failed", "max_turn_requests": "failed", "refusal": "failed"}
"""Stop reason -> outcome of the turn, unless it completed."""
_TOKENS = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("cachedReadTokens", "cachedInputTokens", "cached_tokens"),
    ("cachedWriteTokens", "cacheWriteInputTokens"),
    ("thoughtTokens", "reasoningOutputTokens", "thoughts_tokens"),
    ("totalTokens", "total_tokens"),
)
"""Keys of what `token_fields` takes."""


class AcpEmitter(Emitter):
    """Its tables are filled by the classes that derive from it."""

    request = Lines("method", {**SKIPPED, "initialize": "handshake", "session/close": "request"})
    """Its methods get the parameters, and the key of the request in the state."""
    answer = Lines("method", {**SKIPPED, "$/cancel_request": "answer", "session/cancel": "answer"})
    """Its methods get the result, the request and its key."""
    update = Lines("sessionUpdate", {"plan_removed": "unchanged"})
    state: AcpState

    @property
    def info(self) -> SessionInfo:
        """The session that the line belongs to."""
        sessions = self.state.sessions
        if self.session not in sessions:
            make_room(sessions, SESSIONS)
            sessions[self.session] = SessionInfo()
        return sessions[self.session]

    def enter_session(self, session_id: Any) -> None:
        """Set the line's scope. A subagent's session is part of its root session."""
        if not isinstance(session_id, str) or not session_id:
            return
        root = self.state.children.get(session_id)
        self.set_session(root or session_id)
        if root is not None:
            self.agent = session_id
        info = self.info
        self.state.cwd = info.cwd
        self.replay = info.loading

    def expect(self, key: str, **params: Any) -> None:
        """Remember what the answer to this request will confirm."""
        if key in self.state.asked:
            self.state.asked[key].params = params

    def emit_output(self, call: Call, text: str, offset: int) -> None:
        """Emit a partial event with what a call printed or showed while it runs."""
        chunk = Chunk(stream="output", text=text, offset=offset)
        self.emit_partial(ToolUpdate, call_id=call.id, name=call.name, chunk=chunk)

    # -- turns --------------------------------------------------------------------------------------------------

    @property
    def is_prompted(self) -> bool:
        """Whether a prompt on the wire began the running turn."""
        return self.turn is not None and self.turn != self.info.own_turn

    def begin_prompted_turn(self) -> str:
        """Start the turn of a prompt; a turn that no prompt began ends."""
        if (own := self.info.own_turn) is not None:
            self.end_running_turn("completed", own, synthetic=True)
        return self.start_turn()

    def ensure_turn(self) -> None:
        """Open a turn for content outside of any, unless it is replayed."""
        if not self.replay and self.turn is None:
            self.info.own_turn = self.start_turn(synthetic=True)

    def end_stopped_turn(self, stated: Line, turn_id: str | None = None) -> None:
        """End a turn as the agent states it: its stop reason, and the tokens it used."""
        reason, usage = stated.get("stopReason"), _read_usage(stated)
        before = ((Usage, usage),) if usage is not None else ()
        self.end_running_turn(_OUTCOMES.get(str(reason), "completed"), turn_id, reason=string(reason), before=before)

    def end_running_turn(self, outcome: str, turn_id: str | None, **fields: Any) -> None:
        self.end_turn(outcome, turn_id=turn_id, **fields)
        info = self.info
        info.stopping = False
        if turn_id in (None, info.own_turn):
            info.own_turn = None

    def end_history(self) -> None:
        """End what is open of a session that was replayed."""
        info = self.info
        if info.loading:
            self.texts.flush()
            self.calls.close_turn(self.session, None, None, "interrupted")
            info.loading = self.replay = False
        elif info.own_turn is not None:  # the request is not on the wire, and the history looked like content
            self.end_running_turn("completed", info.own_turn, synthetic=True)


def _read_usage(result: Line) -> dict[str, Any] | None:
    """The tokens in the answer to a prompt: `usage`, else `_meta.quota` (Gemini CLI).

    claude-agent-acp and codex-acp exclude the cache from the input; OpenCode also excludes the thoughts from the
    output. Without a total that shows which, the protocol's rule holds: the total is the sum of all kinds.
    """
    stated = record(result.get("usage") or record(record(result.get("_meta")).get("quota")).get("token_count"))
    tokens = [next((n for key in keys if (n := whole(stated.get(key))) is not None), None) for keys in _TOKENS]
    return None if tokens[0] is None and tokens[1] is None else {"scope": "turn", **token_fields(*tokens)}
