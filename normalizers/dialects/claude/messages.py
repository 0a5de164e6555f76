"""Claude's messages, for all dialects derived from Claude Code's: blocks, their deltas, injected texts, session
changes.

A line holds a message or one block of it. The numbers of a message's blocks continue over its lines, whatever comes
between them.

Texts that Claude Code injects into user lines, or wraps around what the user typed:

    <command-message>review</command-message> <command-name>/review</command-name>   a command that prompts the model
    <command-name>/cost</command-name> …    <bash-input>ls</bash-input>               commands that do not
    <local-command-stdout>…    <bash-stdout>…<bash-stderr>…                           what these printed
    <task-notification>… (2.1)    <agent-notification>…, <bash-notification>… (2.0)   background work that ended
    <system-reminder>…    <local-command-caveat>…    <ide_opened_file>…               notes for the model alone
    <agent-message from="…">…    <teammate-message …>…                                other agents' messages

Tags are found by their names alone, each from its first opening to its first closing, so that a hostile text costs no
more than its length.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.background import STEERING, named_task
from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import State, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.claude.answers import read_answer, read_server_answer, started_task, text_of
from tooltap.normalizers.dialects.claude.history import HistoryState
from tooltap.normalizers.dialects.claude.steps import is_another
from tooltap.normalizers.dialects.claude.tasks import Tasks, TasksState
from tooltap.normalizers.wire.values import first_string, record, string, whole
from tooltap.protocol.events import Attachment, Message, Reasoning, SessionEvent

STREAMED = 64
"""Maximum number of agents whose current message is tracked."""

_ROLES = {"text": "assistant", "thinking": "reasoning"}
"""Type of a block whose deltas are emitted -> role."""
_DELTAS = {f"{kind}_delta": kind for kind in _ROLES}
"""Type of a block's delta -> type of the block, which is also the key of the delta's text."""


class StreamedMessage(msgspec.Struct):
    """Message that an agent is printing in deltas."""

    message_id: str | None = None
    block: int | None = None
    """Index of the block that has started and not stopped."""
    whole: bool = False
    """The whole message was printed, so that leftover deltas are not from an attempt that broke off."""


class DeltasState(msgspec.Struct):
    messages: dict[str, StreamedMessage] = {}
    """Agent -> its current message; the key of the main agent is empty."""


class Deltas:
    """The API's own stream, which Claude Code prints with `--include-partial-messages`: messages in deltas.

    Every block comes whole in a later `assistant` line, which replaces its deltas. A text that never comes whole is
    emitted from its deltas when its turn ends, unless the agent asked the model again.
    """

    def __init__(self, parser: Parser, state: DeltasState) -> None:
        self._parser = parser
        self._texts = parser.texts
        self._state = state

    @property
    def current(self) -> StreamedMessage:
        """The message being streamed; a new one if the stream was tapped in the middle of a message."""
        return self._state.messages.get(self._parser.agent or "") or self._start(None)

    def read(self, event: Line, line: Line) -> Skip:
        """Read the event of a line."""
        kind, index = event.get("type"), whole(event.get("index"))
        if kind == "content_block_delta" and index is not None:
            delta = event.get("delta")
            if type(delta) is dict and (field := _DELTAS.get(str(delta.get("type")))) is not None:
                self._append(delta, field, index)
        elif kind == "content_block_start" and index is not None:
            self.current.block = index
            block = record(event.get("content_block"))
            field = str(block.get("type"))
            if field in _ROLES:
                self._append(block, field, index)
        elif kind == "content_block_stop":
            self.current.block = None
        elif kind == "message_start":
            self._abandon()
            self._start(string(record(event.get("message")).get("id")))
        elif kind == "message_delta":
            if record(event.get("delta")).get("stop_reason") == "tool_use":
                self._parser.goes_on()
        elif kind == "message_stop":
            if (first := whole(record(line.get("abandoned_blocks")).get("from_block_index"))) is not None:
                self._abandon(first)
            self.current.whole = True
        elif kind == "error":
            error = record(event.get("error"))
            text = str(error.get("message") or error.get("type") or "error")
            self._parser.notice("provider-error", text, "error", error or None)
            return None
        elif kind != "ping":
            return self._parser.unparsed("unknown-type", line)
        return "partial"

    def claim(self, message_id: str | None) -> int | None:
        """Claim the block being streamed, if it belongs to this message, because it has now arrived whole. Returns its
        index."""
        current = self._state.messages.get(self._parser.agent or "")
        if current is None or current.block is None or current.message_id not in (None, message_id):
            return None
        index, current.block = current.block, None
        self.drop(current.message_id, index)
        return index

    def drop(self, message_id: str | None, index: int) -> None:
        """Drop the deltas of a block that has arrived whole."""
        self._texts.drop(_key(message_id, index))

    def replace(self, message: Line) -> None:
        """Abandon the message being streamed if another one arrives whole: the agent asked again without streaming."""
        current = self._state.messages.get(self._parser.agent or "")
        if current is None or current.block is None or message.get("model") == "<synthetic>":
            return
        ids = message.get("id"), current.message_id
        if None not in ids and ids[0] != ids[1]:
            self._abandon()

    def _abandon(self, first: int = 0) -> None:
        """Drop the deltas of a broken-off message, from this block on: the agent asked the model again, and the next
        message replaces it."""
        parser = self._parser
        current = self._state.messages.get(parser.agent or "")
        if current is None or current.whole:
            return
        place = parser.session, parser.agent, current.message_id
        for text in list(parser.state.texts.open.values()):
            if (text.session, text.agent, text.message_id) == place and text.block is not None and text.block >= first:
                self.drop(text.message_id, text.block)

    def _start(self, message_id: str | None) -> StreamedMessage:
        messages, agent = self._state.messages, self._parser.agent or ""
        messages.pop(agent, None)
        put(messages, agent, StreamedMessage(message_id), STREAMED)
        return messages[agent]

    def _append(self, part: Line, kind: str, index: int) -> None:
        """Append the text of a part (start or delta) of a block of type `kind`."""
        text = string(part.get(kind))
        if text:
            message_id = self.current.message_id
            key = _key(message_id, index)
            self._texts.append(_ROLES[kind], text, message_id=message_id, block=index, key=key, preview=True)


def _key(message_id: str | None, index: int) -> str:
    return f"{message_id or ''}/{index}"


# -- texts that Claude Code injects -------------------------------------------------------------------------------

INTERRUPTED = "[Request interrupted by user"
_SUMMARY = "This session is being continued from a previous conversation"
"""Beginning of the summary that stands for the history from then on. Only transcripts mark it (`isCompactSummary`)."""
_CAVEAT = "Caveat: The messages below were generated by the user while running local commands"
"""Beginning of the caveat before it had a tag (1.0)."""
_COMMAND = frozenset({"command-name", "command-message", "command-args", "command-contents", "skill-format"})
_OUTPUT = frozenset({"local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"})
_IDE = frozenset({"ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics"})
"""Tags that the editor's extension adds to a prompt, each in a block of its own (2.0)."""
_NOTE = frozenset({"system-reminder", "local-command-caveat", "user-prompt-submit-hook"}) | _IDE
_TASK = frozenset({"task-notification", "agent-notification", "bash-notification"})
_OTHERS = frozenset({"agent-message", "teammate-message", "cross-session-message"})
_SENDER = re.compile(r' (?:from|teammate_id)="([^"<>]{1,200})"')
"""Attribute of another agent's message that names the agent."""
_SHELL = "bash-input"
_TAGS = _COMMAND | _OUTPUT | _NOTE | _TASK | _OTHERS | {_SHELL}
_OPENING = re.compile(r"\s*<([a-z]+(?:[-_][a-z]+)*)(?: [^<>]*)?>")
_FIELDS = {
    "task-id": "task_id",
    "agent-id": "task_id",
    "shell-id": "task_id",
    "tool-use-id": "tool_use_id",
    "output-file": "output_file",
    "status": "status",
    "summary": "summary",
    "result": "result",
    "event": "event",
    "usage": "usage",
}
"""Field of a notification's text -> key of the same value in the stream's `task_notification` lines."""
_FIELD = re.compile(rf"<({'|'.join(_FIELDS)})>")
_NUMBER = re.compile(r"<(\w+)>(\d+)</\1>")
_LOCAL = frozenset(
    {
        "agents",
        "clear",
        "config",
        "context",
        "cost",
        "doctor",
        "exit",
        "export",
        "help",
        "hooks",
        "ide",
        "login",
        "logout",
        "mcp",
        "memory",
        "model",
        "permissions",
        "plugin",
        "quit",
        "rename",
        "resume",
        "rewind",
        "status",
        "theme",
        "usage",
        "vim",
    }
)
"""Commands that Claude Code answers by itself."""
_SKILL = re.compile(r'The "[^"\n]+" skill is (?:running|loading)')
"""The message of a command that the model ran (2.0)."""


