"""Parsers of Happier's tool traces, and of messages that its server stored before traces existed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser, outcome_of
from tooltap.normalizers.core.state import OpenCall, State
from tooltap.normalizers.core.texts import LiveOutput, LiveOutputState
from tooltap.normalizers.core.writer import Bodies, Writer
from tooltap.normalizers.dialects.claude.answers import read_answer, text_of
from tooltap.normalizers.dialects.claude.transcript import ClaudeTranscript, TranscriptMessages
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import stated_status, status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json, error_message
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import first_string, milliseconds, record, records, string, whole
from tooltap.protocol.events import OutputRef

_ID_KEYS = {
    "tool-call": ("callId", "id", "toolCallId"),
    "tool-result": ("callId", "tool_use_id", "toolUseId", "tool_useId"),
    "tool-call-result": ("callId", "tool_use_id", "toolUseId", "tool_useId"),
    "permission-request": ("permissionId", "toolCallId"),
    "permission-response": ("permissionId",),
    "file-edit": ("id", "callId"),
    "terminal-output": ("callId",),
}
_NAMELESS = ("", "other", "unknown", "unknown tool")
"""Names in lower case that identify no tool; `other` is ACP's kind for a tool without a kind."""
_NOTES = frozenset({"_acp", "locations", "description"})
"""Keys that Happier adds to an ACP input; an input with no other key is empty."""
_NAME_IN_ID = re.compile(r"([A-Za-z]\w*?)(?:__|-\d)", re.ASCII)
_STATING = frozenset({"status", "error", "ok", "success", "applied", "isError", "is_error", "exit_code", "signal"})
"""Keys of an output that may state how the call ended."""
_AFTER_ARGUMENTS = re.compile(r"\s*(?:\([^()]* MCP Server\))?")
_TAGGED_ERROR = "<tool_use_error>"
_GEMINI = ("acp", "gemini")


class PayloadsState(State, kw_only=True):
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)


