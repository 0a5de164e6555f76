"""Messages as Happier's server stored them before payloads were normalized, or where Claude's are rebuilt from files.

    {"role": "agent", "content": {"type": "acp"|"codex"|"output"|"event", "provider"?, "data"}, "meta"?}
    {"role": "user", "content": {"type": "text", "text"}}

each alone or in the server's envelope (`{"id", "createdAt", "content": {"role", …}}`), or the `data` alone. `acp` and
`codex` data are the payloads of `happier_payloads.py`; `output` data are lines of a Claude transcript, and are read as
such. Names are inferred where there are none, strings of JSON are decoded where they can be nothing else, and what was
already normalized is kept as it was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Context, OutputPiece
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.registry import parser_class
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.happier.payloads import PAYLOAD_SKIPS, HappierParser, PayloadsState
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Message, Notice, Reasoning, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.tapped import Direction

__all__ = ["Legacy"]

_CLAUDE = parser_class("claude-transcript")
_RESULT_KEYS = frozenset(
    {"stdout", "stderr", "aggregated_output", "formatted_output", "output", "content", "exit_code", "exitCode"}
    | {"success", "applied", "error", "errorMessage", "matches", "entries", "results", "_happy"}
)
"""What an object that was stored as a string has at least one of; any other JSON is what the tool printed."""
_DECISIONS = {"approved": "allowed", "denied": "denied", "canceled": "cancelled", "cancelled": "cancelled"}


class LegacyState(PayloadsState, kw_only=True):
    agent: tuple[str, str] | None = None
    """(protocol, provider) of the last payload: whom the next prompt is for."""
    claude: bytes | None = None
    """State of the parser of transcript lines, when all was last dumped."""


class Legacy(HappierParser):
    dialect = "legacy"
    protocol = "happier"
    default_provider = "happier"
    SKIPS = PAYLOAD_SKIPS | _CLAUDE.SKIPS | {"app-event", "empty", "token-count"}
    state_type = LegacyState
    state: LegacyState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        dumped = self.state.claude
        self._claude: Parser | None = None if dumped is None else _CLAUDE.load(dumped, context)
        self._readers: dict[str, Callable[[dict[str, Any]], str]] = {
            **self.payload_readers,
            "message": lambda payload: self._text(Message, payload, role="assistant"),
            "reasoning": lambda payload: self._text(Reasoning, payload),
            "thinking": lambda payload: self._text(Reasoning, payload),
            "task_started": lambda payload: self._turn_started(),
            "task_complete": lambda payload: self._turn_ended("completed"),
            "turn_aborted": lambda payload: self._turn_ended("cancelled"),
            "token_count": lambda payload: skip("token-count"),
        }

    def dump(self) -> bytes:
        if self._claude is not None:
            self.state.claude = self._claude.dump()
        return super().dump()

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        content = value.get("content")
        message = value
        if isinstance(content, dict) and "role" in content:
            message = content
        self.ts = whole(value.get("createdAt")) or self.ts
        if session := string(value.get("sessionId")):
            self.set_session(session)
        content = record(message.get("content"))
        if message.get("role") == "user" and isinstance(content.get("text"), str):
            return self._prompt(content["text"])
        return self._content(content if "role" in message else message)

    def finish(self, reason: str) -> None:
        if self._claude is not None:
            self._claude.be_guest_of(self)
            self._pass_on(self._claude.close(reason, self.ts))

    # -- what is in the wrapper ---------------------------------------------------------------------------------------

    def _content(self, content: dict[str, Any]) -> str:
        kind, data = content.get("type"), content.get("data")
        if kind in ("acp", "codex") and isinstance(data, dict):
            return self._payload(str(kind), string(content.get("provider")) or str(kind), data)
        if kind == "output" and isinstance(data, dict):
            return self._transcript_line(data)
        if kind == "event" and isinstance(data, dict):
            return self._app_event(data)
        if isinstance(content.get("message"), dict) or "leafUuid" in content:
            return self._transcript_line(content)
        return self._payload("acp", string(content.get("provider")) or "acp", content)

    def _app_event(self, data: dict[str, Any]) -> str:
        text = string(data.get("message"))
        if data.get("type") != "message" or not text:
            return skip("app-event")
        self.emit(Notice, level="info", code="app", text=text)
        return WITH_EVENTS

    def _prompt(self, text: str) -> str:
        if not text:
            return skip("empty")
        if self._claude is not None:
            return self._transcript_line({"type": "user", "message": {"role": "user", "content": text}})
        self.origin = self.state.agent
        if self.turn is not None:
            self.end_turn("completed", synthetic=True)
            self.start_turn()
        self.emit(Message, role="user", text=text)
        return WITH_EVENTS

    # -- payloads -----------------------------------------------------------------------------------------------------

    def _payload(self, protocol: str, provider: str, payload: dict[str, Any]) -> str:
        reader = self._readers.get(str(payload.get("type")))
        if reader is None:
            return self.unparsed("unknown-type", payload)
        self.origin = self.state.agent = protocol, self.context.provider or provider
        since = len(self.items)
        decoded: dict[str, Any] = {key: _decoded(key, payload[key]) for key in ("input", "output") if key in payload}
        line_class = reader({**payload, **decoded})
        for key, stored in decoded.items():
            if isinstance(stored, dict) and isinstance(stored.get("_happy"), dict):
                self._keep_as_stored(key, stored, since)
        return line_class

    def _keep_as_stored(self, key: str, stored: dict[str, Any], since: int) -> None:
        """Put the stored payload in the place of what was made of it."""
        for event in self.items[since:]:
            made = getattr(event, key, None)
            if not isinstance(event, ToolCall | ToolUpdate | ToolResult) or made is None or event.synthetic:
                continue
            name = string(stored["_happy"].get("canonicalToolName"))
            call = self.calls.get(event.call_id)
            if name and call is not None:
                call.name = event.name = name
            meta = {**made["_happy"], **stored["_happy"], "v": 2, "canonicalToolName": event.name}
            setattr(event, key, {"_raw": made["_raw"], **stored, "_happy": meta})

    def _text(self, kind: Any, payload: dict[str, Any], **fields: Any) -> str:
        text = string(payload.get("message")) or string(payload.get("text"))
        if not text:
            return skip("empty")
        self.ensure_turn()
        self.emit(kind, text=text, **fields)
        return WITH_EVENTS

    def _turn_started(self) -> str:
        self.start_turn()
        return WITH_EVENTS

    def _turn_ended(self, outcome: str) -> str:
        self.ensure_turn()
        self.end_turn(outcome)
        return WITH_EVENTS

    # -- lines of Claude's transcripts --------------------------------------------------------------------------------

    def _transcript_line(self, line: dict[str, Any]) -> str:
        """A transcript's parser reads it as a guest: sidechains, split messages and the rest are its business."""
        if self._claude is None:
            self._claude = _CLAUDE(self.context)
        self._claude.be_guest_of(self)
        self._claude.partials = self.partials
        message = record(line.get("message"))
        content = message.get("content")
        blocks = records(content)
        if isinstance(content, list):
            content = [_as_claudes(block) if isinstance(block, dict) else block for block in content]
            line = {**_twin(blocks), **line, "message": {**message, "content": content}}
        asked = [block for block in blocks if isinstance(block.get("permissions"), dict)]
        self._pass_on([item for block in asked for item in self._answered(self._claude, block)])
        line_class, items = self._claude.feed(msgspec.json.encode(line), self.ts)
        self._pass_on(items)
        return WITH_EVENTS if asked and line_class.startswith(skip("")) else line_class

    def _answered(self, claude: Parser, block: dict[str, Any]) -> list[Any]:
        """The app notes in a result what its user decided."""
        call_id, noted = string(block.get("tool_use_id")), block["permissions"]
        outcome = _DECISIONS.get(str(noted.get("result")))
        call = claude.calls.get(call_id) if call_id is not None else None
        if call is None or outcome is None:
            return []
        claude.session, claude.agent, claude.parent = call.session, call.agent, call.parent
        claude.replay, claude.origin = False, None
        claude.ts = whole(noted.get("date")) or milliseconds(noted.get("date")) or self.ts
        claude.permissions.answer(call.id, outcome, call_id=call.id, by="user", option_id=string(noted.get("mode")))
        items, claude.items = claude.items, []
        return items

    def _pass_on(self, items: list[Any]) -> None:
        for item in items:
            if not isinstance(item, OutputPiece):
                item.dialect = self.dialect
            self.items.append(item)


def _decoded(key: str, value: Any) -> Any:
    decoded = decode_json(value)
    if key == "input":
        return decoded if isinstance(decoded, dict) else value
    return decoded if isinstance(decoded, dict) and not _RESULT_KEYS.isdisjoint(decoded) else value


def _twin(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """An object that a result is goes where Claude has a result's object: beside the message, if there is but one."""
    outputs = [block.get("output") for block in blocks if block.get("type") == "tool-call-result"]
    return {"toolUseResult": outputs[0]} if len(outputs) == 1 and isinstance(outputs[0], dict) else {}


def _as_claudes(block: dict[str, Any]) -> dict[str, Any]:
    """Blocks of Codex and Gemini, which the app took in Claude's messages, too."""
    kind, call_id = block.get("type"), block.get("callId")
    if kind == "tool-call" and call_id is not None:
        return {**block, "type": "tool_use", "id": call_id}
    if kind == "tool-call-result" and call_id is not None:
        content = block.get("output", block.get("content"))
        if content is not None and not isinstance(content, str | list):
            content = msgspec.json.encode(content).decode()
        return {**block, "type": "tool_result", "tool_use_id": call_id, "content": content or ""}
    return block
