"""Decides what is shown of one event: its icon, title, preview, facts, status and body, and the card it belongs to.

    shown = shown_of(event, context)                    # None if nothing is shown of the event
    fragment = fragment_of(event, context)              # the same as a part of a page, with its place

A card of a call has four slots: `input` (which a late update replaces), `live` (what happens while the call runs),
`output`, and `children` (what its subagent does). The card of a turn of the main agent has one, `turn`: what it used,
and how it ended. A fragment that belongs into another card names that card (`into`)
and the slot. If that card is not on the page, the fragment is a card of its own. So a fragment does not depend on the
events around it, and can be rendered once per level and cached (`page/fragments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from markupsafe import Markup

from tooltap.daemon.formats import counted, distinct_title, dollars, quota_words, spent, tool_name, without_marks
from tooltap.daemon.show.blocks import HEADER, Body, RenderContext, short
from tooltap.daemon.show.bodies import (
    context_share,
    cost,
    is_bad_end,
    is_hidden,
    message_body,
    notice_body,
    permission_body,
    process_words,
    reasoning_body,
    response_body,
    result_body,
    result_facts,
    session_body,
    turn_body,
    unparsed_body,
    update_body,
    usage_body,
)
from tooltap.daemon.show.facts import Fact, said
from tooltap.daemon.show.tools.registry import input_body, tool_card
from tooltap.normalizers.tools.registry import family_of, preview
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

Slot: TypeAlias = Literal["input", "live", "output", "children", "turn"]
SLOTS: tuple[Slot, ...] = ("input", "live", "output", "children", "turn")


TURN = "/turn"
"""Suffix of a turn's key. A call's key cannot be the same: it contains a space."""


class Fragment(NamedTuple):
    seq: int
    event: Event
    level: str
    icon: str
    title: str
    """The name of the tool, the speaker of a message, the code of a notice."""
    preview: str
    """One line in the header."""
    facts: tuple[Fact, ...]
    """Short facts in the header, such as exit code, duration, cost."""
    status: str
    """The status of a call or result, or the level of a notice; else empty."""
    body: Body | Markup
    """Values, or HTML that a skin has written."""
    is_minor: bool = False
    """Bookkeeping, shown less prominently."""
    family: str = ""
    """Family of the tool, of a call or result."""
    address: str = ""
    """URL of the event's page."""
    key: str | None = None
    """Key of the call or turn whose card this is."""
    into: str | None = None
    """Key of the call or turn into whose card the fragment belongs."""
    slot: Slot | None = None
    session_key: str | None = None
    """Like `key`, but with the session of the call as its scope: the events of a subagent may be in another stream."""
    into_session: str | None = None
    """Key of the call that spawned the event's subagent, with the session as its scope."""
    agent: str | None = None
    """Key of the event's subagent, while the call that spawned it is not known."""
    ties: str | None = None
    """Key of the subagent whose parent call this event states; it holds for the subagent's earlier events, too."""


class Shown(NamedTuple):
    """Everything that is shown of an event, in any surrounding. Texts are whole; the skin cuts them to its room."""

    icon: str
    title: str
    preview: str = ""
    facts: tuple[Fact, ...] = ()
    status: str = ""
    body: Callable[[Any, RenderContext], Body] | None = None
    """Called with the event at levels that have a body."""
    slot: Slot | None = None
    is_minor: bool = False


class _Place(NamedTuple):
    """The fields of a fragment that say into which card it belongs."""

    into: str | None = None
    slot: Slot | None = None
    into_session: str | None = None
    agent: str | None = None
    ties: str | None = None


def key_of(scope: str, call_id: str) -> str:
    """Return the key of a call in the HTML. `scope`: its stream, or its session."""
    return f"{scope} {call_id}"


def card_key(seq: int) -> str:
    """Return the key of the card of an event that is not a call. Keys of calls never begin with a space."""
    return f" {seq}"


def shown_of(event: Event, context: RenderContext) -> Shown | None:
    """Decide what is shown of an event; None if there is nothing to show: an agent's replay of its history, a call that
    a rule hides, an update that changes nothing visible."""
    show = _KINDS.get(type(event))
    return None if show is None or event.replay or is_hidden(event) else show(event, context)


