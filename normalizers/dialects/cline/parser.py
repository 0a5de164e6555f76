"""Parsers of Cline's two formats: the output of `cline --json`, and the documents of its sessions."""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, OpenCall, SessionState, State, make_room
from tooltap.normalizers.core.texts import LiveOutput, LiveOutputState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import error_words, stated_status, status_in_words, status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json
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
from tooltap.protocol.events import Message, OutputRef, SessionEvent, Usage

MANY_AGENTS = 1_024
MATCHED = 1_000
"""Characters of a subagent's last words by which the result of the call that spawned it is recognised."""

_OUTCOMES = {"completed": "completed", "cancelled": "cancelled", "interrupted": "cancelled"}
"""Status that the reason of the end names -> outcome of the turn; every other reason is a failure."""

_TEXTS = {"text": "assistant", "reasoning": "reasoning"}
_LEVELS = {"recovery": "warning", "stop": "warning"}


_COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_PLACES = 10
"""Decimal places of a difference of costs, in dollars."""


class ClineState(SessionState, kw_only=True):
    root: str | None = None
    """The main agent."""
    spawned: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it, if that is known."""
    active: list[str] = msgspec.field(default_factory=list)
    """Subagents that have started and not ended, by the hooks."""
    ended: list[str] = msgspec.field(default_factory=list)
    """Subagents that have ended, whose `done` may follow."""
    finished: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Subagent that has ended, of which the call that spawned it is not known -> beginning of its last words, once
    `done` states them."""
    calling: list[str | None] = msgspec.field(default_factory=list)
    """Agents of the `tool_call` hooks whose calls have not begun: None for the main agent, empty if undecided."""
    answering: list[str | None] = msgspec.field(default_factory=list)
    """Likewise, of the `tool_result` hooks whose calls have not ended."""
    is_root_ended: bool = False
    writing: str | None = None
    """The kind of text that is being received."""
    emitted_kinds: list[str] = msgspec.field(default_factory=list)
    """Kinds of text that were emitted when another began, before their own end came."""
    model: str | None = None
    outcome: str | None = None
    """The stated outcome of the turn, kept until `run_result` adds model and duration."""
    reason: str | None = None
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    used: dict[str, int | float] = msgspec.field(default_factory=dict)
    """Sum of the usage of all requests since the agent started."""
    earlier: dict[str, int | float] | None = None
    """The part of the session's total that was used before, once a total was stated."""
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)


