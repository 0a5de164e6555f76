"""`tooltap show`: one event, as a given audience sees it."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from tooltap.cli.connection import ask, socket_option
from tooltap.cli.render import harmless

__all__ = ["command"]


@click.command("show")
@click.argument("seq", type=click.IntRange(min=1))
@click.option(
    "--view",
    type=click.Choice(["assistant", "display", "raw"]),
    default="display",
    show_default=True,
    help="What the model saw, what the user sees, or everything, the provider's own object included.",
)
@socket_option
def command(seq: int, view: str, socket: Path | None) -> None:
    """Show one event.

    SEQ is its number in the journal. Printed is JSON: indented on a terminal, one line in a pipe.
    """
    event = ask(socket, "event", seq=seq, view=view)["event"]
    if sys.stdout.isatty():
        click.echo(harmless(orjson.dumps(event, option=orjson.OPT_INDENT_2).decode()))
    else:
        click.echo(orjson.dumps(event))
