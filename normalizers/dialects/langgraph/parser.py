"""The `langgraph` dialect: what the nodes of a graph add to its messages."""

from __future__ import annotations

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import record, records, request_id, string, token_counts
from tooltap.protocol.events import Message, Usage


class GraphState(State, kw_only=True):
    model: str | None = None


class LangGraph(Parser):
    """Updates of an agent's graph.

    Learned from LangGraph 1.2. Each line has the messages that a node has added: answers of the model, with calls, and
    results of tools. An answer without a call ends the turn.
    """

    dialect = "langgraph"
    protocol = default_provider = "langgraph"
    SKIPS = frozenset({"unchanged"})
    message = Lines("type", skip={"system": "prompt-context"})
    state_type = GraphState
    state: GraphState

    def read(self, value: Line) -> Skip:
        messages = records(value.get("messages"))
        if not messages:
            return self.unparsed("unknown-type", value)
        for one in messages:
            self.message.read(self, record(one.get("data")), kind=string(one.get("type")), line=one)
        return None if self.items else "unchanged"

    @message("human", content=(str, list))
    def _prompt(self, data: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        bodies = Bodies(self)
        text = blocks_text(bodies.take(data["content"])) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @message("ai", content=(str, list))
    def _answer(self, data: Line) -> Skip:
        self.ensure_turn()
        stated = record(data.get("response_metadata"))
        self.uses_model(string(stated.get("model_name")))
        if text := blocks_text(data["content"]):
            self.emit_text("assistant", text, message_id=string(data.get("id")))
        calls = records(data.get("tool_calls"))
        for index, call in enumerate(calls):
            call_id, name = string(call.get("id")), string(call.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                self.calls.show(call_id, name, call.get("args"), raw=call, place=(None, index))
        for call in records(data.get("invalid_tool_calls")):
            self.notice("invalid-call", string(call.get("error")), "warning", call)
        if usage := record(data.get("usage_metadata")):
            prompt, output = record(usage.get("input_token_details")), record(usage.get("output_token_details"))
            totals = usage.get("input_tokens"), usage.get("output_tokens")
            cached = prompt.get("cache_read"), prompt.get("cache_creation")
            counts = token_counts(*totals, *cached, output.get("reasoning"))
            self.emit(Usage, scope="step", request=request_id(stated.get("id")), **counts)
        if not calls:
            self.end_turn("completed", ended_by="answer", reason=string(stated.get("finish_reason")))
        return None

    @message("tool", tool_call_id=str)
    def _result(self, data: Line) -> Skip:
        self.ensure_turn()
        bodies = Bodies(self)
        content = bodies.take(data.get("content"))
        status = status_word(data.get("status")) or "completed"
        error = None if status == "completed" else blocks_text(content)
        answer = Answer(content, status, error, model=content, attachments=bodies.attachments)
        name = string(data.get("name")) or "unknown"
        return self.calls.answer(data["tool_call_id"], answer, raw=data, raw_name=name)
