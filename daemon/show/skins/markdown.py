"""Events as Markdown: prompts are quotes, to the character, answers stay as they are, each call is a line with its
shortened input and output below it. Output bodies and images are named, but not included.

    blocks = call_blocks(call, None)                # an empty line follows each
    blocks = call_blocks(call, result)
    blocks = event_blocks(event)                    # of any other event

An agent's Markdown keeps its meaning, and nothing in it escapes its block (`inert`). Headings become bold text, so that
only the file itself has any. HTML becomes text; images become links, because they would be loaded from elsewhere;
definitions of links become text, because they would hold for the whole file. Fences that are left open are closed. This
is repeated until the parsed result has none of these; a text for which that does not end is put into a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tooltap.daemon.formats import counted, tool_name
from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import HEADER, CallOfResult, RenderContext, short
from tooltap.daemon.show.bodies import user_attachments, user_text
from tooltap.daemon.show.diff import FileDiff, changes_of, changes_of_diff, near
from tooltap.daemon.show.shown import Shown, shown_of
from tooltap.daemon.show.tree import lines_of
from tooltap.daemon.system.sanitize import sanitize, visible
from tooltap.daemon.views.select import ASK, without_meta
from tooltap.normalizers.wire.values import string
from tooltap.protocol.events import (
    AnyEvent,
    Attachment,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
)

SHOWN_LINES = 20
SHOWN_CHARACTERS = 2_000
"""Maximum characters of an input or an output that are shown."""
DIFF_LINES = 200
FACTS = ("exit", "waited", "took")
"""Names of the facts of a result that are shown."""
DIFFS = ("diff", "patch")
"""Keys of an output that may be a diff."""
CONTEXT = RenderContext("title", lambda output_id: None, room=2 * HEADER)  # so that what is cut has a mark


def event_blocks(event: AnyEvent) -> Iterator[str]:
    """Yield the blocks of an event that is not part of a call."""
    shown = shown_of(event, CONTEXT)
    match event:
        case _ if shown is None:
            return
        case Message(role="assistant", agent=None):
            yield inert(event.text)
            yield from _attached(event.attachments)
        case Message():
            text = inert(event.text) if event.role == "assistant" else as_typed(event.text)
            yield quoted(f"**{_by(event)}{shown.title}**\n\n{text}")
            yield from _attached(event.attachments)
        case Reasoning():
            yield quoted(f"*{shown.title}*\n\n{inert(event.text)}")
        case PermissionRequest():
            yield _remark(shown.status.capitalize(), shown.preview)
        case PermissionResponse():
            yield _remark(shown.title)
        case Notice() | Unparsed() | Turn(state="failed" | "cancelled"):
            yield _remark(shown.title, shown.preview)


def _by(event: AnyEvent) -> str:
    """Return a prefix that names a subagent's event; empty for the main agent."""
    return "" if event.agent is None else "Subagent: "


def _remark(title: str, text: str = "") -> str:
    return f"*{line(title)}{': ' if text else ''}{line(short(text))}*"


def _attached(attachments: list[Attachment] | None) -> Iterator[str]:
    for one in attachments or ():
        size = "" if one.bytes is None else f", {one.bytes:,} bytes"
        yield f"*Attached: {line(short(one.name or one.uri or 'no name'))} ({line(one.mime_type)}{size})*"


def call_blocks(call: ToolCall, result: ToolResult | None, state: str = "") -> Iterator[str]:
    """Yield the line of a call, its input, and its output. `state`: of a call without a result."""
    shown = shown_of(call, CONTEXT)
    if shown is None:
        return
    preview = short(shown.preview, HEADER)
    about = [state]
    if result is not None:
        ended = shown_of(result, CONTEXT._replace(call=CallOfResult(call.name, call.input, preview, call.ts)))
        about = _facts(ended, result)
    facts = ", ".join(line(fact) for fact in about if fact)
    yield f"{_by(call)}**{line(shown.title)}** {code_span(preview)}".rstrip() + (f" — {facts}" if facts else "")
    if changes := changes_of(call.name, call.input):
        yield from map(_diff, changes)
    elif (text := lines_of(without_meta(call.input))) and text.partition(": ")[2] != preview:
        yield _shortened(text)
    if result is not None:
        yield from _output(result, has_change=bool(changes))


