"""`tooltap answer`: answers what an agent asks, once, with a receipt."""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.common.printing import MAX_ID, at_terminal, say, say_object, short, warn
from tooltap.cli.control.asking import MAX_TEXT, ask_person, outcome_of
from tooltap.cli.control.receipts import NOT_YET, accepted_option, wait_for_agent


@click.command(
    "answer",
    cls=Command,
    examples=(
        "tooltap answer",
        "tooltap answer 0d3f --allow",
        "tooltap answer 0d3f --deny --message 'Run the tests first'",
        "tooltap answer 0d3f --answer 'Which database?=Postgres' --accepted 10",
    ),
)
@click.argument("wanted", required=False, metavar="[QUESTION|SESSION]", shell_complete=completion.sessions)
@click.option("--allow", is_flag=True, help="Allow it, this once.")
@click.option("--deny", is_flag=True, help="Deny it, this once.")
@click.option("--always", is_flag=True, help="Allow it, or with --deny deny it, now and later, as the agent offers it.")
@click.option("--option", metavar="ID", help="Choose one of the options that the agent offers.")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="QUESTION=CHOICE",
    help="The answer to a question: its number from 1, its id, or its text. Again for another choice or question.",
)
@click.option("--message", metavar="TEXT", help="With --deny: the reason, for the agent.")
@accepted_option("the answer")
@json_option("Print the receipt as one JSON object.")
@wait_option
@socket_option
def command(
    wanted: str | None,
    allow: bool,
    deny: bool,
    always: bool,
    option: str | None,
    answers: tuple[str, ...],
    message: str | None,
    accepted: float | None,
    as_json: bool,
    socket: Path | None,
) -> None:
    """Answer what an agent asks.

    QUESTION is the `permissionId` of a question in `tooltap waiting --json`. SESSION is the session that asks: its id,
    the beginning of it, words of its title, or "last". On a terminal, what is left out is asked for.

    The first answer wins, and only what the agent offers can be chosen. The receipt says that the answer is journaled,
    whether the agent has got it, and with --accepted whether it shows so itself.

    Exit codes: 0 answered; 3 somebody else was first, who is named; 4 journaled, but not delivered yet, or not accepted
    in time; 1 not answered.
    """
    if allow and deny:
        raise click.UsageError("--allow and --deny exclude each other")
    if answers and (allow or deny or always or option is not None):
        raise click.UsageError("--answer excludes --allow, --deny, --always and --option")
    if message is not None and not deny:
        raise click.UsageError("--message goes with --deny")
    is_stated = bool(allow or deny or always or answers or option is not None)
    if not (is_stated and wanted) and (as_json or not at_terminal()):
        raise click.UsageError("say which question, and what to answer; `tooltap waiting` lists what waits")
    questions = _questions(socket, wanted)
    if not is_stated or wanted is None:
        if is_stated:
            raise click.UsageError("say which question; `tooltap waiting` lists what waits")
        if (chosen := ask_person(socket, questions)) is None:
            return
        question, fields = chosen
    else:
        question = _the_one(questions)
        if answers:
            fields = {"outcome": "answered", "answers": _keyed(question, answers)}
        else:
            outcome = "denied" if deny else "allowed"
            if option is not None and not (allow or deny):
                outcome = outcome_of(question, option) or outcome
            fields = {"outcome": outcome, "optionId": option, "remember": always, "message": message}
    asked = {"permissionId": wanted, **{key: question[key] for key in ("permissionId", "stream") if key in question}}
    given = {key: value for key, value in fields.items() if value not in (None, False)}
    receipt = request(socket, "answer", **asked, **given, by=own_name())
    taken = _accepted(socket, receipt, accepted) if accepted is not None else None
    if as_json:
        say_object({**receipt, **({} if taken is None else {"accepted": taken})})
    else:
        _print_receipt(receipt, question, taken)
    if not receipt["delivered"] or (accepted is not None and taken is None):
        raise click.exceptions.Exit(NOT_YET)


