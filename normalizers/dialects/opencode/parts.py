"""Parts of OpenCode's messages, read alike in all its dialects; the sessions of a connection; and the state of both."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import msgspec

from tooltap.normalizers.core.calls import DUPLICATE_RESULT, Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, State, TextBuffer, keep_newest, learn
from tooltap.normalizers.core.texts import LiveOutput, LiveOutputState
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.opencode.answers import INVALID, attachments_of, mcp_name, read_result
from tooltap.normalizers.tools.outcome import error_words, status_word
from tooltap.normalizers.wire.values import dollars, first_string, record, records, token_fields, whole
from tooltap.protocol.events import Message, SessionEvent, Usage

MESSAGES = 1_024
"""Maximum number of messages, and of parts, that are remembered; the oldest are evicted."""


_PLACEHOLDER = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
"""The title of a session until the model has found one. It says less than the first prompt."""


def _title_of(session: Line) -> str | None:
    title = first_string(session, "title")
    return None if title is None or _PLACEHOLDER.fullmatch(title) else title


class OpencodePart(msgspec.Struct, omit_defaults=True):
    """A part that is text or reasoning."""

    block: int
    role: str = "assistant"
    """`assistant` or `reasoning`: stated by the first line of the part, but not by its deltas."""
    received: int = 0
    """Code points received so far."""
    digest: int = 0
    """CRC of the text received so far."""
    emitted: int = 0
    """Code points that were emitted before the end of the part, when the agent called a tool."""
    emitted_digest: int = 0
    done: bool = False


class OpencodeMessage(msgspec.Struct, omit_defaults=True):
    """A message whose parts are being read."""

    role: str | None = None
    blocks: int = 0
    echo: bool | None = None
    """For prompts: whether the request that sent the prompt was seen; None until the first part arrives."""
    model: str | None = None
    """The model that writes it, as `provider/model`."""
    copied: bool = False
    """Another session's, which this session was forked from."""


class OpencodeState(State, kw_only=True):
    messages: dict[str, OpencodeMessage] = msgspec.field(default_factory=dict)
    parts: dict[str, OpencodePart] = msgspec.field(default_factory=dict)
    receiving: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Id of a part that is being received -> its agent."""
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the stream named."""


class OpencodeUsed(msgspec.Struct, array_like=True):
    """The usage of several steps."""

    tokens: dict[str, int] = msgspec.field(default_factory=dict)
    """Count, as a usage event names it -> its sum."""
    cost_usd: float = 0.0

    def add(self, used: dict[str, Any]) -> None:
        for count, value in used.items():
            if count == "cost_usd":
                self.cost_usd += value or 0.0
            elif value:
                self.tokens[count] = self.tokens.get(count, 0) + value

    def beyond(self, other: OpencodeUsed) -> dict[str, Any]:
        """Return by what it exceeds another one, as the fields of a usage event."""
        more = {count: value - other.tokens.get(count, 0) for count, value in self.tokens.items()}
        fallen: dict[str, Any] = {count: value for count, value in more.items() if value > 0}
        return {**fallen, "cost_usd": max(0.0, self.cost_usd - other.cost_usd)}


class OpencodeSession(msgspec.Struct, omit_defaults=True):
    """A session of the bus, perhaps a subagent's."""

    root: str | None = None
    """For a subagent's session: the root session."""
    call: str | None = None
    """For a subagent's session: the call that spawned it."""
    started: bool = False
    cwd: str | None = None
    title: str | None = None
    mode: str | None = None
    model: str | None = None
    agent_version: str | None = None
    usage: list[Any] = []
    """Last emitted usage of the session."""
    created: int | None = None
    """When it was created, in ms since the epoch."""
    copied: OpencodeUsed | None = None
    """What the steps used that it has copied from another session; None if it has copied none."""
    own: OpencodeUsed = msgspec.field(default_factory=lambda: OpencodeUsed())
    """What its own steps have used."""
    stated: OpencodeUsed = msgspec.field(default_factory=lambda: OpencodeUsed())
    """The last total that was stated."""
    removed: OpencodeUsed = msgspec.field(default_factory=lambda: OpencodeUsed())
    """What removed messages used, which totals leave out."""
    prompts: int = 0
    """Number of prompts that were sent and have not appeared as messages yet."""
    outcome: list[str] = []
    """Outcome and reason of the running turn, once a line stated them; else empty."""
    step_reason: str | None = None
    """Reason stated at the end of the last step."""
    retry: int = 0
    """Number of the last reported attempt."""
    todos: int = 0
    """CRC of the last shown to-do list."""
    diff: TextBuffer | None = None
    """The diff of the running turn."""
    diff_digest: int = 0


