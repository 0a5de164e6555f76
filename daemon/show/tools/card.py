"""The entry of a tool in the registry (`registry.py`): its icon, what its input and its output say, and its structs.

A module in `tools` exports its entries as `CARDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tooltap.daemon.show.blocks import Body
from tooltap.daemon.show.render_options import Look
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import ToolTypes


def nothing(payload: OpenStruct, look: Look) -> Body:
    """Say nothing: the registry then shows the payload as a tree."""
    return ()


class ToolCard(NamedTuple):
    icon: str
    input: Callable[[Any, Look], Body] = nothing
    """Called with the struct of the input."""
    output: Callable[[Any, Look], Body] = nothing
    """Called with the struct of the result."""
    types: ToolTypes | None = None
    """The structs, where they are not those of `protocol.tools.TOOLS`: the tool has none there, or some providers send
    further keys."""
