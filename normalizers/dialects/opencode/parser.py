"""Parsers of OpenCode's three formats: the output of `opencode run`, its server's event stream, and its database."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

from tooltap.normalizers.core.answers import Chosen
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, keep_newest
from tooltap.normalizers.dialects.opencode import to_agent
from tooltap.normalizers.dialects.opencode.answers import todos_digest
from tooltap.normalizers.dialects.opencode.client import OpencodeClient, method_and_path
from tooltap.normalizers.dialects.opencode.messages import OpencodeRows
from tooltap.normalizers.dialects.opencode.parts import (
    CONTINUES,
    BusState,
    OpencodePart,
    OpencodeParts,
    OpencodeSessions,
    OpencodeState,
    model_name,
    outcome_of,
    read_error,
    read_usage,
)
from tooltap.normalizers.wire.decode import FRAMING
from tooltap.normalizers.wire.values import first_string, record, whole
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import OutputRef, SessionEvent, Usage


class OpencodeRun(Parser):
    """The `opencode-run` dialect: `opencode run --format json`.

    Learned from OpenCode 1.18.33, and older streams (1.0). Each line is a finished part of a message; calls come with
    their results. There are no prompts, and no line states that the run is over: a turn ends with the step whose reason
    is not that tools were called. After a denial or an interrupt the stream just stops.
    """

    dialect = "opencode-run"
    STATES_END = True
    SKIPS = frozenset({"empty", "partial", "repeated", "step", "unchanged"})
    protocol = default_provider = "opencode"
    line = Lines("type")
    state_type = OpencodeState
    state: OpencodeState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.parts = OpencodeParts(self, self.state)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.parts.running.take(call)

    def enter(self, value: Line) -> None:
        if self.line.knows(value.get("type")):
            self.ts = whole(value.get("timestamp")) or self.ts
            if (session := first_string(value, "sessionID")) is not None:
                self.set_session(session)

    @line("text", "reasoning")
    def _text(self, value: Line) -> Skip:
        part = record(value.get("part"))
        if not isinstance(part.get("text"), str):
            return self.unparsed("unknown-type", value)
        return self.parts.read_whole(part, "reasoning" if value["type"] == "reasoning" else "assistant")

    @line("tool_use")
    def _tool_use(self, value: Line) -> Skip:
        return self.parts.read_tool(record(value.get("part")))

    @line("step_start")
    def _step_start(self, value: Line) -> Skip:
        return self.parts.read_step_start()

    @line("step_finish")
    def _step_finish(self, value: Line) -> Skip:
        self.ensure_turn()
        part = record(value.get("part"))
        used, reason = read_usage(part), first_string(part, "reason")
        usage = {"scope": "step", **(used or {}), "request": first_string(part, "id")}
        if reason not in CONTINUES:
            before = ((Usage, usage),) if used is not None else ()
            self.end_turn(outcome_of(reason), reason=reason, ended_by="answer", before=before)
        elif used is None:
            return "step"
        else:
            self.emit(Usage, **usage)
        return None

    @line("error")
    def _error(self, value: Line) -> None:
        """Read an error, which ends the run; a second error only becomes a notice."""
        if self.state.turn_count == 0:
            self.ensure_turn()
        outcome, reason = self.parts.report_error(record(value.get("error")))
        if self.turn is not None:
            self.end_turn(outcome, reason=reason)

    @line("done")
    def _done(self, value: Line) -> Skip:
        """Later than 1.18.33: the session is idle."""
        if self.turn is None:
            return "step"
        self.end_turn("completed", reason=first_string(value, "reason"))
        return None


# -- events of the server and of the database ---------------------------------------------------------------------

_SKIPPED = {
    subject: reason
    for reason, *subjects in (
        ("client", "tui"),
        ("connection", "global", "server"),
        ("environment", "account", "catalog", "ide", "installation", "integration", "lsp", "models-dev", "plugin"),
        ("environment", "project", "reference", "vcs", "workspace", "worktree"),
        ("files", "file"),
        ("request", "command"),
        ("terminal", "pty"),
    )
    for subject in subjects
}
"""First word of an event's type -> why such events are skipped."""

_SKIPPED_PARTS = {
    **dict.fromkeys(("agent", "subtask"), "prompt-context"),
    **dict.fromkeys(("patch", "snapshot"), "snapshot"),
}
_REASONS = ("answer", "echo", "empty", "message", "partial", "repeated", "status", "step", "subagent", "unchanged")
_VERSION = re.compile(r"\.\d+$")


