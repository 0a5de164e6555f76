"""Prompts that the user typed while Claude Code was working, as transcripts have them.

A prompt is queued (`enqueue`), and then comes as a user line (`dequeue`), goes back to the input box (`popAll`), or is
handed to the model within the turn (`remove`). Then 2.1.330 writes an attachment with it, and most versions before
write nothing: the queue has its only copy.
"""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.wire.values import milliseconds, string

QUEUED = 64
"""Maximum number of prompts that are remembered."""
_LONGEST = 65_536
"""Maximum length of a prompt that is remembered, in code points."""
_ABSORBED = (None, "absorbed_mid_turn")
"""Reasons of a removal that hands the prompt to the model; before 2.1.260 none is stated."""


class QueuedPrompt(msgspec.Struct):
    text: str
    ts: int | None = None
    """When it was handed to the model."""


class QueueState(msgspec.Struct):
    waiting: list[str] = []
    """Queued texts, oldest first."""
    handed: list[QueuedPrompt] = []
    """Prompts that were handed to the model, and whose line may follow."""


class Queue:
    def __init__(self, state: QueueState) -> None:
        self._state = state

    def read(self, value: Line) -> None:
        """Read a `queue-operation` line."""
        state, operation = self._state, value.get("operation")
        text = text_of(value.get("content"))
        if operation == "enqueue":
            state.waiting = [*state.waiting, text[:_LONGEST]][-QUEUED:]
        elif operation == "popAll":
            state.waiting = []
        elif operation in ("dequeue", "remove") and state.waiting:
            at = state.waiting.index(text) if text in state.waiting else 0
            taken = state.waiting.pop(at)
            if operation == "remove" and string(value.get("reason")) in _ABSORBED and taken.strip():
                prompt = QueuedPrompt(taken, milliseconds(value.get("timestamp")))
                state.handed = [*state.handed, prompt][-QUEUED:]

    def drop(self, text: str) -> None:
        """Forget a prompt that has a line of its own."""
        for prompt in self._state.handed:
            if prompt.text.strip() == text.strip():
                self._state.handed.remove(prompt)
                return

    def deliver(self) -> list[QueuedPrompt]:
        """Return the prompts that have no line of their own: the model goes on, and has them."""
        handed, self._state.handed = self._state.handed, []
        return handed
