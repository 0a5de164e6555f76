"""A session as spans of OpenTelemetry, named by the GenAI conventions (`otlp_names.py`): `SessionSpans` makes them of
events, and `SpanFile` writes them as OTLP in JSON, a request to a collector on each line.

A turn is a span `invoke_agent` and the root of a trace. In it are spans `execute_tool` of its calls, and spans `chat`
of its requests to the model; a subagent's are in the call that started it. Ids are hashes of the ids of events, so the
same events always become the same spans, however often they are read. A span whose end is corrected later is made
again under its id.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import msgspec

from tooltap import __version__
from tooltap.daemon.export.otlp_names import CONTENT, CONVENTIONS, Name, provider_of
from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.daemon.export.values import content_of, payload_of
from tooltap.daemon.sessions.listing import folder_name
from tooltap.daemon.sessions.worktrees import project_of_path
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)

MOST_KNOWN = 10_000
"""Calls of a session, and turns of it, to which later events can refer; beyond this the oldest are forgotten."""
MOST_CONTENT = 262_144
"""Code points of the texts of a turn; what follows is left out."""
SHORT_REASON = 40
"""Longest reason of a turn's end that is given as the type of an error."""
LATEST = (2**63 - 1) // 1_000_000
"""Latest time in ms that can be stated in ns."""
PER_LINE = 500
"""Spans in one line of a file."""
IN_MEMORY = 8 * 1024 * 1024
"""Bytes of spans that are kept in memory until the file is written; more are kept on disk."""

TOKENS = {
    Name.INPUT_TOKENS: "input_tokens",
    Name.OUTPUT_TOKENS: "output_tokens",
    Name.CACHE_READ_TOKENS: "cache_read_tokens",
    Name.CACHE_WRITE_TOKENS: "cache_write_tokens",
    Name.REASONING_TOKENS: "reasoning_tokens",
}
"""Attribute -> field of a usage event."""

INTERNAL, CLIENT = 1, 3
"""Kinds of spans, as OTLP numbers them."""
FAILED = {"code": 2}
"""Status of a span that ended in an error."""

Attributes: TypeAlias = dict[Name, str | int | float | bool | list[str] | None]
K = TypeVar("K")
T = TypeVar("T")
N = TypeVar("N", int, float)


class Span(NamedTuple):
    id: str
    """16 hexadecimal digits."""
    value: dict[str, Any]
    """The span as OTLP has it in JSON."""
    attributes: Attributes
    seconds: float
    """How long it took."""
    before: Attributes | None
    """The attributes of its former version; None if it has ended now."""


class _Link(NamedTuple):
    """The ids of a span, for those that are inside."""

    trace: str
    span: str


class _Open:
    """What has begun: a turn, or a call."""

    def __init__(self, event: AnyEvent, link: _Link, parent: _Link | None, began: int) -> None:
        self.link = link
        self.parent = parent
        self.agent = event.agent
        self.provider = event.provider
        self.began = began
        """Milliseconds since the epoch."""
        self.is_over = False
        self.stated: Attributes | None = None
        """Attributes of the latest version of its span."""


class _Turn(_Open):
    def __init__(self, event: AnyEvent, link: _Link, parent: _Link | None, began: int) -> None:
        super().__init__(event, link, parent, began)
        self.ended: Turn | None = None
        self.end = began
        self.usage: dict[str, Usage] = {}
        """Id of each event that states what the turn as a whole has used -> the event."""
        self.has_requests = False
        self.has_costs = False
        """Whether a request of it states a cost."""
        self.said: dict[Name, list[dict[str, Any]]] = {}
        self.length = 0


class _Call(_Open):
    def __init__(self, event: ToolCall | ToolResult, link: _Link, parent: _Link | None, began: int) -> None:
        super().__init__(event, link, parent, began)
        self.name = event.name
        self.skill: str | None = None
        self.subagent: str | None = None
        """The kind of the subagent that it starts."""
        self.arguments: str | None = None

    def note_input(self, given: Mapping[str, Any], arguments: str | None) -> None:
        if self.name == "Skill":
            self.skill = _first_text(given, "skill", "name")
        self.subagent = _first_text(given, "subagent_type")
        self.arguments = arguments


