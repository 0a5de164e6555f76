"""Pages that were fetched, and what a search of the web found."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from markupsafe import Markup

from tooltap.daemon.web.cards.any import tree
from tooltap.daemon.web.cards.parts import facts, few, joined, plain, prose, short
from tooltap.daemon.web.html.look import Excerpt, Look, excerpt
from tooltap.daemon.web.html.markup import link, template
from tooltap.normalizers.wire.values import string
from tooltap.protocol.tools import SearchHit, WebFetchInput, WebFetchResult, WebSearchInput, WebSearchResult

__all__ = ["Fetched", "Found", "fetch_input", "fetch_output", "web_search_input", "web_search_output"]


def fetch_input(asked: WebFetchInput, look: Look) -> Markup:
    urls = few(([asked.url] if asked.url else []) + (asked.urls or []), look)
    return joined(
        facts([("page", link(short(url, 2_000))) for url in urls.shown]),
        plain(asked.prompt, look, "/input/prompt"),
    )


class Fetched(WebFetchResult):
    codeText: str | None = None
    """Claude Code: what the status is called."""


def fetch_output(result: Fetched, look: Look) -> Markup:
    status = None if result.code is None else f"{result.code} {result.codeText or ''}".strip()
    size = None if result.bytes is None else f"{result.bytes:,} bytes"
    asked = None if look.call is None else look.call.input.get("url")
    return joined(
        facts([("address", result.url if result.url != asked else None), ("status", status), ("size", size)]),
        prose(result.text, look, "/output/text"),
    )


def web_search_input(asked: WebSearchInput, look: Look) -> Markup:
    return facts([("query", asked.query)])


class Found(WebSearchResult):
    durationSeconds: float | None = None
    message: str | None = None
    """What Gemini shows the user in place of results."""


class _Hit(NamedTuple):
    link: Markup
    host: str
    snippet: Excerpt
    answer: Markup
    """Words of an answer that belong to no page."""


def web_search_output(result: Found, look: Look) -> Markup:
    part = few(result.results or [], look)
    hits = [_hit(hit, look, index) for index, hit in enumerate(part.shown)]
    took = None if result.durationSeconds is None or not look.is_full else f"{result.durationSeconds:.1f} s"
    return joined(
        template("links.html", hits=hits, hidden=part.hidden) if hits else Markup(),
        plain(result.message, look, "/output/message") if not hits or look.is_full else Markup(),
        facts([("took", took)]),
    )


def _hit(hit: SearchHit, look: Look, index: int) -> _Hit:
    pointer = f"/output/results/{index}/snippet"
    if not hit.url:
        words = hit.snippet or string(hit.extra.get("text")) or hit.title
        return _Hit(Markup(), "", Excerpt(""), prose(words, look, pointer) or tree(hit.extra, look))
    return _Hit(
        link(hit.url, short(hit.title or hit.url)), _host(hit.url), excerpt(hit.snippet or "", look, pointer), Markup()
    )


def _host(url: str) -> str:
    try:
        return short(urlsplit(url).hostname or "", 100)
    except ValueError:
        return ""
