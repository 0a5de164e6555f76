"""The `openai-responses` dialect: OpenAI's Responses API as it goes over the wire.

A line is a request body (`{"model", "input", …}`), a response (`{"object": "response", …}`), an error body, or an event
(`{"type": "response.…", "sequence_number", …}`), with or without the framing of server-sent events.

A turn lasts from the user's prompt to the first response without a call for the client to run. An item of a response
comes up to four times (deltas, parts, the item, the whole response) and is emitted once. It is identified by its index
in the output, as GitHub Copilot's server gives it another id each time.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.catalog.registry import agent_of_provider
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.exchanges import merged
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, is_short, keep_newest, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.codex.answers import read_answer
from tooltap.normalizers.dialects.openai.answers import read_result
from tooltap.normalizers.dialects.openai.chat import usage_of
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.decode import FRAMING
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.normalizers.wire.values import (
    first_string,
    number,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Message, SessionEvent, Usage

MANY_RESPONSES = 256
"""Maximum number of responses that are recognised when a client asks for them again."""
MANY_ITEMS = 1_024
"""Maximum number of items of one response that are tracked by index; further ones are read when the response is
complete."""

_OUTCOMES = {"completed": "completed", "incomplete": "completed", "failed": "failed", "cancelled": "cancelled"}
"""Status of a response that has ended -> outcome of its turn."""
_FAILED = ("content_filter",)
"""Reasons of an incomplete response that is no answer, as in Chat Completions."""
_TEXT_DELTAS = {
    "response.output_text.delta": ("assistant", "content_index", ""),
    "response.refusal.delta": ("assistant", "content_index", ""),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index", "s"),
    "response.reasoning_text.delta": ("reasoning", "content_index", "r"),
}
"""Type of a delta -> (role, key of the block's index, prefix of the block's key)."""
_PIECE = re.compile(r"response\.[\w.]+\.(?:delta|done|added|partial_image)")
"""Types of partial items, which are repeated whole in `response.output_item.done`."""
_PROGRESS = re.compile(
    r"response\.(?:queued|in_progress|\w+\.(?:in_progress|searching|interpreting|generating|completed|failed|incomplete))"
)


class PromptsState(msgspec.Struct):
    """Count and CRC of the user's messages in the last request."""

    count: int = 0
    crc: int = 0


class UsedState(msgspec.Struct):
    """The usage of the response that ended last."""

    event: str
    turn: str | None
    usage: dict[str, Any]


class ResponsesState(State, kw_only=True):
    model: str | None = None
    receiving: bool = False
    """True while a response is being received."""
    current: str | None = None
    """Id of the response that began last."""
    items: dict[str, str] = msgspec.field(default_factory=dict)
    """Index in the current response's output -> id of the item when it was added."""
    items_read: dict[str, None] = msgspec.field(default_factory=dict)
    """Indexes of complete items."""
    waiting: dict[str, None] = msgspec.field(default_factory=dict)
    """Calls of the current response that the client is to run."""
    calls_read: dict[str, str] = msgspec.field(default_factory=dict)
    """Index in the current response's output -> id, in events, of the call there."""
    ended: str | None = None
    """Id of the most recently ended response, until the next request: some servers give all responses one id."""
    last: str | None = None
    """Id of the most recently ended response."""
    prompts: PromptsState = msgspec.field(default_factory=PromptsState)
    error: str | None = None
    """Code of an error that was emitted, while its turn is open."""
    answered: bool = True
    """The last request has an answer, an error in its place, or a response that runs in the background."""
    in_background: bool = False
    """The last request asked for a response that runs in the background."""
    requested: bool = False
    """The stream has requests."""
    read: dict[str, int] = msgspec.field(default_factory=dict)
    """Id of a response that has ended, which a client may ask for again -> how many responses had it."""
    repeats: bool = False
    """The events of a response come again that has ended."""
    sequence: int = -1
    """Number of the last event of the current response."""
    used: UsedState | None = None
    known: int = -1
    """Number of the last event before the current response began to come again."""


