"""`tooltap open`: opens the page, or the page of a session, in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Command
from tooltap.cli.common.connection import ask_web, socket_option, wait_option
from tooltap.cli.common.printing import on_stderr, say
from tooltap.cli.common.terminal import open_in_browser
from tooltap.daemon.web.page.addresses import session_url


@click.command("open", cls=Command, examples=("tooltap open", "tooltap open last"))
@click.argument("session", required=False, metavar="[SESSION]", shell_complete=completion.sessions)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@wait_option
@socket_option
def command(session: str | None, no_browser: bool, socket: Path | None) -> None:
    """Open the page, or the page of a session.

    SESSION is a session's id, the beginning of it, words of its title, or "last". The link logs one browser in, once,
    within a few minutes. If there is no browser, the link is printed instead.
    """
    wanted = None
    if session is not None:
        from tooltap.cli.read.sessions import find_session

        wanted = find_session(socket, session)["session"]
    address, _, code = ask_web(socket, "POST", "/api/logins")["link"].partition("#")
    link = f"{address.removesuffix('/')}{session_url(wanted) if wanted else '/'}#{code}"
    if no_browser or not open_in_browser(link):
        say(link)
    else:
        on_stderr("opened in the browser; `tooltap open --no-browser` prints a link")
