"""The usage of each request of a transcript: held while a message grows, and emitted when it is complete.

Each line of a message states the tokens of the whole message, and they grow from line to line. Versions before 2.1.330
mostly store what the API stated when the message began: the prompt, and 1 to 40 output tokens, beside
`"stop_reason": null`. Where a line states why the message stopped, its figures are final.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import orjson

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.history import History
from tooltap.normalizers.dialects.claude.reports import COUNTS, message_tokens, requests_of
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.values import record, request_id, string
from tooltap.protocol.events import ModelUsage, Usage

MESSAGES = 1_024
"""Maximum number of complete messages whose usage is kept."""
AGENTS = 64
"""Maximum number of agents whose current message is tracked."""

_BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 for one token. In recordings with final figures (English, code, JSON) a token has 0.5 to 3.7 bytes, so
an estimate with 4 is low. Scripts without spaces have 3 bytes for each character, and about one token."""
_MARGIN = 1.5
"""Factor by which an estimate must exceed the stated figure to refute it."""
_SLACK = 10
"""Tokens by which an estimate must exceed the stated figure to refute it."""


class RequestUsage(msgspec.Struct):
    """What one request used."""

    counts: dict[str, int]
    model: str | None = None

    def grow(self, counts: dict[str, int]) -> None:
        """Take the higher figures of a later line."""
        self.counts |= {name: max(count, self.counts.get(name, 0)) for name, count in counts.items()}


class StatedUsage(msgspec.Struct):
    """An event that states the usage of a request, emitted while its message might still grow."""

    event: str
    counts: dict[str, int]
    estimate: int | None = None


class MessageInProgress(msgspec.Struct):
    """The message that an agent is writing."""

    message_id: str
    agent: str | None
    session: str
    turn: str | None
    parent: str | None
    counts: dict[str, int]
    model: str | None = None
    ts: int | None = None
    """Time of the message's last line."""
    request: str | None = None
    """Identity of its request."""
    of_request: str | None = None
    """Id of its request, as its first line states it."""
    replay: bool = False
    requests: list[RequestUsage] = []
    """Each request, if there were several; `counts` are the sum of those to the message's own model."""
    written: int = 0
    """Length of the output that its lines hold, in bytes, as far as no line states final figures."""
    is_final: bool = False
    stated: list[StatedUsage] = []
    """What was emitted of each request, because the message was silent for a while."""

    def missing(self) -> int:
        """Output tokens that are missing from the figure stated, as estimated from the text; 0 unless the text refutes
        the figure."""
        stated, estimate = self.counts.get("output_tokens", 0), self.written // _BYTES_PER_TOKEN
        return 0 if self.is_final or estimate <= _MARGIN * stated + _SLACK else estimate - stated


class MessagesInProgress(msgspec.Struct):
    """The current messages, and those of turns whose usage is still to be stated."""

    complete: list[MessageInProgress] = []
    unstated: str | None = None
    """Id of the event with the usage of a turn without a `result`; one that comes later corrects it."""
    open: dict[str, MessageInProgress] = {}
    """Agent -> its current message; the key of the main agent is empty."""


def is_another(known: str | None, stated: str | None) -> bool:
    """Return whether two lines of one message id state different requests."""
    return None not in (known, stated) and known != stated


