"""Parsers of Droid's sessions and of what `droid exec` prints, and its tools' results: text, or JSON as a string. A
command's exit code is in the last line of the text.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import SHORT, SessionState, is_short
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import error_words, status_in_words
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import milliseconds, record, records, string, strings, token_counts, whole
from tooltap.protocol.events import Message, SessionEvent, Usage

_OUTCOMES = {"completed": "completed", "cancelled": "cancelled", "interrupted": "cancelled", "aborted": "cancelled"}
"""Reason of the end of a turn -> outcome; every other is a failure."""
_REMINDER = ("<system-reminder>", "</system-reminder>")
"""Tags around what Droid tells the model, at the beginning of a prompt."""
_BLANKS = re.compile(r"\s*")


_STREAM_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "thinking_tokens",
)
_COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens", "thinkingTokens")
"""Keys of a session's token counts; the first excludes tokens read from and written to the cache."""


def _said(text: str) -> str:
    """What the user says in a text, without the reminders to the model before it."""
    begin, end = _REMINDER
    at = 0
    while text.startswith(begin, at):
        closed = text.find(end, at)
        if closed < 0:
            return ""
        at = _BLANKS.match(text, closed + len(end)).end()  # type: ignore[union-attr]  # matches anywhere
    return text[at:]


class DroidState(SessionState, kw_only=True):
    model: str | None = None
    used: dict[str, int | None] = msgspec.field(default_factory=dict)
    """The last total of the session."""
    inherited: dict[str, int | None] = msgspec.field(default_factory=dict)
    """What the session had used that a compaction continued in this one: totals include it."""
    last: str | None = None
    """Id of the last message."""
    parent: str | None = None
    """The session that the header names."""
    copied_to: str | None = None
    """Id of the last message that a fork copied, until it was read."""


