"""Codex's sessions, usage, and what is only to be noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.state import (
    CodexReader,
    Handlers,
    Msg,
    details,
    int_of,
    knowing,
    object_of,
    text_of,
)
from tooltap.protocol.events import Notice, SessionEvent, Usage

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.codex.base import CodexParser

__all__ = ["CodexNotices", "codex_mode"]

MANY_SERVERS = 64

_HARMLESS_ERRORS = ("thread_rollback_failed", "active_turn_not_steerable")
"""Errors (`codex_error_info`) after which the turn goes on."""


def codex_mode(msg: Msg) -> str | None:
    """How free the agent is: `<approval policy>/<sandbox>`, as far as they are said."""
    policy = msg.get("approval_policy")
    sandbox = msg.get("sandbox_policy")
    words = [
        next(iter(policy), None) if isinstance(policy, dict) else policy,
        sandbox.get("type") if isinstance(sandbox, dict) else sandbox,
    ]
    return "/".join(word for word in words if isinstance(word, str)) or None


class CodexNotices(CodexReader):
    def __init__(self, parser: CodexParser) -> None:
        self._parser = parser

    # -- sessions -------------------------------------------------------------------------------------------------

    def _session_configured(self, msg: Msg) -> str:
        parser = self._parser
        cwd = text_of(msg, "cwd")
        parser.state.cwd = cwd or parser.state.cwd
        parser.emit(
            SessionEvent,
            state="resumed" if msg.get("initial_messages") else "started",
            cwd=cwd,
            model=text_of(msg, "model"),
            mode=codex_mode(msg),
            title=text_of(msg, "thread_name"),
            agent_version=parser.state.agent_version,
        )
        return WITH_EVENTS

    def settings(self, **settings: str | None) -> str:
        """What a line says of how the session runs: only what is new of it is told."""
        known = self._parser.thread.settings
        new = {key: value for key, value in settings.items() if value is not None and known.get(key) != value}
        if not new:
            return skip("unchanged")
        known |= new
        self._parser.emit(SessionEvent, state="updated", **new)
        return WITH_EVENTS

    def _thread_name(self, msg: Msg) -> str:
        title = text_of(msg, "thread_name")
        if title is None:
            return skip("unchanged")
        self._parser.emit(SessionEvent, state="updated", title=title)
        return WITH_EVENTS

    def _model_reroute(self, msg: Msg) -> str:
        self._parser.emit(SessionEvent, state="updated", model=text_of(msg, "to_model"))
        return WITH_EVENTS

    def _shutdown(self, msg: Msg) -> str:
        self._parser.emit(SessionEvent, state="ended")
        return WITH_EVENTS

    # -- usage ----------------------------------------------------------------------------------------------------

    def _token_count(self, msg: Msg) -> str:
        """Sent with the session's total, and again when nothing but the rate limits may have changed."""
        limit_class = self._rate_limits(object_of(msg, "rate_limits"))
        info = object_of(msg, "info")
        if not info:
            return limit_class or skip("no-usage")
        total = object_of(info, "total_token_usage")
        figures = {
            "input_tokens": int_of(total, "input_tokens"),
            "output_tokens": int_of(total, "output_tokens"),
            "cache_read_tokens": int_of(total, "cached_input_tokens"),
            "cache_write_tokens": int_of(total, "cache_write_input_tokens"),
            "reasoning_tokens": int_of(total, "reasoning_output_tokens"),
            # Codex's own measure of what the context holds: all tokens of the last request.
            "context_used": int_of(object_of(info, "last_token_usage"), "total_tokens"),
            "context_size": int_of(info, "model_context_window"),
        }
        thread = self._parser.thread
        if thread.usage == list(figures.values()):
            return limit_class or skip("unchanged")
        thread.usage = list(figures.values())
        self._parser.emit(Usage, scope="session", **figures)
        return WITH_EVENTS

    def _rate_limits(self, limits: Msg) -> str | None:
        reached = text_of(limits, "rate_limit_reached_type")
        thread = self._parser.thread
        if reached == thread.rate_limit:
            return None
        thread.rate_limit = reached
        if reached is None:
            return None
        self._parser.emit(Notice, level="warning", code="rate-limit", text=reached, data=limits)
        return WITH_EVENTS

    # -- notices --------------------------------------------------------------------------------------------------

    def _notice(self, level: str, code: str, msg: Msg) -> str:
        text = text_of(msg, "message", "summary", "user_facing_hint") or str(msg.get("type"))
        data = {key: value for key, value in msg.items() if key not in ("type", "message") and value is not None}
        self._parser.emit(Notice, level=level, code=code, text=text, data=data or None)
        return WITH_EVENTS

    def error(self, msg: Msg) -> str:
        info = msg.get("codex_error_info")
        reason = next(iter(info), None) if isinstance(info, dict) else info
        if reason not in _HARMLESS_ERRORS:
            self._parser.thread.failed = reason if isinstance(reason, str) else "error"
        return self._notice("error", "provider-error", msg)

    def _hook(self, msg: Msg) -> str:
        run = object_of(msg, "run")
        level = "warning" if run.get("status") in ("failed", "blocked", "stopped") else "info"
        text = text_of(run, "status_message", "event_name") or "hook"
        self._parser.emit(Notice, level=level, code="hook", text=text, data=run)
        return WITH_EVENTS

    def _mcp_startup_update(self, msg: Msg) -> str:
        status = object_of(msg, "status")
        if status.get("state") != "failed":
            return skip("mcp-startup")
        return self._mcp_failure(msg.get("server"), status.get("error"))

    def _mcp_startup_complete(self, msg: Msg) -> str:
        """Lists what the updates said; what failed is told once."""
        failed = msg.get("failed")
        classes = [
            self._mcp_failure(one.get("server"), one.get("error"))
            for one in (failed if isinstance(failed, list) else [])
            if isinstance(one, dict)
        ]
        return WITH_EVENTS if WITH_EVENTS in classes else skip("mcp-startup")

    def _mcp_failure(self, server: Any, error: Any) -> str:
        failures = self._parser.thread.mcp_failures
        if str(server) in failures:
            return skip("mcp-startup")
        failures.append(str(server))
        del failures[:-MANY_SERVERS]
        text = error if isinstance(error, str) else "failed"
        self._parser.emit(Notice, level="warning", code="mcp-startup", text=text, data={"server": str(server)})
        return WITH_EVENTS

    def _agent_activity(self, item: Msg) -> str:
        """Told of a subagent; `id` is its call's where that has begun it."""
        call = self._parser.calls.get(text_of(item, "id") or "")
        data = details(item, "kind", "agent_path", "agent_thread_id")
        text = text_of(item, "kind") or "active"
        if call is not None:
            self._parser.calls.update(call, progress={"text": text, "data": data})
        else:
            self._parser.emit(Notice, level="info", code="subagent", text=text, data=data)
        return WITH_EVENTS

    def compacted(self, form: str, msg: Msg) -> str:
        if not self._parser.messages.is_new("compaction", "", form):
            return skip("duplicate")
        self._parser.emit(Notice, level="info", code="compaction", text="context_compacted")
        return WITH_EVENTS

    # -- what reads what -------------------------------------------------------------------------------------------

    EVENTS: ClassVar[Handlers] = {
        "context_compacted": knowing(compacted, "event"),
        "error": error,
        "hook_completed": _hook,
        "mcp_startup_complete": _mcp_startup_complete,
        "mcp_startup_update": _mcp_startup_update,
        "model_reroute": _model_reroute,
        "session_configured": _session_configured,
        "shutdown_complete": _shutdown,
        "thread_name_updated": _thread_name,
        "token_count": _token_count,
        # The text is what the event says, else its type.
        "background_event": knowing(_notice, "info", "background"),
        "deprecation_notice": knowing(_notice, "warning", "deprecation"),
        "entered_review_mode": knowing(_notice, "info", "review"),
        "exited_review_mode": knowing(_notice, "info", "review"),
        "guardian_assessment": knowing(_notice, "info", "guardian"),
        "guardian_warning": knowing(_notice, "warning", "guardian"),
        "stream_error": knowing(_notice, "warning", "retry"),
        "thread_rolled_back": knowing(_notice, "info", "rewound"),
        "undo_completed": knowing(_notice, "info", "undo"),
        "undo_started": knowing(_notice, "info", "undo"),
        "warning": knowing(_notice, "warning", "warning"),
    }
    ENDS: ClassVar[Handlers] = {
        "ContextCompaction": knowing(compacted, "item"),
        "EnteredReviewMode": knowing(_notice, "info", "review"),
        "ExitedReviewMode": knowing(_notice, "info", "review"),
        "SubAgentActivity": _agent_activity,
    }
