"""`tooltap stats`: prints the daemon's statistics."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.columns import say_wrapped
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.printing import say_object, short
from tooltap.cli.common.statistics import describe_daemon, describe_stream


@click.command(
    "stats",
    cls=Command,
    examples=(
        "tooltap stats",
        "tooltap stats --json | jq .journal",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Print all statistics as one JSON object.")
@wait_option
@socket_option
def command(as_json: bool, socket: Path | None) -> None:
    """Show the daemon's statistics, stream by stream."""
    statistics = request(socket, "stats")
    if as_json:
        say_object(statistics)
        return
    for line in describe_daemon(statistics):
        say_wrapped(line)
    for one in statistics["perStream"]:
        for line in (*describe_stream(one), f"  {short(one['state'])}"):
            say_wrapped(line)
