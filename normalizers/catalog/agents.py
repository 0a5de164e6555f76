"""Command lines of agents: whether one prints a stream, the flags to add where it does not, and its prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tooltap.normalizers.catalog.dialect import Prompt
from tooltap.normalizers.catalog.registry import agents

RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})


READS_STDIN = "-"
"""In place of a prompt: it is read from standard input."""


def missing_flags(command: Sequence[str]) -> str | None:
    """Flags to add so that the agent prints a stream; empty if it never does, None if it will or is unknown."""
    name, arguments = _read(command)
    if name not in agents():
        return None
    agent = agents()[name]
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return None if any(_has(words, flags) for flags in agent.machine_readable) else agent.advice or ""


def agent_of(command: Sequence[str]) -> str:
    """The name of the agent that a command starts; empty if it starts none we know."""
    name, _ = _read(command)
    return name if name in agents() else ""


def prompt_of(command: Sequence[str], stdin: Callable[[], str | None]) -> str | None:
    """The prompt that an agent is given with its command line, or reads from its standard input. None if there is none,
    or none that is certain. `stdin`: what is there to be read, if that is known."""
    name, arguments = _read(command)
    prompt = agents()[name].prompt if name in agents() else None
    if prompt is None:
        return None
    found = _in_arguments(arguments, prompt)
    if found is None or (found in ("", READS_STDIN) and not prompt.stdin):
        return None
    text = stdin() if found in ("", READS_STDIN) else found
    return text if text and text.strip() else None


def _in_arguments(arguments: Sequence[str], prompt: Prompt) -> str | None:
    """The prompt; empty if there is none, None if it is not certain what is."""
    flags, valued, several, never = map(str.split, (prompt.flags, prompt.valued, prompt.several, prompt.never))
    words: list[str] = []
    rest, is_certain = list(arguments), True
    while rest:
        option = rest.pop(0)
        name, given, value = option.partition("=") if option.startswith("--") else (option, "", "")
        if option == "--":
            words, rest = words + rest, []
        elif name in never:
            return None
        elif name in prompt.options and (given or _values(rest, 1)):
            return value if given else rest[0]
        elif option == READS_STDIN or not option.startswith("-"):
            words.append(option)
        elif name not in flags and not given:
            values = _values(rest, len(rest) if name in several else 1)
            is_certain &= not values or name in valued or name in several
            rest = rest[values:]
    if prompt.after and not (words and words.pop(0) in prompt.after):
        return None
    if words and words[0] in prompt.skipped:
        words = words[1 + (0 if prompt.not_skipped in arguments else prompt.skipped[words[0]]) :]
    if prompt.words == "none":
        words = []
    if not is_certain and (prompt.words == "all" or not words):
        return None
    return " ".join(words[:1] if prompt.words == "first" else words)


def _values(words: Sequence[str], most: int) -> int:
    """Number of the next words that are values of an option."""
    return next((at for at, word in enumerate(words[:most]) if word.startswith("-")), min(most, len(words)))


def _read(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name of the program that a command starts, and its arguments."""
    name, *arguments = command
    name = os.path.basename(name.rstrip("/"))
    if name in RUNNERS:
        at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), None)
        if at is None:
            return "", arguments
        scope, sign, version = arguments[at].rpartition("@")
        name = _of_package(scope if scope and sign and version else arguments[at])
        arguments = arguments[at + 1 :]
    return name, arguments


def _of_package(package: str) -> str:
    return next((agent.command for agent in agents().values() if agent.package == package), "")


def _has(words: list[str], flags: str) -> bool:
    start = 0
    for group in (part.split() for part in flags.split("…")):
        found = (at for at in range(start, len(words)) if words[at : at + len(group)] == group)
        if (at := next(found, None)) is None:
            return False
        start = at + len(group)
    return True
