"""Parsers of Auggie's result and of its stored sessions, written after its program (0.36), without a recording."""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.dialects.auggie.answers import read_command
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import milliseconds, record, records, string, token_counts
from tooltap.protocol.events import Message, Usage

EXCHANGES = 4_096
"""Maximum number of exchanges that are remembered; the oldest are dropped."""
_TEXT, _TOOL_RESULT, _TOOL_USE, _THINKING = 0, 1, 5, 8
"""Types of the nodes of a request and of a response."""


class AuggieJson(Parser):
    """The `auggie-json` dialect: the last answer of a run, in one line."""

    dialect = "auggie-json"
    protocol = default_provider = "auggie"
    STATES_END = True
    line = Lines("type")
    state_type = SessionState

    @line("result", session_id=str)
    def _result(self, value: Line) -> None:
        self.begin_session(value["session_id"])
        self.ensure_turn()
        text = string(value.get("result"))
        if value.get("is_error") is True:
            self.notice("provider-error", text, "error")
            self.end_turn("failed", reason=string(value.get("subtype")))
            return
        if text:
            self.emit(Message, role="assistant", text=text)
        self.end_turn("completed")


class AuggieState(SessionState, kw_only=True):
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class AuggieSession(Parser):
    """The `auggie-session` dialect: a session, a JSON document that Auggie rewrites after each exchange with the model.

    A request consists of nodes: the prompt, or the results of calls; so does a response, of texts and calls. An
    exchange without a call is the last one of its turn.
    """

    dialect = "auggie-session"
    protocol = default_provider = "auggie"
    DOCUMENTS = True
    STATES_TIMES = True
    SKIPS = frozenset({"unchanged"})
    state_type = AuggieState
    state: AuggieState

    def read(self, value: Line) -> Skip:
        session, history = string(value.get("sessionId")), value.get("chatHistory")
        if session is None or not isinstance(history, list):
            return self.unparsed("unknown-type", value)
        if self.state.started != session:
            self.ts = milliseconds(value.get("created")) or self.ts
            self.begin_session(session)
        done = records(history)
        digests = [zlib.crc32(msgspec.json.encode(record(one.get("exchange")))) for one in done]
        start, is_shorter = self.state.history.unread(digests, EXCHANGES)
        if is_shorter:
            self.notice("rewound", "history shortened", data={"exchanges": start})
        for one in done[start:]:
            self.ts = milliseconds(one.get("finishedAt")) or self.ts
            self._exchange(record(one.get("exchange")))
        return None if self.items else "unchanged"

    def _exchange(self, value: Line) -> None:
        asked, answered = records(value.get("request_nodes")), records(value.get("response_nodes"))
        results = [record(node.get("tool_result_node")) for node in asked if node.get("type") == _TOOL_RESULT]
        if results:
            self.ensure_turn()
        elif prompt := string(value.get("request_message")) or _texts(asked):
            self.give_up_turns()
            self.start_turn()
            self.emit(Message, role="user", text=prompt)
        for result in results:
            self._result(result)
        self.ensure_turn()
        for node in answered:
            if node.get("type") == _THINKING and (thought := string(record(node.get("thinking")).get("content"))):
                self.emit_text("reasoning", thought)
        if text := string(value.get("response_text")):
            self.emit_text("assistant", text)
        calls = [record(node.get("tool_use")) for node in answered if node.get("type") == _TOOL_USE]
        for index, call in enumerate(calls):
            call_id, name = string(call.get("tool_use_id")), string(call.get("tool_name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                self.calls.show(call_id, name, decode_json(call.get("input_json")), raw=call, place=(None, index))
        for used in (record(node.get("token_usage")) for node in answered):
            if used:
                counts = map(used.get, ("input_tokens", "output_tokens"))
                cache = map(used.get, ("cache_read_input_tokens", "cache_creation_input_tokens"))
                self.emit(Usage, scope="step", **token_counts(*counts, *cache, apart=True))
        if not calls:
            self.end_turn("completed", ended_by="answer")

    def _result(self, result: Line) -> None:
        call_id, text = string(result.get("tool_use_id")), string(result.get("content"))
        if call_id is None:
            self.unparsed("unknown-type", result)
            return
        command = read_command(text or "") if self.calls.name_of(call_id) == "Bash" else None
        answer = Answer(text if command is None else command, model=text)
        if result.get("is_error") is True:
            answer = answer.replace(value=command, status="failed", error=text)
        self.calls.answer(call_id, answer, raw=result)


def _texts(nodes: list[Line]) -> str:
    texts = [string(record(node.get("text_node")).get("content")) for node in nodes if node.get("type") == _TEXT]
    return "\n".join(filter(None, texts))
