"""Collects findings of drift: deviations of agents' lines from their baselines.

`Drift` collects the findings of any number of streams, by agent, version, kind and place. A `StreamWatch` (`watch.py`)
examines each stream while it is normalized. There are two groups of findings:

- shapes: message types, block types, keys and types that no baseline has; keys that every example of the baseline had
  and that are missing; payloads that do not fit their canonical tool,
- yields: lines that could not be parsed, tools without a canonical name, calls without a result in a turn that the
  provider ended as completed, streams of many lines that gave neither a message nor a call.

A finding is an `alarm` if something that tooltap reads is lost or misread. It is a `notice` if it is merely new: a new
field does no harm yet. One line may be odd for reasons of its own, so an alarm needs evidence: `SEVERAL` observations
and none to the contrary; or a known key under a new name that is spelt like it; or a whole stream that is not read.

Computing the shape of a whole line costs more than parsing it, which a daemon cannot afford for every line. Unless
`Drift` is `thorough`, lines are sampled in two stages. `is_sampled` looks at the top-level keys only, which is cheap;
it passes the first `EAGER` lines with the same keys, then each `STRIDE`th. `is_due` looks at a deeper signature of
those lines; it passes the 1st, 2nd, 4th, 8th, … and each 256th line with the same signature, and these are compared in
full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from tooltap.traces.drift.baselines import ENOUGH, UNKNOWN, Baseline, Origin, age, nearest
from tooltap.traces.drift.shapes import Shape, ShapeChange, compare, is_alike, kinds_of, shapes_at
from tooltap.traces.recording.redact import Redactor

MAX_FINDINGS = 300
SEVERAL = 3
"""Observations that an alarm needs. A key that has no new name must be missing in several streams, too."""
EAGER = 32
"""All of the first EAGER objects with the same keys are sampled, then …"""
STRIDE = 17
"""… each STRIDEth. It is prime, so that lines that alternate periodically are not always skipped."""
MAX_KEY_SETS = 4_096
"""Different sets of keys that sampling distinguishes; objects with other keys are not sampled."""
REGULARLY = 256
MAX_AGENTS = 200
UNKNOWN_TYPE = 1_000
MAX_LINES = 16
"""Lines that a finding names."""
MAX_EXAMPLE = 120
"""Characters of an example …"""
MAX_REDACTED = 20_000
"""… cut from this many characters, which are redacted first."""
SILENT_LINES = 40
"""A stream of this many lines without a message or a call is an alarm."""

Severity: TypeAlias = Literal["alarm", "notice"]


class Finding(msgspec.Struct, rename="camel"):
    severity: Severity
    """Of a finding with enough evidence; until then it is reported as a notice."""
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
    lines: list[str] = []
    """`<stream>:<line>` of the first ones."""
    now: str | None = None
    """Of a vanished key: the new key that has taken its place."""
    some: bool = False
    """Of a vanished key: other lines have it. Of another type: the values of other lines are of several kinds."""
    whole: bool = False
    """It concerns a whole stream, so that one observation is enough."""
    several: bool = False
    """More than one stream showed it."""

    @property
    def stream(self) -> str:
        return self.first.rpartition(":")[0]


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
    """Version of the baseline. None if the agent has none; `lines` then merges those of all agents that share the
    dialect."""
    lines: Shape = msgspec.field(default_factory=Shape)
    payloads: dict[str, Shape] = {}
    versions: dict[str, Shape] = {}
    """For an agent of unknown version whose versions differ: the lines of each."""


class NewFindings(msgspec.Struct):
    """The findings of a `Drift` since the last `take`, for another one to `merge`."""

    agents: list[AgentTotals]
    findings: list[Finding]
    examined: list[tuple[Origin, str, Shape]]
    beside: list[tuple[Origin, str]]
    omitted: int


class Drift:
    """The findings of any number of streams. `baselines` returns the baselines of a dialect. `on_alarm` is called once
    for each finding, when it has become an alarm. `redacts`: redact examples; if not, the `Drift` that merges the
    findings does."""

    def __init__(
        self,
        baselines: Callable[[str], list[Baseline]],
        *,
        thorough: bool = True,
        redacts: bool = True,
        silent_lines: int = SILENT_LINES,
        on_alarm: Callable[[Finding], None] = lambda finding: None,
    ) -> None:
        self.silent_lines = silent_lines
        self.changed = 0
        """Counter that increases with every finding added."""
        self._baselines = baselines
        self.thorough = thorough
        self._redacts = redacts
        self._on_alarm = on_alarm
        self._alarmed: set[tuple[Origin, str, str]] = set()
        """Places of the findings that `on_alarm` was called for, here or in an earlier run."""
        self._known: dict[Origin, KnownShapes] = {}
        self._loaded: dict[str, list[Baseline]] = {}
        """Dialect -> its baselines."""
        self._merged: dict[tuple[str | None, ...], KnownShapes] = {}
        """What agents are compared with that differ only in their version, by the baselines that it is merged from."""
        self._agents: dict[Origin, AgentTotals] = {}
        self._findings: dict[tuple[Origin, str, str], Finding] = {}
        self._examined: dict[tuple[Origin, str], Shape] = {}
        """The merged shapes of all examined lines (key "") and payloads (by key). With them, `report` distinguishes a
        key that has vanished from a key that is missing only sometimes."""
        self._beside: set[tuple[Origin, str]] = set()
        """Places of new keys that were seen in objects where no known key is missing, so they are not renamed keys."""
        self._sampling: dict[Any, int] = {}
        self._signatures: dict[Any, int] = {}
        self._omitted = 0

    @property
    def number(self) -> int:
        """Number of distinct findings."""
        return len(self._findings)

    def report(self) -> Report:
        findings = [self._settled(finding) for finding in self._findings.values()]
        findings.sort(key=lambda one: (one.severity, one.provider, one.dialect, one.version, -one.count))
        agents = [agent for agent in self._agents.values() if agent.streams]
        return Report(agents, findings, self._omitted)

    def _settled(self, finding: Finding) -> Finding:
        """Decide the severity by the evidence. A vanished key is an alarm under a new name that is spelt like it; under
        any other new name if none has the key any more; without one only if several streams lack it."""
        finding = self._with_evidence(finding)
        if finding.dialect == UNKNOWN:  # nothing is known that could have changed
            return msgspec.structs.replace(finding, severity="notice")
        is_proven = not finding.some and finding.count >= SEVERAL
        severity = finding.severity
        if finding.kind == "vanished-key":
            is_renamed = finding.now is not None and is_alike(finding.place.rpartition(".")[2], finding.now)
            is_gone = is_proven and (finding.now is not None or finding.several)
            severity = "alarm" if is_renamed or is_gone else "notice"
        elif not (is_proven or finding.whole):
            severity = "notice"
        text = f"{finding.text} (from some)" if finding.some else finding.text
        return msgspec.structs.replace(finding, severity=severity, text=text)

    def _with_evidence(self, finding: Finding) -> Finding:
        """Update what the lines examined since say of a finding: whether some have the vanished key, or values of other
        kinds, and whether the key was renamed: the new key also occurs where no key is missing if not."""
        if finding.kind not in ("vanished-key", "other-type", "misfit"):
            return finding
        agent = Origin(finding.dialect, finding.provider, finding.version)
        key, _, path = finding.place.rpartition(" ")
        shapes = shapes_at(self._examined.get((agent, key), Shape()), path)
        if finding.kind != "vanished-key":
            return msgspec.structs.replace(finding, some=finding.some or len(kinds_of(shapes)) > 1)
        is_beside = (agent, f"{finding.place.rpartition('.')[0]}.{finding.now}") in self._beside
        now = None if is_beside else finding.now
        return msgspec.structs.replace(finding, some=finding.some or bool(shapes), now=now)

    def findings(self) -> list[Finding]:
        """Return all findings, for `restore`."""
        return [self._with_evidence(finding) for finding in self._findings.values()]

    def restore(self, findings: list[Finding]) -> None:
        """Add findings of an earlier run or another daemon. Counts of findings that are known already are not added
        up."""
        for finding in findings:
            place = Origin(finding.dialect, finding.provider, finding.version), finding.kind, finding.place
            known = self._findings.get(place)
            if known is not None:
                known.count = max(known.count, finding.count)
                known.some |= finding.some
                known.several |= finding.several
            elif len(self._findings) < MAX_FINDINGS:
                self._findings[place] = finding
                if self._settled(finding).severity == "alarm":
                    self._alarmed.add(place)
            else:
                self._omitted += finding.count

    def take(self) -> NewFindings:
        """Return what was found, and forget it. The baselines stay known."""
        examined = [(*place, shape) for place, shape in self._examined.items()]
        agents, findings = list(self._agents.values()), list(self._findings.values())
        found = NewFindings(agents, findings, examined, list(self._beside), self._omitted)
        self._agents, self._findings, self._examined, self._beside, self._omitted = {}, {}, {}, set(), 0
        if len(self._known) > MAX_AGENTS // 2:  # there must be room for the agents of the next stream
            for kept in (self._known, self._loaded, self._merged):
                kept.clear()
        return found

    def merge(self, found: NewFindings) -> None:
        """Add the findings that another `Drift` took from other streams, within the limits. Their examples are redacted
        here."""
        self.changed += len(found.findings)
        for finding in found.findings:
            agent = Origin(finding.dialect, finding.provider, finding.version)
            known = self._findings.get((agent, finding.kind, finding.place))
            if known is not None:
                known.count += finding.count
                known.severity = min(known.severity, finding.severity)
                known.lines = [*known.lines, *finding.lines][:MAX_LINES]
                known.now = known.now or finding.now
                known.several |= finding.several or finding.stream != known.stream
                known.some |= finding.some
                known.whole |= finding.whole
            elif len(self._findings) < MAX_FINDINGS:
                example = self._shown(finding.example)
                self._findings[agent, finding.kind, finding.place] = msgspec.structs.replace(finding, example=example)
            else:
                self._omitted += finding.count
        self._omitted += found.omitted
        for agent, key, shape in found.examined:
            self._add_examined(agent, key, shape)
        for place in found.beside:
            self._add_beside(*place)
        for one in found.agents:
            self._add_totals(one)
        for finding in found.findings:
            self._announce((Origin(finding.dialect, finding.provider, finding.version), finding.kind, finding.place))

    def _announce(self, place: tuple[Origin, str, str]) -> None:
        """Report a finding that has become an alarm."""
        finding = self._findings.get(place)
        if finding is None or place in self._alarmed:
            return
        if (settled := self._settled(finding)).severity == "alarm":
            self._alarmed.add(place)
            self._on_alarm(settled)

    def _add_totals(self, other: AgentTotals) -> None:
        agent = Origin(other.dialect, other.provider, other.version)
        if agent not in self._agents and len(self._agents) < MAX_AGENTS:
            self._agents[agent] = other
            return
        totals = self.totals(agent)
        for figure in ("streams", "lines", "unparsed", "calls", "dropped"):
            setattr(totals, figure, getattr(totals, figure) + getattr(other, figure))

    def closest(self, agent: Origin, lines: list[Shape]) -> str | None:
        """The version whose lines those of a stream of unknown version are closest to, all together; None if the
        version is known, or does not matter."""
        versions = self.known(agent).versions
        if not versions:
            return None
        return min(versions, key=lambda one: sum(_distance(versions[one], shape) for shape in lines))

    def changes(self, agent: Origin, shape: Shape, key: str = "", closest: str | None = None) -> list[ShapeChange]:
        """Compare a line, or the payload of an event with that key, with the known shapes. `closest`: version to
        compare with in place of an unknown one."""
        known = self.known(agent)
        if closest is not None:
            known = self.known(agent._replace(version=closest))
        wanted = known.payloads.get(key) if key else known.lines
        if wanted is None:
            return []
        found = list(compare(wanted, shape))
        if known.version is None:
            found = [change for change in found if _concerns_all(change, is_named=agent.provider != agent.dialect)]
        self._add_examined(agent, key, shape)
        for change in found:
            if change.kind == "new-key" and change.mild:
                self._add_beside(agent, f"{key} {change.path}" if key else change.path)
        return found

    def _add_beside(self, agent: Origin, place: str) -> None:
        if len(self._beside) < MAX_KEY_SETS:
            self._beside.add((agent, place))

    def _add_examined(self, agent: Origin, key: str, shape: Shape) -> None:
        known = self._examined.get((agent, key))
        if known is not None:
            known.add(shape)
        elif len(self._examined) < MAX_KEY_SETS:
            self._examined[agent, key] = shape

    def totals(self, agent: Origin) -> AgentTotals:
        """The totals of an agent. Agents beyond the limit share one entry."""
        if agent not in self._agents and len(self._agents) >= MAX_AGENTS:
            agent = Origin("…", "…", "…")
        if agent not in self._agents:
            self._agents[agent] = AgentTotals(*agent, self.known(agent).version)
        return self._agents[agent]

    def known(self, agent: Origin) -> KnownShapes:
        """The known shapes of an agent."""
        if agent not in self._known:
            if len(self._known) >= MAX_AGENTS:
                return KnownShapes()
            self._known[agent] = self._merge_baselines(agent)
        return self._known[agent]

    def _merge_baselines(self, agent: Origin) -> KnownShapes:
        if agent.dialect not in self._loaded:
            self._loaded[agent.dialect] = self._baselines(agent.dialect)
        baselines = self._loaded[agent.dialect]
        chosen = nearest(baselines, agent)
        expecting = _expecting(baselines, agent)
        wanted = (
            *agent[:2],
            None if chosen is None else chosen.agent.version,
            UNKNOWN if agent.version == UNKNOWN else None,
            *(one.agent.version for one in expecting),
        )
        if wanted not in self._merged:
            self._merged[wanted] = _known(baselines, agent)
        return self._merged[wanted]

    def is_sampled(self, keys: int) -> bool:
        """First stage of sampling: whether to look at the signature of an object whose top-level keys have this
        hash."""
        if self.thorough:
            return True
        times = self._sampling.get(keys, 0) + 1
        if times == 1 and len(self._sampling) >= MAX_KEY_SETS:
            return False
        self._sampling[keys] = times
        return times <= EAGER or times % STRIDE == 0

    def is_due(self, signature: int) -> bool:
        """Second stage of sampling: whether to compare a value with this signature."""
        if self.thorough:
            return True
        times = self._signatures.get(signature, 0) + 1
        if times == 1 and len(self._signatures) >= MAX_KEY_SETS:
            return False
        self._signatures[signature] = times
        return times & (times - 1) == 0 or times % REGULARLY == 0

    def add(self, agent: Origin, found: Finding) -> None:
        """Add a finding of one line. Its example is redacted and truncated here, if this `Drift` redacts."""
        self.changed += 1
        place = agent, found.kind, found.place
        finding = self._findings.get(place)
        if finding is not None:
            finding.count += 1
            finding.now = finding.now or found.now
            finding.several |= found.stream != finding.stream
            finding.whole |= found.whole
            if found.severity == "alarm":
                finding.severity = found.severity
            if len(finding.lines) < MAX_LINES and found.first not in finding.lines[-1:]:
                finding.lines.append(found.first)
        elif len(self._findings) >= MAX_FINDINGS:
            self._omitted += 1
            return
        else:
            example = self._shown(found.example)
            self._findings[place] = msgspec.structs.replace(found, example=example, lines=[found.first])
        self._announce(place)

    def _shown(self, example: str) -> str:
        return _redacted(example) if self._redacts else example[:MAX_REDACTED]


def _known(baselines: list[Baseline], agent: Origin) -> KnownShapes:
    """Merge the baselines of a dialect.

    Known are the shapes of all versions of the agent, and those of other agents that share the dialect. Expected are
    only the keys that the agent's version always had or, without a baseline of it, the versions just before and after;
    for an unknown version, those of the version that the stream's lines are closest to; for a version older than all
    baselines, none.
    """
    chosen = nearest(baselines, agent)
    if chosen is None:
        return KnownShapes(lines=_shared(baselines))
    known = KnownShapes(chosen.agent.version, chosen.lines.copy())
    expecting = _expecting(baselines, agent)
    if not expecting:
        known.lines.release()
    if agent.version == UNKNOWN and len(expecting) > 1:
        known.versions = {one.agent.version: one.lines for one in reversed(expecting)}
    for baseline in [chosen, *(one for one in baselines if one is not chosen)]:
        if baseline.agent[:2] != agent[:2]:
            shared = baseline.lines.copy()
            shared.release()
            known.lines.add(shared, demands=False)
            continue
        demands = baseline in expecting
        known.lines.add(baseline.lines.copy(), demands=demands)
        for key, payloads in baseline.payloads.items():
            for payload in payloads:
                known.payloads.setdefault(key, payload.shape.copy()).add(payload.shape.copy(), demands=demands)
            if demands and sum(len(payload.scenarios) for payload in payloads) < ENOUGH:
                known.payloads[key].settle(ENOUGH, 1)
    return known


def _concerns_all(change: ShapeChange, *, is_named: bool) -> bool:
    """Whether a change matters for an agent without a baseline, whose fields may differ anyway: a renamed key does.
    `is_named`: whether the stream states its provider; if not, a new key matters, too, because it may be the one that
    names the agent."""
    return not change.mild if change.kind == "vanished-key" else not is_named and change.kind == "new-key"


def _distance(known: Shape, found: Shape) -> int:
    """Number of deviations of a line from a version's lines; an unknown message type counts `UNKNOWN_TYPE` times."""
    return sum(UNKNOWN_TYPE if change.kind == "new-variant" else 1 for change in compare(known, found))


