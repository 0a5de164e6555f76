"""The bodies of all events except the inputs of calls: of results and updates of any tool, then of all other events.

A result shows in this order: tooltap's notes about it, its error, its display or else its output, its attachments. The
`display` of a result is what the user sees instead of the output; a rule, a rewriter or the provider sets it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.daemon.formats import amount, counted, dollars, spent
from tooltap.daemon.show.blocks import (
    HEADER,
    IMAGES,
    Body,
    RenderContext,
    attachments,
    facts,
    folded,
    joined,
    note,
    plain,
    prose,
    short,
    table,
    typed,
)
from tooltap.daemon.show.diff import FileDiff, between, changes_of_diff
from tooltap.daemon.show.facts import NOTICED, Fact, outcome_facts, said
from tooltap.daemon.show.tools.dialogs import answers_body, options_body, questions_body
from tooltap.daemon.show.tools.files import changes_body, source
from tooltap.daemon.show.tools.registry import error_body, input_body, output_body
from tooltap.daemon.show.tree import lines_of, text_or_tree, tree
from tooltap.daemon.views.select import DIFFS, UserView, result_text, user_view
from tooltap.normalizers.wire.values import string
from tooltap.protocol.events import (
    Attachment,
    Display,
    Event,
    EventHead,
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
from tooltap.protocol.inputs import ProcessEnd
from tooltap.protocol.model_view import model_blocks, model_text
from tooltap.protocol.tools import TOOLS

BACKGROUND = "continues in the background"
ASYNC = "The work continues in the background; its end is a result of its own."
FINAL = "The end of work in the background."
INFERRED = "Inferred: the agent itself gave no result."
REPLACES: dict[bool | None, tuple[str, str]] = {
    True: ("replaces the inferred one", "The agent's own result, which replaces the inferred one."),
    False: ("corrects the one before", "The agent's own correction: a later line says how the call really ended."),
    None: ("replaces an earlier one", "Replaces an earlier result, which was inferred or is corrected."),
}
"""Whether the replaced result was inferred (None: unknown) -> the fact in the header, and its explanation."""
NOTABLE = 50
"""Minimum milliseconds between call and result that are taken for a duration: lines are not timed more exactly."""
UNKNOWN_VIEW = "What the model saw is not known, because the agent's stream does not state it."


def result_facts(event: ToolResult, context: RenderContext) -> tuple[Fact, ...]:
    """Return the facts at the end of the call's row."""
    duration = spent(milliseconds_of(event, context.call and context.call.ts))
    waited = spent(event.wait_ms) if (event.wait_ms or 0) >= NOTICED else None
    return (
        *outcome_facts(event, context),
        *said(
            BACKGROUND if event.async_ else None,
            "from the background" if event.final else None,
            "inferred" if event.synthetic else None,
            REPLACES[context.replaces_inferred][0] if event.replaces else None,
            "silent" if event.silent else None,
            "on request" if event.ask else None,
            DIFFERS if context.level != "title" and is_different(event) else None,
        ),
        *(() if waited is None else (Fact(f"waited {waited}", "waited"),)),
        *(() if duration is None else (Fact(duration, "took"),)),
    )


def milliseconds_of(event: ToolResult | EventHead, began: int | None) -> int | None:
    """Return how long the call of a result took: as the agent states it, or by the times of call and result, without
    the time for which it waited for the user. All readers use this. `began`: time of the call, if it is known."""
    if event.duration_ms is not None:
        return event.duration_ms
    if began is None or event.ts is None or event.synthetic or event.async_:
        return None
    took = event.ts - began - (event.wait_ms or 0)
    return None if took < NOTABLE else took


def is_hidden(event: Event) -> bool:
    """Return whether a rule hides the call that the event is about."""
    return isinstance(event, ToolCall | ToolUpdate | ToolResult) and event.hidden


def result_body(event: ToolResult, context: RenderContext) -> Body:
    view = user_view(event, is_asked=context.is_full, has_change=context.call is not None and not context.is_full)
    if view.remark:
        return note(view.remark)
    seen = model_view_body(event, context) if context.is_full else ()
    return joined(_notes(event, context), _shown(event, view, context), attachments(view.attachments, context), seen)


def _notes(event: ToolResult, context: RenderContext) -> Body:
    """Explain the facts of the header, at level `full`."""
    if not context.is_full:
        return ()
    return joined(
        note(ASYNC) if event.async_ else (),
        note(FINAL) if event.final else (),
        note(INFERRED) if event.synthetic else (),
        note(REPLACES[context.replaces_inferred][1]) if event.replaces else (),
        note(UNKNOWN_VIEW) if event.assistant_view == "unknown" else (),
    )