class OpenAIResponses(Parser):
    dialect = "openai-responses"
    protocol = default_provider = "openai"
    SKIPS = frozenset({FRAMING, "partial", "progress", "history", "keep-alive", "unchanged", "empty"})
    DOCUMENTS = True
    line = Lines(
        "type",
        {
            "codex.rate_limits": "rate-limits",  # ChatGPT's server, to Codex
            "keepalive": "keep-alive",  # OpenAI, while a response takes long
            "response.metadata": "metadata",  # ChatGPT's server, to Codex
        },
    )
    state_type = ResponsesState
    state: ResponsesState

    def read(self, value: Line) -> Skip:
        """Bodies have no type, and the types of some events are known only by their form."""
        kind = value.get("type")
        if "sequence_number" in value and self._is_known(value, str(kind)):
            return "unchanged"
        if kind == "response.create":
            return self._request(value["response"] if isinstance(value.get("response"), dict) else value)
        if value.get("object") == "response":
            return self._response(value)
        if self.line.knows(kind):
            return self.line.read(self, value)
        if isinstance(kind, str):
            is_piece, is_progress = _PIECE.fullmatch(kind), _PROGRESS.fullmatch(kind)
            return "partial" if is_piece else "progress" if is_progress else self.unparsed("unknown-type", value)
        if kind is None and isinstance(value.get("error"), dict):
            self._error(value)
            self._note_failure()
            self.state.error = None
            return None
        if not value:
            return "empty"
        return self._request(value) if "input" in value else self.unparsed("unknown-type", value)

    def read_other(self, value: Any, line: bytes, t: int | None) -> Skip:
        return "empty" if value is None else super().read_other(value, line, t)

    def read_framing(self, line: bytes) -> None:
        if self.direction != "in" and (end := ExchangeEnd.read(line)) is not None:
            self._exchange_ended(end)

    def finish(self, reason: str) -> None:
        self._note_failure()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _request(self, body: Line) -> Skip:
        self.state.ended, self.state.receiving, self.state.repeats = None, False, False
        self.state.answered, self.state.in_background = False, body.get("background") is True
        self.state.requested, self.state.used = True, None
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else records(given)
        calls = {call.id: (call, item) for item in items if (call := call_of(item)) is not None}
        continues = body.get("previous_response_id") is not None
        new, messages = news_of(items, self.state.prompts, continues=continues)
        agent = agent_of_provider(self.provider)
        prompts = [one for one in messages if agent is None or not is_context(one, agent.context)]
        self._note_failure()
        events = len(self.items)
        for index, item in enumerate(items):
            if is_answer(item):
                self._client_answer(item, calls if index >= new else {})
            elif item.get("type") == "mcp_approval_response":
                self._approval(item)
        has_answers = len(self.items) > events
        if prompts:
            self.end_failed_turns()
        if prompts and self.turn is not None and not has_answers:  # the user interrupted what was running
            self._end_turn("cancelled", None)
        self.retry_request()
        for prompt in prompts:
            self._prompt(prompt)
        return None if len(self.items) > events else "history"

    def _prompt(self, item: Line) -> None:
        bodies = Bodies(self)
        content = item.get("content")
        parts = [content] if isinstance(content, str) else bodies.take(content if isinstance(content, list) else [])
        if self.turn is None:
            self.start_turn()
        text = "\n".join(text for part in parts if (text := item_text(part)) is not None)
        self.emit(Message, role="user", text=text, message_id=string(item.get("id")), attachments=bodies.attachments)

    def _client_answer(self, item: Line, known: dict[str, tuple[ItemCall, Line]]) -> None:
        """Read a tool's result from the client. `known`: the request's calls and their items; empty for a result in
        history."""
        call_id = item.get("call_id") or item.get("id")
        if not isinstance(call_id, str):
            return
        call, raw = known.get(call_id, (None, None))
        is_new = call is not None and self.calls.get(call_id) is None
        if call is not None and is_new and not self.calls.repeats(call_id, call.raw_name, call.value, name=call.name):
            self.ensure_turn()
            self.calls.open(call.id, call.raw_name, call.value, raw=raw, name=call.name)
        if (due := self.calls.due(call_id)) is not None:
            self._result(due, self._answer_of(call_id, item), item, Bodies(self))

    def _answer_of(self, call_id: str, item: Line) -> Answer:
        """Return the answer in an output item. For a shell, forms of agents other than Codex are read, too."""
        answer = answer_of(item)
        if answer.error is None and self.calls.name_of(call_id) == "Bash" and "exit_code" not in record(answer.value):
            stated = read_result("Bash", {"content": item.get("output")})
            if stated.error is not None or "exit_code" in record(stated.value):
                return stated
        return answer

    def _approval(self, item: Line) -> None:
        request = item.get("approval_request_id")
        if isinstance(request, str) and self.permissions.is_pending(request):
            outcome = "allowed" if item.get("approve") is True else "denied"
            self.permissions.answer(request, outcome, by="user", message=string(item.get("reason")))

    # -- responses ----------------------------------------------------------------------------------------------------

    @line("response.created")
    def _created(self, value: Line) -> Skip:
        response, state = record(value.get("response")), self.state
        response_id = string(response.get("id"))
        if state.receiving and state.current is not None and response_id == state.current:
            state.known = state.sequence  # or llama.cpp says it again while it continues a message
            return "progress"
        if self._comes_again(response_id):
            state.repeats = True
            return "unchanged"
        state.ended, state.answered = None, state.answered or state.in_background
        return self._begin_response(response)

    def _comes_again(self, response_id: str | None) -> bool:
        """Whether a response has ended before, and the client has asked for it by its id: no request waits for another
        answer, and the server does not give all responses one id."""
        state = self.state
        is_asked_for = state.requested and state.answered and not state.receiving
        return is_asked_for and response_id is not None and state.read.get(response_id) == 1

    def _is_known(self, value: Line, kind: str) -> bool:
        """Whether an event of a response comes again, because the client asked for the response by its id."""
        state, number = self.state, whole(value.get("sequence_number"))
        if number is None or kind == "response.created":
            return False
        if state.repeats:
            state.repeats = kind.removeprefix("response.") not in _OUTCOMES
            return True
        is_known = number <= state.known and state.receiving
        state.sequence = max(state.sequence, number)
        return is_known

    @line(*(f"response.{status}" for status in _OUTCOMES))
    def _ended(self, value: Line) -> Skip:
        return self._response({"status": value["type"].removeprefix("response."), **record(value.get("response"))})

    def _begin_response(self, response: Line) -> Skip:
        state = self.state
        self._set_time(response.get("created_at"))
        if (conversation := string(record(response.get("conversation")).get("id"))) is not None:
            self.set_session(conversation)
        self._note_failure()
        self.end_failed_turns()
        state.receiving, state.error = True, None
        state.current = string(response.get("id"))
        state.items, state.items_read, state.calls_read, state.waiting = {}, {}, {}, {}
        state.sequence = state.known = -1
        self._learn_model(response)
        self.ensure_turn()
        return None if self.items else "unchanged"

    def _learn_model(self, response: Line) -> None:
        model = response.get("model")
        if isinstance(model, str) and model != self.state.model:
            self.emit(SessionEvent, state="updated" if self.state.model else "started", model=model)
            self.state.model = model

    def _response(self, response: Line) -> Skip:
        """Read a whole response; one that the server has not finished is only progress."""
        state = self.state
        outcome = _OUTCOMES.get(str(response.get("status")))
        if outcome is None:
            state.answered |= state.in_background
            return "progress"
        response_id = string(response.get("id"))
        if self._comes_again(response_id) or (response_id is not None and response_id == state.ended):
            return "unchanged"
        if not state.receiving:
            self._begin_response(response)
        self._learn_model(response)
        for index, item in enumerate(records(response.get("output"))):
            if str(index) not in state.items_read:
                self._read_item(str(index), item, is_whole=True)
        self._set_time(response.get("completed_at"))
        self._end_response(response, outcome)
        state.ended = state.last = response_id
        if is_short(response_id):
            put(state.read, response_id, state.read.pop(response_id, 0) + 1, MANY_RESPONSES)
        return None

    def _end_response(self, response: Line, outcome: str) -> None:
        state, error = self.state, response.get("error")
        reason = string(record(response.get("incomplete_details")).get("reason"))
        reason = response.get("status") if reason is None else reason
        if isinstance(error, dict):
            reason = error.get("code") or error.get("type") or reason
            if state.error is None:
                self._error_notice(error)
        if reason in _FAILED:
            outcome = "failed"
        usage = _usage(response)
        if usage and response.get("id") == state.last:
            usage["request"] = None
        if outcome == "completed" and any(self.calls.get(call_id) is not None for call_id in state.waiting):
            self.texts.flush_turn(self.session, str(self.turn))
            if usage:
                self.emit(Usage, scope="step", **usage)
        elif isinstance(error, dict):
            self.fail_request(string(reason) or "error")
            state.error = None
            if usage:
                self.emit(Usage, scope="step", **usage)
        else:
            self._end_turn(outcome, string(reason), usage)
        state.answered = True
        if usage:
            shown = next(item for item in reversed(self.items) if isinstance(item, Produced) and item.kind == "usage")
            state.used = UsedState(shown.id, shown.turn, usage)
        self._forget_response()

    @line("ping")
    def _kept_alive(self, value: Line) -> Skip:
        """Read what OpenCode Zen adds to its last `ping`: the cost of the response that has ended."""
        used, stated = self.state.used, usage_of(value)
        if used is None or stated is None or (news := merged(used.usage, stated)) == used.usage:
            return "keep-alive"
        shown = self.emit(Usage, scope="step", **news, turn=used.turn, replaces=used.event)
        self.state.used = UsedState(shown.id, used.turn, news)
        return None

    def _forget_response(self) -> None:
        state = self.state
        state.receiving = False
        state.items, state.items_read, state.calls_read, state.waiting = {}, {}, {}, {}

    def _end_turn(self, outcome: str, reason: str | None, usage: dict[str, Any] | None = None) -> None:
        before = ((Usage, {"scope": "step", **usage}),) if usage else ()
        synthetic = outcome == "cancelled" and reason is None
        how = "answer" if outcome == "completed" else None
        self.end_turn(outcome, reason=reason, ended_by=how, synthetic=synthetic, before=before)
        self.state.error = None

    def _note_failure(self) -> None:
        """Note that the request has failed with an error after which nothing else came."""
        if self.state.error is not None and self.turn is not None:
            self.fail_request(self.state.error)
            self.state.error = None

    def _exchange_ended(self, end: ExchangeEnd) -> None:
        """End the turn of an exchange if its answer does not state its end, or is none."""
        state = self.state
        self._note_failure()
        if not end.may_be_retried:
            self.end_failed_turns()
        if not state.answered:
            state.answered = True
            self._forget_response()
            self.end_exchange(end)

    @line("error")
    def _error(self, value: Line) -> None:
        self.end_failed_turns()  # no request has followed that failure
        self.state.answered = True
        error = value["error"] if isinstance(value.get("error"), dict) else value
        self._error_notice(error)
        self.state.error = str(error.get("code") or error.get("type") or "error")

    def _error_notice(self, error: Line) -> None:
        data = {key: error[key] for key in ("type", "code", "param") if isinstance(error.get(key), str)}
        self.notice("provider-error", string(error.get("message")), "error", data or None)

    def _set_time(self, stated: Any) -> None:
        if (seconds := number(stated)) is not None and 0 < seconds < 10**11:
            self.ts = round(seconds * 1000)

    # -- items of a response ------------------------------------------------------------------------------------------

    @line("response.output_item.added", "response.output_item.done", item=dict)
    def _item(self, value: Line) -> Skip:
        state, item = self.state, value["item"]
        place = self._place(value, item.get("id"))
        is_whole = value["type"] == "response.output_item.done"
        if place in state.items_read:
            return "unchanged"
        if len(state.items_read) >= MANY_ITEMS:
            return "partial"
        if place not in state.items and isinstance(item.get("id"), str):
            state.items[place] = item["id"]
            keep_newest(state.items, MANY_ITEMS)
        if is_whole:
            state.items_read[place] = None
        return self._read_item(place, item, is_whole=is_whole)

    def _place(self, value: Line, item_id: Any) -> str:
        """The index of an item in the output. A server that states none (llama.cpp) sends the items in their order."""
        if (index := value.get("output_index")) is not None:
            return str(index)
        items = self.state.items
        known = (place for place in reversed(items) if items[place] == item_id)
        return next(known, str(len(items)))

    def _read_item(self, place: str, item: Line, *, is_whole: bool) -> Skip:
        self.ensure_turn()
        events = len(self.items)
        message_id = self.state.items.get(place) or string(item.get("id"))
        kind = item.get("type")
        if kind in ("message", "reasoning", "compaction", "mcp_list_tools", "mcp_approval_request") and not is_whole:
            return "partial"
        if kind == "message":
            self._blocks(place, "", item.get("content"), message_id)
        elif kind == "reasoning":
            self._blocks(place, "s", item.get("summary"), message_id)
            self._blocks(place, "r", item.get("content"), message_id)
        elif kind == "compaction":
            self.notice("compaction", "the conversation was compacted")
        elif kind == "mcp_list_tools":
            self._server_tools(item)
        elif is_answer(item):
            return self._output_item(item) if is_whole else "partial"
        elif (call := call_of(item)) is not None:
            self._call(place, call, item, is_whole=is_whole)
        else:
            return self.unparsed("unknown-type", item)
        return None if len(self.items) > events else "empty"

    def _blocks(self, place: str, mark: str, parts: Any, message_id: str | None) -> None:
        """Emit the parts of a message, or, if `mark` is given, of a reasoning item."""
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            self.texts.drop(f"{place}.{mark}{index}")
            if text := item_text(part):
                self.emit_text("reasoning" if mark else "assistant", text, message_id=message_id, block=index)

    @line(*_TEXT_DELTAS, delta=str)
    def _delta(self, value: Line) -> Skip:
        role, key, mark = _TEXT_DELTAS[value["type"]]
        place, block = self._place(value, value.get("item_id")), whole(value.get(key)) or 0
        message_id = self.state.items.get(place)
        self.ensure_turn()
        text_key = f"{place}.{mark}{block}"
        self.texts.append(role, value["delta"], message_id=message_id, block=block, key=text_key, preview=True)
        return None if self.items else "partial"

    def _call(self, place: str, call: ItemCall, item: Line, *, is_whole: bool) -> None:
        """Read a call. Its place says which it is: servers give parallel calls one id."""
        read = self.state.calls_read
        known = self.calls.get(read.get(place, call.id))
        if known is not None and place not in read and known.id in read.values():
            known = None
        value = call.value if is_whole else {}
        if known is None and self.calls.repeats(call.id, call.raw_name, value, name=call.name):
            return
        bodies = Bodies(self)
        item = bodies.take(with_image(item))
        if known is None:
            status = "running" if is_whole else "pending"
            known = self.calls.open(call.id, call.raw_name, value, raw=item, name=call.name, status=status)
        elif is_whole:
            self.calls.update(known, value, raw=item, name=call.name, status="running")
        put(read, place, known.id, MANY_ITEMS)
        if not is_whole:
            return
        is_request = item.get("type") == "mcp_approval_request"
        if is_request and not self.permissions.is_pending(call.id):
            self.permissions.ask(call.id, call_id=call.id)
        answer = None if is_request else own_answer(item)
        if answer is None:
            self.state.waiting[call.id] = None
            keep_newest(self.state.waiting, MANY_ITEMS)
        else:
            self._result(known, answer, item, bodies)

    def _output_item(self, item: Line) -> Skip:
        """Read the result of a call that OpenAI ran and that is a separate item; without an id it is the last
        call's."""
        call_id = item.get("call_id") or next(reversed(self.state.waiting), None)
        if not isinstance(call_id, str):
            return self.unparsed("no-call-id", item)
        return self._result(call_id, self._answer_of(call_id, item), item, Bodies(self))

    def _result(self, of: OpenCall | str, answer: Answer, raw: Line, bodies: Bodies) -> Skip:
        value, raw = bodies.take(answer.value), bodies.take(raw)
        seen = raw.get("output")
        if isinstance(seen, str | list):  # of a tool that OpenAI ran, this is what it gave to the model
            answer = answer.replace(model=seen)
        return self.calls.answer(of, answer.replace(value=value, attachments=bodies.attachments), raw=raw)

    def _server_tools(self, item: Line) -> None:
        server, error = item.get("server_label"), item.get("error")
        if isinstance(server, str):
            servers = [{"name": server, "status": "failed" if error else "connected"}]
            self.emit(SessionEvent, state="updated", mcp_servers=servers)
            if error:
                self.notice("mcp-startup", item_text(error) or str(error), "warning", {"server": server})


