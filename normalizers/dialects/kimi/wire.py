"""Kimi's wire mode, `kimi --wire`: JSON-RPC in both directions, or the agent's side alone.

Learned from Kimi CLI 1.40, which speaks version 1.9 of the protocol, and from its documentation for what no recording
has. The agent sends `event`s and `request`s, each with a type and a payload; the client sends `prompt` and others, and
answers the requests. Texts and the arguments of calls come in pieces; a call is shown when its arguments are whole. The
answer to `prompt` states how the turn ended. The result for the model, which is the output inside the program's notes,
is not on the wire.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.answers import with_free_text
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import put
from tooltap.normalizers.dialects.kimi.messages import KimiMessages
from tooltap.normalizers.dialects.kimi.to_agent import OPTIONS
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import decode_json, strings
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import SessionEvent, Usage

ASKED = 1_024
"""Maximum number of requests without an answer, per side."""
_OUTCOMES = {"finished": "completed", "cancelled": "cancelled", "max_steps_reached": "failed"}
"""Status in the answer to a prompt -> outcome of the turn."""
_RESPONSES = {"approve": "allowed", "approve_for_session": "allowed", "reject": "denied"}
SERVED = 4_096
"""Maximum number of MCP servers, and of their tools, that are remembered."""
STREAMING = 64
"""Maximum number of agents that may write the arguments of a call at once."""
_PARTS = 128
"""Number of pieces of arguments from which they are joined: a state with a million pieces is slow to dump."""

BETWEEN = frozenset(
    {"ApprovalResponse", "BtwBegin", "BtwEnd", "HookResolved", "HookTriggered", "MCPLoadingBegin", "MCPLoadingEnd"}
    | {"Notification", "ToolCallPart"}
)
"""Events that may come between the pieces of a call or text; any other event of the agent ends both."""


class PartialCall(msgspec.Struct, omit_defaults=True):
    """A call whose arguments are being written."""

    id: str
    name: str
    arguments: list[str]
    size: int = 0
    agent: str | None = None
    parent: str | None = None


class WireState(msgspec.Struct, kw_only=True):
    """State of the wire mode."""

    writing: dict[str, PartialCall] = msgspec.field(default_factory=dict)
    """Agent -> the call whose arguments it is writing; the key of the main agent is empty."""
    servers: dict[str, str] = msgspec.field(default_factory=dict)
    """Tool of an MCP server -> the server; nothing where several have a tool of this name."""
    server_states: dict[str, str] = msgspec.field(default_factory=dict)
    """MCP server -> its status."""
    mode: str | None = None
    asked: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request of the client -> its method."""
    permissions_of: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request of the agent -> id of the permission it asks for."""
    prompt: str | None = None
    """JSON-RPC id of the prompt that the turn is about."""
    prompted: bool = False
    """True once the client's prompt was emitted, until the agent repeats it."""
    replaying: str | None = None
    """JSON-RPC id of the client's request to send the session's history again."""
    outcome: str | None = None
    """Outcome of the turn, while the answer to its prompt is still to come."""
    interrupted: bool = False
    """The last step of the turn was interrupted."""
    spoken: bool = False
    """The agent runs in wire mode."""


