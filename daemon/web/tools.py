"""Which renderer shows which canonical tool: one function for the input of a call, one for the output of its result.

A further tool is a row here. Renderers get the payload as the tool's struct (`tooltap.protocol.tools`), give the body
of the card, and know nothing of providers. What went wrong stands above every output; what the struct does not know is
shown below as a tree: at level full, and wherever there is nothing else to show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.look import Excerpt, Look, excerpt
from tooltap.daemon.web.markup import template
from tooltap.daemon.web.render_any import nothing, said, tree, unsaid
from tooltap.daemon.web.render_display_tools import (
    DisplayFileInput,
    DisplayResult,
    display_file_input,
    display_output,
)
from tooltap.daemon.web.render_edits import (
    change_output,
    delete_input,
    delete_output,
    diff_input,
    diff_output,
    edit_input,
    multi_edit_input,
    patch_input,
    patch_output,
)
from tooltap.daemon.web.render_files import NotebookEditInput, notebook_input, read_input, read_output, write_input
from tooltap.daemon.web.render_mcp import AnyResult, any_output
from tooltap.daemon.web.render_search import (
    code_search_input,
    glob_input,
    glob_output,
    grep_input,
    grep_output,
    ls_input,
    ls_output,
)
from tooltap.daemon.web.render_shell import FollowerInput, FollowerResult, follower_input, shell_input, shell_output
from tooltap.daemon.web.render_talk import MCP, TALK, TYPES
from tooltap.daemon.web.screen import settled
from tooltap.protocol.file_tools import BashInput, ChangeResult
from tooltap.protocol.payloads import ToolInput, ToolResultPayload
from tooltap.protocol.tools import TOOLS, McpInput, McpResult, ToolTypes

__all__ = ["RENDERERS", "Renderer", "error_body", "input_body", "output_body", "renderer_of"]


class Renderer(NamedTuple):
    icon: str
    input: Callable[[Any, Look], Markup] = nothing
    output: Callable[[Any, Look], Markup] = nothing


ANY = Renderer("◇", nothing, any_output)
"""Of a tool that nobody here knows."""

RENDERERS: dict[str, Renderer] = {
    "Bash": Renderer("❯", shell_input, shell_output),
    "BashOutput": Renderer("❯", follower_input, shell_output),
    "KillShell": Renderer("❯", follower_input, shell_output),
    "write_stdin": Renderer("❯", follower_input, shell_output),
    "Read": Renderer("▤", read_input, read_output),
    "Write": Renderer("✎", write_input, change_output),
    "Edit": Renderer("✎", edit_input, change_output),
    "MultiEdit": Renderer("✎", multi_edit_input, change_output),
    "NotebookEdit": Renderer("✎", notebook_input, change_output),
    "Delete": Renderer("✕", delete_input, delete_output),
    "Patch": Renderer("✎", patch_input, patch_output),
    "Diff": Renderer("±", diff_input, diff_output),
    "Glob": Renderer("⌕", glob_input, glob_output),
    "Grep": Renderer("⌕", grep_input, grep_output),
    "LS": Renderer("▤", ls_input, ls_output),
    "CodeSearch": Renderer("⌕", code_search_input, grep_output),
    "mcp__tooltap__run_and_display": Renderer("❯", shell_input, display_output),
    "mcp__tooltap__render_file_contents": Renderer("▤", display_file_input, display_output),
    "mcp__tooltap__display_image": Renderer("▤", display_file_input, display_output),
    **{name: Renderer(*row) for name, row in TALK.items()},
}
"""Canonical name -> its renderer."""

LATER_TYPES: dict[str, ToolTypes] = {
    "BashOutput": ToolTypes(FollowerInput, FollowerResult),
    "KillShell": ToolTypes(FollowerInput, FollowerResult),
    "write_stdin": ToolTypes(FollowerInput, FollowerResult),
    "NotebookEdit": ToolTypes(NotebookEditInput, ChangeResult),
    "mcp__tooltap__run_and_display": ToolTypes(BashInput, DisplayResult),
    "mcp__tooltap__render_file_contents": ToolTypes(DisplayFileInput, DisplayResult),
    "mcp__tooltap__display_image": ToolTypes(DisplayFileInput, DisplayResult),
    **TYPES,
}
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
