"""Reconstructs conversations from exchanges with a server for language models; each becomes a stream.

The API is stateless: every request repeats the whole history. The parser of a stream emits only what it has not seen
before. So a parser must get all exchanges of one conversation in order, and no others. This module finds the
conversation of a request.

Each prefix of a history has a key, the hash of its items (`_keys`), and of the agent's session if the request states
it: a copy of a session begins with the same words. A conversation is registered under the key of its last request, and
under the key of that request followed by the answer. A request with `previous_response_id` repeats nothing; it is found
by the id of the answer that it continues.

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
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx

from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.daemon.taps.gateway.histories import History, Item, ModelAnswer

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
    client: str | None = None
    """The agent that made the first request, if it says so."""


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

    def enter(self, dialect: str, history: History, client: str | None = None) -> Conversation:
        """Return the conversation of a request, found or new. It is busy until `leave`. `client`: the agent that makes
        the request, if it says so."""
        keys = _keys((dialect, history.session), history.items)
        conversation = self._find(history, keys)
        if conversation is None or conversation.busy:
            place = self._place(history, client)
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

    def _place(self, history: History, client: str | None) -> Place:
        stream = f"gateway-{secrets.token_hex(8)}"
        for prompt in history.prompts:
            for other in reversed(self._open):
                if (call := other.tasks.get(prompt)) is not None:
                    return Place(stream, other.place.session or other.place.stream, call, history.model, client)
        return Place(stream, history.session, model=history.model, client=client)

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
_AGENTS = {
    "claude-cli": "claude",
    "cline": "cline",
    "codex": "codex",
    "gemini": "gemini",
    "goose": "goose",
    "opencode": "opencode",
    "qwencode": "qwen",
}
"""Beginning of the first word of a `User-Agent` -> the agent."""


def agent_of(user_agent: str) -> str | None:
    """Return the name of the agent that calls itself so; None if it is not known."""
    word = user_agent.lower()
    return next((agent for start, agent in _AGENTS.items() if word.startswith(start)), None)


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