class TaggedText(NamedTuple):
    """A text between an opening tag and its closing tag."""

    tag: str
    text: str
    opening: str
    """The opening tag."""


class InjectedText(NamedTuple):
    """The parts of a text, in order."""

    parts: list[tuple[str, str]]
    """(role, text) of each part: typed by the user, printed by a command, or sent by another agent."""
    tasks: list[Line]
    """Notifications, in the form of the stream's `task_notification` lines."""


def read_injected_text(text: str) -> InjectedText | None:
    """Split a text that Claude Code injected or wrapped; None if the text is the user's own."""
    elements, rest = _elements(text)
    if not elements:
        return InjectedText([], []) if text.startswith(_CAVEAT) else None
    tags = {element.tag for element in elements}
    if rest and tags <= _NOTE:
        return None  # the user's own text after a note
    parts: list[tuple[str, str]] = []
    command = {element.tag: element.text for element in elements if element.tag in _COMMAND}
    if "command-name" in command and not _SKILL.match(command.get("command-message", "").strip()):
        parts.append(("user", _typed(command)))
    printed = []
    for tag, inner, opening in elements:
        if tag == _SHELL:
            parts.append(("user", f"! {inner.strip()}"))
        elif tag in _OUTPUT:
            printed.append(inner)
        elif tag in _OTHERS:
            sender = _SENDER.search(opening)
            parts.append(("system", f"{sender[1]}: {inner.strip()}" if sender else inner.strip()))
    if output := "".join(printed):
        parts.append(("system", output))
    tasks = [_notification(element.text) for element in elements if element.tag in _TASK]
    if rest and not tasks:  # after a notification it says where the output is
        parts.append(("user", rest))
    return InjectedText([part for part in parts if part[1].strip()], tasks)


