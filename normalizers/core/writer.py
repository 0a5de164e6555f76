"""Writer of events: their ids, envelopes and bytes, and the output bodies beside them.

The scope of a line says which session and agent it belongs to and when it was written. It is reset before each line;
dialects set it where a line says something else.

Each event is encoded once: first the fields of its kind, then the envelope, whose bytes are cached while session,
agent, turn and origin stay the same. Fields that later stages need are kept beside the bytes (`Produced`). No event
carries base64 data of a provider's object inline: `take_bodies` moves it to output bodies.
"""

from __future__ import annotations

import base64
from typing import Any, ClassVar, NamedTuple, TypeAlias, get_args

import msgspec

from tooltap.normalizers.core.items import Context, Item, OutputChunk, Produced
from tooltap.normalizers.core.state import CallsState, OpenTurn, State, Times
from tooltap.normalizers.core.thoughts import split_thought
from tooltap.protocol import LATEST_MS
from tooltap.protocol.events import (
    TIMED,
    AnyEvent,
    Attachment,
    Chunk,
    Event,
    Message,
    Notice,
    OutputRef,
    PermissionRequest,
    Reasoning,
    ToolCall,
)
from tooltap.protocol.inputs import Direction

Scope: TypeAlias = tuple[str, str | None, str | None, str | None, str, str]
"""Place of an event: session, agent, parent, turn, protocol, provider."""
_ENVELOPES = 64
"""Maximum number of cached envelopes."""
_encode = msgspec.json.Encoder().encode
_ENVELOPE_FIELDS = frozenset(Event.__struct_fields__)


class _Kind(NamedTuple):
    """Encoding of one kind of event."""

    name: str
    fields: type[msgspec.Struct]
    """Struct of the kind's own fields, without those of the envelope."""
    names_tool: bool
    payload: str | None
    """The payload field (`input` or `output`), whose `_happy` holds the tool's raw name."""
    answers: bool
    """True if events of this kind change whether the turn's last item is an answer."""
    works: bool
    """True if a turn was going on when an event of this kind happened: it is work, or a notice of what happens to
    it."""


def _kind_of(event: type[Event]) -> _Kind:
    own = [field for field in msgspec.structs.fields(event) if field.name not in _ENVELOPE_FIELDS]
    tag = str(event.__struct_config__.tag)
    fields = msgspec.defstruct(
        f"{event.__name__}Fields",
        [(one.name, Any, msgspec.field(name=one.encode_name, default=one.default)) for one in own],
        kw_only=True,
        omit_defaults=True,
        tag_field="kind",
        tag=tag,
    )
    names = {one.name for one in own}
    payload = next((name for name in ("input", "output") if name in names), None)
    answers = event in (Message, ToolCall, PermissionRequest)
    return _Kind(tag, fields, "name" in names, payload, answers, tag in TIMED or event is Notice)


_KINDS: dict[type[Event], _Kind] = {event: _kind_of(event) for event in get_args(AnyEvent)}


class Numbers:
    """Counters for the ids of one line: `<stream>:<line>:<index>` for events; partials and output bodies have their own
    counters."""

    def __init__(self, stream: str, line: int) -> None:
        self.stream = stream
        self.begin(line)

    def begin(self, line: int, mark: str = "", events: int = 0) -> None:
        """Begin a line. `mark`: `c` for events of closing the stream, `d` for events between lines."""
        self.line = line
        self.place = f"{self.stream}:{line}{mark}:"
        """The beginning of the line's ids."""
        self.events = events
        self.partials = self.outputs = 0

    def partial(self) -> str:
        self.partials += 1
        return f"{self.stream}:{self.line}p:{self.partials - 1}"

    def output(self) -> str:
        self.outputs += 1
        return f"{self.place}o{self.outputs - 1}"


