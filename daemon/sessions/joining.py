"""One session on several streams: which of them reports what, so that each event is there once.

A session can reach the daemon on two streams: from a tap of the agent (`run`, `proxy`, the socket, …), and from the
session file that the same agent writes. Their lines, ids and details differ, so their events cannot be compared one by
one. Instead, one stream owns what was said while the tapped agent ran:

- The tap, as a rule. Of the file's lines from that time, only what many agents do not print is ingested: prompts,
  usage, and facts of the session (`taps/follow/overlap.py`).
- The file, if it was ingested first: the daemon was away while the agent ran, and the tap's lines come from a spool;
  or the tap has joined the session in the middle of a turn (`attach codex`), of which the file has the beginning. Then
  the tap is a guest: of its events, only those are ingested that no session file has.

What passes between the agent and its model (`gateway`) is a third source: it is the guest of the agent's own stream and
of its file, if these have named the session before the model answers; else these are its guests.

A tap's role in a session is decided when its first event of the session is about to be committed. It is part of that
commit (`StreamInfo.roles`), so it holds for good. A file waits until the role of every tap of its session is durable.

A prompt is ingested from whoever reports it first; the other one is left out. The two may differ in their words: each
stream remembers the ids and beginnings of the latest prompts it has reported (`StreamInfo.prompts`), and which prompts
of others it has left out for them (`StreamInfo.repeated`). So the same words, said twice, are reported twice.

Telemetry that an agent sends (`taps/otlp`) says the least. It reports a session only while nothing else does: each turn
is reported if no other stream has the session when it begins, as a whole unless a session file comes meanwhile. Else
only what could not be read is reported, and, beside a tap, how calls ended that it has reported before.

What telemetry has reported when a session file comes is deleted, if nothing else has reported anything of the session:
then the file says all of it, and more (`Streams.withdraw_telemetry`). If a tap or a hook has reported some of the
session, nothing is deleted, and the file is read as beside a tap, for the time of which telemetry has reported events.

Events that are left out are counted under `told-elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from tooltap.daemon.journal.interface import FilePosition, Journal, Role, StreamInfo
from tooltap.daemon.sessions.projection import HOOKS
from tooltap.normalizers.catalog.registry import apis, session_dialects
from tooltap.normalizers.core.items import Item, Produced
from tooltap.protocol.events import Display, SessionEvent, ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.stats import Statistics


class NextCommit(Protocol):
    """The next commit of a stream, as the rules of sessions see and change it before it is taken. Implemented by the
    live stream (`daemon/ingest`)."""

    info: StreamInfo
    sessions: set[str]
    """Sessions that began or got a prompt since the last commit: another stream may report the same."""

    @property
    def cwd(self) -> str | None:
        """The folder in which the agent works, if its stream states it."""

    def joined(self, session: str) -> int | None:
        """Return the start of the turn in whose middle the stream has joined a session, in ms since the epoch."""

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
TELEMETRY = "otlp"
"""The dialect of what agents send as telemetry."""


class DisplayClient(NamedTuple):
    """The client of a display server, as far as the server states it."""

    title: str | None
    """A text that contains the client's name."""
    cwd: str | None


class HeldResult(NamedTuple):
    """The result of a display tool's call, which is held back."""

    stream: str
    call_id: str
    name: str
    preview: str | None
    text: str
    display: Display | None
    client: DisplayClient | None
    """None if it is not known; then only ids can tell whose result it is."""

    def is_like(self, other: HeldResult) -> bool:
        """Return whether a result that fits one of them may fit the other."""
        return _tool(self.name) == _tool(other.name) and (self.text == other.text or self.preview == other.preview)


class CallOfAgent(NamedTuple):
    """A call of a tapped or followed agent that is open."""

    stream: str
    session: str
    provider: str
    call_id: str
    name: str
    preview: str | None