class OpencodeBus(Parser):
    """The `opencode-bus` dialect: OpenCode's `/event` stream, with or without the client's requests.

    Learned from OpenCode 1.18.33, and streams of 1.1. Every line is `{id, type, properties}`; the stream of all
    projects wraps it in `{directory, project, payload}`, where durable events come a second time in a `sync` envelope.
    Messages and their parts are sent again whenever they change, and again when a turn is over.
    """

    dialect = "opencode-bus"
    STATES_END = True
    SKIPS = frozenset({*_SKIPPED.values(), *_REASONS, FRAMING})
    protocol = default_provider = "opencode"
    line = Lines("type", skip={"server.heartbeat": "heartbeat"}, client=OpencodeClient.line)
    part = Lines("type", skip=_SKIPPED_PARTS)
    state_type = BusState
    state: BusState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.parts = OpencodeParts(self, self.state)
        self.sessions = OpencodeSessions(self, self.state)
        self.client = OpencodeClient(self, self.state, self.sessions)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.parts.running.take(call)

    def before_turn_end(self) -> None:
        self.sessions.emit_diff()

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        kept = self.permissions.reply_to(request)
        if "questions" in kept:
            return to_agent.word_question(request["permissionId"], kept, chosen)
        return to_agent.word_permission(request["permissionId"], kept, chosen, option)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.sessions)
        return to_agent.word_prompt(session, text, id)

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.sessions)
        return to_agent.word_abort(session, id)

    # -- lines ----------------------------------------------------------------------------------------------------

    def read(self, value: Line) -> Skip:
        direction = self.direction
        if direction == "reply":
            return self.client.read_reply(value)
        if direction == "in" or (direction is None and method_and_path(value) is not None):
            return self.client.read_request(value)
        event = _unwrapped(value) if "payload" in value or "syncEvent" in value else value
        kind, properties = str(event.get("type")), record(event.get("properties"))
        if not self.line.knows(kind):
            subject, dot, _ = kind.partition(".")
            return _SKIPPED.get(subject if dot else "") or self.unparsed("unknown-type", value)
        info = record(properties.get("info"))
        self.ts = _time(properties, info) or self.ts
        if "parentID" in info:
            self.sessions.adopt(info)
        session = properties.get("sessionID")
        self.sessions.enter(session if session and type(session) is str else _session(kind, properties, info))
        return self.line.read(self, properties, kind=kind)

    def read_other(self, value: Any, line: bytes, t: int | None) -> Skip:
        """Read a value that is no object: replies may be `true` or `null`."""
        return self.client.read_reply(value) if self.direction == "reply" else super().read_other(value, line, t)

    # -- sessions -------------------------------------------------------------------------------------------------

    @line("session.created")
    def _created(self, properties: Line) -> Skip:
        return self.sessions.describe(record(properties.get("info")), starts=not self.sessions.info.started)

    @line("session.updated")
    def _updated(self, properties: Line) -> Skip:
        return self.sessions.describe(record(properties.get("info")), starts=False)

    @line("session.deleted")
    def _deleted(self, properties: Line) -> Skip:
        if self.agent is not None:
            return "subagent"
        self.emit(SessionEvent, state="ended")
        return None

    @line("session.compacted")
    def _compacted(self, properties: Line) -> None:
        self.notice("compaction", "session.compacted")

    @line("mcp.tools.changed")
    def _mcp_server(self, properties: Line) -> Skip:
        """Read that the tools of an MCP server changed, and thereby its name."""
        if (server := first_string(properties, "server")) is not None:
            self.sessions.knows_servers([server])
        return "environment"

    @line("mcp.browser.open.failed")
    def _mcp_failed(self, properties: Line) -> None:
        name = first_string(properties, "mcpName") or "MCP server"
        self.notice("mcp-startup", f"{name}: no browser to log in", "warning", properties)

    # -- turns ----------------------------------------------------------------------------------------------------

    @line("session.status")
    def _status(self, properties: Line) -> Skip:
        status = record(properties.get("status"))
        kind = status.get("type")
        if kind == "retry":
            return self._report_retry(whole(status.get("attempt")), first_string(status, "message"), status)
        return self._idle(properties) if kind == "idle" else "status"

    @line("session.idle")
    def _idle(self, properties: Line) -> Skip:
        """Read that the session has finished all its work, which two events state."""
        if self.agent is not None or self.turn is None:
            return "status"
        info = self.sessions.info
        outcome, reason = info.outcome or (outcome_of(info.step_reason), info.step_reason)
        while self.turn is not None:
            self.end_turn(outcome, reason=reason)
        info.outcome, info.step_reason, info.retry = [], None, 0
        return None

    def finish(self, reason: str) -> None:
        """End the turn whose outcome was stated, though its end was not."""
        info = self.sessions.info
        if info.outcome and self.turn is not None:
            self.end_turn(info.outcome[0], reason=info.outcome[1], ended_by="eof")

    @line("session.error")
    def _error(self, owner: Line) -> Skip:
        """Read an error of the session. A message repeats it; if it is a stop, the client's request for it may have
        been read already."""
        info, error = self.sessions.info, record(owner.get("error"))
        if info.outcome and (info.outcome[0] == "cancelled" or info.outcome[1] == error.get("name")):
            return "repeated"
        info.outcome = list(self.parts.report_error(error))
        return None

    # -- messages -------------------------------------------------------------------------------------------------

    @line("message.updated")
    def _message(self, properties: Line) -> Skip:
        message = record(properties.get("info"))
        message_id, role = message.get("id"), message.get("role")
        if not message_id or not role or type(message_id) is not str or type(role) is not str:
            return self.unparsed("unknown-type", properties)
        known = self.parts.message(message_id)
        known.role, known.model = role, model_name(message) or known.model
        known.copied = self.sessions.is_copied(message)
        info = self.sessions.info
        if "path" in message:
            info.cwd = first_string(record(message["path"]), "cwd") or info.cwd
        self.state.cwd = info.cwd
        if known.copied:
            return "message"
        if isinstance(message.get("error"), dict) and self.turn is not None:
            return self._error(message)
        summary = message.get("summary")
        diffs = summary.get("diffs") if type(summary) is dict else None
        return self.sessions.show_diff(diffs) if type(diffs) is list else "message"

    @line("message.removed", "message.part.removed")
    def _removed(self, properties: Line) -> Skip:
        if self.sessions.repeats(f"removed {first_string(properties, 'partID', 'messageID')}"):
            return "repeated"
        data = {key: properties[key] for key in ("messageID", "partID") if key in properties}
        self.notice("rewound", "removed", data=data)
        return None

    @line("session.diff")
    def _session_diff(self, properties: Line) -> Skip:
        """Read the session's diff. It is empty although there are changes (1.18.33); the summary of the prompt lists
        those."""
        diff = properties.get("diff")
        return self.sessions.show_diff(diff) if isinstance(diff, list) and diff else "unchanged"

    # -- parts of messages ----------------------------------------------------------------------------------------

    @line("message.part.updated")
    def _part(self, properties: Line) -> Skip:
        """Read the current version of a part."""
        part = record(properties.get("part"))
        message = self.state.messages.get(first_string(part, "messageID") or "")
        self.replay = message is not None and message.copied
        return self.part.read(self, part, line=properties)

    @line("message.part.delta")
    def _delta(self, properties: Line) -> Skip:
        part_id, text = first_string(properties, "partID"), properties.get("delta")
        if part_id is None or not isinstance(text, str) or properties.get("field", "text") != "text":
            return "partial"
        message_id = first_string(properties, "messageID")
        info = self.parts.open_part(part_id, message_id)
        if info is None:
            return "repeated"
        self._receive(part_id, message_id, info, text, has_end=True)
        return "partial"

    @part("text", text=str)
    def _text(self, part: Line) -> Skip:
        if self._role(part) == "user":
            return self._prompt(part)
        return "prompt-context" if _is_context(part) else self._model_text(part, "assistant")

    @part("reasoning", text=str)
    def _model_text(self, part: Line, role: str = "reasoning") -> Skip:
        """Read the current version of a text or reasoning. A part with a time will state its end later."""
        has_end = isinstance(part.get("time"), dict)
        if has_end and whole(part["time"].get("end")) is not None:
            return self.parts.read_whole(part, role)
        part_id, message_id = first_string(part, "id") or "", first_string(part, "messageID")
        info = self.parts.open_part(part_id, message_id)
        if info is None:
            return "repeated"
        info.role = role
        if new := part["text"][info.received :]:
            self._receive(part_id, message_id, info, new, has_end)
        elif not has_end:
            return "repeated"
        return "partial" if has_end else None

    def _receive(self, part_id: str, message_id: str | None, info: OpencodePart, text: str, has_end: bool) -> None:
        receiving = self.state.receiving
        self.ensure_turn()
        receiving[part_id] = self.agent
        keep_newest(receiving, self.context.limits.open_texts)
        info.received += len(text)
        info.digest = crc32(text.encode(), info.digest)
        self.texts.append(info.role, text, message_id=message_id, block=info.block, key=part_id, preview=has_end)

    def _end_blocks(self) -> None:
        """Emit the text received so far: the agent continues with something else."""
        receiving = self.state.receiving
        for part_id, agent in list(receiving.items()):
            if agent != self.agent:
                continue
            del receiving[part_id]
            if (info := self.state.parts.get(part_id)) is not None:
                info.emitted, info.emitted_digest = info.received, info.digest
            self.texts.flush(part_id, complete=True)

    @part("file")
    def _file(self, part: Line) -> Skip:
        return self._prompt(part) if self._role(part) == "user" else self.parts.read_file(part, "assistant")

    def _role(self, part: Line) -> str:
        """Return the role of a part's author. If the message was not seen, a part without times is a prompt's."""
        message_id = first_string(part, "messageID")
        role = self.parts.message(message_id).role if message_id is not None else None
        return role or ("assistant" if "time" in part else "user")

    def _prompt(self, part: Line) -> Skip:
        """A part of a user's message. The first one begins a turn, unless the request that sent it was seen."""
        if _is_context(part):
            return "prompt-context"
        message = self.parts.message(first_string(part, "messageID") or "")
        if message.echo is None and not message.copied:
            info = self.sessions.info
            message.echo = info.prompts > 0
            if message.echo:
                info.prompts -= 1
            else:
                self.sessions.begin_prompted_turn()
        if message.echo:
            return "echo"
        return (
            self.parts.read_whole(part, "user")
            if isinstance(part.get("text"), str)
            else self.parts.read_file(part, "user")
        )

    @part("step-start")
    def _step_start(self, part: Line) -> Skip:
        return self.parts.read_step_start()

    @part("step-finish")
    def _step_finish(self, part: Line) -> Skip:
        if self.sessions.repeats(first_string(part, "id")):
            return "repeated"
        if not self.replay:
            self.sessions.info.step_reason = first_string(part, "reason")
        tokens = record(part.get("tokens"))
        has_total = whole(tokens.get("total")) is not None
        used = read_usage(part, apart=self.state.reasoning_apart and not has_total)
        if used is None:
            return "step"
        if has_total and used["reasoning_tokens"]:
            self.state.reasoning_apart = used["output_tokens"] != whole(tokens.get("output"))
        writer = self.state.messages.get(first_string(part, "messageID") or "")
        self.sessions.count_step(used)
        model = None if writer is None else writer.model
        self.emit(Usage, scope="step", **used, model=model, request=first_string(part, "id"))
        return None

    @part("compaction")
    def _summed_up(self, part: Line) -> Skip:
        """Read the prompt to sum up the history. On the bus, an event says so as well."""
        return "prompt-context"

    @part("retry")
    def _retry(self, part: Line) -> Skip:
        text, data = read_error(record(part.get("error")))
        return self._report_retry(whole(part.get("attempt")), text, data)

    def _report_retry(self, attempt: int | None, text: str | None, data: Line) -> Skip:
        """Emit that a request to the model will be retried. The session and a part both report it."""
        info = self.sessions.info
        if attempt is not None and attempt == info.retry:
            return "repeated"
        info.retry = attempt or 0
        self._discard_half_answer()
        self.notice("retry", text or "retry", "warning", data)
        return None

    def _discard_half_answer(self) -> None:
        """Drop the part of an answer received so far, because the model is asked again."""
        for part_id, agent in list(self.state.receiving.items()):
            if agent == self.agent:
                del self.state.receiving[part_id]
                self.texts.drop(part_id)
                if (info := self.state.parts.get(part_id)) is not None:
                    info.received = info.digest = 0

    @part("tool")
    def _tool(self, part: Line) -> Skip:
        calls, call_id, state = self.calls, first_string(part, "callID"), record(part.get("state"))
        if call_id is not None and not calls.is_known(call_id):
            self._end_blocks()
        skip = self.parts.read_tool(part)
        name = calls.name_of(call_id) if call_id is not None and not self.replay else None
        if call_id is not None and name == "Task":
            if child := first_string(record(state.get("metadata")), "sessionId"):
                self.sessions.spawned(call_id, child)
        elif name == "TodoWrite":
            self.sessions.info.todos = todos_digest(record(state.get("input")).get("todos"))
        return skip

    @line("todo.updated", todos=list)
    def _todos(self, properties: Line) -> Skip:
        """Read the whole to-do list. It is emitted only if no call has shown it."""
        todos, info = properties["todos"], self.sessions.info
        digest = todos_digest(todos)
        if digest == info.todos:
            return "unchanged"
        info.todos = digest
        if self._is_writing_todos():
            return "unchanged"
        self.ensure_turn()
        self._end_blocks()
        call_id, value = self.sessions.synthetic_id("plan"), {"todos": todos}
        self.calls.open(call_id, "todo", value, raw=properties, name="TodoWrite", synthetic=True)
        return self.calls.answer(call_id, Answer(value), raw=properties, synthetic=True)

    def _is_writing_todos(self) -> bool:
        """Return whether a call that writes this list is open: the list may precede the call's own input."""
        scope = self.session, self.agent
        calls = self.state.calls.open.values()
        return any(call.name == "TodoWrite" and (call.session, call.agent) == scope for call in calls)


