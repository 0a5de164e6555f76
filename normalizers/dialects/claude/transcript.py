"""The `claude-transcript` dialect: the files Claude Code keeps under `~/.claude/projects`, a session's or a subagent's.

Learned from recordings of 1.0.128 and 2.1.330, and from transcripts of versions between in public repositories. A
message is written one line per block. Subagents' work is in files of their own (every line a sidechain, with
`agentId`), among the main agent's lines (1.0), or inside `progress` lines (2.0.6x to 2.1.4x).

A turn ends with the line whose `stop_reason` says that the model is done, with an interrupt, or with the error that
Claude Code gives up on. Most lines before 2.1 state no stop reason: there a turn ends with the next prompt or the file.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import SHORT, OpenTurn, State, put
from tooltap.normalizers.dialects.claude import BOOKKEEPING, TRANSCRIPT_LINES
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.history import History
from tooltap.normalizers.dialects.claude.messages import (
    ClaudeMessages,
    ClaudeState,
    Deltas,
    InjectedText,
    TurnNotes,
    is_prompt,
    message_of,
    read_injected_text,
    request_of,
)
from tooltap.normalizers.dialects.claude.queue import Queue, QueueState
from tooltap.normalizers.dialects.claude.reports import Reports, model_usages, session_usage
from tooltap.normalizers.dialects.claude.steps import MessagesInProgress, Steps
from tooltap.normalizers.dialects.claude.tasks import Tasks
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.values import dollars, milliseconds, record, records, string, whole
from tooltap.protocol.events import Usage

# -- bookkeeping: lines that are recognised by how they begin, as they are most of a file's bytes --------------------

QUEUE = "queue-operation"

_READ_ATTACHMENT = re.compile(
    r"hook_(?:blocking_error|cancelled|error_during_execution|non_blocking_error|stopped_continuation|success)"
    r"|queued_command|task_status|teammate_mailbox"
)
"""Types of attachments that report events; all others are context for the model."""

_TYPE_FIRST = re.compile(rb'\{"type":"([\w-]+)"')
_ATTACHMENT = re.compile(
    rb'\{"parentUuid":(?:null|"[\w-]*"),"isSidechain":(?:true|false),(?:"\w+":"[^"\\]*",)*"attachment":\{"type":"(\w+)"'
)
_TYPES = "|".join(sorted({"assistant", "summary", "system", "user", *TRANSCRIPT_LINES} - {*BOOKKEEPING}))
_SECOND = re.compile(rf'\{{"(?:(?<=\}}\{{")|parentUuid":|type":"(?:{_TYPES})")'.encode())
"""The beginning of a second object in a line: behind a whole one, or, of one that is read, behind a torn one."""


def _bookkeeping(value: Line) -> str | None:
    """Return why a line is skipped; None for any other line."""
    kind = str(value.get("type"))
    if kind == "attachment":
        return _of_attachment(str(record(value.get("attachment")).get("type")))
    return None if kind == QUEUE else BOOKKEEPING.get(kind)


def _of_attachment(kind: str) -> str | None:
    return None if _READ_ATTACHMENT.fullmatch(kind) else "attachment"


# -- lineage: which agent a line belongs to, and which call spawned that agent ----------------------------------------

LINES = 4_096
SUBAGENTS = 512


class SubagentPrompt(msgspec.Struct, omit_defaults=True):
    """A prompt that calls gave to subagents."""

    waiting: list[str] = []
    """Calls whose subagent was not seen yet, oldest first."""
    last: str | None = None
    """The call whose subagent was seen last."""


class Lineage(msgspec.Struct):
    """Lineage of subagents: the agent of each line, and the call that spawned it.

    From 2.0 on, a subagent's lines name it (`agentId`). Before, its conversation is among the main agent's lines
    (`isSidechain`), begins with the prompt of its call, and continues by `parentUuid` alone; such an agent gets the id
    of its call."""

    lines: dict[str, str] = {}
    """Uuid -> agent, for the latest lines; the main agent is empty."""
    parents: dict[str, str] = {}
    """Agent -> call that spawned it."""
    prompts: dict[int, SubagentPrompt] = {}
    """CRC of a prompt -> the prompt's calls."""

    def seen(self, value: Line) -> bool:
        """Whether this very line was read before: a resumed session may write its history again."""
        return str(value.get("uuid")) in self.lines

    def remember(self, value: Line, agent: str) -> None:
        """Remember the agent of a line."""
        uuid = value.get("uuid")
        if uuid and type(uuid) is str:
            put(self.lines, uuid, agent, LINES)

    def spawned(self, agent: str, call_id: str) -> None:
        """Remember the call that spawned an agent."""
        if self.parents.get(agent) != call_id:
            put(self.parents, agent, call_id, SUBAGENTS)
            for asked in self.prompts.values():
                if call_id in asked.waiting:
                    asked.waiting.remove(call_id)

    def expect(self, message: Line) -> None:
        """Remember the prompts that calls of this message give to subagents."""
        if type(content := message.get("content")) is not list:
            return
        for block in content:
            if type(block) is not dict or block.get("type") != "tool_use" or "prompt" not in record(block.get("input")):
                continue
            call_id, prompt = string(block.get("id")), string(block["input"]["prompt"])
            if call_id and prompt:
                digest = zlib.crc32(prompt.encode())
                asked = self.prompts.pop(digest, None) or SubagentPrompt()
                if call_id not in (*asked.waiting, asked.last):
                    asked.waiting = [*asked.waiting, call_id][-SUBAGENTS:]
                put(self.prompts, digest, asked, SUBAGENTS)

    def place(self, value: Line) -> tuple[str, str | None]:
        """(agent, spawning call) of a sidechain's line."""
        known = (self.lines.get(str(value.get(key))) for key in ("uuid", "parentUuid"))
        agent = string(value.get("agentId")) or next((one for one in known if one), None)
        call_id = self.parents.get(agent) if agent else None
        if call_id is None and value.get("type") == "user":
            call_id = self._asked(text_of(record(value.get("message")).get("content")))
        agent = agent or call_id or string(value.get("uuid")) or "sidechain"
        if call_id is not None:
            self.spawned(agent, call_id)
        return agent, call_id

    def _asked(self, prompt: str) -> str | None:
        """Return the call that gave a subagent this prompt. If several calls gave the same prompt, each has its own
        subagent; before 2.0 no line states which, so they are assigned in order."""
        asked = self.prompts.get(zlib.crc32(prompt.encode()))
        if asked is None:
            return None
        if asked.waiting:
            asked.last = asked.waiting.pop(0)
        return asked.last


