"""Finds the session that a user names: by its id, the beginning of it, `last`, or words of its title."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import click

from tooltap.cli.common.commands import did_you_mean
from tooltap.cli.common.connection import request
from tooltap.cli.common.printing import MAX_ID, short
from tooltap.cli.read.sessions import list_sessions

LAST = "last"
"""The session that was active last."""
LISTED = 5
"""Candidates that are listed of a name that several sessions have."""
MAX_ABOUT = 60
"""Code points of what is said of a candidate."""
EVERY = 1_000_000
"""More sessions than a journal has."""


class UnknownSessionError(click.ClickException):
    """The journal has no session of this name."""


class AmbiguousSessionError(click.ClickException):
    """Several sessions have this name; the message lists them."""

    exit_code = 2


def find_session(socket: Path | None, wanted: str) -> dict[str, Any]:
    """The row of the session. Raises `UnknownSessionError` and `AmbiguousSessionError`."""
    if wanted == LAST:
        newest = request(socket, "sessions", limit=1, order="time")["sessions"]
        if not newest:
            _refuse(wanted, [])
        last: dict[str, Any] = newest[0]
        return last
    if exact := request(socket, "sessions", limit=1, session=[wanted])["sessions"]:
        named: dict[str, Any] = exact[0]
        return named
    sessions = list(list_sessions(socket, EVERY))
    begun = [one for one in sessions if one["session"].startswith(wanted)]
    words = wanted.casefold().split()
    found = begun or [one for one in sessions if words and all(word in _title(one) for word in words)]
    match found:
        case [one]:
            return one
        case []:
            _refuse(wanted, sessions)
    what = f"an id that starts with {wanted!r}" if begun else f"the words {wanted!r} in the title"
    listed = [f"{short(one['session'], MAX_ID)} ({_about(one)})" for one in found[:LISTED]]
    more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
    raise AmbiguousSessionError(f"{len(found)} sessions have {what}: {', '.join([*listed, *more])}; name one of them")


def _refuse(wanted: str, sessions: list[dict[str, Any]]) -> NoReturn:
    if not sessions:
        raise UnknownSessionError("the journal has no sessions yet; start an agent with `tooltap run -- claude`")
    names = [LAST, *(one["session"] for one in sessions), *(one["title"] for one in sessions if one.get("title"))]
    advice = did_you_mean(wanted, names) or "; list them with `tooltap sessions`"
    raise UnknownSessionError(f"the journal has no session {wanted!r}{advice}")


def _title(session: dict[str, Any]) -> str:
    return str(session.get("title") or "").casefold()


def _about(session: dict[str, Any]) -> str:
    return short(session.get("title") or session.get("cwd") or session.get("provider"), MAX_ABOUT)
