"""The `pydantic-ai` dialect: the messages of runs of Pydantic AI's agents."""

from __future__ import annotations

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import dollars, milliseconds, record, records, request_id, string, token_counts
from tooltap.protocol.events import Message, Usage


class PydanticState(SessionState, kw_only=True):
    run: str | None = None
    model: str | None = None


class PydanticAI(Parser):
    """A list of requests to the model and its responses, each with parts.

    Learned from Pydantic AI 2.68. A run begins with the user's prompt, and ends with a response that calls no tool.
    """

    dialect = "pydantic-ai"
    protocol = default_provider = "pydanticai"
    STATES_TIMES = True
    SKIPS = frozenset({"prompt-context", "unchanged"})
    line = Lines("kind")
    part = Lines("part_kind", skip={"system-prompt": "prompt-context"})
    state_type = PydanticState
    state: PydanticState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        session = string(value.get("conversation_id"))
        if session and session != self.state.started:
            self.give_up_turns()
            self.begin_session(session)
        run = string(value.get("run_id"))
        if run != self.state.run:
            self.give_up_turns()
            self.state.run = run

    @line("request", parts=list)
    def _request(self, value: Line) -> Skip:
        for part in records(value["parts"]):
            self.ts = milliseconds(part.get("timestamp")) or self.ts
            self.part.read(self, part)
        return None if self.items else "prompt-context"

    @part("user-prompt", content=(str, list))
    def _prompt(self, part: Line) -> Skip:
        if self.turn is None:
            self.start_turn(self.state.run)
        bodies = Bodies(self)
        text = blocks_text(bodies.take(part["content"])) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @part("tool-return", tool_call_id=str, tool_name=str)
    def _return(self, part: Line) -> Skip:
        """A tool returns any value."""
        self.ensure_turn()
        bodies = Bodies(self)
        content = bodies.take(part.get("content"))
        status = status_word(part.get("outcome")) or "completed"
        error = None if status == "completed" else blocks_text(content)
        answer = Answer(content, status, error, model=content, attachments=bodies.attachments)
        raw = {**part, "content": content}
        return self.calls.answer(part["tool_call_id"], answer, raw=raw, raw_name=part["tool_name"])

    @line("response", parts=list)
    def _response(self, value: Line) -> Skip:
        self.ensure_turn()
        self.uses_model(string(value.get("model_name")))
        parts = records(value["parts"])
        for index, part in enumerate(parts):
            self.part.read(self, {**part, "index": index})
        usage = record(value.get("usage"))
        counts = token_counts(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("cache_read_tokens"),
            usage.get("cache_write_tokens"),
            usage.get("output_reasoning_tokens"),
        )
        request, cost = request_id(value.get("provider_response_id")), dollars(usage.get("cost"))
        if usage:
            self.emit(Usage, scope="step", cost_usd=cost, request=request, **counts)
        if not any(part.get("part_kind") == "tool-call" for part in parts):
            self.end_turn("completed", ended_by="answer", reason=string(value.get("finish_reason")))
        return None

    @part("text", content=str)
    def _text(self, part: Line) -> Skip:
        if part["content"]:
            self.emit_text("assistant", part["content"])
        return None

    @part("thinking", content=str)
    def _thinking(self, part: Line) -> Skip:
        if part["content"]:
            self.emit_text("reasoning", part["content"])
        return None

    @part("tool-call", tool_call_id=str, tool_name=str)
    def _call(self, part: Line) -> Skip:
        self.ensure_turn()
        given = decode_json(part.get("args"))
        place = (None, part["index"]) if "index" in part else None  # a request should have none
        raw = {key: item for key, item in part.items() if key != "index"}
        return self.calls.show(part["tool_call_id"], part["tool_name"], given, raw=raw, place=place)
