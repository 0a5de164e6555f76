"""Which examples of a key are kept: one of each dialect first, then different ones, the newest and most telling first.

Everything is decided by what an example says, never by where or when it was found, so that the order of the input
changes nothing, and adding examples to those chosen before gives what choosing from all of them would have given.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from tooltap.traces.examples import Example, Given, meaning

__all__ = ["RULES", "Variant", "choose", "rank", "score", "variant"]

KEYS_COUNTED = 8
"""Keys of a payload beyond these tell nothing more."""


class Rule(NamedTuple):
    points: int
    what: str
    holds: Callable[[Given], Any]


def _own(event: Given) -> dict[str, Any]:
    """The payload of the event, without metadata."""
    payload = event.get("input") or event.get("output") or {}
    return {key: value for key, value in payload.items() if not key.startswith("_")}


def _has(*keys: str) -> Callable[[Given], bool]:
    return lambda event: any(_own(event).get(key) for key in keys)


RULES = (
    Rule(-6, "we inferred it", lambda event: event.get("synthetic")),
    Rule(-2, "the agent sent it again", lambda event: event.get("replay")),
    Rule(4, "a payload that says something", lambda event: any(_own(event).values())),
    Rule(4, "a file", _has("file_path", "file_paths", "path", "changes")),
    Rule(4, "content of a result", _has("content", "file", "matches", "entries", "results", "todos", "text")),
    Rule(3, "what a command printed", _has("stdout", "stderr")),
    Rule(2, "how a command ended", lambda event: "exit_code" in _own(event)),
    Rule(2, "an error, in the provider's words", _has("errorMessage", "error")),
    Rule(2, "something for the user alone", lambda event: event.get("display")),
    Rule(2, "pictures or documents", lambda event: event.get("attachments")),
    Rule(2, "what may be answered", lambda event: event.get("options") or event.get("questions")),
    Rule(1, "a subagent's", lambda event: event.get("agent")),
    Rule(1, "a title", lambda event: event.get("title")),
)
"""What makes an example telling."""


def score(event: Given) -> int:
    """Points of the rules that hold, and one for each key of the payload."""
    return sum(rule.points for rule in RULES if rule.holds(event)) + min(len(_own(event)), KEYS_COUNTED)


class Rank(NamedTuple):
    """Smaller is better."""

    points: int
    size: int
    said: bytes


def rank(events: list[Given]) -> Rank:
    """The more telling, then the shorter; and one of any two that differ. `events`: what an example is kept for."""
    said = b"\n".join(sorted(map(meaning, events)))
    return Rank(-max(map(score, events)), len(said), said)


TELLING_APART = ("name", "status", "state", "role", "code", "scope", "outcome", "type", "reason")


class Variant(NamedTuple):
    """Examples that differ in this are different examples."""

    agent_version: str
    dialect: str
    said: tuple[tuple[str, ...], ...]

    @property
    def newest_first(self) -> tuple[int, ...]:
        return tuple(-int(number) for number in re.findall(r"\d+", self.agent_version)) or (1,)


def variant(agent_version: str | None, dialect: str, events: list[Given]) -> Variant:
    said = {tuple(str(event.get(field, "")) for field in TELLING_APART) for event in events}
    return Variant(agent_version or "", dialect, tuple(sorted(said)))


def choose(examples: Iterable[Example], maximum: int) -> list[Example]:
    """The best of each dialect, the second best of each, and so on; of those that say the same, one.

    Within a dialect the best of each variant come before the second best of any.
    """
    groups: defaultdict[Variant, dict[Rank, Example]] = defaultdict(dict)
    for example in examples:
        if events := example.kept_for():
            group, place = groups[variant(example.agent_version, example.dialect, events)], rank(events)
            group[place] = min(group.get(place, example), example, key=_shortest)
    order = [
        ((turn, kind.newest_first, place, kind), example)
        for kind, group in groups.items()
        for turn, (place, example) in enumerate(sorted(group.items(), key=itemgetter(0)))
    ]
    turns: Counter[str] = Counter()
    dealt = []
    for within, example in sorted(order, key=itemgetter(0)):
        dealt.append((turns[example.dialect], within, example))
        turns[example.dialect] += 1
    return [example for *_, example in sorted(dealt, key=itemgetter(0, 1))[:maximum]]


def _shortest(example: Example) -> tuple[int, bytes, int, bytes]:
    last = orjson.dumps(example.lines[-1])
    return len(last), last, len(example.raw), example.raw
