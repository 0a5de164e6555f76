"""tooltap's own display tools: what was asked for, and the line the model got. What the user sees is the result's
`display`."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.html.look import Look, excerpt
from tooltap.daemon.web.html.markup import template
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import McpResult

__all__ = ["DisplayFileInput", "DisplayResult", "display_file_input", "display_output"]


class DisplayFileInput(ToolInput):
    path: str | None = None
    startLine: int | None = None
    endLine: int | None = None


class DisplayResult(McpResult):
    exit_code: int | None = None


def display_file_input(asked: DisplayFileInput, look: Look) -> Markup:
    facts = [(name, str(line)) for name, line in (("from", asked.startLine), ("to", asked.endLine)) if line is not None]
    if asked.path is None:
        return Markup()
    return template("files.html", paths=[asked.path], hidden=0, facts=facts)


def display_output(result: DisplayResult, look: Look) -> Markup:
    if not result.text or result.text == result.errorMessage:
        return Markup()
    return template("said.html", said=[excerpt(result.text, look, "/output/text")])