def asks_the_model(text: str) -> bool:
    """Whether a user line with this text is a prompt, and no report or command of the user's own."""
    if text.startswith((INTERRUPTED, _CAVEAT)):
        return False
    elements, rest = _elements(text)
    if not elements:
        return True
    tags = [element.tag for element in elements]
    if not _TASK.isdisjoint(tags):
        return False
    # A command that the model answers begins with its message; mostly, one that Claude Code answers with its name.
    command = elements[0].text.strip()
    return bool(rest) or (tags[0] == "command-message" and command not in _LOCAL and not _SKILL.match(command))


def _elements(text: str) -> tuple[list[TaggedText], str]:
    """The known elements at the beginning of a text, and what follows them."""
    found: list[TaggedText] = []
    at = 0
    while (opening := _OPENING.match(text, at)) and opening[1] in _TAGS:
        closing = f"</{opening[1]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            break
        found.append(TaggedText(opening[1], text[opening.end() : end], opening[0]))
        at = end + len(closing)
    return found, text[at:].strip() if found else text


def _typed(command: dict[str, str]) -> str:
    name, given = command["command-name"].strip(), command.get("command-args", "").strip()
    return f"/{name.lstrip('/')} {given}".strip()


def _notification(text: str) -> Line:
    fields: dict[str, Any] = {}
    at, unclosed = 0, set()
    while opening := _FIELD.search(text, at):
        tag, at = opening[1], opening.end()
        end = -1 if tag in unclosed else text.find(f"</{tag}>", at)
        if end < 0:
            unclosed.add(tag)
            continue
        fields.setdefault(_FIELDS[tag], text[at:end].strip())
        at = end
    if "usage" in fields:
        fields["usage"] = {key: int(number) for key, number in _NUMBER.findall(fields["usage"]) if len(number) < 19}
    return {key: item for key, item in fields.items() if item}


