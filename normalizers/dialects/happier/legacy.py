"""The `legacy` dialect: messages as Happier's server stored them before payloads were normalized, or where Claude's are
rebuilt from files.

    {"role": "agent", "content": {"type": "acp"|"codex"|"output"|"event", "provider"?, "data"}, "meta"?}
    {"role": "user", "content": {"type": "text", "text"}}

each alone or in the server's envelope (`{"id", "createdAt", "content": {"role", …}}`), or the `data` alone. `acp` and
`codex` data are payloads (`trace.py`); `output` data are lines of a Claude transcript, and are read as such. Missing
names are inferred, strings of JSON are decoded where they can be nothing else, and what was already normalized stays as
it was stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Line, Skip
from tooltap.normalizers.core.parser import Parser, outcome_of
from tooltap.normalizers.core.state import Call, State
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.dialects.claude.transcript import ClaudeTranscript, TranscriptMessages
from tooltap.normalizers.dialects.happier.trace import PayloadParser, PayloadsState, is_wrapped
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import first_string, milliseconds, record, records, string, whole

_RESULT_KEYS = frozenset(
    {"stdout", "stderr", "aggregated_output", "formatted_output", "output", "content", "exit_code", "exitCode"}
    | {"success", "applied", "error", "errorMessage", "matches", "entries", "results", "_happy"}
)
"""Keys, one of which an object stored as a string has; any other JSON is the tool's own output."""
_DECISIONS = {"approved": "allowed", "denied": "denied", "canceled": "cancelled", "cancelled": "cancelled"}


class LegacyState(PayloadsState, kw_only=True):
    agent: tuple[str, str] | None = None
    """(protocol, provider) of the last payload: the agent that gets the next prompt."""
    claude: bytes | None = None
    """State of the parser of transcript lines, as of the last dump."""


class _TranscriptMessages(TranscriptMessages):
    def _shown_to_model(self, block: Line) -> Any:
        """The output of Codex and Gemini, in Claude's messages, is what the app showed."""
        return msgspec.UNSET if "callId" in block else super()._shown_to_model(block)


class _Transcript(ClaudeTranscript):
    """Reads lines of Claude's transcripts inside those of Happy: it knows sidechains, split messages and the rest."""

    dialect = "legacy"
    MESSAGES = _TranscriptMessages

    def read_decision(self, block: Line, t: int | None) -> None:
        """Emit what the user decided about a call, which the app notes in the call's result, before the result."""
        self._reset_scope(t)
        call_id, noted = string(block.get("tool_use_id")), block["permissions"]
        outcome = _DECISIONS.get(str(noted.get("result")))
        call = self.calls.get(call_id) if call_id is not None else None
        if call is not None and outcome is not None:
            self.session, self.agent, self.parent = call.session, call.agent, call.parent
            self.ts = whole(noted.get("date")) or milliseconds(noted.get("date")) or t
            self.permissions.answer(call.id, outcome, call_id=call.id, by="user", option_id=string(noted.get("mode")))


