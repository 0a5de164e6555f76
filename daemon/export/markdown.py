"""Exports events as one Markdown file, to be read as text or rendered: turns are headings, prompts are quotes, answers
stay as they are, each call is a line with what it got and gave below it, shortened.

    page = MarkdownPage(title)
    for event in events:
        write(page.add(event, {}))
    write(page.end())

A call is written with its result, so it waits for that, and what comes after waits with it, up to a limit. Bodies and
images are named, and not in the file.

An agent's Markdown keeps its meaning, and nothing in it escapes its block (`inert`). Headings become bold text, so that
only the file itself has any. HTML becomes text; images become links, because they would be loaded from elsewhere;
definitions of links become text, because they would hold for the whole file. Fences that are left open are closed. The
result is parsed again until nothing of that is left; a text for which this does not end is put into a fence.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tooltap.daemon.export.source import Bodies, Body
from tooltap.daemon.export.turns import Turns
from tooltap.daemon.formats import counted, spent
from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.blocks import short
from tooltap.daemon.show.diff import Change, changes_of, near
from tooltap.daemon.show.markup import clock, product
from tooltap.daemon.show.tree import lines_of
from tooltap.daemon.system.sanitize import sanitize, visible
from tooltap.daemon.views.text import result_text, without_meta
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
"""Most of an input or an output that is in the file."""
DIFF_LINES = 200
HELD = 2_000
"""Calls and texts that wait for the result of a call before them."""
PREVIEW = 100


@dataclass(slots=True)
class _Entry:
    """A part of the file, in its place: a text, or a call until its result is known."""

    text: str = ""
    call: ToolCall | None = None


class MarkdownPage:
    def __init__(self, title: str, *, bodies: Bodies) -> None:
        self._title = title
        self._bodies = bodies
        self._turns = Turns()
        self._entries: deque[_Entry] = deque()
        self._open: dict[tuple[str, str], _Entry] = {}
        self._events = 0

    def add(self, event: AnyEvent, bodies: Mapping[str, Body]) -> str:
        """Add an event with a `seq` and return the Markdown to write next."""
        begun = "" if self._events else self._begin(event)
        self._events += 1
        if not event.replay:
            self._add(event)
        return begun + self._written(HELD)

    def add_gap(self, first: int, last: int) -> str:
        """Note that events are damaged, and return the Markdown to write next."""
        if not self._events:
            return ""
        return self._written(0) + f"*Events {first:,} to {last:,} are damaged in the journal.*\n\n"

    def end(self, *remarks: str) -> str:
        """Return the rest. Without events there is no file. `remarks`: remarks on the file."""
        left_out = counted(self._bodies.left_out, "image or long output is", "images and long outputs are")
        sentences = [f"{counted(self._events, 'event')}, exported by tooltap. Times are UTC.", *remarks]
        if self._bodies.left_out:
            sentences.append(f"{left_out} left out.")
        return self._written(0) + "---\n\n" + "\n\n".join(map(line, sentences)) + "\n"

    def _begin(self, event: AnyEvent) -> str:
        facts = [("agent", product(event.provider)), ("session", event.session)]
        if event.ts is not None:
            facts.append(("began", clock(event.ts)))
        return f"# {line(self._title)}\n\n" + "".join(f"- {name}: {line(value)}\n" for name, value in facts) + "\n"

    def _add(self, event: AnyEvent) -> None:
        if (turn := self._turns.add(event)) is not None:
            when = "" if event.ts is None else f", {clock(event.ts)}"
            self._put(f"## Turn {turn.number}{when}")
        if isinstance(event, ToolCall):
            entry = _Entry(call=event)
            self._entries.append(entry)
            self._open[event.stream, event.call_id] = entry
        elif isinstance(event, ToolUpdate):
            entry_of = self._open.get((event.stream, event.call_id))
            if entry_of is not None and entry_of.call is not None and event.input is not None:
                entry_of.call = msgspec.structs.replace(entry_of.call, input=event.input, preview=event.preview)
        elif isinstance(event, ToolResult) and not event.async_:
            held = self._open.pop((event.stream, event.call_id), None)
            if held is None or held.call is None:
                self._put("\n\n".join(_result(event, None)))
            else:
                held.text, held.call = "\n\n".join(_result(event, held.call)), None
        else:
            self._put("\n\n".join(_other(event)))

    def _put(self, text: str) -> None:
        if text:
            self._entries.append(_Entry(text))

    def _written(self, most: int) -> str:
        """Return the Markdown of the first entries, until a call that waits; no more than `most` wait."""
        written = []
        while self._entries and (self._entries[0].call is None or len(self._entries) > most):
            entry = self._entries.popleft()
            if entry.call is not None:
                self._open.pop((entry.call.stream, entry.call.call_id), None)
                entry.text = "\n\n".join(_call(entry.call, "no result" if most else entry.call.status))
            written.append(f"{entry.text}\n\n")
        return "".join(written)


def _other(event: AnyEvent) -> Iterator[str]:
    """Yield the blocks of an event that is not part of a call."""
    match event:
        case Message(role="assistant", agent=None):
            yield inert(event.text)
            yield from _attached(event.attachments)
        case Message():
            who = "Subagent" if event.agent is not None else {"user": "You", "system": "System"}.get(event.role, "")
            yield quoted(f"**{who}**\n\n{inert(event.text)}")
            yield from _attached(event.attachments)
        case Reasoning():
            yield quoted(f"*Reasoning*\n\n{inert(event.text)}")
        case PermissionRequest():
            questions = [one.get("question") for one in event.questions or ()]
            words = [one for one in questions if isinstance(one, str)] or [event.title or event.name or ""]
            yield f"*Asked: {line(short(' '.join(words)))}*"
        case PermissionResponse():
            yield f"*{event.outcome.capitalize()}*"
        case Notice():
            yield f"*{line(event.code)}: {line(short(event.text))}*"
        case Unparsed():
            yield f"*A line that could not be read: {line(short(event.reason))}*"
        case Turn(state="failed" | "cancelled"):
            yield f"*Turn {event.state}{': ' + line(short(event.reason)) if event.reason else ''}*"


def _attached(attachments: list[Attachment] | None) -> Iterator[str]:
    for one in attachments or ():
        size = "" if one.bytes is None else f", {one.bytes:,} bytes"
        yield f"*Attached: {line(short(one.name or one.uri or 'no name'))} ({line(one.mime_type)}{size})*"


def _call(call: ToolCall, *facts: str) -> Iterator[str]:
    """Yield the line of a call, and what it got."""
    changes = changes_of(call.name, call.input)
    preview = short(call.preview or call.title or "", PREVIEW)
    who = "" if call.agent is None else "Subagent: "
    about = ", ".join(line(fact) for fact in facts if fact)
    yield f"{who}**{line(call.name)}** {code_span(preview)}".rstrip() + (f" — {about}" if about else "")
    if changes:
        yield from map(_diff, changes)
    elif (text := lines_of(without_meta(call.input))) and text.partition(": ")[2] != preview:
        yield _shortened(text)


def _result(event: ToolResult, call: ToolCall | None) -> Iterator[str]:
    exit_code = event.output.get("exit_code")
    exit_word = f"exit {exit_code}" if isinstance(exit_code, int) and exit_code else ""
    facts = (event.status, exit_word, spent(event.duration_ms) or "", "inferred" if event.synthetic else "")
    if call is None:
        yield f"**{line(event.name)}** — result, {', '.join(fact for fact in facts if fact)}"
    else:
        yield from _call(call, *facts)
    shown = "" if event.silent else _shown(event)
    if shown.strip():
        yield _shortened(shown)
    yield from _attached(event.attachments)


def _shown(event: ToolResult) -> str:
    """What the user sees of a result, as text."""
    if event.display is not None and event.display.text is not None:
        return event.display.text
    output = without_meta(event.output)
    text = result_text(event.output, None).text
    if output and text != msgspec.json.encode(output).decode():
        error = output.get("errorMessage")
        return text if not isinstance(error, str) or error in text else f"{error}\n{text}"
    return lines_of(output) if output else ""


def _shortened(text: str) -> str:
    """Return the beginning of a text in a fence, and how much is left out."""
    lines = sanitize(final_screen(text)).strip("\n").split("\n")
    shown = "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARACTERS]
    left = len(lines) - shown.count("\n") - 1
    more = counted(left, "more line", "more lines") if left > 0 else ""
    if not more and len(shown) < len("\n".join(lines)):
        more = "cut"
    return fenced(shown) + (f"\n\n*… {more}*" if more else "")


def _diff(change: Change) -> str:
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


LONGEST = 32_768
"""Characters of Markdown that is parsed; a longer text is put into a fence."""
BRACKETS = 5_000
"""Most `[` in Markdown that is parsed."""
ROUNDS = 12
SENTINEL = "tooltap-end-of-text"
ACTIVE = frozenset({"heading_open", "html_block", "html_inline", "image"})
"""Tokens that no text may have."""
_BACKTICKS = re.compile(r"`+")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&$]")


def inert(text: str) -> str:
    """Return Markdown that is contained. It ends without a newline."""
    shown = visible(text).strip("\n")
    if len(shown) > LONGEST or shown.count("[") > BRACKETS:
        return fenced(shown, "markdown")
    for _ in range(ROUNDS):
        lines = shown.split("\n")
        tokens, env = _parsed(f"{shown}\n\n{SENTINEL}\n")
        if not _repair(lines, tokens, env):
            break
        shown = "\n".join(lines)
    return shown if _is_inert(tokens, env) else fenced(text, "markdown")


def quoted(markdown: str) -> str:
    """Return contained Markdown as a quote."""
    return "\n".join(f"> {one}".rstrip() for one in markdown.split("\n"))


def fenced(text: str, language: str = "") -> str:
    """Return a text in a fence that is longer than any run of backticks inside."""
    shown = visible(text).strip("\n")
    fence = "`" * max(3, 1 + _longest_run(shown))
    return f"{fence}{language}\n{shown}\n{fence}"


def code_span(text: str) -> str:
    """Return one line as code."""
    shown = " ".join(visible(text).split())
    ticks = "`" * (1 + _longest_run(shown))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def line(text: str) -> str:
    """Return a text as plain text, for a line of Markdown that it does not begin."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(visible(text).split()))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _parsed(text: str) -> tuple[list[Token], dict[str, Any]]:
    env: dict[str, Any] = {}
    return _parser().parse(text, env), env


@cache
def _parser() -> MarkdownIt:
    """Every reader's Markdown: HTML is HTML, so that it is found."""
    return MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable(["table", "strikethrough"])


def _is_inert(tokens: list[Token], env: dict[str, Any]) -> bool:
    """Whether none of that is left, and a text after it is a paragraph of its own."""
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    last = [(token.type, token.level, token.content) for token in tokens[-3:]]
    is_contained = last == [("paragraph_open", 0, ""), ("inline", 1, SENTINEL), ("paragraph_close", 0, "")]
    return is_contained and not kinds & ACTIVE and not env.get("references")


def _repair(lines: list[str], tokens: list[Token], env: dict[str, Any]) -> bool:
    """Change the lines so that less of them is a heading, HTML, an image, a definition or open; say whether any was
    changed."""
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
    """Return the words of a heading without the `#` that may end it."""
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
