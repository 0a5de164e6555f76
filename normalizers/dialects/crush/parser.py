"""The `crush-db` dialect: the rows of Crush's database.

Written after Crush's source (charmbracelet/crush: `internal/message`, `internal/db`, `internal/agent/tools`),
without a recording.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import after_epoch, dollars, first_string, record, records, string
from tooltap.protocol.events import Message, Usage

MESSAGES = 4_096
"""Maximum number of messages that are remembered; the oldest are dropped."""
_GOES_ON = "tool_use"
"""Reason of a message's end after which the turn goes on."""
_FAILED = ("content_filter", "error")
_DENIED = "user denied permission"
_EXIT_CODE = "\nExit code "


class CrushState(SessionState, kw_only=True):
    model: str | None = None
    title: str | None = None
    cost: float | None = None
    known: dict[str, None] = msgspec.field(default_factory=dict)
    """Ids of the messages that were read."""


class CrushDb(Parser):
    """A row is a message with its parts, or what is stated of the session. The last part of an answer states why it
    ended; a turn ends with an answer that does not wait for tools."""

    dialect = "crush-db"
    protocol = default_provider = "crush"
    STATES_TIMES = True
    STATES_END = True
    SKIPS = frozenset({"empty", "prompt-context", "repeated", "unchanged"})
    message = Lines("role")
    asked = Lines(skip={"finish": "status"})
    said = Lines()
    returned = Lines(skip={"finish": "status"})
    state_type = CrushState
    state: CrushState

    def read(self, value: Line) -> Skip:
        if "role" not in value:
            return self._session(value)
        self.ts = after_epoch(value.get("created_at")) or self.ts
        if (session := string(value.get("session_id"))) is not None:
            self.set_session(session)
        message_id = string(value.get("id"))
        if message_id is not None:
            if message_id in self.state.known:
                return "repeated"
            put(self.state.known, message_id, None, MESSAGES)
        return self.message.read(self, value)

    def _session(self, value: Line) -> Skip:
        state, title = self.state, string(value.get("title")) or None
        if state.started is None or state.started != value.get("id"):
            self.ts = after_epoch(value.get("created_at")) or self.ts
            state.title = title
            self.begin_session(value.get("id"), title=title)
        elif title != state.title:
            state.title = title
            self.update_session({"title": title})
        cost = dollars(value.get("cost"))
        if cost and cost != state.cost:
            state.cost = cost
            self.emit(Usage, scope="session", counter="session", cost_usd=cost)
        return None if self.items else "unchanged"

    # -- prompts --------------------------------------------------------------------------------------------------

    @message("user", parts=list)
    def _user(self, value: Line) -> Skip:
        """A prompt. Its pictures and files are parts of their own."""
        bodies = Bodies(self)
        texts: list[str] = []
        skips = [self.asked.read(self, part, texts, bodies, line=value) for part in records(value["parts"])]
        if not texts and not bodies.attachments:
            return None if self.items else next((skip for skip in skips if skip == "prompt-context"), "empty")
        self.give_up_turns()
        self.start_turn()
        text, message_id = "\n\n".join(texts), string(value.get("id"))
        self.emit(Message, role="user", text=text, message_id=message_id, attachments=bodies.attachments)
        return None

    @asked("text", data=dict)
    def _prompt(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        text = string(part["data"].get("text"))
        if part["data"].get("hidden") is True:
            return "prompt-context"
        if text:
            texts.append(text)
        return None if text else "empty"

    @asked("binary", data=dict)
    def _file(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        data = part["data"]
        bodies.take({"mime_type": data.get("MIMEType"), "data": data.get("Data")})
        return None

    @asked("shell_command", data=dict)
    def _own_command(self, part: Line, texts: list[str], bodies: Bodies) -> Skip:
        """A command that the user has run."""
        self.notice("shell-command", string(part["data"].get("command")), data=part["data"])
        return None

    # -- answers --------------------------------------------------------------------------------------------------

    @message("assistant", parts=list)
    def _assistant(self, value: Line) -> Skip:
        parts = records(value["parts"])
        if value.get("is_summary_message"):
            texts = [text for part in parts if (text := string(record(part.get("data")).get("text")))]
            self.notice("summary", "\n\n".join(texts) or None)
            return None
        self.ensure_turn()
        self.uses_model(string(value.get("model")) or None)
        for index, part in enumerate(parts):
            self.said.read(self, part, index, value, line=value)
        return None if self.items else "empty"

    @said("text", data=dict)
    def _text(self, part: Line, index: int, value: Line) -> Skip:
        text = string(part["data"].get("text"))
        if not text or not text.strip():
            return "empty"
        self.emit_text("assistant", text, message_id=string(value.get("id")))
        return None

    @said("reasoning", data=dict)
    def _reasoning(self, part: Line, index: int, value: Line) -> Skip:
        text = string(part["data"].get("thinking"))
        if not text:
            return "empty"
        self.emit_text("reasoning", text)
        return None

    @said("tool_call", data=dict)
    def _call(self, part: Line, index: int, value: Line) -> Skip:
        call = part["data"]
        call_id, name = string(call.get("id")), string(call.get("name"))
        if call_id is None or name is None:
            return self.unparsed("unknown-type", part)
        return self.calls.show(call_id, name, decode_json(call.get("input")), raw=call, place=(None, index))

    @said("finish", data=dict)
    def _finish(self, part: Line, index: int, value: Line) -> Skip:
        data = part["data"]
        reason = string(data.get("reason"))
        if reason == _GOES_ON:
            return "status"
        self.ts = after_epoch(value.get("finished_at")) or self.ts
        outcome = "failed" if reason in _FAILED else status_word(reason)
        if outcome == "failed":
            self.notice("provider-error", first_string(data, "details", "message"), "error")
        self.end_turn(outcome if outcome in ("cancelled", "failed") else "completed", reason=reason)
        return None

    # -- results --------------------------------------------------------------------------------------------------

    @message("tool", parts=list)
    def _tool(self, value: Line) -> Skip:
        skips = [self.returned.read(self, part, line=value) for part in records(value["parts"])]
        return None if self.items else next((skip for skip in skips if skip is not None), "empty")

    @returned("tool_result", data=dict)
    def _result(self, part: Line) -> Skip:
        bodies = Bodies(self)
        stated = {key: item for key, item in part["data"].items() if key != "data" or item}
        result = record(bodies.take(stated))
        call_id = string(result.get("tool_call_id"))
        if call_id is None:
            return self.unparsed("unknown-type", part)
        self.ensure_turn()
        text = string(result.get("content"))
        if result.get("is_error") is True:
            answer = Answer(None, "denied" if (text or "").lower() == _DENIED else "failed", text)
        else:
            answer = Answer(_output(text, record(decode_json(result.get("metadata")))))
        answer = answer.replace(model=text, attachments=bodies.attachments)
        return self.calls.answer(call_id, answer, raw=result, raw_name=string(result.get("name")) or "unknown")


def _output(text: str | None, metadata: Line) -> Any:
    """A result without what Crush adds to it for the model. `metadata`: what it shows the user of a result."""
    if "working_directory" in metadata:
        output = string(metadata.get("output")) or ""
        before, is_stated, code = output.rpartition(_EXIT_CODE)
        if metadata.get("background") is True:
            return {"stdout": output or text, "shell_id": metadata.get("shell_id")}
        if is_stated and code.isascii() and code.isdigit():
            return {"stdout": before, "exit_code": int(code[:9])}
        return {"stdout": output, "exit_code": 0}
    if isinstance(metadata.get("content"), str) and "file_path" in metadata:
        return {"file_path": metadata["file_path"], "content": metadata["content"]}
    return text
