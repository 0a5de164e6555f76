"""Prints what a search has found: by session for people, one line for each hit for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from unicodedata import combining, east_asian_width

from tooltap.cli.common.printing import joined, say, say_text, short, styled, wants_colour
from tooltap.daemon.formats import counted

__all__ = ["print_hits", "print_rows"]

MOST_WIDTH, LEAST_WIDTH = 160, 40
ABOUT = 12
"""Columns of the tool or kind of a hit."""
LEAD = 16
"""Code points of a snippet before the first word that was found, where it does not fit as a whole."""
SAID = {"message": "said", "reasoning": "thought", "session": "session"}


def print_rows(answer: dict[str, Any]) -> None:
    for hit in answer["hits"]:
        cells = (hit["seq"], hit["session"], _time(hit.get("ts"), "%Y-%m-%d %H:%M:%S"), _about(hit), hit["text"])
        say_text("\t".join(short(one, 1_000) for one in cells) + "\n")


def print_hits(answer: dict[str, Any]) -> None:
    import shutil

    width = max(LEAST_WIDTH, min(shutil.get_terminal_size().columns, MOST_WIDTH))
    sessions = {one["session"]: one for one in answer["sessions"]}
    by_session: dict[str, list[dict[str, Any]]] = {}
    for hit in answer["hits"]:
        by_session.setdefault(hit["session"], []).append(hit)
    digits = max(len(str(hit["seq"])) for hit in answer["hits"])
    for name, hits in by_session.items():
        _print_session(name, sessions.get(name, {}), len(hits), width)
        for hit in hits:
            _print_hit(hit, digits, width)
        say()
    others = max(0, (answer.get("foundIn") or 0) - len(by_session))
    total = counted(answer.get("total") or len(answer["hits"]), "hit")
    found = f"{total} in {counted(answer.get('foundIn') or len(by_session), 'session')}"
    more = f"; {others:,} not shown" if others else ""
    say(_dim(_fit(f"{found}{more}. `tooltap show SEQ` shows an event.", width)))


def _print_session(name: str, session: dict[str, Any], shown: int, width: int) -> None:
    hits = session.get("hits") or shown
    project = str(session.get("project") or "").rpartition("/")[2]
    about = [
        session.get("provider"),
        project,
        session.get("status"),
        _time(session.get("lastTs"), "%Y-%m-%d %H:%M"),
        counted(hits, "hit"),
    ]
    say(_bold(_fit(short(session.get("title") or project or name), width)))
    line, known = " · ".join(short(one) for one in about if one), short(name)
    fits_together = len(line) + len(known) + 3 <= width
    for one in [f"{line} · {known}"] if fits_together else [line, known]:
        say(_dim(_fit(one, width)))


def _print_hit(hit: dict[str, Any], digits: int, width: int) -> None:
    head = f"  {hit['seq']:>{digits}}  {_time(hit.get('ts'), '%m-%d %H:%M'):11}  {_fit(_about(hit), ABOUT):{ABOUT}}  "
    parts = _marked(str(hit["text"]), hit["ranges"], width - len(head))
    say(joined([head, *parts]))


def _marked(text: str, ranges: list[list[int]], width: int) -> list[str]:
    """As many columns of the text as there are, from shortly before the first word that was found; what was found is
    in colour."""
    start = ranges[0][0] - LEAD if ranges and _columns_of(text) > width and ranges[0][0] > LEAD else 0
    parts: list[str] = ["…"] if start else []
    room, at = width - len(parts), start
    for first, last in [*ranges, [len(text), len(text)]]:
        before, found = text[at : max(first, at)], text[max(first, at) : last]
        parts.append(_fit(before, room))
        room -= _columns_of(parts[-1])
        fitting = _fit(found, room)
        parts.append(_found(fitting) if fitting else "")
        room -= _columns_of(fitting)
        at = max(at, last)
    return parts


def _fit(text: str, width: int) -> str:
    """At most so many columns of it."""
    if _columns_of(text) <= width:
        return text
    room = width - 1
    for length, one in enumerate(text):
        room -= _columns_of(one)
        if room < 0:
            return f"{text[:length]}…" if width > 0 else ""
    return text


def _columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(one) in "WF" else not combining(one) for one in text)


def _about(hit: dict[str, Any]) -> str:
    return short(hit.get("tool") or SAID.get(hit["kind"], hit["kind"]))


def _time(milliseconds: Any, form: str) -> str:
    if not isinstance(milliseconds, int):
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1_000).strftime(form)
    except (ValueError, OverflowError, OSError):
        return ""


def _found(text: str) -> str:
    return styled(text, "yellow") if wants_colour() else text


def _dim(text: str) -> str:
    return styled(text, "dim") if wants_colour() else text


def _bold(text: str) -> str:
    return styled(text, "cyan") if wants_colour() else text
