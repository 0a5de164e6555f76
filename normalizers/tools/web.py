"""WebFetch and WebSearch."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.tools.payload import (
    TEXT_KEYS,
    Payload,
    add_text,
    first_text,
    keys_and_text,
    nonblank,
    objects,
    strings,
)

_URL_KEYS = ("url", "uri", "href", "link")
_URL = re.compile(r"https?://[^\s\"'<>]+")
_AFTER_URL = ".,;:!?)]}"
"""Characters that end a sentence or a bracket rather than a URL."""


def urls_in(text: str) -> list[str]:
    """The URLs in a text, each once."""
    return list(dict.fromkeys(url.rstrip(_AFTER_URL) for url in _URL.findall(text)))


def fetch_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, *_URL_KEYS)
    requested = [url for request in objects(payload.get("requests")) if (url := first_text(request, _URL_KEYS))]
    urls = requested or strings(payload.get("urls"))
    if not urls and "url" not in payload:  # Gemini CLI's `web_fetch` fetches the URLs in its prompt, and has no others
        urls = urls_in(first_text(payload, ("prompt",)) or "")
    if len(urls) == 1:
        payload.setdefault("url", urls[0])
    elif urls:
        payload["urls"] = urls
    return payload


def fetch_output(value: Any, raw_name: str) -> Payload:
    payload, text = keys_and_text(value, TEXT_KEYS)
    if text is not None:
        payload["text"] = text
        if payload.get("result") == text:  # Claude's structured result: {result, url, code, bytes, …}
            del payload["result"]
    return payload


def search_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, "query", "q", "text", "pattern", "search_term", "search_query")
    action = payload.get("action")
    if not nonblank(payload.get("query")) and isinstance(action, dict):  # Codex: {query: "", action: {type, query}}
        query = first_text(action, ("query",)) or "\n".join(strings(action.get("queries")))
        if query:
            payload["query"] = query
    return payload


def search_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, list) and objects(value) and not any("text" in item for item in objects(value)):
        return {"results": _flat(value)}
    payload, text = keys_and_text(value, TEXT_KEYS)
    for key in ("results", "items"):
        if isinstance(payload.get(key), list):
            payload["results"] = _flat(payload[key])
            return payload
    if nonblank(text):
        payload["results"] = [{"snippet": text}]
    return payload


def _flat(results: list[Any]) -> list[Any]:
    """Flatten Claude's search results, which are grouped by search (`{tool_use_id, content: [{title, url}]}`)."""
    flat: list[Any] = []
    for result in results:
        if isinstance(result, str):
            flat.append({"snippet": result})
        elif isinstance(result, dict) and "url" not in result and objects(result.get("content")):
            flat += objects(result["content"])
        else:
            flat.append(result)
    return flat
