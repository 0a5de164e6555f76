"""The API's own stream, which Claude Code prints with `--include-partial-messages`: messages in deltas.

Every block comes whole in a later `assistant` line, which replaces its deltas. A text that never comes whole is emitted
from its deltas when its turn ends, unless the agent asked the model again.
"""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import put
from tooltap.normalizers.wire.values import record, string, whole

STREAMED = 64
"""Agents whose current message is followed."""

_ROLES = {"text": "assistant", "thinking": "reasoning"}
"""Type of a block whose deltas are emitted -> role."""
_DELTAS = {f"{kind}_delta": kind for kind in _ROLES}
"""Type of a delta of such a block -> type of the block, and key of the text."""


class StreamedMessage(msgspec.Struct):
    """The message whose deltas an agent is printing."""

    message_id: str | None = None
    block: int | None = None
    """Index of the block that has started and not stopped."""
    whole: bool = False
    """The whole message was printed, so that leftover deltas are not from an attempt that broke off."""


class DeltasState(msgspec.Struct):
    messages: dict[str, StreamedMessage] = {}
    """By agent; empty for the main agent."""


class Deltas:
    """Receives the deltas of messages, and drops those of blocks that came whole."""

    def __init__(self, parser: Parser, state: DeltasState) -> None:
        self._parser = parser
        self._texts = parser.texts
        self._state = state

    @property
    def current(self) -> StreamedMessage:
        """The message being streamed; a new one if the stream was tapped in the middle of a message."""
        return self._state.messages.get(self._parser.agent or "") or self._start(None)

    def read(self, event: Line, line: Line) -> Skip:
        """Read the event of a line."""
        kind, index = event.get("type"), whole(event.get("index"))
        if kind == "content_block_delta" and index is not None:
            delta = event.get("delta")
            if type(delta) is dict and (field := _DELTAS.get(str(delta.get("type")))) is not None:
                self._append(delta, field, index)
        elif kind == "content_block_start" and index is not None:
            self.current.block = index
            block = record(event.get("content_block"))
            field = str(block.get("type"))
            if field in _ROLES:
                self._append(block, field, index)
        elif kind == "content_block_stop":
            self.current.block = None
        elif kind == "message_start":
            self._abandon()
            self._start(string(record(event.get("message")).get("id")))
        elif kind == "message_delta":
            if record(event.get("delta")).get("stop_reason") == "tool_use":
                self._parser.goes_on()
        elif kind == "message_stop":
            self.current.whole = True
        elif kind == "error":
            error = record(event.get("error"))
            text = str(error.get("message") or error.get("type") or "error")
            self._parser.notice("provider-error", text, "error", error or None)
            return None
        elif kind != "ping":
            return self._parser.unparsed("unknown-type", line)
        return "partial"

    def claim(self, message_id: str | None) -> int | None:
        """Return the index of the block being streamed, if it is one of this message: it now came whole."""
        current = self._state.messages.get(self._parser.agent or "")
        if current is None or current.block is None or current.message_id not in (None, message_id):
            return None
        index, current.block = current.block, None
        self.drop(current.message_id, index)
        return index

    def drop(self, message_id: str | None, index: int) -> None:
        """Forget the deltas of a block, which came whole."""
        self._texts.drop(_key(message_id, index))

    def replace(self, message: Line) -> None:
        """Abandon the message being streamed where another comes whole: the agent asked again without streaming."""
        current = self._state.messages.get(self._parser.agent or "")
        if current is None or current.block is None or message.get("model") == "<synthetic>":
            return
        ids = message.get("id"), current.message_id
        if None not in ids and ids[0] != ids[1]:
            self._abandon()

    def _abandon(self) -> None:
        """Drop what came of a message that broke off: the agent asked the model again, and this is the answer."""
        parser = self._parser
        current = self._state.messages.get(parser.agent or "")
        if current is None or current.whole:
            return
        place = parser.session, parser.agent, current.message_id
        for text in list(parser.state.texts.open.values()):
            if (text.session, text.agent, text.message_id) == place and text.block is not None:
                self.drop(text.message_id, text.block)

    def _start(self, message_id: str | None) -> StreamedMessage:
        messages, agent = self._state.messages, self._parser.agent or ""
        messages.pop(agent, None)
        put(messages, agent, StreamedMessage(message_id), STREAMED)
        return messages[agent]

    def _append(self, part: Line, kind: str, index: int) -> None:
        """Append the text of a block of this kind."""
        text = string(part.get(kind))
        if text:
            message_id = self.current.message_id
            key = _key(message_id, index)
            self._texts.append(_ROLES[kind], text, message_id=message_id, block=index, key=key, preview=True)


def _key(message_id: str | None, index: int) -> str:
    return f"{message_id or ''}/{index}"
