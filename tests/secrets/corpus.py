"""Public corpus: the fake secrets that are examples of a scanner's rules.

`kingfisher-bin` (Apache-2.0) is a program that has its rules inside, as YAML; up to this version each has examples. It
is installed where they are measured (`make lab-secrets`), and they are never stored here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

__all__ = ["PACKAGE", "Example", "PackagedRule", "examples", "packaged_rules"]

PACKAGE = "kingfisher-bin==1.90.0"
_RULE = re.compile(
    rb"  - name: ([^\n]*)\n    id: (kingfisher\.[^\n]*)\n"
    rb"(.*?)(?=\n  - name: |\nrules/|\x00|rules/[a-z0-9_]+\.ymlrules:)",
    re.S,
)
_ENTROPY = re.compile(r"    min_entropy: ([0-9.]+)")
NO_SECRET = re.compile(
    r"(?i)user ?name|client ?id|application id|public|publish|subscri\w+ key|\bURL\b|\bID$|domain|e-?mail"
)
"""Matches names of rules that find no secret."""
_PATTERN = re.compile(r"    pattern: (?:\|-?\n((?:      [^\n]*\n|\n)+)|(\S[^\n]*)\n)")
_EXAMPLES = re.compile(r"    examples:\n((?:      [^\n]*\n|\n)+)")
_HOST = re.compile(r"\.(?:com)?$")
"""Matches a group that is a host, or the beginning of one."""
_ITEM = re.compile(r"^      - (.*(?:\n(?:        .*)?)*)", re.M)


class Example(NamedTuple):
    rule: str
    text: str
    secret: str | None
    """The secret that the rule finds; None if its expression is for another engine, or does not match its own
    example."""


class PackagedRule(NamedTuple):
    id: str
    name: str
    pattern: str
    """The expression, without the whitespace and comments that it has in the package."""
    group: int
    """Group of the secret; 0 if there is none."""
    least_entropy: float
    examples: tuple[str, ...]


def examples() -> Iterator[Example]:
    for rule in packaged_rules():
        if not NO_SECRET.search(rule.name):
            for text in rule.examples:
                yield Example(rule.id, text, _secret(rule, text))


def packaged_rules() -> Iterator[PackagedRule]:
    data = (files("kingfisher") / "bin" / "kingfisher").read_bytes()
    for match in _RULE.finditer(data):
        body = match[3].decode(errors="replace") + "\n"
        if "    visible: false" in body:
            continue  # not a secret, but what one is used with
        pattern, listed, least = _PATTERN.search(body), _EXAMPLES.search(body), _ENTROPY.search(body)
        if pattern is None:
            continue
        source = _dense(pattern[1] or pattern[2].strip("'"))
        groups = re.findall(r"(?<!\\)\((?!\?)|(?<!\\)\(\?P<(\w+)>", source)
        group = groups.index("TOKEN") + 1 if "TOKEN" in groups else min(len(groups), 1)
        yield PackagedRule(
            match[2].decode(),
            match[1].decode(),
            source,
            group,
            float(least[1]) if least else 0.0,
            tuple(_unquoted(item[1]) for item in _ITEM.finditer(listed[1])) if listed else (),
        )


def _dense(pattern: str) -> str:
    """Remove the whitespace and comments that `(?x)` allows in an expression."""
    match = re.match(r"\s*\(\?([a-z]*)\)", pattern)
    if match is None or "x" not in match[1]:
        return pattern.strip()
    flags = match[1].replace("x", "")
    kept, within, place = [], False, match.end()
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            kept.append(pattern[place : place + 2])
            place += 1
        elif not within and char == "#":
            place = pattern.find("\n", place) if "\n" in pattern[place:] else len(pattern)
        elif within or not char.isspace():
            kept.append(char)
            if char == "[" and not within:
                within = True
                if pattern[place + 1 : place + 2] in ("]", "^"):
                    kept.append(pattern[place + 1])
                    place += 1
            elif char == "]":
                within = False
        place += 1
    return (f"(?{flags})" if flags else "") + "".join(kept)


def _unquoted(item: str) -> str:
    item = item.rstrip("\n")
    if item.startswith("|"):
        return "\n".join(line.strip() for line in item.split("\n")[1:])
    if item.startswith("'") and item.endswith("'"):
        return item[1:-1].replace("''", "'")
    if item.startswith('"') and item.endswith('"'):
        return item[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    return item


def _secret(rule: PackagedRule, text: str) -> str | None:
    try:
        match = re.search(rule.pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z"), text)
    except re.error:
        return None
    if match is None:
        return None
    if "TOKEN" in match.groupdict():
        return match["TOKEN"]
    # The name of an account stands before its password, and the host after it.
    return next((group for group in reversed(match.groups()) if group and not _HOST.search(group)), match[0])
