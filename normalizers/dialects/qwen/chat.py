"""The `qwen-chat` dialect: the files that Qwen Code keeps under `~/.qwen/projects`, a session's or a subagent's.

Learned from Qwen Code 0.24.4. Lines are entries like those of Claude Code, around messages of Gemini's API. No line
ends a turn: it lasts from the user's message to the model's text that comes with no call.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.tools.outcome import error_words
from tooltap.normalizers.wire.values import milliseconds, record, records, string, whole
from tooltap.protocol.events import Display, Message, Usage

_PROXY = "tool_call"
"""Tool that calls others, which were not offered up front."""
_SKIPPED = {
    "attribution_snapshot": "snapshot",
    "file_history_snapshot": "snapshot",
    "ui_telemetry": "telemetry",
}


class QwenChatState(SessionState, kw_only=True):
    model: str | None = None


class QwenChat(Parser):
    dialect = "qwen-chat"
    protocol = default_provider = "qwen"
    SKIPS = frozenset({"empty", "unchanged", "system"})
    line = Lines("type")
    system = Lines("subtype", skip=_SKIPPED)
    state_type = QwenChatState
    state: QwenChatState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        if session := string(value.get("sessionId")):
            self.set_session(session)
        if value.get("isSidechain") is True:
            self.agent = string(value.get("agentId"))

    def _introduce(self, value: Line) -> None:
        if self.agent is None and self.state.started != self.session:
            self.state.cwd = string(value.get("cwd"))
            version, branch = string(value.get("version")), string(value.get("gitBranch")) or None
            self.begin_session(None, cwd=self.state.cwd, branch=branch, agent_version=version)

    @line("system")
    def _system(self, value: Line) -> Skip:
        return self.system.read(self, value)

    @system("chat_compression")
    def _compression(self, value: Line) -> None:
        self.notice("compaction", "history summed up")

    @system("custom_title", "session_title")
    def _title(self, value: Line) -> Skip:
        payload = record(value.get("systemPayload"))
        title = string(payload.get("customTitle")) or string(payload.get("title"))
        return "system" if title is None or self.agent is not None else self.update_session({"title": title})

    @system.otherwise
    def _other(self, value: Line) -> Skip:
        """Skip the program's own notes."""
        return "system" if isinstance(value.get("subtype"), str) else self.unparsed("unknown-type", value)

    # -- messages -----------------------------------------------------------------------------------------------

    @line("user", message=dict)
    def _user(self, value: Line) -> Skip:
        self._introduce(value)
        bodies = Bodies(self)
        parts = records(bodies.take(value["message"].get("parts")))
        text = "".join(text for part in parts if (text := string(part.get("text"))))
        if not text and bodies.attachments is None:
            return None if self.items else "empty"
        if self.turn is not None:
            self.give_up_turns()
        self.start_turn()
        self.emit(Message, role="user", text=text, message_id=string(value.get("uuid")), attachments=bodies.attachments)
        return None

    @line("assistant", message=dict)
    def _assistant(self, value: Line) -> Skip:
        self._introduce(value)
        if self.agent is None:
            self.uses_model(string(value.get("model")))
        parts, message_id = records(value["message"].get("parts")), string(value.get("uuid"))
        answers, calls = False, False
        for part in parts:
            if text := string(part.get("text")):
                is_thought = part.get("thought") is True
                answers |= not is_thought
                self.ensure_turn()
                self.emit_text("reasoning" if is_thought else "assistant", text, message_id=message_id)
            elif isinstance(part.get("functionCall"), dict):
                calls = True
                self._call(part["functionCall"])
        if usage := _tokens(record(value.get("usageMetadata"))):
            self.ensure_turn()
            self.emit(Usage, scope="step", **usage)
        if answers and not calls:
            self.end_turn("completed", ended_by="answer")
        return None if self.items else "empty"

    def _call(self, call: Line) -> Skip:
        call_id, name, given = call.get("id"), call.get("name"), call.get("args")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", call)
        self.ensure_turn()
        inner = record(given)
        if name == _PROXY and isinstance(inner.get("name"), str):
            name, given = inner["name"], inner.get("arguments")
        return self.calls.show(call_id, name, given, raw=call)

    @line("tool_result", message=dict)
    def _result(self, value: Line) -> Skip:
        bodies = Bodies(self)
        raw = record(bodies.take({"message": value["message"], "toolCallResult": value.get("toolCallResult")}))
        parts = records(record(raw.get("message")).get("parts"))
        outcomes: list[Skip] = [self._answer(part, raw, bodies) for part in parts if "functionResponse" in part]
        return outcomes[0] if outcomes else "empty"

    def _answer(self, part: Line, raw: Line, bodies: Bodies) -> Skip:
        response, result = record(part.get("functionResponse")), record(raw.get("toolCallResult"))
        call_id = response.get("id")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", part)
        self.ensure_turn()
        stated = record(response.get("response"))
        failed = "error" in stated or result.get("status") == "error"
        text = error_words(stated.get("error")) if "error" in stated else string(stated.get("output"))
        name = self.calls.name_of(call_id) or ""
        answer = read_qwen_answer(name, {"content": text or "", "is_error": failed})
        answer = answer.replace(attachments=bodies.attachments, model=text or "")
        diff = string(record(result.get("resultDisplay")).get("fileDiff"))
        if diff is not None:
            answer = answer.replace(display=Display(origin="provider", text=diff, mime_type="text/x-diff"))
        raw_name = string(response.get("name")) or UNKNOWN_TOOL
        return self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)


def _tokens(usage: Line) -> dict[str, Any]:
    """Usage of one request; the answer's tokens include its thoughts."""
    prompt, answer = whole(usage.get("promptTokenCount")), whole(usage.get("candidatesTokenCount"))
    if not prompt and not answer:
        return {}
    return {
        "input_tokens": prompt,
        "output_tokens": answer,
        "cache_read_tokens": whole(usage.get("cachedContentTokenCount")),
        "reasoning_tokens": whole(usage.get("thoughtsTokenCount")),
    }
