"""OpenCode's texts and thoughts: parts of messages that come whole, or grow until their end is stated.

A part is emitted once: when it is complete, or before, when the agent goes on to a tool; OpenCode states the end of
such a text only after the tool has run.
"""

from __future__ import annotations

import zlib
from typing import Any

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.opencode.state import MessageInfo, Msg, OpencodeState, PartInfo, keep_newest, text_of
from tooltap.normalizers.dialects.opencode.tools import attachments_of
from tooltap.protocol.events import Message, Reasoning

__all__ = ["TextParts"]


class TextParts:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: OpencodeState = parser.state

    def message(self, message_id: str) -> MessageInfo:
        messages = self._state.messages
        if message_id not in messages:
            messages[message_id] = MessageInfo()
            keep_newest(messages)
        return messages[message_id]

    def next_block(self, message_id: str | None) -> int | None:
        """The index of a new block of the message."""
        if message_id is None:
            return None
        message = self.message(message_id)
        message.blocks += 1
        return message.blocks - 1

    def whole(self, part: Msg, role: str) -> str:
        """A part that is complete."""
        text, message_id, part_id = part["text"], text_of(part, "messageID"), text_of(part, "id")
        if part_id is None:
            return self._emit(text, role, message_id, self.next_block(message_id))
        info = self._part(part_id, message_id)
        if info.done:
            return skip("repeated")
        info.done = True
        self._state.receiving.pop(part_id, None)
        still_open = self._parser.texts.drop(part_id)
        if info.told:
            goes_on = zlib.crc32(text[: info.told].encode()) == info.told_digest
            text = text[info.told :] if goes_on else ""
            if not text.strip():  # white space at the end comes and goes
                return skip("repeated")
        elif info.received and not still_open:
            return skip("repeated")
        return self._emit(text, role, message_id, info.block)

    def growing(self, part: Msg, role: str, *, has_end: bool) -> str:
        """A part as far as it has come. `has_end`: its end will be stated."""
        text, message_id, part_id = part["text"], text_of(part, "messageID"), text_of(part, "id") or ""
        info = self._part(part_id, message_id)
        if info.done:
            return skip("repeated")
        info.role = role
        new = text[info.received :]
        if not new:
            return skip("partial") if has_end else skip("repeated")
        self._receive(part_id, message_id, info, new, role, has_end)
        return skip("partial") if has_end else WITH_EVENTS

    def delta(self, part_id: str, message_id: str | None, text: str) -> str:
        """A piece of a part, whose beginning told what it is and may have been missed."""
        info = self._part(part_id, message_id)
        if info.done:
            return skip("repeated")
        self._receive(part_id, message_id, info, text, info.role, has_end=True)
        return skip("partial")

    def file(self, part: Msg, role: str) -> str:
        """A file that is part of a message, in whole or as a link."""
        part_id, message_id = text_of(part, "id"), text_of(part, "messageID")
        if part_id is not None:
            info = self._part(part_id, message_id)
            if info.done:
                return skip("repeated")
            info.done = True
        bodies = Bodies(self._parser)
        attachments = attachments_of([bodies.take(part)], bodies)
        self._parser.ensure_turn()
        self._parser.emit(Message, role=role, text="", message_id=message_id, attachments=attachments)
        return WITH_EVENTS

    def end_blocks(self) -> None:
        """The agent goes on to something else: what it said so far is complete."""
        receiving = self._state.receiving
        for part_id, agent in list(receiving.items()):
            if agent != self._parser.agent:
                continue
            del receiving[part_id]
            if (info := self._state.parts.get(part_id)) is not None:
                info.told, info.told_digest = info.received, info.digest
            self._parser.texts.flush(part_id, complete=True)

    def _part(self, part_id: str, message_id: str | None) -> PartInfo:
        parts = self._state.parts
        if part_id not in parts:
            parts[part_id] = PartInfo(block=self.next_block(message_id) or 0)
            keep_newest(parts)
        return parts[part_id]

    def _receive(
        self, part_id: str, message_id: str | None, info: PartInfo, text: str, role: str, has_end: bool
    ) -> None:
        self._parser.ensure_turn()
        receiving = self._state.receiving
        receiving[part_id] = self._parser.agent
        keep_newest(receiving, self._parser.context.limits.open_texts)
        info.received += len(text)
        info.digest = zlib.crc32(text.encode(), info.digest)
        self._parser.texts.append(role, text, message_id=message_id, block=info.block, key=part_id, preview=has_end)

    def _emit(self, text: str, role: str, message_id: str | None, block: int | None) -> str:
        if not text:
            return skip("empty")
        parser = self._parser
        parser.ensure_turn()
        fields: dict[str, Any] = {"text": text, "message_id": message_id, "block": block}
        if role == "reasoning":
            parser.emit(Reasoning, **fields)
        else:
            parser.emit(Message, role=role, **fields)
        return WITH_EVENTS