# -- messages -----------------------------------------------------------------------------------------------------

MESSAGES = 1_024

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_BACKGROUND_NAMES = STEERING | {"KillBash", "AgentOutputTool", "task_stop"}
"""Raw names of background tools, in all versions, and Qwen Code's."""
_NOT_HUMAN = frozenset({"auto-continuation", "coordinator", "peer", "task-notification"})
"""`origin.kind` of lines that no user wrote (2.1); a user's is `human`, or not stated."""
_NO_CONTENT = "(no content)"
"""Claude Code's text for a message without content."""
_ERROR_KEYS = {
    "error": "error",
    "api_error_status": "status",
    "api_error_type": "type",
    "apiErrorStatus": "status",
    "apiErrorType": "type",
}
_encode = msgspec.json.Encoder().encode


class SeenMessage(msgspec.Struct):
    """A message of which a line was read."""

    turn: str | None
    blocks: int = 0
    text: int | None = None
    """CRC of its last block, if that is a text or a thought."""
    request: str | None = None
    """Id of its request, where its first line states that."""


class BlocksState(msgspec.Struct):
    """Numbering of blocks across a message's lines."""

    messages: dict[str, SeenMessage] = {}
    """Id -> message, for the latest messages."""


class TurnNotes(msgspec.Struct):
    """Record of what an open turn has emitted already, so that its end does not repeat it."""

    answered: bool = False
    error: bool = False
    interrupted: bool = False
    stop_reason: str | None = None
    """Stop reason of the main agent's last message."""


class ClaudeState(State, kw_only=True):
    history: HistoryState = msgspec.field(default_factory=HistoryState)
    blocks: BlocksState = msgspec.field(default_factory=BlocksState)
    deltas: DeltasState = msgspec.field(default_factory=DeltasState)
    tasks: TasksState = msgspec.field(default_factory=TasksState)
    reported: dict[str, int] = msgspec.field(default_factory=dict)
    """Field of the session -> CRC of its last emitted value."""
    notes: dict[str, TurnNotes] = msgspec.field(default_factory=dict)
    """Open turn -> its notes."""


