"""Parts of OpenCode's messages, which all its dialects read alike: text, reasoning, files and tool calls; what a step
used; errors.

A text is emitted once: when it is complete, or earlier, when the agent calls a tool. OpenCode states the end of such a
text only after the tool has run.

A tool part is one object per call, sent again whenever its `state` changes. `state.status` goes from pending over
running to completed or error. The input is empty while the model writes it.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from tooltap.normalizers.core.calls import DUPLICATE_RESULT
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import Call, keep_newest
from tooltap.normalizers.core.texts import LiveOutput
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.opencode.answers import INVALID, attachments_of, mcp_name, read_result
from tooltap.normalizers.dialects.opencode.state import MESSAGES, OpencodeMessage, OpencodePart, OpencodeState
from tooltap.normalizers.tools.outcome import error_words, status_word
from tooltap.normalizers.wire.values import dollars, first_string, record, token_fields, whole
from tooltap.protocol.events import Message

_ENDED = ("completed", "error")
_STATUSES = ("pending", "running", *_ENDED)
_RUNNING = ("in_progress", "queued", "started")
_STREAM = "stdout"
"""The shell tool merges its streams."""


class OpencodeParts:
    """Reads the parts of messages."""

    def __init__(self, parser: Parser, state: OpencodeState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._texts = parser.texts
        self._state = state
        self.running = LiveOutput(parser, state.running)

    # -- text, reasoning and files ------------------------------------------------------------------------------

    def message(self, message_id: str) -> OpencodeMessage:
        """State of the message with this id, which is new if it is unknown."""
        messages = self._state.messages
        info = messages.get(message_id)
        if info is None:
            info = messages[message_id] = OpencodeMessage()
            keep_newest(messages, MESSAGES)
        return info

    def read_whole(self, part: Line, role: str) -> Skip:
        """Read a part that is complete."""
        text, message_id, part_id = part["text"], first_string(part, "messageID"), first_string(part, "id")
        if part_id is None:
            return self._emit(text, role, message_id, self._next_block(message_id))
        info = self.open_part(part_id, message_id)
        if info is None:
            return "repeated"
        info.done = True
        self._state.receiving.pop(part_id, None)
        was_open = self._texts.drop(part_id)
        if info.emitted:
            continues = crc32(text[: info.emitted].encode()) == info.emitted_digest
            text = text[info.emitted :] if continues else ""
            if not text.strip():  # white space at the end comes and goes
                return "repeated"
        elif info.received and not was_open:
            return "repeated"
        return self._emit(text, role, message_id, info.block)

    def read_file(self, part: Line, role: str) -> Skip:
        """Read a file that is part of a message, inline or as a link."""
        part_id, message_id = first_string(part, "id"), first_string(part, "messageID")
        if part_id is not None:
            info = self.open_part(part_id, message_id)
            if info is None:
                return "repeated"
            info.done = True
        part, attachments = take_bodies(self._parser, part)
        self._parser.ensure_turn()
        self._parser.emit(
            Message, role=role, text="", message_id=message_id, attachments=attachments_of([part], attachments)
        )
        return None

    def open_part(self, part_id: str, message_id: str | None) -> OpencodePart | None:
        """The part; None if it was emitted whole."""
        parts = self._state.parts
        info = parts.get(part_id)
        if info is None:
            info = parts[part_id] = OpencodePart(block=self._next_block(message_id) or 0)
            keep_newest(parts, MESSAGES)
        return None if info.done else info

    def _next_block(self, message_id: str | None) -> int | None:
        """The index of a new block of the message."""
        if message_id is None:
            return None
        message = self.message(message_id)
        message.blocks += 1
        return message.blocks - 1

    def _emit(self, text: str, role: str, message_id: str | None, block: int | None) -> Skip:
        if not text:
            return "empty"
        self._parser.ensure_turn()
        self._parser.emit_text(role, text, message_id=message_id, block=block)
        return None

    def read_step_start(self) -> Skip:
        """A step begins, which is a request to the model."""
        if self._parser.turn is not None:
            return "step"
        self._parser.ensure_turn()
        return None

    # -- tool calls ---------------------------------------------------------------------------------------------

    def read_tool(self, part: Line) -> Skip:
        """Read a call as it is now."""
        call_id, raw_name, state = first_string(part, "callID"), first_string(part, "tool"), record(part.get("state"))
        status = state.get("status")
        if status not in _STATUSES:  # another word for one of them
            if (status := _status_of(status)) is None:
                return self._parser.unparsed("unknown-type", part)
            part = {**part, "state": {**state, "status": status, "stated": state["status"]}}
        if call_id is None or raw_name is None:
            return self._parser.unparsed("unknown-type", part)
        asked = raw_name
        if raw_name == INVALID and self._calls.get(call_id) is None:  # the run has no line with the tool's own name
            asked = first_string(record(state.get("input")), "tool") or raw_name
        calls, ended = self._calls, status in _ENDED
        if self._repeats(call_id, part) and (calls.is_over(call_id) or not ended):
            return DUPLICATE_RESULT if ended else "repeated"
        part, bodies = take_bodies(self._parser, part)
        state = record(part.get("state"))
        changed = self._show(call_id, asked, state, part)
        if ended:
            self.running.take(call_id)
            answer = read_result(raw_name, calls.tool_of(call_id, asked), state)
            if attachments := attachments_of(state.get("attachments"), bodies):
                answer = answer.replace(attachments=attachments)
            return calls.answer(call_id, answer, raw=part, raw_name=asked)
        if "metadata" in state and self._print(calls.get(call_id), record(state["metadata"])) and not changed:
            return "partial"
        return None if changed else "unchanged"

    def _show(self, call_id: str, raw_name: str, state: Line, part: Line) -> bool:
        """Open the call, or emit what changed of it; returns whether anything was emitted."""
        calls = self._parser.calls
        value, title = state.get("input"), first_string(state, "title")
        status = "pending" if state["status"] == "pending" else "running"
        call = calls.get(call_id)
        if call is None:
            if self._repeats(call_id, part):
                return False
            self._parser.ensure_turn()
            name, source = mcp_name(raw_name, self._parser), first_string(part, "id") or ""
            calls.open(call_id, raw_name, value, raw=part, name=name, status=status, title=title, source=source)
            return True
        # Else the result states them, or the answer will.
        is_news = state["status"] not in _ENDED and call.status != "awaiting-permission"
        news: dict[str, Any] = {"title": title, "status": status} if is_news else {}
        if isinstance(value, dict) and not value:
            return calls.update(call, **news)
        # The name stays where OpenCode ran the stand-in; a permission that opened the call stated only its kind.
        raw_name = call.raw_name if raw_name == INVALID else raw_name
        name = mcp_name(raw_name, self._parser)
        return calls.update(call, value, raw=part, raw_name=raw_name, name=name, **news)

    def _repeats(self, call_id: str, part: Line) -> bool:
        """Whether the part showed a call that is done, and is not another call's with the same id."""
        calls = self._parser.calls
        return calls.is_done(call_id) and calls.source_of(call_id) in (first_string(part, "id") or "", "")

    def _print(self, call: Call | None, metadata: Line) -> bool:
        """Emit what is new of the output: the shell tool repeats all it has printed so far."""
        output = metadata.get("output")
        if call is None or not isinstance(output, str):
            return False
        known = self._state.running.calls.get(call.id)
        if len(output) > (known.buffers[_STREAM].chars if known is not None else 0):
            self.running.catch_up(call, _STREAM, output)
        return True

    # -- errors -------------------------------------------------------------------------------------------------

    def report_error(self, error: Line) -> tuple[str, str]:
        """Emit an error, or a stop that the user wanted; returns the outcome and reason of the turn it ends."""
        text, data = read_error(error)
        name = first_string(error, "name") or "error"
        if name == "MessageAbortedError":
            self._parser.notice("interrupt", text, data=data)
            return "cancelled", name
        self._parser.notice("provider-error", text, "error", data)
        return "failed", name


