"""What Happier's CLI said of tools to its app: the payloads that its traces record and its server stores.

`acp` and `codex` payloads name their call `callId` and carry `input` or `output`; `claude` payloads are Claude's own
blocks. A payload may already be normalized: then it has `_happy` and `_raw`, and is taken for what it was made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.running import Running, RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import read_answer, text_of
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import blocks_text, error_message
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS
from tooltap.protocol.events import OutputRef

__all__ = ["PAYLOAD_SKIPS", "HappierParser", "PayloadsState"]

PAYLOAD_SKIPS = frozenset({"blank", "lost", "partial", "unchanged", "duplicate-result", "duplicate-call"})

_NAMELESS = ("", "other", "unknown", "unknown tool")
"""Names, lower case, that are none: ACP's kinds for what is no kind."""
_NOTES = frozenset({"_acp", "locations", "description"})
"""What the ancestor adds to an ACP input; one with nothing else is empty."""
_NAME_IN_ID = re.compile(r"([A-Za-z]\w*?)(?:__|-\d)", re.ASCII)
_STATUS = {"failed": "failed", "error": "failed", "cancelled": "cancelled", "canceled": "cancelled"}
_TAGGED_ERROR = "<tool_use_error>"


class PayloadsState(State, kw_only=True):
    running: RunningState = msgspec.field(default_factory=RunningState)


