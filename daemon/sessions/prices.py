"""Prices of models: what the user states, else the list prices of the package `genai-prices`, by the day.

Programs put a route before a model's name, and a date or a version behind it (`vertex_ai/claude-opus-4@20250514`,
`bedrock/us.anthropic.claude-…-v1:0`, an ARN). `_shorter` takes these away step by step, until a name is known: so a
name with a region keeps the region's price. A model that runs at home costs nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from threading import Lock
from typing import Annotated, Any, NamedTuple

import msgspec

BOUNDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Lengths of prompts, in tokens, beyond which a price may change. A prompt of size n is longer than n of them."""
_EPOCH = date(1970, 1, 1)
_LONGEST = 10_000_000
"""Tokens taken as the length of a prompt that is longer than all bounds."""
_MILLION = 1_000_000
_DIGITS = 15
"""Decimal places of a rate: a billionth of a dollar for a million tokens."""
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.[a-z]"
)
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_PARTS = (
    (re.compile(r"\[[^\[\]]*\]$"), ""),  # claude-sonnet-4-5[1m]
    (re.compile(r"^arn:aws[^/]*:bedrock:[^/]*/(?=.)"), ""),
    (
        re.compile(
            r"^(?:aws|azure|azure_ai|bedrock|bedrock_converse|gemini|github[-_]copilot|google|litellm(?:_proxy)?|models"
            r"|openrouter|publishers/[^/]+/models|vertex(?:[-_]ai)?(?:_beta)?|converse)/(?=.)"
        ),
        "",
    ),
    (re.compile(r"^claude-(\d+(?:[.-]\d)?)-(haiku|opus|sonnet)(?=$|[-@\[])"), r"claude-\2-\1"),
    (re.compile(r"@(\d{8})$"), r"-\1"),
    (re.compile(r"@[\w.-]+$"), ""),
    (re.compile(r"(?:-v\d+)?:\d+$"), ""),  # claude-sonnet-4-5-20250929-v1:0
    (re.compile(r"-v\d+$"), ""),
    (re.compile(r"-20\d{6}$"), ""),
)
"""Parts that programs add to the name of a model, each with what takes its place."""
_MAKERS = {"meta-llama": "meta", "mistralai": "mistral", "moonshot": "moonshotai", "xai": "x-ai", "z-ai": "zai"}
"""Names of providers -> as the package has them."""
_LOCAL = frozenset(
    [
        "hosted_vllm",
        "jan",
        "llama-cpp",
        "llama.cpp",
        "llama_cpp",
        "llamacpp",
        "llamafile",
        "lm-studio",
        "lm_studio",
        "lmstudio",
        "local",
        "localai",
        "mlx",
        "ollama",
        "ollama_chat",
        "vllm",
    ]
)
"""Prefixes with which agents name a program that runs models on the user's machine."""
_TAG = re.compile(r"[\w.-]+:(?:latest|[0-9.]+[bm](?:-[\w.-]+)?|[\w.-]*q[2-8]_[\w]+)")
"""Name of a model in Ollama, with its tag: `gpt-oss:20b`."""
_CLOUD = ("-cloud", ":cloud")
"""Ends of Ollama's tags for models that run elsewhere."""
LOCAL = "local"
"""`Rates.matched` of a model that runs on the user's machine."""
STATED = "stated"
"""`Rates.matched` of a model whose price the user states."""

_lock = Lock()


class Prices(NamedTuple):
    """Version and date of the price package."""

    version: str
    """Version of the package."""
    date: str | None
    """The latest day on which the package says that it has checked a price."""


class Rates(NamedTuple):
    """Prices of a model, in dollars per token."""

    matched: str
    """The model whose prices these are, as `provider/model`."""
    fresh: float
    """Price of prompt tokens that were neither read from a cache nor written to it."""
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    reasoning: float


