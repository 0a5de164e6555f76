"""Parts of messages on OpenCode's bus: what each kind of part becomes, and what comes beside the parts."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.opencode.errors import error_words
from tooltap.normalizers.dialects.opencode.prompts import Prompts
from tooltap.normalizers.dialects.opencode.sessions import Sessions
from tooltap.normalizers.dialects.opencode.state import Msg, int_of, object_of, text_of
from tooltap.normalizers.dialects.opencode.texts import TextParts
from tooltap.normalizers.dialects.opencode.tools import ToolParts
from tooltap.normalizers.dialects.opencode.usage import counts_reasoning_apart, tokens_used
from tooltap.normalizers.tools.payload import objects
from tooltap.protocol.events import Notice, Usage

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.opencode.bus import OpencodeBus

__all__ = ["Parts"]

_SKIPPED = {
    "agent": "prompt-context",
    "compaction": "prompt-context",
    "patch": "snapshot",
    "snapshot": "snapshot",
    "subtask": "prompt-context",
}
"""Type of a part -> why it is skipped: what a prompt mentions, and states of the work tree."""


class Parts:
    def __init__(
        self, parser: OpencodeBus, sessions: Sessions, prompts: Prompts, texts: TextParts, tools: ToolParts
    ) -> None:
        self._parser = parser
        self._sessions = sessions
        self._prompts = prompts
        self._texts = texts
        self._tools = tools
        self._kinds: dict[str, Callable[[Msg, Msg], str]] = {
            "file": self._file,
            "reasoning": self._reasoning,
            "retry": self._retry,
            "step-finish": self._step_finish,
            "step-start": self._step_start,
            "text": self._text,
            "tool": self._tool,
        }

    def updated(self, properties: Msg) -> str:
        """`message.part.updated`: the part as it is now."""
        part = object_of(properties, "part")
        kind = str(part.get("type"))
        if kind in _SKIPPED:
            return skip(_SKIPPED[kind])
        handler = self._kinds.get(kind)
        return handler(part, properties) if handler is not None else self._parser.unparsed("unknown-type", properties)

    def delta(self, properties: Msg) -> str:
        """`message.part.delta`: a piece of a part's field."""
        part_id, text = text_of(properties, "partID"), properties.get("delta")
        if part_id is None or not isinstance(text, str) or properties.get("field", "text") != "text":
            return skip("partial")
        return self._texts.delta(part_id, text_of(properties, "messageID"), text)

    # -- texts ----------------------------------------------------------------------------------------------------

    def _text(self, part: Msg, properties: Msg) -> str:
        if not isinstance(part.get("text"), str):
            return self._parser.unparsed("unknown-type", properties)
        if self._role(part) == "user":
            return self._prompts.came_back(part)
        if part.get("synthetic") is True or part.get("ignored") is True:
            return skip("prompt-context")
        return self._said(part, "assistant")

    def _reasoning(self, part: Msg, properties: Msg) -> str:
        if not isinstance(part.get("text"), str):
            return self._parser.unparsed("unknown-type", properties)
        return self._said(part, "reasoning")

    def _said(self, part: Msg, role: str) -> str:
        time = part.get("time")
        if isinstance(time, dict) and int_of(time, "end") is not None:
            return self._texts.whole(part, role)
        return self._texts.growing(part, role, has_end=isinstance(time, dict))

    def _file(self, part: Msg, properties: Msg) -> str:
        if self._role(part) == "user":
            return self._prompts.came_back(part)
        return self._texts.file(part, "assistant")

    def _role(self, part: Msg) -> str:
        """Where the message was not seen: only prompts have no times."""
        message_id = text_of(part, "messageID")
        role = self._texts.message(message_id).role if message_id is not None else None
        return role or ("assistant" if "time" in part else "user")

    # -- steps ----------------------------------------------------------------------------------------------------

    def _step_start(self, part: Msg, properties: Msg) -> str:
        if self._parser.turn is not None:
            return skip("step")
        self._parser.ensure_turn()
        return WITH_EVENTS

    def _step_finish(self, part: Msg, properties: Msg) -> str:
        parser = self._parser
        if parser.state.is_told(text_of(part, "id")):
            return skip("repeated")
        self._sessions.info.step_reason = text_of(part, "reason")
        apart = counts_reasoning_apart(part)
        if apart is not None:
            parser.state.reasoning_apart = apart
        used = tokens_used(part, apart=parser.state.reasoning_apart)
        if used is None:
            return skip("step")
        parser.emit(Usage, scope="step", **used)
        return WITH_EVENTS

    def _retry(self, part: Msg, properties: Msg) -> str:
        words, data = error_words(object_of(part, "error"))
        return self.retried(int_of(part, "attempt"), words, data)

    def retried(self, attempt: int | None, words: str | None, data: Msg) -> str:
        """A request to the model will be made again; said by the session and by a part."""
        info = self._sessions.info
        if attempt is not None and attempt == info.retry:
            return skip("repeated")
        info.retry = attempt or 0
        self._parser.emit(Notice, level="warning", code="retry", text=words or "retry", data=data)
        return WITH_EVENTS

    # -- tools ----------------------------------------------------------------------------------------------------

    def _tool(self, part: Msg, properties: Msg) -> str:
        call_id, state = text_of(part, "callID"), object_of(part, "state")
        if call_id is not None and not self._parser.calls.is_known(call_id):
            self._texts.end_blocks()
        line_class = self._tools.report(part)
        child = text_of(object_of(state, "metadata"), "sessionId")
        name = self._parser.calls.name_of(call_id) if call_id is not None else None
        if call_id is not None and child is not None and name == "Task":
            self._sessions.spawned(call_id, child)
        elif name == "TodoWrite":
            self._sessions.info.todos = _digest(object_of(state, "input").get("todos"))
        return line_class

    def todos(self, properties: Msg) -> str:
        """`todo.updated`: the whole list. It is news only if no call shows it."""
        todos, info, parser = properties.get("todos"), self._sessions.info, self._parser
        if not isinstance(todos, list):
            return parser.unparsed("unknown-type", properties)
        digest = _digest(todos)
        if digest == info.todos:
            return skip("unchanged")
        info.todos = digest
        parser.ensure_turn()
        self._texts.end_blocks()
        call_id = parser.made_up_id("plan")
        parser.calls.open(call_id, "todo", {"todos": todos}, raw=properties, name="TodoWrite", synthetic=True)
        parser.calls.result(call_id, {"todos": todos}, raw=properties, synthetic=True)
        return WITH_EVENTS


def _digest(todos: Any) -> int:
    return zlib.crc32(msgspec.json.encode([(todo.get("content"), todo.get("status")) for todo in objects(todos)]))