def fragment_of(event: Event, context: RenderContext) -> Fragment | None:
    """Show an event as a part of a page; None if there is nothing to show."""
    shown = shown_of(event, context)
    if shown is None:
        return None
    call_id: str | None = getattr(event, "call_id", None)
    slot = shown.slot if call_id is not None else None
    place = _Place()
    if call_id is not None and slot is not None:
        place = _Place(into=key_of(event.stream, call_id), slot=slot)
    elif (turn := _turn_of(event)) is not None:
        place = _Place(into=turn, slot="turn")
    elif event.parent is not None:
        place = _child_of(event, event.parent)
    elif event.agent is not None:
        place = _Place(agent=key_of(event.stream, event.agent))
    return Fragment(
        seq=event.seq or 0,
        event=event,
        level=context.level,
        icon=shown.icon,
        title=short(shown.title, HEADER),
        preview=short(shown.preview, HEADER),
        facts=tuple(Fact(short(fact.text, HEADER), fact.name) for fact in shown.facts),
        status=short(shown.status, HEADER),
        body=() if context.level == "title" or shown.body is None else shown.body(event, context),
        is_minor=shown.is_minor,
        family=family_of(event.name) if isinstance(event, ToolCall | ToolResult) else "",
        address=context.address(event.seq or 0),
        key=_key_of(event),
        session_key=key_of(event.session, event.call_id) if isinstance(event, ToolCall) else None,
        **place._asdict(),
    )


def _key_of(event: Event) -> str | None:
    """Return the key of the call or the turn that the event begins."""
    if isinstance(event, Turn) and event.agent is None and event.state == "started":
        return f"{event.stream}{TURN}"
    return key_of(event.stream, event.call_id) if isinstance(event, ToolCall) else None


def _turn_of(event: Event) -> str | None:
    """Return the key of the main agent's turn to which a usage or the end of a turn belongs."""
    is_of_turn = isinstance(event, Usage) or (isinstance(event, Turn) and event.state != "started")
    return f"{event.stream}{TURN}" if is_of_turn and event.agent is None else None


def _child_of(event: Event, parent: str) -> _Place:
    is_tie = isinstance(event, SessionEvent) and event.agent is not None
    return _Place(
        into=key_of(event.stream, parent),
        into_session=key_of(event.session, parent),
        slot="children",
        ties=key_of(event.stream, event.agent or "") if is_tie else None,
    )


def _message(event: Message, context: RenderContext) -> Shown:
    who = {"assistant": ("●", "Assistant"), "user": ("❯", "You"), "system": ("⚙", "System")}[event.role]
    if event.role == "user" and event.agent is not None:
        who = ("❯", "Prompt")  # the parent agent prompts a subagent
    text = without_marks(event.text) if event.role == "assistant" else event.text
    return Shown(
        *who,
        preview=_text_preview(text, context),
        facts=_count(event.attachments, "attachment"),
        body=message_body,
    )


def _reasoning(event: Reasoning, context: RenderContext) -> Shown:
    return Shown("✻", "Reasoning", preview=_text_preview(without_marks(event.text), context), body=reasoning_body)


def _tool_call(event: ToolCall, context: RenderContext) -> Shown:
    return Shown(
        tool_card(event.name).icon,
        tool_name(event.name),
        preview=_longer_preview(event, context) or distinct_title(event.title, event.name),
        facts=said("inferred" if event.synthetic else None),
        status=event.status,
        body=lambda call, context: input_body(call.name, call.input, context),
    )


def _longer_preview(event: ToolCall, context: RenderContext) -> str:
    """Derive the preview of a call from its input, up to `context.room`. The event's own is cut after 40 characters,
    and has relative paths."""
    cut = event.preview or ""
    longer = preview(event.name, event.input, context.cwd, context.room) or ""
    return longer if longer and (context.cwd is not None or longer.startswith(cut)) else cut


def _tool_update(event: ToolUpdate, context: RenderContext) -> Shown | None:
    body: Callable[[Any, RenderContext], Body] = update_body
    if event.input is not None:
        slot: Slot = "input"
        body = _new_input
    elif event.display is not None:
        slot = "output"
    elif event.progress is not None:
        slot = "live"
    else:
        return None
    return Shown(
        tool_card(event.name).icon,
        tool_name(event.name),
        preview=event.preview or "",
        status=event.status or "",
        body=body,
        slot=slot,
        is_minor=True,
    )


