"""The `grok-history` dialect: a line for each item of a conversation of Grok Build."""

from __future__ import annotations

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import between, record, records, string
from tooltap.protocol.events import Message

_TYPED = "<user_query>", "</user_query>"
"""What encloses the words of the user."""
_ENVIRONMENT = "<user_info>"
_INTERJECTION = "interjection"
_CONTEXT = frozenset({"project_instructions", "skills", "system_reminder"})
"""Values of `synthetic_reason` with which the model only gets context."""


class GrokState(SessionState, kw_only=True):
    model: str | None = None


class GrokHistory(Parser):
    """Conversations, `~/.grok/sessions/<folder>/<session>/chat_history.jsonl`.

    Written after public readers of these files (Grok Build 1.0), without a recording. An item of the user is a prompt
    unless it has a `synthetic_reason`; it holds the prompt between tags. A turn lasts until the answer without a call.
    """

    dialect = "grok-history"
    protocol = default_provider = "grok"
    SKIPS = frozenset({"empty", "prompt-context", "redacted-thinking", "unchanged"})
    line = Lines(skip={"system": "prompt-context"})
    state_type = GrokState
    state: GrokState

    @line("user", content=(list, str))
    def _user(self, value: Line) -> Skip:
        bodies = Bodies(self)
        text = blocks_text(bodies.take(value["content"])) or ""
        reason, typed = string(value.get("synthetic_reason")), between(text, *_TYPED)
        if reason == _INTERJECTION:
            self.ensure_turn()
        elif reason in _CONTEXT or (reason is None and typed is None and text.startswith(_ENVIRONMENT)):
            return "prompt-context"
        elif reason is not None:
            self.notice("compaction" if reason.startswith("compaction") else "reminder", text, data={"reason": reason})
            return None
        else:
            self.give_up_turns()
            self.start_turn()
        said = text if typed is None else typed.strip()
        self.emit(Message, role="user", text=said, attachments=bodies.attachments)
        return None

    @line("reasoning", summary=(list, str))
    def _reasoning(self, value: Line) -> Skip:
        text = blocks_text(value["summary"])
        if not text:
            return "redacted-thinking"
        self.ensure_turn()
        self.emit_text("reasoning", text)
        return None

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        text, calls = blocks_text(value.get("content")), records(value.get("tool_calls"))
        if not text and not calls:
            return "empty"
        self.ensure_turn()
        self.uses_model(string(value.get("model_id")))
        if text:
            self.emit_text("assistant", text)
        for index, call in enumerate(calls):
            function = record(call.get("function")) or call
            call_id, name = string(call.get("id")), string(function.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                place = None, index
                self.calls.show(call_id, name, decode_json(function.get("arguments")), raw=call, place=place)
        if not calls:
            self.end_turn("completed", ended_by="answer")
        return None if self.items else "unchanged"

    @line("tool_result", tool_call_id=str)
    def _result(self, value: Line) -> Skip:
        bodies = Bodies(self)
        content = bodies.take(value.get("content"))
        self.ensure_turn()
        text = blocks_text(content)
        answer = Answer(None, "failed", text) if value.get("is_error") is True else Answer(text)
        answer = answer.replace(model=content, attachments=bodies.attachments)
        return self.calls.answer(value["tool_call_id"], answer, raw=value)
