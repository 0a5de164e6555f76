"""Goose's messages: what it prints, where an event has a message or a piece of one, and what it stores."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, State, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import (
    after_epoch,
    first_string,
    milliseconds,
    record,
    records,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Message, Usage

_BUILTIN = "developer__"
"""What Goose puts before the names of its own tools for programming."""
_CALLS = ("frontendToolRequest", "toolRequest")


MESSAGES = 4_096
"""Maximum number of stored messages that are remembered; the oldest are dropped."""


class _Goose(Parser):
    """Messages, written after Goose's source (block/goose: `MessageContent`), without a recording.

    Calls are in messages of the assistant, and their results in messages of the user, each with a status.
    """

    protocol = default_provider = "goose"
    part = Lines(skip={"redactedThinking": "redacted-thinking"})

    def read_message(self, message: Line, value: Line) -> Skip:
        before = len(self.items)
        self.ts = after_epoch(message.get("created")) or self.ts
        parts = records(message.get("content"))
        skips = [self.part.read(self, part, message, line=value) for part in parts]
        if len(self.items) > before:
            return None
        return next((skip for skip in skips if skip is not None), "empty")

    @part("text", text=str)
    def _text(self, part: Line, message: Line) -> Skip:
        return self.say("user" if message.get("role") == "user" else "assistant", part["text"], message)

    @part("thinking", thinking=str)
    def _thinking(self, part: Line, message: Line) -> Skip:
        return self.say("reasoning", part["thinking"], message)

    def say(self, role: str, text: str, message: Line) -> Skip:
        """Read a text, or a piece of one."""
        raise NotImplementedError

    @part("image")
    def _image(self, part: Line, message: Line) -> Skip:
        self.ensure_turn()
        self.texts.flush()
        bodies = Bodies(self)
        bodies.take(part)
        role = "user" if message.get("role") == "user" else "assistant"
        self.emit(Message, role=role, text="", attachments=bodies.attachments)
        return None

    @part("frontendToolRequest", "toolRequest", id=str, toolCall=dict)
    def _call(self, part: Line, message: Line) -> Skip:
        call = part["toolCall"]
        given, error = record(call.get("value")), string(call.get("error"))
        self.ensure_turn()
        self.texts.flush()
        if error is not None:
            self.notice("invalid-call", error, "warning", part)
            return None
        name = string(given.get("name")) or "unknown"
        canonical = canonical_name(name.removeprefix(_BUILTIN), given.get("arguments"), part["id"])
        return self.calls.show(part["id"], name, given.get("arguments"), raw=part, name=canonical)

    @part("toolResponse", id=str, toolResult=dict)
    def _result(self, part: Line, message: Line) -> Skip:
        self.ensure_turn()
        self.texts.flush()
        result, bodies = part["toolResult"], Bodies(self)
        error = string(result.get("error"))
        if error is not None:
            return self.calls.answer(part["id"], Answer(None, "failed", error), raw=part)
        value: Any = bodies.take(result.get("value"))
        content = value.get("content") if isinstance(value, dict) else value
        has_failed = isinstance(value, dict) and value.get("isError") is True
        text = blocks_text(content)
        answer = Answer(None, "failed", text) if has_failed else Answer(text)
        answer = answer.replace(model=content, attachments=bodies.attachments)
        return self.calls.answer(part["id"], answer, raw={**part, "toolResult": {**result, "value": value}})

    @part("toolConfirmationRequest", id=str)
    def _confirm(self, part: Line, message: Line) -> Skip:
        self.ensure_turn()
        self.permissions.ask(part["id"], call_id=part["id"], title=string(part.get("prompt")))
        return None

    @part("actionRequired", data=dict)
    def _action(self, part: Line, message: Line) -> Skip:
        data = part["data"]
        if data.get("actionType") == "toolConfirmation" and isinstance(data.get("id"), str):
            return self._confirm(data, message)
        self.notice("action-required", string(data.get("message")), data=data)
        return None

    @part("systemNotification", msg=str)
    def _notification(self, part: Line, message: Line) -> Skip:
        self.notice("notification", part["msg"], data={"type": part.get("notificationType")})
        return None


class GooseJson(_Goose):
    """The `goose-json` dialect: events of `goose run --output-format stream-json` (`StreamEvent` of its command).

    The pieces of a text come as messages with one id.
    """

    dialect = "goose-json"
    STATES_END = True
    SKIPS = frozenset({"empty", "partial", "unchanged"})
    line = Lines(skip={"notification": "progress"})
    state_type = State

    @line("message", message=dict)
    def _message(self, value: Line) -> Skip:
        return self.read_message(value["message"], value)

    def say(self, role: str, text: str, message: Line) -> Skip:
        message_id = string(message.get("id"))
        if role == "user":
            self.texts.flush()
            self.ensure_turn()
            self.emit(Message, role="user", text=text, message_id=message_id)
            return None
        if text:
            self.ensure_turn()
            self.texts.append(role, text, message_id=message_id)
        return "partial"

    @line("error")
    def _error(self, value: Line) -> Skip:
        self.ensure_turn()
        self.notice("provider-error", first_string(value, "error", "message"), "error")
        self.end_turn("failed")
        return None

    @line("complete")
    def _complete(self, value: Line) -> Skip:
        self.ensure_turn()
        counts = token_counts(value.get("input_tokens"), value.get("output_tokens"))
        usage = ((Usage, {"scope": "session", **counts}),) if any(counts.values()) else ()
        self.end_turn("completed", before=usage)
        return None


class StoredState(SessionState, kw_only=True):
    title: str | None = None
    used: tuple[int | None, int | None] = (None, None)
    """The session's total input and output tokens, as last stated."""
    known: dict[str, None] = msgspec.field(default_factory=dict)
    """Digests of the messages that were read. Goose stores them all anew when it shortens a conversation."""


