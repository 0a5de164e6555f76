"""The `gemini-api` dialect: the Gemini API, requests and answers, whole or streamed, one JSON object per line, with
or without the framing of server-sent events.

Learned from Gemini CLI 0.61. The API gives calls no ids; clients may give them ids of their own when they repeat them,
and else a result is that of the first open call of its tool in the newest answer. Gemini CLI puts the context of the
session beside the first prompt, which is no part of it.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.exchanges import ExchangeParser, ExchangeState, merged
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import best
from tooltap.normalizers.core.state import OpenCall
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.gemini.answers import read_response
from tooltap.normalizers.wire.values import record, records, request_id, string, token_counts, whole
from tooltap.protocol.events import Attachment, Message

_COMPLETED = ("STOP", "MAX_TOKENS")
"""Reasons to finish with an answer; all others are reasons why there is none."""
_CONTEXT = ("<session_context>", "</session_context>")
_CODE = "code_execution"
"""Our name for the tool that runs code at the API."""
_encode = msgspec.json.Encoder(order="sorted").encode


class AnswerInProgress(msgspec.Struct, omit_defaults=True):
    """An answer that is being received."""

    id: str | None = None
    said: int = 0
    """CRC of the text so far."""
    calls: list[int] = []
    """CRCs of the calls that the client is to run."""
    usage: dict[str, Any] | None = None
    finish: str | None = None


class GeminiAPIState(ExchangeState, kw_only=True):
    answer: AnswerInProgress | None = None
    running: str | None = None
    """Id of the call that runs code at the API."""


class PartUse(NamedTuple):
    """A call in a part."""

    id: str | None
    name: str | None
    value: Any
    raw: Line


class GeminiAPI(ExchangeParser):
    dialect = "gemini-api"
    protocol = default_provider = "gemini-api"
    SKIPS = ExchangeParser.SKIPS | {"prompt-context", "redacted-thinking"}
    state_type = GeminiAPIState
    state: GeminiAPIState

    def read(self, value: Line) -> Skip:
        """The lines have no common key that says their kind. Code Assist puts both into an envelope."""
        inner = next((value[key] for key in ("request", "response") if isinstance(value.get(key), dict)), value)
        if isinstance(inner.get("contents"), list):
            self.end_answer()
            return self.read_conversation(records(inner["contents"]))
        if isinstance(value.get("error"), dict):
            return self._error(value["error"])
        if "candidates" in inner or "promptFeedback" in inner or "usageMetadata" in inner:
            return self._answer(inner)
        return self.unparsed("unknown-type", value) if value else "empty"

    def holds_back(self) -> bool:
        answer = self.state.answer
        return answer is not None and answer.finish is not None

    # -- requests -----------------------------------------------------------------------------------------------------

    def digest(self, message: Line) -> int:
        return digest_of(message)

    def is_prompt(self, message: Line) -> bool:
        parts = parts_of(message)
        return message.get("role") != "model" and bool(parts) and not any("functionResponse" in one for one in parts)

    def read_message(self, message: Line, *, begins_turn: bool) -> Skip:
        parts = parts_of(message)
        if message.get("role") == "model":
            uses = uses_of(message)
            if self.learns_ids(uses):
                return "history"
            has_text = any(isinstance(part.get("text"), str) and part["text"] for part in parts)
            return self.read_repeated(message, uses, has_text=has_text)
        beside = [part for part in parts if "functionResponse" not in part]
        outcomes = [self._result(part) for part in parts if isinstance(part.get("functionResponse"), dict)]
        return best([*outcomes, self._prompt(beside, begins_turn=begins_turn and not outcomes)])

    def emit_repeated(self, message: Line) -> None:
        for part in parts_of(message):
            text = part.get("text")
            if isinstance(text, str) and text:
                self.emit_text(_role_of(part), text)

    def _prompt(self, parts: list[Line], *, begins_turn: bool) -> Skip:
        attachments = self._files(parts)
        said = texts_of(parts)
        if not said and not attachments:
            return "prompt-context"
        self.emit_prompt("\n".join(said), attachments, begins_turn=begins_turn)
        return None

    def _files(self, parts: list[Line]) -> list[Attachment]:
        bodies = Bodies(self)
        bodies.take(parts)
        links = [record(part.get("fileData")) for part in parts]
        linked = [
            Attachment(mime_type=string(link.get("mimeType")) or "application/octet-stream", uri=link["fileUri"])
            for link in links
            if isinstance(link.get("fileUri"), str)
        ]
        return [*(bodies.attachments or []), *linked]

    def _result(self, part: Line) -> Skip:
        response: Line = part["functionResponse"]
        name, stated = string(response.get("name")) or UNKNOWN_TOOL, string(response.get("id"))
        call: OpenCall | str | None
        if stated is None:
            called = map(self.state.calls.open.get, self.state.called)
            call = next((one for one in called if one is not None and one.raw_name == name), None)
            call_id = None if call is None else call.wire_id or call.id
        else:
            call = call_id = self.state.aliases.get(stated, stated)
        if call is None or (isinstance(call, str) and self.calls.is_over(call)):
            return "history"  # its call has its result, which the client has changed since
        if not self.replay:
            self.ensure_turn()
        bodies = Bodies(self)
        raw = bodies.take(part)
        tool = self.calls.tool_of(call_id or "", name)
        answer = read_response(tool, [raw]).replace(attachments=bodies.attachments)
        return self.calls.answer(call, answer, raw=raw["functionResponse"], raw_name=name)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, value: Line) -> Skip:
        """Read an answer, or a chunk of one: both have the same form."""
        state, response_id = self.state, string(value.get("responseId"))
        if state.answer is not None and None not in (response_id, state.answer.id) and response_id != state.answer.id:
            self.end_answer()
        events = len(self.items)
        self.ensure_turn()
        self.uses_model(string(value.get("modelVersion")))
        if state.answer is None:
            state.answer, state.called, state.asked = AnswerInProgress(response_id), [], False
        answer = state.answer
        outcomes: list[Skip] = []
        for place, candidate in enumerate(records(value.get("candidates"))):
            for part in parts_of(record(candidate.get("content"))):
                outcomes.append(self._part(part, answer, str(candidate.get("index") or place or "")))
            if (finish := string(candidate.get("finishReason"))) is not None:
                answer.finish, state.answered = finish, True
                outcomes.append(None)
        if (usage := usage_of(record(value.get("usageMetadata")))) is not None:
            answer.usage = merged(answer.usage or {}, usage)
            outcomes.append(None)
        if (blocked := string(record(value.get("promptFeedback")).get("blockReason"))) is not None:
            self.end_answer()
            self.fail_exchange({"message": f"the prompt was blocked: {blocked}", "code": blocked}, "code")
        return None if len(self.items) > events else best(outcomes or ["empty"])

    def _part(self, part: Line, answer: AnswerInProgress, key: str) -> Skip:
        text = part.get("text")
        if isinstance(text, str):
            if not text:
                return "redacted-thinking" if "thoughtSignature" in part else "empty"
            role = _role_of(part)
            if role == "assistant" and not key:
                answer.said = _crc(text, answer.said)
            self.texts.append(role, text, message_id=answer.id, key=key)
            return None
        self.texts.flush(key)
        if isinstance(called := part.get("functionCall"), dict):
            answer.calls.append(_crc_of_call(called))
            self.open_calls([use_of(part)])
            return None
        if isinstance(code := part.get("executableCode"), dict):
            self.open_calls([PartUse(string(code.get("id")), _CODE, code, part)])
            self.state.running = self.state.called.pop()
            return None
        if isinstance(ran := part.get("codeExecutionResult"), dict):
            return self._code_ran(ran)
        if files := self._files([part]):
            self.emit(Message, role="assistant", text="", message_id=answer.id, attachments=files)
            return None
        return self.unparsed("unknown-type", part)

    def _code_ran(self, ran: Line) -> Skip:
        running, self.state.running = self.state.running, None
        if running is None:
            return self.unparsed("unknown-type", ran)
        outcome, output = string(ran.get("outcome")), string(ran.get("output"))
        response = {"output": output} if outcome == "OUTCOME_OK" else {"error": output or outcome}
        answer = read_response(self.calls.name_of(running) or "", {"functionResponse": {"response": response}})
        return self.calls.answer(running, answer, raw=ran)

    def end_answer(self) -> None:
        answer, self.state.answer = self.state.answer, None
        if answer is None:
            return
        self.texts.flush_turn(self.session, self.turn or "")
        self.remember_answer(_digest("model", answer.said, answer.calls, []))
        outcome = None
        if answer.finish is not None and not answer.calls:
            outcome = "completed" if answer.finish in _COMPLETED else "failed"
        request = request_id(answer.id)
        self.emit_end(request, answer.usage, outcome=outcome, reason=answer.finish, ended_by="answer")

    def _error(self, error: Line) -> Skip:
        if (answer := self.state.answer) is not None:
            answer.finish = None  # whatever it stated, the error ends the turn
            self.end_answer()
        self.fail_exchange(error, "status", "code")
        return None


def parts_of(message: Line) -> list[Line]:
    return records(message.get("parts"))


def uses_of(message: Line) -> list[PartUse]:
    """The calls of a message."""
    return [use_of(part) for part in parts_of(message) if isinstance(part.get("functionCall"), dict)]


def use_of(part: Line) -> PartUse:
    called: Line = part["functionCall"]
    given = called.get("args")
    return PartUse(string(called.get("id")), string(called.get("name")), {} if given is None else given, called)


def texts_of(parts: list[Line]) -> list[str]:
    """The texts of parts, without thoughts, and without what the client wrote for the model."""
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and part.get("thought") is not True]
    return [text for text in texts if not (text.startswith(_CONTEXT[0]) and text.rstrip().endswith(_CONTEXT[1]))]


def digest_of(message: Line) -> int:
    """CRC of a message that stays the same when it is repeated: of role, text, calls and results. Ids of calls are the
    client's, and come later."""
    parts = parts_of(message)
    said = 0
    for text in texts_of(parts):
        said = _crc(text, said)
    calls = [_crc_of_call(part["functionCall"]) for part in parts if isinstance(part.get("functionCall"), dict)]
    results = [record(part.get("functionResponse")) for part in parts if "functionResponse" in part]
    answered = [zlib.crc32(_encode([one.get("name"), one.get("response")])) for one in results]
    return _digest(message.get("role"), said, calls, answered)


def usage_of(usage: Line) -> dict[str, Any] | None:
    """The token counts of a chunk, up to now. The output excludes the thoughts."""
    if not usage:
        return None
    prompt, results = whole(usage.get("promptTokenCount")), whole(usage.get("toolUsePromptTokenCount"))
    said, thought = whole(usage.get("candidatesTokenCount")), whole(usage.get("thoughtsTokenCount"))
    return token_counts(
        None if prompt is None else prompt + (results or 0),
        None if said is thought is None else (said or 0) + (thought or 0),
        usage.get("cachedContentTokenCount"),
        None,
        thought,
    )


def _role_of(part: Line) -> str:
    return "reasoning" if part.get("thought") is True else "assistant"


def _digest(role: Any, said: int, calls: list[int], answered: list[int]) -> int:
    return zlib.crc32(_encode([role, said, calls, answered]))


def _crc_of_call(called: Line) -> int:
    return zlib.crc32(_encode([called.get("name"), called.get("args") or {}]))


def _crc(text: str, before: int) -> int:
    """CRC of a text that goes on, without white space: clients strip it."""
    return zlib.crc32("".join(text.split()).encode("utf-8", "replace"), before)