class _Requests:
    """When an agent's latest request to the model began: after what it got last, and before what the model said."""

    def __init__(self) -> None:
        self.given: int | None = None
        """Time of the latest prompt or result, or of the end of the request before."""
        self.began: int | None = None
        self.is_counted = False
        """Whether the tokens of the request are stated already."""

    def note_input(self, time: int) -> None:
        if self.is_counted:
            self.began, self.is_counted = None, False
        self.given = time

    def note_output(self) -> None:
        if self.began is None and not self.is_counted:
            self.began = self.given

    def end(self, time: int) -> int:
        """Note that the tokens of a request are stated, and return when it began."""
        began = self.began if self.began is not None else self.given
        self.given, self.began, self.is_counted = time, None, True
        return time if began is None else min(began, time)


class SessionSpans:
    """The spans of one session. `has_content`: with texts, arguments and results."""

    def __init__(self, *, has_content: bool) -> None:
        self.lacks_beginning = False
        """Whether earlier events of the session were deleted. A turn or a call that may have begun in them has no span:
        its id is that of the event with which it began."""
        self._has_content = has_content
        self._session = ""
        self._turns: OrderedDict[tuple[str, str | None, str], _Turn] = OrderedDict()
        """Stream, subagent and id of each turn."""
        self._running: dict[str | None, _Turn] = {}
        """Subagent -> its turn that has begun last."""
        self._calls: OrderedDict[tuple[str, str], _Call] = OrderedDict()
        """Stream and id of each call."""
        self._named: OrderedDict[str, _Call] = OrderedDict()
        """Id of a call, which another stream of the session may name -> the latest such call."""
        self._ended: list[_Call] = []
        """Calls that have ended, and whose arguments are still known."""
        self._requests: dict[str | None, _Requests] = {}
        self._models: dict[str | None, str] = {}
        self._corrected: OrderedDict[str, _Open] = OrderedDict()
        """Id of a usage event -> its request."""
        self._time = 0
        """Of the latest event, in ms since the epoch."""
        self._resource: Attributes = {}

    @property
    def resource(self) -> Attributes:
        """What is known of the agent and the project."""
        return self._resource

    def add(self, event: AnyEvent) -> list[Span]:
        """Add an event, and return the spans that have ended with it, or are to be corrected."""
        if event.replay:
            return []
        self._session = event.session
        self._resource.setdefault(Name.SERVICE, event.provider)
        if event.ts is not None and 0 <= event.ts <= LATEST:
            if not self._time:  # what began before any time was stated
                for one in (*self._turns.values(), *self._calls.values()):
                    one.began = event.ts
            self._time = event.ts
        match event:
            case SessionEvent():
                self._note_session(event)
            case Turn(state="started"):
                self._begin_turn(event)
                self._requests_of(event).note_input(self._time)
            case Turn():
                return self._end_turn(event)
            case Message(role="assistant") | Reasoning():
                self._requests_of(event).note_output()
                self._note_text(event, Name.OUTPUT_MESSAGES)
            case Message():
                self._requests_of(event).note_input(self._time)
                self._note_text(event, Name.INPUT_MESSAGES)
            case ToolCall():
                self._requests_of(event).note_output()
                self._begin_call(event).note_input(event.input, self._json(payload_of(event, "input", {})))
            case ToolUpdate(input=dict() as given) if (known := self._call(event, event.call_id)) is not None:
                known.note_input(given, self._json(payload_of(event, "input", {})))
            case ToolResult() if not event.async_:
                self._requests_of(event).note_input(self._time)
                return self._end_call(event)
            case Usage(scope="step", beside=None):
                return [self._request(event)]
            case Usage(scope="turn", beside=None):
                return self._note_usage(event)
            case _:
                pass
        return []

    def unfinished(self) -> list[Span]:
        """Return what has not ended as spans that end with the latest event, and say so."""
        left: Attributes = {Name.UNFINISHED: True}
        turns = [one for one in self._turns.values() if not one.is_over]
        calls = [(call_id, one) for (_, call_id), one in self._calls.items() if not one.is_over]
        return [
            *(self._span_of_turn(one, self._time, left) for one in turns),
            *(self._span_of_call(call_id, one, self._time, left) for call_id, one in calls),
        ]

    def absorb(self, earlier: SessionSpans) -> None:
        """Take over what began under another name of the session."""
        self.lacks_beginning = self.lacks_beginning or earlier.lacks_beginning
        self._turns = OrderedDict({**earlier._turns, **self._turns})
        self._calls = OrderedDict({**earlier._calls, **self._calls})
        self._named = OrderedDict({**earlier._named, **self._named})
        self._running = {**earlier._running, **self._running}
        self._requests = {**earlier._requests, **self._requests}
        self._models = {**earlier._models, **self._models}
        self._corrected = OrderedDict({**earlier._corrected, **self._corrected})
        self._resource = {**earlier._resource, **self._resource}

    # -- sessions and turns ---------------------------------------------------------------------------------------

    def _note_session(self, event: SessionEvent) -> None:
        if event.model is not None:
            self._models[event.agent] = event.model
        if event.agent is not None:
            return
        self._resource[Name.VERSION] = event.agent_version or self._resource.get(Name.VERSION)
        if (folder := event.root or event.cwd) is not None:
            project = project_of_path(folder, is_repository=event.root is not None)
            self._resource[Name.PROJECT] = folder_name(project) or project

    def _begin_turn(self, event: AnyEvent) -> _Turn:
        """Note that a turn has begun, with the event that says so, or the first one that is of it."""
        parent = None if event.agent is None else self._around_subagent(event)
        span = _id("turn", event)
        trace = parent.trace if parent is not None else f"{span}{_id('trace', event)}"
        turn = _Turn(event, _Link(trace, span), parent, self._time)
        _keep(self._turns, (event.stream, event.agent, event.turn or ""), turn)
        if (before := self._running.get(event.agent)) is not None and before.is_over:
            before.said.clear()  # nobody corrects it any more
            for call in self._ended:
                call.arguments = None
            self._ended.clear()
        self._running[event.agent] = turn
        return turn

    def _turn_of(self, event: AnyEvent) -> _Turn | None:
        """Return the turn of an event: the one that it names, else the running one of its agent."""
        if event.turn is None:
            return None
        found = self._turns.get((event.stream, event.agent, event.turn))
        running = self._running.get(event.agent)
        if found is None and running is not None and not running.is_over:
            return running
        return found

    def _around(self, event: AnyEvent) -> _Link | None:
        """Return the span in which an event is; None outside of any turn."""
        if (turn := self._turn_of(event)) is not None:
            return turn.link
        if event.agent is not None:
            return self._around_subagent(event)
        return None if event.turn is None or self.lacks_beginning else self._begin_turn(event).link

    def _around_subagent(self, event: AnyEvent) -> _Link | None:
        """Return the call that has started the event's subagent, else the turn of the main agent."""
        if event.parent is not None and (call := self._call(event, event.parent)) is not None:
            return call.link
        main = self._turns.get((event.stream, None, event.turn or "")) or self._running.get(None)
        return None if main is None else main.link

    def _end_turn(self, event: Turn) -> list[Span]:
        key = (event.stream, event.agent, event.turn or "")
        turn = self._turns.get(key)
        if turn is None:
            if self.lacks_beginning:
                return []
            turn = self._begin_turn(event)
            turn.began = max(0, self._time - (event.duration_ms or 0))
        turn.ended, turn.is_over, turn.end = event, True, self._time
        return [self._span_of_turn(turn, turn.end, {})]

    def _span_of_turn(self, turn: _Turn, end: int, more: Attributes) -> Span:
        ended, usage = turn.ended, list(turn.usage.values())
        agent = turn.provider if turn.agent is None else self._name_of_subagent(turn)
        attributes: Attributes = {
            Name.OPERATION: "invoke_agent",
            Name.AGENT: agent,
            Name.MODEL: self._model_of(turn.agent),
            Name.SUBAGENT: turn.agent,
            **more,
        }
        error = None
        if ended is not None:
            attributes[Name.OUTCOME] = ended.state
            if ended.reason is not None and ended.state == "completed":
                attributes[Name.FINISH_REASONS] = [ended.reason]
            if ended.state == "failed":
                reason = ended.reason or ""
                error = reason if 0 < len(reason) <= SHORT_REASON else ended.state
        if not turn.has_requests:
            for name, field in TOKENS.items():
                attributes[name] = _sum(getattr(one, field) for one in usage)
        if not turn.has_costs:
            attributes[Name.COST] = _sum(map(_cost, usage))
        for name, messages in turn.said.items():
            attributes[name] = self._json(messages)
        return self._span("invoke_agent", agent, INTERNAL, turn, end, attributes, error)

    def _name_of_subagent(self, turn: _Turn) -> str | None:
        """Return the kind of a subagent, as the call that has started it states it."""
        return next((one.subagent for one in self._calls.values() if one.link == turn.parent), None)

    # -- calls ----------------------------------------------------------------------------------------------------

    def _begin_call(self, event: ToolCall | ToolResult) -> _Call:
        parent = self._around(event)
        trace = _trace_outside(event) if parent is None else parent.trace
        call = _Call(event, _Link(trace, _id("call", event)), parent, self._time)
        _keep(self._calls, (event.stream, event.call_id), call)
        _keep(self._named, event.call_id, call)
        return call

    def _call(self, event: AnyEvent, call_id: str) -> _Call | None:
        """Return the call that an event names: of its own stream, else of another one of the session."""
        return self._calls.get((event.stream, call_id)) or self._named.get(call_id)

    def _end_call(self, event: ToolResult) -> list[Span]:
        call = self._call(event, event.call_id)
        if call is None:
            if self.lacks_beginning:
                return []
            call = self._begin_call(event)
            call.began = max(0, self._time - (event.duration_ms or 0))
        call.is_over = True
        if call.arguments is not None:
            self._ended.append(call)
        more: Attributes = {Name.OUTCOME: event.status, Name.WAIT: event.wait_ms}
        exit_code = event.output.get("exit_code")
        if family_of(event.name) == "shell" and isinstance(exit_code, int) and not isinstance(exit_code, bool):
            more[Name.EXIT_CODE] = exit_code
        if self._has_content:
            more[Name.RESULT] = content_of(event, {})
        error = event.status if event.status == "failed" else None
        return [self._span_of_call(event.call_id, call, self._time, more, error)]

    def _span_of_call(self, call_id: str, call: _Call, end: int, more: Attributes, error: str | None = None) -> Span:
        attributes: Attributes = {
            Name.OPERATION: "execute_tool",
            Name.TOOL: call.name,
            Name.CALL: call_id,
            Name.SKILL: call.skill,
            Name.ARGUMENTS: call.arguments,
            Name.FAMILY: family_of(call.name),
            Name.SUBAGENT: call.agent,
            **more,
        }
        name = call.name if call.skill is None else f"{call.name} {call.skill}"
        return self._span("execute_tool", name, INTERNAL, call, end, attributes, error)

    # -- requests to the model ------------------------------------------------------------------------------------

    def _requests_of(self, event: AnyEvent) -> _Requests:
        return self._requests.setdefault(event.agent, _Requests())

    def _request(self, event: Usage) -> Span:
        """Return the request whose tokens an event states, or corrects."""
        request = self._corrected.get(event.replaces or "")
        end = self._time
        if request is None:
            parent = self._around(event)
            if (turn := self._turn_of(event)) is not None:
                turn.has_requests = True
                turn.has_costs = turn.has_costs or _cost(event) is not None
            trace = _trace_outside(event) if parent is None else parent.trace
            request = _Open(event, _Link(trace, _id("chat", event)), parent, self._requests_of(event).end(end))
            request.is_over = True
        _keep(self._corrected, event.id, request)
        model = event.model or self._model_of(event.agent)
        attributes: Attributes = {
            Name.OPERATION: "chat",
            Name.PROVIDER: provider_of(model, event.provider),
            Name.MODEL: model,
            Name.RESPONSE_MODEL: event.model,
            **{name: getattr(event, field) for name, field in TOKENS.items()},
            Name.COST: _cost(event),
            Name.SUBAGENT: event.agent,
        }
        return self._span("chat", model, CLIENT, request, end, attributes, None)

    def _note_usage(self, event: Usage) -> list[Span]:
        """Note what a turn has used; its span is made again if it has ended before."""
        turn = self._turn_of(event) or self._running.get(event.agent)
        if turn is None:
            return []
        turn.usage.pop(event.replaces or "", None)
        turn.usage[event.id] = event
        return [self._span_of_turn(turn, turn.end, {})] if turn.is_over else []

    def _model_of(self, agent: str | None) -> str | None:
        return self._models.get(agent) or self._models.get(None)

    # -- spans ----------------------------------------------------------------------------------------------------

    def _note_text(self, event: Message | Reasoning, name: Name) -> None:
        turn = self._turn_of(event)
        if not self._has_content or turn is None or turn.length >= MOST_CONTENT:
            return
        text = event.text[: MOST_CONTENT - turn.length]
        turn.length += len(text)
        part = {"type": "text" if isinstance(event, Message) else "reasoning", "content": text}
        role = event.role if isinstance(event, Message) else "assistant"
        turn.said.setdefault(name, []).append({"role": role, "parts": [part]})

    def _json(self, value: Any) -> str | None:
        """Return content as JSON; None if it is not wanted."""
        return msgspec.json.encode(value).decode() if self._has_content else None

    def _span(
        self,
        operation: str,
        about: str | None,
        kind: int,
        opened: _Open,
        end: int,
        attributes: Attributes,
        error: str | None,
    ) -> Span:
        value: dict[str, Any] = {"traceId": opened.link.trace, "spanId": opened.link.span}
        if opened.parent is not None:
            value["parentSpanId"] = opened.parent.span
        value |= {
            "name": operation if about is None else f"{operation} {about}",
            "kind": kind,
            "startTimeUnixNano": str(opened.began * 1_000_000),
            "endTimeUnixNano": str(max(opened.began, end) * 1_000_000),
            "attributes": attribute_list({Name.CONVERSATION: self._session, **attributes, Name.ERROR: error}),
        }
        if error is not None:
            value["status"] = FAILED
        before = opened.stated
        opened.stated = {name: one for name, one in attributes.items() if name not in CONTENT}
        seconds = max(0, end - opened.began) / 1_000
        return Span(opened.link.span, value, {**opened.stated, Name.ERROR: error}, seconds, before)


