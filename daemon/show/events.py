"""The bodies of all other events: messages, reasoning, permissions, notices, turns, sessions, usage."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.formats import amount, dollars
from tooltap.daemon.show.blocks import (
    HEADER,
    Body,
    attachments,
    facts,
    folded,
    joined,
    note,
    plain,
    prose,
    short,
    table,
)
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.tools.dialogs import answers_body, options_body, questions_body
from tooltap.daemon.show.tools.registry import input_body
from tooltap.daemon.show.tree import tree
from tooltap.protocol.events import (
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.protocol.tools import TOOLS


def message_body(event: Message, look: Look) -> Body:
    """Show a message as Markdown. Line breaks of typed messages are kept."""
    return joined(
        prose(event.text, look, "/text", prompt=event.role != "assistant"), attachments(event.attachments, look)
    )


def reasoning_body(event: Reasoning, look: Look) -> Body:
    return prose(event.text, look, "/text")


def permission_body(event: PermissionRequest, look: Look) -> Body:
    """Show the question and the options of a request."""
    # If there is a title, the input in the call's own card is enough.
    call = _call_input(event.name, event.input or {}, look) if look.is_full or not event.title else ()
    return joined(
        _whole(event.title, look, "/title"),
        call,
        () if _shows_questions(look) else questions_body(event.questions or [], None, look),
        options_body(event.options or [], look),
    )


def _shows_questions(look: Look) -> bool:
    """Say whether the call's own card shows the questions."""
    return not look.is_full and look.call is not None and bool(look.call.input.get("questions"))


def _whole(value: str | None, look: Look, pointer: str) -> Body:
    """Show a text that the header shows only the beginning of."""
    return plain(value, look, pointer) if value and short(value, HEADER) != value else ()


def _call_input(name: str | None, payload: dict[str, Any], look: Look) -> Body:
    """Show the input of the requested call; as a tree if it has no known key, as in OpenCode's requests."""
    types = TOOLS.get(name or "")
    if name is None or (types is not None and len(types.input.from_payload(payload).extra) == len(payload)):
        return tree(payload, look, "/input")
    return input_body(name, payload, look)


def response_body(event: PermissionResponse, look: Look) -> Body:
    return joined(prose(event.message, look, "/message", prompt=True), answers_body(event.answers or {}, look))


def notice_body(event: Notice, look: Look) -> Body:
    """Show the text if the header shows only its beginning, and the data at level `full`."""
    return joined(_whole(event.text, look, "/text"), tree(event.data, look, "/data") if look.is_full else ())


def unparsed_body(event: Unparsed, look: Look) -> Body:
    return joined(
        note(f"A line of {event.bytes:,} bytes that could not be read ({short(event.reason)}). It begins:"),
        plain(event.text, look, "/text"),
    )


def turn_body(event: Turn, look: Look) -> Body:
    return _whole(event.reason, look, "/reason")


def session_body(event: SessionEvent, look: Look) -> Body:
    """Show what is known of a session. For an update the header is enough, except at level `full`."""
    if event.state == "updated" and not look.is_full:
        return ()
    about = facts(
        [
            ("title", event.title),
            ("model", event.model),
            ("mode", event.mode),
            ("folder", event.cwd),
            ("version of the agent", event.agent_version),
            ("earlier called", event.alias),
        ]
    )
    servers = [(server.get("name"), server.get("status")) for server in event.mcp_servers or []]
    return joined(
        about,
        table(("MCP server", "status"), servers, look, name="MCP servers"),
        _names("tools", event.tools, look),
        _names("commands", event.commands, look),
    )


def _names(of_what: str, names: list[str] | None, look: Look) -> Body:
    if not names:
        return ()
    shown = [short(name, HEADER) for name in names]
    return folded(f"{len(names):,} {of_what}", tree(shown, look._replace(level="full")))


def usage_body(event: Usage, look: Look) -> Body:
    if not look.is_full:
        return ()
    return facts(
        [
            ("tokens in", event.input_tokens),
            ("of these read from the cache", event.cache_read_tokens),
            ("of these written to the cache", event.cache_write_tokens),
            ("tokens out", event.output_tokens),
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
