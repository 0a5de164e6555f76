"""The `codex-rollout` dialect: `~/.codex/sessions/**/rollout-*.jsonl`, a thread as Codex stores it to resume from.

Each line has a `type` and a `payload`: the model's API items (`response_item`), those of the core's events that are
worth storing (`event_msg`), and the thread's settings. Which events are stored differs by version: to about 0.113 none
marks the start or end of a turn, so a prompt starts one; to 0.146 commands and messages are API items and older events;
since 0.147 they are turn items beside the API items. To 0.31 a rollout is the API items alone, without a `payload`.

A subagent's thread has a file of its own, which names the parent's thread and may begin with its history.
"""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.dialects.codex.items import call_id_of, cwd_of, mode_of
from tooltap.normalizers.dialects.codex.parser import CodexParser
from tooltap.normalizers.dialects.codex.threads import CodexState
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import first_string, milliseconds, record, whole


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
    tells_turns: bool = False
    """True if the rollout has lines for the start and end of turns."""


class CodexRollout(CodexParser):
    dialect = "codex-rollout"
    STATES_TIMES = True
    SKIPS = CodexParser.SKIPS | {
        "history",  # the parent thread's own beginning, in a subagent's file
        "legacy-state",  # `record_type: state`, to 0.31
    }
    line = Lines(
        skip={
            "inter_agent_communication_metadata": "housekeeping",
            "retained_context": "housekeeping",
            "token_usage_record": "usage-record",  # of one request; `token_count` has the sum
            "world_state": "world-state",  # what the model gets to know of its surroundings
        }
    )
    line("compacted")(CodexParser.compacted)
    raw_items = CodexParser.raw_items.copy()
    state_type = CodexRolloutState
    state: CodexRolloutState

    def read(self, value: Line) -> Skip:
        """Read a line; lines that emit nothing, which are half of them, are skipped by kind or role alone."""
        kind, payload = value.get("type"), value.get("payload")
        if kind == "response_item":
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
        if state.own_from:
            ordinal = value.get("ordinal")
            self.replay = type(ordinal) is int and 0 < ordinal < state.own_from
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

    # -- the session and its turns --------------------------------------------------------------------------------

    @line("session_meta")
    def _start_session(self, value: Line) -> Skip:
        if self.replay:
            return "history"
        state, meta = self.state, record(value.get("payload")) if "type" in value else value
        thread_id, cwd = first_string(meta, "id"), cwd_of(meta)
        spawned = record(record(record(meta.get("source")).get("subagent")).get("thread_spawn"))
        parent = first_string(meta, "parent_thread_id") or first_string(spawned, "parent_thread_id")
        session = first_string(meta, "session_id") or parent or thread_id
        resumed = thread_id is not None and thread_id == state.thread_id
        state.thread_id = thread_id
        state.subagent = thread_id if session != thread_id else None
        state.agent_path, state.spawned_by = first_string(meta, "agent_path"), None
        state.own_from = whole(meta.get("subagent_history_start_ordinal")) or 0
        if session is not None:
            self.set_session(session)
        self.agent = state.subagent or self.agent
        state.agent_version = first_string(meta, "cli_version")
        if cwd is not None:
            self.thread.settings["cwd"] = cwd
        branch = first_string(record(meta.get("git")), "branch")
        self.begin_thread(cwd, resumed=resumed, agent_version=state.agent_version, branch=branch)
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
