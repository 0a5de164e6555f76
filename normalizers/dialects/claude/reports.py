"""Reports of Claude Code beside the conversation: running calls, hooks, retries, compaction and notices; and its usage,
tokens and cost. The API's `input_tokens` exclude cached tokens; ours include them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tooltap.normalizers.core.answers import Response
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.to_agent import sent_with
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.values import after_epoch, dollars, number, percent, record, records, string, whole
from tooltap.protocol.events import Event, ModelUsage, Notice, QuotaWindow, Usage

_ENVELOPE = frozenset({"type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"})
_TEXT_KEYS = ("error", "content", "text", "message", "summary", "suggestion", "reason", "name")
_REPEATING = {
    "background_tasks_changed": "background-tasks",
    "cloud_session_delta": "status",
    "control_request_progress": "control",
    "dev_intent": "status",
    "hook_progress": "hook-progress",
    "hook_started": "hook-started",
    "session_state_changed": "status",
    "thinking_tokens": "partial",
}
"""Subtype -> reason to skip, for lines that repeat what other lines state, or say nothing about the work."""


class Reports:
    """Reads the lines of reports, of which most become notices."""

    lines = Lines("type")
    system = Lines("subtype", skip=_REPEATING)
    """The stream's lines of type `system`, as of the Agent SDK 0.3.220."""
    transcript = Lines("subtype")
    """Reports in transcripts, as found in other projects' files of versions 2.0 to 2.1."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._calls = parser.calls

    # -- lines of the stream -------------------------------------------------------------------------------------

    @lines("command_lifecycle")
    def _lifecycle(self, value: Line) -> Skip:
        """Emit that the agent has begun with a prompt that tooltap has sent. It was `queued` before, and is `completed`
        at the end of the turn."""
        sent = sent_with(value.get("command_uuid"))
        if sent is None or value.get("state") != "started":
            return "status"
        self._parser.show_response(Response(sent, None))
        return None

    @lines("active_goal", "auth_status", "prompt_suggestion", "tool_use_summary")
    @system("elicitation_complete", "files_persisted", "informational", "memory_recall", "mirror_error")
    @system("model_refusal_fallback", "model_refusal_no_fallback", "notification", "plugin_install")
    @system("code_change_published", "post_turn_summary", "vcs_state_changed", "worker_shutting_down")
    def _plain(self, value: Line) -> None:
        """Emit a line as a notice: its kind is the code, one of its keys the text, and the rest the data."""
        kind = str(value.get("subtype") if value["type"] == "system" else value["type"])
        code = kind.replace("_", "-")
        data = without_nulls({key: item for key, item in value.items() if key not in _ENVELOPE})
        text = next((text for key in _TEXT_KEYS if isinstance(text := data.get(key), str) and text), None)
        error = bool(data.get("error")) or value.get("status") == "failed"
        level = "warning" if error or value.get("level") in ("warning", "error") else "info"
        self._parser.notice(code, text or code.replace("-", " "), level, data or None)

    @lines("rate_limit_event")
    def _rate_limit(self, value: Line) -> None:
        info = record(value.get("rate_limit_info"))
        status = str(info.get("status") or "unknown")
        text = " ".join(str(part) for part in ("rate limit", info.get("rateLimitType"), status) if part)
        self._parser.notice("rate-limit", text, "info" if status == "allowed" else "warning", info or None)
        if quota := _quota_of(info):
            self._parser.emit(Usage, scope="step", quota=quota)

    @lines("conversation_reset")
    def _reset(self, value: Line) -> None:
        data = {"newConversation": value.get("new_conversation_id")}
        self._parser.notice("rewound", "conversation reset", data=without_nulls(data) or None)

    def compacting(self, value: Line) -> Skip:
        """Read a `status` line about compaction. Success is skipped, because `compact_boundary` states it again."""
        result = value.get("compact_result")
        if result is None and value.get("status") != "compacting":
            return "status"
        if result is None:
            self._parser.notice("compaction", "compacting", data={"status": "compacting"})
        elif result != "success":
            text = str(value.get("compact_error") or f"compaction: {result}")
            self._parser.notice("compaction", text, "warning", {"result": result})
        return "status" if result == "success" else None

    @system("compact_boundary")
    def _compacted(self, value: Line) -> None:
        stated = record(value.get("compact_metadata"))
        keys = {"preTokens": "pre_tokens", "postTokens": "post_tokens", "durationMs": "duration_ms"}
        data = {"trigger": stated.get("trigger"), **{name: stated.get(key) for name, key in keys.items()}}
        self._parser.notice("compaction", "conversation compacted", data=without_nulls(data) or None)

    @system("hook_response")
    def _hook(self, value: Line) -> None:
        names = ("hook_event", "hook_name", "exit_code", "stdout", "stderr", "outcome")
        _hook(self._parser, *(value.get(name) for name in names))

    @system("api_retry")
    def _api_retry(self, value: Line) -> None:
        error, attempt, most = value.get("error"), value.get("attempt"), value.get("max_retries")
        text = f"{error or 'request failed'}, attempt {attempt} of {most}"
        data = {"attempt": attempt, "maxRetries": most, "delayMs": value.get("retry_delay_ms")}
        data |= {"status": value.get("error_status"), "error": error}
        self._parser.notice("retry", text, "warning", without_nulls(data) or None)

    @system("local_command_output")
    @transcript("away_summary")
    def _system_text(self, value: Line) -> Skip:
        """Emit the output of a Claude Code command, or a summary for a returning user."""
        text = string(value.get("content"))
        if not text or not text.strip():
            return "empty"
        self._parser.emit_text("system", text)
        return None

    # -- lines of transcripts ------------------------------------------------------------------------------------

    @transcript("agents_killed", "bridge_status", "informational", "memory_saved", "model_refusal_fallback")
    @transcript("permission_retry", "scheduled_task_fire")
    def _content_only(self, value: Line) -> Skip:
        """Emit a line that states nothing but its `content`."""
        subtype, text, level = value["subtype"], string(value.get("content")), value.get("level")
        if not text and subtype == "informational":
            return "empty"
        call_id = string(value.get("toolUseID"))
        self._parser.emit(
            Notice,
            level=level if level in ("error", "warning") else "info",
            code=subtype.replace("_", "-"),
            text=text or subtype,
            call_id=call_id if call_id is not None and self._calls.is_known(call_id) else None,
        )
        return None

    @transcript("compact_boundary", "microcompact_boundary")
    def _compacted_transcript(self, value: Line) -> None:
        data = record(value.get("compactMetadata")) or record(value.get("microcompactMetadata"))
        keys = ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs")
        known = {key: data[key] for key in keys if key in data}
        self._parser.notice("compaction", str(value.get("content") or "conversation compacted"), data=known or None)

    @transcript("api_error")
    def _api_error(self, value: Line) -> None:
        error = record(value.get("error"))
        inner = record(record(error.get("error")).get("error")) or record(error.get("error"))
        cause = record(error.get("cause")) or record(value.get("cause"))
        stated = next((text for text in (error.get("message"), inner.get("message"), cause.get("code")) if text), None)
        attempt, most = value.get("retryAttempt"), value.get("maxRetries")
        text = f"{stated or value.get('content') or 'request failed'}, attempt {attempt} of {most}"
        data = {"attempt": attempt, "maxRetries": most, "delayMs": value.get("retryInMs")}
        data |= {"status": error.get("status"), "error": stated}
        self._parser.notice("retry", text, "warning", without_nulls(data) or None)

    @transcript("stop_hook_summary")
    def _stop_hooks(self, value: Line) -> None:
        """The hooks of one event together; only failures have a text."""
        event = value.get("hookEvent") or "Stop"
        data = {"event": event, "hooks": value.get("hookInfos"), "errors": value.get("hookErrors")}
        data |= {key: value.get(key) for key in ("stopReason", "preventedContinuation")}
        level = "warning" if data["errors"] or data["preventedContinuation"] is True else "info"
        self._parser.notice("hook", str(event), level, {key: item for key, item in data.items() if item} or None)

    def hook(self, attachment: Line) -> None:
        """Read how a hook ended: `hook_success`, `hook_blocking_error`, …."""
        outcome = str(attachment.get("type")).removeprefix("hook_")
        event, name, code, stdout = (attachment.get(key) for key in ("hookEvent", "hookName", "exitCode", "stdout"))
        stderr = attachment.get("stderr") or record(attachment.get("blockingError")).get("blockingError")
        _hook(self._parser, event, name, code, stdout, stderr, outcome)

    def call_progress(self, value: Line, data: Line) -> Skip:
        """Read a `progress` line of a call. Output becomes progress only, because the call's result has all of it."""
        if data.get("type") == "hook_progress":
            return "hook-progress"
        call_ids = (string(value.get(key)) for key in ("parentToolUseID", "toolUseID"))
        call = next((call for call_id in call_ids if call_id and (call := self._calls.get(call_id))), None)
        if call is None:
            return "stale-progress"
        text = next((data[key] for key in ("output", "query", "taskDescription", "status") if data.get(key)), None)
        shown = {key: item for key, item in data.items() if key not in ("output", "fullOutput", "message")}
        progress = {"text": text, "data": shown} if isinstance(text, str) else {"data": shown}
        self._calls.update(call, status="running", progress=progress)
        return None


