"""The `cursor-stream` dialect: `cursor-agent -p --output-format stream-json`, a sibling of Claude Code's.

No recording of ours: read after Cursor's documentation (2026.01) and what public readers test. What differs: thoughts
and tool calls are lines of their own, and the kind of a call is the key that its arguments and its result stand under.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.base import message_of
from tooltap.normalizers.dialects.claude.print import PrintParser
from tooltap.normalizers.dialects.cursor.results import read_result
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Event, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["CursorStream"]

_SUFFIX = "ToolCall"
_THOUGHT = "thought"
_SAID = "said"
_KEYS = {
    "fileText": "content",
    "globPattern": "pattern",
    "targetDirectory": "path",
    "workingDirectory": "cwd",
}
"""Cursor's name of an argument -> that of the schema, where the tools do not know Cursor's."""


class CursorStream(PrintParser):
    dialect = "cursor-stream"
    default_provider = "cursor"
    MODE_KEY = "permissionMode"
    VERSION_KEY = "version"

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._lines |= {"thinking": self._thinking, "tool_call": self._tool_call}

    def _set_scope(self, value: dict[str, Any], direction: Direction | None) -> None:
        super()._set_scope(value, direction)
        self.ts = whole(value.get("timestamp_ms")) or self.ts

    def _thinking(self, value: dict[str, Any], direction: Direction | None) -> str:
        self._ensure_turn()
        text = string(value.get("text"))
        if text:
            self.texts.append("reasoning", text, key=_THOUGHT)
        told = len(self.items)
        if value.get("subtype") != "delta":
            self.texts.flush(_THOUGHT)
        return WITH_EVENTS if text or len(self.items) > told else skip("empty")

    def _assistant(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.texts.flush(_THOUGHT)
        text = text_of(message_of(value).get("content"))
        if "timestamp_ms" in value and "model_call_id" not in value and text:
            # `--stream-partial-output`: a piece of what comes whole before the next call, or at the end.
            self._ensure_turn()
            self.texts.append("assistant", text, key=_SAID, preview=True)
            return skip("partial")
        self.texts.drop(_SAID)
        return super()._assistant(value, direction)

    # -- calls --------------------------------------------------------------------------------------------------

    def _tool_call(self, value: dict[str, Any], direction: Direction | None) -> str:
        call_id, told = string(value.get("call_id")), record(value.get("tool_call"))
        kind = next((key for key in told if key == "function" or key.endswith(_SUFFIX)), None)
        if call_id is None or kind is None:
            return self.unparsed("unknown-type", value)
        self._ensure_turn()
        self.texts.flush(_THOUGHT)
        body = record(told[kind])
        line_class = self._open_call(call_id, kind, body, told)
        if value.get("subtype") != "completed":
            return line_class
        answer = read_result(self.calls.name_of(call_id), record(body.get("result")))
        return self.calls.result(call_id, answer.value, raw=told, status=answer.status, error=answer.error)

    def _open_call(self, call_id: str, kind: str, body: dict[str, Any], told: dict[str, Any]) -> str:
        if self.calls.is_known(call_id):
            return skip("repeated")
        given = decode_json(body.get("args", body.get("arguments")))
        name = kind.removesuffix(_SUFFIX)
        match kind:
            case "function":
                kind = name = string(body.get("name")) or kind
            case "mcpToolCall" if isinstance(given, dict) and given.get("providerIdentifier"):
                kind = name = f"mcp__{given['providerIdentifier']}__{given.get('toolName') or given.get('name')}"
                given = given.get("args")
        if isinstance(given, dict):
            given = {**given, **{key: given[theirs] for theirs, key in _KEYS.items() if theirs in given}}
        known = canonical_name(name, given, call_id)
        self.calls.open(call_id, kind, given, raw=told, name=known if known != name else kind)
        return WITH_EVENTS

    def _used(self, value: dict[str, Any]) -> list[tuple[type[Event], dict[str, Any]]]:
        usage = record(value.get("usage"))
        if not usage:
            return []
        read, written = whole(usage.get("cacheReadTokens")), whole(usage.get("cacheWriteTokens"))
        fresh = whole(usage.get("inputTokens"))
        prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
        output = whole(usage.get("outputTokens"))
        tokens = {"input_tokens": prompt, "cache_read_tokens": read, "cache_write_tokens": written}
        return [(Usage, {"scope": "turn", **tokens, "output_tokens": output})]
