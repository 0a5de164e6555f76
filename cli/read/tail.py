"""`tooltap tail`: prints events, and follows new ones."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Choice, Command, did_you_mean
from tooltap.cli.common.connection import daemon_errors, request, socket_option, wait_option, waiting
from tooltap.cli.common.options import UNITS, name_hint
from tooltap.cli.common.printing import warn
from tooltap.cli.read.sessions import NO_EVENTS, UnknownSessionError, find_session
from tooltap.daemon.formats import counted

FILTERS = {
    "session": (
        'Events of this session: its id, the beginning of it, words of its title, or "last".',
        completion.sessions,
    ),
    "stream": ("Events of this stream.", None),
    "provider": ("Events of this agent (claude, codex, gemini, …).", completion.providers),
    "agent": ("Events of this subagent.", None),
    "kind": ("Events of this kind (message, tool-call, …).", completion.kinds),
    "tool": ("Calls and results of this tool, by its canonical name or the agent's name for it.", completion.tools),
}
COUNTED = 1_000
"""Newest sessions whose events are counted if no event was shown."""


def _in_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)([smhd])", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 90s, 10m, 2h or 1d", ctx, param)
    return int(match[1]) * UNITS[match[2]]


def _known_kinds(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    known = completion.kinds(ctx, param, "") if names else []
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise click.BadParameter(f"there is no kind {name!r}; known are {', '.join(known)}{hint}", ctx, param)
    return names


def _filter_options(function: Any) -> Any:
    for name, (text, completer) in reversed(FILTERS.items()):
        option = click.option(
            f"--{name}",
            multiple=True,
            metavar="NAME",
            callback=_known_kinds if name == "kind" else None,
            shell_complete=completer,
            help=f"{text} May be repeated.",
        )
        function = option(function)
    return function


@click.command(
    "tail",
    cls=Command,
    examples=(
        "tooltap tail",
        "tooltap tail --mode verbose --since 2h --provider claude",
        "tooltap tail --mode json --after start --no-follow --kind tool-result | jq .name",
        "tooltap tail --tool Bash --tool Edit --mode verbose",
        "tooltap tail --by time --since 7d --no-follow --mode verbose",
    ),
)
@click.option(
    "--mode",
    type=Choice(["text", "verbose", "json"]),
    default="text",
    show_default=True,
    help="The assistants' texts; also a line for each other event; or events as JSON lines.",
)
@click.option(
    "--after",
    metavar="CURSOR",
    shell_complete=completion.cursors,
    help="Where to begin: start, now (the default), a seq, or <journal>:<seq>.",
)
@click.option(
    "--since", callback=_in_seconds, metavar="DURATION", help="Begin with events of this age: 90s, 10m, 2h, 1d."
)
@click.option("--follow/--no-follow", default=True, help="Follow new events, or exit at the end of the journal.")
@click.option(
    "--by",
    type=Choice(["seq", "time"]),
    default="seq",
    show_default=True,
    help="Order of the events that are there already: as they are in the journal, or by when they happened.",
)
@click.option("--partials", is_flag=True, help="Print partials of unfinished texts too (--mode json only).")
@_filter_options
@wait_option
@socket_option
def command(
    mode: str,
    after: str | None,
    since: int | None,
    follow: bool,
    by: str,
    partials: bool,
    socket: Path | None,
    **filters: tuple[str, ...],
) -> None:
    """Follow events.

    If the daemon goes away, tail waits for it and resumes where it stopped.

    The journal has events in the order in which they were stored, which is not when they happened where session files
    were read later. --by time sorts those that are there already, in memory, before it prints the first; new ones
    follow as they come.
    """
    if since is not None and after is not None:
        raise click.UsageError("--since and --after exclude each other: both say where to begin")
    if partials and mode != "json":
        raise click.UsageError("--partials needs --mode json")
    from contextlib import closing

    from tooltap.cli.common.render import Printer
    from tooltap.daemon.client.blocking import BlockingSubscription
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Subscribe

    oldest = None if since is None else (time.time_ns() // 1_000_000) - since * 1_000
    printer = Printer(mode, oldest, by_time=by == "time")
    start = after or ("now" if since is None else "start")
    filters["session"] = tuple(_session_id(socket, name, follow=follow) for name in filters["session"])
    frame = Subscribe(
        after=int(start) if start.isdecimal() else start,
        filter=Filter(**{name: values for name, values in filters.items() if values}),
        partials=partials,
        follow=follow,
        as_="events" if mode == "json" else "display",
    )
    with daemon_errors(), closing(BlockingSubscription(socket, frame, follow, waiting())) as subscription:
        printer.print_all(subscription)
    if not printer.has_printed and not follow:
        begins_late = start != "start" or since is not None
        warn(_why_nothing(socket, filters, mode=mode, begins_late=begins_late, hidden=printer.hidden))


def _session_id(socket: Path | None, name: str, *, follow: bool) -> str:
    """Return the id of the session. With `follow`, an unknown name is taken for the id of a future session."""
    try:
        return str(find_session(socket, name)["session"])
    except UnknownSessionError as error:
        if not follow:
            raise
        warn(f"{error.message}; waiting for one with this id")
        return name


def _why_nothing(
    socket: Path | None, filters: dict[str, tuple[str, ...]], *, mode: str, begins_late: bool, hidden: int
) -> str:
    """Explain why no event was shown. `begins_late`: reading did not begin at the oldest event. `hidden`: number of
    events that were read, but that the mode does not show."""
    if hidden and (begins_late or any(filters.values())):
        other, what = ("verbose", "text of an assistant") if mode == "text" else ("json", "line in this mode")
        return f"{counted(hidden, 'event matches', 'events match')}, without any {what}; `--mode {other}` shows more"
    page = request(socket, "sessions", limit=COUNTED, empty=True)
    events = sum(one["events"] for one in page["sessions"])
    if not events:
        return NO_EVENTS
    some = f"{'more than ' if page.get('next') else ''}{counted(events, 'event')}"
    given = [f"--{name} {value}" for name, values in filters.items() for value in values]
    if begins_late:
        return f"no event is that new; with `--after start` there are {some}"
    if given:
        return f"no event matches {' '.join(given)}; without filters there are {some}{_hint(filters)}"
    if mode == "text":
        return f"no assistant has said anything; `--mode verbose` shows more of the {some}"
    return f"none of the {some} is shown in this mode; `--mode json` shows all of it"


def _hint(filters: dict[str, tuple[str, ...]]) -> str:
    """Elsewhere `--agent` takes what is `--provider` here: a subagent has no such name."""
    from tooltap.normalizers.catalog.registry import agents

    known = {*agents(), *(agent.provider for agent in agents().values())}
    meant = [name for name in filters.get("agent", ()) if name in known]
    return f"; did you mean `--provider {meant[0]}`?" if meant else name_hint(filters)