def _usage(response: Line) -> dict[str, Any]:
    """The fields of a usage event. Input tokens are the whole prompt already; reasoning is part of the output."""
    usage = record(response.get("usage"))
    inputs, outputs = record(usage.get("input_tokens_details")), record(usage.get("output_tokens_details"))
    prompt, output, cached = usage.get("input_tokens"), usage.get("output_tokens"), inputs.get("cached_tokens")
    counts = token_counts(prompt, output, cached, inputs.get("cache_write_tokens"), outputs.get("reasoning_tokens"))
    known = {key: count for key, count in counts.items() if count is not None}
    return {**known, "request": request_id(response.get("id"))} if known else {}


# -- items ------------------------------------------------------------------------------------------------------------
#
# A call is an item (`function_call`, `shell_call`, `web_search_call`, …). The client answers the calls it runs with
# items of their own (`<call>_output`) in the next request; the result of a call that OpenAI runs is in the call's own
# item, or in an output item after it. A request repeats the conversation, unless it names the response it continues.


_ENVELOPE = frozenset({"id", "type", "status", "call_id"})
_UNDONE = frozenset({"in_progress", "searching", "interpreting", "generating", "incomplete", "None"})
_RESULTS = frozenset({"outputs", "results", "output", "result", "data", "mimeType", "error"})
_NAMES = {
    "local_shell_call": "Bash",
    "shell_call": "Bash",
    "apply_patch_call": "Patch",
    "web_search_call": "WebSearch",
    "file_search_call": "CodeSearch",
    "tool_search_call": "ToolSearch",
}
_CHANGES = {"create_file": "add", "update_file": "modify", "delete_file": "delete"}
_CLIENT_ROLES = ("user", "system", "developer")


