"""Snippets of hits, with the words that were found highlighted.

The index keeps no text. To highlight, hit texts are re-extracted from their events and tokenized in memory, by the same
tokenizer. That also finds out whether the words are in an event at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tooltap.daemon.search.index import TOKENIZER
from tooltap.normalizers.stream.searchable import SPACE, spaced

LENGTH = 160
"""Code points of a snippet."""
LEAD = 40
"""Code points of a snippet before the first word that was found."""
BEGIN, END = "\x02", "\x03"
"""Marks around a word; no text has them."""


class Snippet(NamedTuple):
    """A piece of a text."""

    text: str
    """One line; `…` where something is left out."""
    ranges: list[tuple[int, int]]
    """Code points of it that were searched for: start and end."""


class Highlighter:
    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='{TOKENIZER}')")

    def close(self) -> None:
        self._connection.close()

    def snippets(self, texts: Sequence[str], expression: str) -> list[Snippet | None]:
        """A snippet of each text; None for one that the expression does not match."""
        execute = self._connection.execute
        self._connection.executemany(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)",
            [(number, spaced(text)) for number, text in enumerate(texts)],
        )
        try:
            marked = dict(
                execute(
                    "SELECT rowid, highlight(texts, 0, ?, ?) FROM texts WHERE texts MATCH ?", (BEGIN, END, expression)
                ).fetchall()
            )
        finally:
            execute("DELETE FROM texts")
        return [_snippet(marked[number]) if number in marked else None for number in range(len(texts))]


def _snippet(marked: str) -> Snippet:
    text, ranges = _ranges(marked.replace(SPACE, ""))
    start = _start(ranges)
    lead = max(0, start - LEAD)
    if lead:  # begin with a word
        space = text.find(" ", lead, start)
        lead = lead if space < 0 else space + 1
    end = min(len(text), lead + LENGTH)
    before, after = "…" if lead else "", "…" if end < len(text) else ""
    shift = len(before) - lead
    within = [
        (max(first, lead) + shift, min(last, end) + shift) for first, last in ranges if first < end and last > lead
    ]
    return Snippet(f"{before}{text[lead:end]}{after}", within)


def _ranges(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without marks, on one line, and the ranges that were marked."""
    parts, ranges, at = [], [], 0
    head, *rest = marked.split(BEGIN)
    parts.append(head)
    at = len(head)
    for one in rest:
        found, _, after = one.partition(END)
        ranges.append((at, at + len(found)))
        parts += found, after
        at += len(found) + len(after)
    text = "".join(parts)
    return "".join([" " if one.isspace() else one for one in text]), ranges


def _start(ranges: Sequence[tuple[int, int]]) -> int:
    """The start of the range from which most ranges fit into a snippet."""
    best, most, last = 0, 0, 0
    for first, (start, _) in enumerate(ranges):
        while last < len(ranges) and ranges[last][1] <= start + LENGTH - LEAD:
            last += 1
        if last - first > most:
            best, most = start, last - first
    return best if most else ranges[0][0] if ranges else 0