class ClaudeMessages:
    """Emits the messages of a stream and the news of its session, and keeps notes for the ends of its turns."""

    SKIPS = frozenset({"empty", "redacted-thinking", "repeated", "stale-task", "synthetic-prompt", "unchanged"})
    OF_LINE = frozenset({"is_main"})

    def __init__(self, parser: Parser, state: ClaudeState, deltas: Deltas, tasks: Tasks) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state
        self._deltas = deltas
        self._tasks = tasks
        self.is_main = True
        """Whether the line is the main agent's. Parsers set it for each line."""

    # -- for dialects to override -------------------------------------------------------------------------------

    def _called(self, block: Line) -> tuple[str, Any]:
        """(raw name, input) of the tool that a block calls."""
        return string(block.get("name")) or UNKNOWN_TOOL, block.get("input")

    def _answered(self, name: str, block: Line, twin: Any, meta: Line, *, stopped: bool) -> Answer:
        """The answer of the canonical tool `name`; see `read_answer`."""
        return read_answer(name, block, twin, meta, stopped=stopped)

    def _started_task(self, answer: Answer) -> str | None:
        """The id of the task that an acknowledgement names."""
        return started_task(answer)

    def _shown_to_model(self, block: Line) -> Any:
        """The result that the model got: see `Answer.model`."""
        return block.get("content") or ""

    def _is_echo(self, value: Line) -> bool:
        """Whether the line repeats a prompt that the client's own line has."""
        return False

    # -- session and turns --------------------------------------------------------------------------------------

    def enter_session(self, session: str) -> None:
        """Set the line's session. If it differs from the previous one, that one's open turns end."""
        if self._state.session not in (None, session):
            self._parser.give_up_turns()
        self._parser.set_session(session)

    def report_session(self, fields: dict[str, Any]) -> None:
        """Emit the session's start, or its changed fields."""
        state: Any = self._state
        state.cwd = fields["cwd"] or state.cwd
        known, state.started = state.started, self._parser.session
        self.update_session(fields, "updated" if known == self._parser.session else "started")

    def update_session(self, fields: dict[str, Any], state: str = "updated") -> Skip:
        """Emit the session's fields that differ from those emitted last."""
        news = {}
        reported = self._state.reported
        for key, item in fields.items():
            if item is not None and reported.get(key) != (digest := zlib.crc32(_encode(item))):
                reported[key] = digest
                news[key] = item
        if not news and state == "updated":
            return "unchanged"
        self._parser.emit(SessionEvent, state=state, **news)
        return None

    def ensure_main_turn(self) -> None:
        """Open a synthetic turn for content of the main agent outside any turn."""
        parser = self._parser
        if self.is_main and not parser.replay and parser.turn is None:  # a background agent continues between turns
            parser.start_turn(synthetic=True)

    def notes(self) -> TurnNotes:
        """The notes on the turn of this line."""
        state, turn = self._state, self._parser.turn or ""
        notes = state.notes.get(turn)
        if not turn or notes is None or len(state.notes) > 1:
            open_turns = {turn.id for turn in state.turns}
            state.notes = {key: notes for key, notes in state.notes.items() if key in open_turns}
            notes = state.notes.get(turn) or state.notes.setdefault(turn, TurnNotes())
        return notes

    def interrupted(self, text: str) -> Skip:
        """Emit an interrupt once per turn: the client's request and the agent's mark in the conversation are one."""
        notes = self.notes()
        if self.is_main and notes.interrupted:
            return "repeated"
        if self.is_main:
            notes.interrupted = True
            self._parser.goes_on()  # what was said before is not the answer
        self._parser.notice("interrupt", text)
        return None

    def failed_request(self, text: str, data: dict[str, Any] | None = None) -> Skip:
        """Emit that a request to the model failed."""
        if self.is_main:
            self.notes().error = True
        self._parser.notice("provider-error", text, "error", data)
        return None

    # -- assistant lines ----------------------------------------------------------------------------------------

    def assistant_message(self, value: Line, titles: dict[str, str]) -> Skip:
        """Emit the blocks of an `assistant` line. `titles`: call id -> title for users."""
        message = message_of(value)
        if message.get("model") == "<synthetic>":
            return self._harness_message(value, message)
        state = self._state
        if self.is_main and text_of(message.get("content")):
            self.notes().answered = True
        message_id, content, is_new = string(message.get("id")), _blocks(message), None
        if message_id is None:
            seen = SeenMessage(self._parser.turn)
        else:
            is_new = self.note_seen(message_id, request_of(value))
            seen = state.blocks.messages[message_id]
        if state.deltas.messages and len(content) == 1 and (index := self._deltas.claim(message_id)) is not None:
            seen.blocks, seen.text = index, None
        outcomes: list[Skip] = []
        for block in content:
            if self._repeats_block(block, seen):
                outcomes.append("repeated")
                continue
            if state.texts.open:
                self._deltas.drop(message_id, seen.blocks)
            outcomes.append(self._assistant_block(block, titles, is_new, message_id, seen.blocks))
            seen.blocks += 1
        return best(outcomes) if outcomes else "empty"

    def is_new(self, message_id: str | None, request: str | None) -> bool:
        """Return whether no line of a message was read. `request`: the id of its request, if stated: some servers give
        the answers to several requests one id."""
        seen = self._state.blocks.messages.get(message_id) if message_id is not None else None
        return seen is None or is_another(seen.request, request)

    def note_seen(self, message_id: str | None, request: str | None) -> bool:
        """Remember a message. Returns whether it was not seen before."""
        if message_id is None or not self.is_new(message_id, request):
            return False
        put(self._state.blocks.messages, message_id, SeenMessage(self._parser.turn, request=request), MESSAGES)
        return True

    def _repeats_block(self, block: Line, seen: SeenMessage) -> bool:
        """Whether a text or thought is the one just read of the same message. Behind some proxies each message is
        written twice: first without its tokens, then with them."""
        text = block.get(str(block.get("type")))
        digest = zlib.crc32(text.encode("utf-8", "replace")) if type(text) is str and text else None
        before, seen.text = seen.text, digest
        return digest is not None and digest == before

    def _harness_message(self, value: Line, message: Line) -> Skip:
        """Emit a message that Claude Code made itself, without the model."""
        text = text_of(message.get("content"))
        details = {name: value[key] for key, name in _ERROR_KEYS.items() if value.get(key) is not None}
        if not text:
            return "empty"
        if details or value.get("isApiErrorMessage") is True or text.startswith("API Error"):
            return self.failed_request(text, details or None)
        self._parser.emit_text("system", text)
        return None

    def _assistant_block(
        self, block: Line, titles: dict[str, str], is_new: bool | None, message_id: str | None, index: int
    ) -> Skip:
        kind = string(block.get("type")) or ""
        if kind in _CALLS and type(block.get("id")) is str:
            return self._call(block, titles.get(block["id"]), is_new, message_id)
        if kind == "text" or kind == "thinking":
            text = block.get(kind)
            if type(text) is not str or not text or text.isspace() or text == _NO_CONTENT:
                return "empty"
            if kind == "text":
                self._parser.emit(Message, role="assistant", text=text, message_id=message_id, block=index)
            else:
                self._parser.emit(Reasoning, text=text, message_id=message_id, block=index)
            return None
        if kind == "redacted_thinking":
            return "redacted-thinking"
        if kind.endswith("_tool_result") and type(block.get("tool_use_id")) is str:
            return self._answer_call(block, block, read_server_answer(block))
        return self._media(block, role="assistant", message_id=message_id, block=index)

    def _call(self, block: Line, title: str | None, is_new: bool | None, message_id: str | None) -> Skip:
        """Emit a call. `is_new`: the message was not seen before; None if messages have no ids. With models of other
        vendors, ids of calls are reused, even in one message."""
        call_id, calls = block["id"], self._parser.calls
        raw_name, given = self._called(block)
        place = message_id, None
        call = calls.shown(call_id, raw_name, given, place)
        if call is not None:  # opened before by its permission request
            return None if calls.update(call, given, raw=block, title=title) else "repeated"
        if not is_new and calls.repeats(call_id, raw_name, given, retold=is_new is not None):
            return "repeated"
        named = named_task(given) if raw_name in _BACKGROUND_NAMES else None
        memory = None if named is None else {"named": named}
        calls.open(call_id, raw_name, given, raw=block, title=title, memory=memory, place=place)
        return None

    # -- user lines ---------------------------------------------------------------------------------------------

    def user_message(self, value: Line, message: Line, twin: Any, metas: dict[str, Line]) -> Skip:
        """Emit the blocks of a user's message. `twin`: the structured result beside the message; `metas`: call id ->
        what the line states of its permission."""
        content = _blocks(message)
        if len(content) > 1 and [block.get("type") for block in content].count("tool_result") > 1:
            twin = None
        outcomes: list[Skip] = []
        for block in content:
            kind = block.get("type")
            if kind == "tool_result" and type(block.get("tool_use_id")) is str:
                outcomes.append(self._tool_result(block, twin, metas.get(block["tool_use_id"], {})))
            elif kind == "text" and type(block.get("text")) is str:
                outcomes.append(self.user_text(block["text"], value) if block["text"].strip() else "empty")
            else:
                outcomes.append(self._media(block, role="user"))
        return best(outcomes) if outcomes else "empty"

    def user_text(self, text: str, value: Line) -> Skip:
        """Emit a text of a user line, whose author need not be the user."""
        if text[0] in "<C\n " and (injected := read_injected_text(text)) is not None:
            return self._injected_text(injected, text, _is_synthetic(value))
        if _is_synthetic(value):
            if value.get("isCompactSummary") is not True and not text.startswith(_SUMMARY):
                return "synthetic-prompt"
            self._parser.notice("compaction-summary", text)
            return None
        if self._is_echo(value):
            return "echo"
        if text.startswith(INTERRUPTED):
            return self.interrupted(text)
        if _is_human(value):
            self._parser.emit_text("user", text)
        else:
            sender = string(record(value.get("origin")).get("from"))
            self._parser.emit_text("system", f"{sender}: {text}" if sender else text)
        return None

    def _injected_text(self, injected: InjectedText, text: str, is_synthetic: bool) -> Skip:
        """Emit the parts of a text that Claude Code wrote, or wrapped around the user's."""
        outcomes = self._tasks.noted(injected.tasks, text)
        for role, part in injected.parts:
            if role == "system" or not is_synthetic:
                self._parser.emit_text(role, part)
                outcomes.append(None)
        return best(outcomes) if outcomes else "synthetic-prompt"

    def _tool_result(self, block: Line, twin: Any, meta: Line) -> Skip:
        """Emit a result. `_raw` is the block, with the twin added under `tool_use_result`."""
        call_id = block["tool_use_id"]
        call, stopped, named = self._calls.due(call_id), False, None
        if call is None:
            name = self._calls.name_of(call_id) or ""
        else:
            name, stopped, named = call.name, call.memory.get("task") == "cancelled", call.memory.get("named")
        raw = block if twin is None else {**block, "tool_use_result": twin}
        answer = self._answered(name, block, twin, meta, stopped=stopped)
        outcome = self._answer_call(block, raw, answer)
        if answer.is_async:
            self._tasks.began(call_id, self._started_task(answer))
        elif name in STEERING:
            self._tasks.learn_from(name, block, answer, named)
        return outcome

    def _answer_call(self, block: Line, raw: Line, answer: Answer) -> Skip:
        bodies = Bodies(self._parser)
        raw = bodies.take(raw)
        value = bodies.take(answer.value)
        model = bodies.take(self._shown_to_model(block))
        answer = answer.replace(value=value, model=model, attachments=bodies.attachments)
        return self._calls.answer(block["tool_use_id"], answer, raw=raw)

    def _media(self, block: Line, /, **fields: Any) -> Skip:
        """Emit a picture or document by itself; a block of any other type is `unparsed`."""
        bodies = Bodies(self._parser)
        if block.get("type") in ("image", "document"):
            bodies.take(block)
        attachments, url = bodies.attachments, string(record(block.get("source")).get("url"))
        if attachments is None and url is not None:
            mime_type = "image/*" if block.get("type") == "image" else "application/octet-stream"
            attachments = [Attachment(mime_type=mime_type, uri=url)]
        if attachments is None:
            return self._parser.unparsed("unknown-type", block)
        self._parser.emit(Message, text="", attachments=attachments, **fields)
        return None