class HappierParser(Parser):
    """Dialects that carry such payloads: which of `payload_readers` reads a line's is theirs to say."""

    state_type = PayloadsState
    state: PayloadsState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._running = Running(self, self.state.running)
        self.payload_readers: Mapping[str, Callable[[dict[str, Any]], str]] = {
            "tool-call": self._call,
            "tool-result": self._result,
            "tool-call-result": self._result,
            "permission-request": self._permission_request,
            "permission-response": self._permission_response,
            "file-edit": self._file_edit,
            "terminal-output": self._terminal_output,
        }

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self._running.take(call.id)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call(self, payload: dict[str, Any]) -> str:
        call_id = _id(payload, "callId", "id", "toolCallId")
        if call_id is None:
            return self.unparsed("no-call-id", payload)
        value, raw, name = _as_sent(payload.get("input"), _text(payload.get("name")))
        raw_name = _tool_name(name, value, call_id)
        call = self.calls.get(call_id)
        if call is None and self.calls.repeats(call_id, raw_name, value):
            return skip("duplicate-call")
        if call is None:
            memory = {"bare": True} if _is_bare(value) else None
            self.calls.open(call_id, raw_name, value, raw=raw, title=_title(value), memory=memory)
            return WITH_EVENTS
        hint = call.memory.get("hint")
        if isinstance(hint, dict) and isinstance(value, dict):
            value = {**hint, **value}
        better_name = None if raw_name.lower() in _NAMELESS else raw_name
        changed = self.calls.update(call, value, raw=raw, raw_name=better_name, title=_title(value))
        self.calls.remember(call, {**call.memory, "bare": _is_bare(value)})
        return WITH_EVENTS if changed else skip("unchanged")

    def _result(self, payload: dict[str, Any]) -> str:
        call_id = _id(payload, "callId", "tool_use_id", "toolUseId", "tool_useId")
        if call_id is None:
            return self.unparsed("no-call-id", payload)
        if "content" in payload and "output" not in payload:
            return self._claude_result(call_id, payload)
        value, raw, name = _as_sent(payload.get("output"), UNKNOWN_TOOL)
        if isinstance(value, dict) and value.get("_stream") is True:
            return self._piece(call_id, {"stdout": value.get("stdoutChunk"), "stderr": value.get("stderrChunk")})
        status = _status(payload, value)
        printed, outputs = self._running.take(call_id)
        if value in (None, "", {}) and printed:
            value = printed
        else:
            outputs = None
        error = None
        if status != "completed":
            error = error_message({**value, "isError": True}) if isinstance(value, dict) else blocks_text(value)
            value = value if isinstance(value, dict) else None
        return self.calls.result(call_id, value, raw=raw, status=status, error=error, raw_name=name, outputs=outputs)

    def _claude_result(self, call_id: str, payload: dict[str, Any]) -> str:
        """The recorder drops `is_error`; what is left of it is the tag in the text."""
        failed = text_of(payload["content"]).startswith(_TAGGED_ERROR)
        block = {"content": payload["content"], "is_error": failed}
        answer = read_answer(self.calls.name_of(call_id) or "Unknown", block, None, {}, stopped=False)
        return self.calls.result(call_id, answer.value, raw=payload, status=answer.status, error=answer.error)

    # -- permissions --------------------------------------------------------------------------------------------------

    def _permission_request(self, payload: dict[str, Any]) -> str:
        permission_id = _id(payload, "permissionId", "toolCallId")
        if permission_id is None:
            return self.unparsed("no-permission-id", payload)
        asked = _asked(payload)
        tool_call: dict[str, Any] = asked["toolCall"] if isinstance(asked.get("toolCall"), dict) else {}
        call_id = _id(asked, "toolCallId") or _id(tool_call, "toolCallId") or permission_id
        value = asked.get("input") or _hint(tool_call) or {}
        if not self.calls.is_known(call_id):
            name = _tool_name(_text(payload.get("toolName")), value, call_id)
            self.calls.open(call_id, name, value, raw=tool_call or value, memory={"hint": value})
        call = self.calls.get(call_id)
        if call is not None and call.memory.get("bare") and isinstance(value, dict):
            self.calls.update(call, value, raw=tool_call or value)
        is_question = call is not None and call.name == "AskUserQuestion" and isinstance(value, dict)
        self.permissions.ask(
            permission_id,
            call_id=call_id,
            type="question" if is_question else "permission",
            options=_options(asked),
            questions=value.get("questions") if is_question else None,
            title=_text(tool_call.get("title")) or _text(payload.get("description")) or None,
            name=self.calls.name_of(call_id),
        )
        return WITH_EVENTS

    def _permission_response(self, payload: dict[str, Any]) -> str:
        permission_id = _id(payload, "permissionId")
        if permission_id is None:
            return self.unparsed("no-permission-id", payload)
        decision = _text(payload.get("decision"))
        answers = payload.get("answers")
        outcome = "allowed" if payload.get("approved") is True else "cancelled" if decision == "abort" else "denied"
        self.permissions.answer(
            permission_id,
            "answered" if isinstance(answers, dict) and answers else outcome,
            call_id=permission_id if self.calls.is_known(permission_id) else None,
            by="user",
            option_id=decision or None,
            answers=answers if isinstance(answers, dict) else None,
            message=_text(payload.get("reason")) or None,
        )
        return WITH_EVENTS

    # -- edits and terminals ------------------------------------------------------------------------------------------

    def _file_edit(self, payload: dict[str, Any]) -> str:
        """An edit that was made, without a call: both its call and its result."""
        path, call_id = _text(payload.get("filePath")), _id(payload, "id", "callId")
        if not path or call_id is None:
            return self.unparsed("no-call-id", payload)
        if self.calls.is_known(call_id):
            return skip("duplicate-call")
        change = {"type": "modify", **{key: payload.get(key) for key in ("diff", "oldContent", "newContent")}}
        value = {"changes": {path: change}, "description": payload.get("description")}
        self.calls.open(call_id, "file-edit", value, raw=payload, name="Patch", synthetic=True)
        return self.calls.result(call_id, None, raw=payload, synthetic=True)

    def _terminal_output(self, payload: dict[str, Any]) -> str:
        call_id = _id(payload, "callId")
        if call_id is None:
            return self.unparsed("no-call-id", payload)
        return self._piece(call_id, {"stdout": payload.get("data")})

    def _piece(self, call_id: str, chunks: dict[str, Any]) -> str:
        """Output of a running command: its result has the whole again, or takes what came here."""
        call = self.calls.get(call_id)
        if call is None and self.calls.is_done(call_id):
            return DUPLICATE_RESULT
        if call is None:
            call = self.calls.open(call_id, UNKNOWN_TOOL, {}, raw=None, name="Unknown", synthetic=True)
        for stream, text in chunks.items():
            if isinstance(text, str):
                self._running.append(call, stream, text.encode())
        return skip("partial")


