"""One session on several streams: which of them reports what, so that each event is there once.

A session can reach the daemon on two streams: from a tap of the agent (`run`, `proxy`, the socket, …), and from the
session file that the same agent writes. Their lines, ids and details differ, so their events cannot be compared one by
one. Instead, one stream owns what was said while the tapped agent ran:

- The tap, as a rule. Of the file's lines from that time, only what many agents do not print is ingested: prompts,
  usage, and facts of the session (`taps/follow/overlap.py`).
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

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from tooltap.daemon.journal.interface import Journal, Role, StreamInfo
from tooltap.normalizers.catalog.registry import apis, session_dialects
from tooltap.normalizers.core.items import Item, Produced
from tooltap.protocol.events import Display, ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.stats import Statistics


class NextCommit(Protocol):
    """The next commit of a stream, as the rules of sessions see and change it before it is taken. Implemented by the
    live stream (`daemon/ingest`)."""

    info: StreamInfo
    sessions: set[str]
    """Sessions that began or got a prompt since the last commit: another stream may report the same."""

    @property
    def pending(self) -> list[Produced]:
        """The events that will be stored."""

    @property
    def is_shared(self) -> bool:
        """Whether another stream may have reported some of them."""

    def exchange(self, event: Produced, changed: Produced) -> None:
        """Replace an event."""

    def hold(self) -> None:
        """Hold all events back, in `info.pending_displays`."""

    def withhold(self, is_elsewhere: Callable[[Produced], bool]) -> None:
        """Leave out the events that another stream has reported."""


# -- results of display tools ----------------------------------------------------------------------------------------


DISPLAY_TOOLS = "display-tools"
"""The dialect of the MCP server."""


class HeldResult(NamedTuple):
    """The result of a display tool's call, which is held back."""

    stream: str
    call_id: str
    name: str
    preview: str | None
    text: str
    display: Display | None


class Displays:
    """Gives what `tooltap mcp` shows to the result of the agent that called it.

    A call of a display tool reaches the daemon twice where its agent is tapped or followed: as the agent's own call,
    and from the MCP server, which knows what the user was shown. So the server's events are held back, until the result
    of the agent is about to be committed. Then the result gets the server's `display`, and the server's events are left
    out. The two are matched by the id of the call (Claude Code tells it to the server), by the id of the output, which
    the server's answer carries in `_meta` and agents repeat, or by the tool and the text of the answer. Gemini CLI
    prints none of these; there it is the tool and its preview.

    The server answers after its result is durable, so the agent's result always comes later. If none comes for a while,
    or no agent is tapped or followed that could be the client, the server's events are reported as a session of their
    own. Held events are part of the server's stream in the journal (`StreamInfo.pending_displays`), so they survive a
    restart.

    `agents`: names of the agents that are tapped or followed now; an empty name means any agent. `settle` is called
    when an agent's result has taken over what a stream holds of a call, `wait` when a call begins to wait for that.
    Both get the stream and the call, and may not block.
    """

    def __init__(
        self,
        agents: Callable[[], Iterable[str]],
        settle: Callable[[str, str], object],
        wait: Callable[[str, str], object],
    ) -> None:
        self._agents = agents
        self._settle = settle
        self._wait = wait
        self._shown: dict[tuple[str, str], HeldResult] = {}

    @property
    def waiting(self) -> bool:
        """Whether any result is held back."""
        return bool(self._shown)

    def hold(self, live: NextCommit) -> None:
        """Hold back the pending events of a display server, if its client is tapped or followed, and so reports the
        calls, too."""
        info, events = live.info, live.pending
        if events and info.stream not in info.roles:
            client = next((event.fields.title for event in events if event.kind == "session"), None)
            names = set(self._agents())
            is_reported = bool(names) if client is None else any(name in client.lower() for name in names)
            info.roles = {info.stream: "guest" if is_reported else "owner"}
        if events and info.roles[info.stream] == "guest":
            live.hold()
            self.remember(info)

    def remember(self, info: StreamInfo) -> None:
        """Remember the results that a stream holds back."""
        for shown in _shown(info):
            if (key := (info.stream, shown.call_id)) not in self._shown:
                self._shown[key] = shown
                self._wait(*key)

    def forget(self, stream: str, call_id: str) -> bool:
        """Give up waiting for the agent's result of a call; return whether the call was still waiting."""
        return self._shown.pop((stream, call_id), None) is not None

    def may_give(self, live: NextCommit) -> bool:
        """Return whether any result of the next commit may be of a display tool."""
        tools = {_tool(shown.name) for shown in self._shown.values()}
        return any(_is_result(event) and any(map(event.fields.name.endswith, tools)) for event in live.pending)

    def give(self, live: NextCommit, previews: Mapping[str, str | None]) -> None:
        """Add the held displays to an agent's results. `previews`: of its calls, by their ids."""
        for event in live.pending:
            if event.kind == "tool-call":
                previews = {**previews, event.fields.call_id: event.fields.preview}
            elif _is_result(event) and (shown := self._match(event, previews.get(event.fields.call_id))) is not None:
                del self._shown[shown.stream, shown.call_id]
                self._settle(shown.stream, shown.call_id)
                if shown.display is not None:
                    whole = msgspec.structs.replace(event.event, display=shown.display)
                    live.exchange(event, Produced.of(whole))

    def _match(self, event: Produced, preview: str | None) -> HeldResult | None:
        result = event.fields
        for shown in self._shown.values():
            output_id = None if shown.display is None else shown.display.output_id
            if shown.call_id == result.call_id or (output_id is not None and output_id.encode() in event.body):
                return shown
        named = [one for one in self._shown.values() if result.name.endswith(_tool(one.name))]
        text = result.output.get("text")
        if isinstance(text, str) and text:  # some agents put more around it
            return next((one for one in named if one.text and one.text in text), None)
        return next((one for one in named if preview and one.preview == preview), None)


