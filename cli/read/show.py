"""`tooltap show`: prints one event in one of its views."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option

__all__ = ["command"]


@click.command(
    "show",
    cls=Command,
    examples=(
        "tooltap show 3",
        "tooltap show 3 --view assistant | jq .output",
    ),
)
@click.argument("seq", type=click.IntRange(min=1))
@click.option(
    "--view",
    type=click.Choice(["assistant", "display", "raw"]),
    default="display",
    show_default=True,
    help="What the model saw, what the user sees, or everything including the provider's own object.",
)
@socket_option
def command(seq: int, view: str, socket: Path | None) -> None:
    """Show one event.

    SEQ is the event's number in the journal. The output is JSON: indented on a terminal, one line in a pipe. The
    display view of a result is what the agent or the configuration chose to show the user; if neither did, it is the
    assistant view.
    """
    import orjson

    from tooltap.daemon.system.harmless import harmless

    event = request(socket, "event", seq=seq, view=view)["event"]
    if view == "assistant" and "assistantView" in event:
        click.echo(
            "tooltap: the agent reported only what the user saw of this result, not what the model saw", err=True
        )
    display = event.get("display", {}) if view == "display" else {}
    if "outputId" in display and display.get("mimeType", "text/plain").startswith("text/"):
        display["text"] = _body(socket, display["outputId"])
    if sys.stdout.isatty():
        click.echo(harmless(orjson.dumps(event, option=orjson.OPT_INDENT_2).decode()))
    else:
        click.echo(orjson.dumps(event))


def _body(socket: Path | None, output_id: str) -> str:
    """Fetch a whole output body; the daemon returns it in chunks."""
    text, read, total = "", 0, 1
    while read < total:
        chunk = request(socket, "output", outputId=output_id, offset=read)
        text += chunk.get("text", "")
        read, total = read + chunk["length"], chunk["total"]
    return text
