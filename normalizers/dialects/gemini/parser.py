"""Parsers of Gemini CLI's two formats: its printed stream, and its saved chats."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer, Place
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import SessionState, State, make_room
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.gemini.answers import (
    learn_server,
    mcp_name,
    mcp_name_in_error,
    name_in_id,
    parts_of,
    read_call,
    read_response,
    read_shown,
    text_of,
)
from tooltap.normalizers.tools.outcome import error_words, status_word
from tooltap.normalizers.wire.values import milliseconds, record, records, request_id, string, token_counts, whole
from tooltap.protocol.events import Message, SessionEvent, Usage

_CANCELLED = "FatalCancellationError"
_LEVELS = ("info", "warning", "error")


class GeminiStreamState(SessionState, kw_only=True):
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the stream named."""


class GeminiStream(Parser):
    """The `gemini-stream` dialect: `gemini --output-format stream-json`.

    Learned from Gemini CLI 0.61. One process answers one prompt: `init`, the prompt, text in chunks, calls and results
    by id, `result`. The stream has no reasoning, and of a result only the text for the user.
    """

    dialect = "gemini-stream"
    STATES_END = True
    protocol = default_provider = "gemini"
    SKIPS = frozenset({"empty", "unchanged"})
    line = Lines("type")
    state_type = GeminiStreamState
    state: GeminiStreamState

    def enter(self, value: Line) -> None:
        if "timestamp" in value:
            self.ts = milliseconds(value["timestamp"]) or self.ts

    @line("init")
    def _init(self, value: Line) -> None:
        self.give_up_turns()  # of an earlier process
        self.begin_session(value.get("session_id"), model=string(value.get("model")))

    @line("message")
    def _message(self, value: Line) -> Skip:
        role, content = value.get("role"), value.get("content")
        if type(content) is list or type(content) is dict:  # parts, as in saved chats
            content = text_of(content)
        if type(content) is not str:
            return self.unparsed("unknown-type", value)
        if role == "user":
            self.texts.flush()
            self.start_turn()
        elif role != "assistant":
            return self.unparsed("unknown-type", value)
        elif not content:
            return "empty"
        else:
            self.ensure_turn()
        if value.get("delta") is True:
            self.texts.append(role, content)
        else:
            self.texts.flush()
            self.emit(Message, role=role, text=content)
        return None

    @line("tool_use", tool_id=str, tool_name=str)
    def _tool_use(self, value: Line) -> Skip:
        self.texts.flush()
        self.ensure_turn()
        name = mcp_name(value["tool_name"], None, (*self.context.mcp_servers, *self.state.servers))
        shown = value["tool_id"], value["tool_name"], value.get("parameters")
        return self.calls.show(*shown, raw=value, name=name, renames=True, place=("", None))

    @line("tool_result", tool_id=str)
    def _tool_result(self, value: Line) -> Skip:
        call_id = value["tool_id"]
        self.texts.flush()
        self.ensure_turn()
        name, raw_name = self.calls.name_of(call_id), UNKNOWN_TOOL
        call = self.calls.due(call_id)
        if call is not None and (mcp := mcp_name_in_error(call.raw_name, value)) is not None:
            learn_server(self.state.servers, mcp)
            self.calls.update(call, name=mcp)
        if not name:
            raw_name = name_in_id(call_id) or UNKNOWN_TOOL
            name = self.calls.tool_of(call_id, raw_name)
        answer = read_shown(name, value)
        return self.calls.answer(call_id, answer, raw=value, raw_name=raw_name)

    @line("error")
    def _error(self, value: Line) -> None:
        """Read an error; the run continues, or ends with its `result`."""
        self.texts.flush()
        severity = value.get("severity")
        level = severity if severity in _LEVELS else "error"
        self.notice("provider-error", string(value.get("message")), level)

    @line("result")
    def _result(self, value: Line) -> None:
        self.ensure_turn()
        status, error, stats = string(value.get("status")), value.get("error"), record(value.get("stats"))
        kind, words = string(record(error).get("type")), error_words(error)
        state = status_word(status) or ("failed" if error else "completed")
        if state not in ("completed", "cancelled"):
            state = "cancelled" if kind == _CANCELLED or state == "interrupted" else "failed"
        if words is not None and state == "failed":
            self.texts.flush()
            self.notice("provider-error", words, "error")
        self.end_turn(
            state,
            reason=kind if kind is not None and state != "completed" else status,
            duration_ms=whole(stats.get("duration_ms")),
            before=_usage(stats),
        )


