"""The `otlp` dialect: log records of OpenTelemetry, one on each line, as the daemon writes them when it takes them in.

    {"otlp": "log", "id", "service", "version", "session", "name", "time", "body", "attributes": {…}}

`id`: a digest of the record as it was sent, by which one that is sent again is known; `service`, `version`: the
program; `name`: the event, with the prefix of its agent; `time`: ms since the epoch; `attributes`: by name, without the
types of OTLP. Learned from Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0 and Qwen Code 0.24.4.

Of spans, those that say what no record does have lines, too: `"otlp": "span"`, with `events` in place of `body`. They
may come before or after the records of the same call.

What a record leaves out stays absent. Agents write a mark in place of a text that they are set to withhold, and state
its length beside it: only a text of another length is withheld.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State, is_short, put
from tooltap.normalizers.dialects.codex.answers import read_answer
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import (
    dollars,
    first_string,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Message, SessionEvent, Usage

__all__ = ["Otlp"]

AGENTS = {"claude_code": "claude", "codex": "codex", "gemini_cli": "gemini", "qwen-code": "qwen"}
"""Prefix of an agent's events -> its provider."""
VERSIONLESS = ("gemini-cli",)
"""Services whose records state the version of Node.js in place of the agent's."""
WITHHELD = ("<REDACTED>", "[REDACTED]")
"""What Claude Code and Codex write in place of a text."""
SEEN = 2_048
"""Most records, the latest ones, by which one that is sent again is known: the queue of an exporter holds as many."""
MAIN = ("", "main")
"""Roles of a request of Gemini CLI that is part of the conversation."""
_MOST_DIGITS = 15


OUTPUTS, OUTPUT_BYTES = 64, 256 * 1024
"""Most outputs that wait for the record of their call, and most code points of them."""
ENDED = 64
"""Most calls, the latest ones, that may get an output after their record."""


class OtlpState(State, kw_only=True):
    model: str | None = None
    version: str | None = None
    seen: list[str] = msgspec.field(default_factory=list)
    """Ids of the latest records."""
    outputs: dict[str, str] = msgspec.field(default_factory=dict)
    """Call -> its output, of which the record is still to come."""
    ended: dict[str, tuple[str, int | None]] = msgspec.field(default_factory=dict)
    """Call that was completed without its output -> id of its result, and how long it took, in ms."""