_WINDOWS = {"five_hour": 300, "seven_day": 10_080, "seven_day_opus": 10_080, "seven_day_sonnet": 10_080}
"""Window of the quota -> minutes."""


def _quota_of(info: Line) -> list[QuotaWindow]:
    """The windows of the account's quota. Newer versions state all of them, older ones the one that matters. Seen in
    other projects' recordings and tests, in none of ours."""
    stated = record(info.get("unifiedWindows")) or {str(info.get("rateLimitType")): info}
    windows = []
    for name, minutes in _WINDOWS.items():
        one = record(stated.get(name))
        share, resets_at = number(one.get("utilization")), after_epoch(one.get("resetsAt"))
        used = None if share is None else percent(share * 100)
        if used is not None or resets_at is not None:
            used = None if used is None else round(used, 1)
            windows.append(QuotaWindow(name=name, minutes=minutes, used_percent=used, resets_at=resets_at))
    return windows


def _hook(parser: Parser, event: Any, name: Any, code: Any, stdout: Any, stderr: Any, outcome: Any) -> None:
    data = {"event": event, "name": name, "exitCode": code, "stdout": stdout, "stderr": stderr, "outcome": outcome}
    known = {key: item for key, item in data.items() if item not in (None, "")}
    level = "info" if outcome in ("success", None) else "warning"
    parser.notice("hook", str(name or event or "hook"), level, known or None)


