"""The usage of a transcript's newest message, when the file has not grown for a while."""

from __future__ import annotations

from typing import Any

import orjson

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Turn, Usage

PROMPT = {
    "type": "user",
    "uuid": "u1",
    "sessionId": "s1",
    "timestamp": "2026-01-30T10:00:00.000Z",
    "message": {"role": "user", "content": "Look."},
}


def said(uuid: str, text: str, output: int, second: int, message: str = "m1") -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": output}
    content = [{"type": "text", "text": text}]
    return {
        "type": "assistant",
        "uuid": uuid,
        "sessionId": "s1",
        "timestamp": f"2026-01-30T10:00:{second:02}.000Z",
        "message": {
            "id": message,
            "role": "assistant",
            "model": "claude-opus-4-5",
            "stop_reason": None,
            "content": content,
            "usage": usage,
        },
    }


class Stream:
    def __init__(self) -> None:
        self.normalizer = StreamNormalizer(Context(stream="s"), "claude-transcript")

    def feed(self, *lines: dict[str, Any]) -> list[Any]:
        return emitted([item for line in lines for item in self.normalizer.feed(orjson.dumps(line), 1)])

    def settle(self) -> list[Any]:
        return emitted(self.normalizer.settle())


def used(events: list[Any]) -> list[tuple[int | None, str | None]]:
    return [(one.output_tokens, one.replaces) for one in events if isinstance(one, Usage)]


def test_held_usage_is_emitted_before_the_provisional_end() -> None:
    stream = Stream()
    assert used(stream.feed(PROMPT, said("a1", "It is", 5, 1))) == []

    usage, end = stream.settle()

    assert isinstance(usage, Usage)
    assert isinstance(end, Turn)
    assert (usage.output_tokens, usage.replaces, usage.turn, usage.ts) == (5, None, "t1", 1769767201000)
    assert (end.state, end.provisional, end.turn, end.ts) == ("completed", True, "t1", 1769767201000)
    assert not stream.normalizer.is_unsettled


def test_usage_that_grows_later_replaces_what_was_emitted() -> None:
    stream = Stream()
    stream.feed(PROMPT, said("a1", "It is", 5, 1))
    first = stream.settle()[0]
    stream.feed(said("a2", " here.", 9, 2))

    assert used(stream.settle()) == [(9, first.id)]
    assert used(stream.feed(said("a3", "Next.", 3, 3, "m2"))) == []
    assert used(emitted(stream.normalizer.close("end"))) == [(3, None)]


def test_usage_that_does_not_grow_is_emitted_once() -> None:
    stream = Stream()
    stream.feed(PROMPT, said("a1", "It is", 5, 1))
    stream.settle()

    assert used(stream.feed(said("a2", " here.", 5, 2), said("a3", "Next.", 3, 3, "m2"))) == []
    assert used(emitted(stream.normalizer.close("end"))) == [(3, None)]
