"""Blocks of Claude's messages -> events: text, thinking, tool calls, their results, pictures.

Shared by the dialects that carry Anthropic messages, one line per message or per block of one. A message that is split
over lines goes on counting its blocks where it stopped, whatever stands between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.claude.answers import Answer, read_server_answer
from tooltap.normalizers.dialects.claude.deltas import Deltas
from tooltap.normalizers.dialects.claude.tasks import Tasks
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Attachment, Message, Reasoning

__all__ = ["BLOCK_SKIPS", "Blocks", "BlocksState"]

BLOCK_SKIPS = frozenset({"empty", "redacted-thinking", "repeated", "duplicate-result"})
"""Reasons for which a line of nothing but such blocks gives no event."""

MESSAGES = 1_024

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class SeenMessage(msgspec.Struct):
    turn: str | None
    blocks: int = 0


class BlocksState(msgspec.Struct):
    messages: dict[str, SeenMessage] = {}
    """The last messages, by id."""


class Blocks:
    def __init__(
        self,
        parser: Parser,
        deltas: Deltas,
        tasks: Tasks,
        *,
        called: Callable[[dict[str, Any]], tuple[str, Any]],
        answered: Callable[..., Answer],
    ) -> None:
        """`called` gives the name and the input of the tool that a block calls; `answered` is like `read_answer`."""
        self._parser = parser
        self._called = called
        self._answered = answered
        self._deltas = deltas
        self._tasks = tasks
        self._messages: dict[str, SeenMessage] = parser.state.blocks.messages

    def turn_of(self, message_id: str) -> str | None:
        """The turn in which a message began."""
        seen = self._messages.get(message_id)
        return seen.turn if seen is not None else None

    def knows(self, message_id: str) -> bool:
        """Whether a block of the message was seen before."""
        return message_id in self._messages

    # -- assistant lines ----------------------------------------------------------------------------------------

    def assistant(self, message: dict[str, Any], titles: dict[str, str]) -> str:
        """Emit the blocks of one `assistant` line; gives its class. `titles`: call id -> what users are shown."""
        message_id = string(message.get("id"))
        content = _blocks(message.get("content"))
        is_new = None if message_id is None else not self.knows(message_id)
        seen = self._seen(message_id)
        if len(content) == 1 and (index := self._deltas.claim(message_id)) is not None:
            seen.blocks = index
        classes = []
        for block in content:
            self._deltas.drop(message_id, seen.blocks)
            classes.append(self._assistant_block(block, message_id, seen.blocks, titles, is_new=is_new))
            seen.blocks += 1
        return _best_class(classes)

    def _seen(self, message_id: str | None) -> SeenMessage:
        if message_id is None:
            return SeenMessage(self._parser.turn)
        seen = self._messages.get(message_id)
        if seen is None:
            seen = self._messages[message_id] = SeenMessage(self._parser.turn)
            while len(self._messages) > MESSAGES:
                del self._messages[next(iter(self._messages))]
        return seen

    def _assistant_block(
        self, block: Any, message_id: str | None, index: int, titles: dict[str, str], *, is_new: bool | None
    ) -> str:
        kind = string(block.get("type")) or ""
        if kind == "text":
            return self._text(Message, block.get("text"), message_id, index, role="assistant")
        if kind == "thinking":
            return self._text(Reasoning, block.get("thinking"), message_id, index)
        if kind == "redacted_thinking":
            return skip("redacted-thinking")
        if kind in _CALLS and isinstance(block.get("id"), str):
            return self._call(block, titles, is_new=is_new)
        if kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str):
            return self._result(block, block, read_server_answer(block))
        return self._media(block, role="assistant", message_id=message_id, index=index)

    def _text(self, kind: Any, text: Any, message_id: str | None, index: int, **fields: Any) -> str:
        if not isinstance(text, str) or not text:
            return skip("empty")
        self._parser.emit(kind, text=text, message_id=message_id, block=index, **fields)
        return WITH_EVENTS

    def _call(self, block: dict[str, Any], titles: dict[str, str], *, is_new: bool | None) -> str:
        """`is_new`: of a message never seen; None where messages have no ids. Models behind Claude Code that are not
        Anthropic's use ids of calls again."""
        calls = self._parser.calls
        call_id = block["id"]
        title = titles.get(call_id)
        raw_name, given = self._called(block)
        call = calls.get(call_id)
        if call is not None:  # opened before by its permission request
            changed = calls.update(call, given, raw=block, title=title)
            return WITH_EVENTS if changed else skip("repeated")
        repeats = calls.repeats(call_id, raw_name, given) if is_new is None else not is_new and calls.is_done(call_id)
        if repeats:
            return skip("repeated")
        calls.open(call_id, raw_name, given, raw=block, title=title)
        return WITH_EVENTS

    # -- user lines ---------------------------------------------------------------------------------------------

    def user(
        self, message: dict[str, Any], twin: Any, metas: dict[str, dict[str, Any]], on_text: Callable[[str], str]
    ) -> str:
        """Emit the blocks of one `user` line; gives the line's class.

        `twin`: the structured result beside the message. `metas`: call id -> what the line says of its permission.
        `on_text`: what the dialect makes of a text, giving its class.
        """
        content = _blocks(message.get("content"))
        results = sum(block.get("type") == "tool_result" for block in content)
        classes = []
        for block in content:
            if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
                own_twin = twin if results == 1 else None
                classes.append(self._tool_result(block, own_twin, metas.get(block["tool_use_id"], {})))
            elif block.get("type") == "text" and isinstance(block.get("text"), str):
                classes.append(on_text(block["text"]) if block["text"] else skip("empty"))
            else:
                classes.append(self._media(block, role="user"))
        return _best_class(classes)

    def _tool_result(self, block: dict[str, Any], twin: Any, meta: dict[str, Any]) -> str:
        """`_raw` is the block, with the twin beside it under `tool_use_result`."""
        calls = self._parser.calls
        call = calls.get(block["tool_use_id"])
        name = calls.name_of(block["tool_use_id"]) or ""
        stopped = call is not None and call.memory.get("task") == "cancelled"
        raw = block if twin is None else {**block, "tool_use_result": twin}
        answer = self._answered(name, block, twin, meta, stopped=stopped)
        line_class = self._result(block, raw, answer)
        self._tasks.overhear(name, block, answer)
        return line_class

    def _result(self, block: dict[str, Any], raw: dict[str, Any], answer: Answer) -> str:
        bodies = Bodies(self._parser)
        raw = bodies.take(raw)
        return self._parser.calls.result(
            block["tool_use_id"],
            bodies.take(answer.value),
            raw=raw,
            status=answer.status,
            error=answer.error,
            duration_ms=answer.duration_ms,
            display=answer.display,
            attachments=bodies.attachments,
            is_async=answer.is_async,
        )

    def _media(
        self, block: dict[str, Any], *, role: str, message_id: str | None = None, index: int | None = None
    ) -> str:
        """A picture or document by itself; a block of any other type is `unparsed`."""
        bodies = Bodies(self._parser)
        if block.get("type") in ("image", "document"):
            bodies.take(block)
        attachments = bodies.attachments or _link(block)
        if attachments is None:
            return self._parser.unparsed("unknown-type", block)
        self._parser.emit(Message, role=role, text="", message_id=message_id, block=index, attachments=attachments)
        return WITH_EVENTS


def _link(block: dict[str, Any]) -> list[Attachment] | None:
    url = string(record(block.get("source")).get("url"))
    if url is None:
        return None
    mime_type = "image/*" if block.get("type") == "image" else "application/octet-stream"
    return [Attachment(mime_type=mime_type, uri=url)]


def _blocks(content: Any) -> list[dict[str, Any]]:
    """A message's blocks; a string is one block of text, and so is a string among blocks."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [item if isinstance(item, dict) else {"type": "text", "text": item} for item in items]


def _best_class(classes: list[str]) -> str:
    """The class of a line made of several blocks."""
    if WITH_EVENTS in classes:
        return WITH_EVENTS
    return next((one for one in classes if not one.startswith("skipped")), classes[0] if classes else skip("empty"))