def _usage(stats: dict[str, Any]) -> tuple[tuple[type[Usage], dict[str, Any]], ...]:
    """Usage of this process, which is the turn's. `input_tokens` includes cached tokens (`input` does not);
    `output_tokens` excludes thoughts, which only the total includes."""
    prompt, answer = whole(stats.get("input_tokens")), whole(stats.get("output_tokens"))
    total = whole(stats.get("total_tokens"))
    if prompt is None and answer is None:
        return ()
    if prompt is not None and answer is not None and total is not None:
        answer = max(answer, total - prompt)
    fields = {"input_tokens": prompt, "output_tokens": answer, "cache_read_tokens": whole(stats.get("cached"))}
    return ((Usage, {"scope": "turn", **fields}),)


# -- saved chats --------------------------------------------------------------------------------------------------

_BEFORE_IT_RUNS = {"awaiting_approval": "awaiting-permission", "scheduled": "pending", "validating": "pending"}


class EmittedMessage(msgspec.Struct, omit_defaults=True):
    """Parts of a message that were emitted."""

    blocks: int = 0
    thoughts: int = 0
    chars: int = 0
    crc: int = 0
    """CRC of the emitted text, of `chars` code points."""
    tokens: int = 0
    """Tokens of the emitted usage."""
    usage: str | None = None
    """Id of the emitted usage."""
    is_copy: bool = False
    """True if the message repeats another one under a new id."""
    gone: bool = False
    """True if the message is not in the model's context: removed from it, or never part of it."""


class GeminiChatState(State, kw_only=True):
    emitted: dict[str, EmittedMessage] = msgspec.field(default_factory=dict)
    """Message id -> its emitted parts; the oldest entries are evicted."""
    agent: str | None = None
    """The subagent whose chat this is."""
    started: str | None = None
    """The most recently started session."""
    facts: dict[str, int] = msgspec.field(default_factory=dict)
    """Field of the session's events -> CRC of its last value."""
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the chat named."""
    outcome: str = "cancelled"
    """Outcome of the open turn if nothing more comes."""
    prompt: str | None = None
    """Message id of the latest prompt."""
    restarted: bool = False
    """A new process has begun to write, and has not loaded the messages of the chat yet."""


_SNAPSHOT = "<state_snapshot>"
_HARNESS = ("<session_context>", "<hook_context>", _SNAPSHOT)
"""Beginnings of texts among the user's parts that the user did not write."""
_AFTER_SNAPSHOT = "Got it. Thanks for the additional context!"
"""The model's answer to a summary of the history, as the CLI writes it (`chatCompressionService.ts`)."""
_NOTES = (
    ("Request cancelled", "interrupt"),
    ("Chat history compressed", "compaction"),
    ("Context compressed", "compaction"),
)
"""Beginnings of the CLI's notes to its user, and the code of the notice."""
_CODES = {"info": "info", "warning": "warning", "error": "provider-error"}


_CONTENTS = frozenset({"messages", "model", "summary"})


