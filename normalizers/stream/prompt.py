"""The prompt that the publisher of a stream knows, because it has started the agent with it: one message of the user.

Where the dialect's streams never show such a prompt (`Dialect.shows_prompts`), it follows the start of the first turn.
Elsewhere it is used only if the stream begins without it: if something else is said or done before.
"""

from __future__ import annotations

import zlib
from typing import Literal

import msgspec

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Item, Produced
from tooltap.normalizers.core.parser import Parser
from tooltap.protocol.events import Message

_BEFORE = frozenset({"session", "notice", "unparsed"})
"""Kinds of events that may come before the prompt."""


class GivenPrompt(msgspec.Struct, omit_defaults=True):
    stage: Literal["due", "said", "over"] = "due"
    """`said`: the stream may still show it itself."""
    digest: int = 0
    """CRC-32 of the prompt that was said."""

    def place(self, items: list[Item], parser: Parser, prompt: str | None, *, is_end: bool = False) -> list[Item]:
        """Put the prompt among the items of a line. `is_end`: of the end of the stream."""
        if prompt is None:
            self.stage = "over" if self.stage == "due" else self.stage
        shown = builtin()[parser.dialect].shows_prompts if parser.dialect in builtin() else True
        for at, item in enumerate(items):
            if not isinstance(item, Produced) or item.partial or item.replay or item.kind in _BEFORE:
                continue
            is_start = item.kind == "turn" and item.fields.state == "started"
            if item.kind == "message" and item.fields.role == "user" and item.agent is None:
                return self._stated(items, at, item.fields.text)
            if self.stage == "said" and not is_start:
                self.stage = "over"
                return items
            if self.stage == "due" and prompt is not None and (not is_start or not shown):
                return self._say(items, at + is_start, parser, prompt, item)
        if self.stage == "due" and prompt is not None and is_end:
            return self._say(items, len(items), parser, prompt, None)
        return items

    def _stated(self, items: list[Item], at: int, text: str) -> list[Item]:
        """The stream shows a prompt: not again the one that was said."""
        repeats = self.stage == "said" and zlib.crc32(text.encode()) == self.digest
        self.stage = "over"
        return items[:at] + items[at + 1 :] if repeats else items

    def _say(self, items: list[Item], at: int, parser: Parser, prompt: str, beside: Produced | None) -> list[Item]:
        if any(_is_prompt(item) for item in items[at:]):
            self.stage = "over"
            return items
        self.stage, self.digest = "said", zlib.crc32(prompt.encode())
        place = {} if beside is None else {"session": beside.session, "turn": beside.turn, "ts": beside.ts}
        before = len(parser.items)
        parser.emit(Message, role="user", text=prompt, agent=None, parent=None, replay=False, **place)
        said = parser.items[before:]
        del parser.items[before:]
        return [*items[:at], *said, *items[at:]]


def _is_prompt(item: Item) -> bool:
    if not isinstance(item, Produced) or item.partial:  # whoever asks for partials gets the same events
        return False
    return item.kind == "message" and item.fields.role == "user" and item.agent is None
