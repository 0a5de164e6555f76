"""Claude's `stream_event` lines: the API's own stream of a message, emitted as partial events.

Every block comes whole in a later `assistant` line, which replaces its deltas (`claim`). A text that never comes whole
is emitted from its deltas when its turn ends.
"""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.bounded import keep_newest
from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.wire.values import record, string, whole

__all__ = ["Deltas", "DeltasState"]

MESSAGES = 64
"""Agents whose current message is followed."""

_ROLES = {"text": "assistant", "thinking": "reasoning"}


class StreamedMessage(msgspec.Struct):
    """The message an agent is streaming."""

    message_id: str | None = None
    block: int | None = None
    """Index of the block that has started and not stopped."""


class DeltasState(msgspec.Struct):
    messages: dict[str, StreamedMessage] = {}
    """By agent; empty for the main agent."""


class Deltas:
    lines = Lines("type")

    def __init__(self, emitter: Emitter, state: DeltasState) -> None:
        self._emitter = emitter
        self._messages = state.messages

    @lines("stream_event")
    def read(self, value: Line) -> Skip:
        event = record(value.get("event"))
        index = whole(event.get("index"))
        match event.get("type"):
            case "message_start":
                self._start(string(record(event.get("message")).get("id")))
            case "content_block_start" if index is not None:
                self._current().block = index
                block = record(event.get("content_block"))
                self._append(block, str(block.get("type")), index)
            case "content_block_delta" if index is not None:
                delta = record(event.get("delta"))
                kind, _, suffix = str(delta.get("type")).partition("_")
                self._append(delta, kind if suffix == "delta" else "", index)
            case "content_block_stop":
                self._current().block = None
            case "message_delta" | "message_stop" | "ping":
                pass
            case "error":
                error = record(event.get("error"))
                text = str(error.get("message") or error.get("type") or "error")
                self._emitter.notice("provider-error", text, "error", error or None)
                return None
            case _:
                return self._emitter.unparsed("unknown-type", value)
        return "partial"

    def claim(self, message_id: str | None) -> int | None:
        """Return the index of the block being streamed, if it is one of this message: it now came whole."""
        current = self._messages.get(self._emitter.agent or "")
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
        self._emitter.texts.drop(_key(message_id, index))

    def _start(self, message_id: str | None) -> None:
        agent = self._emitter.agent or ""
        self._messages.pop(agent, None)
        self._messages[agent] = StreamedMessage(message_id)
        keep_newest(self._messages, MESSAGES)

    def _current(self) -> StreamedMessage:
        agent = self._emitter.agent or ""
        if agent not in self._messages:  # the stream was tapped in the middle of a message
            self._start(None)
        return self._messages[agent]

    def _append(self, part: Line, kind: str, index: int) -> None:
        text = string(part.get(kind))
        if kind in _ROLES and text:
            message_id = self._current().message_id
            key = _key(message_id, index)
            self._emitter.texts.append(_ROLES[kind], text, message_id=message_id, block=index, key=key, preview=True)


def _key(message_id: str | None, index: int) -> str:
    return f"{message_id or ''}/{index}"