# -- payloads -------------------------------------------------------------------------------------------------------


def _id(payload: Mapping[str, Any], *keys: str) -> str | None:
    return next((payload[key] for key in keys if isinstance(payload.get(key), str) and payload[key]), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_sent(payload: Any, name: str) -> tuple[Any, Any, str]:
    """(what the family reads, the provider's own object, the name on the wire) of a payload, normalized or not."""
    if not isinstance(payload, dict) or not isinstance(payload.get("_happy"), dict):
        return payload, payload, name
    raw_name = _text(payload["_happy"].get("rawToolName"))
    value = {key: item for key, item in payload.items() if key not in ("_happy", "_raw")}
    return value, payload.get("_raw", value), name if raw_name in ("", UNKNOWN_TOOL) else raw_name


def _is_bare(value: Any) -> bool:
    return not value or (isinstance(value, dict) and value.keys() <= _NOTES)


def _title(value: Any) -> str | None:
    acp = value.get("_acp") if isinstance(value, dict) else None
    return _text(acp.get("title")) or None if isinstance(acp, dict) else None


def _tool_name(name: str, value: Any, call_id: str) -> str:
    """The name on the wire; where that is none, the first that means a tool of what is said beside it: ACP's kind or
    first title (OpenCode: `todowrite`), the tool a permission is for, what begins the id (Gemini: `replace-1769…`)."""
    if name.lower() not in _NAMELESS:
        return name
    said: dict[str, Any] = value if isinstance(value, dict) else {}
    acp, permission = (said[key] if isinstance(said.get(key), dict) else {} for key in ("_acp", "permission"))
    in_id = _NAME_IN_ID.match(call_id)
    for one in (
        acp.get("kind"),
        acp.get("title"),
        said.get("toolName"),
        permission.get("toolName"),
        in_id[1] if in_id else None,
        said.get("description"),
    ):
        if isinstance(one, str) and canonical_name(one, value, call_id) in CANONICAL_TOOLS:
            return one
    return name or UNKNOWN_TOOL


def _status(payload: dict[str, Any], value: Any) -> str:
    said = value if isinstance(value, dict) else {}
    is_error = payload.get("isError")
    status = _STATUS.get(_text(said.get("status")))
    if status is not None or is_error is False:
        return status or "completed"
    has_error = bool(said.get("error")) and isinstance(said["error"], str | dict)
    refused = any(said.get(key) is False for key in ("ok", "success", "applied"))
    flagged = any(said.get(key) is True for key in ("isError", "is_error"))
    return "failed" if is_error is True or has_error or refused or flagged else "completed"


def _asked(payload: dict[str, Any]) -> dict[str, Any]:
    """What a permission is asked for: in `options`, or in `options` of that, or (Claude) in the payload itself."""
    asked: dict[str, Any] = {key: payload.get(key) for key in ("input", "toolCallId")}
    options = payload.get("options")
    while isinstance(options, dict):
        asked |= options
        options = options.get("options")
    return asked


def _hint(tool_call: dict[str, Any]) -> Any:
    """What the tool is called with, as far as the ACP call in the request shows it."""
    if tool_call.get("rawInput") is not None:
        return tool_call["rawInput"]
    if isinstance(tool_call.get("content"), list):
        return {"items": tool_call["content"], "locations": tool_call.get("locations")}
    return {"title": tool_call["title"]} if _text(tool_call.get("title")) else None


def _options(asked: dict[str, Any]) -> list[dict[str, Any]] | None:
    listed = asked.get("options")
    options = [option for option in listed if isinstance(option, dict)] if isinstance(listed, list) else []
    return [{key: one[key] for key in ("id", "name", "kind") if key in one} for one in options] or None
