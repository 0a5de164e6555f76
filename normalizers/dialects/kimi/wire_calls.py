"""Calls of Kimi's wire mode, whose arguments come in pieces, and what the agent reports of its servers and usage."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.dialects.kimi.common import KimiParser, KimiState
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import decode_json, strings
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import SessionEvent, Usage

SERVED = 4_096
"""MCP servers, and their tools, that the parser remembers."""
STREAMING = 64
"""Agents that may write the arguments of a call at once."""
_PARTS = 128
"""Parts of arguments that are joined when there are so many: a state of a million is slow to dump."""

BETWEEN = frozenset(
    {"ApprovalResponse", "BtwBegin", "BtwEnd", "HookResolved", "HookTriggered", "MCPLoadingBegin", "MCPLoadingEnd"}
    | {"Notification", "ToolCallPart"}
)
"""Events that may come between the pieces of a call or of a text; every other one of the agent ends them."""


class Pieces(msgspec.Struct, omit_defaults=True):
    """A call whose arguments are being written."""

    id: str
    name: str
    arguments: list[str]
    size: int = 0
    agent: str | None = None
    parent: str | None = None


class WireCallsState(KimiState, kw_only=True):
    writing: dict[str, Pieces] = msgspec.field(default_factory=dict)
    """Agent, or nothing for the main one -> the call that it is writing."""
    servers: dict[str, str] = msgspec.field(default_factory=dict)
    """Tool of an MCP server -> the server; nothing where several have a tool of this name."""
    server_states: dict[str, str] = msgspec.field(default_factory=dict)
    """MCP server -> its status."""
    mode: str | None = None


class WireCalls(KimiParser):
    event = Lines("type")
    """What the agent reports. The methods get the payload."""
    state_type = WireCallsState
    state: WireCallsState

    def open_turn(self) -> None:
        """Open a turn for what the main agent does outside of any. Subagents may outlive theirs."""
        if self.agent is None:
            self.ensure_turn()

    # -- calls --------------------------------------------------------------------------------------------------------

    @event("ToolCall", id=str, function=dict)
    def _tool_call(self, payload: Line) -> Skip:
        function = payload["function"]
        name, arguments = string(function.get("name")), string(function.get("arguments")) or ""
        if not name:
            return self.unparsed("unknown-type", payload)
        self.open_turn()
        pieces = Pieces(payload["id"], name, [arguments], len(arguments), self.agent, self.parent)
        if arguments and isinstance(decode_json(arguments), dict):
            return self._show_written(pieces)
        writing = self.state.writing
        while len(writing) >= STREAMING:
            self._finish_call(next(iter(writing)))
        writing[self.agent or ""] = pieces
        return "partial"

    @event("ToolCallPart")
    def _tool_call_part(self, payload: Line) -> Skip:
        pieces, part = self.state.writing.get(self.agent or ""), string(payload.get("arguments_part"))
        if pieces is None or not part:
            return "partial"
        size = sum(one.size for one in self.state.writing.values())
        if size + len(part) <= self.context.limits.call_bytes:
            pieces.arguments.append(part)
            pieces.size += len(part)
            if len(pieces.arguments) >= _PARTS:
                pieces.arguments = ["".join(pieces.arguments)]
        return "partial"

    def finish_calls_before(self, kind: str, payload: Line) -> None:
        """Show the calls whose arguments are whole: another event of their agent follows, or one of their subagent."""
        is_between = kind in BETWEEN or (kind == "StatusUpdate" and not payload.get("token_usage"))
        self.finish_calls_of(None if is_between else self.agent or "", self.parent)

    def finish_calls_of(self, own: str | None, call_id: str | None) -> None:
        """Show what an agent was writing, and the call of this id."""
        for agent, pieces in list(self.state.writing.items()):
            if agent == own or pieces.id == call_id:
                self._finish_call(agent)

    def finish_calls(self) -> None:
        for agent in list(self.state.writing):
            self._finish_call(agent)

    def _finish_call(self, agent: str) -> None:
        pieces = self.state.writing.pop(agent)
        scope = self.agent, self.parent
        self.agent, self.parent = pieces.agent, pieces.parent
        self._show_written(pieces)
        self.agent, self.parent = scope

    def _show_written(self, pieces: Pieces) -> Skip:
        function = {"name": pieces.name, "arguments": "".join(pieces.arguments)}
        raw = {"type": "function", "id": pieces.id, "function": function}
        server = self.state.servers.get(pieces.name)
        name = canonical_name(f"mcp__{server}__{pieces.name}", {}, pieces.id) if server else None
        return self.show_call(pieces.id, pieces.name, function["arguments"], raw, name)

    @event("ToolResult", tool_call_id=str, return_value=dict)
    def _tool_result(self, payload: Line) -> Skip:
        if not self.calls.is_known(payload["tool_call_id"]):
            self.open_turn()
        return self.answer_call(payload["tool_call_id"], payload, "return_value")

    # -- state --------------------------------------------------------------------------------------------------------

    @event("StatusUpdate")
    def _status(self, payload: Line) -> Skip:
        changes: dict[str, Any] = {}
        planning = payload.get("plan_mode")
        if isinstance(planning, bool) and self.agent is None:
            mode = "plan" if planning else "default"
            if mode != (self.state.mode or "default"):
                changes["mode"] = self.state.mode = mode
        if servers := records(record(payload.get("mcp_status")).get("servers")):
            changes.update(self._learn_servers(servers))
        if changes:
            self.emit(SessionEvent, state="updated", **changes)
        self._usage(payload)
        return None if self.items else "unchanged"

    def _learn_servers(self, servers: list[Line]) -> Line:
        """Remember which server has which tool; returns the servers, if the status of one has changed."""
        states: dict[str, str] = {}
        for server in servers:
            if (name := string(server.get("name"))) is None:
                continue
            put(states, name, string(server.get("status")) or "", SERVED)
            for tool in strings(server.get("tools")):
                other = self.state.servers.get(tool, name)
                put(self.state.servers, tool, name if other == name else "", SERVED)
        if states == self.state.server_states:
            return {}
        self.state.server_states = states
        return {"mcp_servers": [{"name": name, "status": status} for name, status in states.items()]}

    def _usage(self, payload: Line) -> None:
        """`input_other` excludes tokens read from and written to the cache."""
        tokens = record(payload.get("token_usage"))
        fresh, read, written = (
            whole(tokens.get(key)) for key in ("input_other", "input_cache_read", "input_cache_creation")
        )
        if not tokens:
            return
        self.emit(
            Usage,
            scope="step",
            input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
            output_tokens=whole(tokens.get("output")),
            cache_read_tokens=read,
            cache_write_tokens=written,
            context_used=whole(payload.get("context_tokens")),
            context_size=whole(payload.get("max_context_tokens")),
        )
