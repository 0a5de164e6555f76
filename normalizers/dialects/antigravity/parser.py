"""The `antigravity-transcript` dialect: the steps of Antigravity's conversations.

Written after public readers of these files, and a session in the tests of one of them, without a recording:
specstoryai/getspecstory (`ANTIGRAVITY-FORMAT.md`), nizos/probity (`test/fixtures/antigravity-cli`), and
rajbos/ai-engineering-fluency (`antigravity-session-format.md`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.dialects.antigravity.answers import read_result, shown_to_model
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import between, first_string, milliseconds, record, records, string, whole
from tooltap.protocol.events import Message

STEPS = 4_096
"""Maximum number of steps of a document that are remembered; the oldest are dropped."""
MANY_CALLS = 256
"""Maximum number of calls of a step whose results are awaited."""


class _Tool(NamedTuple):
    results: str
    """The type of the steps that hold its results."""
    name: str | None = None
    """The canonical tool; None: none, or the table of names has it."""
    keys: tuple[tuple[str, str], ...] = ()
    """(canonical key, the tool's own)."""


_FILE = ("file_path", "TargetFile")
_EDIT = ("old_string", "TargetContent"), ("new_string", "ReplacementContent"), ("replace_all", "AllowMultiple")
_TOOLS = {
    "ask_question": _Tool("ASK_QUESTION"),
    "find_by_name": _Tool("FIND", "Glob", (("pattern", "Pattern"), ("path", "SearchDirectory"))),
    "generate_image": _Tool("GENERATE_IMAGE"),
    "grep_search": _Tool("GREP_SEARCH", "Grep", (("pattern", "Query"), ("path", "SearchPath"))),
    "invoke_subagent": _Tool("INVOKE_SUBAGENT", "Task"),
    "list_dir": _Tool("LIST_DIRECTORY", "LS", (("path", "DirectoryPath"),)),
    "multi_replace_file_content": _Tool("CODE_ACTION", "MultiEdit", (_FILE,)),
    "read_url_content": _Tool("READ_URL_CONTENT", "WebFetch", (("url", "Url"),)),
    "replace_file_content": _Tool("CODE_ACTION", "Edit", (_FILE, *_EDIT)),
    "run_command": _Tool("RUN_COMMAND", "Bash", (("command", "CommandLine"), ("cwd", "Cwd"))),
    "search_web": _Tool("SEARCH_WEB"),
    "view_file": _Tool(
        "VIEW_FILE",
        "Read",
        (("file_path", "AbsolutePath"), ("start_line", "StartLine"), ("end_line", "EndLine")),
    ),
    "write_to_file": _Tool("CODE_ACTION", "Write", (_FILE, ("content", "CodeContent"))),
}
_RESULTS = frozenset(tool.results for tool in _TOOLS.values())
_SUBAGENT = ("prompt", "Prompt"), ("description", "Role"), ("subagent_type", "TypeName")
_PREFIX = "default_api:"
"""What the model sometimes puts before the name of a tool."""
_LABELS = ("toolAction", "toolSummary")
"""Arguments of every tool that are only shown to the user."""

_TYPED = "<USER_REQUEST>", "</USER_REQUEST>"
"""What encloses the words of the user; the end is missing where the text was shortened."""
_ADDED = ("<ADDITIONAL_METADATA>", "<USER_SETTINGS_CHANGE>")
_SYSTEM = "<SYSTEM_MESSAGE>", "</SYSTEM_MESSAGE>"
_MODEL = re.compile(r"`Model Selection` from [^\n]{1,128}? to ([^\n]{1,128}?)\.(?:\s|$)")
_BAD_CALL = "tool call"
"""What the error says if it is the answer to a call that could not be run."""


class AntigravityState(SessionState, kw_only=True):
    model: str | None = None
    due: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Calls of the latest step of the model that have no result: (id, raw name)."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class AntigravityTranscript(Parser):
    """A line is a step, or a document of all steps so far, of which the new ones are read.

    A step of the model has its reasoning, its text and its calls, and is followed by the results of the calls, each a
    step whose type tells the tools that it may be of. No id ties a result to its call: it is taken to be that of the
    first call of the latest step that has no result yet and has results of this type. Where there is none, the result
    is noticed, and the call stays without one. A turn lasts from the prompt to the text that calls no tool.
    """

    dialect = "antigravity-transcript"
    protocol = default_provider = "antigravity"
    DOCUMENTS = True
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "prompt-context", "unchanged"})
    step = Lines(skip={"CONVERSATION_HISTORY": "prompt-context"})
    state_type = AntigravityState
    state: AntigravityState

    def read(self, value: Line) -> Skip:
        steps = value.get("steps")
        if not isinstance(steps, list):
            return self._read_step(value)
        history, crcs = self.state.history, [_identity(one) for one in steps]
        read = crcs[history.dropped :]
        if len(read) <= len(history.crcs) and read == history.crcs[: len(read)]:
            return "unchanged"
        start, is_shorter = history.unread(crcs, STEPS)
        if is_shorter:
            self.notice("rewound", "transcript shortened", data={"steps": start})
        for one in _in_order(steps[start:]):
            if isinstance(one, dict):
                self._read_step(one)
            else:
                self.unparsed("not-an-object", one)
        return None if self.items else "unchanged"

    def _read_step(self, value: Line) -> Skip:
        self.ts = milliseconds(value.get("created_at")) or self.ts
        return self.step.read(self, value)

    # -- what is said -----------------------------------------------------------------------------------------------

    @step("USER_INPUT")
    def _prompt(self, value: Line) -> Skip:
        content = string(value.get("content")) or ""
        _, tag, rest = content.partition(_TYPED[0])
        said, _, added = rest.partition(_TYPED[1]) if tag else (content, "", "")
        if not tag and content.lstrip().startswith(_ADDED):
            said, added = "", content
        if (model := _MODEL.search(added)) is not None:
            self.uses_model(model[1])
        if not said.strip():
            return None if self.items else "prompt-context" if added else "empty"
        self.give_up_turns()
        self.state.due.clear()
        self.start_turn()
        self.emit(Message, role="user", text=said.strip() if tag else said)
        return None

    @step("PLANNER_RESPONSE")
    def _planned(self, value: Line) -> Skip:
        thought, text, calls = string(value.get("thinking")), string(value.get("content")), value.get("tool_calls")
        if not thought and not text and not calls:
            return "empty"
        self.ensure_turn()
        if thought:
            self.emit_text("reasoning", thought)
        if text:
            self.emit_text("assistant", text)
        self.state.due.clear()
        for number, call in enumerate(calls if isinstance(calls, list) else []):
            self._call(value, number, call)
        if text and not calls:
            self.end_turn("completed", ended_by="answer")
        return None if self.items else "unchanged"

    @step("CHECKPOINT")
    def _compaction(self, value: Line) -> Skip:
        self.notice("compaction", string(value.get("content")))
        return None

    @step("EPHEMERAL_MESSAGE", "SYSTEM_MESSAGE")
    def _reminder(self, value: Line) -> Skip:
        content = string(value.get("content"))
        if not content:
            return "empty"
        inner = between(content, *_SYSTEM)
        self.notice("reminder", content if inner is None else inner.strip())
        return None

    @step("ERROR_MESSAGE")
    def _error(self, value: Line) -> Skip:
        """An error of the model's provider, or the answer to a call that could not be run."""
        error = first_string(value, "error", "content") or ""
        if _BAD_CALL in error and len(self.state.due) == 1:
            return self._answer(self.state.due[0], Answer(None, "failed", error, model=shown_to_model(value)), value)
        self.notice("provider-error", error, "error")
        return None

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, value: Line, number: int, call: Any) -> None:
        name, index = string(record(call).get("name")), whole(value.get("step_index"))
        if name is None or index is None:
            self.unparsed("unknown-type", call)
            return
        name = name.removeprefix(_PREFIX)
        call_id = f"{index}" if number == 0 else f"{index}-{number}"
        given = _decoded(record(call.get("args")))
        title = first_string(given, *_LABELS)
        tool = _TOOLS.get(name)
        if name == "call_mcp_tool" and (server := string(given.get("ServerName"))):
            canonical: str | None = f"mcp__{server}__{given.get('ToolName')}"
            given = record(given.get("Arguments")) or given
        else:
            canonical, given = None if tool is None else tool.name, _read_input(name, tool, given)
        self.calls.show(call_id, name, given, raw=call, name=canonical, title=title, place=(None, number))
        if len(self.state.due) < MANY_CALLS:
            self.state.due.append((call_id, name))

    @step.otherwise
    def _result(self, value: Line) -> Skip:
        kind, content = string(value.get("type")), string(value.get("content"))
        if kind is None or value.get("source") != "MODEL":
            return self.unparsed("unknown-type", value)
        due = self._due(kind)
        if due is None:
            self.notice("output", content, data={"type": kind, "step": value.get("step_index")})
            return None
        status = status_word(value.get("status")) or "completed"
        answer = read_result(kind, content or "", status).replace(model=shown_to_model(value))
        if value.get("status") == "RUNNING":
            answer = answer.replace(is_async=True)
        return self._answer(due, answer, value)

    def _due(self, kind: str) -> tuple[str, str] | None:
        """The call that a result of this type is of. A type that no tool has for itself (`GENERIC`) is that of tools
        that have none, or of the only call."""
        due = self.state.due
        if kind in _RESULTS:
            return next((one for one in due if one[1] in _TOOLS and _TOOLS[one[1]].results == kind), None)
        return due[0] if len(due) == 1 else next((one for one in due if one[1] not in _TOOLS), None)

    def _answer(self, due: tuple[str, str], answer: Answer, value: Line) -> Skip:
        self.ensure_turn()
        self.state.due.remove(due)
        return self.calls.answer(due[0], answer, raw=value)