def _shown(event: ToolResult, view: UserView, context: RenderContext) -> Body:
    """Show the display of the result if there is one; else, and at level `full` also, its output."""
    error = event.output.get("errorMessage")
    output = {key: value for key, value in event.output.items() if key == "errorMessage" or value != error}
    if view.display is None:
        repeats_error = isinstance(error, str) and error in view.caption
        caption = note(view.caption) if view.caption and not repeats_error else ()
        return joined(caption, output_body(event.name, output, context))
    shown = joined(error_body(event.output, context), _display(view.display, context))
    if not context.is_full or event.model_view is not None:
        return shown
    seen = {key: value for key, value in output.items() if key != "errorMessage"}
    return joined(shown, folded("what the model saw", output_body(event.name, seen, context)))


ELSEWHERE = " The page of the result compares it with what the model saw."
_ORIGINS = {"provider": "the agent", "rule": "a rule of the configuration", "rewriter": "a rewriter"}


def _display(display: Display, context: RenderContext, *, is_update: bool = False) -> Body:
    mime = (display.mime_type or "text/plain").partition(";")[0].strip().lower()
    if display.output_id is not None and mime in IMAGES:
        body = attachments(
            [Attachment(mime_type=mime, output_id=display.output_id, bytes=display.bytes, name=display.path)], context
        )
    else:
        rest = note(rest_of(display.cut)) if display.cut else ()
        body = joined(_view(display, mime, context), rest, _stored(display, context))
    origin = note(f"Shown as {_ORIGINS[display.origin]} wants it.{ELSEWHERE if is_update else ''}")
    return joined(origin if context.is_full else (), facts([("file", display.path)]), body)


def rest_of(cut: int) -> str:
    """Say how much of a text a rule does not show."""
    return f"… {counted(cut, 'byte')} more"


def _view(display: Display, mime: str, context: RenderContext) -> Body:
    """Show the text of a display by its type."""
    if not display.text:
        return ()
    if mime == "application/json":
        return text_or_tree(display.text, context, "/display/text")
    return typed_text(
        display.text, context, "/display/text", mime_type=mime, language=display.language, path=display.path
    )


def _stored(display: Display, context: RenderContext) -> Body:
    """Show the body of a display that is stored apart from the event."""
    return attachments(_stored_display(display), context)


def _stored_display(display: Display) -> list[Attachment]:
    if display.output_id is None:
        return []
    mime = display.mime_type or "text/plain"
    return [Attachment(mime_type=mime, output_id=display.output_id, bytes=display.bytes)]


def update_body(event: ToolUpdate, context: RenderContext) -> Body:
    """Show the progress of a call, or the display that a rewriter made after the result."""
    if event.display is not None:
        return _display(event.display, context, is_update=True)
    progress: dict[str, Any] = event.progress or {}
    text = progress.get("text")
    if not isinstance(text, str):
        return tree(progress, context, "/progress")
    data = tree(progress.get("data"), context, "/progress/data") if context.is_full else ()
    return joined(plain(text, context, "/progress/text"), data)


# -- what the model saw, beside what the card shows ----------------------------------------------------------------


DIFFERS = "model saw other text"
ADDED = "+ marks what only the model saw, − marks what only you see."
BEGINNING = "This is only the beginning; the event's output bodies contain the rest."
SAME = "The model saw the same text."
NUMBERED = "The model saw the same text, with line numbers."
CHANGE = "You see the change; the model saw this:"
NOTHING = "The model did not see it."


def is_different(event: ToolResult) -> bool:
    """Return whether the user sees something else than the model, as far as the stream states what the model saw."""
    if event.model_view is None:
        return False
    return event.model_view.differs or (event.display is not None and event.display.mime_type is None)


def model_view_body(event: ToolResult, context: RenderContext) -> Body:
    """Show what the model saw, folded; nothing if the stream does not state it."""
    if event.model_view is None:
        return ()
    decoded = msgspec.to_builtins(event)
    return folded("what the model saw", _body(decoded, event, context))


