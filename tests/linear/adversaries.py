"""Adversarial texts for a regular expression, made from its own parts: if it is not linear, they take long.

Backtracking is expensive for a loop that can begin or end at many places, before something that does not match. So a
text has what precedes a loop once or many times, what the loop repeats many times, and an end that does not match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

__all__ = ["Adversary", "adversaries", "literals"]

_REPEATS = tuple(
    getattr(names, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(names, name)
)
_CATEGORY = {
    names.CATEGORY_DIGIT: "1",
    names.CATEGORY_NOT_DIGIT: "a",
    names.CATEGORY_SPACE: " ",
    names.CATEGORY_NOT_SPACE: "a",
    names.CATEGORY_WORD: "a",
    names.CATEGORY_NOT_WORD: "-",
}
_COMMON = ("a", "1", " ", "\n", "A", "_", "-", ".", "/", '"', "\\", "<", ":")
_ENDS = ("", "\x01", "\n\x01")


class Adversary(NamedTuple):
    head: str
    pump: str
    tail: str
    heads: bool = False
    """Whether half of the text are heads, and half are pumps."""

    def text(self, size: int) -> str:
        room = size - len(self.tail)
        if self.heads:
            return self.head * (room // 2 // len(self.head)) + self.pump * (room // 2 // len(self.pump)) + self.tail
        return self.head + self.pump * max(1, (room - len(self.head)) // len(self.pump)) + self.tail

    def __str__(self) -> str:
        return (
            f"{self.head[:60]!r}{' many times' if self.heads else ''} + {self.pump[:60]!r} many times + {self.tail!r}"
        )


def _char(items: Any) -> str:
    """Return a character that a set matches."""
    negated = items[0][0] is names.NEGATE
    if negated:
        return next(char for char in "a1 -/.\n<>\"'\\:;,\x02漢" if not _in(items[1:], char))
    op, value = items[0]
    if op is names.LITERAL:
        return chr(value)
    if op is names.RANGE:
        return chr(value[0])
    return _CATEGORY.get(value, "a")


def _in(items: Any, char: str) -> bool:
    for op, value in items:
        if op is names.LITERAL and ord(char) == value:
            return True
        if op is names.RANGE and value[0] <= ord(char) <= value[1]:
            return True
        if op is names.CATEGORY:
            like = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
            name = str(value).removeprefix("CATEGORY_").removeprefix("UNI_")
            if like[name.removeprefix("NOT_")] != name.startswith("NOT_"):
                return True
    return False


class _Walk:
    """Traverses a parsed expression, and notes each loop with the text before it."""

    def __init__(self) -> None:
        self.loops: list[tuple[str, str]] = []
        """(text before the loop, text that the loop repeats)."""
        self.words: set[str] = set()
        self.groups: dict[int, str] = {}

    def sample(self, parts: Any, before: str) -> str:
        """Return a text that the parts match, ignoring most lookarounds."""
        made = ""
        word = ""
        for op, value in parts:
            one, is_literal = self._one(op, value, before + made)
            made += one
            if is_literal:
                word += one
            else:
                self._note(word)
                word = ""
        self._note(word)
        return made

    def _note(self, word: str) -> None:
        if word:
            self.words.add(word)

    def _one(self, op: Any, value: Any, before: str) -> tuple[str, bool]:
        if op is names.LITERAL:
            return chr(value), True
        if op is names.NOT_LITERAL:
            return ("a" if chr(value) != "a" else "b"), False
        if op is names.ANY:
            return "a", False
        if op is names.IN:
            return _char(value), False
        if op is names.BRANCH:
            texts = [self.sample(branch, before) for branch in value[1]]
            return min(texts, key=lambda one: (not one, len(one))), False
        if op is names.SUBPATTERN:
            text = self.sample(value[3], before)
            if value[0] is not None:
                self.groups[value[0]] = text
            return text, False
        if op is getattr(names, "ATOMIC_GROUP", None):
            return self.sample(value, before), False
        if op in _REPEATS:
            least, most, body = value
            once = self.sample(body, before)
            if most > 1 and once:
                self.loops.append((before + once * least, once))
                for one_op, one_value in body:
                    if one_op is names.IN:
                        self.loops += [(before, char) for char in _COMMON if _matches(one_value, char)]
                    elif one_op in (names.ANY, names.NOT_LITERAL):
                        self.loops += [(before, char) for char in _COMMON]
                    elif one_op is names.BRANCH:
                        self.loops += [(before, text) for one in one_value[1] if (text := _Walk().sample(one, ""))]
            return once * max(least, min(1, most)), False
        if op is names.GROUPREF:
            return self.groups.get(value, "a"), False
        if op in (names.ASSERT, names.ASSERT_NOT):
            direction, body = value
            inner = _Walk()
            text = inner.sample(body, "")
            self.words |= inner.words
            if direction > 0:
                self.loops += [(before + head, pump) for head, pump in inner.loops]
            return (text if op is names.ASSERT and direction < 0 and not before.endswith(text) else ""), False
        return "", False


def _matches(items: Any, char: str) -> bool:
    negated = items[0][0] is names.NEGATE
    return _in(items[1:] if negated else items, char) != negated


def _walked(pattern: str, flags: int) -> tuple[_Walk, str]:
    walk = _Walk()
    whole = walk.sample(parser.parse(pattern, flags), "")
    return walk, whole


def literals(pattern: str, flags: int = 0) -> set[str]:
    """Return the literal words in an expression."""
    return _walked(pattern, flags)[0].words


def adversaries(pattern: str | bytes, flags: int = 0) -> list[Adversary]:
    if isinstance(pattern, bytes):
        pattern = pattern.decode("latin-1")
    walk, whole = _walked(pattern, flags)
    loops = list(dict.fromkeys(walk.loops))
    return list(dict.fromkeys(one for one in _made(loops, walk.words, whole) if one.pump))


def _made(loops: list[tuple[str, str]], words: Iterable[str], whole: str) -> Iterator[Adversary]:
    pumps = list(dict.fromkeys([*(pump for _, pump in loops), " ", "\n", "a"]))
    for head, pump in loops:
        for end in _ENDS:
            yield Adversary(head, pump, end)
            if head:
                yield Adversary("", head + pump, end)
        if head:
            yield Adversary(head, pump, "", heads=True)
            yield Adversary("", head, "")
            yield Adversary("", head + "\n", "\x01")
        # What an earlier loop leaves to a later one.
        for other in pumps:
            if other != pump:
                yield Adversary(head, pump + other, "\x01")
    for word in sorted(words):
        for end in _ENDS:
            yield Adversary("", word, end)
        yield Adversary("", word + "\n", "\x01")
        yield Adversary("", word + " ", "\x01")
        yield Adversary("", "a" + word, "\x01")
    for part in {whole, whole[:-1], whole[1:], whole + "\n", whole + " "}:
        yield Adversary("", part, "")
        yield Adversary("", part, "\x01")
    for cut in range(1, min(len(whole), 80)):
        yield Adversary("", whole[:cut], "\x01")
        for pump in pumps[:4]:
            yield Adversary(whole[:cut], pump, "\x01")
