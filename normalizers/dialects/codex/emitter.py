"""What the readers of Codex's lines emit with: threads, turns, and calls and texts that several lines report.

The rules for calls: the first line that shows a call opens it, and the first that has its result ends it. A line that
only repeats what another reported emits nothing.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bounded import make_room
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.live_output import LiveOutput, LiveOutputState
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.dialects.codex.items import OWN, call_id_of

__all__ = ["ASKED", "CodexEmitter", "CodexState"]

_encode = msgspec.msgpack.Encoder().encode
ASKED = "asked"
"""The form in which a call begins that no line shows but the question to the user."""
_SERVER_TOOLS = ("WebSearch", "image_generation")
"""Tools that run where the model does: no line says what it gets of them."""

MANY_THREADS = 32
"""Each may hold a diff of `string_bytes`; the one used longest ago is evicted first."""
MANY_TEXTS = 256
"""Texts of one turn whose other forms may still arrive."""


class Said(msgspec.Struct):
    """A block of text that was emitted, and the forms in which it has arrived so far."""

    role: str
    digest: int
    forms: list[str]


class Thread(msgspec.Struct, omit_defaults=True):
    """One Codex thread: a session, or a subagent."""

    ended: str | None = None
    """The turn that ended last."""
    failed: str | None = None
    """Why the running turn will fail, once an error has been reported."""
    said: list[Said] = []
    """Texts of the running turn; newest last."""
    receiving: dict[str, str] = {}
    """Key of a text that arrives in deltas -> its role."""
    usage: list[int | None] = []
    """The figures emitted last."""
    rate_limit: str | None = None
    """The limit that was reported as reached."""
    mcp_failures: list[str] = []
    """MCP servers whose failure to start was reported."""
    settings: dict[str, str] = {}
    """The `cwd`, `model` and `mode` that were emitted last."""
    script: str | None = None
    """The newest call of the tool that runs tools (code mode)."""
    plan_call: str | None = None
    """The newest `update_plan` call."""
    plan: Line | None = None
    """A plan that was reported, until the call of it comes."""
    searches: int = 0
    """Web searches that ended and were not yet repeated as a response item, which has no id in 0.120."""
    diff: TextBuffer | None = None
    """The running turn's accumulated diff."""
    diff_digest: int = 0

    def is_new(self, role: str, text: str, form: str) -> bool:
        """Whether no other form of this text was emitted; remembers that it has arrived in this one.

        A raw item may still hold what was taken out of the message (citations): it then repeats the oldest text of its
        role that has not come raw."""
        digest, said = zlib.crc32(text.encode()), self.said
        oldest = None
        for one in said:
            if one.role == role and form not in one.forms:
                if one.digest == digest:
                    one.forms.append(form)
                    return False
                if oldest is None and form == "raw":
                    oldest = one
        if oldest is not None:
            oldest.forms.append(form)
            return False
        said.append(Said(role, digest, [form]))
        if len(said) > MANY_TEXTS:
            del said[:-MANY_TEXTS]
        return True


class Held(msgspec.Struct, omit_defaults=True):
    """A result that was reported, of a call whose output for the model is still to come on a line of its own."""

    answer: Answer
    raw: Any
    ts: int | None = None
    size: int = 0


class CodexState(State, kw_only=True):
    agent_version: str | None = None
    threads: dict[str, Thread] = msgspec.field(default_factory=dict)
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    made_up: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call -> how many of them got a synthetic id: plans, diffs, searches without one."""
    has_raw: bool = False
    """Whether the stream has the model's own items, and so what the model gets of each result."""
    raw_first: bool = False
    """Whether the model's item is the first line of its call (since 0.63); before, it comes after the call's result."""
    held: dict[str, Held] = msgspec.field(default_factory=dict)
    """Call id -> its result, until the line with what the model gets of it, or the end of the turn."""
    exited: dict[str, Answer] = msgspec.field(default_factory=dict)
    """Call id of a background command -> its result, while only `write_stdin` has said that it ended."""
    processes: dict[str, str] = msgspec.field(default_factory=dict)
    """Id of a process in the background -> id of the call that started it."""
    picture: str | None = None
    """The held call whose picture may come next."""