class OpencodeRead(msgspec.Struct, omit_defaults=True):
    """How far the messages of a session in OpenCode 2's database have been read."""

    last: int = -1
    """Highest number of a row."""
    open: list[int] = []
    """Numbers of rows that were not final."""


class BusState(OpencodeState, kw_only=True):
    sessions: dict[str, OpencodeSession] = msgspec.field(default_factory=dict)
    emitted: dict[str, None] = msgspec.field(default_factory=dict)
    """Ids of emitted steps, answers and removals. Events may arrive twice, plain and in a `sync` envelope."""
    questions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Request id -> the questions it asks."""
    synthetic_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of synthetic call (plan, diff) -> how many there were."""
    read: dict[str, OpencodeRead] = msgspec.field(default_factory=dict)
    """Session in OpenCode 2's database -> how far it was read."""
    reasoning_apart: bool = False
    """The output tokens of a step exclude its reasoning."""


CONTINUES = ("tool-calls", "unknown", None)
"""Reasons of finished steps or messages after which the turn continues (1.18.33); before 1.0, a step may have no
reason."""
_ENDED = ("completed", "error")
_STATUSES = ("pending", "running", *_ENDED)
_RUNNING = ("in_progress", "queued", "started")
_STREAM = "stdout"
"""Stream of a command's output: the shell tool merges stdout and stderr."""


