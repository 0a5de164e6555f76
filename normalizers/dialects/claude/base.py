"""What the dialects that carry Claude's messages have in common: who says what in a line, and what was told before."""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import Answer, read_answer, text_of
from tooltap.normalizers.dialects.claude.blocks import BLOCK_SKIPS, Blocks, BlocksState
from tooltap.normalizers.dialects.claude.deltas import Deltas, DeltasState
from tooltap.normalizers.dialects.claude.tasks import Tasks, TasksState
from tooltap.normalizers.wire.values import string
from tooltap.protocol.events import Message, Notice, SessionEvent

__all__ = [
    "CLAUDE_SKIPS",
    "ClaudeParser",
    "ClaudeState",
    "TurnNotes",
    "is_prompt_text",
    "is_synthetic",
    "message_of",
]

CLAUDE_SKIPS = frozenset({"blank", "lost", "synthetic-prompt", "stale-task", "unchanged"}) | BLOCK_SKIPS

_SYNTHETIC = ("isSynthetic", "isMeta", "isCompactSummary")
_INTERRUPTED = "[Request interrupted by user"
_LOCAL_COMMAND = "<bash-input>"
"""A command that the user ran himself (`! ls`)."""
_LOCAL_OUTPUT = re.compile(r"<((?:local-command|bash)-std(?:out|err))>(.*?)</\1>\s*", re.S)
_LOCAL_OUTPUTS = re.compile(rf"(?:{_LOCAL_OUTPUT.pattern})+", re.S)
"""What such a command printed, or one of Claude Code's own (`/cost`)."""
_ERROR_KEYS = {
    "error": "error",
    "api_error_status": "status",
    "api_error_type": "type",
    "apiErrorStatus": "status",
    "apiErrorType": "type",
}


class TurnNotes(msgspec.Struct):
    """What was told in an open turn, so that its end repeats nothing."""

    answered: bool = False
    error: bool = False
    interrupted: bool = False
    stop_reason: str | None = None
    """Why the last message of the main agent stopped."""


class ClaudeState(State, kw_only=True):
    blocks: BlocksState = msgspec.field(default_factory=BlocksState)
    deltas: DeltasState = msgspec.field(default_factory=DeltasState)
    tasks: TasksState = msgspec.field(default_factory=TasksState)
    told: dict[str, int] = msgspec.field(default_factory=dict)
    """CRC of what was last told of the session, by field."""
    notes: dict[str, TurnNotes] = msgspec.field(default_factory=dict)
    """By open turn."""


class ClaudeParser(Parser):
    protocol = "claude"
    default_provider = "claude"
    state_type = ClaudeState
    state: ClaudeState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._deltas = Deltas(self)
        self._tasks = Tasks(self)
        self._blocks = Blocks(self, self._deltas, self._tasks, called=self._called, answered=self._answered)

    def finish(self, reason: str) -> None:
        self._tasks.finish()

    def _called(self, block: dict[str, Any]) -> tuple[str, Any]:
        """(raw name, input) of the tool that a block calls."""
        return string(block.get("name")) or UNKNOWN_TOOL, block.get("input")

    def _answered(self, name: str, block: dict[str, Any], twin: Any, meta: dict[str, Any], *, stopped: bool) -> Answer:
        """What a call of the canonical tool `name` was answered; see `read_answer`."""
        return read_answer(name, block, twin, meta, stopped=stopped)

    @property
    def _is_main(self) -> bool:
        """The line is the main agent's."""
        return self.agent == self.context.agent

    def _ensure_turn(self) -> None:
        if self._is_main:  # a background agent goes on between turns
            self.ensure_turn()

    def _notes(self) -> TurnNotes:
        """What was told in the turn of this line."""
        open_turns = {turn.id for turn in self.state.turns}
        self.state.notes = {key: notes for key, notes in self.state.notes.items() if key in open_turns}
        return self.state.notes.setdefault(self.turn or "", TurnNotes())

    def _leave_session(self) -> None:
        for turn in [turn for turn in self.state.turns if turn.session == self.session]:
            self.end_turn("cancelled", turn_id=turn.id, synthetic=True)

    # -- session ------------------------------------------------------------------------------------------------

    def _tell_session(self, fields: dict[str, Any]) -> str:
        news = self._news(fields)
        if not news:
            return skip("unchanged")
        self.emit(SessionEvent, state="updated", **news)
        return WITH_EVENTS

    def _news(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What differs from what was last told."""
        news = {}
        for key, item in fields.items():
            digest = zlib.crc32(msgspec.json.encode(item))
            if item is not None and self.state.told.get(key) != digest:
                self.state.told[key] = digest
                news[key] = item
        return news

    # -- messages -----------------------------------------------------------------------------------------------

    def _assistant_message(self, value: dict[str, Any], titles: dict[str, str]) -> str:
        """`titles`: call id -> what users are shown."""
        message = message_of(value)
        if message.get("model") == "<synthetic>":
            return self._harness_words(value, message)
        if self._is_main and text_of(message.get("content")):
            self._notes().answered = True
        return self._blocks.assistant(message, titles)

    def _harness_words(self, value: dict[str, Any], message: dict[str, Any]) -> str:
        """A message that Claude Code made itself: no model said it."""
        text = text_of(message.get("content"))
        details = {name: value[key] for key, name in _ERROR_KEYS.items() if value.get(key) is not None}
        if not text:
            return skip("empty")
        if details or value.get("isApiErrorMessage") is True or text.startswith("API Error"):
            if self._is_main:
                self._notes().error = True
            self.emit(Notice, level="error", code="provider-error", text=text, data=details or None)
        else:
            self.emit(Message, role="system", text=text)
        return WITH_EVENTS

    def _user_text(self, text: str, value: dict[str, Any]) -> str:
        """What stands in a user line is not always what a user said."""
        if _LOCAL_OUTPUTS.fullmatch(text):
            printed = "".join(part for _, part in _LOCAL_OUTPUT.findall(text))
            if not printed:
                return skip("empty")
            self.emit(Message, role="system", text=printed)
        elif is_synthetic(value):
            return skip("synthetic-prompt")
        elif self._is_echo(value):
            return skip("echo")
        elif text.startswith(_INTERRUPTED):
            return self._tell_interrupt(text)
        else:
            self.emit(Message, role="user", text=text)
        return WITH_EVENTS

    def _is_echo(self, value: dict[str, Any]) -> bool:
        """Whether the line repeats what the client's own line said."""
        return False

    def _tell_interrupt(self, text: str) -> str:
        """Told once a turn: the client's request and the agent's mark in the conversation are the same interrupt."""
        notes = self._notes()
        if self._is_main and notes.interrupted:
            return skip("repeated")
        notes.interrupted = notes.interrupted or self._is_main
        self.emit(Notice, level="info", code="interrupt", text=text)
        return WITH_EVENTS


def is_synthetic(value: dict[str, Any]) -> bool:
    """A user line that Claude Code wrote for the model: reminders, what a command expands to, a summary."""
    return any(value.get(key) is True for key in _SYNTHETIC)


def is_prompt_text(text: str) -> bool:
    """Whether a user's text asks for something, rather than telling of an interrupt or a local command."""
    return not text.startswith((_INTERRUPTED, _LOCAL_COMMAND)) and _LOCAL_OUTPUTS.fullmatch(text) is None


def message_of(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    return message if isinstance(message, dict) else {"content": message}
