"""The `openai-chat` dialect: Chat Completions, requests and answers, whole or streamed, one JSON object per line.

Learned from recordings of 18 hosts that speak it. A request repeats the conversation: what it adds is prompts and
results of tools. A turn goes from a prompt to an answer that calls no tool. The messages alone are read, too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.openai.calls import CallsById, PendingCall, collect
from tooltap.normalizers.dialects.openai.messages import (
    Msg,
    digest_of,
    result_ids,
    text_of,
    thought_of,
    usage_of,
    uses_of,
)
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.decode import FRAMING
from tooltap.protocol.events import Message, Notice, Reasoning, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["OpenaiChat"]

HISTORY = 65_536
"""Messages of a conversation that are known again."""
SAID = 1_024
"""Answers that are known again."""
SHORT = 500

_CALLS_TOOLS = ("tool_calls", "function_call")
_FAILED = ("content_filter", "error")


class Answer(msgspec.Struct, omit_defaults=True):
    """An answer that is being streamed."""

    id: str
    pending: list[PendingCall] = []
    calls: int = 0
    usage: dict[str, Any] | None = None
    finish: str | None = None


class ChatState(State, kw_only=True):
    history: list[int] = msgspec.field(default_factory=list)
    """Digests of the messages of the last request, instructions left out."""
    said: dict[int, None] = msgspec.field(default_factory=dict)
    """Digests of the last answers, which requests will repeat."""
    answer: Answer | None = None
    answered: bool = False
    """The last request has its answer, so that the same one again is no retry."""
    over: str | None = None
    """Id of the answer that ended last."""
    model: str | None = None
    call_count: int = 0
    nameless: str = ""
    """Id of the newest call that came without one."""


class OpenaiChat(Parser):
    dialect = "openai-chat"
    protocol = "openai"
    default_provider = "openai"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "history", "repeated", FRAMING})
    state_type = ChatState
    state: ChatState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._calls = CallsById(self)

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        if isinstance(value.get("choices"), list):
            return self._completion(value)
        self._end_answer()
        if isinstance(value.get("messages"), list):
            return self._request(objects(value["messages"]))
        if value.get("error") or value.get("object") == "error":
            return self._error(value.get("error") or value)
        if isinstance(value.get("role"), str):
            told = self._message(value)
            self.state.history.append(digest_of(value))
            del self.state.history[:-HISTORY]
            return WITH_EVENTS if told else skip("history")
        return self.unparsed("unknown-type", value)

    def read_framing(self, line: bytes) -> None:
        if line.rstrip().endswith(b"[DONE]"):
            self._end_answer()

    def finish(self, reason: str) -> None:
        self._end_answer()

    # -- requests -------------------------------------------------------------------------------------------------

    def _request(self, messages: list[Msg]) -> str:
        """The whole conversation so far. One that shares nothing with the last begins anew; what it then says the
        model had said is history."""
        messages = [one for one in messages if one.get("role") not in ("system", "developer")]
        digests = [digest_of(one) for one in messages]
        known = 0
        for old, new in zip(self.state.history, digests, strict=False):
            if old != new:
                break
            known += 1
        begins = known == 0
        self.state.history = digests[:HISTORY]
        last_prompt = max((index for index, one in enumerate(messages) if one.get("role") == "user"), default=-1)
        if known == len(messages) and self.state.answered and last_prompt >= 0:
            known = last_prompt  # asked once more, for another answer
        self.state.answered = False
        told = prompted = False
        for index, message in enumerate(messages[known:], known):
            self.replay = begins and index < last_prompt
            told |= self._message(message, begins_turn=not prompted)
            prompted |= message.get("role") == "user" and not self.replay
        self.replay = False
        return WITH_EVENTS if told else skip("history")

    def _message(self, message: Msg, *, begins_turn: bool = True) -> bool:
        """A message of a conversation; gives whether it was news. `begins_turn`: if it is a prompt."""
        role = message.get("role")
        if role in ("tool", "function"):
            return self._result(message)
        if role == "user":
            return self._prompt(message, begins_turn)
        if role != "assistant" or digest_of(message) in self.state.said:
            return False
        uses = uses_of(message)
        if not uses and not text_of(message) and not thought_of(message):
            return False
        if uses and all(self._calls.is_told(use) for use in uses):
            return False
        self._begin_if_not_told()
        self._say(message, None)
        for use in uses:
            self._calls.open(use)
        if not uses and not self.replay and self.turn is not None:
            self.end_turn("completed")
        return True

    def _prompt(self, message: Msg, begins_turn: bool) -> bool:
        bodies = Bodies(self)
        bodies.take(message.get("content"))
        text = text_of(message)
        if begins_turn and not self.replay:
            if self.turn is not None:
                self.end_turn("cancelled", synthetic=True)
            self.start_turn()
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return True

    def _result(self, message: Msg) -> bool:
        bodies = Bodies(self)
        raw = bodies.take(message)
        value = raw.get("content")
        ids = result_ids(message) or [""]
        self._begin_if_not_told()
        told = False
        for call_id in ids:
            told |= self._calls.result(call_id, message.get("name"), value, raw)
        return told

    def _begin_if_not_told(self) -> None:
        if not self.replay:
            self.ensure_turn()

    # -- answers --------------------------------------------------------------------------------------------------

    def _completion(self, value: Msg) -> str:
        answer_id = value["id"] if isinstance(value.get("id"), str) else ""
        choices = objects(value["choices"])
        streamed = any(isinstance(choice.get("delta"), dict) for choice in choices) or (
            self.state.answer is not None and self.state.answer.id == answer_id
        )
        if self.state.answer is not None and (self.state.answer.id != answer_id or not streamed):
            self._end_answer()
        if streamed and answer_id and self.state.over == answer_id:
            return skip("repeated")
        if value.get("error"):
            return self._error(value["error"])
        new_model = self._model(value.get("model"))
        told = False
        if choices or self.state.answer is not None:
            if self.state.answer is None:
                self.ensure_turn()
                self.state.answer = Answer(answer_id)
            for choice in choices:
                told |= self._choice(choice, self.state.answer)
        answer = self.state.answer
        if answer is not None and isinstance(value.get("usage"), dict):
            answer.usage = usage_of(value["usage"]) or answer.usage
            told |= answer.usage is not None
        if answer is not None and (not streamed or (answer.finish and answer.usage is not None)):
            self._end_answer()
            told = True
        return WITH_EVENTS if told or new_model else skip("empty")

    def _model(self, model: Any) -> bool:
        if not isinstance(model, str) or not model or model == self.state.model or len(model) > SHORT:
            return False
        self.state.model = model
        self.emit(SessionEvent, state="updated", model=model)
        return True

    def _choice(self, choice: Msg, answer: Answer) -> bool:
        told = False
        message, delta = choice.get("message"), choice.get("delta")
        key = str(choice.get("index") or "")
        if isinstance(message, dict):
            self.state.answered = True
            told = self._say(message, answer.id)
            for use in uses_of(message):
                self._calls.open(use)
                answer.calls += 1
            self._remember(text_of(message), [use.raw for use in uses_of(message)])
        elif isinstance(delta, dict):
            told = self._delta(delta, answer, key)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            answer.finish = reason
            self.state.answered = True
            told = True
        return told or answer.calls > 0

    def _delta(self, delta: Msg, answer: Answer, key: str) -> bool:
        thought, text = thought_of(delta), text_of(delta)
        if thought:
            self.texts.append("reasoning", thought, message_id=answer.id or None, key=key)
        if text:
            self.texts.append("assistant", text, message_id=answer.id or None, key=key)
        entries = objects(delta.get("tool_calls"))
        legacy = delta.get("function_call")
        if not entries and isinstance(legacy, dict):
            entries = [{"index": 0, "function": legacy}]
        for entry in entries:
            collect(answer.pending, entry, self.context.limits.call_bytes // 4)
        return bool(thought or text or entries)

    def _say(self, message: Msg, answer_id: str | None) -> bool:
        thought, text = thought_of(message), text_of(message)
        if thought:
            self.emit(Reasoning, text=thought, message_id=answer_id or None)
        if text:
            self.emit(Message, role="assistant", text=text, message_id=answer_id or None)
        return bool(thought or text)

    def _end_answer(self) -> None:
        """The answer is complete: its calls, its usage, and the turn, unless tools are to be called."""
        answer, self.state.answer = self.state.answer, None
        if answer is None:
            return
        self.state.over = answer.id or None
        texts = [text.buffer.head for text in self.state.texts.open.values() if text.role == "assistant"]
        self.texts.flush_turn(self.session, self.turn or "")
        uses = [call.as_use() for call in answer.pending if call.id or call.name or call.arguments]
        for use in uses:
            self._calls.open(use)
        self._remember("".join(texts), [use.raw for use in uses])
        usage = {"scope": "step", **answer.usage} if answer.usage is not None else None
        goes_on = uses or answer.calls or answer.finish in _CALLS_TOOLS or answer.finish is None
        if goes_on and usage is not None:
            self.emit(Usage, **usage)
        elif not goes_on:
            outcome = "failed" if answer.finish in _FAILED else "completed"
            self.end_turn(outcome, reason=answer.finish, before=((Usage, usage),) if usage is not None else ())

    def _remember(self, text: str, calls: list[Msg]) -> None:
        """What requests will repeat, in one message or with the calls in another."""
        said = self.state.said
        answer = {"role": "assistant", "content": text}
        for digest in (digest_of(answer), digest_of({**answer, "tool_calls": calls})):
            said[digest] = None
        while len(said) > SAID:
            del said[next(iter(said))]

    def _error(self, error: Any) -> str:
        """An error in place of a completion, or in the middle of it."""
        self.state.answer = None
        data = error if isinstance(error, dict) else {"message": str(error)}
        words = next((str(data[key]) for key in ("message", "code", "type") if data.get(key)), "error")
        self.ensure_turn()
        self.texts.flush()
        self.emit(Notice, level="error", code="provider-error", text=words, data=data)
        self.end_turn("failed", reason=str(data.get("code") or data.get("type") or "error")[:SHORT])
        return WITH_EVENTS
