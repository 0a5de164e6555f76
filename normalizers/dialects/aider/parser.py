"""The `aider-history` dialect: Aider's chat history, a Markdown file to which it appends."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenTurn, SessionState
from tooltap.normalizers.dialects.aider import START
from tooltap.normalizers.wire.values import milliseconds
from tooltap.protocol.inputs import Direction

BREAK = "  "
"""What ends each line that Aider writes of the user's words and of its own, and few lines of a model."""
PROMPT = "#### "
OUTPUT = "> "
_VERSION = "Aider v"
_MODEL = re.compile(r"(?:Main m|M)odel: (?P<model>[^ ]+)")
_APPLIED = "Applied edit to "
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_FENCES = ("```", "~~~", "<source>")


class Block(msgspec.Struct, omit_defaults=True):
    """A SEARCH/REPLACE block of an answer."""

    path: str
    old: str = ""
    new: str = ""
    part: str = "old"
    """`old` or `new`: the part that is being read; `whole` at its end."""


class AiderState(SessionState, kw_only=True):
    model: str | None = None
    first: str | None = None
    """When the first session of the file began, as digits."""
    latest: str = ""
    same: int = 0
    """How many earlier sessions began in the same second as the latest one."""
    answered: bool = False
    """Whether the model has answered since the last prompt. Aider applies its edits after that."""
    mode: str = ""
    """`prompt`, `answer`, `output` or `long` (an output of several lines): what the lines before belong to."""
    blank: str = ""
    """The blank lines since the last other line, each with a line feed."""
    output: str = ""
    """The lines of an output that is not complete, each with a line feed."""
    path: str = ""
    """The last line of the answer that may be the path of a block."""
    blocks: list[Block] = msgspec.field(default_factory=list)
    """The blocks of the answer, …"""
    kept: int = 0
    """… and how long they are together."""


