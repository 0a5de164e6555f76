"""One session on several streams: which of them reports what, so that each event is there once.

A session can reach the daemon on two streams: from a tap of the agent (`run`, `proxy`, the socket, …), and from the
session file that the same agent writes. Their lines, ids and details differ, so their events cannot be compared one by
one. Instead, one stream owns what was said while the tapped agent ran:

- The tap, as a rule. Of the file's lines from that time, only prompts are ingested, which many agents do not print.
- The file, if it was ingested first: the daemon was away while the agent ran, and the tap's lines come from a spool.
  Then the tap is a guest: of its events, only those are ingested that no session file has.

What passes between the agent and its model (`gateway`) is a third source: it is the guest of the agent's own stream and
of its file, if these have named the session before the model answers; else these are its guests.

A tap's role in a session is decided when its first event of the session is about to be committed. It is part of that
commit (`StreamInfo.roles`), so it holds for good. A file waits until the role of every tap of its session is durable.

A prompt is ingested from whoever reports it first; the other one is left out. The two may differ in their words: each
stream remembers the ids and beginnings of the latest prompts it has reported (`StreamInfo.prompts`), and which prompts
of others it has left out for them (`StreamInfo.repeated`). So the same words, said twice, are reported twice.

Events that are left out are counted under `told-elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from tooltap.daemon.journal.interface import Journal, Role, StreamInfo
from tooltap.daemon.sessions.display_results import DISPLAY_TOOLS, Displays
from tooltap.daemon.sessions.next_commit import NextCommit
from tooltap.normalizers.catalog.registry import apis, session_dialects
from tooltap.normalizers.core.items import Item, Produced

GUEST_KINDS: Final = frozenset({"permission-request", "permission-response", "unparsed"})
GUEST_NOTICES: Final = frozenset({"lost", "parser-reset"})
"""What a session file cannot have: questions to the user, and what happened to the tap's lines."""
REMEMBERED: Final = 64
"""Latest sessions in which a stream remembers its role."""
PROMPTS_REMEMBERED: Final = 64
"""Latest prompts that a stream remembers."""
BEGINNING: Final = 100
"""Code points by which prompts are compared: an agent may add to a prompt what it was given on standard input."""


class Joining:
    """`connected`: the state of all streams with a connection."""

    def __init__(self, journal: Journal, connected: Callable[[], Iterable[StreamInfo]], displays: Displays) -> None:
        self.displays = displays
        self._journal = journal
        self._connected = connected

    async def join(self, live: NextCommit) -> None:
        """Leave out of the next commit what another stream reports, and add what the user was shown. The commit must be
        taken before anything else is fed. Raises `JournalError`."""
        if live.info.asked_dialect == DISPLAY_TOOLS:
            self.displays.hold(live)
            return
        previews = {}
        if self.displays.may_give(live):
            rows = await self._journal.open_calls(stream=live.info.stream)
            previews = {row["callId"]: row.get("preview") for row in rows["calls"]}
        if is_tap(live.info):
            await self._leave_out(live)
        self.displays.give(live, previews)

    def concerns(self, live: NextCommit) -> bool:
        """Say whether `join` may have something to do."""
        return (
            live.is_shared
            or is_silent_gateway(live.info)
            or self.displays.waiting
            or live.info.asked_dialect == DISPLAY_TOOLS
        )

    async def _leave_out(self, live: NextCommit) -> None:
        info = live.info
        stored: dict[str, list[StreamInfo]] = {}
        undecided = {one for one, role in info.roles.items() if role == "owner"} if is_silent_gateway(info) else set()
        while new := (live.sessions | undecided) - stored.keys():
            for session in new:
                stored[session] = await self._journal.streams_of(session)
        # Nothing else runs from here on: what the others have reported until now is known.
        connected = {one.stream: one for one in self._connected() if one.stream != info.stream}
        heard: dict[str, StreamInfo] = {}
        for session, streams in stored.items():
            others = {one.stream: one for one in streams if one.stream != info.stream} | {
                one.stream: one for one in connected.values() if session in (one.last_session, one.session, *one.roles)
            }
            others = {name: connected.get(name, one) for name, one in others.items()}
            heard |= {
                name: one for name, one in others.items() if is_file(one) or _is_gateway(one) != _is_gateway(info)
            }
            if session != info.stream and (session not in info.roles or session in undecided):
                role: Role = "guest" if _is_guest(info, session, others.values(), connected) else "owner"
                info.roles = dict([*info.roles.items(), (session, role)][-REMEMBERED:])
        roles = info.roles
        if _is_gateway(info) and "owner" in roles.values() and any(map(_is_content, live.pending)):
            info.last_reported_ts = info.last_t

        def is_elsewhere(event: Produced) -> bool:
            if roles.get(event.session) == "guest":
                return event.kind not in GUEST_KINDS and not _is_guest_notice(event)
            return is_prompt(event) and is_repeated(event, info, heard.values())

        live.withhold(is_elsewhere)


