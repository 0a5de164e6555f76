"""Codex's tool calls: opened by whichever line shows them first, ended by the first that has their result.

`function_call` says what the model asked for, `exec_command_begin` and its like what is being run, `exec_command_end`
what came of it, `function_call_output` what the model was told; in 0.120 some commands have only the last. Here are the
lines that all tools have, commands, and patches; `codex_tools.py` has the rest.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.state import (
    ITEM,
    CodexReader,
    Handler,
    Handlers,
    Msg,
    call_id_of,
    details,
    duration_of,
    item_of,
    object_of,
    text_of,
    type_word,
)
from tooltap.normalizers.dialects.codex.text import Answer, read_answer
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.tools.views import printed
from tooltap.protocol.events import Attachment

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.codex.base import CodexParser

__all__ = ["CodexCalls", "as_event"]

_STATUS = {"completed": "completed", "failed": "failed", "declined": "denied"}
_SCRIPT = "exec"
"""The tool of code mode: JavaScript, from which tools are called."""
_TOLD_TWICE = ("Bash", "SendMessage", "Task", "TaskOutput", "TaskStop", "resume_agent")
"""Calls of which the model's arguments and what is run each say something; the arguments are kept until then."""
_EXEC_KEYS = ("command", "cwd", "parsed_cmd", "source", "process_id", "interaction_input")


def as_event(read: Handler) -> Handler:
    """Read a turn item by what reads the older events, which say `call_id` and paths that are no URLs."""

    def read_item(reader: Any, item: Msg) -> str:
        paths = {key: item[key].removeprefix("file://") for key in ("cwd", "path") if isinstance(item.get(key), str)}
        return read(reader, {ITEM: item_of(item), **item, **paths, "call_id": item.get("id")})

    return read_item


