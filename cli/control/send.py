"""`tooltap send`: gives an agent a prompt, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.common.printing import say, say_object, warn
from tooltap.cli.control.answer import NOT_YET, own_name

MAX_TEXT = 100_000
"""Code points of a prompt."""


@click.command(
    "send",
    cls=Command,
    examples=("tooltap send last 'Use the other database'", "tooltap send 0d3f - --key review-1 < review.md"),
)
@click.argument("session", shell_complete=completion.sessions)
@click.argument("text")
@click.option("--key", metavar="NAME", help="The agent gets a prompt with this key once, however often it is sent.")
@json_option("Print the receipt as one JSON object.")
@wait_option
@socket_option
def command(session: str, text: str, key: str | None, as_json: bool, socket: Path | None) -> None:
    """Give the agent of a session a prompt.

    SESSION is its id, the beginning of it, words of its title, or "last". In mid-turn, the prompt steers the agent, if
    its protocol can do that. With `-` as TEXT, standard input is sent.

    Exit codes: 0 the agent has got it; 4 it is journaled, but not delivered yet; 1 it was not sent.
    """
    from tooltap.cli.read.sessions import find_session

    words = _standard_input() if text == "-" else text
    if not words.strip():
        raise click.UsageError("the prompt is empty")
    if len(words) > MAX_TEXT:
        raise click.UsageError(f"a prompt has at most {MAX_TEXT:,} characters")
    given = {} if key is None else {"key": key}
    found = find_session(socket, session)["session"]
    print_receipt(request(socket, "send", session=found, text=words, by=own_name(), **given), as_json=as_json)


def _standard_input() -> str:
    with open(0, encoding="utf-8", errors="replace", newline="", closefd=False) as opened:
        return opened.read(MAX_TEXT + 1)


def print_receipt(receipt: dict[str, Any], *, as_json: bool) -> None:
    """Print what became of a prompt or an interrupt."""
    if as_json:
        say_object(receipt)
    elif receipt["delivered"]:
        say("delivered")
    else:
        warn("journaled, but not delivered yet: the agent gets it when its tap is connected again")
    if not receipt["delivered"]:
        raise click.exceptions.Exit(NOT_YET)