class ClineJson(Parser):
    """The `cline-json` dialect: `cline --json`.

    Learned from Cline 3.0.65. `agent_event` lines hold one content at a time (text, reasoning, a tool); `hook_event`
    lines name the session and its agents. Events name no agent: theirs is the one that the hooks before them leave.
    While several subagents run, only a call is theirs whose hooks name one agent alone. Their last words, which are the
    result of the call that spawned them, show which call that was. Everything else counts as the main agent's. The
    prompt is not on the wire. A run ends three times: with the `agent_end` hook, `done`, and `run_result`; only the
    last has the model and the duration. With several subagents some `done` are missing.
    """

    dialect = "cline-json"
    STATES_END = True
    protocol = default_provider = "cline"
    SKIPS = frozenset({"empty", "hook", "partial", "repeated", "unchanged"})
    line = Lines("type")
    event = Lines("type", skip={"iteration_end": "step"})
    state_type = ClineState
    state: ClineState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.running = LiveOutput(self, self.state.running)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.running.take(call)

    def read(self, value: Line) -> Skip:
        if "ts" in value:
            self.ts = milliseconds(value["ts"]) or self.ts
        return self.line.read(self, value)

    @line("agent_event")
    def _agent_event(self, value: Line) -> Skip:
        event = record(value.get("event"))
        if "agentId" in event:
            self._enter_agent(event)
        else:
            self._infer_agent(event)
        return self.event.read(self, event, line=value)

    def _enter_agent(self, value: Line) -> None:
        """Set the line's agent. An agent with a parent is a subagent, and so is one that starts while another's turn is
        open."""
        agent, state = value.get("agentId"), self.state
        if not isinstance(agent, str):
            return
        is_other = state.root is not None and agent != state.root and self.turn is not None
        if isinstance(value.get("parentAgentId"), str) or is_other:
            if agent not in state.spawned:
                self._learn_spawner(agent, string(value.get("parentAgentId")))
            self.agent, self.parent = agent, state.spawned.get(agent)

    def _infer_agent(self, event: Line) -> None:
        """Set the agent of an event that names none."""
        state, kind, is_tool = self.state, event.get("type"), event.get("contentType") == "tool"
        candidates: set[str | None] = set(state.active)
        if kind == "content_start" and is_tool:
            candidates = set(state.calling)
            state.calling = ["" if len(candidates) > 1 else agent for agent in state.calling[1:]]
        elif kind == "content_end" and is_tool:
            candidates = set(state.answering)
            state.answering = ["" if len(candidates) > 1 else agent for agent in state.answering[1:]]
        elif is_tool:  # the call knows its agent
            return
        elif kind == "done":
            candidates = set(state.ended)
        agent = candidates.pop() if len(candidates) == 1 else None
        if agent:
            self.agent, self.parent = agent, state.spawned.get(agent)

    def _learn_spawner(self, agent: str, parent: str | None) -> None:
        """Remember the call that spawned an agent. No line states it, so it is known only if there is exactly one
        candidate."""
        state = self.state
        known = set(state.spawned.values())
        owner = parent if parent in state.spawned else None
        calls = [call for call in state.calls.open.values() if call.name == "Task" and call.agent == owner]
        calls = [call for call in calls if (call.wire_id or call.id) not in known]
        make_room(state.spawned, MANY_AGENTS)
        state.spawned[agent] = (calls[0].wire_id or calls[0].id) if len(calls) == 1 else None

    # -- session and turns --------------------------------------------------------------------------------------

    @line("hook_event")
    def _hook(self, value: Line) -> Skip:
        self._enter_agent(value)
        name = value.get("hookEventName")
        self._follow_agents(name)
        if self.agent is not None:  # its task is another, but the session is its parent's
            return "hook"
        if session := string(value.get("taskId")):
            self.set_session(session)
        if name == "agent_error":
            self.state.outcome = self.state.outcome or "failed"
        if name != "agent_start":
            return None if self.items else "hook"
        self._finish_turn()
        self.state.root, self.state.spawned = string(value.get("agentId")), {}
        self.state.active, self.state.ended, self.state.is_root_ended = [], [], False
        self.state.calling, self.state.answering = [], []
        self.state.used, self.state.earlier, self.state.finished = {}, None, {}
        self.begin_session(None)
        self.start_turn()
        return None

    def _follow_agents(self, hook: Any) -> None:
        """Remember which agents are active, and which of them call tools and get results."""
        state, agent = self.state, self.agent
        if hook == "tool_result" and len(state.answering) < MANY_AGENTS:
            state.answering.append(agent)
        if hook == "tool_call":
            if len(state.calling) < MANY_AGENTS:
                state.calling.append(agent)
        elif agent is None:
            state.ended.clear()
            state.is_root_ended = hook == "agent_end"
        elif hook == "agent_start" and agent not in state.active:
            if len(state.active) < MANY_AGENTS:
                state.active.append(agent)
        elif hook == "agent_end" and agent in state.active:
            state.active.remove(agent)
            state.ended.append(agent)
            if state.spawned.get(agent) is None:
                make_room(state.finished, MANY_AGENTS)
                state.finished[agent] = None

    @event("iteration_start")
    def _step_start(self, event: Line) -> Skip:
        self.state.emitted_kinds.clear()
        return "step"

    @event("done")
    def _done(self, event: Line) -> None:
        self.ensure_turn()
        reason = string(event.get("reason"))
        outcome = _outcome(reason)
        if outcome == "failed" and (words := string(event.get("text"))):
            self.notice("provider-error", words, "error")
        if self.agent in self.state.finished:
            self.state.finished[self.agent] = (string(event.get("text")) or "")[:MATCHED]
        is_of_turn = self.state.is_root_ended or not self.state.spawned or "agentId" in event
        if self.agent is None and is_of_turn:
            self.state.outcome, self.state.reason = outcome, reason
            self.state.usage = _tokens(record(event.get("usage")), "totalCost")

    @line("run_result")
    def _run_result(self, value: Line) -> None:
        self.uses_model(string(record(value.get("model")).get("id")))
        if self.state.outcome is None:
            self.state.reason = string(value.get("finishReason"))
            self.state.outcome = _outcome(self.state.reason)
        self.state.usage = self.state.usage or _tokens(record(value.get("usage")), "totalCost")
        self._finish_turn(whole(value.get("durationMs")))
        if total := _tokens(record(value.get("aggregateUsage")), "totalCost"):
            self._total(total)

    def _total(self, total: dict[str, Any]) -> None:
        """Emit the total since the agent started. The stated one may include what the session used before: that is
        what it exceeds the usage of the requests by."""
        state = self.state
        stated = {field: figure for field, figure in total.items() if figure is not None}
        if state.earlier is None and not state.used:
            self.emit(Usage, scope="session", **total)
            return
        if state.earlier is None:
            state.earlier = {field: max(0, figure - state.used.get(field, 0)) for field, figure in stated.items()}
        since_start = {field: max(0, figure - state.earlier.get(field, 0)) for field, figure in stated.items()}
        cost = since_start.pop("cost_usd", None)
        self.emit(
            Usage,
            scope="session",
            counter="process",
            cost_usd=None if cost is None else round(cost, _PLACES),
            **since_start,
        )

    def _finish_turn(self, duration_ms: int | None = None) -> None:
        """End the turn with the stated outcome, or, if none was stated, as at the end of a stream."""
        state = self.state
        outcome, reason, usage = state.outcome, state.reason, state.usage
        state.outcome, state.reason, state.usage = None, None, {}
        if outcome is None:
            self.give_up_turns()
        elif self.turn is not None:
            before = ((Usage, {"scope": "turn", **usage}),) if usage else ()
            self.end_turn(outcome, reason=reason, duration_ms=duration_ms, before=before)

    def finish(self, reason: str) -> None:
        if self.state.outcome is not None:
            self._finish_turn()

    @event("usage")
    def _usage(self, event: Line) -> Skip:
        used = _tokens(event, "cost")
        if not used:
            return "empty"
        self.ensure_turn()
        for field, figure in used.items() if self.agent is None else ():
            self.state.used[field] = self.state.used.get(field, 0) + (figure or 0)
        self.emit(Usage, scope="step", **used)
        return None

    @line("error")
    @event("error")
    def _error(self, event: Line) -> None:
        error = event.get("error")
        words = string(error) or string(record(error).get("message")) or string(event.get("message"))
        self.notice("provider-error", words, "warning" if event.get("recoverable") is True else "error")

    @event("notice")
    def _notice(self, event: Line) -> None:
        reason = string(event.get("reason"))
        kind = string(event.get("noticeType")) or "notice"
        code = "compaction" if reason == "auto_compaction" else "retry" if reason == "api_error" else kind
        self.notice(code, string(event.get("message")), _LEVELS.get(kind, "info"))

    # -- contents -----------------------------------------------------------------------------------------------

    @event("content_start")
    def _content_start(self, event: Line) -> Skip:
        """The start of a call, or the next chunk of a text."""
        kind = str(event.get("contentType"))
        if kind == "tool":
            return self._tool_start(event)
        if (role := _TEXTS.get(kind)) is None:
            return self.unparsed("unknown-type", event)
        text, state = event.get(kind), self.state
        if not text or type(text) is not str:
            return "partial"
        self.ensure_turn()
        emitted = state.writing != kind and self._flush_text()
        state.writing = kind
        self.texts.append(role, text)
        return None if emitted else "partial"

    def _flush_text(self) -> bool:
        """Emit the text being received, because something else begins before its `content_end`. Returns whether there
        was one."""
        writing, self.state.writing = self.state.writing, None
        if writing is None:
            return False
        self.texts.flush()
        if writing not in self.state.emitted_kinds:
            self.state.emitted_kinds.append(writing)
        return True

    @event("content_end")
    def _content_end(self, event: Line) -> Skip:
        kind = str(event.get("contentType"))
        if kind == "tool":
            return self._tool_end(event)
        if kind not in _TEXTS:
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        text = string(event.get(kind))
        writing = self.state.writing == kind
        if writing:
            self.state.writing = None
        if kind in self.state.emitted_kinds:
            self.state.emitted_kinds.remove(kind)
            self.texts.flush()
            return None if writing else "repeated"
        if text is None:  # only its chunks are on the wire
            self.texts.flush()
        elif writing:
            self.texts.drop()
        if text:
            self.emit_text(_TEXTS[kind], text)
        return None if self.items else "empty"

    def _tool_start(self, event: Line) -> Skip:
        call_id, name = event.get("toolCallId"), event.get("toolName")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        self._flush_text()
        canonical = self._mcp_name(name) if "__" in name else None
        place = "", None
        return self.calls.show(
            call_id, name, event.get("input"), raw=event, name=canonical, repeated="repeated", place=place
        )

    def _mcp_name(self, name: str) -> str | None:
        """The canonical name of `<server>__<tool>`, if the publisher named the server."""
        server, _, tool = name.partition("__")
        return f"mcp__{name}" if tool and server in self.context.mcp_servers else None

    @event("content_update")
    def _content_update(self, event: Line) -> Skip:
        """Output of a running command; its result repeats it."""
        call = self.calls.get(str(event.get("toolCallId")))
        update = record(event.get("update"))
        chunk = string(update.get("chunk"))
        if call is not None and chunk:
            self.running.append(call, string(update.get("stream")) or "stdout", chunk.encode())
        return "partial"

    def _tool_end(self, event: Line) -> Skip:
        call_id = event.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        self.running.take(call_id)
        bodies = Bodies(self)
        raw = bodies.take(event)
        raw_name = string(event.get("toolName")) or UNKNOWN_TOOL
        if not self.calls.is_known(call_id) and raw_name != UNKNOWN_TOOL:
            self.calls.open(call_id, raw_name, {}, raw=None, synthetic=True)
        if self.calls.name_of(call_id) == "Task":
            self._tie(call_id, record(event.get("output")))
        answer = read_result(self.calls.name_of(call_id) or "", raw)
        answer = answer.replace(duration_ms=whole(event.get("durationMs")), attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw)

    def _tie(self, call_id: str, output: Line) -> None:
        """Emit which subagent a call had spawned: the one that ended with the words that are its result. Nothing if two
        did, or if the words of one are not known."""
        finished = self.state.finished
        said = (string(output.get("text")) or "")[:MATCHED]
        agents = [agent for agent, text in finished.items() if text == said]
        if not said or len(agents) != 1 or None in finished.values():
            return
        [agent] = agents
        del finished[agent]
        self.state.spawned[agent] = call_id
        scope = self.agent, self.parent
        self.agent, self.parent = agent, call_id
        self.emit(SessionEvent, state="updated")
        self.agent, self.parent = scope


