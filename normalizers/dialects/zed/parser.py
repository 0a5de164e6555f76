"""The `zed-db` dialect: the threads of Zed's own agent, each a JSON document that grows.

Written after Zed's source (zed-industries/zed: `crates/agent`, its `db.rs`, `thread.rs`, `legacy_thread.rs` and tools),
without a recording. Versions 0.3.0 of a thread and those before it have messages of different forms.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SHORT, MessageHistory, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_in_words
from tooltap.normalizers.wire.values import first_string, milliseconds, record, records, string, token_counts
from tooltap.protocol.events import Message, Usage

MESSAGES = 4_096
"""Maximum number of messages that are remembered; the oldest are dropped."""
_NAMES = {"delete_path": "Delete", "find_path": "Glob", "move_path": "move"}
"""Raw name -> canonical tool, for names that only Zed's tools have."""
_KEYS = {
    "grep": {"pattern": "regex", "glob": "include_pattern"},
    "find_path": {"pattern": "glob"},
    "move_path": {"source": "source_path", "destination": "destination_path"},
    "spawn_agent": {"prompt": "message", "description": "label"},
    "terminal": {"cwd": "cd"},
}
"""Raw name -> canonical key -> the key that only Zed's tool has for it."""
_PLACES = ("path", "source_path", "destination_path", "cd")
"""Keys of paths that begin with the name of one of the thread's folders."""
_ROLES = {"assistant": "Agent", "system": "System", "user": "User"}
"""Role of a message of an older version -> its kind."""
_CANCELLED = "Tool canceled by user"
_EXIT_CODE = re.compile(r'" failed with exit code (\d{1,9})\.', re.ASCII)
_UNFINISHED = re.compile(r'Command (?:"[^\n]{0,4096}" timed out|terminated unexpectedly)\.', re.ASCII)
_LONG = "Command output too long."
_NUMBERED = re.compile(r" {0,5}(\d{1,9})\t", re.ASCII)
_OUTLINES = ("SUCCESS: File outline", "# File outline")


