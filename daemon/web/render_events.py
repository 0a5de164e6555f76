"""Bodies of everything that is not a tool's: messages, reasoning, permissions, notices, turns, sessions, usage."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.look import Look, excerpt
from tooltap.daemon.web.markup import template
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

__all__ = [
    "message_body",
    "notice_body",
    "permission_body",
    "reasoning_body",
    "session_body",
    "turn_body",
    "unparsed_body",
    "usage_body",
]


def message_body(event: Message, look: Look) -> Markup:
    return template("message.html", text=excerpt(event.text, look, "/text"))


def reasoning_body(event: Reasoning, look: Look) -> Markup:
    return template("message.html", text=excerpt(event.text, look, "/text"))


def permission_body(event: PermissionRequest | PermissionResponse, look: Look) -> Markup:
    return Markup()


def notice_body(event: Notice, look: Look) -> Markup:
    return Markup()


def unparsed_body(event: Unparsed, look: Look) -> Markup:
    return Markup()


def turn_body(event: Turn, look: Look) -> Markup:
    return Markup()


def session_body(event: SessionEvent, look: Look) -> Markup:
    return Markup()


def usage_body(event: Usage, look: Look) -> Markup:
    return Markup()