def _outcome(reason: str | None) -> str:
    return "completed" if reason is None else _OUTCOMES.get(status_word(reason) or "", "failed")


def _tokens(usage: dict[str, Any], cost_key: str) -> dict[str, Any]:
    """Return the token counts and cost; empty if nothing was used. Cline's `inputTokens` includes cached tokens."""
    counts = token_counts(*map(usage.get, _COUNTS))
    return {**counts, "cost_usd": dollars(usage.get(cost_key))} if any(counts.values()) else {}


# -- stored sessions ----------------------------------------------------------------------------------------------

MESSAGES = 4_096
"""Maximum number of messages that are remembered; the oldest are dropped."""
_INPUT = re.compile(r"<user_input mode=\"[a-z]{1,20}\">(.*)</user_input>\s*", re.DOTALL)
"""A prompt in Cline's tags."""
_FOLDER = re.compile(r"^[0-9]{1,3}\. Working Directory: (.{1,4096})$", re.MULTILINE)
"""The line of the system prompt that names the folder of the session."""


class ClineSessionState(SessionState, kw_only=True):
    model: str | None = None
    cwd: str | None = None
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class ClineSession(Parser):
    """The `cline-session` dialect: the messages of a session, a JSON document that Cline rewrites whole at each change.

    Learned from Cline 3.0.65. Messages are those of Anthropic's API, with ids of Cline's. Each version of the document
    is a line; only messages that no earlier version had are read. A subagent has a separate document. No message states
    the end of a turn: a turn lasts from the user's message to the assistant's first message that calls no tool.
    """

    dialect = "cline-session"
    protocol = default_provider = "cline"
    STATES_TIMES = True
    DOCUMENTS = True
    SKIPS = frozenset({"unchanged"})
    message = Lines("role")
    block = Lines("type", skip={"redacted_thinking": "unchanged"})
    state_type = ClineSessionState
    state: ClineSessionState

    def read(self, value: Line) -> Skip:
        messages, session = value.get("messages"), string(value.get("sessionId"))
        if not isinstance(messages, list) or session is None:
            return self.unparsed("unknown-type", value)
        origin = record(value.get("origin"))
        lead, agent = string(origin.get("parentThreadId")), string(origin.get("subagent"))
        if lead is not None and agent is not None:
            self.set_session(lead)
            self.agent = agent
        else:
            self._describe_session(session, origin, value)
        crcs = [zlib.crc32(str(record(message).get("id")).encode()) for message in messages]
        new, kept = self.state.history.news(crcs, MESSAGES)
        if kept is not None:
            self.notice("rewound", "history shortened", data={"messages": kept})
        for index in new:
            self._read_message(record(messages[index]))
        return None if self.items else "unchanged"

    def _describe_session(self, session: str, origin: Line, value: Line) -> None:
        """Begin the session. Its first version may lack the system prompt."""
        if self.state.started != session:
            self.begin_session(session, agent_version=string(origin.get("version")))
        folder = _FOLDER.search(string(value.get("system_prompt")) or "")
        if folder and folder[1] != self.state.cwd:
            self.state.cwd = folder[1]
            self.update_session({"cwd": folder[1]})

    def _read_message(self, message: Line) -> None:
        self.ts = whole(message.get("ts")) or self.ts
        self.message.read(self, message)

    @message("user")
    def _user(self, message: Line) -> Skip:
        bodies = Bodies(self)
        texts = []
        for block in _blocks(bodies.take(message.get("content"))):
            if block.get("type") == "tool_result":
                self._answer(block)
            elif (text := string(block.get("text"))) is not None:
                given = _INPUT.fullmatch(text)
                texts.append(given[1] if given else text)
        if texts or bodies.attachments is not None:
            if self.turn is not None:
                self.give_up_turns()
            self.start_turn()
            text, message_id = "\n".join(texts), string(message.get("id"))
            self.emit(Message, role="user", text=text, message_id=message_id, attachments=bodies.attachments)
        return None

    @message("assistant")
    def _assistant(self, message: Line) -> Skip:
        if self.agent is None:
            self.uses_model(string(record(message.get("modelInfo")).get("id")))
        blocks = _blocks(message.get("content"))
        for block in blocks:
            self.block.read(self, block, string(message.get("id")))
        counts = token_counts(*map(record(message.get("metrics")).get, _COUNTS))
        if counts["input_tokens"] or counts["output_tokens"]:
            self.ensure_turn()
            message_id, written = string(message.get("id")), whole(message.get("ts"))
            request = None if message_id is None or written is None else request_id(f"{message_id}/{written}")
            self.emit(Usage, scope="step", request=request, **counts)
        if self.turn is not None and not any(block.get("type") == "tool_use" for block in blocks):
            self.end_turn("completed", ended_by="answer")
        return None

    @block("text", text=str)
    @block("thinking", thinking=str)
    def _text(self, block: Line, message_id: str | None) -> Skip:
        kind = block["type"]
        if not block[kind]:
            return "unchanged"
        self.ensure_turn()
        self.emit_text("assistant" if kind == "text" else "reasoning", block[kind], message_id=message_id)
        return None

    @block("tool_use", id=str, name=str)
    def _call(self, block: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        return self.calls.show(block["id"], block["name"], block.get("input"), raw=block, place=(message_id, None))

    def _answer(self, block: Line) -> Skip:
        call_id = block.get("tool_use_id")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", block)
        self.ensure_turn()
        bodies = Bodies(self)
        raw = bodies.take(block)
        content = raw.get("content")
        output = decode_json(content) if isinstance(content, str) and content.startswith("{") else content
        event = {"output": output} if block.get("is_error") is not True else {"error": output}
        answer = read_result(self.calls.name_of(call_id) or "", event)
        answer = answer.replace(attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw, raw_name=string(block.get("name")) or UNKNOWN_TOOL)


def _blocks(content: Any) -> list[Line]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else records(content)


# -- answers ------------------------------------------------------------------------------------------------------
# The result of a batch is a list with one `{query, result, error?, success}` per part. Cline adds line numbers, the
# exit code in brackets and a mark before stderr, which are removed.

_NUMBERED = re.compile(r" *(\d+) \| ?(.*)", re.ASCII | re.DOTALL)
_EXIT_CODE = re.compile(r"\[Command exited with code (-?\d+)\]\n?", re.ASCII)
_STDERR = "\n[stderr]\n"
_HIT = re.compile(r"^(\S.*?):(\d+):(\d+)$", re.ASCII | re.MULTILINE)


def read_result(name: str, event: dict[str, Any]) -> Answer:
    """Read the answer in a `content_end` whose data was moved to output bodies."""
    output = event.get("output")
    parts = records(output)
    is_batch, errors = bool(parts), []
    if not is_batch and type(output) is dict and "success" in output:
        parts, is_batch = [output], True
    statuses = [_failure(stated_status(event)), _failure(stated_status(output))]
    for part in parts:
        if "success" not in part:
            is_batch = is_batch and "result" in part
        if status := _failure(stated_status(part)):
            statuses.append(status)
            if words := error_words(part.get("error")):
                errors.append(words)
    value = _batch(name, parts) if is_batch else output
    words = "\n".join(errors) or None
    stated = error_words(record(output).get("error")) or error_words(event.get("error"))
    if not is_batch and stated is not None:
        value, words = None, error_words(record(decode_json(stated)).get("error")) or stated
        statuses.append("failed")
    answer = Answer(value, model=_seen_by_model(output))
    status = next(filter(None, statuses), None)
    if status is None:
        return answer
    words = words if words is not None or is_batch else blocks_text(record(output).get("content", output))
    refused = status_in_words(words, "cline")
    return answer.replace(status=refused or status, error=words, value=None if value == words else value)


def _failure(status: str | None) -> str | None:
    return None if status == "completed" else status


def _seen_by_model(output: Any) -> Any:
    """Output for the model: a text or content blocks are passed to it as they are. UNSET for a batch, whose objects
    only the client gets."""
    content = output.get("content") if type(output) is dict else output
    if isinstance(content, str):
        return content
    is_blocks = bool(content) and type(content) is list and all(record(one).get("type") for one in content)
    return content if is_blocks else msgspec.UNSET


def _batch(name: str, parts: list[dict[str, Any]]) -> Any:
    if name == "Bash":
        return _commands(parts)
    if name == "Read":
        files = [_file(part) for part in parts if part.get("success") is not False]
        if len(parts) > 1:
            return {"files": files}
        return {"file": files[0]} if files and "content" in files[0] else files[0] if files else None
    texts = [_text(part) for part in parts if part.get("success") is not False]
    text = "\n".join(one for one in texts if one)
    if name == "Grep":
        hits = [{"filePath": hit[1], "line": int(hit[2]), "column": int(hit[3])} for hit in _HIT.finditer(text)]
        return {"matches": hits, "text": text}
    return text or None


def _text(part: dict[str, Any]) -> str | None:
    return blocks_text(part.get("result"))


def _file(part: dict[str, Any]) -> dict[str, Any]:
    """A file with numbered lines, or a picture and a note that it was read."""
    file: dict[str, Any] = {"filePath": string(part.get("query"))}
    text = string(part.get("result"))
    if text is None:
        return {**file, "message": _text(part)}
    lines = [_NUMBERED.fullmatch(line) for line in text.split("\n")]
    numbered = [line for line in lines if line]
    if len(numbered) < len(lines):
        return {**file, "content": text}
    content = "\n".join(line[2] for line in numbered)
    return {**file, "content": content, "startLine": int(numbered[0][1]), "numLines": len(numbered)}


def _commands(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The output of one command; for several, all output joined, and the `results` of each."""
    results = [_command(_text(part) or "") for part in parts]
    if len(results) == 1:
        return results[0]
    each = [{"command": part.get("query"), **result} for part, result in zip(parts, results, strict=True)]
    printed = {
        stream: "".join(result[stream] for result in results if stream in result) for stream in ("stdout", "stderr")
    }
    return {**{stream: text for stream, text in printed.items() if text or stream == "stdout"}, "results": each}


def _command(text: str) -> dict[str, Any]:
    code = _EXIT_CODE.match(text)
    stdout, mark, stderr = (text[code.end() :] if code else text).partition(_STDERR)
    if not mark and stdout.startswith(_STDERR[1:]):
        stdout, mark, stderr = "", _STDERR, stdout.removeprefix(_STDERR[1:])
    result: dict[str, Any] = {"stdout": stdout}
    if mark:
        result["stderr"] = stderr
    if code:
        result["exit_code"] = int(code[1])
    return result
