"""Tool calls of an ACP session, to-do lists, and what the client is asked about calls.

The first line opens a call, later ones are merged into it, a terminal status ends it.

Calls, permission requests and, in v2, content chunks all describe the same call in the same terms. The input or the
output may be spread over them, so what they state is stored in the call's memory (`ToolUse`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.acp.answers import printed_so_far, read_result
from tooltap.normalizers.dialects.acp.content import blocks, diffs, linked, questions, text_of
from tooltap.normalizers.dialects.acp.inputs import ToolUse, json_object, mcp_name, raw_name, read_input, stated_name
from tooltap.normalizers.dialects.acp.sessions import Sessions
from tooltap.normalizers.dialects.acp.state import Asked
from tooltap.normalizers.dialects.acp.terminals import Terminals
from tooltap.normalizers.dialects.opencode.answers import todos_digest
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import OutputRef

__all__ = ["PERMISSIONS", "ToolCalls", "id_in"]

ELICITATIONS = ("elicitation/create", "session/elicitation")
PERMISSIONS = ("session/request_permission", *ELICITATIONS)
"""Methods with which an agent asks the user."""

_RUNNING = ("in_progress", "paused")
_ENDED = ("completed", "failed", "cancelled")
_INPUT_FIELDS = frozenset({"rawInput", "title", "kind", "name", "content", "locations"})
_ACTIONS = {"accept": "answered", "decline": "denied", "cancel": "cancelled"}
_VERDICTS = {"approved": "allowed", "denied": "denied", "aborted": "cancelled", "timedOut": "expired"}


def id_in(key: str) -> str:
    """The JSON-RPC id of a request."""
    return key.partition(":")[2]


class ToolCalls(Terminals):
    # -- updates ------------------------------------------------------------------------------------------------

    @Sessions.update("tool_call", "tool_call_update")
    def _tool_call(self, update: Line) -> Skip:
        call_id = update.get("toolCallId")
        call = self.calls.get(call_id) if type(call_id) is str else None
        if call is None and (type(call_id) is not str or not self.calls.is_known(call_id)):
            self.ensure_turn()
        skip = self._report(call_id, call, update, self.info.stopping)
        stated = update.get("rawOutput") or update.get("rawInput")
        if type(stated) is dict and "reviewId" in stated:
            self._review(update, stated)
        return skip

    def _report(self, call_id: Any, call: Call | None, update: Line, stopping: bool) -> Skip:
        """Read what an update states of its call, which may be open. `stopping`: the client asked to stop the turn."""
        if type(call_id) is not str:
            return self.unparsed("unknown-type", update)
        self.texts.flush()
        bodies, response = Bodies(self), _response_in(update)
        if response is None:  # else it stays as it is until the result, which has the same bodies
            update = bodies.take(update)
        ended, skip = update.get("status") in _ENDED, None
        if (call is None and not self.calls.is_done(call_id)) or (
            update["sessionUpdate"] == "tool_call" and self._begins_another(call_id, update)
        ):
            opens = update["sessionUpdate"] == "tool_call" or self.state.protocol_version >= 2
            use = ToolUse()
            call = self._open_call(call_id, use, update, response, synthetic=not opens)
        elif call is not None:
            use = _use_of(call)
            skip = self._update_call(call, use, update, response)
        elif ended:
            use = ToolUse()
        else:
            return "late-update"
        if not ended:
            return skip
        if call is not None and not call.memory:  # dropped, for lack of room
            use = ToolUse()
        return self._end_call(call_id, use, update, bodies, stopping)

    @Sessions.update("tool_call_content_chunk")
    def _add_content(self, chunk: Line) -> Skip:
        """v2: one more item of a call's content."""
        call_id = chunk.get("toolCallId")
        call = self.calls.get(call_id) if isinstance(call_id, str) else None
        if call is None:
            return "late-update"
        use = _use_of(call)
        items = [Bodies(self).take(chunk.get("content"))]
        self.embed_terminals(use, call.id, items)
        if (text := text_of(items)) is not None and call.status == "running":
            self.emit_output(call, text, len(use.running or ""))
            use.running = (use.running or "") + text
        else:
            use.content = [*use.content, *items]
        self.calls.remember(call, use.memory())
        return None

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        use = _use_of(call)
        terminal = self.terminal_of(use)
        return printed_so_far(use, terminal), terminal.printed.outputs("/output/stdout") if terminal else None

    # -- plans --------------------------------------------------------------------------------------------------

    @Sessions.update("plan", "plan_update")
    def _plan(self, update: Line) -> Skip:
        """The whole to-do list, which comes without a call (v2: `plan_update`): a synthetic call and result."""
        self.ensure_turn()
        plan = record(update.get("plan")) or update
        todos, text = plan.get("entries"), plan.get("content") or plan.get("uri")
        if isinstance(todos, list):
            digest = todos_digest(todos)
            if self.info.todos == digest:
                return "unchanged"
            self.info.todos = digest
            self.state.plans += 1
            self.texts.flush()
            call_id, value = f"plan-{self.state.plans}", {"todos": todos}
            self.calls.open(call_id, "plan", value, raw=update, name="TodoWrite", synthetic=True)
            return self.calls.answer(call_id, Answer(value), raw=update, synthetic=True)
        if not isinstance(text, str):
            return self.unparsed("unknown-type", update)
        self.texts.flush()
        self.notice("plan", text)
        return None

    # -- permissions, questions and elicitations ----------------------------------------------------------------

    @Sessions.request("session/request_permission")
    def _permission_asked(self, params: Line, key: str) -> None:
        """v2 has a subject where v1 has the call, and a title of its own."""
        subject = record(params.get("subject"))
        self.ensure_turn()
        self.texts.flush()
        tool_call = record(params.get("toolCall") or subject.get("toolCall"))
        call_id = self._before_permission(tool_call) or string(subject.get("toolCallId"))
        command = subject and {name: subject[name] for name in ("command", "cwd") if type(subject.get(name)) is str}
        self.permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "permission"),
            title=string(params.get("title") or tool_call.get("title")),
            input=command or None,
            options=[
                {"id": option["optionId"], "name": option.get("name"), "kind": option.get("kind")}
                for option in records(params.get("options"))
                if isinstance(option.get("optionId"), str)
            ],
        )

    @Sessions.answer("session/request_permission")
    def _permission_answered(self, result: Line, asked: Asked, key: str) -> None:
        answer, permission_id = record(result.get("outcome")), id_in(key)
        option_id = string(answer.get("optionId"))
        outcome = "allowed" if self.permissions.allows(permission_id, option_id) else "denied"
        if answer.get("outcome") == "cancelled" or option_id is None:
            outcome = "cancelled"
        self.permissions.answer(permission_id, outcome, by="user", option_id=option_id)

    @Sessions.request(*ELICITATIONS)
    def _elicit(self, params: Line, key: str) -> None:
        self.texts.flush()
        call_id = string(params.get("toolCallId"))
        self.permissions.ask(
            id_in(key),
            call_id=call_id,
            type=self._type(call_id, "elicitation"),
            title=string(params.get("message")),
            questions=questions(params) or None,
        )

    @Sessions.answer(*ELICITATIONS)
    def _elicited(self, result: Line, asked: Asked, key: str) -> None:
        content, outcome = result.get("content"), _ACTIONS.get(str(result.get("action")), "cancelled")
        answers = content if isinstance(content, dict) else None
        self.permissions.answer(id_in(key), outcome, by="user", answers=answers)

    def _before_permission(self, tool_call: Line) -> str | None:
        """Open the call that a permission is requested for, unless it is known; returns its id.

        If the input of the call is known, the request is not read: OpenCode shows a diff there in place of the text,
        codex-acp another title."""
        call_id = tool_call.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        call = self.calls.get(call_id)
        if call is not None:
            use = _use_of(call)
            if not use.has_input:
                stated = {key: item for key, item in tool_call.items() if key != "status"}
                self._update_call(call, use, stated, _response_in(stated))
        elif not self.calls.is_done(call_id):
            response = _response_in(tool_call)
            self._open_call(call_id, ToolUse(), tool_call, response, synthetic=False, status="awaiting-permission")
        return call_id

    def _type(self, call_id: str | None, default: str) -> str:
        """The type of a request about this call."""
        is_question = call_id is not None and self.calls.name_of(call_id) == "AskUserQuestion"
        return "question" if is_question else default

    def _review(self, update: Line, stated: Line) -> None:
        """codex-acp 2.6.0: a second model decides about risky calls. Its review is a call of its own that names the
        other one, which fails if it is denied."""
        review, permissions = record(stated.get("review")), self.permissions
        permission_id, call_id = string(stated.get("reviewId")), string(stated.get("targetItemId"))
        if permission_id is None or call_id is None:
            return
        status, message = review.get("status"), string(review.get("rationale"))
        if status == "inProgress":
            permissions.ask(permission_id, call_id=call_id, title=update.get("title"))
        elif status in _VERDICTS:
            permissions.answer(permission_id, _VERDICTS[status], call_id=call_id, by="agent", message=message)

    # -- calls --------------------------------------------------------------------------------------------------

    def _begins_another(self, call_id: str, update: Line) -> bool:
        """Whether a `tool_call` opens a new call under the id of one that has ended, or that another session has."""
        if self.replay:
            return False
        if self.calls.session_of(call_id) != self.session:
            return True
        if not self.calls.is_done(call_id):
            return False
        use, name = ToolUse(), raw_name(update, call_id)
        _merge(use, update)
        if update.get("status") not in _ENDED and isinstance(update.get("content"), list):
            use.content = update["content"]
        value, canonical = self._read_input(use, name)
        return not self.calls.repeats(call_id, name, value, name=canonical)

    def _open_call(
        self, call_id: str, use: ToolUse, update: Line, response: Any, *, synthetic: bool, status: str | None = None
    ) -> Call:
        self._learn(use, call_id, update, response, runs=False)
        # An update of a call that was not seen may state nothing of its tool.
        is_named = not synthetic or use.kind is not None or stated_name(update) is not None
        name = raw_name(update, call_id) if is_named else UNKNOWN_TOOL
        value, canonical = self._read_input(use, name)
        canonical = canonical if is_named else "Unknown"
        status = status or ("running" if update.get("status") in _RUNNING else "pending")
        call = self.calls.open(
            call_id, name, value, raw=update, name=canonical, status=status, title=use.title, synthetic=synthetic
        )
        self._note_todos(call, value)
        if "_meta" in update:
            self.read_terminal_meta(use, call_id, update["_meta"])
        self.calls.remember(call, use.memory())
        return call

    def _update_call(self, call: Call, use: ToolUse, update: Line, response: Any) -> Skip:
        was_known, before, terminals = bool(call.memory), use.running or "", use.terminals
        runs = update.get("status") in _RUNNING
        learned, carries = self._learn(use, call.id, update, response, runs=runs or call.status == "running")
        name = stated_name(update) or (use.kind if call.raw_name == UNKNOWN_TOOL else None) or call.raw_name
        value: Any = msgspec.UNSET
        canonical = None
        # If the memory was dropped, there is nothing to merge with.
        if not _INPUT_FIELDS.isdisjoint(update) and (was_known or isinstance(update.get("rawInput"), dict)):
            value, canonical = self._read_input(use, name)
            self._note_todos(call, value)
        status = "running" if runs else None
        changed = self.calls.update(
            call, value, raw=update, raw_name=name, name=canonical, status=status, title=use.title
        )
        running = use.running or ""
        if running != before and running.startswith(before):
            self.emit_output(call, running[len(before) :], len(before))
        if "_meta" in update:
            carries = self.read_terminal_meta(use, call.id, update["_meta"]) or carries
        if learned or use.terminals is not terminals:
            self.calls.remember(call, use.memory())
        if changed or carries:
            return None
        return "partial" if running != before else "unchanged"

    def _learn(self, use: ToolUse, call_id: str, update: Line, response: Any, *, runs: bool) -> tuple[bool, bool]:
        """Merge an update into what is known. Returns whether anything was learned, terminals aside, and whether it
        holds something that only a later event will show.

        Text is what the call is about until it runs, and its output from then on; that of the last update belongs to
        the result.
        """
        learned = _merge(use, update)
        content, ended = update.get("content"), update.get("status") in _ENDED
        if content and type(content) is list:
            if use.kind is None and use.raw_input is None and not ended:
                arguments = text_of(content) or ""
                if arguments.startswith("{"):  # Kimi streams the arguments so, and has neither kind nor raw input
                    use.raw_input = json_object(arguments) or None
                    return True, use.raw_input is not None
            self.embed_terminals(use, call_id, content)
            if not (runs or ended) or diffs(content):
                use.content, learned = content, True
            elif not ended:
                use.running, learned = text_of(content) or use.running, True
        if response is None:
            return learned, False
        use.response = response
        return True, True

    def _read_input(self, use: ToolUse, name: str) -> tuple[Any, str | None]:
        servers = (*self.context.mcp_servers, *self.state.servers)
        return read_input(use, name, mcp_name(name, use.title or "", use.raw_input, servers))

    def _end_call(self, call_id: str, use: ToolUse, update: Line, bodies: Bodies, stopping: bool) -> Skip:
        """Emit the result. If the call ended before, the result may replace a synthetic one."""
        terminal = self.terminal_of(use) if use.terminals else None
        if use.response is not None:
            use.response = bodies.take(use.response)
        name = self.calls.name_of(call_id) or ""
        answer = read_result(name, use, update, terminal, provider=self.provider, stopping=stopping)
        attachments = bodies.attachments or []
        if type(content := update.get("content")) is list:
            for block in blocks(content):
                if "uri" in block:
                    attachments += linked(block)
        outputs = terminal.printed.outputs("/output/stdout") if terminal else None
        if attachments or outputs or answer.attachments:
            answer = answer.replace(attachments=attachments or None, outputs=outputs)
        skip = self.calls.answer(call_id, answer, raw=update)
        if use.terminals and not answer.is_async:
            self.release_terminals(use)
        return skip

    def _note_todos(self, call: Call, value: Any) -> None:
        """Remember a to-do list: a plan that repeats it is not shown again (OpenCode before 1.0)."""
        if call.name == "TodoWrite" and isinstance(value, dict) and isinstance(value.get("todos"), list):
            self.info.todos = todos_digest(value["todos"])


def _use_of(call: Call) -> ToolUse:
    return msgspec.convert(call.memory, ToolUse)


def _merge(use: ToolUse, update: Line) -> bool:
    """Take over what an update states; returns whether it states anything new."""
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


def _response_in(update: Line) -> Any:
    """claude-agent-acp: the tool's own result object."""
    meta = update.get("_meta")
    if type(meta) is not dict:
        return None
    claude = meta.get("claudeCode")
    return claude.get("toolResponse") if type(claude) is dict else None
