"""Watches one stream for `Drift` while it is normalized.

The work per line is small: deciding by the keys whether the line is sampled, and counting its events by kind. Shapes
are compared only for the sampled lines, and totals are updated once per commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, cast

import orjson

from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.tools.registry import KNOWN_TOOLS
from tooltap.protocol.events import Event, PermissionRequest, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.inputs import Direction
from tooltap.traces.drift.baselines import (
    UNKNOWN,
    Origin,
    fields_of,
    key_of,
    labels,
    misfits,
    needed_of,
    normalizer_of,
    payload_of,
    payload_shape,
)
from tooltap.traces.drift.drift import AgentTotals, Drift, Finding, NewFindings, Severity
from tooltap.traces.drift.shapes import DATA_KEY, Shape, ShapeChange, example, places, shape_of
from tooltap.traces.fixtures.keys import RawNames
from tooltap.traces.recording.reader import TracedStream

HELD = 64
"""Lines of a stream of unknown version that wait, until it states its version or they show which one is closest …"""
HELD_BYTES = 1 << 20
"""… unless the stream is longer than this, in bytes."""
OPEN_FACTOR = 4
"""Factor on `Drift.silent_lines` for a stream that is still open."""
MAX_UNPARSED = 0.1
"""A larger share of unparsed lines is an alarm, whatever the reason, in streams of at least …"""
MIN_LINES = 20
"""… this many lines."""
LABELLED = 3
"""Keys down to which an object of a line may have the label of a released build."""
ALARMING_REASONS = ("unknown-type", "parser-error")
OF_FAILURES = frozenset({"errorMessage"})
"""Fields of canonical results that describe an error."""
YIELD = frozenset({"message", "reasoning", "tool-call"})
NAMED = frozenset(KNOWN_TOOLS)

OfTool: TypeAlias = ToolCall | ToolUpdate | ToolResult | PermissionRequest


def watch_stream(
    drift: Drift, stream: TracedStream, *, provider: str | None = None, version: str | None = None
) -> None:
    """Watch a whole recorded stream. `provider` and `version` override what the stream states."""
    normalizer = normalizer_of(stream, provider)
    watch = StreamWatch(drift, normalizer, version or stream.agent_version)
    for line in stream.lines:
        watch.add(normalizer.feed(line.data, line.t, line.direction))
    watch.add(normalizer.close("end"))
    watch.close()


class _Sample(NamedTuple):
    """An object of a line, to be compared."""

    value: dict[str, Any]
    shape: Shape
    is_lost: bool
    """The line is `unparsed`, and matters."""
    place: str
    """`<stream>:<line>`"""


class Watched(NamedTuple):
    """The state of a watch in another process, apart from its findings."""

    version: str | None
    closest: str | None
    has_yielded: bool
    dropped: int


class StreamWatch:
    """Watches one stream for drift. Call `add` with the outputs of each line, `account` from time to time, and `close`
    at the end.

    `version`: the agent's version, if it is known in advance.
    """

    def __init__(self, drift: Drift, normalizer: StreamNormalizer, version: str | None) -> None:
        self._drift = drift
        self._normalizer = normalizer
        self._version = version
        self._closest: str | None = None
        """The known version to compare a stream with that does not state its own; chosen once, by the first lines."""
        self._due: list[dict[str, Any]] = []
        """Objects of the current line that are to be compared. They wait for the outputs of the line, because the line
        itself may state provider and version."""
        self._held: list[_Sample] = []
        """Those of earlier lines, as long as the version is not known."""
        self._is_choosing = version is None
        self._is_ephemeral = False
        """Whether the agent calls the current line ephemeral: it says nothing that matters later."""
        self._object: dict[str, Any] | None = None
        """The last object of the current line that is the agent's."""
        self._is_clients = False
        """Whether the client wrote the current line."""
        self._harmless = 0
        """Number of unparsed lines that are no drift: the client's, and those of a type that released builds
        contain."""
        self._unanswered: list[Produced] = []
        """Synthetic results of calls in the turn that is ending."""
        self._missing: dict[str, Produced] = {}
        """Event id -> synthetic result in a turn that was completed, as long as the real one may come late."""
        self._names = RawNames()
        self._has_yielded = not YIELD.isdisjoint(normalizer.statistics.kinds)
        """Whether the stream gave a message, reasoning or a call, or a failed turn explains why it did not."""
        self._seen: AgentTotals | None = None
        self._dropped = 0
        self._accounted = (0, 0, 0)
        self._accounted = self._figures()
        normalizer.watch(self._sample)

    @property
    def has_pending(self) -> bool:
        """Whether `add` must be called for the current line even if the line gives no output."""
        return bool(self._due)

    def add(self, outputs: Iterable[Output]) -> None:
        """Add the outputs of a line."""
        for output in outputs:
            if isinstance(output, Produced) and (count := COUNTS.get(output.kind)) is not None:
                count(self, output)
        if self._due:
            due, self._due = self._due, []
            is_unknown = any(isinstance(one, Produced) and one.kind == "unparsed" for one in outputs)
            place = f"{self._normalizer.context.stream}:{self._normalizer.lines}"
            is_lost = is_unknown and not self._is_ephemeral
            self._held += [_Sample(value, shape_of(value), is_lost, place) for value in due]
        self._is_ephemeral, self._is_clients, self._object = False, False, None
        if self._held:
            is_long = len(self._held) >= HELD or self._normalizer.statistics.bytes >= HELD_BYTES
            if not self._is_choosing or self._version is not None or is_long:
                self._let_go()

    def learn_version(self, version: str) -> None:
        """Note the version of the agent, from an event of the stream that `add` does not get."""
        self._version = self._version or version

    def _let_go(self) -> None:
        """Compare the lines that were held, and choose the version to compare them with if none was stated."""
        held, self._held = self._held, []
        agent = self._agent()
        if self._is_choosing and held and not self._normalizer.holds_lines:
            self._closest = self._drift.closest(agent, [one.shape for one in held]) if self._version is None else None
            self._is_choosing = False
        for sample in held:
            self._compare_line(agent, sample)

    def account(self) -> None:
        """Add the counts since the last call to the agent's totals. A stream may state its agent only after some
        lines."""
        if self._normalizer.holds_lines:
            return
        seen = self._drift.totals(self._agent())
        if seen is not self._seen:
            if self._seen is not None:
                self._seen.streams -= 1
            seen.streams += 1
            self._seen = seen
        before, self._accounted = self._accounted, self._figures()
        lines, unparsed, calls = (now - then for now, then in zip(self._accounted, before, strict=True))
        seen.lines += lines
        seen.unparsed += unparsed
        seen.calls += calls
        seen.dropped += self._dropped
        self._dropped = 0
        self._look_for_silence(OPEN_FACTOR * self._drift.silent_lines)

    def finish_part(self) -> Watched:
        """Compare all lines that were read, and return the observations, for `adopt` in another process."""
        self._let_go()
        self._report_missing()
        return Watched(self._version, self._closest, self._has_yielded, self._dropped)

    def adopt(self, normalizer: StreamNormalizer, found: NewFindings, watched: Watched) -> None:
        """Take over what another process observed of the next lines, up to this normalizer's."""
        self._normalizer = normalizer
        self._drift.merge(found)
        self._version = self._version or watched.version
        self._closest = self._closest or watched.closest
        self._is_choosing = self._is_choosing and self._version is None and self._closest is None
        self._has_yielded |= watched.has_yielded
        self._dropped += watched.dropped
        normalizer.watch(self._sample)

    def close(self) -> None:
        """Finish the stream."""
        self._let_go()
        self._report_missing()
        self.account()
        self._look_for_silence(self._drift.silent_lines)

    # -- for each line ------------------------------------------------------------------------------------------

    def _sample(self, value: dict[str, Any], direction: Direction | None) -> None:
        self._is_ephemeral = value.get("ephemeral") is True  # as Copilot (1.0) calls its lines
        self._is_clients = direction == "in"
        if direction not in (None, "out"):  # lines of the client are not drift of the agent
            return
        self._object = value
        word = value.get("type")
        keys = (self._version, word if type(word) is str else None, *value)
        if self._drift.is_sampled(hash(keys)) and self._drift.is_due(_signature(value)):
            self._due.append(value)

    def _count_session(self, event: Produced) -> None:
        if event.fields.agent_version is not None:
            self.learn_version(event.fields.agent_version)

    def _count_message(self, event: Produced) -> None:
        self._has_yielded |= event.fields.role == "assistant"

    def _count_reasoning(self, event: Produced) -> None:
        self._has_yielded = True

    def _count_turn(self, event: Produced) -> None:
        state = event.fields.state
        if state == "started" or event.fields.provisional:
            return
        self._has_yielded |= state == "failed" and not event.synthetic
        self._report_missing()
        if state == "completed" and not event.synthetic:
            self._missing = {result.id: result for result in self._unanswered}
        self._unanswered.clear()

    def _report_missing(self) -> None:
        """Report calls of an earlier turn whose results have not come until now."""
        missing, self._missing = self._missing, {}
        for result in missing.values():
            self._dropped += 1
            text = "a call has no result, but its turn was completed"
            call = cast("ToolResult", result.event)  # its fields are dropped once it is stored
            self._report("alarm", "dropped-result", call.name, text, call.call_id, call)

    def _count_unparsed(self, event: Produced) -> None:
        statistics, reason = self._normalizer.statistics, event.fields.reason
        if self._is_clients or self._is_labelled():
            self._harmless += 1
            whose = "the client" if self._is_clients else "a release"
            text = f"lines of {whose} that are not read"
            self._report("notice", "unparsed", f"{reason} of {whose}", text, event.fields.text, event.event)
            return
        unparsed = statistics.unparsed - self._harmless
        is_broken = statistics.lines >= MIN_LINES and unparsed > MAX_UNPARSED * statistics.lines
        is_lost = reason.startswith(ALARMING_REASONS) and not self._is_ephemeral
        severity: Severity = "alarm" if is_broken or is_lost else "notice"
        text = "lines that cannot be parsed"
        self._report(severity, "unparsed", reason, text, event.fields.text, event.event, whole=is_broken)

    def _is_labelled(self) -> bool:
        known = labels(self._normalizer.dialect or UNKNOWN)
        if self._object is None or not known:
            return False
        return not known.isdisjoint(places(shape_of(self._object), LABELLED))

    def _count_call(self, event: Produced) -> None:
        self._has_yielded = True
        self._count_payload(event, event.fields.input)

    def _count_input(self, event: Produced) -> None:
        self._count_payload(event, event.fields.input)

    def _count_result(self, event: Produced) -> None:
        if not event.synthetic:
            self._missing.pop(event.fields.replaces or "", None)
            self._count_payload(event, event.fields.output)
        elif event.fields.status == "interrupted" and not event.replay:
            self._unanswered.append(event)

    def _count_payload(self, event: Produced, payload: dict[str, Any] | None) -> None:
        if payload is not None and self._drift.is_due(hash((event.kind, event.provider, event.tool, *payload))):
            self._compare_payload(cast(OfTool, event.event))

    # -- for the sampled ones -------------------------------------------------------------------------------

    def _compare_line(self, agent: Origin, sample: _Sample) -> None:
        closest = self._closest if self._version is None else None
        for change in self._drift.changes(agent, sample.shape, closest=closest):
            if change.kind == "new-variant" and change.path in labels(agent.dialect):
                continue
            shown = _shown(example(sample.value, change.path))
            severity, text, now = _severity(change, sample.is_lost), _text(change), _now(change)
            found = Finding(severity, change.kind, *agent, change.path, text, shown, sample.place, now=now)
            self._drift.add(agent, found)

    def _compare_payload(self, event: OfTool) -> None:
        payload = payload_of(event)
        if payload is None or event.name is None or event.replay:
            return
        key = key_of(event, self._names)
        for path in misfits(event):
            text = "does not fit the canonical tool"
            self._report("alarm", "misfit", f"{key} {path}", text, _shown(example(payload, path)), event)
        fields, must_be_there = fields_of(event), needed_of(event) - OF_FAILURES
        if isinstance(event, ToolResult) and event.status != "completed":
            must_be_there = frozenset()
        for change in self._drift.changes(self._agent(), payload_shape(event), key):
            if change.path == f"$.{DATA_KEY}" or (
                change.kind == "vanished-key"
                and (change.mild or change.path.rpartition(".")[2] not in must_be_there or change.found in fields)
            ):
                continue  # other keys depend on what the model wanted, and on what the tool did
            shown = _shown(example(payload, change.path))
            place = f"{key} {change.path}"
            self._report(_severity(change, False), change.kind, place, _text(change), shown, event, _now(change))
        if isinstance(event, ToolCall) and not self._is_named(event, key):
            self._report(
                "notice", "unnamed-tool", event.name, "a tool without a canonical name", _shown(payload), event
            )

    def _is_named(self, event: ToolCall, key: str) -> bool:
        """Whether the tool has a canonical name, or a baseline knows it without one."""
        is_known = key in self._drift.known(self._agent()).payloads
        return is_known or event.name in NAMED or event.name.startswith("mcp__")

    def _look_for_silence(self, lines: int) -> None:
        statistics = self._normalizer.statistics
        if not self._has_yielded and statistics.lines >= lines:
            self._has_yielded = True  # report it once
            skipped = ", ".join(f"{number} {reason}" for reason, number in statistics.skipped.items())
            text = f"{statistics.lines} lines gave no message and no call"
            shown = f"{statistics.unparsed} unparsed, skipped {skipped or 'none'}"
            self._report("alarm", "zero-yield", "$", text, shown, whole=True)

    def _agent(self) -> Origin:
        normalizer = self._normalizer
        return Origin(normalizer.dialect or UNKNOWN, normalizer.statistics.provider, self._version or UNKNOWN)

    def _figures(self) -> tuple[int, int, int]:
        statistics = self._normalizer.statistics
        return statistics.lines, statistics.unparsed, statistics.kinds.get("tool-call", 0)

    def _report(
        self,
        severity: Severity,
        kind: str,
        place: str,
        text: str,
        shown: str,
        event: Event | None = None,
        now: str | None = None,
        *,
        whole: bool = False,
    ) -> None:
        line = self._normalizer.lines if event is None else event.line
        first = f"{self._normalizer.context.stream}:{line}"
        agent = self._agent()
        self._drift.add(agent, Finding(severity, kind, *agent, place, text, shown, first, now=now, whole=whole))