class GeminiChat(Parser):
    """The `gemini-chat` dialect: the chats Gemini CLI saves in `~/.gemini/tmp/<project>/chats/`.

    Until 0.38 a chat is one JSON document; since then it is a log of JSON lines: a header, messages, and changes of the
    header (`$set`). The CLI rewrites a message in full whenever it grows (its calls are in the second version), so only
    what is new under an id is emitted; results are repeated in the message that passes them to the model.
    `$set.messages`, `$patch` and `$rewindTo` change the model's context; they retract no event. No line ends a turn
    that has been answered: the next prompt or the end of the file does. One that failed or was cancelled ends where its
    prompt is taken back.

    Learned from 0.61, from documents of 2025, and from the CLI's own reader (`chatRecordingService.ts`).
    """

    dialect = "gemini-chat"
    protocol = default_provider = "gemini"
    STATES_TIMES = True
    SKIPS = frozenset({"metadata", "prompt-context", "unchanged"})
    state_type = GeminiChatState
    state: GeminiChatState
    DOCUMENTS = True
    message = Lines("type")

    def read(self, value: Line) -> Skip:
        """Lines of a chat have no common key that says their kind."""
        self.agent = self.state.agent or self.agent
        get = value.get
        if type(get("$rewindTo")) is str:
            return self._rewind(value["$rewindTo"])
        if type(get("$set")) is dict:
            return self._set(value["$set"])
        if type(get("$patch")) is dict:
            return self._patch(value["$patch"])
        if type(get("id")) is str:
            self.state.restarted = False
            return self._message(value)
        if type(get("sessionId")) is str:
            return self._header(value)
        return self.unparsed("unknown-type", value)

    def finish(self, reason: str) -> None:
        self.agent = self.state.agent or self.agent
        if self.state.outcome == "failed":
            self._end_turn("failed")

    # -- the chat itself ----------------------------------------------------------------------------------------

    def _header(self, value: Line) -> Skip:
        """Read the first line, or a whole document."""
        self.ts = milliseconds(value.get("startTime")) or self.ts
        session = value["sessionId"]
        if value.get("kind") == "subagent":
            self.agent = self.state.agent = session
        elif self.state.started != session:
            self._end_turn(self.state.outcome)
            self.set_session(session)
            self.state.started, self.state.facts = session, {}
            self.emit(SessionEvent, state="started", **self._news(value))
            return self._contents(value, None)
        self.state.restarted = _CONTENTS.isdisjoint(value)
        return self._contents(value)

    def _set(self, changes: Line) -> Skip:
        self.ts = milliseconds(changes.get("lastUpdated")) or self.ts
        session = changes.get("sessionId")
        if not isinstance(session, str) or self.state.agent is not None:
            return self._contents(changes)
        self._end_turn(self.state.outcome)  # the CLI states the session again where it resumes a chat
        self.state.restarted = False
        self.set_session(session)
        self.emit(SessionEvent, state="resumed")
        return self._contents(changes, None)

    def _contents(self, value: Line, outcome: Skip = "metadata") -> Skip:
        """Read the messages, model and summary in a header or a change of it."""
        if _CONTENTS.isdisjoint(value):
            return outcome
        updated = self.update_session(self._news(value))
        return best([self._history(value), outcome, updated])

    def _news(self, value: Line) -> dict[str, Any]:
        """Return the session's changed fields; empty in a subagent's chat."""
        if self.state.agent is not None:
            return {}
        facts, news = self.state.facts, {}
        for field, item in (("title", value.get("summary")), ("model", value.get("model"))):
            if type(item) is str and facts.get(field) != (crc := _crc(item)):
                facts[field] = crc
                news[field] = item
        return news

    def _history(self, value: Line) -> Skip:
        """Read the new context of the model. It holds emitted messages, without those that were undone or summarized; a
        compaction gives new ids to the messages it keeps."""
        messages = value.get("messages")
        if not isinstance(messages, list):
            return "metadata"
        known = self.state.emitted
        listed = {message["id"] for message in records(messages) if isinstance(message.get("id"), str)}
        grows = not listed <= known.keys()
        gone = [one for key, one in known.items() if key not in listed and not one.gone]
        copies = {(one.chars, one.crc) for one in gone if one.chars}
        outcomes = [self._message(message, copies) for message in messages]
        if grows:  # summed up, as the summary itself says
            for one in gone:
                one.gone = True
        elif not self.state.restarted:  # `-p --resume` (0.61) first writes the context that a new chat begins with
            outcomes.append(self._forget(gone))
            self._end_taken_back(gone)
        return best([*reversed(outcomes), "unchanged"])

    def _end_taken_back(self, gone: list[EmittedMessage]) -> None:
        """End the turn whose prompt the CLI takes back: alone if its request failed, and with what followed if the turn
        was cancelled (`sendMessageStream` of 0.61)."""
        prompt = self.state.emitted.get(self.state.prompt or "")
        if any(one is prompt for one in gone) and self.state.outcome != "completed":
            self._end_turn("failed" if len(gone) == 1 else self.state.outcome)

    def _patch(self, changes: Line) -> Skip:
        """Messages that were masked, reordered or removed, to save room; only a removal becomes an event."""
        removed, known = changes.get("removeIds"), self.state.emitted
        ids = removed if isinstance(removed, list) else []
        return self._forget([known[key] for key in ids if isinstance(key, str) and key in known])

    def _rewind(self, message_id: str) -> Skip:
        """Drop this and all later messages from the context; all messages, if this one is unknown."""
        known = self.state.emitted
        start = list(known).index(message_id) if message_id in known else 0
        return self._forget(list(known.values())[start:], "history rewound", messageId=message_id)

    def _forget(self, messages: list[EmittedMessage], text: str = "history shortened", **target: str) -> Skip:
        gone = [one for one in messages if not one.gone]
        if not gone and not target:
            return "unchanged"
        for one in gone:
            one.gone = True
        self.notice("rewound", text, data={**target, "messages": len(gone)})
        return None

    # -- messages -----------------------------------------------------------------------------------------------

    def _message(self, message: Any, copies: Collection[tuple[int, int]] = ()) -> Skip:
        """Read a message. `copies`: length and CRC of texts that were emitted under ids no longer in use."""
        message_id = record(message).get("id")
        if not isinstance(message_id, str) or not self.message.knows(message.get("type")):
            return self.unparsed("unknown-type", message)
        self.ts = milliseconds(message.get("timestamp")) or self.ts
        known = self.state.emitted
        if message_id not in known:
            make_room(known, self.context.limits.tombstones)
            known[message_id] = emitted = EmittedMessage()
            text = text_of(message.get("content"))
            if copies and (text == _AFTER_SNAPSHOT or (len(text), _crc(text)) in copies):
                emitted.blocks, emitted.chars, emitted.crc = 1, len(text), _crc(text)
                emitted.is_copy = True
        return self.message.read(self, message, known[message_id])

    @message("error", "info", "warning")
    def _note(self, message: Line, emitted: EmittedMessage) -> Skip:
        """Read a note of the CLI to its user, which the model does not see."""
        emitted.gone = True
        text = _new_text(message, emitted)
        if not text:
            return "unchanged"
        kind = message["type"]
        code = next((code for start, code in _NOTES if text.startswith(start)), _CODES[kind])
        self.notice(code, text, kind)
        if code == "interrupt":
            self._end_turn("cancelled", reason=text, synthetic=False)
        elif kind == "error":
            self.state.outcome = "failed"
        return None

    @message("user")
    def _user(self, message: Line, emitted: EmittedMessage) -> Skip:
        """A prompt; or results as the model got them, most of which their calls hold, too."""
        parts = parts_of(message.get("content"))
        for part in parts:
            if "functionResponse" in part:
                return self.read_responses(parts)
        if emitted.blocks:
            return "unchanged"
        texts = [text_of(part) for part in parts]
        for text in texts:
            if text.startswith(_SNAPSHOT):
                emitted.blocks = 1
                self.notice("compaction", text)
                return None
        _, attachments = take_bodies(self, [part for part in parts if "text" not in part])
        if "displayContent" in message and (typed := parts_of(message["displayContent"])):
            texts = [text_of(part) for part in typed]
        text = "".join([text for text in texts if not text.lstrip().startswith(_HARNESS)])
        if not text and attachments is None:
            return "prompt-context"
        self._end_turn(self.state.outcome)
        self.start_turn()
        self.state.prompt = message["id"]
        emitted.blocks, emitted.chars, emitted.crc = 1, len(text), _crc(text)
        self.emit(Message, role="user", text=text, message_id=message["id"], attachments=attachments)
        return None

    @message("gemini")
    def _gemini(self, message: Line, emitted: EmittedMessage) -> Skip:
        events = len(self.items)
        if news := self._news({"model": message.get("model")}):
            self.update_session(news)
        parts = parts_of(message.get("content"))
        thoughts = records(message.get("thoughts")) or [part for part in parts if part.get("thought") is True]
        for thought in thoughts[emitted.thoughts :]:
            words = [thought.get(key) for key in ("subject", "description", "text")]
            text = "\n".join(word for word in words if isinstance(word, str) and word)
            self._block("reasoning", text, message, emitted, ts=milliseconds(thought.get("timestamp")))
        emitted.thoughts = max(emitted.thoughts, len(thoughts))
        if text := _new_text(message, emitted):
            self._block("assistant", text, message, emitted)
        calls = records(message.get("toolCalls"))
        outcome = self.read_calls(calls, parts, message["id"])
        if isinstance(message.get("tokens"), dict) and not emitted.is_copy:
            self._usage(message, _chat_usage(message["tokens"]), emitted)
        if len(self.items) == events:
            return outcome
        self.state.outcome = "completed" if emitted.chars and not calls else "cancelled"
        if self.state.agent is not None and any(_completes_task(call) for call in calls):
            self._end_turn("completed", synthetic=False)
        return None

    def _usage(self, message: Line, figures: dict[str, int | None], emitted: EmittedMessage) -> None:
        """Emit the usage of a request; when the message is written again with more tokens, they replace it."""
        tokens = (figures["input_tokens"] or 0) + (figures["output_tokens"] or 0)
        if emitted.usage is not None and tokens <= emitted.tokens:
            return
        model, request = string(message.get("model")), request_id(message["id"])
        used = self.emit(Usage, scope="step", **figures, model=model, request=request, replaces=emitted.usage)
        emitted.tokens, emitted.usage = tokens, used.id

    def _block(self, role: str, text: str, message: Line, emitted: EmittedMessage, *, ts: int | None = None) -> None:
        self.ensure_turn()
        self.emit_text(role, text, message_id=message["id"], block=emitted.blocks, ts=ts or self.ts)
        emitted.blocks += 1

    def _end_turn(self, outcome: str, *, reason: str | None = None, synthetic: bool = True) -> None:
        if self.turn is not None:
            self.end_turn(outcome, reason=reason, synthetic=synthetic)
        self.state.outcome = "cancelled"

    # -- calls --------------------------------------------------------------------------------------------------

    def read_calls(self, calls: list[Line], parts: list[Line], message_id: str) -> Skip:
        """Read the calls of one message. They ran in parallel, so all begin before the first one ends.

        `parts` repeat the calls, or are their only source if the CLI rebuilt the message from the model's context."""
        called = records([part["functionCall"] for part in parts if "functionCall" in part])
        if called:
            listed = {call.get("id") for call in calls if isinstance(call.get("id"), str)}
            calls = calls + [call for call in called if isinstance(call.get("id"), str) and call["id"] not in listed]
        if not calls:
            return "unchanged"
        outcomes = [self._call(call, (message_id, index)) for index, call in enumerate(calls)]
        outcomes += [self._result(call) for call in calls if status_word(call.get("status")) or call.get("result")]
        return best([*reversed(outcomes), "unchanged"])

    def _call(self, call: Line, place: Place) -> Skip:
        call_id, name, args = call.get("id"), call.get("name"), call.get("args")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", call)
        title = string(call.get("displayName"))
        title = title if title != name else None
        canonical = mcp_name(name, title, (*self.context.mcp_servers, *self.state.servers))
        learn_server(self.state.servers, canonical)
        if isinstance(call.get("agentId"), str) or record(call.get("resultDisplay")).get("isSubagentProgress") is True:
            # A subagent is called by `invoke_agent`, or by a tool of its own name; its result states its id.
            canonical = "Task"
            if isinstance(args, dict) and "agent_name" not in args:
                args = {**args, "subagent_type": name}
        status = _BEFORE_IT_RUNS.get(str(call.get("status")), "running")
        known = self.calls.shown(call_id, name, args, place, name=canonical)
        if known is None:
            if self.calls.repeats(call_id, name, args, name=canonical, retold=True):
                return "unchanged"
        elif known.acknowledged:
            return "unchanged"
        raw = {key: item for key, item in call.items() if key != "result" and key != "resultDisplay"}
        if known is None:
            self.ensure_turn()
            self.calls.open(call_id, name, args, raw=raw, name=canonical, status=status, title=title, place=place)
            return None
        value = args if "args" in call else msgspec.UNSET
        changed = self.calls.update(known, value, raw=raw, raw_name=name, name=canonical, status=status, title=title)
        return None if changed else "unchanged"

    def _result(self, call: Line) -> Skip:
        call_id = call.get("id")
        if not isinstance(call_id, str) or not self.calls.is_known(call_id):
            return UNPARSED  # `_call` emitted it
        if self._is_answered(call_id):
            return "unchanged"
        self.ts = milliseconds(call.get("timestamp")) or self.ts
        return self._answer(call_id, read_call, call)

    def read_responses(self, parts: list[Line]) -> Skip:
        """Read results in the message that brings them to the model; their pictures are beside them."""
        responses = records([part.get("functionResponse") for part in parts])
        pictures = [part for part in parts if "inlineData" in part]
        outcomes: list[Skip] = ["unchanged"]
        for response in responses:
            call_id = response.get("id")
            if not isinstance(call_id, str):
                continue  # early versions state no id: the result is with its call
            if self._is_answered(call_id):
                outcomes.append("duplicate-result")
                continue
            raw_name = string(response.get("name")) or UNKNOWN_TOOL
            value = [{"functionResponse": response}, *(pictures if response is responses[-1] else ())]
            outcomes.append(self._answer(call_id, read_response, value, raw_name))
        return best([*reversed(outcomes)])

    def _is_answered(self, call_id: str) -> bool:
        call = self.calls.get(call_id)
        return self.calls.is_over(call_id) or (call is not None and call.acknowledged)

    def _answer(
        self, call_id: str, read: Callable[[str, Any], Answer], value: Any, raw_name: str = UNKNOWN_TOOL
    ) -> Skip:
        raw, attachments = take_bodies(self, value)
        name = self.calls.tool_of(call_id, raw_name)
        answer = read(name, raw)
        if attachments is not None:
            value = answer.value
            if name == "Read" and isinstance(value, str):
                value = {"message": value}  # "Binary content provided (1 item(s))."
            answer = answer.replace(value=value, attachments=attachments)
        return self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)


def _completes_task(call: Line) -> bool:
    """Return whether the call is a subagent's report, which ends the subagent (0.61)."""
    return call.get("name") == "complete_task" and call.get("status") == "success"


def _new_text(message: Line, emitted: EmittedMessage) -> str:
    """Return the message's text after its emitted part; empty if the CLI changed the text (masked it to save
    context)."""
    text = text_of(message.get("content"))
    if len(text) <= emitted.chars or _crc(text[: emitted.chars]) != emitted.crc:
        return ""
    new = text[emitted.chars :]
    emitted.chars, emitted.crc = len(text), _crc(text)
    return new


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


def _chat_usage(tokens: Line) -> dict[str, int | None]:
    """Return the token counts of one request. `input` is the prompt without tokens added by the API's own tools
    (`tool`), `output` the answer without its reasoning; `total` is the sum of the four."""
    prompt, tool = whole(tokens.get("input")), whole(tokens.get("tool"))
    answer, thoughts = whole(tokens.get("output")), whole(tokens.get("thoughts"))
    return token_counts(_sum(prompt, tool), _sum(answer, thoughts), tokens.get("cached"), reasoning=thoughts)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
