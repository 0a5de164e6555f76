"""What models cost, as the package `genai-prices` knows it: `find` returns a model's rates for prompts of one size.

The package is imported when a price is asked for first, which takes a second: call this in a thread. Nothing is
fetched; newer prices come with a newer version of the package. Without it, no model has a price.
"""

from __future__ import annotations

import importlib
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from tooltap.daemon.system.logs import get_logger

BOUNDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""A prompt that is longer than one of these may have another price. Size n: longer than n of them."""
_EPOCH = date(1970, 1, 1)
_LONGEST = 10_000_000
"""Tokens of a prompt that is longer than all bounds."""
_MILLION = 1_000_000
_DIGITS = 15
"""Decimal places of a rate: a billionth of a dollar for a million tokens."""
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.[a-z]"
)
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")

_log = get_logger("prices")
_lock = Lock()


class Prices(NamedTuple):
    """Which prices are known."""

    version: str
    """Of the package."""
    date: str | None
    """The latest day on which the package says that it has checked a price."""


class Rates(NamedTuple):
    """Dollars for a token."""

    matched: str
    """The model whose prices these are, as `provider/model`."""
    fresh: float
    """Of the prompt, what was neither read from a cache nor written to it."""
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    reasoning: float


def find(model: str, day: int | None, size: int, single: bool) -> Rates | None:
    """The rates of `model` on `day` (days since the epoch; None: today) for prompts of `size`, an index into `BOUNDS`.
    None if the model is not known, or if its rates depend on more than that: on the time of day, or on which of several
    prompts (not `single`) was how long."""
    with _lock:
        return _find(model, day, size, single)


def known_prices() -> Prices | None:
    """None if the package is not installed or cannot be imported."""
    with _lock:
        return None if _snapshot() is None else _known()


@lru_cache(maxsize=1)
def _snapshot() -> Any:
    try:
        importlib.import_module("genai_prices")
        return importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except Exception as error:  # an import runs what it likes: of the package, and of those that it needs
        _log.warning("costs are not estimated: genai-prices cannot be imported", error=str(error))
        return None


@lru_cache(maxsize=1)
def _known() -> Prices:
    today = datetime.now(UTC).date().isoformat()
    dates = {
        found
        for provider in _snapshot().providers
        for one in (provider, *provider.models)
        for found in _DATE.findall(one.price_comments or "")
        if found <= today
    }
    installed: str = importlib.import_module("genai_prices").__version__
    return Prices(installed, max(dates, default=None))


@lru_cache(maxsize=20_000)
def _find(model: str, day: int | None, size: int, single: bool) -> Rates | None:
    known = _model(model)
    if known is None:
        return None
    provider, info = known
    if isinstance(info.prices, list) and any(hasattr(one.constraint, "start_time") for one in info.prices):
        return None
    when = datetime.now(UTC)
    if day is not None:
        try:
            when = datetime.combine(_EPOCH + timedelta(days=day), datetime.min.time(), UTC)
        except OverflowError:
            return None
    shortest = BOUNDS[size - 1] + 1 if size and single else 1
    longest = BOUNDS[size] if size < len(BOUNDS) else _LONGEST
    matched = f"{provider.id}/{info.id}"
    price = info.get_prices(when)
    rates = _rates(price, shortest, matched)
    return rates if rates == _rates(price, longest, matched) else None


@lru_cache(maxsize=2_000)
def _model(name: str) -> tuple[Any, Any] | None:
    """The provider and the model of a name; None for one that no provider of the package has."""
    snapshot = _snapshot()
    if snapshot is None:
        return None
    name = name.lower()
    of_provider: str | None = None
    head, slash, tail = name.partition("/")
    if _BEDROCK.match(name):
        of_provider = "aws"
    elif slash and head in {provider.id for provider in snapshot.providers}:
        of_provider, name = head, tail
    elif slash or ":" in name:  # of a provider without a price list, or of a program that runs models at home
        return None
    try:
        found: tuple[Any, Any] = snapshot.find_provider_model(name, None, of_provider, None)
    except LookupError:
        return None
    return found


def _rates(price: Any, prompt: int, matched: str) -> Rates | None:
    """The rates for prompts of this length; None where not only tokens cost, or not all of them."""
    kinds = importlib.import_module("genai_prices.types").Usage

    def cost(**counts: int) -> Decimal:
        total: Decimal = price.calc_price(kinds(**counts))["total_price"]
        return total

    try:
        if price.input_mtok is None or price.output_mtok is None or cost(input_tokens=0, output_tokens=0):
            return None
        fresh = cost(input_tokens=prompt)
        of_output = {"input_tokens": prompt, "output_tokens": _MILLION}
        rates = (
            fresh / prompt,
            cost(input_tokens=prompt, cache_read_tokens=prompt) / prompt,
            cost(input_tokens=prompt, cache_write_tokens=prompt) / prompt,
            cost(input_tokens=prompt, cache_write_tokens=prompt, cache_write_1h_tokens=prompt) / prompt,
            (cost(**of_output) - fresh) / _MILLION,
            (cost(**of_output, output_reasoning_tokens=_MILLION) - fresh) / _MILLION,
        )
        return Rates(matched, *(float(round(rate, _DIGITS)) for rate in rates))
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return None
