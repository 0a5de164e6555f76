"""The `opencode-bus` dialect: OpenCode's `/event` stream, with or without the client's requests.

Learned from OpenCode 1.18.33, and streams of 1.1. Every line is `{id, type, properties}`; the stream of all projects
wraps it in `{directory, project, payload}`, where durable events come a second time in a `sync` envelope. Messages and
their parts are sent again whenever they change, and again when a turn is over.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Skip
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.dialects.opencode.asking import Asking
from tooltap.normalizers.dialects.opencode.errors import notice_failure, outcome_of_reason
from tooltap.normalizers.dialects.opencode.parts import Parts
from tooltap.normalizers.dialects.opencode.prompts import Prompts
from tooltap.normalizers.dialects.opencode.requests import Requests, method_and_path
from tooltap.normalizers.dialects.opencode.sessions import Sessions
from tooltap.normalizers.dialects.opencode.state import BusState, Msg, int_of, object_of, text_of
from tooltap.normalizers.dialects.opencode.texts import TextParts
from tooltap.normalizers.dialects.opencode.tools import ToolParts
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.decode import FRAMING
from tooltap.protocol.events import Notice
from tooltap.protocol.tapped import Direction

__all__ = ["OpencodeBus"]

_SKIPPED = {
    "account": "environment",
    "catalog": "environment",
    "command": "request",
    "file": "files",
    "global": "connection",
    "ide": "environment",
    "installation": "environment",
    "integration": "environment",
    "lsp": "environment",
    "models-dev": "environment",
    "plugin": "environment",
    "project": "environment",
    "pty": "terminal",
    "reference": "environment",
    "server": "connection",
    "tui": "client",
    "vcs": "environment",
    "workspace": "environment",
    "worktree": "environment",
}
"""First word of an event's type -> why such events are skipped."""

_VERSION = re.compile(r"\.\d+$")


