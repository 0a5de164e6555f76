"""Decides which user message names a turn: the same one in the outline, in exports and in comparisons."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TurnNaming(Generic[T]):
    """Names the turns of a session by user messages, which are given in order, each as a value of type `T`.

    A turn is named by its own prompt. A turn without one, whose agent acts at once, is named by the first message since
    the turn before it, or else by the first one that the user adds.
    """

    def __init__(self) -> None:
        self._before: T | None = None
        """The first message since the last turn ended."""
        self._is_named = False
        self.is_settled = True
        """Whether the latest turn keeps its name."""

    def start(self) -> T | None:
        """Start a turn, and return its name for now: the first message since the last turn ended, or None."""
        name, self._before = self._before, None
        self._is_named, self.is_settled = name is not None, False
        return name

    def say(self, message: T, *, in_turn: bool) -> T | None:
        """Note a user message, in a turn or between two. Return it if it names the turn, else None."""
        if not in_turn:
            self._before = message if self._before is None else self._before
            return None
        if self.is_settled:
            return None
        self._is_named = self.is_settled = True
        return message

    def act(self) -> None:
        """Note that the agent has answered or called a tool: if the turn has a name, it keeps that."""
        self.is_settled = self.is_settled or self._is_named
