"""Names the provider of a conversation: the owner of the server, if its address says who that is, else the maker of the
model."""

from __future__ import annotations

import ipaddress
import re

import httpx

_NAMES = {"aliyuncs": "alibaba", "amazonaws": "amazon", "bigmodel": "zhipu", "googleapis": "google", "x": "xai"}
"""Domains, without their endings, that differ from their owners' names."""
_PORTS = {1234: "lmstudio", 11434: "ollama"}
"""Ports on which servers for one machine listen, unless configured otherwise."""
_MAKERS = {
    "claude": "anthropic",
    "codestral": "mistral",
    "command": "cohere",
    "deepseek": "deepseek",
    "devstral": "mistral",
    "gemini": "google",
    "gemma": "google",
    "glm": "zhipu",
    "gpt": "openai",
    "grok": "xai",
    "kimi": "moonshot",
    "llama": "meta",
    "magistral": "mistral",
    "minimax": "minimax",
    "ministral": "mistral",
    "mistral": "mistral",
    "mixtral": "mistral",
    "phi": "microsoft",
    "qwen": "alibaba",
    "qwq": "alibaba",
}
"""First word of the name of a model -> its maker."""
_FIRST_WORD = re.compile(r"[a-z]+")


def provider_of(upstream: httpx.URL, model: object) -> str | None:
    """Return the provider's name; None if neither the server nor the model says it. `model`: as a request names it."""
    return _of_server(upstream) or _of_model(model)


def _of_server(upstream: httpx.URL) -> str | None:
    host = upstream.host.rstrip(".").lower()
    if host == "localhost" or _is_address(host):
        return _PORTS.get(upstream.port or 0)
    *_, name, end = ["", *host.split(".")]
    return _NAMES.get(name, name) if name else _PORTS.get(upstream.port or 0, end)


def _of_model(model: object) -> str | None:
    if not isinstance(model, str):
        return None
    word = _FIRST_WORD.match(model.rpartition("/")[2].lower())
    return None if word is None else _MAKERS.get(word[0])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
