"""The `goose-json` dialect: the events that Goose prints, each with a message or a piece of one."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import after_epoch, first_string, record, records, string, token_counts
from tooltap.protocol.events import Message, Usage

_BUILTIN = "developer__"
"""What Goose puts before the names of its own tools for programming."""


class GooseJson(Parser):
    """Events of `goose run --output-format stream-json`.

    Written after Goose's source (block/goose: `StreamEvent` of its command, and `MessageContent`), without a recording.
    The pieces of a text come as messages with one id; calls are in messages of the assistant, and their results in
    messages of the user, each with a status.
    """

    dialect = "goose-json"
    protocol = default_provider = "goose"
    STATES_END = True
    SKIPS = frozenset({"empty", "partial", "unchanged"})
    line = Lines(skip={"notification": "progress"})
    part = Lines(skip={"redactedThinking": "redacted-thinking"})
    state_type = State

    @line("message", message=dict)
    def _message(self, value: Line) -> Skip:
        message, before = value["message"], len(self.items)
        self.ts = after_epoch(message.get("created")) or self.ts
        parts = records(message.get("content"))
        skips = [self.part.read(self, part, message, line=value) for part in parts]
        if len(self.items) > before:
            return None
        return next((skip for skip in skips if skip is not None), "empty")

    @part("text", text=str)
    def _text(self, part: Line, message: Line) -> Skip:
        if message.get("role") == "user":
            self.texts.flush()
            self.ensure_turn()
            self.emit(Message, role="user", text=part["text"], message_id=string(message.get("id")))
            return None
        return self._append("assistant", part["text"], message)

    @part("thinking", thinking=str)
    def _thinking(self, part: Line, message: Line) -> Skip:
        return self._append("reasoning", part["thinking"], message)

    def _append(self, role: str, text: str, message: Line) -> Skip:
        if text:
            self.ensure_turn()
            self.texts.append(role, text, message_id=string(message.get("id")))
        return "partial"

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
