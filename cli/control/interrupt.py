"""`tooltap interrupt`: interrupts the turn of a session."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.control.answer import own_name
from tooltap.cli.control.send import print_receipt


@click.command("interrupt", cls=Command, examples=("tooltap interrupt last",))
@click.argument("session", shell_complete=completion.sessions)
@json_option("Print the receipt as one JSON object.")
@wait_option
@socket_option
def command(session: str, as_json: bool, socket: Path | None) -> None:
    """Interrupt the turn of a session.

    SESSION is its id, the beginning of it, words of its title, or "last".

    Exit codes: 0 the agent has got it; 4 it is journaled, but not delivered yet; 1 it was not sent.
    """
    from tooltap.cli.read.sessions import find_session

    found = find_session(socket, session)["session"]
    print_receipt(request(socket, "interrupt", session=found, by=own_name()), as_json=as_json)