def _status_of(word: Any) -> str | None:
    """The status that another word means; None for a word that says nothing."""
    if word in _RUNNING:
        return "running"
    ended = status_word(word)
    return None if ended is None else "completed" if ended == "completed" else "error"


def read_usage(stated: Line, *, apart: bool = False) -> dict[str, Any] | None:
    """The fields of a usage event for an object with `tokens` and `cost`; None if nothing was used yet.

    1.18.33 excludes the reasoning from the output and states a total that shows it; versions that state no total
    included the reasoning. `apart`: the output excludes it even without a total.
    """
    tokens = record(stated.get("tokens"))
    prompt, output = whole(tokens.get("input")), whole(tokens.get("output"))
    if not prompt and not output:
        return None
    cache, reasoning, total = record(tokens.get("cache")), whole(tokens.get("reasoning")), whole(tokens.get("total"))
    apart = apart or (reasoning or 0) > (output or 0)
    read, write = whole(cache.get("read")), whole(cache.get("write"))
    fields = token_fields(prompt, output, read, write, reasoning, total, apart=apart)
    return {**fields, "cost_usd": dollars(stated.get("cost"))}


def model_name(stated: Line) -> str | None:
    """`provider/model`, as in OpenCode's own options; None where the object states neither."""
    provider = first_string(stated, "providerID")
    name = first_string(stated, "modelID" if "modelID" in stated or "role" in stated else "id")
    return f"{provider}/{name}" if provider and name else provider or name


def outcome_of(reason: str | None) -> str:
    """The outcome of a turn whose last step gave this reason."""
    return "failed" if reason in ("content-filter", "error") else "completed"


def read_error(error: Line) -> tuple[str, dict[str, Any]]:
    """The message and data of an error `{name, data: {message, …}}`."""
    name, data = first_string(error, "name") or "error", record(error.get("data"))
    return error_words(data) or error_words(error) or name, {"name": name, **data}
