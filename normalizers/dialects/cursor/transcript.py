"""The `cursor-transcript` dialect: the transcripts that Cursor's CLI and editor store."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import between, records, string
from tooltap.protocol.events import Message

_TYPED = "<user_query>", "</user_query>"
"""What encloses the words of the user."""


class TranscriptState(State, kw_only=True):
    unnamed: int = 0
    """Number of calls so far that have no id."""


class CursorTranscript(Parser):
    """Transcripts, `~/.cursor/projects/<folder>/agent-transcripts/<session>/<session>.jsonl`.

    Written after public readers of these files (2026.08), without a recording. A line is a message, or states the end
    of a turn. It is written after the tools in it have run, but has neither their results nor ids of the calls, so
    each call gets an id here, and a result that is marked as inferred.
    """

    dialect = "cursor-transcript"
    protocol = default_provider = "cursor"
    SKIPS = frozenset({"empty", "unchanged"})
    line = Lines("role")
    block = Lines()
    state_type = TranscriptState
    state: TranscriptState

    def read(self, value: Line) -> Skip:
        return self._turn_ended(value) if value.get("type") == "turn_ended" else self.line.read(self, value)

    def _turn_ended(self, value: Line) -> Skip:
        self.ensure_turn()
        status = status_word(value.get("status"))
        outcome = status if status in ("cancelled", "failed") else "completed"
        self.end_turn(outcome, reason=string(value.get("error")))
        return None

    @line("user", message=dict)
    def _user(self, value: Line) -> Skip:
        bodies = Bodies(self)
        text = blocks_text(bodies.take(value["message"].get("content"))) or ""
        typed = between(text, *_TYPED)
        self.give_up_turns()
        self.start_turn()
        said = text if typed is None else typed.strip()
        self.emit(Message, role="user", text=said, attachments=bodies.attachments)
        return None

    @line("assistant", message=dict)
    def _assistant(self, value: Line) -> Skip:
        content, before = value["message"].get("content"), len(self.items)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else records(content)
        for index, block in enumerate(blocks):
            self.block.read(self, block, index)
        return None if len(self.items) > before else "empty"

    @block("text", text=str)
    def _text(self, block: Line, index: int) -> Skip:
        if not block["text"]:
            return "empty"
        self.ensure_turn()
        self.emit_text("assistant", block["text"])
        return None

    @block("tool_use", name=str)
    def _call(self, block: Line, index: int) -> Skip:
        self.ensure_turn()
        call_id = string(block.get("id"))
        if call_id is not None:
            return self.calls.show(call_id, block["name"], block.get("input"), raw=block, place=(None, index))
        self.state.unnamed += 1
        call = self.calls.open(f"call-{self.state.unnamed}", block["name"], block.get("input"), raw=block)
        return self.calls.answer(call, Answer(None), raw={}, synthetic=True)

    @block("tool_result", tool_use_id=str)
    def _result(self, block: Line, index: int) -> Skip:
        self.ensure_turn()
        content: Any = block.get("content")
        text = blocks_text(content)
        answer = Answer(None, "failed", text) if block.get("is_error") is True else Answer(text, model=content)
        return self.calls.answer(block["tool_use_id"], answer, raw=block)
