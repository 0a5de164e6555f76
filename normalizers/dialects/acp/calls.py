"""Tool calls of an ACP session, and what the agent asks its user: permissions for calls, questions and forms."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.background import STEERING, STOPS, Background, named_task
from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.forms import field_types, questions
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.acp.answers import (
    agents_stated,
    decided_by_policy,
    printed_so_far,
    read_result,
    started_task,
    task_end,
)
from tooltap.normalizers.dialects.acp.content import blocks, diffs, linked, text_of
from tooltap.normalizers.dialects.acp.inputs import (
    KINDS,
    PROXY,
    ToolUse,
    json_object,
    mcp_name,
    raw_name,
    read_input,
    stated_name,
)
from tooltap.normalizers.dialects.acp.sessions import AcpSessions, AcpState, EarlyResult, PendingRequest
from tooltap.normalizers.dialects.acp.terminals import Terminals, emit_output
from tooltap.normalizers.dialects.acp.to_agent import options_of
from tooltap.normalizers.dialects.codex.answers import agent_end
from tooltap.normalizers.dialects.opencode.answers import todos_digest
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.tools.registry import tool_input
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import OutputRef

_RUNNING = ("in_progress", "paused")
_OPEN = (None, "pending", "in_progress", "paused")
"""Statuses of a call that has not ended. All others end it, including v2's `cancelled`."""
_INPUT_FIELDS = frozenset({"rawInput", "title", "kind", "name", "content", "locations"})
MANY_EARLY = 16
"""Maximum number of results that wait for their calls."""
EARLY_BYTES = 65_536
"""Maximum size of such a result; a longer one stays as it was read."""
_encode = msgspec.json.Encoder().encode
_VERDICTS = {"approved": "allowed", "denied": "denied", "aborted": "cancelled", "timedOut": "expired"}


