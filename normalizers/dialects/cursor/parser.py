"""The `cursor-stream` dialect: `cursor-agent -p --output-format stream-json`, a sibling of Claude Code's.

We have no recording: the parser follows Cursor's documentation (2026.01) and the tests of public readers. Unlike in
Claude Code's stream, reasoning and tool calls are separate lines, and the kind of a call is the key that holds its
arguments and its result. The result is an object under a key that states how the call ended.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.messages import message_of
from tooltap.normalizers.dialects.claude.reports import Usages, turn_usage
from tooltap.normalizers.dialects.claude.stream import ClaudeStream
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, string, token_counts, whole

_SUFFIX = "ToolCall"
_THOUGHT = "thought"
_MESSAGE = "said"
_KEYS = {"fileText": "content", "globPattern": "pattern", "targetDirectory": "path", "workingDirectory": "cwd"}
"""Cursor's name of an argument -> that of the schema, where the tools do not know Cursor's."""
_ERROR_KEYS = ("errorMessage", "error", "reason", "message", "clientVisibleErrorMessage")
_SHELL_KEYS = {"stdout": "stdout", "stderr": "stderr", "exitCode": "exit_code"}


class CursorStream(ClaudeStream):
    dialect = "cursor-stream"
    default_provider = "cursor"
    VERSION_KEY = "version"
    line = ClaudeStream.line.copy()
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt

    def enter(self, value: Line) -> None:
        super().enter(value)
        self.ts = whole(value.get("timestamp_ms")) or self.ts

    @line("thinking")
    def _thinking(self, value: Line) -> Skip:
        self.messages.ensure_main_turn()
        text = string(value.get("text"))
        if text:
            self.texts.append("reasoning", text, key=_THOUGHT)
        before = len(self.items)
        if value.get("subtype") != "delta":
            self.texts.flush(_THOUGHT)
        return None if text or len(self.items) > before else "empty"

    def _assistant(self, value: Line) -> Skip:
        self.texts.flush(_THOUGHT)
        text = text_of(message_of(value).get("content"))
        if "timestamp_ms" in value and "model_call_id" not in value and text:
            # `--stream-partial-output`: a chunk of what comes whole before the next call, or at the end.
            self.messages.ensure_main_turn()
            self.texts.append("assistant", text, key=_MESSAGE, preview=True)
            return "partial"
        self.texts.drop(_MESSAGE)
        return super()._assistant(value)

    @line("tool_call", call_id=str)
    def _tool_call(self, value: Line) -> Skip:
        call_id, outer = value["call_id"], record(value.get("tool_call"))
        kind = next((key for key in outer if key == "function" or key.endswith(_SUFFIX)), None)
        if kind is None:
            return self.unparsed("unknown-type", value)
        self.messages.ensure_main_turn()
        self.texts.flush(_THOUGHT)
        body = record(outer[kind])
        skip = self._show_call(call_id, kind, body, outer, begins=value.get("subtype") != "completed")
        if value.get("subtype") != "completed":
            return skip
        answer = _read_answer(self.calls.name_of(call_id), record(body.get("result")))
        return self.calls.answer(call_id, answer, raw=outer)

    def _show_call(self, call_id: str, kind: str, body: Line, outer: Line, *, begins: bool) -> Skip:
        given = decode_json(body.get("args", body.get("arguments")))
        name = kind.removesuffix(_SUFFIX)
        if kind == "function":
            kind = name = string(body.get("name")) or kind
        elif kind == "mcpToolCall" and isinstance(given, dict) and given.get("providerIdentifier"):
            kind = name = f"mcp__{given['providerIdentifier']}__{given.get('toolName') or given.get('name')}"
            given = given.get("args")
        if isinstance(given, dict):
            given = {**given, **{key: given[theirs] for theirs, key in _KEYS.items() if theirs in given}}
        known = canonical_name(name, given, call_id)
        name = known if known != name else kind
        if self.calls.shown(call_id, kind, given, ("", None), name=name) is not None:
            return "repeated"
        if self.calls.is_known(call_id) and (not begins or self.calls.repeats(call_id, kind, given, name=name)):
            return "repeated"
        self.calls.open(call_id, kind, given, raw=outer, name=name, place=("", None))
        return None

    def _usages(self, value: Line) -> Usages:
        return turn_usage(value, _counts)


def _counts(usage: Line) -> dict[str, int | None]:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    return token_counts(*map(usage.get, names), apart=True)


def _read_answer(name: str | None, result: Line) -> Answer:
    """Read the answer of the canonical tool `name`."""
    end = next((key for key in result if isinstance(result[key], dict)), "success")
    body = record(result.get(end))
    value: Any = body
    if name == "Bash":
        value = {key: body[theirs] for theirs, key in _SHELL_KEYS.items() if theirs in body}
    if end == "success":
        return Answer(value)
    error = next((text for key in _ERROR_KEYS if (text := string(body.get(key)))), None)
    if name != "Bash":
        value = None if error else body
    if error is None and "exit_code" not in (value or {}):
        error = end
    return Answer(value, status_word(end) or "failed", error)