class ItemCall(NamedTuple):
    """The tool call of an item."""

    id: str
    raw_name: str
    value: Any
    name: str | None
    """The canonical name, where the item's type determines it."""


def call_of(item: Line) -> ItemCall | None:
    """The tool call an item represents, or None."""
    kind = str(item.get("type"))
    call_id = first_string(item, "approval_request_id", "call_id", "id")
    if call_id is None or not (kind.endswith("_call") or kind == "mcp_approval_request"):
        return None
    raw_name = first_string(item, "name") or kind
    name = _NAMES.get(kind)
    if kind in ("mcp_call", "mcp_approval_request") and isinstance(item.get("server_label"), str):
        name = f"mcp__{item['server_label']}__{raw_name}"
    return ItemCall(call_id, raw_name, _value(kind, item), name)


def _value(kind: str, item: Line) -> Any:
    if kind == "custom_tool_call":
        return item.get("input")
    if "arguments" in item:
        return decode_json(item["arguments"])
    action = item.get("action")
    if kind == "web_search_call":  # the sources are what it found
        return {"action": {k: v for k, v in action.items() if k != "sources"}} if isinstance(action, dict) else None
    if kind == "apply_patch_call":
        return _patch(item.get("operation"))
    if isinstance(action, dict):
        return {key: value for key, value in action.items() if value not in ([], None)}
    return {key: value for key, value in item.items() if key not in _ENVELOPE | _RESULTS}


