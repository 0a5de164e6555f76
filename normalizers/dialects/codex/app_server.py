"""The `codex-app-server` dialect: `codex app-server`, between Codex and a client such as an editor, protocol version 2.

The format is JSON-RPC without the key `jsonrpc`. The agent's notifications are mostly events of Codex's core under
other names, with keys in camel case; its requests ask the client for approvals and answers. The threads that subagents
run in share the connection: they belong to the session of the thread that spawned them, whose call is their parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tooltap.normalizers.core.answers import CannotWriteError, Chosen
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.state import make_room, put
from tooltap.normalizers.dialects.codex import to_agent
from tooltap.normalizers.dialects.codex.items import (
    core_item,
    counts_of,
    cwd_of,
    mode_of,
    nonempty,
    snake,
    snake_keys,
)
from tooltap.normalizers.dialects.codex.parser import CodexParser
from tooltap.normalizers.dialects.codex.threads import Asked, CodexState
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import strings
from tooltap.normalizers.wire.values import first_string, record, records, whole
from tooltap.protocol.answers import ForAgent, joined_since
from tooltap.protocol.events import SessionEvent

MANY_CHILDREN = 512
MANY_JOINED = 64

_QUESTIONS = {
    "applyPatchApproval": "apply_patch_approval_request",
    "execCommandApproval": "exec_approval_request",
    "item/commandExecution/requestApproval": "exec_approval_request",
    "item/fileChange/requestApproval": "apply_patch_approval_request",
    "item/permissions/requestApproval": "request_permissions",
    "item/tool/requestUserInput": "request_user_input",
    "mcpServer/elicitation/request": "elicitation_request",
}
"""Method of an agent's request that a person answers -> the core's event."""

_CALLED = ("account/chatgptAuthTokens/refresh", "attestation/generate", "currentTime/read", "item/tool/call")
"""The agent's requests that the client's program answers; the result of a tool of the client's is in its item."""

_ANSWERS = {
    "item/permissions/requestApproval": "permissions",
    "item/tool/requestUserInput": "answers",
    "mcpServer/elicitation/request": "action",
}
"""Method of such a request -> key of its answer, where that is not `decision`."""

_ANSWER_KEYS = ("decision", *_ANSWERS.values())

_RENAMED = {
    "deprecationNotice": "deprecation_notice",
    "guardianWarning": "guardian_warning",
    "hook/completed": "hook_completed",
    "hook/started": "hook_started",
    "item/agentMessage/delta": "agent_message_content_delta",
    "item/autoApprovalReview/completed": "guardian_assessment",
    "item/plan/delta": "plan_delta",
    "item/reasoning/summaryPartAdded": "agent_reasoning_section_break",
    "item/reasoning/summaryTextDelta": "reasoning_content_delta",
    "item/reasoning/textDelta": "reasoning_raw_content_delta",
    "model/rerouted": "model_reroute",
    "thread/compacted": "context_compacted",
    "thread/name/updated": "thread_name_updated",
    "turn/plan/updated": "plan_update",
    "warning": "warning",
}
"""Method -> the core's event, whose keys are the same in snake case."""

_CLIENTS = re.compile(
    r"(account|command/exec|externalAgentConfig|fuzzyFileSearch|mcpServer/oauthLogin|model|process|project|remoteControl"
    r"|windowsSandbox)/"
)
"""Beginnings of notifications' methods about the client's account, files and windows."""


class SubagentThread(msgspec.Struct):
    """A thread that a subagent runs in."""

    session: str
    call_id: str | None = None


class CodexAppServerState(CodexState, kw_only=True):
    children: dict[str, SubagentThread] = msgspec.field(default_factory=dict)
    """Thread -> the session and call it belongs to."""
    asked: dict[str, Asked] = msgspec.field(default_factory=dict)
    """JSON-RPC id of a request to the client -> what it asks for."""
    has_joined: bool = False
    """Whether the client has joined a thread that other clients have open, and so shares its requests with them."""
    joined: dict[str, int] = msgspec.field(default_factory=dict)
    """Session -> start of the turn in whose middle, or after which, the client has joined it."""