class GooseSession(_Goose):
    """The `goose-session` dialect: a session, from the database (`store.py`) or a file of lines.

    Both have what is stated of the session, and its messages. A turn lasts from a prompt to the answer without a call.
    """

    dialect = "goose-session"
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "repeated", "unchanged"})
    state_type = StoredState
    state: StoredState

    def read(self, value: Line) -> Skip:
        if "working_dir" in value:
            return self._session(value)
        content = value.get("content")
        if not isinstance(content, list):
            return self.unparsed("unknown-type", value)
        said = [value.get(key) for key in ("role", "created", "content")]
        digest = f"{zlib.crc32(msgspec.json.encode(said)):08x}"
        if digest in self.state.known:
            return "repeated"
        put(self.state.known, digest, None, MESSAGES)
        skip = self.read_message(value, value)
        calls = any(part.get("type") in _CALLS for part in records(content))
        if value.get("role") == "assistant" and not calls and self.turn is not None:
            self.end_turn("completed", ended_by="answer")
        return None if self.items else skip

    def say(self, role: str, text: str, message: Line) -> Skip:
        if not text:
            return "empty"
        if record(message.get("metadata")).get("userVisible") is False:
            self.notice("summary", text)
            return None
        if role == "user":
            self.give_up_turns()
            self.start_turn()
        self.ensure_turn()
        message_id = {} if role == "reasoning" else {"message_id": string(message.get("id"))}
        self.emit_text(role, text, **message_id)
        return None

    def _session(self, value: Line) -> Skip:
        state, folder = self.state, string(value.get("working_dir"))
        title = first_string(value, "name", "description")
        if state.started is None:
            self.ts = milliseconds(value.get("created_at")) or self.ts
            state.cwd, state.title = folder, title
            self.begin_session(value.get("id"), cwd=folder, title=title)
        elif title and title != state.title:
            state.title = title
            self.update_session({"title": title})
        used = whole(value.get("accumulated_input_tokens")), whole(value.get("accumulated_output_tokens"))
        if any(used) and used != state.used:
            state.used = used
            self.emit(Usage, scope="session", counter="session", **token_counts(*used))
        return None if self.items else "unchanged"