class PayloadParser(Parser):
    """Reads Happier's payloads; dialects derived from it find them in their lines."""

    protocol = default_provider = "happier"
    SKIPS = frozenset({"partial", "unchanged", "duplicate-call"})
    payloads = Lines("type")
    """Methods get the payload, and the id of the call or permission that it names."""
    state_type = PayloadsState
    state: PayloadsState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.running = LiveOutput(self, self.state.running)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.running.take(call)

    def _read_payload(self, kind: str, payload: Line) -> Skip:
        id_keys = _ID_KEYS.get(kind, ())
        for key in id_keys:
            if (wire_id := payload.get(key)) and type(wire_id) is str:
                return self.payloads.read(self, payload, wire_id, kind=kind)
        if id_keys:
            return self.unparsed("no-permission-id" if "permissionId" in id_keys else "no-call-id", payload)
        return self.payloads.read(self, payload, None, kind=kind)

    # -- calls --------------------------------------------------------------------------------------------------

    @payloads("tool-call")
    def _call(self, payload: Line, call_id: str) -> Skip:
        value, raw, name = _as_sent(payload.get("input"), string(payload.get("name")) or "")
        raw_name = _tool_name(name, value, call_id)
        call = self.calls.get(call_id)
        title = None
        if type(value) is dict and type(acp := value.get("_acp")) is dict:
            title = first_string(acp, "title")
        if call is None:
            if self.calls.repeats(call_id, raw_name, value):
                return "duplicate-call"
            memory = {"bare": True} if _is_bare(value) else None
            self.calls.open(call_id, raw_name, value, raw=raw, title=title, memory=memory)
            return None
        hint = call.memory.get("hint")
        if isinstance(hint, dict) and isinstance(value, dict):
            value = {**hint, **value}
        better_name = None if raw_name.lower() in _NAMELESS else raw_name
        changed = self.calls.update(call, value, raw=raw, raw_name=better_name, title=title)
        if (is_bare := _is_bare(value)) is not call.memory.get("bare"):
            self.calls.remember(call, {**call.memory, "bare": is_bare})
        return None if changed else "unchanged"

    @payloads("tool-result", "tool-call-result")
    def _result(self, payload: Line, call_id: str) -> Skip:
        if "content" in payload and "output" not in payload:
            return self._claude_result(payload, call_id)
        value, raw, name = _as_sent(payload.get("output"), UNKNOWN_TOOL)
        if isinstance(value, dict) and value.get("_stream") is True:
            return self._append(call_id, {"stdout": value.get("stdoutChunk"), "stderr": value.get("stderrChunk")})
        status, error = _status(payload, value), None
        outputs = None
        if self.state.running.calls:
            printed, refs = self.running.take(call_id)
            if printed and value in (None, "", {}):
                value, outputs = printed, refs
        if status != "completed":
            value, error = _failure(value, status)
        elif self.origin == _GEMINI and (text := blocks_text(value)) is not None:
            tool = self.calls.name_of(call_id)
            if tool != "Bash" and tool in CANONICAL_TOOLS:
                value = {"message": text}  # Gemini shows a sentence about the output, and a shell's output itself
        return self.calls.answer(call_id, Answer(value, status, error, outputs=outputs), raw=raw, raw_name=name)

    def _claude_result(self, payload: Line, call_id: str) -> Skip:
        """The recorder drops `is_error`; only the tag in the text remains of it."""
        failed = text_of(payload["content"]).startswith(_TAGGED_ERROR)
        block = {"content": payload["content"], "is_error": failed}
        answer = read_answer(self.calls.name_of(call_id) or "Unknown", block, None, {}, stopped=False)
        bodies = Bodies(self)
        raw, model = bodies.take(payload), bodies.take(payload["content"] or "")
        answer = answer.replace(is_async=False, model=model, attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw)

    @payloads("file-edit")
    def _file_edit(self, payload: Line, call_id: str) -> Skip:
        """An edit that was made, without a call: both its call and its result."""
        path = first_string(payload, "filePath")
        if path is None:
            return self.unparsed("no-path", payload)
        if self.calls.is_known(call_id):
            return "duplicate-call"
        change = {"type": "modify", **{key: payload.get(key) for key in ("diff", "oldContent", "newContent")}}
        value = {"changes": {path: change}, "description": payload.get("description")}
        self.calls.open(call_id, "file-edit", value, raw=payload, name="Patch", synthetic=True)
        return self.calls.answer(call_id, Answer(), raw=payload, synthetic=True)

    @payloads("terminal-output")
    def _terminal_output(self, payload: Line, call_id: str) -> Skip:
        return self._append(call_id, {"stdout": payload.get("data")})

    def _append(self, call_id: str, chunks: dict[str, Any]) -> Skip:
        """Read output of a running command. Its result repeats the whole output, or has none and takes this output
        over."""
        call = self.calls.get(call_id)
        if call is None:
            if self.calls.is_done(call_id):
                return DUPLICATE_RESULT
            call = self.calls.open(call_id, UNKNOWN_TOOL, {}, raw=None, name="Unknown", synthetic=True)
        for stream, text in chunks.items():
            if isinstance(text, str):
                self.running.append(call, stream, text.encode())
        return "partial"

    # -- permissions --------------------------------------------------------------------------------------------

    @payloads("permission-request")
    def _permission_request(self, payload: Line, permission_id: str) -> None:
        request = _request(payload)
        tool_call = record(request.get("toolCall"))
        call_id = first_string(request, "toolCallId") or first_string(tool_call, "toolCallId") or permission_id
        value = request.get("input") or _hint(tool_call) or {}
        call = self.calls.get(call_id)
        if call is None and not self.calls.is_known(call_id):
            name = _tool_name(string(payload.get("toolName")) or "", value, call_id)
            call = self.calls.open(call_id, name, value, raw=tool_call or value, memory={"hint": value})
        elif call is not None and call.memory.get("bare") and isinstance(value, dict):
            self.calls.update(call, value, raw=tool_call or value)
        is_question = call is not None and call.name == "AskUserQuestion" and isinstance(value, dict)
        keys: tuple[str, ...] = ("id", "name", "kind")
        options = [{key: one[key] for key in keys if key in one} for one in records(request.get("options"))]
        self.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "permission",
            options=options or None,
            questions=records(value.get("questions")) or None if is_question else None,
            title=first_string(tool_call, "title") or first_string(payload, "description"),
            name=call.name if call is not None else self.calls.name_of(call_id),
        )

    @payloads("permission-response")
    def _permission_response(self, payload: Line, permission_id: str) -> None:
        decision, answers = first_string(payload, "decision"), payload.get("answers")
        outcome = "allowed" if payload.get("approved") is True else "cancelled" if decision == "abort" else "denied"
        self.permissions.answer(
            permission_id,
            "answered" if isinstance(answers, dict) and answers else outcome,
            call_id=permission_id if self.calls.is_known(permission_id) else None,
            by="user",
            option_id=decision,
            answers=answers if isinstance(answers, dict) else None,
            message=first_string(payload, "reason"),
        )