def result_blocks(event: ToolResult) -> Iterator[str]:
    """Yield the blocks of a result whose call is not known."""
    shown = shown_of(event, CONTEXT)
    if shown is None:
        return
    yield f"**{line(shown.title)}** — result, {', '.join(_facts(shown, event))}"
    yield from _output(event, has_change=False)


def view_blocks(event: ToolUpdate) -> Iterator[str]:
    """Yield the blocks of a view that a command made of a result which is written already."""
    if event.display is None:
        return
    yield f"**{line(tool_name(event.name))}** — shown instead of the result"
    if (text := event.display.text or "").strip():
        yield _shortened(text)


def _facts(shown: Shown | None, event: ToolResult) -> list[str]:
    if shown is None:
        return []
    facts = [fact.text for name in FACTS for fact in shown.facts if fact.name == name]
    return [shown.status, *facts, *(["inferred"] if event.synthetic else [])]


def _output(event: ToolResult, *, has_change: bool) -> Iterator[str]:
    if event.ask and not event.silent:
        yield f"*{ASK}*"
    diff = next((text for key in DIFFS if (text := string(event.output.get(key))) and changes_of_diff(text)), "")
    text = diff or user_text(event, has_change=has_change)
    is_diff = bool(diff or changes_of_diff(text))
    if text.strip() and not (is_diff and has_change):
        yield _shortened(text, "diff" if is_diff else "")
    yield from _attached(user_attachments(event))


def _shortened(text: str, language: str = "") -> str:
    """Return the beginning of a text in a fence, and how much is left out."""
    lines = sanitize(final_screen(text)).strip("\n").split("\n")
    shown = "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARACTERS]
    left = len(lines) - shown.count("\n") - 1
    more = counted(left, "more line", "more lines") if left > 0 else ""
    if not more and len(shown) < len("\n".join(lines)):
        more = "cut"
    return fenced(shown, language) + (f"\n\n*… {more}*" if more else "")


def _diff(change: FileDiff) -> str:
    if not change.hunks:
        return f"{line(change.kind or 'change')} {code_span(change.path)}"
    lines: list[str] = [] if not change.path else [f"--- {change.path}", f"+++ {change.moved_to or change.path}"]
    hunks = near(change.hunks)
    for number, hunk in enumerate(hunks):
        if number or hunk.title:
            lines.append(f"@@ {hunk.title} @@")
        lines += [f"{one.sign}{one.text}" for one in hunk.lines]
    left = len(lines) - DIFF_LINES
    lines = [one.replace("\n", " ") for one in lines[:DIFF_LINES]]
    return fenced("\n".join(lines), "diff") + (f"\n\n*… {counted(left, 'more line')}*" if left > 0 else "")


# -- containment ------------------------------------------------------------------------------------------------------


LONGEST = 32_768
"""Maximum characters of Markdown that is parsed; a longer text is put into a fence."""
BRACKETS = 5_000
"""Maximum number of `[` in Markdown that is parsed."""
ROUNDS = 12
SENTINEL = "tooltap-end-of-text"
ACTIVE = frozenset({"heading_open", "html_block", "html_inline", "image"})
"""Types of tokens that a contained text must not have."""
_BACKTICKS = re.compile(r"`+")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&$]")


def inert(text: str) -> str:
    """Return Markdown without headings, HTML, images, definitions and open blocks; it cannot affect what follows. It
    ends without a newline."""
    shown = visible(text).strip("\n")
    if len(shown) > LONGEST or shown.count("[") > BRACKETS:
        return fenced(shown, "markdown")
    for _ in range(ROUNDS):
        lines = shown.split("\n")
        tokens, env = _parsed(f"{shown}\n\n{SENTINEL}\n")
        if not _repair(lines, tokens, env):
            break
        shown = "\n".join(lines)
    return shown if _is_inert(tokens, env) else fenced(text.strip("\n"), "markdown")


