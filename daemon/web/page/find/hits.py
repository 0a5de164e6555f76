"""Hits of a search as the page shows them: what each is, its text with the words that were found, and its place."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.daemon.web.page.addresses import session_url
from tooltap.normalizers.tools.registry import family_of

__all__ = ["ShownHit", "shown_hit"]

KINDS = {
    "message": "Message",
    "reasoning": "Reasoning",
    "session": "Session",
    "notice": "Notice",
    "permission-request": "Permission",
    "permission-response": "Permission",
    "unparsed": "Unread line",
}


class ShownHit(NamedTuple):
    seq: int
    session: str
    url: str
    """Of the timeline around the event."""
    label: str
    family: str | None
    """Of the tool, if it is of a call."""
    ts: int | None
    parts: list[tuple[str, bool]]
    """Its text, piece by piece, and whether the piece was searched for."""


def shown_hit(found: dict[str, Any]) -> ShownHit:
    """`found`: a hit of the reply."""
    seq, session, tool = found["seq"], found["session"], found.get("tool")
    text, ranges = found["text"], found["ranges"]
    if tool is not None and text.startswith(f"{tool} ") and all(start > len(tool) for start, _ in ranges):
        shift = len(tool) + 1  # the label says it
        text, ranges = text[shift:], [[start - shift, end - shift] for start, end in ranges]
    return ShownHit(
        seq=seq,
        session=session,
        url=f"{session_url(session, at=seq)}#e{seq}",
        label=KINDS.get(found["kind"], found["kind"]) if tool is None else _of_tool(tool, found["kind"]),
        family=None if tool is None else family_of(tool),
        ts=found.get("ts"),
        parts=_parts(text, ranges),
    )


def _of_tool(tool: str, kind: str) -> str:
    return f"{tool} output" if kind == "tool-result" else tool


def _parts(text: str, ranges: list[list[int]]) -> list[tuple[str, bool]]:
    parts: list[tuple[str, bool]] = []
    at = 0
    for start, end in ranges:
        parts += (text[at:start], False), (text[max(start, at) : end], True)
        at = max(at, end)
    return [(part, found) for part, found in (*parts, (text[at:], False)) if part]