class AiderHistory(Parser):
    """The `aider-history` dialect: `.aider.chat.history.md`.

    Learned from Aider 0.86. A session begins with a heading; its id is made of its time and that of the file's first
    session. `#### ` begins a line of the user's, `> ` one of Aider's own, both of which end in a break; all else is
    the model's. Which edits were applied is stated by Aider, and which blocks they were follows from the answer.
    """

    dialect = "aider-history"
    protocol = default_provider = "aider"
    STATES_TIMES = True
    SKIPS = frozenset({"partial"})
    state_type = AiderState
    state: AiderState

    def take_line(self, line: bytes, t: int | None, direction: Direction | None) -> Skip:
        """Read a line as text, also where it looks like JSON."""
        self._begin(t)
        self.direction = direction
        self.repaired = False
        start = self.ts
        skip = self.read_text(line)
        self._note_time(start, t)
        return None if self.items else skip

    def read_text(self, line: bytes) -> Skip:
        state = self.state
        begun = START.fullmatch(line.rstrip())
        text = line.decode("utf-8", "replace").removesuffix("\r")
        if begun is not None:
            self._begin_chat(begun[1].decode())
        elif not text.strip() and state.mode != "long":
            if len(state.blank) < self.context.limits.string_bytes:
                state.blank += f"{text}\n"
            return "blank"
        elif state.mode == "long":
            self._read_output(text)
        elif text.startswith(PROMPT) and text.endswith(BREAK) and (state.blank or state.mode != "answer"):
            self._read_prompt(text[len(PROMPT) : -len(BREAK)])
        elif text.startswith(OUTPUT) and (text.endswith(BREAK) or (state.mode == "output" and not state.blank)):
            self._end_text()
            self._read_output(text[len(OUTPUT) :])
        else:
            self._read_answer(text)
        state.blank = ""
        return "partial"

    def _begin_chat(self, time: str) -> None:
        state = self.state
        self._end_text()
        self.give_up_turns()
        state.mode = ""
        digits = "".join(filter(str.isdigit, time))
        state.first = state.first or digits
        state.same = state.same + 1 if digits == state.latest else 0
        state.latest = digits
        state.model, state.answered = None, False
        self.ts = milliseconds(time)
        self.begin_session(f"{state.first}-{digits}" + (f"-{state.same}" if state.same else ""))

    def _read_prompt(self, text: str) -> None:
        """Read a line of the user's. A command, which begins with `/` or `!`, is no turn of the model's."""
        state = self.state
        if state.mode != "prompt" or state.blank:
            self._end_text()
            self.give_up_turns()
            state.mode, state.answered = "prompt", False
            if not text.startswith(("/", "!")):
                self.start_turn()
            self.texts.append("user", text)
        else:
            self.texts.append("user", f"\n{text}")

    def _read_answer(self, text: str) -> None:
        state = self.state
        if state.mode != "answer":
            self._end_text()
            self.ensure_turn()
            state.mode, state.answered, state.path = "answer", True, ""
            self._forget_blocks()
            self.texts.append("assistant", text)
        else:
            self.texts.append("assistant", f"\n{state.blank}{text}")
        self._read_block(text)

    def _read_block(self, text: str) -> None:
        """Keep the blocks of an answer, as long as they are as short as a text in an event."""
        state = self.state
        block = state.blocks[-1] if state.blocks and state.blocks[-1].part != "whole" else None
        if block is None:
            if text == _SEARCH:
                state.blocks.append(Block(state.path))
                state.kept += len(state.path) + len(text)
            elif not text.startswith(_FENCES):
                state.path = text.strip()
        else:
            is_end = text == _REPLACE or (block.part, text) == ("old", _DIVIDER)
            lines = state.blank if is_end else f"{state.blank}{text}\n"
            if block.part == "old":
                block.old += lines
            else:
                block.new += lines
            state.kept += len(lines)
            if is_end:
                block.part = "new" if text == _DIVIDER else "whole"
        if state.kept > self.context.limits.string_bytes:
            self._forget_blocks()

    def _forget_blocks(self) -> None:
        self.state.blocks, self.state.kept = [], 0

    def _read_output(self, text: str) -> None:
        """Read a line of Aider's. One that does not end in a break goes on with the next line."""
        state = self.state
        state.output += f"{text.removesuffix(BREAK)}\n"
        state.mode = "output" if text.endswith(BREAK) else "long"
        if state.mode == "output" or len(state.output) > self.context.limits.string_bytes:
            self._end_output()

    def _end_output(self) -> None:
        text, self.state.output = self.state.output.removesuffix("\n"), ""
        if text.startswith(_VERSION):
            self.update_session({"agent_version": text.removeprefix(_VERSION)})
        elif model := _MODEL.match(text):
            self.uses_model(model["model"])
        elif text.startswith(_APPLIED):
            self._apply(text.removeprefix(_APPLIED))
        elif text:
            self.notice("output", text)

    def _apply(self, path: str) -> None:
        self.ensure_turn()
        blocks = [one for one in self.state.blocks if one.part == "whole" and one.path == path]
        edits = [{"old_string": one.old, "new_string": one.new} for one in blocks]
        name = "MultiEdit" if len(edits) > 1 else "Edit"
        given: dict[str, Any] = {"file_path": path, **({"edits": edits} if len(edits) > 1 else dict(*edits))}
        call_id = f"edit-{self.state.line}"
        self.calls.show(call_id, name, given, raw=given)
        self.calls.answer(call_id, Answer(None, "completed"), raw=f"{_APPLIED}{path}")

    def _end_text(self) -> None:
        self.texts.flush()
        if self.state.output:
            self._end_output()

    def seems_over(self, turn: OpenTurn) -> bool:
        return self.state.answered and not self.calls.is_open(turn.session, turn.id, turn.agent)

    def finish(self, reason: str) -> None:
        self._end_text()
        self.state.mode = ""
