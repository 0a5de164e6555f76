"""Collects findings of drift: deviations of agents' lines from their baselines.

`Drift` collects the findings of any number of streams, by agent, version, kind and place. A `StreamWatch` (`watch.py`)
examines each stream while it is normalized. There are two groups of findings:

- shapes: message types, block types, keys and types that no baseline has; keys that every example of the baseline had
  and that are missing; payloads that do not fit their canonical tool,
- yields: lines that could not be parsed, tools without a canonical name, calls without a result in a turn that the
  provider ended as completed, streams of many lines that gave neither a message nor a call.

A finding is an `alarm` if something that tooltap reads is lost or misread. It is a `notice` if it is merely new: a new
field does no harm yet.

Computing the shape of a whole line costs more than parsing it, which a daemon cannot afford for every line. Unless
`Drift` is `thorough`, lines are sampled in two stages. `is_sampled` looks at the top-level keys only, which is cheap;
it passes the first `EAGER` lines with the same keys, then each `STRIDE`th. `is_due` looks at a deeper signature of
those lines; it passes the 1st, 2nd, 4th, 8th, … and each 256th line with the same signature, and these are compared in
full.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Literal, TypeAlias

import msgspec

from tooltap.traces.drift.baselines import ENOUGH, UNKNOWN, Agent, Baseline, age, nearest
from tooltap.traces.drift.shapes import Change, Shape, compare, has_key
from tooltap.traces.recording.redact import Redactor

__all__ = ["AgentTotals", "Drift", "Finding", "Found", "Report", "Severity"]

MAX_FINDINGS = 300
EAGER = 32
"""All of the first EAGER objects with the same keys are sampled, then …"""
STRIDE = 17
"""… each STRIDEth. It is prime, so that lines that alternate periodically are not always skipped."""
MAX_KEY_SETS = 4_096
"""Different sets of keys that sampling distinguishes; objects with other keys are not sampled."""
REGULARLY = 256
MAX_AGENTS = 200
MAX_EXAMPLE = 120
"""Characters of an example …"""
MAX_REDACTED = 20_000
"""… cut from this many characters, which are redacted first."""
SILENT_LINES = 40
"""A stream of this many lines without a message or a call is an alarm."""

Severity: TypeAlias = Literal["alarm", "notice"]


class Finding(msgspec.Struct, rename="camel"):
    severity: Severity
    kind: str
    """new-variant, new-key, vanished-key, other-type, misfit, unnamed-tool, unparsed, dropped-result, zero-yield."""
    dialect: str
    provider: str
    version: str
    """The agent's version; `unknown` if neither the lines nor the user state it."""
    place: str
    """A path in the raw line; or the key of an event and a path in its payload; or the name of a tool."""
    text: str
    """What deviates."""
    example: str
    """Redacted and truncated."""
    first: str
    """`<stream>:<line>` of the first occurrence."""
    count: int = 1
    """Examined lines or events that showed it."""


class AgentTotals(msgspec.Struct, rename="camel"):
    """The totals of one version of an agent, over all its streams."""

    dialect: str
    provider: str
    version: str
    baseline: str | None
    """The version of the baseline it is compared with; None if the agent has no baseline."""
    streams: int = 0
    lines: int = 0
    unparsed: int = 0
    calls: int = 0
    dropped: int = 0
    """Calls without a result in a completed turn."""


class Report(msgspec.Struct, rename="camel"):
    agents: list[AgentTotals]
    findings: list[Finding]
    """Alarms first."""
    omitted: int = 0
    """Findings beyond the limit, which are only counted."""


class KnownShapes(msgspec.Struct):
    """The shapes that the baselines hold for one version of an agent."""

    version: str | None = None
    lines: Shape = msgspec.field(default_factory=Shape)
    payloads: dict[str, Shape] = {}


class Found(msgspec.Struct):
    """What a `Drift` has found since the last `take`, for another to `add`."""

    agents: list[AgentTotals]
    findings: list[Finding]
    examined: list[tuple[Agent, str, Shape]]
    omitted: int