class Steps:
    """Holds the usage of each agent's current message."""

    def __init__(self, parser: Parser, state: MessagesInProgress, history: History) -> None:
        self._parser = parser
        self._history = history
        self._open = state.open

    def count(self, message: Line, request: str | None, *, is_new: bool) -> None:
        """Take the figures of a message's line. `request`: the id of its request. `is_new`: no earlier line of this
        message was read."""
        message_id = string(message.get("id"))
        if message_id is None:
            return
        parser, usage = self._parser, record(message.get("usage"))
        agent = parser.agent or ""
        step = self._open.get(agent)
        counts = without_nulls(message_tokens(usage))
        if step is None or step.message_id != message_id or is_another(step.of_request, request):
            self.emit(agent)
            if not counts or not is_new:
                return
            step = self._open[agent] = MessageInProgress(
                message_id,
                parser.agent,
                parser.session,
                parser.turn,
                parser.parent,
                counts,
                string(message.get("model")),
                request=request_id(message_id if request is None else f"{message_id}/{request}"),
                of_request=request,
                replay=parser.replay,
            )
            while len(self._open) > AGENTS:
                self.emit(next(iter(self._open)))
        else:
            step.counts |= {name: max(count, step.counts.get(name, 0)) for name, count in counts.items()}
        step.ts = parser.ts
        if message.get("stop_reason") is not None:
            step.is_final = True
        if several := requests_of(usage):
            self._count_each(step, several)

    def _count_each(self, step: MessageInProgress, several: list[Line]) -> None:
        for number, usage in enumerate(several):
            counts = without_nulls(message_tokens(usage))
            if number < len(step.requests):
                step.requests[number].grow(counts)
            else:
                step.requests.append(RequestUsage(counts, string(usage.get("model"))))

    def note_written(self, message: Line) -> None:
        """Take the length of the output that a line holds."""
        step = self._open.get(self._parser.agent or "")
        if step is None or step.is_final or step.message_id != message.get("id"):
            return
        content = message.get("content")
        for block in content if type(content) is list else ():
            kind = block.get("type") if type(block) is dict else None
            if kind in ("text", "thinking"):
                text = block.get(kind)
                if type(text) is str:
                    step.written += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            elif type(block) is dict and "input" in block:
                step.written += len(orjson.dumps(block["input"]))

    def emit(self, agent: str) -> None:
        """Emit the usage of an agent's message, which is complete."""
        step = self._open.pop(agent, None)
        if step is not None:
            self._emit(step)

    def settle(self) -> None:
        """Emit the usage of all messages, which may still grow; then what has grown is emitted as a correction."""
        for step in self._open.values():
            self._emit(step)

    def holds_back(self) -> bool:
        """Return whether any usage has not been emitted."""
        return any(any(self._unstated(step)) for step in self._open.values())

    def _unstated(self, step: MessageInProgress) -> Iterator[tuple[int, RequestUsage, int | None]]:
        """Yield number, usage and estimate of the requests that were not emitted so."""
        several, missing = step.requests or [RequestUsage(step.counts)], step.missing()
        for number, one in enumerate(several):
            is_last = number == len(several) - 1
            estimate = one.counts.get("output_tokens", 0) + missing if missing and is_last else None
            before = step.stated[number] if number < len(step.stated) else None
            if before is None or (before.counts, before.estimate) != (one.counts, estimate):
                yield number, one, estimate

    def _emit(self, step: MessageInProgress) -> None:
        place = {"session": step.session, "turn": step.turn, "agent": step.agent, "parent": step.parent}
        for number, one, estimate in list(self._unstated(step)):
            model = one.model or step.model
            before = step.stated[number] if number < len(step.stated) else None
            if not step.replay:
                known = {} if before is None else before.counts
                more = {name: count - known.get(name, 0) for name, count in one.counts.items()}
                self._history.note_used(model, more)
            event = self._parser.emit(
                Usage,
                scope="step",
                **place,
                **one.counts,
                model=model,
                request=step.request and (f"{step.request}#{number + 1}" if len(step.requests) > 1 else step.request),
                estimated_output_tokens=estimate,
                replaces=None if before is None else before.event,
                ts=step.ts,
                replay=step.replay,
            )
            step.stated[number : number + 1] = [StatedUsage(event.id, dict(one.counts), estimate)]

    def emit_of_call(self, call_id: str) -> None:
        """Emit the usage of the subagents that a call spawned, because the call has its result."""
        for agent in [agent for agent, step in self._open.items() if step.parent == call_id]:
            self.emit(agent)

    def emit_all(self) -> None:
        """Emit all usage that is held."""
        for agent in list(self._open):
            self.emit(agent)


class UnstatedSteps(Steps):
    """Keeps the usage of messages in case that their turn ends without a `result`, which would state it."""

    def __init__(self, parser: Parser, state: MessagesInProgress, history: History) -> None:
        super().__init__(parser, state, history)
        self._state = state

    def emit(self, agent: str) -> None:
        """Keep the usage of a complete message, as its turn may still state it."""
        step = self._open.pop(agent, None)
        if step is not None and not step.replay:
            self._state.complete.append(step)
            del self._state.complete[:-MESSAGES]

    def forget(self) -> str | None:
        """Drop what a `result` states. Returns the id of an earlier event that it corrects."""
        self._open.clear()
        self._state.complete.clear()
        corrected, self._state.unstated = self._state.unstated, None
        return corrected

    def emit_all(self) -> None:
        """Emit the usage of the turns that end without a `result`."""
        for agent in list(self._open):
            self.emit(agent)
        for turn in dict.fromkeys(step.turn for step in self._state.complete):
            self._emit_turn([step for step in self._state.complete if step.turn == turn])
        self._state.complete.clear()

    def _emit_turn(self, steps: list[MessageInProgress]) -> None:
        models: dict[str | None, dict[str, int]] = {}
        for step in steps:
            for one in step.requests or [RequestUsage(step.counts)]:
                total = models.setdefault(one.model or step.model, {})
                for name, count in one.counts.items():
                    total[name] = total.get(name, 0) + count
        names = {name for total in models.values() for name in total}
        counts = {name: sum(total.get(name, 0) for total in models.values()) for name in sorted(names)}
        missing, last = sum(step.missing() for step in steps), steps[-1]
        event = self._parser.emit(
            Usage,
            scope="turn",
            session=last.session,
            turn=last.turn,
            agent=None,
            parent=None,
            **counts,
            models=[
                ModelUsage(model=model, **{name: total[name] for name in COUNTS if name in total})
                for model, total in models.items()
                if model is not None
            ]
            or None,
            estimated_output_tokens=counts.get("output_tokens", 0) + missing if missing else None,
            ts=last.ts,
            synthetic=True,
        )
        self._state.unstated = event.id
