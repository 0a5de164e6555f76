"""Reads shell commands as far as rules for answers need it.

`parts_of` reads a text that is certain to run just the simple commands that it returns, in any POSIX shell: words,
quotes, and the operators `;`, `&&`, `||`, `|` and newline. It refuses everything else: substitutions, variables,
redirections to files, background jobs, assignments, keywords, comments. So nothing can be allowed by what it only seems
to be. `runs` is the opposite: it finds a command wherever it may be, so that nothing escapes a rule that denies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

MOST = 4_096
"""Code points of a command that is read. Longer texts may be cut in an event."""
MASKED = "[masked "
"""The beginning of what stands for a masked secret, which may have been anything."""
RESERVED = {
    *("if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "select"),
    *("function", "time", "coproc", "{", "}", "[[", "]]", "!"),
}
RUNNERS = {
    *("sudo", "doas", "su", "env", "nohup", "nice", "ionice", "timeout", "time", "xargs", "parallel", "command"),
    *("exec", "builtin", "eval", "source", ".", "stdbuf", "setsid", "watch", "ssh", "find", "fd", "sh", "bash"),
    *("zsh", "dash", "ksh", "fish", "busybox", "script", "chroot", "unshare", "flock", "trap"),
}
"""Commands that run what is among their arguments."""
MOST_NESTED = 4
"""Commands within arguments of commands that are read."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HARMLESS = re.compile(r"(?:[12]?>&[12]|(?:[12]|&)?>[ \t]*/dev/null|<[ \t]*/dev/null)(?=[ \t\n;|]|&&|\Z)")
"""A redirection that writes no file and reads none."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=")
_EXPANDED = frozenset("*?[]{}~^")
"""Signs by which a shell makes other words of an unquoted word."""
_QUOTES = re.compile(r"['\"\\]")
_SEPARATORS = re.compile(r"[\s;&|()<>{}$`\"'\\]+")


class Word(NamedTuple):
    text: str
    is_literal: bool = True
    """The program gets just this text: nothing in it is expanded."""


Part: TypeAlias = tuple[Word, ...]
Pattern: TypeAlias = tuple[str, ...]


class _NotSimpleError(ValueError):
    """The text has more than simple commands."""


def parts_of(command: str) -> list[Part] | None:
    """Return the simple commands that a text runs; None if it is not certain that it runs just these."""
    if len(command) > MOST or MASKED in command or _CONTROL.search(command):
        return None
    try:
        parts = list(_Reader(command).parts())
    except _NotSimpleError:
        return None
    return parts or None


def pattern_of(text: str) -> Pattern:
    """Return the words of a pattern. Raises `ValueError`."""
    words = tuple(shlex.split(text))
    if not words:
        raise ValueError("the pattern of a command has a word")
    return words


def covers(pattern: Pattern, part: Part) -> bool:
    """Return whether a pattern is of this simple command: word by word. `*` is any word, and as the last one any number
    of words; within a word, it is any text without `/`."""
    is_open = pattern[-1] == "*"
    fixed = pattern[:-1] if is_open else pattern
    if len(part) < len(fixed) or (not is_open and len(part) != len(fixed)):
        return False
    return all(_covers_word(wanted, word) for wanted, word in zip(fixed, part, strict=False))


def runs(pattern: Pattern, command: str) -> bool:
    """Return whether a text may run a command that begins with the words of a pattern: as a part, by another command
    such as `sudo` or `sh -c`, or anywhere in a text that is more than simple commands."""
    fixed = pattern[:-1] if len(pattern) > 1 and pattern[-1] == "*" else pattern
    return any(_begins(fixed, words) for words in _anywhere(command, len(fixed)))


class _Reader:
    """Reads one text. Raises `_NotSimpleError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words: list[Word] = []
        self._word: list[str] | None = None
        """Code points of the word that is being read."""
        self._is_literal = True
        self._is_bare = True
        """Nothing in the word is quoted."""
        self._needs_more = False
        """A command has to follow: an operator is the last thing."""

    def parts(self) -> Iterator[Part]:
        text = self._text
        while self._at < len(text):
            sign = text[self._at]
            if self._word is None and (harmless := _HARMLESS.match(text, self._at)):
                self._at = harmless.end()
            elif sign in " \t":
                self._end_word()
                self._at += 1
            elif sign in "\n;|&":
                if (part := self._end_part(self._operator(sign))) is not None:
                    yield part
            elif sign in "<>":
                self._end_before_redirection()
            elif sign in "$`()" or (sign == "#" and self._word is None) or not sign.isascii():
                raise _NotSimpleError  # some shells take bytes of other letters for blanks
            else:
                self._read_in_word(sign)
        if (part := self._end_part("\n")) is not None:
            yield part
        if self._needs_more:
            raise _NotSimpleError

    def _operator(self, sign: str) -> str:
        operator = sign * 2 if sign in "|&" and self._text.startswith(sign * 2, self._at) else sign
        self._at += len(operator)
        if operator == "&" or self._text.startswith(("|&", ";;"), self._at - 1):
            raise _NotSimpleError
        return operator

    def _end_part(self, operator: str) -> Part | None:
        self._end_word()
        words, self._words = tuple(self._words), []
        if not words:
            if operator != "\n":
                raise _NotSimpleError
            return None
        self._needs_more = operator in ("&&", "||", "|")
        first = words[0]
        if not first.is_literal or first.text in RESERVED or _ASSIGNMENT.match(first.text):
            raise _NotSimpleError
        return words

    def _end_before_redirection(self) -> None:
        """End the word before a harmless redirection: `make>/dev/null`. A number there is a file descriptor."""
        if self._word is None or (self._is_bare and "".join(self._word).isdecimal()):
            raise _NotSimpleError
        self._end_word()
        if not _HARMLESS.match(self._text, self._at):
            raise _NotSimpleError

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append(Word("".join(self._word), self._is_literal))
        self._word, self._is_literal, self._is_bare = None, True, True

    def _read_in_word(self, sign: str) -> None:
        self._at += 1
        if sign == "\\" and self._text.startswith("\n", self._at):
            self._at += 1  # the line goes on
            return
        is_first = self._word is None
        word = self._word = self._word or []
        if sign in "'\"\\":
            self._is_bare = False
            word.extend(self._quoted(sign))
            return
        if sign in _EXPANDED or (sign == "=" and is_first):  # zsh puts the path of a command in place of `=command`
            self._is_literal = False
        word.append(sign)

    def _quoted(self, quote: str) -> Iterator[str]:
        text = self._text
        if quote == "\\":
            if self._at == len(text):
                raise _NotSimpleError
            self._at += 1
            yield text[self._at - 1]
            return
        while True:
            if self._at == len(text):
                raise _NotSimpleError
            sign = text[self._at]
            self._at += 1
            if sign == quote:
                return
            if quote == '"' and sign in "$`":
                raise _NotSimpleError
            if quote == '"' and sign == "\\" and text[self._at : self._at + 1] in ("$", "`", '"', "\\", "\n"):
                sign = text[self._at].replace("\n", "")
                self._at += 1
            yield sign


