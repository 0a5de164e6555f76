"""A session as AG-UI events while it is going on: what a subscription `as` AG-UI gets, in the mapping of `ag_ui.py`.

A text is sent as its partials come, and ends with the event that has the whole of it. It has the id of its first
partial, because the event's own is not known yet; a text without partials has that of its event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.export.ag_ui import AgUiRuns
from tooltap.daemon.export.source import ExportedBody, MissingRange
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    Notice,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    Turn,
    Unparsed,
    decode,
)
from tooltap.protocol.frames import At, Gap, encode_frame

STREAMED_TEXTS = 256
"""Maximum texts that are sent while they are written; others come whole."""
INTERRUPTS = 100
"""Maximum questions without an answer that the end of a run repeats."""
RESET = "The journal was replaced by another one, which follows from its oldest event."

_Text: TypeAlias = Message | Reasoning


class _Key(NamedTuple):
    """Of which block a partial is a part."""

    role: str
    agent: str | None
    message_id: str | None
    block: int | None


class _Streamed:
    """A text of which partials were sent: their number of code points and their hash, not the text."""

    def __init__(self, first: _Text) -> None:
        self.id = first.id
        self.stream = first.stream
        self.agent = first.agent
        self.is_reasoning = isinstance(first, Reasoning)
        self.chars = 0
        self.is_open = False
        self.owner: str | None = None
        """The id of its subagent in the run."""
        self._hash = hashlib.blake2b()

    def note(self, text: str) -> None:
        self.chars += len(text)
        self._hash.update(text.encode())

    def begins(self, text: str) -> bool:
        """Return whether the text begins with what was sent."""
        return hashlib.blake2b(text[: self.chars].encode()).digest() == self._hash.digest()


class LiveAgUi(AgUiRuns):
    """The AG-UI events of one subscriber. What happened until `after` is read, and not sent: a subscriber that resumes
    gets the beginning of the run that is going on again, so that what it gets is valid by itself."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after
        self._reached = 0
        """`seq` up to which the session was read, as far as it is known."""
        self._missing: list[str] = []
        """Sentences on what is missing, until what happened before is read."""
        self._has_begun = False
        """Whether the subscriber has got the beginning of the run that was going on."""
        self._beginnings: dict[str, str] = {}
        """The lines that began the run and its running subagents, by the subagent's id in the run."""
        self._streamed: dict[_Key, _Streamed] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        """Interrupts of the turn that have no answer yet, by their ids."""

    def read(self, events: Sequence[Produced | StoredEvent], seqs: Sequence[int | None]) -> bytes:
        """Return the lines of events and partials, after each event with lines an `at` frame, as its cursor."""
        parts: list[bytes] = []
        for one, seq in zip(events, seqs, strict=True):
            if seq is not None:
                self._reached = max(self._reached, seq)
                if seq <= self._after:
                    self._read_one(one.body)
                    continue
            elif self._reached < self._after:
                continue  # a partial of what the subscriber has: the journal may be ahead of the hub for a moment
            begun = self._begin_again()
            if lines := begun + self._read_one(one.body):
                parts.append(lines.encode())
                if seq is not None:
                    parts.append(encode_frame(At(seq=seq)))
        return b"".join(parts)

    def reach(self, seq: int) -> str:
        """Note that everything up to a `seq` was read. Return the lines that begin the run that is going on, if nothing
        was sent before."""
        self._reached = max(self._reached, seq)
        return "" if self._reached < self._after else self._begin_again()

    def gap(self, gap: Gap) -> str:
        """Return the lines that say which events are missing."""
        if gap.reason == "reset":
            begun = self._begin_again() if self._reached >= self._after else ""
            self._finish(None, {"type": "success"})
            lines = self._taken() if self._has_begun else ""
            self._lines, self._beginnings = [], {}
            self._after, self._reached, self._before, self._turn = 0, 0, None, None
            self._streamed.clear()
            return begun + lines + self._say_missing(RESET)
        sentence = MissingRange(gap.from_, gap.to, is_deleted=gap.reason == "retention").sentence
        if gap.to <= self._after:
            return ""
        if self._reached < self._after:
            self._missing.append(sentence)
            return ""
        return self._begin_again() + self._say_missing(sentence)

    def _begin_again(self) -> str:
        if self._has_begun:
            return ""
        self._has_begun = True
        missing, self._missing = self._missing, []
        return "".join([*self._beginnings.values(), *map(self._say_missing, missing)])

    def _say_missing(self, sentence: str) -> str:
        was_running = self._run is not None
        self._add_gap(sentence)
        if not was_running:
            self._finish(None, {"type": "success"})
        return self._taken()

    def _read_one(self, body: bytes) -> str:
        try:
            event = decode(body)
            if not event.replay:
                self._thread = self._thread or event.session
                self._note(event, {})
        except msgspec.ValidationError:
            pass  # daemons of two versions may share a journal: a kind that this one does not know
        except Exception as error:
            faults.note("an event is missing as AG-UI", place_of(error), error)
            self._lines.clear()
        return self._taken()

    # -- events ---------------------------------------------------------------------------------------------------

    def _note(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> None:
        if getattr(event, "partial", False):
            if isinstance(event, Message | Reasoning):
                self._add_partial(event)
            return
        was_running = self._run is not None
        if isinstance(event, PermissionResponse):
            self._asked.pop(event.permission_id, None)
        elif isinstance(event, Turn) and event.agent is None and not event.provisional:
            self._asked.clear()
        super()._note(event, bodies)
        if isinstance(event, SessionEvent) and event.title is not None:
            self._begin(event)
            self._say("CUSTOM", event, name="title", value=event.title)
        elif isinstance(event, ToolCall) or (isinstance(event, ToolResult) and not event.async_):
            self._refer(event, toolCallId=event.call_id)
        # Nothing says that more will follow it, and a run that does not end would look like an agent that works.
        is_remark = isinstance(event, Notice | Unparsed | SessionEvent) and not was_running and self._turn is None
        if is_remark or (isinstance(event, SessionEvent) and event.state == "ended"):
            self._finish(event, {"type": "success"})

    def _interrupts(self, interrupt: dict[str, Any]) -> list[dict[str, Any]]:
        """Return all that has no answer: AG-UI's client answers what the last run asks, and no other."""
        self._asked[interrupt["id"]] = interrupt
        if len(self._asked) > INTERRUPTS:
            del self._asked[next(iter(self._asked))]
        return [*self._asked.values()]

    def _refer(self, event: _Text | ToolCall | ToolResult, **named: str) -> None:
        """Say where the whole of what was cut in the event is."""
        if event.outputs:
            self._say("CUSTOM", event, name="outputs", value={**named, "outputs": event.outputs})

    # -- texts ----------------------------------------------------------------------------------------------------

    def _add_partial(self, event: _Text) -> None:
        key, offset = _key(event), event.offset or 0
        one = self._streamed.get(key)
        if not event.text or (one is not None and one.stream != event.stream):
            return
        if one is not None and offset == 0 < one.chars:  # the model begins again
            self._supersede(key, event, event.id)
            one = None
        if one is None:
            if offset or len(self._streamed) >= STREAMED_TEXTS:
                return
            one = self._streamed[key] = _Streamed(event)
        if offset == one.chars:  # else one was lost, and the rest comes with the whole
            self._add_piece(one, event, event.text)
            one.note(event.text)

    def _add_piece(self, one: _Streamed, event: _Text, text: str) -> None:
        self._begin(event)
        if not one.is_open:  # also in a later run, if one has ended meanwhile: with the same id it is the same message
            one.is_open, one.owner = True, self._agent(event)
            self._open_text(event, one.id)
        self._add_text(event, one.id, text)

    def _text(self, event: _Text, text: str) -> None:
        """End a text. If what was sent is not its beginning, it cannot be taken back in AG-UI: it is said to be
        superseded, and the whole follows as another message."""
        key = _key(event)
        if key not in self._streamed:  # Pi 0.73.1 names a message only when it is whole
            key = key._replace(message_id=None)
        one = self._streamed.get(key)
        is_cut = "/text" in (event.outputs or {})
        if one is not None and not one.begins(text) and not (is_cut and len(text) < one.chars):
            self._supersede(key, event, event.id)
            one = None
        if one is None:
            super()._text(event, text)
            self._refer(event, messageId=event.id)
            return
        del self._streamed[key]
        if rest := text[one.chars :]:
            self._add_piece(one, event, rest)
        self._begin(event)
        self._stop(one, event)
        self._refer(event, messageId=one.id)

    def _supersede(self, key: _Key, event: _Text, by: str) -> None:
        one = self._streamed.pop(key)
        self._begin(event)
        self._stop(one, event)
        self._say("CUSTOM", event, name="superseded", value={"messageId": one.id, "by": by})

    def _stop(self, one: _Streamed, event: AnyEvent | None) -> None:
        if not one.is_open:
            return
        one.is_open = False
        named: dict[str, Any] = {"messageId": one.id}
        if one.owner is not None:
            named["subagentRunId"] = one.owner
        for kind in ("REASONING_MESSAGE_END", "REASONING_END") if one.is_reasoning else ("TEXT_MESSAGE_END",):
            self._line(kind, event, dict(named))

    def _stop_all(self, event: AnyEvent | None, *, of: str | None, forget: bool) -> None:
        """End the open texts of an agent."""
        for key, one in list(self._streamed.items()):
            if one.agent == of:
                self._stop(one, event)
                if forget:
                    del self._streamed[key]

    # -- runs -----------------------------------------------------------------------------------------------------

    def _close(self, event: AnyEvent | None, *, is_suspended: bool = False) -> None:
        for agent in {one.agent for one in self._streamed.values()}:
            self._stop_all(event, of=agent, forget=agent is None and not is_suspended)
        super()._close(event, is_suspended=is_suspended)

    def _end_subagent(self, event: Turn) -> None:
        self._stop_all(event, of=event.agent, forget=True)
        super()._end_subagent(event)

    def _line(self, kind: str, event: AnyEvent | None, fields: dict[str, Any]) -> None:
        super()._line(kind, event, fields)
        if kind == "RUN_STARTED":
            self._beginnings = {"": self._lines[-1]}
        elif kind == "SUBAGENT_STARTED":
            self._beginnings[fields["subagentRunId"]] = self._lines[-1]
        elif kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR"):
            self._beginnings.pop(fields["subagentRunId"], None)
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self._beginnings = {}


def _key(event: _Text) -> _Key:
    role = event.role if isinstance(event, Message) else "reasoning"
    return _Key(role, event.agent, event.message_id, event.block)
