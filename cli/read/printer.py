"""Prints the items of a subscription for `tooltap tail`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tooltap.cli.common.printing import at_terminal, flush, wants_colour, warn, write_events, write_text
from tooltap.cli.common.render import Renderer
from tooltap.cli.common.terminal.columns import terminal_columns
from tooltap.daemon.client.discovery import Received
from tooltap.protocol.display import decode_display
from tooltap.protocol.frames import Gap, Live

_REASONS = {
    "retention": "they were too old",
    "reset": "this is another journal",
    "corrupt": "they are damaged in the journal",
}


class _Time(msgspec.Struct):
    ts: int = 0


_decoder = msgspec.json.Decoder(_Time)


class Printer:
    """`mode`: text, verbose or json. `oldest`: ms since the epoch; older replayed events are not printed."""

    def __init__(self, mode: str, oldest: int | None) -> None:
        self._oldest = oldest
        self._json = mode == "json"
        self._renderer = Renderer(
            verbose=mode == "verbose",
            colour=wants_colour(),
            columns=terminal_columns() if at_terminal() else None,
        )
        self._live = False
        self.has_printed = False
        """Whether any event was shown."""

    def print_all(self, items: Iterable[Received]) -> None:
        for item in items:
            if isinstance(item, bytes):
                self._print(item)
            elif isinstance(item, Live):
                self._live = True
            elif isinstance(item, Gap):
                warn(f"events {item.from_} to {item.to} are gone: {_REASONS[item.reason]}")
            if self._live:
                flush()
        flush()

    def _print(self, line: bytes) -> None:
        if self._oldest is not None and not self._live and _decoder.decode(line).ts < self._oldest:
            return
        if self._json:
            self.has_printed = True
            write_events(line + b"\n")
        elif (shown := decode_display(line)) is not None and (text := self._renderer.render(shown)):
            self.has_printed = True
            write_text(text)
