"""Codex's tool calls: commands, patches, MCP, the client's own tools, searches, images, plans, other agents.

`function_call` is what the model asks for, `exec_command_begin` and its like what is being run, `exec_command_end` the
result, `function_call_output` what the model gets; in 0.120 some commands have only the last. Turn items arrive here as
events (`items.as_event`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bodies import take_bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.codex.answers import (
    dynamic_answer,
    end_of_process,
    mcp_answer,
    model_output,
    patch_answer,
    process_of,
    read_answer,
)
from tooltap.normalizers.dialects.codex.emitter import CodexEmitter
from tooltap.normalizers.dialects.codex.items import (
    OWN,
    call_id_of,
    cwd_of,
    duration_of,
    file_changes,
    nonempty,
    own_object,
    raw_name_of,
)
from tooltap.normalizers.dialects.codex.results import CodexResults
from tooltap.normalizers.tools.outcome import stated_status
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.tools.views import printed
from tooltap.normalizers.wire.values import first_string, record, string

_SCRIPT = "exec"
"""The tool of code mode: JavaScript, from which tools are called."""
_SCRIPTS = ("exec_command", "shell_command")
"""Tools that take a command as a text for the shell."""
_POLLS = {"wait": "cell_id", "write_stdin": "session_id"}
"""Tools that read from a process in the background -> the argument that names it."""
_MERGED = ("Bash", "SendMessage", "Task", "TaskOutput", "TaskStop", "resume_agent")
"""Calls whose input is the model's arguments together with what is run; the arguments are remembered until then."""
_AGENT_TOOLS = {
    "collab_agent_interaction": "send_input",
    "collab_agent_spawn": "spawn_agent",
    "collab_agent_tool_call": "collab_agent_tool_call",  # the item, which states the tool in `tool`
    "collab_close": "close_agent",
    "collab_resume": "resume_agent",
    "collab_waiting": "wait_agent",
}
"""Event without `_begin` or `_end` -> the tool as the model calls it."""
_AGENT_INPUT = ("tool", "prompt", "model", "reasoning_effort", "receiver_thread_id", "receiver_thread_ids")
_AGENT_OUTPUT = ("status", "statuses", "agents_states", "agent_statuses", "new_thread_id", "new_agent_nickname")
_EXEC_KEYS = ("command", "cwd", "parsed_cmd", "source", "process_id", "interaction_input")


