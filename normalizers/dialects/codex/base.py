"""What the dialects of Codex share: its events (`EventMsg`), turn items and response items.

Codex says most things two or three times: as a turn item (`item_started`, `item_completed`), as the older event that is
derived from it (`agent_message`, `exec_command_end`), and as the model's raw response item. Which of them a stream has
differs by version, by tool and even by result, so all are read: calls are merged by call id, texts by what they say.

The readers are split by subject; each brings tables of the types it reads. A dialect derives from `CodexParser`, sets
the scope of a line, and hands the object inside to `read_event` or `read_raw_item`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.running import Running
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.dialects.codex.approvals import CodexApprovals
from tooltap.normalizers.dialects.codex.calls import CodexCalls
from tooltap.normalizers.dialects.codex.messages import CodexMessages
from tooltap.normalizers.dialects.codex.notices import CodexNotices
from tooltap.normalizers.dialects.codex.state import (
    CodexReader,
    CodexState,
    Handler,
    Handlers,
    Msg,
    Thread,
    int_of,
    object_of,
    text_of,
)
from tooltap.normalizers.dialects.codex.tools import CodexTools
from tooltap.protocol.events import OutputRef

__all__ = ["CODEX_SKIPS", "CodexParser"]

CODEX_SKIPS = frozenset(
    {
        "blank",
        "lost",
        "partial",  # a delta; its full form follows
        "started",  # a message of which only the id is known
        "duplicate",  # a text or notice that another line said
        "duplicate-call",
        "duplicate-result",
        "duplicate-request",  # a permission that another line asked for
        "prompt-context",  # developer texts, the environment, the prompt as the model gets it
        "empty",  # reasoning of which only the encrypted form is given
        "unchanged",  # token counts and diffs that are as they were
        "no-usage",
        "turn-over",  # the end of a turn that has ended
        "mcp-startup",
        "query",  # answers to a client's questions about tools, skills, history
        "housekeeping",  # snapshots, skill updates, realtime sound: nothing the agent did
    }
)

MANY_THREADS = 32
"""Each may hold a diff of `string_bytes`; what is known of the one used longest ago is given up."""

_SKIPPED_EVENTS = {
    "conversation_path": "query",
    "get_history_entry_response": "query",
    "list_custom_prompts_response": "query",
    "list_skills_response": "query",
    "mcp_list_tools_response": "query",
    "realtime_conversation_list_voices_response": "query",
    "hook_started": "started",
    "agent_reasoning_section_break": "partial",
    "realtime_conversation_closed": "housekeeping",
    "realtime_conversation_realtime": "housekeeping",
    "realtime_conversation_sdp": "housekeeping",
    "realtime_conversation_started": "housekeeping",
    "skills_update_available": "housekeeping",
}
_SKIPPED_STARTS = dict.fromkeys(
    (
        "AgentMessage",
        "ContextCompaction",
        "EnteredReviewMode",
        "ExitedReviewMode",
        "HookPrompt",
        "Plan",
        "Reasoning",
        "Sleep",
        "SubAgentActivity",
        "UserMessage",
    ),
    "started",
)
_SKIPPED_ENDS = {"HookPrompt": "prompt-context", "Sleep": "housekeeping"}
_SKIPPED_RAW_ITEMS = {
    "additional_tools": "prompt-context",
    "agent_message": "prompt-context",  # what another agent said, as the model gets it
    **dict.fromkeys(
        ("compaction", "compaction_summary", "compaction_trigger", "context_compaction", "ghost_snapshot", "other"),
        "housekeeping",
    ),
}


Readers: TypeAlias = dict[str, tuple[int, Handler]]
"""`type` -> which of a parser's readers reads such an object, and how."""


