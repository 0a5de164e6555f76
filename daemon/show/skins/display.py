"""Display lines: what a user interface shows of events, the same for every provider.

    shown = display_of(event)                            # a `DisplayEvent`, or None where nothing is shown
    text = display_text(display_events(events))          # everything the assistants wrote

One event becomes at most one display line, so order and cursors are those of the events. Only canonical keys are read:
no parser knows display lines, and another kind is a struct in `tooltap.protocol.display` and an entry in `PROJECTIONS`.
History that an agent replays was shown before, and becomes none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tooltap.daemon.formats import distinct_title
from tooltap.daemon.show.bodies import is_different, is_hidden, milliseconds_of
from tooltap.daemon.show.tree import META
from tooltap.daemon.views.select import user_view
from tooltap.normalizers.core.answers import SEVERAL
from tooltap.normalizers.tools.registry import family_of, shortened
from tooltap.normalizers.wire.values import string
from tooltap.protocol.display import (
    DisplayEvent,
    DisplayNotice,
    DisplayPermission,
    DisplayPrompt,
    DisplayReasoning,
    DisplaySession,
    DisplayText,
    DisplayToolResult,
    DisplayToolUpdate,
    DisplayToolUse,
    DisplayTurn,
    DisplayUsage,
    PermissionOption,
    PermissionQuestion,
    QuestionOption,
    encode_display,
)
from tooltap.protocol.events import (
    CallKey,
    Event,
    Message,
    Notice,
    OutputRef,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
    decode,
)


def display_of(event: Event) -> DisplayEvent | None:
    """The display line of an event; None where nothing is shown: calls that a rule hides, and
    updates without anything visible."""
    shown = _projected(event)
    return None if shown is None else _without_escapes(shown)


def _projected(event: Event) -> DisplayEvent | None:
    project = PROJECTIONS.get(type(event))
    return None if project is None or event.replay or is_hidden(event) else project(event)


def display_events(events: Iterable[Event]) -> Iterator[DisplayEvent]:
    """The display lines of events, in their order."""
    times = CallTimes()
    for event in events:
        if (shown := times.applied(event, display_of(event))) is not None:
            yield shown


def display_text(shown: Iterable[DisplayEvent]) -> str:
    """Everything the assistants and their subagents wrote, without escape sequences: whole blocks, concatenated. A
    truncated block (64 KiB) contributes its head; its `outputs` lead to the rest."""
    return "".join(one.text for one in shown if isinstance(one, DisplayText) and not one.partial)


class CallTimes:
    """When calls began: for the durations that agents do not state. The oldest are forgotten.

    `others`: asked for the calls that this one does not have.
    """

    def __init__(self, others: CallTimes | None = None) -> None:
        self._began: dict[CallKey, int] = {}
        self._others = others

    def note(self, key: CallKey, ts: int | None) -> None:
        """Remember when a call began, in milliseconds since the epoch."""
        if ts is None:
            return
        self._began[key] = ts
        if len(self._began) > MOST_CALLS:
            del self._began[next(iter(self._began))]

    def began(self, key: CallKey) -> int | None:
        found = self._began.get(key)
        return self._others.began(key) if found is None and self._others is not None else found

    def applied(self, event: Event, shown: DisplayEvent | None) -> DisplayEvent | None:
        """Return the display line of an event, that of a result with its duration. A call is remembered."""
        if isinstance(event, ToolCall):
            self.note((event.stream, event.call_id), event.ts)
        elif isinstance(event, ToolResult) and isinstance(shown, DisplayToolResult):
            shown.duration_ms = milliseconds_of(event, self.began((event.stream, event.call_id)))
        return shown


MOST_CALLS = 4_096
"""Maximum calls whose times are remembered."""


def display_body(body: bytes, times: CallTimes) -> bytes | None:
    """Return the encoded display line of an encoded event, both without `seq`; None where nothing is shown."""
    try:
        event = decode(body)
    except msgspec.ValidationError:
        return None  # daemons of two versions may share a journal: a kind that this one does not know
    shown = times.applied(event, _projected(event))
    if shown is None:
        return None
    return encode_display(_without_escapes(shown) if any(mark in body for mark in ESCAPE_MARKS) else shown)


ESCAPE_MARKS = (b"\\u001b", b"\xc2\x9b")
"""What JSON with an escape sequence contains: ESC, or the control character CSI as UTF-8."""
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, device controls
    r"|\x1b[ -/]*[0-~]?|\x9b"
)


def _without_escapes(shown: DisplayEvent) -> DisplayEvent:
    return msgspec.convert(_cleaned(msgspec.to_builtins(shown)), type(shown))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _ESCAPES.sub("", value) if "\x1b" in value or "\x9b" in value else value
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _envelope(event: Event, *fields: str) -> dict[str, Any]:
    """Return the common fields of a display line. `fields`: event fields that it keeps and that may be truncated; only
    their `outputs` are kept."""
    return {
        "id": event.id,
        "stream": event.stream,
        "session": event.session,
        "provider": event.provider,
        "seq": event.seq,
        "ts": event.ts,
        "agent": event.agent,
        "parent": event.parent,
        "turn": event.turn,
        "outputs": _outputs(event.outputs, fields) if event.outputs else None,
        "partial": getattr(event, "partial", False),
    }


def _outputs(outputs: dict[str, OutputRef], fields: tuple[str, ...]) -> dict[str, OutputRef] | None:
    kept = {}
    for pointer, ref in outputs.items():
        _, field, *path = pointer.split("/")
        if field in fields and not META.intersection(path[:1]):
            kept[pointer] = ref
    return kept or None


def _message(event: Message) -> DisplayEvent:
    envelope = _envelope(event, "text")
    if event.role == "assistant":
        return DisplayText(**envelope, text=event.text, **_block(event), attachments=event.attachments)
    return DisplayPrompt(**envelope, role=event.role, text=event.text, attachments=event.attachments)


def _reasoning(event: Reasoning) -> DisplayEvent:
    return DisplayReasoning(**_envelope(event, "text"), text=event.text, **_block(event))


def _block(event: Message | Reasoning) -> dict[str, Any]:
    return {"offset": event.offset, "message_id": event.message_id, "block": event.block}


def _tool_call(event: ToolCall) -> DisplayEvent:
    return DisplayToolUse(
        **_envelope(event),
        call_id=event.call_id,
        name=event.name,
        arg=event.preview or _title(event),
        family=family_of(event.name),
        status=event.status,
        synthetic=event.synthetic,
    )


def _title(event: ToolCall) -> str:
    """The provider's title, where it says more than the tool's name. Before the arguments arrive it does not:
    claude-agent-acp 0.100 sends "Terminal" and "Read File" until then."""
    return "" if event.status == "pending" else shortened(distinct_title(event.title, event.name))


def _tool_update(event: ToolUpdate) -> DisplayEvent | None:
    changes = (event.preview, event.status, event.progress, event.display, event.chunk)
    if all(change is None for change in changes):
        return None
    return DisplayToolUpdate(
        **_envelope(event, "progress", "display"),
        call_id=event.call_id,
        name=event.name,
        arg=event.preview,
        family=family_of(event.name),
        status=event.status,
        progress=event.progress,
        display=event.display,
        chunk=event.chunk,
    )


def _tool_result(event: ToolResult) -> DisplayEvent:
    view = user_view(event)
    if view.remark:
        return DisplayToolResult(**_envelope(event), **_ending(event))
    display = event.display if view.caption else view.display
    shown = [name for name, value in (("display", display), ("output", view.output)) if value is not None]
    code, error = event.output.get("exit_code"), event.output.get("errorMessage")
    return DisplayToolResult(
        **_envelope(event, *shown),
        **_ending(event),
        exit_code=code if isinstance(code, int) else None,
        error=error if isinstance(error, str) else None,
        display=display,
        output=view.output,
        assistant_view="unknown" if event.assistant_view == "unknown" else None,
        model_differs=is_different(event),
        attachments=view.attachments,
    )


def _ending(event: ToolResult) -> dict[str, Any]:
    """The fields of a result that are always shown."""
    return {
        "call_id": event.call_id,
        "name": event.name,
        "family": family_of(event.name),
        "status": event.status,
        "duration_ms": event.duration_ms,
        "wait_ms": event.wait_ms,
        "silent": event.silent,
        "ask": event.ask,
        "async_": event.async_,
        "final": event.final,
        "replaces": event.replaces,
        "synthetic": event.synthetic,
    }


def _permission_request(event: PermissionRequest) -> DisplayEvent:
    payload = None if event.input is None else {key: value for key, value in event.input.items() if key not in META}
    return DisplayPermission(
        **_envelope(event, "title", "input"),
        permission_id=event.permission_id,
        state="requested",
        call_id=event.call_id,
        name=event.name or event.type,
        title=event.title,
        type=event.type,
        family=None if event.name is None else family_of(event.name),
        input=payload,
        options=None if event.options is None else [_option(one) for one in event.options],
        questions=None if event.questions is None else [_question(one) for one in event.questions],
    )


def _option(option: dict[str, Any]) -> PermissionOption:
    return PermissionOption(id=_text(option, "id"), name=_text(option, "name"), kind=_text(option, "kind"))


def _question(question: dict[str, Any]) -> PermissionQuestion:
    options = question.get("options")
    return PermissionQuestion(
        id=_text(question, "id"),
        question=_text(question, "question"),
        header=_text(question, "header"),
        multi_select=any(question.get(name) for name in SEVERAL),
        free_text=question.get("freeText") is True,
        options=[_question_option(one) for one in options] if isinstance(options, list) else None,
    )


def _question_option(option: Any) -> QuestionOption:
    """Agents state an option as an object, or only its label."""
    if not isinstance(option, dict):
        return QuestionOption(label=string(option))
    return QuestionOption(label=_text(option, "label"), description=_text(option, "description"))


def _text(payload: dict[str, Any], key: str) -> str | None:
    return string(payload.get(key))


def _permission_response(event: PermissionResponse) -> DisplayEvent:
    return DisplayPermission(
        **_envelope(event, "message"),
        permission_id=event.permission_id,
        state=event.outcome,
        call_id=event.call_id,
        by=event.by,
        message=event.message,
        option_id=event.option_id,
        answers=event.answers,
    )


def _notice(event: Notice) -> DisplayEvent:
    data = (event.data if event.code.startswith(("answer", "send")) else None) or {}
    return DisplayNotice(
        **_envelope(event, "text"),
        level=event.level,
        code=event.code,
        text=event.text,
        call_id=event.call_id,
        permission_id=_text(data, "permissionId"),
        outcome=_text(data, "outcome"),
        send_id=_text(data, "sendId"),
        by=_text(data, "by"),
        reason=_text(data, "reason"),
    )


def _turn(event: Turn) -> DisplayEvent:
    if event.state == "started" or event.state == "completed":
        return DisplayTurn(
            **_envelope(event, "reason"),
            state=event.state,
            duration_ms=event.duration_ms,
            reason=event.reason,
            ended_by=event.ended_by,
            provisional=event.provisional,
        )
    return DisplayNotice(
        **_envelope(event),
        level="error" if event.state == "failed" else "warning",
        code="turn",
        text=f"{event.state}: {event.reason}" if event.reason else event.state,
        state=event.state,
        duration_ms=event.duration_ms,
        ended_by=event.ended_by,
        provisional=event.provisional,
    )


def _session(event: SessionEvent) -> DisplayEvent | None:
    about = {name: getattr(event, name) for name in SESSION_FIELDS}
    if event.state == "updated" and all(value is None for value in about.values()):
        return None
    return DisplaySession(**_envelope(event), state=event.state, **about)


SESSION_FIELDS = (
    *("title", "model", "mode", "cwd", "branch", "agent_version"),
    *("alias", "forked_from", "parent_session", "resumes"),
    *("exit_code", "signal", "stopped_by"),
)


def _usage(event: Usage) -> DisplayEvent:
    return DisplayUsage(**_envelope(event), **{name: getattr(event, name) for name in USAGE_FIELDS})


USAGE_FIELDS = tuple(name for name in DisplayUsage.__struct_fields__ if name not in DisplayEvent.__struct_fields__)


def _unparsed(event: Unparsed) -> DisplayEvent:
    return DisplayNotice(**_envelope(event), level="warning", code="unparsed", text=f"{event.reason}: {event.text}")


PROJECTIONS: dict[type[Event], Callable[[Any], DisplayEvent | None]] = {
    Message: _message,
    Reasoning: _reasoning,
    ToolCall: _tool_call,
    ToolUpdate: _tool_update,
    ToolResult: _tool_result,
    PermissionRequest: _permission_request,
    PermissionResponse: _permission_response,
    Notice: _notice,
    SessionEvent: _session,
    Turn: _turn,
    Unparsed: _unparsed,
    Usage: _usage,
}
"""Kind of event -> its display line."""
