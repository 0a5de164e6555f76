"""An agent that asks: lines are fed, and what it asks is answered."""

from __future__ import annotations

from typing import Any

import orjson

from tooltap.normalizers.core.answers import Chosen
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.answers import ForAgent


class Asking:
    """A stream whose lines are objects: (direction, object)."""

    def __init__(self, dialect: str, *lines: tuple[Any, Any]) -> None:
        self.normalizer = StreamNormalizer(Context(stream="s"), dialect)
        self.events: list[dict[str, Any]] = []
        self.feed(*lines)

    def feed(self, *lines: tuple[Any, Any]) -> list[dict[str, Any]]:
        """Return the events of these lines."""
        before = len(self.events)
        for direction, value in lines:
            outputs = self.normalizer.feed(orjson.dumps(value), None, direction)
            self.events += [orjson.loads(one.body) for one in outputs if isinstance(one, Produced)]
        return self.events[before:]

    @property
    def request(self) -> dict[str, Any]:
        """What was asked last."""
        return [one for one in self.events if one["kind"] == "permission-request"][-1]

    @property
    def session(self) -> str:
        return str(self.events[-1]["session"])

    def answer(self, outcome: Any, **chosen: Any) -> ForAgent:
        return self.normalizer.answer(self.request, Chosen(id="a1", outcome=outcome, **chosen))

    def takes(self, written: ForAgent) -> tuple[str, str | None, Any, str | None]:
        """Feed what was written for the agent, as its tap does. Returns (outcome, option, answers, message) of the
        answer that is read."""
        value = orjson.loads(written.line)
        if written.path is not None:
            value = {"POST": written.path, "body": value}
        (read,) = [one for one in self.feed(("in", value)) if one["kind"] == "permission-response"]
        return read["outcome"], read.get("optionId"), read.get("answers"), read.get("message")


def line_of(written: ForAgent) -> Any:
    return orjson.loads(written.line)
