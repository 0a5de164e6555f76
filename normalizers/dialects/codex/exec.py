"""The `codex-exec` dialect: `codex exec --json`, one line for the start and the end of every turn item, within turns.

Three generations: since 0.44 items have a `type`; before, an `item_type`; to 0.41 the lines are the core's own events,
as `{id, msg}`, after the settings and the prompt. Item ids count from `item_0` in every run, so from the second turn on
they get the turn's id as a prefix.
"""

from __future__ import annotations

import re

from tooltap.normalizers.core.calls import DUPLICATE_RESULT, Answer
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.dialects.codex.items import call_id_of, core_item, counts_of, cwd_of, mode_of, nonempty
from tooltap.normalizers.dialects.codex.parser import CodexParser
from tooltap.normalizers.dialects.codex.threads import CodexState
from tooltap.normalizers.wire.values import first_string, record, whole
from tooltap.protocol.events import Message, Usage

_COUNTED_ID = re.compile(r"item_\d+")
_RETRY = "Reconnecting..."
"""Beginning of an error after which Codex continues; there is no other sign."""


class CodexExecState(CodexState, kw_only=True):
    id_prefix: str = ""
    """Prefix that distinguishes the newest turn's item ids from those of earlier turns."""


class CodexExec(CodexParser):
    dialect = "codex-exec"
    STATES_END = True
    line = Lines()
    state_type = CodexExecState
    state: CodexExecState

    @line.otherwise
    def _older(self, value: Line) -> Skip:
        """Read a line of the versions to 0.41, which have events under `msg`."""
        msg = value.get("msg")
        if not isinstance(msg, dict):
            return self._preface(value)
        self.threads.event_turn = first_string(value, "id")
        if session := first_string(msg, "thread_id", "session_id"):
            self.set_session(session)
        return self.read_event(msg, value)

    def _preface(self, value: Line) -> Skip:
        """Read a line before the first event (to 0.41): the settings in display form, then the prompt."""
        if "workdir" in value and "provider" in value:
            mode = mode_of({"approval_policy": value.get("approval"), "sandbox_policy": value.get("sandbox")})
            cwd = first_string(value, "workdir") or self.state.cwd
            self.begin_thread(cwd, model=first_string(value, "model"), mode=mode)
        elif set(value) == {"prompt"}:
            self.emit(Message, role="user", text=first_string(value, "prompt") or "")
        else:
            return self.unparsed("unknown-type", value)
        return None

    # -- threads and turns ----------------------------------------------------------------------------------------

    @line("thread.started", "session.created")
    def _thread_started(self, value: Line) -> None:
        self._give_up_turn()
        session = first_string(value, "thread_id", "session_id")
        resumed = session is not None and session == self.state.session
        if session is not None:
            self.set_session(session)
        cwd, version = cwd_of(value), first_string(value, "cli_version")
        model, mode = first_string(value, "model"), first_string(value, "sandbox_mode")
        self.begin_thread(cwd, resumed=resumed, model=model, mode=mode, agent_version=version)

    @line("turn.started")
    def _turn_begins(self, value: Line) -> None:
        self._give_up_turn()
        self._start(first_string(value, "turn_id"))

    def _start(self, turn_id: str | None, *, synthetic: bool = False) -> None:
        turn_id = self.start_turn(turn_id, synthetic=synthetic)
        self.state.id_prefix = "" if self.state.turn_count == 1 else f"{turn_id}/"
        self.thread.texts, self.thread.failed = [], None

    def _give_up_turn(self) -> None:
        """End a turn that was broken off and whose end is not on the wire."""
        if self.turn is not None:
            self.give_up_turns()

    def before_content(self, *, prompt: bool = False) -> None:
        if self.turn is None and self.threads.event_turn is None:
            self._start(None, synthetic=True)
        super().before_content()

    @line("turn.completed", "turn.failed")
    def _turn_ends(self, value: Line) -> None:
        failed = value["type"] == "turn.failed"
        if failed:
            self._report(record(value.get("error")), "turn")
        self.before_content()
        usage = record(value.get("usage"))
        # Before reasoning tokens were stated (0.131), a resumed thread's counter went on (0.120), or began anew (0.58).
        counter = "lineage" if "reasoning_output_tokens" in usage else None
        before = ((Usage, {"scope": "session", "counter": counter, **counts_of(usage)}),) if usage else ()
        duration = whole(value.get("latency_ms"))
        self.end_turn("failed" if failed else "completed", turn_id=self.turn, duration_ms=duration, before=before)

    @line("turn.rate_limited")
    def _rate_limited(self, value: Line) -> None:
        self.notice("rate-limit", "turn.rate_limited", "warning", nonempty(value, "retry_after_ms"))

    @line("error")
    def _report(self, error: Line, form: str = "line") -> Skip:
        """Emit an error: it has a line of its own, and the turn that fails because of it repeats it."""
        text = first_string(error, "message") or "error"
        if not self.thread.is_new("error", text, form):
            return "duplicate"
        retries = text.startswith(_RETRY)
        harmless = retries or error.get("fatal") is False
        code = "retry" if retries else "warning" if harmless else "provider-error"
        self.notice(code, text, "warning" if harmless else "error", nonempty(error, "code") or None)
        return None

    # -- items ----------------------------------------------------------------------------------------------------

    @line("item.started", "item.updated", "item.completed")
    def _item(self, value: Line) -> Skip:
        kind, item = value["type"], record(value.get("item"))
        if self.turn is None and (
            kind == "item.started" or not self.calls.is_known(self._unique(first_string(item, "id") or ""))
        ):
            self._start(None, synthetic=True)
        core = core_item(item)
        if self.state.id_prefix and (item_id := first_string(core, "id")) is not None:
            core["id"] = self._unique(item_id)
        if core["type"] == "TodoList":
            return self._todo_list(kind, core)
        if core["type"] == "Error":
            self.notice("warning", first_string(item, "message") or "error", "warning")
            return None
        skip = self.read_turn_item(core, kind == "item.completed", value)
        if kind != "item.updated" or skip == UNPARSED:
            return skip
        call = self.calls.get(first_string(core, "id") or "")
        printed = first_string(core, "aggregated_output")
        if call is None or printed is None:
            return skip
        self.tool_calls.running.catch_up(call, "stdout", printed)
        return "partial"

    def _unique(self, item_id: str) -> str:
        return self.state.id_prefix + item_id if _COUNTED_ID.fullmatch(item_id) else item_id

    def _todo_list(self, kind: str, item: Line) -> Skip:
        """Read a to-do list: a call that is open as long as its turn, updated at each change."""
        if self.calls.is_over(call_id_of(item)):
            return DUPLICATE_RESULT
        skip = self.tool_calls.show(item, "todo_list", nonempty(item, "items"))
        return self.tool_calls.answer(item, Answer()) if kind == "item.completed" else skip
