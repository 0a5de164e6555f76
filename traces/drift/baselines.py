"""What an agent's stream looked like when it was recorded, and whether it still does.

A baseline is one file for one dialect, provider and version of the agent. It says

- of every scenario: which keys it gave (`protocol/provider/kind[/tool]`), and the shape of each one's payloads,
- of all scenarios together: the shape of the raw lines, by message type.

`record` writes them, `check` holds recordings against them. Those that come with the package are what `drift.py` takes
for known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.registry import dialects
from tooltap.normalizers.stream.bounds import Produced
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.protocol.events import SessionEvent
from tooltap.protocol.tapped import Direction
from tooltap.traces.drift.payloads import key_of, misfits, payload_shape
from tooltap.traces.drift.shapes import Change, Shape, compare, shape_of
from tooltap.traces.fixtures.keys import RawNames
from tooltap.traces.recording.streams import TracedStream

__all__ = [
    "PACKAGED",
    "Agent",
    "Baseline",
    "BaselineError",
    "Failure",
    "Observed",
    "age",
    "check",
    "load",
    "nearest",
    "normalizer_of",
    "observe",
]

PACKAGED = Path(str(files("tooltap.traces"))) / "static" / "baselines"
UNKNOWN = "unknown"
FORMAT = 1
ENOUGH = 5
"""Examples of a message type that must have had a key for it to be missed in another."""
EVERY = "*"
"""All scenarios of the file."""


class BaselineError(ValueError):
    """The file is no baseline; the message is one sentence."""


class Agent(NamedTuple):
    """Whose stream it is."""

    dialect: str
    provider: str
    version: str
    """`unknown` where nobody says."""

    def __str__(self) -> str:
        return f"{self.provider} {self.version} ({self.dialect})"


@dataclass
class Observed:
    """What one recorded stream showed."""

    agent: Agent
    lines: Shape = field(default_factory=Shape)
    payloads: dict[str, Shape] = field(default_factory=dict)
    """By key."""
    misfits: dict[str, list[str]] = field(default_factory=dict)
    """Key -> the paths of its payload that do not fit the canonical tool."""

    def add(self, other: Observed) -> None:
        self.lines.add(other.lines.copy())
        for key, shape in other.payloads.items():
            self.payloads.setdefault(key, Shape()).add(shape.copy())
        for key, paths in other.misfits.items():
            self.misfits[key] = sorted({*self.misfits.get(key, []), *paths})


def normalizer_of(stream: TracedStream, provider: str | None) -> StreamNormalizer:
    """For a recorded stream. `provider`: what the caller knows, before what the trace says. A dialect nobody has (any
    more) is sniffed."""
    context = Context(stream=stream.name, provider=provider or stream.provider)
    return StreamNormalizer(context, stream.dialect if stream.dialect in dialects() else AUTO)


def observe(stream: TracedStream, *, provider: str | None = None, version: str | None = None) -> Observed:
    """Run a stream through its parser. `provider` and `version`: what the caller knows, before what the stream says."""
    normalizer = normalizer_of(stream, provider)
    observed = Observed(Agent("", "", ""))
    names = RawNames()
    said = version or stream.agent_version

    def look(value: dict[str, Any], direction: Direction | None) -> None:
        if direction in (None, "out"):  # what a client asks, and is answered, depends on the client
            observed.lines.add(shape_of(value))

    normalizer.watch(look)
    outputs: list[Output] = []
    for line in stream.lines:
        outputs += normalizer.feed(line.data, line.t, line.direction)
    outputs += normalizer.close("end")
    for event in (output.event for output in outputs if isinstance(output, Produced)):
        if isinstance(event, SessionEvent):
            said = said or event.agent_version
        key = key_of(event, names)
        observed.payloads.setdefault(key, Shape()).add(payload_shape(event))
        if paths := misfits(event):
            observed.misfits[key] = sorted({*observed.misfits.get(key, []), *paths})
    observed.agent = Agent(normalizer.dialect or UNKNOWN, normalizer.statistics.provider, said or UNKNOWN)
    return observed


@dataclass
class Payload:
    """One shape of a key's payload, and the scenarios that have it."""

    scenarios: set[str]
    shape: Shape


