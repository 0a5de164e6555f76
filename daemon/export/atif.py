"""Exports a session as a trajectory in the Agent Trajectory Interchange Format (ATIF 1.8, which readers of 1.7 take).

A step is a prompt, or what the model said and called in one go, with the results and the tokens of it. It is written
when all its calls have their results; steps that follow wait, up to a limit. Subagents are trajectories inside: their
steps are kept on disk until the end of the file. Arguments and results are those of the canonical tools; a result is
what the model saw of it, if the stream states that.

The braces of the document are lines of their own and no other line begins with one, which our own dialect needs.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from typing import IO, Any, ClassVar

import msgspec

from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.daemon.export.values import content_of, payload_of, whole_text
from tooltap.daemon.formats import counted
from tooltap.daemon.system.clock import iso_time
from tooltap.protocol.events import (
    AnyEvent,
    Attachment,
    Message,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Usage,
)

VERSION = "ATIF-v1.8"
HELD = 2_000
"""Maximum steps that are held back because a call before them has no result."""
IN_MEMORY = 8 * 1024 * 1024
"""Bytes of subagents' steps that are kept in memory; more are kept on disk."""
NESTED = 16
"""Maximum depth of subagents inside subagents; deeper ones are inside the main trajectory."""
MAX_GAPS = 100
UNKNOWN = "unknown"


class _Sum:
    """Sums of figures, by how they are called in `final_metrics`."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def add(self, **figures: float | None) -> None:
        for name, figure in figures.items():
            if figure is not None:
                self.figures[name] = self.figures.get(name, 0) + figure


class _Step:
    def __init__(self, source: str, event: AnyEvent, model: str | None = None) -> None:
        self.source = source
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: dict[str, dict[str, Any]] = {}
        self.open: set[str] = set()
        self.results: list[dict[str, Any]] = []
        self.metrics: dict[str, Any] = {}
        self.requests = 0
        """Requests of the model that the metrics cover."""
        self.extra: dict[str, Any] = {}
        self.time = iso_time(event.ts)
        self.model = model

    @property
    def has_acted(self) -> bool:
        """Whether what the model says next belongs to its next step."""
        return bool(self.calls or self.metrics)

    def value(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = {"step_id": number, "source": self.source, "message": "\n\n".join(self.texts)}
        if self.time is not None:
            found["timestamp"] = self.time
        if self.model is not None:
            found["model_name"] = self.model
        if self.thoughts:
            found["reasoning_content"] = "\n\n".join(self.thoughts)
        if self.calls:
            found["tool_calls"] = list(self.calls.values())
        if self.results:
            found["observation"] = {"results": self.results}
        if self.metrics:
            found["metrics"] = self.metrics
        if self.requests > 1:
            found["llm_call_count"] = self.requests
        if self.extra:
            found["extra"] = self.extra
        return found


class _Trajectory:
    """Steps of the main agent, or of a subagent."""

    def __init__(self, owner: _Trajectory | None = None, call: str | None = None) -> None:
        self.owner = owner
        self.depth: int = 0 if owner is None else owner.depth + 1
        self.call = call
        """The call that started the subagent."""
        self.model: str | None = None
        self.steps = 0
        self.sum = _Sum()
        self.turn_sum = _Sum()
        """Of the figures that are stated for turns; they count if none are stated for requests."""
        self.session_cost: float | None = None
        self.waiting: deque[_Step] = deque()
        self.by_call: dict[str, _Step] = {}
        """Call without a result -> its step."""
        self.places: list[tuple[int, int]] = []
        """Where the steps of a subagent are on disk: offset and length."""

    def step(self, source: str, event: AnyEvent) -> _Step:
        """Return the step that an event belongs to, which may be a new one."""
        last = self.waiting[-1] if self.waiting else None
        if last is not None and last.source == source == "agent" and not last.has_acted:
            return last
        new = _Step(source, event, self.model if source == "agent" else None)
        self.waiting.append(new)
        return new

    def ready(self, most: int, *, all_of_them: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the steps that are complete: the last one may grow."""
        while self.waiting:
            first = self.waiting[0]
            is_last = len(self.waiting) == 1
            if not all_of_them and (is_last or (first.open and len(self.waiting) <= most)):
                return
            self.waiting.popleft()
            for call_id in first.open:
                self.by_call.pop(call_id, None)
            self.steps += 1
            yield first.value(self.steps)

    def metrics(self) -> dict[str, Any]:
        figures = dict(self.turn_sum.figures if not self.sum.figures else self.sum.figures)
        if "total_cost_usd" not in figures:
            cost = self.turn_sum.figures.get("total_cost_usd", self.session_cost)
            if cost is not None:
                figures["total_cost_usd"] = cost
        return {**figures, "total_steps": self.steps}


