"""Suggests what a mistyped word was meant to be: "did you mean …"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

__all__ = ["Choice", "did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is not known: `; did you mean 'tail'?`, or nothing."""
    from tooltap.daemon.similar import similar

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
