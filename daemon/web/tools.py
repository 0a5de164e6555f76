"""Which renderer shows which canonical tool: one function for the input of a call, one for the output of its result.

A further tool is a row here. Renderers get the payload as the tool's struct (`tooltap.protocol.tools`), give the body
of the card, and know nothing of providers; what the struct does not know is shown below, as a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.look import Look
from tooltap.daemon.web.render_any import any_input, any_output
from tooltap.daemon.web.render_shell import shell_input, shell_output
from tooltap.daemon.web.render_talk import MCP, TALK
from tooltap.protocol.tools import TOOLS

__all__ = ["RENDERERS", "Renderer", "input_body", "output_body", "renderer_of"]


class Renderer(NamedTuple):
    icon: str
    input: Callable[[Any, Look], Markup]
    output: Callable[[Any, Look], Markup]


ANY = Renderer("◇", any_input, any_output)
"""Of a tool that nobody here knows."""

RENDERERS: dict[str, Renderer] = {
    "Bash": Renderer("❯", shell_input, shell_output),
    **{name: Renderer(*row) for name, row in TALK.items()},
}
"""Canonical name -> its renderer."""


def renderer_of(name: str) -> Renderer:
    return RENDERERS.get(name) or (Renderer(*MCP) if name.startswith("mcp__") else ANY)


def input_body(name: str, payload: dict[str, Any], look: Look) -> Markup:
    types = TOOLS.get(name) if name in RENDERERS else None
    value = payload if types is None else types.input.from_payload(payload)
    return renderer_of(name).input(value, look)


def output_body(name: str, payload: dict[str, Any], look: Look) -> Markup:
    types = TOOLS.get(name) if name in RENDERERS else None
    value = payload if types is None else types.result.from_payload(payload)
    return renderer_of(name).output(value, look)
