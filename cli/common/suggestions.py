"""Suggests what a mistyped word was meant to be: "did you mean …"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

__all__ = ["Choice", "did_you_mean", "similar"]

MOST = 3
"""Words in one suggestion."""
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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is not known: `; did you mean 'tail'?`, or nothing."""
    found = similar(word, known)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


class Choice(click.Choice[str]):
    """As click's, with a suggestion."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            sentence = error.message.rstrip(".")
            raise click.BadParameter(f"{sentence}{did_you_mean(str(value), self.choices)}", ctx, param) from None
