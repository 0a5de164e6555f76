"""The items of a conversation, as digests: read from requests to OpenAI-compatible servers and from their answers.

A client does not repeat an answer in later requests exactly as it got it: ids, annotations, reasoning and instructions
come and go. A digest contains only what every client preserves: the role, the text, and the ids of calls.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from tooltap.normalizers.dialects.openai.chat import PendingCall, collect, digest_of, text_of, uses_of
from tooltap.normalizers.dialects.openai.responses import call_of, is_answer, item_text
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.values import record

__all__ = ["ModelAnswer", "ChatAnswer", "History", "Item", "ResponsesAnswer", "chat_history", "responses_history"]

Msg: TypeAlias = dict[str, Any]

MAX_ANSWER = 8 * 1024 * 1024
"""Longest text of an answer, in characters, that has a digest."""

MAX_ARGUMENTS = 256 * 1024
"""Longest arguments of a call, in characters, that are looked at."""
MAX_TEXTS = 32
"""Texts of a conversation, or of a call, that are looked at: the first."""
MIN_TASK = 12
"""Shortest text of a call, in characters, that may be a subagent's task: others are no sign of one."""

MAX_IDS = 16
"""Ids of one answer: the last."""

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]+")
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
    prompts: tuple[int, ...] = ()
    """Digests of the user's texts."""
    session: str | None = None
    """The agent's session, as far as the request says it."""
    model: object = None
    """The model that is asked."""


class ModelAnswer(Protocol):
    """Collects the items of an answer, object by object."""

    ids: list[str]
    """Ids that a later request may use to continue the answer."""

    def read(self, value: Msg) -> None: ...

    def items(self) -> list[Item]: ...

    def tasks(self) -> dict[int, str]:
        """Digests of the texts that calls were given -> id of the call. One that another conversation begins with is
        the task of a subagent."""
        ...


def _texts_of(content: Any) -> list[str]:
    """The texts of a message, part by part: agents put words of their own beside the user's."""
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


def _session(request: Msg) -> str | None:
    """Return the session that Codex (0.169) names, and OpenCode as the key of its cache. Other programs choose any key,
    the same for many conversations."""
    stated = record(request.get("client_metadata")).get("session_id")
    if isinstance(stated, str) and stated:
        return stated
    key = request.get("prompt_cache_key")
    return key if isinstance(key, str) and _SESSION.fullmatch(key) else None


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
