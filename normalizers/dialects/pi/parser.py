"""Parsers of Pi's two formats: the output of `pi --mode json` and `pi --mode rpc`, and the session files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer, Place
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import Conversation, OpenCall, SessionState, is_short, put
from tooltap.normalizers.core.writer import Bodies, take_bodies
from tooltap.normalizers.dialects.pi import to_agent
from tooltap.normalizers.dialects.pi.to_agent import CONFIRMS, NO, YES
from tooltap.normalizers.tools.outcome import is_nothing, status_in_words
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import (
    dollars,
    milliseconds,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Chunk, Display, Message, OutputRef, SessionEvent, ToolUpdate, Usage

T = TypeVar("T")

MANY_COMMANDS = 256
"""Maximum number of commands whose texts are remembered until their response."""

_TEXTS = {
    "prompt": "message",
    "steer": "message",
    "follow_up": "message",
    "bash": "command",
    "set_session_name": "name",
}
"""Command -> key of its text, which is needed to read the response."""
COMMANDS = frozenset(
    {"abort", "abort_bash", "abort_retry", "clone", "compact", "cycle_model", "cycle_thinking_level", "export_html"}
    | {"fork", "get_available_models", "get_commands", "get_fork_messages", "get_last_assistant_text", "get_messages"}
    | {"get_session_stats", "get_state", "new_session", "set_auto_compaction", "set_auto_retry", "set_follow_up_mode"}
    | {"set_model", "set_steering_mode", "set_thinking_level", "switch_session"}
    | _TEXTS.keys()
)
_PROMPTS = ("prompt", "steer", "follow_up")
_LEVELS = {"warning": "warning", "error": "error"}
_DIALOGS = ("select", "confirm", "input", "editor")
"""Methods of extensions that wait for an answer; the others change what a client shows."""


MANY_RESULTS = 4_096
"""Maximum number of entries whose calls are remembered."""
MANY_TOOLS = 1_024
"""Maximum number of tools whose names are remembered."""
MANY_RUNNING = 16
"""Maximum number of calls whose output so far is remembered."""

_SKIPPED = {
    "message_start": "partial",
    "turn_start": "step",
    "turn_end": "step",
    "queue_update": "queue",
    "compaction_start": "compaction-start",
    "auto_compaction_start": "compaction-start",
    "thinking_level_changed": "setting",
    "agent_settled": "settled",
    "bash_execution_update": "partial",
    "summarization_retry_attempt_start": "retry-progress",
    "summarization_retry_finished": "retry-progress",
}
"""Type of a line that repeats other lines -> reason to skip it."""

_OUTCOMES = {"error": "failed", "aborted": "cancelled"}
"""Stop reason -> outcome of the turn; every other reason completes it."""

_ROLES = {"text": "assistant", "thinking": "reasoning"}
"""Type of a block -> role."""
_DELTAS = {f"{kind}_delta": role for kind, role in _ROLES.items()}
"""Type of a delta of such a block -> role."""


_COUNTS = ("input", "output", "cacheRead", "cacheWrite", "reasoning")
"""Keys of token counts; the first excludes tokens read from and written to the cache."""
_NAMES = re.compile(r"(?:.*[/\\])?(?:\d{4}-\d\d-\d\dT[\d-]{1,20}Z_)?([^/\\]{1,200}?)(?:\.jsonl)?", re.ASCII | re.DOTALL)
"""Id of a session, or the path of its file (`<time>_<id>.jsonl`)."""


def _names(tools: Any) -> list[str]:
    return [name for one in records(tools) if is_short(name := one.get("name"))]


def session_of(stated: Any) -> str | None:
    """The id of the session that a header names by its id or by the path of its file."""
    found = _NAMES.fullmatch(stated) if is_short(stated) else None
    return None if found is None else found[1]


class PiState(SessionState, kw_only=True):
    model: str | None = None
    title: str | None = None
    texts_of: dict[str, str] = msgspec.field(default_factory=dict)
    """Id of a command -> its text, until the response."""
    running: dict[str, ShownOutput] = msgspec.field(default_factory=dict)
    """Call -> the output it showed last."""
    forked_from: str | None = None
    """The session that the client copied, until the copy is named."""
    is_copy: bool = False
    """The session began as a copy of another one, whose requests its totals include."""
    highest: int = 0
    """Highest total of tokens that the session stated."""
    responds: bool = False
    """The agent was seen to respond to commands: it runs in RPC mode."""
    tools: list[str] = msgspec.field(default_factory=list)
    ended: dict[str, int] = msgspec.field(default_factory=dict)
    """Call -> how many results of it, which were printed, messages will repeat."""
    nothing: str | None = None
    """The last entry that is a message without content."""
    results: dict[str, str] = msgspec.field(default_factory=dict)
    """Entry that holds a result -> the call, for the latest ones."""


class PiJson(Parser):
    """The `pi-json` dialect: `pi --mode json`, and `pi --mode rpc`, which adds commands, responses and dialogs.

    Learned from Pi 0.73, whose documentation has the commands that no recording shows. A run is `agent_start` …
    `agent_end`. What Pi calls a turn is one request to the model and the tools it called, which is a step in our
    events. Everything is on the wire several times: a message grows in `message_update` lines and is whole in
    `message_end`, even if the model stopped early; a result is in `tool_execution_end`, in a separate message, in
    `turn_end` and in `agent_end`. The parser reads each where it is first whole. In RPC mode, prompts come back as
    messages of the user when they reach the model, perhaps after templates were expanded; a command's own text is shown
    only if the agent refuses it.
    """

    dialect = "pi-json"
    STATES_END = True
    protocol = default_provider = "pi"
    SKIPS = frozenset(
        {
            "command",  # of the client
            "display",  # an extension changes what the client shows
            "empty",
            "partial",
            "prompt-context",
            "repeated",
            "retry-progress",
            "session-file",
            "response",  # to a command that is about nothing the agent does
            "unchanged",
        }
    )
    line = Lines("type", skip=_SKIPPED)
    message = Lines("role")
    response = Lines("command")
    """Responses to commands that succeeded. The methods get the response and its data."""
    state_type = PiState
    state: PiState

    # -- session and turns --------------------------------------------------------------------------------------

    @line("session")
    def _session(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        self.state.cwd = string(value.get("cwd"))
        self._start_session(value.get("id"), session_of(value.get("parentSession")), cwd=self.state.cwd)

    def _start_session(self, session: Any, forked_from: str | None, **fields: Any) -> None:
        self.state.is_copy, self.state.highest = forked_from is not None, 0
        self.begin_session(session, forked_from=forked_from, **fields)

    @line("session_info_changed")
    def _session_info(self, value: Line) -> Skip:
        return self.retitle(string(value.get("name")))

    @line("agent_start")
    def _agent_start(self, value: Line) -> Skip:
        if self.turn is not None:  # continues after an error that is retried
            return "unchanged"
        self.start_turn()
        return None

    @line("agent_end")
    def _agent_end(self, value: Line) -> Skip:
        if value.get("willRetry") is True:
            return "unchanged"
        answers = [one for one in records(value.get("messages")) if one.get("role") == "assistant"]
        reason = string(answers[-1].get("stopReason")) if answers else None
        outcome = _OUTCOMES.get(reason or "", "completed")
        if reason is None and self.calls.is_open(self.session, self.turn, self.agent):
            outcome = "cancelled"
        self.end_turn(outcome, reason=reason)
        return None

    @line("auto_retry_start", "summarization_retry_scheduled")
    def _retry(self, value: Line) -> None:
        data = {key: value[key] for key in ("attempt", "maxAttempts", "delayMs") if key in value}
        self.notice("retry", string(value.get("errorMessage")), "warning", data or None)

    @line("auto_retry_end")
    def _retried(self, value: Line) -> Skip:
        if value.get("success") is True:
            return "retry-progress"
        self.notice("provider-error", string(value.get("finalError")), "error")
        return None

    @line("entry_appended")
    def _appended(self, value: Line) -> Skip:
        """An entry of the session's file that no other line has."""
        entry = record(value.get("entry"))
        return self._edited(entry) if entry.get("type") == "context_edit" else "session-file"

    def _edited(self, entry: Line) -> Skip:
        """Emit that the model gets an earlier message without its content, or with another content (Pi 1.x)."""
        target = string(entry.get("targetId"))
        if target is not None and target == self.state.nothing:
            return "retry-progress"  # a request that failed before it gave anything
        call = None if target is None else self.state.results.get(target)
        replacement = entry.get("replacement")
        text = (blocks_text(replacement.get("content")) or "") if isinstance(replacement, dict) else None
        self.edited_context(text, call=call, data=None if target is None else {"messageId": target})
        return None

    @line("auto_compaction_end", "compaction_end")
    def _compacted(self, value: Line) -> None:
        error = string(value.get("errorMessage"))
        summary = string(record(value.get("result")).get("summary"))
        data = {key: value[key] for key in ("reason", "aborted") if key in value}
        self.notice("compaction", error or summary, "error" if error else "info", data or None)
        self._usage(record(record(value.get("result")).get("usage")))

    # -- messages -----------------------------------------------------------------------------------------------

    @line("message_update")
    def _message_update(self, value: Line) -> Skip:
        update = record(value.get("assistantMessageEvent"))
        role = _DELTAS.get(str(update.get("type")))
        if role is not None and (text := string(update.get("delta"))):
            block = whole(update.get("contentIndex"))
            self.ensure_turn()
            self.texts.append(role, text, block=block, key=str(block), preview=True)
        return "partial"

    @line("message_end")
    def _message(self, value: Line) -> Skip:
        message = record(value.get("message"))
        role = message.get("role")
        self.ts = whole(message.get("timestamp")) or self.ts
        if type(role) is not str or self.message.knows(role):
            return self.message.read(self, message, line=value)
        # Extensions, compaction and the user's shell commands add such messages to the history.
        text = string(message.get("summary")) or blocks_text(message.get("content")) or string(message.get("command"))
        self.notice(role, text, data=Bodies(self).take(message))
        return None

    @message("user")
    def _user(self, message: Line) -> Skip:
        content, attachments = take_bodies(self, message.get("content"))
        text = blocks_text(content) or ""
        if not text and attachments is None:
            return "empty"
        self.ensure_turn()
        self.emit(Message, role="user", text=text, attachments=attachments)
        return None

    @message("assistant")
    def _assistant(self, message: Line) -> Skip:
        self.ensure_turn()
        self.uses_model(string(message.get("model")))
        stopped, message_id = string(message.get("stopReason")), string(message.get("responseId"))
        for index, block in enumerate(records(message.get("content"))):
            self._block(index, block, message_id, stopped in _OUTCOMES)
        if stopped == "error":
            self.notice("provider-error", string(message.get("errorMessage")), "error")
        self._usage(record(message.get("usage")), string(message.get("model")), request_id(message_id))
        return None if self.items else "empty"

    @message("system")
    def _system(self, message: Line) -> Skip:
        """What Pi tells the model, and the tools that it gets or has no longer (1.x)."""
        removed, added = (_names(message.get(key)) for key in ("toolsRemoved", "toolsAdded"))
        tools = [name for name in self.state.tools if name not in (*removed, *added)] + added
        if tools == self.state.tools:
            return "prompt-context"
        self.state.tools = tools[-MANY_TOOLS:]
        return self.update_session({"tools": self.state.tools})

    @message("toolResult")
    def _result_message(self, message: Line) -> Skip:
        call_id = message.get("toolCallId")
        outcome: Skip = "repeated"
        if isinstance(call_id, str) and not self._is_repeated(call_id) and not self.calls.is_over(call_id):
            for inner in records(record(message.get("nestedCalls")).get("calls")):
                self._inner_call(call_id, inner)
            outcome = self._result(call_id, message, message)
        if "usage" in message:  # of the requests that the tool made
            self._usage(record(message["usage"]))
        return None if self.items else outcome

    def _inner_call(self, script: str, inner: Line) -> None:
        """A call that the running call `script` has made (1.x). A stored session has it only in the script's result:
        how it ended, with an error's text, but not what it answered."""
        inner_id = inner.get("id")
        if isinstance(inner_id, str) and self.calls.is_over(inner_id):
            return
        outer, self.parent = self.parent, script
        self._show(inner_id, inner.get("name"), inner.get("arguments"), inner, "running")
        if isinstance(inner_id, str) and inner.get("status") in ("ok", "error"):  # else `unfinished`
            failed = inner["status"] == "error"
            content = [{"type": "text", "text": string(inner.get("error")) or ""}] if failed else None
            answer = read_result(self.calls.name_of(inner_id) or "", {"content": content, "isError": failed}, False)
            self.calls.answer(inner_id, answer.replace(duration_ms=whole(inner.get("durationMs"))), raw=inner)
        self.parent = outer

    def _is_repeated(self, call_id: str) -> bool:
        """Whether the result in a message was in the line that ended its call."""
        repeated = self.state.ended.pop(call_id, 0)
        if repeated > 1:
            put(self.state.ended, call_id, repeated - 1, MANY_RESULTS)
        return repeated > 0

    def _block(self, index: int, block: Line, message_id: str | None, stopped_early: bool) -> None:
        kind = str(block.get("type"))
        if self.state.texts.open:
            self.texts.drop(str(index))
        if kind in _ROLES:
            if text := string(block.get(kind)):
                self.emit_text(_ROLES[kind], text, message_id=message_id, block=index)
        elif kind != "toolCall":
            self.unparsed("unknown-type", block)
        elif not stopped_early:  # else its arguments may be incomplete, and it is never executed
            self._show(block.get("id"), block.get("name"), block.get("arguments"), block, "pending", (None, index))

    def _usage(self, usage: Line, model: str | None = None, request: str | None = None) -> None:
        if not whole(usage.get("totalTokens")):
            return
        counts = token_counts(*map(usage.get, _COUNTS), apart=True)
        cost = dollars(record(usage.get("cost")).get("total"))
        self.emit(Usage, scope="step", **counts, cost_usd=cost, model=model, request=request)

    # -- calls --------------------------------------------------------------------------------------------------

    def _show(
        self, call_id: Any, name: Any, arguments: Any, raw: Line, status: str, place: Place | None = None
    ) -> Skip:
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", raw)
        self.ensure_turn()
        return self.calls.show(call_id, name, arguments, raw=raw, status=status, repeated="repeated", place=place)

    @line("tool_execution_start")
    def _tool_start(self, value: Line) -> Skip:
        self.parent = string(value.get("parentToolCallId")) or self.parent
        return self._show(value.get("toolCallId"), value.get("toolName"), value.get("args"), value, "running")

    @line("tool_execution_update")
    def _tool_update(self, value: Line) -> Skip:
        """The whole output so far, or its end once it is long; only the new part becomes a partial."""
        call = self.calls.get(str(value.get("toolCallId")))
        text = None if call is None else blocks_text(record(value.get("partialResult")).get("content"))
        if call is None or not text:
            return "partial"
        shown = self.state.running.pop(call.id, None) or ShownOutput()
        put(self.state.running, call.id, shown, MANY_RUNNING)
        offset = shown.sent
        if new := shown.show(text, self.context.limits.string_bytes):
            if not self.partials:
                return "partial"
            chunk = Chunk(stream="output", text=new, offset=offset)
            place = {"turn": call.turn, "session": call.session}
            self.emit_partial(ToolUpdate, call_id=call.id, name=call.name, chunk=chunk, **place)
        return "partial"

    @line("tool_execution_end", toolCallId=str)
    def _tool_end(self, value: Line) -> Skip:
        call_id = value["toolCallId"]
        if is_short(call_id) and "parentToolCallId" not in value:
            put(self.state.ended, call_id, self.state.ended.pop(call_id, 0) + 1, MANY_RESULTS)
        return self._result(
            value["toolCallId"], value, {**record(value.get("result")), "isError": value.get("isError")}
        )

    def _result(self, call_id: str, value: Line, result: Line) -> Skip:
        """Emit a result. `value`: Pi's object; `result`: its content, details, `structuredContent` and `isError`."""
        self.ensure_turn()
        script = string(value.get("parentToolCallId"))  # a script has called the tool, and got the result (1.x)
        self.parent = script or self.parent
        self.state.running.pop(self.calls.id_of(call_id), None)
        bodies = Bodies(self)
        raw = bodies.take(value)
        raw_name = string(value.get("toolName")) or UNKNOWN_TOOL
        if not self.calls.is_known(call_id) and raw_name != UNKNOWN_TOOL:
            self.calls.open(call_id, raw_name, {}, raw=None, synthetic=True)
        result = bodies.take(result)
        attachments = bodies.attachments
        answer = read_result(self.calls.name_of(call_id) or "", result, attachments is not None)
        if attachments is not None:
            answer = answer.replace(attachments=attachments)
        if "content" in result and script is None:
            answer = answer.replace(model=result["content"])
        answer = answer.replace(duration_ms=whole(value.get("durationMs")))
        return self.calls.answer(call_id, answer, raw=raw)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        shown = self.state.running.pop(call.id, None)
        return (shown.text if shown is not None else None), None

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        return to_agent.word_answer(request["permissionId"], self.permissions.reply_to(request)["method"], chosen)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads()
        return to_agent.word_prompt(text, id)

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads()
        return to_agent.word_abort(id)

    def _check_reads(self) -> None:
        if not self.state.responds:
            raise CannotWriteError("the agent was not seen to read commands: Pi does with --mode rpc")

    # -- RPC mode: commands --------------------------------------------------------------------------------------------

    @line(*COMMANDS - {"abort"})
    def _command(self, value: Line) -> Skip:
        text = value.get(_TEXTS.get(value["type"], ""))
        command_id = value.get("id")
        if is_short(text) and is_short(command_id):
            put(self.state.texts_of, command_id, text, MANY_COMMANDS)
        return "command"

    @line("abort")
    def _abort(self, value: Line) -> None:
        self.notice("interrupt", "The client aborted the turn.")

    @line.otherwise
    def _unknown(self, value: Line) -> Skip:
        if self.direction == "in" and isinstance(value.get("type"), str):
            return "command"
        return self.unparsed("unknown-type", value)

    # -- responses ----------------------------------------------------------------------------------------------

    @line("response", command=str)
    def _response(self, value: Line) -> Skip:
        self.state.responds = True
        command = value["command"]
        command_id = value.get("id")
        text = self.state.texts_of.pop(command_id, None) if isinstance(command_id, str) else None
        if value.get("success") is False:
            if command in _PROMPTS and text:
                self.emit(Message, role="user", text=text)
            self.notice("command-failed", string(value.get("error")), "error", {"command": command})
            return None
        if self.response.knows(command):
            return self.response.read(self, value, record(value.get("data")), text)
        return "response"

    @response("get_state")
    def _state(self, value: Line, data: Line, text: str | None) -> Skip:
        session, model = string(data.get("sessionId")), string(record(data.get("model")).get("id"))
        if session is not None and session != self.state.started:
            self.state.model, self.state.title = model, string(data.get("sessionName"))
            origin, self.state.forked_from = self.state.forked_from, None
            self._start_session(session, origin, model=model, title=self.state.title)
            return None
        self.uses_model(model)
        self.retitle(string(data.get("sessionName")))
        return None if self.items else "unchanged"

    @response("fork", "clone")
    def _forked(self, value: Line, data: Line, text: str | None) -> Skip:
        """The session goes on as a copy; its id comes with the next state."""
        if data.get("cancelled") is not True:
            self.state.forked_from = self.state.started
        return "response"

    @response("get_session_stats")
    def _statistics(self, value: Line, data: Line, text: str | None) -> Skip:
        """The sum over the entries of the session's file, copied ones included; until 0.7x over the model's context,
        which a compaction shortens: a lower sum states nothing."""
        tokens, context, state = record(data.get("tokens")), record(data.get("contextUsage")), self.state
        figures: dict[str, Any] = {
            "context_used": whole(context.get("tokens")),
            "context_size": whole(context.get("contextWindow")),
        }
        total = whole(tokens.get("total")) or 0
        is_copy = state.is_copy or state.forked_from is not None
        if total >= state.highest and not is_copy:
            state.highest = total
            counts = token_counts(*map(tokens.get, _COUNTS), apart=True)
            figures |= {**counts, "cost_usd": dollars(data.get("cost")), "counter": "session"}
        if not any(value for key, value in figures.items() if key != "counter"):
            return "unchanged"
        self.emit(Usage, scope="session", turn=None, **figures)
        return None

    @response("set_model", "cycle_model")
    def _model(self, value: Line, data: Line, text: str | None) -> Skip:
        model = record(data.get("model")) or data
        return None if self.uses_model(string(model.get("id"))) else "unchanged"

    @response("set_session_name")
    def _named(self, value: Line, data: Line, text: str | None) -> Skip:
        return self.retitle(text)

    @response("bash")
    def _user_command(self, value: Line, data: Line, text: str | None) -> None:
        """The user's own shell command; no message of the history shows it."""
        self.notice("bashExecution", text or string(data.get("output")), data=data)

    def retitle(self, title: str | None) -> Skip:
        """Emit the session's title, if it is new."""
        if title is None or title == self.state.title:
            return "unchanged"
        self.state.title = title
        return self.update_session({"title": title})

    # -- extensions ---------------------------------------------------------------------------------------------

    @line("extension_ui_request", id=str)
    def _dialog(self, value: Line) -> Skip:
        method, title, message = value.get("method"), string(value.get("title")), string(value.get("message"))
        if method == "notify":
            self.notice("extension", message, _LEVELS.get(str(value.get("notifyType")), "info"))
            return None
        if method not in _DIALOGS:
            return "display"
        question: dict[str, Any] = {"question": ": ".join(filter(None, (title, message)))}
        choices = value.get("options")
        names = [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
        if method == CONFIRMS:
            names = [YES, NO]
        if names:
            question["options"] = [{"label": name} for name in names]
        self.permissions.ask(
            value["id"], type="question", title=title, questions=[question], reply_to={"method": method}
        )
        return None

    @line("extension_ui_response", id=str)
    def _dialog_answered(self, value: Line) -> None:
        if value.get("cancelled") is True:
            self.permissions.answer(value["id"], "cancelled")
            return
        answers: Line = {key: value[key] for key in ("value", "confirmed") if key in value}
        self.permissions.answer(value["id"], "answered", answers=answers or None)

    @line("extension_error")
    def _extension_error(self, value: Line) -> None:
        data = {key: value[key] for key in ("extensionPath", "event") if string(value.get(key))}
        self.notice("extension", string(value.get("error")), "error", data or None)


# -- stored sessions ----------------------------------------------------------------------------------------------

_SESSION_SKIPPED = {
    "thinking_level_change": "setting",
    "custom": "session-file",
    "label": "session-file",
}
_ENDS = {"stop": "completed", "length": "completed", "aborted": "cancelled"}
"""Stop reason -> outcome of the turn. After an error Pi may ask the model again."""
_OF_WORK = ("assistant", "toolResult")


class PiSessionState(PiState, kw_only=True):
    failed: bool = False
    """The model's last message is an error."""
    parent: str | None = None
    """The session that the header names, until the first entry shows whether it was copied."""
    copied_before: int | None = None
    """Time of the header, in ms, as long as the entries may be older: those are copies of another session's."""
    conversation: Conversation = msgspec.field(default_factory=Conversation)
    worked: int | None = None
    """Time of the last entry of the model or a tool, in ms."""


class PiSession(PiJson):
    """The `pi-session` dialect: the files that Pi keeps under `~/.pi/agent/sessions`, in version 3 of their format.

    Learned from Pi 0.73 and 1.5. A line is an entry of a tree; whole messages are the entries that matter. No line
    states the start or end of a turn: it lasts from the user's message to the model's first answer that calls no tool.
    An entry whose parent is before the last message begins a branch. A session that was forked begins with copies of
    its parent's entries, which keep their times: they are older than the header, and history.
    """

    dialect = "pi-session"
    STATES_TIMES = True
    STATES_END = False
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt
    line = PiJson.line.copy(skip=_SESSION_SKIPPED)
    message = PiJson.message.copy()
    state_type = PiSessionState
    state: PiSessionState

    def read(self, value: Line) -> Skip:
        known = len(self.items)
        outcome = super().read(value)
        return outcome if outcome == UNPARSED or len(self.items) == known else None

    def enter(self, value: Line) -> None:
        stated = milliseconds(value.get("timestamp"))
        self.ts = stated or self.ts
        if value.get("type") == "session":
            return
        if self.state.copied_before is not None:
            self._enter_copied(stated, self.state.copied_before)
        if is_short(entry := value.get("id")) and "parentId" in value:
            parent, is_message = string(value["parentId"]), value.get("type") == "message"
            if dropped := self.state.conversation.append(entry, parent, is_message=is_message):
                data = {"messageId": dropped[0], "messages": len(dropped)}
                self.notice("rewound", "history rewound", data=data)

    def _enter_copied(self, stated: int | None, begun: int) -> None:
        """Decide whether an entry was copied. The first that was not ends the copy."""
        self.replay = stated is None or stated < begun
        if (parent := self.state.parent) is not None:
            self.state.parent = None
            origin = {"forked_from": parent} if self.replay else {"parent_session": parent}
            self.emit(SessionEvent, state="updated", ts=begun, replay=False, **origin)
        if not self.replay:
            self._close_copied()
            self.state.copied_before = None

    def _close_copied(self) -> None:
        """Close the calls that were open in the copied history."""
        replay, self.replay = self.replay, True
        self.calls.close_turn(self.session, None, None, "interrupted")
        self.replay = replay

    def update_session(self, changes: dict[str, Any]) -> Skip:
        return self._as_fact(lambda: super(PiSession, self).update_session(changes))

    def uses_model(self, model: str | None) -> bool:
        return self._as_fact(lambda: super(PiSession, self).uses_model(model))

    def _as_fact(self, emit: Callable[[], T]) -> T:
        """Emit a fact about the session. One that was copied holds from the beginning of the session."""
        written, replay = self.ts, self.replay
        if replay:
            self.ts, self.replay = self.state.copied_before, False
        result = emit()
        self.ts, self.replay = written, replay
        return result

    @line("session")
    def _session(self, value: Line) -> None:
        self.state.cwd = string(value.get("cwd"))
        self.begin_session(value.get("id"), cwd=self.state.cwd)
        self.state.conversation, self.state.worked = Conversation(), None
        self.state.parent = session_of(value.get("parentSession") or value.get("branchedFrom"))
        self.state.copied_before = self.ts if self.state.parent is not None else None

    @line("message", message=dict)
    def _entry(self, value: Line) -> Skip:
        written, message, entry = self.ts, value["message"], value.get("id")
        outcome = self._message(value)
        if message.get("role") in _OF_WORK:
            self.state.worked = written
        if is_short(entry):
            if not message.get("content"):
                self.state.nothing = entry
            elif is_short(call := message.get("toolCallId")):
                put(self.state.results, entry, call, MANY_RESULTS)
        return outcome

    @line("context_edit")
    def _context_edit(self, value: Line) -> Skip:
        return self._edited(value)

    @line("model_change")
    def _model_changed(self, value: Line) -> Skip:
        return None if self.uses_model(string(value.get("modelId"))) else "unchanged"

    @line("session_info")
    def _name(self, value: Line) -> Skip:
        return self.retitle(string(value.get("name")))

    @line("compaction", "branch_summary")
    def _summary(self, value: Line) -> None:
        self.notice("compaction" if value["type"] == "compaction" else "branch", string(value.get("summary")))
        self._usage(record(value.get("usage")))

    @line("usage", usage=dict)
    def _used(self, value: Line) -> Skip:
        """A request that belongs to no message, such as one that keeps the cache warm."""
        self._usage(value["usage"], string(value.get("model")))
        return None if self.items else "empty"

    @line("custom_message")
    def _custom(self, value: Line) -> None:
        self.notice(string(value.get("customType")) or "custom", string(value.get("content")))

    @message("user")
    def _user(self, message: Line) -> Skip:
        typed, worked = whole(message.get("timestamp")), self.state.worked
        if typed is None or worked is None or typed >= worked:  # else it was typed while the agent worked
            self._end_turn("cancelled", synthetic=True)
        return super()._user(message)

    @message("assistant")
    def _assistant(self, message: Line) -> Skip:
        outcome = super()._assistant(message)
        stopped = string(message.get("stopReason")) or ""
        self.state.failed = stopped == "error"
        if stopped not in _ENDS:
            return outcome
        self._end_turn(_ENDS[stopped], reason=stopped)
        return None if self.items else outcome

    def finish(self, reason: str) -> None:
        if self.state.copied_before is not None:
            self._close_copied()
        if self.state.failed:
            self._end_turn("failed", ended_by="eof")

    def _end_turn(
        self, outcome: str, *, reason: str | None = None, ended_by: str = "answer", synthetic: bool = False
    ) -> None:
        """End the turn, if one is open."""
        failed, self.state.failed = self.state.failed, False
        if self.turn is not None:
            by = "eof" if synthetic else ended_by
            self.end_turn("failed" if failed else outcome, reason=reason, ended_by=by, synthetic=synthetic)


# -- answers ------------------------------------------------------------------------------------------------------

_ENDING = re.compile(
    r"(?:\A|\n\n)(Command (?:exited with code (?P<code>-?\d+)|(?P<aborted>aborted)|timed out after \S+ seconds))\Z",
    re.ASCII,
)
_MATCH = re.compile(r"(.+?):(\d{1,15}): (.*)", re.ASCII | re.DOTALL)
"""A match of `grep`. Pi puts a space before the text of the line; other tools do not."""


def read_result(name: str, result: dict[str, Any], has_pictures: bool) -> Answer:
    """The answer in a result: its content, details and `isError`, and what 1.x has beside them for programs: the text
    of a file, or a command's whole output and its exit code (`structuredContent`)."""
    content = result.get("content")
    text = blocks_text(content) or ""
    diff = string(record(result.get("details")).get("diff"))
    display = Display(origin="provider", text=diff) if diff else None
    failed = result.get("isError") is True
    structured = result.get("structuredContent")
    if name == "Bash":
        return _shell(text, failed, record(structured))
    if failed:
        return Answer(None, status_in_words(text, "pi") or "failed", text, display=display)
    if name == "Read" and has_pictures:
        return Answer({"message": text}, display=display)  # "Read image file [image/png]"
    if name == "Read" and isinstance(structured, str):
        return Answer(structured, display=display)
    if name == "Grep":
        return Answer(_matches(text), display=display)
    return Answer(content, display=display)


def _matches(text: str) -> Any:
    """The matches of `grep`, and its text where that has more: context lines, or notes that it was truncated."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [match for line in lines if (match := _MATCH.fullmatch(line))]
    matches = [{"filePath": one[1], "line": int(one[2]), "excerpt": one[3]} for one in found]
    if not matches:
        return text
    return {"matches": matches} if len(matches) == len(lines) else {"matches": matches, "text": text}


def _shell(text: str, failed: bool, structured: dict[str, Any]) -> Answer:
    """The text of a failed command is its output, followed by a line that states how it ended."""
    ending = _ENDING.search(text) if failed else None
    if failed and ending is None:  # it never ran
        return Answer(None, status_in_words(text, "pi") or "failed", text)
    printed = text[: ending.start()] if ending else text
    value: dict[str, Any] = {"stdout": "" if is_nothing(printed, "pi") else printed}
    if isinstance(output := structured.get("output"), str):
        value["stdout"] = output
    if (code := whole(structured.get("exit_code"))) is not None:
        value["exit_code"] = code
    if ending is None:
        return Answer(value)
    if ending["code"]:
        value["exit_code"] = int(ending["code"])
    return Answer(value, "cancelled" if ending["aborted"] else "failed", ending[1])


class ShownOutput(msgspec.Struct, omit_defaults=True):
    """The output that a running call last showed. Pi repeats all of it, or only its end once it exceeds 50 kB."""

    text: str = ""
    """The output, truncated to the maximum length of a string in an event."""
    length: int = 0
    """Length of the text before truncation, in code points."""
    tail: str = ""
    sent: int = 0
    """Total number of code points emitted as new."""

    def show(self, text: str, limit: int) -> str:
        """Remember `text`, and return its new part."""
        if text.startswith(self.text):
            new = text[self.length :]
        else:  # the window has moved: the new part follows the last known lines
            found = text.rfind(self.tail)
            new = text[found + len(self.tail) :] if found >= 0 else text
        self.text = text.encode()[:limit].decode("utf-8", "ignore")
        self.length, self.tail = len(text), text[-TAIL:]
        self.sent += len(new)
        return new


TAIL = 200
"""Length of the output's end by which `show` finds the known part again, in code points."""
