"""Exports events as one Markdown file, to be read as text or rendered: turns are headings, prompts are quotes, answers
stay as they are, each call is a line with its shortened input and output below it.

    page = MarkdownPage(title)
    for event in events:
        write(page.add(event, {}))
    write("".join(page.end()))

A call is written together with its result, so it waits for the result, and whatever follows the call waits with it, up
to a limit. Output bodies and images are named, but not included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.daemon.formats import counted
from tooltap.daemon.show.bodies import is_hidden
from tooltap.daemon.show.markup import clock, product
from tooltap.daemon.show.skins.markdown import call_blocks, event_blocks, line, result_blocks, view_blocks
from tooltap.daemon.show.timeline import TurnOfSession, Turns, is_quiet_hook
from tooltap.protocol.events import AnyEvent, ToolCall, ToolResult, ToolUpdate

HELD = 2_000
"""Maximum entries held back by a call that waits for its result."""


@dataclass(slots=True)
class _Entry:
    """An entry of the file, in order: a text, or a call until its result is known, a heading until its turn is
    named, or the messages of hooks until something else follows."""

    text: str = ""
    """After the name, for a heading."""
    call: ToolCall | None = None
    turn: TurnOfSession | None = None
    """The turn whose heading this is, until it has a name."""
    hooks: int = 0
    """Number of consecutive messages of hooks."""

    @property
    def is_complete(self) -> bool:
        return self.call is None and self.turn is None and not self.hooks

    def complete(self) -> None:
        """Complete a heading with the name that its turn has now, or a line with the number of hooks."""
        if self.turn is not None:
            self.text, self.turn = f"## {line(self.turn.name)}{self.text}", None
        elif self.hooks:
            self.text, self.hooks = f"*{counted(self.hooks, 'hook message')}*", 0


class MarkdownPage:
    ENDING: ClassVar = "md"
    HAS_BODIES: ClassVar = False

    def __init__(self, title: str, *, bodies: Bodies) -> None:
        self._title = title
        self._bodies = bodies
        self._turns = Turns()
        self._entries: deque[_Entry] = deque()
        self._open: dict[tuple[str, str], _Entry] = {}
        self._heading: _Entry | None = None
        """That of the latest turn, until it is named."""
        self._events = 0
        self._gaps = ""
        """Those before the first event."""

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Add an event with a `seq` and return the Markdown to write next."""
        begun = "" if self._events else self._begin(event) + self._gaps
        self._events += 1
        if not event.replay and not is_hidden(event):
            self._add(event)
        return begun + self._written(HELD)

    def add_gap(self, gap: MissingRange) -> str:
        """Note that events are missing, and return the Markdown to write next."""
        note = f"*{gap.sentence}*\n\n"
        if not self._events:
            self._gaps += note
            return ""
        return self._written(0) + note

    def end(self, *remarks: str) -> Iterator[str]:
        """Yield the rest of the Markdown. Without events there is no file. `remarks`: remarks on the file."""
        left_out = counted(self._bodies.left_out, "image or long output is", "images and long outputs are")
        sentences = [f"{counted(self._events, 'event')}, exported by tooltap. Times are UTC.", *remarks]
        if self._bodies.left_out:
            sentences.append(f"{left_out} left out.")
        yield self._written(0) + "---\n\n" + "\n\n".join(map(line, sentences)) + "\n"

    def _begin(self, event: AnyEvent) -> str:
        facts = [("agent", product(event.provider)), ("session", event.session)]
        if event.ts is not None:
            facts.append(("began", clock(event.ts)))
        return f"# {line(self._title)}\n\n" + "".join(f"- {name}: {line(value)}\n" for name, value in facts) + "\n"

    def _add(self, event: AnyEvent) -> None:
        if (turn := self._turns.add(event)) is not None:
            self._name()
            self._heading = _Entry("" if event.ts is None else f", {clock(event.ts)}", turn=turn)
            self._entries.append(self._heading)
        if self._turns.is_named:
            self._name()
        if is_quiet_hook(event):
            self._count_hook()
        elif isinstance(event, ToolCall):
            entry = _Entry(call=event)
            self._entries.append(entry)
            self._open[event.stream, event.call_id] = entry
        elif isinstance(event, ToolUpdate):
            entry_of = self._open.get((event.stream, event.call_id))
            if entry_of is not None and entry_of.call is not None and event.input is not None:
                entry_of.call = msgspec.structs.replace(entry_of.call, input=event.input, preview=event.preview)
            self._put(view_blocks(event))
        elif isinstance(event, ToolResult) and not event.async_:
            held = self._open.pop((event.stream, event.call_id), None)
            if held is None or held.call is None:
                self._put(result_blocks(event))
            else:
                held.text, held.call = _joined(call_blocks(held.call, event)), None
        else:
            self._put(event_blocks(event))

    def _count_hook(self) -> None:
        if not (self._entries and self._entries[-1].hooks):
            self._entries.append(_Entry())
        self._entries[-1].hooks += 1

    def _name(self) -> None:
        """Complete the heading of the latest turn."""
        if self._heading is not None:
            self._heading.complete()
            self._heading = None

    def _put(self, blocks: Iterable[str]) -> None:
        if text := _joined(blocks):
            self._entries.append(_Entry(text))

    def _written(self, most: int) -> str:
        """Return the Markdown of the first entries, up to a call that waits for its result; at most `most` entries are
        held back."""
        written = []
        while self._entries and (
            self._entries[0].is_complete or len(self._entries) > (min(most, 1) if self._entries[0].hooks else most)
        ):
            entry = self._entries.popleft()
            entry.complete()
            if entry.call is not None:
                self._open.pop((entry.call.stream, entry.call.call_id), None)
                entry.text = _joined(call_blocks(entry.call, None, "no result" if most else entry.call.status))
            written.append(f"{entry.text}\n\n")
        return "".join(written)


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks)
