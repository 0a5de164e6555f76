"""`tooltap usage`: tokens and costs, summed up by day, model, project, agent, session or subagent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from tooltap.cli.common import completion
from tooltap.cli.common.columns import columns_of, fit, fit_end, padded, terminal_columns, wrapped
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import request, socket_option, wait_option, warn_of_unread
from tooltap.cli.common.filters import agent_option, host_option, period_options, project_option
from tooltap.cli.common.moments import Day
from tooltap.cli.common.printing import at_terminal, say, say_object, say_text, short
from tooltap.cli.read.sessions import NO_EVENTS, find_projects, find_session, short_ids
from tooltap.daemon.formats import bound, counted, dollars, is_cost_bound, over_budget, quota_words, spent
from tooltap.daemon.system.optional_packages import how_to_install
from tooltap.daemon.system.zone import zone_name

BY = ("day", "model", "project", "agent", "session", "subagent")


@click.command(
    "usage",
    cls=Command,
    examples=(
        "tooltap usage",
        "tooltap usage --by model --since 7d",
        "tooltap usage --by session --json | jq .rows[0]",
    ),
)
@click.option("--by", type=click.Choice(BY), default="day", show_default=True, help="What to group by.")
@period_options(
    (Day(), Day(is_end=True)), "DAY", "The first day: yesterday, 2026-11-24, or 7d for a week ago.", "The last day."
)
@click.option(
    "--session",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.sessions,
    help='Only this session: its id, the beginning of it, words of its title, or "last". May be repeated.',
)
@agent_option(help="Only sessions of this agent (claude, codex, gemini, …). May be repeated.")
@project_option("Only sessions in this directory: its path, or its name. May be repeated.")
@host_option("Only sessions of")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@wait_option
@socket_option
def command(
    by: str,
    since: int | None,
    until: int | None,
    session: tuple[str, ...],
    agent: tuple[str, ...],
    project: tuple[str, ...],
    host: tuple[str, ...],
    as_json: bool,
    socket: Path | None,
) -> None:
    """Show sums of the tokens and costs of sessions.

    A cost is the agent's own figure if it states one. Otherwise it is an estimate from the prices of the models, marked
    with ~. Days are those of your time zone.
    """
    bounds: dict[str, Any] = {
        "since": since,
        "until": until,
        "session": [find_session(socket, name)["session"] for name in session] or None,
        "provider": agent or None,
        "project": find_projects(socket, project) or None,
        "host": host or None,
    }
    warn_of_unread(socket)
    found = request(socket, "usage", by=by, zone=zone_name(), **bounds)
    if as_json:
        say_object(found)
        return
    if not found["rows"]:
        say(_why_nothing(socket, is_chosen=any(value is not None for value in bounds.values())))
        return

    print_usage(by, found)


def _why_nothing(socket: Path | None, *, is_chosen: bool) -> str:
    if is_chosen and (tokens := request(socket, "usage")["total"]["inputTokens"]):
        return f"nothing was used in these days and sessions; without these options there are {tokens:,} input tokens"
    if not request(socket, "sessions", limit=1, empty=True)["sessions"]:
        return NO_EVENTS
    return "no agent of the journal's sessions has stated tokens or a cost"


UNKNOWN = "unknown"
MOST_SHARES = 3
"""Maximum sessions that are named of those that have used a quota."""
LONGEST_KEY = 48
LEAST_KEY = 12


class _Column(NamedTuple):
    head: str
    value: Callable[[dict[str, Any]], str]
    plain: Callable[[dict[str, Any]], object]
    """Value for a pipe: a number without a unit or a mark."""
    needs: int = 0
    """Minimum terminal width at which the column is shown."""


def print_usage(by: str, found: dict[str, Any]) -> None:
    """Print a table of usage. `found`: the result of a `usage` request; its `rows` must not be empty."""
    if not at_terminal():
        columns = [*_COLUMNS, _COST_IS, *([_TITLE] if by == "session" else [])]
        say_text("\t".join([by.upper(), *(column.head for column in columns)]) + "\n")
        for row in found["rows"]:
            say_text("\t".join([_key(by, row), *(short(column.plain(row)) for column in columns)]) + "\n")
        return
    room = terminal_columns()
    shown = [column for column in _COLUMNS if room >= column.needs and (by != "session" or column.head != "SESSIONS")]
    rows = [*found["rows"], {**found["total"], "key": "total"}]
    cells = [[column.head, *(column.value(row) for row in rows)] for column in shown]
    widths = [max(map(columns_of, column)) for column in cells]
    keys = [_key(by, row) for row in rows]
    if by == "session":
        keys = [*short_ids(keys[:-1]), keys[-1]]
    keys = [by.upper(), *keys]
    most = max(LEAST_KEY, min(LONGEST_KEY, room - sum(widths) - 2 * len(widths)))
    width = min(max(map(columns_of, keys)), most)
    cut = fit_end if by in ("project", "subagent") else fit
    for index, key in enumerate(keys):
        figures = "  ".join(f"{column[index]:>{wide}}" for column, wide in zip(cells, widths, strict=True))
        title = short(rows[index - 1].get("title") or "") if index else ""
        line = f"{padded(cut(key, width), width)}  {figures}"
        say(fit(f"{line}  {title}" if title else line, room))
    say()
    for note in _notes(by, found):
        for line in wrapped(note, room):
            say(line)


def _notes(by: str, found: dict[str, Any]) -> list[str]:
    total, prices = found["total"], found.get("prices")
    notes = []
    if total.get("costEstimated"):
        day = f", checked {prices['date']}" if prices and prices.get("date") else ""
        version = f"genai-prices {prices['version']}{day}" if prices else "another installation"
        of = ", ".join(total.get("priceModels") or ())
        notes.append(f"~ estimated from the prices of {short(version)}{f', of {short(of, 200)}' if of else ''}")
    if (written := total.get("estimatedOutputTokens")) is not None:
        notes.append(
            f"≥ at least: an agent stores fewer output tokens than its text has, about {_tokens(written)} in all"
        )
    if unpriced := total.get("unpricedTokens"):
        where = "" if by == "model" else "; `--by model` shows of which models"
        notes.append(f"+ and {counted(unpriced, 'token')} whose cost is not known{where}")
    if subscriptions := found.get("subscriptions"):
        notes.append(f"not a bill: a subscription pays {short(', '.join(subscriptions), 200)}")
    for one in found.get("budgets") or ():
        if warning := over_budget(one["period"], one["spentUsd"], one["limitUsd"]):
            notes.append(warning)
    for one in found.get("quotas") or ():
        most = ", ".join(
            f"{short(each.get('title') or each['session'])} ({_tokens(each['tokens'])})"
            for each in one["sessions"][:MOST_SHARES]
        )
        left = spent(one["resetsAt"] - time.time() * 1000)
        notes.append(f"{one['provider']}: {quota_words(one)}, resets in {left}{f', most by {most}' if most else ''}")
    if prices is None:
        notes.append(
            f"no cost is estimated: the daemon cannot import genai-prices; `{how_to_install('prices')}` installs it"
        )
    if not found["complete"]:
        notes.append("there are more rows than fit into a reply; --since and --until choose among them")
    return notes


def _key(by: str, row: dict[str, Any]) -> str:
    return short(row.get("key") or ("main agents" if by == "subagent" else UNKNOWN))


def _cost(row: dict[str, Any]) -> str:
    cost = row.get("costUsd")
    if cost is None:
        return "-"
    digits = _digits(cost)
    is_bound = is_cost_bound(row)
    mark = "≥" if is_bound else "~" if row.get("costEstimated") else ""
    more = "+" if row.get("unpricedTokens") else ""
    shown = dollars(cost, digits, is_bound=is_bound)
    return f"{mark}{shown}{more}" if shown else "-"


def _digits(cost: float) -> int:
    return 2 if cost >= 0.1 or not cost else 4


def _tokens(count: int, *, is_bound: bool = False) -> str:
    for unit, name in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            count -= count % (unit // 10 if count < 100 * unit else unit) if is_bound else 0
            return f"{count / unit:.{1 if count < 100 * unit else 0}f}{name}"
    return str(count)


def _of(field: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: _tokens(row[field])


def _output(row: dict[str, Any]) -> str:
    is_bound = "estimatedOutputTokens" in row
    return bound(is_bound) + _tokens(row["outputTokens"], is_bound=is_bound)


_COLUMNS = (
    _Column("COST", _cost, lambda row: f"{row['costUsd']:.{_digits(row['costUsd'])}f}" if "costUsd" in row else ""),
    _Column("INPUT", _of("inputTokens"), lambda row: row["inputTokens"]),
    _Column("OUTPUT", _output, lambda row: row["outputTokens"]),
    _Column("CACHED", _of("cacheReadTokens"), lambda row: row["cacheReadTokens"], 60),
    _Column("WRITTEN", _of("cacheWriteTokens"), lambda row: row["cacheWriteTokens"], 80),
    _Column("THOUGHT", _of("reasoningTokens"), lambda row: row["reasoningTokens"], 80),
    _Column("SESSIONS", lambda row: str(row["sessions"]), lambda row: row["sessions"], 70),
)


def _cost_is(row: dict[str, Any]) -> str:
    """Say what a cost is, as the marks on a terminal do."""
    if "costUsd" not in row:
        return "unknown"
    kinds = ["at least"] if is_cost_bound(row) or row.get("unpricedTokens") else []
    return ", ".join([*kinds, "estimated" if row.get("costEstimated") else "stated"])


_COST_IS = _Column("COST IS", _cost_is, _cost_is)
_TITLE = _Column("TITLE", lambda row: row.get("title") or "", lambda row: row.get("title") or "")
