"""Renders one event as a fragment, and fragments as the HTML of a card.

    fragment = fragment_of(event, look)              # None if the page shows nothing of the event
    html = article(fragment, {"output": [result]})

A card of a call has four slots: `input` (which a late update replaces), `live` (what happens while the call runs),
`output`, and `children` (what its subagent does). A fragment that belongs into another card names that card (`into`)
and the slot. If that card is not on the page, the fragment is a card of its own. So a fragment does not depend on the
events around it, and can be rendered once per level and cached (`page/fragments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from markupsafe import Markup

from tooltap.daemon.web.cards.blocks import HEADER, short
from tooltap.daemon.web.cards.by_tool import input_body, tool_card
from tooltap.daemon.web.cards.events import (
    context_used,
    cost,
    message_body,
    notice_body,
    permission_body,
    reasoning_body,
    response_body,
    session_body,
    turn_body,
    unparsed_body,
    usage_body,
)
from tooltap.daemon.web.cards.results import result_body, result_facts, update_body
from tooltap.daemon.web.html.look import Look
from tooltap.daemon.web.html.markup import template
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
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
)

__all__ = ["Fragment", "Slot", "article", "fragment_of", "key_of"]

Slot: TypeAlias = Literal["input", "live", "output", "children"]
SLOTS: tuple[Slot, ...] = ("input", "live", "output", "children")


class Fragment(NamedTuple):
    seq: int
    event: Event
    level: str
    icon: str
    title: str
    """The name of the tool, the speaker of a message, the code of a notice."""
    preview: str
    """One line in the header."""
    facts: tuple[str, ...]
    """Short facts in the header, such as exit code, duration, cost."""
    status: str
    """The status of a call or result, or the level of a notice; else empty."""
    body: Markup
    is_minor: bool = False
    """Bookkeeping, shown less prominently."""
    address: str = ""
    """URL of the event's page."""
    key: str | None = None
    """Key of the call that this is the card of."""
    into: str | None = None
    """Key of the call into whose card the fragment belongs."""
    slot: Slot | None = None


class _Shown(NamedTuple):
    """What a card shows of an event of one kind."""

    icon: str
    title: str
    preview: str = ""
    facts: tuple[str, ...] = ()
    status: str = ""
    body: Callable[[Any, Look], Markup] | None = None
    """Called with the event at levels that have a body."""
    slot: Slot | None = None
    is_minor: bool = False


def key_of(stream: str, call_id: str) -> str:
    """Return the key of a call in the HTML."""
    return f"{stream} {call_id}"


def fragment_of(event: Event, look: Look) -> Fragment | None:
    """Render an event; None if there is nothing to show: an agent's replay of its history, or an update that changes
    nothing visible."""
    show = _KINDS.get(type(event))
    shown = None if show is None or event.replay else show(event, look)
    if shown is None:
        return None
    call_id: str | None = getattr(event, "call_id", None)
    key, into = None, None if event.parent is None else key_of(event.stream, event.parent)
    slot: Slot | None = None if into is None else "children"
    if isinstance(event, ToolCall):
        key = key_of(event.stream, event.call_id)
    elif call_id is not None and shown.slot is not None:
        into, slot = key_of(event.stream, call_id), shown.slot
    return Fragment(
        seq=event.seq or 0,
        event=event,
        level=look.level,
        icon=shown.icon,
        title=short(shown.title, HEADER),
        preview=short(shown.preview, HEADER),
        facts=tuple(short(fact, HEADER) for fact in shown.facts),
        status=short(shown.status, HEADER),
        body=Markup() if look.level == "title" or shown.body is None else shown.body(event, look),
        is_minor=shown.is_minor,
        address=look.address(event.seq or 0),
        key=key,
        into=into,
        slot=slot,
    )


def article(fragment: Fragment, inside: Mapping[Slot, Sequence[Markup]] | None = None, *, status: str = "") -> Markup:
    """Return the HTML of a card. `inside`: the cards in its slots; `status`: of the call, if it has changed."""
    slots = {slot: Markup().join((inside or {}).get(slot, ())) for slot in SLOTS}
    return template("card.html", card=fragment, slots=slots, status=status or fragment.status)


def _message(event: Message, look: Look) -> _Shown:
    who = {"assistant": ("●", "Assistant"), "user": ("❯", "You"), "system": ("⚙", "System")}[event.role]
    if event.role == "user" and event.agent is not None:
        who = ("❯", "Prompt")  # the parent agent prompts a subagent
    return _Shown(
        *who, preview=_text_preview(event.text, look), facts=_count(event.attachments, "attachment"), body=message_body
    )


def _reasoning(event: Reasoning, look: Look) -> _Shown:
    return _Shown("✻", "Reasoning", preview=_text_preview(event.text, look), body=reasoning_body)


def _tool_call(event: ToolCall, look: Look) -> _Shown:
    return _Shown(
        tool_card(event.name).icon,
        _tool_name(event.name),
        preview=event.preview or _distinct_title(event.title, event.name),
        facts=("inferred",) if event.synthetic else (),
        status=event.status,
        body=lambda call, look: input_body(call.name, call.input, look),
    )


