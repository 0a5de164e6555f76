"""What `tooltap mcp` shows belongs to the result of the agent that called it.

A call of a display tool reaches the daemon twice where its agent is tapped or followed: as the agent's own call, and
from the MCP server, which knows what the user was shown. So the server's events are held back, until the result of the
agent is about to be committed. Then the result gets the server's `display`, and the server's events are left out. The
two are matched by the id of the call (Claude Code tells it to the server), by the id of the output, which the server's
answer carries in `_meta` and agents repeat, or by the tool and the text of the answer. Gemini CLI prints none of these;
there it is the tool and its telling argument.

The server answers after its result is durable, so the agent's result always comes later. If none comes for a while, or
no agent is tapped or followed that could be the client, the server's events are reported as a session of their own.
Held events are part of the server's stream in the journal (`StreamInfo.pending_displays`), so they survive a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.sessions.next_commit import NextCommit
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Display, ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.stats import Statistics

DISPLAY_TOOLS = "display-tools"
"""The dialect of the MCP server."""


class Shown(NamedTuple):
    """A call of a display tool whose result is held back."""

    stream: str
    call_id: str
    name: str
    preview: str | None
    text: str
    display: Display | None


class Displays:
    """`agents`: names of the agents that are tapped or followed now; an empty name means any agent. `settle` is called
    when an agent's result has taken over what a stream holds of a call, `wait` when a call begins to wait for that.
    Both get the stream and the call, and may not block."""

    def __init__(
        self,
        agents: Callable[[], Iterable[str]],
        settle: Callable[[str, str], object],
        wait: Callable[[str, str], object],
    ) -> None:
        self._agents = agents
        self._settle = settle
        self._wait = wait
        self._shown: dict[tuple[str, str], Shown] = {}

    @property
    def waiting(self) -> bool:
        """Whether any result is held back."""
        return bool(self._shown)

    def hold(self, live: NextCommit) -> None:
        """Hold back what a display server has just reported, if its client reports the same."""
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
        """Note which results a stream holds back."""
        for shown in _shown(info):
            if (key := (info.stream, shown.call_id)) not in self._shown:
                self._shown[key] = shown
                self._wait(*key)

    def forget(self, stream: str, call_id: str) -> bool:
        """A call of a stream has waited for too long. Return whether it was still waiting."""
        return self._shown.pop((stream, call_id), None) is not None

    def may_give(self, live: NextCommit) -> bool:
        """Say whether any result of the next commit may be of a display tool."""
        tools = {_tool(shown.name) for shown in self._shown.values()}
        return any(_is_result(event) and any(map(event.fields.name.endswith, tools)) for event in live.pending)

    def give(self, live: NextCommit, previews: Mapping[str, str | None]) -> None:
        """Add to the results of an agent what the user was shown. `previews`: of its calls, by their ids."""
        for event in live.pending:
            if event.kind == "tool-call":
                previews = {**previews, event.fields.call_id: event.fields.preview}
            elif _is_result(event) and (shown := self._match(event, previews.get(event.fields.call_id))) is not None:
                del self._shown[shown.stream, shown.call_id]
                self._settle(shown.stream, shown.call_id)
                if shown.display is not None:
                    whole = msgspec.structs.replace(event.event, display=shown.display)
                    live.exchange(event, Produced.of(whole))

    def _match(self, event: Produced, preview: str | None) -> Shown | None:
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


def _shown(info: StreamInfo) -> Iterable[Shown]:
    previews: dict[str, str | None] = {}
    for event in map(decode, info.pending_displays):
        if isinstance(event, ToolCall):
            previews[event.call_id] = event.preview
        elif isinstance(event, ToolResult):
            text, preview = str(event.output.get("text") or ""), previews.get(event.call_id)
            yield Shown(info.stream, event.call_id, event.name, preview, text, event.display)


def _is_result(event: Produced) -> bool:
    return event.kind == "tool-result" and not event.fields.async_


def _tool(name: str) -> str:
    """The tool without its server, whose name the user chooses."""
    return name.rpartition("__")[2]


def take_held(info: StreamInfo, statistics: Statistics, call_id: str, *, report: bool) -> list[Produced]:
    """Take the events of a call out of what a stream holds. With `report`, return them, and what precedes them."""
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
