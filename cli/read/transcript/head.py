"""What is above a session: its title, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tooltap.cli.common.columns import wrapped
from tooltap.cli.common.printing import Clean, joined, short, styled
from tooltap.daemon.formats import counted, dollars, duration, rounded


def head_lines(session: dict[str, Any], columns: int, *, colour: bool) -> Iterator[Clean]:
    """`session`: its row, of which an older daemon sends less."""
    for line in wrapped(title_of(session), columns):
        yield styled(line, "bold") if colour else joined([line])
    facts = " · ".join(_facts(session))
    for line in wrapped(facts, columns):
        yield styled(line, "dim") if colour else joined([line])


def title_of(session: dict[str, Any]) -> str:
    return short(session.get("title") or session.get("cwd") or session["session"], 200)


def state_of(session: dict[str, Any]) -> str:
    """One word: as the daemon says or, if it is older, from its stream and its last turn."""
    if said := session.get("status"):
        return short(said, 20)
    turn = session.get("turn")
    if session.get("state") == "open":
        return "running" if turn == "started" else "waiting"
    return {"failed": "failed", "cancelled": "interrupted", "started": "interrupted"}.get(str(turn), "completed")


def _facts(session: dict[str, Any]) -> Iterator[str]:
    yield short(" ".join(str(one) for one in (session.get("provider"), session.get("agentVersion")) if one), 60)
    models = session.get("models") or [session.get("model")]
    yield from (short(one, 60) for one in models if isinstance(one, str))
    if where := session.get("project") or session.get("cwd"):
        branch = session.get("branch")
        yield short(f"{where} ({branch})" if branch else where, 100)
    yield state_of(session)
    first, last = session.get("firstTs"), session.get("lastTs")
    if isinstance(first, int) and isinstance(last, int):
        if began := _date(first):
            yield began
        took = session.get("durationMs")
        yield duration(took if isinstance(took, int) else last - first)
    for key, one in (("turns", "turn"), ("calls", "call"), ("errors", "error")):
        if isinstance(number := session.get(key), int) and number:
            yield counted(number, one)
    tokens = [session.get(key) for key in ("inputTokens", "outputTokens")]
    if any(isinstance(number, int) for number in tokens):
        given, written = (rounded(number) if isinstance(number, int) else "?" for number in tokens)
        yield f"{given} in, {written} out"
    cost = session.get("costUsd")
    if isinstance(cost, int | float) and (shown := dollars(cost)):
        yield shown
    yield short(session["session"], 100)


def _date(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1_000):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""
