"""Texts of people and models as lines that fit: Markdown without its marks, code as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tooltap.cli.common.columns import wrapped
from tooltap.daemon.formats import counted
from tooltap.daemon.system.sanitize import sanitize

_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6} ")
_ITEM = re.compile(r" {0,12}(?:[-*+]|[0-9]{1,3}[.)]) ")
_STRONG = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\(([^()\s]{1,500})\)")


class Line(NamedTuple):
    text: str
    style: str = ""
    """One of those of `printing.py`, or none."""


def prose(text: str, columns: int) -> Iterator[Line]:
    """Markdown as lines of at most so many columns."""
    is_code = False
    for line in sanitize(text).expandtabs(4).strip("\n").split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            yield from (Line(part, "cyan") for part in wrapped(f"    {line}", columns, hanging=4))
        elif heading := _HEADING.match(line):
            yield from (Line(part, "bold") for part in wrapped(_bare(line[heading.end() :]), columns))
        else:
            item = _ITEM.match(line)
            hanging = item.end() if item else len(line) - len(line.lstrip())
            yield from map(Line, wrapped(_bare(line.rstrip()), columns, hanging=min(hanging, columns // 2)))


def plain_lines(text: str, columns: int, most: int | None = None) -> Iterator[str]:
    """A text as it is, wrapped. `most`: how many lines; then a line says how many more there are."""
    lines = (part for line in _lines(text) for part in wrapped(line, columns))
    if most is None:
        yield from lines
        return
    yield from islice(lines, most)
    if rest := sum(1 for _ in lines):
        yield f"… {counted(rest, 'more line')}"


def _lines(text: str) -> list[str]:
    return sanitize(text).expandtabs(4).strip("\n").split("\n")


def _bare(line: str) -> str:
    """Without the marks inside a line."""
    return _LINK.sub(r"\1 (\2)", _CODE.sub(r"\1", _STRONG.sub(r"\1", line)))
