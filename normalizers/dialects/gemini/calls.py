"""The calls of a saved Gemini chat: entries of `toolCalls`, and the parts in which the model asked and was answered."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.core.parser import UNPARSED, WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.gemini.parts import records
from tooltap.normalizers.dialects.gemini.results import mcp_name, read_call, read_response
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.wire.times import milliseconds

__all__ = ["ChatCalls", "best_class"]

_FINISHED = ("success", "error", "cancelled")
_BEFORE_IT_RUNS = {"awaiting_approval": "awaiting-permission", "scheduled": "pending", "validating": "pending"}


def best_class(classes: list[str]) -> str:
    """A line is worth its best part; of parts that tell nothing, the last says why."""
    return next((best for best in (WITH_EVENTS, UNPARSED) if best in classes), classes[-1])


def _is_subagent(call: dict[str, Any]) -> bool:
    """A subagent is called by `invoke_agent`, or by a tool of its own name; its result tells its id."""
    shown = call.get("resultDisplay")
    return isinstance(call.get("agentId"), str) or (isinstance(shown, dict) and shown.get("isSubagentProgress") is True)


def _subagent_args(name: str, args: Any) -> Any:
    named = isinstance(args, dict) and "agent_name" in args
    return args if named or not isinstance(args, dict) else {**args, "subagent_type": name}


class ChatCalls:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def read(self, calls: list[dict[str, Any]], parts: list[dict[str, Any]]) -> str:
        """The calls of one message. They ran side by side, so all begin before the first of them ends.

        The parts hold them once more, or alone, where the message was written again from what the model remembers.
        """
        listed = {call.get("id") for call in calls if isinstance(call.get("id"), str)}
        asked = records([part.get("functionCall") for part in parts])
        calls = calls + [call for call in asked if isinstance(call.get("id"), str) and call["id"] not in listed]
        classes = [self._open(call) for call in calls]
        classes += [self._result(call) for call in calls if call.get("status") in _FINISHED or call.get("result")]
        return best_class([skip("unchanged"), *classes])

    def responses(self, parts: list[dict[str, Any]]) -> str:
        """Results in the message that gives them to the model; their pictures lie beside them."""
        answers = records([part.get("functionResponse") for part in parts])
        pictures = [part for part in parts if "inlineData" in part]
        classes = [skip("unchanged")]
        for number, answer in enumerate(answers):
            call_id = answer.get("id")
            if not isinstance(call_id, str):
                continue  # of a version that gave no ids: the result stands with its call
            if self._is_answered(call_id):
                classes.append(DUPLICATE_RESULT)
                continue
            name = answer.get("name")
            name = name if isinstance(name, str) and name else UNKNOWN_TOOL
            canonical = self._parser.calls.name_of(call_id) or canonical_name(name, {}, call_id)
            bodies = Bodies(self._parser)
            raw = bodies.take([{"functionResponse": answer}, *(pictures if number == len(answers) - 1 else ())])
            classes.append(self._emit(call_id, read_response(canonical, raw), raw, bodies, canonical, name))
        return best_class(classes)

    def _open(self, call: dict[str, Any]) -> str:
        parser = self._parser
        call_id, name = call.get("id"), call.get("name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return parser.unparsed("unknown-type", call)
        title = call.get("displayName")
        title = title if isinstance(title, str) and title != name else None
        canonical = mcp_name(name, title, parser.context.mcp_servers)
        args = call.get("args")
        if _is_subagent(call):
            canonical, args = "Task", _subagent_args(name, args)
        status = _BEFORE_IT_RUNS.get(str(call.get("status")), "running")
        raw = {key: item for key, item in call.items() if key not in ("result", "resultDisplay")}
        known = parser.calls.get(call_id)
        if known is not None and not known.acknowledged:
            value = args if "args" in call else msgspec.UNSET
            changed = parser.calls.update(known, value, raw=raw, name=canonical, status=status, title=title)
            return WITH_EVENTS if changed else skip("unchanged")
        if known is not None or parser.calls.repeats(call_id, name, args, name=canonical, retold=True):
            return skip("unchanged")
        parser.ensure_turn()
        parser.calls.open(call_id, name, args, raw=raw, name=canonical, status=status, title=title)
        return WITH_EVENTS

    def _result(self, call: dict[str, Any]) -> str:
        parser = self._parser
        call_id = call.get("id")
        if not isinstance(call_id, str) or not parser.calls.is_known(call_id):
            return UNPARSED  # shown when it could not be opened
        if self._is_answered(call_id):
            return skip("unchanged")
        bodies = Bodies(parser)
        raw = bodies.take(call)
        canonical = parser.calls.name_of(call_id) or ""
        parser.ts = milliseconds(call.get("timestamp")) or parser.ts
        return self._emit(call_id, read_call(canonical, raw), raw, bodies, canonical)

    def _is_answered(self, call_id: str) -> bool:
        call = self._parser.calls.get(call_id)
        return self._parser.calls.is_over(call_id) or (call is not None and call.acknowledged)

    def _emit(
        self, call_id: str, answer: Answer, raw: Any, bodies: Bodies, canonical: str, raw_name: str = UNKNOWN_TOOL
    ) -> str:
        value = answer.value
        if canonical == "Read" and bodies.attachments and isinstance(value, str):
            value = {"message": value}  # "Binary content provided (1 item(s))."
        return self._parser.calls.result(
            call_id,
            value,
            raw=raw,
            raw_name=raw_name,
            status=answer.status,
            error=answer.error,
            display=answer.display,
            assistant_view=answer.assistant_view,
            is_async=answer.is_async,
            attachments=bodies.attachments,
        )