class HappierTrace(PayloadParser):
    """The `happier-trace` dialect: tool traces of Happier (`v` 1, from January 2026 on), what its CLI sent and
    received.

        {"v", "ts", "direction", "sessionId", "protocol", "provider"?, "kind", "payload", "localId"?}

    One file holds the sessions of several agents, over three protocols. `acp` and `codex` payloads name their call
    `callId` and carry `input` or `output`; `claude` payloads are Claude's own blocks. A payload may already be
    normalized: then it has `_happy` and `_raw`, and is read like the object it was made from. Happier's server stores
    the same payloads (`Legacy`).
    """

    dialect = "happier-trace"

    def read(self, value: Line) -> Skip:
        payload, kind, protocol = value.get("payload"), value.get("kind"), value.get("protocol")
        if type(payload) is not dict or type(protocol) is not str or type(kind) is not str:
            return self.unparsed("unknown-type", value)
        if value.get("v") != 1 or not self.payloads.knows(kind):
            return self.unparsed("unknown-type", value)
        provider, ts, session = value.get("provider"), whole(value.get("ts")), value.get("sessionId")
        self.origin = protocol, self.context.provider or (provider if type(provider) is str else protocol)
        if ts is not None:
            self.ts = ts
        if session and type(session) is str:
            if self.state.session is None:
                self.set_session(session)
            self.session = session
        return self._read_payload(kind, payload)


# -- payloads ---------------------------------------------------------------------------------------------------------


def _as_sent(payload: Any, name: str) -> tuple[Any, Any, str]:
    """Return (value for the tool family, provider's own object, raw name) of a payload, normalized or not."""
    happy = payload.get("_happy") if type(payload) is dict else None
    if type(happy) is not dict:
        return payload, payload, name
    raw_name = first_string(happy, "rawToolName") or UNKNOWN_TOOL
    value: Any = {key: item for key, item in payload.items() if key not in ("_happy", "_raw")}
    if is_wrapped(payload):
        value = payload["value"]
    return value, payload.get("_raw", value), name if raw_name == UNKNOWN_TOOL else raw_name


def is_wrapped(payload: Line) -> bool:
    """Return whether a normalized payload only wraps a value that is no object, as Happier does: `{"value":
    "text"}`."""
    return "value" in payload and payload.keys() <= {"value", "_happy", "_raw"} and type(payload["value"]) is not dict


def _failure(value: Any, status: str) -> tuple[Any, str | None]:
    """Split the output of a call that did not complete: (remaining output, error). The content of a failed call is its
    error; a stopped call may have an output."""
    if not isinstance(value, dict):
        return None, blocks_text(value)
    error = error_message({**value, "isError": True})
    if error is None and status == "failed" and (error := blocks_text(value.get("content"))) is not None:
        value = {key: item for key, item in value.items() if key != "content"}
    return value, error


def _is_bare(value: Any) -> bool:
    return not value or (isinstance(value, dict) and value.keys() <= _NOTES)


def _tool_name(name: str, value: Any, call_id: str) -> str:
    """Return the raw name. If it identifies no tool, use the first of these that does: ACP's kind or first title
    (OpenCode: `todowrite`), the tool of a permission, the prefix of the id (Gemini: `replace-1769…`)."""
    if name.lower() not in _NAMELESS:
        return name
    fields = record(value)
    acp, permission = record(fields.get("_acp")), record(fields.get("permission"))
    in_id = _NAME_IN_ID.match(call_id)
    beside = (acp.get("kind"), acp.get("title"), fields.get("toolName"), permission.get("toolName"))
    for one in (*beside, in_id and in_id[1], fields.get("description")):
        if type(one) is str and canonical_name(one, value, call_id) in CANONICAL_TOOLS:
            return one
    return name or UNKNOWN_TOOL


def _status(payload: Line, value: Any) -> str:
    is_error = payload.get("isError")
    if type(value) is not dict or _STATING.isdisjoint(value):
        return "failed" if is_error is True else "completed"
    status = status_word(value.get("status"))
    if status not in (None, "completed"):
        return status
    if is_error is False:
        return "completed"
    has_error = bool(value.get("error")) and isinstance(value["error"], str | dict)
    if is_error is True or has_error or value.get("applied") is False:
        return "failed"
    return stated_status(value) or "completed"


def _request(payload: Line) -> Line:
    """Return the subject of a permission request: `options`, or its nested `options`, or (Claude) the payload
    itself."""
    request: Line = {"input": payload.get("input"), "toolCallId": payload.get("toolCallId")}
    options = payload.get("options")
    while isinstance(options, dict):
        request |= options
        options = options.get("options")
    return request


