"""Parsers of OpenHands' two formats: its printed stream, and its stored conversations. Both have the same events."""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState, make_room
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import (
    dollars,
    milliseconds,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Message, Usage

EVENTS = 4_096
"""Maximum number of events of a document that are remembered; the oldest are dropped."""
_MODEL = "✓ Agent initialized with model: "
_SESSION = "Conversation ID: "
_FINISHED = "Agent finished"
_BESIDE = ("kind", "security_risk", "summary")
"""What the agent adds to the arguments of every tool."""
_DRAWN = (
    "\x1b[",
    "Agent is working",
    "Goodbye!",
    "Hint: run openhands --resume ",
    "OpenHands CLI terminal UI may not work",
    "To override Rich's detection,",
    "conversation.",
    "this conversation.",
)
"""What the lines begin with that the agent prints beside its events, for a person."""


class ConversationState(SessionState, kw_only=True):
    events: MessageHistory = msgspec.field(default_factory=MessageHistory)
    requests: dict[str, None] = msgspec.field(default_factory=dict)
    """Requests whose tokens were emitted."""


class _Events(Parser):
    """The events of a conversation: messages, actions (calls) and observations (results)."""

    protocol = default_provider = "openhands"
    SKIPS = frozenset({"unchanged"})
    line = Lines("kind", skip={"SystemPromptEvent": "prompt-context"})
    state_type = SessionState

    @line("MessageEvent", source=str, llm_message=dict)
    def _message(self, value: Line) -> Skip:
        message, bodies = value["llm_message"], Bodies(self)
        text = blocks_text(bodies.take(message.get("content"))) or ""
        if value["source"] == "user":
            self.give_up_turns()
            self.start_turn()
            self.emit(Message, role="user", text=text, attachments=bodies.attachments)
            return None
        self.ensure_turn()
        if thought := string(message.get("reasoning_content")):
            self.emit_text("reasoning", thought)
        self.emit_text("assistant", text, attachments=bodies.attachments)
        return None

    @line("ActionEvent", tool_call_id=str, tool_name=str)
    def _action(self, value: Line) -> Skip:
        self.ensure_turn()
        if reasoning := string(value.get("reasoning_content")):
            self.emit_text("reasoning", reasoning)
        if thought := blocks_text(value.get("thought")):
            self.emit_text("assistant", thought)
        given = decode_json(record(value.get("tool_call")).get("arguments"))
        if not isinstance(given, dict):
            given = record(value.get("action"))
        shown = {key: item for key, item in given.items() if key not in _BESIDE}
        place = string(value.get("llm_response_id")), string(value.get("id"))
        title = string(value.get("summary"))
        self.calls.show(value["tool_call_id"], value["tool_name"], shown, raw=value, title=title, place=place)
        return None if self.items else "unchanged"

    @line("ObservationEvent", tool_call_id=str, observation=dict)
    def _observation(self, value: Line) -> Skip:
        """What the model sees of it is made of these parts, and not stated."""
        self.ensure_turn()
        bodies = Bodies(self)
        observation = bodies.take(value["observation"])
        text, code = blocks_text(observation.get("content")), whole(observation.get("exit_code"))
        result = observation if text is None else text if code is None else {"stdout": text, "exit_code": code}
        failed = observation.get("is_error") is True or observation.get("timeout") is True
        answer = Answer(result, "failed" if failed else "completed", attachments=bodies.attachments)
        name = string(value.get("tool_name")) or "unknown"
        return self.calls.answer(value["tool_call_id"], answer, raw=value, raw_name=name)


class OpenHandsJson(_Events):
    """The `openhands-json` dialect: `openhands --headless --json`.

    Learned from OpenHands 1.16. The events are lines of JSON among others for a person, which state the model at the
    beginning, the end of the agent's work, and the session's id at the end. The times in the lines have no zone, so
    that those of their receipt are better, if a tap knows them.
    """

    dialect = "openhands-json"
    SKIPS = frozenset({"display", "unchanged"})

    def enter(self, value: Line) -> None:
        if self.ts is None or self.state.times.past:
            self.ts = milliseconds(value.get("timestamp"))

    def read_text(self, line: bytes) -> Skip:
        text = line.decode("utf-8", "replace").rstrip()
        _, is_begun, model = text.partition(_MODEL)
        if is_begun:
            self.begin_session(None, model=model.removesuffix("\x1b[0m"))
        elif text == _FINISHED and self.turn is not None:
            self.end_turn("completed")
        elif text.startswith(_SESSION):
            self.set_session(_hyphenated(text.removeprefix(_SESSION)))
        elif not text.startswith((*_DRAWN, _FINISHED)):
            return self.unreadable("not-json", line, len(line))
        return None if self.items else "display"


class OpenHandsSession(_Events):
    """The `openhands-session` dialect: a conversation, as a document that the reader of the store makes.

    Learned from OpenHands 1.16. Each version of the document is a line. Its `base_state` has the model, the folder,
    what each request has used, and whether the agent has finished; its events are never changed.
    """

    dialect = "openhands-session"
    DOCUMENTS = True
    STATES_TIMES = True
    state_type = ConversationState
    state: ConversationState

    def read(self, value: Line) -> Skip:
        state, events = record(value.get("base_state")), value.get("events")
        session = string(state.get("id"))
        if session is None or not isinstance(events, list):
            return self.unparsed("unknown-type", value)
        if self.state.started != _hyphenated(session):
            self.state.cwd = string(record(state.get("workspace")).get("working_dir"))
            model = string(record(record(state.get("agent")).get("llm")).get("model"))
            self.begin_session(_hyphenated(session), cwd=self.state.cwd, model=model)
        told = records(events)
        start, is_shorter = self.state.events.unread([zlib.crc32(str(one.get("id")).encode()) for one in told], EVENTS)
        if is_shorter:
            self.notice("rewound", "conversation shortened", data={"events": start})
        for one in told[start:]:
            self.ts = milliseconds(one.get("timestamp")) or self.ts
            self.line.read(self, one)
        self._read_usage(record(record(state.get("stats")).get("usage_to_metrics")))
        turn = next(iter(self.state.turns), None)
        if turn is not None and state.get("execution_status") == "finished" and self.seems_over(turn):
            self.end_turn("completed")
        return None if self.items else "unchanged"

    def _read_usage(self, metrics: Line) -> None:
        """Emit what each request has used, of the agent and of what shortens its context."""
        emitted = self.state.requests
        for metric in map(record, metrics.values()):
            costs = records(metric.get("costs"))
            for index, used in enumerate(records(metric.get("token_usages"))):
                response = string(used.get("response_id"))
                if not response or response[:200] in emitted:
                    continue
                make_room(emitted, EVENTS)
                emitted[response[:200]] = None
                cost = dollars(costs[index].get("cost")) if len(costs) > index else None
                counts = token_counts(
                    *(used.get(key) for key in ("prompt_tokens", "completion_tokens")),
                    *(used.get(key) for key in ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")),
                )
                self.emit(Usage, scope="step", cost_usd=cost, request=request_id(response), **counts)


def _hyphenated(session: str) -> str:
    """A conversation's id as the agent's own option takes it. Its folder, and the printed line, leave the hyphens
    out."""
    if len(session) != 32 or not session.isalnum():
        return session
    return "-".join((session[:8], session[8:12], session[12:16], session[16:20], session[20:]))