def _body(decoded: dict[str, Any], event: ToolResult, context: RenderContext) -> Body:
    blocks = model_blocks(decoded, _not_here) or []
    if not blocks:
        return note(NOTHING)
    beginning = note(BEGINNING) if any(block.get("incomplete") for block in blocks) else ()
    whole = [
        plain(block["text"], context, f"/modelView/blocks/{index}/text") if "text" in block else _elsewhere(block)
        for index, block in enumerate(blocks)
    ]
    seen = model_text(decoded, _not_here, numbers=False) or ""
    shown = result_text(event.output, event.outputs).text if event.display is None else event.display.text or ""
    if seen.strip() == shown.strip():
        is_same = not any("numbers" in part for block in decoded["modelView"]["blocks"] for part in _parts(block))
        return joined(note(SAME if is_same else NUMBERED), beginning, *whole)
    if event.display is not None and event.display.mime_type in DIFFS:
        return joined(note(CHANGE), beginning, *whole)
    hunks, remark = between(shown, seen)
    difference = changes_body([FileDiff.of("", "", hunks, note=f"{ADDED} {remark}".strip())], context)
    return joined(difference, beginning, folded("all of it", joined(*whole)))


def _parts(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in block.get("parts") or () if isinstance(part, dict)]


def _elsewhere(block: dict[str, Any]) -> Body:
    return note(f"A block of type {block.get('type')}: {block.get('mimeType') or block.get('uri') or 'stored'}.")


def _not_here(output_id: str) -> bytes | None:
    """Return None for every output body: a card links to bodies instead of reading them."""
    return None


# -- text whose type, language or path is known ---------------------------------------------------------------------


def typed_text(
    text: str,
    context: RenderContext,
    pointer: str = "",
    *,
    mime_type: str | None = None,
    language: str | None = None,
    path: str | None = None,
) -> Body:
    """Show a diff as changes by file, Markdown as prose, source code with colours, and other text like a terminal."""
    if mime_type in DIFFS and (changes := changes_of_diff(text)):
        return changes_body(changes, context, pointer)
    if mime_type == "text/markdown":
        return prose(text, context, pointer)
    if language or path or (mime_type and mime_type != "text/plain"):
        return source(text, context, pointer, path=path, language=language)
    return plain(text, context, pointer)


# -- results as text, where a skin has no blocks ---------------------------------------------------------------------


ERRORS = ("errorMessage", "stderr", "message", "text", "stdout")
"""Keys of outputs that may say why a call failed, in order of precedence."""


def user_text(event: ToolResult, *, has_change: bool) -> str:
    """Return what the user sees of a result as a text. `has_change`: as of `user_view`."""
    view = user_view(event, has_change=has_change)
    if view.display is not None:
        text = view.display.text or ""
        return f"{text}\n{rest_of(view.display.cut)}" if view.display.cut else text
    text = _output_text(view.output or {})
    return text if not view.caption or view.caption.strip() in text else f"{view.caption.strip()}\n{text}"


def _output_text(output: dict[str, Any]) -> str:
    text = result_text(output, None).text
    if output and text != msgspec.json.encode(output).decode():
        error = output.get("errorMessage")
        return text if not isinstance(error, str) or error in text else f"{error}\n{text}"
    return lines_of(output) if output else ""


def user_attachments(event: ToolResult) -> list[Attachment]:
    """Return what the user sees of a result that is stored apart from the event."""
    view = user_view(event)
    stored = [] if view.display is None else _stored_display(view.display)
    return [*stored, *(view.attachments or ())]


def error_text(event: ToolResult) -> str:
    """Return the agent's error text for a call that did not complete; empty for one that did."""
    if event.status == "completed":
        return ""
    found = (string(event.output.get(key)) or "" for key in ERRORS)
    return next((text.strip() for text in found if text.strip()), "")


# -- messages, reasoning, permissions, notices, turns, sessions, usage -----------------------------------------------


def message_body(event: Message, context: RenderContext) -> Body:
    """Show an answer as Markdown, any other message as it was typed."""
    written = prose if event.role == "assistant" else typed
    return joined(written(event.text, context, "/text"), attachments(event.attachments, context))


def reasoning_body(event: Reasoning, context: RenderContext) -> Body:
    return prose(event.text, context, "/text")


def permission_body(event: PermissionRequest, context: RenderContext) -> Body:
    """Show the question and the options of a request."""
    # If there is a title, the input in the call's own card is enough.
    payload = (event.input or {}) if context.is_full or not event.title else {}
    return joined(
        asked_body(event.title, event.name, payload, context),
        () if _shows_questions(context) else questions_body(event.questions or [], None, context),
        options_body(event.options or [], context),
    )


def asked_body(title: str | None, name: str | None, payload: dict[str, Any], context: RenderContext) -> Body:
    """Show what is asked without the replies: the whole title, and the input of the requested call."""
    return joined(_whole(title, context, "/title"), _call_input(name, payload, context) if payload else ())


def _shows_questions(context: RenderContext) -> bool:
    """Return whether the call's own card shows the questions."""
    return not context.is_full and context.call is not None and bool(context.call.input.get("questions"))


