"""The `codex-rollout` dialect: `~/.codex/sessions/**/rollout-*.jsonl`, a thread as Codex stores it to resume from.

Each line has a `type` and a `payload`: the model's API items (`response_item`), those of the core's events that are
worth storing (`event_msg`), and the thread's settings. Which events are stored differs by version: to about 0.113 none
marks the start or end of a turn, so a prompt starts one; to 0.146 commands and messages are API items and older events;
since 0.147 they are turn items beside the API items. To 0.31 a rollout is the API items alone, without a `payload`.

The first header (`session_meta`) owns the file. A subagent's thread has a file of its own, which names the parent's
thread; a review by the guardian to 0.149 names it in the prompt alone. A fork, and a subagent, may begin with a copy of
another thread's lines, headers included. The copy is history. It ends before the first line that must be the thread's
own:

- its ordinal is at least the one that the header states (subagents since 0.147);
- it names this thread, or a turn whose id is newer than the thread's: ids are UUIDs of version 7, which begin with
  the time (turns have ids since about 0.113);
- else, where no copied turn has such an id: it begins a turn, and was written at least a second after the line before
  it, because a copy is written at once.

Since about 0.150, a fork copies nothing, but refers to the other file (`history_base`), and so does the file in which a
thread continues after a rewind. Ordinals and counters go on from that file.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import orjson

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import best
from tooltap.normalizers.dialects.codex.items import call_id_of, counter_of, cwd_of, mode_of
from tooltap.normalizers.dialects.codex.parser import CodexParser
from tooltap.normalizers.dialects.codex.threads import CodexState
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import first_string, milliseconds, record, whole
from tooltap.protocol.events import SessionEvent, Usage

COPY_PAUSE_MS = 1_000
"""Pause between two lines of which the second is no copy, if it begins a turn."""
_DATED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of version 7."""
HELD_BYTES = 256 * 1024
"""Most bytes of lines that are held until one names the session."""
_REVIEWED = re.compile(rb"Reviewed Codex session id: ([0-9a-f-]{36})")
"""Whose session a guardian reviews, in its prompt."""


class CodexRolloutState(CodexState, kw_only=True):
    thread_id: str | None = None
    subagent: str | None = None
    """The thread's id, if it is a subagent's."""
    agent_path: str | None = None
    """The subagent's place in the team, `/root/find_greet` (0.169)."""
    spawned_by: str | None = None
    """The call that started the subagent, where the file begins with the parent thread's history."""
    own_from: int = 0
    """Ordinal of the first line that is not a copy of the parent thread's."""
    copying: bool = False
    """True while the lines may be copies of another thread's."""
    began: int | None = None
    """When the thread was created, in ms since the epoch."""
    copied_at: int | None = None
    """Time of the last line that was taken for a copy, in ms since the epoch."""
    has_dated_copies: bool = False
    """True if copied lines name turns whose ids tell their age."""
    refers_to_history: bool = False
    """True if the thread's earlier lines are in another file."""
    window: int | None = None
    """Size of the context window."""
    held_lines: list[Line] = msgspec.field(default_factory=list)
    """The first lines of a subagent's thread, until one names the session that it works for."""
    held_bytes: int = 0
    reviewed: str | None = None
    """The session that such a line names."""
    tells_turns: bool = False
    """True if the rollout has lines for the start and end of turns."""