def quoted(markdown: str) -> str:
    """Return contained Markdown as a quote."""
    return "\n".join(f"> {one}" if one else ">" for one in markdown.split("\n"))


def as_typed(text: str) -> str:
    """Return a text that readers of Markdown show as it was typed: one plain line as it is, any other in a fence."""
    shown = visible(text)
    return shown if _is_plain(shown) else fenced(shown)


def _is_plain(shown: str) -> bool:
    """Return whether the text is one line in which nothing is Markdown, nor one of its extensions."""
    if len(shown) > LONGEST or "\n" in shown or _SPECIAL.search(shown) or shown != " ".join(shown.split()):
        return False
    tokens, _ = _parsed(shown)
    return [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]


def fenced(text: str, language: str = "") -> str:
    """Return a text in a fence that is longer than any run of backticks inside."""
    shown = visible(text)
    fence = "`" * max(3, 1 + _longest_run(shown))
    return f"{fence}{language}\n{shown}\n{fence}"


def code_span(text: str) -> str:
    """Return one line as code."""
    shown = " ".join(visible(text).split())
    ticks = "`" * (1 + _longest_run(shown))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def line(text: str) -> str:
    """Escape a text to be shown literally within a line of Markdown, but not at its beginning."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(visible(text).split()))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _parsed(text: str) -> tuple[list[Token], dict[str, Any]]:
    env: dict[str, Any] = {}
    return _parser().parse(text, env), env


@cache
def _parser() -> MarkdownIt:
    """Return a parser like that of common readers. HTML is enabled, so that it is found."""
    return MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable(["table", "strikethrough"])


def _is_inert(tokens: list[Token], env: dict[str, Any]) -> bool:
    """Return whether no active token and no definition is left, and a text after this one begins a new paragraph."""
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    last = [(token.type, token.level, token.content) for token in tokens[-3:]]
    is_contained = last == [("paragraph_open", 0, ""), ("inline", 1, SENTINEL), ("paragraph_close", 0, "")]
    return is_contained and not kinds & ACTIVE and not env.get("references")


def _repair(lines: list[str], tokens: list[Token], env: dict[str, Any]) -> bool:
    """Rewrite lines that have headings, HTML, images, definitions or open blocks; return whether any was changed. One
    pass may not suffice."""
    before = list(lines)
    for token in tokens:
        first, end = token.map or (0, 0)
        at = range(first, min(end, len(lines)))
        if token.type == "heading_open":
            _unhead(lines, at, is_underlined=token.markup in ("=", "-"))
        elif token.type == "html_block":
            _replace(lines, at, "<", "&lt;")
        elif token.type in ("fence", "code_block") and SENTINEL in token.content:
            lines.append(token.markup or "")
        elif token.type == "inline":
            _disarm(lines, at, token.children or ())
    for one in (*env.get("references", {}).values(), *env.get("duplicate_refs", ())):
        first, end = one.get("map") or (0, 0)
        _replace(lines, range(first, min(end, len(lines))), "[", "&#91;")
    return lines != before


def _unhead(lines: list[str], at: range, *, is_underlined: bool) -> None:
    if is_underlined:
        lines[at[-1]] = lines[at[-1]].rstrip(" \t").rstrip("=-")
        return
    for index in at:
        if found := _HEADING.search(lines[index]):
            words = _without_end(lines[index][found.end() :].strip())
            is_plain = words and not re.search(r"[*_`\\<\[]", words)
            lines[index] = lines[index][: found.start()] + (f"**{words}**" if is_plain else words)


def _without_end(heading: str) -> str:
    """Return the words of a heading without the optional closing `#`."""
    words = heading.rstrip("#")
    return words.rstrip() if not words or words[-1] in " \t" else heading


def _disarm(lines: list[str], at: range, children: Iterable[Token]) -> None:
    for child in children:
        if child.type == "html_inline":
            beginning = child.content.split("\n")[0]
            _replace(lines, at, beginning, beginning.replace("<", "&lt;"))
        elif child.type == "image":
            _replace(lines, at, "![", "[")


def _replace(lines: list[str], at: range, old: str, new: str) -> None:
    for index in at:
        lines[index] = lines[index].replace(old, new)