class OpencodeParts:
    """Reads parts of messages, alike in all dialects: text, reasoning, files, tool calls, steps with their usage,
    errors.

    A text is emitted once: when it is complete, or earlier, when the agent calls a tool. OpenCode states the end of
    such a text only after the tool has run.

    A tool part is one object per call, sent again whenever its `state` changes. `state.status` goes from pending to
    running to completed or error. The input is empty while the model writes it.
    """

    def __init__(self, parser: Parser, state: OpencodeState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._texts = parser.texts
        self._state = state
        self.running = LiveOutput(parser, state.running)

    # -- text, reasoning and files ------------------------------------------------------------------------------

    def message(self, message_id: str) -> OpencodeMessage:
        """Return the state of a message, creating it for an unknown id."""
        messages = self._state.messages
        info = messages.get(message_id)
        if info is None:
            info = messages[message_id] = OpencodeMessage()
            keep_newest(messages, MESSAGES)
        return info

    def read_whole(self, part: Line, role: str) -> Skip:
        """Read a part that is complete."""
        text, message_id, part_id = part["text"], first_string(part, "messageID"), first_string(part, "id")
        if part_id is None:
            return self._emit(text, role, message_id, self._next_block(message_id))
        info = self.open_part(part_id, message_id)
        if info is None:
            return "repeated"
        info.done = True
        self._state.receiving.pop(part_id, None)
        was_open = self._texts.drop(part_id)
        if info.emitted:
            continues = crc32(text[: info.emitted].encode()) == info.emitted_digest
            text = text[info.emitted :] if continues else ""
            if not text.strip():  # white space at the end comes and goes
                return "repeated"
        elif info.received and not was_open:
            return "repeated"
        return self._emit(text, role, message_id, info.block)

    def read_file(self, part: Line, role: str) -> Skip:
        """Read a file that is part of a message, inline or as a link."""
        part_id, message_id = first_string(part, "id"), first_string(part, "messageID")
        if part_id is not None:
            info = self.open_part(part_id, message_id)
            if info is None:
                return "repeated"
            info.done = True
        part, attachments = take_bodies(self._parser, part)
        self._parser.ensure_turn()
        self._parser.emit(
            Message, role=role, text="", message_id=message_id, attachments=attachments_of([part], attachments)
        )
        return None

    def open_part(self, part_id: str, message_id: str | None) -> OpencodePart | None:
        """The part; None if it was emitted whole."""
        parts = self._state.parts
        info = parts.get(part_id)
        if info is None:
            info = parts[part_id] = OpencodePart(block=self._next_block(message_id) or 0)
            keep_newest(parts, MESSAGES)
        return None if info.done else info

    def _next_block(self, message_id: str | None) -> int | None:
        """The index of a new block of the message."""
        if message_id is None:
            return None
        message = self.message(message_id)
        message.blocks += 1
        return message.blocks - 1

    def _emit(self, text: str, role: str, message_id: str | None, block: int | None) -> Skip:
        if not text:
            return "empty"
        self._parser.ensure_turn()
        self._parser.emit_text(role, text, message_id=message_id, block=block)
        return None

    def read_step_start(self) -> Skip:
        """A step begins, which is a request to the model."""
        if self._parser.turn is not None:
            return "step"
        self._parser.ensure_turn()
        return None

    # -- tool calls ---------------------------------------------------------------------------------------------

    def read_tool(self, part: Line) -> Skip:
        """Read the current version of a call."""
        call_id, raw_name, state = first_string(part, "callID"), first_string(part, "tool"), record(part.get("state"))
        status = state.get("status")
        if status not in _STATUSES:  # another word for one of them
            if (status := _status_of(status)) is None:
                return self._parser.unparsed("unknown-type", part)
            part = {**part, "state": {**state, "status": status, "stated": state["status"]}}
        if call_id is None or raw_name is None:
            return self._parser.unparsed("unknown-type", part)
        asked = raw_name
        if raw_name == INVALID and self._calls.get(call_id) is None:  # the run has no line with the tool's own name
            asked = first_string(record(state.get("input")), "tool") or raw_name
        calls, ended = self._calls, status in _ENDED
        if self._repeats(call_id, part) and (calls.is_over(call_id) or not ended):
            return DUPLICATE_RESULT if ended else "repeated"
        part, bodies = take_bodies(self._parser, part)
        state = record(part.get("state"))
        changed = self._show(call_id, asked, state, part)
        if ended:
            self.running.take(call_id)
            answer = read_result(raw_name, calls.tool_of(call_id, asked), state)
            if attachments := attachments_of(state.get("attachments"), bodies):
                answer = answer.replace(attachments=attachments)
            call = self._shown(call_id, asked, part)
            return calls.answer(call or call_id, answer, raw=part, raw_name=asked)
        if "metadata" in state and self._print(calls.get(call_id), record(state["metadata"])) and not changed:
            return "partial"
        return None if changed else "unchanged"

    def _show(self, call_id: str, raw_name: str, state: Line, part: Line) -> bool:
        """Open a call, or emit its changes. Returns whether anything was emitted."""
        calls = self._parser.calls
        value, title = state.get("input"), first_string(state, "title")
        status = "pending" if state["status"] == "pending" else "running"
        call = self._shown(call_id, raw_name, part)
        if call is None:
            if self._repeats(call_id, part):
                return False
            self._parser.ensure_turn()
            name, source = mcp_name(raw_name, self._parser), first_string(part, "id") or ""
            fields: dict[str, Any] = {"name": name, "status": status, "title": title, "source": source}
            calls.open(call_id, raw_name, value, raw=part, place=("", source) if source else None, **fields)
            return True
        # Else the result states them, or the answer will.
        is_news = state["status"] not in _ENDED and call.status != "awaiting-permission"
        news: dict[str, Any] = {"title": title, "status": status} if is_news else {}
        if isinstance(value, dict) and not value:
            return calls.update(call, **news)
        # The name stays where OpenCode ran the stand-in; a permission that opened the call stated only its kind.
        raw_name = call.raw_name if raw_name == INVALID else raw_name
        name = mcp_name(raw_name, self._parser)
        return calls.update(call, value, raw=part, raw_name=raw_name, name=name, **news)

    def _shown(self, call_id: str, raw_name: str, part: Line) -> OpenCall | None:
        """The open call that a part shows. Its own id tells calls of one id apart."""
        part_id, value = first_string(part, "id"), record(part.get("state")).get("input")
        if part_id is None:
            return self._calls.get(call_id)
        return self._calls.shown(call_id, raw_name, value, ("", part_id))

    def _repeats(self, call_id: str, part: Line) -> bool:
        """Whether the part showed a call that is done, and is not another call's with the same id."""
        sources, source = self._calls.done_sources(call_id), first_string(part, "id") or ""
        return source in sources or "" in sources

    def _print(self, call: OpenCall | None, metadata: Line) -> bool:
        """Emit the new part of a command's output: the shell tool repeats everything printed so far."""
        output = metadata.get("output")
        if call is None or not isinstance(output, str):
            return False
        known = self._state.running.calls.get(call.id)
        if len(output) > (known.buffers[_STREAM].chars if known is not None else 0):
            self.running.catch_up(call, _STREAM, output)
        return True

    # -- errors -------------------------------------------------------------------------------------------------

    def report_error(self, error: Line) -> tuple[str, str]:
        """Emit an error, or a stop that the user wanted; returns the outcome and reason of the turn it ends."""
        text, data = read_error(error)
        name = first_string(error, "name") or "error"
        if name == "MessageAbortedError":
            self._parser.notice("interrupt", text, data=data)
            return "cancelled", name
        self._parser.notice("provider-error", text, "error", data)
        return "failed", name


def _status_of(word: Any) -> str | None:
    """Map another word for a status to `running`, `completed` or `error`; None for an unknown word."""
    if word in _RUNNING:
        return "running"
    ended = status_word(word)
    return None if ended is None else "completed" if ended == "completed" else "error"


def read_usage(stated: Line, *, apart: bool = False) -> dict[str, Any] | None:
    """The fields of a usage event for an object with `tokens` and `cost`; None if nothing was used yet.

    1.18.33 excludes the reasoning from the output and states a total that shows it; versions that state no total
    included the reasoning. `apart`: the output excludes it even without a total.
    """
    tokens = record(stated.get("tokens"))
    prompt, output = whole(tokens.get("input")), whole(tokens.get("output"))
    if not prompt and not output:
        return None
    cache, reasoning, total = record(tokens.get("cache")), whole(tokens.get("reasoning")), whole(tokens.get("total"))
    apart = apart or (reasoning or 0) > (output or 0)
    read, write = whole(cache.get("read")), whole(cache.get("write"))
    fields = token_fields(prompt, output, read, write, reasoning, total, apart=apart)
    return {**fields, "cost_usd": dollars(stated.get("cost"))}


def _with_removed(total: dict[str, Any] | None, info: OpencodeSession) -> dict[str, Any] | None:
    """Return a session's total with what removed messages used. A total falls only because OpenCode removes messages
    that were reverted, and subtracts what they used."""
    now = OpencodeUsed()
    now.add(total or {})
    info.removed.add(info.stated.beyond(now))
    info.stated = now
    if total is None or not info.removed.tokens:
        return total
    removed = {**info.removed.tokens, "cost_usd": info.removed.cost_usd}
    sums = {count: (value or 0) + removed[count] if count in removed else value for count, value in total.items()}
    return {**sums, "cost_usd": round(sums["cost_usd"], 12)}


def _beyond(total: dict[str, Any], copied: OpencodeUsed, own: OpencodeUsed) -> dict[str, Any] | None:
    """Return the total of a forked session without what it copied; None if that leaves nothing. 1.18.33 counts the
    copies. A total that is less than the copies and its own steps together does not."""
    rest = {**total, "cost_usd": max(0.0, round((total["cost_usd"] or 0.0) - copied.cost_usd, 12))}
    for count, value in total.items():
        if count == "cost_usd":
            continue
        rest[count] = None if value is None else value - copied.tokens.get(count, 0)
        if (rest[count] or 0) < own.tokens.get(count, 0):
            return total
    return rest if rest["input_tokens"] or rest["output_tokens"] else None


def model_name(stated: Line) -> str | None:
    """`provider/model`, as in OpenCode's own options; None where the object states neither."""
    provider = first_string(stated, "providerID")
    name = first_string(stated, "modelID" if "modelID" in stated or "role" in stated else "id")
    return f"{provider}/{name}" if provider and name else provider or name


def outcome_of(reason: str | None) -> str:
    """The outcome of a turn whose last step gave this reason."""
    return "failed" if reason in ("content-filter", "error") else "completed"


def read_error(error: Line) -> tuple[str, dict[str, Any]]:
    """The message and data of an error `{name, data: {message, …}}`."""
    name, data = first_string(error, "name") or "error", record(error.get("data"))
    return error_words(data) or error_words(error) or name, {"name": name, **data}


SESSIONS = 256
SERVERS = 64


class OpencodeSessions:
    """The sessions of OpenCode's bus: one connection shows all sessions of a directory, and those of subagents.

    Emits into the session that a line belongs to. A subagent's session is part of its root session.
    """

    def __init__(self, parser: Parser, state: BusState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state

    @property
    def info(self) -> OpencodeSession:
        """The session that the line belongs to: the subagent's own, if it belongs to one."""
        return self._info(self._parser.agent or self._parser.session)

    def _info(self, session_id: str) -> OpencodeSession:
        sessions = self._state.sessions
        info: OpencodeSession | None = sessions.pop(session_id, None)
        if info is None:
            info = OpencodeSession()
        sessions[session_id] = info
        if len(sessions) > SESSIONS:
            keep_newest(sessions, SESSIONS)
        return info

    def enter(self, session_id: str | None) -> None:
        """Set the line's scope."""
        if session_id is None:
            return
        info, state = self._info(session_id), self._state
        if info.root is not None:
            self._parser.set_session(info.root or session_id)
            self._parser.agent, self._parser.parent = session_id, info.call
        elif session_id != state.session:
            self._parser.set_session(session_id)
        else:
            self._parser.session = session_id
        state.cwd = info.cwd

    def adopt(self, described: Line) -> None:
        """Remember a session's parent session, if it states one."""
        child, owner = first_string(described, "id"), first_string(described, "parentID")
        if child and owner and child != owner:
            info = self._info(child)
            info.root = info.root or self._info(owner).root or owner

    def spawned(self, call_id: str, child: str) -> None:
        """Remember the session of the subagent that a call spawned."""
        if child != (self._parser.agent or self._parser.session):
            info = self._info(child)
            info.root, info.call = self._parser.session, call_id

    def is_copied(self, message: Line) -> bool:
        """Return whether a message is a copy from the session that this one was forked from: it is older than its
        session."""
        written, created = whole(record(message.get("time")).get("created")), self.info.created
        return written is not None and created is not None and written < created

    def count_step(self, used: dict[str, Any]) -> None:
        """Remember what a step used."""
        info = self.info
        if not self._parser.replay:
            info.own.add(used)
            return
        if info.copied is None:
            info.copied = OpencodeUsed()
        info.copied.add(used)

    def begin_prompted_turn(self) -> None:
        """Start a prompt's turn. A subagent's prompt comes from the agent, and starts none."""
        if self._parser.agent is None:
            self.info.outcome = []
            self._parser.start_turn()

    def knows_servers(self, names: list[str]) -> None:
        """Remember MCP servers that the stream named: their tools are called `<server>_<tool>`."""
        servers = self._state.servers
        servers += [name for name in names if name and name not in servers]
        del servers[:-SERVERS]

    def repeats(self, event_id: str | None) -> bool:
        """Whether an event with this id was emitted before; it counts as emitted from now on."""
        if event_id is None or event_id in self._state.emitted:
            return event_id is not None
        self._state.emitted[event_id] = None
        keep_newest(self._state.emitted, MESSAGES)
        return False

    def describe(self, session: Line, *, starts: bool) -> Skip:
        """Emit the changed fields of a session, which is always sent whole."""
        info = self.info
        info.created = whole(record(session.get("time")).get("created")) or info.created
        new = learn(
            info,
            cwd=first_string(session, "directory"),
            title=_title_of(session),
            mode=first_string(session, "agent"),
            model=model_name(record(session.get("model"))),
            agent_version=first_string(session, "version"),
        )
        self._state.cwd = info.cwd
        if self._parser.agent is not None:
            return "subagent"
        info.started = info.started or starts
        if starts or new:
            self._parser.emit(SessionEvent, state="started" if starts else "updated", **new)
        used = read_usage(session, apart=self._state.reasoning_apart)  # like the steps, it may exclude the reasoning
        if "tokens" in session:
            used = _with_removed(used, info)
        if used is not None and info.copied is not None:
            used = _beyond(used, info.copied, info.own)
        if used is None or (usage := list(used.values())) == info.usage:
            return None if starts or new else "unchanged"
        info.usage = usage
        self._parser.emit(Usage, scope="session", **used, counter="session")
        return None

    def show_diff(self, files: list[Any]) -> Skip:
        """Remember the turn's latest diff, which is sent again when the turn is over."""
        info = self.info
        patches = [file["patch"] for file in records(files) if isinstance(file.get("patch"), str)]
        diff = "".join(patch if patch.endswith("\n") else f"{patch}\n" for patch in patches)
        digest = crc32(diff.encode())
        if not diff:
            info.diff, info.diff_digest = None, 0
        if not diff or digest == info.diff_digest:
            return "unchanged"
        info.diff, info.diff_digest = TextBuffer(), digest
        info.diff.append(diff, self._parser, "text/x-diff")
        if self._parser.turn is None:
            self.emit_diff()
        return None

    def emit_diff(self) -> None:
        """Emit the turn's diff."""
        info = self.info
        diff, info.diff = info.diff, None
        if diff is None or not diff.chars:
            return
        call_id, value = self.synthetic_id("diff"), {"unified_diff": diff.head}
        outputs = diff.outputs("/input/unified_diff", "text/x-diff")
        self._calls.open(call_id, "diff", value, raw=value, name="Diff", synthetic=True, outputs=outputs)
        self._calls.answer(call_id, Answer(), raw=None, synthetic=True)

    def synthetic_id(self, kind: str) -> str:
        """The id of a call that has none on the wire: `plan-1`, `plan-2`, …"""
        counts = self._state.synthetic_counts
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"
