"""`tooltap stats`: prints the daemon's statistics."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option
from tooltap.cli.common.statistics import describe_daemon, describe_stream

__all__ = ["command"]


@click.command(
    "stats",
    cls=Command,
    examples=(
        "tooltap stats",
        "tooltap stats --json | jq .journal",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Print all statistics as one JSON object.")
@socket_option
def command(as_json: bool, socket: Path | None) -> None:
    """Show the daemon's statistics, stream by stream."""
    statistics = request(socket, "stats")
    if as_json:
        import orjson

        click.echo(orjson.dumps(statistics))
        return
    click.echo(describe_daemon(statistics))
    for one in statistics["perStream"]:
        click.echo(f"{describe_stream(one)}\n  {one['state']}")
