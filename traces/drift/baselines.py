"""Baselines: the known shapes of an agent's lines and payloads, recorded from its streams.

A baseline is one file for one dialect, provider and version of an agent. It holds

- for every scenario: the keys of its events (`protocol/provider/kind[/tool]`), and the shapes of their payloads,
- for all scenarios together: the shape of the raw lines, by message type.

Payloads are kept by scenario because a scenario repeats the same actions, so a missing key is a failure. Raw lines are
merged, because any message type may appear in any scenario. What recordings of one configuration have in common may be
due to the configuration: the folder that they are in, which shows how the agent was started, and what it was set
up with or did (`Observed.traits`). So a key of a line is expected only where several configurations had it.

`Baseline.record` adds recordings, `check` compares recordings with a baseline. `drift.py` compares live streams with
the baselines that come with the package.

The payload of a call or a permission request is its `input`, that of a result its `output`, both without the fields
that tooltap adds. Other events have no payload. The payload of a canonical tool must fit the tool's struct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.protocol.events import Event, PermissionRequest, SessionEvent, ToolCall, ToolResult, ToolUpdate, Turn
from tooltap.protocol.inputs import Direction
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import TOOLS
from tooltap.traces.drift.shapes import OBJECT, Shape, ShapeChange, Source, brief, compare, shape_of
from tooltap.traces.fixtures.keys import RawNames
from tooltap.traces.recording.reader import TracedStream

ADDED = frozenset({"_happy", "_raw", "_acp"})
NEEDED = frozenset(
    {
        *("changes", "command", "commands", "content", "edits", "file_path", "file_paths", "new_string", "old_string"),
        *("patch", "pattern", "plan", "prompt", "query", "questions", "todos", "unified_diff", "url", "urls"),
    }
)
"""Fields of canonical inputs that a call needs. The model may leave out all others."""


def key_of(event: Event, names: RawNames) -> str:
    """The event's key. `names` must see all events of the stream in order."""
    parts = {
        "kind": str(type(event).__struct_config__.tag),
        "callId": getattr(event, "call_id", None),
        **{name: getattr(event, name, None) for name in ("protocol", "provider", "name", "input", "output")},
    }
    return names.key(parts)


def payload_of(event: Event) -> dict[str, Any] | None:
    """The payload without added fields; None if the event has none."""
    payload: dict[str, Any] | None = None
    if isinstance(event, ToolCall | ToolUpdate | PermissionRequest):
        payload = event.input
    elif isinstance(event, ToolResult):
        payload = event.output
    return None if payload is None else {key: value for key, value in payload.items() if key not in ADDED}


def payload_shape(event: Event) -> Shape:
    """The shape of the payload. The payload of a tool that is not canonical is just an object, because only that tool
    knows its fields."""
    payload = payload_of(event)
    if payload is None:
        return Shape()
    return shape_of(payload) if getattr(event, "name", None) in TOOLS else Shape({OBJECT})


def fields_of(event: Event) -> frozenset[str]:
    """The keys for which the canonical tool has a field."""
    struct = _struct_of(event)
    return frozenset(field.encode_name for field in _fields(struct)) if struct else frozenset()


def needed_of(event: Event) -> frozenset[str]:
    """The keys of the payload that do not depend on what the model wanted: of a result those for which the canonical
    tool has a field, of a call those without which it would say nothing."""
    fields = fields_of(event)
    return fields if isinstance(event, ToolResult) else fields & NEEDED


def misfits(event: Event) -> dict[str, str]:
    """The paths at which the payload does not fit the struct of its canonical tool, `$.todos[].status`, each with the
    shape of the value there, in a few words."""
    payload, struct = payload_of(event), _struct_of(event)
    if payload is None or struct is None:
        return {}
    return dict(_misfits(struct.from_payload(payload), "$"))


def _struct_of(event: Event) -> type[OpenStruct] | None:
    types = TOOLS.get(getattr(event, "name", None) or "")
    if types is None:
        return None
    return types.result if isinstance(event, ToolResult) else types.input


