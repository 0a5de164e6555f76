"""Claude's `stream_event` lines: the API's own stream of a message, given as previews.

Every block comes whole in a later `assistant` line, which takes the place of its deltas (`claim`). Text whose whole
form never comes is emitted when its turn ends, from the deltas.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Notice

__all__ = ["Deltas", "DeltasState"]

MESSAGES = 64
"""Agents whose current message is followed."""

_TEXTS = {"text_delta": ("assistant", "text"), "thinking_delta": ("reasoning", "thinking")}
_BLOCKS = {"text": ("assistant", "text"), "thinking": ("reasoning", "thinking")}


class StreamedMessage(msgspec.Struct):
    """The message an agent is streaming."""

    message_id: str | None = None
    block: int | None = None
    """Index of the block that has started and not stopped."""


class DeltasState(msgspec.Struct):
    messages: dict[str, StreamedMessage] = {}
    """By agent; empty for the main agent."""


class Deltas:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._messages: dict[str, StreamedMessage] = parser.state.deltas.messages

    def read(self, event: dict[str, Any]) -> str | None:
        """Read one event; gives the line's class, None for an event that is not known."""
        index = whole(event.get("index"))
        match event.get("type"):
            case "message_start":
                self._start(string(record(event.get("message")).get("id")))
            case "content_block_start" if index is not None:
                self._current().block = index
                self._append(_BLOCKS, record(event.get("content_block")), index)
            case "content_block_delta" if index is not None:
                self._append(_TEXTS, record(event.get("delta")), index)
            case "content_block_stop":
                self._current().block = None
            case "message_delta" | "message_stop" | "ping":
                pass
            case "error":
                self._error(record(event.get("error")))
                return WITH_EVENTS
            case _:
                return None
        return skip("partial")

    def claim(self, message_id: str | None) -> int | None:
        """Index of the block being streamed, if it is one of this message: its whole form has come."""
        current = self._messages.get(self._parser.agent or "")
        if current is None or current.block is None or current.message_id not in (None, message_id):
            return None
        index, current.block = current.block, None
        self.drop(current.message_id, index)
        return index

    def drop_blocks(self, count: int) -> None:
        """Forget the first blocks of the message being streamed: they came whole, under whatever message id."""
        for index in range(count):
            self.drop(self._current().message_id, index)

    def drop(self, message_id: str | None, index: int) -> None:
        """Forget the deltas of a block."""
        self._parser.texts.drop(_key(message_id, index))

    def _start(self, message_id: str | None) -> None:
        agent = self._parser.agent or ""
        self._messages.pop(agent, None)
        self._messages[agent] = StreamedMessage(message_id)
        while len(self._messages) > MESSAGES:
            del self._messages[next(iter(self._messages))]

    def _current(self) -> StreamedMessage:
        if (self._parser.agent or "") not in self._messages:  # the stream was tapped in the middle of a message
            self._start(None)
        return self._messages[self._parser.agent or ""]

    def _append(self, kinds: dict[str, tuple[str, str]], part: dict[str, Any], index: int) -> None:
        role, key = kinds.get(str(part.get("type")), ("", ""))
        text = string(part.get(key))
        if not text:
            return
        message_id = self._current().message_id
        self._parser.texts.append(
            role, text, message_id=message_id, block=index, key=_key(message_id, index), preview=True
        )

    def _error(self, error: dict[str, Any]) -> None:
        text = str(error.get("message") or error.get("type") or "error")
        self._parser.emit(Notice, level="error", code="provider-error", text=text, data=error or None)


def _key(message_id: str | None, index: int) -> str:
    return f"{message_id or ''}/{index}"