def _new_input(event: ToolUpdate, context: RenderContext) -> Body:
    return input_body(event.name, event.input or {}, context)


def _tool_result(event: ToolResult, context: RenderContext) -> Shown:
    return Shown(
        tool_card(event.name).icon,
        tool_name(event.name),
        preview="" if context.call is None else context.call.preview,
        facts=(*result_facts(event, context), *_count(event.attachments, "attachment")),
        status=event.status,
        body=result_body,
        slot="output",
    )


def _permission_request(event: PermissionRequest, context: RenderContext) -> Shown:
    question = event.questions[0].get("question") if event.questions else None
    about = question if isinstance(question, str) else event.title or tool_name(event.name or "")
    title = {"permission": "Permission", "question": "Question", "elicitation": "Form"}[event.type]
    return Shown("?", title, preview=about, status="asked", body=permission_body, slot="live")


def _permission_response(event: PermissionResponse, context: RenderContext) -> Shown:
    by = {"user": "by the user", "policy": "by policy", "hook": "by a hook", "agent": "by the agent"}
    return Shown(
        "?",
        event.outcome.capitalize(),
        preview=by[event.by] if event.by else "",
        facts=said(None if event.option_id == event.outcome else event.option_id),
        status=event.outcome,
        body=response_body,
        slot="live",
    )


def _notice(event: Notice, context: RenderContext) -> Shown:
    slot: Slot | None = None if event.call_id is None else "live"
    return Shown("!", event.code, event.text, status=event.level, body=notice_body, slot=slot)


def _unparsed(event: Unparsed, context: RenderContext) -> Shown:
    size = said(f"{event.bytes:,} bytes")
    return Shown("!", "Unparsed line", event.reason, size, status="warning", body=unparsed_body)


_KNOWN_BY = {"answer": "by its answer", "eof": "by the end of the stream"}


def _turn(event: Turn, context: RenderContext) -> Shown:
    if event.state == "started":
        return Shown("—", "Turn", status="running", body=turn_body, is_minor=True)
    interrupted = event.ended_by == "eof" and event.state == "cancelled"
    state = "interrupted" if interrupted else event.state
    duration = spent(event.duration_ms)
    return Shown(
        "—",
        f"Turn {state}",
        preview="" if interrupted else event.reason or "",
        facts=(*(Fact(one, "took") for one in (duration,) if one), *said(_KNOWN_BY.get(event.ended_by or ""))),
        status=state,
        body=turn_body,
        is_minor=event.state == "completed",
    )


def _session(event: SessionEvent, context: RenderContext) -> Shown:
    facts = (
        *said(event.model or None, event.mode or None),
        *_count(event.tools, "tool"),
        *_count(event.commands, "command"),
        *_count(event.mcp_servers, "MCP server"),
    )
    about = event.title or event.cwd or event.agent_version or event.alias or process_words(event) or ""
    return Shown(
        "◉",
        f"Session {event.state}",
        about,
        facts,
        status="warning" if is_bad_end(event) else "",
        body=session_body,
        is_minor=event.state == "updated",
    )


def _usage(event: Usage, context: RenderContext) -> Shown:
    output = "at least " if event.estimated_output_tokens is not None else ""
    tokens = ", ".join(
        f"{bound}{count:,} {word}"
        for count, word, bound in ((event.input_tokens, "in", ""), (event.output_tokens, "out", output))
        if count is not None
    )
    is_of_turn = (event.cost_scope or event.scope) == "turn"
    named = (
        (dollars(event.cost_usd) if is_of_turn else cost(event), "cost" if is_of_turn else ""),
        (context_share(event), "context"),
        *((quota_words(msgspec.to_builtins(one)), "") for one in event.quota or ()),
    )
    facts = tuple(Fact(text, name) for text, name in named if text)
    is_quota = event.quota is not None and not tokens and event.cost_usd is None
    return Shown(
        "∑", "Quota" if is_quota else f"Usage of the {event.scope}", tokens, facts, body=usage_body, is_minor=True
    )


def _text_preview(text: str, context: RenderContext) -> str:
    """Return the preview of a text: none if the body shows the text."""
    return text if context.level == "title" else ""


def _count(of: Sequence[Any] | None, word: str) -> tuple[Fact, ...]:
    return said(counted(len(of), word)) if of else ()


_KINDS: dict[type[Event], Callable[[Any, RenderContext], Shown | None]] = {
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
