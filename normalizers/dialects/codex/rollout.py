"""Codex's rollouts, `~/.codex/sessions/**/rollout-*.jsonl`: what a thread did, as Codex keeps it to resume from.

Each line has a `type` and a `payload`: the model's API items (`response_item`), those of the core's events that are
worth keeping (`event_msg`), and the thread's settings. Which events are kept differs by version: to about 0.113 none
says where a turn begins or ends, so that a prompt begins one; to 0.146 commands and messages are API items and older
events; since 0.147 they are turn items beside the API items. To 0.31 a rollout is the API items alone, without a
`payload`.

A subagent's thread has a file of its own, which says whose it is, and may begin with its parent's history.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.base import CODEX_SKIPS, CodexParser
from tooltap.normalizers.dialects.codex.notices import codex_mode
from tooltap.normalizers.dialects.codex.state import CodexState, Msg, int_of, object_of, text_of
from tooltap.normalizers.wire.times import milliseconds
from tooltap.protocol.events import SessionEvent
from tooltap.protocol.tapped import Direction

__all__ = ["CodexRollout"]

_SKIPPED_LINES = {
    "inter_agent_communication_metadata": "housekeeping",
    "retained_context": "housekeeping",
    "token_usage_record": "usage-record",
    "world_state": "world-state",
}
_TURN_STARTS = ("task_started", "turn_started")


class CodexRolloutState(CodexState, kw_only=True):
    thread_id: str | None = None
    subagent: str | None = None
    """The thread, where it is not the session's main one."""
    own_from: int = 0
    """Ordinal of the first line that is no copy of the parent thread's."""
    tells_turns: bool = False
    """Whether turns have lines of their own."""


class CodexRollout(CodexParser):
    dialect = "codex-rollout"
    SKIPS = CODEX_SKIPS | {
        "world-state",  # what the model was told of its surroundings
        "usage-record",  # of one request; `token_count` has the sum
        "history",  # the parent thread's own beginning, in a subagent's file
        "legacy-state",  # `record_type: state`, to 0.31
    }
    state_type = CodexRolloutState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.event_turn = None
        self._scope(value)
        line_class = self._read_line(value)
        return line_class if line_class is not None else self.unparsed("unknown-type", value)

    def _scope(self, value: Msg) -> None:
        state = self.state
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        ordinal = int_of(value, "ordinal")
        self.replay = ordinal is not None and 0 < ordinal < state.own_from
        self.agent = state.subagent if state.subagent is not None and not self.replay else self.context.agent

    def _read_line(self, value: Msg) -> str | None:
        kind = str(value.get("type"))
        payload = object_of(value, "payload")
        if kind in _SKIPPED_LINES:
            return skip(_SKIPPED_LINES[kind])
        match kind:
            case "session_meta":
                return self._session_meta(payload)
            case "turn_context":
                return self._turn_context(payload)
            case "response_item":
                meta = object_of(payload, "internal_chat_message_metadata_passthrough")
                self.event_turn = text_of(meta, "turn_id")
                return self.read_raw_item(payload)
            case "event_msg":
                return self._event(payload)
            case "compacted":
                return self.notices.compacted("line", payload)
        return self._read_bare(value)

    def _event(self, msg: Msg) -> str | None:
        kind = msg.get("type")
        if kind in _TURN_STARTS:
            self.state.tells_turns = True
        if kind == "thread_settings_applied":
            return self.notices.settings(model=text_of(object_of(msg, "thread_settings"), "model"))
        return self.read_event(msg)

    def _read_bare(self, value: Msg) -> str | None:
        """A line of a rollout to 0.31: first who it is, then API items."""
        if value.get("record_type") == "state":
            return skip("legacy-state")
        if "type" not in value and "id" in value and "timestamp" in value:
            return self._session_meta(value)
        if value.get("type") == "message" and value.get("role") == "user":
            return self.messages.raw_prompt(value)
        return self.read_raw_item(value)

    # -- the session ----------------------------------------------------------------------------------------------

    def _session_meta(self, meta: Msg) -> str:
        state = self.state
        if self.replay:
            return skip("history")
        thread_id = text_of(meta, "id")
        spawned = object_of(object_of(object_of(meta, "source"), "subagent"), "thread_spawn")
        parent = text_of(meta, "parent_thread_id") or text_of(spawned, "parent_thread_id")
        session = text_of(meta, "session_id") or parent or thread_id
        resumed = thread_id is not None and thread_id == state.thread_id
        state.thread_id = thread_id
        state.subagent = thread_id if session != thread_id else None
        state.own_from = int_of(meta, "subagent_history_start_ordinal") or 0
        if session is not None:
            self.set_session(session)
        self.agent = state.subagent or self.agent
        state.cwd = text_of(meta, "cwd") or state.cwd
        state.agent_version = text_of(meta, "cli_version")
        if (cwd := text_of(meta, "cwd")) is not None:
            self.thread.settings["cwd"] = cwd
        told = "resumed" if resumed else "started"
        self.emit(SessionEvent, state=told, cwd=cwd, agent_version=state.agent_version)
        return WITH_EVENTS

    def _turn_context(self, context: Msg) -> str:
        self.state.cwd = text_of(context, "cwd") or self.state.cwd
        return self.notices.settings(
            cwd=text_of(context, "cwd"), model=text_of(context, "model"), mode=codex_mode(context)
        )

    # -- turns ----------------------------------------------------------------------------------------------------

    def before_content(self, *, prompt: bool = False) -> None:
        """Where no line tells of turns, a prompt ends one and begins the next; what follows an abort begins none."""
        super().before_content(prompt=prompt)
        goes_on = self.turn is not None or self.thread.ended is not None
        if self.state.tells_turns or (goes_on and not prompt):
            return
        if self.turn is not None:
            self.end_codex_turn("completed", turn_id=self.turn, synthetic=True)
        self.thread.said = self.thread.said[-1:] if prompt else []
        self.start_turn(synthetic=True)
