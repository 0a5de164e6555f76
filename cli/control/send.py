"""`tooltap send`: gives an agent a prompt, once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.common.printing import say, say_object, short, warn
from tooltap.cli.control.answer import own_name
from tooltap.cli.control.receipts import NOT_YET, accepted_option, wait_for_agent

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
@accepted_option("the prompt")
@json_option("Print the receipt as one JSON object.")
@wait_option
@socket_option
def command(
    session: str, text: str, key: str | None, accepted: float | None, as_json: bool, socket: Path | None
) -> None:
    """Give the agent of a session a prompt.

    SESSION is its id, the beginning of it, words of its title, or "last". In mid-turn, the prompt steers the agent, if
    its protocol can do that. With `-` as TEXT, standard input is sent. The receipt says whether the agent has got it,
    and with --accepted whether the agent shows that it works on it: agents that speak ACP do so when the turn ends.

    Exit codes: 0 the agent has got it; 4 it is journaled, but not delivered yet, or not accepted in time; 1 it was not
    sent, or the agent refuses it.
    """
    from tooltap.cli.read.sessions import find_session

    words = _standard_input() if text == "-" else text
    if not words.strip():
        raise click.UsageError("the prompt is empty")
    if len(words) > MAX_TEXT:
        raise click.UsageError(f"a prompt has at most {MAX_TEXT:,} characters")
    given = {} if key is None else {"key": key}
    found = find_session(socket, session)
    receipt = request(socket, "send", session=found["session"], text=words, by=own_name(), **given)
    finish(socket, found, receipt, accepted, as_json=as_json)


def _standard_input() -> str:
    with open(0, encoding="utf-8", errors="replace", newline="", closefd=False) as opened:
        return opened.read(MAX_TEXT + 1)


def finish(
    socket: Path | None,
    session: dict[str, Any],
    receipt: dict[str, Any],
    accepted: float | None,
    *,
    as_json: bool,
    ends_turn: bool = False,
) -> None:
    """Wait, print what became of a prompt or an interrupt, and exit. `session`: its row, from before it was sent;
    `accepted`: for how many seconds to wait until the agent shows that it has accepted it; `ends_turn`: the end of the
    turn shows that. Raises `click.ClickException` if the agent has not got it, or refuses it."""
    taken = None
    if accepted is not None:
        shown = partial(_shown, receipt, ends_turn=ends_turn)
        taken = wait_for_agent(socket, receipt["stream"], session.get("lastSeq", 0), accepted, shown)
    if as_json:
        say_object({**receipt, **({} if taken is None else {"accepted": taken})})
    elif receipt["delivered"]:
        say("delivered")
    else:
        warn("journaled, but not delivered yet: the agent gets it when its tap is connected again")
    if taken is not None and not as_json:
        say(f"accepted: {taken}")
    if not receipt["delivered"] or (accepted is not None and taken is None):
        raise click.exceptions.Exit(NOT_YET)


def _shown(receipt: dict[str, Any], event: dict[str, Any], *, ends_turn: bool) -> str | None:
    """Say how an event shows that the agent has accepted it; None if it does not. Raises `click.ClickException`."""
    if ends_turn and event["kind"] == "turn" and event["session"] == receipt["session"] and event["state"] != "started":
        return f"the turn is {event['state']}"
    if (event.get("data") or {}).get("sendId") != receipt["id"]:
        return None
    code, reason = event.get("code"), short((event.get("data") or {}).get("reason"))
    if code == "send-failed":
        raise click.ClickException(f"the agent has not got it: {reason}")
    if code == "send-refused":
        raise click.ClickException(f"the agent refuses it: {reason}")
    receipt["delivered"] = receipt["delivered"] or code in ("send-delivered", "send-accepted")
    return "the agent shows it" if code == "send-accepted" else None
