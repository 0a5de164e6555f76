"""Tools of MCP servers, agents' own tools about tools, the output of unknown tools, and the display tools of
`tooltap mcp`."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.show.blocks import (
    Body,
    RenderContext,
    ToolCard,
    block,
    excerpt,
    facts,
    joined,
    nothing,
    plain,
    table,
)
from tooltap.daemon.show.tools.shell import shell_input
from tooltap.daemon.show.tree import text_or_tree, tree
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import BashInput, McpInput, McpResult, ToolTypes


class AnyResult(ToolResultPayload):
    """The keys under which most tools return text."""

    text: str | None = None
    content: str | None = None
    message: str | None = None


def any_output(result: AnyResult, context: RenderContext) -> Body:
    words = {"text": result.text, "content": result.content, "message": result.message}
    return joined(*(text_or_tree(value, context, f"/output/{key}") for key, value in words.items()))


def mcp_output(result: McpResult, context: RenderContext) -> Body:
    """Show the result without the blocks whose body is an attachment of the event."""
    blocks = [block for block in result.content or [] if "outputId" not in record(block)]
    return joined(text_or_tree(result.text, context, "/output/text"), tree(blocks, context, "/output/content"))


# -- resources ----------------------------------------------------------------------------------------------------

_COLUMNS = ("name", "uri", "uriTemplate", "mimeType", "server", "description")
_HEAD = ("name", "address", "form of the address", "type", "server", "description")


class Resources(ToolResultPayload):
    resources: list[dict[str, Any]] | None = None
    resourceTemplates: list[dict[str, Any]] | None = None


def resources_output(result: Resources, context: RenderContext) -> Body:
    listed = result.resources or result.resourceTemplates or records(result.value)
    rows = [[string(one.get(column)) for column in _COLUMNS] for one in listed]
    return table(_HEAD, rows, context, name="resources of MCP servers")


class Resource(AnyResult):
    contents: list[dict[str, Any]] | None = None


def resource_output(result: Resource, context: RenderContext) -> Body:
    shown = [
        joined(
            facts([("address", string(one.get("uri"))), ("type", string(one.get("mimeType")))]),
            text_or_tree(string(one.get("text")), context, f"/output/contents/{index}/text"),
        )
        for index, one in enumerate(result.contents or [])
    ]
    return joined(*shown, any_output(result, context))


# -- skills, tool search -------------------------------------------------------------------------------------------


class SkillInput(ToolInput):
    skill: str | None = None
    name: str | None = None
    args: Any = None


def skill_input(payload: SkillInput, context: RenderContext) -> Body:
    args = payload.args
    return joined(
        facts([("skill", payload.skill or payload.name)]),
        plain(args, context, "/input/args") if isinstance(args, str) else tree(args, context, "/input/args"),
    )


class ToolSearchInput(ToolInput):
    query: str | None = None


class ToolsFound(AnyResult):
    matches: list[Any] | None = None
    """Names, or `{tool_name}` each."""
    tools: list[Any] | None = None
    """`{name}` each."""
    total_deferred_tools: int | None = None


def tool_search_input(payload: ToolSearchInput, context: RenderContext) -> Body:
    return facts([("query", payload.query)])


def tool_search_output(result: ToolsFound, context: RenderContext) -> Body:
    found = [*(result.matches or []), *(result.tools or [])]
    names = [string(one) or string(record(one).get("name")) or string(record(one).get("tool_name")) for one in found]
    return joined(
        facts([("found", [name for name in names if name]), ("of", result.total_deferred_tools)]),
        any_output(result, context),
    )


# -- display tools of `tooltap mcp`: their input, and the line that the model gets; the user sees the `display` ------


class DisplayFileInput(ToolInput):
    path: str | None = None
    startLine: int | None = None
    endLine: int | None = None


class DisplayResult(McpResult):
    exit_code: int | None = None


def display_file_input(payload: DisplayFileInput, context: RenderContext) -> Body:
    facts = [
        (name, str(line)) for name, line in (("from", payload.startLine), ("to", payload.endLine)) if line is not None
    ]
    if payload.path is None:
        return ()
    return block("files", paths=[payload.path], hidden=0, facts=facts)


def display_output(result: DisplayResult, context: RenderContext) -> Body:
    if not result.text or result.text == result.errorMessage:
        return ()
    return block("texts", texts=[excerpt(result.text, context, "/output/text")])


_FILE_TYPES = ToolTypes(DisplayFileInput, DisplayResult)


MCP_CARD = ToolCard("⊞", nothing, mcp_output, ToolTypes(McpInput, McpResult))
"""The entry of every `mcp__<server>__<tool>`. The card's header names server and tool; the arguments are a tree."""

_RESOURCES = ToolCard("⊞", nothing, resources_output, ToolTypes(ToolInput, Resources))


CARDS = {
    "Skill": ToolCard("✦", skill_input, any_output, ToolTypes(SkillInput, AnyResult)),
    "ToolSearch": ToolCard("⌕", tool_search_input, tool_search_output, ToolTypes(ToolSearchInput, ToolsFound)),
    "ListMcpResources": _RESOURCES,
    "list_mcp_resource_templates": _RESOURCES,
    "ReadMcpResource": ToolCard("⊞", nothing, resource_output, ToolTypes(ToolInput, Resource)),
    "mcp__tooltap__run_and_display": ToolCard("❯", shell_input, display_output, ToolTypes(BashInput, DisplayResult)),
    "mcp__tooltap__render_file_contents": ToolCard("▤", display_file_input, display_output, _FILE_TYPES),
    "mcp__tooltap__display_image": ToolCard("▤", display_file_input, display_output, _FILE_TYPES),
}
