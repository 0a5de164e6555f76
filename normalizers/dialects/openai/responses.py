"""OpenAI's Responses API as it goes over the wire: requests, whole responses, and streamed events.

A line is a request body (`{"model", "input", …}`), a response (`{"object": "response", …}`), an error body, or an
event (`{"type": "response.…", "sequence_number", …}`), with or without what frames server-sent events.

A turn goes from the user's prompt over as many responses as it takes until one leaves no call for the client to run.
Each item of a response comes up to four times (deltas, parts, the item, the whole response) and is told once, by its
place in the output: GitHub Copilot's server gives it another id each time.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import UNPARSED, WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.codex.text import Answer
from tooltap.normalizers.dialects.openai.responses_items import (
    ItemCall,
    answer_of,
    call_of,
    is_answer,
    item_text,
    own_answer,
    with_image,
)
from tooltap.normalizers.dialects.openai.responses_requests import PromptsState, first_new, new_prompts
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.values import whole
from tooltap.protocol.events import Message, Notice, Reasoning, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["OpenAIResponses"]

MANY_ITEMS = 1_024
"""Items of one response that are told apart; further ones are read when the response is whole."""

_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "completed",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_OUTCOMES = {"completed": "completed", "incomplete": "completed", "failed": "failed", "cancelled": "cancelled"}
_TEXT_DELTAS = {
    "response.output_text.delta": ("assistant", "content_index"),
    "response.refusal.delta": ("assistant", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
}
_PIECE = re.compile(r"response\.[\w.]+\.(?:delta|done|added|partial_image)")
"""A piece of an item that comes whole in `response.output_item.done`."""
_PROGRESS = re.compile(
    r"response\.(?:queued|in_progress|\w+\.(?:in_progress|searching|interpreting|generating|completed|failed|incomplete))"
)


class ResponsesState(State, kw_only=True):
    model: str | None = None
    receiving: bool = False
    """A response has begun whose end has not come."""
    items: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the response being received: place in the output -> the item's id when it was added."""
    told: dict[str, None] = msgspec.field(default_factory=dict)
    """Places whose items are whole."""
    waiting: dict[str, None] = msgspec.field(default_factory=dict)
    """Calls of it that are for the client to run."""
    ended: str | None = None
    """Id of the last response that ended."""
    prompts: PromptsState = msgspec.field(default_factory=PromptsState)
    error: str | None = None
    """An error was told that is not yet its turn's end."""


