"""A session as events of the AG-UI protocol 1.0, one on a line: `AgUiRuns`, of which `AgUiEvents` makes exported files,
and `ag_ui_live.py` what subscribers get.

A turn is a run, and the session a thread. A permission that the agent asks for ends the run with an interrupt; the
answer to it begins the next run, which names the one before. What a run leaves open is closed before its end, and what
comes outside any turn has a run of its own. Notices are `CUSTOM` events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.daemon.export.values import content_of, payload_of, whole_text
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    Turn,
    Unparsed,
    Usage,
)

VERSION = "1.0"
SUBAGENTS = 1_000
"""Maximum subagents of a run; the events of further ones are the main agent's."""
MAX_TIME = 9_007_199_254_740_991
_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
"""Of tokens: AG-UI's -> ours."""


class AgUiRuns:
    """The runs of one session, and the lines that are to be written next."""

    def __init__(self) -> None:
        self._thread = ""
        self._run: str | None = None
        self._runs = 0
        self._before: str | None = None
        """The run before, if it was interrupted."""
        self._turn: str | None = None
        """The turn of the main agent that the run is."""
        self._subagents: dict[str, str] = {}
        """Subagents of the run that are running -> their ids in the run."""
        self._over = 0
        """Subagents that have been in the run."""
        self._usage: list[dict[str, Any]] = []
        self._lines: list[str] = []
        self._gaps: list[str] = []
        """Sentences on what is missing before the first event."""

    def _add_gap(self, sentence: str) -> None:
        if not self._thread:
            self._gaps.append(sentence)
            return
        self._begin(None)
        self._say("CUSTOM", None, name="gap", value=sentence)

    # -- events ---------------------------------------------------------------------------------------------------

    def _note(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> None:
        match event:
            case Turn() if event.agent is not None:
                if event.state == "started":
                    self._begin(event)
                    self._agent(event)
                elif not event.provisional:
                    self._end_subagent(event)
            case Turn(state="started"):
                self._finish(event, {"type": "success"})
                self._begin(event)
                self._turn = event.turn
            case Turn() if self._run is not None and event.turn == self._turn and not event.provisional:
                if event.state == "failed":
                    self._fail(event)
                else:
                    more = {"result": {"state": event.state}} if event.state == "cancelled" else {}
                    self._finish(event, {"type": "success"}, **more)
            case Message() | Reasoning():
                self._text(event, whole_text(event, "/text", event.text, bodies))
            case ToolCall():
                self._begin(event)
                named = {"toolCallId": event.call_id}
                arguments = _json(payload_of(event, "input", bodies))
                self._say("TOOL_CALL_START", event, **named, toolCallName=event.name)
                self._say("TOOL_CALL_ARGS", event, **named, delta=arguments)
                self._say("TOOL_CALL_END", event, **named)
            case ToolResult() if not event.async_:
                self._begin(event)
                result = {"toolCallId": event.call_id, "content": content_of(event, bodies), "role": "tool"}
                self._say("TOOL_CALL_RESULT", event, messageId=event.id, **result)
                if event.status != "completed":
                    self._say("CUSTOM", event, name=f"tool-{event.status}", value={"toolCallId": event.call_id})
            case PermissionRequest():
                self._ask(event)
            case PermissionResponse():
                self._begin(event)
                answer = {"id": event.permission_id, "outcome": event.outcome, "answers": event.answers}
                self._say("CUSTOM", event, name="answer", value=answer)
            case Usage() if event.scope == "step":
                stated = ((name, getattr(event, ours)) for name, ours in _NAMES.items())
                figures = {name: figure for name, figure in stated if figure is not None}
                self._add_usage({"model": event.model, **figures} if event.model is not None else figures)
            case Notice() | Unparsed():
                self._begin(event)
                name = event.code if isinstance(event, Notice) else "unparsed"
                self._say("CUSTOM", event, name=name, value=event.text)
            case _:
                pass

    def _text(self, event: Message | Reasoning, text: str) -> None:
        self._begin(event)
        if text:
            self._open_text(event, event.id)
            self._add_text(event, event.id, text)
            self._end_text(event, event.id)

    def _open_text(self, event: Message | Reasoning, message_id: str) -> None:
        if isinstance(event, Reasoning):
            self._say("REASONING_START", event, messageId=message_id)
            self._say("REASONING_MESSAGE_START", event, messageId=message_id, role="reasoning")
        else:
            self._say("TEXT_MESSAGE_START", event, messageId=message_id, role=event.role)

    def _add_text(self, event: Message | Reasoning, message_id: str, text: str) -> None:
        kind = "REASONING_MESSAGE" if isinstance(event, Reasoning) else "TEXT_MESSAGE"
        self._say(f"{kind}_CONTENT", event, messageId=message_id, delta=text)

    def _end_text(self, event: Message | Reasoning, message_id: str) -> None:
        if isinstance(event, Reasoning):
            self._say("REASONING_MESSAGE_END", event, messageId=message_id)
            self._say("REASONING_END", event, messageId=message_id)
        else:
            self._say("TEXT_MESSAGE_END", event, messageId=message_id)

    def _ask(self, event: PermissionRequest) -> None:
        """End the run with what the agent asks."""
        self._begin(event)
        interrupt: dict[str, Any] = {"id": event.permission_id, "reason": event.type}
        subagent = self._agent(event)
        if event.title:
            interrupt["message"] = event.title
        if event.call_id is not None:
            interrupt["toolCallId"] = event.call_id
        if subagent is not None:
            interrupt["subagentRunId"] = subagent
        asked = {"options": event.options, "questions": event.questions, "name": event.name}
        if metadata := {name: value for name, value in asked.items() if value is not None}:
            interrupt["metadata"] = metadata
        run, turn = self._run, self._turn
        self._finish(event, {"type": "interrupt", "interrupts": self._interrupts(interrupt)})
        self._before, self._turn = run, turn

    def _interrupts(self, interrupt: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what the end of a run asks."""
        return [interrupt]

    def _add_usage(self, usage: dict[str, Any]) -> None:
        """Add tokens to those of the run, by model."""
        known = next((one for one in self._usage if one.get("model") == usage.get("model")), None)
        if known is None:
            self._usage.append(usage)
            return
        for name in _NAMES:
            if name in usage:
                known[name] = known.get(name, 0) + usage[name]

    # -- runs -----------------------------------------------------------------------------------------------------

    def _begin(self, event: AnyEvent | None) -> None:
        """Begin a run unless one is running."""
        if self._run is not None:
            return
        self._runs += 1
        self._run = f"{self._thread}:{self._runs}"
        parent = {} if self._before is None else {"parentRunId": self._before}
        self._before = None
        self._say("RUN_STARTED", event, threadId=self._thread, runId=self._run, protocolVersion=VERSION, **parent)
        if self._runs == 1:
            self._begin_session()

    def _begin_session(self) -> None:
        """Say what is known before the first event; the first run has begun."""
        for sentence in self._gaps:
            self._say("CUSTOM", None, name="gap", value=sentence)

    def _finish(self, event: AnyEvent | None, outcome: dict[str, Any], **more: Any) -> None:
        if self._run is None:
            return
        self._close(event, is_suspended=outcome["type"] == "interrupt")
        usage = {"usage": self._usage} if self._usage else {}
        self._say("RUN_FINISHED", event, threadId=self._thread, runId=self._run, outcome=outcome, **usage, **more)
        self._run, self._turn, self._usage = None, None, []

    def _fail(self, event: Turn) -> None:
        self._close(event)
        code = {} if event.reason is None else {"code": event.reason}
        usage = {"usage": self._usage} if self._usage else {}
        self._say("RUN_ERROR", event, message=event.reason or "The turn failed.", **code, **usage)
        self._run, self._turn, self._usage = None, None, []

    def _close(self, event: AnyEvent | None, *, is_suspended: bool = False) -> None:
        """End the subagents of the run."""
        outcome = {"type": "suspended" if is_suspended else "success"}
        for identity in self._subagents.values():
            self._say("SUBAGENT_FINISHED", event, subagentRunId=identity, outcome=outcome)
        self._subagents, self._over = {}, 0

    def _agent(self, event: AnyEvent) -> str | None:
        """Return the id of the event's subagent in the run, and begin it if it is new; None for the main agent."""
        if event.agent is None:
            return None
        if event.agent not in self._subagents:
            if self._over >= SUBAGENTS:
                return None
            self._over += 1
            identity = f"{self._run}:{event.agent}:{self._over}"
            self._subagents[event.agent] = identity
            parent = {} if event.parent is None else {"parentToolCallId": event.parent}
            self._line("SUBAGENT_STARTED", event, {"subagentRunId": identity, "name": event.agent, **parent})
        return self._subagents[event.agent]

    def _end_subagent(self, event: Turn) -> None:
        identity = self._subagents.pop(event.agent or "", None)
        if identity is None:
            return
        if event.state == "failed":
            self._say("SUBAGENT_ERROR", None, subagentRunId=identity, message=event.reason or "The subagent failed.")
        else:
            self._say("SUBAGENT_FINISHED", None, subagentRunId=identity, outcome={"type": "success"})

    # -- lines ----------------------------------------------------------------------------------------------------

    def _say(self, kind: str, event: AnyEvent | None, **fields: Any) -> None:
        if event is not None and not kind.startswith(("RUN_", "SUBAGENT_")):
            subagent = self._agent(event)
            if subagent is not None:
                fields["subagentRunId"] = subagent
        self._line(kind, event, fields)

    def _line(self, kind: str, event: AnyEvent | None, fields: dict[str, Any]) -> None:
        time = None if event is None or event.ts is None else event.ts
        stamp = {} if time is None or abs(time) > MAX_TIME else {"timestamp": time}
        self._lines.append(f"{_json({'type': kind, **stamp, **fields})}\n")

    def _taken(self) -> str:
        lines, self._lines = self._lines, []
        return "".join(lines)


class AgUiEvents(AgUiRuns):
    """An exported file: as an agent's backend would have streamed the session."""

    ENDING: ClassVar = "jsonl"
    HAS_BODIES: ClassVar = True

    def __init__(self, title: str, *, bodies: Bodies) -> None:
        super().__init__()
        self._title = title
        self._bodies = bodies

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Add an event and return the lines to write next."""
        if event.replay:
            return ""
        self._thread = self._thread or event.session
        self._note(event, bodies)
        return self._taken()

    def add_gap(self, gap: MissingRange) -> str:
        self._add_gap(gap.sentence)
        return self._taken()

    def end(self, *remarks: str) -> Iterator[str]:
        """Yield the end of the last run, with the remarks."""
        self._begin(None)
        left_out = [f"{self._bodies.left_out:,} images or long outputs left out."] if self._bodies.left_out else []
        for remark in (*remarks, *left_out):
            self._say("CUSTOM", None, name="remark", value=remark)
        self._finish(None, {"type": "success"})
        yield self._taken()

    def _begin_session(self) -> None:
        self._say("CUSTOM", None, name="title", value=self._title)
        super()._begin_session()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
