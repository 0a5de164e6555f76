"""What a shell can complete besides commands, options and paths: the names that stand in options and arguments.

A shell asks while somebody types. So nothing heavy is imported, and a daemon that does not answer at once is none. Ids
and titles of sessions come from agents: what could mean something to a shell or a terminal is left out.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tooltap.normalizers.core.registry import agents

__all__ = ["agent_commands", "cursors", "dialects", "followed", "kinds", "providers", "sessions", "tools"]

PATIENCE = 0.1
"""Seconds for the daemon to take a connection, and for each of its answers."""
SESSIONS = 50
TITLE = 60
"""Characters of what is said of a session."""

_PLAIN = re.compile(r"[\w.:/@+~-]+")


def dialects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tooltap.normalizers.core.registry import dialects

    return _beginning(incomplete, ["auto", *dialects()])


def providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those of the journal's newest sessions, and all we know."""
    seen = (session.get("provider") for session in _sessions(ctx))
    known = {agent.provider or name for name, agent in agents().items()}
    return _beginning(incomplete, sorted(known | {name for name in seen if name and _PLAIN.fullmatch(name)}))


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The journal's newest."""
    found = {one["session"]: one for one in _sessions(ctx) if _PLAIN.fullmatch(one["session"])}
    return [CompletionItem(name, help=_about(found[name])) for name in _beginning(incomplete, found)]


def kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from typing import get_args

    from tooltap.protocol.events import AnyEvent

    return _beginning(incomplete, [str(kind.__struct_config__.tag) for kind in get_args(AnyEvent)])


def tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS, LATER_TOOLS

    return _beginning(incomplete, [*CANONICAL_TOOLS, *LATER_TOOLS])


def cursors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _beginning(incomplete, ["start", "now"])


def followed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """One more agent of a list with commas."""
    from tooltap.daemon.taps.follow.places import AGENTS

    named, comma, begun = incomplete.rpartition(",")
    others = [name for name in AGENTS if name not in named.split(",")]
    return [f"{named}{comma}{name}" for name in _beginning(begun, others)]


def agent_commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """First an agent that is installed, or another program; then its arguments, which may be files."""
    installed = [] if ctx.params.get("command") else [name for name in agents() if shutil.which(name)]
    found = [CompletionItem(name) for name in _beginning(incomplete, installed)]
    return found or [CompletionItem(incomplete, type="file")]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _about(session: dict[str, Any]) -> str:
    words = f"{session.get('provider', '')} {session.get('title') or session.get('cwd') or ''}"
    return "".join(letter if letter.isprintable() else " " for letter in words[:TITLE]).strip()


def _sessions(ctx: click.Context) -> list[dict[str, Any]]:
    """None without a daemon that answers."""
    import json
    import socket

    from tooltap.daemon.system.paths import socket_path

    outer = {} if ctx.parent is None else ctx.parent.params
    place: Path = ctx.params.get("socket") or outer.get("socket") or socket_path()
    try:
        # Not by the client, whose import takes as long as all the rest of a completion.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(place))
            connection.sendall(json.dumps({"op": "sessions", "id": 1, "limit": SESSIONS}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                for frame in map(json.loads, lines):
                    if frame["op"] == "reply":
                        found: list[dict[str, Any]] = frame["result"]["sessions"]
                        return found
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return []
