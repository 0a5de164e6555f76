"""Translates a rule of a secret scanner into one for raw lines: the literals with which it begins, and an expression.

Scanners search files; we search lines of JSON, in which quotes and newlines are escaped once or several times. The
expression is matched at one place, that of its literal, and the text that it masks must not contain a quote or a
backslash, so that the line stays JSON.
"""

from __future__ import annotations

import re
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

sre: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

__all__ = ["LeftOut", "Translated", "translate"]

MAX_LITERALS = 64
MIN_LITERAL = 2
DISTINCT = 8
"""Length from which a literal needs no boundary before it. A shorter one occurs in any long base64."""
BEFORE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=[0-9]m))"
"""Left boundary of a token: no letter, digit, `_` or `-` before it, unless they end an escape (a newline) or a color
code."""
FORBIDDEN = frozenset(b"\"'\\ \t\r\n{}[]`")
"""Bytes that a secret must not contain."""

MAX_REPEAT = 32
"""Maximum repetitions before a secret, if the rule has no limit."""
MAX_ANYTHING = 64
"""Maximum length of text that may be anything: at each of its characters the rest is tried again."""
MAX_SECRET = 1_000
"""Maximum repetitions in the middle of a secret. At its end there is no limit, so that all of it is masked."""

SUBSTITUTES = (
    # Two ways to match the same character double the time with each of them.
    (r"(?:.|[\n\r])", r"[\s\S]"),
    (r"(?:.|[\\n\r])", r"[\s\S]"),
    # Between the name and the value, quotes may be escaped.
    (r"""[\s'"]{0,3}""", r"""[\s'"\\]{0,8}"""),
    (r"""[\x60'"\s=]{0,5}""", r"""[\x60'"\s=\\]{0,8}"""),
    # It would be looked at from too many places.
    (r"nasa\.gov/.{0,200}", r"nasa\.gov/"),
    (r".{0,2}\s{0,20}.{0,2}\s{0,20}.{0,2}\b", r"\b"),
    # What must follow is replaced by what may not.
    (r"""(?:\\?['"\x60]|[\s;]|\\[nr]|$)""", ""),
    (r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[nr]))|\z)""", ""),
    (r"""(?:(?:\\?(?:["'`]))|(?:[\x09-\x0D\x20;])|(?:\\(?:[NRnr]))|\z)""", ""),
    (r"(?:\A|(?:[\x00-,\./:-@\[-\^`\{-\xFF]))", r"\b"),
    ("[[:alnum:]]", "[A-Za-z0-9]"),
    # An old form that begins with "s.", as many sentences end.
    (r"|s\.(?i:[a-z0-9]{24})", ""),
)
LEFT_EDGE = re.compile(r"^((?:\(\?[a-z]+\))*)(\(?)(?:\\b|\(\?:\^\|\[(?:\\.|[^\]\\])*\]\))")
RIGHT_EDGE = re.compile(r"(?:\\b|\(\?:\[\^?(?:\\.|[^\]\\])*\]\|(?:\$|\\z)\)|\(\?:\$\|\[\^?(?:\\.|[^\]\\])*\]\))(\)?)$")


class LeftOut(ValueError):
    """Raised for a rule that cannot be translated; the message says why."""


class Translated(NamedTuple):
    literals: tuple[str, ...]
    """The literals with which the expression begins; in lower case if it ignores case there."""
    caseless: bool
    pattern: str
    contextual: bool
    """Whether the literal is a word near the secret, and not the beginning of the secret."""


def translate(source: str, group: int = 0) -> Translated:
    """Translate a rule. Raises `LeftOut`. `group`: of the secret; 0: the first, or the whole match if there is none."""
    text = source
    for old, new in SUBSTITUTES:
        text = text.replace(old, new)
    text = LEFT_EDGE.sub(r"\1\2", text)
    text = RIGHT_EDGE.sub(r"\1", text)
    text, is_open = _bounded(_quotes(_one_group(_scoped(text), group or 1)))
    text = _ANYTHING.sub(lambda match: rf"[\s\S]{{0,{min(int(match[1]), MAX_ANYTHING)}}}?", text)
    text = _EDGE.sub(_edge, text)
    try:
        tree = parser.parse(text.encode())
    except (re.error, UnicodeEncodeError) as error:
        raise LeftOut(f"is written for another engine: {error}") from None
    items = list(tree)
    literals, caseless = _literals(items, bool(tree.state.flags & re.IGNORECASE))
    if not literals or min(map(len, literals)) < MIN_LITERAL:
        raise LeftOut("begins with no literal")
    secret, before = _secret(items)
    if _accepted(secret) & FORBIDDEN:
        raise LeftOut("takes quotes, blanks or backslashes away")
    lead = BEFORE if min(map(len, literals)) < DISTINCT and not before else ""
    after = "" if is_open else "(?![A-Za-z0-9_])"
    return Translated(tuple(sorted(literals)), caseless, f"{lead}{text}{after}", bool(before))


def _one_group(text: str, kept: int) -> str:
    """Keep only the capturing group of the secret."""
    pieces, place, number = [], 0, 0
    for at, char in _structure(text):
        if char == "(" and (text[at + 1] != "?" or text[at + 1 : at + 4] == "?P<"):
            number += 1
            end = text.index(">", at) + 1 if text[at + 1] == "?" else at + 1
            pieces += [text[place:at], "(" if number == kept else "(?:"]
            place = end
    return "".join(pieces) + text[place:]


def _scoped(text: str) -> str:
    """Give inline flags a scope: other engines allow them in the middle, for the rest of the group."""
    while match := re.search(r"\(\?([ism]+)\)", text):
        rest, depth, end = text[match.end() :], 0, len(text) - match.end()
        for place, char in _structure(rest):
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                end = place
                break
        text = f"{text[: match.start()]}(?{match[1]}:{rest[:end]}){rest[end:]}"
    return text


def _quotes(text: str) -> str:
    """Allow backslashes before quotes, which may be escaped."""
    pieces: list[str] = []
    place, within, has_quote, negated = 0, False, False, False
    while place < len(text):
        char = text[place]
        piece = text[place : place + 2] if char == "\\" else char
        place += len(piece)
        quote = piece in ('"', '\\"')
        if within:
            has_quote |= quote
            if piece == "]":
                within = False
                if has_quote and pieces[-1] != "\\\\":
                    piece = "\\\\]"
                    if text[place : place + 1] == "?":
                        piece, place = "\\\\]{0,4}", place + 1
                    elif not negated and text[place : place + 1] not in ("*", "+", "{"):
                        piece = "\\\\]{1,16}"
        elif piece == "[":
            within, has_quote, negated = True, False, text[place : place + 1] == "^"
            if text[place : place + 1] in ("]", "^"):
                piece += text[place]
                place += 1
        elif quote:
            piece = '\\\\{0,15}"'
            if text[place : place + 1] == "?":
                piece, place = '(?:\\\\{0,15}")?', place + 1
        pieces.append(piece)
    return "".join(pieces)


def _bounded(text: str) -> tuple[str, bool]:
    """Limit each repetition, except at the end of the secret; returns whether there is such an unlimited one."""
    pieces: list[str] = []
    place, is_within, is_open = 0, False, False
    secret = max(text.find("(?P<"), *(at for at, char in _structure(text) if char == "(" and text[at + 1] != "?"), -1)
    while place < len(text):
        token = text[place : place + 2] if text[place] == "\\" else text[place]
        place += len(token)
        if is_within:
            is_within = token != "]"
        elif token == "[":
            is_within = True
            if text[place] in "]^":
                token += text[place]
                place += 1
        elif found := _REPEAT.match(text, place - 1):
            place = found.end()
            token = found[0]
            if _NOTHING_MORE.fullmatch(text, place):
                is_open = True
            else:
                most = MAX_REPEAT if place < secret else MAX_SECRET
                token = f"{{{int(found[1] or token == '+')},{most}}}"
        pieces.append(token)
    return "".join(pieces), is_open


_ANYTHING = re.compile(r"\[\\s\\S\]\{0,(\d+)\}\?")
_EDGE = re.compile(r"(\[\\s\\S\]\{0,\d+\}\?)(?:\\b)?(\(+(?:\?:)?(?:\[((?:\\.|[^\]\\])*)\])?)(?!\?)")
_REPEAT = re.compile(r"[*+]|\{(\d+),\}")
_NOTHING_MORE = re.compile(r"(?:\)|(?:=|\[=\])(?:\{0,\d\}|[*?]))*")


def _edge(match: re.Match[str]) -> str:
    """Require a boundary before a secret that follows arbitrary text, so that it is not tried at each of its
    characters."""
    if not match[2].replace("(?:", "").startswith("(") or match[2] == "(?:":
        return match[0]
    edge = r"(?<![A-Za-z0-9_-])" if match[3] and match[3].endswith("-") else r"\b"
    return f"{match[1]}{edge}{match[2]}"


def _structure(text: str) -> list[tuple[int, str]]:
    """Return (place, parenthesis) for those that are neither escaped nor in a set."""
    found, place, within = [], 0, False
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif within:
            within = char != "]"
        elif char == "[":
            within = True
            place += text[place + 1 : place + 2] in ("]", "^")
        elif char in "()":
            found.append((place, char))
        place += 1
    return found


def _literals(items: list[Any], ignore: bool) -> tuple[set[str], bool]:
    found: list[str] = [""]
    for kind, value in items:
        if kind is sre.LITERAL:
            more = [chr(value)]
        elif kind is sre.IN and (chars := _few(value)):
            more = chars
        elif kind is sre.SUBPATTERN:
            inner, its_flags = list(value[3]), value[1]
            within, its_ignore = _literals(inner, ignore or bool(its_flags & re.IGNORECASE))
            ignore = ignore or its_ignore
            if not within:
                break
            found = _joined(found, sorted(within))
            if not _all_literal(inner):
                break
            continue
        elif kind is sre.BRANCH:
            parts = [_literals(list(one), ignore)[0] for one in value[1]]
            if not all(parts):
                break
            found = _joined(found, sorted(set().union(*parts)))
            if not all(_all_literal(list(one)) for one in value[1]):
                break
            continue
        elif kind is sre.MAX_REPEAT and value[:2] == (0, 1) and (inner := _letters(list(value[2]))):
            more = ["", *inner]
        elif kind is sre.MAX_REPEAT and value[0] == value[1] <= 8 and len(inner := _letters(list(value[2]))) == 1:
            more = [inner[0] * value[0]]
        else:
            break
        if len(found) * len(more) > MAX_LITERALS:
            break
        found = _joined(found, more)
        if min(map(len, found)) >= 24:
            break
    literals = {one.lower() if ignore else one for one in found} - {""}
    return (literals if len(literals) <= MAX_LITERALS else set()), ignore


def _joined(first: list[str], second: list[str]) -> list[str]:
    return [one + two for one, two in product(first, second)]


def _all_literal(items: list[Any]) -> bool:
    return all(
        kind is sre.LITERAL
        or (kind is sre.SUBPATTERN and _all_literal(list(value[3])))
        or (kind is sre.BRANCH and all(_all_literal(list(one)) for one in value[1]))
        for kind, value in items
    )


def _letters(items: list[Any]) -> list[str]:
    """Return the texts that a single item can match, if they are few."""
    if len(items) != 1:
        return []
    kind, value = items[0]
    if kind is sre.LITERAL:
        return [chr(value)]
    return _few(value) if kind is sre.IN else []


def _few(value: Any) -> list[str]:
    """Return the members of a small set; empty for a large one."""
    chars = _members(value)
    return sorted(map(chr, chars)) if len(chars) <= 6 else []


def _secret(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the content of the first group, and what precedes it."""
    for number, (kind, value) in enumerate(items):
        if kind is sre.SUBPATTERN and value[0] is not None:
            return list(value[3]), items[:number]
        if kind is sre.SUBPATTERN and value[0] is None:
            inner, before = _secret(list(value[3]))
            if before or (inner is not items and _has_group(list(value[3]))):
                return inner, items[:number] + before
    return items, []


def _has_group(items: list[Any]) -> bool:
    return any(kind is sre.SUBPATTERN and (value[0] is not None or _has_group(list(value[3]))) for kind, value in items)


def _accepted(items: list[Any]) -> set[int]:
    """Return every byte that the expression can match."""
    found: set[int] = set()
    for kind, value in items:
        if kind is sre.LITERAL:
            found.add(value)
        elif kind in (sre.ANY, sre.NOT_LITERAL):
            found |= set(range(256))
        elif kind is sre.IN:
            found |= _members(value)
        elif kind is sre.BRANCH:
            found |= {byte for one in value[1] for byte in _accepted(list(one))}
        elif kind is sre.SUBPATTERN:
            found |= _accepted(list(value[3]))
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            found |= _accepted(list(value[2]))
    return found


def _members(value: Any) -> set[int]:
    chars: set[int] = set()
    negated = False
    for kind, one in value:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            chars.add(one)
        elif kind is sre.RANGE:
            chars |= set(range(one[0], one[1] + 1))
        elif kind is sre.CATEGORY:
            name = str(one)
            every = {
                byte
                for byte in range(128)
                if ("DIGIT" in name and chr(byte).isdigit())
                or ("WORD" in name and (chr(byte).isalnum() or byte == ord("_")))
                or ("SPACE" in name and chr(byte).isspace())
            }
            chars |= set(range(256)) - every if "NOT" in name else every
    return set(range(256)) - chars if negated else chars
