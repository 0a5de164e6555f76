"""Searches and their hits: paths, the entries of a folder, lines by file with the pattern marked; web pages that were
fetched, and the hits of web searches.

A pattern is a regular expression of the provider's engine. It is never run here, where it might take for ever: only
its literal parts are marked in the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import (
    BRIEF,
    SUMMARY_LINES,
    Body,
    Excerpt,
    Link,
    RenderContext,
    ToolCard,
    block,
    brief,
    excerpt,
    facts,
    joined,
    limited,
    plain,
    prose,
    short,
)
from tooltap.daemon.show.tree import tree
from tooltap.normalizers.wire.values import string
from tooltap.protocol.tools import (
    CodeSearchInput,
    GlobInput,
    GlobResult,
    GrepInput,
    GrepResult,
    LsInput,
    LsResult,
    Match,
    SearchHit,
    ToolTypes,
    WebFetchInput,
    WebFetchResult,
    WebSearchInput,
    WebSearchResult,
)

SHOWN = 5_000
"""Maximum hits or paths of one card."""
_NOT_LITERAL = re.compile(r"\[[^\]]*\]|\\\w|\(\?[:=!<]+|[^\\][*+?{]")
_LITERAL = re.compile(r"(?:[^\\^$.|?*+()\[\]{}]|\\[^\w\s])+")


class Hit(NamedTuple):
    line: int | None
    segments: tuple[tuple[str, bool], ...]
    """The line in segments, and whether each matches the search."""


class File(NamedTuple):
    path: str
    hits: list[Hit]


def glob_input(payload: GlobInput, context: RenderContext) -> Body:
    return _asked(payload.pattern, (("in", payload.path),))


def grep_input(payload: GrepInput, context: RenderContext) -> Body:
    return _asked(payload.pattern, (("in", payload.path), ("files", payload.glob), ("mode", payload.output_mode)))


def code_search_input(payload: CodeSearchInput, context: RenderContext) -> Body:
    return _asked(payload.query, (("in", payload.path),))


def ls_input(payload: LsInput, context: RenderContext) -> Body:
    return _asked(None, (("in", payload.path),))


def _asked(pattern: str | None, facts: Iterable[tuple[str, str | None]]) -> Body:
    shown = [(name, value) for name, value in facts if value]
    if not pattern and not shown:
        return ()
    return block("search_input", pattern=pattern, facts=shown)


def glob_output(result: GlobResult, context: RenderContext) -> Body:
    return _paths(result.matches, "path", context) + _text(result.text, context)


def ls_output(result: LsResult, context: RenderContext) -> Body:
    """Show the entries of a folder. Entries that are objects are shown by name and kind; the tree of unknown keys has
    them whole."""
    names = None if result.entries is None else [_name(entry) for entry in result.entries]
    return _paths(names, "entry", context) + _text(result.text, context)


def grep_output(result: GrepResult, context: RenderContext) -> Body:
    if result.matches is None:
        return _text(result.text, context)
    limit = SHOWN if context.is_full else SUMMARY_LINES
    shown = result.matches[:limit]
    files = _by_file(shown, _needle(context))
    count = len({match.filePath for match in result.matches})
    body = block(
        "hits",
        files=files,
        hits=sum(match.excerpt is not None or match.line is not None for match in result.matches),
        count=count,
        hidden=len(result.matches) - len(shown),
    )
    return body + _text(result.text, context)


def _by_file(matches: Sequence[Match], needle: re.Pattern[str] | None) -> list[File]:
    files: dict[str, File] = {}
    for match in matches:
        path = match.filePath or ""
        file = files.setdefault(path, File(path, []))
        if match.excerpt is not None or match.line is not None:
            file.hits.append(Hit(match.line, _marked(brief(match.excerpt or ""), needle)))
    return list(files.values())


def _needle(context: RenderContext) -> re.Pattern[str] | None:
    """Return an expression for the literal parts of the searched pattern, to be marked."""
    call_input = context.call.input if context.call else {}
    pattern = call_input.get("pattern") or call_input.get("query")
    if not isinstance(pattern, str) or not 0 < len(pattern) <= BRIEF:
        return None
    literals = sorted(_literals(pattern), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, literals)), re.IGNORECASE) if literals else None


def _literals(pattern: str) -> set[str]:
    """Return the literal parts of an expression; parts of one or two characters are not worth a mark."""
    runs = _LITERAL.findall(_NOT_LITERAL.sub("|", pattern))
    plain = {re.sub(r"\\(.)", r"\1", run) for run in runs}
    return plain if runs == [pattern] else {run for run in plain if len(run.strip()) > 2}


def _marked(line: str, needle: re.Pattern[str] | None) -> tuple[tuple[str, bool], ...]:
    if needle is None:
        return ((line, False),)
    segments: list[tuple[str, bool]] = []
    at = 0
    for found in needle.finditer(line):
        segments += [(line[at : found.start()], False), (found[0], True)]
        at = found.end()
    return tuple(segment for segment in (*segments, (line[at:], False)) if segment[0])


def _paths(paths: Sequence[str] | None, one: str, context: RenderContext) -> Body:
    if paths is None:
        return ()
    shown = paths[: SHOWN if context.is_full else SUMMARY_LINES]
    several = "entries" if one == "entry" else f"{one}s"
    return block("paths", paths=shown, count=len(paths), word=one if len(paths) == 1 else several)


def _name(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        name = next((entry[key] for key in ("name", "path") if isinstance(entry.get(key), str)), None)
        if name is not None:
            is_folder = entry.get("type") in ("directory", "dir") or entry.get("isDirectory") is True
            return f"{name}/" if is_folder and not name.endswith("/") else name
    return brief(str(entry))


def _text(text: str | None, context: RenderContext) -> Body:
    return block("texts", texts=[excerpt(final_screen(text), context, "/output/text")]) if text else ()


# -- the web ---------------------------------------------------------------------------------------------------------


def fetch_input(payload: WebFetchInput, context: RenderContext) -> Body:
    urls = limited(([payload.url] if payload.url else []) + (payload.urls or []), context)
    return joined(
        facts([("page", _link(url)) for url in urls.shown]),
        plain(payload.prompt, context, "/input/prompt"),
    )


class Fetched(WebFetchResult):
    codeText: str | None = None
    """Claude Code: the name of the HTTP status."""


def fetch_output(result: Fetched, context: RenderContext) -> Body:
    status = None if result.code is None else f"{result.code} {result.codeText or ''}".strip()
    size = None if result.bytes is None else f"{result.bytes:,} bytes"
    requested = None if context.call is None else context.call.input.get("url")
    return joined(
        facts([("address", result.url if result.url != requested else None), ("status", status), ("size", size)]),
        prose(result.text, context, "/output/text"),
    )


def web_search_input(payload: WebSearchInput, context: RenderContext) -> Body:
    return facts([("query", payload.query)])


class SearchOutput(WebSearchResult):
    durationSeconds: float | None = None
    message: str | None = None
    """Gemini: what the user sees instead of results."""


class _Hit(NamedTuple):
    link: Link | None
    host: str
    snippet: Excerpt
    answer: Body
    """Part of an answer that belongs to no page."""


def web_search_output(result: SearchOutput, context: RenderContext) -> Body:
    part = limited(result.results or [], context)
    hits = [_hit(hit, context, index) for index, hit in enumerate(part.shown)]
    took = None if result.durationSeconds is None or not context.is_full else f"{result.durationSeconds:.1f} s"
    return joined(
        block("links", hits=hits, hidden=part.hidden) if hits else (),
        plain(result.message, context, "/output/message") if not hits or context.is_full else (),
        facts([("took", took)]),
    )


def _hit(hit: SearchHit, context: RenderContext, index: int) -> _Hit:
    pointer = f"/output/results/{index}/snippet"
    if not hit.url:
        words = hit.snippet or string(hit.extra.get("text")) or hit.title
        return _Hit(None, "", Excerpt(""), prose(words, context, pointer) or tree(hit.extra, context))
    return _Hit(
        Link(hit.url, short(hit.title or hit.url)), _host(hit.url), excerpt(hit.snippet or "", context, pointer), ()
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
    "Glob": ToolCard("⌕", glob_input, glob_output),
    "Grep": ToolCard("⌕", grep_input, grep_output),
    "LS": ToolCard("▤", ls_input, ls_output),
    "CodeSearch": ToolCard("⌕", code_search_input, grep_output),
    "WebFetch": ToolCard("⇣", fetch_input, fetch_output, ToolTypes(WebFetchInput, Fetched)),
    "WebSearch": ToolCard("⌕", web_search_input, web_search_output, ToolTypes(WebSearchInput, SearchOutput)),
}
