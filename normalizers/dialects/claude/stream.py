"""The `claude-stream` dialect: `claude -p --output-format stream-json`, with or without `--include-partial-messages`,
one-way or with the control protocol.

Learned from Claude Code 1.0.128 and 2.1.330; Qwen Code and Cursor print variants of it. Every prompt begins with an
`init` line and ends with a `result` line, but the turns overlap: a background task that ends opens a second turn before
the first one's result is printed.

With the control protocol (`--input-format stream-json`) the client sends lines, too. The agent repeats a client's
answer on its own side, so that the agent's side alone is complete; a repetition is skipped as an `echo`.
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import msgspec
import orjson

from tooltap.normalizers.core.answers import CannotWriteError, Chosen, with_free_text
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State, put
from tooltap.normalizers.dialects.claude import to_agent
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.history import History
from tooltap.normalizers.dialects.claude.messages import (
    ClaudeMessages,
    ClaudeState,
    Deltas,
    TurnNotes,
    message_of,
    request_of,
)
from tooltap.normalizers.dialects.claude.reports import (
    Before,
    Reports,
    Usages,
    beyond,
    counter_of,
    has_fallen,
    model_usages,
    result_usage,
)
from tooltap.normalizers.dialects.claude.steps import MessagesInProgress, UnstatedSteps
from tooltap.normalizers.dialects.claude.tasks import Tasks
from tooltap.normalizers.dialects.claude.to_agent import option_of, options_of, suggestions_of
from tooltap.normalizers.tools.registry import tool_input
from tooltap.normalizers.wire.values import milliseconds, record, records, string, whole
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Message, Notice

DENIALS = 1_024
FAILURES = 64
FAILURE_TEXT = 2_000

_QUESTIONS = "AskUserQuestion"
_SINCE = "model_usage_since_last_result"
"""Key of a `result` line that states what the process has used since the last one (2.1.330)."""
_VAGUE = frozenset({"success", "error", "error_during_execution"})
"""Subtypes of results that state less than `terminal_reason` and `stop_reason` do."""


class Failure(msgspec.Struct):
    """A failed result, which may turn out to be a denial."""

    event: str
    """Id of the result's event."""
    error: str


class ControlState(msgspec.Struct):
    """State of the control protocol: denials, and failed results that may be denials."""

    denied: list[str] = []
    """The last calls whose denial was emitted."""
    failed: dict[str, Failure] = {}
    """Call -> its failed result, for the turn's latest ones: the turn's end may name some of them as denied."""


class Counted(msgspec.Struct):
    """What the totals of a session had reached before the stream's first result."""

    session: str
    before: Before


class ClaudeStreamState(ClaudeState, kw_only=True):
    started: str | None = None
    """The most recently started session."""
    version: str | None = None
    """The agent's version."""
    steps: MessagesInProgress = msgspec.field(default_factory=MessagesInProgress)
    counted: Counted | None = None
    reads_input: bool = False
    """The client's lines are in the stream, so that the agent's repetitions of prompts are echoes."""
    prompted: bool = False
    """The newest turn was opened by its prompt; its `init` line is still to come."""
    control: ControlState = msgspec.field(default_factory=ControlState)


class StreamMessages(ClaudeMessages):
    """Recognises repeated prompts, and keeps failed results, whose denial may be stated later."""

    _state: ClaudeStreamState

    def _tool_result(self, block: Line, twin: Any, meta: Line) -> Skip:
        outcome = super()._tool_result(block, twin, meta)
        if outcome is None and block.get("is_error") is True:
            event = self._parser.items[-1]
            if isinstance(event, Produced) and event.kind == "tool-result" and event.fields.status == "failed":
                failure = Failure(event.id, text_of(block.get("content"))[:FAILURE_TEXT])
                put(self._state.control.failed, block["tool_use_id"], failure, FAILURES)
        return outcome

    def _is_echo(self, value: Line) -> bool:
        return value.get("isReplay") is True and self._state.reads_input


