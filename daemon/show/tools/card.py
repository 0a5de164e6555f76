"""The entry of a tool in the registry (`by_tool.py`): its icon, what renders its input and its output, and its structs.

A module in `tools` exports its entries as `CARDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.show.render_options import Look
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import ToolTypes


def nothing(payload: OpenStruct, look: Look) -> Markup:
    """Render nothing: the registry then shows the payload as a tree."""
    return Markup()


class ToolCard(NamedTuple):
    icon: str
    input: Callable[[Any, Look], Markup] = nothing
    """Called with the struct of the input."""
    output: Callable[[Any, Look], Markup] = nothing
    """Called with the struct of the result."""
    types: ToolTypes | None = None
    """The structs, where they are not those of `protocol.tools.TOOLS`: the tool has none there, or some providers send
    further keys."""
