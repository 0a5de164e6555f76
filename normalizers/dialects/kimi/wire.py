"""Kimi's wire mode, `kimi --wire`: JSON-RPC in both directions, or the agent's side alone.

Learned from Kimi CLI 1.40, which speaks version 1.9 of the protocol, and from its documentation for what no recording
has. The agent sends `event`s and `request`s, each with a type and a payload; the client sends `prompt` and others, and
answers the requests. Texts and the arguments of calls come in pieces; a call is shown when its arguments are whole.
The answer to `prompt` states how the turn ended. What the model sees of a result, the output with the program's words
around it, is not on the wire.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.dialects.kimi.wire_calls import BETWEEN, WireCalls, WireCallsState
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.wire.values import record, records, string

ASKED = 1_024
"""Requests whose answers are still to come, of each side."""
_OUTCOMES = {"finished": "completed", "cancelled": "cancelled", "max_steps_reached": "failed"}
"""Status in the answer to a prompt -> outcome of the turn."""
_RESPONSES = {"approve": "allowed", "approve_for_session": "allowed", "reject": "denied"}


class WireState(WireCallsState, kw_only=True):
    asked: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request of the client -> its method."""
    permissions_of: dict[str, str] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request of the agent -> id of the permission it asks for."""
    prompt: str | None = None
    """JSON-RPC id of the prompt that the turn is about."""
    prompted: bool = False
    """The client's prompt was shown, and the agent has not repeated it yet."""
    replaying: str | None = None
    """JSON-RPC id of the client's request to send the session's history again."""
    outcome: str | None = None
    """How the turn ended, while the answer to its prompt is still to come."""
    interrupted: bool = False
    """The last step of the turn was interrupted."""


