"""`tooltap waiting`: lists what waits for a person."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common.columns import fit, terminal_columns
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import agent_option, host_option, json_option, project_option
from tooltap.cli.common.printing import (
    at_terminal,
    joined,
    say,
    say_object,
    say_text,
    short,
    styled,
    wants_colour,
    warn,
)
from tooltap.cli.read.sessions import find_projects, short_ids
from tooltap.daemon.formats import spent
from tooltap.daemon.sessions.listing import asked_text, folder_name, option_names

HEADS = ("SEQ", "FOR", "TYPE", "AGENT", "PROJECT", "SESSION", "TITLE", "ASKED", "OPTIONS")
MAX_TEXT = 500
"""Code points of any text that are printed."""


@click.command(
    "waiting",
    cls=Command,
    examples=(
        "tooltap waiting",
        "tooltap waiting --json | jq -r '.waiting[].session'",
        "tooltap waiting --brief",
    ),
)
@agent_option(help="Sessions of this agent (claude, codex, gemini, …). May be repeated.")
@project_option("Sessions in this directory: its path, or its name. May be repeated.")
@host_option("Sessions of")
@click.option(
    "--may-after",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="After how long an open call in a session file may be waiting for a permission.",
)
@json_option("Print the daemon's answer as one JSON object.")
@click.option("--brief", is_flag=True, help="Print one line for a status line: how many wait, and which. Else nothing.")
@wait_option
@socket_option
def command(
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    may_after: int,
    as_json: bool,
    brief: bool,
    socket: Path | None,
) -> None:
    """List what waits for you: permissions, questions and plans.

    Only what has no answer yet is listed; what has waited longest comes first. An agent's own session file states no
    requests for permissions: if a call in one is open for long, its session is listed last, as one that may be waiting.
    Pass the number before a line to `tooltap show`.
    """
    if as_json and brief:
        raise click.UsageError("--json and --brief exclude each other")
    filters = {"provider": agent, "project": find_projects(socket, project), "host": host}
    given = {name: value for name, value in filters.items() if value}
    if not brief:
        warn_of_unread(socket)
    answer = request(socket, "waiting", mayAfter=may_after * 1_000, **given)
    if as_json:
        say_object(answer)
    elif brief:
        _print_brief([one for one in answer["waiting"] if one.get("certain", True)])
    elif answer["waiting"]:
        (_print_lines if at_terminal() else _print_rows)(answer["waiting"], time.time_ns() // 1_000_000)
        if not answer["complete"]:
            warn("more sessions wait than are listed here")
    else:
        warn("no session waits for you")


def _print_brief(waiting: list[dict[str, Any]]) -> None:
    if waiting:
        which = dict.fromkeys(
            f"{one['provider']} {folder_name(str(one.get('project') or ''))}".strip() for one in waiting
        )
        say(f"{len(waiting)} waiting: {short(', '.join(which))}")


def _print_rows(waiting: list[dict[str, Any]], now: int) -> None:
    say_text("\t".join(HEADS) + "\n")
    for one in waiting:
        cells = (
            one["seq"],
            _age(one, now),
            _type(one),
            one["provider"],
            one.get("project"),
            one["session"],
            one.get("title"),
            short(asked_text(one), MAX_TEXT),
            " | ".join(short(name) for name in option_names(one)),
        )
        say_text("\t".join("" if cell is None else short(cell, MAX_TEXT) for cell in cells) + "\n")


def _print_lines(waiting: list[dict[str, Any]], now: int) -> None:
    """Print what is asked in one line, and in a second one where: the title, the folder, the agent, the session."""
    width = terminal_columns()
    digits = max(len(str(one["seq"])) for one in waiting)
    for one, name in zip(waiting, short_ids([one["session"] for one in waiting]), strict=True):
        options = " | ".join(short(name) for name in option_names(one))
        asked = f"{_type(one)}: {short(asked_text(one), MAX_TEXT)}" + (f"  [{options}]" if options else "")
        line = fit(f"{one['seq']:>{digits}}  {asked}", width)
        say(styled(line, "yellow" if one.get("certain", True) else "dim") if wants_colour() else line)
        host = f"on {one['host']}" if "host" in one else ""
        about = (
            one.get("title"),
            folder_name(str(one.get("project") or "")),
            one["provider"],
            host,
            _age(one, now),
            name,
        )
        where = fit(" " * (digits + 2) + " · ".join(short(part) for part in about if part), width)
        say(joined([styled(where, "dim") if wants_colour() else where]))


def _type(one: dict[str, Any]) -> str:
    return str(one["type"]) if one.get("certain", True) else f"may be waiting ({one['type']})"


def _age(one: dict[str, Any], now: int) -> str | None:
    return None if (since := one.get("since")) is None else spent(max(now - since, 0))
