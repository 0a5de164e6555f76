"""What the requests of each API repeat of their conversation, and what the answers add to it."""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import orjson

from tooltap.normalizers.dialects.anthropic import parser as anthropic
from tooltap.normalizers.dialects.geminiapi import parser as gemini
from tooltap.normalizers.dialects.openai.chat import PendingCall, collect, digest_of, text_of, uses_of
from tooltap.normalizers.dialects.openai.responses import call_of, is_answer, item_text
from tooltap.normalizers.tools.payload import decode_json, objects
from tooltap.normalizers.wire.values import record, string

Msg: TypeAlias = dict[str, Any]

MAX_ANSWER = 8 * 1024 * 1024
"""Longest text of an answer, in characters, for which a digest is computed."""

MAX_ARGUMENTS = 256 * 1024
"""Longest arguments of a call, in characters, that are examined for tasks."""
MAX_TEXTS = 32
"""Number of first texts of a conversation, or of a call, that are examined."""
MIN_TASK = 12
"""Shortest text of a call, in characters, that may be a subagent's task: others are no sign of one."""

MAX_IDS = 16
"""Ids of one answer: the last."""
MAX_BLOCKS = 1_024
"""Blocks of one answer whose input is collected: the first."""

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]+")
_INSTRUCTIONS = ("system", "developer")
_OF_CLAUDE = re.compile(r"user_[0-9a-f]{1,100}_account_[0-9a-f-]{0,100}_session_([0-9a-f-]{36})")
"""A user's id with the session, as Claude Code made it before it was an object (2.1)."""


class Item(NamedTuple):
    digest: int
    by_model: bool
    """True if the model wrote the item."""


class History(NamedTuple):
    """The conversation history in a request."""

    items: list[Item]
    continues: str | None = None
    """Id of the response that precedes the items (`previous_response_id`)."""
    prompts: tuple[int, ...] = ()
    """Digests of the user's texts."""
    session: str | None = None
    """The agent's session, if the request states it."""
    model: object = None
    """The requested model."""


class ModelAnswer(Protocol):
    """Collects the items of an answer, object by object."""

    ids: list[str]
    """Ids that a later request may use to continue the answer."""

    def read(self, value: Msg) -> None: ...

    def items(self) -> list[Item]: ...

    def tasks(self) -> dict[int, str]:
        """Digest of a text in the arguments of a call -> id of the call. If another conversation begins with such a
        text, it is the task of a subagent."""
        ...


def _texts_of(content: Any) -> list[str]:
    """The texts of a message, part by part: agents put their own words beside the user's."""
    return [text for part in (content if isinstance(content, list) else [content]) if (text := item_text(part))]


def _prompts(messages: list[Msg]) -> tuple[int, ...]:
    texts = [text for one in messages if one.get("role") == "user" for text in _texts_of(one.get("content"))]
    return tuple(_digest(text) for text in texts[:MAX_TEXTS])


def _tasks(calls: list[tuple[str | None, Any]]) -> dict[int, str]:
    tasks: dict[int, str] = {}
    for call_id, value in calls:
        given = list(value.values())[:MAX_TEXTS] if call_id and isinstance(value, dict) else []
        for text in given:
            if isinstance(text, str) and len(text) >= MIN_TASK:
                tasks[_digest(text)] = str(call_id)
    return tasks


def _digest(text: str) -> int:
    return hash(text.strip())


def chat_history(request: Msg) -> History:
    messages = [one for one in objects(request.get("messages")) if one.get("role") not in _INSTRUCTIONS]
    items = [Item(digest_of(one), one.get("role") == "assistant") for one in messages]
    return History(items, prompts=_prompts(messages), session=_session(request))


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
            collect(self._calls, use.raw, limit=MAX_ARGUMENTS)

    def tasks(self) -> dict[int, str]:
        return _tasks([(use.id, use.value) for use in (call.as_use() for call in self._calls)])


def responses_history(request: Msg) -> History:
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    continues = request.get("previous_response_id")
    continued = continues if isinstance(continues, str) else None
    return History(_known(items), continued, _prompts(items), _session(request))


def session_named(text: str) -> str | None:
    """Return the text if it has the form of an agent's session id."""
    return text if _SESSION.fullmatch(text) else None


def _session(request: Msg) -> str | None:
    """Return the session as stated by Codex (0.169), or by OpenCode as its cache key. Cache keys of other programs are
    ignored: they may be shared by many conversations."""
    stated = record(request.get("client_metadata")).get("session_id")
    if isinstance(stated, str) and stated:
        return stated
    key = request.get("prompt_cache_key")
    return session_named(key) if isinstance(key, str) else None