class ZedState(SessionState, kw_only=True):
    model: str | None = None
    title: str | None = None
    folders: list[str] = msgspec.field(default_factory=list)
    used: list[int | None] = msgspec.field(default_factory=list)
    """The session's tokens, as last stated."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class ZedDb(Parser):
    """A line is a row: a thread as it is, with all its messages. A message of the agent has its calls, and their
    results. A turn lasts from a prompt to the answer that calls no tool."""

    dialect = "zed-db"
    protocol = default_provider = "zed"
    DOCUMENTS = True
    SKIPS = frozenset({"unchanged"})
    message = Lines(skip={"System": "prompt-context"})
    asked = Lines()
    said = Lines(skip={"RedactedThinking": "redacted-thinking"})
    state_type = ZedState
    state: ZedState

    def read(self, value: Line) -> Skip:
        state, session, thread = self.state, string(value.get("id")), record(value.get("thread"))
        messages = thread.get("messages")
        if session is None or not isinstance(messages, list):
            return self.unparsed("unknown-type", value)
        updated = milliseconds(value.get("updated_at")) or self.ts
        title = string(value.get("summary")) or None
        if state.started != session:
            self.ts = milliseconds(value.get("created_at")) or updated
            state.folders = _folders(value)
            state.cwd = next(iter(state.folders), None)
            state.title = title
            self.begin_session(session, cwd=state.cwd, title=title)
        elif title != state.title:
            state.title = title
            self.update_session({"title": title})
        self.ts = updated
        self.uses_model(string(record(thread.get("model")).get("model")))
        forms = [form for one in messages for form in _forms(one)]
        new, gone = state.history.news(_identities(forms), MESSAGES)
        if gone is not None and not any(forms[index][0] == "Compaction" for index in new):
            self.notice("rewound", "thread shortened", data={"messages": gone})
        for index in new:
            kind, message, whole = forms[index]
            self.message.read(self, message, kind=kind, line={"message": whole})
        self._usage(record(thread.get("cumulative_token_usage")))
        return None if self.items else "unchanged"

    def _usage(self, stated: Line) -> None:
        keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        counts = token_counts(*(stated.get(key) for key in keys), apart=True)
        used = list(counts.values())
        if any(used) and used != self.state.used:
            self.state.used = used
            self.emit(Usage, scope="session", counter="session", **counts)

    # -- prompts --------------------------------------------------------------------------------------------------

    @message("User", content=list)
    def _user(self, value: Line) -> Skip:
        """A prompt; one without content only asks for a compaction."""
        if not value["content"]:
            return "unchanged"
        bodies, texts = Bodies(self), list[str]()
        for one in value["content"]:
            for kind, part in _variants(one):
                self.asked.read(self, part, texts, bodies, kind=kind)
        self.give_up_turns()
        self.start_turn()
        self.emit(
            Message,
            role="user",
            text="".join(texts),
            message_id=string(value.get("id")),
            attachments=bodies.attachments,
        )
        return None

    @asked("Text", Text=str)
    def _text(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        texts.append(part["Text"])
        return None

    @asked("Mention", Mention=dict)
    def _mention(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        """A file, a symbol or the like in a prompt. What the model gets of it is no part of the prompt."""
        for kind, uri in _variants(part["Mention"].get("uri")):
            texts.append(f"@{first_string(record(uri.get(kind)), 'abs_path', 'name', 'path', 'url') or kind}")
        return None

    @asked("Image", Image=dict)
    def _image(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        bodies.take(_image_block(part["Image"]))
        return None

    @message("Resume")
    def _resume(self, value: Line) -> Skip:
        """The user lets the agent go on where it stopped, without a prompt."""
        self.give_up_turns()
        self.start_turn()
        return None

    @message("Compaction")
    def _compaction(self, value: Line) -> Skip:
        self.notice("compaction", string(value.get("Summary")))
        return None

    # -- answers --------------------------------------------------------------------------------------------------

    @message("Agent", content=list)
    def _agent(self, value: Line) -> Skip:
        self.ensure_turn()
        results = record(value.get("tool_results"))
        has_calls = False
        for index, one in enumerate(value["content"]):
            for kind, part in _variants(one):
                self.said.read(self, part, index, kind=kind)
                has_calls = has_calls or kind == "ToolUse"
        for call_id, result in results.items():
            if isinstance(result, dict):
                self._result(call_id, result)
            else:
                self.unparsed("unknown-type", {call_id: result})
        if any(_text_of(record(result)) == _CANCELLED for result in results.values()):
            self.end_turn("cancelled", ended_by="answer")
        elif not has_calls and value["content"]:
            self.end_turn("completed", ended_by="answer")
        return None

    @said("Text", Text=str)
    def _say(self, part: Line, index: int) -> Skip:
        if part["Text"].strip():
            self.emit_text("assistant", part["Text"])
        return None

    @said("Thinking", Thinking=dict)
    def _think(self, part: Line, index: int) -> Skip:
        if text := string(part["Thinking"].get("text")):
            self.emit_text("reasoning", text)
        return None

    @said("ToolUse", ToolUse=dict)
    def _call(self, part: Line, index: int) -> Skip:
        call = part["ToolUse"]
        call_id, name = string(call.get("id")), string(call.get("name"))
        if call_id is None or name is None:
            return self.unparsed("unknown-type", part)
        given = call.get("input")
        if isinstance(given, dict):
            given = self._located(given)
            keys = _KEYS.get(name, {})
            given |= {key: given[theirs] for key, theirs in keys.items() if theirs in given and key not in given}
        return self.calls.show(call_id, name, given, raw=call, name=_NAMES.get(name), place=(None, index))

    def _located(self, given: Line) -> Line:
        """An input with absolute paths in place of those that begin with the name of one of the thread's folders."""
        folders = {folder.rpartition("/")[2]: folder for folder in reversed(self.state.folders)}
        located = dict(given)
        for key in _PLACES:
            first, slash, rest = (string(given.get(key)) or "").partition("/")
            if first in folders:
                located[key] = folders[first] + slash + rest
        return located

    def _result(self, call_id: str, result: Line) -> None:
        bodies = Bodies(self)
        parts = [_block(part) for part in _parts(result)]
        content = bodies.take(parts)
        text, call = _text_of(result), self.calls.get(call_id)
        name = string(result.get("tool_name")) or (UNKNOWN_TOOL if call is None else call.raw_name)
        if result.get("is_error") is True:
            answer = Answer(None, status_in_words(text, "zed") or "failed", text)
        elif name == "terminal":
            answer = _shell_result(text)
        else:
            answer = Answer(_output(name, text, record(result.get("output"))))
        is_text = all(part.get("type") == "text" for part in parts)
        answer = answer.replace(model=text if is_text else content, attachments=bodies.attachments)
        self.calls.answer(call_id, answer, raw={**result, "content": content}, raw_name=name)


# -- threads ------------------------------------------------------------------------------------------------------