class CodexAppServer(CodexParser):
    dialect = "codex-app-server"
    STATES_END = True
    SKIPS = CodexParser.SKIPS | {
        "request",  # of the client
        "answer",  # to a request that is about nothing the agent does
        "resolved",  # a request to the client was answered
        "status",  # a thread is active or idle
        "rate-limits",  # a quota that states nothing new
    }
    line = Lines(
        "method",
        skip={
            "initialized": "handshake",
            "item/autoApprovalReview/started": "started",
            "item/fileChange/outputDelta": "partial",
            "thread/settings/updated": "housekeeping",
            "turn/moderationMetadata": "housekeeping",
            **dict.fromkeys(("app/list/updated", "fs/changed", "skills/changed"), "client"),
            "windows/worldWritableWarning": "client",
        },
    )
    """Notifications that the core has no event for. The methods get the parameters."""
    state_type = CodexAppServerState
    state: CodexAppServerState

    def enter(self, value: Line) -> None:
        super().enter(value)
        emitted = whole(value.get("emittedAtMs"))
        if emitted is not None:
            self.ts = emitted

    def read(self, value: Line) -> Skip:
        self.enter(value)
        method, params = value.get("method"), record(value.get("params"))
        if not isinstance(method, str):
            return self._answer(value)
        if "id" not in value:
            return self._notification(method, params, value)
        if method in _QUESTIONS and self.direction != "in":
            return self._request(method, params, value)
        if method == "turn/interrupt":
            self._scope(params)
            self.notice("interrupt", method)
            return None
        if method == "thread/rollback":
            self._scope(params)
            self.rewound(whole(params.get("numTurns")))
            return None
        return "client" if method in _CALLED else "request"

    # -- threads --------------------------------------------------------------------------------------------------

    def _scope(self, params: Line) -> None:
        turn, thread_id = params.get("turnId"), params.get("threadId")
        self.threads.event_turn = turn if turn and type(turn) is str else None
        if not thread_id or type(thread_id) is not str:
            thread_id = first_string(params, "conversationId")
        if thread_id is None:
            return
        child = self.state.children.get(thread_id)
        self.set_session(thread_id if child is None else child.session)
        if child is not None:
            self.agent, self.parent = thread_id, child.call_id

    def _add_child(self, thread_id: str, session: str, call_id: str | None = None) -> None:
        children = self.state.children
        known = children.pop(thread_id, None)
        make_room(children, MANY_CHILDREN)
        if known is not None:
            session, call_id = known.session, known.call_id or call_id
        children[thread_id] = SubagentThread(session, call_id)

    def _find_child(self, params: Line) -> None:
        """Register a subagent's thread when it or its turn starts: it names its parent thread, or the root turn it
        works for."""
        turn, thread = record(params.get("turn")), record(params.get("thread"))
        root_turn, thread_id = first_string(turn, "rootTurnId"), first_string(params, "threadId")
        if thread_id is not None and root_turn != turn.get("id"):
            root = next((one for one in self.state.turns if one.id == root_turn), None)
            if root is not None and root.session != thread_id:
                self._add_child(thread_id, root.session)
        parent, own_id = first_string(thread, "parentThreadId"), first_string(thread, "id")
        if parent is not None and own_id is not None:
            grandparent = self.state.children.get(parent)
            self._add_child(own_id, parent if grandparent is None else grandparent.session)

    def _find_spawned(self, item: Line) -> None:
        """Recognise the threads that a call spawned."""
        spawned: list[str] = []
        if "receiverThreadIds" in item and snake(str(item.get("tool"))) == "spawn_agent":
            spawned = strings(item["receiverThreadIds"])
        if item.get("type") == "subAgentActivity" and item.get("kind") == "started":
            spawned = strings([item.get("agentThreadId")])
        for child in spawned:
            self._add_child(child, self.session, first_string(item, "id"))
            if model := first_string(item, "model"):
                self._state_model(child, model)

    def _state_model(self, child: str, model: str) -> None:
        """Emit the model of a subagent, which only the call that has started it states."""
        of_line = self.agent, self.parent
        self.agent, self.parent = child, self.state.children[child].call_id
        self.emit(SessionEvent, state="updated", model=model, turn=None)
        self.agent, self.parent = of_line

    # -- the agent's notifications --------------------------------------------------------------------------------

    def _notification(self, method: str, params: Line, value: Line) -> Skip:
        if method in ("thread/started", "turn/started"):
            self._find_child(params)
        self._scope(params)
        if method in ("item/started", "item/completed"):
            item = record(params.get("item"))
            skip = self.read_turn_item(core_item(item), method == "item/completed", value)
            self._find_spawned(item)
            return skip
        if method.startswith("codex/event"):  # older versions send everything as the core's events, too
            self.threads.event_turn = first_string(params, "id")
            return self.read_event(record(params.get("msg")), value)
        if self.line.knows(method):
            return self.line.read(self, params, kind=method)
        if (event := _core_event(method, params)) is None:
            return _skip_by_prefix(method) or self.unparsed("unknown-type", value)
        skip = self.read_event(event, value)
        return "rate-limits" if skip == "no-usage" and method == "account/rateLimits/updated" else skip

    @line("thread/started")
    def _thread_started(self, params: Line) -> Skip:
        return self._show_thread(record(params.get("thread")), {})

    @line("thread/status/changed")
    def _status(self, params: Line) -> Skip:
        if record(params.get("status")).get("type") != "systemError":
            return "status"
        self.notice("thread-status", "systemError", "warning")
        return None

    @line("thread/realtime/transcript/done", text=str)
    def _spoken(self, params: Line) -> None:
        """Emit what was said in a voice conversation. What the user says to Codex itself also comes as a prompt."""
        self.notice("voice", params["text"], data=nonempty(params, "role"))

    @line("thread/closed")
    def _closed(self, params: Line) -> Skip:
        if self.agent is not None:
            return "housekeeping"
        self.emit(SessionEvent, state="ended")
        return None

    @line("thread/reverted")
    def _reverted(self, params: Line) -> None:
        """Emit a rewind. The counter goes back as well, so its next value may be one that it had before."""
        self.thread.total = []
        self.rewound()

    @line("serverRequest/resolved")
    def _resolved(self, params: Line) -> Skip:
        """Read that a request is over. If this client has joined others and has not answered it, another one has, and
        only the course of the call shows what. A stream that may lack the client's side waits for that course."""
        request = self.state.asked.get(str(params.get("requestId")))
        if request is None or not self.state.has_joined or not self.permissions.is_pending(request.permission):
            return "resolved"
        del self.state.asked[str(params.get("requestId"))]
        self.permissions.answer(request.permission, "answered", by="user", synthetic=True)
        return None

    @line("configWarning")
    def _config_warning(self, params: Line) -> None:
        text = first_string(params, "summary") or "configWarning"
        self.notice("config", text, "warning", nonempty(params, "details", "path") or None)

    @line("item/commandExecution/outputDelta")
    def _printed(self, params: Line) -> Skip:
        call = self.calls.get(first_string(params, "itemId") or "")
        delta = first_string(params, "delta")
        if call is not None and delta is not None:
            self.tool_calls.running.append(call, "stdout", delta.encode())
        return "partial"

    @line("item/mcpToolCall/progress")
    def _progress(self, params: Line) -> Skip:
        if (call := self.calls.get(first_string(params, "itemId") or "")) is None:
            return "duplicate-call"
        self.calls.update(call, progress={"text": first_string(params, "message") or "", "data": {}})
        return None

    def _show_thread(self, thread: Line, settings: Line, since: int | None = None) -> Skip:
        """Read a thread from the answer to the client's request, or from a notification, which has no settings.
        `since`: when the client has heard of the thread."""
        if (thread_id := first_string(thread, "id")) is None:
            return "answer"
        self._find_child({"thread": thread})
        self._scope({"threadId": thread_id})
        before, page = len(self.items), record(settings.get("initialTurnsPage"))
        self.state.has_joined = self.state.has_joined or bool(page)
        newest = next(iter(records(page.get("data"))), {})
        is_missed = since is not None and _is_over(newest) and _ended(newest) >= since
        resumed = bool(page.get("nextCursor")) or (_is_over(newest) and not is_missed)
        skip = self._show_settings(thread, settings, resumed=resumed)
        self._catch_up(newest, record(thread.get("status")), settings, is_missed=is_missed)
        return skip if len(self.items) == before else None

    def _show_settings(self, thread: Line, settings: Line, *, resumed: bool) -> Skip:
        """`resumed`: whether the thread has turns that are not in `thread`."""
        sandbox = snake(first_string(record(settings.get("sandbox")), "type") or "").replace("_", "-") or None
        shown = {
            "cwd": cwd_of(settings) or cwd_of(thread),
            "model": first_string(settings, "model") or first_string(thread, "model"),
            "mode": mode_of({"approval_policy": settings.get("approvalPolicy"), "sandbox_policy": sandbox}),
        }
        if self.thread.settings:
            return self.change_settings(**shown)
        self.thread.settings = {key: value for key, value in shown.items() if value is not None}
        forked_from = first_string(thread, "forkedFromId")
        self.thread.is_fork = forked_from is not None
        stated = {
            "agent_version": first_string(thread, "cliVersion"),
            "title": first_string(thread, "name"),
            "branch": first_string(record(thread.get("gitInfo")), "branch"),
            "forked_from": forked_from if self.agent is None else None,
        }
        resumed = (resumed or bool(thread.get("turns"))) and forked_from is None
        self.begin_thread(resumed=resumed, **stated, **shown)
        return None

    def _catch_up(self, newest: Line, status: Line, value: Line, *, is_missed: bool) -> None:
        """Read what has happened to the thread before this client joined it, or while it was away. `newest`: the newest
        turn, if the client has asked for it; `is_missed`: it is over, and the client has been there, but not joined."""
        newest_id = first_string(newest, "id")
        if newest_id is None:
            return
        scope, is_over = (self.session, self.agent), _is_over(newest)
        is_open = False
        for turn in [one for one in self.state.turns if (one.session, one.agent) == scope]:
            self.threads.event_turn = turn.id
            if turn.id != newest_id:
                self.end_codex_turn("completed", turn_id=turn.id, synthetic=True)
            elif is_over:
                self.read_event(_turn_completed({"turn": newest}), value)
            else:
                is_open = True
                if status.get("activeFlags") == []:
                    self.permissions.expire_turn(self.session, turn.id, stated=True)
        if (is_over and not is_missed) or is_open or newest_id == self.thread.ended:
            return
        now, items = self.ts, list(records(newest.get("items")))
        if items:  # else the turn is there from now on only
            self.ts = _started(newest, items) or now
            if self.agent is None and self.ts is not None:
                put(self.state.joined, self.session, self.ts, MANY_JOINED)
        self.read_event({"type": "task_started", "turn_id": newest_id}, value)
        for item in items:
            self.ts = whole(item.get("completedAtMs")) or whole(item.get("startedAtMs")) or self.ts
            self.read_turn_item(core_item(item), not _is_running(item), value)
            self._find_spawned(item)
        if is_over:
            self.ts = _ended(newest)
            self.read_event(_turn_completed({"turn": newest}), value)
        self.ts = now

    def joined(self, session: str) -> int | None:
        return self.state.joined.get(session)

    def count_request(self, last: Line, total: Line, *, is_first: bool) -> dict[str, int | None]:
        """Count a request of a running turn. When a thread is resumed or forked, the server repeats the usage of a turn
        that ended earlier."""
        thread, turn_id = self.thread, self.threads.event_turn or self.turn
        if turn_id is not None and (turn_id == thread.ended or any(one.id == turn_id for one in self.state.turns)):
            return super().count_request(last, total, is_first=is_first)
        if not thread.spent and not thread.is_fork:
            thread.has_earlier = True
            thread.spend(counts_of(total))
            self.emit_spent()
        return {}

    # -- to the agent ---------------------------------------------------------------------------------------------

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        return to_agent.word_answer(self.permissions.reply_to(request), chosen, option)

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.threads)
        return to_agent.word_prompt(session, self._running(session), text, id)

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        self.check_session(session, self.state.threads)
        if (turn_id := self._running(session)) is None:
            raise CannotWriteError("the agent is not working: there is nothing to interrupt")
        return to_agent.word_interrupt(session, turn_id, id)

    def _running(self, session: str) -> str | None:
        turns = (one.id for one in self.state.turns if one.session == session and one.agent is None)
        return next(turns, None)

    # -- requests and answers -------------------------------------------------------------------------------------

    def _request(self, method: str, params: Line, value: Line) -> Skip:
        self._scope(params)
        request_id = str(value["id"])
        if self._is_repeated(request_id, params):
            return "duplicate-request"
        make_room(self.state.asked, self.context.limits.open_permissions)
        self.state.asked[request_id] = Asked(request_id, _ANSWERS.get(method, "decision"))
        event = {"call_id": params.get("itemId"), **snake_keys(params), "type": _QUESTIONS[method]}
        if method == "mcpServer/elicitation/request":
            event.update(call_id=self._mcp_call(params), request=snake_keys(params), id=request_id)
        else:
            event.update(parsed_cmd=params.get("commandActions"), approval_id=request_id)
            event["available_decisions"] = params.get("availableDecisions")  # values, not in snake case
        self.threads.request = value
        return self.read_event(event, value)

    def _is_repeated(self, request_id: str, params: Line) -> bool:
        """Whether a request is sent again, to a client that has come back."""
        known = self.state.asked.get(request_id)
        if known is None or not self.permissions.is_pending(known.permission):
            return False
        call_id = first_string(params, "itemId")
        return call_id is not None and self.permissions.call_of(known.permission) == self.calls.id_of(call_id)

    def _mcp_call(self, params: Line) -> str | None:
        """Return the id of the MCP call that an approval is about. The wire states no id, so it must be the only open
        call of that name."""
        name = f"mcp__{params.get('serverName')}__{record(params.get('_meta')).get('tool_name')}"
        scope = self.session, self.agent
        named = [call for call in self.state.calls.open.values() if call.raw_name == name]
        calls = [call for call in named if (call.session, call.agent) == scope]
        return calls[0].id if len(calls) == 1 else None

    def _answer(self, value: Line) -> Skip:
        if "id" not in value or not ("result" in value or value.get("error") is not None):
            return self.unparsed("unknown-type", value)
        result = record(value.get("result"))
        if self.direction == "in" or (self.direction is None and any(key in result for key in _ANSWER_KEYS)):
            return self.approvals.answer_request(self.state.asked, value)
        if error := first_string(record(value.get("error")), "message"):
            self.notice("provider-error", error, "error")
            return None
        if "userAgent" in result:
            return "handshake"
        return self._show_thread(record(result.get("thread")), result, joined_since(value))


