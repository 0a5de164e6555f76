"""Parser of Continue's sessions and of its tools' results, which are texts. The text of a failure begins with the
tool's name; a failed command states its output as the error, or no output at all.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_in_words, status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import dollars, record, records, string, token_counts, whole
from tooltap.protocol.events import Message, Usage

ITEMS = 4_096
"""Maximum number of items of a history that are remembered; the oldest are dropped."""
_ITEM = re.compile(r"^\s{0,20}[-*] \[([ xX])\] (.+)$", re.MULTILINE)
_UNTITLED = frozenset({"New Session", "Untitled Session"})
_RUNNING = {"generating": "pending", "generated": "pending", "calling": "running"}
"""State of a call that has not ended -> status; every other has ended."""
_NAMES = {"Checklist": "TodoWrite", "Search": "Grep", "Subagent": "Task"}
"""Raw name -> canonical tool, for names that have this meaning only in Continue."""


class ContinueState(SessionState, kw_only=True):
    title: str | None = None
    model: str | None = None
    cost: float | None = None
    """The session's total cost, in dollars, as last stated."""
    used: tuple[int | None, int | None] = (None, None)
    """The session's total input and output tokens, as last stated."""
    emitted: tuple[int | None, int | None] = (None, None)
    cached: int = 0
    """What its messages have read from the cache, which the total leaves out."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class ContinueSession(Parser):
    """The `continue-session` dialect: a session, a JSON document that Continue rewrites whole at each change.

    Learned from Continue's CLI 1.5. Each version of the document is a line. An item of its `history` is a prompt, or a
    message of the model with its calls, whose states change from version to version; a call's state has its result. No
    item has an id or a time. A turn lasts from the prompt to the answer that calls no tool.
    """

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
        for item in items[start:]:
            self.item.read(self, record(item.get("message")), item, line=item)
        has_used = any(_tokens(record(record(item.get("message")).get("usage"))) for item in items[start:])
        self._total(record(value.get("usage")), has_used=has_used)
        return None if self.items else "unchanged"

    def _total(self, stated: Line, *, has_used: bool) -> None:
        """Emit what the session has used, compactions included. The total is stated before the messages that it
        includes, so its tokens wait for those. All is 0 before the first answer."""
        state, cost = self.state, dollars(stated.get("totalCost"))
        state.used = whole(stated.get("promptTokens")), whole(stated.get("completionTokens"))
        tokens = self._new_tokens() if has_used else {}
        is_new = cost is not None and cost != state.cost and bool(cost or has_used)
        if is_new or tokens:
            state.cost = cost
            self.emit(Usage, scope="session", counter="session", cost_usd=cost, **tokens)

    def _new_tokens(self) -> dict[str, int | None]:
        """Return the tokens of the session's total; nothing if they were emitted."""
        state = self.state
        if state.used == state.emitted or not any(state.used):
            return {}
        state.emitted = state.used
        return token_counts(*state.used, state.cached or None)

    def finish(self, reason: str) -> None:
        if tokens := self._new_tokens():
            self.emit(Usage, scope="session", counter="session", **tokens)

    @item("user")
    def _prompt(self, message: Line, item: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        bodies = Bodies(self)
        text = blocks_text(bodies.take(message.get("content"))) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @item("thinking")
    def _thinking(self, message: Line, item: Line) -> Skip:
        self._say("reasoning", message.get("content"))
        return None

    @item("assistant")
    def _assistant(self, message: Line, item: Line) -> Skip:
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
            self.emit(Usage, scope="step", **tokens)
            self.state.cached += tokens["cache_read_tokens"] or 0
        if self.turn is not None and not records(item.get("toolCallStates")):
            self.end_turn("completed", ended_by="answer")
        return None

    def _say(self, role: str, content: Any) -> None:
        if text := blocks_text(content):
            self.ensure_turn()
            self.emit_text(role, text)

    def _read_states(self, item: Line, *, only_open: bool = False) -> None:
        """Read the calls of an item. `only_open`: the item was read before, so only open calls can have changed."""
        for index, state in enumerate(records(item.get("toolCallStates"))):
            call_id, function = state.get("toolCallId"), record(record(state.get("toolCall")).get("function"))
            name = string(function.get("name"))
            if not isinstance(call_id, str) or name is None:
                self.unparsed("unknown-type", state)
            elif not only_open or self.calls.get(call_id) is not None:
                self._read_state(call_id, name, state, function.get("arguments"), index)

    def _read_state(self, call_id: str, name: str, state: Line, arguments: Any, index: int) -> None:
        self.ensure_turn()
        bodies = Bodies(self)
        status = _RUNNING.get(str(state.get("status")))
        given = state["parsedArgs"] if isinstance(state.get("parsedArgs"), dict) else arguments
        raw: Line = bodies.take({**state, "output": blocks_of(state)} if status is None else state)
        place = None, index
        shown = _read_input(name, given)
        self.calls.show(call_id, name, shown, raw=raw, name=_NAMES.get(name), status=status, place=place)
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
    cached = record(usage.get("prompt_tokens_details")).get("cached_tokens")
    thought = record(usage.get("completion_tokens_details")).get("reasoning_tokens")
    counts = token_counts(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached, reasoning=thought)
    return counts if counts["input_tokens"] or counts["output_tokens"] else {}


def _read_input(name: str, given: Any) -> Any:
    """Convert the input of a tool that needs more than key aliases: a checklist is a Markdown text."""
    text = string(record(given).get("checklist")) if name == "Checklist" else None
    if text is None:
        return given
    entries = [
        {"content": entry[2].strip(), "status": "pending" if entry[1] == " " else "completed"}
        for entry in _ITEM.finditer(text)
    ]
    return {**given, "todos": entries}


# -- answers ------------------------------------------------------------------------------------------------------

_FAILED_COMMAND = re.compile(r"Error executing tool \w{1,80}: Error \(exit code (-?\d{1,9})\): ?", re.ASCII)
_FILE = re.compile(r"Content of [^\n]{1,4096}:\n", re.ASCII)
_FOLDER = re.compile(r"Files in [^\n]{1,4096}:\n", re.ASCII)
_ENTRY = re.compile(r"^(.+) \((?:file, \d+ bytes|directory|file)\)$", re.ASCII | re.MULTILINE)


def blocks_of(state: dict[str, Any]) -> list[Any]:
    """Output blocks in a call's state: text, or the result of an MCP server, which is a JSON string and is decoded."""
    return [{**one, "content": decode_json(one.get("content"))} for one in records(state.get("output"))]


def read_result(name: str, state: dict[str, Any]) -> Answer:
    """Read the answer in a call's state, for the canonical tool `name`. Its output is already that of `blocks_of`, with
    data moved to output bodies."""
    content = [one.get("content") for one in state["output"]]
    text = "\n".join(part for one in content if (part := string(one)))
    status = status_word(state.get("status")) or "completed"
    if status == "cancelled":  # also a call that was not allowed
        status = status_in_words(text, "continuedev") or status
    if name == "Bash" and (failed := _FAILED_COMMAND.match(text)) is not None:
        code = int(failed[1])
        return Answer({"stderr": text[failed.end() :], "exit_code": code}, "failed", f"exit code {code}", model=text)
    if status != "completed":
        return Answer(None, status, text or None, model=text)
    return Answer(_value(name, text), model=text)


def _value(name: str, text: str) -> Any:
    if name == "Bash":
        return {"stdout": text}
    if name == "Read" and (head := _FILE.match(text)) is not None:
        return {"content": text[head.end() :]}
    if name == "LS" and (head := _FOLDER.match(text)) is not None:
        return {"entries": _ENTRY.findall(text, head.end())}
    if name == "TodoWrite":
        return None
    return decode_json(text)
