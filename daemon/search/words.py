"""What a user typed, words and "quoted phrases", becomes an expression of the index: an event must have all of them.

Everything is made a phrase, so SQLite takes nothing that was typed as syntax. `journal.db` is the phrase of
two words next to each other. The last word may be the beginning of one, as it is while somebody types.
"""

from __future__ import annotations

import re

from tooltap.normalizers.stream.searchable import SPACE, spaced

__all__ = ["LONGEST_QUERY", "MOST_WORDS", "expression_of"]

LONGEST_QUERY = 1_000
"""Code points."""
MOST_WORDS = 16
"""Words and phrases; more are left out."""
SHORTEST_PREFIX = 3
"""Letters of a word that may be the beginning of another one."""

_PARTS = re.compile(r'"([^"]*)"?|([^\s"]+)')


def expression_of(query: str) -> str:
    """Empty if there is nothing to search for: no letter and no digit."""
    phrases = []
    is_open = False
    for found in _PARTS.finditer(query[:LONGEST_QUERY].replace("\0", " ")):
        text = found[1] if found[2] is None else found[2]
        if any(one.isalnum() for one in text):
            phrases.append(text)
            is_open = found[2] is not None and found.end() == len(query)
    phrases = phrases[:MOST_WORDS]
    expression = " ".join(f'"{spaced(one).replace(SPACE, " ")}"' for one in phrases)
    if is_open and _last_word(phrases[-1]) >= SHORTEST_PREFIX:
        expression += "*"
    return expression


def _last_word(text: str) -> int:
    """Length of the letters and digits at the end."""
    for length, one in enumerate(reversed(text)):
        if not one.isalnum():
            return length
    return len(text)
