"""Which conversation an exchange with a server for language models belongs to: each is a stream of its own.

Servers keep no conversations: every request repeats all that was said. A parser knows what it has been told before, so
that all exchanges of one conversation must come to one parser, one after the other, and those of others must not. An
exchange goes on with the conversation that its request repeats the most of. What begins as another conversation did is
the same one only if it repeats what the model said there, or if nothing came of it there: two may begin with the same
words. While a conversation waits for an answer, whatever else would belong to it is a conversation of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.daemon.taps.gateway.conversation_items import Answer, History, Item

__all__ = ["Conversation", "Conversations"]

KEYS = 64
"""Places of one conversation at which it can be gone on with."""
CLOSERS = 8
"""Streams that are ended at a time."""

_log = get_logger("gateway")


class Conversation:
    def __init__(self, dialect: str, tap: Tap) -> None:
        self.dialect = dialect
        self.tap = tap
        self.busy = True
        self.answered = False
        """The model has said something."""
        self.used = time.monotonic()
        self.asked: int | None = None
        """The key of what the last request holds."""
        self.keys: deque[int | str] = deque()


class Conversations:
    """`most`: how many are kept open, save those that wait for an answer; the one not used for the longest time is
    ended first. `begin`: a tap for a new stream of a dialect."""

    def __init__(self, begin: Callable[[str], Tap], most: int) -> None:
        self._begin = begin
        self._most = most
        self._open: dict[Conversation, None] = {}
        """Those not used for the longest time first."""
        self._by_key: dict[int | str, Conversation] = {}
        self._closers = ThreadPoolExecutor(CLOSERS, thread_name_prefix="closer")

    def enter(self, dialect: str, history: History) -> Conversation:
        """The conversation that a request goes on with, or a new one; it is busy until it is left."""
        keys = _keys(dialect, history.items)
        conversation = self._find(history, keys)
        if conversation is None or conversation.busy:
            conversation = Conversation(dialect, self._begin(dialect))
        self._use(conversation)
        conversation.busy = True
        conversation.asked = keys[-1] if keys and history.continues is None else None
        if conversation.asked is not None:
            self._remember(conversation, conversation.asked)
        self._close_beyond_most()
        return conversation

    def leave(self, conversation: Conversation, answer: Answer) -> None:
        """What there is of the answer to its last request is complete."""
        items = answer.items()
        conversation.answered |= bool(items or answer.ids)
        if items and conversation.asked is not None:
            self._remember(conversation, _keys(conversation.asked, items)[-1])
        for response_id in answer.ids:
            self._remember(conversation, response_id)
        conversation.busy = False
        self._use(conversation)
        self._close_beyond_most()

    def close_idle(self, seconds: float) -> None:
        """End those that have not been used for so long."""
        before = time.monotonic() - seconds
        for conversation in [one for one in self._open if not one.busy and one.used < before]:
            self._close(conversation)

    def close(self) -> None:
        """End all, and wait until they have got through, or are left in the spool."""
        for conversation in list(self._open):
            self._close(conversation)
        self._closers.shutdown()

    @property
    def problem(self) -> str | None:
        """Why lines do not get through at the moment."""
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
        repeats_model_in_other_words = count < len(items) and items[count].by_model
        goes_on = repeats_model or repeats_model_in_other_words or not conversation.answered
        return conversation if goes_on else None

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
    """One for what was said up to each item."""
    keys: list[int] = []
    for item in items:
        before = hash((before, item.digest))
        keys.append(before)
    return keys


def _finish(tap: Tap) -> None:
    if (trouble := tap.finish()) is not None:
        _log.warning("a conversation did not get through", reason=trouble)