class CodexRollout(CodexParser):
    dialect = "codex-rollout"
    STATES_TIMES = True
    SKIPS = CodexParser.SKIPS | {
        "history",  # copied from another thread, and of no use without it: its settings, turns and token counts
        "legacy-state",  # `record_type: state`, to 0.31
    }
    line = Lines(
        skip={
            "inter_agent_communication_metadata": "housekeeping",
            "retained_context": "housekeeping",
            "world_state": "world-state",  # what the model gets to know of its surroundings
        }
    )
    line("compacted")(CodexParser.compacted)
    raw_items = CodexParser.raw_items.copy()
    state_type = CodexRolloutState
    state: CodexRolloutState
    HAS_WHOLE_SESSION = True

    def read(self, value: Line) -> Skip:
        """Read a line; lines that emit nothing, which are half of them, are skipped by kind or role alone."""
        kind, payload = value.get("type"), value.get("payload")
        if self.state.held_lines:
            return self._find_session(value)
        if self.state.copying:
            pass
        elif kind == "response_item":
            if type(payload) is not dict or self.state.picture is not None:
                pass
            elif payload.get("type") == "message" and payload.get("role") != "assistant":
                return "prompt-context"
        elif type(kind) is str and kind in self.line.skip:
            return self.line.skip[kind]
        self.enter(value)
        return self.line.read(self, value)

    def enter(self, value: Line) -> None:
        super().enter(value)
        state = self.state
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        if state.copying:
            self.replay = self._is_copied(value)
            if not self.replay:
                self._end_history()
        if state.subagent is not None:
            self.agent = None if self.replay else state.subagent
            self.parent = None if self.replay else state.spawned_by or self.parent

    @line.otherwise
    def _older(self, value: Line) -> Skip:
        """Read a line of the versions to 0.31: first the session, then API items."""
        if value.get("record_type") == "state":
            return "legacy-state"
        if "type" not in value and "id" in value and "timestamp" in value:
            return self._start_session(value)
        if value.get("type") == "message" and value.get("role") == "user":
            return self.messages.raw_prompt(value)
        return self.read_raw_item(value, value)

    @line("response_item")
    def _response_item(self, value: Line) -> Skip:
        item = value.get("payload")
        if type(item) is not dict:
            item = {}
        if (metadata := item.get("internal_chat_message_metadata_passthrough")) is not None:
            self.threads.event_turn = first_string(record(metadata), "turn_id")
        return self.read_raw_item(item, value)

    @line("event_msg")
    def _event(self, value: Line) -> Skip:
        msg = value.get("payload")
        if type(msg) is not dict:
            msg = {}
        kind = msg.get("type")
        if kind in ("task_started", "turn_started"):
            self.state.tells_turns = True
        if kind == "thread_settings_applied":
            return self.change_settings(model=first_string(record(msg.get("thread_settings")), "model"))
        return self.read_event(msg, value)

    @line("token_usage_record")
    def _usage_record(self, value: Line) -> Skip:
        """Read the usage of one request (since 0.147). The token count that follows has the same total."""
        stated = record(value.get("payload"))
        if self.replay or stated.get("thread_id") not in (None, self.state.thread_id):
            return "history"
        usage, thread = record(stated.get("usage")), self.thread
        if not usage:
            return "no-usage"
        response, total = first_string(stated, "response_id"), record(stated.get("thread_token_usage"))
        thread.total = counter_of(total)
        thread.context = [whole(usage.get("total_tokens")), self.state.window]
        figures = self.count_request(usage, total, is_first=False)
        self.emit(
            Usage,
            scope="step",
            request=response and f"{self.state.thread_id}/{response}",
            context_used=thread.context[0],
            context_size=thread.context[1],
            **figures,
        )
        return None

    def _token_count(self, msg: Line) -> Skip:
        info = record(msg.get("info"))
        if self.replay or (self.state.refers_to_history and info and not self.thread.total):
            # Where the counter stands at the fork. A file that refers to another one has a record of each request.
            if info:
                self.thread.total = counter_of(record(info.get("total_token_usage")))
            return "history"
        self.state.window = whole(info.get("model_context_window")) or self.state.window
        return super()._token_count(msg)

    # -- history --------------------------------------------------------------------------------------------------

    def _is_copied(self, value: Line) -> bool:
        state, ordinal, kind = self.state, value.get("ordinal"), value.get("type")
        if state.own_from and type(ordinal) is int:
            return ordinal < state.own_from
        payload = record(value.get("payload"))
        own_id, thread_id, turn_id = state.thread_id or "", payload.get("thread_id"), payload.get("turn_id")
        before, at = state.copied_at, milliseconds(value.get("timestamp"))
        state.copied_at = before if at is None else at
        if thread_id is not None:
            return bool(thread_id != own_id)
        if type(turn_id) is str and _DATED_ID.fullmatch(turn_id) and _DATED_ID.fullmatch(own_id):
            state.has_dated_copies = True
            return turn_id < own_id
        if state.has_dated_copies or before is None or at is None or at < (state.began or 0):
            return True
        return at - before < COPY_PAUSE_MS or not _begins_turn(kind, payload)

    def _end_history(self) -> None:
        """Forget what the copied lines have left open; only the counter goes on."""
        state, self.replay = self.state, True
        self._close_history()
        state.copying = self.replay = state.tells_turns = False
        total, copied = self.thread.total, state.threads.pop(self.session, None)
        self.agent = state.subagent or self.agent
        self.thread.total = total
        if copied is not None:
            self.thread.settings = self.thread.settings or copied.settings

    def _close_history(self) -> None:
        """End the copied calls without a result."""
        self.tool_calls.release_exited()
        for call_id in list(self.state.held):
            self.tool_calls.release(call_id)
        self.calls.close_all()

    def start_turn(self, turn_id: str | None = None, *, synthetic: bool = False) -> str:
        """Start a turn; copied lines are in none."""
        return turn_id or "" if self.replay else super().start_turn(turn_id, synthetic=synthetic)

    def end_codex_turn(self, outcome: str, *, turn_id: str | None = None, **fields: Any) -> Skip:
        if not self.replay:
            return super().end_codex_turn(outcome, turn_id=turn_id, **fields)
        before = len(self.items)
        self._close_history()
        return "history" if len(self.items) == before else None

    def _turn_started(self, msg: Line) -> Skip:
        if not self.replay:
            self.state.window = whole(msg.get("model_context_window")) or self.state.window
            return super()._turn_started(msg)
        self.thread.texts = []
        return "history"

    def change_settings(self, **settings: str | None) -> Skip:
        """Emit the session's changed settings; those of a copied line are another session's."""
        return "history" if self.replay else super().change_settings(**settings)

    # -- the session and its turns --------------------------------------------------------------------------------

    @line("session_meta")
    def _start_session(self, value: Line) -> Skip:
        state, meta = self.state, record(value.get("payload")) if "type" in value else value
        thread_id, cwd = first_string(meta, "id"), cwd_of(meta)
        resumed = thread_id is not None and thread_id == state.thread_id
        if state.thread_id is not None and not resumed:
            return self._copied_header(thread_id)
        spawned = record(record(record(meta.get("source")).get("subagent")).get("thread_spawn"))
        parent = first_string(meta, "parent_thread_id") or first_string(spawned, "parent_thread_id")
        session = first_string(meta, "session_id") or parent or thread_id
        if "subagent" in record(meta.get("source")) and session == thread_id and not resumed and session is not None:
            # A review by the guardian to 0.149: its header names no parent.
            if not state.held_bytes:
                return self._hold(value)
            session = state.reviewed or session
            state.subagent = thread_id
        forked_from, base = first_string(meta, "forked_from_id"), record(meta.get("history_base"))
        # The base of a fork ends where the fork begins. After a rewind, the base is the thread's own, or ends earlier.
        end = base.get("end_ordinal_exclusive")
        rewound = bool(base) and (forked_from is None or meta.get("forked_from_ordinal_exclusive", end) != end)
        if not resumed:
            state.thread_id = thread_id
            if session != thread_id:
                state.subagent = thread_id
            state.agent_path, state.spawned_by = first_string(meta, "agent_path"), None
            state.own_from = whole(meta.get("subagent_history_start_ordinal")) or 0
            state.refers_to_history = bool(base)
            state.began = milliseconds(meta.get("timestamp"))
            state.copying = bool(state.own_from) or (forked_from is not None and not base)
            state.copied_at = milliseconds(value.get("timestamp"))
        if session is not None:
            self.set_session(session)
        self.agent = state.subagent or self.agent
        state.agent_version = first_string(meta, "cli_version")
        if cwd is not None:
            self.thread.settings["cwd"] = cwd
        branch = first_string(record(meta.get("git")), "branch")
        self.begin_thread(
            cwd,
            resumed=resumed or rewound,
            agent_version=state.agent_version,
            branch=branch,
            forked_from=forked_from if state.subagent is None else None,
        )
        if rewound and not resumed:
            self.rewound()
        return None

    def _hold(self, value: Line) -> Skip:
        state = self.state
        state.held_lines.append(value)
        state.held_bytes += len(orjson.dumps(value))
        return "held"

    def _find_session(self, value: Line) -> Skip:
        """Read a line of a subagent's thread that names no session so far. The prompt may name it; at the first line
        after the prompt, the thread is its own session, without a main agent."""
        state, text = self.state, orjson.dumps(value)
        payload = record(value.get("payload"))
        if found := _REVIEWED.findall(text):
            state.reviewed = found[-1].decode()
        elif state.held_bytes + len(text) < HELD_BYTES and payload.get("type") not in ("agent_message", "token_count"):
            return self._hold(value)
        return best([*self._release_lines(), self.read(value)])

    def _release_lines(self) -> list[Skip]:
        """Read the lines that were held."""
        held, self.state.held_lines = self.state.held_lines, []
        return [self.read(one) for one in held]

    def finish(self, reason: str) -> None:
        self._release_lines()
        super().finish(reason)

    def _copied_header(self, thread_id: str | None) -> Skip:
        """Read the header of another thread. Where no turn has started, its lines follow."""
        state = self.state
        if state.copying or state.turn_count:
            return "history"
        state.copying = True
        if thread_id is None or state.subagent is not None:
            return "history"
        self.emit(SessionEvent, state="updated", forked_from=thread_id)
        return None

    @raw_items("function_call")
    def _function_call(self, item: Line) -> Skip:
        skip = self.tool_calls.function_call(item)
        if self.replay and self.state.subagent is not None and item.get("name") == "spawn_agent":
            task = first_string(record(decode_json(item.get("arguments"))), "task_name")
            if task is None or (self.state.agent_path or task).endswith(task):
                self.state.spawned_by = self.calls.id_of(call_id_of(item))
        return skip

    @line("turn_context")
    def _turn_context(self, value: Line) -> Skip:
        context = record(value.get("payload"))
        cwd = cwd_of(context)
        self.state.cwd = cwd or self.state.cwd
        return self.change_settings(cwd=cwd, model=first_string(context, "model"), mode=mode_of(context))

    def before_content(self, *, prompt: bool = False) -> None:
        """Begin and end turns in rollouts without lines for them: a prompt ends one turn and starts the next; content
        after an abort starts none."""
        if self.replay:
            if prompt and not self.state.tells_turns:
                self.thread.texts = self.thread.texts[-1:]
            return
        super().before_content(prompt=prompt)
        continues = self.turn is not None or self.thread.ended is not None
        if self.state.tells_turns or (continues and not prompt):
            return
        for turn in self.state.turns:
            if turn.id == self.turn:
                outcome, reason = ("completed", None) if turn.answered else ("cancelled", "interrupted")
                self.end_codex_turn(outcome, turn_id=turn.id, reason=reason, synthetic=True)
                break
        self.thread.texts = self.thread.texts[-1:] if prompt else []
        self.start_turn(synthetic=True)


def _begins_turn(kind: Any, payload: Line) -> bool:
    """Return whether a turn may begin with this line: it states that, or settings, or holds a prompt."""
    if kind == "turn_context":
        return True
    if kind == "response_item":
        return first_string(payload, "type") == "message" and first_string(payload, "role") == "user"
    return payload.get("type") in ("task_started", "turn_started", "user_message")