class Displays:
    """Gives what `tooltap mcp` shows to the result of the agent that called it.

    A call of a display tool reaches the daemon twice where its agent is tapped or followed: as the agent's own call,
    and from the MCP server, which knows what the user was shown. So the server's events are held back, until the result
    of the agent is about to be committed. Then the result gets the server's `display`, and the server's events are left
    out. The two are matched by the id of the call (Claude Code tells it to the server) or by the id of the output,
    which is in `_meta` of the server's answer, and which some agents repeat.

    Without an id they are matched by the tool and the text of the answer, or by the tool and its preview, since Gemini
    CLI does not print the answer. Two agents may show files of the same name, so such a match must be the only one: one
    held result fits, no other agent has an open call that fits it, and the agent and its folder are those that the
    server states. Otherwise the result gets no display, and none of the held results that fit it is matched without an
    id any more.

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
        self._clients: dict[str, DisplayClient] = {}
        """Stream of a display server -> its client."""

    @property
    def waiting(self) -> bool:
        """Whether any result is held back."""
        return bool(self._shown)

    def hold(self, live: NextCommit) -> None:
        """Hold back the pending events of a display server, if its client is tapped or followed, and so reports the
        calls, too."""
        info, events = live.info, live.pending
        if events and info.stream not in info.roles:
            title = next((event.fields.title for event in events if event.kind == "session"), None)
            names = set(self._agents())
            is_reported = bool(names) if title is None else any(name in title.lower() for name in names)
            info.roles = {info.stream: "guest" if is_reported else "owner"}
        if events and info.roles[info.stream] == "guest":
            live.hold()
            self.remember(info)

    def remember(self, info: StreamInfo) -> None:
        """Remember the results that a stream holds back."""
        for session in (event for event in map(decode, info.pending_displays) if isinstance(event, SessionEvent)):
            self._clients[info.stream] = DisplayClient(session.title, session.cwd)
        for shown in _shown(info, self._clients.get(info.stream)):
            if (key := (info.stream, shown.call_id)) not in self._shown:
                self._shown[key] = shown
                self._wait(*key)

    def forget(self, stream: str, call_id: str) -> bool:
        """Give up waiting for the agent's result of a call; return whether the call was still waiting."""
        gone = self._shown.pop((stream, call_id), None)
        if gone is not None:  # its result may still come, and must not be taken for that of another one
            self._need_ids(one for one in self._shown.values() if one.is_like(gone))
        return gone is not None

    def end(self, stream: str) -> None:
        """Forget the client of a display server whose stream has ended."""
        self._clients.pop(stream, None)

    def may_give(self, live: NextCommit) -> bool:
        """Return whether any result of the next commit may be of a display tool."""
        tools = {_tool(shown.name) for shown in self._shown.values()}
        return any(_is_result(event) and any(map(event.fields.name.endswith, tools)) for event in live.pending)

    def give(self, live: NextCommit, calls: Sequence[CallOfAgent]) -> None:
        """Add the held displays to an agent's results. `calls`: those that are open, of all agents."""
        stream = live.info.stream
        previews = {call.call_id: call.preview for call in calls if call.stream == stream}
        for event in live.pending:
            if event.kind == "tool-call":
                previews[event.fields.call_id] = event.fields.preview
            elif _is_result(event):
                others = [call for call in calls if stream != call.stream and event.session != call.session]
                shown = self._by_id(event) or self._alike(event, previews.get(event.fields.call_id), live.cwd, others)
                if shown is not None:
                    self._give(live, event, shown)

    def _give(self, live: NextCommit, event: Produced, shown: HeldResult) -> None:
        del self._shown[shown.stream, shown.call_id]
        self._settle(shown.stream, shown.call_id)
        if shown.display is not None:
            whole = msgspec.structs.replace(event.event, display=shown.display)
            live.exchange(event, Produced.of(whole))

    def _by_id(self, event: Produced) -> HeldResult | None:
        for shown in self._shown.values():
            output_id = None if shown.display is None else shown.display.output_id
            if shown.call_id == event.fields.call_id or (output_id is not None and output_id.encode() in event.body):
                return shown
        return None

    def _alike(
        self, event: Produced, preview: str | None, cwd: str | None, others: Sequence[CallOfAgent]
    ) -> HeldResult | None:
        """Return the one held result that fits an agent's result, if no open call of another agent fits it, too."""
        result = event.fields
        text = result.output.get("text")
        fitting = []
        for shown in self._shown.values():
            if not result.name.endswith(_tool(shown.name)) or not _is_of(shown, event.event.provider, cwd):
                continue
            if isinstance(text, str) and text:  # some agents put more around it
                is_fitting = bool(shown.text) and shown.text in text
            else:
                is_fitting = bool(preview) and shown.preview == preview
            if is_fitting:
                fitting.append(shown)
        if len(fitting) == 1 and not any(_fits(fitting[0], call) for call in others):
            return fitting[0]
        self._need_ids(fitting)
        return None

    def _need_ids(self, doubtful: Iterable[HeldResult]) -> None:
        for one in list(doubtful):
            self._shown[one.stream, one.call_id] = one._replace(client=None)