# -- the parser -------------------------------------------------------------------------------------------------------

_CONTINUES = frozenset({None, "tool_use", "pause_turn"})
"""Stop reasons of messages that do not end a turn; none is stated for most lines of versions before 2.1."""
_FINAL = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons after which Claude Code waits for the user; after `max_tokens` or `refusal` it may ask again."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_MODE_KEYS = {"mode": "mode", "permission-mode": "permissionMode"}
_TITLE_KEYS = {"ai-title": "aiTitle", "custom-title": "customTitle", "summary": "summary"}
PULL_REQUESTS = 256
SUMMARIES = 256
"""Maximum number of summaries that wait for the line that they are about."""
_SUGGESTION = "aprompt_suggestion"
"""Beginning of the id of the agent that suggests prompts to the user. Only its tokens are of interest."""


class TitlesState(msgspec.Struct):
    is_users: bool = False
    """The user has named the session."""
    waiting: dict[str, str] = {}
    """Uuid of a line that was not read yet -> summary of the session that has it."""


class EndedTurn(msgspec.Struct):
    """A turn that has ended, and the message that ended it."""

    turn: str
    message_id: str | None
    """The message that ended it; it may have more lines."""


class ClaudeTranscriptState(ClaudeState, kw_only=True):
    lineage: Lineage = msgspec.field(default_factory=Lineage)
    steps: MessagesInProgress = msgspec.field(default_factory=MessagesInProgress)
    started: str | None = None
    """The most recently started session."""
    prompt_id: str | None = None
    """Prompt id of the newest turn. A command and its expansion share one id."""
    ended: EndedTurn | None = None
    """The most recently ended turn."""
    queue: QueueState = msgspec.field(default_factory=QueueState)
    titles: TitlesState = msgspec.field(default_factory=TitlesState)
    pull_requests: dict[str, None] = msgspec.field(default_factory=dict)
    """Links to pull requests that were emitted."""


