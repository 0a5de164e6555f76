"""The `anthropic-messages` dialect: Anthropic's Messages API, requests and answers, whole or streamed, one JSON object
per line, with or without the framing of server-sent events.

Learned from Claude Code 2.1.332. Claude Code puts reminders to the model beside the prompt; they are no part of it, and
neither are instructions in the middle of the conversation (`role: system`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.exchanges import MANY_CALLS, ExchangeParser, ExchangeState, merged
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import best
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.claude.answers import read_answer, read_server_answer
from tooltap.normalizers.dialects.openai.answers import read_result
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, records, request_id, string, token_counts, whole
from tooltap.protocol.events import Attachment

_INSTRUCTIONS = ("system", "developer")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_TEXTS = {"text": "assistant", "thinking": "reasoning"}
"""Type of a block with text, which is also the key of the text -> role."""
_DELTAS = {f"{kind}_delta": kind for kind in _TEXTS}
_FAILED = ("refusal",)
"""Reasons to stop that are no answer."""
_GOES_ON = ("tool_use", "pause_turn")
"""Reasons to stop after which the client asks again in the same turn."""
_REMINDER = ("<system-reminder>", "</system-reminder>")


class AnswerInProgress(msgspec.Struct, omit_defaults=True):
    """An answer that is being received."""

    id: str | None = None
    block: Line | None = None
    """The block that is being received, if it is a call."""
    index: int | None = None
    arguments: str = ""
    """Input of that call so far, as JSON."""
    texts: dict[str, str] = {}
    """Index of a block of text -> role."""
    uses: list[Line] = []
    """The calls that the client is to run."""
    said: int = 0
    """CRC of the text so far."""
    usage: dict[str, Any] | None = None
    stop: str | None = None


class MessagesState(ExchangeState, kw_only=True):
    answer: AnswerInProgress | None = None


class BlockUse(NamedTuple):
    """A call in a message."""

    id: str | None
    name: str | None
    value: Any
    raw: Line


class AnthropicMessages(ExchangeParser):
    dialect = "anthropic-messages"
    protocol = default_provider = "anthropic"
    SKIPS = ExchangeParser.SKIPS | {"partial", "prompt-context", "redacted-thinking"}
    line = Lines("type", skip={"ping": "keep-alive"})
    state_type = MessagesState
    state: MessagesState

    def read(self, value: Line) -> Skip:
        if "type" in value:
            return self.line.read(self, value)
        if not value:
            return "empty"
        if isinstance(value.get("messages"), list):
            self.end_answer()
            messages = [one for one in records(value["messages"]) if one.get("role") not in _INSTRUCTIONS]
            return self.read_conversation(messages)
        return self._error(value) if isinstance(value.get("error"), dict) else self.unparsed("unknown-type", value)

    def holds_back(self) -> bool:
        answer = self.state.answer
        return answer is not None and answer.stop is not None

    # -- requests -----------------------------------------------------------------------------------------------------

    def digest(self, message: Line) -> int:
        return digest_of(message)

    def is_prompt(self, message: Line) -> bool:
        blocks = blocks_of(message)
        return message.get("role") == "user" and bool(blocks) and not any(map(_is_result, blocks))

    def read_message(self, message: Line, *, begins_turn: bool) -> Skip:
        blocks = blocks_of(message)
        if message.get("role") == "assistant":
            has_text = any(str(block.get("type")) in _TEXTS for block in blocks)
            return self.read_repeated(message, uses_of(message), has_text=has_text)
        outcomes = [self._result(block) for block in blocks if _is_result(block)]
        return best([*outcomes, self._prompt(blocks, begins_turn=begins_turn and not outcomes)])

    def emit_repeated(self, message: Line) -> None:
        for block in blocks_of(message):
            if not _is_use(block):
                self._block(block, None, None)

    def _prompt(self, blocks: list[Line], *, begins_turn: bool) -> Skip:
        bodies = Bodies(self)
        given = [block for block in blocks if not _is_result(block)]
        said = texts_of({"content": given})
        files = bodies.take([block for block in given if block.get("type") != "text"])
        attachments = [*(bodies.attachments or []), *_links_in(files)]
        if not said and not attachments:
            return "prompt-context"
        self.emit_prompt("\n".join(said), attachments, begins_turn=begins_turn)
        return None

    def _result(self, block: Line) -> Skip:
        stated: str = block["tool_use_id"]
        call_id = self.state.aliases.get(stated, stated)
        if self.calls.is_over(call_id):
            return "history"
        if not self.replay:
            self.ensure_turn()
        bodies = Bodies(self)
        raw = bodies.take(block)
        answer = self._answer_of(call_id, raw).replace(model=raw.get("content") or "", attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw)

    def _answer_of(self, call_id: str, block: Line) -> Answer:
        """The answer in a result. For a shell, forms of agents other than Claude Code are read, too."""
        name = self.calls.name_of(call_id) or ""
        answer = read_answer(name, block, None, {}, stopped=False)
        if name == "Bash" and block.get("is_error") is not True and not answer.is_async:
            stated = read_result(name, {"content": block.get("content")})
            if stated.error is not None or "exit_code" in record(stated.value):
                return stated
        return answer

    # -- answers ------------------------------------------------------------------------------------------------------

    @line("message", content=list)
    def _whole(self, message: Line) -> Skip:
        answer = self._begin_answer(message)
        for index, block in enumerate(records(message["content"])):
            self._block(block, answer, index)
        answer.stop = string(message.get("stop_reason")) or "end_turn"
        self.end_answer()
        return None

    @line("message_start", message=dict)
    def _started(self, value: Line) -> Skip:
        self._begin_answer(value["message"])
        return None

    def _begin_answer(self, message: Line) -> AnswerInProgress:
        self.end_answer()
        self.ensure_turn()
        self.uses_model(string(message.get("model")))
        self.state.asked, self.state.called = False, []
        self.state.answer = answer = AnswerInProgress(string(message.get("id")))
        self._count(message, answer)
        return answer

    def _answer(self) -> AnswerInProgress:
        """The answer that is being received; a new one if the stream was tapped in the middle of it."""
        return self.state.answer or self._begin_answer({})

    @line("content_block_start", content_block=dict, index=int)
    def _block_started(self, value: Line) -> Skip:
        answer, block, index = self._answer(), value["content_block"], value["index"]
        self._end_call(answer)
        if _is_call(block):
            answer.block, answer.index, answer.arguments = block, index, ""
            return None
        if (kind := str(block.get("type"))) in _TEXTS:
            return self._append(answer, kind, string(block.get(kind)), index)
        return self._block(block, answer, index)

    @line("content_block_delta", delta=dict, index=int)
    def _delta(self, value: Line) -> Skip:
        answer, delta, index = self._answer(), value["delta"], value["index"]
        kind = str(delta.get("type"))
        if kind in _DELTAS:
            return self._append(answer, _DELTAS[kind], string(delta.get(_DELTAS[kind])), index)
        piece = delta.get("partial_json")
        if isinstance(piece, str) and answer.block is not None and answer.index == index:
            if len(answer.arguments) + len(piece) <= self.context.limits.call_bytes // 4:
                answer.arguments += piece
            return None
        # Signatures of thoughts, and citations.
        return "partial" if kind.endswith("_delta") else self.unparsed("unknown-type", value)

    def _append(self, answer: AnswerInProgress, kind: str, text: str | None, index: int) -> Skip:
        """Append to the text of a block of this kind."""
        if not text:
            return "empty"
        if kind == "text":
            answer.said = _crc(text, answer.said)
        self.texts.append(_TEXTS[kind], text, message_id=answer.id, block=index, key=str(index))
        return None

    @line("content_block_stop", index=int)
    def _block_stopped(self, value: Line) -> Skip:
        answer = self._answer()
        before = len(self.items)
        self.texts.flush(str(value["index"]))
        if answer.index == value["index"]:
            self._end_call(answer)
        return None if len(self.items) > before else "partial"

    @line("message_delta", delta=dict)
    def _message_delta(self, value: Line) -> Skip:
        answer = self._answer()
        self._count(value, answer)
        if (stop := string(value["delta"].get("stop_reason"))) is not None:
            answer.stop = stop
            self.state.answered = True
        return None

    @line("message_stop")
    def _stopped(self, value: Line) -> Skip:
        answer = self._answer()
        answer.stop = answer.stop or "end_turn"
        self.end_answer()
        return None if self.items else "partial"

    @line("error", error=dict)
    def _error(self, value: Line) -> Skip:
        if (answer := self.state.answer) is not None:
            answer.stop = None  # whatever it stated, the error ends the turn
            self.end_answer()
        self.fail_exchange(value["error"], "type")
        return None

    def end_answer(self) -> None:
        answer = self.state.answer
        if answer is None:
            return
        self._end_call(answer)
        self.state.answer = None
        self.texts.flush_turn(self.session, self.turn or "")
        self.remember_answer(_digest("assistant", answer.said, answer.uses))
        if answer.stop is not None:
            self.state.answered = True
        outcome = None
        if answer.stop is not None and answer.stop not in _GOES_ON and not answer.uses:
            outcome = "failed" if answer.stop in _FAILED else "completed"
        self.emit_end(request_id(answer.id), answer.usage, outcome=outcome, reason=answer.stop)

    def _count(self, value: Line, answer: AnswerInProgress) -> None:
        """Take the figures that a line states of the answer."""
        usage = record(value.get("usage"))
        if not usage:
            return
        counts: dict[str, Any] = token_counts(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("cache_read_input_tokens"),
            usage.get("cache_creation_input_tokens"),
            record(usage.get("output_tokens_details")).get("thinking_tokens"),
            apart=True,
        )
        counts["cache_write_1h_tokens"] = whole(record(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
        answer.usage = merged(answer.usage or {}, counts)

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _end_call(self, answer: AnswerInProgress) -> None:
        """Emit the call that is being received."""
        block, answer.block = answer.block, None
        if block is not None:
            given = decode_json(answer.arguments) if answer.arguments else block.get("input")
            self._block({**block, "input": given}, answer, answer.index)

    def _block(self, block: Line, answer: AnswerInProgress | None, index: int | None) -> Skip:
        """Read a whole block of the model's. `answer`: the answer that it belongs to, if it is not repeated by a
        request."""
        kind, message_id = str(block.get("type")), None if answer is None else answer.id
        if kind in _TEXTS:
            text = string(block.get(kind))
            if not text:
                return "empty"
            if answer is not None and kind == "text":
                answer.said = _crc(text, answer.said)
            self.emit_text(_TEXTS[kind], text, message_id=message_id, block=index)
            return None
        if _is_call(block):
            self._flush_before(index)
            self.open_calls([use_of(block)])
            if answer is not None and _is_use(block):
                answer.uses.append({key: block[key] for key in ("type", "id", "name") if key in block})
                del answer.uses[:-MANY_CALLS]
            return None
        if kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str):
            bodies = Bodies(self)
            raw = bodies.take(block)
            found = read_server_answer(raw).replace(model=raw.get("content"), attachments=bodies.attachments)
            return self.calls.answer(block["tool_use_id"], found, raw=raw)
        return "redacted-thinking" if kind == "redacted_thinking" else self.unparsed("unknown-type", block)

    def _flush_before(self, index: int | None) -> None:
        """Emit a text whose end is not on the wire before what follows it."""
        if index:
            self.texts.flush(str(index - 1))


def blocks_of(message: Line) -> list[Line]:
    """The content of a message as blocks; a string is a block of text."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else records(content)