class ToolCalls:
    """Tool calls of an ACP session, to-do lists, and reviews of calls.

    The first line opens a call, later ones are merged into it, a terminal status ends it.

    Calls, permission requests and, in v2, content chunks all describe the same call in the same terms. The input or the
    output may be spread over them, so what they state is stored in the call's memory (`ToolUse`).
    """

    update = Lines("sessionUpdate")

    def __init__(self, parser: Parser, state: AcpState, sessions: AcpSessions, terminals: Terminals) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state
        self._sessions = sessions
        self._terminals = terminals
        self._background = Background(parser, parser.calls, state.tasks)

    # -- updates ------------------------------------------------------------------------------------------------

    @update("tool_call", "tool_call_update")
    def _tool_call(self, update: Line) -> Skip:
        call_id = update.get("toolCallId")
        call = self._calls.get(call_id) if type(call_id) is str else None
        if call is None and (type(call_id) is not str or not self._calls.is_known(call_id)):
            self._sessions.ensure_turn()
        stated = update.get("rawOutput") or update.get("rawInput")
        if type(stated) is dict and "reviewId" in stated and type(stated.get("targetItemId")) is str:
            return self._review(update, stated, stated["targetItemId"])
        return self._report(call_id, call, update, self._sessions.info.stopping)

    def _report(self, call_id: Any, call: OpenCall | None, update: Line, stopping: bool) -> Skip:
        """Read an update of a call, which may be open. `stopping`: the client asked to stop the turn."""
        if type(call_id) is not str:
            return self._parser.unparsed("unknown-type", update)
        self._parser.texts.flush()
        if call is not None and "_meta" in update and record(update["_meta"]).get("subagentProgress") is True:
            # Qwen Code 0.24.4: what the subagent does, which its own calls state, too
            self._calls.update(call, status="running", progress={"text": text_of(update.get("content"))})
            return None
        bodies, response = Bodies(self._parser), response_in(update)
        if response is None:  # else it stays as it is until the result, which has the same bodies
            update = bodies.take(update)
        ended, skip = _has_ended(update), None
        if (call is None and not self._calls.is_done(call_id)) or (
            update["sessionUpdate"] == "tool_call" and self._begins_another(call_id, update)
        ):
            opens = update["sessionUpdate"] == "tool_call" or self._state.protocol_version >= 2
            use = ToolUse()
            if opens or not ended or _names_tool(update, call_id):
                call = self.open(call_id, use, update, response, synthetic=not opens)
            else:  # the call itself may still come
                call, _ = None, _merge(use, update)
        elif call is not None:
            use = use_of(call)
            skip = self.update_open(call, use, update, response)
        elif ended:
            use = ToolUse()
        else:
            return "late-update"
        if not ended:
            return skip
        if call is not None and not call.memory:  # dropped, for lack of room
            use = ToolUse()
        return self._end_call(call_id, use, update, bodies, stopping)

    @update("tool_call_content_chunk")
    def _add_content(self, chunk: Line) -> Skip:
        """v2: one more item of a call's content."""
        call_id = chunk.get("toolCallId")
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        if call is None:
            return "late-update"
        use = use_of(call)
        items = [Bodies(self._parser).take(chunk.get("content"))]
        self._terminals.embed(use, call.id, items)
        if (text := text_of(items)) is not None and call.status == "running":
            emit_output(self._parser, call, text, len(use.running or ""))
            use.running = (use.running or "") + text
        else:
            use.content = [*use.content, *items]
        self._calls.remember(call, use.memory())
        return None

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        use = use_of(call)
        terminal = self._terminals.newest(use)
        return printed_so_far(use, terminal), terminal.printed.outputs("/output/stdout") if terminal else None

    # -- plans --------------------------------------------------------------------------------------------------

    @update("plan", "plan_update")
    def _plan(self, update: Line) -> Skip:
        """Read the whole to-do list, which comes without a call (v2: `plan_update`): emits a synthetic call and its
        result."""
        self._sessions.ensure_turn()
        plan = record(update.get("plan")) or update
        todos, text = plan.get("entries"), plan.get("content") or plan.get("uri")
        if isinstance(todos, list):
            digest = todos_digest(todos)
            if digest == self._sessions.info.todos or (not todos and self._sessions.info.todos is None):
                return "unchanged"
            self._sessions.info.todos = digest
            self._state.plans += 1
            self._parser.texts.flush()
            call_id, value = f"plan-{self._state.plans}", {"todos": todos}
            self._calls.open(call_id, "plan", value, raw=update, name="TodoWrite", synthetic=True)
            return self._calls.answer(call_id, Answer(value), raw=update, synthetic=True)
        if not isinstance(text, str):
            return self._parser.unparsed("unknown-type", update)
        self._parser.texts.flush()
        self._parser.notice("plan", text)
        return None

    # -- reviews ------------------------------------------------------------------------------------------------------

    def _review(self, update: Line, stated: Line, target: str) -> Skip:
        """Read a review of a risky call by a second model (codex-acp 2.6.0). The wire shows it as a call of kind
        `think`, whose input and output are the same object; it is also emitted as a permission that an agent
        answers."""
        review, permissions = without_nulls(record(stated.get("review"))), self._parser.permissions
        call_id, permission_id = string(update.get("toolCallId")), string(stated.get("reviewId"))
        if call_id is None or permission_id is None:
            return self._parser.unparsed("unknown-type", update)
        self._parser.texts.flush()
        status, message = string(review.get("status")), string(review.get("rationale"))
        value = {"review": review, "action": stated.get("action"), "targetItemId": target}
        skip = self._calls.show(
            call_id, raw_name(update, call_id), value, raw=update, title=string(update.get("title"))
        )
        if status == "inProgress":
            permissions.ask(permission_id, call_id=target, title=string(update.get("title")))
        elif type(status) is str and status in _VERDICTS:
            permissions.answer(permission_id, _VERDICTS[status], call_id=target, by="agent", message=message)
        if not _has_ended(update):
            return skip
        ended = status_word(update.get("status")) or "completed"
        return self._calls.answer(call_id, Answer(None, ended, message), raw=update)

    # -- calls --------------------------------------------------------------------------------------------------

    def _begins_another(self, call_id: str, update: Line) -> bool:
        """Whether a `tool_call` opens a new call under the id of one that has ended, or that another session or agent
        has."""
        if self._parser.replay:
            return False
        if self._calls.session_of(call_id) != self._parser.session:
            return True
        call, agent = self._calls.get(call_id), self._parser.agent
        is_others = call is not None and agent is not None and call.agent != agent
        if not is_others and not self._calls.is_done(call_id):
            return False
        use, name = ToolUse(), raw_name(update, call_id)
        _merge(use, update)
        if not _has_ended(update) and isinstance(update.get("content"), list):
            use.content = update["content"]
        value, canonical = self._read_input(use, name)
        if is_others:
            return self._calls.shown(call_id, name, value, name=canonical) is None
        return not self._calls.repeats(call_id, name, value, name=canonical)

    def open(
        self, call_id: str, use: ToolUse, update: Line, response: Any, *, synthetic: bool, status: str | None = None
    ) -> OpenCall:
        """Open a call with what an update, or a permission request, states of it. `synthetic`: the call itself was not
        seen."""
        self._learn(use, call_id, update, response, runs=False)
        # An update of a call that was not seen may state nothing of its tool.
        is_named = not synthetic or _names_tool(update, call_id)
        name = raw_name(update, call_id) if is_named else UNKNOWN_TOOL
        value, canonical = self._read_input(use, name)
        canonical = canonical if is_named else "Unknown"
        status = status or ("running" if update.get("status") in _RUNNING else "pending")
        call = self._calls.open(
            call_id, name, value, raw=update, name=canonical, status=status, title=use.title, synthetic=synthetic
        )
        self._note_todos(call, value)
        if "_meta" in update:
            self._terminals.read_meta(use, call_id, update["_meta"])
        if self._calls.get(call_id) is call:
            self._calls.remember(call, use.memory())
        elif (early := self._state.early.pop(f"{self._parser.session}/{call_id}", None)) is not None:
            _merge(use, early.update)
            answer = read_result(call.name, use, early.update, None, provider=self._parser.provider, stopping=False)
            self._calls.correct(call_id, early.event, answer, raw=early.update)
        return call

    def update_open(self, call: OpenCall, use: ToolUse, update: Line, response: Any) -> Skip:
        """Emit what an update changes of an open call."""
        was_known, before, terminals = bool(call.memory), use.running or "", use.terminals
        runs = update.get("status") in _RUNNING
        learned, carries = self._learn(use, call.id, update, response, runs=runs or call.status == "running")
        name = self._name_now(call, use, update)
        value: Any = msgspec.UNSET
        canonical = None
        # If the memory was dropped, there is nothing to merge with.
        if not _INPUT_FIELDS.isdisjoint(update) and (was_known or isinstance(update.get("rawInput"), dict)):
            value, canonical = self._read_input(use, name)
            self._note_todos(call, value)
        status = "running" if runs else None
        changed = self._calls.update(
            call, value, raw=update, raw_name=name, name=canonical, status=status, title=use.title
        )
        running = use.running or ""
        if running != before and running.startswith(before):
            emit_output(self._parser, call, running[len(before) :], len(before))
        if "_meta" in update:
            carries = self._terminals.read_meta(use, call.id, update["_meta"]) or carries
        if learned or use.terminals is not terminals:
            self._calls.remember(call, use.memory())
        if changed or carries:
            return None
        return "partial" if running != before else "unchanged"

    def _name_now(self, call: OpenCall, use: ToolUse, update: Line) -> str:
        """Return the tool's name after an update: a call known only by its kind may get a more specific name."""
        name, known = stated_name(update), call.raw_name
        if name is not None:
            return known if name == PROXY else name
        if known != UNKNOWN_TOOL and known not in KINDS:
            return known
        stated = {"title": use.title, "kind": use.kind, "rawInput": use.raw_input}
        name = raw_name(stated, call.wire_id or call.id)
        return known if name in KINDS and use.kind is None else name

    def _learn(self, use: ToolUse, call_id: str, update: Line, response: Any, *, runs: bool) -> tuple[bool, bool]:
        """Merge an update into what is known. Returns (whether anything was learned, apart from terminals; whether part
        of it shows only in a later event).

        Text describes the call until it runs, and is its output from then on; text of the last update belongs to the
        result.
        """
        learned = _merge(use, update)
        content, ended = update.get("content"), _has_ended(update)
        if content and type(content) is list:
            if not ended and _are_arguments(use, content, is_given="rawInput" in update, runs=runs):
                return True, use.raw_input is not None
            self._terminals.embed(use, call_id, content)
            if not (runs or ended) or diffs(content):
                use.content, learned = content, True
            elif not ended:
                use.running, learned = text_of(content) or use.running, True
        if response is None:
            return learned, False
        use.response = response
        return True, True

    def _read_input(self, use: ToolUse, name: str) -> tuple[Any, str | None]:
        servers = (*self._parser.context.mcp_servers, *self._state.servers)
        return read_input(use, name, mcp_name(name, use.title or "", use.raw_input, servers))

    def _end_call(self, call_id: str, use: ToolUse, update: Line, bodies: Bodies, stopping: bool) -> Skip:
        """Emit the result. If the call ended before, the result may replace a synthetic one."""
        terminal = self._terminals.newest(use) if use.terminals else None
        if use.response is not None:
            use.response = bodies.take(use.response)
        name = self._calls.name_of(call_id) or ""
        answer = read_result(name, use, update, terminal, provider=self._parser.provider, stopping=stopping)
        attachments = bodies.attachments or []
        if type(content := update.get("content")) is list:
            for block in blocks(content):
                if "uri" in block:
                    attachments += linked(block)
        outputs = terminal.printed.outputs("/output/stdout") if terminal else None
        if attachments or outputs or answer.attachments:
            answer = answer.replace(attachments=attachments or None, outputs=outputs)
        call, is_early = self._calls.get(call_id), not self._calls.is_known(call_id)
        if answer.status == "denied" and call is not None and not call.denied and decided_by_policy(use):
            self._parser.permissions.answer(call_id, "denied", call_id=call_id, by="policy", message=answer.error)
        skip = self._calls.answer(call_id, answer, raw=update)
        if is_early and len(_encode(update)) <= EARLY_BYTES:
            shown = [item.id for item in self._parser.items if isinstance(item, Produced)]
            put(self._state.early, f"{self._parser.session}/{call_id}", EarlyResult(shown[-1], update), MANY_EARLY)
        relays_claude = isinstance(record(update.get("_meta")).get("claudeCode"), dict)
        if use.terminals and (relays_claude or not answer.is_async):
            self._terminals.release(use)
        if answer.is_async and relays_claude and call is not None:  # what it has shown is the acknowledgement
            use.running, use.terminals, use.response = None, [], None
            self._calls.remember(call, use.memory())
        if skip is None:
            self._note_task(call_id, name, use, update, answer)
        return skip

    def _note_task(self, call_id: str, name: str, use: ToolUse, update: Line, answer: Answer) -> None:
        """Remember the task of a call that runs on; end the call whose task has ended, as this result states."""
        agents = agents_stated(use.raw_input) if name in ("Task", *STEERING) else {}
        if answer.is_async:
            for task in agents or [started_task(update, answer)]:
                self._background.began(task, call_id)
        elif agents and name in STEERING:
            for agent, state in agents.items():
                started, ended = self._background.running(agent), agent_end(state, stopped=name in STOPS)
                if started is not None and ended is not None:
                    self._background.ended(started, ended, raw=update)
        elif name in STEERING and (task := named_task(use.raw_input)) is not None:
            started = self._background.running(task)
            if started is not None and (ended := task_end(name, task, started.name, update, answer)) is not None:
                self._background.ended(started, ended, raw=update)

    def _note_todos(self, call: OpenCall, value: Any) -> None:
        """Remember a to-do list: a plan that repeats it is not shown again (OpenCode before 1.0, Vibe, Kimi Code)."""
        if call.name == "TodoWrite" and isinstance(value, dict) and value:
            todos = tool_input("TodoWrite", value, call.raw_name).get("todos")
            if isinstance(todos, list):
                self._sessions.info.todos = todos_digest(todos)


