"""What waits for a person: requests and questions without an answer, and calls that may wait for a permission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.sessions.listing import folder_of
from tooltap.daemon.sessions.questions import is_of_hook, without_repetitions
from tooltap.normalizers.catalog.registry import UnknownDialectError
from tooltap.normalizers.stream.normalizer import can_answer
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.replies import Waiting

MAY_ASK = frozenset(["shell", "edit", "web", "mcp"])
"""Families of the tools for which agents ask for a permission."""


def find_waiting(
    sessions: Sequence[Mapping[str, Any]],
    opened: Mapping[str, Sequence[Mapping[str, Any]]],
    streams: Mapping[str, StreamInfo],
    *,
    before: int,
    now: int,
) -> list[Waiting]:
    """Return what waits for a person in `sessions`: what is certain first, and then what has waited longest.

    `sessions`: those that wait or run, as in a reply to `sessions`; `opened`: the open calls and permissions (the
    result of `calls`); `streams`: those that are open; `before`: when a call of a followed session file, which states
    no requests, must have begun so that it may be waiting; `now`: both in milliseconds since the epoch.
    """
    found = {one["session"]: one for one in sessions}
    waiting = list(_certain(found, opened, streams, now))
    sure = {one.session for one in waiting}
    waiting += [one for one in _uncertain(found, opened["calls"], streams, before) if one.session not in sure]
    return sorted(waiting, key=lambda one: (not one.certain, one.since or 0, one.seq))


def way_to_agent(info: StreamInfo | None, asked: Mapping[str, Any]) -> str | None:
    """Return why clients cannot reach the agent that asks, as one sentence; None if they can. `info`: the stream, if it
    is open; `asked`: the open permission, as in the result of `calls`."""
    if asked.get("fromCall") or (info is not None and info.followed):
        return (
            "only its session file is read: answer in the agent's own window; with `tooltap hooks install`, the agent"
            " asks tooltap, too"
        )
    if info is None and is_of_hook(asked):
        return (
            "its hook waits for no answer: answer in the agent's own window; after `tooltap away`, hooks wait for an"
            " answer from here"
        )
    if info is None:
        return "no publisher of its stream is connected: its agent or its tap has ended, or is being restarted"
    if not info.takes_answers:
        return (
            "its tap sends nothing to the agent: answer in the agent's own window, and start the agent with"
            " `tooltap proxy --answers -- COMMAND` to answer here"
        )
    try:
        is_known = info.dialect is not None and can_answer(info.dialect)
    except UnknownDialectError:
        is_known = False
    return None if is_known else f"tooltap cannot write to an agent in the dialect {info.dialect or 'auto'}"


def ago(milliseconds: int) -> str:
    """`3 s ago`, `5 min ago`, `2 h ago`."""
    seconds = max(milliseconds, 0) // 1_000
    if seconds < 60:
        return f"{seconds} s ago"
    return f"{seconds // 60} min ago" if seconds < 3_600 else f"{seconds // 3_600} h ago"


def first_was(by: str, outcome: str, milliseconds: int) -> str:
    """Say who was the first to answer, and how long ago."""
    return f"answered {ago(milliseconds)} by {by}: {outcome}"


def _why_not(info: StreamInfo | None, asked: Mapping[str, Any], now: int) -> str | None:
    """Return why nobody can answer now."""
    if info is not None and (first := info.answers.get(asked["permissionId"])) is not None:
        return first_was(first.by, first.outcome, now - first.ts)
    return way_to_agent(info, asked)


def _certain(
    sessions: Mapping[str, Mapping[str, Any]],
    opened: Mapping[str, Sequence[Mapping[str, Any]]],
    streams: Mapping[str, StreamInfo],
    now: int,
) -> Iterator[Waiting]:
    calls = {(call["stream"], call["callId"]): call for call in opened["calls"]}
    for one in without_repetitions(
        opened["permissions"], lambda one: way_to_agent(streams.get(one["stream"]), one) is None
    ):
        if (session := sessions.get(one["session"])) is not None and session.get("status") == "waiting":
            why_not = _why_not(streams.get(one["stream"]), one, now)
            call = calls.get((one["stream"], one.get("callId")), {})
            options, questions = one.get("options"), one.get("questions")
            refused = [other["withheld"] for other in [*(options or ()), *(questions or ())] if other.get("withheld")]
            yield _waiting(
                session,
                {**{key: call[key] for key in ("title", "preview") if key in call}, **one},
                permission_id=one["permissionId"],
                type=one["type"],
                options=options and [other for other in options if not other.get("withheld")],
                questions=questions,
                withheld=refused[0] if refused else None,
                from_call=one.get("fromCall", False),
                answerable=why_not is None,
                why_not=why_not,
            )


def _uncertain(
    sessions: Mapping[str, Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    streams: Mapping[str, StreamInfo],
    before: int,
) -> Iterator[Waiting]:
    """Yield the calls that may be waiting, one for each session: agents ask for one call after the other."""
    seen = set()
    for call in calls:
        session = sessions.get(call["session"])
        info = streams.get(call["stream"])
        if session is None or session["session"] in seen or info is None or not info.followed:
            continue
        if family_of(call.get("name")) in MAY_ASK and call.get("ts", before) < before:
            seen.add(session["session"])
            why_not = way_to_agent(info, call)
            yield _waiting(session, call, type="permission", certain=False, why_not=why_not)


def _waiting(session: Mapping[str, Any], opened: Mapping[str, Any], **fields: Any) -> Waiting:
    return Waiting(
        session=session["session"],
        title=session.get("title"),
        project=folder_of(dict(session)) or None,
        cwd=session.get("cwd"),
        host=session.get("host"),
        provider=session["provider"],
        stream=opened["stream"],
        seq=opened["seq"],
        call_id=opened.get("callId"),
        name=opened.get("name"),
        call_title=opened.get("title"),
        preview=opened.get("preview"),
        since=opened.get("ts"),
        agent=opened.get("agent"),
        **fields,
    )