class CodexCalls(CodexResults):
    events, raw_items = CodexEmitter.events, CodexEmitter.raw_items

    # -- what the model calls, and what it gets -------------------------------------------------------------------

    @raw_items("function_call")
    def _function_call(self, item: Line) -> Skip:
        name = first_string(item, "name") or UNKNOWN_TOOL
        namespace = first_string(item, "namespace") or ""
        if namespace.startswith("mcp__"):
            name = f"{namespace}__{name}"
        if name == "update_plan":
            self.thread.plan_call, self.thread.plan = first_string(item, "call_id"), None
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
        call_id = first_string(item, "call_id", "id") or self.synthetic_id("call")
        if (call := self.calls.get(call_id)) is not None and call.source != "model":
            # To 0.58 the model's item comes after the call has been run.
            if call.name != "Bash" or not isinstance(value, dict):
                return "duplicate-call"
            value = {**value, **call.memory}
        skip = self.show_call(item, name, value, call_id=call_id, by_model=True)
        if name == _SCRIPT:
            self.thread.script = self.calls.id_of(call_id)
        if (call := self.calls.get(call_id)) is not None and call.name in _MERGED and isinstance(value, dict):
            self.calls.remember(call, value)
        elif call is not None and name in _POLLS and isinstance(value, dict):
            self.calls.remember(call, nonempty(value, _POLLS[name]))
        return skip

    @raw_items("custom_tool_call_output", "function_call_output")
    def _output(self, item: Line) -> Skip:
        """What the model gets of a call; where another line had its result, that is held until here."""
        call_id = call_id_of(item)
        call = self.calls.get(call_id)
        has_result = self.calls.is_over(call_id) if call is None else call.acknowledged
        if has_result:
            return DUPLICATE_RESULT
        raw, attachments = take_bodies(self, item)
        answer = read_answer(raw.get("output")).replace(attachments=attachments, model=model_output(raw.get("output")))
        if call is not None and (held := self.state.held.get(call.id)) is not None:
            known = held.answer
            if known.value:
                return self.release(call.id, model=answer.model, attachments=known.attachments or attachments)
            del self.state.held[call.id]
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
        elif call is not None and call.raw_name in _POLLS and (ended := end_of_process(raw.get("output"))) is not None:
            self.process_ended(str(call.memory.get(_POLLS[call.raw_name])), ended)
        return self.answer_call(raw, answer, raw_name=first_string(item, "name") or UNKNOWN_TOOL)

    def take_picture(self, item: Line) -> bool:
        """Emit the held result of a call that shows a picture, with the picture if this item of the model's is the
        picture: up to 0.58 it is a message of its own, after the output. Returns whether it is."""
        call_id, self.state.picture = self.state.picture, None
        if call_id is None or call_id not in self.state.held:
            return False
        is_message = item.get("type") == "message" and item.get("role") == "user"
        attachments = take_bodies(self, item)[1] if is_message else None
        if attachments is None:
            self.release(call_id)
        else:
            words = self.state.held[call_id].answer.model  # they are not what is in the file
            self.release(call_id, attachments=attachments, value={"message": words})
        return attachments is not None

    # -- commands -------------------------------------------------------------------------------------------------

    @events("exec_command_begin")
    def begin_command(self, msg: Line) -> Skip:
        if self.state.held:  # run again, after it failed in the sandbox
            self.state.held.pop(self.calls.id_of(call_id_of(msg)), None)
        skip = self._show_command(msg)
        return None if self.settle(call_id_of(msg), "running") else skip

    def _show_command(self, msg: Line) -> Skip:
        """Merge the model's arguments with where and how the command is run."""
        call_id = call_id_of(msg)
        call = self.calls.get(call_id)
        value = nonempty(msg, *_EXEC_KEYS)
        if (cwd := cwd_of(msg)) is not None:
            value["cwd"] = cwd
        if call is not None and (known := call.memory):
            value = {**known, **value}
            if value == known and len(call.told) == 1:  # what the call was opened with
                return "duplicate-call"
        skip = self.show_call(msg, raw_name_of(msg, "exec_command"), value)
        if (call := self.calls.get(call_id)) is not None:
            self.calls.remember(call, value)
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
        model = UNSET if self.state.has_raw else string(msg.get("formatted_output")) or UNSET
        answer = Answer(value, status, error, duration_ms=duration_of(msg), display=printed(msg), model=model)
        return self.answer_call(msg, answer)

    @events("exec_command_output_delta")
    def _output_delta(self, msg: Line) -> Skip:
        if (call := self.calls.get(call_id_of(msg))) is not None:
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
        if (call := self.calls.get(call_id_of(msg))) is None:
            return "duplicate-call"
        self.calls.update(call, progress={"data": nonempty(msg, "stdin", "process_id")})
        return None

    # -- patches --------------------------------------------------------------------------------------------------

    @events("patch_apply_begin", "patch_apply_updated")
    def begin_patch(self, msg: Line) -> Skip:
        value = {**nonempty(msg, "auto_approved"), "changes": file_changes(msg.get("changes"))}
        skip = self.show_call(msg, raw_name_of(msg, "patch_apply"), value, name="Patch")
        if (call := self.calls.get(call_id_of(msg))) is not None:
            self.calls.remember(call, {"begun": True})
        return skip

    @events("patch_apply_end")
    def _end_patch(self, msg: Line) -> Skip:
        call = self.calls.get(call_id_of(msg))
        if call is None or not call.memory:  # rollouts do not hold the beginning
            self.begin_patch(msg)
        status = _status(msg)
        value = {**nonempty(msg, "stdout", "stderr"), "success": status == "completed"}
        error = first_string(value, "stderr", "stdout") or first_string(msg, "error")
        return self.answer_call(msg, Answer(value, status, error))

    # -- MCP and the client's own tools ---------------------------------------------------------------------------

    @events("mcp_tool_call_begin")
    def _begin_mcp(self, msg: Line) -> Skip:
        call = record(msg.get("invocation")) or msg
        server, tool = first_string(call, "server"), first_string(call, "tool") or UNKNOWN_TOOL
        name = tool if server is None else f"mcp__{server}__{tool}"
        return self.show_call(msg, name, call.get("arguments") or {})

    @events("mcp_tool_call_end")
    def _end_mcp(self, msg: Line) -> Skip:
        return self._end(msg, self._begin_mcp, mcp_answer)

    @events("dynamic_tool_call_request", "dynamic_tool_call_begin")
    def _begin_dynamic(self, msg: Line) -> Skip:
        return self.show_call(msg, first_string(msg, "tool") or UNKNOWN_TOOL, msg.get("arguments"))

    @events("dynamic_tool_call_response", "dynamic_tool_call_end")
    def _end_dynamic(self, msg: Line) -> Skip:
        return self._end(msg, self._begin_dynamic, dynamic_answer)

    def _end(self, msg: Line, begin: Callable[[Line], Skip], read: Callable[[Line], Answer]) -> Skip:
        """Read the end of a call, which has its input once more and may hold pictures."""
        if self.calls.is_over(call_id_of(msg)):
            return DUPLICATE_RESULT
        begin(msg)
        raw, attachments = take_bodies(self, msg)
        return self.answer_call(raw, read(raw).replace(attachments=attachments))

    # -- searches -------------------------------------------------------------------------------------------------

    @events("web_search_begin")
    def _begin_web_search(self, msg: Line) -> Skip:
        return self.show_call(msg, raw_name_of(msg, "web_search"), nonempty(msg, "query", "action"))

    @events("web_search_end")
    def _end_web_search(self, msg: Line) -> Skip:
        if self.calls.is_over(call_id_of(msg)):
            return DUPLICATE_RESULT
        self._begin_web_search(msg)
        self.thread.searches += 1
        return self.answer_call(msg, Answer())

    @raw_items("web_search_call")
    def _raw_web_search(self, item: Line) -> Skip:
        """Without an id (0.120) it repeats a search that has ended, unless none has."""
        thread = self.thread
        call_id = first_string(item, "call_id", "id")
        if call_id is None and thread.searches:
            thread.searches -= 1
            return DUPLICATE_RESULT
        call_id = call_id or self.synthetic_id("web_search")
        if self.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self.show_call(item, "web_search", nonempty(item, "query", "action"), call_id=call_id)
        return self.answer_call(item, Answer(status=_status(item)), call_id=call_id)

    @raw_items("tool_search_call")
    def _tool_search(self, item: Line) -> Skip:
        return self.show_call(item, "tool_search", item.get("arguments"))

    @raw_items("tool_search_output")
    def _tool_search_output(self, item: Line) -> Skip:
        return self.answer_call(item, Answer(nonempty(item, "tools")), raw_name="tool_search")

    # -- images and plans -----------------------------------------------------------------------------------------

    @events("view_image_begin")
    def _begin_view(self, msg: Line) -> Skip:
        return self.show_call(msg, raw_name_of(msg, "view_image"), nonempty(msg, "path"))

    @events("view_image_tool_call", "view_image_end")
    def _view_image(self, msg: Line) -> Skip:
        """The image is attached. What the model sees follows as the output of the model's call, if it made one."""
        call_id = call_id_of(msg)
        call = self.calls.get(call_id)
        skip = self._begin_view(msg)
        if self.calls.is_over(call_id) or (call is not None and call.raw_name == "view_image"):
            return skip
        return self.answer_call(msg, Answer())

    @events("image_generation_begin")
    def _begin_image(self, msg: Line) -> Skip:
        prompt = first_string(msg, "revised_prompt")
        value = {"prompt": prompt} if prompt is not None else {}
        return self.show_call(msg, raw_name_of(msg, "image_generation"), value, name="image_generation")

    @events("image_generation_end")
    @raw_items("image_generation_call")
    def _end_image(self, msg: Line) -> Skip:
        call_id = call_id_of(msg)
        if self.calls.is_over(call_id):
            return DUPLICATE_RESULT
        self._begin_image({key: value for key, value in msg.items() if key not in ("result", OWN)})
        image, attachments = take_bodies(self, {"data": msg.get("result"), "mimeType": "image/png"})
        answer = Answer(nonempty(msg, "saved_path"), _status(msg), attachments=attachments)
        return self.answer_call({**own_object(msg), "result": image}, answer, call_id=call_id)

    @events("plan_update")
    def _plan_update(self, msg: Line) -> Skip:
        """The plan of the running `update_plan` call; some streams have no such calls, only this."""
        value = nonempty(msg, "explanation", "plan")
        if (call := self.calls.get(self.thread.plan_call or "")) is not None:
            return self.show_call(msg, call.raw_name, value, call_id=call.id)
        if self.state.has_raw and not self.state.raw_first and self.thread.script is None:
            return self.hold_plan(msg)  # to 0.58 the call follows
        self.before_content()
        return self.add_synthetic_call("plan", "update_plan", value, raw=msg)

    # -- other agents ---------------------------------------------------------------------------------------------

    @events(*(f"{event}_begin" for event in _AGENT_TOOLS))
    def _begin_agent(self, msg: Line) -> Skip:
        call = self.calls.get(call_id_of(msg))
        arguments = call.memory if call is not None else {}
        raw_name = raw_name_of(msg, _AGENT_TOOLS[msg["type"].removesuffix("_begin").removesuffix("_end")])
        return self.show_call(msg, raw_name, {**arguments, **nonempty(msg, *_AGENT_INPUT)})

    @events(*(f"{event}_end" for event in _AGENT_TOOLS))
    def _end_agent(self, msg: Line) -> Skip:
        call_id = call_id_of(msg)
        if self.calls.is_over(call_id):
            return DUPLICATE_RESULT
        call = self.calls.get(call_id)
        skip = self._begin_agent(msg)
        value = nonempty(msg, *_AGENT_OUTPUT)
        if call is not None and call.memory and value == {"status": "completed"}:
            return skip  # 0.169: the output that the model gets follows
        return self.answer_call(msg, Answer(value, _status(msg)))


def _status(value: Line) -> str:
    return stated_status(value) or "completed"
