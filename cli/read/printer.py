"""Prints the items of a subscription for `tooltap tail`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
import msgspec

from tooltap.cli.common.render import Renderer, wants_colour
from tooltap.daemon.client.reading import Received
from tooltap.protocol.display import decode_display
from tooltap.protocol.frames import Gap, Live

__all__ = ["Printer"]


class _Time(msgspec.Struct):
    ts: int = 0


_decoder = msgspec.json.Decoder(_Time)


class Printer:
    """`mode`: text, verbose or json. `oldest`: ms since the epoch; older replayed events are not printed."""

    def __init__(self, mode: str, oldest: int | None) -> None:
        self._oldest = oldest
        self._out = sys.stdout.buffer
        self._json = mode == "json"
        self._renderer = Renderer(verbose=mode == "verbose", colour=wants_colour(sys.stdout))
        self._live = False

    def print_all(self, items: Iterable[Received]) -> None:
        for item in items:
            if isinstance(item, bytes):
                self._print(item)
            elif isinstance(item, Live):
                self._live = True
            elif isinstance(item, Gap):
                reason = "they were too old" if item.reason == "retention" else "this is another journal"
                click.echo(f"tooltap: events {item.from_} to {item.to} are gone: {reason}", err=True)
            if self._live:
                self._out.flush()
        self._out.flush()

    def _print(self, line: bytes) -> None:
        if self._oldest is not None and not self._live and _decoder.decode(line).ts < self._oldest:
            return
        if self._json:
            self._out.write(line + b"\n")
        elif (shown := decode_display(line)) is not None:
            self._out.write(self._renderer.render(shown).encode())
