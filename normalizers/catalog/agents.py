"""Whether a command starts an agent that prints a stream, and what to add where it does not."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tooltap.normalizers.catalog.registry import agents

__all__ = ["missing_flags"]

RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})


def missing_flags(command: Sequence[str]) -> str | None:
    """What to add so that the agent prints a stream; None if it will, or if it is none we know."""
    name, *arguments = command
    name = os.path.basename(name.rstrip("/"))
    if name in RUNNERS:
        package = next((word for word in arguments if not word.startswith("-")), "")
        scope, at, version = package.rpartition("@")
        name = _of_package(scope if scope and at and version else package)
    agent = agents().get(name)
    if agent is None:
        return None
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return None if any(_has(words, flags) for flags in agent.machine_readable) else agent.advice


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
