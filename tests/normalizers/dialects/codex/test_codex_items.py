"""Names of Codex's objects in other words: what is kept of them is bounded."""

from __future__ import annotations

from tooltap.normalizers.dialects.codex.items import LONGEST_NAME, MANY_NAMES, Translated, snake_keys


def test_names_are_translated_once() -> None:
    asked: list[str] = []

    def lower(name: str) -> str:
        asked.append(name)
        return name.lower()

    names = Translated(lower)
    assert [names["Turn"], names["Turn"], names["Item"]] == ["turn", "turn", "item"]
    assert asked == ["Turn", "Item"]


def test_names_that_are_kept_are_few_and_short() -> None:
    names = Translated(str.lower)
    for number in range(3 * MANY_NAMES):
        assert names[f"N{number}"] == f"n{number}"
        assert len(names) <= MANY_NAMES
    assert names["N" * (LONGEST_NAME + 1)] == "n" * (LONGEST_NAME + 1)
    assert all(len(name) <= LONGEST_NAME for name in names)


def test_keys_are_translated_at_every_depth() -> None:
    shown = snake_keys({"tokenUsage": [{"inputTokens": 1}, "asItIs"], "id": {"threadId": None}})
    assert shown == {"token_usage": [{"input_tokens": 1}, "asItIs"], "id": {"thread_id": None}}