def _is_of(shown: HeldResult, provider: str, cwd: str | None) -> bool:
    """Return whether a held result may be for an agent in this folder. The server may show files of a folder below or
    above the agent's."""
    if shown.client is None:
        return False
    title, folder = shown.client
    is_client = title is None or provider.lower() in title.lower()
    return is_client and (cwd is None or folder is None or _is_within(cwd, folder) or _is_within(folder, cwd))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _fits(shown: HeldResult, call: CallOfAgent) -> bool:
    """Return whether a held result may be for an open call."""
    is_named = call.name.endswith(_tool(shown.name)) and call.preview in (None, shown.preview)
    return is_named and _is_of(shown, call.provider, None)


def _shown(info: StreamInfo, client: DisplayClient | None) -> Iterable[HeldResult]:
    previews: dict[str, str | None] = {}
    for event in map(decode, info.pending_displays):
        if isinstance(event, ToolCall):
            previews[event.call_id] = event.preview
        elif isinstance(event, ToolResult):
            text, preview = str(event.output.get("text") or ""), previews.get(event.call_id)
            yield HeldResult(info.stream, event.call_id, event.name, preview, text, event.display, client)


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
    connection; `providers`: those of them that are of agents, each with its provider."""

    def __init__(
        self,
        journal: Journal,
        connected: Callable[[], Iterable[StreamInfo]],
        providers: Callable[[], Mapping[str, str]],
        displays: Displays,
    ) -> None:
        self.displays = displays
        self._journal = journal
        self._connected = connected
        self._providers = providers

    async def join(self, live: NextCommit) -> None:
        """Leave out of the next commit what another stream reports, and add displays to results. The commit must be
        taken before anything else is fed. Raises `JournalError`."""
        if live.info.asked_dialect == DISPLAY_TOOLS:
            self.displays.hold(live)
            return
        calls = await self._open_calls() if self.displays.may_give(live) else []
        if live.info.asked_dialect == TELEMETRY:
            await self._leave_out_telemetry(live)
        elif is_tap(live.info):
            await self._leave_out(live)
        self.displays.give(live, calls)

    def concerns(self, live: NextCommit) -> bool:
        """Return whether `join` may have something to do."""
        return (
            live.is_shared
            or is_silent_gateway(live.info)
            or self.displays.waiting
            or live.info.asked_dialect in (DISPLAY_TOOLS, TELEMETRY)
        )

    async def _open_calls(self) -> list[CallOfAgent]:
        providers = self._providers()
        return [
            CallOfAgent(
                row["stream"],
                row["session"],
                providers[row["stream"]],
                row["callId"],
                str(row.get("name")),
                row.get("preview"),
            )
            for row in (await self._journal.open_calls())["calls"]
            if row["stream"] in providers
        ]

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
            others = {
                name: connected.get(name, one)
                for name, one in others.items()
                if one.asked_dialect not in (HOOKS, TELEMETRY)
            }
            heard |= {
                name: one for name, one in others.items() if is_file(one) or _is_gateway(one) != _is_gateway(info)
            }
            if session != info.stream and (session not in info.roles or session in undecided):
                if (joined := live.joined(session)) is not None:
                    info.begins = dict([*info.begins.items(), (session, joined)][-REMEMBERED:])
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

    async def _leave_out_telemetry(self, live: NextCommit) -> None:
        info = live.info
        first: dict[str, int] = {}
        for event in live.pending:
            if event.ts is not None:
                first.setdefault(event.session, event.ts)
        stored = {session: await self._journal.streams_of(session) for session in {one.session for one in live.pending}}
        open_calls = (await self._journal.open_calls())["calls"] if "owner" in info.roles.values() else []
        own = {row["callId"] for row in open_calls if row["stream"] == info.stream}
        # Nothing else runs from here on: what the others have reported until now is known.
        connected = {one.stream: one for one in self._connected()}
        roles: dict[str, Role] = {}
        followed: set[str] = set()
        for session, streams in stored.items():
            known = {one.stream: one for one in streams} | {
                one.stream: one for one in connected.values() if session in (one.last_session, one.session, *one.roles)
            }
            others = [connected.get(name, one) for name, one in known.items()]
            is_reported = any(_reports(one, session, first.get(session, 0)) for one in others)
            roles[session] = "guest" if is_reported else "owner"
            if any(is_file(one) and _reports(one, session, first.get(session, 0)) for one in others):
                followed.add(session)
        elsewhere = set()
        for event in live.pending:
            session = event.session
            if session not in info.roles or (event.kind == "turn" and event.fields.state == "started"):
                info.roles = dict([*info.roles.items(), (session, roles[session])][-REMEMBERED:])
            if event.kind == "unparsed" or (_is_guest_notice(event) and session not in followed):
                continue
            role = info.roles[session]
            ends_own = role == "owner" and event.kind == "turn" and event.fields.state != "started"
            is_elsewhere = session in followed or (role == "guest" and _call_of(event) not in own)
            if is_elsewhere and not ends_own:
                elsewhere.add(event.id)
                continue
            if event.ts is not None:
                info.begins = {session: event.ts, **info.begins}
                info.last_reported_ts = max(info.last_reported_ts or 0, event.ts)
            if is_prompt(event):
                is_repeated(event, info, ())
        live.withhold(lambda event: event.id in elsewhere)


def _reports(info: StreamInfo, session: str, since: int) -> bool:
    """Return whether a stream other than telemetry reports what happens in a session from some time on."""
    if is_file(info):
        return info.followed or (info.last_t or 0) >= since
    if not is_tap(info) or is_silent_gateway(info):
        return False
    return info.roles.get(session) != "guest" and (info.state != "ended" or (info.last_t or 0) >= since)


def is_file(info: StreamInfo | FilePosition) -> bool:
    return info.followed or (info.dialect or info.asked_dialect) in session_dialects()


def names_session(info: StreamInfo) -> bool:
    """Return whether a tap's stream has named a session of its agent."""
    return bool(info.roles)


