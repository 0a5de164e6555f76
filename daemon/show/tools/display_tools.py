"""The display tools of `tooltap mcp`: their input, and the line that the model gets. The user sees the result's
`display` instead."""

from __future__ import annotations

from tooltap.daemon.show.blocks import Body, block
from tooltap.daemon.show.render_options import Look, excerpt
from tooltap.daemon.show.tools.card import ToolCard
from tooltap.daemon.show.tools.shell import shell_input
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import BashInput, McpResult, ToolTypes


class DisplayFileInput(ToolInput):
    path: str | None = None
    startLine: int | None = None
    endLine: int | None = None


class DisplayResult(McpResult):
    exit_code: int | None = None


def display_file_input(payload: DisplayFileInput, look: Look) -> Body:
    facts = [
        (name, str(line)) for name, line in (("from", payload.startLine), ("to", payload.endLine)) if line is not None
    ]
    if payload.path is None:
        return ()
    return block("files", paths=[payload.path], hidden=0, facts=facts)


def display_output(result: DisplayResult, look: Look) -> Body:
    if not result.text or result.text == result.errorMessage:
        return ()
    return block("texts", texts=[excerpt(result.text, look, "/output/text")])


_FILE_TYPES = ToolTypes(DisplayFileInput, DisplayResult)

CARDS = {
    "mcp__tooltap__run_and_display": ToolCard("❯", shell_input, display_output, ToolTypes(BashInput, DisplayResult)),
    "mcp__tooltap__render_file_contents": ToolCard("▤", display_file_input, display_output, _FILE_TYPES),
    "mcp__tooltap__display_image": ToolCard("▤", display_file_input, display_output, _FILE_TYPES),
}
