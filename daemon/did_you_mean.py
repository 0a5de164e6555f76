"""Suggestions for mistyped words ("did you mean …?")."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 3
"""Most suggestions for a word."""
LONGEST = 100
"""Longest word compared, in code points: the comparison is quadratic in the length."""


def similar(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words most similar to `word`, ignoring case, best first; never the word itself."""
    from difflib import get_close_matches

    if len(word) > LONGEST:
        return []
    by_key = {one.lower(): one for one in known if one != word and len(one) <= LONGEST}
    begun = [one for key, one in by_key.items() if len(word) > 1 and key.startswith(word.lower())]
    close = [by_key[key] for key in get_close_matches(word.lower(), by_key, n=MOST)]
    return list(dict.fromkeys([*close, *begun]))[:MOST]
