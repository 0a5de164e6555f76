"""The registry of tool cards: which functions make the bodies of the input and the output of a canonical tool.

To add a tool, write its functions in a module of `tools` and an entry in that module's `CARDS`; list a new module in
`TOOL_CARDS` below. A function gets the payload as the tool's struct, returns the body of the card, and knows nothing
of providers. The registry does what is common to all tools: it puts errors above the output, and shows the keys that
the struct does not know as a tree below it, at level `full` and wherever there is nothing else to show.
"""

from __future__ import annotations

from typing import Any

from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import Body, Excerpt, RenderContext, ToolCard, block, excerpt
from tooltap.daemon.show.tools import dialogs, files, mcp, search, shell, tasks
from tooltap.daemon.show.tree import text_or_tree, tree, unknown_keys
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import TOOLS, ToolTypes

TOOL_CARDS: dict[str, ToolCard] = {
    **shell.CARDS,
    **files.CARDS,
    **search.CARDS,
    **tasks.CARDS,
    **dialogs.CARDS,
    **mcp.CARDS,
}
"""Canonical name -> entry."""

UNKNOWN_TOOL = ToolCard("◇", output=mcp.any_output)
"""The entry of every tool that has none."""
UNKNOWN_TYPES = ToolTypes(ToolInput, mcp.AnyResult)


def tool_card(name: str) -> ToolCard:
    """Return the entry of a canonical tool."""
    return TOOL_CARDS.get(name) or (mcp.MCP_CARD if name.startswith("mcp__") else UNKNOWN_TOOL)


def payload_of(name: str, payload: dict[str, Any]) -> ToolInput:
    """Return the input of a call as the tool's struct."""
    return _types(name).input.from_payload(payload)


def input_body(name: str, payload: dict[str, Any], context: RenderContext) -> Body:
    """Show the input of a call."""
    if context.level == "title":
        return ()
    arguments = payload_of(name, payload)
    body = tool_card(name).input(arguments, context)
    left = tree(unknown_keys(arguments), context, "/input") if context.is_full or not body else ()
    return block("payload", error=None, body=body, left=left) if left else body


def output_body(name: str, payload: dict[str, Any], context: RenderContext) -> Body:
    """Show the output of a result, with its error."""
    if context.level == "title":
        return ()
    result = _types(name).result.from_payload(payload)
    body = tool_card(name).output(result, context)
    if not body or context.is_full:
        body += text_or_tree(result.value, context, "/output/value")
    if isinstance(result.error, dict):
        body += tree(result.error, context, "/output/error")
    error = _error(result, context)
    left: Body = ()
    if context.is_full or not (body or error):
        left = tree(unknown_keys(result, context.call.input if context.call else None), context, "/output")
    return block("payload", error=error, body=body, left=left) if error or left else body


def error_body(payload: dict[str, Any], context: RenderContext) -> Body:
    """Show only the error of an output."""
    error = _error(ToolResultPayload.from_payload(payload), context)
    return block("payload", error=error, body=(), left=()) if error else ()


def _types(name: str) -> ToolTypes:
    types = tool_card(name).types
    if types is None and name in TOOL_CARDS:
        types = TOOLS.get(name)
    return types or UNKNOWN_TYPES


def _error(result: ToolResultPayload, context: RenderContext) -> Excerpt | None:
    if result.errorMessage:
        return excerpt(final_screen(result.errorMessage), context, "/output/errorMessage")
    if isinstance(result.error, str) and result.error:
        return excerpt(final_screen(result.error), context, "/output/error")
    return None
