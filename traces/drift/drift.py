"""Whether agents still print what they printed when their baselines were recorded.

`Drift` keeps what is found in any number of streams, by agent, version, kind and place. Each is looked at by a
`StreamWatch` (`drift_watch.py`) while it is normalized:

- shapes: message and block types, keys and types that no baseline has; keys that every baseline example had and that
  are gone; payloads that do not fit their canonical tool,
- yields: lines that could not be read, tools without a canonical name, calls without a result in a turn that the
  provider ended as completed, streams of many lines that gave neither message nor call.

A finding is an `alarm` where something that we read is lost or read wrongly, and else a `notice`: a new field costs
nothing yet.

Walking over a whole line costs more than parsing it, which a daemon cannot afford: not `thorough`, only the 1st, 2nd,
4th, 8th, … and each 256th line with the same keys is walked over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Literal, TypeAlias

import msgspec

from tooltap.traces.drift.baselines import ENOUGH, UNKNOWN, Agent, Baseline, age, nearest
from tooltap.traces.drift.shapes import Change, Shape, compare, has_key
from tooltap.traces.recording.redact import Redactor

__all__ = ["AgentSeen", "Drift", "Finding", "Report", "Severity"]

MAX_FINDINGS = 300
EAGER = 32
"""Of so many objects with the same keys all is looked at, then …"""
STRIDE = 17
"""… of each 17th, if not `thorough`: a prime, so that of lines that come in turns not always the same are passed by."""
MAX_SEEN = 4_096
"""Different sets of keys that are told apart when walks are saved."""
REGULARLY = 256
MAX_AGENTS = 200
EXAMPLE = 120
"""Characters of an example …"""
EXAMINED = 20_000
"""… cut from so many, which are redacted before."""
SILENT_LINES = 40
"""A stream of so many lines without a message or a call is an alarm."""

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
        self.thorough = thorough
        self._on_new = on_new
        self._known: dict[Agent, Known] = {}
        self._agents: dict[Agent, AgentSeen] = {}
        self._findings: dict[tuple[Agent, str, str], Finding] = {}
        self._walked: dict[tuple[Agent, str], Shape] = {}
        """Lines, and payloads by key, to tell what is gone from what is not always there."""
        self._sampled: dict[Any, int] = {}
        self._seen: dict[Any, int] = {}
        self._omitted = 0

    def report(self) -> Report:
        findings = [self._settled(finding) for finding in self._findings.values()]
        findings.sort(key=lambda one: (one.severity, one.provider, one.dialect, one.version, -one.count))
        agents = [agent for agent in self._agents.values() if agent.streams]
        return Report(agents, findings, self._omitted)

    def _settled(self, finding: Finding) -> Finding:
        agent = Agent(finding.dialect, finding.provider, finding.version)
        key, _, path = finding.place.rpartition(" ")
        if finding.kind == "vanished-key" and has_key(self._walked.get((agent, key), Shape()), path):
            return msgspec.structs.replace(finding, severity="notice", text=f"{finding.text} (from some)")
        return finding

    def changes(self, agent: Agent, shape: Shape, key: str = "") -> list[Change]:
        """Where a line, or the payload of an event with that key, is not what is known of it."""
        known = self.known(agent)
        wanted = known.payloads.get(key) if key else known.lines
        if known.version is None or wanted is None:
            return []
        found = list(compare(wanted, shape))
        if (agent, key) in self._walked or len(self._walked) < MAX_SEEN:
            self._walked.setdefault((agent, key), Shape()).add(shape)
        return found

    def seen(self, agent: Agent) -> AgentSeen:
        """The account of an agent."""
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

    def is_sampled(self, keys: Any) -> bool:
        """Whether an object with these keys, of this version, is worth a second look: the first ones, then some."""
        if self.thorough:
            return True
        times = self._sampled.get(keys, 0) + 1
        if times == 1 and len(self._sampled) >= MAX_SEEN:
            return False
        self._sampled[keys] = times
        return times <= EAGER or times % STRIDE == 0

    def is_due(self, signature: Any) -> bool:
        """Whether a value with these keys is to be walked over."""
        if self.thorough:
            return True
        times = self._seen.get(signature, 0) + 1
        if times == 1 and len(self._seen) >= MAX_SEEN:
            return False
        self._seen[signature] = times
        return times & (times - 1) == 0 or times % REGULARLY == 0

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
        known.lines.add(baseline.lines.copy(), demands=demands)
        for key, payloads in baseline.payloads.items():
            for payload in payloads:
                known.payloads.setdefault(key, payload.shape.copy()).add(payload.shape.copy(), demands=demands)
            if demands and sum(len(payload.scenarios) for payload in payloads) < ENOUGH:
                known.payloads[key].demand(ENOUGH)
    return known


def _redacted(text: str) -> str:
    line = text[:EXAMINED].encode(errors="replace")
    redactor = Redactor()
    redactor.learn(line)
    shown = redactor.redact(line).decode(errors="replace")
    return shown if len(shown) <= EXAMPLE else f"{shown[: EXAMPLE - 1]}…"
