"""Display lines: what a user interface shows of events, the same for every provider.

    shown = display_of(event)                            # a `DisplayEvent`, or None where nothing is shown
    text = display_text(display_events(events))          # everything the assistants wrote, byte for byte

One event becomes at most one display line, so order and cursors are those of the events. Only canonical keys are read:
no parser knows display lines, and another kind is a struct in `tooltap.protocol.display` and an entry in `PROJECTIONS`.
History that an agent replays was shown before, and becomes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tooltap.daemon.formats import distinct_title
from tooltap.daemon.show.bodies import user_view
from tooltap.daemon.show.tree import META
from tooltap.normalizers.tools.registry import shortened
from tooltap.protocol.display import (
    DisplayEvent,
    DisplayNotice,
    DisplayPermission,
    DisplayPrompt,
    DisplayReasoning,
    DisplayText,
    DisplayToolResult,
    DisplayToolUpdate,
    DisplayToolUse,
    encode_display,
)
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    OutputRef,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    decode,
)


def display_of(event: Event) -> DisplayEvent | None:
    """The display line of an event; None where nothing is shown: usage, session facts, completed turns."""
    project = PROJECTIONS.get(type(event))
    return None if project is None or event.replay else project(event)


def display_events(events: Iterable[Event]) -> Iterator[DisplayEvent]:
    """The display lines of events, in their order."""
    for event in events:
        if (shown := display_of(event)) is not None:
            yield shown


def display_text(shown: Iterable[DisplayEvent]) -> str:
    """Everything the assistants and their subagents wrote: whole blocks, concatenated. A truncated block (64 KiB)
    contributes its head; its `outputs` lead to the rest."""
    return "".join(one.text for one in shown if isinstance(one, DisplayText) and not one.partial)


def display_body(body: bytes) -> bytes | None:
    """Return the encoded display line of an encoded event, both without `seq`; None where nothing is shown."""
    try:
        event = decode(body)
    except msgspec.ValidationError:
        return None  # daemons of two versions may share a journal: a kind that this one does not know
    shown = display_of(event)
    return None if shown is None else encode_display(shown)


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
        return DisplayText(**envelope, text=event.text, offset=event.offset, attachments=event.attachments)
    return DisplayPrompt(**envelope, role=event.role, text=event.text, attachments=event.attachments)


def _reasoning(event: Reasoning) -> DisplayEvent:
    return DisplayReasoning(**_envelope(event, "text"), text=event.text, offset=event.offset)


def _tool_call(event: ToolCall) -> DisplayEvent:
    return DisplayToolUse(
        **_envelope(event), call_id=event.call_id, name=event.name, arg=event.preview or _title(event)
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
    output = view.output if display is None else None
    code, error = event.output.get("exit_code"), event.output.get("errorMessage")
    return DisplayToolResult(
        **_envelope(event, "output" if display is None else "display"),
        **_ending(event),
        exit_code=code if isinstance(code, int) else None,
        error=error if isinstance(error, str) else None,
        display=display,
        output=output,
        assistant_view="unknown" if event.assistant_view == "unknown" else None,
        attachments=view.attachments,
    )


def _ending(event: ToolResult) -> dict[str, Any]:
    """The fields of a result that are always shown."""
    return {
        "call_id": event.call_id,
        "name": event.name,
        "status": event.status,
        "duration_ms": event.duration_ms,
        "wait_ms": event.wait_ms,
        "silent": event.silent,
        "ask": event.ask,
        "async_": event.async_,
        "final": event.final,
        "replaces": event.replaces,
    }


def _permission_request(event: PermissionRequest) -> DisplayEvent:
    return DisplayPermission(
        **_envelope(event, "title"),
        permission_id=event.permission_id,
        state="requested",
        call_id=event.call_id,
        name=event.name or event.type,
        title=event.title,
    )


def _permission_response(event: PermissionResponse) -> DisplayEvent:
    return DisplayPermission(
        **_envelope(event, "message"),
        permission_id=event.permission_id,
        state=event.outcome,
        call_id=event.call_id,
        by=event.by,
        message=event.message,
    )


def _notice(event: Notice) -> DisplayEvent:
    return DisplayNotice(
        **_envelope(event, "text"), level=event.level, code=event.code, text=event.text, call_id=event.call_id
    )


def _turn(event: Turn) -> DisplayEvent | None:
    if event.state not in ("failed", "cancelled"):
        return None
    text = f"{event.state}: {event.reason}" if event.reason else event.state
    return DisplayNotice(
        **_envelope(event), level="error" if event.state == "failed" else "warning", code="turn", text=text
    )


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
    Turn: _turn,
    Unparsed: _unparsed,
}
"""Kind of event -> its display line."""