class ResponsesAnswer:
    """Collects a response, whole or as a stream of events."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._output: list[Msg] = []

    def read(self, value: Msg) -> None:
        response = value if value.get("object") == "response" else value.get("response")
        if isinstance(response, dict):
            if isinstance(response.get("id"), str) and response["id"] not in self.ids[-1:]:
                self.ids = [*self.ids[1 - MAX_IDS :], response["id"]]
            self._output = objects(response.get("output")) or self._output
        elif value.get("type") == "response.output_item.done" and isinstance(value.get("item"), dict):
            self._output.append(value["item"])

    def items(self) -> list[Item]:
        return _known(self._output)

    def tasks(self) -> dict[int, str]:
        calls = [call for item in self._output if (call := call_of(item)) is not None]
        return _tasks([(call.id, call.value) for call in calls])


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


# -- Anthropic's Messages ---------------------------------------------------------------------------------------------


def messages_history(request: Msg) -> History:
    messages = [one for one in objects(request.get("messages")) if one.get("role") not in _INSTRUCTIONS]
    items = [Item(anthropic.digest_of(one), one.get("role") == "assistant") for one in messages]
    said = [text for one in messages if one.get("role") == "user" for text in anthropic.texts_of(one)]
    return History(items, prompts=tuple(map(_digest, said[:MAX_TEXTS])), session=_session_of_claude(request))


def _session_of_claude(request: Msg) -> str | None:
    """Return the session that Claude Code states as a part of the user's id."""
    user = string(record(request.get("metadata")).get("user_id")) or ""
    if (found := _OF_CLAUDE.fullmatch(user)) is not None:
        return found[1]
    return session_named(string(record(decode_json(user)).get("session_id")) or "")


class MessagesAnswer:
    """Collects an answer, whole or as a stream of events."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._blocks: list[Msg] = []
        self._pieces: list[list[str]] = []
        """Of the text or the input of each block that arrives in deltas."""
        self._size = 0

    def read(self, value: Msg) -> None:
        if value.get("type") == "message":
            self._blocks = objects(value.get("content"))
            return
        if isinstance(block := value.get("content_block"), dict) and len(self._blocks) < MAX_BLOCKS:
            self._blocks.append(block)
            self._pieces.append([])
        delta = record(value.get("delta"))
        piece = string(delta.get("text")) or string(delta.get("partial_json"))
        if piece is not None and self._pieces:
            self._size += len(piece)
            if self._size <= MAX_ANSWER:
                self._pieces[-1].append(piece)

    def items(self) -> list[Item]:
        if not self._blocks or self._size > MAX_ANSWER:
            return []
        return [Item(anthropic.digest_of({"role": "assistant", "content": self._whole()}), True)]

    def tasks(self) -> dict[int, str]:
        return _tasks([(use.id, use.value) for use in anthropic.uses_of({"content": self._whole()})])

    def _whole(self) -> list[Msg]:
        """The blocks with what has arrived of them."""
        blocks = [dict(block) for block in self._blocks]
        for block, pieces in zip(blocks, self._pieces, strict=False):
            if pieces and block.get("type") == "text":
                block["text"] = "".join(pieces)
            elif pieces and "input" in block:
                block["input"] = decode_json("".join(pieces))
        return blocks


# -- the Gemini API ---------------------------------------------------------------------------------------------------


def gemini_history(request: Msg) -> History:
    """Code Assist has the request in an envelope."""
    inner = request if "contents" in request else record(request.get("request"))
    contents = objects(inner.get("contents"))
    items = [Item(gemini.digest_of(one), one.get("role") == "model") for one in contents]
    said = [text for one in contents if one.get("role") != "model" for text in gemini.texts_of(gemini.parts_of(one))]
    return History(items, prompts=tuple(map(_digest, said[:MAX_TEXTS])), session=string(inner.get("session_id")))


class GeminiAnswer:
    """Collects the first candidate of an answer, whole or in chunks."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._parts: list[Msg] = []
        self._size = 0

    def read(self, value: Msg) -> None:
        inner = value if "candidates" in value else record(value.get("response"))
        for candidate in objects(inner.get("candidates"))[:1]:
            for part in gemini.parts_of(record(candidate.get("content"))):
                text = part.get("text")
                self._size += len(text) if isinstance(text, str) else len(orjson.dumps(part))
                if self._size <= MAX_ANSWER:
                    self._parts.append(part)

    def items(self) -> list[Item]:
        if not self._parts or self._size > MAX_ANSWER:
            return []
        return [Item(gemini.digest_of({"role": "model", "parts": self._parts}), True)]

    def tasks(self) -> dict[int, str]:
        """None: the API gives calls no ids."""
        return {}