def _patch(operation: Any) -> Any:
    """An operation changes one file; the `diff` of a new file is its lines, each after a `+`."""
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        return operation
    kind, diff = operation.get("type"), operation.get("diff")
    change: dict[str, Any] = {"type": _CHANGES.get(str(kind), kind)}
    if kind == "create_file" and isinstance(diff, str):
        change["content"] = "".join(line.removeprefix("+") for line in diff.splitlines(keepends=True))
    elif isinstance(diff, str):
        change["diff"] = diff
    return {"changes": {operation["path"]: change}}


def own_answer(item: Line) -> Answer | None:
    """The result in a call's own item, where OpenAI ran the tool and has finished."""
    kind, status, error = item.get("type"), item.get("status"), item.get("error")
    if status == "failed" and kind not in ("shell_call", "local_shell_call", "apply_patch_call"):
        return Answer(None, "failed", string(error.get("message") if isinstance(error, dict) else error))
    if kind == "mcp_call":
        if error:
            return Answer(None, "failed", item_text(error) or str(error))
        return Answer(decode_json(item["output"])) if item.get("output") is not None else None
    if str(status) in _UNDONE:
        return None
    if kind == "web_search_call":
        sources = record(item.get("action")).get("sources")
        return Answer({"results": sources} if isinstance(sources, list) else None)
    if kind == "file_search_call":
        return Answer({"matches": item["results"]} if isinstance(item.get("results"), list) else None)
    if kind == "code_interpreter_call":
        return Answer({"outputs": item.get("outputs")})
    if kind == "image_generation_call":
        return Answer({key: item[key] for key in ("data", "outputId", "mimeType") if key in item})
    return None