@dataclass
class Baseline:
    agent: Agent
    scenarios: set[str] = field(default_factory=set)
    payloads: dict[str, list[Payload]] = field(default_factory=dict)
    lines: Shape = field(default_factory=Shape)

    def keys(self, scenario: str) -> dict[str, Shape]:
        return {
            key: payload.shape
            for key, payloads in self.payloads.items()
            for payload in payloads
            if scenario in payload.scenarios
        }

    def record(self, scenarios: dict[str, Observed]) -> None:
        """Take these scenarios in, in place of what was known of them."""
        lines = Shape()
        for key, payloads in list(self.payloads.items()):
            for payload in payloads:
                payload.scenarios -= scenarios.keys()
            self.payloads[key] = [payload for payload in payloads if payload.scenarios]
        known_before = self.scenarios - scenarios.keys()
        for scenario, observed in sorted(scenarios.items()):
            self.scenarios.add(scenario)
            lines.add(observed.lines.copy())
            for key, shape in observed.payloads.items():
                known = self.payloads.setdefault(key, [])
                same = next((payload for payload in known if payload.shape == shape), None)
                if same is None:
                    known.append(Payload({scenario}, shape))
                else:
                    same.scenarios.add(scenario)
        self.payloads = {key: payloads for key, payloads in self.payloads.items() if payloads}
        lines.demand(ENOUGH)
        if known_before:
            self.lines.add(lines)
        else:
            self.lines = lines

    @property
    def place(self) -> Path:
        """Its file, in a folder of baselines."""
        name = f"{self.agent.provider}-{self.agent.version}"
        return Path(self.agent.dialect) / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)}.json"

    def write(self) -> bytes:
        """The file: stable, a line for each payload and each message type."""
        head = {
            "v": FORMAT,
            "dialect": self.agent.dialect,
            "provider": self.agent.provider,
            "agentVersion": self.agent.version,
            "scenarios": " ".join(sorted(self.scenarios)),
        }
        payloads = [
            orjson.dumps(key) + b": " + _lines(self._payload_to_json(payload) for payload in _sorted(payloads))
            for key, payloads in sorted(self.payloads.items())
        ]
        parts = [orjson.dumps(key) + b": " + orjson.dumps(value) for key, value in head.items()]
        parts.append(b'"payloads": {\n ' + b",\n ".join(payloads) + b"\n}")
        parts.append(b'"lines": ' + _lines(self.lines.alternatives()))
        return b"{\n" + b",\n".join(parts) + b"\n}\n"

    def _payload_to_json(self, payload: Payload) -> dict[str, Any]:
        scenarios = EVERY if payload.scenarios == self.scenarios else " ".join(sorted(payload.scenarios))
        shape = {"shape": payload.shape.to_json()} if payload.shape != Shape() else {}
        return {"scenarios": scenarios, **shape}

    @classmethod
    def read(cls, data: bytes, name: str) -> Baseline:
        """Raises `BaselineError`."""
        try:
            value = orjson.loads(data)
            if value["v"] != FORMAT:
                raise BaselineError(f"{name} is a baseline of format {value['v']}, not {FORMAT}")
            scenarios = set(value["scenarios"].split())
            return cls(
                agent=Agent(value["dialect"], value["provider"], value["agentVersion"]),
                scenarios=set(scenarios),
                payloads={
                    key: [
                        Payload(
                            set(scenarios if one["scenarios"] == EVERY else one["scenarios"].split()),
                            Shape.from_json(one["shape"]) if "shape" in one else Shape(),
                        )
                        for one in payloads
                    ]
                    for key, payloads in value["payloads"].items()
                },
                lines=Shape.from_alternatives(value["lines"]),
            )
        except BaselineError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BaselineError(f"{name} is not a baseline: {type(error).__name__}: {error}") from None


def load(folder: Path, dialect: str | None = None) -> list[Baseline]:
    """The baselines of a folder, of one dialect or of all. Raises `BaselineError` and `OSError`."""
    return [Baseline.read(path.read_bytes(), str(path)) for path in sorted(folder.glob(f"{dialect or '*'}/*.json"))]


class Failure(NamedTuple):
    """Where a recording is not what its baseline says."""

    agent: Agent
    scenario: str
    """Empty for raw lines, which are compared over all scenarios."""
    kind: str
    """missing-key, extra-key, changed-shape, changed-lines, misfit."""
    key: str
    changes: list[Change]


def check(baseline: Baseline, scenarios: dict[str, Observed], *, strict: bool) -> Iterator[Failure]:
    """`strict`: keys that the baseline does not have are failures too. Scenarios it does not have are left out."""
    lines = Shape()
    for scenario, observed in sorted(scenarios.items()):
        if scenario not in baseline.scenarios:
            continue
        lines.add(observed.lines.copy())
        known = baseline.keys(scenario)
        for key in sorted(known.keys() - observed.payloads.keys()):
            yield Failure(observed.agent, scenario, "missing-key", key, [])
        for key in sorted(observed.payloads.keys() - known.keys()) if strict else ():
            yield Failure(observed.agent, scenario, "extra-key", key, [])
        for key, shape in sorted(observed.payloads.items()):
            if key in known and (changes := list(compare(known[key], shape))):
                yield Failure(observed.agent, scenario, "changed-shape", key, changes)
            if key in observed.misfits:
                changes = [Change("other-type", path, "what the tool has", "") for path in observed.misfits[key]]
                yield Failure(observed.agent, scenario, "misfit", key, changes)
    if changes := list(compare(baseline.lines, lines)):
        yield Failure(baseline.agent, "", "changed-lines", "raw lines", changes)


def nearest(baselines: Iterable[Baseline], agent: Agent) -> Baseline | None:
    """The baseline of the agent's version, else of the newest before it, else of the oldest there is."""
    ours = sorted((one for one in baselines if one.agent[:2] == agent[:2]), key=lambda one: age(one.agent.version))
    before = [one for one in ours if agent.version == UNKNOWN or age(one.agent.version) <= age(agent.version)]
    return next(iter([*before[-1:], *ours]), None)


def age(version: str) -> list[int]:
    """Orders versions by their numbers."""
    return [int(part) for part in re.findall(r"\d+", version)]


def _sorted(payloads: list[Payload]) -> list[Payload]:
    return sorted(payloads, key=lambda payload: sorted(payload.scenarios))


def _lines(values: Iterable[Any]) -> bytes:
    written = [orjson.dumps(value) for value in values]
    return b"[" + b",".join(b"\n" + one for one in written) + b"]"
