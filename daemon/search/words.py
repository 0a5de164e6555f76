"""How a text becomes the words of the index, and where in the text each of them is.

Words are compared in their compatible form (NFKC): characters of another width, ligatures and circled digits are the
plain ones. In scripts without spaces each character is a word, so that a word is a phrase. The humps of identifiers
(`HTTP`, `Server` and `Error` of `HTTPServerError`) are words of their own, in another column: the identifier itself
stays one word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

SPACE = "\x1f"
"""Separator between characters of scripts without spaces. Text never contains it, because control characters other than
white space are replaced."""

Range: TypeAlias = tuple[int, int]
"""Start and end in a text, in code points."""

# Han, kana, hangul: a word is any run of characters.
_UNSPACED = re.compile(
    "([\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f])"
)
_MARKS = str.maketrans({"™": " ", "℠": " "})
"""Signs that are no part of the word before them, though their compatible form has letters."""
# What normalizing joins: a character with the marks, the sound marks of kana, and the vowels and finals of hangul.
_CLUSTER = re.compile("[^\\W\\d_]?[\u0300-\u036f\u3099\u309a\uff9e\uff9f\u1160-\u11ff\uffa0-\uffdc]+|.", re.DOTALL)
_IDENTIFIER = re.compile(
    "(?<![A-Za-z0-9])(?=[A-Z]*+[a-z0-9]++[A-Z]|[A-Z]{2}[A-Z]*+[a-z]{2})[A-Za-z0-9]{4,64}+(?![A-Za-z0-9])"
)
_HUMP = re.compile("[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*")


class Words(NamedTuple):
    """What is indexed of a text."""

    text: str
    humps: str


def words_of(text: str) -> Words:
    same = folded(text)
    return Words(spaced(same), _humps(_identifiers(same)))


def folded(text: str) -> str:
    """Return a text in its compatible form."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_MARKS))


def spaced(text: str) -> str:
    """Put `SPACE` around each character of a script that has no spaces between words."""
    return text if text.isascii() else _UNSPACED.sub(f"{SPACE}\\1{SPACE}", text)


def humps_of(word: str) -> list[str]:
    """Return the humps of an identifier; none if it has fewer than two, or is not one."""
    return _HUMP.findall(word) if _IDENTIFIER.fullmatch(word) else []


def _identifiers(text: str) -> dict[str, int]:
    """Return the identifiers with humps, each once, and where it is."""
    found: dict[str, int] = {}
    for one in _IDENTIFIER.finditer(text):
        found.setdefault(one[0], one.start())
    return found


def _humps(identifiers: Iterable[str]) -> str:
    return " ".join([" ".join(_HUMP.findall(one)) for one in identifiers])


# -- from the index back to the text ----------------------------------------------------------------------------------


def ranges_in(text: str, words: Sequence[Range], humps: Sequence[Range]) -> list[Range]:
    """Return the ranges of a text that are ranges of its `Words`, in order, without overlaps. `words`: in the folded
    text; `humps`: in the humps."""
    same = folded(text)
    found = [*words, *_unhumped(_identifiers(same), humps)]
    if not text.isascii():
        places = _places(text, same)
        found = [(places[start][0], places[end - 1][1]) for start, end in found]
    return _merged(found)


def _unhumped(identifiers: dict[str, int], ranges: Sequence[Range]) -> list[Range]:
    """Return the ranges of humps as ranges of the text; neighbours in an identifier are one range."""
    found: list[Range] = []
    humps = ((one, start) for word, start in identifiers.items() for one in _HUMP.finditer(word))
    at, hump = 0, next(humps, None)
    for first, last in ranges:
        begin: int | None = None
        end = 0
        while hump is not None and at < last:
            one, start = hump
            if at >= first:
                if begin is not None and start + one.start() != end:
                    found.append((begin, end))
                    begin = None
                begin = start + one.start() if begin is None else begin
                end = start + one.end()
            at += one.end() - one.start() + 1
            hump = next(humps, None)
        if begin is not None:
            found.append((begin, end))
    return found


def _places(text: str, same: str) -> list[Range]:
    """Return, for each character of the compatible form, the range of the text that it stands for."""
    places: list[Range] = []
    for one in _CLUSTER.finditer(text):
        places += [one.span()] * len(folded(one[0]))
    return places if len(places) == len(same) else [(0, len(text))] * len(same)


def _merged(ranges: Sequence[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges, key=itemgetter(0)):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