class Legacy(PayloadParser):
    dialect = "legacy"
    SKIPS = PayloadParser.SKIPS | _Transcript.skip_reasons() | {"app-event", "empty"}
    payloads = PayloadParser.payloads.copy(skip={"token_count": "token-count"})
    state_type = LegacyState
    state: LegacyState
    OF_LINE = frozenset({"_stored"})

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        dumped = self.state.claude
        self._stored: Line = {}
        self._claude = None if dumped is None else _Transcript.load(dumped, context)

    def dump(self) -> bytes:
        if self._claude is not None:
            self.state.claude = self._claude.dump()
        return super().dump()

    def read(self, value: Line) -> Skip:
        self.ts = whole(value.get("createdAt")) or self.ts
        if session := first_string(value, "sessionId"):
            self._name(session)
        inner = record(value.get("content"))
        message = inner if "role" in inner else value
        content = record(message.get("content"))
        if message.get("role") == "user" and isinstance(content.get("text"), str):
            return self._prompt(content["text"])
        return self._content(content if "role" in message else message)

    def inner_parsers(self) -> Iterable[Parser]:
        return () if self._claude is None else (self._claude,)

    def renew_inner(self, old: Legacy) -> Iterable[tuple[Parser, Parser, str]]:
        if old._claude is not None:
            self._claude = _Transcript(self.context)
            yield old._claude, self._claude, ""

    def inner_has_call(self, call_id: str, besides: Writer | None) -> bool:
        return self._claude is not None and self._claude is not besides and self._claude.has_call(call_id)

    def finish(self, reason: str) -> None:
        if self._claude is not None:
            self._claude.nest_in(self)
            self.items += self._claude.close(reason, self.ts)

    def _content(self, content: Line) -> Skip:
        kind, data = content.get("type"), content.get("data")
        if isinstance(data, dict):
            if kind in ("acp", "codex"):
                return self._payload(kind, string(content.get("provider")) or kind, data)
            if kind == "output":
                return self._transcript_line(data)
            if kind == "event":
                return self._app_event(data)
        if isinstance(content.get("message"), dict) or "leafUuid" in content:
            return self._transcript_line(content)
        return self._payload("acp", string(content.get("provider")) or "acp", content)

    def _app_event(self, data: Line) -> Skip:
        text = string(data.get("message"))
        if data.get("type") != "message" or not text:
            return "app-event"
        self.notice("app", text)
        return None

    def _prompt(self, text: str) -> Skip:
        if not text:
            return "empty"
        if self._claude is not None:
            return self._transcript_line({"type": "user", "message": {"role": "user", "content": text}})
        self.origin = self.state.agent
        if self.turn is not None:
            self.end_turn("completed", synthetic=True)
            self.start_turn()
        self.emit_text("user", text)
        return None

    # -- payloads -----------------------------------------------------------------------------------------------

    def _payload(self, protocol: str, provider: str, payload: Line) -> Skip:
        kind = payload.get("type")
        if not isinstance(kind, str) or not self.payloads.knows(kind):
            return self.unparsed("unknown-type", payload)
        self.origin = self.state.agent = protocol, self.context.provider or provider
        decoded: Line = {key: _decoded(key, payload[key]) for key in ("input", "output") if key in payload}
        self._stored = {
            key: one
            for key, one in decoded.items()
            if isinstance(record(one).get("_happy"), dict) and not is_wrapped(one)
        }
        self.calls.restore = self._restore if self._stored else None
        try:
            return self._read_payload(kind, {**payload, **decoded})
        finally:
            self.calls.restore = None

    def _restore(self, field: str, made: Line, call: Call) -> Line:
        """Replace what was made of a normalized payload by the payload as it was stored."""
        stored = self._stored.get(field)
        if stored is None:
            return made
        name = first_string(stored["_happy"], "canonicalToolName")
        if name and field == "input" and not self.calls.is_over(call.id):
            call.name = name
        meta = {**made["_happy"], **stored["_happy"], "v": 2, "canonicalToolName": call.name}
        return {"_raw": made["_raw"], **stored, "_happy": meta}

    @payloads("message", "reasoning", "thinking")
    def _text(self, payload: Line, _: None) -> Skip:
        text = first_string(payload, "message", "text")
        if text is None:
            return "empty"
        self.ensure_turn()
        self.emit_text("assistant" if payload["type"] == "message" else "reasoning", text)
        return None

    @payloads("task_started")
    def _turn_started(self, *_: Any) -> None:
        self.start_turn()

    @payloads("task_complete", "turn_aborted")
    def _turn_ended(self, payload: Line, _: None) -> None:
        self.ensure_turn()
        self.end_turn("completed" if payload["type"] == "task_complete" else "cancelled")

    # -- lines of Claude's transcripts --------------------------------------------------------------------------

    def _name(self, session: str) -> None:
        claude = self._claude
        if claude is not None and claude.state.session is None:
            # One event ties what both have emitted to the name.
            self.state.named, claude.state.named = self.state.named or claude.state.named, False
            claude.set_session(session)
        self.set_session(session)

    def _transcript_line(self, line: Line) -> Skip:
        claude = self._claude
        if claude is None:
            claude = self._claude = _Transcript(self.context)
            if self.state.session is not None:
                claude.set_session(self.state.session)
        claude.nest_in(self)
        message = record(line.get("message"))
        content = message.get("content")
        blocks = records(content)
        if isinstance(content, list):
            content = [_as_claudes(block) if isinstance(block, dict) else block for block in content]
            line = {**_twin(blocks), **line, "message": {**message, "content": content}}
        decided = [block for block in blocks if isinstance(block.get("permissions"), dict)]
        for block in decided:
            claude.read_decision(block, self.ts)
        line_class, items = claude.feed(msgspec.json.encode(line), self.ts)
        self.items += items
        if claude.state.session is not None and self.state.session is None:
            self.set_session(claude.state.session)
        outcome = outcome_of(line_class)
        return None if decided and outcome != UNPARSED else outcome


def _decoded(key: str, value: Any) -> Any:
    decoded = decode_json(value)
    is_payload = isinstance(decoded, dict) and (key == "input" or not _RESULT_KEYS.isdisjoint(decoded))
    return decoded if is_payload else value


def _twin(blocks: list[Line]) -> Line:
    """The result's object, placed where Claude has it: beside the message, if there is only one."""
    outputs = [block.get("output") for block in blocks if block.get("type") == "tool-call-result"]
    return {"toolUseResult": outputs[0]} if len(outputs) == 1 and isinstance(outputs[0], dict) else {}


def _as_claudes(block: Line) -> Line:
    """Turn a block of Codex or Gemini, which the app also stored in Claude's messages, into Claude's."""
    kind, call_id = block.get("type"), block.get("callId")
    if kind == "tool-call" and call_id is not None:
        return {**block, "type": "tool_use", "id": call_id}
    if kind == "tool-call-result" and call_id is not None:
        content = block.get("output", block.get("content"))
        if content is not None and not isinstance(content, str | list):
            content = msgspec.json.encode(content).decode()
        return {**block, "type": "tool_result", "tool_use_id": call_id, "content": content or ""}
    return block
