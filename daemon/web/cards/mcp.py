"""Calls of MCP servers' tools, and of agents' own tools about tools; and the answers of a tool nobody knows."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tooltap.daemon.web.cards.any import said, tree
from tooltap.daemon.web.cards.parts import facts, joined, plain, table
from tooltap.daemon.web.html.look import Look
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import McpResult

__all__ = [
    "AnyResult",
    "Resource",
    "Resources",
    "SkillInput",
    "ToolSearchInput",
    "ToolsFound",
    "any_output",
    "mcp_output",
    "resource_output",
    "resources_output",
    "skill_input",
    "tool_search_input",
    "tool_search_output",
]


class AnyResult(ToolResultPayload):
    """The keys under which most tools answer in words."""

    text: str | None = None
    content: str | None = None
    message: str | None = None


def any_output(result: AnyResult, look: Look) -> Markup:
    words = {"text": result.text, "content": result.content, "message": result.message}
    return joined(*(said(value, look, f"/output/{key}") for key, value in words.items()))


def mcp_output(result: McpResult, look: Look) -> Markup:
    """Blocks whose body was taken out of the event are attachments, and shown as such."""
    blocks = [block for block in result.content or [] if "outputId" not in record(block)]
    return joined(said(result.text, look, "/output/text"), tree(blocks, look, "/output/content"))


# -- resources ----------------------------------------------------------------------------------------------------

_COLUMNS = ("name", "uri", "uriTemplate", "mimeType", "server", "description")
_HEAD = ("name", "address", "form of the address", "type", "server", "description")


class Resources(ToolResultPayload):
    resources: list[dict[str, Any]] | None = None
    resourceTemplates: list[dict[str, Any]] | None = None


def resources_output(result: Resources, look: Look) -> Markup:
    listed = result.resources or result.resourceTemplates or records(result.value)
    rows = [[string(one.get(column)) for column in _COLUMNS] for one in listed]
    return table(_HEAD, rows, look, name="resources of MCP servers")


class Resource(AnyResult):
    contents: list[dict[str, Any]] | None = None


def resource_output(result: Resource, look: Look) -> Markup:
    shown = [
        joined(
            facts([("address", string(one.get("uri"))), ("type", string(one.get("mimeType")))]),
            said(string(one.get("text")), look, f"/output/contents/{index}/text"),
        )
        for index, one in enumerate(result.contents or [])
    ]
    return joined(*shown, any_output(result, look))


# -- skills, the search for tools ---------------------------------------------------------------------------------


class SkillInput(ToolInput):
    skill: str | None = None
    name: str | None = None
    args: Any = None


def skill_input(asked: SkillInput, look: Look) -> Markup:
    args = asked.args
    return joined(
        facts([("skill", asked.skill or asked.name)]),
        plain(args, look, "/input/args") if isinstance(args, str) else tree(args, look, "/input/args"),
    )


class ToolSearchInput(ToolInput):
    query: str | None = None


class ToolsFound(AnyResult):
    matches: list[Any] | None = None
    """Names, or `{tool_name}` each."""
    tools: list[Any] | None = None
    """`{name}` each."""
    total_deferred_tools: int | None = None


def tool_search_input(asked: ToolSearchInput, look: Look) -> Markup:
    return facts([("query", asked.query)])


def tool_search_output(result: ToolsFound, look: Look) -> Markup:
    found = [*(result.matches or []), *(result.tools or [])]
    names = [string(one) or string(record(one).get("name")) or string(record(one).get("tool_name")) for one in found]
    return joined(
        facts([("found", [name for name in names if name]), ("of", result.total_deferred_tools)]),
        any_output(result, look),
    )
