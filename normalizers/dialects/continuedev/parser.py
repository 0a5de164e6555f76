"""The `continue-session` dialect: a session, a JSON document that Continue writes whole each time.

Learned from Continue's CLI 1.5. Each version of the document is a line. Its `history` has a prompt, or what the model
said together with its calls, whose states change from version to version; a call's state has its result. No item has an
id or a time. A turn lasts from the prompt to the answer that calls no tool.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import History, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.continuedev.answers import blocks_of, read_result
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import dollars, record, records, string, whole
from tooltap.protocol.events import Message, Usage

ITEMS = 4_096
"""Latest items of a history that are remembered."""
_ENTRY = re.compile(r"^\s{0,20}[-*] \[([ xX])\] (.+)$", re.MULTILINE)
_UNTITLED = frozenset({"New Session", "Untitled Session"})
_RUNNING = {"generating": "pending", "generated": "pending", "calling": "running"}
"""State of a call that has not ended -> status; every other has ended."""
_NAMES = {"Checklist": "TodoWrite", "Search": "Grep", "Subagent": "Task"}
"""Tools whose names mean this only here."""


class ContinueState(SessionState, kw_only=True):
    title: str | None = None
    model: str | None = None
    history: History = msgspec.field(default_factory=History)


class ContinueSession(Parser):
    dialect = "continue-session"
    protocol = default_provider = "continue"
    DOCUMENTS = True
    SKIPS = frozenset({"unchanged"})
    item = Lines("role")
    state_type = ContinueState
    state: ContinueState

    def read(self, value: Line) -> Skip:
        session, history = string(value.get("sessionId")), value.get("history")
        if session is None or not isinstance(history, list):
            return self.unparsed("unknown-type", value)
        if self.state.started != session:
            folder = string(value.get("workspaceDirectory")) or ""
            self.state.cwd = folder.removeprefix("file://") or None
            self.begin_session(session, cwd=self.state.cwd)
        title = string(value.get("title"))
        if title and title not in _UNTITLED and title != self.state.title:
            self.state.title = title
            self.update_session({"title": title})
        items = records(history)
        start, is_shorter = self.state.history.unread([_identity(item) for item in items], ITEMS)
        for item in items[:start]:
            self._read_states(item, only_open=True)
        if is_shorter:
            self.notice("rewound", "history shortened", data={"items": start})
        cost = dollars(record(value.get("usage")).get("totalCost"))
        for number, item in enumerate(items[start:], start + 1):
            self.item.read(self, record(item.get("message")), item, cost if number == len(items) else None, line=item)
        return None if self.items else "unchanged"

    @item("user")
    def _prompt(self, message: Line, item: Line, cost: float | None) -> Skip:
        self.give_up_turns()
        self.start_turn()
        bodies = Bodies(self)
        text = blocks_text(bodies.take(message.get("content"))) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @item("thinking")
    def _thinking(self, message: Line, item: Line, cost: float | None) -> Skip:
        self._say("reasoning", message.get("content"))
        return None

    @item("assistant")
    def _assistant(self, message: Line, item: Line, cost: float | None) -> Skip:
        if summary := string(item.get("conversationSummary")):
            self.notice("compaction", summary)
            return None
        usage = record(message.get("usage"))
        self.uses_model(string(usage.get("model")))
        self._say("reasoning", record(item.get("reasoning")).get("text"))
        self._say("assistant", message.get("content"))
        self._read_states(item)
        if tokens := _tokens(usage):
            self.ensure_turn()
            self.emit(Usage, scope="step", cost_usd=cost, cost_scope=None if cost is None else "session", **tokens)
        if self.turn is not None and not records(item.get("toolCallStates")):
            self.end_turn("completed", ended_by="answer")
        return None

    def _say(self, role: str, content: Any) -> None:
        if text := blocks_text(content):
            self.ensure_turn()
            self.emit_text(role, text)

    def _read_states(self, item: Line, *, only_open: bool = False) -> None:
        """Read the calls of an item. `only_open`: the item was read before, so only what was open can have changed."""
        for state in records(item.get("toolCallStates")):
            call_id, function = state.get("toolCallId"), record(record(state.get("toolCall")).get("function"))
            name = string(function.get("name"))
            if not isinstance(call_id, str) or name is None:
                self.unparsed("unknown-type", state)
            elif not only_open or self.calls.get(call_id) is not None:
                self._read_state(call_id, name, state, function.get("arguments"))

    def _read_state(self, call_id: str, name: str, state: Line, arguments: Any) -> None:
        self.ensure_turn()
        bodies = Bodies(self)
        status = _RUNNING.get(str(state.get("status")))
        given = state["parsedArgs"] if isinstance(state.get("parsedArgs"), dict) else arguments
        raw: Line = bodies.take({**state, "output": blocks_of(state)} if status is None else state)
        self.calls.show(call_id, name, _read_input(name, given), raw=raw, name=_NAMES.get(name), status=status)
        if status is None:
            answer = read_result(self.calls.name_of(call_id) or "", raw)
            answer = answer.replace(attachments=bodies.attachments)
            self.calls.answer(call_id, answer, raw=raw)


def _identity(item: Line) -> int:
    """Digest of an item without the states of its calls, which change."""
    message = record(item.get("message"))
    calls = [state.get("toolCallId") for state in records(item.get("toolCallStates"))]
    return zlib.crc32(msgspec.json.encode([message.get("role"), message.get("content"), calls]))


def _tokens(usage: Line) -> dict[str, int | None]:
    prompt, output = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    if not prompt and not output:
        return {}
    return {
        "input_tokens": prompt,
        "output_tokens": output,
        "cache_read_tokens": whole(record(usage.get("prompt_tokens_details")).get("cached_tokens")),
        "reasoning_tokens": whole(record(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    }


def _read_input(name: str, given: Any) -> Any:
    """The input of a tool, where it needs more than another key: a checklist is a text in Markdown."""
    text = string(record(given).get("checklist")) if name == "Checklist" else None
    if text is None:
        return given
    entries = [
        {"content": entry[2].strip(), "status": "pending" if entry[1] == " " else "completed"}
        for entry in _ENTRY.finditer(text)
    ]
    return {**given, "todos": entries}