class Trajectories:
    ENDING: ClassVar = "json"
    HAS_BODIES: ClassVar = True

    def __init__(self, title: str, *, bodies: Bodies) -> None:
        self._title = title
        self._bodies = bodies
        self._main = _Trajectory()
        self._agents: dict[str, _Trajectory] = {}
        self._first: AnyEvent | None = None
        self._version: str | None = None
        self._has_head = False
        self._gaps: list[str] = []
        self._missing = 0
        """Gaps that are not named."""
        self._children: dict[str, list[str]] = {}
        """Call -> the subagents that it has started."""
        self._disk: IO[bytes] | None = None
        """The steps of subagents, if there are any."""
        self._written = 0

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Add an event and return the JSON to write next."""
        self._first = self._first or event
        if event.replay:
            return ""
        trajectory = self._trajectory_of(event)
        self._note(trajectory, event, bodies)
        ready = trajectory.ready(HELD)
        if trajectory is self._main:
            return self._main_steps(ready)
        self._keep(trajectory, ready)
        return ""

    def add_gap(self, gap: MissingRange) -> str:
        if len(self._gaps) < MAX_GAPS:
            self._gaps.append(gap.sentence)
        else:
            self._missing += 1
        return ""

    def end(self, *remarks: str) -> Iterator[str]:
        """Yield the rest of the document: the last steps, the sums, and the subagents."""
        steps = self._main_steps(self._main.ready(0, all_of_them=True))
        yield steps if self._has_head else self._head()
        for trajectory in self._agents.values():
            self._keep(trajectory, trajectory.ready(0, all_of_them=True))
        notes = [*self._gaps, *([f"{counted(self._missing, 'more gap')}."] if self._missing else []), *remarks]
        if self._bodies.left_out:
            left_out = counted(self._bodies.left_out, "image or long output is", "images and long outputs are")
            notes.append(f"{left_out} left out or shortened.")
        yield f'],"final_metrics":{_json(self._main.metrics())},"notes":{_json(" ".join(notes))}'
        yield from self._inside(self._main)
        yield "\n}\n"
        if self._disk is not None:
            self._disk.close()

    # -- events ---------------------------------------------------------------------------------------------------

    def _trajectory_of(self, event: AnyEvent) -> _Trajectory:
        if event.agent is None:
            return self._main
        if event.agent not in self._agents:
            candidates = (self._main, *self._agents.values())
            owner = next((one for one in candidates if event.parent in one.by_call and one.depth < NESTED), self._main)
            self._agents[event.agent] = _Trajectory(owner, event.parent)
            if event.parent is not None:
                self._children.setdefault(event.parent, []).append(event.agent)
        return self._agents[event.agent]

    def _note(self, trajectory: _Trajectory, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> None:
        match event:
            case SessionEvent():
                self._version = self._version or event.agent_version
                trajectory.model = event.model or trajectory.model
            case Message(role="assistant"):
                step = trajectory.step("agent", event)
                step.texts.append(whole_text(event, "/text", event.text, bodies))
                _attach(step, event.attachments)
            case Message():
                step = trajectory.step(event.role, event)
                step.texts.append(whole_text(event, "/text", event.text, bodies))
                _attach(step, event.attachments)
            case Reasoning():
                trajectory.step("agent", event).thoughts.append(whole_text(event, "/text", event.text, bodies))
            case ToolCall():
                self._call(trajectory, event, bodies)
            case ToolUpdate(input=dict()) if (step_of := trajectory.by_call.get(event.call_id)) is not None:
                step_of.calls[event.call_id]["arguments"] = payload_of(event, "input", bodies)
            case ToolResult() if not event.async_:
                self._result(trajectory, event, bodies)
            case PermissionResponse(call_id=str(call_id)) if (asked := trajectory.by_call.get(call_id)) is not None:
                asked.calls[call_id].setdefault("extra", {})["permission"] = event.outcome
            case Usage():
                _use(trajectory, event)
            case _:
                pass

    def _call(self, trajectory: _Trajectory, event: ToolCall, bodies: Mapping[str, ExportedBody]) -> None:
        last = trajectory.waiting[-1] if trajectory.waiting else None
        goes_on = last is not None and last.source == "agent" and not last.results and not last.metrics
        step = last if goes_on and last is not None else trajectory.step("agent", event)
        if event.call_id in step.calls:
            return
        arguments = payload_of(event, "input", bodies)
        step.calls[event.call_id] = {
            "tool_call_id": event.call_id,
            "function_name": event.name,
            "arguments": arguments,
        }
        step.open.add(event.call_id)
        trajectory.by_call[event.call_id] = step

    def _result(self, trajectory: _Trajectory, event: ToolResult, bodies: Mapping[str, ExportedBody]) -> None:
        result: dict[str, Any] = {"source_call_id": event.call_id, "content": content_of(event, bodies)}
        if event.status != "completed":
            result["extra"] = {"status": event.status}
        if children := self._children.pop(event.call_id, None):
            result["subagent_trajectory_ref"] = [{"trajectory_id": one} for one in children]
        step = trajectory.by_call.pop(event.call_id, None)
        if step is None:  # its step is written, or it replaces another result
            step = _Step("agent", event)
            trajectory.waiting.append(step)
        step.open.discard(event.call_id)
        step.results.append(result)
        _attach(step, event.attachments)

    # -- text -----------------------------------------------------------------------------------------------------

    def _head(self) -> str:
        assert self._first is not None
        self._has_head = True
        agent = {"name": self._first.provider, "version": self._version or UNKNOWN}
        if self._main.model is not None:
            agent["model_name"] = self._main.model
        session = _json(self._first.session)
        head = f'"session_id":{session},"trajectory_id":{session},"agent":{_json(agent)}'
        return f'{{\n "schema_version":"{VERSION}",{head},"extra":{_json({"title": self._title})},"steps":['

    def _main_steps(self, steps: Iterator[dict[str, Any]]) -> str:
        parts = []
        for step in steps:
            parts.append(f"{',' if self._has_head else self._head()}\n {_json(step)}")
        return "".join(parts)

    def _keep(self, trajectory: _Trajectory, steps: Iterator[dict[str, Any]]) -> None:
        for step in steps:
            data = msgspec.json.encode(step)
            self._disk = self._disk or tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 -- `end` closes it
            self._disk.seek(self._written)
            self._disk.write(data)
            trajectory.places.append((self._written, len(data)))
            self._written += len(data)

    def _inside(self, owner: _Trajectory) -> Iterator[str]:
        """Yield the subagents of a trajectory, with theirs."""
        assert self._first is not None
        before = ',"subagent_trajectories":['
        for name, trajectory in self._agents.items():
            if trajectory.owner is not owner:
                continue
            agent = {"name": self._first.provider, "version": self._version or UNKNOWN}
            if trajectory.model is not None:
                agent["model_name"] = trajectory.model
            yield f'{before}\n {{"schema_version":"{VERSION}","trajectory_id":{_json(name)},"agent":{_json(agent)}'
            if trajectory.call is not None:
                yield f',"extra":{_json({"parent_tool_call_id": trajectory.call})}'
            yield ',"steps":['
            for number, (offset, length) in enumerate(trajectory.places):
                assert self._disk is not None
                self._disk.seek(offset)
                yield f"{',' if number else ''}\n {self._disk.read(length).decode()}"
            yield f'],"final_metrics":{_json(trajectory.metrics())}'
            yield from self._inside(trajectory)
            yield "}"
            before = ","
        if before == ",":
            yield "]"


def _use(trajectory: _Trajectory, event: Usage) -> None:
    """Count tokens and cost: for the step of the request, else for the whole."""
    figures = {
        "total_prompt_tokens": event.input_tokens,
        "total_completion_tokens": event.output_tokens,
        "total_cached_tokens": event.cache_read_tokens,
    }
    cost_scope = event.cost_scope or event.scope
    if event.scope == "step":
        trajectory.sum.add(**figures)
    elif event.scope == "turn":
        trajectory.turn_sum.add(**figures)
    if cost_scope == "step":
        trajectory.sum.add(total_cost_usd=event.cost_usd)
    elif cost_scope == "turn":
        trajectory.turn_sum.add(total_cost_usd=event.cost_usd)
    elif event.cost_usd is not None:
        trajectory.session_cost = event.cost_usd
    step = next((one for one in reversed(trajectory.waiting) if one.source == "agent"), None)
    if step is None or event.scope != "step":
        return
    step.requests += 1
    step.model = event.model or step.model
    stated = {
        "prompt_tokens": event.input_tokens,
        "completion_tokens": event.output_tokens,
        "cached_tokens": event.cache_read_tokens,
        "cost_usd": event.cost_usd if cost_scope == "step" else None,
    }
    more = {"cache_creation_input_tokens": event.cache_write_tokens, "reasoning_tokens": event.reasoning_tokens}
    for target, found in ((step.metrics, stated), (step.metrics.setdefault("extra", {}), more)):
        for name, figure in found.items():
            if figure is not None:
                target[name] = target.get(name, 0) + figure
    if not step.metrics["extra"]:
        del step.metrics["extra"]


def _attach(step: _Step, attachments: list[Attachment] | None) -> None:
    """Name what is attached: ATIF has only files beside the trajectory."""
    for one in attachments or ():
        named = {"mime_type": one.mime_type, "name": one.name, "bytes": one.bytes}
        step.extra.setdefault("attachments", []).append({key: at for key, at in named.items() if at is not None})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
