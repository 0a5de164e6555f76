"""Tokens of single messages, as transcripts state them: on every line of a message, and rising from line to line."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.results import tokens
from tooltap.protocol.events import Usage

__all__ = ["Steps", "StepsState"]

AGENTS = 64
"""Agents whose current message is followed."""


class Step(msgspec.Struct):
    """The message an agent is writing."""

    message_id: str
    agent: str | None
    session: str
    turn: str | None
    parent: str | None
    counts: dict[str, int]


class StepsState(msgspec.Struct):
    open: dict[str, Step] = {}
    """By agent; empty for the main agent."""


class Steps:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._open: dict[str, Step] = parser.state.steps.open

    def count(self, message_id: str, usage: dict[str, Any], *, known: bool) -> None:
        """Take in one line's figures. `known`: an earlier line was of this message, so that it may be counted."""
        parser = self._parser
        key = parser.agent or ""
        step = self._open.get(key)
        counts = {name: count for name, count in tokens(usage).items() if count is not None}
        if step is not None and step.message_id == message_id:
            for name, count in counts.items():
                step.counts[name] = max(count, step.counts.get(name, 0))
            return
        self._tell(key)
        if counts and not known:
            self._open[key] = Step(message_id, parser.agent, parser.session, parser.turn, parser.parent, counts)
            while len(self._open) > AGENTS:
                self._tell(next(iter(self._open)))

    def _tell(self, key: str) -> None:
        """The agent's message is complete: emit its usage."""
        step = self._open.pop(key, None)
        if step is not None:
            self._parser.emit(
                Usage,
                scope="step",
                session=step.session,
                turn=step.turn,
                agent=step.agent,
                parent=step.parent,
                **step.counts,
            )

    def tell_all(self) -> None:
        for key in list(self._open):
            self._tell(key)