class ClaudeStream(Parser):
    dialect = "claude-stream"
    STATES_END = True
    protocol = default_provider = "claude"
    SKIPS = ClaudeMessages.SKIPS | {"control", "echo", "partial", "status", "subagent-result"}
    line = Lines("type", skip={"keep_alive": "keep-alive"}, reports=Reports.lines, tasks=Tasks.lines)
    system = Lines("subtype", reports=Reports.system, tasks=Tasks.system)
    state_type = ClaudeStreamState
    state: ClaudeStreamState
    MODE_KEY: ClassVar[str] = "permissionMode"
    VERSION_KEY: ClassVar[str] = "claude_code_version"
    """Key of the agent's version in the `init` line."""
    IDS_ARE_OF_API: ClassVar[bool] = True
    """Whether a whole message has the id that it has in the API's stream."""
    MESSAGES: ClassVar[type[StreamMessages]] = StreamMessages

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.deltas = Deltas(self, self.state.deltas)
        self.history = History(self, self.state.history)
        self.steps = UnstatedSteps(self, self.state.steps, self.history)
        self.reports = Reports(self)
        self.tasks = Tasks(self, self.state.tasks)
        self.messages = self.MESSAGES(self, self.state, self.deltas, self.tasks)

    def finish(self, reason: str) -> None:
        self.tasks.finish()
        if not self.state.turns:
            self.steps.emit_all()

    def before_turn_end(self) -> None:
        self.steps.emit_all()

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        kept = self.permissions.reply_to(request, needed=False)
        return to_agent.word_answer(request["permissionId"], kept, chosen, option)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads(session)
        return to_agent.word_prompt(session, text, id)

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self._check_reads(session)
        return to_agent.word_interrupt(id)

    def _check_reads(self, session: str) -> None:
        if not self.state.reads_input:
            raise CannotWriteError("the agent was not seen to read prompts: it does with --input-format stream-json")
        self.check_session(session, (self.state.session or "",))

    # -- lines ----------------------------------------------------------------------------------------------------

    def enter(self, value: Line) -> None:
        session = value.get("session_id")
        if session != self.state.session and session and type(session) is str and self.direction != "in":
            self.messages.enter_session(session)  # a client may send anything as it
        parent = value.get("parent_tool_use_id")
        self.messages.is_main = True
        if type(parent) is str:
            self.parent, self.agent = parent, string(value.get("agent_id")) or parent  # no agent ids before 2.1
            self.messages.is_main = self.agent == self.context.agent
        if "timestamp" in value:
            self.ts = milliseconds(value["timestamp"]) or self.ts
        if "historical" in value or self.state.history.is_open:
            self.history.mark(value.get("historical") is True)

    # -- session ------------------------------------------------------------------------------------------------

    @line("system")
    def _system(self, value: Line) -> Skip:
        return self.system.read(self, value)

    @system("init")
    def _init(self, value: Line) -> None:
        """Read an `init` line: the first one starts the session, and each one opens a turn."""
        state = self.state
        servers = records(value.get("mcp_servers"))
        fields: dict[str, Any] = {
            "cwd": string(value.get("cwd")),
            "model": string(value.get("model")),
            "mode": string(value.get(self.MODE_KEY)),
            "agent_version": string(value.get(self.VERSION_KEY)),
            "tools": _strings(value.get("tools")),
            "commands": _strings(value.get("slash_commands")),
            "mcp_servers": [{key: one[key] for key in ("name", "status") if key in one} for one in servers],
        }
        state.version = fields["agent_version"] or state.version
        if state.started != self.session:
            state.reported = {}
        self.messages.report_session(fields)
        if not state.prompted:
            self.start_turn()
        state.prompted = False

    @system("status")
    def _status(self, value: Line) -> Skip:
        if value.get("status") == "compacting" or "compact_result" in value:
            return self.reports.compacting(value)
        if isinstance(value.get("permissionMode"), str):
            return self.messages.update_session({"mode": value["permissionMode"]})
        return "status"

    @system("commands_changed")
    def _commands(self, value: Line) -> Skip:
        names = [name for one in records(value.get("commands")) if (name := string(one.get("name")))]
        return self.messages.update_session({"commands": names})

    # -- messages -----------------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        self.messages.ensure_main_turn()
        if self.IDS_ARE_OF_API and self.state.texts.open:
            self.deltas.replace(message_of(value))
        message = message_of(value)
        request = request_of(value)
        is_new = self.messages.is_new(string(message.get("id")), request)
        self.steps.count(message, request, is_new=is_new)
        outcome = self.messages.assistant_message(value, _titles(value) if "tool_use_meta" in value else {})
        if outcome is None:
            self.steps.note_written(message)
        return outcome

    @line("user")
    def _user(self, value: Line) -> Skip:
        message = message_of(value)
        if self.direction == "in":
            self.state.reads_input = True
            if self.turn is None:
                self.start_turn()
                self.state.prompted = True
        elif self._begins_turn(value):
            # Some harnesses put the prompt before what the agent printed.
            self.state.prompted |= self.state.started is None and bool(text_of(message.get("content")))
            self.start_turn(synthetic=True)
        metas = {}
        if "tool_result_meta" in value:
            metas = {str(meta.get("id")): {**meta, "headless": True} for meta in records(value["tool_result_meta"])}
        return self.messages.user_message(value, message, value.get("tool_use_result"), metas)

    def _begins_turn(self, value: Line) -> bool:
        """Whether an agent's user line is the first of a turn."""
        repeats = self.replay or value.get("isReplay") is True
        return not repeats and self.messages.is_main and self.turn is None

    @line("stream_event")
    def _stream_event(self, value: Line) -> Skip:
        return self.deltas.read(record(value.get("event")), value)

    # -- the end of a turn --------------------------------------------------------------------------------------

    @line("result")
    def _result(self, value: Line) -> Skip:
        if not self.messages.is_main:  # a subagent's
            for kind, fields in (usages := self._usages(value)):
                self.emit(kind, **fields)
            return None if usages else "subagent-result"
        corrected = self.steps.forget()
        self.ensure_turn()
        turn_id = self._ended_turn(value)
        notes = self.state.notes.pop(turn_id, TurnNotes())
        self.state.prompted = False
        state, reason = _outcome(value, interrupted=notes.interrupted)
        self.texts.flush_turn(self.session, turn_id)
        text = _last_text(value)
        if text and state == "failed" and not notes.error:
            self.emit(Notice, level="error", code="provider-error", text=text, turn=turn_id)
        elif text and state == "completed" and not notes.answered:
            # `--output-format json`, and commands that Claude Code answers by itself.
            role = "system" if "local_command" in value else "assistant"
            self.emit(Message, role=role, text=text, turn=turn_id)
        for denial in records(value.get("permission_denials")):
            self._denied({"tool_use_id": denial.get("tool_use_id")})
            self._correct(denial)
        self.state.control.failed.clear()
        duration = whole(value.get("duration_ms"))
        usages = self._usages(value)
        if corrected is not None and usages:
            usages[0][1]["replaces"] = corrected
        self.end_turn(state, turn_id=turn_id, reason=reason, duration_ms=duration, before=usages)
        return None

    def _correct(self, denial: Line) -> None:
        """Correct the result of a call that failed because it was denied; 2.0 states denials only at the end of the
        turn."""
        call_id = str(denial.get("tool_use_id"))
        failure = self.state.control.failed.get(call_id)
        if failure is not None:
            answer = Answer(None, "denied", failure.error)
            self.calls.correct(call_id, failure.event, answer, raw=denial)

    def _usages(self, value: Line) -> Usages:
        if not self.messages.is_main:
            return result_usage(value)
        since, counted = value.get(_SINCE), self.state.counted
        if type(since) is not dict:
            return result_usage(value, counter=counter_of(self.state.version))
        # From here on the totals are those of this process alone, whichever session or fork it began with.
        totals = model_usages(value.get("modelUsage"))
        if counted is None or counted.session != self.session or has_fallen(totals, counted.before):
            counted = self.state.counted = Counted(self.session, beyond(totals, model_usages(since)))
        return result_usage(value, counted.before, "process")

    def _ended_turn(self, value: Line) -> str:
        """The turn whose messages the result names (2.1), else the oldest."""
        turns = [turn.id for turn in self.state.turns if turn.session == self.session]
        begun = value.get("begun_message_ids")
        for message_id in begun if isinstance(begun, list) else []:
            seen = self.state.blocks.messages.get(str(message_id))
            if seen is not None and seen.turn in turns:
                return str(seen.turn)
        return turns[0]

    # -- the control protocol -----------------------------------------------------------------------------------

    @line("control_request")
    def _control_request(self, value: Line) -> Skip:
        request = record(value.get("request"))
        match request.get("subtype"):
            case "can_use_tool":
                self._can_use_tool(str(value.get("request_id")), request)
                return None
            case "interrupt":
                return self.messages.interrupted("interrupt requested")
            case "set_permission_mode":
                return self.messages.update_session({"mode": string(request.get("mode"))})
            case "set_model":
                return self.messages.update_session({"model": string(request.get("model"))})
            case _:
                return "control"

    @line("control_response")
    def _control_response(self, value: Line) -> Skip:
        response = record(value.get("response"))
        request_id = str(response.get("request_id"))
        if response.get("subtype") == "error" and self.permissions.is_pending(request_id):
            self.permissions.answer(request_id, "cancelled", by="user", message=string(response.get("error")))
            return None
        answer = record(response.get("response"))
        if "commands" in answer:  # of `initialize`
            commands = [str(command.get("name")) for command in records(answer["commands"])]
            return self.messages.update_session(
                {"commands": commands, "mode": string(answer.get("current_permission_mode"))}
            )
        if answer.get("behavior") in ("allow", "deny"):
            return self._permission_answer(request_id, answer)
        return "control"

    @line("control_cancel_request")
    def _control_cancel(self, value: Line) -> Skip:
        request_id = str(value.get("request_id"))
        if not self.permissions.is_pending(request_id):
            return "control"
        self.permissions.answer(request_id, "cancelled", by="agent")
        return None

    @system("permission_denied")
    def _denied(self, value: Line) -> Skip:
        """A policy denied a call; often stated twice."""
        call_id = str(value.get("tool_use_id"))
        if call_id in self.state.control.denied:
            return "repeated"
        self._remember_denial(call_id)
        message = string(value.get("message"))
        self.permissions.answer(call_id, "denied", call_id=call_id, by="policy", message=message)
        return None

    def _remember_denial(self, call_id: str) -> None:
        denied = self.state.control.denied
        denied.append(call_id)
        del denied[:-DENIALS]

    def _can_use_tool(self, request_id: str, request: Line) -> None:
        """Read a permission request. It may precede the block of its call."""
        call_id, raw_name, given = request.get("tool_use_id"), str(request.get("tool_name")), request.get("input")
        call = None
        if isinstance(call_id, str) and not self.calls.repeats(call_id, raw_name, given):
            call = self.calls.get(call_id) or self.calls.open(call_id, raw_name, given, raw=request)
            self.calls.remember(call, {**call.memory, "asked": _digest(given)})
        questions = records(record(given).get("questions")) if raw_name == _QUESTIONS else None
        suggestions = suggestions_of(request)
        kept: dict[str, Any] = {"input": given}
        if questions is None:
            kept["suggestions"] = {option_id: one for option_id, (one, _) in suggestions.items()}
        self.permissions.ask(
            request_id,
            call_id=call.id if call is not None else None,
            name=call.name if call is not None else raw_name,
            type="permission" if questions is None else "question",
            title=string(request.get("title")) or string(request.get("description")),
            input=tool_input(call.name, given, raw_name) if call is not None and questions is None else None,
            options=options_of(suggestions) if questions is None else None,
            questions=with_free_text(questions),
            reply_to=kept,
        )

    def _permission_answer(self, request_id: str, answer: Line) -> Skip:
        if not self.permissions.is_pending(request_id):
            return "echo"
        call_id = self.permissions.call_of(request_id)
        call = self.calls.get(call_id) if call_id is not None else None
        given, suggestions = answer.get("updatedInput"), self.permissions.kept(request_id).get("suggestions")
        option_id = None if suggestions is None else option_of(answer, suggestions)
        if answer["behavior"] == "deny":
            if call_id is not None:
                self._remember_denial(call_id)
            message = string(answer.get("message"))
            self.permissions.answer(request_id, "denied", by="user", option_id=option_id, message=message)
        elif call is not None and call.raw_name == _QUESTIONS:
            self.permissions.answer(request_id, "answered", by="user", answers=record(record(given).get("answers")))
        else:
            self.permissions.answer(request_id, "allowed", by="user", option_id=option_id)
            if call is not None and given is not None and _digest(given) != call.memory.get("asked"):
                self.calls.update(call, given, raw=answer)
        return None