class KimiWire:
    """Reads the JSON-RPC messages of both sides."""

    event = Lines(
        "type",
        skip={
            "CompactionBegin": "compaction-start",
            "HookTriggered": "hook",
            "MCPLoadingBegin": "mcp-loading",
            "MCPLoadingEnd": "mcp-loading",
            "PlanDisplay": "plan-display",
        },
    )
    """Events of the agent. The methods get the payload."""
    request = Lines("type")
    """Requests of the agent. The methods get the payload and the JSON-RPC id."""
    call = Lines("method", skip=dict.fromkeys(("initialize", "set_plan_mode", "set_yolo_mode", "steer"), "request"))
    """Requests of the client. The methods get the parameters and the JSON-RPC id."""

    OF_LINE = frozenset({"request_id"})
    SKIPS = KimiMessages.SKIPS | {
        "answer",  # to a request that is about nothing the agent does
        "echo",  # the agent repeats the prompt
        "hook",
        "partial",
        "request",  # of the client
        "step",
        "resolved",  # a request was answered before
        "turn-end",  # the answer to the prompt states how the turn ended
        "unchanged",
        *event.skip.values(),
        *call.skip.values(),
    }

    def __init__(self, parser: Parser, state: WireState, messages: KimiMessages) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._permissions = parser.permissions
        self._texts = parser.texts
        self._state = state
        self._messages = messages
        self.request_id: Any = None
        """The JSON-RPC id of the line."""

    def unparsed(self, reason: str, value: Line) -> Skip:
        """Emit an object that a table cannot read."""
        return self._parser.unparsed(reason, value)

    def read(self, value: Line) -> Skip:
        self._state.spoken, self.request_id = True, value.get("id")
        method, params = value.get("method"), record(value.get("params"))
        if method == "event":
            return self._event(params, value)
        if method == "request" and "id" in value:
            return self._request(params, _id_of(value["id"]), value)
        if type(method) is str:
            key = _id_of(value["id"]) if "id" in value else None
            if key is not None:
                put(self._state.asked, key, method, ASKED)
            return self.call.read(self, params, key, kind=method, line=value)
        # A line of a log on the agent's output may have an `id` and a `result`, too.
        if value.get("jsonrpc") == "2.0" and "id" in value and ("result" in value or "error" in value):
            return self._answer(_id_of(value["id"]), value)
        return self._parser.unparsed("unknown-type", value)

    def read_stored(self, message: Line, line: Line) -> Skip:
        """Read a message of the agent as its session file has it: an event or a request."""
        self.request_id = None
        if self.request.knows(message.get("type")):
            return self._request(message, string(record(message.get("payload")).get("id")) or "", line)
        return self._event(message, line)

    # -- the client's requests --------------------------------------------------------------------------------------

    @call("prompt")
    def _prompt(self, params: Line, key: str | None) -> Skip:
        if self._parser.turn is not None:  # the agent has repeated it already, or is going to refuse it
            self._state.prompt = self._state.prompt or key
            return "request"
        self._begin_turn(params)
        self._state.prompt, self._state.prompted = key, True
        return None

    @call("replay")
    def _replay(self, params: Line, key: str | None) -> Skip:
        """Read the client's request to send the session's history again; the agent does so until it answers."""
        self._state.replaying = key
        return "request"

    @call("cancel")
    def _cancel(self, params: Line, key: str | None) -> None:
        self._state.interrupted = self._parser.turn is not None
        self._parser.notice("interrupt", "The client cancelled the turn.")

    # -- answers ----------------------------------------------------------------------------------------------------

    def _answer(self, answer_id: str, value: Line) -> Skip:
        result, error = record(value.get("result")), value.get("error")
        asked = self._state.asked
        if self._parser.direction == "in" or (answer_id in self._state.permissions_of and answer_id not in asked):
            return self._answer_of_client(answer_id, result, error)
        method = asked.pop(answer_id, None) or _method_of(result)
        if answer_id == self._state.replaying:
            self._state.replaying = None
            self.finish_calls()
            self._texts.flush()
        text = string(record(error).get("message")) if error is not None else None
        if method == "initialize" and text is None:
            self._initialized(result)
            return None
        if method == "prompt" or (method is None and text is not None and self._parser.turn is not None):
            return self._prompt_answered(answer_id, result, text)
        if text is None:
            return "answer"
        self._parser.notice("provider-error", text, "error")
        return None

    def _initialized(self, result: Line) -> None:
        server = record(result.get("server"))
        commands = [name for one in records(result.get("slash_commands")) if (name := string(one.get("name")))]
        self._parser.begin_session(None, agent_version=string(server.get("version")), commands=commands or None)

    def _prompt_answered(self, answer_id: str, result: Line, error: str | None) -> Skip:
        is_running = self._parser.turn is not None and self._state.prompt in (None, answer_id)
        if is_running:
            self.finish_calls()
            self._texts.flush()
        if error is not None:
            self._parser.notice("provider-error", error, "error")
        if not is_running:  # a prompt was refused, because another's turn was running
            return "answer" if error is None else None
        status = string(result.get("status"))
        word = status_word(status)
        stated = word if word in ("cancelled", "failed") else "cancelled" if word == "interrupted" else "completed"
        outcome = _OUTCOMES.get(status or "", stated) if error is None else "failed"
        self._end_turn(outcome, status)
        return None

    def _answer_of_client(self, answer_id: str, result: Line, error: Any) -> Skip:
        permission_id = self._state.permissions_of.pop(answer_id, None) or string(result.get("request_id"))
        if permission_id is None or not self._permissions.is_pending(permission_id):
            return "answer"
        if "answers" in result:
            self._answer_question(permission_id, record(result["answers"]))
        elif "response" in result:
            self._answer_approval(permission_id, result)
        else:
            text = string(record(error).get("message"))
            self._permissions.answer(permission_id, "cancelled", message=text)
        return None

    def _answer_question(self, permission_id: str, answers: Line) -> None:
        """Emit the client's answers. Without any, the user dismissed the questions, or the client cannot ask them."""
        outcome = "answered" if answers else "cancelled"
        self._permissions.answer(permission_id, outcome, answers=answers or None)

    def _answer_approval(self, permission_id: str, stated: Line) -> None:
        response = string(stated.get("response")) or ""
        outcome, feedback = _RESPONSES.get(response, "cancelled"), string(stated.get("feedback")) or None
        self._permissions.answer(permission_id, outcome, option_id=response or None, message=feedback)

    def _request(self, params: Line, key: str, line: Line) -> Skip:
        payload = record(params.get("payload"))
        self._parser.agent = string(payload.get("agent_id"))
        self.finish_calls_before(string(params.get("type")) or "", payload)
        self._texts.flush()
        return self.request.read(self, payload, key, kind=string(params.get("type")) or "", line=line)

    # -- the agent's requests ---------------------------------------------------------------------------------------

    @request("ApprovalRequest", id=str)
    def _approval(self, payload: Line, key: str) -> None:
        call_id = self._asks(payload, key)
        title = string(payload.get("description")) or string(payload.get("action"))
        sender = string(payload.get("sender"))
        name = canonical_name(sender, {}, call_id or "") if sender and self._calls.get(call_id or "") is None else None
        self._permissions.ask(
            payload["id"],
            call_id=call_id,
            title=title,
            name=name,
            options=OPTIONS,
            reply_to={"id": self.request_id, "asks": False},
        )

    @request("QuestionRequest", id=str)
    def _question(self, payload: Line, key: str) -> None:
        call_id, questions = self._asks(payload, key), records(payload.get("questions"))
        self._permissions.ask(
            payload["id"],
            call_id=call_id,
            type="question",
            questions=with_free_text(questions) or None,
            reply_to={"id": self.request_id, "asks": True},
        )

    @request("ToolCallRequest", id=str, name=str)
    def _client_tool(self, payload: Line, key: str) -> Skip:
        """Read a call of a client's tool: the agent shows the call and its result like those of its own tools."""
        self._parser.ensure_turn()
        return self._messages.show_call(payload["id"], payload["name"], payload.get("arguments"), payload, place=None)

    @request("HookRequest")
    def _hook(self, payload: Line, key: str) -> Skip:
        return "hook"

    def _asks(self, payload: Line, key: str) -> str | None:
        """Prepare for a request of the agent: remember its permission. Returns the call that it is about."""
        call_id = string(payload.get("tool_call_id"))
        call = self._calls.get(call_id) if call_id is not None else None
        if call is not None:
            self._parser.agent, self._parser.parent = call.agent, call.parent
        else:
            self.open_turn()
        put(self._state.permissions_of, key, payload["id"], ASKED)
        return call_id

    # -- the agent's events -----------------------------------------------------------------------------------------

    def _event(self, params: Line, line: Line) -> Skip:
        kind, payload = string(params.get("type")) or "", record(params.get("payload"))
        while kind == "SubagentEvent":
            parent = string(payload.get("parent_tool_call_id")) or string(payload.get("task_tool_call_id"))  # to 1.5
            self._parser.parent, self._parser.agent = parent, string(payload.get("agent_id")) or parent
            inner = record(payload.get("event"))
            kind, payload = string(inner.get("type")) or "", record(inner.get("payload"))
        self._parser.replay = self._state.replaying is not None
        if self._state.writing:
            self.finish_calls_before(kind, payload)
        if kind not in BETWEEN and kind != "ContentPart":
            self._texts.flush()
        emitted = bool(self._parser.items)
        skip = self.event.read(self, payload, kind=kind, line=line)
        return None if emitted and skip != UNPARSED else skip

    def _begin_turn(self, stated: Line) -> None:
        state = self._state
        state.prompt, state.prompted, state.outcome, state.interrupted = None, False, None, False
        self._parser.start_turn()
        self._messages.show_message("user", stated.get("user_input"))

    @event("TurnBegin")
    def _turn_begins(self, payload: Line) -> Skip:
        if self._parser.agent is not None:
            return self._messages.show_message("user", payload.get("user_input"))
        if self._state.prompted:
            self._state.prompted = False
            return "echo"
        if self._parser.turn is not None and self._state.outcome is not None:  # the answer to its prompt is missing
            self._end_turn(self._state.outcome, None, synthetic=True)
        elif self._parser.turn is not None:
            self._parser.give_up_turns()
        self._begin_turn(payload)
        return None

    @event("TurnEnd")
    def _turn_ends(self, payload: Line) -> Skip:
        """Read the end of a turn, which some versions also send after errors and interruptions."""
        state = self._state
        if self._parser.agent is not None or self._parser.turn is None:
            return "turn-end"
        state.outcome = "cancelled" if state.interrupted else "completed"
        if state.interrupted or state.prompt is not None:
            return "turn-end"
        self._end_turn("completed", None)
        return None

    def _end_turn(self, outcome: str, reason: str | None, *, synthetic: bool = False) -> None:
        state = self._state
        state.prompt, state.prompted, state.outcome, state.interrupted = None, False, None, False
        self._parser.end_turn(outcome, reason=reason, synthetic=synthetic)

    def finish(self) -> None:
        """End a turn whose end was stated, but whose prompt has no answer."""
        self.finish_calls()
        outcome = self._state.outcome or ("cancelled" if self._state.interrupted else None)
        if outcome is not None and self._parser.turn is not None:
            self._end_turn(outcome, None)

    @event("StepBegin")
    def _step(self, payload: Line) -> Skip:
        if self._parser.agent is None:
            self._state.interrupted = False
        return "step"

    @event("StepInterrupted")
    def _step_interrupted(self, payload: Line) -> Skip:
        if self._parser.agent is None and self._parser.turn is not None:
            self._state.interrupted = True
        return "step"

    @event("SteerInput")
    def _steered(self, payload: Line) -> Skip:
        self.open_turn()
        return self._messages.show_message("user", payload.get("user_input"))

    @event("ContentPart")
    def _content(self, payload: Line) -> Skip:
        self.open_turn()
        kind = payload.get("type")
        if kind not in ("text", "think"):
            self._texts.flush()
            return self._messages.show_media("assistant", payload, None)
        if not (text := string(payload.get(kind))):
            return "empty"
        self._texts.append("assistant" if kind == "text" else "reasoning", text)
        return "partial"

    @event("ApprovalResponse", "ApprovalRequestResolved", request_id=str)
    def _resolved(self, payload: Line) -> Skip:
        """Read the answer to an approval request: of this client, of another one, or of a rule."""
        if not self._permissions.is_pending(payload["request_id"]):
            return "resolved"
        self._answer_approval(payload["request_id"], payload)
        return None

    @event("CompactionEnd")
    def _compacted(self, payload: Line) -> None:
        self._parser.notice("compaction", None)

    @event("HookResolved")
    def _hook_resolved(self, payload: Line) -> Skip:
        if payload.get("action") != "block":
            return "hook"
        data = {key: payload[key] for key in ("event", "target") if string(payload.get(key))}
        self._parser.notice("hook", string(payload.get("reason")), "warning", data or None)
        return None

    @event("Notification")
    def _notification(self, payload: Line) -> Skip:
        return self._messages.show_notification(payload)

    @event("BtwBegin")
    def _side_question_asked(self, payload: Line) -> Skip:
        return self._messages.side_question("user", string(payload.get("question")))

    @event("BtwEnd")
    def _side_question_answered(self, payload: Line) -> Skip:
        return self._messages.side_question(
            "assistant", string(payload.get("response")) or string(payload.get("error"))
        )

    def open_turn(self) -> None:
        """Open a turn for content of the main agent outside any turn. Subagents may outlive their turn."""
        if self._parser.agent is None:
            self._parser.ensure_turn()

    # -- calls --------------------------------------------------------------------------------------------------------

    @event("ToolCall", id=str, function=dict)
    def _tool_call(self, payload: Line) -> Skip:
        function = payload["function"]
        name, arguments = string(function.get("name")), string(function.get("arguments")) or ""
        if not name:
            return self._parser.unparsed("unknown-type", payload)
        self.open_turn()
        pieces = PartialCall(payload["id"], name, [arguments], len(arguments), self._parser.agent, self._parser.parent)
        if arguments and isinstance(decode_json(arguments), dict):
            return self._show_written(pieces)
        writing = self._state.writing
        while len(writing) >= STREAMING:
            self._finish_call(next(iter(writing)))
        writing[self._parser.agent or ""] = pieces
        return "partial"

    @event("ToolCallPart")
    def _tool_call_part(self, payload: Line) -> Skip:
        pieces, part = self._state.writing.get(self._parser.agent or ""), string(payload.get("arguments_part"))
        if pieces is None or not part:
            return "partial"
        size = sum(one.size for one in self._state.writing.values())
        if size + len(part) <= self._parser.context.limits.call_bytes:
            pieces.arguments.append(part)
            pieces.size += len(part)
            if len(pieces.arguments) >= _PARTS:
                pieces.arguments = ["".join(pieces.arguments)]
        return "partial"

    def finish_calls_before(self, kind: str, payload: Line) -> None:
        """Open the calls whose arguments are complete: this line is about them, or about their subagent, or their agent
        goes on. It may be about another call, which runs while the arguments of this one are written."""
        about = string(payload.get("tool_call_id"))
        is_between = kind in BETWEEN or (kind == "StatusUpdate" and not payload.get("token_usage"))
        own = None if is_between or about is not None else self._parser.agent or ""
        for agent, pieces in list(self._state.writing.items()):
            if agent == own or pieces.id in (about, self._parser.parent):
                self._finish_call(agent)

    def finish_calls(self) -> None:
        """Open every call whose arguments are being written."""
        for agent in list(self._state.writing):
            self._finish_call(agent)

    def _finish_call(self, agent: str) -> None:
        pieces = self._state.writing.pop(agent)
        scope = self._parser.agent, self._parser.parent
        self._parser.agent, self._parser.parent = pieces.agent, pieces.parent
        self._show_written(pieces)
        self._parser.agent, self._parser.parent = scope

    def _show_written(self, pieces: PartialCall) -> Skip:
        function = {"name": pieces.name, "arguments": "".join(pieces.arguments)}
        raw = {"type": "function", "id": pieces.id, "function": function}
        server = self._state.servers.get(pieces.name)
        name = canonical_name(f"mcp__{server}__{pieces.name}", {}, pieces.id) if server else None
        return self._messages.show_call(pieces.id, pieces.name, function["arguments"], raw, name)

    @event("ToolResult", tool_call_id=str, return_value=dict)
    def _tool_result(self, payload: Line) -> Skip:
        if not self._calls.is_known(payload["tool_call_id"]):
            self.open_turn()
        return self._messages.answer_call(payload["tool_call_id"], payload, "return_value")

    # -- state --------------------------------------------------------------------------------------------------------

    @event("StatusUpdate")
    def _status(self, payload: Line) -> Skip:
        changes: dict[str, Any] = {}
        planning = payload.get("plan_mode")
        if isinstance(planning, bool) and self._parser.agent is None:
            mode = "plan" if planning else "default"
            if mode != (self._state.mode or "default"):
                changes["mode"] = self._state.mode = mode
        if servers := records(record(payload.get("mcp_status")).get("servers")):
            changes.update(self._learn_servers(servers))
        if changes:
            self._parser.emit(SessionEvent, state="updated", **changes)
        self._usage(payload)
        return None if self._parser.items else "unchanged"

    def _learn_servers(self, servers: list[Line]) -> Line:
        """Remember which server has which tool. Returns the session field `mcp_servers` if a server's status has
        changed, else nothing."""
        states: dict[str, str] = {}
        for server in servers:
            if (name := string(server.get("name"))) is None:
                continue
            put(states, name, string(server.get("status")) or "", SERVED)
            for tool in strings(server.get("tools")):
                other = self._state.servers.get(tool, name)
                put(self._state.servers, tool, name if other == name else "", SERVED)
        if states == self._state.server_states:
            return {}
        self._state.server_states = states
        return {"mcp_servers": [{"name": name, "status": status} for name, status in states.items()]}

    def _usage(self, payload: Line) -> None:
        """`input_other` excludes tokens read from and written to the cache."""
        tokens = record(payload.get("token_usage"))
        fresh, read, written = (
            whole(tokens.get(key)) for key in ("input_other", "input_cache_read", "input_cache_creation")
        )
        if not tokens:
            return
        self._parser.emit(
            Usage,
            scope="step",
            input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
            output_tokens=whole(tokens.get("output")),
            cache_read_tokens=read,
            cache_write_tokens=written,
            context_used=whole(payload.get("context_tokens")),
            context_size=whole(payload.get("max_context_tokens")),
            request=string(payload.get("message_id")),
        )


def _id_of(request_id: Any) -> str:
    """A JSON-RPC id as a string."""
    return request_id if type(request_id) is str else msgspec.json.encode(request_id).decode()


def _method_of(result: Line) -> str | None:
    """Infer the method of an answer whose request is not on the wire; None if it is unknown."""
    if "protocol_version" in result:
        return "initialize"
    return "prompt" if string(result.get("status")) in _OUTCOMES and "events" not in result else None