def _identity(step: Any) -> int:
    """Digest of a step without its texts, which one of the two files shortens."""
    known = {key: step.get(key) for key in ("step_index", "type", "status")} if isinstance(step, dict) else step
    return zlib.crc32(msgspec.json.encode(known))


def _in_order(steps: list[Any]) -> Iterator[Any]:
    """Steps by their number: a result may be written before the step of the model that calls for it."""
    numbered, last = [], 0
    for one in steps:
        index = record(one).get("step_index")
        last = index if isinstance(index, int) else last
        numbered.append((last, one))
    return (one for _, one in sorted(numbered, key=lambda pair: pair[0]))


def _decoded(given: Line) -> Line:
    """The arguments of a call. In the shortened file, each is JSON in a text, also a text."""
    label = first_string(given, *_LABELS)
    if label is None or _json(label) == label:
        return given
    return {key: _json(one) for key, one in given.items()}


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return decode_text(value)
    except ValueError:  # it was shortened
        return value


def _read_input(name: str, tool: _Tool | None, given: Line) -> Line:
    """Add the canonical keys."""
    added = {} if tool is None else _renamed(given, tool.keys)
    if name == "multi_replace_file_content":
        added["edits"] = [{**one, **_renamed(one, _EDIT)} for one in records(given.get("ReplacementChunks"))]
    elif name == "invoke_subagent":
        agents = records(given.get("Subagents"))
        added = _renamed(agents[0] if len(agents) == 1 else given, _SUBAGENT)
    return {**given, **added}


def _renamed(given: Line, keys: tuple[tuple[str, str], ...]) -> Line:
    return {key: given[own] for key, own in keys if own in given}
