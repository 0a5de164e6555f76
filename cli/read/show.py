"""`tooltap show`: prints one event in one of its views, or a whole session for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tooltap.cli.common import completion
from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.connection import daemon_errors, request, socket_option, wait_option
from tooltap.cli.common.printing import (
    at_terminal,
    flush,
    lines_of,
    say_json,
    wants_colour,
    warn,
    write_events,
    write_text,
)
from tooltap.cli.common.terminal import paged

if TYPE_CHECKING:
    from tooltap.protocol.events import AnyEvent

MAX_SEQ = 2**63 - 1
SUCCESSORS = 20
"""Maximum sessions that are named as coming from one."""
SHORTEST_ID = 8
"""Digits from which on a number may be the beginning of a session's id: lists show as many of an id."""


@click.command(
    "show",
    cls=Command,
    examples=(
        "tooltap show last",
        "tooltap show 0d3f --full",
        "tooltap show 3 --view assistant | jq .output",
    ),
)
@click.argument("wanted", metavar="SEQ|SESSION", shell_complete=completion.sessions)
@click.option(
    "--view",
    type=Choice(["assistant", "display", "raw"]),
    help="For an event: what the model saw, what the user sees, or everything including the provider's own object."
    "  [default: display]",
)
@click.option("--full", is_flag=True, help="For a session: also show outputs, changes and whole texts.")
@click.option("--json", "as_json", is_flag=True, help="For a session: print its events as JSON lines.")
@wait_option
@socket_option
def command(wanted: str, view: str | None, full: bool, as_json: bool, socket: Path | None) -> None:
    """Show one event, or a session.

    SEQ is the event's number in the journal. The output is JSON: indented on a terminal, one line in a pipe. The
    display view of a result is what the user sees: what the agent or the configuration chose to show; if neither did,
    the result's output. If it has both, the agent's line is a caption of the output.

    SESSION is a session's id, the beginning of it, words of its title, or "last". On a terminal it opens in $PAGER, or
    in less. A call is one line, and consecutive reads and searches share one line.
    """
    if full and as_json:
        raise click.UsageError("--full and --json exclude each other: --json prints whole events")
    session = _session(socket, wanted)
    if session is None:
        if full:
            raise click.UsageError("--full is for sessions, and a number is an event")
        _show_event(socket, int(wanted), view or "display")
        return
    if view is not None:
        raise click.UsageError(f"--view is for events, and {wanted!r} is not the number of an event")
    events = _events(socket, session)
    if as_json:
        for line in events:
            write_events(line + b"\n")
        flush()
        return
    _show_session(session, _successors(socket, session), _seen_by_user(socket, session, events), full=full)


def _session(socket: Path | None, wanted: str) -> dict[str, Any] | None:
    """Return the session that is wanted; None if an event is. The beginning of a session's id may be a number, too."""
    from tooltap.cli.read.sessions import UnknownSessionError, find_session

    if wanted.isdecimal() and len(wanted) < SHORTEST_ID:
        return None
    try:
        return find_session(socket, wanted)
    except UnknownSessionError:
        if wanted.isdecimal():
            return None
        raise


def _successors(socket: Path | None, session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the sessions that come from this one; none if the daemon is older than this filter."""
    from tooltap.cli.read.sessions import list_sessions

    try:
        return list(list_sessions(socket, SUCCESSORS, origin=[session["session"]]))
    except click.ClickException:
        return []


def _show_session(
    session: dict[str, Any], successors: list[dict[str, Any]], events: Iterator[AnyEvent], *, full: bool
) -> None:
    from tooltap.cli.common.columns import terminal_columns
    from tooltap.cli.read.transcript import Transcript, head_lines

    columns, colour = terminal_columns(), wants_colour()
    transcript = Transcript(columns=columns, colour=colour, full=full, cwd=session.get("cwd"))
    with paged():
        write_text(lines_of(*head_lines(session, successors, columns, colour=colour)))
        for event in events:
            write_text(lines_of(*transcript.add(event)))
        write_text(lines_of(*transcript.end()))
        flush()


def _seen_by_user(socket: Path | None, session: dict[str, Any], events: Iterator[bytes]) -> Iterator[AnyEvent]:
    """Return the events of a session, each result with the view that a command made of it later."""
    from tooltap.daemon.views.select import LaterViews

    views = LaterViews()
    for event in _decoded(_events(socket, session, "tool-update")):
        views.note(event)
    for event in _decoded(events):
        if not views.is_given(event):
            yield views.put(event)


def _decoded(lines: Iterator[bytes]) -> Iterator[AnyEvent]:
    import msgspec

    from tooltap.protocol.events import decode

    for line in lines:
        try:
            yield decode(line)
        except msgspec.ValidationError:  # of a newer daemon
            continue


def _events(socket: Path | None, session: dict[str, Any], *kinds: str) -> Iterator[bytes]:
    """The events that the session had when it was found, as the daemon sends them. `kinds`: default all. Warns of gaps,
    also of damaged events after its last one: they may have been its own."""
    from orjson import loads

    from tooltap.daemon.client.blocking import BlockingSubscription
    from tooltap.daemon.sessions.listing import is_of, stored_names
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Gap, Subscribe

    wanted = Filter(session=stored_names(session), kind=kinds or None)
    frame = Subscribe(after=max(session["firstSeq"] - 1, 0), filter=wanted, follow=False)
    last, ended = f"{session['lastSeq']},".encode(), False
    with daemon_errors(), closing(BlockingSubscription(socket, frame, reconnect=False)) as subscription:
        for item in subscription:
            if isinstance(item, bytes) and not ended:
                if "aliases" not in session or is_of(session, (event := loads(item))["session"], event["seq"]):
                    yield item
                ended = item.startswith(last, len(b'{"seq":'))
            elif isinstance(item, Gap) and (not ended or item.reason == "corrupt"):
                warn(f"events {item.from_} to {item.to} are gone")


def _show_event(socket: Path | None, seq: int, view: str) -> None:
    import orjson

    from tooltap.protocol.model_view import model_blocks

    if not 1 <= seq <= MAX_SEQ:
        raise click.UsageError(f"the number of an event is between 1 and {MAX_SEQ}")
    found = request(socket, "event", seq=seq, view=view)
    event, removed = found["event"], found.get("removedOutputs", {})
    for output_id, reason in removed.items():
        warn(f"output {output_id} {reason}")

    if view == "assistant" and event.get("assistantView") == "unknown":
        warn("the agent's stream does not say what the model saw of this result")
    elif view == "assistant" and "modelView" in event:
        event["modelView"]["blocks"] = model_blocks(
            event, lambda one: None if one in removed else _body(socket, one).encode()
        )
    display = event.get("display", {}) if view == "display" else {}
    is_stored = "outputId" in display and display["outputId"] not in removed
    if is_stored and display.get("mimeType", "text/plain").startswith("text/"):
        display["text"] = _body(socket, display["outputId"])
    say_json(orjson.dumps(event, option=orjson.OPT_INDENT_2 if at_terminal() else None))


def _body(socket: Path | None, output_id: str) -> str:
    """Fetch a whole output body; the daemon returns it in chunks."""
    text, read, total = "", 0, 1
    while read < total:
        chunk = request(socket, "output", outputId=output_id, offset=read)
        text += chunk.get("text", "")
        read, total = read + chunk["length"], chunk["total"]
    return text