def with_image(item: Line) -> Line:
    """The item with the picture it holds, if any, under the keys of an output body."""
    if item.get("type") != "image_generation_call" or not isinstance(item.get("result"), str):
        return item
    rest = {key: value for key, value in item.items() if key != "result"}
    return {**rest, "data": item["result"], "mimeType": f"image/{item.get('output_format') or 'png'}"}


def is_answer(item: Line) -> bool:
    """Whether an item is the result of a call."""
    return str(item.get("type")).endswith("_output")


def answer_of(item: Line) -> Answer:
    """The result in an output item."""
    output, kind = item.get("output"), item.get("type")
    if kind == "tool_search_output":
        return Answer({"tools": item.get("tools")})
    if kind == "shell_call_output" and isinstance(output, list):
        return _shell_answer(records(output))
    read = read_answer(output)
    if item.get("status") == "failed" and read.status == "completed":
        return Answer(None if output and isinstance(output, str) else read.value, "failed", string(output))
    return Answer(read.value, read.status, read.error, read.duration_ms)  # final, though Codex may run a session on


def _shell_answer(runs: list[Line]) -> Answer:
    """Combine the results of a batch of commands; the batch failed if one command did."""
    outcomes = [run["outcome"] for run in runs if isinstance(run.get("outcome"), dict)]
    codes = [code for one in outcomes if (code := whole(one.get("exit_code"))) is not None]
    value: dict[str, Any] = {
        stream: "".join(run[stream] for run in runs if isinstance(run.get(stream), str))
        for stream in ("stdout", "stderr")
    }
    if codes:
        value["exit_code"] = next((code for code in codes if code), codes[-1])
    timed_out = any(one.get("type") == "timeout" for one in outcomes)
    return Answer(value, "failed", "timeout") if timed_out else Answer(value)


