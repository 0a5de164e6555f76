"""Claude's messages, which its dialects and their siblings share: blocks, injected texts, news of the session.

A line holds a message or one block of it. The numbers of a message's blocks continue over its lines, whatever comes
between them.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import State, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.claude.answers import (
    BACKGROUND_TOOLS,
    read_answer,
    read_server_answer,
    text_of,
)
from tooltap.normalizers.dialects.claude.deltas import Deltas, DeltasState
from tooltap.normalizers.dialects.claude.injected_text import (
    INTERRUPTED,
    InjectedText,
    asks_the_model,
    read_injected_text,
)
from tooltap.normalizers.dialects.claude.tasks import Tasks, TasksState, task_named
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Attachment, Message, Reasoning, SessionEvent

MESSAGES = 1_024

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_BACKGROUND_NAMES = BACKGROUND_TOOLS | {"KillBash", "AgentOutputTool"}
"""Raw names, of all versions."""
_NOT_HUMAN = frozenset({"auto-continuation", "coordinator", "peer", "task-notification"})
"""`origin.kind` of lines that no user wrote (2.1); a user's is `human`, or not stated."""
_NO_CONTENT = "(no content)"
"""Claude Code's text for a message without content."""
_ERROR_KEYS = {
    "error": "error",
    "api_error_status": "status",
    "api_error_type": "type",
    "apiErrorStatus": "status",
    "apiErrorType": "type",
}
_encode = msgspec.json.Encoder().encode


class SeenMessage(msgspec.Struct):
    """A message of which a line was read."""

    turn: str | None
    blocks: int = 0


class BlocksState(msgspec.Struct):
    """State of the numbering of blocks."""

    messages: dict[str, SeenMessage] = {}
    """The last messages, by id."""


class TurnNotes(msgspec.Struct):
    """Flags of what an open turn has emitted, so that its end repeats nothing."""

    answered: bool = False
    error: bool = False
    interrupted: bool = False
    stop_reason: str | None = None
    """Stop reason of the main agent's last message."""


class ClaudeState(State, kw_only=True):
    blocks: BlocksState = msgspec.field(default_factory=BlocksState)
    deltas: DeltasState = msgspec.field(default_factory=DeltasState)
    tasks: TasksState = msgspec.field(default_factory=TasksState)
    reported: dict[str, int] = msgspec.field(default_factory=dict)
    """CRC of what was last emitted of the session, by field."""
    notes: dict[str, TurnNotes] = msgspec.field(default_factory=dict)
    """Open turn -> its notes."""


