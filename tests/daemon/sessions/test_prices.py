"""Prices of models, and estimates made with them against what agents state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.prices import compared
from tooltap.daemon.sessions import prices
from tooltap.daemon.sessions.prices import BOUNDS, Price

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

FIXTURES = Path("tests/fixtures")


def every_price() -> Iterator[ModelPrice]:
    import genai_prices.data  # which takes a third of a second
    from genai_prices.types import ModelPrice

    for provider in genai_prices.data.providers:
        for model in provider.models:
            yield from [model.prices] if isinstance(model.prices, ModelPrice) else [one.prices for one in model.prices]


def test_no_price_changes_within_a_size() -> None:
    from genai_prices.types import TieredPrices

    starts = {
        tier.start
        for price in every_price()
        for value in vars(price).values()
        if isinstance(value, TieredPrices)
        for tier in value.tiers
    }

    assert starts <= set(BOUNDS)


@pytest.mark.parametrize(
    ("model", "matched"),
    [
        ("gpt-5.1-codex", "openai/gpt-5.1"),
        ("claude-sonnet-4-5[1m]", "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        (
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("GEMINI-2.5-pro", "google/gemini-2.5-pro"),
        ("mystery", None),
        ("default", None),
        ("", None),
        ("/", None),
        ("gpt-99", None),
        ("ollama/gpt-5.1", "local"),
        ("gpt-oss:20b", "local"),
        ("lmstudio/openai/gpt-oss-20b", "local"),
        ("qwen2.5-coder:7b-instruct-q4_K_M", "local"),
        ("llama-3.1-8b.Q4_K_M.gguf", "local"),
        ("gpt-oss:120b-cloud", None),  # Ollama runs it elsewhere
        ("gpt-oss-20b", None),  # its weights are free: who runs it is not known
        ("openai/gpt-oss-120b", None),
        ("ft:gpt-4o-mini-2024-07-18:org::id", None),
        ("github-copilot/gpt-5.1", "openai/gpt-5.1"),
        ("github-copilot/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "anthropic/claude-sonnet-4-5"),
        ("claude-opus-4@20250514", "anthropic/claude-opus-4-0"),
        ("vertex_ai/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("claude-4.5-sonnet", "anthropic/claude-sonnet-4-5"),
        ("claude-4.5-opus-high-thinking", "anthropic/claude-opus-4-5"),
        (
            "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("z-ai/glm-4.6", "zai/GLM-4.6"),
    ],
)
def test_the_model_that_matches(model: str, matched: str | None) -> None:
    rates = prices.find(model, 20_700, 0, True)

    assert (rates and rates.matched) == matched


def test_long_prompts_have_a_price_of_their_own() -> None:
    below, above = (prices.find("gemini-2.5-pro", None, size, True) for size in (4, 5))

    assert below is not None
    assert above is not None
    assert above.fresh == 2 * below.fresh
    assert prices.find("gemini-2.5-pro", None, 4, False) == below
    assert prices.find("gemini-2.5-pro", None, 5, False) is None  # which of the prompts were that long?


@pytest.mark.parametrize("day", [-1, 0, 30_000])
def test_day_before_or_after_every_price(day: int) -> None:
    assert prices.find("gpt-5.1", day, 0, True) == prices.find("gpt-5.1", None, 0, True) is not None


@pytest.mark.parametrize("day", [-(10**9), 10**9])
def test_day_of_no_calendar_has_no_price(day: int) -> None:
    assert prices.find("gpt-5.1", day, 0, True) is None


def test_prices_by_the_time_of_day_are_none_of_a_day() -> None:
    assert prices.find("deepseek-chat", 20_700, 0, True) is None


def test_without_the_package_no_model_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    caches = (prices._snapshot, prices._known, prices._find, prices._model)
    for cached in caches:
        cached.cache_clear()
    try:
        assert prices.find("gpt-5.1", None, 0, True) is None
        assert prices.known_prices() is None
    finally:
        for cached in caches:
            cached.cache_clear()


def test_estimates_are_what_agents_state() -> None:
    sessions = [
        one
        for dialect in ("claude-stream", "claude-transcript")
        for recording in sorted((FIXTURES / dialect).glob("*/*.jsonl"))
        if not recording.parent.name.endswith("-written")  # by hand, with a cost that is none
        for one in compared(dialect, recording.read_bytes())
    ]

    assert len([one for one in sessions if one.estimate is not None]) > 10
    assert [one for one in sessions if one.is_off] == []


def test_prices_that_the_user_states() -> None:
    prices.state({"House-Model": Price(input=2, output=8, cache_read=0.5), "gpt-5.1": Price(input=0, output=0)})
    try:
        rates = prices.find("openrouter/house-model", None, 0, True)
        assert rates is not None
        assert (rates.fresh, rates.cache_read, rates.cache_write, rates.output) == (2e-6, 0.5e-6, 2e-6, 8e-6)
        free = prices.find("gpt-5.1", 20_700, 3, False)
        assert free is not None
        assert free.output == 0
    finally:
        prices.state({})
    assert prices.find("house-model", None, 0, True) is None