def is_tap(info: StreamInfo) -> bool:
    """Return whether a stream is from a tap of an agent, and may own a session."""
    return not is_file(info) and info.asked_dialect not in (DISPLAY_TOOLS, HOOKS, TELEMETRY)


def _is_guest(info: StreamInfo, session: str, others: Iterable[StreamInfo], connected: Container[str]) -> bool:
    """Return whether another stream has begun to report what a tap is about to report of a session."""
    first = info.begins.get(session, info.first_t or 0)
    start = info.started if info.started is not None else first
    is_gateway = _is_gateway(info)

    def is_first(other: StreamInfo) -> bool:
        if is_file(other):
            return _last_reported(other) >= start or (is_gateway and other.stream in connected)
        overlaps = other.state != "ended" or (other.last_t or 0) >= start
        if is_silent_gateway(other):
            return False
        return overlaps and is_gateway != _is_gateway(other) and other.roles.get(session) == "owner"

    return any(map(is_first, others))


def is_telemetry(info: StreamInfo) -> bool:
    return info.asked_dialect == TELEMETRY


async def remove_reported(journal: Journal, session: str) -> None:
    """Delete what was reported of a session, which another stream is about to report. Raises `NotEndedError` and
    `JournalError`."""
    is_pinned = session in await journal.pinned()
    await journal.remove_session(session)
    if is_pinned:
        await journal.pin(session, pinned=True)


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


QUOTING: Final = str.maketrans("", "", '"\\')
"""What an agent puts around and into the words of its command line, when it stores them as one prompt."""


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
    """Compare without quoting: OpenCode stores `"two words"` for the argument `two words`."""
    one, other = one.translate(QUOTING), other.translate(QUOTING)
    return bool(one) == bool(other) and (one.startswith(other) or other.startswith(one))