def item_text(value: Any) -> str | None:
    """The text of a content part, under whichever key."""
    if not isinstance(value, dict):
        return string(value)
    return next((value[key] for key in ("text", "refusal", "message") if isinstance(value.get(key), str)), None)


def is_context(message: Line, beginnings: tuple[str, ...]) -> bool:
    """Return whether all of a message in the user's role begins like what its agent adds."""
    content = message.get("content")
    texts = [item_text(part) or "" for part in (content if isinstance(content, list) else [content])]
    return bool(texts) and all(text.lstrip().startswith(beginnings) for text in texts)


def news_of(items: list[Line], known: PromptsState, *, continues: bool) -> tuple[int, list[Line]]:
    """Find what is new in a request: (index of the first item after the model's last one, new messages of the user).
    Updates `known`.

    New are the messages that the last request did not have. If this request does not begin with that one's messages, or
    continues a response, those after the model's last item are new."""
    new = next((index + 1 for index in range(len(items) - 1, -1, -1) if not _is_of_client(items[index])), 0)
    prompts = [(index, item) for index, item in enumerate(items) if item.get("role") == "user"]
    crc, repeated = 0, 0
    for count, (_, item) in enumerate(prompts, 1):
        crc = zlib.crc32(msgspec.json.encode(item.get("content")), crc)
        if (count, crc) == (known.count, known.crc) and not continues:
            repeated = count
    known.count, known.crc = len(prompts), crc
    if repeated:
        return new, [item for _, item in prompts[repeated:]]
    return new, [item for index, item in prompts if index >= new]


def _is_of_client(item: Line) -> bool:
    return is_answer(item) or item.get("role") in _CLIENT_ROLES or item.get("type") == "mcp_approval_response"