def _whole(value: str | None, context: RenderContext, pointer: str) -> Body:
    """Show the whole of a text if the header shows only its beginning."""
    return plain(value, context, pointer) if value and short(value, HEADER) != value else ()


def _call_input(name: str | None, payload: dict[str, Any], context: RenderContext) -> Body:
    """Show the input of the requested call; as a tree if it has no known key, as in OpenCode's requests."""
    types = TOOLS.get(name or "")
    if name is None or (types is not None and len(types.input.from_payload(payload).extra) == len(payload)):
        return tree(payload, context, "/input")
    return input_body(name, payload, context)


def response_body(event: PermissionResponse, context: RenderContext) -> Body:
    return joined(typed(event.message, context, "/message"), answers_body(event.answers or {}, context))


def notice_body(event: Notice, context: RenderContext) -> Body:
    """Show the text if the header shows only its beginning, and the data at level `full`."""
    return joined(_whole(event.text, context, "/text"), tree(event.data, context, "/data") if context.is_full else ())


def unparsed_body(event: Unparsed, context: RenderContext) -> Body:
    return joined(
        note(f"A line of {event.bytes:,} bytes that could not be read ({short(event.reason)}). It begins:"),
        plain(event.text, context, "/text"),
    )


def turn_body(event: Turn, context: RenderContext) -> Body:
    return _whole(event.reason, context, "/reason")


def process_words(event: SessionEvent) -> str | None:
    """Return how the agent's process ended, with which the session did; None if that is not stated."""
    if event.exit_code is None and event.signal is None:
        return None
    words = ProcessEnd(event.exit_code, event.signal).words
    return f"{words}, stopped by the client" if event.stopped_by == "client" else words


def is_bad_end(event: SessionEvent) -> bool:
    """Whether the session ended because the agent's process failed or was killed."""
    return event.signal is not None or bool(event.exit_code)


def session_body(event: SessionEvent, context: RenderContext) -> Body:
    """Show what is known of a session. For an update the header is enough, except at level `full`."""
    if event.state == "updated" and not context.is_full:
        return ()
    about = facts(
        [
            ("title", event.title),
            ("model", event.model),
            ("mode", event.mode),
            ("folder", event.cwd),
            ("version of the agent", event.agent_version),
            ("earlier called", event.alias),
            ("process", process_words(event)),
        ]
    )
    servers = [(server.get("name"), server.get("status")) for server in event.mcp_servers or []]
    return joined(
        about,
        table(("MCP server", "status"), servers, context, name="MCP servers"),
        _names("tools", event.tools, context),
        _names("commands", event.commands, context),
    )


def _names(of_what: str, names: list[str] | None, context: RenderContext) -> Body:
    if not names:
        return ()
    shown = [short(name, HEADER) for name in names]
    return folded(f"{len(names):,} {of_what}", tree(shown, context._replace(level="full")))


def usage_body(event: Usage, context: RenderContext) -> Body:
    if not context.is_full:
        return ()
    return facts(
        [
            ("tokens in", event.input_tokens),
            ("of these read from the cache", event.cache_read_tokens),
            ("of these written to the cache", event.cache_write_tokens),
            ("tokens out" if event.estimated_output_tokens is None else "tokens out, at least", event.output_tokens),
            ("of the text, estimated", event.estimated_output_tokens),
            ("of these reasoning", event.reasoning_tokens),
            ("cost", cost(event)),
            ("context", context_used(event)),
        ]
    )


def cost(event: Usage) -> str | None:
    """Return the cost, if it can be one, as `$0.0293`, with its scope if that differs from the tokens' scope."""
    shown = dollars(event.cost_usd, 4)
    scope = event.cost_scope or event.scope
    return shown if shown is None or scope == event.scope else f"{shown} for the {scope}"


def context_share(event: Usage) -> str | None:
    """Return the used context as `context 6 %`."""
    if event.context_used is None:
        return None
    if not event.context_size:
        return f"context {amount(event.context_used)}"
    part = 100 * event.context_used / event.context_size
    return f"context {f'{part:.0f}' if part >= 1 else 'under 1'} %"


def context_used(event: Usage) -> str | None:
    """Return the used context as `12,000 of 200,000 tokens (6 %)`."""
    if event.context_used is None:
        return None
    if not event.context_size:
        return f"{event.context_used:,} tokens"
    part = 100 * event.context_used / event.context_size
    return f"{event.context_used:,} of {event.context_size:,} tokens ({f'{part:.0f}' if part >= 1 else 'under 1'} %)"