class KimiWire(WireCalls):
    SKIPS = WireCalls.SKIPS | {
        "answer",  # to a request that is about nothing the agent does
        "echo",  # the agent repeats the prompt
        "hook",
        "partial",
        "request",  # of the client
        "step",
        "resolved",  # a request was answered before
        "turn-end",  # the answer to the prompt states how the turn ended
    }
    event = WireCalls.event.copy(
        skip={
            "CompactionBegin": "compaction-start",
            "HookTriggered": "hook",
            "MCPLoadingBegin": "mcp-loading",
            "MCPLoadingEnd": "mcp-loading",
            "PlanDisplay": "plan-display",
        },
    )
    request = Lines("type")
    """What the agent asks of the client. The methods get the payload and the JSON-RPC id."""
    call = Lines("method", skip=dict.fromkeys(("initialize", "set_plan_mode", "set_yolo_mode", "steer"), "request"))
    """What the client asks of the agent. The methods get the parameters and the JSON-RPC id."""
    state_type = WireState
    state: WireState

    def read_rpc(self, value: Line) -> Skip:
        method, params = value.get("method"), record(value.get("params"))
        if method == "event":
            return self._event(params, value)
        if method == "request" and "id" in value:
            payload = record(params.get("payload"))
            self.agent = string(payload.get("agent_id"))
            self.finish_calls_of(self.agent or "", string(payload.get("tool_call_id")))
            self.texts.flush()
            kind = string(params.get("type")) or ""
            return self.request.read(self, payload, _id_of(value["id"]), kind=kind, line=value)
        if type(method) is str:
            key = _id_of(value["id"]) if "id" in value else None
            if key is not None:
                put(self.state.asked, key, method, ASKED)
            return self.call.read(self, params, key, kind=method, line=value)
        if "id" in value and ("result" in value or "error" in value):
            return self._answer(_id_of(value["id"]), value)
        return self.unparsed("unknown-type", value)

    # -- the client's requests --------------------------------------------------------------------------------------

    @call("prompt")
    def _prompt(self, params: Line, key: str | None) -> Skip:
        if self.turn is not None:  # the agent has repeated it already, or is going to refuse it
            self.state.prompt = self.state.prompt or key
            return "request"
        self._begin_turn(params)
        self.state.prompt, self.state.prompted = key, True
        return None

    @call("replay")
    def _replay(self, params: Line, key: str | None) -> Skip:
        """The agent sends the session's history again, until it answers."""
        self.state.replaying = key
        return "request"

    @call("cancel")
    def _cancel(self, params: Line, key: str | None) -> None:
        self.state.interrupted = self.turn is not None
        self.notice("interrupt", "The client cancelled the turn.")

    # -- answers ----------------------------------------------------------------------------------------------------

    def _answer(self, answer_id: str, value: Line) -> Skip:
        result, error = record(value.get("result")), value.get("error")
        asked = self.state.asked
        if self.direction == "in" or (answer_id in self.state.permissions_of and answer_id not in asked):
            return self._answer_of_client(answer_id, result, error)
        method = asked.pop(answer_id, None) or _method_of(result)
        if answer_id == self.state.replaying:
            self.state.replaying = None
            self.finish_calls()
            self.texts.flush()
        text = string(record(error).get("message")) if error is not None else None
        if method == "initialize" and text is None:
            self._initialized(result)
            return None
        if method == "prompt" or (method is None and text is not None and self.turn is not None):
            return self._prompt_answered(answer_id, result, text)
        if text is None:
            return "answer"
        self.notice("provider-error", text, "error")
        return None

    def _initialized(self, result: Line) -> None:
        server = record(result.get("server"))
        commands = [name for one in records(result.get("slash_commands")) if (name := string(one.get("name")))]
        self.begin_session(None, agent_version=string(server.get("version")), commands=commands or None)

    def _prompt_answered(self, answer_id: str, result: Line, error: str | None) -> Skip:
        is_running = self.turn is not None and self.state.prompt in (None, answer_id)
        if is_running:
            self.finish_calls()
            self.texts.flush()
        if error is not None:
            self.notice("provider-error", error, "error")
        if not is_running:  # a prompt was refused, because another's turn was running
            return "answer" if error is None else None
        status = string(result.get("status"))
        word = status_word(status)
        stated = word if word in ("cancelled", "failed") else "cancelled" if word == "interrupted" else "completed"
        outcome = _OUTCOMES.get(status or "", stated) if error is None else "failed"
        self._end_turn(outcome, status)
        return None

    def _answer_of_client(self, answer_id: str, result: Line, error: Any) -> Skip:
        permission_id = self.state.permissions_of.pop(answer_id, None) or string(result.get("request_id"))
        if permission_id is None or not self.permissions.is_pending(permission_id):
            return "answer"
        if "answers" in result:
            self._answer_question(permission_id, record(result["answers"]))
        elif "response" in result:
            self._answer_approval(permission_id, result)
        else:
            text = string(record(error).get("message"))
            self.permissions.answer(permission_id, "cancelled", message=text)
        return None

    def _answer_question(self, permission_id: str, answers: Line) -> None:
        """No answers: the user dismissed the questions, or the client cannot ask them."""
        outcome = "answered" if answers else "cancelled"
        self.permissions.answer(permission_id, outcome, answers=answers or None)

    def _answer_approval(self, permission_id: str, stated: Line) -> None:
        response = string(stated.get("response")) or ""
        outcome, feedback = _RESPONSES.get(response, "cancelled"), string(stated.get("feedback")) or None
        self.permissions.answer(permission_id, outcome, option_id=response or None, message=feedback)

    # -- the agent's requests ---------------------------------------------------------------------------------------

    @request("ApprovalRequest", id=str)
    def _approval(self, payload: Line, key: str) -> None:
        call_id = self._asks(payload, key)
        title = string(payload.get("description")) or string(payload.get("action"))
        sender = string(payload.get("sender"))
        name = canonical_name(sender, {}, call_id or "") if sender and self.calls.get(call_id or "") is None else None
        self.permissions.ask(payload["id"], call_id=call_id, title=title, name=name)

    @request("QuestionRequest", id=str)
    def _question(self, payload: Line, key: str) -> None:
        call_id, questions = self._asks(payload, key), records(payload.get("questions"))
        self.permissions.ask(payload["id"], call_id=call_id, type="question", questions=questions or None)

    @request("ToolCallRequest", id=str, name=str)
    def _client_tool(self, payload: Line, key: str) -> Skip:
        """A tool of the client: the agent shows the call and its result as it does those of its own."""
        self.ensure_turn()
        return self.show_call(payload["id"], payload["name"], payload.get("arguments"), payload)

    @request("HookRequest")
    def _hook(self, payload: Line, key: str) -> Skip:
        return "hook"

    def _asks(self, payload: Line, key: str) -> str | None:
        """Remember whose answer this will be; returns the call that it is about."""
        call_id = string(payload.get("tool_call_id"))
        call = self.calls.get(call_id) if call_id is not None else None
        if call is not None:
            self.agent, self.parent = call.agent, call.parent
        else:
            self.open_turn()
        put(self.state.permissions_of, key, payload["id"], ASKED)
        return call_id

    # -- the agent's events -----------------------------------------------------------------------------------------

    def _event(self, params: Line, line: Line) -> Skip:
        kind, payload = string(params.get("type")) or "", record(params.get("payload"))
        while kind == "SubagentEvent":
            parent = string(payload.get("parent_tool_call_id")) or string(payload.get("task_tool_call_id"))  # to 1.5
            self.parent, self.agent = parent, string(payload.get("agent_id")) or parent
            inner = record(payload.get("event"))
            kind, payload = string(inner.get("type")) or "", record(inner.get("payload"))
        self.replay = self.state.replaying is not None
        if self.state.writing:
            self.finish_calls_before(kind, payload)
        if kind not in BETWEEN and kind != "ContentPart":
            self.texts.flush()
        emitted = bool(self.items)
        skip = self.event.read(self, payload, kind=kind, line=line)
        return None if emitted and skip != UNPARSED else skip

    def _begin_turn(self, stated: Line) -> None:
        state = self.state
        state.prompt, state.prompted, state.outcome, state.interrupted = None, False, None, False
        self.start_turn()
        self.show_message("user", stated.get("user_input"))

    @event("TurnBegin")
    def _turn_begins(self, payload: Line) -> Skip:
        if self.agent is not None:
            return self.show_message("user", payload.get("user_input"))
        if self.state.prompted:
            self.state.prompted = False
            return "echo"
        if self.turn is not None:  # its end is not on the wire
            self._end_turn(self.state.outcome or "cancelled", None, synthetic=True)
        self._begin_turn(payload)
        return None

    @event("TurnEnd")
    def _turn_ends(self, payload: Line) -> Skip:
        """Some versions send it after errors and interruptions, too."""
        state = self.state
        if self.agent is not None or self.turn is None:
            return "turn-end"
        state.outcome = "cancelled" if state.interrupted else "completed"
        if state.interrupted or state.prompt is not None:
            return "turn-end"
        self._end_turn("completed", None)
        return None

    def _end_turn(self, outcome: str, reason: str | None, *, synthetic: bool = False) -> None:
        state = self.state
        state.prompt, state.prompted, state.outcome, state.interrupted = None, False, None, False
        self.end_turn(outcome, reason=reason, synthetic=synthetic)

    def finish(self, reason: str) -> None:
        self.finish_calls()
        outcome = self.state.outcome or ("cancelled" if self.state.interrupted else None)
        if outcome is not None and self.turn is not None:
            self._end_turn(outcome, None)

    @event("StepBegin")
    def _step(self, payload: Line) -> Skip:
        if self.agent is None:
            self.state.interrupted = False
        return "step"

    @event("StepInterrupted")
    def _step_interrupted(self, payload: Line) -> Skip:
        if self.agent is None and self.turn is not None:
            self.state.interrupted = True
        return "step"

    @event("SteerInput")
    def _steered(self, payload: Line) -> Skip:
        self.open_turn()
        return self.show_message("user", payload.get("user_input"))

    @event("ContentPart")
    def _content(self, payload: Line) -> Skip:
        self.open_turn()
        kind = payload.get("type")
        if kind not in ("text", "think"):
            self.texts.flush()
            return self.show_media("assistant", payload, None)
        if not (text := string(payload.get(kind))):
            return "empty"
        self.texts.append("assistant" if kind == "text" else "reasoning", text)
        return "partial"

    @event("ApprovalResponse", "ApprovalRequestResolved", request_id=str)
    def _resolved(self, payload: Line) -> Skip:
        """The client's answer; or that of another client, or of a rule."""
        if not self.permissions.is_pending(payload["request_id"]):
            return "resolved"
        self._answer_approval(payload["request_id"], payload)
        return None

    @event("CompactionEnd")
    def _compacted(self, payload: Line) -> None:
        self.notice("compaction", None)

    @event("HookResolved")
    def _hook_resolved(self, payload: Line) -> Skip:
        if payload.get("action") != "block":
            return "hook"
        data = {key: payload[key] for key in ("event", "target") if string(payload.get(key))}
        self.notice("hook", string(payload.get("reason")), "warning", data or None)
        return None

    @event("Notification")
    def _notification(self, payload: Line) -> Skip:
        return self.show_notification(payload)

    @event("BtwBegin")
    def _side_question_asked(self, payload: Line) -> Skip:
        return self.side_question("user", string(payload.get("question")))

    @event("BtwEnd")
    def _side_question_answered(self, payload: Line) -> Skip:
        return self.side_question("assistant", string(payload.get("response")) or string(payload.get("error")))


def _id_of(request_id: Any) -> str:
    """A JSON-RPC id as a string."""
    return request_id if type(request_id) is str else msgspec.json.encode(request_id).decode()


def _method_of(result: Line) -> str | None:
    """The method that an answer belongs to, if the request is not on the wire."""
    if "protocol_version" in result:
        return "initialize"
    return "prompt" if string(result.get("status")) in _OUTCOMES and "events" not in result else None
