"""`tooltap tail`: follows events."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completing
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import socket_option, talk

__all__ = ["command"]

FILTERS = {
    "session": ("Events of this session.", completing.sessions),
    "stream": ("Events of this stream.", None),
    "provider": ("Events of this agent (claude, codex, gemini, …).", completing.providers),
    "agent": ("Events of this subagent.", None),
    "kind": ("Events of this kind (message, tool-call, …).", completing.kinds),
    "tool": ("Calls and results of this tool, by its canonical or its own name.", completing.tools),
}
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def _in_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)([smhd])", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no length of time, such as 90s, 10m, 2h or 1d", ctx, param)
    return int(match[1]) * UNITS[match[2]]


def _filter_options(function: Any) -> Any:
    for name, (text, names) in reversed(FILTERS.items()):
        option = click.option(
            f"--{name}", multiple=True, metavar="NAME", shell_complete=names, help=f"{text} May be repeated."
        )
        function = option(function)
    return function


@click.command(
    "tail",
    cls=Command,
    examples=(
        "tooltap tail",
        "tooltap tail --mode verbose --since 2h --provider claude",
        "tooltap tail --mode json --after start --no-follow --kind tool-result | jq .name",
        "tooltap tail --tool Bash --tool Edit --mode verbose",
    ),
)
@click.option(
    "--mode",
    type=click.Choice(["text", "verbose", "json"]),
    default="text",
    show_default=True,
    help="What assistants say; that and a line for each thing that happens; or event lines byte for byte.",
)
@click.option(
    "--after",
    metavar="CURSOR",
    shell_complete=completing.cursors,
    help="start, now (the default), a seq, or <journal>:<seq>.",
)
@click.option("--since", callback=_in_seconds, metavar="DURATION", help="Begin with events this old: 90s, 10m, 2h, 1d.")
@click.option("--follow/--no-follow", default=True, help="Go on with new events, or end where the journal does.")
@click.option("--partials", is_flag=True, help="Previews of unfinished text too (mode json).")
@_filter_options
@socket_option
def command(
    mode: str,
    after: str | None,
    since: int | None,
    follow: bool,
    partials: bool,
    socket: Path | None,
    **filters: tuple[str, ...],
) -> None:
    """Follow events.

    A daemon that goes away is waited for, and followed from where it left off.
    """
    if since is not None and after is not None:
        raise click.UsageError("--since and --after both say where to begin")
    if partials and mode != "json":
        raise click.UsageError("--partials goes with --mode json")
    from tooltap.cli.common.printer import Printer
    from tooltap.daemon.client.subscription import subscribe
    from tooltap.protocol.filters import Filter

    oldest = None if since is None else (time.time_ns() // 1_000_000) - since * 1_000
    printer = Printer(mode, oldest)
    start = after or ("now" if since is None else "start")

    async def follow_events() -> None:
        async with subscribe(
            after=int(start) if start.isdecimal() else start,
            filter=Filter(**{name: values for name, values in filters.items() if values}),
            partials=partials,
            as_="events" if mode == "json" else "display",
            follow=follow,
            reconnect=follow,
            path=socket,
        ) as subscription:
            await printer.print_all(subscription)

    talk(follow_events)
