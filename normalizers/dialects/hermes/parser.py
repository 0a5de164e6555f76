"""The `hermes-db` dialect: the rows of Hermes Agent's database, learned from Hermes 0.19."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import after_epoch, record, records, string, whole
from tooltap.protocol.events import Message

_PARTS = "\0json:"
"""What the content of a message begins with that has parts other than text."""
_STOP = "stop"
"""`finish_reason` of an answer that ends its turn."""


class HermesDb(Parser):
    """A row is a message in the form of Chat Completions; the first one of a session is the session itself. A result
    is a JSON text, with `exit_code` and `error`."""

    dialect = "hermes-db"
    protocol = default_provider = "hermes"
    STATES_TIMES = True
    SKIPS = frozenset({"empty", "unchanged"})
    message = Lines("role", skip={"system": "prompt-context"})
    state_type = SessionState

    def read(self, value: Line) -> Skip:
        self.ts = after_epoch(value.get("timestamp", value.get("started_at"))) or self.ts
        if "role" in value:
            if (session := string(value.get("session_id"))) is not None:
                self.set_session(session)
            return self.message.read(self, value)
        session, cwd = string(value.get("id")), string(value.get("cwd"))
        if session is None:
            return self.unparsed("unknown-type", value)
        self.state.cwd = cwd
        self.begin_session(session, cwd=cwd, model=string(value.get("model")), branch=string(value.get("git_branch")))
        return None

    @message("user", content=str)
    def _user(self, value: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        content, bodies = _content(value), Bodies(self)
        text = blocks_text(bodies.take(content)) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @message("assistant")
    def _assistant(self, value: Line) -> Skip:
        before = len(self.items)
        self.ensure_turn()
        if thought := string(value.get("reasoning_content")) or string(value.get("reasoning")):
            self.emit_text("reasoning", thought)
        if text := blocks_text(_content(value)):
            self.emit_text("assistant", text)
        for index, call in enumerate(records(decode_json(value.get("tool_calls")))):
            function = record(call.get("function"))
            call_id, name = string(call.get("id")), string(function.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                given = decode_json(function.get("arguments"))
                self.calls.show(call_id, name, given, raw=call, place=(None, index))
        if value.get("finish_reason") == _STOP:
            self.end_turn("completed", ended_by="answer")
        return None if len(self.items) > before else "empty"

    @message("tool", tool_call_id=str)
    def _tool(self, value: Line) -> Skip:
        self.ensure_turn()
        bodies = Bodies(self)
        content = bodies.take(_content(value))
        answer = _read_result(content).replace(model=content, attachments=bodies.attachments)
        name = string(value.get("tool_name")) or "unknown"
        return self.calls.answer(value["tool_call_id"], answer, raw=value, raw_name=name)


def _content(value: Line) -> Any:
    content = value.get("content")
    if isinstance(content, str) and content.startswith(_PARTS):
        return decode_json(content.removeprefix(_PARTS))
    return content


def _read_result(content: Any) -> Answer:
    """Read a result: of a command, of another tool, or a text."""
    result = decode_json(content)
    if not isinstance(result, dict):
        return Answer(blocks_text(content))
    code, error = whole(result.get("exit_code")), string(result.get("error"))
    if code is not None:
        shown: dict[str, Any] = {"stdout": result.get("output"), "exit_code": code}
        return Answer(shown, "failed" if error else "completed", error)
    if "total_lines" in result and isinstance(result.get("content"), str):
        result = {**result, "content": _without_numbers(result["content"])}
    return Answer(result, "failed" if error else "completed", error)


def _without_numbers(text: str) -> str:
    """Remove what a file's lines are shown with, as in `12|text`, if each line has it."""
    lines = [line.partition("|") for line in text.split("\n")]
    return "\n".join(line for _, _, line in lines) if all(number.isdecimal() for number, _, _ in lines) else text
