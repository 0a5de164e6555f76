"""`codex exec --json`: one line for the start and the end of every thread item, within turns.

Three generations: since 0.44 items with a `type`; before, with an `item_type`; to 0.41 the core's own events, as
`{id, msg}`, after the settings and the prompt. Item ids count from `item_0` in every run, so from the second turn on
the turn's id is put before them.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.base import CODEX_SKIPS, CodexParser
from tooltap.normalizers.dialects.codex.items import core_item
from tooltap.normalizers.dialects.codex.notices import codex_mode
from tooltap.normalizers.dialects.codex.state import (
    CodexState,
    Msg,
    call_id_of,
    details,
    int_of,
    item_of,
    object_of,
    text_of,
)
from tooltap.normalizers.dialects.codex.text import Answer
from tooltap.protocol.events import Message, Notice, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["CodexExec"]

_COUNTED_ID = re.compile(r"item_\d+")
_RETRY = "Reconnecting..."
"""How an error begins after which Codex goes on; there is no other sign."""


class CodexExecState(CodexState, kw_only=True):
    id_prefix: str = ""
    """What tells the newest turn's item ids from those of the turns before."""


class CodexExec(CodexParser):
    dialect = "codex-exec"
    SKIPS = CODEX_SKIPS
    state_type = CodexExecState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.event_turn = None
        line_class = self._read_line(value)
        return line_class if line_class is not None else self.unparsed("unknown-type", value)

    def _read_line(self, value: Msg) -> str | None:
        kind = value.get("type")
        match kind:
            case "thread.started" | "session.created":
                return self._thread_started(value)
            case "turn.started":
                self._give_up_turn()
                self._start(text_of(value, "turn_id"))
                return WITH_EVENTS
            case "turn.completed":
                return self._end("completed", value)
            case "turn.failed":
                self._error(object_of(value, "error"), "turn")
                return self._end("failed", value)
            case "error":
                return self._error(value, "line")
            case "turn.rate_limited":
                data = details(value, "retry_after_ms")
                self.emit(Notice, level="warning", code="rate-limit", text="turn.rate_limited", data=data)
                return WITH_EVENTS
            case "item.started" | "item.updated" | "item.completed":
                return self._read_item(str(kind), object_of(value, "item"))
        if isinstance(value.get("msg"), dict):
            self.event_turn = text_of(value, "id")
            self._session_of(value["msg"])
            return self.read_event(value["msg"])
        return self._read_preface(value)

    def _session_of(self, msg: Msg) -> None:
        if session := text_of(msg, "thread_id", "session_id"):
            self.set_session(session)

    def _read_preface(self, value: Msg) -> str | None:
        """Before the first event (to 0.41): the settings as they are shown to a person, then the prompt."""
        if "workdir" in value and "provider" in value:
            self.state.cwd = text_of(value, "workdir") or self.state.cwd
            mode = codex_mode({"approval_policy": value.get("approval"), "sandbox_policy": value.get("sandbox")})
            self.emit(SessionEvent, state="started", cwd=self.state.cwd, model=text_of(value, "model"), mode=mode)
            return WITH_EVENTS
        if set(value) == {"prompt"}:
            self.emit(Message, role="user", text=text_of(value, "prompt") or "")
            return WITH_EVENTS
        return None

    # -- threads and turns ----------------------------------------------------------------------------------------

    def _thread_started(self, value: Msg) -> str:
        self._give_up_turn()
        session = text_of(value, "thread_id", "session_id")
        resumed = session is not None and session == self.state.session
        if session is not None:
            self.set_session(session)
        self.state.cwd = text_of(value, "cwd") or self.state.cwd
        self.emit(
            SessionEvent,
            state="resumed" if resumed else "started",
            cwd=text_of(value, "cwd"),
            model=text_of(value, "model"),
            mode=text_of(value, "sandbox_mode"),
            agent_version=text_of(value, "cli_version"),
        )
        return WITH_EVENTS

    def _start(self, turn_id: str | None, *, synthetic: bool = False) -> None:
        turn_id = self.start_turn(turn_id, synthetic=synthetic)
        self.state.id_prefix = "" if self.state.turn_count == 1 else f"{turn_id}/"
        self.thread.said, self.thread.failed = [], None

    def _give_up_turn(self) -> None:
        """A turn that was broken off has no end; the next one shows that it is over."""
        if self.turn is not None:
            self.end_turn("cancelled", turn_id=self.turn, synthetic=True)

    def before_content(self, *, prompt: bool = False) -> None:
        if self.turn is None and self.event_turn is None:
            self._start(None, synthetic=True)
        super().before_content()

    def _end(self, outcome: str, value: Msg) -> str:
        self.before_content()
        usage = object_of(value, "usage")
        figures = {
            "input_tokens": int_of(usage, "input_tokens"),
            "output_tokens": int_of(usage, "output_tokens"),
            "cache_read_tokens": int_of(usage, "cached_input_tokens"),
            "cache_write_tokens": int_of(usage, "cache_write_input_tokens"),
            "reasoning_tokens": int_of(usage, "reasoning_output_tokens"),
        }
        before = ((Usage, {"scope": "turn", **figures}),) if usage else ()
        self.end_turn(outcome, turn_id=self.turn, duration_ms=int_of(value, "latency_ms"), before=before)
        return WITH_EVENTS

    def _error(self, error: Msg, form: str) -> str:
        """Said when it happens, and again by the turn that fails of it."""
        text = text_of(error, "message") or "error"
        if not self.messages.is_new("error", text, form):
            return skip("duplicate")
        retries = text.startswith(_RETRY)
        harmless = retries or error.get("fatal") is False
        code = "retry" if retries else "warning" if harmless else "provider-error"
        data = details(error, "code") or None
        self.emit(Notice, level="warning" if harmless else "error", code=code, text=text, data=data)
        return WITH_EVENTS

    # -- items ----------------------------------------------------------------------------------------------------

    def _read_item(self, kind: str, item: Msg) -> str | None:
        known = self.calls.is_known(self._unique(text_of(item, "id") or ""))
        if self.turn is None and (kind == "item.started" or not known):
            self._start(None, synthetic=True)
        core = core_item(item)
        if (item_id := text_of(core, "id")) is not None:
            core["id"] = self._unique(item_id)
        match core["type"]:
            case "TodoList":
                return self._todo_list(kind, core)
            case "Error":
                self.emit(Notice, level="warning", code="warning", text=text_of(item, "message") or "error")
                return WITH_EVENTS
        if kind == "item.completed":
            return self.read_event({"type": "item_completed", "item": core})
        line_class = self.read_event({"type": "item_started", "item": core})
        call = self.calls.get(text_of(core, "id") or "")
        printed = text_of(core, "aggregated_output")
        if call is not None and kind == "item.updated" and printed is not None:
            self.running.catch_up(call, "stdout", printed)
            return skip("partial")
        return line_class

    def _unique(self, item_id: str) -> str:
        return self.state.id_prefix + item_id if _COUNTED_ID.fullmatch(item_id) else item_id

    def _todo_list(self, kind: str, item: Msg) -> str:
        """Open as long as its turn; every change is told."""
        call_id = call_id_of(item)
        if self.calls.is_over(call_id):
            return skip("duplicate-result")
        line_class = self.tools.called(call_id, "todo_list", details(item, "items"), item)
        if kind == "item.completed":
            return self.tools.ended(call_id, Answer(None), item_of(item))
        return line_class
