"""The `amazon-q-db` and `kiro-db` dialects: conversations of Amazon Q Developer CLI, and of Kiro's first engine, each a
JSON document that grows.

Written after the source of both (`message.rs`, `conversation.rs` and the migrations of aws/amazon-q-developer-cli) and
public readers of these databases, without a recording.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.dialects.kiro.parser import shell_result, show_tool
from tooltap.normalizers.wire.values import after_epoch, milliseconds, record, records, string
from tooltap.protocol.events import Message

MESSAGES = 4_096
"""Maximum number of entries of a conversation that are remembered; the oldest are dropped."""


class AmazonQState(SessionState, kw_only=True):
    model: str | None = None
    conversation: str | None = None
    summary: int | None = None
    """CRC-32 of the summary that stands for earlier messages."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class AmazonQDb(Parser):
    """An entry of the history is what the model got, a prompt or results of tools, and what it has answered. A turn
    lasts from a prompt to the answer that calls no tool."""

    dialect = "amazon-q-db"
    protocol = default_provider = "amazon-q"
    STATES_TIMES = True
    DOCUMENTS = True
    SKIPS = frozenset({"unchanged"})
    given = Lines()
    answered = Lines()
    state_type = AmazonQState
    state: AmazonQState

    def read(self, value: Line) -> Skip:
        return self.read_conversation(value)

    def read_conversation(self, value: Line, folder: str | None = None) -> Skip:
        """Read a conversation as it is now. `folder`: where it is held, if that is not stated in it."""
        state, conversation = self.state, string(value.get("conversation_id"))
        if conversation is None or not isinstance(value.get("history"), list):
            return self.unparsed("unknown-type", value)
        entries = [_entry(one) for one in value["history"]]
        if conversation != state.conversation:
            self.give_up_turns()
            state.conversation, state.history, state.summary = conversation, MessageHistory(), None
            self.ts = next(filter(None, (milliseconds(user.get("timestamp")) for user, _, _ in entries)), self.ts)
            state.cwd = folder or next(filter(None, (_folder(user) for user, _, _ in entries)), None)
            self.begin_session(conversation, cwd=state.cwd)
        self._summary(value.get("latest_summary"))
        first, is_shorter = state.history.unread([_identity(one) for one in value["history"]], MESSAGES)
        if is_shorter:
            self.notice("rewound", "conversation shortened", data={"messages": first})
        for user, assistant, request in entries[first:]:
            self._read_entry(user, assistant, request)
        return None if self.items else "unchanged"

    def _summary(self, summary: Any) -> None:
        """A summary, with or without what is known of its request."""
        text = string(summary[0] if isinstance(summary, list) and summary else summary)
        digest = None if text is None else zlib.crc32(text.encode(errors="replace"))
        if text and digest != self.state.summary:
            self.state.summary = digest
            self.notice("summary", text)

    def _read_entry(self, user: Line, assistant: Line, request: Line) -> None:
        self.ts = (
            milliseconds(user.get("timestamp")) or after_epoch(request.get("request_start_timestamp_ms")) or self.ts
        )
        self.uses_model(string(request.get("model_id")))
        content = record(user.get("content"))
        for kind, one in content.items():
            self.given.read(self, record(one), kind=kind, line=user)
        if not content:
            self.unparsed("unknown-type", user)
        if user.get("images"):
            self.unparsed("unknown-type", {"images": user["images"]})
        self.ts = after_epoch(request.get("stream_end_timestamp_ms")) or self.ts
        for kind, one in assistant.items():
            self.answered.read(self, record(one), kind=kind, line=assistant)

    @given("Prompt", prompt=str)
    def _prompt(self, value: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        self.emit(Message, role="user", text=value["prompt"])
        return None

    @given("ToolUseResults", tool_use_results=list)
    def _results(self, value: Line) -> Skip:
        for result in records(value["tool_use_results"]):
            self._result(result, "failed")
        return None

    @given("CancelledToolUses", tool_use_results=list)
    def _cancelled(self, value: Line) -> Skip:
        """Calls that the user has declined, with the prompt in their place, if there is one."""
        for result in records(value["tool_use_results"]):
            self._result(result, "cancelled")
        if prompt := string(value.get("prompt")):
            self._prompt({"prompt": prompt})
        return None

    def _result(self, result: Line, failure: str) -> None:
        call_id = string(result.get("tool_use_id"))
        if call_id is None:
            self.unparsed("unknown-type", result)
            return
        self.ensure_turn()
        parts = records(result.get("content"))
        text = "\n".join(part["Text"] for part in parts if isinstance(part.get("Text"), str))
        objects = [part["Json"] for part in parts if isinstance(part.get("Json"), dict)]
        if result.get("status") == "Error":
            answer = Answer(None, failure, text or None)
        else:
            answer = Answer(shell_result(objects[0]) if len(objects) == 1 and not text else objects or text)
        self.calls.answer(call_id, answer.replace(model=result.get("content")), raw=result)

    @answered("Response", content=str)
    def _response(self, value: Line) -> Skip:
        self._say(value)
        self.end_turn("completed", ended_by="answer")
        return None

    @answered("ToolUse", tool_uses=list)
    def _calls(self, value: Line) -> Skip:
        self._say(value)
        for index, call in enumerate(records(value["tool_uses"])):
            call_id, name = string(call.get("id")), string(call.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                show_tool(self, call_id, name, call.get("args"), call, index=index)
        return None

    def _say(self, value: Line) -> None:
        self.ensure_turn()
        if (text := string(value.get("content"))) and text.strip():
            self.emit_text("assistant", text, message_id=string(value.get("message_id")))


class KiroDb(AmazonQDb):
    """A line is a row: what its columns state, and the conversation."""

    dialect = "kiro-db"
    protocol = default_provider = "kiro"

    def read(self, value: Line) -> Skip:
        conversation = record(value.get("conversation"))
        if string(conversation.get("conversation_id")) is None or not isinstance(conversation.get("history"), list):
            return self.unparsed("unknown-type", value)
        return self.read_conversation(conversation, string(value.get("key")))


def _entry(one: Any) -> tuple[Line, Line, Line]:
    """What the model got, what it answered, and what is known of the request; older versions have a pair."""
    if isinstance(one, list):
        user, assistant = (*one, None, None)[:2]
        return record(user), record(assistant), {}
    one = record(one)
    return record(one.get("user")), record(one.get("assistant")), record(one.get("request_metadata"))


def _folder(user: Line) -> str | None:
    return string(record(record(user.get("env_context")).get("env_state")).get("current_working_directory"))


def _identity(one: Any) -> int:
    user, assistant, _ = _entry(one)
    return zlib.crc32(msgspec.json.encode([user.get("content"), assistant]))
