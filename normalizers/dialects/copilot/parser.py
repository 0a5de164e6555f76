"""The `copilot-json` dialect: `copilot --output-format json`.

Learned from Copilot CLI 1.0.102; types that are not in recordings are from the session events of GitHub's Copilot SDK.
Every line has `type`, `data`, `id` and `timestamp`, a subagent's line also `agentId`; the last line, `result`, is flat,
and the first to name the session. What Copilot calls a turn is one request to the model with its tools. Our turn lasts
from the user's message to `assistant.idle`.
"""

from __future__ import annotations

import zlib
from typing import Any

from tooltap.normalizers.core.bodies import take_bodies
from tooltap.normalizers.core.bounded import make_room
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.copilot.answers import read_result
from tooltap.normalizers.dialects.copilot.session import CopilotSession, CopilotState, stated
from tooltap.normalizers.wire.values import first_string, record, records, string

MANY_AGENTS = 1_024
_JOINTS = (b"", b"\n", b"\n\n")
"""What may stand between the pieces of reasoning that a message repeats."""

_DENIED_BY = {
    "denied-by-rules": "policy",
    "denied-by-content-exclusion-policy": "policy",
    "denied-by-permission-request-hook": "hook",
    "denied-interactively-by-user": "user",
    "denied-no-approval-rule-and-could-not-request-from-user": "policy",
}
"""Kind of a denied permission -> who denied it."""