class OpencodeBus(Parser):
    dialect = "opencode-bus"
    protocol = "opencode"
    default_provider = "opencode"
    SKIPS = frozenset(
        {
            "blank",
            "lost",
            "duplicate-result",
            *_SKIPPED.values(),
            "answer",
            "echo",
            FRAMING,
            "empty",
            "heartbeat",
            "message",
            "partial",
            "prompt-context",
            "repeated",
            "snapshot",
            "status",
            "step",
            "subagent",
            "unchanged",
        }
    )
    state_type = BusState
    state: BusState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.sessions = Sessions(self)
        self.asking = Asking(self)
        texts, self._tools = TextParts(self), ToolParts(self)
        self.prompts = Prompts(self, self.sessions, texts)
        self._message_texts = texts
        self._requests = Requests(self)
        self._parts = Parts(self, self.sessions, self.prompts, texts, self._tools)
        self._events: dict[str, Callable[[Msg], str]] = {
            "mcp.browser.open.failed": self._mcp_failed,
            "mcp.tools.changed": self._mcp_server,
            "message.part.delta": self._parts.delta,
            "message.part.removed": self._removed,
            "message.part.updated": self._parts.updated,
            "message.removed": self._removed,
            "message.updated": self._message,
            "permission.asked": self.asking.permission,
            "permission.replied": self._permission_replied,
            "permission.updated": self.asking.permission,
            "permission.v2.asked": self.asking.permission,
            "permission.v2.replied": self._permission_replied,
            "question.asked": self.asking.question,
            "question.rejected": self._question_rejected,
            "question.replied": self._question_replied,
            "server.heartbeat": self._heartbeat,
            "session.compacted": self._compacted,
            "session.created": self._created,
            "session.deleted": self._deleted,
            "session.diff": self._session_diff,
            "session.error": self._error,
            "session.idle": self._idle,
            "session.status": self._status,
            "session.updated": self._updated,
            "todo.updated": self._parts.todos,
        }

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        if direction == "reply":
            return self._requests.answered(value)
        if direction == "in" or (direction is None and method_and_path(value) is not None):
            return self._requests.read(value)
        event = _unwrapped(value)
        kind, properties = str(event.get("type")), object_of(event, "properties")
        handler = self._events.get(kind)
        if handler is None:
            reason = _SKIPPED.get(kind.partition(".")[0])
            return skip(reason) if reason is not None and "." in kind else self.unparsed("unknown-type", value)
        info = object_of(properties, "info")
        self.ts = _time(properties, info) or self.ts
        self.sessions.adopt(info)
        self.sessions.enter(_session(kind, properties, info))
        return handler(properties)

    def read_other(self, value: Any, line: bytes, t: int | None) -> Skip:
        """Answers may be `true` or `null`."""
        return self._requests.answered(value) if self.direction == "reply" else super().read_other(value, line, t)

    def unfinished(self, call: Call) -> tuple[Any, Any]:
        return self._tools.output_so_far(call)

    # -- sessions -------------------------------------------------------------------------------------------------

    def _created(self, properties: Msg) -> str:
        return self.sessions.described(object_of(properties, "info"), "started")

    def _updated(self, properties: Msg) -> str:
        return self.sessions.described(object_of(properties, "info"), "updated")

    def _deleted(self, properties: Msg) -> str:
        return self.sessions.ended()

    def _compacted(self, properties: Msg) -> str:
        self.emit(Notice, level="info", code="compaction", text="session.compacted")
        return WITH_EVENTS

    def _heartbeat(self, properties: Msg) -> str:
        return skip("heartbeat")

    def _mcp_server(self, properties: Msg) -> str:
        """A server's tools changed: that there is one is what counts."""
        server = text_of(properties, "server")
        if server is not None and server not in self.state.servers:
            self.state.servers.append(server)
            del self.state.servers[:-64]
        return skip("environment")

    def _mcp_failed(self, properties: Msg) -> str:
        name = text_of(properties, "mcpName") or "MCP server"
        self.emit(Notice, level="warning", code="mcp-startup", text=f"{name}: no browser to log in", data=properties)
        return WITH_EVENTS

    # -- turns ----------------------------------------------------------------------------------------------------

    def _status(self, properties: Msg) -> str:
        status = object_of(properties, "status")
        kind = status.get("type")
        if kind == "idle":
            return self._idle(properties)
        if kind != "retry":
            return skip("status")
        return self._parts.retried(int_of(status, "attempt"), text_of(status, "message"), status)

    def _idle(self, properties: Msg) -> str:
        """Said twice. All that was asked of the session is done."""
        if self.agent is not None or self.turn is None:
            return skip("status")
        info = self.sessions.info
        outcome, reason = info.outcome or (outcome_of_reason(info.step_reason), info.step_reason)
        while self.turn is not None:
            self.end_turn(outcome, reason=reason)
        info.outcome, info.step_reason, info.retry = [], None, 0
        return WITH_EVENTS

    def _error(self, properties: Msg) -> str:
        return self._failed(object_of(properties, "error"))

    def _failed(self, error: Msg) -> str:
        """An error of the session, which the message repeats; a stop may have been told as the request for it."""
        info = self.sessions.info
        if info.outcome and (info.outcome[0] == "cancelled" or info.outcome[1] == error.get("name")):
            return skip("repeated")
        info.outcome = list(notice_failure(self, error))
        return WITH_EVENTS

    # -- messages -------------------------------------------------------------------------------------------------

    def _message(self, properties: Msg) -> str:
        info = object_of(properties, "info")
        message_id, role = text_of(info, "id"), text_of(info, "role")
        if message_id is None or role is None:
            return self.unparsed("unknown-type", properties)
        self._message_texts.message(message_id).role = role
        session = self.sessions.info
        session.cwd = self.state.cwd = text_of(object_of(info, "path"), "cwd") or session.cwd
        if isinstance(info.get("error"), dict) and self.turn is not None:
            return self._failed(info["error"])
        diffs = object_of(info, "summary").get("diffs")
        return self._diff(diffs) if isinstance(diffs, list) else skip("message")

    def _removed(self, properties: Msg) -> str:
        removed = text_of(properties, "partID", "messageID")
        if self.state.is_told(f"removed {removed}"):
            return skip("repeated")
        data = {key: properties[key] for key in ("messageID", "partID") if key in properties}
        self.emit(Notice, level="info", code="rewound", text="removed", data=data)
        return WITH_EVENTS

    # -- answers --------------------------------------------------------------------------------------------------

    def _permission_replied(self, properties: Msg) -> str:
        return self.asking.permission_answered(text_of(properties, "requestID", "permissionID"), properties)

    def _question_replied(self, properties: Msg) -> str:
        return self.asking.question_answered(text_of(properties, "requestID"), properties)

    def _question_rejected(self, properties: Msg) -> str:
        return self.asking.question_dismissed(text_of(properties, "requestID"))

    # -- the turn's diff ------------------------------------------------------------------------------------------

    def _session_diff(self, properties: Msg) -> str:
        """Empty while there are changes (1.18.33), which the prompt's summary lists."""
        diff = properties.get("diff")
        return self._diff(diff) if isinstance(diff, list) and diff else skip("unchanged")

    def _diff(self, files: list[Any]) -> str:
        """What the turn has changed so far; comes again when the turn is over, and only what is new then counts."""
        info = self.sessions.info
        patches = [file["patch"] for file in objects(files) if isinstance(file.get("patch"), str)]
        diff = "".join(patch if patch.endswith("\n") else f"{patch}\n" for patch in patches)
        digest = zlib.crc32(diff.encode())
        if not diff:
            info.diff, info.diff_digest = None, 0
        if not diff or digest == info.diff_digest:
            return skip("unchanged")
        info.diff, info.diff_digest = TextBuffer(), digest
        info.diff.append(diff, self, "text/x-diff")
        if self.turn is None:
            self._show_diff()
        return WITH_EVENTS

    def before_turn_end(self) -> None:
        self._show_diff()

    def _show_diff(self) -> None:
        info = self.sessions.info
        diff, info.diff = info.diff, None
        if diff is None or not diff.chars:
            return
        ref = diff.ref("text/x-diff")
        call_id, value = self.made_up_id("diff"), {"unified_diff": diff.head}
        outputs = {"/input/unified_diff": ref} if ref is not None else None
        self.calls.open(call_id, "diff", value, raw=value, name="Diff", synthetic=True, outputs=outputs)
        self.calls.result(call_id, None, raw=None, synthetic=True)

    def made_up_id(self, kind: str) -> str:
        """An id for a call that the wire gives none: `plan-1`, `plan-2`, …"""
        counts = self.state.made_up
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"


def _unwrapped(value: Msg) -> Msg:
    """The event itself, out of the envelopes of the stream of all projects."""
    payload = value.get("payload")
    if isinstance(payload, dict) and "type" not in value:
        value = payload
    inner = value.get("syncEvent")
    if value.get("type") != "sync" or not isinstance(inner, dict):
        return value
    return {"type": _VERSION.sub("", str(inner.get("type"))), "properties": inner.get("data")}


def _session(kind: str, properties: Msg, info: Msg) -> str | None:
    session = text_of(properties, "sessionID") or text_of(info, "sessionID")
    session = session or text_of(object_of(properties, "part"), "sessionID")
    return session or (text_of(info, "id") if kind.startswith("session.") else None)


def _time(properties: Msg, info: Msg) -> int | None:
    """The event's own time: a part's, else the latest that a session or message states of itself."""
    stated = [moment for moment in object_of(info, "time").values() if isinstance(moment, int)]
    return int_of(properties, "time") or max(stated, default=None)