Dollars = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Price(msgspec.Struct, forbid_unknown_fields=True):
    """A price that the user states, in dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    """Default: that of `input`, as for the next two."""
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None


_stated: dict[str, Rates] = {}


def state(prices: Mapping[str, Price]) -> None:
    """Set the prices that the user states, by names of models: as agents write them, or shorter."""
    with _lock:
        _stated.clear()
        _stated.update({name.lower(): _rates_of(price) for name, price in prices.items()})
        _find.cache_clear()


def _rates_of(price: Price) -> Rates:
    def rate(dollars: float | None) -> float:
        return (price.input if dollars is None else dollars) / _MILLION

    read, written, hour = (rate(one) for one in (price.cache_read, price.cache_write, price.cache_write_1h))
    if price.cache_write_1h is None:
        hour = written
    return Rates(STATED, rate(None), read, written, hour, price.output / _MILLION, price.output / _MILLION)


def find(model: str, day: int | None, size: int, single: bool) -> Rates | None:
    """Return the rates of `model` on `day` (days since the epoch; None: today) for prompts of `size`, an index into
    `BOUNDS`. None if the model is not known, or if its rates depend on more than that: on the time of day, or on the
    length of each of several prompts (not `single`)."""
    with _lock:
        return _find(model, day, size, single)


def known_prices() -> Prices | None:
    """Return the version and date of the price package; None if it is not installed or cannot be imported."""
    with _lock:
        return None if _snapshot() is None else _known()


@lru_cache(maxsize=1)
def _snapshot() -> Any:
    try:
        importlib.import_module("genai_prices")
        return importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except Exception as error:  # an import runs what it likes: of the package, and of those that it needs
        from tooltap.daemon.system.logs import get_logger  # takes long to import, and commands read prices' types

        log = get_logger("prices")
        if isinstance(error, ModuleNotFoundError) and error.name == "genai_prices":
            log.info("costs are not estimated: genai-prices is not installed")
        else:
            log.warning("costs are not estimated: genai-prices cannot be imported", error=str(error))
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
    for name in _names(model):
        if (stated := _stated.get(name)) is not None:
            return stated
    if _is_local(model):
        return Rates(LOCAL, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
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
    rates = _rates_of_prompt(price, shortest, matched)
    return rates if rates == _rates_of_prompt(price, longest, matched) else None


_known_rates: dict[tuple[int, int, str], Rates | None] = {}
"""Id of a price of the package, length of the prompt and name of the model -> its rates. A price stays for months, and
is asked for by the day."""


def _rates_of_prompt(price: Any, prompt: int, matched: str) -> Rates | None:
    key = id(price), prompt, matched  # the package keeps its prices
    if key not in _known_rates:
        _known_rates[key] = _rates(price, prompt, matched)
    return _known_rates[key]


@lru_cache(maxsize=2_000)
def _model(name: str) -> tuple[Any, Any] | None:
    """Return the provider and the model of a name; None for one that no provider of the package has."""
    snapshot = _snapshot()
    if snapshot is None:
        return None
    providers = {provider.id for provider in snapshot.providers}
    for known in _names(name):
        of_provider: str | None = None
        head, slash, tail = known.partition("/")
        head = _MAKERS.get(head, head)
        if _BEDROCK.match(known):
            of_provider = "aws"
        elif slash and head in providers:
            of_provider, known = head, tail
        elif slash or ":" in known:  # of a provider without a price list, or of a program that runs models
            continue
        try:
            provider, info = snapshot.find_provider_model(known, None, of_provider, None)
        except LookupError:
            continue
        # OpenAI gives the weights of these away. Who runs them, and for how much, is not known.
        return None if provider.id == "openai" and info.id.startswith("gpt-oss") else (provider, info)
    return None


def _names(name: str) -> Iterator[str]:
    """Yield the name, and ever shorter forms of it."""
    shorter: str | None = name.lower()
    while shorter is not None:
        yield shorter
        shorter = _shorter(shorter)


def _shorter(name: str) -> str | None:
    """Return the name without one of the parts that programs add, and `claude-4.5-sonnet` as `claude-sonnet-4.5`; None
    if there is none."""
    for pattern, instead in _PARTS:
        shorter = pattern.sub(instead, name, count=1)
        if shorter != name:
            return shorter
    return None


def _is_local(name: str) -> bool:
    """Return whether a name says that a program on the user's own machine runs the model."""
    name = name.lower()
    if name.endswith(_CLOUD):
        return False
    return name.partition("/")[0] in _LOCAL or name.endswith(".gguf") or _TAG.fullmatch(name) is not None


def _rates(price: Any, prompt: int, matched: str) -> Rates | None:
    """Return the rates for prompts of this length; None if anything but tokens costs, or if some tokens have no
    price."""
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