def attribute_list(attributes: Mapping[Name, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP has them in JSON, without those that are None."""
    return [{"key": name.value, "value": _any(value)} for name, value in attributes.items() if value is not None]


def scope() -> dict[str, Any]:
    """Return what has made the spans, with the version of their attributes' names."""
    attributes = attribute_list({Name.VERSION_OF_NAMES: CONVENTIONS})
    return {"name": "tooltap", "version": __version__, "attributes": attributes}


def _request(spans: Iterable[bytes], resource: Mapping[Name, Any]) -> bytes:
    """Return the request that sends spans, which are encoded already, to a collector."""
    return b'{"resourceSpans":[{"resource":{"attributes":%b},"scopeSpans":[{"scope":%b,"spans":[%b]}]}]}' % (
        msgspec.json.encode(attribute_list(resource)),
        msgspec.json.encode(scope()),
        b",".join(spans),
    )


class SpanFile:
    """An exported file: each line is a request to a collector, as the file exporter of the Collector writes it.

    Spans are kept, on disk if they are many, until it is known how each of them ended."""

    ENDING: ClassVar = "otlp.jsonl"
    HAS_BODIES: ClassVar = False

    def __init__(self, title: str, *, bodies: Bodies, has_content: bool = False) -> None:
        self._has_content = has_content
        self._sessions: dict[str, SessionSpans] = {}
        self._places: dict[str, dict[str, tuple[int, int]]] = {}
        """Session -> its spans -> where they are on disk: offset and length."""
        self._disk: IO[bytes] | None = None
        self._written = 0
        self._gaps: list[str] = []

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        spans = self._sessions.get(event.session)
        if spans is None:
            spans = self._sessions[event.session] = SessionSpans(has_content=self._has_content)
        if isinstance(event, SessionEvent) and event.alias not in (None, event.session):
            if (earlier := self._sessions.pop(event.alias, None)) is not None:
                spans.absorb(earlier)
            places = self._places.pop(event.alias, {})
            self._places[event.session] = {**places, **self._places.get(event.session, {})}
        self._keep(event.session, spans.add(event))
        return ""

    def add_gap(self, gap: MissingRange) -> str:
        self._gaps.append(gap.sentence)
        return ""

    def end(self, *remarks: str) -> Iterator[str]:
        notes = " ".join([*self._gaps, *remarks])
        for session, spans in self._sessions.items():
            self._keep(session, spans.unfinished())
        for session, places in self._places.items():
            resource = {**self._sessions[session].resource, Name.NOTES: notes or None}
            found = list(places.values())
            for at in range(0, len(found), PER_LINE):
                yield _request(map(self._read, found[at : at + PER_LINE]), resource).decode() + "\n"
        if self._disk is not None:
            self._disk.close()

    def _keep(self, session: str, spans: Iterable[Span]) -> None:
        for one in spans:
            data = msgspec.json.encode(one.value)
            self._disk = self._disk or tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 -- `end` closes it
            self._disk.seek(self._written)
            self._disk.write(data)
            self._places.setdefault(session, {})[one.id] = (self._written, len(data))
            self._written += len(data)

    def _read(self, place: tuple[int, int]) -> bytes:
        assert self._disk is not None
        self._disk.seek(place[0])
        return self._disk.read(place[1])


def _id(kind: str, event: AnyEvent) -> str:
    """Return the id of the span that begins with an event: 16 hexadecimal digits."""
    return hashlib.sha256(f"{kind} {event.session} {event.id} {event.ts}".encode()).hexdigest()[:16]


def _trace_outside(event: AnyEvent) -> str:
    """Return the id of the trace of what is in no turn of a session: 32 hexadecimal digits."""
    return hashlib.sha256(f"session {event.session}".encode()).hexdigest()[:32]


def _keep(known: OrderedDict[K, T], key: K, value: T) -> None:
    """Add a value as the newest one, and forget the oldest ones beyond `MOST_KNOWN`."""
    known.pop(key, None)
    known[key] = value
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)


def _first_text(values: Mapping[str, Any], *keys: str) -> str | None:
    return next((one for one in map(values.get, keys) if isinstance(one, str)), None)


def _cost(usage: Usage) -> float | None:
    """Return what a request or a turn has cost, if the agent states that of it."""
    return usage.cost_usd if (usage.cost_scope or usage.scope) == usage.scope else None


def _sum(figures: Iterable[N | None]) -> N | None:
    """Return the sum of the figures that are stated; None if none is."""
    stated = [one for one in figures if one is not None]
    return sum(stated[1:], stated[0]) if stated else None


def _any(value: str | int | float | bool | list[str]) -> dict[str, Any]:
    """Return a value as OTLP has it in JSON, where an integer of 64 bits is a string."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
