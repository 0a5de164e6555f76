"""Calls of MCP servers' tools, and of agents' own tools about tools: arguments and answers as text or trees."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tooltap.daemon.web.look import Look
from tooltap.daemon.web.render_any import any_output, rest, said, tree
from tooltap.daemon.web.render_parts import facts, joined, plain, table
from tooltap.normalizers.values import record, records, string, whole

__all__ = [
    "mcp_input",
    "mcp_output",
    "resource_input",
    "resource_output",
    "resources_output",
    "skill_input",
    "skill_output",
    "tool_search_input",
    "tool_search_output",
]


def mcp_input(payload: dict[str, Any], look: Look) -> Markup:
    """The header names server and tool; where the name can be parted in two ways, nobody knows them."""
    return tree(payload, look, "/input")


def mcp_output(payload: dict[str, Any], look: Look) -> Markup:
    """Texts as text or, if they are JSON, as a tree; blocks that were taken out as attachments are shown as such."""
    left = {key: value for key, value in payload.items() if key not in ("errorMessage", "isError")}
    if isinstance(left.get("content"), list):
        left["content"] = [block for block in left["content"] if not _is_attached(block)]
    return any_output({key: value for key, value in left.items() if value != []}, look)


def _is_attached(block: Any) -> bool:
    return "outputId" in record(block)


# -- resources ----------------------------------------------------------------------------------------------------

_COLUMNS = ("name", "uri", "uriTemplate", "mimeType", "server", "description")
_HEAD = ("name", "address", "form of the address", "type", "server", "description")


def resource_input(payload: dict[str, Any], look: Look) -> Markup:
    return tree(payload, look, "/input")


def resources_output(payload: dict[str, Any], look: Look) -> Markup:
    for key in ("resources", "resourceTemplates", "value"):
        listed = records(payload.get(key))
        if listed:
            rows = [[string(one.get(column)) for column in _COLUMNS] for one in listed]
            found = table(_HEAD, rows, look, name="resources of MCP servers")
            return joined(found, rest(payload, look, "/output", key, "errorMessage"))
    return any_output(payload, look)


def resource_output(payload: dict[str, Any], look: Look) -> Markup:
    contents = records(payload.get("contents"))
    shown = [
        joined(
            facts([("address", string(one.get("uri"))), ("type", string(one.get("mimeType")))]),
            said(string(one.get("text")), look, f"/output/contents/{index}/text"),
        )
        for index, one in enumerate(contents)
    ]
    return joined(*shown, any_output({key: value for key, value in payload.items() if key != "contents"}, look))


# -- skills, the search for tools ---------------------------------------------------------------------------------


def skill_input(payload: dict[str, Any], look: Look) -> Markup:
    name = string(payload.get("skill")) or string(payload.get("name"))
    args = payload.get("args")
    return joined(
        facts([("skill", name)]),
        plain(args, look, "/input/args") if isinstance(args, str) else tree(args, look, "/input/args"),
        rest(payload, look, "/input", "skill", "name", "args"),
    )


def skill_output(payload: dict[str, Any], look: Look) -> Markup:
    words = ("content", "value", "message")
    return joined(
        *(plain(string(payload.get(key)), look, f"/output/{key}") for key in words),
        rest(payload, look, "/output", "errorMessage", *words),
    )


def tool_search_input(payload: dict[str, Any], look: Look) -> Markup:
    return joined(facts([("query", string(payload.get("query")))]), rest(payload, look, "/input", "query"))


def tool_search_output(payload: dict[str, Any], look: Look) -> Markup:
    found = payload.get("matches", payload.get("tools"))
    names = [name for one in (found if isinstance(found, list) else []) if (name := _tool_name(one))]
    if not names:
        return any_output(payload, look)
    return joined(
        facts([("found", names), ("of", whole(payload.get("total_deferred_tools")))]),
        rest(payload, look, "/output", "matches", "query", "errorMessage", "total_deferred_tools"),
    )


def _tool_name(found: Any) -> str | None:
    return string(found) or string(record(found).get("name")) or string(record(found).get("tool_name"))