def _unwrapped(value: Line) -> Line:
    """The event itself, out of the envelopes of the stream of all projects."""
    if isinstance(value.get("payload"), dict) and "type" not in value:
        value = value["payload"]
    inner = value.get("syncEvent")
    if value.get("type") != "sync" or not isinstance(inner, dict):
        return value
    return {"type": _VERSION.sub("", str(inner.get("type"))), "properties": inner.get("data")}


def _session(kind: str, properties: Line, info: Line) -> str | None:
    """The session of an event whose properties do not state it."""
    session = first_string(info, "sessionID") or first_string(record(properties.get("part")), "sessionID")
    return session or (first_string(info, "id") if kind.startswith("session.") else None)


def _time(properties: Line, info: Line) -> int | None:
    """Return the event's time: that of its part, else the latest time in its session or message."""
    latest = whole(properties.get("time"))
    if not latest and type(times := info.get("time")) is dict:
        latest = None
        for moment in times.values():
            if whole(moment) is not None and (latest is None or moment > latest):
                latest = moment
    return latest


def _is_context(part: Line) -> bool:
    """Whether OpenCode added the part to a message."""
    return part.get("synthetic") is True or part.get("ignored") is True


class OpencodeDb(OpencodeBus):
    """The `opencode-db` dialect: the rows of the table `event` in OpenCode's database, which are durable events of its
    bus; and those of OpenCode 2 (`messages.py`).

    Learned from OpenCode 1.18.33. Unlike the bus, the table has no deltas, permissions, questions and ends of turns. A
    turn ends with the main agent's first finished message that calls no tools.
    """

    dialect = "opencode-db"
    STATES_TIMES = True
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt
    line = OpencodeBus.line.copy()
    row = Lines("type", rows=OpencodeRows.line)

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.rows = OpencodeRows(self, self.state, self.parts, self.sessions)

    def read(self, value: Line) -> Skip:
        kind, data = value.get("type"), value.get("data")
        if type(kind) is not str or type(data) is not dict:
            return self.unparsed("unknown-type", value)
        if self.row.knows(kind):
            return self.rows.read(value, data, self.row)
        if "forked_from" in value:
            data = {**data, "forkedFrom": value["forked_from"]}
        return super().read({"type": _VERSION.sub("", kind), "properties": data})

    @line("message.updated")
    def _message(self, properties: Line) -> Skip:
        skip = super()._message(properties)
        message = record(properties.get("info"))
        if (origin := first_string(properties, "forkedFrom")) is not None:
            self.emit(SessionEvent, state="updated", forked_from=origin)
            return None
        if self.sessions.is_copied(message):
            return skip
        finish = first_string(message, "finish")
        is_complete = whole(record(message.get("time")).get("completed")) is not None
        is_last = finish not in CONTINUES or (finish is None and "error" in message)
        if self.agent is not None or self.turn is None or message.get("role") != "assistant":
            return skip
        if not is_complete or not is_last:
            return skip
        info = self.sessions.info
        outcome, reason = info.outcome or (outcome_of(finish), finish)
        self.end_turn(outcome, reason=reason, ended_by="answer")
        info.outcome, info.step_reason, info.retry = [], None, 0
        return None

    def _summed_up(self, part: Line) -> Skip:
        if self.sessions.repeats(first_string(part, "id")):
            return "repeated"
        self.notice("compaction", "session.compacted")
        return None