class DroidSession(Parser):
    """The `droid-session` dialect: the files that Droid keeps under `~/.factory/sessions`.

    Learned from Droid 0.215. Messages are those of Anthropic's API, whatever the model. A line of its own says how a
    turn ended; if it is missing, the next prompt or the end of the file does. Droid adds reminders among the user's
    messages. The tokens of a session are in the file of its settings, which Droid rewrites: a document, which is a
    stream of its own.

    The header of a fork, which a rewind makes, too, names the session and the message up to which it is a copy. A
    compaction begins a new session with its summary.
    """

    dialect = "droid-session"
    protocol = default_provider = "droid"
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "prompt-context", "unchanged"})
    line = Lines("type", skip={"todo_state": "settings", "session_end": "ended"})
    block = Lines("type", skip={"redacted_thinking": "empty"})
    state_type = DroidState
    state: DroidState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        self.replay = self.state.copied_to is not None

    def finish(self, reason: str) -> None:
        self._end_copied()

    def _end_copied(self) -> None:
        """End the history that a fork copied, and the calls that are open in it."""
        if self.state.copied_to is not None:
            self.state.copied_to = None
            replay, self.replay = self.replay, True
            self.calls.close_turn(self.session, None, None, "interrupted")
            self.replay = replay

    @line("session_start", id=str)
    def _session(self, value: Line) -> None:
        self.state.cwd = string(value.get("cwd"))
        self.begin_session(value["id"], title=string(value.get("title")), cwd=self.state.cwd)
        parent, copied_to = value.get("parent"), value.get("forkedAtMessageId")
        self.state.parent = parent if is_short(parent) else None
        if self.state.parent is not None and is_short(copied_to):
            self.state.copied_to = copied_to
            self.emit(SessionEvent, state="updated", forked_from=self.state.parent)

    @line.otherwise
    def _settings(self, value: Line) -> Skip:
        """Read the settings beside a session. Their tokens are those of the session without its subagents', which have
        settings of their own. Those of a session that a compaction has just begun are the earlier session's."""
        used = value.get("tokenUsage")
        if "type" in value or not isinstance(used, dict):
            return self.unparsed("unknown-type", value)
        self.ts = milliseconds(value.get("providerLockTimestamp")) or self.ts
        tokens = _tokens(used, _COUNTS)
        if not any(tokens.values()) or tokens == self.state.used:
            return "unchanged"
        self.state.used = tokens
        if value.get("pendingSessionStartSource") == "compact":
            self.state.inherited = tokens
            return "unchanged"
        if inherited := self.state.inherited:
            tokens = {count: _less(tokens[count], inherited.get(count)) for count in tokens}
        self.emit(Usage, scope="session", **tokens, model=string(value.get("model")), counter="session")
        return None

    @line("agent_turn_outcome")
    def _turn_ended(self, value: Line) -> Skip:
        if self.turn is None:
            return "unchanged"
        reason = string(value.get("reason")) or ""
        self.end_turn(_OUTCOMES.get(reason, "failed"), reason=reason)
        return None

    @line("compaction_state")
    def _compaction(self, value: Line) -> None:
        if self.state.parent is not None and self.state.last is None:
            self.emit(SessionEvent, state="updated", resumes=self.state.parent)
        self.notice("compaction", string(value.get("summaryText")))

    # -- messages -----------------------------------------------------------------------------------------------

    @line("message", message=dict)
    def _message(self, value: Line) -> Skip:
        message = value["message"]
        if is_short(message_id := value.get("id")):
            if self.state.last is not None and value.get("parentId") not in (None, self.state.last):
                self.notice("rewound", "history rewound", data={"parentId": value["parentId"]})
            self.state.last = message_id
        outcome = self._content(value, message)
        if message_id == self.state.copied_to:
            self._end_copied()
        return outcome

    def _content(self, value: Line, message: Line) -> Skip:
        if not self.replay:
            self.uses_model(string(message.get("modelId")))
        content, role = message.get("content"), string(message.get("role")) or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else records(content)
        if role == "user" and any(one.get("type") != "tool_result" for one in blocks):
            return self._prompt(blocks, string(value.get("id")))
        outcomes = [self.block.read(self, block, string(value.get("id")), line=value) for block in blocks]
        return best(outcomes) if outcomes and not self.items else None if self.items else "empty"

    def _prompt(self, blocks: list[Line], message_id: str | None) -> Skip:
        bodies = Bodies(self)
        parts = [part for part in bodies.take(blocks) if part.get("type") == "text"]
        texts = [said for part in parts if (text := string(part.get("text"))) and (said := _said(text))]
        if not texts and bodies.attachments is None:
            return "prompt-context"
        if self.turn is not None:
            self.give_up_turns()
        if not self.replay:
            self.start_turn()
        self.emit(Message, role="user", text="\n".join(texts), message_id=message_id, attachments=bodies.attachments)
        return None

    @block("text", text=str)
    @block("thinking", thinking=str)
    def _text(self, block: Line, message_id: str | None) -> Skip:
        kind = block["type"]
        if not block[kind]:
            return "empty"
        self.ensure_turn()
        self.emit_text("assistant" if kind == "text" else "reasoning", block[kind], message_id=message_id)
        return None

    @block("tool_use", id=str, name=str)
    def _call(self, block: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        return self.calls.show(block["id"], block["name"], block.get("input"), raw=block, place=(message_id, None))

    @block("tool_result", tool_use_id=str)
    def _result(self, block: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        bodies = Bodies(self)
        raw: dict[str, Any] = bodies.take(block)
        call_id = block["tool_use_id"]
        answer: Answer = read_result(self.calls.name_of(call_id) or "", record(raw))
        answer = answer.replace(attachments=bodies.attachments, model=raw.get("content"))
        return self.calls.answer(call_id, answer, raw=raw, raw_name=UNKNOWN_TOOL)


def _less(total: int | None, inherited: int | None) -> int | None:
    return None if total is None else max(0, total - (inherited or 0))


class DroidStreamState(SessionState, kw_only=True):
    reasoned: tuple[str, int] | None = None
    """Message id of the latest reasoning, and CRC-32 of its text."""


class DroidStream(Parser):
    """The `droid-stream` dialect: `droid exec --output-format stream-json`.

    Learned from Droid 0.215. A run is one turn, which its last line ends. Reasoning is printed twice.
    """

    dialect = "droid-stream"
    protocol = default_provider = "droid"
    STATES_TIMES = STATES_END = True
    SKIPS = frozenset({"empty", "repeated", "unchanged"})
    line = Lines("type")
    state_type = DroidStreamState
    state: DroidStreamState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts

    @line("system", session_id=str)
    def _init(self, value: Line) -> None:
        self.state.cwd = string(value.get("cwd"))
        tools = strings(value.get("tools"))
        self.begin_session(
            value["session_id"], cwd=self.state.cwd, model=string(value.get("model")), tools=tools or None
        )

    @line("message", text=str)
    def _message(self, value: Line) -> Skip:
        role, text, message_id = value.get("role"), value["text"], string(value.get("id"))
        if not text:
            return "empty"
        if role == "user":
            self.start_turn()
        else:
            self.ensure_turn()
        self.emit(Message, role="user" if role == "user" else "assistant", text=text, message_id=message_id)
        return None

    @line("reasoning", text=str)
    def _reasoning(self, value: Line) -> Skip:
        text, message_id = value["text"], string(value.get("id")) or ""
        if not text:
            return "empty"
        reasoned = message_id[:SHORT], zlib.crc32(text.encode())
        if reasoned == self.state.reasoned:
            return "repeated"
        self.state.reasoned = reasoned
        self.ensure_turn()
        self.emit_text("reasoning", text, message_id=message_id or None)
        return None

    @line("tool_call", id=str, toolName=str)
    def _call(self, value: Line) -> Skip:
        self.ensure_turn()
        return self.calls.show(value["id"], value["toolName"], value.get("parameters"), raw=value, place=("", None))

    @line("tool_result", id=str)
    def _result(self, value: Line) -> Skip:
        self.ensure_turn()
        bodies = Bodies(self)
        raw: Line = bodies.take(value)
        text = raw.get("value") if "value" in raw else error_words(raw.get("error"))
        answer = read_result(self.calls.name_of(value["id"]) or "", {"content": text, "is_error": raw.get("isError")})
        answer = answer.replace(attachments=bodies.attachments, model=text or "")
        return self.calls.answer(value["id"], answer, raw=raw, raw_name=string(raw.get("toolId")) or UNKNOWN_TOOL)

    @line("error")
    def _error(self, value: Line) -> None:
        self.notice("provider-error", error_words(value.get("error")) or string(value.get("message")), "error")

    @line("completion")
    def _completed(self, value: Line) -> None:
        self.ensure_turn()
        used = _tokens(record(value.get("usage")), _STREAM_COUNTS)
        usage = ((Usage, {"scope": "turn", **used}),) if any(used.values()) else ()
        self.end_turn("completed", duration_ms=whole(value.get("durationMs")), before=usage)


def _tokens(stated: Line, keys: tuple[str, ...]) -> dict[str, Any]:
    """Counts without the tokens of the cache, as ours."""
    tokens = token_counts(*map(stated.get, keys), apart=True)
    thought = tokens["reasoning_tokens"] or 0
    if thought > (tokens["output_tokens"] or 0):
        tokens["output_tokens"] = (tokens["output_tokens"] or 0) + thought
    return tokens


# -- answers ------------------------------------------------------------------------------------------------------

_EXITED = re.compile(r"\n\n\[Process exited with code (-?\d{1,9})\]\Z", re.ASCII)
_FAILED = re.compile(r"Error: Command failed \(exit code: -?\d{1,9}\)\n", re.ASCII)


def read_result(name: str, block: dict[str, Any]) -> Answer:
    """The answer in a `tool_result` block of the canonical tool `name`."""
    text, failed = blocks_text(block.get("content")) or "", block.get("is_error") is True
    if name == "Bash" and (exited := _EXITED.search(text)) is not None:
        head = _FAILED.match(text)
        code = int(exited[1])
        printed = text[0 if head is None else head.end() : exited.start()]
        error = f"exit code {code}" if code else None
        return Answer({"stdout": printed, "exit_code": code}, "failed" if failed or code else "completed", error)
    if failed:
        return Answer(None, status_in_words(text, "droid") or "failed", text or None)
    if name == "Bash":
        return Answer({"stdout": text})
    value = decode_json(text) if text.startswith("{") else text
    if isinstance(value, dict) and value.get("success") is False:
        return Answer(value, "failed", text)
    return Answer(value)