class CodexParser(CodexReader, Parser):
    protocol = "codex"
    default_provider = "codex"
    SKIPS = CODEX_SKIPS
    state_type = CodexState

    def __init__(self, context: Context, state: CodexState | None = None) -> None:
        super().__init__(context, state)
        self.event_turn: str | None = None
        """The turn the line says it belongs to. Scope of the line, like `session`: dialects set it for each."""
        self.begins = ""
        """The way in which the line tells that a call begins: `item`, `event` or `model`; empty where it tells of
        something else. One call may be told of in all three."""
        self.running = Running(self, self.state.running)
        self.tools = CodexCalls(self)
        self.approvals = CodexApprovals(self)
        self.messages = CodexMessages(self)
        self.notices = CodexNotices(self)
        self._readers = (self, self.tools, CodexTools(self), self.approvals, self.messages, self.notices)

    @property
    def thread(self) -> Thread:
        """What is remembered of the thread the line belongs to: a session's, or a subagent's own."""
        threads: dict[str, Thread] = self.state.threads
        key = self.agent or self.session
        thread = threads.pop(key, None)
        if thread is None:
            thread = Thread()
            while len(threads) >= MANY_THREADS:
                del threads[next(iter(threads))]
        threads[key] = thread
        return thread

    # -- reading --------------------------------------------------------------------------------------------------

    def read_event(self, msg: Msg) -> str | None:
        """Read one event; gives the line's class, None for a type that is not known."""
        self.event_turn = text_of(msg, "turn_id") or self.event_turn
        kind = msg.get("type")
        self.begins = "event" if str(kind).endswith("_begin") else ""
        if kind == "item_started":
            self.begins = "item"
            return self._dispatch(object_of(msg, "item"), _STARTS, _SKIPPED_STARTS)
        if kind == "item_completed":
            return self._dispatch(object_of(msg, "item"), _ENDS, _SKIPPED_ENDS)
        if kind == "raw_response_item":
            return self.read_raw_item(object_of(msg, "item"))
        return self._dispatch(msg, _EVENTS, _SKIPPED_EVENTS)

    def read_raw_item(self, item: Msg) -> str | None:
        """Read one item of the model's API, as the agent got it or sends it back; None as for events."""
        self.begins = "model"
        return self._dispatch(item, _RAW_ITEMS, _SKIPPED_RAW_ITEMS)

    def _dispatch(self, msg: Msg, readers: Readers, skipped: Mapping[str, str]) -> str | None:
        kind = str(msg.get("type"))
        if kind in skipped:
            return skip(skipped[kind])
        if kind not in readers:
            return None
        index, read = readers[kind]
        return read(self._readers[index], msg)

    def finish(self, reason: str) -> None:
        for turn in list(self.state.turns):
            self.session, self.agent = turn.session, turn.agent
            failed = self.thread.failed
            self.end_codex_turn("failed" if failed else "cancelled", turn_id=turn.id, reason=failed, synthetic=True)

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self.running.take(call.id)

    # -- turns ----------------------------------------------------------------------------------------------------

    def before_content(self, *, prompt: bool = False) -> None:
        """Called before a message or call: it may be the first line that is seen of its turn."""
        if self.turn is None and self.event_turn is not None and self.event_turn != self.thread.ended:
            self.start_turn(self.event_turn, synthetic=True)

    def end_codex_turn(
        self,
        outcome: str,
        *,
        turn_id: str | None = None,
        reason: str | None = None,
        duration_ms: int | None = None,
        synthetic: bool = False,
    ) -> str:
        """End the turn, unless it has ended before."""
        thread = self.thread
        turn_id = turn_id or self.event_turn or self.turn
        if turn_id is None or turn_id == thread.ended:
            return skip("turn-over")
        self.end_turn(outcome, turn_id=turn_id, reason=reason, duration_ms=duration_ms, synthetic=synthetic)
        thread.ended, thread.failed, thread.plan_call = turn_id, None, None
        thread.receiving = {}
        return WITH_EVENTS

    def _turn_started(self, msg: Msg) -> str:
        if any(turn.id == self.event_turn and turn.session == self.session for turn in self.state.turns):
            return skip("started")
        thread = self.thread
        if thread.failed is not None and self.turn is not None:
            # An error is the last event of its turn for `codex mcp-server`, which stops listening then.
            self.end_codex_turn("failed", turn_id=self.turn, reason=thread.failed, synthetic=True)
        thread.said, thread.ended, thread.failed = [], None, None
        self.start_turn(self.event_turn)
        return WITH_EVENTS

    def _turn_complete(self, msg: Msg) -> str:
        self.messages.last_words(msg)
        if (error := object_of(msg, "error")) and self.thread.failed is None:  # rollouts since 0.169
            self.notices.error(error)
        failed = self.thread.failed
        return self.end_codex_turn(
            "completed" if failed is None else "failed", reason=failed, duration_ms=int_of(msg, "duration_ms")
        )

    def _turn_aborted(self, msg: Msg) -> str:
        return self.end_codex_turn("cancelled", reason=text_of(msg, "reason"), duration_ms=int_of(msg, "duration_ms"))

    # -- the turn's diff ------------------------------------------------------------------------------------------

    def _turn_diff(self, msg: Msg) -> str:
        """Said again after every change, and at the end: only the last one counts."""
        diff = text_of(msg, "unified_diff") or ""
        thread = self.thread
        digest = zlib.crc32(diff.encode())
        if thread.diff is not None and thread.diff_digest == digest:
            return skip("unchanged")
        thread.diff, thread.diff_digest = TextBuffer(), digest
        thread.diff.append(diff, self, "text/x-diff")
        return WITH_EVENTS

    def before_turn_end(self) -> None:
        diff, self.thread.diff = self.thread.diff, None
        if diff is None or not diff.chars:
            return
        ref = diff.ref("text/x-diff")
        call_id = self.made_up_id("diff")
        value = {"unified_diff": diff.head}
        outputs = {"/input/unified_diff": ref} if ref is not None else None
        self.calls.open(call_id, "turn_diff", value, raw=value, synthetic=True, outputs=outputs)
        self.calls.result(call_id, None, raw=None, synthetic=True)

    def made_up_id(self, kind: str) -> str:
        """An id for a call that the wire gives none: `plan-1`, `plan-2`, …"""
        counts: dict[str, int] = self.state.made_up
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"

    EVENTS: ClassVar[Handlers] = {
        "task_started": _turn_started,
        "turn_started": _turn_started,
        "task_complete": _turn_complete,
        "turn_complete": _turn_complete,
        "turn_aborted": _turn_aborted,
        "turn_diff": _turn_diff,
    }


_READERS = (CodexParser, CodexCalls, CodexTools, CodexApprovals, CodexMessages, CodexNotices)
"""As in a parser's own `_readers`."""


def _of_all(table: str) -> Readers:
    tables: list[Handlers] = [getattr(reader, table) for reader in _READERS]
    return {kind: (index, read) for index, handlers in enumerate(tables) for kind, read in handlers.items()}


_EVENTS, _STARTS, _ENDS, _RAW_ITEMS = map(_of_all, ("EVENTS", "STARTS", "ENDS", "RAW_ITEMS"))