class Drift:
    """`baselines` returns the baselines of a dialect. `on_new` is called once for each finding, when it is first
    added."""

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
        self._known: dict[Agent, KnownShapes] = {}
        self._agents: dict[Agent, AgentTotals] = {}
        self._findings: dict[tuple[Agent, str, str], Finding] = {}
        self._examined: dict[tuple[Agent, str], Shape] = {}
        """The merged shapes of all examined lines (key "") and payloads (by key). With them, `report` distinguishes a
        key that has vanished from a key that is missing only sometimes."""
        self._sampling: dict[Any, int] = {}
        self._signatures: dict[Any, int] = {}
        self._omitted = 0

    def report(self) -> Report:
        findings = [self._settled(finding) for finding in self._findings.values()]
        findings.sort(key=lambda one: (one.severity, one.provider, one.dialect, one.version, -one.count))
        agents = [agent for agent in self._agents.values() if agent.streams]
        return Report(agents, findings, self._omitted)

    def _settled(self, finding: Finding) -> Finding:
        """Downgrade a vanished key to a notice if some other line or payload still has it."""
        agent = Agent(finding.dialect, finding.provider, finding.version)
        key, _, path = finding.place.rpartition(" ")
        if finding.kind == "vanished-key" and has_key(self._examined.get((agent, key), Shape()), path):
            return msgspec.structs.replace(finding, severity="notice", text=f"{finding.text} (from some)")
        return finding

    def take(self) -> Found:
        """Return what was found, and forget it. The baselines stay known."""
        examined = [(*place, shape) for place, shape in self._examined.items()]
        found = Found(list(self._agents.values()), list(self._findings.values()), examined, self._omitted)
        self._agents, self._findings, self._examined, self._omitted = {}, {}, {}, 0
        if len(self._known) > MAX_AGENTS // 2:  # there must be room for the agents of the next stream
            self._known.clear()
        return found

    def merge(self, found: Found) -> None:
        """Add what another has found in other streams, within the limits."""
        for finding in found.findings:
            agent = Agent(finding.dialect, finding.provider, finding.version)
            known = self._findings.get((agent, finding.kind, finding.place))
            if known is not None:
                known.count += finding.count
                known.severity = min(known.severity, finding.severity)
            elif len(self._findings) < MAX_FINDINGS:
                self._findings[agent, finding.kind, finding.place] = finding
                self._on_new(finding)
            else:
                self._omitted += finding.count
        self._omitted += found.omitted
        for agent, key, shape in found.examined:
            self._add_examined(agent, key, shape)
        for one in found.agents:
            self._add_totals(one)

    def _add_totals(self, other: AgentTotals) -> None:
        agent = Agent(other.dialect, other.provider, other.version)
        if agent not in self._agents and len(self._agents) < MAX_AGENTS:
            self._agents[agent] = other
            return
        totals = self.totals(agent)
        for figure in ("streams", "lines", "unparsed", "calls", "dropped"):
            setattr(totals, figure, getattr(totals, figure) + getattr(other, figure))

    def changes(self, agent: Agent, shape: Shape, key: str = "") -> list[Change]:
        """Compare a line, or the payload of an event with that key, with the known shapes."""
        known = self.known(agent)
        wanted = known.payloads.get(key) if key else known.lines
        if known.version is None or wanted is None:
            return []
        found = list(compare(wanted, shape))
        self._add_examined(agent, key, shape)
        return found

    def _add_examined(self, agent: Agent, key: str, shape: Shape) -> None:
        known = self._examined.get((agent, key))
        if known is not None:
            known.add(shape)
        elif len(self._examined) < MAX_KEY_SETS:
            self._examined[agent, key] = shape

    def totals(self, agent: Agent) -> AgentTotals:
        """The totals of an agent. Agents beyond the limit share one entry."""
        if agent not in self._agents and len(self._agents) >= MAX_AGENTS:
            agent = Agent("…", "…", "…")
        if agent not in self._agents:
            self._agents[agent] = AgentTotals(*agent, self.known(agent).version)
        return self._agents[agent]

    def known(self, agent: Agent) -> KnownShapes:
        """The known shapes of an agent."""
        if agent not in self._known:
            if len(self._known) >= MAX_AGENTS:
                return KnownShapes()
            self._known[agent] = _known(self._baselines(agent.dialect), agent)
        return self._known[agent]

    def is_sampled(self, keys: Any) -> bool:
        """First stage of sampling: whether to look at the signature of an object with these top-level keys."""
        if self.thorough:
            return True
        times = self._sampling.get(keys, 0) + 1
        if times == 1 and len(self._sampling) >= MAX_KEY_SETS:
            return False
        self._sampling[keys] = times
        return times <= EAGER or times % STRIDE == 0

    def is_due(self, signature: Any) -> bool:
        """Second stage of sampling: whether to compare a value with this signature."""
        if self.thorough:
            return True
        times = self._signatures.get(signature, 0) + 1
        if times == 1 and len(self._signatures) >= MAX_KEY_SETS:
            return False
        self._signatures[signature] = times
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


def _known(baselines: list[Baseline], agent: Agent) -> KnownShapes:
    """Merge the baselines of all versions of an agent.

    Everything that any version had is known. Required is only what the nearest version always had; for an unknown
    version, what all versions always had. For a version older than all baselines nothing is required.
    """
    chosen = nearest(baselines, agent)
    if chosen is None:
        return KnownShapes()
    known = KnownShapes(chosen.agent.version, chosen.lines.copy())
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
    line = text[:MAX_REDACTED].encode(errors="replace")
    redactor = Redactor()
    redactor.learn(line)
    shown = redactor.redact(line).decode(errors="replace")
    return shown if len(shown) <= MAX_EXAMPLE else f"{shown[: MAX_EXAMPLE - 1]}…"