class ClaudeMessages:
    """Emits the messages of a stream and the news of its session, and keeps notes for the ends of its turns."""

    SKIPS = frozenset({"empty", "redacted-thinking", "repeated", "stale-task", "synthetic-prompt", "unchanged"})
    OF_LINE = frozenset({"is_main"})

    def __init__(self, parser: Parser, state: ClaudeState, deltas: Deltas, tasks: Tasks) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state
        self._deltas = deltas
        self._tasks = tasks
        self.is_main = True
        """Whether the line is the main agent's. Parsers set it for each line."""

    # -- for dialects to override -------------------------------------------------------------------------------

    def _called(self, block: Line) -> tuple[str, Any]:
        """(raw name, input) of the tool that a block calls."""
        return string(block.get("name")) or UNKNOWN_TOOL, block.get("input")

    def _answered(self, name: str, block: Line, twin: Any, meta: Line, *, stopped: bool) -> Answer:
        """The answer of the canonical tool `name`; see `read_answer`."""
        return read_answer(name, block, twin, meta, stopped=stopped)

    def _shown_to_model(self, block: Line) -> Any:
        """The result that the model got: see `Answer.model`."""
        return block.get("content") or ""

    def _is_echo(self, value: Line) -> bool:
        """Whether the line repeats a prompt that the client's own line has."""
        return False

    # -- session and turns --------------------------------------------------------------------------------------

    def enter_session(self, session: str) -> None:
        """Set the session of the line; the turns of the one before end."""
        if self._state.session not in (None, session):
            self._parser.give_up_turns()
        self._parser.set_session(session)

    def report_session(self, fields: dict[str, Any]) -> None:
        """Emit the start of the session, or what changed of it."""
        state: Any = self._state
        state.cwd = fields["cwd"] or state.cwd
        known, state.started = state.started, self._parser.session
        self.update_session(fields, "updated" if known == self._parser.session else "started")

    def update_session(self, fields: dict[str, Any], state: str = "updated") -> Skip:
        """Emit the fields that differ from what was last emitted of the session."""
        news = {}
        reported = self._state.reported
        for key, item in fields.items():
            if item is not None and reported.get(key) != (digest := zlib.crc32(_encode(item))):
                reported[key] = digest
                news[key] = item
        if not news and state == "updated":
            return "unchanged"
        self._parser.emit(SessionEvent, state=state, **news)
        return None

    def ensure_main_turn(self) -> None:
        """Open a synthetic turn for what the main agent does outside of any."""
        if self.is_main and self._parser.turn is None:  # a background agent continues between turns
            self._parser.start_turn(synthetic=True)

    def notes(self) -> TurnNotes:
        """The notes on the turn of this line."""
        state, turn = self._state, self._parser.turn or ""
        notes = state.notes.get(turn)
        if not turn or notes is None or len(state.notes) > 1:
            open_turns = {turn.id for turn in state.turns}
            state.notes = {key: notes for key, notes in state.notes.items() if key in open_turns}
            notes = state.notes.get(turn) or state.notes.setdefault(turn, TurnNotes())
        return notes

    def interrupted(self, text: str) -> Skip:
        """Emit an interrupt once per turn: the client's request and the agent's mark in the conversation are one."""
        notes = self.notes()
        if self.is_main and notes.interrupted:
            return "repeated"
        if self.is_main:
            notes.interrupted = True
            self._parser.goes_on()  # what was said before is not the answer
        self._parser.notice("interrupt", text)
        return None

    def failed_request(self, text: str, data: dict[str, Any] | None = None) -> Skip:
        """Emit that a request to the model failed."""
        if self.is_main:
            self.notes().error = True
        self._parser.notice("provider-error", text, "error", data)
        return None

    # -- assistant lines ----------------------------------------------------------------------------------------

    def assistant_message(self, value: Line, titles: dict[str, str]) -> Skip:
        """Emit the blocks of an `assistant` line. `titles`: call id -> what users are shown."""
        message = message_of(value)
        if message.get("model") == "<synthetic>":
            return self._harness_message(value, message)
        state = self._state
        if self.is_main and text_of(message.get("content")):
            self.notes().answered = True
        message_id, content, is_new = string(message.get("id")), _blocks(message), None
        if message_id is None:
            seen = SeenMessage(self._parser.turn)
        else:
            known = state.blocks.messages.get(message_id)
            is_new = known is None
            if known is None:
                known = SeenMessage(self._parser.turn)
                put(state.blocks.messages, message_id, known, MESSAGES)
            seen = known
        if state.deltas.messages and len(content) == 1 and (index := self._deltas.claim(message_id)) is not None:
            seen.blocks = index
        outcomes: list[Skip] = []
        for block in content:
            if state.texts.open:
                self._deltas.drop(message_id, seen.blocks)
            outcomes.append(self._assistant_block(block, titles, is_new, message_id, seen.blocks))
            seen.blocks += 1
        return best(outcomes) if outcomes else "empty"

    def _harness_message(self, value: Line, message: Line) -> Skip:
        """Emit a message that Claude Code made itself, without the model."""
        text = text_of(message.get("content"))
        details = {name: value[key] for key, name in _ERROR_KEYS.items() if value.get(key) is not None}
        if not text:
            return "empty"
        if details or value.get("isApiErrorMessage") is True or text.startswith("API Error"):
            return self.failed_request(text, details or None)
        self._parser.emit_text("system", text)
        return None

    def _assistant_block(
        self, block: Line, titles: dict[str, str], is_new: bool | None, message_id: str | None, index: int
    ) -> Skip:
        kind = string(block.get("type")) or ""
        if kind in _CALLS and type(block.get("id")) is str:
            return self._call(block, titles.get(block["id"]), is_new)
        if kind == "text" or kind == "thinking":
            text = block.get(kind)
            if type(text) is not str or not text or text.isspace() or text == _NO_CONTENT:
                return "empty"
            if kind == "text":
                self._parser.emit(Message, role="assistant", text=text, message_id=message_id, block=index)
            else:
                self._parser.emit(Reasoning, text=text, message_id=message_id, block=index)
            return None
        if kind == "redacted_thinking":
            return "redacted-thinking"
        if kind.endswith("_tool_result") and type(block.get("tool_use_id")) is str:
            return self._answer_call(block, block, read_server_answer(block))
        return self._media(block, role="assistant", message_id=message_id, block=index)

    def _call(self, block: Line, title: str | None, is_new: bool | None) -> Skip:
        """`is_new`: the message was never seen before; None where messages have no ids. Models of other vendors behind
        Claude Code reuse the ids of calls."""
        call_id, calls = block["id"], self._parser.calls
        raw_name, given = self._called(block)
        call = calls.get(call_id)
        if call is not None:  # opened before by its permission request
            return None if calls.update(call, given, raw=block, title=title) else "repeated"
        if not is_new:
            seen = calls.repeats(call_id, raw_name, given) if is_new is None else calls.is_done(call_id)
            if seen:
                return "repeated"
        memory = task_named(given) if raw_name in _BACKGROUND_NAMES else None
        calls.open(call_id, raw_name, given, raw=block, title=title, memory=memory)
        return None

    # -- user lines ---------------------------------------------------------------------------------------------

    def user_message(self, value: Line, message: Line, twin: Any, metas: dict[str, Line]) -> Skip:
        """Emit the blocks of a user's message. `twin`: the structured result beside the message; `metas`: call id ->
        what the line states of its permission."""
        content = _blocks(message)
        if len(content) > 1 and [block.get("type") for block in content].count("tool_result") > 1:
            twin = None
        outcomes: list[Skip] = []
        for block in content:
            kind = block.get("type")
            if kind == "tool_result" and type(block.get("tool_use_id")) is str:
                outcomes.append(self._tool_result(block, twin, metas.get(block["tool_use_id"], {})))
            elif kind == "text" and type(block.get("text")) is str:
                outcomes.append(self.user_text(block["text"], value) if block["text"].strip() else "empty")
            else:
                outcomes.append(self._media(block, role="user"))
        return best(outcomes) if outcomes else "empty"

    def user_text(self, text: str, value: Line) -> Skip:
        """Emit a text of a user line, which is not always the user's."""
        if text[0] in "<C\n " and (injected := read_injected_text(text)) is not None:
            return self._injected_text(injected, text, _is_synthetic(value))
        if _is_synthetic(value):
            return "synthetic-prompt"
        if self._is_echo(value):
            return "echo"
        if text.startswith(INTERRUPTED):
            return self.interrupted(text)
        self._parser.emit_text("user" if _is_human(value) else "system", text)
        return None

    def _injected_text(self, injected: InjectedText, text: str, is_synthetic: bool) -> Skip:
        """Emit the parts of a text that Claude Code wrote, or wrapped around the user's."""
        outcomes = self._tasks.noted(injected.tasks, text)
        for role, part in injected.parts:
            if role == "system" or not is_synthetic:
                self._parser.emit_text(role, part)
                outcomes.append(None)
        return best(outcomes) if outcomes else "synthetic-prompt"

    def _tool_result(self, block: Line, twin: Any, meta: Line) -> Skip:
        """`_raw` is the block, with the twin beside it under `tool_use_result`."""
        call_id = block["tool_use_id"]
        call, stopped, named = self._calls.get(call_id), False, None
        if call is None:
            name = self._calls.name_of(call_id) or ""
        else:
            name, stopped, named = call.name, call.memory.get("task") == "cancelled", call.memory.get("named")
        raw = block if twin is None else {**block, "tool_use_result": twin}
        answer = self._answered(name, block, twin, meta, stopped=stopped)
        outcome = self._answer_call(block, raw, answer)
        if answer.is_async:
            self._tasks.began(call_id, answer)
        elif name in BACKGROUND_TOOLS:
            self._tasks.learn_from(name, block, answer, named)
        return outcome

    def _answer_call(self, block: Line, raw: Line, answer: Answer) -> Skip:
        bodies = Bodies(self._parser)
        raw = bodies.take(raw)
        value = bodies.take(answer.value)
        model = bodies.take(self._shown_to_model(block))
        answer = answer.replace(value=value, model=model, attachments=bodies.attachments)
        return self._calls.answer(block["tool_use_id"], answer, raw=raw)

    def _media(self, block: Line, /, **fields: Any) -> Skip:
        """Emit a picture or document by itself; a block of any other type is `unparsed`."""
        bodies = Bodies(self._parser)
        if block.get("type") in ("image", "document"):
            bodies.take(block)
        attachments, url = bodies.attachments, string(record(block.get("source")).get("url"))
        if attachments is None and url is not None:
            mime_type = "image/*" if block.get("type") == "image" else "application/octet-stream"
            attachments = [Attachment(mime_type=mime_type, uri=url)]
        if attachments is None:
            return self._parser.unparsed("unknown-type", block)
        self._parser.emit(Message, text="", attachments=attachments, **fields)
        return None


