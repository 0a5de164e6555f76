"""The `display-tools` dialect: what `tooltap mcp` reports to the daemon about its display tools.

    {"type": "display/session", "client"?: {"name", "version"}, "cwd"}
    {"type": "display/call", "callId", "tool", "arguments"}
    {"type": "display/result", "callId", "tool", "status", "text", "exitCode"?, "durationMs", "display"?}

`text` is the line for the model; `display` has the keys of `Display` and names the output body for the user. A call
without a result, because the server was killed, is closed with the stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.tools.names import OWN_SERVER
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Display, SessionEvent

_STATUSES = ("completed", "failed", "denied", "cancelled")


class DisplayTools(Parser):
    dialect = "display-tools"
    protocol = default_provider = "tooltap"
    line = Lines("type")

    @line("display/session")
    def _session(self, value: Line) -> None:
        client = record(value.get("client"))
        self.state.cwd = string(value.get("cwd"))
        name, version = string(client.get("name")), string(client.get("version"))
        title = " ".join(part for part in ("display tools of", name, version) if part) if name else None
        self.emit(SessionEvent, state="started", cwd=self.state.cwd, title=title)

    @line("display/call", callId=str, tool=str)
    def _call(self, value: Line) -> Skip:
        call_id, tool = value["callId"], value["tool"]
        if not call_id or not tool:
            return self.unparsed("unknown-type", value)
        self.calls.open(call_id, tool, record(value.get("arguments")), raw=value, name=_canonical(tool))
        return None

    @line("display/result", callId=str, tool=str)
    def _result(self, value: Line) -> Skip:
        call_id, tool = value["callId"], value["tool"]
        if not call_id or not tool or value.get("status") not in _STATUSES:
            return self.unparsed("unknown-type", value)
        if self.calls.is_over(call_id):
            return "duplicate-result"
        if not self.calls.is_known(call_id):
            self.calls.open(call_id, tool, {}, raw=None, name=_canonical(tool), synthetic=True)
        text = string(value.get("text"))
        stated = {"text": text, "exit_code": whole(value.get("exitCode"))}
        answer = Answer(
            {key: item for key, item in stated.items() if item is not None},
            value["status"],
            text,
            duration_ms=whole(value.get("durationMs")),
            display=_display(value.get("display")),
            model=msgspec.UNSET if text is None else text,
        )
        return self.calls.answer(call_id, answer, raw=value)


def _canonical(tool: str) -> str:
    """The tool's name in agents that configure this server as `tooltap`."""
    return f"mcp__{OWN_SERVER}__{tool}"


def _display(value: Any) -> Display | None:
    try:
        return None if value is None else msgspec.convert({**record(value), "origin": "provider"}, Display)
    except msgspec.ValidationError:
        return None
