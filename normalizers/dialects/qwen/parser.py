"""Parsers of Qwen Code's two formats: its printed stream, and its session files."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.background import STOPS, Background, named_task
from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import Conversation, SessionState, State, is_short
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.messages import message_of
from tooltap.normalizers.dialects.claude.reports import Usages, turn_usage
from tooltap.normalizers.dialects.claude.stream import ClaudeStream, ClaudeStreamState, StreamMessages
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer, started_task
from tooltap.normalizers.tools.outcome import error_words, failure_or
from tooltap.normalizers.wire.exchange import is_retriable
from tooltap.normalizers.wire.values import milliseconds, record, records, request_id, string, token_counts
from tooltap.protocol.events import Display, Message, Usage

_PROXY = "tool_call"
"""Tool that calls others, which were not offered up front."""
_API_ERROR = "[API Error: "
_GOALS = ("active_goal", "goal_state")
"""Events that repeat the session's goal at each change; the agent sets it with a separate call."""
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


_RESULT_KEYS = ("subtype", "is_error", "result", "duration_ms", "usage")


class QwenState(ClaudeStreamState, kw_only=True):
    early: dict[str, Any] | None = None
    """The `result` line that came while a call was open."""


class QwenMessages(StreamMessages):
    def _called(self, block: Line) -> tuple[str, Any]:
        if block.get("name") == _PROXY:
            given = record(block.get("input"))
            if inner := string(given.get("name")):
                return inner, given.get("arguments")
        return super()._called(block)

    def _answered(self, name: str, block: Line, twin: Any, meta: Line, *, stopped: bool) -> Answer:
        return read_qwen_answer(name, block)

    def _started_task(self, answer: Answer) -> str | None:
        return started_task(string(record(answer.value).get("stdout")) or "")


class QwenStream(ClaudeStream):
    """The `qwen-stream` dialect: `qwen -p --output-format stream-json`, a sibling of Claude Code's.

    Learned from Qwen Code 0.24.4. Differences: an answer of the model is split into one message per kind of block, each
    with a separate id, of which the API's stream names only the first; tools that were not offered up front are called
    through `tool_call`; results are one text; input tokens include what was cached; a failed request is an assistant's
    message.
    """

    dialect = "qwen-stream"
    state_type = QwenState
    state: QwenState
    default_provider = "qwen"
    SKIPS = ClaudeStream.SKIPS | {"early-result", "goal-state", "stale-progress"}
    MODE_KEY = "permission_mode"
    VERSION_KEY = "qwen_code_version"
    IDS_ARE_OF_API = False
    MESSAGES = QwenMessages

    def _stream_event(self, value: Line) -> Skip:
        event = record(value.get("event"))
        kind = event.get("type")
        if kind in _GOALS:
            return "goal-state"
        if kind != "tool_progress":
            return super()._stream_event(value)
        call = self.calls.get(str(event.get("tool_use_id")))
        if call is None:
            return "stale-progress"
        data = record(event.get("content"))
        text = string(data.get("message"))
        self.calls.update(call, status="running", progress={**({"text": text} if text else {}), "data": data})
        return None

    def _assistant(self, value: Line) -> Skip:
        content = message_of(value).get("content")
        text = text_of(content)
        if text.startswith(_API_ERROR):
            self.messages.ensure_main_turn()
            outcome = self.messages.failed_request(text)
        else:
            outcome = super()._assistant(value)
        if type(content) is list and content:
            message_id = self.deltas.current.message_id
            for index in range(len(content) if self.state.texts.open else 0):  # whatever the message's id
                self.deltas.drop(message_id, index)
        return outcome

    def _result(self, value: Line) -> Skip:
        """Read a `result` line. If it arrives while a call of the main agent is running, it ends the turn only if
        nothing follows."""
        turn = self.turn if self.messages.is_main and value.get("is_error") is not True else None
        if turn is not None and self.calls.is_open(self.session, turn, self.agent):
            self.state.early = {key: value[key] for key in _RESULT_KEYS if key in value}
            return "early-result"
        self.state.early = None
        return super()._result(value)

    def finish(self, reason: str) -> None:
        self.messages.is_main = True
        if (early := self.state.early) is not None and self.turn is not None:
            self.state.early = None
            super()._result(early)
        super().finish(reason)

    def _usages(self, value: Line) -> Usages:
        usages = turn_usage(value, _counts)
        if not self.messages.is_main:
            return usages
        # A resumed session restores its metrics, so the main agent's figures are the session's so far.
        return tuple((kind, {**fields, "scope": "session", "counter": "session"}) for kind, fields in usages)


