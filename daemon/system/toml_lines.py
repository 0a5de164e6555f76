"""Where in a TOML file a key stands. `tomllib` tells no positions, so its beginnings are parsed until it is there."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

__all__ = ["line_of"]


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Line (1-based) of valid TOML on which the key is named; None if it is not there."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if path[-1] in line and _has(_parsed(lines, number), path):
            return number
    return None


def _parsed(lines: list[str], number: int) -> Any:
    """The file up to the end of the statement that has line `number`."""
    for end in range(number, len(lines) + 1):
        try:
            return tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
    return {}


def _has(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
