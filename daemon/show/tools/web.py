"""Web pages that were fetched, and the hits of web searches."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from tooltap.daemon.show.blocks import Body, Link, block, facts, joined, limited, plain, prose, short
from tooltap.daemon.show.render_options import Excerpt, Look, excerpt
from tooltap.daemon.show.tools.card import ToolCard
from tooltap.daemon.show.tree import tree
from tooltap.normalizers.wire.values import string
from tooltap.protocol.tools import SearchHit, ToolTypes, WebFetchInput, WebFetchResult, WebSearchInput, WebSearchResult


def fetch_input(payload: WebFetchInput, look: Look) -> Body:
    urls = limited(([payload.url] if payload.url else []) + (payload.urls or []), look)
    return joined(
        facts([("page", _link(url)) for url in urls.shown]),
        plain(payload.prompt, look, "/input/prompt"),
    )


class Fetched(WebFetchResult):
    codeText: str | None = None
    """Claude Code: the name of the HTTP status."""


def fetch_output(result: Fetched, look: Look) -> Body:
    status = None if result.code is None else f"{result.code} {result.codeText or ''}".strip()
    size = None if result.bytes is None else f"{result.bytes:,} bytes"
    requested = None if look.call is None else look.call.input.get("url")
    return joined(
        facts([("address", result.url if result.url != requested else None), ("status", status), ("size", size)]),
        prose(result.text, look, "/output/text"),
    )


def web_search_input(payload: WebSearchInput, look: Look) -> Body:
    return facts([("query", payload.query)])


class Found(WebSearchResult):
    durationSeconds: float | None = None
    message: str | None = None
    """Gemini: what the user sees instead of results."""


class _Hit(NamedTuple):
    link: Link | None
    host: str
    snippet: Excerpt
    answer: Body
    """Part of an answer that belongs to no page."""


def web_search_output(result: Found, look: Look) -> Body:
    part = limited(result.results or [], look)
    hits = [_hit(hit, look, index) for index, hit in enumerate(part.shown)]
    took = None if result.durationSeconds is None or not look.is_full else f"{result.durationSeconds:.1f} s"
    return joined(
        block("links", hits=hits, hidden=part.hidden) if hits else (),
        plain(result.message, look, "/output/message") if not hits or look.is_full else (),
        facts([("took", took)]),
    )


def _hit(hit: SearchHit, look: Look, index: int) -> _Hit:
    pointer = f"/output/results/{index}/snippet"
    if not hit.url:
        words = hit.snippet or string(hit.extra.get("text")) or hit.title
        return _Hit(None, "", Excerpt(""), prose(words, look, pointer) or tree(hit.extra, look))
    return _Hit(
        Link(hit.url, short(hit.title or hit.url)), _host(hit.url), excerpt(hit.snippet or "", look, pointer), ()
    )


def _link(url: str) -> Link:
    shown = short(url, 2_000)
    return Link(shown, shown)


def _host(url: str) -> str:
    try:
        return short(urlsplit(url).hostname or "", 100)
    except ValueError:
        return ""


CARDS = {
    "WebFetch": ToolCard("⇣", fetch_input, fetch_output, ToolTypes(WebFetchInput, Fetched)),
    "WebSearch": ToolCard("⌕", web_search_input, web_search_output, ToolTypes(WebSearchInput, Found)),
}
