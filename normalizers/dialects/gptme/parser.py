"""Parser of gptme's conversations, and of the texts in which its model calls tools and its tools answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import between, milliseconds, record, string, token_counts
from tooltap.protocol.events import Message, Usage

_VERSION = "You are gptme v", ","
_FOLDER = "**Working Directory:** "
_BRANCH = "**Branch:** `", "`"
_OWN = "<system>", "</system>"
"""What encloses a text that gptme says in the user's place."""


class GptmeState(SessionState, kw_only=True):
    model: str | None = None


class GptmeLog(Parser):
    """The `gptme-log` dialect: the messages of a conversation.

    Learned from gptme 0.35. A call is a line in the text of an answer, `@tool(id): {arguments}`; its result is a
    message of the system with that id. Hidden messages at the beginning tell the model where it is.
    """

    dialect = "gptme-log"
    protocol = default_provider = "gptme"
    STATES_TIMES = True
    SKIPS = frozenset({"prompt-context", "unchanged"})
    line = Lines("role")
    state_type = GptmeState
    state: GptmeState

    def enter(self, value: Line) -> None:
        self.ts = milliseconds(value.get("timestamp")) or self.ts

    @line("system", content=str)
    def _system(self, value: Line) -> Skip:
        text, call_id = value["content"], string(value.get("call_id"))
        if call_id is not None:
            self.ensure_turn()
            name = string(record(value.get("metadata")).get("tool")) or "unknown"
            answer = Answer(_output(self.calls.tool_of(call_id, name), text), model=text)
            return self.calls.answer(call_id, answer, raw=value, raw_name=name)
        if value.get("hide") is True:
            return self._read_context(text)
        self.emit_text("system", text)
        return None

    def _read_context(self, text: str) -> Skip:
        """Read what the agent tells the model of itself and of its surroundings."""
        if self.state.started is None:
            self.begin_session(None, agent_version=between(text, *_VERSION))
            return None
        folder = between(f"{text}\n", _FOLDER, "\n")
        self.state.cwd = folder or self.state.cwd
        branch = between(text, *_BRANCH)
        changes = {"cwd": folder, "branch": branch}
        skip = self.update_session({key: fact for key, fact in changes.items() if fact})
        return skip and "prompt-context"

    @line("user", content=str)
    def _user(self, value: Line) -> Skip:
        text = value["content"]
        if text.startswith(_OWN[0]) and text.endswith(_OWN[1]):
            self.notice("reminder", text.removeprefix(_OWN[0]).removesuffix(_OWN[1]))
            return None
        self.give_up_turns()
        self.start_turn()
        self.emit(Message, role="user", text=text)
        return None

    @line("assistant", content=str)
    def _assistant(self, value: Line) -> Skip:
        metadata = record(value.get("metadata"))
        self.ensure_turn()
        self.uses_model(string(metadata.get("model")))
        text, calls = _split(value["content"])
        if text:
            self.emit_text("assistant", text)
        for index, call in enumerate(calls):
            self.calls.show(call.id, call.tool, call.given, raw={"content": value["content"]}, place=(None, index))
        usage = record(metadata.get("usage"))
        if usage:
            prompt, output, cached = map(usage.get, ("input_tokens", "output_tokens", "cache_read_tokens"))
            counts = token_counts(prompt, output, cached, reasoning=usage.get("reasoning_tokens"), apart=True)
            self.emit(Usage, scope="step", **counts)
        return None if self.items else "unchanged"


class _Call(NamedTuple):
    id: str
    tool: str
    given: dict[str, Any]


def _split(content: str) -> tuple[str, list[_Call]]:
    """Split an answer into (what it says, the calls in it)."""
    said: list[str] = []
    calls: list[_Call] = []
    for line in content.split("\n"):
        head, _, arguments = line.partition("): ")
        tool, _, call_id = head.removeprefix("@").partition("(")
        given = decode_json(arguments) if line.startswith("@") and tool and call_id else None
        if isinstance(given, dict):
            calls.append(_Call(call_id, tool, given))
        else:
            said.append(line)
    return "\n".join(said).strip(), calls


def _output(name: str, text: str) -> Any:
    """The output of a command is in a fence of the result's text."""
    printed = between(text, "```stdout\n", "\n```") if name == "Bash" else None
    return text if printed is None else {"stdout": printed}
