"""Whether agents still print what they printed when their baselines were recorded.

`Drift` looks at any number of streams while they are normalized, each through a `StreamWatch`, and keeps what it finds
by agent, version, kind and place:

- shapes: message and block types, keys and types that no baseline has; keys that every baseline example had and that
  are gone; payloads that do not fit their canonical tool,
- yields: lines that could not be read, tools without a canonical name, calls without a result in a turn that the
  provider ended as completed, streams of many lines that gave neither message nor call.

A finding is an `alarm` where something that we read is lost or read wrongly, and else a `notice`: a new field costs
nothing yet.

Walking over a whole line costs more than parsing it, which a daemon cannot afford: not `thorough`, only the 1st, 2nd,
4th, 8th, … line with the same keys is walked over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, Literal, TypeAlias

import msgspec
import orjson

from tooltap.normalizers.bounds import Produced
from tooltap.normalizers.stream import Output, StreamNormalizer
from tooltap.normalizers.tool_names import CANONICAL_TOOLS, LATER_TOOLS
from tooltap.protocol.events import (
    Event,
    Message,
    PermissionRequest,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
)
from tooltap.protocol.tapped import Direction
from tooltap.traces.baselines import ENOUGH, UNKNOWN, Agent, Baseline, age, nearest, normalizer_of
from tooltap.traces.fixture_keys import RawNames
from tooltap.traces.payloads import fields_of, key_of, misfits, payload_of, payload_shape
from tooltap.traces.redact import Redactor
from tooltap.traces.shapes import Change, Shape, compare, example, has_key, shape_of
from tooltap.traces.streams import TracedStream

__all__ = ["AgentSeen", "Drift", "Finding", "Report", "StreamWatch", "look_at"]

MAX_FINDINGS = 300
MAX_SEEN = 4_096
"""Different sets of keys that are told apart when walks are saved."""
MAX_AGENTS = 200
EXAMPLE = 120
"""Characters of an example …"""
EXAMINED = 20_000
"""… cut from so many, which are redacted before."""
SILENT_LINES = 40
"""A stream of so many lines without a message or a call is an alarm."""
BROKEN = 0.1
"""Share of lines that cannot be read from which that is an alarm, whatever the reason, of at least …"""
BROKEN_LINES = 20
"""… so many."""
WHILE_OPEN = 4
"""A stream that has not ended is given so many times as long to give something."""
YIELD = frozenset({"message", "reasoning", "tool-call"})
NAMED = frozenset({*CANONICAL_TOOLS, *LATER_TOOLS})
ALARMING_REASONS = ("unknown-type", "parser-error")

Severity: TypeAlias = Literal["alarm", "notice"]


class Finding(msgspec.Struct, rename="camel"):
    severity: Severity
    kind: str
    """new-variant, new-key, vanished-key, other-type, misfit, unnamed-tool, unparsed, dropped-result, zero-yield."""
    dialect: str
    provider: str
    version: str
    """Of the agent; `unknown` where nobody says."""
    place: str
    """A path into the raw line, or the key of an event and a path into its payload, or the name of a tool."""
    text: str
    """What is the matter."""
    example: str
    """Redacted and cut."""
    first: str
    """`<stream>:<line>` where it was found first."""
    count: int = 1
    """Lines or events that showed it, of those looked at."""


class AgentSeen(msgspec.Struct, rename="camel"):
    """One version of an agent, over all its streams."""

    dialect: str
    provider: str
    version: str
    baseline: str | None
    """The version it is compared with; None: there is no baseline of this agent."""
    streams: int = 0
    lines: int = 0
    unparsed: int = 0
    calls: int = 0
    dropped: int = 0
    """Calls without a result in a turn that was completed."""


class Report(msgspec.Struct, rename="camel"):
    agents: list[AgentSeen]
    findings: list[Finding]
    """Alarms first."""
    omitted: int = 0
    """Findings beyond what is kept."""


class Known(msgspec.Struct):
    """What the baselines say of one version of an agent."""

    version: str | None = None
    lines: Shape = msgspec.field(default_factory=Shape)
    payloads: dict[str, Shape] = {}


class Drift:
    """`baselines`: those of a dialect. `on_new` is called with each finding once, when it is first made."""

    def __init__(
        self,
        baselines: Callable[[str], list[Baseline]],
        *,
        thorough: bool = True,
        silent_lines: int = SILENT_LINES,
        on_new: Callable[[Finding], None] = lambda finding: None,
    ) -> None:
        self.silent_lines = silent_lines
        self._baselines = baselines
        self._thorough = thorough
        self._on_new = on_new
        self._known: dict[Agent, Known] = {}
        self._agents: dict[Agent, AgentSeen] = {}
        self._findings: dict[tuple[Agent, str, str], Finding] = {}
        self._lines: dict[Agent, Shape] = {}
        """What has been walked over, to tell a key that is gone from one that is not always there."""
        self._seen: dict[Any, int] = {}
        self._omitted = 0

    def watch(self, normalizer: StreamNormalizer, version: str | None = None) -> StreamWatch:
        """Look at a stream from here on. `version`: of the agent, if it is known."""
        return StreamWatch(self, normalizer, version)

    def report(self) -> Report:
        findings = [self._settled(finding) for finding in self._findings.values()]
        findings.sort(key=lambda one: (one.severity, one.provider, one.dialect, one.version, -one.count))
        agents = [agent for agent in self._agents.values() if agent.streams]
        return Report(agents, findings, self._omitted)

    def _settled(self, finding: Finding) -> Finding:
        agent = Agent(finding.dialect, finding.provider, finding.version)
        if finding.kind == "vanished-key" and has_key(self._lines.get(agent, Shape()), finding.place):
            return msgspec.structs.replace(finding, severity="notice", text=f"{finding.text} (from some)")
        return finding

    def walk(self, agent: Agent, value: dict[str, Any]) -> Iterator[Change]:
        """Where a line is not what is known."""
        known = self.known(agent)
        if known.version is not None:
            shape = shape_of(value)
            self._lines.setdefault(agent, Shape()).add(shape)
            yield from compare(known.lines, shape)

    def agent(self, agent: Agent) -> AgentSeen:
        if agent not in self._agents and len(self._agents) >= MAX_AGENTS:
            agent = Agent("…", "…", "…")
        if agent not in self._agents:
            self._agents[agent] = AgentSeen(*agent, self.known(agent).version)
        return self._agents[agent]

    def known(self, agent: Agent) -> Known:
        """All that is known of an agent."""
        if agent not in self._known:
            if len(self._known) >= MAX_AGENTS:
                return Known()
            self._known[agent] = _known(self._baselines(agent.dialect), agent)
        return self._known[agent]

    def is_due(self, signature: Any) -> bool:
        """Whether a value with these keys is to be walked over."""
        if self._thorough:
            return True
        times = self._seen.get(signature, 0) + 1
        if times == 1 and len(self._seen) >= MAX_SEEN:
            return False
        self._seen[signature] = times
        return times & (times - 1) == 0

    def add(self, agent: Agent, severity: Severity, kind: str, place: str, text: str, shown: str, first: str) -> None:
        finding = self._findings.get((agent, kind, place))
        if finding is not None:
            finding.count += 1
            if severity == "alarm":
                finding.severity = severity
            return
        if len(self._findings) >= MAX_FINDINGS:
            self._omitted += 1
            return
        finding = Finding(severity, kind, *agent, place=place, text=text, example=_redacted(shown), first=first)
        self._findings[agent, kind, place] = finding
        self._on_new(finding)


def look_at(drift: Drift, stream: TracedStream, *, provider: str | None = None, version: str | None = None) -> None:
    """Look at a whole recorded stream. `provider` and `version`: what the caller knows, before what the stream says."""
    normalizer = normalizer_of(stream, provider)
    watch = drift.watch(normalizer, version or stream.agent_version)
    for line in stream.lines:
        watch.took(normalizer.feed(line.data, line.t, line.direction))
    watch.took(normalizer.close("end"))
    watch.close()


class StreamWatch:
    """One stream. `took` is called with what each line gave, `close` at the end."""

    def __init__(self, drift: Drift, normalizer: StreamNormalizer, version: str | None) -> None:
        self._drift = drift
        self._normalizer = normalizer
        self._version = version
        self._lines = normalizer.statistics.lines
        self._unparsed = normalizer.statistics.unparsed
        self._pending: list[dict[str, Any]] = []
        """Objects to be walked over when it is known what their line gave: who printed it may be in it."""
        self._unanswered: dict[str | None, list[ToolResult]] = {}
        """Turn -> results we made up for its calls."""
        self._names = RawNames()
        self._has_yielded = not YIELD.isdisjoint(normalizer.statistics.kinds)
        self._seen: AgentSeen | None = None
        normalizer.watch(self.look)

    def look(self, value: dict[str, Any], direction: Direction | None) -> None:
        """Is shown every object by the parser. What a client says is not the agent's."""
        if direction in (None, "out") and self._drift.is_due(_signature(value)):
            self._pending.append(value)

    def took(self, outputs: Iterable[Output]) -> None:
        """What the lines since the last time gave."""
        if self._normalizer.holds_lines:
            return
        events = [output.event for output in outputs if isinstance(output, Produced)]
        for event in events:
            if isinstance(event, SessionEvent) and event.agent_version:
                self._version = self._version or event.agent_version
        agent = self._agent()
        seen = self._seen_of(agent)
        pending, self._pending = self._pending, []
        if pending:
            is_unknown = any(isinstance(event, Unparsed) for event in events)
            for value in pending:
                self._compare_line(agent, value, is_unknown)
        for event in events:
            if not getattr(event, "partial", False) and not event.replay:
                self._count(agent, seen, event)
        self._look_for_silence(WHILE_OPEN * self._drift.silent_lines)

    def close(self) -> None:
        """The stream has ended."""
        self._look_for_silence(self._drift.silent_lines)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _look_for_silence(self, lines: int) -> None:
        statistics = self._normalizer.statistics
        if self._has_yielded or statistics.lines < lines:
            return
        self._has_yielded = True  # said once
        text = f"{statistics.lines} lines gave no message and no call"
        self._add(self._agent(), "alarm", "zero-yield", "$", text, f"skipped: {statistics.skipped}")

    def _agent(self) -> Agent:
        normalizer = self._normalizer
        return Agent(normalizer.dialect or UNKNOWN, normalizer.statistics.provider, self._version or UNKNOWN)

    def _seen_of(self, agent: Agent) -> AgentSeen:
        """The agent's account, with this stream's lines up to now."""
        seen, statistics = self._drift.agent(agent), self._normalizer.statistics
        if seen is not self._seen:  # who it is, a stream may say late
            if self._seen is not None:
                self._seen.streams -= 1
            self._seen = seen
            seen.streams += 1
        seen.lines += statistics.lines - self._lines
        seen.unparsed += statistics.unparsed - self._unparsed
        self._lines, self._unparsed = statistics.lines, statistics.unparsed
        return seen

    def _compare_line(self, agent: Agent, value: dict[str, Any], is_unknown: bool) -> None:
        for change in self._drift.walk(agent, value):
            self._add(
                agent,
                _severity(change, is_unknown),
                change.kind,
                change.path,
                _text(change),
                _shown(example(value, change.path)),
            )

    def _count(self, agent: Agent, seen: AgentSeen, event: Event) -> None:
        if isinstance(event, Message):
            self._has_yielded |= event.role == "assistant"
        elif isinstance(event, Reasoning):
            self._has_yielded = True
        elif isinstance(event, Unparsed):
            self._count_unparsed(agent, seen, event)
        elif isinstance(event, Turn):
            self._has_yielded |= event.state == "failed" and not event.synthetic  # the provider says why there is none
            for result in self._unanswered.pop(event.turn, []):
                if event.state == "completed" and not event.synthetic:
                    seen.dropped += 1
                    text = "a call has no result, and its turn was completed"
                    self._add(agent, "alarm", "dropped-result", result.name, text, result.call_id, event)
        elif isinstance(event, ToolCall | ToolUpdate | ToolResult | PermissionRequest):
            if isinstance(event, ToolCall):
                self._has_yielded = True
                seen.calls += 1
            if isinstance(event, ToolResult) and event.synthetic:
                if event.status == "interrupted":
                    self._unanswered.setdefault(event.turn, []).append(event)
            else:
                self._compare_payload(agent, event)

    def _count_unparsed(self, agent: Agent, seen: AgentSeen, event: Unparsed) -> None:
        is_broken = seen.lines >= BROKEN_LINES and seen.unparsed > BROKEN * seen.lines
        is_alarming = is_broken or event.reason.startswith(ALARMING_REASONS)
        text = f"lines that cannot be read: {event.reason}"
        self._add(agent, "alarm" if is_alarming else "notice", "unparsed", event.reason, text, event.text, event)

    def _compare_payload(self, agent: Agent, event: ToolCall | ToolUpdate | ToolResult | PermissionRequest) -> None:
        payload = payload_of(event)
        if payload is None or event.name is None:
            return
        if not self._drift.is_due((type(event), event.provider, event.name, *payload)):
            return
        key = key_of(event, self._names)
        known = self._drift.known(agent)
        has_worked = not isinstance(event, ToolResult) or event.status == "completed"
        for path in misfits(event):
            text = "is not what the canonical tool has there"
            self._add(agent, "alarm", "misfit", f"{key} {path}", text, _shown(example(payload, path)), event)
        if key in known.payloads:
            fields = fields_of(event)
            for change in compare(known.payloads[key], payload_shape(event)):
                if change.kind == "vanished-key" and not (has_worked and change.path.rpartition(".")[2] in fields):
                    continue  # what else a tool has to say depends on what it did
                place = f"{key} {change.path}"
                shown = _shown(example(payload, change.path))
                self._add(agent, _severity(change, False), change.kind, place, _text(change), shown, event)
        elif event.name not in NAMED and not event.name.startswith("mcp__") and isinstance(event, ToolCall):
            text = "a tool without a canonical name"
            self._add(agent, "notice", "unnamed-tool", event.name, text, _shown(payload), event)

    def _add(
        self, agent: Agent, severity: Severity, kind: str, place: str, text: str, shown: str, event: Event | None = None
    ) -> None:
        context = self._normalizer.context
        first = f"{context.stream}:{self._normalizer.lines if event is None else event.line}"
        self._drift.add(agent, severity, kind, place, text, shown, first)


