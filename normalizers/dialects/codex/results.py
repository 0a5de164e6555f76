"""Results of Codex's calls, each once, though up to three lines report it.

The item or event that ends a call has its output in parts; the model's own item, right after it, has the text that the
model gets. If the second is still to come, the first is held until then, so that one result has both.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.state import Call
from tooltap.normalizers.dialects.codex.emitter import ASKED, CodexEmitter, Held
from tooltap.normalizers.dialects.codex.items import OWN, call_id_of, is_by_user, nonempty
from tooltap.normalizers.tools.truncate import truncate_raw
from tooltap.protocol.events import OutputRef

__all__ = ["CodexResults"]

_encode = msgspec.msgpack.Encoder().encode
_SERVER_TOOLS = ("WebSearch", "image_generation")
"""Tools that run where the model does: no line says what it gets of them."""


class CodexResults(CodexEmitter):
    def answer_call(
        self,
        value: Line,
        answer: Answer,
        *,
        call_id: str | None = None,
        of: Call | None = None,
        raw_name: str = UNKNOWN_TOOL,
    ) -> Skip:
        """Read an object that has a call's result. `call_id`: where the object's own does not name it; `of`: the open
        call, where no object names it."""
        call_id = call_id or call_id_of(value)
        call = of or self.calls.get(call_id)
        if call is not None and call.id in self.state.held:
            return DUPLICATE_RESULT
        if self.state.permissions.pending:
            is_question = self.calls.name_of(call_id) == "AskUserQuestion" and isinstance(answer.value, dict)
            self.settle(call_id, answer.status, answer.value.get("answers") if is_question else None)
        if not answer.is_async and self.state.running.calls:
            printed, outputs = self.running.take(call_id)
            if answer.value is None and printed:  # stopped: what it printed before is its output
                answer = answer.replace(value=printed, outputs=outputs)
        raw = value.get(OWN, value)
        if call is not None:
            self.state.exited.pop(call.id, None)
            if self.state.has_raw and self._hold(call, answer, raw, value):
                return "held"
        return self.calls.answer(of or call_id, answer, raw=raw, raw_name=raw_name)

    # -- results that wait for what the model gets ----------------------------------------------------------------

    def _hold(self, call: Call, answer: Answer, raw: Any, value: Line) -> bool:
        """Hold a result if the next lines say what the model gets of it; returns whether.

        The model gets nothing of a command of the user's, or of a call that its script makes (streams with scripts have
        the model's item first), and nothing more of a call whose output it has had: one that runs on in the
        background."""
        if self.begins == "model" or answer.is_async or call.acknowledged:
            return False
        if call.source == "model":
            self.state.raw_first = True
        elif self.state.raw_first or self.thread.script is not None or call.name in _SERVER_TOOLS or is_by_user(value):
            return False
        return self._keep(call, answer, raw)

    def await_picture(self, call: Call, answer: Answer, raw: Any) -> Skip:
        """Hold the result of a tool whose picture may come in the next item of the model's."""
        if not self._keep(call, answer, raw):
            return self.calls.answer(call, answer, raw=raw)
        self.state.picture = call.id
        return "held"

    def _keep(self, call: Call, answer: Answer, raw: Any) -> bool:
        """Remember a result, unless that is too much to remember."""
        one = Held(answer, truncate_raw(raw), self.ts)
        one.size = len(_encode(one))
        held = self.state.held
        if one.size + sum(other.size for other in held.values()) > self.context.limits.call_bytes:
            return False
        held[call.id] = one
        return True

    def release(self, call_id: str, **changes: Any) -> Skip:
        """Emit a result that was held. `call_id`: that of its events; `changes`: fields of the answer."""
        held = self.state.held.pop(call_id)
        call = self.state.calls.open.get(call_id)
        if call is None:
            return DUPLICATE_RESULT
        ts, self.ts = self.ts, held.ts
        skip = self.calls.answer(call, held.answer.replace(**changes), raw=held.raw)
        self.ts = ts
        return skip

    # -- commands in the background -------------------------------------------------------------------------------

    def remember_process(self, process: str, call: Call) -> None:
        put(self.state.processes, process, call.id, self.context.limits.open_permissions)

    def process_ended(self, process: str, answer: Answer) -> None:
        """Remember the end of a background command: a line of its own may still come, which has its output."""
        if (call_id := self.state.processes.pop(process, None)) is not None:
            put(self.state.exited, call_id, answer, self.context.limits.open_permissions)

    def release_exited(self) -> None:
        """Emit the ends of background commands for which no line of their own came."""
        exited, self.state.exited = self.state.exited, {}
        for call_id, answer in exited.items():
            if (call := self.state.calls.open.get(call_id)) is not None:
                self.calls.answer(call, answer, raw=None, synthetic=True)

    # -- ends -----------------------------------------------------------------------------------------------------

    def end_turn(self, outcome: str, *, turn_id: str | None = None, **fields: Any) -> None:
        self._before_calls_close(turn_id)
        if outcome == "completed":
            self._conclude_questions(turn_id)
        super().end_turn(outcome, turn_id=turn_id, **fields)

    def _conclude_questions(self, turn_id: str | None) -> None:
        """End the calls that only ask: a turn that completes has had the answers, though the client's side may not be
        on the wire."""
        for call in [one for one in self.state.calls.open.values() if one.source == ASKED]:
            if (call.session, call.turn) == (self.session, turn_id or call.turn):
                self.settle(call.id, "completed")
                self.calls.answer(call, Answer(), raw=None, synthetic=True)

    def hold_plan(self, msg: Line) -> Skip:
        self.release_plan()
        self.before_content()
        self.thread.plan = msg
        if len(_encode(msg)) <= self.context.limits.string_bytes:
            return "held"
        self.release_plan()
        return None

    def release_plan(self) -> None:
        """Emit the plan that no call came for."""
        plan, self.thread.plan = self.thread.plan, None
        if plan is not None:
            self.add_synthetic_call("plan", "update_plan", nonempty(plan, "explanation", "plan"), raw=plan)

    def _before_calls_close(self, turn_id: str | None) -> None:
        """Emit the turn's plan and results for which no line of the model's came any more."""
        self.release_plan()
        for call_id in list(self.state.held):
            call = self.state.calls.open.get(call_id)
            if call is None or (call.session, call.turn) == (self.session, turn_id or call.turn):
                self.release(call_id)

    def settle(self, call_id: str, status: str, answers: Any = None) -> bool:
        """Answer the pending requests about a call that runs, or ended with this status; returns whether any were.

        A client that only listens to the agent does not see the answer itself."""
        call_id = self.calls.id_of(call_id)
        pending = self.state.permissions.pending
        if status == "cancelled" or not pending:  # nobody answered; the end of the turn emits that
            return False
        asked = [permission_id for permission_id, one in pending.items() if one.call_id == call_id]
        is_question = answers is not None or self.calls.name_of(call_id) == "AskUserQuestion"
        outcome = "denied" if status == "denied" else "answered" if is_question else "allowed"
        for permission_id in asked:
            self.permissions.answer(permission_id, outcome, answers=answers, synthetic=True)
        return bool(asked)

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        if (held := self.state.held.pop(call.id, None)) is not None:  # the call is evicted
            return held.answer.value, held.answer.outputs
        return self.running.take(call.id)
