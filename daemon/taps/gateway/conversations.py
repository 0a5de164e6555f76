"""Reconstructs conversations from exchanges with a server for language models; each becomes a stream.

The API is stateless: every request repeats the whole history. The parser of a stream emits only what it has not seen
before. So a parser must get all exchanges of one conversation in order, and no others. This module finds the
conversation of a request.

Each prefix of a history has a key, the hash of its items (`_keys`). A conversation is registered under the key of its
last request, and under the key of that request followed by the answer. A request with `previous_response_id` repeats
nothing; it is found by the id of the answer that it continues.

A new request belongs to the conversation that is registered under its longest prefix, if

- the prefix contains an item by the model: two conversations rarely have the same answer; or
- the next item of the request is by the model: the client repeats the answer in a changed or truncated form; or
- the model has not answered completely in this conversation yet: the request is a retry.

Otherwise it only begins with the same words ("hello") and starts a new conversation. So does a request to a
conversation that still waits for an answer: exchanges in one stream must not overlap.

A new conversation is a subagent's if one of its user texts equals an argument of a call in the last answer of another
conversation. Its events then belong to the session of that conversation, under the call.

Items are compared by digest, because clients do not repeat an answer in later requests exactly as they got it: ids,
annotations, reasoning and instructions come and go. A digest contains only what every client preserves: the role, the
text, and the ids of calls.

Conversations are closed when they are idle, or when too many are open. A later request starts a new one, whose parser
sees the whole history again.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeAlias

import httpx
import msgspec

from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.dialects.openai.chat import PendingCall, collect, digest_of, text_of, uses_of
from tooltap.normalizers.dialects.openai.responses import call_of, is_answer, item_text
from tooltap.normalizers.tools.payload import objects
from tooltap.normalizers.wire.values import record

KEYS = 64
"""Most keys of one conversation; the oldest are forgotten."""
CLOSERS = 8
"""Most streams that are being ended at the same time."""

_log = get_logger("gateway")


class Place(NamedTuple):
    """Where the events of a new conversation belong."""

    stream: str
    session: str | None = None
    """Session of the agent, if known; for a subagent, the session of its parent conversation."""
    call: str | None = None
    """Id of the call that spawned the subagent."""
    model: object = None
    """Model of the first request."""


class Conversation:
    def __init__(self, dialect: str, tap: Tap, place: Place) -> None:
        self.dialect = dialect
        self.tap = tap
        self.place = place
        self.tasks: dict[int, str] = {}
        """Digest of a text in the arguments of a call in the last answer -> id of the call."""
        self.busy = True
        self.answered = False
        """True if the model has ever answered completely."""
        self.used = time.monotonic()
        self.last_key: int | None = None
        """Key of the last request's history; None if it continued a response by id."""
        self.keys: deque[int | str] = deque()
        """The keys and response ids under which it is registered."""