def _known(baselines: list[Baseline], agent: Agent) -> Known:
    """What the baselines of all versions had may be there; what the nearest before it always had, must. Of an unknown
    version, what all of them always had."""
    chosen = nearest(baselines, agent)
    if chosen is None:
        return Known()
    known = Known(chosen.agent.version, chosen.lines.copy())
    if agent.version != UNKNOWN and age(agent.version) < age(chosen.agent.version):
        known.lines.demand(inf)
    for baseline in [chosen, *(one for one in baselines if one is not chosen and one.agent[:2] == agent[:2])]:
        demands = baseline is chosen or agent.version == UNKNOWN
        known.lines.add(baseline.lines, demands=demands)
        for key, payloads in baseline.payloads.items():
            for payload in payloads:
                known.payloads.setdefault(key, payload.shape.copy()).add(payload.shape, demands=demands)
            if sum(len(payload.scenarios) for payload in payloads) < ENOUGH:
                known.payloads[key].demand(ENOUGH)
    return known


def _signature(value: dict[str, Any]) -> int:
    """Tells apart, cheaply, objects whose keys differ at the first two levels, and those of another type."""
    below = [key for item in value.values() if type(item) is dict for key in (_type_of(item), *item)]
    return hash((_type_of(value), *value, *below))


def _type_of(value: dict[str, Any]) -> str | None:
    word = value.get("type") or value.get("method") or value.get("sessionUpdate")
    return word if type(word) is str else None


def _severity(change: Change, is_unknown: bool) -> Severity:
    if change.kind == "vanished-key":
        return "alarm"
    if change.kind == "other-type":
        return "notice" if "null" in (change.known, change.found) else "alarm"
    return "alarm" if change.kind == "new-variant" and is_unknown else "notice"


def _text(change: Change) -> str:
    match change.kind:
        case "vanished-key":
            return f"always was there, is missing: {change.known}"
        case "other-type":
            return f"was {change.known}, is {change.found}"
        case "new-variant":
            return f"a type never seen: {change.found}"
        case _:
            return f"a key never seen: {change.found}"


def _redacted(text: str) -> str:
    line = text[:EXAMINED].encode(errors="replace")
    redactor = Redactor()
    redactor.learn(line)
    shown = redactor.redact(line).decode(errors="replace")
    return shown if len(shown) <= EXAMPLE else f"{shown[: EXAMPLE - 1]}…"


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()
