"""The line of a key in a TOML file. `tomllib` reports no positions, so ever longer beginnings of the file are
parsed."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line (1-based) of valid TOML that names the key; None if there is none."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if path[-1] in line and _has(_parsed(lines, number), path):
            return number
    return None


def _parsed(lines: list[str], number: int) -> Any:
    """Parse the file up to the end of the statement that contains line `number`."""
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