def _counts(usage: Line) -> dict[str, int | None]:
    return token_counts(*map(usage.get, _COUNTS))


# -- stored sessions ----------------------------------------------------------------------------------------------

_SKIPPED = {
    "attribution_snapshot": "snapshot",
    "file_history_snapshot": "snapshot",
}
_RESPONSE = "qwen-code.api_response"
_ERROR = "qwen-code.api_error"
_OF_TURN = "########"
"""Part of the ids of the prompts of the session itself, and not of its subagents."""
_OF_NO_MESSAGE = ("compress-", "#managed-")
"""Parts of the ids of two prompts whose answers are in no message: one asks for a summary of the history, the other for
memories. All other answers are messages, of the session or of a subagent."""


_SNAPSHOT = "<state_snapshot>"
_WHILE_WORKING = "mid_turn_user_message"
_OUTCOMES = {"completed": "completed", "cancelled": "cancelled"}
"""Stated outcome of a turn -> ours; every other is a failure."""


class QwenChatState(SessionState, kw_only=True):
    model: str | None = None
    forked_from: str | None = None
    """The session whose records the file begins with, until the first one of its own."""
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """`<session>/<command in the background>` -> id of the call that started it."""
    conversation: Conversation = msgspec.field(default_factory=Conversation)


class QwenChat(Parser):
    """The `qwen-chat` dialect: the files that Qwen Code keeps under `~/.qwen/projects`, a session's or a subagent's.

    Learned from Qwen Code 0.24.4. Lines are entries like those of Claude Code, around messages of Gemini's API. A turn
    lasts from the user's message to the model's text that comes with no call; only the end of a turn that a program
    prompted is stated. A message whose parent is before the last message begins a branch. A session that was forked
    begins with its parent's records, which keep their ids and times and name the parent: history.
    """

    dialect = "qwen-chat"
    protocol = default_provider = "qwen"
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "unchanged", "system", "telemetry"})
    line = Lines("type")
    system = Lines("subtype", skip=_SKIPPED)
    state_type = QwenChatState
    state: QwenChatState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.background = Background(self, self.calls, self.state.tasks)

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        if session := string(value.get("sessionId")):
            self.set_session(session)
        if value.get("isSidechain") is True:
            self.agent = string(value.get("agentId"))
        parent = string(record(value["forkedFrom"]).get("sessionId")) if "forkedFrom" in value else None
        if parent is not None and parent != self.session:
            self.replay = True
            self.state.forked_from = parent
        elif self.state.forked_from is not None and self.agent is None:
            self._end_copied()
            self._introduce(value)
        if self.agent is None:
            self._follow(value)

    def read(self, value: Line) -> Skip:
        known = len(self.items)
        outcome = super().read(value)
        return outcome if outcome == UNPARSED or len(self.items) == known else None

    def _follow(self, value: Line) -> None:
        """Emit that the conversation goes back to an earlier message, if it does."""
        record_id, parent = value.get("uuid"), string(value.get("parentUuid"))
        if not is_short(record_id):
            return
        if parent is None and value.get("subtype") != "rewind":  # the first, or one after records that are missing
            parent = next(reversed(self.state.conversation.records), None)
        if dropped := self.state.conversation.append(record_id, parent, is_message="message" in value):
            data = {"messageId": dropped[0], "messages": len(dropped)}
            self.notice("rewound", "history rewound", data=data)

    def _end_copied(self) -> None:
        """Close the calls that were open in the copied history."""
        replay, self.replay = self.replay, True
        self.calls.close_turn(self.session, None, None, "interrupted")
        self.replay = replay

    def _introduce(self, value: Line) -> None:
        if self.agent is None and not self.replay and self.state.started != self.session:
            self.state.cwd = string(value.get("cwd"))
            version, branch = string(value.get("version")), string(value.get("gitBranch")) or None
            origin, self.state.forked_from = self.state.forked_from, None
            self.begin_session(None, cwd=self.state.cwd, branch=branch, agent_version=version, forked_from=origin)

    def finish(self, reason: str) -> None:
        if self.state.forked_from is not None:
            self._end_copied()

    @line("system")
    def _system(self, value: Line) -> Skip:
        return self.system.read(self, value)

    @system("chat_compression")
    def _compression(self, value: Line) -> None:
        """Emit a compaction, with the summary that is in the history from then on."""
        history = records(record(value.get("systemPayload")).get("compressedHistory"))
        texts = (string(part.get("text")) or "" for content in history for part in records(content.get("parts")))
        summary = next((text for text in texts if text.lstrip().startswith(_SNAPSHOT)), None)
        self.notice("compaction", summary or "history summed up")

    @system("ui_telemetry")
    def _telemetry(self, value: Line) -> Skip:
        """Read what a request used that no message states."""
        event = record(record(value.get("systemPayload")).get("uiEvent"))
        prompt = string(event.get("prompt_id")) or ""
        is_of_turn = _OF_TURN in prompt and self.turn is not None and not self.replay
        if event.get("event.name") == _ERROR and is_of_turn:
            self._request_failed(event)
            return None
        if event.get("event.name") != _RESPONSE or not any(part in prompt for part in _OF_NO_MESSAGE):
            return "telemetry"
        prompted, said, cached = (event.get(f"{name}_token_count") for name in ("input", "output", "cached_content"))
        tokens = token_counts(prompted, said, cached, reasoning=event.get("thoughts_token_count"))
        if not any(tokens.values()):
            return "telemetry"
        model = string(event.get("model"))
        self.emit(Usage, scope="step", **tokens, model=model, request=string(event.get("response_id")))
        return None

    def _request_failed(self, event: Line) -> None:
        """A request of the turn has failed; Qwen Code makes some again, and stores no other end of the turn."""
        words, status = string(event.get("error_message")), event.get("status_code")
        data = {key: event[key] for key in ("error_type", "status_code") if event.get(key) is not None}
        self.notice("provider-error", words, "error", data or None)
        self.fail_request(string(event.get("error_type")) or "error")
        if not is_retriable(status):
            self.end_failed_turns()

    @system("custom_title", "session_title")
    def _title(self, value: Line) -> Skip:
        payload = record(value.get("systemPayload"))
        title = string(payload.get("customTitle")) or string(payload.get("title"))
        if title is None or self.agent is not None or self.replay:
            return "system"
        return self.update_session({"title": title})

    @system("slash_command")
    def _slash_command(self, value: Line) -> Skip:
        """A command that the user typed, and what Qwen Code printed for it. Seen in the source of Qwen Code, in no
        recording. If the command went to the model, a message has it."""
        payload = record(value.get("systemPayload"))
        if payload.get("phase") == "result":
            items = records(payload.get("outputHistoryItems"))
            role, text = "system", "\n".join(text for one in items if (text := string(one.get("text"))))
        elif payload.get("sentToModel") is True or payload.get("hiddenInvocation") is True:
            return "system"
        else:
            role, text = "user", string(payload.get("rawCommand")) or ""
        if not text:
            return "empty"
        self._introduce(value)
        self.emit(Message, role=role, text=text, message_id=string(value.get("uuid")))
        return None

    @system("parent_session")
    def _started_by(self, value: Line) -> Skip:
        parent = string(record(value.get("systemPayload")).get("parentSessionId"))
        if parent is None or self.replay:
            return "system"
        self._introduce(value)
        return self.update_session({"parent_session": parent})

    @system("turn_result")
    def _turn_result(self, value: Line) -> Skip:
        """The end of a turn that a program prompted; the answer may have ended it already."""
        payload = record(value.get("systemPayload"))
        state = string(payload.get("state"))
        if state is None or self.turn is None or self.replay:
            return "system"
        error = string(record(payload.get("error")).get("message"))
        is_known = any(one.failed is not None for one in self.state.turns if one.id == self.turn)
        if error is not None and not is_known:
            self.notice("provider-error", error, "error")
        self.end_turn(_OUTCOMES.get(state, "failed"), reason=string(payload.get("stopReason")) or state)
        return None

    @system.otherwise
    def _other(self, value: Line) -> Skip:
        """Skip the program's own notes."""
        return "system" if isinstance(value.get("subtype"), str) else self.unparsed("unknown-type", value)

    # -- messages -----------------------------------------------------------------------------------------------

    @line("user", message=dict)
    def _user(self, value: Line) -> Skip:
        self._introduce(value)
        bodies = Bodies(self)
        parts = records(bodies.take(value["message"].get("parts")))
        text = "".join(text for part in parts if (text := string(part.get("text"))))
        if not text and bodies.attachments is None:
            return None if self.items else "empty"
        if not self.replay and (self.turn is None or value.get("subtype") != _WHILE_WORKING):
            self.give_up_turns()
            self.start_turn()
        self.emit(Message, role="user", text=text, message_id=string(value.get("uuid")), attachments=bodies.attachments)
        return None

    @line("assistant", message=dict)
    def _assistant(self, value: Line) -> Skip:
        self._introduce(value)
        self.retry_request()
        if self.agent is None and not self.replay:
            self.uses_model(string(value.get("model")))
        parts, message_id = records(value["message"].get("parts")), string(value.get("uuid"))
        answers, calls = False, False
        for index, part in enumerate(parts):
            if text := string(part.get("text")):
                is_thought = part.get("thought") is True
                answers |= not is_thought
                self.ensure_turn()
                self.emit_text("reasoning" if is_thought else "assistant", text, message_id=message_id)
            elif isinstance(part.get("functionCall"), dict):
                calls = True
                self._call(part["functionCall"], index)
        if usage := _tokens(record(value.get("usageMetadata"))):
            self.ensure_turn()
            self.emit(Usage, scope="step", request=request_id(message_id), **usage)
        if answers and not calls and not self.replay:
            if usage:
                self.end_turn("completed", ended_by="answer")
            else:  # it was cut: a whole answer states its tokens
                self.goes_on()
        return None if self.items else "empty"

    def _call(self, call: Line, index: int) -> Skip:
        call_id, name, given = call.get("id"), call.get("name"), call.get("args")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", call)
        self.ensure_turn()
        inner = record(given)
        if name == _PROXY and isinstance(inner.get("name"), str):
            name, given = inner["name"], inner.get("arguments")
        skip = self.calls.show(call_id, name, given, raw=call, place=(None, index))
        shown = self.calls.get(call_id)
        if shown is not None and shown.name in STOPS and (task := named_task(given)) is not None:
            self.calls.remember(shown, {"task": task})
        return skip

    @line("tool_result", message=dict)
    def _result(self, value: Line) -> Skip:
        bodies = Bodies(self)
        raw = record(bodies.take({"message": value["message"], "toolCallResult": value.get("toolCallResult")}))
        parts = records(record(raw.get("message")).get("parts"))
        outcomes: list[Skip] = [self._answer(part, raw, bodies) for part in parts if "functionResponse" in part]
        return outcomes[0] if outcomes else "empty"

    def _answer(self, part: Line, raw: Line, bodies: Bodies) -> Skip:
        response, result = record(part.get("functionResponse")), record(raw.get("toolCallResult"))
        call_id = response.get("id")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", part)
        self.ensure_turn()
        stated = record(response.get("response"))
        failed = "error" in stated or result.get("status") == "error"
        text = error_words(stated.get("error")) if "error" in stated else string(stated.get("output"))
        name = self.calls.name_of(call_id) or ""
        answer = read_qwen_answer(name, {"content": text or "", "is_error": failed})
        answer = answer.replace(attachments=bodies.attachments, model=text or "")
        shown = record(result.get("resultDisplay"))
        if shown.get("type") == "task_execution":
            answer = answer.replace(status=failure_or(shown.get("status"), answer.status))
        if (diff := string(shown.get("fileDiff"))) is not None:
            answer = answer.replace(display=Display(origin="provider", text=diff, mime_type="text/x-diff"))
        raw_name = string(response.get("name")) or UNKNOWN_TOOL
        call = self.calls.get(call_id)
        skip = self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)
        if answer.is_async:
            self.background.began(started_task(text or ""), call_id)
        elif call is not None and answer.status == "completed":
            started = self.background.running(call.memory.get("task"))
            if started is not None:
                self.background.ended(started, Answer(None, "cancelled"), raw=raw)
        return skip


def _tokens(usage: Line) -> dict[str, Any]:
    """Usage of one request; the answer's tokens include its thoughts."""
    prompt, answer, cached = (usage.get(f"{part}TokenCount") for part in ("prompt", "candidates", "cachedContent"))
    counts = token_counts(prompt, answer, cached, reasoning=usage.get("thoughtsTokenCount"))
    return counts if counts["input_tokens"] or counts["output_tokens"] else {}