class TranscriptMessages(ClaudeMessages):
    """Also ends turns, because most transcripts do not state their ends."""

    def _injected_text(self, injected: InjectedText, text: str, is_synthetic: bool) -> Skip:
        """Emit injected text. A command typed by the user after an answer first ends the turn, because 1.0 states no
        ends."""
        typed = any(role == "user" for role, _ in injected.parts)
        if typed and self.is_main and self._parser.turn is not None and self.is_answered(self._parser.turn):
            self.conclude(self._parser.turn)
        return super()._injected_text(injected, text, is_synthetic)

    def conclude(self, turn_id: str, ended_by: str | None = None, duration_ms: int | None = None) -> None:
        """End a turn. `ended_by`: evidence of the end; None if only the next line shows it, and the end is
        synthetic."""
        notes = self._state.notes.pop(turn_id, TurnNotes())
        synthetic, reason = ended_by is None, notes.stop_reason
        outcome = "failed" if notes.error else "completed"
        if synthetic and outcome == "completed" and reason in _CONTINUES and not self.is_answered(turn_id):
            outcome, reason = "cancelled", "interrupted"
        self._parser.end_turn(
            outcome, turn_id=turn_id, ended_by=ended_by, reason=reason, duration_ms=duration_ms, synthetic=synthetic
        )

    def is_answered(self, turn_id: str) -> bool:
        """Whether the turn's last message is an answer, and no call is open."""
        turn = next(turn for turn in self._state.turns if turn.id == turn_id)
        return turn.answered and not self._calls.is_open(turn.session, turn.id, turn.agent)

    def interrupted(self, text: str) -> Skip:
        """Emit an interrupt, and end the turn."""
        outcome = super().interrupted(text)
        if self.is_main and self._parser.turn is not None:
            self._parser.end_turn("cancelled", turn_id=self._parser.turn, reason="interrupted")
        return outcome