def is_file(info: StreamInfo) -> bool:
    return info.followed or (info.dialect or info.asked_dialect) in session_dialects()


def names_session(info: StreamInfo) -> bool:
    """Say whether a tap has named a session of its agent."""
    return bool(info.roles)


def is_tap(info: StreamInfo) -> bool:
    """Say whether a stream is from a tap of an agent."""
    return not is_file(info) and info.asked_dialect != DISPLAY_TOOLS


def _is_guest(info: StreamInfo, session: str, others: Iterable[StreamInfo], connected: Container[str]) -> bool:
    """Say whether another stream has begun to report what a tap is about to report of a session."""
    start = info.started if info.started is not None else info.first_t or 0
    is_gateway = _is_gateway(info)

    def is_first(other: StreamInfo) -> bool:
        if is_file(other):
            return _last_reported(other) >= start or (is_gateway and other.stream in connected)
        overlaps = other.state != "ended" or (other.last_t or 0) >= start
        if is_silent_gateway(other):
            return False
        return overlaps and is_gateway != _is_gateway(other) and other.roles.get(session) == "owner"

    return any(map(is_first, others))


def is_silent_gateway(info: StreamInfo) -> bool:
    """Say whether a stream has only what an agent has asked its model. The agent's own stream may still come before."""
    return _is_gateway(info) and info.last_reported_ts is None


def _is_content(event: Produced) -> bool:
    """Say whether an event is more than a prompt, or what belongs to its turn."""
    return event.kind in ("reasoning", "tool-call", "tool-result") or (
        event.kind == "message" and event.fields.role == "assistant"
    )


def _is_gateway(info: StreamInfo) -> bool:
    """Say whether a stream has what passed between an agent and its model."""
    return (info.dialect or info.asked_dialect) in apis().values()


def _last_reported(info: StreamInfo) -> int:
    """Return when the latest line was written whose events a session file has reported; -1: it has reported none."""
    if info.last_reported_ts is None:  # a session file that was published over the socket, not followed
        return (info.last_t or info.updated) if info.statistics.events else -1
    return info.last_reported_ts


def _is_guest_notice(event: Produced) -> bool:
    return event.kind == "notice" and event.fields.code in GUEST_NOTICES


def is_prompt(item: Item) -> bool:
    """Say whether an item is something that the user said to the agent itself."""
    return (
        isinstance(item, Produced)
        and item.kind == "message"
        and not (item.partial or item.replay or item.agent)
        and item.fields.role == "user"
    )


def is_repeated(prompt: Produced, info: StreamInfo, others: Iterable[StreamInfo]) -> bool:
    """Say whether one of the other streams has reported the prompt; else remember that the stream with `info` does."""
    said = _beginning(prompt)
    for other in others:
        for event_id, text in other.prompts:
            if event_id not in info.repeated and _is_same(said, text):
                info.repeated = [*info.repeated, event_id][-PROMPTS_REMEMBERED:]
                return True
    info.prompts = [*info.prompts, (prompt.id, said)][-PROMPTS_REMEMBERED:]
    return False


def _beginning(prompt: Produced) -> str:
    return " ".join(prompt.fields.text[: 4 * BEGINNING].split())[:BEGINNING]


def _is_same(one: str, other: str) -> bool:
    return bool(one) == bool(other) and (one.startswith(other) or other.startswith(one))