COUNTS: dict[str, Callable[[StreamWatch, Produced], None]] = {
    "session": StreamWatch._count_session,
    "message": StreamWatch._count_message,
    "reasoning": StreamWatch._count_reasoning,
    "turn": StreamWatch._count_turn,
    "unparsed": StreamWatch._count_unparsed,
    "tool-call": StreamWatch._count_call,
    "tool-update": StreamWatch._count_input,
    "permission-request": StreamWatch._count_input,
    "tool-result": StreamWatch._count_result,
}
"""Event kind -> method that counts such events."""


def _signature(value: dict[str, Any]) -> int:
    """A hash of the keys and types at the first three levels, which is cheaper than the shape."""
    parts: list[Any] = []
    _collect(value, parts, 2)
    return hash(tuple(parts))


def _collect(value: dict[str, Any], parts: list[Any], depth: int) -> None:
    parts += value
    if type(word := value.get("type") or value.get("sessionUpdate") or value.get("method")) is str:
        parts.append(word)
    for item in value.values():
        if type(item) is dict and depth:
            _collect(item, parts, depth - 1)
        elif type(item) is list and item and type(item[0]) is dict and type(word := item[0].get("type")) is str:
            parts.append(word)


def _severity(change: ShapeChange, is_lost: bool) -> Severity:
    if change.kind == "vanished-key":
        return "notice" if change.mild else "alarm"  # `Drift` raises and lowers it
    if change.kind == "other-type":
        return "notice" if change.mild or "null" in (change.known, change.found) else "alarm"
    return "alarm" if change.kind == "new-variant" and is_lost else "notice"


def _now(change: ShapeChange) -> str | None:
    return change.found if change.kind == "vanished-key" and change.found else None


def _text(change: ShapeChange) -> str:
    match change.kind:
        case "vanished-key":
            now = f"; it may be {change.found} now" if change.found else ""
            return f"was always present, is missing: {change.known}{now}"
        case "other-type":
            return f"was {change.known}, is {change.found}"
        case "new-variant":
            return f"an unknown type: {change.found}"
        case _:
            return f"an unknown key: {change.found}"


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()