def is_prompt(value: Line) -> bool:
    """Whether a user line asks for something, and does not report an interrupt, a command or the end of a task."""
    if _is_synthetic(value) or not _is_human(value):
        return False
    return asks_the_model(text_of(message_of(value).get("content")))


def _is_human(value: Line) -> bool:
    """Whether the user wrote a line, as far as it says: Claude Code 2.1 states where others come from."""
    if value.get("commandMode") == "task-notification":
        return False
    origin = value.get("origin")
    return type(origin) is not dict or str(origin.get("kind")) not in _NOT_HUMAN


def _is_synthetic(value: Line) -> bool:
    """Whether Claude Code wrote a user line for the model: reminders, what a command expands to, a summary."""
    get = value.get
    return get("isMeta") is True or get("isSynthetic") is True or get("isCompactSummary") is True


def message_of(value: Line) -> Line:
    """The message in a line; a bare string is its content."""
    message = value.get("message")
    return message if type(message) is dict else {"content": message}


def _blocks(message: Line) -> list[Line]:
    """A message's blocks; a string is one block of text, and so is a string among blocks."""
    content = message.get("content")
    items = content if type(content) is list else [] if content is None else [content]
    for item in items:
        if type(item) is not dict:
            return [item if type(item) is dict else {"type": "text", "text": item} for item in items]
    return items