def _titles(value: Line) -> dict[str, str]:
    """Call id -> title for users."""
    titles: dict[str, str] = {}
    for meta in records(value.get("tool_use_meta")):
        if type(title := meta.get("display_name")) is str:
            titles[str(meta.get("id"))] = title
    return titles


def _strings(value: Any) -> list[str] | None:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else None


def _digest(value: Any) -> int:
    return zlib.crc32(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def _outcome(value: Line, *, interrupted: bool) -> tuple[str, str | None]:
    """(state of the turn, the provider's reason). A failed request is subtype `success` with `is_error` (2.1.330)."""
    subtype, terminal = string(value.get("subtype")), string(value.get("terminal_reason"))
    stop = string(value.get("stop_reason"))
    failed = value.get("is_error") is True or (subtype != "success" and (subtype is not None or value.get("error")))
    state = "failed" if failed else "completed"
    if interrupted or str(terminal).startswith("aborted"):
        state = "cancelled"
    if subtype is not None and subtype not in _VAGUE:
        return state, subtype
    if terminal not in (None, "completed"):
        return state, terminal
    return state, stop if state == "completed" and stop is not None else subtype


def _last_text(value: Line) -> str:
    """Text of the result itself: the turn's answer, or an error message."""
    result = string(value.get("result"))
    if result and result.strip():
        return result
    errors, error = value.get("errors"), value.get("error")
    texts = [*(errors if isinstance(errors, list) else []), record(error).get("message", error)]
    return "\n".join(text for text in texts if isinstance(text, str))
