"""Codex's tool calls: commands, patches, MCP, the client's own tools, searches, images, plans, other agents.

`function_call` is the model's request, `exec_command_begin` and its like the start of its execution, `exec_command_end`
the result, `function_call_output` the output for the model; in 0.120 some commands have only the last. Turn items
arrive here as events (`items.as_event`).

Each call is opened once and has one result, though up to three lines report either. The first line that shows a call
opens it, and the first that has its result ends it; a line that only repeats what another reported emits nothing. The
item or event that ends a call has its output in parts; the model's own item, right after it, has the text that the
model gets. If the model's item is still to come, the result is held until then, so that one result has both.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from tooltap.normalizers.core import forms
from tooltap.normalizers.core.background import POLLS, Background, named_task
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, put
from tooltap.normalizers.core.texts import LiveOutput
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.codex.answers import (
    agent_end,
    agent_states,
    dynamic_answer,
    end_of_process,
    mcp_answer,
    model_output,
    patch_answer,
    printed,
    process_of,
    read_answer,
)
from tooltap.normalizers.dialects.codex.items import (
    OWN,
    call_id_of,
    cwd_of,
    duration_of,
    file_changes,
    is_by_user,
    nonempty,
    own_object,
    raw_name_of,
)
from tooltap.normalizers.dialects.codex.threads import Asked, CodexState, HeldResult, Threads
from tooltap.normalizers.dialects.codex.to_agent import (
    Offer,
    allows,
    decision_offers,
    is_free,
    kept_of,
    option_of,
    options_of,
    permission_offers,
    tool_offers,
    word_of,
)
from tooltap.normalizers.tools.outcome import stated_status
from tooltap.normalizers.tools.payload import decode_json, truncate_raw
from tooltap.normalizers.tools.registry import tool_input
from tooltap.normalizers.wire.values import first_string, record, records, string
from tooltap.protocol.events import OutputRef

_SCRIPT = "exec"
"""Raw name of code mode's tool: JavaScript, from which other tools are called."""
_SCRIPTS = ("exec_command", "shell_command")
"""Tools that take a command as a text for the shell."""
_MERGED = ("Bash", "SendMessage", "Task", "TaskOutput", "TaskStop", "resume_agent")
"""Tools whose input merges the model's arguments with those of the execution. The arguments are remembered until the
execution begins."""
_AGENT_TOOLS = {
    "collab_agent_interaction": "send_input",
    "collab_agent_spawn": "spawn_agent",
    "collab_agent_tool_call": "collab_agent_tool_call",  # the item, which states the tool in `tool`
    "collab_close": "close_agent",
    "collab_resume": "resume_agent",
    "collab_waiting": "wait_agent",
}
"""Event without `_begin` or `_end` -> the tool as the model calls it."""
_OF_AGENTS = ("Task", "TaskOutput", "TaskStop")
"""Tools that start, wait for and close agents, by canonical name."""
_AGENT_INPUT = ("tool", "prompt", "model", "reasoning_effort", "receiver_thread_id", "receiver_thread_ids")
_AGENT_OUTPUT = ("status", "statuses", "agents_states", "agent_statuses", "new_thread_id", "new_agent_nickname")
_EXEC_KEYS = ("command", "cwd", "parsed_cmd", "source", "process_id", "interaction_input")
_encode = msgspec.msgpack.Encoder().encode
_SERVER_TOOLS = ("WebSearch", "image_generation")
"""Tools that run on the model's side: no line states what the model gets from them."""
_PERMISSIONS = "request_permissions"
ASKED = "asked"
"""Source of a call that only a request to the user shows."""