def _has_ended(update: Line) -> bool:
    status = update.get("status")
    return status not in _OPEN and status_word(status) is not None


def _names_tool(update: Line, call_id: str) -> bool:
    return type(update.get("kind")) is str or raw_name(update, call_id) not in KINDS


def use_of(call: OpenCall) -> ToolUse:
    """The merged updates of an open call, from its memory."""
    return msgspec.convert(call.memory, ToolUse)


def _merge(use: ToolUse, update: Line) -> bool:
    """Merge the stated fields into `use`. Returns whether any of them is new."""
    learned = False
    kind, title, locations = update.get("kind"), update.get("title"), update.get("locations")
    if type(kind) is str and kind != use.kind:
        use.kind, learned = kind, True
    if type(title) is str and title != use.title:
        use.title, learned = title, True
    raw_input = update.get("rawInput")
    if raw_input or (use.raw_input is None and raw_input is not None):
        use.raw_input, learned = raw_input, True
    if locations and type(locations) is list:
        use.locations, learned = locations, True
    return learned


def _are_arguments(use: ToolUse, content: list[Any], *, is_given: bool, runs: bool) -> bool:
    """Return whether the content is only the text of the arguments, as written by the model so far.

    Kimi streams arguments that way, from an empty text on (1.x without a kind), until it states the input beside the
    whole text."""
    if use.raw_input is not None and not (is_given and use.streams_input):
        return False
    text, streams = text_of(content), use.streams_input or use.kind is None
    if is_given:
        use.streams_input = False
        return text is not None and not diffs(content) and json_object(text) == use.raw_input
    if text == "":
        use.streams_input = use.streams_input or not runs
    elif text is not None and text.startswith("{") and streams:
        use.raw_input = json_object(text) or None
        return True
    return False