class Conversations:
    """The open conversations. `begin` returns a tap for a new stream of a dialect. `most`: limit of open conversations,
    not counting those that wait for an answer; the least recently used are closed first."""

    def __init__(self, begin: Callable[[str, Place], Tap], most: int) -> None:
        self._begin = begin
        self._most = most
        self._open: dict[Conversation, None] = {}
        """Open conversations, least recently used first."""
        self._by_key: dict[int | str, Conversation] = {}
        self._closers = ThreadPoolExecutor(CLOSERS, thread_name_prefix="closer")

    def enter(self, dialect: str, history: History) -> Conversation:
        """Return the conversation of a request, found or new. It is busy until `leave`."""
        keys = _keys(dialect, history.items)
        conversation = self._find(history, keys)
        if conversation is None or conversation.busy:
            place = self._place(history)
            conversation = Conversation(dialect, self._begin(dialect, place), place)
        self._use(conversation)
        conversation.busy = True
        conversation.last_key = keys[-1] if keys and history.continues is None else None
        if conversation.last_key is not None:
            self._remember(conversation, conversation.last_key)
        self._close_beyond_most()
        return conversation

    def rejoin(self, response_id: str) -> Conversation | None:
        """Return the conversation that has a response, busy until `leave`; None if none has it, or if it is busy."""
        conversation = self._by_key.get(response_id)
        if conversation is None or conversation.busy:
            return None
        self._use(conversation)
        conversation.busy = True
        return conversation

    def leave(self, conversation: Conversation, answer: ModelAnswer, *, complete: bool) -> None:
        """Register the answer to the last request, `complete` or not. The conversation is no longer busy."""
        items = answer.items()
        conversation.answered |= complete and bool(items or answer.ids)
        conversation.tasks = answer.tasks()
        if items and conversation.last_key is not None:
            self._remember(conversation, _keys(conversation.last_key, items)[-1])
        for response_id in answer.ids:
            self._remember(conversation, response_id)
        conversation.busy = False
        self._use(conversation)
        self._close_beyond_most()

    def close_idle(self, seconds: float) -> None:
        """Close the conversations that have not been used for this time."""
        before = time.monotonic() - seconds
        for conversation in [one for one in self._open if not one.busy and one.used < before]:
            self._close(conversation)

    def close(self) -> None:
        """Close all conversations, and wait until their lines are delivered or in the spool."""
        for conversation in list(self._open):
            self._close(conversation)
        self._closers.shutdown()

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""
        return next((problem for one in tuple(self._open) if (problem := one.tap.problem) is not None), None)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _find(self, history: History, keys: list[int]) -> Conversation | None:
        if history.continues is not None:
            return self._by_key.get(history.continues)
        count = next((count for count in range(len(keys), 0, -1) if keys[count - 1] in self._by_key), 0)
        if not count:
            return None
        conversation, items = self._by_key[keys[count - 1]], history.items
        repeats_model = any(item.by_model for item in items[:count])
        repeats_model_differently = count < len(items) and items[count].by_model
        continues = repeats_model or repeats_model_differently or not conversation.answered
        return conversation if continues else None

    def _place(self, history: History) -> Place:
        stream = f"gateway-{secrets.token_hex(8)}"
        for prompt in history.prompts:
            for other in reversed(self._open):
                if (call := other.tasks.get(prompt)) is not None:
                    return Place(stream, other.place.session or other.place.stream, call, history.model)
        return Place(stream, history.session, model=history.model)

    def _use(self, conversation: Conversation) -> None:
        conversation.used = time.monotonic()
        self._open.pop(conversation, None)
        self._open[conversation] = None

    def _remember(self, conversation: Conversation, key: int | str) -> None:
        if self._by_key.get(key) is conversation:
            return
        self._by_key[key] = conversation
        conversation.keys.append(key)
        if len(conversation.keys) > KEYS:
            self._forget(conversation, conversation.keys.popleft())

    def _forget(self, conversation: Conversation, key: int | str) -> None:
        if self._by_key.get(key) is conversation:
            del self._by_key[key]

    def _close_beyond_most(self) -> None:
        if (beyond := len(self._open) - self._most) > 0:
            for conversation in [one for one in self._open if not one.busy][:beyond]:
                self._close(conversation)

    def _close(self, conversation: Conversation) -> None:
        del self._open[conversation]
        for key in conversation.keys:
            self._forget(conversation, key)
        self._closers.submit(_finish, conversation.tap)


def _keys(before: object, items: list[Item]) -> list[int]:
    """Return a key for each prefix of the items (a chained hash). `before`: key of the history before them."""
    keys: list[int] = []
    for item in items:
        before = hash((before, item.digest))
        keys.append(before)
    return keys


def _finish(tap: Tap) -> None:
    if (trouble := tap.finish()) is not None:
        _log.warning("a conversation was not delivered", reason=trouble)


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

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]+")
_INSTRUCTIONS = ("system", "developer")


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


def _session(request: Msg) -> str | None:
    """Return the session as stated by Codex (0.169), or by OpenCode as its cache key. Cache keys of other programs are
    ignored: they may be shared by many conversations."""
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


# -- the provider -----------------------------------------------------------------------------------------------------

_NAMES = {"aliyuncs": "alibaba", "amazonaws": "amazon", "bigmodel": "zhipu", "googleapis": "google", "x": "xai"}
"""Domain name without its ending -> provider, where they differ."""
_PORTS = {1234: "lmstudio", 11434: "ollama"}
"""Default port of a local model server -> provider."""
_MAKERS = {
    "claude": "anthropic",
    "codestral": "mistral",
    "command": "cohere",
    "deepseek": "deepseek",
    "devstral": "mistral",
    "gemini": "google",
    "gemma": "google",
    "glm": "zhipu",
    "gpt": "openai",
    "grok": "xai",
    "kimi": "moonshot",
    "llama": "meta",
    "magistral": "mistral",
    "minimax": "minimax",
    "ministral": "mistral",
    "mistral": "mistral",
    "mixtral": "mistral",
    "phi": "microsoft",
    "qwen": "alibaba",
    "qwq": "alibaba",
}
"""First word of a model's name -> its maker."""
_FIRST_WORD = re.compile(r"[a-z]+")


def provider_of(upstream: httpx.URL, model: object) -> str | None:
    """Return the provider's name, derived from the server's URL or the model; None if neither is known. `model`: as
    stated in a request."""
    return _of_server(upstream) or _of_model(model)


def _of_server(upstream: httpx.URL) -> str | None:
    host = upstream.host.rstrip(".").lower()
    if host == "localhost" or _is_address(host):
        return _PORTS.get(upstream.port or 0)
    *_, name, end = ["", *host.split(".")]
    return _NAMES.get(name, name) if name else _PORTS.get(upstream.port or 0, end)


def _of_model(model: object) -> str | None:
    if not isinstance(model, str):
        return None
    word = _FIRST_WORD.match(model.rpartition("/")[2].lower())
    return None if word is None else _MAKERS.get(word[0])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
