"""The `ai-sdk-ui` dialect: the chunks of UI message streams."""

from __future__ import annotations

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.wire.values import string

_OUTCOMES = {"error": "failed"}


class AiSdkUi(Parser):
    """Chunks of UI message streams.

    Learned from what Pydantic AI 2.68 sends, and from the schema of the chunks in the AI SDK (vercel/ai:
    `ui-message-chunks.ts`). A message is a turn, from its start to its finish, with a step for each request to the
    model. A call is emitted when its input is complete.
    """

    dialect = "ai-sdk-ui"
    protocol = default_provider = "ai-sdk"
    STATES_END = True
    SKIPS = frozenset({"framing", "partial", "unchanged"})
    line = Lines(
        skip={
            "finish-step": "step",
            "message-metadata": "metadata",
            "reasoning-start": "started",
            "start-step": "step",
            "text-start": "started",
            "tool-input-delta": "partial",
            "tool-input-start": "started",
        }
    )
    state_type = State

    @line("start")
    def _start(self, value: Line) -> Skip:
        self.give_up_turns()
        self.start_turn(string(value.get("messageId")) or None)
        return None

    @line("finish")
    def _finish(self, value: Line) -> Skip:
        self.ensure_turn()
        reason = string(value.get("finishReason"))
        self.end_turn(_OUTCOMES.get(reason or "", "completed"), reason=reason)
        return None

    @line("abort")
    def _abort(self, value: Line) -> Skip:
        self.ensure_turn()
        self.end_turn("cancelled", reason=string(value.get("reason")))
        return None

    @line("error", errorText=str)
    def _error(self, value: Line) -> Skip:
        self.ensure_turn()
        self.notice("provider-error", value["errorText"], "error")
        return None

    @line("text-delta", delta=str)
    def _text(self, value: Line) -> Skip:
        return self._append("assistant", value)

    @line("reasoning-delta", delta=str)
    def _reasoning(self, value: Line) -> Skip:
        return self._append("reasoning", value)

    def _append(self, role: str, value: Line) -> Skip:
        before = len(self.items)
        if value["delta"]:
            self.ensure_turn()
            self.texts.append(role, value["delta"], message_id=string(value.get("id")))
        return None if len(self.items) > before else "partial"

    @line("reasoning-end", "text-end")
    def _end(self, value: Line) -> Skip:
        before = len(self.items)
        self.texts.flush()
        return None if len(self.items) > before else "partial"

    @line("tool-input-available", toolCallId=str, toolName=str)
    def _call(self, value: Line) -> Skip:
        self.ensure_turn()
        self.texts.flush()
        title = string(value.get("title"))
        return self.calls.show(value["toolCallId"], value["toolName"], value.get("input"), raw=value, title=title)

    @line("tool-input-error", toolCallId=str, toolName=str)
    def _invalid(self, value: Line) -> Skip:
        """The model has called a tool in a way that its schema does not allow."""
        self._call(value)
        return self._failed(value)

    @line("tool-output-available", toolCallId=str)
    def _output(self, value: Line) -> Skip:
        if value.get("preliminary") is True:
            return "partial"
        bodies = Bodies(self)
        output = bodies.take(value.get("output"))
        return self._answer(value, Answer(output, attachments=bodies.attachments))

    @line("tool-output-error", toolCallId=str)
    def _failed(self, value: Line) -> Skip:
        return self._answer(value, Answer(None, "failed", string(value.get("errorText"))))

    @line("tool-output-denied", toolCallId=str)
    def _denied(self, value: Line) -> Skip:
        return self._answer(value, Answer(None, "denied"))

    def _answer(self, value: Line, answer: Answer) -> Skip:
        self.ensure_turn()
        return self.calls.answer(value["toolCallId"], answer, raw=value)

    @line("tool-approval-request", approvalId=str, toolCallId=str)
    def _ask(self, value: Line) -> Skip:
        self.ensure_turn()
        self.permissions.ask(value["approvalId"], call_id=value["toolCallId"])
        return None

    @line("tool-approval-response", approvalId=str)
    def _approve(self, value: Line) -> Skip:
        outcome = "allowed" if value.get("approved") is True else "denied"
        self.permissions.answer(value["approvalId"], outcome, by="user", message=string(value.get("reason")))
        return None

    @line("file", "source-document", "source-url")
    def _source(self, value: Line) -> Skip:
        """Something beside the text that the model, or a tool at its API, refers to."""
        self.ensure_turn()
        name = string(value.get("title")) or string(value.get("url")) or string(value.get("filename"))
        self.notice(value["type"], name, data={key: one for key, one in value.items() if key != "type"})
        return None

    @line.otherwise
    def _data(self, value: Line) -> Skip:
        """The application's own data has types of its own."""
        kind = string(value.get("type")) or ""
        if not kind.startswith("data-"):
            return self.unparsed("unknown-type", value)
        self.notice(kind, "", data=value.get("data"))
        return None
