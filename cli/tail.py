"""`tooltap tail`: follows events."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from tooltap.cli.connection import socket_option, talk
from tooltap.cli.render import Renderer, wants_colour
from tooltap.daemon.client import Filter, Subscription, subscribe
from tooltap.protocol.display import decode_display
from tooltap.protocol.frames import Gap, Live

__all__ = ["command"]

FILTERS = {
    "session": "Events of this session.",
    "stream": "Events of this stream.",
    "provider": "Events of this agent (claude, codex, gemini, …).",
    "agent": "Events of this subagent.",
    "kind": "Events of this kind (message, tool-call, …).",
    "tool": "Calls and results of this tool, by its canonical or its own name.",
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
    for name, text in reversed(FILTERS.items()):
        function = click.option(f"--{name}", multiple=True, metavar="NAME", help=f"{text} May be repeated.")(function)
    return function


@click.command("tail")
@click.option(
    "--mode",
    type=click.Choice(["text", "verbose", "json"]),
    default="text",
    show_default=True,
    help="What assistants say; that and a line for each thing that happens; or event lines byte for byte.",
)
@click.option("--after", metavar="CURSOR", help="start, now (the default), a seq, or <journal>:<seq>.")
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
    oldest = None if since is None else (time.time_ns() // 1_000_000) - since * 1_000
    printer = _Printer(mode, oldest)
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


class _Age(msgspec.Struct):
    ts: int = 0


_decoder = msgspec.json.Decoder(_Age)


class _Printer:
    def __init__(self, mode: str, oldest: int | None) -> None:
        self._oldest = oldest
        """ms since the epoch: events of the replay before this are left out."""
        self._out = sys.stdout.buffer
        self._json = mode == "json"
        self._renderer = Renderer(verbose=mode == "verbose", colour=wants_colour(sys.stdout))
        self._live = False

    async def print_all(self, subscription: Subscription) -> None:
        async for item in subscription:
            if isinstance(item, bytes):
                self._print(item)
            elif isinstance(item, Live):
                self._live = True
            elif isinstance(item, Gap):
                why = "they were too old" if item.reason == "retention" else "this is another journal"
                click.echo(f"tooltap: events {item.from_} to {item.to} are gone: {why}", err=True)
            if self._live:
                self._out.flush()
        self._out.flush()

    def _print(self, line: bytes) -> None:
        if self._oldest is not None and not self._live and _decoder.decode(line).ts < self._oldest:
            return
        if self._json:
            self._out.write(line + b"\n")
        elif (shown := decode_display(line)) is not None:
            self._out.write(self._renderer.render(shown).encode())
