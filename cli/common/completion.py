"""Shell completion: completers for the values of options and arguments, and how each shell gets their answers.

A shell runs a completer while the user types. Completers therefore import nothing heavy, and treat a daemon that does
not answer at once as absent. Ids and titles of sessions come from agents, so names that a shell or a terminal could
interpret are not offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from tooltap.daemon.system.sanitize import one_line

TIMEOUT = 0.1
"""Seconds for the daemon to accept the connection, and for each read from it."""
MAX_SESSIONS = 50
MAX_DESCRIPTION = 60
"""Characters of a session's description."""

_PLAIN = re.compile(r"[\w.:/@+~-]+")


def dialects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tooltap.normalizers.catalog.registry import dialects

    return _starting_with(incomplete, ["auto", *dialects()])


def providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The providers of the journal's newest sessions, and all providers tooltap knows."""
    from tooltap.normalizers.catalog.registry import agents

    seen = (session.get("provider") for session in _sessions(ctx))
    known = {agent.provider or name for name, agent in agents().items()}
    return _starting_with(incomplete, sorted(known | {name for name in seen if name and _PLAIN.fullmatch(name)}))


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest sessions in the journal; a word of a title matches, too."""
    known = [one for one in _sessions(ctx) if _PLAIN.fullmatch(one["session"])]
    named = [one for one in known if one["session"].startswith(incomplete)] or [
        one for one in known if incomplete.casefold() in str(one.get("title")).casefold()
    ]
    return [CompletionItem(one["session"], help=_description(one)) for one in named]


def hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """This machine, the remotes of the daemon, and those of the journal's newest sessions."""
    known = {".", *_remotes(ctx), *(one["host"] for one in _sessions(ctx) if "host" in one)}
    offered = _starting_with(incomplete, sorted(name for name in known if _PLAIN.fullmatch(name)))
    return [CompletionItem(name, help="this machine" if name == "." else None) for name in offered]


def remotes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The remotes of the daemon."""
    return _starting_with(incomplete, [name for name in _remotes(ctx) if _PLAIN.fullmatch(name)])


def kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from typing import get_args

    from tooltap.protocol.events import AnyEvent

    return _starting_with(incomplete, [str(kind.__struct_config__.tag) for kind in get_args(AnyEvent)])


def tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tooltap.normalizers.tools.registry import KNOWN_TOOLS

    return _starting_with(incomplete, KNOWN_TOOLS)


def formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tooltap.daemon.export.formats import names

    return _starting_with(incomplete, names())


def cursors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting_with(incomplete, ["start", "now"])


def followed_agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The agents that may come next in a comma-separated list, or `all`."""
    from tooltap.normalizers.catalog.registry import stores

    listed, comma, last = incomplete.rpartition(",")
    others = [name for name in stores() if name not in listed.split(",")] + ([] if listed else ["all"])
    return [f"{listed}{comma}{name}" for name in _starting_with(last, others)]


def agent_commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Installed agents and other programs for the first word, then its arguments, which may be files."""
    import shutil

    from tooltap.normalizers.catalog.registry import agents

    installed = [] if ctx.params.get("command") else [name for name in agents() if shutil.which(name)]
    found = [CompletionItem(name) for name in _starting_with(incomplete, installed)]
    return found or [CompletionItem(incomplete, type="file")]


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _description(session: dict[str, Any]) -> str:
    words = f"{session.get('provider', '')} {session.get('title') or session.get('cwd') or ''}"
    return one_line(words, MAX_DESCRIPTION)


def _sessions(ctx: click.Context) -> list[dict[str, Any]]:
    """The newest sessions; empty if no daemon answers in time."""
    found: list[dict[str, Any]] = _ask(ctx, op="sessions", limit=MAX_SESSIONS).get("sessions", [])
    return found


def _remotes(ctx: click.Context) -> list[str]:
    """The names of the daemon's remotes; empty if no daemon answers in time."""
    found = _ask(ctx, op="stats", part="summary").get("remotes") or {}
    return [one["name"] for one in found.get("connections", [])]


def _ask(ctx: click.Context, **asked: str | int) -> dict[str, Any]:
    """The result of a request; empty if no daemon answers in time."""
    import json
    import socket

    from tooltap.daemon.system.listener import peer_uid
    from tooltap.daemon.system.paths import socket_path

    group = {} if ctx.parent is None else ctx.parent.params
    path: Path = ctx.params.get("socket") or group.get("socket") or socket_path()
    try:
        # A raw socket: importing the client takes as long as the rest of a completion.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(path))
            if peer_uid(connection) != os.geteuid():
                return {}
            connection.sendall(json.dumps({"id": 1, **asked}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                for frame in map(json.loads, lines):
                    if frame["op"] == "reply":
                        found: dict[str, Any] = frame["result"]
                        return found
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return {}


LONGEST_DESCRIPTION = 200
"""Maximum length of a completion's description, in code points."""
MAX_VALUE = 256
"""Maximum length of an offered name, in characters; longer ones are left out."""


class _Harmless(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        offered = [item for item in super().get_completions(args, incomplete) if _is_plain(item.value)]
        for item in offered:
            item.help = item.help and one_line(item.help, LONGEST_DESCRIPTION)
        return offered


def _is_plain(value: str) -> bool:
    return len(value) <= MAX_VALUE and value.isprintable()


class _Bash(_Harmless, BashComplete):
    pass


class _Zsh(_Harmless, ZshComplete):
    pass


class _Fish(_Harmless, FishComplete):
    """Fish completion that keeps commas in names and descriptions: the script of click 8.5 cuts them off there."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _shell in SHELLS.values():
    add_completion_class(_shell)
