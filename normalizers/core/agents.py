"""The agents we know: which arguments make them print a stream, and what to say when they are missing.

An agent in its interactive mode needs the terminal to itself, so a tap on its output would break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

__all__ = ["AGENTS", "missing_flags"]


class Agent(NamedTuple):
    machine_readable: tuple[str, ...]
    """Any of these, in its command line, makes it print a stream; `…` stands for anything between."""
    advice: str
    provider: str | None = None
    """What its events say, where that is not the command's name."""


AGENTS = {
    "claude": Agent(
        ("--output-format stream-json", "--output-format json"), "-p --output-format stream-json --verbose"
    ),
    "codex": Agent(("exec … --json", "e … --json", "mcp-server", "app-server"), "exec --json"),
    "gemini": Agent(
        ("--output-format stream-json", "-o stream-json", "--acp", "--experimental-acp"),
        "-p … --output-format stream-json",
    ),
    "opencode": Agent(("run … --format json", "acp"), "run --format json"),
    "qwen": Agent(("--output-format stream-json", "-o stream-json", "--acp"), "-p … --output-format stream-json"),
    "cursor-agent": Agent(("--output-format stream-json", "acp"), "-p --output-format stream-json", "cursor"),
    "copilot": Agent(("--output-format json", "--acp"), "-p … --output-format json"),
    "pi": Agent(("--mode json", "--mode rpc"), "--mode json"),
    "kimi": Agent(("--print … --output-format stream-json", "acp"), "--print --output-format stream-json"),
    "cline": Agent(("--json", "--acp"), "--json"),
    "vibe": Agent(("--output streaming",), "-p … --output streaming"),
}
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode",
    "@qwen-code/qwen-code": "qwen",
    "@github/copilot": "copilot",
}
RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx"})


def missing_flags(command: Sequence[str]) -> str | None:
    """What to add so that the agent prints a stream; None if it will, or if it is none we know."""
    name, *arguments = command
    name = PurePath(name).name
    if name in RUNNERS:
        package = next((word for word in arguments if not word.startswith("-")), "")
        scope, at, version = package.rpartition("@")
        name = PACKAGES.get(scope if scope and at and version else package, "")
    agent = AGENTS.get(name)
    if agent is None:
        return None
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return None if any(_has(words, flags) for flags in agent.machine_readable) else agent.advice


def _has(words: list[str], flags: str) -> bool:
    start = 0
    for group in (part.split() for part in flags.split("…")):
        found = (at for at in range(start, len(words)) if words[at : at + len(group)] == group)
        if (at := next(found, None)) is None:
            return False
        start = at + len(group)
    return True
