"""The commands that continue a session with its agent, or fork it.

What an agent takes is declared with the agent (`normalizers/catalog/dialect.py`). Ids of sessions come from streams,
and may be anything: one that the agent did not state, or that could be taken for an option, is in no command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tooltap.daemon.system.shell import can_be_pasted, shell_line
from tooltap.normalizers.catalog.dialect import SESSION
from tooltap.normalizers.catalog.registry import agent_of_provider

LONGEST_PATH = 4_096
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


def resume_of(session: Mapping[str, Any]) -> list[str] | None:
    """Return the words of the command that continues a session, to be run in its folder. `session`: as in a reply to
    `sessions`. None if there is no such command."""
    return _words(session, "resume")


def fork_of(session: Mapping[str, Any]) -> list[str] | None:
    """Return the words of the command that continues a copy of a session. None if there is no such command."""
    return _words(session, "fork")


def _words(session: Mapping[str, Any], how: str) -> list[str] | None:
    agent, name = agent_of_provider(str(session["provider"])), str(session["session"])
    if agent is None or name in session["streams"] or _ID.fullmatch(name) is None:
        return None
    arguments: tuple[str, ...] = getattr(agent, how)
    return [agent.command, *(one.replace(SESSION, name) for one in arguments)] if arguments else None


def in_shell(words: Sequence[str], folder: str | None) -> str:
    """Return a command line for a shell that runs a command in a folder. One that cannot be pasted, or that is longer
    than any path, is left out."""
    line = shell_line(*words)
    is_there = folder is not None and folder.startswith("/") and len(folder) < LONGEST_PATH and can_be_pasted([folder])
    return f"{shell_line('cd', folder)} && {line}" if is_there else line