def uses_of(message: Line) -> list[BlockUse]:
    """The calls of a message."""
    return [use_of(block) for block in blocks_of(message) if _is_use(block)]


def use_of(block: Line) -> BlockUse:
    name, server = string(block.get("name")), string(block.get("server_name"))
    given = block.get("input")
    return BlockUse(
        string(block.get("id")), f"mcp__{server}__{name}" if server else name, {} if given is None else given, block
    )


def texts_of(message: Line) -> list[str]:
    """The texts of a message, without reminders to the model."""
    return [block["text"] for block in blocks_of(message) if _is_said(block)]


def digest_of(message: Line) -> int:
    """CRC of a message that stays the same when it is repeated: of role, text, ids and names of calls, and ids of
    answered calls."""
    blocks = blocks_of(message)
    said = 0
    for text in texts_of(message):
        said = _crc(text, said)
    answered = [block["tool_use_id"] for block in blocks if _is_result(block)]
    return _digest(message.get("role"), said, [block for block in blocks if _is_use(block)], answered)


def _digest(role: Any, said: int, uses: list[Line], answered: Sequence[str] = ()) -> int:
    names = [(use.get("id"), use.get("name")) for use in uses]
    return zlib.crc32(msgspec.json.encode([role, said, names, answered]))


def _crc(text: str, before: int) -> int:
    """CRC of a text that goes on, without white space: clients strip it."""
    return zlib.crc32("".join(text.split()).encode("utf-8", "replace"), before)


def _is_call(block: Line) -> bool:
    return block.get("type") in _CALLS and isinstance(block.get("id"), str)


def _is_use(block: Line) -> bool:
    """Whether a block is a call that the client is to run."""
    return block.get("type") == "tool_use" and _is_call(block)


def _is_result(block: Line) -> bool:
    return block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)


def _is_said(block: Line) -> bool:
    """Whether a block is text, and no reminder that the client wrote for the model."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return False
    return not (text.startswith(_REMINDER[0]) and text.rstrip().endswith(_REMINDER[1]))


def _links_in(blocks: list[Line]) -> list[Attachment]:
    """Attachments for files that a prompt only links to."""
    links = []
    for block in blocks:
        url = string(record(block.get("source")).get("url"))
        if url is not None:
            mime_type = "image/*" if block.get("type") == "image" else "application/octet-stream"
            links.append(Attachment(mime_type=mime_type, uri=url, name=string(block.get("title"))))
    return links