def _is_running(item: Line) -> bool:
    return item.get("status") == "inProgress"


def _started(turn: Line, items: Sequence[Line]) -> int | None:
    """Return when a turn has started, in ms since the epoch. A turn states it in seconds, its items in ms."""
    if (seconds := whole(turn.get("startedAt"))) is not None:
        return seconds * 1000
    return next((ms for item in items if (ms := whole(item.get("startedAtMs"))) is not None), None)


def _ended(turn: Line) -> int:
    """Return when a turn that is over has ended, in ms since the epoch; 0 if that is unknown. A turn states it in
    seconds, its items in ms."""
    items = (
        whole(item.get(key)) or 0 for item in records(turn.get("items")) for key in ("startedAtMs", "completedAtMs")
    )
    return max((whole(turn.get("completedAt")) or 0) * 1000, *items, 0)


def _is_over(turn: Line) -> bool:
    return bool(turn) and not _is_running(turn)


# -- the notifications as the core's events ----------------------------------------------------------------------


def _skip_by_prefix(method: str) -> str | None:
    """Return the reason to skip a notification by its method's prefix; None for an unknown one."""
    return "client" if _CLIENTS.match(method) else "housekeeping" if method.startswith("thread/") else None


def _core_event(method: str, params: Line) -> Line | None:
    """The event that a notification corresponds to; None where the core has none."""
    if method in _RENAMED:
        return {**snake_keys(params), "type": _RENAMED[method]}
    return _TRANSLATED[method](params) if method in _TRANSLATED else None


