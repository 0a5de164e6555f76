"""Claude's messages, as both of its dialects carry them: blocks, harness texts in user lines, news of the session.

A line holds a message or one block of it. The numbers of a message's blocks continue over its lines, whatever comes
between them.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import read_answer, read_server_answer, text_of
from tooltap.normalizers.dialects.claude.reports import Reports, TasksState
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Attachment, Message, SessionEvent

__all__ = ["ClaudeParser", "ClaudeState", "Streamed", "TurnNotes", "is_prompt", "message_of"]

MESSAGES = 1_024

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
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


class SeenMessage(msgspec.Struct):
    turn: str | None
    blocks: int = 0


class BlocksState(msgspec.Struct):
    messages: dict[str, SeenMessage] = {}
    """The last messages, by id."""


class Streamed(msgspec.Struct):
    """The message whose deltas an agent is printing."""

    message_id: str | None = None
    block: int | None = None
    """Index of the block that has started and not stopped."""


class DeltasState(msgspec.Struct):
    messages: dict[str, Streamed] = {}
    """By agent; empty for the main agent."""


class TurnNotes(msgspec.Struct):
    """What was emitted in an open turn, so that its end repeats nothing."""

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
    """CRC of what was last emitted of the session, by field."""
    notes: dict[str, TurnNotes] = msgspec.field(default_factory=dict)
    """By open turn."""


class ClaudeParser(Parser):
    protocol = default_provider = "claude"
    SKIPS = frozenset({"empty", "redacted-thinking", "repeated", "stale-task", "synthetic-prompt", "unchanged"})
    state_type = ClaudeState
    state: ClaudeState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._reports = Reports(self, self.state.tasks)

    def finish(self, reason: str) -> None:
        self._reports.finish()

    # -- for dialects to override -------------------------------------------------------------------------------

    def _called(self, block: Line) -> tuple[str, Any]:
        """(raw name, input) of the tool that a block calls."""
        return string(block.get("name")) or UNKNOWN_TOOL, block.get("input")

    def _answered(self, name: str, block: Line, twin: Any, meta: Line, *, stopped: bool) -> Answer:
        """The answer of the canonical tool `name`; see `read_answer`."""
        return read_answer(name, block, twin, meta, stopped=stopped)

    def _is_echo(self, value: Line) -> bool:
        """Whether the line repeats a prompt that the client's own line has."""
        return False

    @property
    def _is_main(self) -> bool:
        """Whether the line is the main agent's."""
        return self.agent == self.context.agent

    # -- session and turns --------------------------------------------------------------------------------------

    def _enter_session(self, session: str) -> None:
        """Set the session of the line; the turns of the one before end."""
        if self.state.session not in (None, session):
            self.give_up_turns()
        self.set_session(session)

    def _report_session(self, fields: dict[str, Any]) -> None:
        """Emit the start of the session, or what changed of it."""
        state: Any = self.state
        state.cwd = fields["cwd"] or state.cwd
        known, state.started = state.started, self.session
        self._update_session(fields, "updated" if known == self.session else "started")

    def _update_session(self, fields: dict[str, Any], state: str = "updated") -> Skip:
        """Emit the fields that differ from what was last emitted of the session."""
        news = {}
        for key, item in fields.items():
            digest = zlib.crc32(msgspec.json.encode(item))
            if item is not None and self.state.told.get(key) != digest:
                self.state.told[key] = digest
                news[key] = item
        if not news and state == "updated":
            return "unchanged"
        self.emit(SessionEvent, state=state, **news)
        return None

    def _ensure_main_turn(self) -> None:
        if self._is_main:  # a background agent continues between turns
            self.ensure_turn()

    def _notes(self) -> TurnNotes:
        """The notes on the turn of this line."""
        state, turn = self.state, self.turn or ""
        if not turn or turn not in state.notes or len(state.notes) > 1:
            open_turns = {turn.id for turn in state.turns}
            state.notes = {key: notes for key, notes in state.notes.items() if key in open_turns}
        return state.notes.get(turn) or state.notes.setdefault(turn, TurnNotes())

    def _interrupted(self, text: str) -> Skip:
        """Emit an interrupt once per turn: the client's request and the agent's mark in the conversation are one."""
        notes = self._notes()
        if self._is_main and notes.interrupted:
            return "repeated"
        notes.interrupted = notes.interrupted or self._is_main
        self.notice("interrupt", text)
        return None

    def _failed_request(self, text: str, data: dict[str, Any] | None = None) -> Skip:
        if self._is_main:
            self._notes().error = True
        self.notice("provider-error", text, "error", data)
        return None

    # -- assistant lines ----------------------------------------------------------------------------------------

    def _assistant_message(self, value: Line, titles: dict[str, str]) -> Skip:
        """Emit the blocks of an `assistant` line. `titles`: call id -> what users are shown."""
        message = message_of(value)
        if message.get("model") == "<synthetic>":
            return self._harness_message(value, message)
        if self._is_main and text_of(message.get("content")):
            self._notes().answered = True
        message_id, content = string(message.get("id")), _blocks(message)
        is_new = None if message_id is None else message_id not in self.state.blocks.messages
        seen = self._seen(message_id)
        if len(content) == 1 and (index := self._claim(message_id)) is not None:
            seen.blocks = index
        outcomes: list[Skip] = []
        for block in content:
            self._drop_deltas(message_id, seen.blocks)
            place = {"message_id": message_id, "block": seen.blocks}
            outcomes.append(self._assistant_block(block, titles, is_new, place))
            seen.blocks += 1
        return best(outcomes or ["empty"])

    def _seen(self, message_id: str | None) -> SeenMessage:
        """What is remembered of a message."""
        messages = self.state.blocks.messages
        if message_id is None:
            return SeenMessage(self.turn)
        if message_id not in messages:
            put(messages, message_id, SeenMessage(self.turn), MESSAGES)
        return messages[message_id]

    def _claim(self, message_id: str | None) -> int | None:
        """Return the index of the block being streamed, if it is one of this message: it now came whole."""
        current = self.state.deltas.messages.get(self.agent or "")
        if current is None or current.block is None or current.message_id not in (None, message_id):
            return None
        index, current.block = current.block, None
        self._drop_deltas(current.message_id, index)
        return index

    def _drop_deltas(self, message_id: str | None, index: int) -> None:
        """Forget the deltas of a block, which came whole."""
        self.texts.drop(f"{message_id or ''}/{index}")

    def _harness_message(self, value: Line, message: Line) -> Skip:
        """Emit a message that Claude Code made itself, without the model."""
        text = text_of(message.get("content"))
        details = {name: value[key] for key, name in _ERROR_KEYS.items() if value.get(key) is not None}
        if not text:
            return "empty"
        if details or value.get("isApiErrorMessage") is True or text.startswith("API Error"):
            return self._failed_request(text, details or None)
        self.emit_text("system", text)
        return None

    def _assistant_block(self, block: Line, titles: dict[str, str], is_new: bool | None, place: dict[str, Any]) -> Skip:
        kind = string(block.get("type")) or ""
        if kind in ("text", "thinking"):
            if not string(block.get(kind)):
                return "empty"
            self.emit_text("assistant" if kind == "text" else "reasoning", block[kind], **place)
            return None
        if kind == "redacted_thinking":
            return "redacted-thinking"
        if kind in _CALLS and isinstance(block.get("id"), str):
            return self._call(block, titles.get(block["id"]), is_new)
        if kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str):
            return self._answer_call(block, block, read_server_answer(block))
        return self._media(block, role="assistant", **place)

    def _call(self, block: Line, title: str | None, is_new: bool | None) -> Skip:
        """`is_new`: the message was never seen before; None where messages have no ids. Models of other vendors behind
        Claude Code reuse the ids of calls."""
        call_id = block["id"]
        raw_name, given = self._called(block)
        call = self.calls.get(call_id)
        if call is not None:  # opened before by its permission request
            return None if self.calls.update(call, given, raw=block, title=title) else "repeated"
        seen = self.calls.repeats(call_id, raw_name, given) if is_new is None else self.calls.is_done(call_id)
        if seen and not is_new:
            return "repeated"
        self.calls.open(call_id, raw_name, given, raw=block, title=title)
        return None

    # -- user lines ---------------------------------------------------------------------------------------------

    def _user_message(self, value: Line, message: Line, twin: Any, metas: dict[str, Line]) -> Skip:
        """Emit the blocks of a user's message. `twin`: the structured result beside the message; `metas`: call id ->
        what the line states of its permission."""
        content = _blocks(message)
        results = sum(block.get("type") == "tool_result" for block in content)
        outcomes: list[Skip] = []
        for block in content:
            if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
                meta = metas.get(block["tool_use_id"], {})
                outcomes.append(self._tool_result(block, twin if results == 1 else None, meta))
            elif block.get("type") == "text" and isinstance(block.get("text"), str):
                outcomes.append(self._user_text(block["text"], value) if block["text"] else "empty")
            else:
                outcomes.append(self._media(block, role="user"))
        return best(outcomes or ["empty"])

    def _user_text(self, text: str, value: Line) -> Skip:
        """Emit a text of a user line, which is not always the user's."""
        if _LOCAL_OUTPUTS.fullmatch(text):
            printed = "".join(part for _, part in _LOCAL_OUTPUT.findall(text))
            if not printed:
                return "empty"
            self.emit_text("system", printed)
        elif _is_synthetic(value):
            return "synthetic-prompt"
        elif self._is_echo(value):
            return "echo"
        elif text.startswith(_INTERRUPTED):
            return self._interrupted(text)
        else:
            self.emit_text("user", text)
        return None

    def _tool_result(self, block: Line, twin: Any, meta: Line) -> Skip:
        """`_raw` is the block, with the twin beside it under `tool_use_result`."""
        call_id = block["tool_use_id"]
        call = self.calls.get(call_id)
        name = self.calls.name_of(call_id) or ""
        stopped = call is not None and call.memory.get("task") == "cancelled"
        raw = block if twin is None else {**block, "tool_use_result": twin}
        answer = self._answered(name, block, twin, meta, stopped=stopped)
        outcome = self._answer_call(block, raw, answer)
        self._reports.learn_from(name, block, answer)
        return outcome

    def _answer_call(self, block: Line, raw: Line, answer: Answer) -> Skip:
        bodies = Bodies(self)
        raw = bodies.take(raw)
        value = bodies.take(answer.value)
        answer = answer.replace(value=value, attachments=bodies.attachments)
        return self.calls.answer(block["tool_use_id"], answer, raw=raw)

    def _media(self, block: Line, /, **fields: Any) -> Skip:
        """Emit a picture or document by itself; a block of any other type is `unparsed`."""
        bodies = Bodies(self)
        if block.get("type") in ("image", "document"):
            bodies.take(block)
        attachments, url = bodies.attachments, string(record(block.get("source")).get("url"))
        if attachments is None and url is not None:
            mime_type = "image/*" if block.get("type") == "image" else "application/octet-stream"
            attachments = [Attachment(mime_type=mime_type, uri=url)]
        if attachments is None:
            return self.unparsed("unknown-type", block)
        self.emit(Message, text="", attachments=attachments, **fields)
        return None


def is_prompt(value: Line) -> bool:
    """Whether a user line asks for something, and does not report an interrupt or a local command."""
    text = text_of(message_of(value).get("content"))
    no_prompt = text.startswith((_INTERRUPTED, _LOCAL_COMMAND)) or _LOCAL_OUTPUTS.fullmatch(text)
    return not no_prompt and not _is_synthetic(value)


def _is_synthetic(value: Line) -> bool:
    """Whether Claude Code wrote a user line for the model: reminders, what a command expands to, a summary."""
    return any(value.get(key) is True for key in _SYNTHETIC)


def message_of(value: Line) -> Line:
    message = value.get("message")
    return message if isinstance(message, dict) else {"content": message}


def _blocks(message: Line) -> list[Line]:
    """A message's blocks; a string is one block of text, and so is a string among blocks."""
    content = message.get("content")
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [item if isinstance(item, dict) else {"type": "text", "text": item} for item in items]