def _hint(tool_call: Line) -> Any:
    """The tool's input, as far as the ACP call in the request shows it."""
    if tool_call.get("rawInput") is not None:
        return tool_call["rawInput"]
    if (given := _object_in(first_string(tool_call, "title"))) is not None:
        return given
    if isinstance(tool_call.get("content"), list):
        return {"items": tool_call["content"], "locations": tool_call.get("locations")}
    title = first_string(tool_call, "title")
    return {"title": title} if title else None


def _object_in(title: str | None) -> Line | None:
    """The arguments of an MCP server's tool, which Gemini puts into the title: `{"title":"…"} (happier MCP Server)`."""
    if title is None or not title.startswith("{"):
        return None
    end = title.rfind("}") + 1
    given = decode_json(title[:end]) if _AFTER_ARGUMENTS.fullmatch(title, end) else None
    return given if isinstance(given, dict) else None


# -- legacy messages ----------------------------------------------------------------------------------------------

_RESULT_KEYS = frozenset(
    {"stdout", "stderr", "aggregated_output", "formatted_output", "output", "content", "exit_code", "exitCode"}
    | {"success", "applied", "error", "errorMessage", "matches", "entries", "results", "_happy"}
)
"""Keys of which an object stored as a string has at least one; any other JSON string is the tool's own output."""
_DECISIONS = {"approved": "allowed", "denied": "denied", "canceled": "cancelled", "cancelled": "cancelled"}


class LegacyState(PayloadsState, kw_only=True):
    agent: tuple[str, str] | None = None
    """(protocol, provider) of the last payload: the agent that gets the next prompt."""
    claude: bytes | None = None
    """State of the parser of transcript lines, as of the last dump."""


class _TranscriptMessages(TranscriptMessages):
    def _shown_to_model(self, block: Line) -> Any:
        """Return the result for the model; UNSET for Codex and Gemini, whose output in Claude's messages is what the
        app showed."""
        return msgspec.UNSET if "callId" in block else super()._shown_to_model(block)


class _Transcript(ClaudeTranscript):
    """Reads the lines of Claude's transcripts inside Happier's messages: sidechains, split messages and everything
    else."""

    dialect = "legacy"
    STATES_TIMES = False
    MESSAGES = _TranscriptMessages

    def read_decision(self, block: Line, t: int | None) -> None:
        """Emit the user's decision about a call, before the call's result, in which the app has stored it."""
        self._reset_scope(t)
        call_id, noted = string(block.get("tool_use_id")), block["permissions"]
        outcome = _DECISIONS.get(str(noted.get("result")))
        call = self.calls.get(call_id) if call_id is not None else None
        if call is not None and outcome is not None:
            self.session, self.agent, self.parent = call.session, call.agent, call.parent
            self.ts = whole(noted.get("date")) or milliseconds(noted.get("date")) or t
            self.state.times.note(self.ts, t, always=self.STATES_TIMES)
            self.permissions.answer(call.id, outcome, call_id=call.id, by="user", option_id=string(noted.get("mode")))


class Legacy(PayloadParser):
    """The `legacy` dialect: messages as Happier's server stored them before payloads were normalized, or where Claude's
    are rebuilt from files.

        {"role": "agent", "content": {"type": "acp"|"codex"|"output"|"event", "provider"?, "data"}, "meta"?}
        {"role": "user", "content": {"type": "text", "text"}}

    each alone, or in the server's envelope (`{"id", "createdAt", "content": {"role", …}}`), or the `data` alone. `acp`
    and `codex` data are payloads (`HappierTrace`); `output` data are lines of a Claude transcript, and are read as
    such. Missing names are inferred, JSON strings are decoded if they can only be JSON, and payloads that were already
    normalized stay as stored.
    """

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

    def _restore(self, field: str, made: Line, call: OpenCall) -> Line:
        """Replace the payload made from a stored, normalized payload by the stored one."""
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
        self.ts = claude.state.times.latest or self.ts
        if claude.state.session is not None and self.state.session is None:
            self.set_session(claude.state.session)
        outcome = outcome_of(line_class)
        return None if decided and outcome != UNPARSED else outcome


def _decoded(key: str, value: Any) -> Any:
    decoded = decode_json(value)
    is_payload = isinstance(decoded, dict) and (key == "input" or not _RESULT_KEYS.isdisjoint(decoded))
    return decoded if is_payload else value


def _twin(blocks: list[Line]) -> Line:
    """Return the result's object as Claude's twin: beside the message, if there is only one."""
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