def _shown(info: StreamInfo) -> Iterable[HeldResult]:
    previews: dict[str, str | None] = {}
    for event in map(decode, info.pending_displays):
        if isinstance(event, ToolCall):
            previews[event.call_id] = event.preview
        elif isinstance(event, ToolResult):
            text, preview = str(event.output.get("text") or ""), previews.get(event.call_id)
            yield HeldResult(info.stream, event.call_id, event.name, preview, text, event.display)


def _is_result(event: Produced) -> bool:
    return event.kind == "tool-result" and not event.fields.async_


def _tool(name: str) -> str:
    """Return the tool's name without its server, whose name the user chooses."""
    return name.rpartition("__")[2]


def take_held(info: StreamInfo, statistics: Statistics, call_id: str, *, report: bool) -> list[Produced]:
    """Take the events of a call out of what a stream holds. With `report`, return them and the events that precede
    them."""
    events = [Produced.of(decode(body), body.encode()) for body in info.pending_displays]
    taken = [one for one in events if _call_of(one) == call_id]
    if report and taken:
        taken = [one for one in events if _call_of(one) in (None, call_id)]
    gone = {one.id for one in taken}
    info.pending_displays = [one.body.decode() for one in events if one.id not in gone]
    if not report:
        return []
    for one in taken:
        statistics.adjust(one.kind, one.tool, one.raw_tool, 1)
    return taken


def _call_of(event: Produced) -> str | None:
    return event.fields.call_id if isinstance(event.fields, ToolCall | ToolUpdate | ToolResult) else None


# -- streams of one session ------------------------------------------------------------------------------------------


GUEST_KINDS: Final = frozenset({"permission-request", "permission-response", "unparsed"})
GUEST_NOTICES: Final = frozenset({"lost", "parser-reset"})
"""Kinds (`GUEST_KINDS`) and codes of notices that a guest reports, since a session file cannot have them: questions to
the user, and what happened to the tap's lines."""
REMEMBERED: Final = 64
"""Maximum sessions, the latest ones, in which a stream remembers its role."""
PROMPTS_REMEMBERED: Final = 64
"""Maximum prompts, the latest ones, that a stream remembers."""
BEGINNING: Final = 100
"""Leading code points by which prompts are compared: an agent may append its standard input to a prompt."""


class Joining:
    """Decides which stream reports which events of a session. `connected`: the state of all streams with a
    connection."""

    def __init__(self, journal: Journal, connected: Callable[[], Iterable[StreamInfo]], displays: Displays) -> None:
        self.displays = displays
        self._journal = journal
        self._connected = connected

    async def join(self, live: NextCommit) -> None:
        """Leave out of the next commit what another stream reports, and add displays to results. The commit must be
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
        """Return whether `join` may have something to do."""
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
    """Return whether a tap's stream has named a session of its agent."""
    return bool(info.roles)


def is_tap(info: StreamInfo) -> bool:
    """Return whether a stream is from a tap of an agent."""
    return not is_file(info) and info.asked_dialect != DISPLAY_TOOLS


def _is_guest(info: StreamInfo, session: str, others: Iterable[StreamInfo], connected: Container[str]) -> bool:
    """Return whether another stream has begun to report what a tap is about to report of a session."""
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
    """Return whether a gateway's stream has reported no answer of the model yet, so that the agent's own stream may
    still take over."""
    return _is_gateway(info) and info.last_reported_ts is None


def _is_content(event: Produced) -> bool:
    """Return whether an event is part of an answer: reasoning, a call, a result, or an assistant's message."""
    return event.kind in ("reasoning", "tool-call", "tool-result") or (
        event.kind == "message" and event.fields.role == "assistant"
    )


def _is_gateway(info: StreamInfo) -> bool:
    """Return whether a stream is from a gateway, between an agent and its model."""
    return (info.dialect or info.asked_dialect) in apis().values()


def _last_reported(info: StreamInfo) -> int:
    """Return the time of the latest line of a session file whose events were reported; -1 if none was."""
    if info.last_reported_ts is None:  # a session file that was published over the socket, not followed
        return (info.last_t or info.updated) if info.statistics.events else -1
    return info.last_reported_ts


def _is_guest_notice(event: Produced) -> bool:
    return event.kind == "notice" and event.fields.code in GUEST_NOTICES


def is_prompt(item: Item) -> bool:
    """Return whether an item is something that the user said to the agent itself."""
    return (
        isinstance(item, Produced)
        and item.kind == "message"
        and not (item.partial or item.replay or item.agent)
        and item.fields.role == "user"
    )


def is_repeated(prompt: Produced, info: StreamInfo, others: Iterable[StreamInfo]) -> bool:
    """Return whether another stream has reported the prompt; else remember that the stream with `info` does."""
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
