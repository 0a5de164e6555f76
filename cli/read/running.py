"""The running sessions as lines of a board, those that wait for the user first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tooltap.cli.common.columns import columns_of, fit, padded
from tooltap.cli.common.printing import Clean, joined, short, styled
from tooltap.daemon.formats import bound, counted, dollars, is_cost_bound, rounded, spent, tool_name
from tooltap.daemon.sessions.listing import RunningSession, find_running, name_of
from tooltap.daemon.system.sanitize import one_line

COLUMNS = ("STATE", "SESSION", "AGENT", "MODEL", "CALL", "FOR", "TOKENS", "COST", "TITLE")
STATES = ("waiting", "running")
"""In the order of the board, from top to bottom."""
COLOURS = {"waiting": "yellow", "running": "green"}
NARROW = 70
"""Terminal width below which the model is left out."""


class Running(NamedTuple):
    session: dict[str, Any]
    state: str
    doing: str
    """What the session is doing, or what it asks the user."""
    since: int | None
    """Milliseconds since the epoch."""


def running_sessions(sessions: Sequence[dict[str, Any]], opened: dict[str, Any]) -> list[Running]:
    """Return the running sessions, waiting ones first. `opened`: the open calls and permissions (the result of
    `calls`)."""
    found = [Running(one.session, one.status, _doing(one), one.since) for one in find_running(sessions, opened)]
    return sorted(found, key=lambda one: STATES.index(one.state))


def _doing(one: RunningSession) -> str:
    if one.asked:
        return _asked(one.session, one.asked[0])
    return _called(one.calls) if one.calls else "▸ thinking"


def _asked(session: dict[str, Any], permission: dict[str, Any]) -> str:
    what = " ".join(str(one) for one in (permission.get("name"), permission.get("title")) if one)
    where = f"{session.get('provider', 'the agent')}, in {session['cwd']}" if session.get("cwd") else "the agent"
    return f"? asks: {_tool(short(what, 300)) or permission.get('type')} — answer in {short(where)}"


def _called(calls: list[dict[str, Any]]) -> str:
    last = calls[-1]
    more = f" (and {counted(len(calls) - 1, 'other call')})" if len(calls) > 1 else ""
    return f"▸ {_tool(last.get('name') or '?')} {short(last.get('preview') or last.get('title') or '', 300)}{more}"


def board(
    running: Sequence[Running], others: int, now: int, size: tuple[int, int], *, colour: bool, problem: str = ""
) -> list[Clean]:
    """Return the lines of the board, at most as many as the terminal has. `size`: columns and lines of the terminal;
    `others`: number of sessions that are not running; `now`: milliseconds since the epoch."""
    columns, height = size
    waiting = sum(one.state == "waiting" for one in running)
    head = [counted(len(running) - waiting, "session runs", "sessions run")]
    head += [f"{waiting} waiting for you"] if waiting else []
    head += [counted(others, "other", "others")] if others else []
    lines = [_line(fit(f"tooltap · {' · '.join(head)}", columns), "bold", colour), joined([])]
    if problem:
        lines.append(_line(fit(short(problem, 400), columns), "red", colour))
    room = (height - len(lines) - 1) // 2
    for one in running[:room]:
        lines += _two_lines(one, now, columns, colour)
    if len(running) > room:
        lines.append(_line(fit(f"and {len(running) - room} more", columns), "dim", colour))
    if not running and not problem:
        lines.append(_line(fit("Nothing runs. `tooltap show last` shows the newest session.", columns), "dim", colour))
    return lines[:height]


def _two_lines(one: Running, now: int, columns: int, colour: bool) -> Iterator[Clean]:
    state = padded(one.state, 8)
    facts = fit(" · ".join(_facts(one.session, brief=columns < NARROW)), columns // 2)
    room = columns - len(state) - columns_of(facts) - 2
    title = padded(fit(_title(one.session), room), room)
    yield joined([_line(state, COLOURS[one.state], colour), title, "  ", _line(facts, "dim", colour)])
    took = "" if one.since is None else spent(max(now - one.since, 0)) or ""
    doing = fit(short(one.doing, 400), columns - 10 - len(took))
    style = "yellow" if one.state == "waiting" else "cyan"
    yield joined([" " * 8, _line(doing, style, colour), "  ", took])


def _facts(session: dict[str, Any], *, brief: bool) -> Iterator[str]:
    yield short(session.get("provider") or "", 20)
    if not brief and isinstance(session.get("model"), str):
        yield short(session["model"], 30)
    numbers = [session.get(key) for key in ("inputTokens", "outputTokens")]
    if tokens := sum(number for number in numbers if isinstance(number, int)):
        is_bound = "estimatedOutputTokens" in session
        yield f"{bound(is_bound)}{rounded(tokens, is_bound=is_bound)} tokens"
    if cost := _cost(session):
        yield cost


def _cost(session: dict[str, Any]) -> str | None:
    cost = session.get("costUsd")
    is_bound = is_cost_bound(session)
    shown = dollars(cost, is_bound=is_bound) if isinstance(cost, int | float) else None
    return None if shown is None else bound(is_bound) + shown


def row_of(one: Running, now: int) -> tuple[object, ...]:
    """Return the cells of a session's row in a table with `COLUMNS`."""
    session = one.session
    numbers = [session.get(key) for key in ("inputTokens", "outputTokens")]
    return (
        one.state,
        session["session"],
        session.get("provider"),
        session.get("model"),
        one.doing,
        None if one.since is None else spent(max(now - one.since, 0)),
        sum(number for number in numbers if isinstance(number, int)) or None,
        _cost(session),
        _title(session),
    )


def _title(session: dict[str, Any]) -> str:
    return short(name_of(session), 200)


def _tool(name: str) -> str:
    return one_line(tool_name(name), 60)


def _line(text: str, style: str, colour: bool) -> Clean:
    return styled(text, style) if colour else joined([text])