def _folders(value: Line) -> list[str]:
    """The folders of a thread in the order in which the user has added them."""
    paths = (string(value.get("folder_paths")) or "").split("\n")
    order = (string(value.get("folder_paths_order")) or "").split(",")
    if sorted(order) == sorted(map(str, range(len(paths)))):
        paths = [path for _, path in sorted(zip(map(int, order), paths, strict=True))]
    return [path for path in paths if path]


def _variants(one: Any) -> Iterator[tuple[str, Line]]:
    """Yield (kind, `{kind: content}`) of a value that is written as Rust's enums are by default."""
    if isinstance(one, dict):
        yield from ((kind, {kind: content}) for kind, content in one.items())
    else:
        yield str(one)[:SHORT], {"value": one}


def _forms(one: Any) -> Iterator[tuple[str, Line, Any]]:
    """Yield kind and content of a message, and the message. One of an older version becomes what Zed makes of it."""
    role = _ROLES.get(string(record(one).get("role")) or "")
    if role is None:
        yield from ((kind, record(message.get(kind)), message) for kind, message in _variants(one))
        return
    segments = records(one.get("segments")) or [{"text": one.get("text")}]
    said = [{"Thinking" if part.get("type") == "thinking" else "Text": part} for part in segments if part.get("text")]
    content = [{kind: part["text"] if kind == "Text" else part} for one in said for kind, part in one.items()]
    results = {str(result.get("tool_use_id")): result for result in records(one.get("tool_results"))}
    if role == "Agent":
        content += [{"ToolUse": use} for use in records(one.get("tool_uses"))]
        yield "Agent", {"content": content, "tool_results": results}, one
        return
    if results:
        yield "Agent", {"content": [], "tool_results": results}, one
    if content or not results:
        yield role, {"content": content}, one


def _identities(forms: list[tuple[str, Line, Any]]) -> list[int]:
    """CRCs of messages. Those of an agent have no ids, so that a message is also known by the prompt before it."""
    prompt = 0
    found = []
    for kind, message, _ in forms:
        if kind == "User":
            prompt = zlib.crc32(msgspec.json.encode(message))
        found.append(zlib.crc32(msgspec.json.encode([kind, message]), prompt))
    return found


# -- results ------------------------------------------------------------------------------------------------------


def _image_block(image: Any) -> Line:
    return {"type": "image", "mime_type": "image/png", "data": record(image).get("source")}


def _parts(result: Line) -> list[Any]:
    """The parts of a result; older versions have one, without a list."""
    content = result.get("content")
    return content if isinstance(content, list) else [] if content is None else [content]


def _block(part: Any) -> Line:
    """A part of a result as a content block."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    text = first_string(record(part), "Text", "text")
    return {"type": "text", "text": text} if text is not None else _image_block(record(part).get("Image", part))


def _text_of(result: Line) -> str:
    return "".join(string(_block(part).get("text")) or "" for part in _parts(result))


def _output(name: str, text: str, output: Line) -> Any:
    """A result without what Zed adds to it for the model. `output`: what it shows the user of a result."""
    if name == "edit_file" and isinstance(output.get("diff"), str):
        return {"message": text, "diff": output["diff"], "previousContent": output.get("old_text")}
    if name != "read_file":
        return text
    if text.startswith(_OUTLINES):
        return {"outline": text}
    lines = text.splitlines(keepends=True)
    marks = [_NUMBERED.match(line) for line in lines]
    numbers = [int(mark[1]) for mark in marks if mark is not None]
    if numbers and numbers == [*range(numbers[0], numbers[0] + len(lines))]:
        content = "".join(line.partition("\t")[2] for line in lines)
        return {"file": {"content": content, "startLine": numbers[0], "numLines": len(lines)}}
    return text


def _shell_result(text: str) -> Answer:
    """Read a command's result: a sentence, unless it succeeded, and the output as a block of Markdown."""
    head, fence, rest = text.partition("```\n")
    head, output = head.strip(), {"stdout": rest.rpartition("\n```")[0] if fence else ""}
    if head.startswith("The user stopped this command"):
        return Answer(output, "cancelled", head.partition(".")[0])
    if head.startswith("Command cancelled: user denied"):
        return Answer(None, "denied", head)
    if (code := _EXIT_CODE.search(head)) is not None:
        return Answer({**output, "exit_code": int(code[1])})
    if (failed := _UNFINISHED.match(head)) is not None:
        return Answer(output, "failed", failed[0])
    is_output = (not head and fence) or head.startswith(_LONG) or head == "Command executed successfully."
    return Answer({**output, "exit_code": 0} if is_output else text)