class CodexCalls(CodexReader):
    def __init__(self, parser: CodexParser) -> None:
        self._parser = parser

    # -- what all tools have --------------------------------------------------------------------------------------

    def called(
        self,
        call_id: str,
        raw_name: str,
        value: Any,
        raw: Msg,
        *,
        name: str | None = None,
        by_model: bool = False,
    ) -> str:
        """A line that shows a call: open it, or tell what is new of it."""
        calls = self._parser.calls
        call = calls.get(call_id)
        way = self._parser.begins
        is_told = calls.is_done(call_id)
        if is_told and way and way == calls.source_of(call_id):
            is_told = calls.repeats(call_id, raw_name, value, name=name)
        if call is None and is_told:
            return skip("duplicate-call")
        if call is None:
            self._parser.before_content()
            if not by_model:
                self._parser.parent = self._script() or self._parser.parent
            calls.open(call_id, raw_name, value, raw=item_of(raw), name=name, source=way)
            return WITH_EVENTS
        says_more = bool(value) and calls.update(call, value, raw=item_of(raw), name=name)
        return WITH_EVENTS if says_more else skip("duplicate-call")

    def ended(
        self,
        call_id: str,
        answer: Answer,
        raw: Any,
        *,
        raw_name: str = UNKNOWN_TOOL,
        attachments: list[Attachment] | None = None,
    ) -> str:
        """A line that has a call's result."""
        parser = self._parser
        value, outputs = answer.value, None
        is_question = parser.calls.name_of(call_id) == "AskUserQuestion" and isinstance(value, dict)
        parser.approvals.settle(call_id, answer.status, value.get("answers") if is_question else None)
        if answer.running is None:
            so_far, bodies = parser.running.take(call_id)
            if value is None and so_far:  # broken off: what it printed before is all there is
                value, outputs = so_far, bodies
        return parser.calls.result(
            call_id,
            value,
            raw=item_of(raw),
            raw_name=raw_name,
            status=answer.status,
            error=answer.error,
            duration_ms=answer.duration_ms,
            attachments=attachments,
            display=answer.display,
            is_async=answer.running is not None,
            outputs=outputs,
        )

    def _script(self) -> str | None:
        """The running script, of which a call is that the model did not make."""
        script = self._parser.thread.script
        return script if script is not None and self._parser.calls.get(script) is not None else None

    def _function_call(self, item: Msg) -> str:
        name = text_of(item, "name") or UNKNOWN_TOOL
        namespace = text_of(item, "namespace") or ""
        value = decode_json(item.get("arguments"))
        if namespace.startswith("mcp__"):
            name = f"{namespace}__{name}"
        if name == "update_plan":
            self._parser.thread.plan_call = text_of(item, "call_id")
        return self._called_by_model(item, name, value)

    def _custom_call(self, item: Msg) -> str:
        return self._called_by_model(item, text_of(item, "name") or UNKNOWN_TOOL, {"input": item.get("input")})

    def _local_shell_call(self, item: Msg) -> str:
        action = object_of(item, "action")
        value = details(action, "command", "timeout_ms", "working_directory", "env", "user")
        return self._called_by_model(item, "local_shell", value)

    def _called_by_model(self, item: Msg, name: str, value: Any) -> str:
        call_id = text_of(item, "call_id", "id") or self._parser.made_up_id("call")
        line_class = self.called(call_id, name, value, item, by_model=True)
        if name == _SCRIPT:
            self._parser.thread.script = self._parser.calls.id_of(call_id)
        call = self._parser.calls.get(call_id)
        if call is not None and call.name in _TOLD_TWICE and isinstance(value, dict):
            self._parser.calls.remember(call, value)
        return line_class

    def _output(self, item: Msg) -> str:
        call_id = call_id_of(item)
        call = self._parser.calls.get(call_id)
        if self._parser.calls.is_over(call_id) or (call is not None and call.acknowledged):
            return DUPLICATE_RESULT
        bodies = Bodies(self._parser)
        raw = bodies.take(item)
        answer = read_answer(raw.get("output"))
        if call is None or call.name != "Bash":
            answer = answer._replace(running=None)  # `write_stdin` is answered, whatever it typed into
        if call is not None and call.name == "Patch":
            answer = _patch_answer(answer)
        name = text_of(item, "name") or UNKNOWN_TOOL
        return self.ended(call_id, answer, raw, raw_name=name, attachments=bodies.attachments)

    # -- commands -------------------------------------------------------------------------------------------------

    def exec_begin(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        line_class = self._exec_called(call_id, msg)
        return WITH_EVENTS if self._parser.approvals.settle(call_id, "running") else line_class

    def _exec_called(self, call_id: str, msg: Msg) -> str:
        """What the model asked for, and what became of it: where and how it is being run."""
        calls = self._parser.calls
        call = calls.get(call_id)
        value = {**(call.memory if call is not None else {}), **details(msg, *_EXEC_KEYS)}
        line_class = self.called(call_id, type_word(msg, "exec_command"), value, msg)
        if (call := calls.get(call_id)) is not None:
            calls.remember(call, value)
        return line_class

    def _exec_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        self._exec_called(call_id, msg)
        value = {key: msg[key] for key in ("stdout", "stderr", "exit_code") if msg.get(key) is not None}
        merged = msg.get("aggregated_output")
        if "stdout" not in value and merged is not None:
            value["stdout"] = merged
        for key in ("aggregated_output", "formatted_output"):  # the latter is what the model saw
            if msg.get(key) not in (None, value.get("stdout")):
                value[key] = msg[key]
        status = _STATUS.get(str(msg.get("status")), "completed")
        error = text_of(msg, "formatted_output", "aggregated_output", "stderr") if status == "denied" else None
        answer = Answer(value, status, error, duration_ms=duration_of(msg), display=printed(msg))
        return self.ended(call_id, answer, msg)

    def _output_delta(self, msg: Msg) -> str:
        call = self._parser.calls.get(call_id_of(msg))
        if call is not None:  # after the end there is nothing to preview: a stopped command may go on printing
            try:
                data = base64.b64decode(str(msg.get("chunk", "")), validate=True)
            except ValueError:
                data = b""
            self._parser.running.append(call, str(msg.get("stream", "stdout")), data)
        return skip("partial")

    def _terminal_interaction(self, msg: Msg) -> str:
        """Typed into a running command, by a `write_stdin` call or by the user."""
        call = self._parser.calls.get(call_id_of(msg))
        if call is None:
            return skip("duplicate-call")
        self._parser.calls.update(call, progress={"data": details(msg, "stdin", "process_id")})
        return WITH_EVENTS

    # -- patches --------------------------------------------------------------------------------------------------

    def patch_begin(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        value = details(msg, "auto_approved", "changes")
        line_class = self.called(call_id, type_word(msg, "patch_apply"), value, msg, name="Patch")
        if (call := self._parser.calls.get(call_id)) is not None:
            self._parser.calls.remember(call, {"begun": True})
        return line_class

    def _patch_end(self, msg: Msg) -> str:
        call_id = call_id_of(msg)
        call = self._parser.calls.get(call_id)
        if call is None or not call.memory:  # rollouts keep no begin
            self.patch_begin(msg)
        status = _STATUS.get(str(msg.get("status")), "completed")
        success = msg.get("success")
        if success is None:
            success = status == "completed"
        elif not success and status == "completed":
            status = "failed"
        value = {**details(msg, "stdout", "stderr"), "success": success}
        error = (text_of(value, "stderr", "stdout") or text_of(msg, "error")) if status != "completed" else None
        return self.ended(call_id, Answer(value, status, error), msg)

    # -- what reads what -------------------------------------------------------------------------------------------

    EVENTS: ClassVar[Handlers] = {
        "exec_command_begin": exec_begin,
        "exec_command_end": _exec_end,
        "exec_command_output_delta": _output_delta,
        "patch_apply_begin": patch_begin,
        "patch_apply_end": _patch_end,
        "patch_apply_updated": patch_begin,
        "terminal_interaction": _terminal_interaction,
    }
    STARTS: ClassVar[Handlers] = {
        "CommandExecution": as_event(exec_begin),
        "FileChange": as_event(patch_begin),
    }
    ENDS: ClassVar[Handlers] = {
        "CommandExecution": as_event(_exec_end),
        "FileChange": as_event(_patch_end),
    }
    RAW_ITEMS: ClassVar[Handlers] = {
        "custom_tool_call": _custom_call,
        "custom_tool_call_output": _output,
        "function_call": _function_call,
        "function_call_output": _output,
        "local_shell_call": _local_shell_call,
    }


def _patch_answer(answer: Answer) -> Answer:
    """What `apply_patch` answers states an exit code, as a command does."""
    value = answer.value
    if not isinstance(value, dict) or not isinstance(value.get("exit_code"), int):
        return answer
    if value["exit_code"] == 0:
        return answer._replace(value={**value, "success": True})
    value = {"exit_code": value["exit_code"], "success": False}
    return answer._replace(value=value, status="failed", error=answer.value["stdout"])
