"""`tooltap watch`: rings when a session waits, is done, or has failed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common.changes import Changes
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.filters import agent_option, project_option
from tooltap.cli.common.printing import (
    MAX_ID,
    at_terminal,
    joined,
    say,
    say_text,
    short,
    styled,
    terminal,
    wants_colour,
    warn,
)

if TYPE_CHECKING:
    from tooltap.daemon.notifications.rules import CallRule
    from tooltap.daemon.notifications.watch import Call, Watch

REASONS = ("waiting", "done", "failed")
PAUSE = 0.3
"""Minimum seconds between two looks at the sessions, however many events arrive."""
SESSIONS = 200
"""Sessions with the latest events that are looked at."""
MAX_TEXT = 500
"""Code points of any text that are printed."""
BELL = "\a"
COLOURS = {"waiting": "yellow", "done": "green", "failed": "red"}


@click.command("watch", cls=Command, examples=("tooltap watch", "tooltap watch --on waiting --after 30 --project shop"))
@click.option(
    "--on",
    multiple=True,
    type=Choice(REASONS),
    default=REASONS,
    help="Ring only for this: what waits for you, what is done, or what has failed. May be repeated.",
)
@click.option(
    "--after",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long it must have lasted: what you answer before does not ring.",
)
@agent_option(help="Sessions of this agent (claude, codex, gemini, …). May be repeated.")
@project_option("Sessions in this directory: its path, or its name. May be repeated.")
@wait_option
@socket_option
def command(
    on: tuple[Any, ...], after: float, agent: tuple[str, ...], project: tuple[str, ...], socket: Path | None
) -> None:
    """Ring when a session waits for you, is done, or has failed.

    Each question and each end of a turn is one line, and on a terminal it rings the bell. What was asked within the
    last hour and still waits rings, too; what ended before does not. Ctrl-C ends it. If the daemon goes away, watch
    waits for it.
    """
    from tooltap.cli.read.sessions import find_projects
    from tooltap.daemon.notifications.rules import CallRule
    from tooltap.daemon.notifications.watch import Watch

    rules = [CallRule(on=on, after=after, agents=agent, projects=tuple(find_projects(socket, project)))]
    started = _now()
    watch: Watch[CallRule] = Watch(started)
    _look(watch, socket, started)  # without a daemon, this is the end
    woken = threading.Event()
    changes = Changes(socket, woken.set)
    problem = ""
    while True:
        for rule, call in watch.due(rules, time.monotonic()):
            _ring(rule, call)
        woken.wait(watch.next_due(rules, time.monotonic()))
        time.sleep(PAUSE)
        woken.clear()
        changes.are_there = False
        try:
            _look(watch, socket, started)
            problem = ""
        except click.ClickException as error:
            if error.message != problem:
                problem = error.message
                warn(f"{problem}; waiting for it")


def _look(watch: Watch[CallRule], socket: Path | None, started: int) -> None:
    import msgspec

    from tooltap.protocol.replies import WaitingResult

    rows = request(socket, "sessions", since=started, order="time", limit=SESSIONS)["sessions"]
    asked = msgspec.convert(request(socket, "waiting"), WaitingResult).waiting
    watch.look(rows, [one for one in asked if one.certain], time.monotonic(), _now())


def _ring(rule: CallRule, call: Call) -> None:
    from tooltap.cli.common.columns import columns_of, fit, terminal_columns
    from tooltap.daemon.notifications.watch import text_of, title_of

    title, text = short(title_of(rule, call)), short(text_of(rule, call), MAX_TEXT)
    if not at_terminal():
        say_text("\t".join((call.reason, short(call.session["session"], MAX_ID), title, text)) + "\n")
        return
    columns = terminal_columns()
    head = fit(f"{time.strftime('%H:%M')} {title}", columns)
    rest = fit(f"  {text}", columns - columns_of(head))
    terminal().write(BELL)
    say(joined([styled(head, COLOURS[call.reason]) if wants_colour() else head, rest]))


def _now() -> int:
    return time.time_ns() // 1_000_000