def _tool_update(event: ToolUpdate, look: Look) -> _Shown | None:
    body: Callable[[Any, Look], Markup] = update_body
    if event.input is not None:
        slot: Slot = "input"
        body = _new_input
    elif event.display is not None:
        slot = "output"
    elif event.progress is not None:
        slot = "live"
    else:
        return None
    return _Shown(
        tool_card(event.name).icon,
        _tool_name(event.name),
        preview=event.preview or "",
        status=event.status or "",
        body=body,
        slot=slot,
        is_minor=True,
    )


def _new_input(event: ToolUpdate, look: Look) -> Markup:
    return input_body(event.name, event.input or {}, look)


def _tool_result(event: ToolResult, look: Look) -> _Shown:
    return _Shown(
        tool_card(event.name).icon,
        _tool_name(event.name),
        preview="" if look.call is None else look.call.preview,
        facts=(*result_facts(event), *_count(event.attachments, "attachment")),
        status=event.status,
        body=result_body,
        slot="output",
    )


def _permission_request(event: PermissionRequest, look: Look) -> _Shown:
    question = event.questions[0].get("question") if event.questions else None
    about = question if isinstance(question, str) else event.title or _tool_name(event.name or "")
    title = {"permission": "Permission", "question": "Question", "elicitation": "Form"}[event.type]
    return _Shown("?", title, preview=about, status="asked", body=permission_body, slot="live")


def _permission_response(event: PermissionResponse, look: Look) -> _Shown:
    by = {"user": "by the user", "policy": "by policy", "hook": "by a hook", "agent": "by the agent"}
    return _Shown(
        "?",
        event.outcome.capitalize(),
        preview=by[event.by] if event.by else "",
        facts=() if event.option_id in (None, event.outcome) else (event.option_id,),
        status=event.outcome,
        body=response_body,
        slot="live",
    )


def _notice(event: Notice, look: Look) -> _Shown:
    slot: Slot | None = None if event.call_id is None else "live"
    return _Shown("!", event.code, event.text, status=event.level, body=notice_body, slot=slot)


def _unparsed(event: Unparsed, look: Look) -> _Shown:
    size = (f"{event.bytes:,} bytes",)
    return _Shown("!", "Unparsed line", event.reason, size, status="warning", body=unparsed_body)


def _turn(event: Turn, look: Look) -> _Shown:
    return _Shown(
        "—",
        f"Turn {event.state}",
        preview=event.reason or "",
        facts=() if event.duration_ms is None else (f"{event.duration_ms / 1000:.1f} s",),
        status={"failed": "error", "cancelled": "warning"}.get(event.state, ""),
        body=turn_body,
        is_minor=event.state in ("started", "completed"),
    )


def _session(event: SessionEvent, look: Look) -> _Shown:
    facts = (
        *(fact for fact in (event.model, event.mode) if fact),
        *_count(event.tools, "tool"),
        *_count(event.commands, "command"),
        *_count(event.mcp_servers, "MCP server"),
    )
    about = event.title or event.cwd or event.agent_version or event.alias or ""
    return _Shown("◉", f"Session {event.state}", about, facts, body=session_body, is_minor=event.state == "updated")


def _usage(event: Usage, look: Look) -> _Shown:
    tokens = ", ".join(
        f"{count:,} {word}"
        for count, word in ((event.input_tokens, "in"), (event.output_tokens, "out"))
        if count is not None
    )
    context = context_used(event)
    facts = tuple(fact for fact in (cost(event), context and f"context: {context}") if fact)
    return _Shown("∑", f"Usage of the {event.scope}", tokens, facts, body=usage_body, is_minor=True)


def _text_preview(text: str, look: Look) -> str:
    """Return the preview of a text: none if the body shows the text."""
    return text if look.level == "title" else ""


def _tool_name(name: str) -> str:
    """Return the name to show: `server · tool` for an MCP tool, if its name can be split in only one way."""
    parts = name.split("__")
    return f"{parts[1]} · {parts[2]}" if len(parts) == 3 and parts[0] == "mcp" and parts[1] and parts[2] else name


def _count(of: Sequence[Any] | None, word: str) -> tuple[str, ...]:
    return (f"{len(of):,} {word}{'' if len(of) == 1 else 's'}",) if of else ()


def _distinct_title(title: str | None, name: str) -> str:
    return "" if title is None or title.lower() == name.lower() else title


_KINDS: dict[type[Event], Callable[[Any, Look], _Shown | None]] = {
    Message: _message,
    Reasoning: _reasoning,
    ToolCall: _tool_call,
    ToolUpdate: _tool_update,
    ToolResult: _tool_result,
    PermissionRequest: _permission_request,
    PermissionResponse: _permission_response,
    Notice: _notice,
    Unparsed: _unparsed,
    Turn: _turn,
    SessionEvent: _session,
    Usage: _usage,
}
