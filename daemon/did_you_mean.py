"""Suggestions for mistyped words, of those that are known."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 3
"""Suggestions for a word."""
LONGEST = 100
"""Longest word compared, in code points; comparing is quadratic."""


def similar(word: str, known: Iterable[str]) -> list[str]:
    """Return the words most like it, in any case, the likeliest first; not the word itself."""
    from difflib import get_close_matches

    if len(word) > LONGEST:
        return []
    by_key = {one.lower(): one for one in known if one != word and len(one) <= LONGEST}
    begun = [one for key, one in by_key.items() if len(word) > 1 and key.startswith(word.lower())]
    close = [by_key[key] for key in get_close_matches(word.lower(), by_key, n=MOST)]
    return list(dict.fromkeys([*close, *begun]))[:MOST]