class CopilotJson(CopilotSession):
    dialect = "copilot-json"
    SKIPS = frozenset({"empty", "repeated", "step", "unchanged"})
    line = CopilotSession.line.copy()
    state_type = CopilotState

    # -- messages -----------------------------------------------------------------------------------------------

    @line("assistant.message_delta", "assistant.reasoning_delta")
    def _delta(self, value: Line, data: Line) -> Skip:
        is_text = value["type"] == "assistant.message_delta"
        role, key = ("assistant", "messageId") if is_text else ("reasoning", "reasoningId")
        message_id = string(data.get(key))
        if text := string(data.get("deltaContent")):
            self.state.live = True
            self.ensure_turn()
            self.texts.append(role, text, message_id=message_id, key=f"{role}\n{message_id}", preview=True)
        return "partial"

    @line("assistant.reasoning")
    def _reasoning(self, value: Line, data: Line) -> Skip:
        self.ensure_turn()
        return self._think(data.get("content"), string(data.get("reasoningId")))

    def _think(self, text: Any, message_id: str | None) -> Skip:
        """Emit reasoning, unless it was: alone, or as one of the pieces that the message repeats together."""
        self.texts.drop(f"reasoning\n{message_id}")
        if not isinstance(text, str) or not text:
            return "empty"
        thought, data = self.state.thought, text.encode()
        known, crc = thought.get(self.agent or ""), zlib.crc32(data)
        if known is not None and crc in known:
            return "repeated"
        make_room(thought, MANY_AGENTS)
        joined = [crc] * len(_JOINTS)
        if known is not None:
            joined = [zlib.crc32(joint + data, before) for joint, before in zip(_JOINTS, known[1:], strict=True)]
        thought[self.agent or ""] = [crc, *joined]
        self.emit_text("reasoning", text, message_id=message_id)
        return None

    @line("assistant.message")
    def _assistant(self, value: Line, data: Line) -> Skip:
        self.ensure_turn()
        message_id, thoughts = string(data.get("messageId")), string(data.get("reasoningText"))
        if self.state.texts.open:
            self._end_received_thoughts(dropped=bool(thoughts))
            self.texts.drop(f"assistant\n{message_id}")
        self._think(thoughts, message_id)
        if text := string(data.get("content")):
            self.emit_text("assistant", text, message_id=message_id)
        requests = records(data.get("toolRequests"))
        for request in requests:
            self._show(value, request, "name", "pending")
        if self.agent is None:
            self.state.answered = bool(text) and not requests
            if self.state.outcome == "failed":
                self.state.outcome = None  # the model answered after all
        return None if self.items else "empty"

    def _end_received_thoughts(self, *, dropped: bool) -> None:
        """Drop the pieces of reasoning that came before a message, where it repeats them, else emit them."""
        prefix = f"{self.session}\n{self.agent or ''}\n"
        for key in [key for key in self.state.texts.open if key.startswith(f"{prefix}reasoning\n")]:
            name = key.removeprefix(prefix)
            if dropped:
                self.texts.drop(name)
            else:
                self.texts.flush(name, complete=True)

    # -- calls and permissions --------------------------------------------------------------------------------

    @line("tool.execution_start")
    def _show(self, value: Line, data: Line, name_key: str = "toolName", status: str = "running") -> Skip:
        call_id, name = data.get("toolCallId"), data.get(name_key)
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        given, canonical, title = data.get("arguments"), self._mcp_name(name, data), string(data.get("toolTitle"))
        return self.calls.show(call_id, name, given, raw=data, name=canonical, status=status, title=title, renames=True)

    def _mcp_name(self, name: str, data: Line) -> str | None:
        """The canonical name of `<server>-<tool>`, where the line names the server or the session announced it."""
        server, tool = string(data.get("mcpServerName")), string(data.get("mcpToolName"))
        if server and tool:
            return f"mcp__{server}__{tool}"
        if "-" not in name:
            return None
        servers = sorted([*self.state.servers, *self.context.mcp_servers], key=len, reverse=True)
        server = next((one for one in servers if name.startswith(f"{one}-")), None)
        return f"mcp__{server}__{name.removeprefix(f'{server}-')}" if server is not None else None

    @line("tool.shell_output")
    def _shell_output(self, value: Line, data: Line) -> Skip:
        """Exactly what the command prints. The result repeats it, unless it is long."""
        call, text = self.calls.get(str(data.get("toolCallId"))), string(data.get("text"))
        if call is None or not text:
            return "partial"
        self.running.append(call, string(data.get("stream")) or "stdout", text.encode())
        return None

    @line("tool.execution_progress")
    def _progress(self, value: Line, data: Line) -> Skip:
        call = self.calls.get(str(data.get("toolCallId")))
        if call is None:
            return "partial"
        self.calls.update(call, progress={"text": string(data.get("progressMessage")) or ""})
        return None

    @line("tool.execution_complete")
    def _complete(self, value: Line, data: Line) -> Skip:
        call_id = data.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", data)
        self.ensure_turn()
        raw, attachments = take_bodies(self, data)
        printed, outputs = self.running.take(call_id) if self.state.running.calls else (None, None)
        answer = read_result(self.calls.name_of(call_id) or "", raw, printed, outputs)
        if attachments is not None:
            answer = answer.replace(attachments=attachments)
        raw_name = string(data.get("toolName")) or UNKNOWN_TOOL
        outcome = self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)
        metrics = record(record(data.get("toolTelemetry")).get("metrics"))
        self.read_context(value, metrics, "context_current_tokens", "context_token_limit")
        return outcome

    @line("subagent.started", "subagent.completed", "subagent.failed")
    def _subagent(self, value: Line, data: Line) -> Skip:
        call_id = string(data.get("toolCallId"))
        if self.agent is not None and call_id is not None:
            make_room(self.state.agents, MANY_AGENTS)
            self.state.agents[self.agent] = call_id
        call = self.calls.get(call_id or "")
        if call is None:
            return "subagent-setup"
        facts = stated(data, "agentName", "model", "totalToolCalls", "totalTokens", "durationMs", "error")
        text = first_string(data, "agentDisplayName", "agentName") or ""
        self.calls.update(call, progress={"text": text, "data": facts})
        return None

    @line("permission.requested", "permission.completed")
    def _permission(self, value: Line, data: Line) -> Skip:
        permission_id = string(data.get("requestId"))
        if permission_id is None:
            return self.unparsed("unknown-type", data)
        if value["type"] == "permission.completed":
            kind = string(record(data.get("result")).get("kind")) or ""
            outcome = "allowed" if kind.startswith("approved") else "denied"
            self.permissions.answer(permission_id, outcome, by=_DENIED_BY.get(kind))
        else:
            request = record(data.get("permissionRequest"))
            call_id = string(request.get("toolCallId"))
            known = call_id if call_id is not None and self.calls.is_known(call_id) else None
            self.permissions.ask(permission_id, call_id=known, title=string(request.get("intention")))
        return None
