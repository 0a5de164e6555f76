"""The `cline-session` dialect: the messages of a session, a JSON document that Cline writes whole each time.

Learned from Cline 3.0.65. Messages are those of Anthropic's API, with ids of Cline's. Each version of the document is
a line; only messages that no version before had are read. A subagent has a document of its own. No message says that a
turn ends: it lasts from the user's message to the assistant's that calls no tool.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import History, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.cline.answers import read_result
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Message, Usage

MESSAGES = 4_096
"""Latest messages that are remembered."""
_INPUT = re.compile(r"<user_input mode=\"[a-z]{1,20}\">(.*)</user_input>\s*", re.DOTALL)
"""A prompt in Cline's tags."""
_FOLDER = re.compile(r"^[0-9]{1,3}\. Working Directory: (.{1,4096})$", re.MULTILINE)
"""The line of the system prompt that names the folder of the session."""


class ClineSessionState(SessionState, kw_only=True):
    model: str | None = None
    cwd: str | None = None
    history: History = msgspec.field(default_factory=History)


class ClineSession(Parser):
    dialect = "cline-session"
    protocol = default_provider = "cline"
    DOCUMENTS = True
    SKIPS = frozenset({"unchanged"})
    message = Lines("role")
    block = Lines("type", skip={"redacted_thinking": "unchanged"})
    state_type = ClineSessionState
    state: ClineSessionState

    def read(self, value: Line) -> Skip:
        messages, session = value.get("messages"), string(value.get("sessionId"))
        if not isinstance(messages, list) or session is None:
            return self.unparsed("unknown-type", value)
        origin = record(value.get("origin"))
        lead, agent = string(origin.get("parentThreadId")), string(origin.get("subagent"))
        if lead is not None and agent is not None:
            self.set_session(lead)
            self.agent = agent
        else:
            self._describe_session(session, origin, value)
        crcs = [zlib.crc32(str(record(message).get("id")).encode()) for message in messages]
        start, is_shorter = self.state.history.unread(crcs, MESSAGES)
        if is_shorter:
            self.notice("rewound", "history shortened", data={"messages": start})
        for message in messages[start:]:
            self._read_message(record(message))
        return None if self.items else "unchanged"

    def _describe_session(self, session: str, origin: Line, value: Line) -> None:
        """Begin the session. Its first version may lack the system prompt."""
        if self.state.started != session:
            self.begin_session(session, agent_version=string(origin.get("version")))
        folder = _FOLDER.search(string(value.get("system_prompt")) or "")
        if folder and folder[1] != self.state.cwd:
            self.state.cwd = folder[1]
            self.update_session({"cwd": folder[1]})

    def _read_message(self, message: Line) -> None:
        self.ts = whole(message.get("ts")) or self.ts
        self.message.read(self, message)

    @message("user")
    def _user(self, message: Line) -> Skip:
        bodies = Bodies(self)
        texts = []
        for block in _blocks(bodies.take(message.get("content"))):
            if block.get("type") == "tool_result":
                self._answer(block)
            elif (text := string(block.get("text"))) is not None:
                given = _INPUT.fullmatch(text)
                texts.append(given[1] if given else text)
        if texts or bodies.attachments is not None:
            if self.turn is not None:
                self.give_up_turns()
            self.start_turn()
            text, message_id = "\n".join(texts), string(message.get("id"))
            self.emit(Message, role="user", text=text, message_id=message_id, attachments=bodies.attachments)
        return None

    @message("assistant")
    def _assistant(self, message: Line) -> Skip:
        if self.agent is None:
            self.uses_model(string(record(message.get("modelInfo")).get("id")))
        blocks = _blocks(message.get("content"))
        for block in blocks:
            self.block.read(self, block, string(message.get("id")))
        if usage := _tokens(record(message.get("metrics"))):
            self.ensure_turn()
            self.emit(Usage, scope="step", **usage)
        if self.turn is not None and not any(block.get("type") == "tool_use" for block in blocks):
            self.end_turn("completed", ended_by="answer")
        return None

    @block("text", text=str)
    @block("thinking", thinking=str)
    def _text(self, block: Line, message_id: str | None) -> Skip:
        kind = block["type"]
        if not block[kind]:
            return "unchanged"
        self.ensure_turn()
        self.emit_text("assistant" if kind == "text" else "reasoning", block[kind], message_id=message_id)
        return None

    @block("tool_use", id=str, name=str)
    def _call(self, block: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        return self.calls.show(block["id"], block["name"], block.get("input"), raw=block)

    def _answer(self, block: Line) -> Skip:
        call_id = block.get("tool_use_id")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", block)
        self.ensure_turn()
        bodies = Bodies(self)
        raw = bodies.take(block)
        content = raw.get("content")
        output = decode_json(content) if isinstance(content, str) and content.startswith("{") else content
        event = {"output": output} if block.get("is_error") is not True else {"error": output}
        answer = read_result(self.calls.name_of(call_id) or "", event)
        answer = answer.replace(attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw, raw_name=string(block.get("name")) or UNKNOWN_TOOL)


def _blocks(content: Any) -> list[Line]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else records(content)


def _tokens(metrics: Line) -> dict[str, Any]:
    """Cline's `inputTokens` includes cached tokens."""
    prompt, output = whole(metrics.get("inputTokens")), whole(metrics.get("outputTokens"))
    if not prompt and not output:
        return {}
    return {
        "input_tokens": prompt,
        "output_tokens": output,
        "cache_read_tokens": whole(metrics.get("cacheReadTokens")),
        "cache_write_tokens": whole(metrics.get("cacheWriteTokens")),
    }