class CodexCalls:
    """Opens the calls that a stream shows and emits their results, each once."""

    events = Lines()
    raw_items = Lines()

    def __init__(self, parser: Parser, state: CodexState, threads: Threads) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._permissions = parser.permissions
        self._state = state
        self._threads = threads
        self.running = LiveOutput(parser, state.running)
        self._agents = Background(parser, parser.calls, state.spawned)

    # -- calls and their results, each once -----------------------------------------------------------------------

    def show(
        self,
        value: Line,
        raw_name: str,
        arguments: Any,
        *,
        name: str | None = None,
        call_id: str | None = None,
        by_model: bool = False,
    ) -> Skip:
        """Read an object that shows a call: open the call, or emit an update with what is new.

        `call_id`: given if it is not in the object; `by_model`: the model itself makes the call, not its script.
        """
        calls, begins, raw = self._calls, self._threads.begins, value.get(OWN, value)
        call_id = call_id or call_id_of(value)
        place = ("", None) if by_model else None
        call = calls.shown(call_id, raw_name, arguments, place, name=name)
        if call is not None:
            changed = bool(arguments) and calls.update(call, arguments, raw=raw, name=name)
            return None if changed else "duplicate-call"
        if calls.is_done(call_id):
            begins_again = begins and begins == calls.source_of(call_id)
            if not begins_again or calls.repeats(call_id, raw_name, arguments, name=name):
                return "duplicate-call"
        self._threads.before_content()
        if not by_model and (script := self._threads.current.script) is not None and calls.get(script) is not None:
            self._parser.parent = script  # code mode: the running script makes the calls which the model does not make
        calls.open(call_id, raw_name, arguments, raw=raw, name=name, source=begins, place=place)
        return None

    def add_synthetic(
        self, kind: str, raw_name: str, value: Line, *, raw: Line | None = None, outputs: dict[str, Any] | None = None
    ) -> Skip:
        """Emit a call and its result for something that is not a call on the wire."""
        call_id = self._threads.synthetic_id(kind)
        self._calls.open(call_id, raw_name, value, raw=raw or value, synthetic=True, outputs=outputs)
        return self._calls.answer(call_id, Answer(), raw=None, synthetic=True)

    def answer(
        self,
        value: Line,
        answer: Answer,
        *,
        call_id: str | None = None,
        of: OpenCall | None = None,
        raw_name: str = UNKNOWN_TOOL,
    ) -> Skip:
        """Read an object that has a call's result. `call_id`: where the object's own does not name it; `of`: the open
        call, where no object names it."""
        call_id = call_id or call_id_of(value)
        call = of or self._calls.get(call_id)
        if call is not None and call.id in self._state.held:
            return DUPLICATE_RESULT
        if self._state.permissions.pending:
            is_question = self._calls.name_of(call_id) == "AskUserQuestion" and isinstance(answer.value, dict)
            self.settle(call_id, answer.status, answer.value.get("answers") if is_question else None)
        if not answer.is_async and self._state.running.calls:
            printed, outputs = self.running.take(call_id)
            if answer.value is None and printed:  # stopped: what it printed before is its output
                answer = answer.replace(value=printed, outputs=outputs)
        raw = value.get(OWN, value)
        if call is not None:
            if call.name in _OF_AGENTS and answer.status == "completed":
                answer = self._note_agents(call, answer, raw)
            self._state.exited.pop(call.id, None)
            if self._state.has_raw and self._hold(call, answer, raw, value):
                return "held"
        return self._calls.answer(of or call_id, answer, raw=raw, raw_name=raw_name)

    def _note_agents(self, call: OpenCall, answer: Answer, raw: Any) -> Answer:
        """Return the answer of a call that starts an agent as its acknowledgement; of one that waits for agents or
        closes one, emit the results of the calls whose agents have ended."""
        value = decode_json(answer.value)
        states = agent_states(value)
        if call.name == "Task":
            for thread in states:
                self._agents.began(thread, call.id)
            runs = self._agents.has_begun(call) and not any(agent_end(state) for state in states.values())
            return answer.replace(is_async=runs)
        closes = call.name == "TaskStop"
        if closes and not states and (target := first_string(call.memory, "target", "id")) is not None:
            states = {target: record(value).get("previous_status")}
        for thread, state in states.items():
            self.agent_ended(thread, agent_end(state, stopped=closes), raw)
        return answer

    def agent_began(self, thread: str, call: OpenCall) -> None:
        """Remember the call that has started an agent."""
        self._agents.began(thread, call.id)

    def agent_ended(self, thread: str, answer: Answer | None, raw: Any) -> None:
        """Emit the final result of the call that started an agent. `answer`: None if the agent has not ended."""
        started = self._agents.running(thread)
        if started is not None and answer is not None:
            self._agents.ended(started, answer, raw=raw)

    # -- results that wait for what the model gets ----------------------------------------------------------------

    def _hold(self, call: OpenCall, answer: Answer, raw: Any, value: Line) -> bool:
        """Hold a result if a later line will state what the model gets of it. Returns whether it is held.

        It is not held for a command of the user's or a call that a script makes (in streams with scripts, the model's
        item comes first), as the model gets nothing of these, nor for a background call, whose output the model has
        had."""
        runs_on = answer.is_async and call.name != "Task"  # what the model gets of a start of an agent follows
        if self._threads.begins == "model" or runs_on or call.acknowledged:
            return False
        if call.source == "model":
            self._state.raw_first = True
        elif (
            self._state.raw_first
            or self._threads.current.script is not None
            or call.name in _SERVER_TOOLS
            or is_by_user(value)
        ):
            return False
        return self._keep(call, answer, raw)

    def await_picture(self, call: OpenCall, answer: Answer, raw: Any) -> Skip:
        """Hold the result of a tool whose picture may come in the next item of the model's."""
        if not self._keep(call, answer, raw):
            return self._calls.answer(call, answer, raw=raw)
        self._state.picture = call.id
        return "held"

    def _keep(self, call: OpenCall, answer: Answer, raw: Any) -> bool:
        """Store a result to be held. Returns False if the held results would exceed their size limit."""
        one = HeldResult(answer, truncate_raw(raw), self._parser.ts)
        one.size = len(_encode(one))
        held = self._state.held
        if one.size + sum(other.size for other in held.values()) > self._parser.context.limits.call_bytes:
            return False
        held[call.id] = one
        return True

    def release(self, call_id: str, **changes: Any) -> Skip:
        """Emit a result that was held. `call_id`: that of its events; `changes`: fields of the answer."""
        held = self._state.held.pop(call_id)
        call = self._state.calls.open.get(call_id)
        if call is None:
            return DUPLICATE_RESULT
        ts, self._parser.ts = self._parser.ts, held.ts
        skip = self._calls.answer(call, held.answer.replace(**changes), raw=held.raw)
        self._parser.ts = ts
        return skip

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        if (held := self._state.held.pop(call.id, None)) is not None:  # the call is evicted
            return held.answer.value, held.answer.outputs
        return self.running.take(call)

    # -- commands in the background -------------------------------------------------------------------------------

    def remember_process(self, process: str, call: OpenCall) -> None:
        """Remember the background process of a command. Each thread has ids of its own."""
        put(self._state.processes, self._key(process), call.id, self._parser.context.limits.open_permissions)

    def process_ended(self, process: str, answer: Answer) -> None:
        """Remember that a background command has ended: a separate line with its output may still follow."""
        if (call_id := self._state.processes.pop(self._key(process), None)) is not None:
            put(self._state.exited, call_id, answer, self._parser.context.limits.open_permissions)

    def _key(self, process: str) -> str:
        return f"{self._parser.agent or self._parser.session}/{process}"

    def release_exited(self) -> None:
        """Emit results for background commands that ended without a line of their own."""
        exited, self._state.exited = self._state.exited, {}
        for call_id, answer in exited.items():
            if (call := self._state.calls.open.get(call_id)) is not None:
                self._calls.answer(call, answer, raw=None, synthetic=True)

    # -- the end of a turn ----------------------------------------------------------------------------------------

    def before_turn_ends(self, outcome: str, turn_id: str | None) -> None:
        """Emit the turn's pending plan, and the held results whose model's item never came."""
        self._release_plan()
        self._release_turn(turn_id)
        if outcome == "completed":
            self._conclude_questions(turn_id)

    def _release_turn(self, turn_id: str | None) -> None:
        for call_id in list(self._state.held):
            call = self._state.calls.open.get(call_id)
            if call is None or (call.session, call.turn) == (self._parser.session, turn_id or call.turn):
                self.release(call_id)

    def _conclude_questions(self, turn_id: str | None) -> None:
        """End the questions to the user: if the turn completes, they were answered, even if the client's side is not on
        the wire. A request for permissions may as well have been refused."""
        for call in [one for one in self._state.calls.open.values() if one.source == ASKED]:
            if call.name == "AskUserQuestion" and (call.session, call.turn) == (
                self._parser.session,
                turn_id or call.turn,
            ):
                self.settle(call.id, "completed")
                self._calls.answer(call, Answer(), raw=None, synthetic=True)

    def settle(self, call_id: str, status: str, answers: Any = None) -> bool:
        """Answer the pending requests about a call that is running, or has ended with this status. Returns whether
        there were any.

        The answer itself is missing from streams of clients that only listen to the agent."""
        call_id = self._calls.id_of(call_id)
        pending = self._state.permissions.pending
        if status == "cancelled" or not pending:  # nobody answered; the end of the turn emits that
            return False
        if (call := self._state.calls.open.get(call_id)) is not None and call.raw_name == _PERMISSIONS:
            return False  # its end does not say what was granted
        asked = [permission_id for permission_id, one in pending.items() if one.call_id == call_id]
        is_question = answers is not None or self._calls.name_of(call_id) == "AskUserQuestion"
        outcome = "denied" if status == "denied" else "answered" if is_question else "allowed"
        for permission_id in asked:
            self._permissions.answer(permission_id, outcome, answers=answers, synthetic=True)
        return bool(asked)

    # -- what the model calls, and what it gets -------------------------------------------------------------------

    @raw_items("function_call")
    def function_call(self, item: Line) -> Skip:
        """Open the call of a function that the model makes."""
        name = first_string(item, "name") or UNKNOWN_TOOL
        namespace = first_string(item, "namespace") or ""
        if namespace.startswith("mcp__"):
            name = f"{namespace}__{name}"
        if name == "update_plan":
            self._threads.current.plan_call, self._threads.current.plan = first_string(item, "call_id"), None
        value = decode_json(item.get("arguments"))
        if name in _SCRIPTS and isinstance(value, dict) and (script := first_string(value, "cmd", "command")):
            # Run by the agent's own shell: a shell that it starts itself is the model's.
            value = {**value, "command": ["bash", "-lc", script]}
        return self._called(item, name, value)

    @raw_items("custom_tool_call")
    def _custom_call(self, item: Line) -> Skip:
        return self._called(item, first_string(item, "name") or UNKNOWN_TOOL, {"input": item.get("input")})

    @raw_items("local_shell_call")
    def _local_shell_call(self, item: Line) -> Skip:
        value = nonempty(record(item.get("action")), "command", "timeout_ms", "working_directory", "env", "user")
        return self._called(item, "local_shell", value)

    def _called(self, item: Line, name: str, value: Any) -> Skip:
        call_id = first_string(item, "call_id", "id") or self._threads.synthetic_id("call")
        if (call := self._calls.get(call_id)) is not None and call.source != "model":
            # To 0.58 the model's item comes after the call has been run.
            if call.name != "Bash" or not isinstance(value, dict):
                return "duplicate-call"
            value = {**value, **call.memory}
        skip = self.show(item, name, value, call_id=call_id, by_model=True)
        if name == _SCRIPT:
            self._threads.current.script = self._calls.id_of(call_id)
        if (call := self._calls.get(call_id)) is not None and call.name in _MERGED and isinstance(value, dict):
            self._calls.remember(call, value)
        elif call is not None and call.name in POLLS and (process := named_task(value)) is not None:
            self._calls.remember(call, {"process": process})
        return skip

    @raw_items("custom_tool_call_output", "function_call_output")
    def _output(self, item: Line) -> Skip:
        """Read the output that the model gets of a call. Releases the result if it is held."""
        call_id = call_id_of(item)
        call = self._calls.get(call_id)
        has_result = self._calls.is_over(call_id) if call is None else call.acknowledged
        if has_result:
            return DUPLICATE_RESULT
        raw, attachments = take_bodies(self._parser, item)
        answer = read_answer(raw.get("output")).replace(attachments=attachments, model=model_output(raw.get("output")))
        if call is not None and (held := self._state.held.get(call.id)) is not None:
            known = held.answer
            if known.value or (known.status != "completed" and answer.status == "completed"):
                return self.release(call.id, model=answer.model, attachments=known.attachments or attachments)
            del self._state.held[call.id]
            answer = answer.replace(duration_ms=known.duration_ms)
        shows = call is not None and call.name == "Read" and answer.status == "completed"
        if call is not None and shows and isinstance(answer.model, str):
            return self.await_picture(call, answer, raw)
        if answer.is_async and (call is None or not (call.name == "Bash" or call.raw_name == _SCRIPT)):
            answer = answer.replace(is_async=False)  # the result of `write_stdin` is final, whatever runs on
        if call is not None and call.name == "Patch":
            answer = patch_answer(answer)
        elif call is not None and answer.is_async and (process := process_of(raw.get("output"))) is not None:
            self.remember_process(process, call)
        elif call is not None and call.name in POLLS and (ended := end_of_process(raw.get("output"))) is not None:
            self.process_ended(str(call.memory.get("process")), ended)
        return self.answer(raw, answer, raw_name=first_string(item, "name") or UNKNOWN_TOOL)

    def take_picture(self, item: Line) -> bool:
        """Emit the held result of a call that shows a picture. If this item of the model's is the picture, it is added:
        up to 0.58 the picture is a separate message after the output. Returns whether the item is the picture."""
        call_id, self._state.picture = self._state.picture, None
        if call_id is None or call_id not in self._state.held:
            return False
        is_message = item.get("type") == "message" and item.get("role") == "user"
        attachments = take_bodies(self._parser, item)[1] if is_message else None
        if attachments is None:
            self.release(call_id)
        else:
            words = self._state.held[call_id].answer.model  # they are not what is in the file
            self.release(call_id, attachments=attachments, value={"message": words})
        return attachments is not None

    # -- commands -------------------------------------------------------------------------------------------------

    @events("exec_command_begin")
    def begin_command(self, msg: Line) -> Skip:
        """Open a command, or update it, at the start of its execution. This also answers a pending approval request for
        it."""
        if self._state.held:  # run again, after it failed in the sandbox
            self._state.held.pop(self._calls.id_of(call_id_of(msg)), None)
        skip = self._show_command(msg)
        return None if self.settle(call_id_of(msg), "running") else skip

    def _show_command(self, msg: Line) -> Skip:
        """Merge the model's arguments with the command and directory of its execution."""
        call_id = call_id_of(msg)
        call = self._calls.get(call_id)
        value = nonempty(msg, *_EXEC_KEYS)
        if (cwd := cwd_of(msg)) is not None:
            value["cwd"] = cwd
        if call is not None and (known := call.memory):
            value = {**known, **value}
            if value == known and len(call.told) == 1:  # what the call was opened with
                return "duplicate-call"
        skip = self.show(msg, raw_name_of(msg, "exec_command"), value)
        if (call := self._calls.get(call_id)) is not None:
            self._calls.remember(call, value)
        return skip

    @events("exec_command_end")
    def _end_command(self, msg: Line) -> Skip:
        self._show_command(msg)
        value = {key: msg[key] for key in ("stdout", "stderr", "exit_code") if msg.get(key) is not None}
        if msg.get("aggregated_output") is not None:
            value.setdefault("stdout", msg["aggregated_output"])
        for key in ("aggregated_output", "formatted_output"):
            if msg.get(key) not in (None, value.get("stdout")):
                value[key] = msg[key]
        status = _status(msg)
        said = first_string(msg, "formatted_output", "aggregated_output", "stderr")
        if said is not None and msg.get("status") is None and msg.get("exit_code") == -1:
            status = read_answer(said).status  # to 0.58 a command that was not run has only words
        error = said if status == "denied" else None
        # The model gets `formatted_output`; its own item, where the stream has it, frames that.
        model = UNSET if self._state.has_raw else string(msg.get("formatted_output")) or UNSET
        answer = Answer(value, status, error, duration_ms=duration_of(msg), display=printed(msg), model=model)
        return self.answer(msg, answer)

    @events("exec_command_output_delta")
    def _output_delta(self, msg: Line) -> Skip:
        if (call := self._calls.get(call_id_of(msg))) is not None:
            # A stopped command may print after its end, when there is nothing to preview.
            try:
                data = base64.b64decode(str(msg.get("chunk", "")), validate=True)
            except ValueError:
                data = b""
            self.running.append(call, str(msg.get("stream", "stdout")), data)
        return "partial"

    @events("terminal_interaction")
    def _terminal_interaction(self, msg: Line) -> Skip:
        """Input for a running command, from a `write_stdin` call or from the user."""
        if (call := self._calls.get(call_id_of(msg))) is None:
            return "duplicate-call"
        self._calls.update(call, progress={"data": nonempty(msg, "stdin", "process_id")})
        return None

    # -- patches --------------------------------------------------------------------------------------------------

    @events("patch_apply_begin", "patch_apply_updated")
    def begin_patch(self, msg: Line) -> Skip:
        """Show a patch that is applied."""
        value = {**nonempty(msg, "auto_approved"), "changes": file_changes(msg.get("changes"))}
        skip = self.show(msg, raw_name_of(msg, "patch_apply"), value, name="Patch")
        if (call := self._calls.get(call_id_of(msg))) is not None:
            self._calls.remember(call, {"begun": True})
        return skip

    @events("patch_apply_end")
    def _end_patch(self, msg: Line) -> Skip:
        call = self._calls.get(call_id_of(msg))
        if call is None or not call.memory:  # rollouts do not hold the beginning
            self.begin_patch(msg)
        status = _status(msg)
        value = {**nonempty(msg, "stdout", "stderr"), "success": status == "completed"}
        error = first_string(value, "stderr", "stdout") or first_string(msg, "error")
        return self.answer(msg, Answer(value, status, error))

    # -- MCP and the client's own tools ---------------------------------------------------------------------------

    @events("mcp_tool_call_begin")
    def _begin_mcp(self, msg: Line) -> Skip:
        call = record(msg.get("invocation")) or msg
        server, tool = first_string(call, "server"), first_string(call, "tool") or UNKNOWN_TOOL
        name = tool if server is None else f"mcp__{server}__{tool}"
        return self.show(msg, name, call.get("arguments") or {})

    @events("mcp_tool_call_end")
    def _end_mcp(self, msg: Line) -> Skip:
        return self._end(msg, self._begin_mcp, mcp_answer)

    @events("dynamic_tool_call_request", "dynamic_tool_call_begin")
    def _begin_dynamic(self, msg: Line) -> Skip:
        return self.show(msg, first_string(msg, "tool") or UNKNOWN_TOOL, msg.get("arguments"))

    @events("dynamic_tool_call_response", "dynamic_tool_call_end")
    def _end_dynamic(self, msg: Line) -> Skip:
        return self._end(msg, self._begin_dynamic, dynamic_answer)

    def _end(self, msg: Line, begin: Callable[[Line], Skip], read: Callable[[Line], Answer]) -> Skip:
        """Read the end of a call. It repeats the call's input and may hold pictures."""
        if self._calls.is_over(call_id_of(msg)):
            return DUPLICATE_RESULT
        begin(msg)
        raw, attachments = take_bodies(self._parser, msg)
        return self.answer(raw, read(raw).replace(attachments=attachments))

    # -- searches -------------------------------------------------------------------------------------------------

    @events("web_search_begin")
    def _begin_web_search(self, msg: Line) -> Skip:
        return self.show(msg, raw_name_of(msg, "web_search"), nonempty(msg, "query", "action"))

    @events("web_search_end")
    def _end_web_search(self, msg: Line) -> Skip:
        if self._calls.is_over(call_id_of(msg)):
            return DUPLICATE_RESULT
        self._begin_web_search(msg)
        self._threads.current.searches += 1
        return self.answer(msg, Answer())

    @raw_items("web_search_call")
    def _raw_web_search(self, item: Line) -> Skip:
        """Read a web search. A search without an id (0.120) repeats one that has ended, if there is any."""
        thread = self._threads.current
        call_id = first_string(item, "call_id", "id")
        if call_id is None and thread.searches:
            thread.searches -= 1
            return DUPLICATE_RESULT
        call_id = call_id or self._threads.synthetic_id("web_search")
        if self._calls.is_over(call_id):
            return DUPLICATE_RESULT
        self.show(item, "web_search", nonempty(item, "query", "action"), call_id=call_id)
        return self.answer(item, Answer(status=_status(item)), call_id=call_id)

    @raw_items("tool_search_call")
    def _tool_search(self, item: Line) -> Skip:
        return self.show(item, "tool_search", item.get("arguments"))

    @raw_items("tool_search_output")
    def _tool_search_output(self, item: Line) -> Skip:
        return self.answer(item, Answer(nonempty(item, "tools")), raw_name="tool_search")

    # -- images -----------------------------------------------------------------------------------------

    @events("view_image_begin")
    def _begin_view(self, msg: Line) -> Skip:
        return self.show(msg, raw_name_of(msg, "view_image"), nonempty(msg, "path"))

    @events("view_image_tool_call", "view_image_end")
    def _view_image(self, msg: Line) -> Skip:
        """Read that an image was attached. If the model called a tool for it, the output for the model follows."""
        call_id = call_id_of(msg)
        call = self._calls.get(call_id)
        skip = self._begin_view(msg)
        if self._calls.is_over(call_id) or (call is not None and call.raw_name == "view_image"):
            return skip
        return self.answer(msg, Answer())

    @events("image_generation_begin")
    def _begin_image(self, msg: Line) -> Skip:
        prompt = first_string(msg, "revised_prompt")
        value = {"prompt": prompt} if prompt is not None else {}
        return self.show(msg, raw_name_of(msg, "image_generation"), value, name="image_generation")

    @events("image_generation_end")
    @raw_items("image_generation_call")
    def _end_image(self, msg: Line) -> Skip:
        call_id = call_id_of(msg)
        if self._calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._begin_image({key: value for key, value in msg.items() if key not in ("result", OWN)})
        image, attachments = take_bodies(self._parser, {"data": msg.get("result"), "mimeType": "image/png"})
        answer = Answer(nonempty(msg, "saved_path"), _status(msg), attachments=attachments)
        return self.answer({**own_object(msg), "result": image}, answer, call_id=call_id)

    # -- plans and diffs ------------------------------------------------------------------------------------------

    @events("plan_update")
    def _plan_update(self, msg: Line) -> Skip:
        """Read a plan: it updates the running `update_plan` call. Without one it is held for the call that follows (to
        0.58), or becomes a synthetic call."""
        value = nonempty(msg, "explanation", "plan")
        if (call := self._calls.get(self._threads.current.plan_call or "")) is not None:
            return self.show(msg, call.raw_name, value, call_id=call.id)
        if self._state.has_raw and not self._state.raw_first and self._threads.current.script is None:
            return self._hold_plan(msg)  # to 0.58 the call follows
        self._threads.before_content()
        return self.add_synthetic("plan", "update_plan", value, raw=msg)

    def _hold_plan(self, msg: Line) -> Skip:
        self._release_plan()
        self._threads.before_content()
        self._threads.current.plan = msg
        if len(_encode(msg)) <= self._parser.context.limits.string_bytes:
            return "held"
        self._release_plan()
        return None

    def _release_plan(self) -> None:
        """Emit a held plan whose call did not come."""
        plan, self._threads.current.plan = self._threads.current.plan, None
        if plan is not None:
            self.add_synthetic("plan", "update_plan", nonempty(plan, "explanation", "plan"), raw=plan)

    def emit_diff(self) -> None:
        """Emit the turn's diff, as a call."""
        thread = self._threads.current
        diff, thread.diff = thread.diff, None
        if diff is not None and diff.chars:
            outputs = diff.outputs("/input/unified_diff", "text/x-diff")
            self.add_synthetic("diff", "turn_diff", {"unified_diff": diff.head}, outputs=outputs)

    # -- other agents ---------------------------------------------------------------------------------------------

    @events(*(f"{event}_begin" for event in _AGENT_TOOLS))
    def _begin_agent(self, msg: Line) -> Skip:
        call = self._calls.get(call_id_of(msg))
        arguments = call.memory if call is not None else {}
        raw_name = raw_name_of(msg, _AGENT_TOOLS[msg["type"].removesuffix("_begin").removesuffix("_end")])
        return self.show(msg, raw_name, {**arguments, **nonempty(msg, *_AGENT_INPUT)})

    @events(*(f"{event}_end" for event in _AGENT_TOOLS))
    def _end_agent(self, msg: Line) -> Skip:
        call_id = call_id_of(msg)
        call = self._calls.get(call_id)
        if self._calls.is_over(call_id) or (call is not None and call.acknowledged):
            return DUPLICATE_RESULT
        skip = self._begin_agent(msg)
        value = nonempty(msg, *_AGENT_OUTPUT)
        if call is not None and call.memory and value == {"status": "completed"}:
            return skip  # 0.169: the output that the model gets follows
        return self.answer(msg, Answer(value, _status(msg)))


