"""Sanitizes whatever is written to standard output and error without `printing.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

MAX_LINE = 5_000
"""Maximum length of a printed line in code points: more than the longest path."""


class Guarded:
    """Standard output or error that sanitizes text and limits the length of its lines: for click's help, tracebacks,
    warnings and the logs of libraries."""

    def __init__(self, unguarded: TextIO) -> None:
        self.unguarded = unguarded

    def write(self, text: str) -> int:
        is_plain = len(text) <= MAX_LINE and text.replace("\n", "").isprintable()
        self.unguarded.write(text if is_plain else _bounded(text))
        self.unguarded.flush()  # `printing.py` writes to what is below
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.unguarded, attribute)


def _bounded(text: str) -> str:
    from tooltap.daemon.system.sanitize import sanitize  # neither `--help` nor an agent's start waits for it

    lines = sanitize(text).split("\n")
    return "\n".join(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…" for line in lines)


def guard() -> None:
    """Replace standard output and error of this process by `Guarded` ones."""
    streams: Any = sys
    for stream in ("stdout", "stderr"):
        if (open_one := getattr(sys, stream)) is not None and not isinstance(open_one, Guarded):
            open_one.reconfigure(errors="backslashreplace")
            setattr(streams, stream, Guarded(open_one))