class OpenAIResponses(Parser):
    dialect = "openai-responses"
    protocol = "openai"
    default_provider = "openai"
    SKIPS = frozenset(
        {"blank", "lost", "framing", "partial", "progress", "history", "unchanged", "empty", "duplicate-result"}
    )
    state_type = ResponsesState
    DOCUMENTS = True

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        kind = value.get("type")
        if kind == "response.create":
            inner = value.get("response")
            return self._request(inner if isinstance(inner, dict) else value)
        if value.get("object") == "response":
            return self._response(value)
        if kind == "error" or (kind is None and isinstance(value.get("error"), dict)):
            return self._error(value, is_body=kind is None)
        if "input" in value and not isinstance(kind, str):
            return self._request(value)
        if isinstance(kind, str) and kind.startswith("response."):
            return self._event(kind, value)
        return self.unparsed("unknown-type", value)

    def finish(self, reason: str) -> None:
        if self.state.error is not None and self.turn is not None:
            self._end_turn("failed", self.state.error)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _request(self, body: dict[str, Any]) -> str:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        calls = {call.id: (call, item) for item in items if (call := call_of(item)) is not None}
        new = first_new(items)
        events = len(self.items)
        for number, item in enumerate(items):
            if is_answer(item):
                self._client_answer(item, calls if number >= new else {})
            elif item.get("type") == "mcp_approval_response":
                self._approval(item)
        continues = body.get("previous_response_id") is not None
        prompts = new_prompts(items, new, self.state.prompts, continues=continues)
        goes_on = self.state.error is None and len(self.items) > events
        if prompts and self.turn is not None and not goes_on:  # what was running was broken off
            self._end_turn("failed" if self.state.error else "cancelled", self.state.error)
        for prompt in prompts:
            self._prompt(prompt)
        return WITH_EVENTS if len(self.items) > events else skip("history")

    def _prompt(self, item: dict[str, Any]) -> None:
        bodies = Bodies(self)
        content = item.get("content")
        parts = [content] if isinstance(content, str) else bodies.take(content if isinstance(content, list) else [])
        if self.turn is None:
            self.start_turn()
        texts = [text for part in parts if (text := item_text(part)) is not None]
        message_id = item.get("id") if isinstance(item.get("id"), str) else None
        self.emit(
            Message, role="user", text="\n".join(texts), message_id=message_id, attachments=bodies.attachments or None
        )

    def _client_answer(self, item: dict[str, Any], known: dict[str, tuple[ItemCall, dict[str, Any]]]) -> str:
        call_id = item.get("call_id") or item.get("id")
        if not isinstance(call_id, str):
            return UNPARSED
        call, raw = known.get(call_id, (None, None))
        if self.calls.get(call_id) is None and call is not None:
            if self.calls.repeats(call_id, call.raw_name, call.value, name=call.name):
                return DUPLICATE_RESULT
            self.ensure_turn()
            self.calls.open(call.id, call.raw_name, call.value, raw=raw, name=call.name)
        if self.calls.get(call_id) is None:
            return DUPLICATE_RESULT
        return self._result(call_id, answer_of(item), item)

    def _approval(self, item: dict[str, Any]) -> None:
        request = item.get("approval_request_id")
        if isinstance(request, str) and self.permissions.is_pending(request):
            reason = item.get("reason")
            self.permissions.answer(
                request,
                "allowed" if item.get("approve") is True else "denied",
                by="user",
                message=reason if isinstance(reason, str) else None,
            )

    # -- responses ----------------------------------------------------------------------------------------------------

    def _event(self, kind: str, value: dict[str, Any]) -> str:
        response = value.get("response")
        if kind == "response.created":
            return self._begin_response(response if isinstance(response, dict) else {})
        if kind in _ENDS:
            response = response if isinstance(response, dict) else {}
            return self._response({"status": kind.removeprefix("response."), **response})
        if kind == "response.output_item.added":
            return self._item(value, is_whole=False)
        if kind == "response.output_item.done":
            return self._item(value, is_whole=True)
        if kind in _TEXT_DELTAS:
            return self._delta(kind, value)
        if _PIECE.fullmatch(kind):
            return skip("partial")
        if _PROGRESS.fullmatch(kind):
            return skip("progress")
        return self.unparsed("unknown-type", value)

    def _begin_response(self, response: dict[str, Any]) -> str:
        state = self.state
        self._set_time(response.get("created_at"))
        conversation = response.get("conversation")
        if isinstance(conversation, dict) and isinstance(conversation.get("id"), str):
            self.set_session(conversation["id"])
        if state.error is not None and self.turn is not None:
            self._end_turn("failed", state.error)
        state.receiving, state.error = True, None
        state.items, state.told, state.waiting = {}, {}, {}
        model = response.get("model")
        if isinstance(model, str) and model != state.model:
            self.emit(SessionEvent, state="updated" if state.model else "started", model=model)
            state.model = model
        self.ensure_turn()
        return WITH_EVENTS if self.items else skip("unchanged")

    def _response(self, response: dict[str, Any]) -> str:
        """A response as it stands: whole, unless it is one that is still being made."""
        state = self.state
        outcome = _OUTCOMES.get(str(response.get("status")))
        if outcome is None:
            return skip("progress")
        response_id = response.get("id")
        if isinstance(response_id, str) and response_id == state.ended:
            return skip("unchanged")
        if not state.receiving:
            self._begin_response(response)
        for index, item in enumerate(objects(response.get("output"))):
            if str(index) not in state.told:
                self._read_item(str(index), item, is_whole=True)
        state.ended = response_id if isinstance(response_id, str) else None
        self._set_time(response.get("completed_at"))
        self._end_response(response, outcome)
        return WITH_EVENTS

    def _end_response(self, response: dict[str, Any], outcome: str) -> None:
        state = self.state
        details, error = response.get("incomplete_details"), response.get("error")
        reason = response.get("status")
        if isinstance(details, dict) and isinstance(details.get("reason"), str):
            reason = details["reason"]
        if isinstance(error, dict):
            reason = error.get("code") or error.get("type") or reason
            if state.error is None:
                self._notice(error)
        usage = _usage(response.get("usage"))
        waits = outcome == "completed" and any(self.calls.get(call_id) is not None for call_id in state.waiting)
        if waits:
            self.texts.flush_turn(self.session, str(self.turn))
            if usage:
                self.emit(Usage, scope="step", **usage)
        else:
            self._end_turn(outcome, reason if isinstance(reason, str) else None, usage)
        state.receiving = False
        state.items, state.told, state.waiting = {}, {}, {}

    def _end_turn(self, outcome: str, reason: str | None, usage: dict[str, int] | None = None) -> None:
        before = ((Usage, {"scope": "step", **usage}),) if usage else ()
        self.end_turn(outcome, reason=reason, synthetic=outcome == "cancelled" and reason is None, before=before)
        self.state.error = None

    def _error(self, value: dict[str, Any], *, is_body: bool) -> str:
        error = value["error"] if isinstance(value.get("error"), dict) else value
        self._notice(error)
        code = error.get("code") or error.get("type")
        self.state.error = str(code or "error")
        if is_body and self.turn is not None:
            self._end_turn("failed", self.state.error)
        elif is_body:
            self.state.error = None
        return WITH_EVENTS

    def _notice(self, error: dict[str, Any]) -> None:
        text = error.get("message")
        self.emit(
            Notice,
            level="error",
            code="provider-error",
            text=text if isinstance(text, str) else "",
            data={key: error[key] for key in ("type", "code", "param") if isinstance(error.get(key), str)} or None,
        )

    def _set_time(self, seconds: Any) -> None:
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < 10**11:
            self.ts = round(seconds * 1000)

    # -- items of a response ------------------------------------------------------------------------------------------

    def _item(self, value: dict[str, Any], *, is_whole: bool) -> str:
        state = self.state
        item, place = value.get("item"), str(value.get("output_index"))
        if not isinstance(item, dict):
            return self.unparsed("unknown-type", value)
        if place in state.told:
            return skip("unchanged")
        if len(state.told) >= MANY_ITEMS:
            return skip("partial")
        if place not in state.items and isinstance(item.get("id"), str):
            state.items[place] = item["id"]
            if len(state.items) > MANY_ITEMS:
                del state.items[next(iter(state.items))]
        if is_whole:
            state.told[place] = None
        return self._read_item(place, item, is_whole=is_whole)

    def _read_item(self, place: str, item: dict[str, Any], *, is_whole: bool) -> str:
        self.ensure_turn()
        events = len(self.items)
        message_id = self.state.items.get(place) or (item["id"] if isinstance(item.get("id"), str) else None)
        kind = item.get("type")
        if kind in ("message", "reasoning", "compaction", "mcp_list_tools", "mcp_approval_request") and not is_whole:
            return skip("partial")
        if kind == "message":
            self._blocks(place, "assistant", item.get("content"), message_id, "")
        elif kind == "reasoning":
            self._blocks(place, "reasoning", item.get("summary"), message_id, "s")
            self._blocks(place, "reasoning", item.get("content"), message_id, "r")
        elif kind == "compaction":
            self.emit(Notice, level="info", code="compaction", text="the conversation was compacted")
        elif kind == "mcp_list_tools":
            self._servers_tools(item)
        elif is_answer(item):
            return self._output_item(item) if is_whole else skip("partial")
        elif (call := call_of(item)) is not None:
            self._call(call, item, is_whole=is_whole)
        else:
            return self.unparsed("unknown-type", item)
        return WITH_EVENTS if len(self.items) > events else skip("empty")

    def _blocks(self, place: str, role: str, parts: Any, message_id: str | None, mark: str) -> None:
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            self.texts.drop(f"{place}.{mark}{index}")
            text = item_text(part)
            if not text:
                continue
            if role == "reasoning":
                self.emit(Reasoning, text=text, message_id=message_id, block=index)
            else:
                self.emit(Message, role="assistant", text=text, message_id=message_id, block=index)

    def _delta(self, kind: str, value: dict[str, Any]) -> str:
        delta = value.get("delta")
        if not isinstance(delta, str):
            return self.unparsed("unknown-type", value)
        role, key = _TEXT_DELTAS[kind]
        place, block = str(value.get("output_index")), whole(value.get(key)) or 0
        mark = "" if role == "assistant" else "s" if key == "summary_index" else "r"
        self.ensure_turn()
        self.texts.append(
            role,
            delta,
            message_id=self.state.items.get(place),
            block=block,
            key=f"{place}.{mark}{block}",
            preview=True,
        )
        return skip("partial") if not self.items else WITH_EVENTS

    def _call(self, call: ItemCall, item: dict[str, Any], *, is_whole: bool) -> None:
        known: Call | None = self.calls.get(call.id)
        value = call.value if is_whole else {}
        if known is None and self.calls.repeats(call.id, call.raw_name, value, name=call.name):
            return
        bodies = Bodies(self)
        item = bodies.take(with_image(item))
        if not is_whole:
            if known is None:
                self.calls.open(call.id, call.raw_name, value, raw=item, name=call.name, status="pending")
            return
        if known is None:
            self.calls.open(call.id, call.raw_name, call.value, raw=item, name=call.name)
        else:
            status = None if known.status == "awaiting-permission" else "running"
            self.calls.update(known, call.value, raw=item, name=call.name, status=status)
        if item.get("type") == "mcp_approval_request":
            if not self.permissions.is_pending(call.id):
                self.permissions.ask(call.id, call_id=call.id)
            self._wait_for(call.id)
            return
        answer = own_answer(item)
        if answer is None:
            self._wait_for(call.id)
        else:
            self._result(call.id, answer, item, bodies)

    def _wait_for(self, call_id: str) -> None:
        waiting = self.state.waiting
        waiting[call_id] = None
        if len(waiting) > MANY_ITEMS:
            del waiting[next(iter(waiting))]

    def _output_item(self, item: dict[str, Any]) -> str:
        """What came of a call that OpenAI ran, in an item of its own; without an id it is the last call's."""
        call_id = item.get("call_id") or next(reversed(self.state.waiting), None)
        if not isinstance(call_id, str):
            return self.unparsed("no-call-id", item)
        return self._result(call_id, answer_of(item), item)

    def _result(self, call_id: str, answer: Answer, raw: dict[str, Any], bodies: Bodies | None = None) -> str:
        bodies = bodies or Bodies(self)
        value = bodies.take(answer.value)
        return self.calls.result(
            call_id,
            value,
            raw=bodies.take(raw),
            status=answer.status,
            error=answer.error,
            duration_ms=answer.duration_ms,
            attachments=bodies.attachments,
        )

    def _servers_tools(self, item: dict[str, Any]) -> None:
        server, error = item.get("server_label"), item.get("error")
        if not isinstance(server, str):
            return
        self.emit(
            SessionEvent, state="updated", mcp_servers=[{"name": server, "status": "failed" if error else "connected"}]
        )
        if error:
            text = item_text(error) or str(error)
            self.emit(Notice, level="warning", code="mcp-startup", text=text, data={"server": server})


def _usage(usage: Any) -> dict[str, int]:
    """Input tokens are the whole prompt already; reasoning is part of the output."""
    if not isinstance(usage, dict):
        return {}
    inputs, outputs = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    inputs, outputs = (part if isinstance(part, dict) else {} for part in (inputs, outputs))
    counts = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read_tokens": inputs.get("cached_tokens"),
        "cache_write_tokens": inputs.get("cache_write_tokens"),
        "reasoning_tokens": outputs.get("reasoning_tokens"),
    }
    return {key: count for key, value in counts.items() if (count := whole(value)) is not None}