class ClaudeTranscript(Parser):
    dialect = "claude-transcript"
    protocol = default_provider = "claude"
    STATES_TIMES = True
    SKIPS = ClaudeMessages.SKIPS | {
        QUEUE,
        "attachment",
        "hook-progress",
        "other-title",
        "prompt-suggestion",
        "stale-progress",
        "stale-turn",
    }
    line = Lines("type", skip={kind: reason for kind, reason in BOOKKEEPING.items() if kind != QUEUE})
    system = Lines("subtype", reports=Reports.transcript)
    state_type = ClaudeTranscriptState
    state: ClaudeTranscriptState
    GLANCES = True
    MESSAGES: ClassVar[type[TranscriptMessages]] = TranscriptMessages

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.reports = Reports(self)
        self.tasks = Tasks(self, self.state.tasks)
        self.history = History(self, self.state.history)
        self.queue = Queue(self.state.queue)
        self.steps = Steps(self, self.state.steps, self.history)
        self.messages = self.MESSAGES(self, self.state, Deltas(self, self.state.deltas), self.tasks)

    def glance(self, line: bytes) -> str | None:
        """Return the reason to skip a bookkeeping line, if its first and last bytes show that it is one whole
        object."""
        reason = None
        if first := _TYPE_FIRST.match(line):
            reason = BOOKKEEPING.get(first[1].decode())
            if reason == QUEUE:
                return None
        elif attachment := _ATTACHMENT.match(line):
            reason = _of_attachment(attachment[1].decode())
        history = self.state.history
        if reason is None or (not history.is_own and history.began is None):
            return None  # the beginning of a file is decoded, for its time
        is_whole = line.rstrip().endswith(b"}") and _SECOND.search(line, 1) is None
        return reason if is_whole else None

    def read(self, value: Line) -> Skip:
        kind = value.get("type")
        history = self.state.history
        if not history.is_own and history.began is None:
            self.history.note_beginning(value)
        if kind in ("assistant", "user", "system"):
            self.enter(value)
            if not history.is_own or history.is_open or "forkedFrom" in value:
                self.history.enter(value, is_message=kind != "system")
            lineage = self.state.lineage
            if lineage.seen(value):
                return "repeated"
            lineage.remember(value, "" if self.messages.is_main else self.agent or "")
            if self.messages.is_main and not self.replay:
                self._describe_session(value)
            if self.state.titles.waiting:
                self._summarized(str(value.get("uuid")))
            if self.agent is not None and self.agent.startswith(_SUGGESTION):
                return self._suggested(value)
        elif (reason := _bookkeeping(value)) is not None:
            return reason
        elif self.line.knows(kind) or "sessionId" in value:
            self.enter(value)
        return self.line.read(self, value)

    def enter(self, value: Line) -> None:
        session = value.get("sessionId")
        if session != self.state.session and session and type(session) is str:
            self.messages.enter_session(session)
        if "timestamp" in value:
            self.ts = milliseconds(value["timestamp"]) or self.ts
        self.messages.is_main = value.get("isSidechain") is not True
        if not self.messages.is_main:
            self.agent, parent = self.state.lineage.place(value)
            self.parent = parent or self.parent

    def before_turn_end(self) -> None:
        self.steps.emit_all()

    def holds_back(self) -> bool:
        return self.steps.holds_back()

    def settle(self) -> None:
        self.steps.settle()

    def finish(self, reason: str) -> None:
        self.tasks.finish()
        self._deliver_queued()
        for turn in list(self.state.turns):
            notes = self.state.notes.get(turn.id, TurnNotes())
            if notes.error or notes.stop_reason not in _CONTINUES:
                self.messages.conclude(turn.id)
        self.steps.emit_all()

    # -- session ------------------------------------------------------------------------------------------------

    def _describe_session(self, value: Line) -> None:
        """Read the session's environment, which every line of a conversation states."""
        fields = {
            "cwd": string(value.get("cwd")),
            "branch": string(value.get("gitBranch")) or None,
            "agent_version": string(value.get("version")),
            "mode": string(value.get("permissionMode")),
        }
        if (forked_from := self.state.history.forked_from) is not None:
            fields["forked_from"] = forked_from
        if self.state.started not in (None, self.session):
            self.state.reported = {}
        self.messages.report_session(fields)

    @line(*_MODE_KEYS)
    def _mode(self, value: Line) -> Skip:
        key = _MODE_KEYS[value["type"]]
        stated = string(value.get(key))
        # Mode `normal` (the other is `coordinator`) adds nothing to the permission mode.
        return self.messages.update_session({"mode": None if key == "mode" and stated == "normal" else stated})

    @line(*_TITLE_KEYS)
    def _title(self, value: Line) -> Skip:
        """Read a title. The user's takes precedence; a summary is of the session that has the line it names, as the
        first lines of a file may be summaries of other sessions."""
        kind, titles = value["type"], self.state.titles
        title = string(value.get(_TITLE_KEYS[kind])) or None
        if kind == "custom-title":
            titles.is_users = title is not None
        elif titles.is_users:
            return "other-title"
        if kind == "summary" and (leaf := str(value.get("leafUuid"))) not in self.state.lineage.lines:
            if title is not None:
                put(titles.waiting, leaf, title[:SHORT], SUMMARIES)
            return "other-title"
        return self.messages.update_session({"title": title})

    def _summarized(self, uuid: str) -> None:
        """Emit the summary that waits for this line."""
        title = self.state.titles.waiting.pop(uuid, None)
        if title is not None and not self.replay and not self.state.titles.is_users:
            self.messages.update_session({"title": title})

    @line("cost-state")
    def _cost(self, value: Line) -> None:
        """Usage of the whole session so far, written when Claude Code ends."""
        models = model_usages(value.get("modelUsage"))
        if not self.state.history.copied:
            self.emit(Usage, **session_usage(models, dollars(value.get("totalCostUSD"))), counter="lineage")
            return
        self.steps.emit_all()
        self.emit(Usage, **session_usage(self.history.own_part(models), None), counter="session")

    # -- turns --------------------------------------------------------------------------------------------------

    def _prompted(self, value: Line) -> None:
        """Open the turn of a prompt, and end the one before."""
        prompt_id, turn = string(value.get("promptId")), self.turn
        if turn is not None and prompt_id is not None and prompt_id == self.state.prompt_id:
            return
        dropped = self.history.note_prompt(value, self.state.lineage.lines)
        self.history.note_spoken(value)
        if self.replay:
            return
        if turn is not None:
            self.messages.conclude(turn)
        if dropped:
            self.notice("rewound", "history rewound", data={"messageId": dropped[-1], "lines": len(dropped)})
        self.state.prompt_id = prompt_id
        self.start_turn()

    @system("turn_duration")
    def _turn_duration(self, value: Line) -> Skip:
        if self.turn is None:
            return "stale-turn"
        self.messages.conclude(self.turn, "provider", whole(value.get("durationMs")))
        return None

    # -- the conversation ---------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        message = message_of(value)
        if self.messages.is_main and self.turn is None and (ended := self._ended_by(message)) is not None:
            self.state.turns.append(ended)  # what it says belongs to that turn, which is over
            outcome = self.messages.assistant_message(value, {})
            self.state.turns.remove(ended)
            return outcome
        if message.get("model") == "<synthetic>":
            outcome = self.messages.assistant_message(value, {})
            if self.messages.is_main and self.turn is not None and self.messages.notes().error:
                self.messages.conclude(self.turn, "provider")
            return outcome
        self.messages.ensure_main_turn()
        if self.state.queue.handed and self.messages.is_main and not self.replay:
            self._deliver_queued()
        message_id = string(message.get("id"))
        if self.messages.is_main:
            self.history.note_spoken(value)
        if self.messages.is_main and not self.replay:
            self.messages.update_session({"model": string(message.get("model"))})
            self.messages.notes().stop_reason = string(message.get("stop_reason"))
        self.state.lineage.expect(message)
        request = request_of(value)
        self.steps.count(message, request, is_new=self.messages.is_new(message_id, request))
        outcome = self.messages.assistant_message(value, {})
        if outcome is None:
            self.steps.note_written(message)
        if not self.messages.is_main and _is_final(message):
            self.steps.emit(self.agent or "")
        if self.messages.is_main and self.turn is not None:
            if _is_final(message):
                self.state.ended = EndedTurn(self.turn, message_id)
                self.messages.conclude(self.turn, "answer")
            elif message.get("stop_reason") is not None:
                self.goes_on()
            elif outcome == "empty":  # an answer, of nothing
                next(turn for turn in self.state.turns if turn.id == self.turn).answered = True
        return outcome

    def _suggested(self, value: Line) -> Skip:
        """Count the tokens of a suggested prompt."""
        message = message_of(value)
        if value.get("type") == "assistant":
            request = request_of(value)
            is_new = self.messages.note_seen(string(message.get("id")), request)
            self.steps.count(message, request, is_new=is_new)
            if _is_final(message):
                self.steps.emit(self.agent or "")
        return None if self.items else "prompt-suggestion"

    def _ended_by(self, message: Line) -> OpenTurn | None:
        """Return the turn that an earlier line of this message ended, or None."""
        ended, message_id = self.state.ended, message.get("id")
        if ended is None or message_id is None or ended.message_id != message_id:
            return None
        return OpenTurn(ended.turn, self.session, self.agent, self.origin)

    @line("user")
    def _user(self, value: Line) -> Skip:
        message = message_of(value)
        call_ids: list[str] = []
        if type(content := message.get("content")) is list:
            for block in content:
                if type(block) is dict and block.get("type") == "tool_result":
                    call_ids.append(str(block.get("tool_use_id")))
        if self.messages.is_main:
            if call_ids:
                if self.turn is None and not self.replay and not any(map(self.calls.is_known, call_ids)):
                    self.start_turn(synthetic=True)
            elif is_prompt(value):
                if self.state.queue.handed:
                    self.queue.drop(text_of(content))
                self._prompted(value)
        if not call_ids:
            return self.messages.user_message(value, message, None, {})
        decision: Any = value.get("permissionDecision")
        if type(decision) is dict and decision.get("decision") == "reject":
            source = str(decision.get("source"))
            by = next((who for who in ("user", "hook") if source.startswith(who)), "policy")
            for call_id in call_ids:
                if not self.calls.is_over(call_id):
                    self.permissions.answer(call_id, "denied", call_id=call_id, by=by)
        twin = value.get("toolUseResult")
        if type(twin) is dict and "agentId" in twin and self.calls.name_of(call_ids[0]) == "Task":
            self.state.lineage.spawned(str(twin["agentId"]), call_ids[0])
        headless = str(value.get("entrypoint")).startswith("sdk")
        meta = {
            "permission_decision": decision,
            "non_execution_kind": value.get("toolDenialKind"),
            "headless": headless,
        }
        outcome = self.messages.user_message(value, message, twin, dict.fromkeys(call_ids, meta))
        for call_id in call_ids if self.state.steps.open else ():
            if self.calls.is_over(call_id):  # else a subagent works on in the background
                self.steps.emit_of_call(self.calls.id_of(call_id))
        return outcome

    @line("attachment")
    def _attachment(self, value: Line) -> Skip:
        """Read an attachment: a prompt given while the agent was working, a task's status, or a hook's outcome."""
        attachment = record(value.get("attachment"))
        if attachment.get("type") == "task_status":
            return self.tasks.status(attachment)
        if attachment.get("type") == "teammate_mailbox":
            return self._mail(attachment)
        if attachment.get("type") != "queued_command":
            self.reports.hook(attachment)
            return None
        if self.state.queue.handed:
            self.queue.drop(text_of(attachment.get("prompt")))
        return self.messages.user_message(attachment, {"content": attachment.get("prompt")}, None, {})

    def _mail(self, attachment: Line) -> Skip:
        """Emit what teammates wrote, each message with its author's name, like those in `<teammate-message>` (agent
        teams of 2.1; `formatTeammateMessages` in what 2.1 bundles)."""
        for message in records(attachment.get("messages")):
            author, text = string(message.get("from")), string(message.get("text"))
            if text is not None and text.strip():
                self.emit_text("system", f"{author}: {text}" if author else text)
        return None if self.items else "empty"

    @line("marble-origami-commit", summary=str)
    def _collapsed(self, value: Line) -> None:
        """Emit the summary that stands for a part of the history (`ContextCollapseCommitEntry` in 2.1)."""
        self.notice("compaction-summary", value["summary"])

    @line("content-replacement", replacements=list)
    def _replaced(self, value: Line) -> Skip:
        """Emit what the model gets of results instead of the whole: a preview, and where the rest is
        (`ContentReplacementRecord` in 2.1)."""
        self.replay = self.state.history.is_open  # a fork has those of its history at the end of it
        if (agent := string(value.get("agentId"))) is not None:
            self.agent, self.parent = agent, self.state.lineage.parents.get(agent) or self.parent
        for one in records(value["replacements"]):
            if (text := string(one.get("replacement"))) is not None:
                self.edited_context(text, call=string(one.get("toolUseId")))
        return None if self.items else "empty"

    @line("pr-link")
    def _pull_request(self, value: Line) -> Skip:
        """Emit a pull request that the session has made. Resumptions and compactions state it again."""
        number, url = whole(value.get("prNumber")), string(value.get("prUrl"))
        name = url or f"{string(value.get('prRepository')) or ''}#{number}"
        if name in self.state.pull_requests:
            return "repeated"
        put(self.state.pull_requests, name, None, PULL_REQUESTS)
        data = {"number": number, "repository": string(value.get("prRepository")), "url": url}
        self.notice("pull-request", name, data=without_nulls(data) or None)
        return None

    @line(QUEUE)
    def _queued(self, value: Line) -> Skip:
        """Read a change of the queue. A queued notification of the end of background work is read here: it may never
        reach the model, if a call gets the task's output first."""
        text = text_of(value.get("content")) if value.get("operation") == "enqueue" else ""
        injected = read_injected_text(text) if "-notification>" in text else None
        if injected is None or not injected.tasks:
            self.queue.read(value)
            return QUEUE
        self.queue.read({**value, "content": ""})
        return best(self.tasks.noted(injected.tasks, text))

    def _deliver_queued(self) -> None:
        """Emit prompts that were handed to the model, and have no line of their own."""
        ts = self.ts
        for prompt in self.queue.deliver():
            self.ts = prompt.ts or ts
            self.messages.user_text(prompt.text, {})
        self.ts = ts

    @line("progress")
    def _progress(self, value: Line) -> Skip:
        """A subagent's whole message, or a report of a running call."""
        data = record(value.get("data"))
        nested = record(data.get("message"))
        parent = string(value.get("parentToolUseID"))
        if nested.get("type") not in ("assistant", "user") or parent is None:
            return self.reports.call_progress(value, data)
        if self.state.lineage.seen(nested):
            return "repeated"
        self.messages.is_main = False
        self.agent, self.parent = string(data.get("agentId")) or parent, parent
        self.ts = milliseconds(nested.get("timestamp")) or self.ts
        self.state.lineage.spawned(self.agent, parent)
        self.state.lineage.remember(nested, self.agent)
        return self._assistant(nested) if nested["type"] == "assistant" else self._user(nested)

    @line("system")
    def _system(self, value: Line) -> Skip:
        # 1.0 has no subtypes.
        return self.system.read(self, {"subtype": "informational", **value}, line=value)

    @system("local_command")
    def _local_command(self, value: Line) -> Skip:
        text = string(value.get("content")) or ""
        return self.messages.user_text(text, value) if text.strip() else "empty"


def _is_final(message: Line) -> bool:
    """Return whether the model is done after this line. Every line of a message states the message's stop reason, but
    lines of thoughts come first and are not final."""
    content, reason = message.get("content"), message.get("stop_reason")
    if type(content) is not list or type(reason) is not str or reason not in _FINAL:
        return False
    return any(type(block) is dict and str(block.get("type")) not in _THOUGHTS for block in content)
