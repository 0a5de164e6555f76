"""What `-p --output-format stream-json` prints: Claude Code's invention, which Qwen Code prints in its own way.

A session begins with an `init` line, a turn ends with a `result` line, and between them stand messages, the API's own
stream of them, and the control protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.base import CLAUDE_SKIPS, ClaudeParser, ClaudeState, TurnNotes, message_of
from tooltap.normalizers.dialects.claude.control import CONTROL_SKIPS, Control, ControlState
from tooltap.normalizers.dialects.claude.results import last_words, outcome, used
from tooltap.normalizers.dialects.claude.system import NOTED, SYSTEM_SKIPS, compacting, note, rate_limit, read_notice
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Event, Message, Notice, SessionEvent
from tooltap.protocol.tapped import Direction

__all__ = ["PrintParser", "PrintState"]


class PrintState(ClaudeState, kw_only=True):
    started: str | None = None
    """The session whose start was told."""
    reads_input: bool = False
    """The client's lines are in the stream, so that the agent's repetitions of prompts are echoes."""
    prompted: bool = False
    """The newest turn was opened by its prompt; its `init` line is still to come."""
    control: ControlState = msgspec.field(default_factory=ControlState)


class PrintParser(ClaudeParser):
    SKIPS = CLAUDE_SKIPS | CONTROL_SKIPS | SYSTEM_SKIPS | {"partial", "status"}
    state_type = PrintState
    state: PrintState
    MODE_KEY: ClassVar[str]
    VERSION_KEY: ClassVar[str]
    """Of the `init` line."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._control = Control(self, self._tell_session, self._tell_interrupt)
        self._lines: dict[str, Callable[[dict[str, Any], Direction | None], str]] = {
            "assistant": self._assistant,
            "control_cancel_request": lambda value, _: self._control.cancel(value),
            "control_request": self._control.request,
            "control_response": lambda value, _: self._control.response(value),
            "conversation_reset": self._reset,
            "keep_alive": lambda value, _: skip("keep-alive"),
            "rate_limit_event": lambda value, _: rate_limit(self, value),
            "result": self._result,
            "stream_event": self._stream_event,
            "system": self._system,
            "tool_progress": lambda value, _: self._tasks.elapsed(value),
            "user": self._user,
        }
        for kind in NOTED:
            self._lines[kind] = lambda value, _: note(self, str(value["type"]), value)
        self._systems: dict[str, Callable[[dict[str, Any]], str]] = {
            "commands_changed": self._commands,
            "init": self._init,
            "permission_denied": self._permission_denied,
            "status": self._status,
            "task_notification": self._tasks.notification,
            "task_progress": self._tasks.progress,
            "task_started": self._tasks.progress,
            "task_updated": self._tasks.updated,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self._set_scope(value, direction)
        handler = self._lines.get(str(value.get("type")))
        return handler(value, direction) if handler is not None else self.unparsed("unknown-type", value)

    def _set_scope(self, value: dict[str, Any], direction: Direction | None) -> None:
        session = string(value.get("session_id"))
        if session and session != self.state.session and direction != "in":  # a client may send any word for it
            if self.state.session is not None:
                self._leave_session()
            self.set_session(session)
        parent = string(value.get("parent_tool_use_id"))
        if parent is not None:
            self.parent, self.agent = parent, string(value.get("agent_id")) or parent  # no agent ids before 2.1
        self.ts = milliseconds(value.get("timestamp")) or self.ts

    # -- session ------------------------------------------------------------------------------------------------

    def _system(self, value: dict[str, Any], direction: Direction | None) -> str:
        handler = self._systems.get(str(value.get("subtype")))
        if handler is not None:
            return handler(value)
        return read_notice(self, value) or self.unparsed("unknown-type", value)

    def _init(self, value: dict[str, Any]) -> str:
        """The first one starts the session; each opens a turn."""
        state = self.state
        state.cwd = string(value.get("cwd")) or state.cwd
        fields = {
            "cwd": string(value.get("cwd")),
            "model": string(value.get("model")),
            "mode": string(value.get(self.MODE_KEY)),
            "agent_version": string(value.get(self.VERSION_KEY)),
            "tools": _strings(value.get("tools")),
            "commands": _strings(value.get("slash_commands")),
            "mcp_servers": [
                {key: server[key] for key in ("name", "status") if key in server}
                for server in records(value.get("mcp_servers"))
            ],
        }
        if state.started == self.session:
            self._tell_session(fields)
        else:
            state.started, state.told = self.session, {}
            self.emit(SessionEvent, state="started", **self._news(fields))
        if not state.prompted:
            self.start_turn()
        state.prompted = False
        return WITH_EVENTS

    def _status(self, value: dict[str, Any]) -> str:
        if value.get("status") == "compacting" or "compact_result" in value:
            return compacting(self, value)
        if isinstance(value.get("permissionMode"), str):
            return self._tell_session({"mode": value["permissionMode"]})
        return skip("status")

    def _commands(self, value: dict[str, Any]) -> str:
        names = [name for one in records(value.get("commands")) if (name := string(one.get("name")))]
        return self._tell_session({"commands": names})

    def _reset(self, value: dict[str, Any], direction: Direction | None) -> str:
        data = {"newConversation": value.get("new_conversation_id")}
        self.emit(Notice, level="info", code="rewound", text="conversation reset", data=data)
        return WITH_EVENTS

    # -- messages -----------------------------------------------------------------------------------------------

    def _stream_event(self, value: dict[str, Any], direction: Direction | None) -> str:
        return self._deltas.read(record(value.get("event"))) or self.unparsed("unknown-type", value)

    def _assistant(self, value: dict[str, Any], direction: Direction | None) -> str:
        self._ensure_turn()
        titles = {
            str(meta.get("id")): meta["display_name"]
            for meta in records(value.get("tool_use_meta"))
            if isinstance(meta.get("display_name"), str)
        }
        return self._assistant_message(value, titles)

    def _user(self, value: dict[str, Any], direction: Direction | None) -> str:
        if direction == "in":
            self.state.reads_input = True
            if self.turn is None:
                self.start_turn()
                self.state.prompted = True
        elif value.get("isReplay") is not True:
            # Some harnesses put the prompt before what the agent printed.
            is_first = self.turn is None and self.state.started is None
            self.state.prompted |= is_first and self._is_main and bool(text_of(message_of(value).get("content")))
            self._ensure_turn()
        metas = {str(meta.get("id")): meta for meta in records(value.get("tool_result_meta"))}
        return self._blocks.user(
            message_of(value), value.get("tool_use_result"), metas, lambda text: self._user_text(text, value)
        )

    def _is_echo(self, value: dict[str, Any]) -> bool:
        return value.get("isReplay") is True and self.state.reads_input

    def _permission_denied(self, value: dict[str, Any]) -> str:
        told = self._control.deny(str(value.get("tool_use_id")), string(value.get("message")))
        return WITH_EVENTS if told else skip("repeated")

    # -- the end of a turn --------------------------------------------------------------------------------------

    def _result(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.ensure_turn()
        turn_id = self._ended_turn(value)
        notes = self.state.notes.pop(turn_id, TurnNotes())
        self.state.prompted = False
        state, reason = outcome(value, interrupted=notes.interrupted)
        self.texts.flush_turn(self.session, turn_id)
        words = last_words(value)
        if words and state == "failed" and not notes.error:
            self.emit(Notice, level="error", code="provider-error", text=words, turn=turn_id)
        elif words and state == "completed" and not notes.answered:
            # `--output-format json`, and commands that Claude Code answers by itself.
            role = "system" if "local_command" in value else "assistant"
            self.emit(Message, role=role, text=words, turn=turn_id)
        for denial in records(value.get("permission_denials")):
            self._control.deny(str(denial.get("tool_use_id")), None)
        self.end_turn(
            state,
            turn_id=turn_id,
            reason=reason,
            duration_ms=whole(value.get("duration_ms")),
            before=tuple(self._used(value)),
        )
        return WITH_EVENTS

    def _used(self, value: dict[str, Any]) -> list[tuple[type[Event], dict[str, Any]]]:
        return used(value)

    def _ended_turn(self, value: dict[str, Any]) -> str:
        """The turn whose messages the result names (2.1), else the oldest."""
        turns = [turn.id for turn in self.state.turns if turn.session == self.session]
        begun = value.get("begun_message_ids")
        for message_id in begun if isinstance(begun, list) else []:
            if (turn_id := self._blocks.turn_of(str(message_id))) in turns:
                return str(turn_id)
        return turns[0]


def _strings(value: Any) -> list[str] | None:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else None