def _shared(baselines: list[Baseline]) -> Shape:
    """Merge the lines of all agents that share a dialect; empty if only one agent has baselines for it."""
    shared = Shape()
    if len({baseline.agent.provider for baseline in baselines}) > 1:
        for baseline in baselines:
            shared.add(baseline.lines.copy())
    return shared


def _expecting(baselines: list[Baseline], agent: Origin) -> list[Baseline]:
    """Return the baselines that decide which keys are expected, those that all of them have: of the agent's version,
    else of the versions just before and after it. All for an unknown version, none for one older than all."""
    ours = sorted((one for one in baselines if one.agent[:2] == agent[:2]), key=lambda one: age(one.agent.version))
    if agent.version == UNKNOWN:
        return ours
    version = age(agent.version)
    before = [one for one in ours if age(one.agent.version) <= version]
    if before and age(before[-1].agent.version) == version:
        return before[-1:]
    return [*before[-1:], *(one for one in ours[len(before) : len(before) + 1] if before)]


def _redacted(text: str) -> str:
    line = text[:MAX_REDACTED].encode(errors="replace")
    redactor = Redactor()
    redactor.learn(line)
    shown = redactor.redact(line).decode(errors="replace")
    return shown if len(shown) <= MAX_EXAMPLE else f"{shown[: MAX_EXAMPLE - 1]}…"