def is_prompt(value: Line) -> bool:
    """Whether a user line asks for something, and does not report an interrupt, a command or the end of a task."""
    if _is_synthetic(value) or not _is_human(value):
        return False
    return asks_the_model(text_of(message_of(value).get("content")))


def _is_human(value: Line) -> bool:
    """Return whether the user wrote a line, as far as stated: Claude Code 2.1 states the origin of all other lines."""
    if value.get("commandMode") == "task-notification":
        return False
    origin = value.get("origin")
    return type(origin) is not dict or str(origin.get("kind")) not in _NOT_HUMAN


def _is_synthetic(value: Line) -> bool:
    """Return whether Claude Code wrote a user line for the model: a reminder, an expanded command, a summary."""
    get = value.get
    return get("isMeta") is True or get("isSynthetic") is True or get("isCompactSummary") is True


def message_of(value: Line) -> Line:
    """The message in a line; a bare string is its content."""
    message = value.get("message")
    return message if type(message) is dict else {"content": message}


def request_of(value: Line) -> str | None:
    """The id of the request that an `assistant` line belongs to; the key is that of transcripts, or of the stream."""
    return first_string(value, "requestId", "request_id")


def _blocks(message: Line) -> list[Line]:
    """Return a message's blocks. A bare string, as the content or among blocks, becomes a text block."""
    content = message.get("content")
    items = content if type(content) is list else [] if content is None else [content]
    for item in items:
        if type(item) is not dict:
            return [item if type(item) is dict else {"type": "text", "text": item} for item in items]
    return items