def response_in(update: Line) -> Any:
    """claude-agent-acp: the tool's own result object."""
    meta = update.get("_meta")
    if type(meta) is not dict:
        return None
    claude = meta.get("claudeCode")
    return claude.get("toolResponse") if type(claude) is dict else None


ELICITATIONS = ("elicitation/create", "session/elicitation")
PERMISSIONS = ("session/request_permission", *ELICITATIONS)
"""Methods with which an agent asks the user."""
_ACTIONS = {"accept": "answered", "decline": "denied", "cancel": "cancelled"}


def id_in(key: str) -> str:
    """The JSON-RPC id of a request."""
    return key.partition(":")[2]


class PermissionRequests:
    """Requests of an ACP agent to its user: permissions for calls, questions, and forms (elicitations)."""

    request = Lines("method")
    answer = Lines("method")

    def __init__(self, parser: Parser, sessions: AcpSessions, tool_calls: ToolCalls) -> None:
        self._parser = parser
        self._permissions = parser.permissions
        self._sessions = sessions
        self._tool_calls = tool_calls

    @request("session/request_permission")
    def _permission_asked(self, params: Line, key: str) -> None:
        """Read a permission request. v2 has a subject in place of v1's call, and a title of its own."""
        subject = record(params.get("subject"))
        self._sessions.ensure_turn()
        self._parser.texts.flush()
        tool_call = record(params.get("toolCall") or subject.get("toolCall"))
        call_id = self._before_permission(tool_call) or string(subject.get("toolCallId"))
        command = subject and {name: subject[name] for name in ("command", "cwd") if type(subject.get(name)) is str}
        kind = self._type(call_id, "permission")
        self._permissions.ask(
            id_in(key),
            call_id=call_id,
            type=kind,
            title=string(params.get("title") or tool_call.get("title")),
            input=command or None,
            options=options_of(params),
            questions=self._questions(call_id, tool_call) or None if kind == "question" else None,
            reply_to=self._reply_to(key),
        )

    @answer("session/request_permission")
    def _permission_answered(self, result: Line, asked: PendingRequest, key: str) -> None:
        answer, permission_id = record(result.get("outcome")), id_in(key)
        option_id = string(answer.get("optionId"))
        outcome = "allowed" if self._permissions.allows(permission_id, option_id) else "denied"
        if answer.get("outcome") == "cancelled" or option_id is None:
            outcome = "cancelled"
        self._permissions.answer(permission_id, outcome, by="user", option_id=option_id)

    @request(*ELICITATIONS)
    def _elicit(self, params: Line, key: str) -> None:
        self._parser.texts.flush()
        call_id = string(params.get("toolCallId"))
        self._permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "elicitation"),
            title=string(params.get("message")),
            questions=questions(params) or None,
            reply_to=self._reply_to(key, types=field_types(params)),
        )

    @answer(*ELICITATIONS)
    def _elicited(self, result: Line, asked: PendingRequest, key: str) -> None:
        content, outcome = result.get("content"), _ACTIONS.get(str(result.get("action")), "cancelled")
        answers = content if isinstance(content, dict) else None
        self._permissions.answer(id_in(key), outcome, by="user", answers=answers)

    def _reply_to(self, key: str, **kept: Any) -> dict[str, Any] | None:
        """What is needed to answer a request; nothing if it cannot be answered, because it has no id."""
        asked = self._parser.state.requests.get(key)
        return None if asked is None else {"id": asked.id, **kept}

    def _before_permission(self, tool_call: Line) -> str | None:
        """Open the call that a permission is requested for, unless it is known. Returns the call's id.

        If the call's input is known, the request's version of the call is ignored: OpenCode shows a diff there in place
        of the text, codex-acp another title."""
        call_id = tool_call.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        call = self._parser.calls.get(call_id)
        if call is not None:
            use = use_of(call)
            if not use.has_input:
                stated = {key: item for key, item in tool_call.items() if key != "status"}
                self._tool_calls.update_open(call, use, stated, response_in(stated))
        elif not self._parser.calls.is_done(call_id):
            response = response_in(tool_call)
            self._tool_calls.open(
                call_id, ToolUse(), tool_call, response, synthetic=False, status="awaiting-permission"
            )
        return call_id

    def _questions(self, call_id: str | None, tool_call: Line) -> list[Line]:
        """The questions that a call asks, which the request may repeat."""
        call = None if call_id is None else self._parser.calls.get(call_id)
        known = None if call is None else use_of(call).raw_input
        return records(record(tool_call.get("rawInput") or known).get("questions"))

    def _type(self, call_id: str | None, default: str) -> str:
        """The type of a request about this call."""
        is_question = call_id is not None and self._parser.calls.name_of(call_id) == "AskUserQuestion"
        return "question" if is_question else default