@cache
def _fields(struct: type[OpenStruct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(struct)


def _misfits(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, OpenStruct):
        for field in _fields(type(value)):
            if field.name != "extra":
                if (other := value.extra.get(field.encode_name)) is not None:
                    yield f"{path}.{field.encode_name}", brief(shape_of(other))
                yield from _misfits(getattr(value, field.name), f"{path}.{field.encode_name}")
    elif isinstance(value, list):
        for item in value:
            yield from _misfits(item, f"{path}[]")


# -- baselines ----------------------------------------------------------------------------------------------------

_STATIC = Path(str(files("tooltap.traces"))) / "static"
PACKAGED = _STATIC / "baselines"
LABELS = _STATIC / "labels.json"
"""Dialect -> version of the build -> paths of types."""
UNKNOWN = "unknown"
FORMAT = 1
ENOUGH = 5
"""Minimum number of scenarios with a payload for its keys to be expected; then those that all of them had are."""
RECORDINGS, CONFIGURATIONS = 3, 2
"""Minimum numbers of recordings and of configurations with a message type for the keys of its lines to be expected."""
ALL_SCENARIOS = "*"


class BaselineError(ValueError):
    """The file is not a baseline. The message is one sentence."""


class Origin(NamedTuple):
    """The agent that printed a stream."""

    dialect: str
    provider: str
    version: str
    """`unknown` if neither the lines nor the user state it."""

    def __str__(self) -> str:
        return f"{self.provider} {self.version} ({self.dialect})"


@dataclass
class Observed:
    """The shapes of one recorded stream."""

    agent: Origin
    lines: Shape = field(default_factory=Shape)
    traits: set[str] = field(default_factory=set)
    """Facts about the agent's setup or behavior that change its lines."""
    payloads: dict[str, Shape] = field(default_factory=dict)
    """Key -> shape of the payloads."""
    misfits: dict[str, dict[str, str]] = field(default_factory=dict)
    """Key -> the paths in its payload that do not fit the canonical tool, with what was found there."""

    def add(self, other: Observed) -> None:
        self.lines.add(other.lines.copy())
        self.traits |= other.traits
        for key, shape in other.payloads.items():
            self.payloads.setdefault(key, Shape()).add(shape.copy())
        for key, paths in other.misfits.items():
            self.misfits.setdefault(key, {}).update(paths)


def normalizer_of(stream: TracedStream, provider: str | None) -> StreamNormalizer:
    """A normalizer for a recorded stream. `provider` overrides the trace's; an unknown dialect is sniffed."""
    context = Context(stream=stream.name, provider=provider or stream.provider)
    return StreamNormalizer(context, stream.dialect if stream.dialect in dialects() else AUTO)


def observe(stream: TracedStream, *, provider: str | None = None, version: str | None = None) -> Observed:
    """Normalize a stream and collect its shapes. `provider` and `version` override what the stream states."""
    normalizer = normalizer_of(stream, provider)
    observed = Observed(Origin("", "", ""))
    names = RawNames()
    agent_version = version or stream.agent_version

    def add_line(value: dict[str, Any], direction: Direction | None) -> None:
        if direction in (None, "out"):  # lines of the client depend on the client, not on the agent
            observed.lines.add(shape_of(value))

    normalizer.watch(add_line)
    outputs: list[Output] = []
    for line in stream.lines:
        outputs += normalizer.feed(line.data, line.t, line.direction)
    outputs += normalizer.close("end")
    for event in (output.event for output in outputs if isinstance(output, Produced)):
        if isinstance(event, SessionEvent):
            agent_version = agent_version or event.agent_version
        observed.traits.update(_traits_of(event))
        key = key_of(event, names)
        observed.payloads.setdefault(key, Shape()).add(payload_shape(event))
        if paths := misfits(event):
            observed.misfits.setdefault(key, {}).update(paths)
    observed.agent = Origin(normalizer.dialect or UNKNOWN, normalizer.statistics.provider, agent_version or UNKNOWN)
    return observed


def _traits_of(event: Event) -> Iterator[str]:
    if event.agent is not None:
        yield "subagents"
    if isinstance(event, SessionEvent):
        if event.mcp_servers:
            yield "mcp"
        if event.state == "resumed":
            yield "resumed"
    elif isinstance(event, ToolCall) and event.name.startswith("mcp__"):
        yield "mcp"
    elif isinstance(event, ToolCall) and event.name == "Task":  # what the subagent does may be in another file
        yield "spawns"
    elif isinstance(event, PermissionRequest):
        yield "permissions"
    elif isinstance(event, Turn) and event.state in ("failed", "cancelled"):
        yield event.state


@dataclass
class Payload:
    """One shape of a key's payload, and the scenarios in which it occurred."""

    scenarios: set[str]
    shape: Shape


@dataclass
class Baseline:
    agent: Origin
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
        """Add scenarios, replacing known ones of the same names.

        The shape of the raw lines cannot be split by scenario. It is replaced only if all scenarios are; otherwise the
        new lines are added to it. Which keys are expected is decided for the scenarios that are recorded together.
        """
        lines = Shape()
        for key, payloads in list(self.payloads.items()):
            for payload in payloads:
                payload.scenarios -= scenarios.keys()
            self.payloads[key] = [payload for payload in payloads if payload.scenarios]
        known_before = self.scenarios - scenarios.keys()
        for scenario, observed in sorted(scenarios.items()):
            self.scenarios.add(scenario)
            shape = observed.lines.copy()
            shape.mark(Source(" ".join([scenario.rpartition("/")[0], *sorted(observed.traits)]), scenario))
            lines.add(shape)
            for key, shape in observed.payloads.items():
                known = self.payloads.setdefault(key, [])
                same = next((payload for payload in known if payload.shape == shape), None)
                if same is None:
                    known.append(Payload({scenario}, shape))
                else:
                    same.scenarios.add(scenario)
        self.payloads = {key: payloads for key, payloads in self.payloads.items() if payloads}
        lines.fold_maps()
        lines.settle(RECORDINGS, CONFIGURATIONS)
        if known_before:
            self.lines.add(lines)
            self.lines.fold_maps()
        else:
            self.lines = lines

    @property
    def place(self) -> Path:
        """The path of its file in a folder of baselines."""
        name = f"{self.agent.provider}-{self.agent.version}"
        return Path(self.agent.dialect) / f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)}.json"

    def write(self) -> bytes:
        """Encode the file. The output is stable, with one line for each payload and each message type."""
        head = {
            "v": FORMAT,
            "dialect": self.agent.dialect,
            "provider": self.agent.provider,
            "agentVersion": self.agent.version,
            "scenarios": " ".join(sorted(self.scenarios)),
        }
        payloads = [
            orjson.dumps(key)
            + b": "
            + _encode_list(self._payload_to_json(payload) for payload in _by_scenario(payloads))
            for key, payloads in sorted(self.payloads.items())
        ]
        parts = [orjson.dumps(key) + b": " + orjson.dumps(value) for key, value in head.items()]
        parts.append(b'"payloads": {\n ' + b",\n ".join(payloads) + b"\n}")
        parts.append(b'"lines": ' + _encode_list(self.lines.alternatives()))
        return b"{\n" + b",\n".join(parts) + b"\n}\n"

    def _payload_to_json(self, payload: Payload) -> dict[str, Any]:
        scenarios = ALL_SCENARIOS if payload.scenarios == self.scenarios else " ".join(sorted(payload.scenarios))
        shape = {"shape": payload.shape.to_json()} if payload.shape != Shape() else {}
        return {"scenarios": scenarios, **shape}

    @classmethod
    def read(cls, data: bytes, name: str) -> Baseline:
        """Decode a baseline file. Raises `BaselineError`."""
        try:
            value = orjson.loads(data)
            if value["v"] != FORMAT:
                raise BaselineError(f"{name} is a baseline of format {value['v']}, not {FORMAT}")
            scenarios = set(value["scenarios"].split())
            return cls(
                agent=Origin(value["dialect"], value["provider"], value["agentVersion"]),
                scenarios=set(scenarios),
                payloads={
                    key: [
                        Payload(
                            set(scenarios if one["scenarios"] == ALL_SCENARIOS else one["scenarios"].split()),
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
    """Read the baselines of a folder, of one dialect or of all. Raises `BaselineError` and `OSError`."""
    return [Baseline.read(path.read_bytes(), str(path)) for path in sorted(folder.glob(f"{dialect or '*'}/*.json"))]


@cache
def labels(dialect: str) -> frozenset[str]:
    """Return the types of lines that released builds of a dialect's agents contain, but that tooltap does not read, as
    the paths of findings: `$<system/ui_log>`."""
    found: dict[str, dict[str, list[str]]] = msgspec.json.decode(LABELS.read_bytes())
    return frozenset().union(*found.get(dialect, {}).values())


class Failure(NamedTuple):
    """A deviation of a recording from its baseline."""

    agent: Origin
    scenario: str
    """Empty for raw lines, which are compared for all scenarios together."""
    kind: str
    """missing-key, extra-key, changed-shape, changed-lines, misfit."""
    key: str
    changes: list[ShapeChange]


def check(baseline: Baseline, scenarios: dict[str, Observed], *, strict: bool) -> Iterator[Failure]:
    """Compare recordings with a baseline. `strict`: keys that the baseline does not have are failures, too. Scenarios
    that it does not have are skipped."""
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
                changes = [
                    ShapeChange("other-type", path, "the type of the tool", found)
                    for path, found in sorted(observed.misfits[key].items())
                ]
                yield Failure(observed.agent, scenario, "misfit", key, changes)
    if changes := list(compare(baseline.lines, lines)):
        yield Failure(baseline.agent, "", "changed-lines", "raw lines", changes)


def nearest(baselines: Iterable[Baseline], agent: Origin) -> Baseline | None:
    """The baseline of the agent's version, else of the newest version before it, else of the oldest version."""
    ours = sorted((one for one in baselines if one.agent[:2] == agent[:2]), key=lambda one: age(one.agent.version))
    before = [one for one in ours if agent.version == UNKNOWN or age(one.agent.version) <= age(agent.version)]
    return next(iter([*before[-1:], *ours]), None)


def age(version: str) -> list[int]:
    """A sort key that orders versions by their numbers."""
    return [int(part) for part in re.findall(r"\d+", version)]


def _by_scenario(payloads: list[Payload]) -> list[Payload]:
    return sorted(payloads, key=lambda payload: sorted(payload.scenarios))


def _encode_list(values: Iterable[Any]) -> bytes:
    written = [orjson.dumps(value) for value in values]
    return b"[" + b",".join(b"\n" + one for one in written) + b"]"
