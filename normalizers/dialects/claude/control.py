"""Claude's control protocol (`--input-format stream-json`): permissions, questions, settings.

The agent repeats a client's answer on its own side, so that the agent's side alone tells everything; what was already
told is skipped as an `echo`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.tools import tool_input
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.tapped import Direction

__all__ = ["CONTROL_SKIPS", "Control", "ControlState"]

CONTROL_SKIPS = frozenset({"control", "echo", "keep-alive"})

DENIALS = 1_024

_QUESTIONS = "AskUserQuestion"


class ControlState(msgspec.Struct):
    denied: list[str] = []
    """The last calls whose denial was told."""


class Control:
    def __init__(
        self, parser: Parser, tell_session: Callable[[dict[str, Any]], str], tell_interrupt: Callable[[str], str]
    ) -> None:
        """`tell_session` emits what is new of session fields, `tell_interrupt` a notice; both give the line's class."""
        self._parser = parser
        self._tell_session = tell_session
        self._tell_interrupt = tell_interrupt

    def request(self, value: dict[str, Any], direction: Direction | None) -> str:
        request = record(value.get("request"))
        match request.get("subtype"):
            case "can_use_tool":
                return self._can_use_tool(str(value.get("request_id")), request)
            case "interrupt":
                return self._tell_interrupt("interrupt requested")
            case "set_permission_mode":
                return self._tell_session({"mode": string(request.get("mode"))})
            case "set_model":
                return self._tell_session({"model": string(request.get("model"))})
            case _:
                return skip("control")

    def response(self, value: dict[str, Any]) -> str:
        response = record(value.get("response"))
        answer = record(response.get("response"))
        if "commands" in answer:  # of `initialize`
            commands = [str(command.get("name")) for command in records(answer["commands"])]
            return self._tell_session({"commands": commands, "mode": string(answer.get("current_permission_mode"))})
        if answer.get("behavior") in ("allow", "deny"):
            return self._answer(str(response.get("request_id")), answer)
        return skip("control")

    def cancel(self, value: dict[str, Any]) -> str:
        request_id = str(value.get("request_id"))
        if not self._parser.permissions.is_pending(request_id):
            return skip("control")
        self._parser.permissions.answer(request_id, "cancelled", by="agent")
        return WITH_EVENTS

    def deny(self, call_id: str, message: str | None) -> bool:
        """Tell that a policy denied a call, unless its denial was told."""
        if call_id in self._denied:
            return False
        self._remember_denial(call_id)
        self._parser.permissions.answer(call_id, "denied", call_id=call_id, by="policy", message=message)
        return True

    @property
    def _denied(self) -> list[str]:
        return self._parser.state.control.denied  # type: ignore[no-any-return]

    def _remember_denial(self, call_id: str) -> None:
        self._denied.append(call_id)
        del self._denied[:-DENIALS]

    def _can_use_tool(self, request_id: str, request: dict[str, Any]) -> str:
        """A request may come before the block of its call."""
        parser = self._parser
        call_id, raw_name, given = request.get("tool_use_id"), str(request.get("tool_name")), request.get("input")
        call = None
        if isinstance(call_id, str) and not parser.calls.repeats(call_id, raw_name, given):
            call = parser.calls.get(call_id) or parser.calls.open(call_id, raw_name, given, raw=request)
            parser.calls.remember(call, {**call.memory, "asked": _digest(given)})
        questions = records(record(given).get("questions")) if raw_name == _QUESTIONS else None
        parser.permissions.ask(
            request_id,
            call_id=call.id if call is not None else None,
            name=call.name if call is not None else raw_name,
            type="permission" if questions is None else "question",
            title=string(request.get("title")) or string(request.get("description")),
            input=tool_input(call.name, given, raw_name) if call is not None and questions is None else None,
            questions=questions,
        )
        return WITH_EVENTS

    def _answer(self, request_id: str, answer: dict[str, Any]) -> str:
        parser = self._parser
        permissions = parser.permissions
        if not permissions.is_pending(request_id):
            return skip("echo")
        call_id = permissions.call_of(request_id)
        call = parser.calls.get(call_id) if call_id is not None else None
        given = answer.get("updatedInput")
        if answer["behavior"] == "deny":
            if call_id is not None:
                self._remember_denial(call_id)
            permissions.answer(request_id, "denied", by="user", message=string(answer.get("message")))
        elif call is not None and call.raw_name == _QUESTIONS:
            permissions.answer(request_id, "answered", by="user", answers=record(record(given).get("answers")))
        else:
            permissions.answer(request_id, "allowed", by="user")
            if call is not None and given is not None and _digest(given) != call.memory.get("asked"):
                parser.calls.update(call, given, raw=answer)
        return WITH_EVENTS


def _digest(value: Any) -> int:
    return zlib.crc32(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