def own_name() -> str:
    """Return the name by which the journal knows who answers: that of the user's login."""
    with suppress(OSError, KeyError):
        return getpass.getuser()[:200]
    return "a user"


# -- which question --------------------------------------------------------------------------------------------------


def _questions(socket: Path | None, wanted: str | None) -> list[dict[str, Any]]:
    """Return what waits: all, or what is wanted. Nothing if `wanted` can only be a question that waits no longer."""
    from tooltap.cli.read.sessions import UnknownSessionError, find_session

    waiting = [one for one in request(socket, "waiting")["waiting"] if "permissionId" in one]
    if wanted is None:
        return waiting
    if named := [one for one in waiting if one["permissionId"] == wanted]:
        return named
    try:
        session = find_session(socket, wanted)["session"]
    except UnknownSessionError:
        return []
    if not (asked := [one for one in waiting if one["session"] == session]):
        raise click.ClickException(f"the session {short(session, MAX_ID)} waits for no answer")
    return asked


def _the_one(questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the question; empty if the daemon has to say what became of it."""
    if len(questions) > 1:
        names = ", ".join(f"{short(one['permissionId'])} of {short(one['session'], MAX_ID)}" for one in questions)
        raise click.ClickException(f"several questions wait, so name one by its id: {names}")
    return questions[0] if questions else {}


def _keyed(question: dict[str, Any], answers: Sequence[str]) -> dict[str, Any]:
    """Return the answers by what the daemon knows the questions by."""
    asked = question.get("questions") or []
    keys: dict[str, str] = {}
    for number, one in enumerate(asked, 1):
        key = str(one.get("id") or one.get("question"))
        keys |= {str(number): key, str(one.get("question")): key, key: key}
    found: dict[str, Any] = {}
    for answer in answers:
        begun = [name for name in keys if answer.startswith(f"{name}=")]
        name, equals, _ = answer.partition("=")
        if begun:
            name = max(begun, key=len)
        elif not equals:
            raise click.UsageError(f"--answer is QUESTION=CHOICE, not {answer!r}")
        key, choice = keys.get(name, name), answer[len(name) + 1 :]
        found[key] = choice if key not in found else [*_listed(found[key]), choice]
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# -- the receipt -----------------------------------------------------------------------------------------------------


def _accepted(socket: Path | None, receipt: dict[str, Any], seconds: float) -> str | None:
    """Wait until the agent shows the outcome of its request, and return it; None if it does not do so in time. Raises
    `click.ClickException` if the answer cannot reach the agent any more."""

    def shown(event: dict[str, Any]) -> str | None:
        if event["kind"] == "permission-response" and event["permissionId"] == receipt["permissionId"]:
            receipt["delivered"] = True
            return str(event["outcome"])
        if (event.get("data") or {}).get("permissionId") != receipt["permissionId"]:
            return None
        if event.get("code") == "answer-failed":
            raise click.ClickException(f"the answer did not reach the agent: {event.get('text')}")
        if event.get("code") == "answer-delivered":
            receipt["delivered"] = True
        return None

    return wait_for_agent(socket, receipt["stream"], receipt["seq"], seconds, shown)


def _print_receipt(receipt: dict[str, Any], question: dict[str, Any], taken: str | None) -> None:
    from tooltap.daemon.sessions.listing import asked_text

    asked = short(asked_text(question), MAX_TEXT) or short(receipt["permissionId"], MAX_ID)
    say(f"{receipt['outcome']}: {asked}")
    if "remembers" in receipt:
        say(f"from now on: {short(receipt['remembers'], MAX_TEXT)}")
    clock = time.strftime("%H:%M:%S", time.localtime(receipt["ts"] / 1_000))
    say(f"journaled at {clock}, by {short(receipt['by'])}")
    if receipt["delivered"]:
        say("delivered")
    else:
        warn("not delivered yet: the agent gets it when its tap is connected again")
    if taken is not None:
        say(f"accepted: the agent shows {short(taken)}")
