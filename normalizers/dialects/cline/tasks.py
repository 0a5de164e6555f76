"""The `cline-tasks` dialect: what the extensions of Cline and its forks show of a task, `ui_messages.json`."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, put
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import dollars, first_string, record, string, token_counts
from tooltap.protocol.events import Message, Usage

MESSAGES = 16_384
"""Maximum number of messages of a task that are remembered; the oldest are dropped."""
_NAMES = {
    "appliedDiff": "replace_in_file",
    "editedExistingFile": "replace_in_file",
    "listFilesRecursive": "list_files",
    "listFilesTopLevel": "list_files",
    "newFileCreated": "write_to_file",
    "readFile": "read_file",
    "searchFiles": "search_files",
}
"""What the extension calls a use of a tool -> the tool."""
_FINDS = frozenset({"listCodeDefinitionNames", "listFilesRecursive", "listFilesTopLevel", "searchFiles"})
"""Tools whose `content` is their result; that of others is their input."""
_COMMAND = "execute_command"


class TasksState(SessionState, kw_only=True):
    known: dict[str, None] = msgspec.field(default_factory=dict)
    """Time and kind of the messages that were read."""
    call: str | None = None
    """The command or the tool of an MCP server whose output comes in the next messages."""
    output: list[str] = msgspec.field(default_factory=list)


class ClineTasks(Parser):
    """Tasks: a list of messages, which the extension writes anew at each change.

    Written after Roo Code's schema (`packages/types/src/message.ts`) and public readers of these files, without a
    recording. The agent says something, or asks the user; only a message's time tells it from others. The first one is
    the task, and a turn ends with a `completion_result`. A request to the model gets its tokens when it is over.
    """

    dialect = "cline-tasks"
    protocol = default_provider = "cline"
    DOCUMENTS = True
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "model-call", "partial", "repeated", "unchanged"})
    message = Lines(
        "say",
        skip={
            **dict.fromkeys(("api_req_deleted", "api_req_finished", "api_req_rate_limited"), "model-call"),
            **dict.fromkeys(("api_req_retried", "api_req_retry_delayed"), "retry-progress"),
            **dict.fromkeys(("auto_approval_max_req_reached", "mcp_server_request_started"), "status"),
            **dict.fromkeys(("browser_session_status", "resume_completed_task", "resume_task"), "status"),
            **dict.fromkeys(("checkpoint_created", "checkpoint_saved"), "snapshot"),
            "user_edit_todos": "todos",
        },
    )
    state_type = TasksState
    state: TasksState

    def read(self, value: Line) -> Skip:
        kind = string(value.get(str(value.get("type"))))
        ts = value.get("ts")
        if kind is None or type(ts) is not int:
            return self.unparsed("unknown-type", value)
        if value.get("partial") is True:
            return "partial"
        key = f"{ts}:{kind}"[:100]
        if key in self.state.known:
            return "repeated"
        if kind == "api_req_started" and not _is_over(value):
            return "model-call"
        put(self.state.known, key, None, MESSAGES)
        self.ts = ts
        if self.state.started is None:
            self.begin_session(None)
            if kind in ("task", "text"):
                return self._task(value)
        if kind not in ("command_output", "mcp_server_response"):
            self._answer()
        skip = self.message.read(self, value, kind=kind)
        return None if self.items else skip

    def finish(self, reason: str) -> None:
        if self.state.output:
            self._answer()

    @message("task", "user_feedback", "user_feedback_diff")
    def _task(self, value: Line) -> Skip:
        if self.turn is None:
            self.start_turn()
        self.emit(Message, role="user", text=string(value.get("text")) or "")
        return None

    @message("text", text=str)
    def _text(self, value: Line) -> Skip:
        return self._say("assistant", value["text"])

    @message("reasoning", text=str)
    def _reasoning(self, value: Line) -> Skip:
        return self._say("reasoning", value["text"])

    @message("followup", text=str)
    def _followup(self, value: Line) -> Skip:
        asked = record(decode_json(value["text"]))
        return self._say("assistant", first_string(asked, "question") or value["text"])

    def _say(self, role: str, text: str) -> Skip:
        if not text.strip():
            return "empty"
        self.ensure_turn()
        self.emit_text(role, text)
        return None

    @message("completion_result")
    def _completed(self, value: Line) -> Skip:
        """The agent says it, and then asks whether that is all."""
        skip = self._say("assistant", string(value.get("text")) or "")
        if self.turn is not None:
            self.end_turn("completed")
        return skip

    @message("api_req_started", text=str)
    def _request(self, value: Line) -> Skip:
        """Tokens in the cache are not among `tokensIn`, unless the API is OpenAI's."""
        used = record(decode_json(value["text"]))
        keys = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
        counts = token_counts(*map(used.get, keys), apart=used.get("apiProtocol") != "openai")
        cost = dollars(used.get("cost"))
        if any(counts.values()) or cost:
            self.ensure_turn()
            self.emit(Usage, scope="step", cost_usd=cost, **counts)
        if reason := string(used.get("cancelReason")):
            failed = first_string(used, "streamingFailedMessage")
            self.notice("request-failed", failed or reason, "warning", {"reason": reason})
        return "model-call"

    @message("command", text=str)
    def _command(self, value: Line) -> Skip:
        self._open(value, _COMMAND, {"command": value["text"]})
        return None

    @message("use_mcp_server", text=str)
    def _mcp(self, value: Line) -> Skip:
        used = record(decode_json(value["text"]))
        server, tool = string(used.get("serverName")), first_string(used, "toolName", "uri")
        if server is None or tool is None:
            return self.unparsed("unknown-type", value)
        self._open(value, f"mcp__{server}__{tool}", decode_json(used.get("arguments")))
        return None

    def _open(self, value: Line, name: str, given: Any) -> None:
        self.ensure_turn()
        self.state.call = f"{value['ts']}"
        self.calls.open(self.state.call, name, given, raw=value)

    @message("command_output", "mcp_server_response", text=str)
    def _output(self, value: Line) -> Skip:
        if self.state.call is None:
            return self._note(value) if value["text"] else "empty"
        self.state.output.append(value["text"])
        return "partial"

    def _answer(self) -> None:
        """Emit the result of the open call, whose output is complete."""
        call, output = self.state.call, "\n".join(filter(None, self.state.output))
        self.state.call, self.state.output = None, []
        if call is not None and self.calls.get(call) is not None:
            self.calls.answer(call, Answer(output or None), raw={"text": output}, synthetic=not output)

    @message("tool", text=str)
    def _tool(self, value: Line) -> Skip:
        used = decode_json(value["text"])
        tool = string(record(used).get("tool"))
        if not isinstance(used, dict) or tool is None:
            return self.unparsed("unknown-type", value)
        found = string(used.get("content")) if tool in _FINDS else None
        hidden = ("tool", "content") if tool in _FINDS or tool == "readFile" else ("tool",)
        given = {key: item for key, item in used.items() if key not in hidden}
        self.ensure_turn()
        call_id = f"{value['ts']}"
        name = canonical_name(_NAMES.get(tool, tool), given, call_id)
        call = self.calls.open(call_id, tool, given, raw=value, name=name)
        return self.calls.answer(call, Answer(found), raw={}, synthetic=found is None)

    @message("condense_context", "sliding_window_truncation")
    def _condensed(self, value: Line) -> Skip:
        condensed = record(value.get("contextCondense")) or record(value.get("contextTruncation"))
        self.notice("compaction", string(condensed.get("summary")), data=condensed)
        return None

    @message("api_req_failed", "condense_context_error", "diff_error", "error", "mistake_limit_reached")
    def _error(self, value: Line) -> Skip:
        self.notice("error", string(value.get("text")), "error")
        return None

    @message("browser_action", "browser_action_launch", "browser_action_result", "codebase_search_result", "image")
    def _browser(self, value: Line) -> Skip:
        return self._note(value)

    @message("rooignore_error", "shell_integration_warning", "subtask_result")
    def _note(self, value: Line) -> Skip:
        kind = string(value.get(str(value.get("type")))) or "note"
        self.notice(kind.replace("_", "-"), string(value.get("text")))
        return None


def _is_over(value: Line) -> bool:
    """Whether a request to the model has ended."""
    used = record(decode_json(value.get("text")))
    return not used.keys().isdisjoint(("cancelReason", "cost", "tokensOut"))