class Writer:
    """Base class of `Parser`: the scope of the current line, and the only way to emit events. It is a class of its own
    so that `Calls`, `Texts` and `Permissions` can write without knowing the parser."""

    dialect: ClassVar[str]
    protocol: ClassVar[str]
    default_provider: ClassVar[str]
    OF_LINE: ClassVar[frozenset[str]] = frozenset({"session", "agent", "parent", "replay", "ts", "direction", "origin"})
    """Attributes that are set or reset for each line, and therefore not dumped. A subclass lists only those it adds."""
    OF_INNER: ClassVar[frozenset[str]] = frozenset({"_outer", "_numbered", "_numbers", "id_prefix"})
    """Attributes of an inner parser that the outer one sets before it hands over a part of a line."""

    session: str
    agent: str | None
    parent: str | None
    replay: bool
    ts: int | None
    direction: Direction | None
    """Direction of the line, where a tap records both."""
    origin: tuple[str, str] | None
    """(protocol, provider) where one stream holds the output of several agents; None: the stream's own."""

    def __init__(self, context: Context, state: State) -> None:
        self.context = context
        self.state: Any = state
        self.items: list[Item] = []
        self.partials = context.partials
        """Whether partial events are wanted. May change at any time, and changes nothing else."""
        self.provider = context.provider or state.provider or self.default_provider
        self.id_prefix = ""
        """Prefix of the ids of calls and permissions, set by an outer parser that merges several streams."""
        self._publishers_name = context.session or context.stream
        self._closing = False
        """The stream ends: what is emitted now had not ended on the wire."""
        self._numbers = Numbers(context.stream, state.line)
        self._numbered = state
        """The state whose line number goes into event ids: the parser's own, or the outer parser's."""
        self._outer: Writer | None = None
        self._stream_text = _text(context.stream)
        self._is_plain = self._stream_text == f'"{context.stream}"'
        """Ids need no escaping."""
        self._envelopes: dict[Scope, tuple[str, str]] = {}
        self._reset_scope(None)

    def nest_in(self, outer: Writer) -> None:
        """Become the inner parser of `outer`, which passes parts of its lines: events are numbered by the outer
        parser's lines."""
        self._outer = outer
        self.partials = outer.partials
        self.id_prefix = outer.id_prefix
        self._numbers = outer._numbers_of_line()
        self._numbered = outer._numbered

    @property
    def is_inner(self) -> bool:
        return self._outer is not None

    def inner_has_call(self, call_id: str, besides: Writer | None) -> bool:
        """Whether an inner parser, other than `besides`, has a call with this id. For outer parsers to override."""
        return False

    def id_of_call(self, wire_id: str) -> str:
        """The id, in events, of the newest call of the session with this id on the wire: of the line's agent, if it has
        such a call. If only another session has one, an id that no call has."""
        calls: CallsState = self.state.calls
        if calls.renamed and (newest := calls.renamed.get(f"{self.session}/{wire_id}")) is not None:
            own = calls.renamed.get(key_of_agent(self.session, self.agent, wire_id))
            # A line that states no agent may be about a subagent's call.
            return newest if own is None or (self.agent is None and own not in calls.open) else own
        call = calls.open.get(wire_id) or calls.done.get(wire_id)
        # A parser that begins anew in a stream may not know its session.
        is_its = call is None or self.session in (call.session, self._publishers_name)
        return wire_id if is_its else f"{self.session}/{wire_id}"

    def id_of_spawner(self, wire_id: str) -> str:
        """The id, in events, of the call that spawned the line's agent, which may have a call of this id itself."""
        calls: CallsState = self.state.calls
        newest = calls.renamed.get(f"{self.session}/{wire_id}") if calls.renamed else None
        if newest is None or self.agent is None:
            return self.id_of_call(wire_id)
        if (known := calls.renamed.get(key_of_spawner(self.session, self.agent, wire_id))) is not None:
            return known
        for one in (calls.renamed.get(key_of_agent(self.session, None, wire_id)), newest, wire_id):
            call = calls.open.get(one or "") or calls.done.get(one or "")
            if one is not None and call is not None and call.name == "Task" and call.agent != self.agent:
                return one
        return newest

    def has_call(self, call_id: str) -> bool:
        """Return whether a call with this id in events, without the prefix, is known."""
        calls: CallsState = self.state.calls
        return call_id in calls.open or call_id in calls.done or self.inner_has_call(call_id, None)

    def is_taken(self, call_id: str, besides: Writer | None = None) -> bool:
        """Whether a call of another parser that reads the same lines has this id."""
        if self.inner_has_call(call_id, besides):
            return True
        if (outer := self._outer) is None:
            return False
        call_id = self.id_prefix.removeprefix(outer.id_prefix) + call_id
        calls: CallsState = outer.state.calls
        return call_id in calls.open or call_id in calls.done or outer.is_taken(call_id, self)

    def begin_between_lines(self, index: int, t: int | None) -> None:
        """Prepare to emit events that belong to no line: they have the time of the last one, or `t` before the first.
        Their ids are numbered from `index`."""
        self._begin_after_line(t)
        self._restart_numbers("d", index)

    def origin_of_line(self) -> tuple[str, str]:
        """(protocol, provider) of the line's events."""
        return self.origin or (self.protocol, self.provider)

    def set_provider(self, provider: str) -> None:
        """Set the provider that the stream states; one that the publisher states takes precedence."""
        self.state.provider = provider
        self.provider = self.context.provider or provider or self.default_provider

    @property
    def turn(self) -> str | None:
        """Id of the newest open turn of the line's agent in the line's session; if the agent has none, of the session.
        History is in no turn."""
        turns: list[OpenTurn] = self.state.turns
        if not turns or self.replay:
            return None
        session, agent, newest = self.session, self.agent, None
        last = turns[-1]  # nearly always the one
        if last.session == session and last.agent == agent:
            return last.id
        for turn in reversed(turns):
            if turn.session == session:
                if turn.agent == agent:
                    return turn.id
                newest = newest or turn.id
        return newest

    def emit(self, kind: type[Event], /, **fields: Any) -> Produced:
        """Append an event of the current line. `fields`: the kind's own; envelope fields may be overridden by name. A
        thought at the beginning of an answer becomes an event of its own."""
        if kind is Message and fields["role"] == "assistant" and not fields.get("block") and "partial" not in fields:
            thought, text = split_thought(fields["text"])
            if thought:
                own = {key: value for key, value in fields.items() if key not in ("role", "attachments")}
                emitted = self.emit(Reasoning, **{**own, "text": thought})
                if not text and not fields.get("attachments"):
                    return emitted
            fields["text"] = text
        session, agent, parent, turn = self.session, self.agent, self.parent, self.turn
        if parent is not None:
            parent = self.id_of_spawner(parent)
        protocol, provider = self.origin or (self.protocol, self.provider)
        if _ENVELOPE_FIELDS.isdisjoint(fields):
            return self.emit_in(kind, fields, (session, agent, parent, turn, protocol, provider), self.ts, self.replay)
        take = fields.pop
        protocol, provider = take("protocol", protocol), take("provider", provider)
        return self.emit_in(
            kind,
            fields,
            (
                take("session", session),
                take("agent", agent),
                take("parent", parent),
                take("turn", turn),
                protocol,
                provider,
            ),
            take("ts", self.ts),
            take("replay", self.replay),
            take("synthetic", False),
            take("outputs", None),
        )

    def emit_partial(self, kind: type[Event], **fields: Any) -> None:
        """Emit a partial event. It uses no event index, so that ids do not depend on whether partials are wanted.

        A long text is split into several: truncation would need an output body, which uses up an id."""
        if not self.partials:
            return
        most = max(1, self.context.limits.string_bytes // 4)  # characters that fit, whatever they are
        chunk: Chunk | None = fields.get("chunk")
        text = fields["text"] if chunk is None else chunk.text
        for start in range(0, len(text), most) if len(text) > most else (0,):
            part = text[start : start + most]
            if chunk is None:
                fields |= {"text": part, "offset": fields["offset"] + (most if start else 0)}
            else:
                fields["chunk"] = Chunk(stream=chunk.stream, text=part, offset=chunk.offset + start)
            self.emit(kind, **fields, partial=True)

    def emit_in(
        self,
        kind: type[Event],
        fields: dict[str, Any],
        scope: Scope,
        ts: int | None,
        replay: bool,
        synthetic: bool = False,
        outputs: dict[str, OutputRef] | None = None,
        until: int | None = None,
    ) -> Produced:
        """Make an event and append it to the line's items. `until`: the time of its last part, where it has several."""
        numbers = self._numbers
        if numbers.line != self._numbered.line:
            numbers.begin(self._numbered.line)
        if type(ts) is not int or not 0 <= ts < LATEST_MS:  # what an agent states may be anything
            ts = None
        name, struct, names_tool, payload_field, answers, works = _KINDS[kind]
        partial = "partial" in fields
        if partial:
            event_id = numbers.partial()
        else:
            event_id = f"{numbers.place}{numbers.events}"
            numbers.events += 1
            if works:
                self._note_work(kind, scope, fields, answers, ts if until is None else until)
        if self.id_prefix:
            scope = self._prefix(scope, fields)
        envelope = self._envelopes.get(scope)
        if envelope is None:
            envelope = self._envelope(scope)
        before, after = envelope
        shown_id = event_id if self._is_plain else _text(event_id)[1:-1]
        stamp = "" if ts is None else f',"ts":{ts}'
        if synthetic or replay or outputs is not None:
            after += _notes(synthetic, replay, outputs)
        own = struct(**fields)
        text = f',"v":2,"id":"{shown_id}","stream":{self._stream_text},"line":{numbers.line}{before}{stamp}{after}}}'
        session, agent, parent, turn, _, provider = scope
        tool = raw_tool = None
        if names_tool:
            tool = fields.get("name")
            if payload_field is not None and (payload := fields.get(payload_field)):
                happy = payload.get("_happy")
                raw_tool = happy.get("rawToolName") if isinstance(happy, dict) else None
        event = Produced(
            _encode(own)[:-1] + text.encode(),
            name,
            event_id,
            self.context.stream,
            session,
            provider,
            agent,
            parent,
            turn,
            ts,
            tool,
            raw_tool,
            partial,
            synthetic,
            replay,
            own,
        )
        self.items.append(event)
        if self.state.session is None and not partial and session == self._publishers_name:
            self.state.named = True
        return event

    def put_output(self, data: bytes, mime_type: str) -> str:
        """Store a whole output body; returns its id."""
        output_id = self.new_output_id()
        self.items.append(OutputChunk(output_id, 0, data, mime_type))
        return output_id

    def new_output_id(self) -> str:
        return self._numbers_of_line().output()

    def goes_on(self) -> None:
        """Note that the agent's last message was not its answer, because the wire announces a call or another
        message."""
        turn = self._turn_of(self.session, self.turn)
        if turn is not None and turn.agent == self.agent:
            turn.answered = False

    # -- internals ----------------------------------------------------------------------------------------------

    def _note_work(
        self, kind: type[Event], scope: Scope, fields: dict[str, Any], answers: bool, ts: int | None
    ) -> None:
        """Keep when a turn, and the call that spawned a subagent, went on; and whether the last thing of the turn is a
        message of its agent, not of a subagent."""
        session, agent, parent, turn_id, _, _ = scope
        if turn_id is not None and (turn := self._turn_of(session, turn_id)) is not None:
            is_own = turn.agent == agent
            # After the answer, subagents work in the background, and notices report of something else.
            if not turn.answered or (is_own and kind is not Notice):
                turn.worked(ts)
            if is_own and answers:
                turn.answered = fields.get("role") == "assistant" and not self._closing
            if is_own and (answers or kind is Reasoning):
                turn.settled = False
        if parent is not None and ts is not None:
            call = self.state.calls.open.get(parent)
            if call is not None and (call.ts is None or ts > call.ts):
                call.ts = ts

    def _turn_of(self, session: str, turn_id: str | None) -> OpenTurn | None:
        """The open turn with this id."""
        turns: list[OpenTurn] = self.state.turns
        for turn in reversed(turns):
            if turn.id == turn_id and turn.session == session:
                return turn
        return None

    def _envelope(self, scope: Scope) -> tuple[str, str]:
        """Encode the envelope's parts with this scope: (before the time, after it)."""
        session, agent, parent, turn, protocol, provider = scope
        stated = {"session": session, "protocol": protocol, "provider": provider, "dialect": self.dialect}
        known = {"agent": agent, "parent": parent, "turn": turn}
        after = _text({key: value for key, value in known.items() if value is not None})[1:-1]
        if len(self._envelopes) >= _ENVELOPES:
            self._envelopes.clear()
        envelope = self._envelopes[scope] = f",{_text(stated)[1:-1]}", after and f",{after}"
        return envelope

    def _prefix(self, scope: Scope, fields: dict[str, Any]) -> Scope:
        """Add the prefix to the ids in an event's fields and in its scope. Returns the scope."""
        prefix = self.id_prefix
        for name in ("call_id", "permission_id"):
            if fields.get(name) is not None:
                fields[name] = prefix + fields[name]
        session, agent, parent, turn, protocol, provider = scope
        if parent is None:
            return scope
        if agent == parent:  # named after the call that spawned it
            agent = prefix + parent
        return session, agent, prefix + parent, turn, protocol, provider

    def _numbers_of_line(self) -> Numbers:
        if self._numbers.line != self._numbered.line:
            self._numbers.begin(self._numbered.line)
        return self._numbers

    def _restart_numbers(self, mark: str = "", events: int = 0) -> None:
        if self._numbered is self.state:
            self._numbers.begin(self.state.line, mark, events)

    def _reset_scope(self, t: int | None) -> None:
        context = self.context
        self.session = self.state.session or self._publishers_name
        self.agent = context.agent
        self.parent = context.parent
        self.replay = False
        self.ts = self._time_of_line(t)
        self.origin = None

    def _begin_after_line(self, t: int | None) -> None:
        """Reset the scope for events that follow from the lines so far: they happened when the last one was written."""
        self._reset_scope(t)
        latest = self.state.times.latest
        if latest is not None:
            self.ts = latest

    def _time_of_line(self, t: int | None) -> int | None:
        """When a line that was received at `t` was written, unless it says."""
        times: Times = self.state.times
        return times.stated if times.past else t

    def _take(self) -> list[Item]:
        items, self.items = self.items, []
        return items


def key_of_agent(session: str, agent: str | None, wire_id: str) -> str:
    """Key, in `CallsState.renamed`, of an agent's newest call with an id that calls of several agents have."""
    return f"{session}/{wire_id}\n{agent or ''}"


def key_of_spawner(session: str, agent: str | None, wire_id: str) -> str:
    """Key, in `CallsState.renamed`, of the call that spawned an agent which has a call of the same id."""
    return f"{session}/{wire_id}\n^{agent or ''}"


def _text(value: Any) -> str:
    return _encode(value).decode()


def _notes(synthetic: bool, replay: bool, outputs: dict[str, OutputRef] | None) -> str:
    """Encode the optional end of an envelope, which few events have."""
    text = ',"synthetic":true' if synthetic else ""
    if replay:
        text += ',"replay":true'
    return text if outputs is None else f'{text},"outputs":{_text(outputs)}'


_MIME_KEYS = ("mimeType", "media_type", "mediaType", "mime", "mime_type")
_BODY_KEYS = ("data", "blob", "base64", "url", "image_url")
_ANY_BODY_KEY = frozenset(_BODY_KEYS)
_UNKNOWN = "application/octet-stream"
_MEDIA = ("image/", "audio/", "video/")
"""Beginnings of the types whose data some clients send without padding."""


class Bodies:
    """Takes the base64 data out of the objects of one line."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._kept: dict[str, Attachment] = {}

    @property
    def attachments(self) -> list[Attachment] | None:
        return list(self._kept.values()) or None

    def take(self, value: Any) -> Any:
        """The value with `outputId` in place of base64 data; the original where there is none."""
        return self._take(value) if _may_hold(value) else value

    def _take(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._take(item) if isinstance(item, (dict, list)) else item for item in value]
        if not isinstance(value, dict):
            return value
        for key in () if _ANY_BODY_KEY.isdisjoint(value) else _BODY_KEYS:
            body = value.get(key)
            if isinstance(body, str) and (kept := self._take_body(key, body, value)) is not None:
                # Kimi 1.40 says `"id": null` beside it.
                rest = {name: item for name, item in value.items() if name != key and item is not None}
                return {**rest, "outputId": kept.output_id}
        return {key: self._take(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}

    def _take_body(self, key: str, body: str, owner: dict[str, Any]) -> Attachment | None:
        if body.startswith("data:"):
            head, _, body = body.partition(";base64,")
            return self._keep(body, head.removeprefix("data:")) if body else None
        if key in ("url", "image_url"):
            return None
        mime_type = next((owner[name] for name in _MIME_KEYS if isinstance(owner.get(name), str)), None)
        if mime_type is None and key == "base64":
            mime_type = owner.get("type")
        # Text lies under `data`, too: only a stated type makes it a body.
        return None if mime_type is None and key == "data" else self._keep(body, mime_type)

    def _keep(self, body: str, mime_type: Any) -> Attachment | None:
        if body in self._kept:
            return self._kept[body]
        mime_type = mime_type if isinstance(mime_type, str) and "/" in mime_type else _UNKNOWN
        padding = "=" * (-len(body) % 4) if mime_type.startswith(_MEDIA) else ""  # text may look like base64 without it
        try:
            data = base64.b64decode(body + padding, validate=True)
        except ValueError:
            return None
        output_id = self._writer.put_output(data, mime_type)
        self._kept[body] = Attachment(mime_type=mime_type, output_id=output_id, bytes=len(data))
        return self._kept[body]


def _may_hold(value: Any) -> bool:
    """Whether an object in the value has a key under which base64 data may lie."""
    if type(value) is dict:
        if not _ANY_BODY_KEY.isdisjoint(value):
            return True
        for item in value.values():  # a loop without calls for the values that are no containers: most are none
            kind = type(item)
            if kind is not str and (kind is dict or kind is list) and _may_hold(item):
                return True
    elif type(value) is list:
        for item in value:
            if (type(item) is dict or type(item) is list) and _may_hold(item):
                return True
    return False


def take_bodies(writer: Writer, value: Any) -> tuple[Any, list[Attachment] | None]:
    """Move base64 data out of a value. Returns the value with `outputId` in place of the data, and the attachments made
    of it."""
    if not _may_hold(value):
        return value, None
    bodies = Bodies(writer)
    return bodies.take(value), bodies.attachments
