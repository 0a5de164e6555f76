"""Command lines that a person pastes into a shell: sh, Bash, zsh or fish."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLAIN = re.compile(r"[A-Za-z0-9_./:+,@-][A-Za-z0-9_./:+,@=-]*")
"""A word that needs no quotes; in zsh, `=` at its beginning finds a program."""


def shell_line(*words: object) -> str:
    """Return a command line of these words.

    `shlex.join` is for sh alone: in fish, a backslash escapes a quote also between quotes, so that a name with both
    would end the word there. Here neither is between quotes.
    """
    return " ".join(map(_quoted, map(str, words)))


def _quoted(word: str) -> str:
    return word if PLAIN.fullmatch(word) else "'" + re.sub(r"[\\']", r"'\\\g<0>'", word) + "'"


def can_be_pasted(words: Iterable[str]) -> bool:
    """Whether a terminal takes none of the words for keys, whatever the quotes, and shows all as they are."""
    return all(map(str.isprintable, words))
