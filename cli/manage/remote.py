"""`tooltap remote`: the list of other machines whose events the daemon reads, and what runs there to send them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.columns import print_table
from tooltap.cli.common.commands import Group
from tooltap.cli.common.connection import request, run_client, socket_option
from tooltap.cli.common.filters import json_option
from tooltap.cli.common.printing import MAX_ID, flush, say, say_object, short, warn, write_events

if TYPE_CHECKING:
    from tooltap.daemon.taps.remotes.settings import Remote


@click.group(
    "remote",
    cls=Group,
    examples=("tooltap remote add build-server", "tooltap remote list", "tooltap remote remove build-server"),
)
def command() -> None:
    """Show the sessions of other machines, too.

    The daemon reads the events of a daemon on another machine, each once, and reads on where it was after either of
    them was away. `tooltap sessions` and the page name the machine.
    """


@command.command(
    "add",
    examples=(
        "tooltap remote add build-server",
        "tooltap remote add me@192.0.2.7 --name lab",
        "tooltap remote add sandbox -- docker exec -i sandbox tooltap",
    ),
)
@click.argument("host", metavar="HOST")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--name", metavar="NAME", help="How the machine is called here.  [default: HOST, without a user]")
@socket_option
def add(host: str, words: tuple[str, ...], name: str | None, socket: Path | None) -> None:
    """Read the events of a daemon on HOST.

    It is reached with `ssh HOST tooltap`, without a password: keys must be set up. COMMAND is run instead, if it is
    given, and gets the arguments `remote send --after CURSOR`.
    """
    from tooltap.daemon.taps.remotes.settings import RemotesError, checked, load, store

    path, is_running = _file(socket)
    try:
        remote, known = checked(host, name, words), load(path)
        if any(one.name == remote.name for one in known):
            raise click.ClickException(f"there is a remote {remote.name!r} already; remove it first, or use --name")
        store(path, (*known, remote))
    except RemotesError as error:
        raise click.ClickException(str(error)) from None
    when = "`tooltap remote list` says how it goes" if is_running else "it is read when a daemon runs: `tooltap up`"
    say(f"{remote.name} is added; {when}")


@command.command("list", examples=("tooltap remote list", "tooltap remote list --json | jq .problem"))
@json_option("Print one JSON object per line.")
@socket_option
def list_(as_json: bool, socket: Path | None) -> None:
    """List the machines, and how their connections are.

    BEHIND is how many events were still to be read when the connection began.
    """
    states = _states(socket)
    rows = []
    for remote in _load(socket):
        state = states.get(remote.name, {})
        if as_json:
            say_object({"name": remote.name, "host": remote.host, "command": remote.program, **state})
            continue
        since, problem = state.get("since"), state.get("problem")
        if since is not None:
            status = "connected " + time.strftime("since %Y-%m-%d %H:%M", time.localtime(since / 1_000))
        else:
            status = problem or ("connecting" if states else "no daemon runs")
        rows.append((remote.name, remote.host, state.get("behind"), status))
    if rows:
        print_table(("NAME", "HOST", "BEHIND", "STATE"), rows)
    elif not as_json:
        warn("there is no remote; add one with `tooltap remote add HOST`")


@command.command("remove", examples=("tooltap remote remove build-server",))
@click.argument("name", metavar="NAME", shell_complete=completion.remotes)
@socket_option
def remove(name: str, socket: Path | None) -> None:
    """Read nothing more from this machine. What was read stays; added again, it is read from there on."""
    from tooltap.daemon.taps.remotes.settings import RemotesError, store

    path, known = _file(socket)[0], _load(socket)
    left = tuple(one for one in known if one.name != name)
    if left == known:
        names = ", ".join(one.name for one in known)
        raise click.ClickException(f"there is no remote {short(name, MAX_ID)!r}; there {_are(names)}")
    try:
        store(path, left)
    except RemotesError as error:
        raise click.ClickException(str(error)) from None
    say(f"{name} is removed; its sessions stay")


@command.command("send", examples=("tooltap remote send --after start",))
@click.option("--after", required=True, metavar="start|CURSOR", help="Where to begin.")
@socket_option
def send(after: str, socket: Path | None) -> None:
    """Write the daemon's events to standard output, for a daemon on another machine.

    `tooltap remote add` runs this over ssh. It ends when the connection ends.
    """
    from tooltap.daemon.taps.remotes.sending import send as send_all

    def write(lines: bytes) -> None:
        write_events(lines)
        flush()

    run_client(lambda: send_all(after, socket, write))


def _file(socket: Path | None) -> tuple[Path, bool]:
    """Return the file with the list, and whether the daemon that reads it is running."""
    from tooltap.daemon.config import ConfigError, load_config
    from tooltap.daemon.system.paths import config_path
    from tooltap.daemon.taps.remotes.settings import file_of

    if (found := _of_daemon(socket)) is not None:
        return Path(found["file"]), True
    if socket is not None:
        raise click.ClickException(f"no daemon is listening at {socket}")
    usual = config_path()
    try:
        return file_of(load_config(usual if usual.exists() else None).journal_place), False
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def _of_daemon(socket: Path | None) -> dict[str, Any] | None:
    """Return what the daemon says of its remotes; None if there is no daemon, or an older one."""
    try:
        found: dict[str, Any] | None = request(socket, "stats", part="summary").get("remotes")
    except click.ClickException:
        return None
    return found


def _states(socket: Path | None) -> dict[str, dict[str, Any]]:
    found = _of_daemon(socket)
    return {} if found is None else {one["name"]: one for one in found["connections"]}


def _load(socket: Path | None) -> tuple[Remote, ...]:
    from tooltap.daemon.taps.remotes.settings import RemotesError, load

    try:
        return load(_file(socket)[0])
    except RemotesError as error:
        raise click.ClickException(str(error)) from None


def _are(names: str) -> str:
    return f"are: {names}" if names else "is none"
