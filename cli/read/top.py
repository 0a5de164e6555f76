"""`tooltap top`: a live board of the running sessions."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tooltap.cli.common.changes import Changes
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option
from tooltap.cli.common.printing import at_terminal, lines_of, say_text, wants_colour
from tooltap.cli.common.terminal import LiveScreen

if TYPE_CHECKING:
    from tooltap.cli.read.running import Running

SESSIONS = 200
"""Newest sessions that are searched for running ones."""
PAUSE = 0.3
"""Minimum seconds between two requests to the daemon, however many events arrive."""
TICK = 1.0
"""Seconds between two redraws that only update the times."""


@click.command("top", cls=Command, examples=("tooltap top", "tooltap top --once"))
@click.option("--once", is_flag=True, help="Print the board once, then exit.")
@wait_option
@socket_option
def command(once: bool, socket: Path | None) -> None:
    """Watch the running sessions.

    Sessions that wait for a permission are on top, with the question and where to answer it. The board changes with
    every event; q or Ctrl-C leaves it. If the output is not a terminal, the board is printed once, as a table.
    """
    if not once and LiveScreen.is_possible():
        _watch(socket)
        return
    from tooltap.cli.common.columns import print_table, terminal_columns
    from tooltap.cli.read.running import COLUMNS, board, row_of

    running, others = _ask(socket)
    if at_terminal():
        size = terminal_columns(), 2 * len(running) + 4
        say_text(lines_of(*board(running, others, _now(), size, colour=wants_colour())))
    else:
        print_table(COLUMNS, [row_of(one, _now()) for one in running])


def _ask(socket: Path | None) -> tuple[list[Running], int]:
    """Return the running sessions, and the number of other sessions among the newest.

    Display lines say when to ask: they have neither what was open before, nor sums in which nothing counts twice."""
    from tooltap.cli.read.running import running_sessions

    sessions = request(socket, "sessions", limit=SESSIONS)["sessions"]
    running = running_sessions(sessions, request(socket, "calls"))
    return running, len(sessions) - len(running)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _watch(socket: Path | None) -> None:
    from tooltap.cli.read.running import board

    running, others = _ask(socket)
    problem, asked = "", time.monotonic()
    with LiveScreen() as screen:
        changes = Changes(socket, screen.wake)
        while True:
            columns, lines = shutil.get_terminal_size()
            screen.draw(board(running, others, _now(), (columns, lines), colour=wants_colour(), problem=problem))
            pause = max(asked + PAUSE - time.monotonic(), 0)
            if "q" in screen.wait(pause if changes.are_there and pause else TICK):
                return
            if changes.are_there and asked + PAUSE <= time.monotonic():
                changes.are_there = False
                asked = time.monotonic()
                try:
                    running, others = _ask(socket)
                    problem = ""
                except click.ClickException as error:
                    problem = error.message