class CodexEmitter(Parser):
    protocol = default_provider = "codex"
    state_type = CodexState
    state: CodexState
    events = Lines(
        skip={
            "agent_reasoning_section_break": "partial",  # like a delta, whose full form follows
            "hook_started": "started",  # like a message of which only the id is known
            # answers to a client's questions about tools, skills, history
            **dict.fromkeys(("conversation_path", "get_history_entry_response", "list_skills_response"), "query"),
            **dict.fromkeys(("list_custom_prompts_response", "mcp_list_tools_response"), "query"),
            "realtime_conversation_list_voices_response": "query",
            # nothing the agent did
            **dict.fromkeys(("realtime_conversation_closed", "realtime_conversation_realtime"), "housekeeping"),
            **dict.fromkeys(("realtime_conversation_sdp", "realtime_conversation_started"), "housekeeping"),
            "skills_update_available": "housekeeping",
        }
    )
    """Codex's events. The classes that derive from this one add their readers to these tables."""
    completed_items = Lines(skip={"HookPrompt": "prompt-context", "Sleep": "housekeeping"})
    """Completed turn items that are not calls. `prompt-context`: developer texts, the environment, the prompt as the
    model gets it."""
    raw_items = Lines(
        skip={
            **dict.fromkeys(("compaction", "compaction_summary", "compaction_trigger"), "housekeeping"),
            **dict.fromkeys(("context_compaction", "ghost_snapshot", "other"), "housekeeping"),
            "additional_tools": "prompt-context",
            "agent_message": "prompt-context",  # what another agent said, as the model gets it
        }
    )
    """Items of the model's API, as the agent got them or sends them back."""

    OF_LINE = frozenset({"event_turn", "begins"})

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.event_turn: str | None = None
        """The turn the line says it belongs to. Scope of the line, like `session`: dialects set it for each."""
        self.begins = ""
        """The form in which the object being read begins a call: `item`, `event` or `model`; empty if it is not the
        beginning of one. One call may begin in all three forms. Scope of the line, too."""
        self.running = LiveOutput(self, self.state.running)

    @property
    def thread(self) -> Thread:
        """What is remembered of the thread the line belongs to: a session's, or a subagent's own."""
        threads, key = self.state.threads, self.agent or self.session
        if next(reversed(threads), None) == key:  # nearly always
            newest: Thread = threads[key]
            return newest
        thread = threads.pop(key, None) or Thread()
        make_room(threads, MANY_THREADS)
        threads[key] = thread
        return thread

    def synthetic_id(self, kind: str) -> str:
        """An id for a call that has none on the wire: `plan-1`, `plan-2`, …"""
        counts = self.state.made_up
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"

    def enter(self, value: Line) -> None:
        """Set the scope of a line. Dialects extend it."""
        self.event_turn, self.begins = None, ""

    # -- turns ----------------------------------------------------------------------------------------------------

    def before_content(self, *, prompt: bool = False) -> None:
        """Prepare for a message or call, which may be the first line that is seen of its turn."""
        if self.turn is None and self.event_turn is not None and self.event_turn != self.thread.ended:
            self.start_turn(self.event_turn, synthetic=True)

    def end_codex_turn(self, outcome: str, *, turn_id: str | None = None, **fields: Any) -> Skip:
        """End the turn, unless it has ended before. `fields`: those of `end_turn`."""
        thread = self.thread
        turn_id = turn_id or self.event_turn or self.turn
        if turn_id is None or turn_id == thread.ended:
            return "turn-over"
        self.end_turn(outcome, turn_id=turn_id, **fields)
        thread.ended, thread.failed, thread.plan_call, thread.receiving = turn_id, None, None, {}
        return None

    def before_turn_end(self) -> None:
        """Emit the turn's diff."""
        thread = self.thread
        diff, thread.diff = thread.diff, None
        if diff is not None and diff.chars:
            outputs = diff.outputs("/input/unified_diff", "text/x-diff")
            self.add_synthetic_call("diff", "turn_diff", {"unified_diff": diff.head}, outputs=outputs)

    # -- calls and texts ------------------------------------------------------------------------------------------

    def show_call(
        self,
        value: Line,
        raw_name: str,
        arguments: Any,
        *,
        name: str | None = None,
        call_id: str | None = None,
        by_model: bool = False,
    ) -> Skip:
        """Read an object that shows a call: open the call, or emit what the object changes of it.

        `call_id`: where the object's own does not name it; `by_model`: the model itself makes the call, not its script.
        """
        calls, begins, raw = self.calls, self.begins, value.get(OWN, value)
        call_id = call_id or call_id_of(value)
        call = calls.get(call_id)
        if call is not None:
            changed = bool(arguments) and calls.update(call, arguments, raw=raw, name=name)
            return None if changed else "duplicate-call"
        if calls.is_done(call_id):
            begins_again = begins and begins == calls.source_of(call_id)
            if not begins_again or calls.repeats(call_id, raw_name, arguments, name=name):
                return "duplicate-call"
        self.before_content()
        if not by_model and (script := self.thread.script) is not None and calls.get(script) is not None:
            self.parent = script  # code mode: the running script makes the calls which the model does not make
        calls.open(call_id, raw_name, arguments, raw=raw, name=name, source=begins)
        return None

    def add_synthetic_call(
        self, kind: str, raw_name: str, value: Line, *, raw: Line | None = None, outputs: dict[str, Any] | None = None
    ) -> Skip:
        """Emit a call and its result for what is not a call on the wire."""
        call_id = self.synthetic_id(kind)
        self.calls.open(call_id, raw_name, value, raw=raw or value, synthetic=True, outputs=outputs)
        return self.calls.answer(call_id, Answer(), raw=None, synthetic=True)
