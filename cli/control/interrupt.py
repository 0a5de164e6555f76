"""`tooltap interrupt`: interrupts the turn of a session."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.control.answer import own_name
from tooltap.cli.control.receipts import accepted_option
from tooltap.cli.control.send import finish


@click.command("interrupt", cls=Command, examples=("tooltap interrupt last",))
@click.argument("session", shell_complete=completion.sessions)
@accepted_option("the interrupt")
@json_option("Print the receipt as one JSON object.")
@wait_option
@socket_option
def command(session: str, accepted: float | None, as_json: bool, socket: Path | None) -> None:
    """Interrupt the turn of a session.

    SESSION is its id, the beginning of it, words of its title, or "last".

    The receipt says whether the agent has got it, and with --accepted whether the agent confirms it, or ends the turn.

    Exit codes: 0 the agent has got it; 4 it is journaled, but not delivered yet, or not accepted in time; 1 it was not
    sent, or the agent refuses it.
    """
    from tooltap.cli.read.sessions import find_session

    found = find_session(socket, session)
    receipt = request(socket, "interrupt", session=found["session"], by=own_name())
    finish(socket, found, receipt, accepted, as_json=as_json, ends_turn=True)