def _covers_word(wanted: str, word: Word) -> bool:
    if wanted == "*":
        return True
    if not word.is_literal:
        return False
    if "*" not in wanted:
        return word.text == wanted
    if word.text.startswith("-") and not wanted.startswith("-"):
        return False
    patterns, parts = wanted.split("/"), word.text.split("/")
    return ".." not in parts and len(parts) == len(patterns) and all(map(_is_like, patterns, parts))


def _anywhere(command: str, most: int, depth: int = MOST_NESTED) -> Iterator[list[str]]:
    """Yield the words, `most` at most, from each place at which a command may begin."""
    parts = parts_of(command)
    if parts is None:
        for text in (command, _QUOTES.sub("", command)):
            words = [word for word in _SEPARATORS.split(text) if word]
            yield from (words[at : at + most] for at in range(len(words)))
        return
    for part in parts:
        words = [word.text for word in part]
        yield words[:most]
        if _base(words[0]) in RUNNERS:
            yield from (words[at : at + most] for at in range(1, len(words)))
            for word in words[1:]:
                if depth and len(word.split()) > 1:
                    yield from _anywhere(word, most, depth - 1)


def _begins(fixed: Sequence[str], words: Sequence[str]) -> bool:
    if len(words) < len(fixed):
        return False
    first, *rest = fixed
    program = words[0] if "/" in first else _base(words[0])
    return _is_like(first.casefold(), program.casefold()) and all(map(_is_like, rest, words[1:]))


def _is_like(pattern: str, text: str) -> bool:
    """Whether a text is as a pattern says, in which `*` is any text. Takes the first place for each part, so that the
    time does not grow with the number of ways to match."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        if (found := text.find(part, at, end)) < 0:
            return False
        at = found + len(part)
    return True


def _base(word: str) -> str:
    return word.rpartition("/")[2]
