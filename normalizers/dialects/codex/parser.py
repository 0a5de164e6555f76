"""The parser of all dialects of Codex: reading its events (`EventMsg`), turn items and response items.

Codex reports most things two or three times: as a turn item (`item_started`, `item_completed`), as the older event that
is derived from it (`agent_message`, `exec_command_end`), and as the model's raw response item. Which of them a stream
has differs by version, by tool and even by result, so all are read: calls are merged by call id, texts by content.

Turns, sessions, usage and notices are read here; calls, approvals and messages by helpers of the parser. A dialect
derives from `CodexParser`, sets the scope of a line, and passes the object inside to `read_event` or `read_raw_item`.
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, TextBuffer
from tooltap.normalizers.dialects.codex.answers import agent_end
from tooltap.normalizers.dialects.codex.calls import CodexApprovals, CodexCalls
from tooltap.normalizers.dialects.codex.items import (
    CALL_ITEMS,
    OWN,
    as_event,
    counter_of,
    counts_of,
    cwd_of,
    increase_of,
    mode_of,
    nonempty,
    own_object,
    quota_of,
    with_type,
)
from tooltap.normalizers.dialects.codex.messages import CodexMessages
from tooltap.normalizers.dialects.codex.threads import CodexState, Thread, Threads
from tooltap.normalizers.wire.values import first_string, record, records, whole
from tooltap.protocol.events import OutputRef, SessionEvent, Usage

MANY_SERVERS = 64

_HARMLESS_ERRORS = ("thread_rollback_failed", "active_turn_not_steerable")
"""Errors (`codex_error_info`) after which the turn continues."""

_NOTICES = {
    "background_event": ("background", "info"),
    "deprecation_notice": ("deprecation", "warning"),
    "entered_review_mode": ("review", "info"),
    "exited_review_mode": ("review", "info"),
    "guardian_assessment": ("guardian", "info"),
    "guardian_warning": ("guardian", "warning"),
    "stream_error": ("retry", "warning"),
    "undo_completed": ("undo", "info"),
    "undo_started": ("undo", "info"),
    "warning": ("warning", "warning"),
}
"""Event -> code and level of its notice. The notice's text is stated in the event; if it is not, the event's type is
used."""


class CodexParser(Parser):
    protocol = default_provider = "codex"
    SKIPS = frozenset(
        {
            "duplicate",  # a text or notice that another line reported
            "duplicate-call",
            "held",  # a result or plan that is emitted when the model's own line about it comes
            "duplicate-request",  # a permission that another line asked for
            "empty",  # reasoning that is only there encrypted
            "unchanged",  # token counts, diffs and settings that are as they were
            "no-usage",
            "turn-over",  # the end of a turn that has ended
            "mcp-startup",
        }
    )
    state_type = CodexState
    state: CodexState
    HAS_WHOLE_SESSION: ClassVar[bool] = False
    """Whether a stream begins with its session, so that the sum of its requests is the session's total."""
    events = Lines(
        skip={
            "agent_reasoning_section_break": "partial",  # like a delta, whose full form follows
            "hook_started": "started",  # like a message of which only the id is known
            # answers to a client's questions about tools, skills, history
            **dict.fromkeys(("conversation_path", "get_history_entry_response", "list_skills_response"), "query"),
            **dict.fromkeys(("list_custom_prompts_response", "mcp_list_tools_response"), "query"),
            "realtime_conversation_list_voices_response": "query",
            # nothing the agent did
            **dict.fromkeys(("realtime_conversation_closed", "realtime_conversation_realtime"), "housekeeping"),
            **dict.fromkeys(("realtime_conversation_sdp", "realtime_conversation_started"), "housekeeping"),
            "skills_update_available": "housekeeping",
        },
        tool_calls=CodexCalls.events,
        messages=CodexMessages.events,
        approvals=CodexApprovals.events,
    )
    """Codex's events."""
    completed_items = Lines(
        skip={"HookPrompt": "prompt-context", "Sleep": "housekeeping"}, messages=CodexMessages.completed_items
    )
    """Completed turn items that are not calls. `prompt-context`: developer texts, the environment, the prompt as the
    model gets it."""
    raw_items = Lines(
        skip={
            **dict.fromkeys(("compaction", "compaction_summary", "compaction_trigger"), "housekeeping"),
            **dict.fromkeys(("context_compaction", "ghost_snapshot", "other"), "housekeeping"),
            "additional_tools": "prompt-context",
        },
        tool_calls=CodexCalls.raw_items,
        messages=CodexMessages.raw_items,
    )
    """Items of the model's API, as the agent got them or sends them back."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.threads = Threads(self, self.state, lambda prompt: self.before_content(prompt=prompt))
        self.tool_calls = CodexCalls(self, self.state, self.threads)
        self.messages = CodexMessages(self, self.threads)
        self.approvals = CodexApprovals(self, self.state, self.threads, self.tool_calls)

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.tool_calls.unfinished(call)

    @property
    def thread(self) -> Thread:
        """State of the thread that the line belongs to."""
        return self.threads.current

    def enter(self, value: Line) -> None:
        """Set the scope of a line. Dialects extend it."""
        self.threads.event_turn, self.threads.begins, self.threads.request = None, "", {}

    # -- reading --------------------------------------------------------------------------------------------------

    def read_event(self, msg: Line, line: Line) -> Skip:
        """Read one event of a line."""
        kind, turn = msg.get("type"), msg.get("turn_id")
        if turn and type(turn) is str:
            self.threads.event_turn = turn
        if kind in ("item_started", "item_completed"):
            return self.read_turn_item(with_type(record(msg.get("item"))), kind == "item_completed", line)
        if kind == "raw_response_item":
            return self.read_raw_item(record(msg.get("item")), line)
        self.threads.begins = "event" if type(kind) is str and kind.endswith("_begin") else ""
        before = len(self.items)
        return self._unless_emitted(self.events.read(self, msg, line=line), before)

    def read_turn_item(self, item: Line, is_complete: bool, line: Line) -> Skip:
        """Read one item of a turn, in the core's words."""
        self.threads.begins, kind = "" if is_complete else "item", item.get("type")
        if type(kind) is str and kind in CALL_ITEMS:
            before, event = len(self.items), as_event(item, "end" if is_complete else "begin")
            return self._unless_emitted(self.events.read(self, event), before)
        if type(kind) is str and self.thread.receiving:
            self.messages.abandon_texts(kind, item.get("id"))
        if not is_complete and self.completed_items.knows(kind):
            return "started"
        return self.completed_items.read(self, item, line=line)

    def read_raw_item(self, item: Line, line: Line) -> Skip:
        """Read one item of the model's API, as the agent got it or sends it back."""
        self.threads.begins, self.state.has_raw = "model", True
        before = len(self.items)
        if self.state.picture is None and not self.state.exited:
            return self._unless_emitted(self.raw_items.read(self, item, line=line), before)
        if self.tool_calls.take_picture(item):
            return None
        self.tool_calls.release_exited()
        skip = self.raw_items.read(self, item, line=line)
        return skip if skip == UNPARSED or len(self.items) == before else None

    def _unless_emitted(self, skip: Skip, before: int) -> Skip:
        """Return the reader's outcome, or None if something was emitted although the line's own result is held."""
        return None if skip == "held" and len(self.items) > before else skip

    def finish(self, reason: str) -> None:
        self.enter({})
        for turn in list(self.state.turns):
            self.session, self.agent = turn.session, turn.agent
            if (failed := self.thread.failed) is not None:
                self.end_codex_turn("failed", turn_id=turn.id, reason=failed, synthetic=True)
            self.thread.ended = turn.id
        self.tool_calls.release_exited()
        for call_id in list(self.state.held):
            self.tool_calls.release(call_id)

    # -- turns ----------------------------------------------------------------------------------------------------

    def before_content(self, *, prompt: bool = False) -> None:
        """Prepare for a message or call, which may be the first line that is seen of its turn."""
        if self.turn is None and self.threads.event_turn is not None and self.threads.event_turn != self.thread.ended:
            self.start_turn(self.threads.event_turn, synthetic=True)

    def end_turn(self, outcome: str, *, turn_id: str | None = None, **fields: Any) -> None:
        self.tool_calls.before_turn_ends(outcome, turn_id)
        super().end_turn(outcome, turn_id=turn_id, **fields)

    def end_codex_turn(self, outcome: str, *, turn_id: str | None = None, **fields: Any) -> Skip:
        """End the turn, unless it has ended before. `fields`: those of `end_turn`."""
        thread = self.thread
        turn_id = turn_id or self.threads.event_turn or self.turn
        if turn_id is None or turn_id == thread.ended:
            return "turn-over"
        if not fields.get("synthetic"):
            self.emit_spent()
        self.end_turn(outcome, turn_id=turn_id, **fields)
        thread.ended, thread.failed, thread.plan_call, thread.receiving = turn_id, None, None, {}
        return None

    def before_turn_end(self) -> None:
        """Emit the turn's diff."""
        self.tool_calls.emit_diff()

    @events("task_started", "turn_started")
    def _turn_started(self, msg: Line) -> Skip:
        for turn in self.state.turns:
            if turn.id == self.threads.event_turn and turn.session == self.session:
                return "started"
        thread = self.thread
        if thread.failed is not None and self.turn is not None:
            # An error is the last event of its turn for `codex mcp-server`, which then stops listening.
            self.end_codex_turn("failed", turn_id=self.turn, reason=thread.failed, synthetic=True)
        thread.texts, thread.ended, thread.failed = [], None, None
        self.start_turn(self.threads.event_turn)
        return None

    @events("task_complete", "turn_complete")
    def _turn_complete(self, msg: Line) -> Skip:
        self.messages.last_message(msg)
        thread = self.thread
        if (error := msg.get("error")) and thread.failed is None:  # rollouts since 0.169
            self._error(error if type(error) is dict else {"message": error})
        failed, duration = thread.failed, whole(msg.get("duration_ms"))
        return self.end_codex_turn("completed" if failed is None else "failed", reason=failed, duration_ms=duration)

    @events("turn_aborted")
    def _turn_aborted(self, msg: Line) -> Skip:
        reason, duration = first_string(msg, "reason"), whole(msg.get("duration_ms"))
        return self.end_codex_turn("cancelled", reason=reason, duration_ms=duration)

    @events("turn_diff")
    def _turn_diff(self, msg: Line) -> Skip:
        """Read the turn's diff. It is sent after every change and at the end; only the last one is emitted."""
        diff, thread = first_string(msg, "unified_diff") or "", self.thread
        digest = zlib.crc32(diff.encode())
        if thread.diff is not None and thread.diff_digest == digest:
            return "unchanged"
        thread.diff, thread.diff_digest = TextBuffer(), digest
        thread.diff.append(diff, self, "text/x-diff")
        return None

    # -- sessions and usage ---------------------------------------------------------------------------------------

    @events("session_configured")
    def _session_configured(self, msg: Line) -> None:
        resumed, version = bool(msg.get("initial_messages")), self.state.agent_version
        stated = {"model": first_string(msg, "model"), "mode": mode_of(msg), "title": first_string(msg, "thread_name")}
        self.begin_thread(cwd_of(msg), resumed=resumed, agent_version=version, **stated)

    def begin_thread(self, cwd: str | None, *, resumed: bool = False, **fields: str | None) -> None:
        """Emit that a thread was started or resumed, and remember its working directory."""
        self.state.cwd = cwd or self.state.cwd
        self.emit(SessionEvent, state="resumed" if resumed else "started", cwd=cwd, **fields)

    def change_settings(self, **settings: str | None) -> Skip:
        """Emit the session's changed settings."""
        known = self.thread.settings
        new = {key: value for key, value in settings.items() if value is not None and known.get(key) != value}
        if not new:
            return "unchanged"
        known |= new
        self.emit(SessionEvent, state="updated", **new)
        return None

    @events("thread_name_updated")
    def _thread_name(self, msg: Line) -> Skip:
        if (title := first_string(msg, "thread_name")) is None:
            return "unchanged"
        self.emit(SessionEvent, state="updated", title=title)
        return None

    @events("model_reroute")
    def _model_reroute(self, msg: Line) -> None:
        self.emit(SessionEvent, state="updated", model=first_string(msg, "to_model"))

    @events("shutdown_complete")
    def _shutdown(self, msg: Line) -> None:
        self.emit(SessionEvent, state="ended")

    @events("token_count")
    def _token_count(self, msg: Line) -> Skip:
        """Read token counts. They are sent with the session's total, and again when only the quota may have changed."""
        thread, info, limits = self.thread, msg.get("info"), record(msg.get("rate_limits"))
        reached, known = first_string(limits, "rate_limit_reached_type"), thread.rate_limit
        thread.rate_limit = reached
        is_news = reached is not None and reached != known
        if is_news:
            self.notice("rate-limit", reached, "warning", limits)
        if "info" in msg and info is None:  # nothing was counted yet: the counter of this process begins at 0
            thread.total = []
        quota = quota_of(limits, self.ts) if self.state.session is not None else []
        quota = [] if quota == thread.quota else quota
        thread.quota = quota or thread.quota
        if not info or type(info) is not dict:
            if quota:
                self.emit(Usage, scope="step", quota=quota)
            return None if is_news or quota else "no-usage"
        total, last = record(info.get("total_token_usage")), record(info.get("last_token_usage"))
        counter, before = counter_of(total), thread.total
        thread.total = counter
        # Codex's own measure of what the context holds: all tokens of the last request.
        context = [whole(last.get("total_tokens")), whole(info.get("model_context_window"))]
        figures: dict[str, int | None] = {}
        if counter != before:
            figures = self.count_request(last or increase_of(total, before), total, is_first=not before)
        if not figures and thread.context == context and not quota:
            return None if is_news else "unchanged"
        thread.context = context
        self.emit(Usage, scope="step", context_used=context[0], context_size=context[1], quota=quota or None, **figures)
        return None

    def count_request(self, last: Line, total: Line, *, is_first: bool) -> dict[str, int | None]:
        """Count the request after which the counter has changed. Returns its figures, or none if it is not of this
        stream. `is_first`: the counter was not known before, so that it may include earlier requests."""
        thread, figures = self.thread, counts_of(last)
        if is_first and not (self.HAS_WHOLE_SESSION or thread.spent or thread.is_fork) and last != total:
            thread.has_earlier = True
            thread.spend(counts_of(total))
        else:
            thread.spend(figures)
        return figures

    def emit_spent(self) -> None:
        """Emit the session's total at the end of a turn, as another stream of the session may state only totals."""
        thread = self.thread
        if thread.spent and (self.HAS_WHOLE_SESSION or thread.has_earlier):
            self.emit(Usage, scope="session", counter="session", **thread.spent)

    # -- notices --------------------------------------------------------------------------------------------------

    @events(*_NOTICES)
    @completed_items("EnteredReviewMode", "ExitedReviewMode")
    def _notice_event(self, msg: Line) -> None:
        if msg["type"] == "stream_error":
            self.messages.abandon_texts()  # the model is asked again, and starts over
        self._notice(msg, *_NOTICES.get(msg["type"], ("review", "info")))

    @events("thread_rolled_back")
    def _rolled_back(self, msg: Line) -> None:
        """Emit that the newest turns were removed from the conversation."""
        self.rewound(whole(msg.get("num_turns")))

    def rewound(self, turns: int | None = None) -> None:
        """Emit that the conversation goes on from an earlier point. `turns`: number of the turns that were removed."""
        self.notice("rewound", "history rewound", data=None if turns is None else {"turns": turns})

    @events("error")
    def _error(self, msg: Line) -> None:
        info = msg.get("codex_error_info")
        reason = next(iter(info), None) if isinstance(info, dict) else info
        if reason not in _HARMLESS_ERRORS:
            self.thread.failed = reason if reason and isinstance(reason, str) else "error"
        self._notice(msg, "provider-error", "error")

    def _notice(self, msg: Line, code: str, level: str) -> None:
        text = first_string(msg, "message", "summary", "user_facing_hint") or str(msg.get("type"))
        hidden = ("type", "message", OWN)
        data = {key: value for key, value in msg.items() if key not in hidden and value is not None}
        self.notice(code, text, level, data or None)

    @events("hook_completed")
    def _hook(self, msg: Line) -> None:
        run = record(msg.get("run"))
        level = "warning" if run.get("status") in ("failed", "blocked", "stopped") else "info"
        self.notice("hook", first_string(run, "status_message", "event_name") or "hook", level, run)

    @events("mcp_startup_complete", "mcp_startup_update")
    def _mcp_startup(self, msg: Line) -> Skip:
        """Emit the failure of a server, once: the completion repeats the updates."""
        status, failures = record(msg.get("status")), records(msg.get("failed"))
        if msg["type"] == "mcp_startup_update":
            is_failure = status.get("state") == "failed"
            failures = [{"server": msg.get("server"), "error": status.get("error")}] if is_failure else []
        skip: Skip = "mcp-startup"
        for failure in failures:
            server, error, reported = str(failure.get("server")), failure.get("error"), self.thread.mcp_failures
            if server not in reported:
                reported.append(server)
                del reported[:-MANY_SERVERS]
                self.notice("mcp-startup", error if isinstance(error, str) else "failed", "warning", {"server": server})
                skip = None
        return skip

    @completed_items("SubAgentActivity")
    def _agent_activity(self, item: Line) -> None:
        """Progress of a subagent; `id` is that of the call that started it."""
        call = self.calls.get(first_string(item, "id") or "")
        data, text = nonempty(item, "kind", "agent_path", "agent_thread_id"), first_string(item, "kind") or "active"
        thread = first_string(item, "agent_thread_id")
        if call is not None:
            self.calls.update(call, progress={"text": text, "data": data})
            if thread is not None and text == "started" and call.name == "Task":
                self.tool_calls.agent_began(thread, call)
        else:
            self.notice("subagent", text, data=data)
            if thread is not None:
                self.tool_calls.agent_ended(thread, agent_end(text), own_object(item))

    @events("context_compacted")
    @completed_items("ContextCompaction")
    def compacted(self, value: Line) -> Skip:
        """Emit a compaction of the history, unless another form of it was read. The line of a rollout has the summary,
        and comes first; that of a remote compaction is encrypted."""
        form = {"context_compacted": "event", "ContextCompaction": "item"}.get(value["type"], "line")
        if not self.thread.is_new("compaction", "", form):
            return "duplicate"
        summary = first_string(record(value.get("payload")), "message") if form == "line" else None
        self.notice("compaction", summary or "context_compacted")
        return None
