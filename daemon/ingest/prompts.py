"""Prompts that two streams of a session report, each in its own words.

Each stream remembers the ids and beginnings of the latest prompts it has reported (`StreamInfo.prompts`), and which
prompts of others it has left out for them (`StreamInfo.repeated`). So the same words, said twice, are reported twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tooltap.daemon.journal.interface import StreamInfo
from tooltap.normalizers.core.items import Item, Produced

__all__ = ["is_prompt", "is_repeated"]

REMEMBERED: Final = 64
"""Latest prompts that a stream remembers."""
BEGINNING: Final = 100
"""Code points by which prompts are compared: an agent may add to a prompt what it was given on standard input."""


def is_prompt(item: Item) -> bool:
    """Say whether an item is something that the user said to the agent itself."""
    return (
        isinstance(item, Produced)
        and item.kind == "message"
        and not (item.partial or item.replay or item.agent)
        and item.fields.role == "user"
    )


def is_repeated(prompt: Produced, info: StreamInfo, others: Iterable[StreamInfo]) -> bool:
    """Say whether one of the other streams has reported the prompt; else remember that the stream with `info` does."""
    said = _beginning(prompt)
    for other in others:
        for event_id, text in other.prompts:
            if event_id not in info.repeated and _is_same(said, text):
                info.repeated = [*info.repeated, event_id][-REMEMBERED:]
                return True
    info.prompts = [*info.prompts, (prompt.id, said)][-REMEMBERED:]
    return False


def _beginning(prompt: Produced) -> str:
    return " ".join(prompt.fields.text[: 4 * BEGINNING].split())[:BEGINNING]


def _is_same(one: str, other: str) -> bool:
    return bool(one) == bool(other) and (one.startswith(other) or other.startswith(one))