# -- usage --------------------------------------------------------------------------------------------------------

Usages: TypeAlias = tuple[tuple[type[Event], dict[str, Any]], ...]
"""Events that come before the end of a turn."""

ITERATIONS = 256
"""Maximum number of requests of one message that are counted."""
MODELS = 64
"""Maximum number of models of `modelUsage` that are read."""
COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
"""Counts of a model, by their names in `ModelUsage`."""
Before: TypeAlias = dict[str, dict[str, int | float]]
"""Model -> count, or `cost_usd` -> what a total had reached before that which counts."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_GOES_ON = (2, 1, 277)
_SHORT = 200
"""Maximum length of a model's name, in code points."""
_MODEL_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "thinkingTokens")


def turn_usage(value: Line, counts: Callable[[Line], dict[str, Any]]) -> Usages:
    """Read a turn's usage from its `result` line. `counts`: converts the `usage` object to the event's fields."""
    usage = record(value.get("usage"))
    return ((Usage, {"scope": "turn", **counts(usage)}),) if usage else ()


def result_usage(value: Line, before: Before | None = None, counter: str | None = None) -> Usages:
    """Read the usage of Claude's `result` line, whose cost and `modelUsage` are totals. `before`: what they had reached
    before that which counts; `counter`: see `Usage.counter`."""
    cost, usage = dollars(value.get("total_cost_usd")), record(value.get("usage"))
    models = model_usages(value.get("modelUsage"))
    if before:
        models = less(models, before)
        cost = None if cost is None else max(0.0, cost - sum(part.get("cost_usd", 0.0) for part in before.values()))
    usages: list[tuple[type[Event], dict[str, Any]]] = []
    if usage:
        fields = {"cost_usd": cost, "cost_scope": None if cost is None else "session", "counter": counter}
        usages.append((Usage, {"scope": "turn", **message_tokens(usage), **fields}))
    if models:
        usages.append((Usage, {**session_usage(models, cost), "counter": counter}))
    return tuple(usages)