def _turn_completed(params: Line) -> Line:
    turn = snake_keys(record(params.get("turn")))
    event = {"turn_id": turn.get("id"), **nonempty(turn, "duration_ms", "error")}
    status = status_word(turn.get("status"))
    if status in ("interrupted", "cancelled"):
        return {**event, "type": "turn_aborted", "reason": "interrupted"}
    if status == "failed":
        event.setdefault("error", {"message": "failed"})
    return {**event, "type": "task_complete"}


def _error(params: Line) -> Line:
    kind = "stream_error" if params.get("willRetry") else "error"
    error = params.get("error")
    event = {**(snake_keys(error) if type(error) is dict else {"message": error}), "type": kind}
    info = event.get("codex_error_info")
    return {**event, "codex_error_info": snake(info)} if isinstance(info, str) else event


def _rate_limits(params: Line) -> Line:
    return {"type": "token_count", "rate_limits": snake_keys(params.get("rateLimits"))}


def _token_usage(params: Line) -> Line:
    usage = snake_keys(record(params.get("tokenUsage")))
    info = {
        "total_token_usage": usage.get("total"),
        "last_token_usage": usage.get("last"),
        "model_context_window": usage.get("model_context_window"),
    }
    return {"type": "token_count", "info": info}


_TRANSLATED: dict[str, Callable[[Line], Any]] = {
    "account/rateLimits/updated": _rate_limits,
    "error": _error,
    "item/commandExecution/terminalInteraction": lambda params: {
        **snake_keys(params),
        "type": "terminal_interaction",
        "call_id": params.get("itemId"),
    },
    "item/fileChange/patchUpdated": lambda params: {
        "type": "patch_apply_updated",
        "call_id": params.get("itemId"),
        "changes": params.get("changes"),
    },
    "mcpServer/startupStatus/updated": lambda params: {
        "type": "mcp_startup_update",
        "server": params.get("name"),
        "status": {"state": params.get("status"), "error": params.get("error")},
    },
    "rawResponseItem/completed": lambda params: {"type": "raw_response_item", "item": params.get("item")},
    "thread/tokenUsage/updated": _token_usage,
    "turn/completed": _turn_completed,
    "turn/diff/updated": lambda params: {"type": "turn_diff", "unified_diff": params.get("diff")},
    "turn/started": lambda params: {"type": "task_started", "turn_id": record(params.get("turn")).get("id")},
}
"""Method -> function that converts the parameters to the core's event, for events that differ in more than names."""
