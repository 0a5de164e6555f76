"""Which of the known words a mistyped one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["similar"]

MOST = 3
"""Words that are suggested for one."""
LONGEST = 100
"""Code points of a word that is compared: the time that comparing takes grows with the square."""


def similar(word: str, known: Iterable[str]) -> list[str]:
    """The words that are most like it, whatever their case, the likeliest first; not the word itself."""
    from difflib import get_close_matches

    if len(word) > LONGEST:
        return []
    by_key = {one.lower(): one for one in known if one != word and len(one) <= LONGEST}
    begun = [one for key, one in by_key.items() if len(word) > 1 and key.startswith(word.lower())]
    close = [by_key[key] for key in get_close_matches(word.lower(), by_key, n=MOST)]
    return list(dict.fromkeys([*close, *begun]))[:MOST]