def session_usage(models: list[ModelUsage], cost: float | None) -> dict[str, Any]:
    """The fields of an event about the whole session: the sum of all its models."""
    totals: dict[str, Any] = {"scope": "session"}
    for name in COUNTS:
        counts = [count for model in models if (count := getattr(model, name)) is not None]
        totals[name] = sum(counts) if counts else None
    return {**totals, "cost_usd": cost, "models": models or None}


def model_usages(stated: Any) -> list[ModelUsage]:
    """Read an object of the form of `modelUsage`: model -> its tokens and cost."""
    models = [(name[:_SHORT], used) for name, used in list(record(stated).items())[:MODELS] if isinstance(used, dict)]
    return [
        ModelUsage(
            model=name, **_fields(*(used.get(key) for key in _MODEL_KEYS)), cost_usd=dollars(used.get("costUSD"))
        )
        for name, used in models
    ]


def beyond(totals: list[ModelUsage], part: list[ModelUsage]) -> Before:
    """Return what totals had reached before a part of them began."""
    own = {model.model: model for model in part}
    before: Before = {}
    for total in totals:
        used = own.get(total.model)
        rest = {name: _rest(getattr(total, name), getattr(used, name, None)) for name in (*COUNTS, "cost_usd")}
        if any(rest.values()):
            before[total.model] = rest
    return before


def less(totals: list[ModelUsage], before: Before) -> list[ModelUsage]:
    """Return totals without what they had reached before."""
    return [
        ModelUsage(
            model=total.model,
            **{
                name: None
                if (stated := getattr(total, name)) is None
                else _rest(stated, before.get(total.model, {}).get(name))
                for name in (*COUNTS, "cost_usd")
            },
        )
        for total in totals
    ]


def has_fallen(totals: list[ModelUsage], before: Before) -> bool:
    """Whether totals are smaller than what they had reached before: another process began to count."""
    stated = {total.model: total for total in totals}
    return any(
        (getattr(stated.get(name), count, None) or 0) < least
        for name, part in before.items()
        for count, least in part.items()
    )


def counter_of(version: str | None) -> str | None:
    """Return what the totals of a version cover: see `Usage.counter`. Before 2.1.277 each process began at 0; since
    then a session that is resumed or forked goes on with the totals that it had."""
    numbers = _VERSION.match(version or "")
    if numbers is None:
        return None
    return "process" if tuple(map(int, numbers.groups())) < _GOES_ON else "lineage"


def _rest(total: Any, part: Any) -> Any:
    return max(0, (total or 0) - (part or 0))


def message_tokens(usage: Line) -> dict[str, int | None]:
    """Return the token counts of the API's `usage` object."""
    get = usage.get
    details = get("output_tokens_details")
    thinking = details.get("thinking_tokens") if type(details) is dict else None
    read, written = get("cache_read_input_tokens"), get("cache_creation_input_tokens")
    counts = _fields(get("input_tokens"), get("output_tokens"), read, written, thinking)
    lifetimes = get("cache_creation")
    if type(lifetimes) is dict and (for_an_hour := whole(lifetimes.get("ephemeral_1h_input_tokens"))):
        counts["cache_write_1h_tokens"] = for_an_hour
    return counts


def requests_of(usage: Line) -> list[Line]:
    """The `usage` objects of the requests that one message took, if they were several.

    A server tool, an advisor or a compaction asks a model between the parts of a message. The figures of the message
    itself are the sum of the requests to its own model, and leave out the others."""
    several = usage.get("iterations")
    if type(several) is not list or not several:
        return []
    found = records(several)[:ITERATIONS]
    return [] if len(found) == 1 and found[0].get("type", "message") == "message" else found


def _fields(fresh: Any, output: Any, read: Any, written: Any, thinking: Any) -> dict[str, int | None]:
    total = None
    for count in (fresh, read, written):
        if (count := whole(count)) is not None:
            total = count + (total or 0)
    return {
        "input_tokens": total,
        "output_tokens": whole(output),
        "cache_read_tokens": whole(read),
        "cache_write_tokens": whole(written),
        "reasoning_tokens": whole(thinking),
    }