class Otlp(Parser):
    """The `otlp` dialect."""

    dialect = "otlp"
    protocol = "otlp"
    default_provider = "otlp"
    SKIPS = frozenset({"repeated", "progress", "empty", "unchanged"})
    state_type = OtlpState
    line = Lines(
        "name",
        skip={
            **dict.fromkeys(("codex.startup_phase", "codex.turn_ttft"), "telemetry"),
            **dict.fromkeys(("gemini_cli.startup_stats", "gemini_cli.plan.approval_mode_duration"), "telemetry"),
            **dict.fromkeys(("claude_code.plugin_loaded", "claude_code.managed_settings_resolved"), "environment"),
            **dict.fromkeys(("gemini_cli.ripgrep_fallback", "qwen-code.ripgrep_fallback"), "environment"),
            "gemini_cli.model_routing": "environment",
            "qwen-code.auth": "auth",
            **dict.fromkeys(("gemini_cli.api_request", "qwen-code.api_request"), "api-request"),
            "gen_ai.client.inference.operation.details": "duplicate",
            "session.start": "duplicate",
            "session.end": "duplicate",
        },
    )

    def read(self, value: Line) -> Skip:
        given, one, seen = value.get("attributes"), string(value.get("id")), self.state.seen
        if not isinstance(given, dict) or one is None:
            return self.unparsed("unknown-type", value)
        if one in seen:
            return "repeated"
        self.state.seen = [*seen[1 - SEEN :], one]
        is_news = self._note_program(value)
        skip = self.line.read(self, given, value, kind=str(value.get("name")), line=value)
        return None if is_news else skip

    def _note_program(self, value: Line) -> bool:
        """Set the scope of a record, and emit the version of the program if it is another one; returns whether."""
        self.ts = whole(value.get("time")) or self.ts
        if (provider := AGENTS.get(str(value.get("name")).partition(".")[0])) is not None:
            self.set_provider(provider)
        if (session := first_string(value, "session")) is not None:
            self.set_session(session)
        version = None if value.get("service") in VERSIONLESS else first_string(value, "version")
        if version is None or version == self.state.version:
            return False
        self.state.version = version
        self.emit(SessionEvent, state="updated", agent_version=version)
        return True

    # -- Claude Code --------------------------------------------------------------------------------------------------

    @line("claude_code.user_prompt")
    def _claude_prompt(self, given: Line, value: Line) -> Skip:
        return self._prompt(given)

    @line("claude_code.assistant_response")
    def _claude_response(self, given: Line, value: Line) -> Skip:
        return self._answered(_text(given, "response", "response_length"), string(given.get("message.uuid")))

    @line("claude_code.tool_decision", tool_use_id=str, tool_name=str)
    def _claude_decision(self, given: Line, value: Line) -> Skip:
        call_id, name = given["tool_use_id"], given["tool_name"]
        self.ensure_turn()
        named = record(decode_json(given.get("tool_parameters")))
        shown = {"command": named["full_command"]} if isinstance(named.get("full_command"), str) else {}
        skip = self.calls.show(call_id, _mcp_name(named) or name, shown, raw=value)
        if given.get("decision") == "reject":
            return self.calls.answer(call_id, Answer(None, "denied"), raw=value, raw_name=name)
        return skip

    @line("claude_code.tool_result", tool_use_id=str, tool_name=str)
    def _claude_result(self, given: Line, value: Line) -> Skip:
        call_id, name = given["tool_use_id"], given["tool_name"]
        self.ensure_turn()
        asked = decode_json(given.get("tool_input"))
        raw_name = _mcp_name(record(decode_json(given.get("tool_parameters")))) or name
        shown = self.calls.shown(call_id, raw_name, {})
        if shown is None or isinstance(asked, dict):
            self.calls.show(call_id, raw_name, record(asked), raw=value)
        return self._ended(call_id, raw_name, self._outcome(given, "error"), value)

    @line("claude_code.tool", tool_use_id=str)
    def _claude_span(self, given: Line, value: Line) -> Skip:
        # Spans of other tools have parts of the input.
        key = {"Bash": "output", "Read": "content"}.get(str(given.get("tool_name")), "")
        stated = [record(one.get("attributes")) for one in records(value.get("events"))]
        texts = [one[key] for one in stated if isinstance(one.get(key), str)]
        return self._put_out(given["tool_use_id"], texts[0], value) if texts else "telemetry"

    @line("claude_code.api_request")
    def _claude_request(self, given: Line, value: Line) -> Skip:
        self.ensure_turn()
        tokens = token_counts(
            _count(given.get("input_tokens")),
            _count(given.get("output_tokens")),
            _count(given.get("cache_read_tokens")),
            _count(given.get("cache_creation_tokens")),
            apart=True,
        )
        return self._usage(
            given,
            request_id(given.get("request_id")),
            cache_write_1h_tokens=_count(given.get("cache_creation_1h_tokens")),
            cost_usd=dollars(given.get("cost_usd")),
            **tokens,
        )

    @line("claude_code.api_error")
    def _claude_error(self, given: Line, value: Line) -> Skip:
        return self._error(given, "error")

    # -- Codex --------------------------------------------------------------------------------------------------------

    @line("codex.conversation_starts")
    def _codex_start(self, given: Line, value: Line) -> Skip:
        return None if self.uses_model(first_string(given, "model")) else "unchanged"

    @line("codex.user_prompt")
    def _codex_prompt(self, given: Line, value: Line) -> Skip:
        return self._prompt(given)

    @line("codex.tool_decision", call_id=str, tool_name=str)
    def _codex_decision(self, given: Line, value: Line) -> Skip:
        call_id, name = given["call_id"], given["tool_name"]
        if given.get("decision") not in ("denied", "abort", "timed_out"):
            return "progress"
        self.ensure_turn()
        self.calls.show(call_id, name, {}, raw=value)
        return self.calls.answer(call_id, Answer(None, "denied"), raw=value, raw_name=name)

    @line("codex.tool_result", call_id=str, tool_name=str)
    def _codex_result(self, given: Line, value: Line) -> Skip:
        call_id, name = given["call_id"], given["tool_name"]
        self.ensure_turn()
        if (server := first_string(given, "mcp_server")) is not None:
            name = f"mcp__{server}__{name}"
        self.calls.show(call_id, name, record(decode_json(given.get("arguments"))), raw=value)
        answer = read_answer(given["output"]) if isinstance(given.get("output"), str) else Answer()
        if given.get("success") in ("false", False) and answer.status == "completed":
            answer = answer.replace(status="failed")
        duration = _count(given.get("duration_ms"))
        answer = answer.replace(duration_ms=answer.duration_ms if duration is None else duration)
        return self.calls.answer(call_id, answer, raw=value, raw_name=name)

    @line("codex.sse_event")
    def _codex_event(self, given: Line, value: Line) -> Skip:
        if (text := first_string(given, "error.message")) is not None:
            return self._error({**given, "error": text}, "error")
        if "input_token_count" not in given:
            return "progress"
        self.ensure_turn()
        self._answer_seen()
        return self._usage(
            given,
            None,
            **token_counts(
                _count(given.get("input_token_count")),
                _count(given.get("output_token_count")),
                _count(given.get("cached_token_count")),
                _count(given.get("cache_write_token_count")),
                _count(given.get("reasoning_token_count")),
            ),
        )

    @line("codex.api_request", "codex.websocket_request")
    def _codex_request(self, given: Line, value: Line) -> Skip:
        return "progress" if first_string(given, "error.message") is None else self._error(given, "error.message")

    # -- Gemini CLI and Qwen Code -------------------------------------------------------------------------------------

    @line("gemini_cli.config", "qwen-code.config")
    def _gemini_config(self, given: Line, value: Line) -> Skip:
        return None if self.uses_model(first_string(given, "model")) else "unchanged"

    @line("gemini_cli.user_prompt", "qwen-code.user_prompt")
    def _gemini_prompt(self, given: Line, value: Line) -> Skip:
        return self._prompt(given)

    @line("gemini_cli.tool_call", "qwen-code.tool_call", function_name=str)
    def _gemini_call(self, given: Line, value: Line) -> Skip:
        name, call_id = given["function_name"], first_string(given, "call_id") or value["id"]  # Gemini CLI states none
        self.ensure_turn()
        self.calls.show(call_id, name, record(decode_json(given.get("function_args"))), raw=value)
        answer = self._outcome(given, "error")
        if given.get("decision") == "reject":
            answer = answer.replace(status="denied")
        code = whole(record(decode_json(given.get("metadata"))).get("exitCode"))
        if code is not None:
            answer = answer.replace(value={"exit_code": code})
        return self._ended(call_id, name, answer, value)

    @line("qwen-code.tool", call_id=str)
    def _qwen_span(self, given: Line, value: Line) -> Skip:
        text = string(record(decode_json(given.get("gen_ai.tool.call.result"))).get("output"))
        return "telemetry" if text is None else self._put_out(given["call_id"], text, value)

    @line("gemini_cli.api_response", "qwen-code.api_response")
    def _gemini_response(self, given: Line, value: Line) -> Skip:
        self.ensure_turn()
        output, thoughts = _count(given.get("output_token_count")), _count(given.get("thoughts_token_count"))
        if output is not None:
            output += thoughts or 0
        cached = _count(given.get("cached_content_token_count"))
        tokens = token_counts(_count(given.get("input_token_count")), output, cached, None, thoughts)
        self._usage(given, request_id(given.get("response_id")), **tokens)
        if (given.get("role") or "") in MAIN:
            self._answered(_answer_text(given.get("response_text")))
        return None

    @line("gemini_cli.api_error", "qwen-code.api_error")
    def _gemini_error(self, given: Line, value: Line) -> Skip:
        return self._error(given, "error", "error.message", "error_message")

    # -- what they have in common -------------------------------------------------------------------------------------

    def _prompt(self, given: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        if (text := _text(given, "prompt", "prompt_length")) is not None:
            self.emit(Message, role="user", text=text)
        return None

    def _answered(self, text: str | None, message_id: str | None = None) -> Skip:
        self.ensure_turn()
        if text is None:
            self._answer_seen()
            return "empty"
        self.emit(Message, role="assistant", text=text, message_id=message_id)
        return None

    def _answer_seen(self) -> None:
        """Note that the model has answered, without a text of which there could be an event."""
        for turn in self.state.turns:
            turn.answered = True

    def _usage(self, given: Line, request: str | None, **fields: Any) -> Skip:
        model = first_string(given, "model")
        self.emit(Usage, scope="step", request=request, model=model, **fields)
        return None

    def _outcome(self, given: Line, *errors: str) -> Answer:
        """The result of a call of which nothing is stated but how it ended."""
        failed = given.get("success") in ("false", False)
        error = first_string(given, *errors, "error_type") if failed else None
        return Answer(None, "failed" if failed else "completed", error, _count(given.get("duration_ms")))

    def _ended(self, call_id: str, name: str, answer: Answer, value: Line) -> Skip:
        """Emit the result of a call, with the output that its span has stated before."""
        output = self.state.outputs.pop(call_id, None)
        if answer.status == "completed" and output is not None:
            answer = answer.replace(value=self._read_output(call_id, output, value))
        skip = self.calls.answer(call_id, answer, raw=value, raw_name=name)
        result = self.items[-1] if skip is None else None
        if isinstance(result, Produced) and answer.status == "completed" and output is None and is_short(call_id):
            put(self.state.ended, call_id, (result.id, answer.duration_ms), ENDED)
        return skip

    def _put_out(self, call_id: str, output: str, value: Line) -> Skip:
        """Emit the result of a call that has ended again, with the output that its span states; else keep the output
        for it."""
        if (result := self.state.ended.pop(call_id, None)) is not None:
            event, duration = result
            answer = Answer(self._read_output(call_id, output, value), duration_ms=duration)
            return self.calls.correct(call_id, event, answer, raw=value)
        if not is_short(call_id):
            return "telemetry"
        put(self.state.outputs, call_id, output, OUTPUTS)
        while sum(map(len, self.state.outputs.values())) > OUTPUT_BYTES:
            del self.state.outputs[next(iter(self.state.outputs))]
        return "progress"

    def _read_output(self, call_id: str, output: str, value: Line) -> Any:
        if str(value["name"]).startswith("qwen-code."):
            return read_qwen_answer(self.calls.name_of(call_id) or "", {"content": output}).value
        return output

    def _error(self, given: Line, *errors: str) -> Skip:
        data = {key: given[key] for key in ("status_code", "attempt", "model") if key in given}
        self.notice("provider-error", first_string(given, *errors), "error", data or None)
        return None


def _text(given: Line, key: str, length: str) -> str | None:
    """The text under a key; None if the agent withholds it. `length`: the key with its length."""
    text = first_string(given, key)
    return None if text in WITHHELD and _count(given.get(length)) != len(text) else text


def _count(value: Any) -> int | None:
    """A count, which some agents send as a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        value = int(value)
    found = whole(value)
    return None if found is None or found < 0 else found


def _mcp_name(named: Line) -> str | None:
    """The name of an MCP server's tool, which Claude Code states apart if it is set to send details."""
    server, tool = first_string(named, "mcp_server_name"), first_string(named, "mcp_tool_name")
    return None if server is None or tool is None else f"mcp__{server}__{tool}"


def _answer_text(stated: Any) -> str | None:
    """The text of an answer: Qwen Code sends it as it is, Gemini CLI as the chunks of the API's answer."""
    chunks = decode_json(stated) if isinstance(stated, str) else None
    if not isinstance(chunks, list):
        return stated if isinstance(stated, str) and stated else None
    texts = [
        part["text"]
        for chunk in records(chunks)
        for candidate in records(chunk.get("candidates"))
        for part in records(record(candidate.get("content")).get("parts"))
        if isinstance(part.get("text"), str) and part.get("thought") is not True
    ]
    return "".join(texts) or None
