"""The items of a conversation, as digests: read from requests to OpenAI-compatible servers and from their answers.

A client does not repeat an answer in later requests exactly as it got it: ids, annotations, reasoning and instructions
come and go. A digest contains only what every client preserves: the role, the text, and the ids of calls.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from tooltap.normalizers.dialects.openai.messages import PendingCall, collect, digest_of, text_of, uses_of
from tooltap.normalizers.dialects.openai.responses_items import is_answer, item_text
from tooltap.normalizers.tools.payload import objects

__all__ = ["ModelAnswer", "ChatAnswer", "History", "Item", "ResponsesAnswer", "chat_history", "responses_history"]

Msg: TypeAlias = dict[str, Any]

MAX_ANSWER = 8 * 1024 * 1024
"""Longest text of an answer, in characters, that has a digest."""

_INSTRUCTIONS = ("system", "developer")


class Item(NamedTuple):
    digest: int
    by_model: bool
    """Whether the model wrote it."""


class History(NamedTuple):
    """What a request repeats of its conversation."""

    items: list[Item]
    continues: str | None = None
    """Id of the response that precedes the items (`previous_response_id`)."""


class ModelAnswer(Protocol):
    """Collects the items of an answer, object by object."""

    ids: list[str]
    """Ids that a later request may use to continue the answer."""

    def read(self, value: Msg) -> None: ...

    def items(self) -> list[Item]: ...


def chat_history(request: Msg) -> History:
    messages = [one for one in objects(request.get("messages")) if one.get("role") not in _INSTRUCTIONS]
    return History([Item(digest_of(one), one.get("role") == "assistant") for one in messages])


class ChatAnswer:
    """Collects the first choice of a completion, whole or streamed."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._texts: list[str] = []
        self._size = 0
        self._calls: list[PendingCall] = []

    def read(self, value: Msg) -> None:
        for choice in objects(value.get("choices")):
            if choice.get("index") in (None, 0):
                for key in ("message", "delta"):
                    if isinstance(choice.get(key), dict):
                        self._add(choice[key])

    def items(self) -> list[Item]:
        calls = [call.as_use().raw for call in self._calls]
        if not (self._texts or calls) or self._size > MAX_ANSWER:
            return []
        return [Item(digest_of({"role": "assistant", "content": "".join(self._texts), "tool_calls": calls}), True)]

    def _add(self, message: Msg) -> None:
        text = text_of(message)
        self._size += len(text)
        if text and self._size <= MAX_ANSWER:
            self._texts.append(text)
        for use in uses_of(message):
            collect(self._calls, use.raw, limit=0)


def responses_history(request: Msg) -> History:
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    continues = request.get("previous_response_id")
    return History(_known(items), continues if isinstance(continues, str) else None)


class ResponsesAnswer:
    """Collects a response, whole or as a stream of events."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._output: list[Msg] = []

    def read(self, value: Msg) -> None:
        response = value if value.get("object") == "response" else value.get("response")
        if isinstance(response, dict):
            if isinstance(response.get("id"), str) and response["id"] not in self.ids:
                self.ids.append(response["id"])
            self._output = objects(response.get("output")) or self._output
        elif value.get("type") == "response.output_item.done" and isinstance(value.get("item"), dict):
            self._output.append(value["item"])

    def items(self) -> list[Item]:
        return _known(self._output)


def _known(items: list[Msg]) -> list[Item]:
    return [item for one in items if (item := _item(one)) is not None]


def _item(item: Msg) -> Item | None:
    kind, role = item.get("type") or "message", item.get("role")
    if kind == "reasoning" or role in _INSTRUCTIONS:
        return None
    stable: list[Any] = [kind, role]
    if kind == "message":
        content = item.get("content")
        stable += [item_text(part) for part in (content if isinstance(content, list) else [content])]
        by_model = role == "assistant"
    else:
        stable += [item.get("call_id") or item.get("id") or item.get("approval_request_id"), item.get("name")]
        by_model = not is_answer(item) and kind != "mcp_approval_response"
    return Item(zlib.crc32(msgspec.json.encode(stable)), by_model)
