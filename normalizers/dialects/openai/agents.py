"""The `openai-agents` dialect: the events of a run of OpenAI's Agents SDK."""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.openai.responses import OpenAIResponses
from tooltap.normalizers.wire.values import string

_NO_ID = "__fake_id__"


class OpenAIAgents(OpenAIResponses):
    """What `stream_events` of a run yields, each event as JSON on a line.

    Learned from openai-agents 0.24. An event of the Responses API is in an envelope; the SDK makes such events itself
    where a model speaks another protocol, and then all have one id. Items of the run repeat what they have said, except
    the results of the tools that the SDK has called.
    """

    dialect = "openai-agents"
    protocol = default_provider = "openai-agents"
    SKIPS = OpenAIResponses.SKIPS | {"repeated"}
    event = Lines("type")
    item = Lines("type", skip={"message_output_item": "repeated", "tool_call_item": "repeated"})

    def read(self, value: Line) -> Skip:
        return self.event.read(self, value)

    @event("raw_response_event", data=dict)
    def _raw(self, value: Line) -> Skip:
        data = value["data"]
        stated = {key: _stated(data[key]) for key in ("item", "response") if isinstance(data.get(key), dict)}
        return super().read({**data, **stated})

    @event("run_item_stream_event", item=dict)
    def _run_item(self, value: Line) -> Skip:
        return self.item.read(self, value["item"], line=value)

    @item("tool_call_output_item", raw_item=dict)
    def _output(self, value: Line) -> Skip:
        bodies = Bodies(self)
        raw = bodies.take(value["raw_item"])
        call_id = string(raw.get("call_id"))
        if call_id is None:
            return self.unparsed("unknown-type", value)
        self.ensure_turn()
        answer = self._answer_of(call_id, raw).replace(model=raw.get("output"), attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=raw)


def _stated(value: Line) -> Line:
    """An object without what the SDK fills in where the model's server states nothing."""
    return {key: item for key, item in value.items() if item is not None and item != _NO_ID}
