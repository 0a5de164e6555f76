"""Which renderer shows which canonical tool: one function for the input of a call, one for the output of its result.

A further tool is a row here. Renderers get the payload as the tool's struct (`tooltap.protocol.tools`), give the body
of the card, and know nothing of providers. What went wrong stands above every output; what the struct does not know is
shown below as a tree: at level full, and wherever there is nothing else to show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.cards.any import nothing, said, tree, unsaid
from tooltap.daemon.web.cards.machine import MACHINE, MACHINE_TYPES
from tooltap.daemon.web.cards.mcp import AnyResult, any_output
from tooltap.daemon.web.cards.talk import MCP, TALK, TYPES
from tooltap.daemon.web.html.look import Excerpt, Look, excerpt
from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.html.screen import settled
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import TOOLS, McpInput, McpResult, ToolTypes

__all__ = ["RENDERERS", "Renderer", "error_body", "input_body", "output_body", "renderer_of"]


class Renderer(NamedTuple):
    icon: str
    input: Callable[[Any, Look], Markup] = nothing
    output: Callable[[Any, Look], Markup] = nothing


ANY = Renderer("◇", nothing, any_output)
"""Of a tool that nobody here knows."""

RENDERERS: dict[str, Renderer] = {name: Renderer(*row) for name, row in (MACHINE | TALK).items()}
"""Canonical name -> its renderer."""

LATER_TYPES: dict[str, ToolTypes] = MACHINE_TYPES | TYPES
"""Structs of tools that are not among the 24, those of a tool that they are like; and of some that are among them,
with keys that only some providers have."""

MCP_TYPES = ToolTypes(McpInput, McpResult)
ANY_TYPES = ToolTypes(ToolInput, AnyResult)


def renderer_of(name: str) -> Renderer:
    return RENDERERS.get(name) or (Renderer(*MCP) if name.startswith("mcp__") else ANY)


def input_body(name: str, payload: dict[str, Any], look: Look) -> Markup:
    if look.level == "title":
        return Markup()
    asked = _types(name).input.from_payload(payload)
    body = renderer_of(name).input(asked, look)
    left = tree(unsaid(asked), look, "/input") if look.is_full or not body else Markup()
    return template("payload.html", error=None, body=body, left=left) if left else body


def output_body(name: str, payload: dict[str, Any], look: Look) -> Markup:
    if look.level == "title":
        return Markup()
    result = _types(name).result.from_payload(payload)
    body = renderer_of(name).output(result, look)
    if not body or look.is_full:
        body += said(result.value, look, "/output/value")
    if isinstance(result.error, dict):
        body += tree(result.error, look, "/output/error")
    error = _error(result, look)
    left = Markup()
    if look.is_full or not (body or error):
        left = tree(unsaid(result, look.call.input if look.call else None), look, "/output")
    return template("payload.html", error=error, body=body, left=left) if error or left else body


def error_body(payload: dict[str, Any], look: Look) -> Markup:
    """What stands above an output, alone: for one that is not shown."""
    error = _error(ToolResultPayload.from_payload(payload), look)
    return template("payload.html", error=error, body=Markup(), left=Markup()) if error else Markup()


def _types(name: str) -> ToolTypes:
    if name not in RENDERERS:
        return MCP_TYPES if name.startswith("mcp__") else ANY_TYPES
    return LATER_TYPES.get(name) or TOOLS.get(name) or ANY_TYPES


def _error(result: ToolResultPayload, look: Look) -> Excerpt | None:
    if result.errorMessage:
        return excerpt(settled(result.errorMessage), look, "/output/errorMessage")
    if isinstance(result.error, str) and result.error:
        return excerpt(settled(result.error), look, "/output/error")
    return None