def _status(value: Line) -> str:
    return stated_status(value) or "completed"


_ACTIONS = {"decline": "denied", "cancel": "cancelled"}
"""MCP's answer to an elicitation that refuses -> outcome of the request."""

_RESULTS = {"denied": "denied", "cancelled": "cancelled"}
"""Outcome of a request -> status of a call that only asks."""

MANY_KEYS = 8
"""Maximum number of keys of an answer that a notice names."""

_MCP_APPROVAL = "mcp_tool_call_approval_"
"""Prefix of the call's id where Codex 0.120 asks for a tool of an MCP server."""


class CodexApprovals:
    """Codex's requests to its user: approvals of commands and patches, permissions, questions, and forms.

    An approval is asked for by an event, and by `codex mcp-server` once more as a JSON-RPC request
    (`elicitation/create`), which is answered; both are one permission request, known by the id of the call it is about.
    Where the client's side is not on the wire, the course of the call shows the answer (`settle`).
    """

    events = Lines()

    def __init__(self, parser: Parser, state: CodexState, threads: Threads, tool_calls: CodexCalls) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._permissions = parser.permissions
        self._state = state
        self._threads = threads
        self._tool_calls = tool_calls

    @events("exec_approval_request")
    def request_command(self, msg: Line) -> None:
        """Emit a request to approve a command, and its call."""
        if self._calls.get(call_id_of(msg)) is None:
            self._threads.begins = "event"
            self._tool_calls.begin_command(msg)
        self._ask(msg, "command", "cwd", "parsed_cmd", offers=self._decisions(msg))

    @events("apply_patch_approval_request")
    def request_patch(self, msg: Line) -> None:
        """Emit a request to approve a patch, and its call."""
        if self._calls.get(call_id_of(msg)) is None:
            self._threads.begins = "event"
            self._tool_calls.begin_patch(msg)
        self._ask(msg, "changes", "grant_root", offers=self._decisions(msg))

    @events("request_permissions")
    def _permissions_request(self, msg: Line) -> None:
        self._show(msg, _PERMISSIONS, "reason", "permissions")
        request = self._threads.request
        offers = permission_offers(record(request.get("params")).get("permissions")) if request else {}
        self._ask(msg, "permissions", "cwd", offers=offers)

    @events("request_user_input")
    def _ask_questions(self, msg: Line) -> None:
        self._show(msg, "request_user_input", "questions")
        permission_id = self.id_of(msg)
        questions = records(msg["questions"]) if isinstance(msg.get("questions"), list) else None
        self._permissions.ask(
            permission_id,
            type="question",
            call_id=call_id_of(msg),
            questions=questions and [{**one, "freeText": True} if is_free(one) else one for one in questions],
            reply_to=self._reply_to(),
        )

    @events("elicitation_request")
    def _mcp_request(self, msg: Line) -> None:
        """Read a form of an MCP server, or Codex's own question whether an MCP tool may be called."""
        permission_id = str(msg.get("id"))
        request = record(msg.get("request")) or msg
        meta = record(request.get("_meta"))
        call_id = first_string(msg, "call_id") or permission_id.removeprefix(_MCP_APPROVAL)
        kind = "permission" if "codex_approval_kind" in meta else "elicitation"
        known_id = call_id if self._calls.is_known(call_id) else None
        shown = record(meta.get("tool_params")) or nonempty(request, "requested_schema", "url") or None
        params = record(self._threads.request.get("params"))
        offers = tool_offers(params) if params and kind == "permission" else {}
        self._permissions.ask(
            permission_id,
            type=kind,
            call_id=known_id,
            title=first_string(request, "message"),
            input=shown,
            options=options_of(offers) or None,
            questions=forms.questions(params) or None,
            reply_to=self._reply_to(offers) if offers else self._reply_to(types=forms.field_types(params)),
        )

    def _show(self, msg: Line, raw_name: str, *keys: str) -> None:
        """Open the call in which the model asks, where no other line has."""
        if not self._calls.is_known(call_id_of(msg)):
            self._threads.begins = ASKED
            self._tool_calls.show(msg, raw_name, nonempty(msg, *keys))

    def _ask(self, msg: Line, *keys: str, offers: dict[str, Offer]) -> None:
        """Emit a request about a call. `keys`: fields that the user is shown."""
        call_id, value = call_id_of(msg), nonempty(msg, *keys)
        if "changes" in value:
            value["changes"] = file_changes(value["changes"])
        call = self._calls.get(call_id)
        shown = tool_input(call.name, value, call.raw_name) if call is not None else value
        title = first_string(msg, "reason")
        self._permissions.ask(
            self.id_of(msg),
            call_id=call_id,
            title=title,
            options=options_of(offers) or None,
            input=shown,
            reply_to=self._reply_to(offers),
        )

    def _decisions(self, msg: Line) -> dict[str, Offer]:
        """What is offered about a command or a patch."""
        return decision_offers(str(self._threads.request.get("method")), msg.get("available_decisions"))

    def _reply_to(self, offers: dict[str, Offer] | None = None, **kept: Any) -> dict[str, Any] | None:
        """What is needed to answer the request that the line is; None if it is only an event."""
        request = self._threads.request
        if not request:
            return None
        return {"id": request["id"], **kept} if offers is None else kept_of(request["id"], offers)

    def id_of(self, msg: Line) -> str:
        """Id of the permission that an event asks for: its own, or that of the call, which is open by then."""
        return first_string(msg, "approval_id") or self._calls.id_of(call_id_of(msg))

    def answer_request(self, asked: dict[str, Asked], response: Line) -> Skip:
        """Read the client's JSON-RPC answer. `asked`: JSON-RPC id -> request; the answered entry is removed. Codex
        takes an answer that it cannot read, and an error, for a refusal."""
        if (request := asked.pop(str(response["id"]), None)) is None:
            return "answer"
        permission_id = request.permission
        call_id = self._permissions.call_of(permission_id)
        result, outcome = record(response.get("result")), "denied"
        kept, answers = self._permissions.kept(permission_id), None
        option = option_of(result, kept.get("results", {}))
        if request.key not in result:
            if "error" not in response:
                text = f'the client\'s answer has no "{request.key}": Codex takes it for a refusal'
                self._parser.notice("client-answer", text, "warning", {"keys": sorted(result)[:MANY_KEYS]})
        elif request.key == "answers":
            outcome, answers = "answered", record(result["answers"])
        elif request.key == "permissions":
            outcome = "allowed" if any(record(result["permissions"]).values()) else "denied"
        elif request.key == "action":
            action, is_form = first_string(result, "action") or "", "types" in kept
            outcome = ("answered" if is_form else "allowed") if action == "accept" else _ACTIONS.get(action, "denied")
            option, answers = option or action or None, (record(result.get("content")) or None) if is_form else None
        elif (word := word_of(result["decision"])) is not None:
            outcome = "allowed" if allows(word) else "expired" if word == "timed_out" else "denied"
            option = option or word
        message = first_string(record(response.get("error")), "message")
        self._permissions.answer(permission_id, outcome, by="user", option_id=option, answers=answers, message=message)
        if call_id is not None and (call := self._state.calls.open.get(call_id)) is not None and call.source == ASKED:
            value = {"answers": answers} if answers else nonempty(result, "permissions", "scope")
            self._tool_calls.answer(response, Answer(value or None, _RESULTS.get(outcome, "completed")), of=call)
        return None
