"""The `display-tools` dialect: what `tooltap mcp` tells the daemon of its own tools.

    {"type": "display/session", "client"?: {"name", "version"}, "cwd"}
    {"type": "display/call", "callId", "tool", "arguments"}
    {"type": "display/result", "callId", "tool", "status", "text", "exitCode"?, "durationMs", "display"?}

`text` is the one line the model gets; `display` says where the body lies that the user sees: the keys of `Display`. A
call that got no result, because the server was killed, is closed with the stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import DUPLICATE_RESULT
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display, SessionEvent
from tooltap.protocol.tapped import Direction

__all__ = ["DisplayTools"]

_STATUSES = ("completed", "failed", "denied", "cancelled")


class DisplayTools(Parser):
    dialect = "display-tools"
    protocol = "tooltap"
    default_provider = "tooltap"
    SKIPS = frozenset({"blank", "lost", "duplicate-result"})

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        kind = value.get("type")
        if kind == "display/session":
            return self._session(value)
        call_id, tool = string(value.get("callId")), string(value.get("tool"))
        if not call_id or not tool:
            return self.unparsed("unknown-type", value)
        if kind == "display/call":
            return self._call(call_id, tool, value)
        if kind == "display/result" and value.get("status") in _STATUSES:
            return self._result(call_id, tool, value)
        return self.unparsed("unknown-type", value)

    def _session(self, value: dict[str, Any]) -> str:
        client = record(value.get("client"))
        self.state.cwd = string(value.get("cwd"))
        name, version = string(client.get("name")), string(client.get("version"))
        title = " ".join(part for part in ("display tools of", name, version) if part) if name else None
        self.emit(SessionEvent, state="started", cwd=self.state.cwd, title=title)
        return WITH_EVENTS

    def _call(self, call_id: str, tool: str, value: dict[str, Any]) -> str:
        self.calls.open(call_id, tool, record(value.get("arguments")), raw=value, name=_canonical(tool))
        return WITH_EVENTS

    def _result(self, call_id: str, tool: str, value: dict[str, Any]) -> str:
        if self.calls.is_over(call_id):
            return DUPLICATE_RESULT
        if not self.calls.is_known(call_id):
            self.calls.open(call_id, tool, {}, raw=None, name=_canonical(tool), synthetic=True)
        text = string(value.get("text"))
        said = {"text": text, "exit_code": whole(value.get("exitCode"))}
        return self.calls.result(
            call_id,
            {key: item for key, item in said.items() if item is not None},
            raw=value,
            status=value["status"],
            error=text,
            duration_ms=whole(value.get("durationMs")),
            display=_display(value.get("display")),
        )


def _canonical(tool: str) -> str:
    """As agents name it that have this server under its own name."""
    return f"mcp__tooltap__{tool}"


def _display(value: Any) -> Display | None:
    try:
        return None if value is None else msgspec.convert({**record(value), "origin": "provider"}, Display)
    except msgspec.ValidationError:
        return None
