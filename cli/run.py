"""`tooltap run`: an agent's output goes where it would go anyway, and to the daemon."""

from __future__ import annotations

import math
import os
import secrets
import time
from pathlib import Path

import click

from tooltap.cli.agents import missing_flags
from tooltap.cli.connection import socket_option, stream_options
from tooltap.daemon.background import BackgroundDelivery
from tooltap.daemon.child import run_child
from tooltap.daemon.outbox import Outbox, StreamOptions
from tooltap.normalizers.framing import MAX_LINE_BYTES, Splitter

__all__ = ["command"]

CANNOT_START = 127
STALL = 2.0
"""Seconds without progress after which an agent that has ended does not wait for its last lines any longer."""


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@stream_options
@socket_option
@click.pass_context
def command(
    context: click.Context,
    command: tuple[str, ...],
    dialect: str,
    provider: str | None,
    session: str | None,
    mcp_servers: tuple[str, ...],
    socket: Path | None,
) -> None:
    """Run an agent, pass its output through untouched, and tap it.

    Standard input, standard error and signals are the agent's, and its exit code is that of this command: 128 + the
    signal if one killed it, 127 if it cannot be started. Without a daemon it runs all the same.
    """
    if (flags := missing_flags(command)) is not None:
        click.echo(f"tooltap: not tapped: {command[0]} prints no stream this way, add {flags}", err=True)
        context.exit(_replace_us_by(command))
    stream = f"run-{secrets.token_hex(8)}"
    tap = _Tap(StreamOptions(stream, dialect, provider, session, mcp_servers), socket)
    try:
        code = run_child(command, tap.take)
    except OSError as error:
        click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
        context.exit(CANNOT_START)
    if (trouble := tap.finish()) is not None:
        click.echo(f"tooltap: {trouble}", err=True)
    context.exit(code)


def _replace_us_by(command: tuple[str, ...]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        click.echo(f"tooltap: cannot start {command[0]}: {error.strerror}", err=True)
        return CANNOT_START


class _Tap:
    """Takes what the agent prints, and never gets in its way."""

    def __init__(self, options: StreamOptions, socket: Path | None) -> None:
        self._splitter = Splitter(MAX_LINE_BYTES)
        self._outbox = Outbox()
        self._delivery = BackgroundDelivery(self._outbox, options, socket, patience=math.inf)
        self._started = False
        self._failure: Exception | None = None

    def take(self, data: bytes) -> None:
        if self._failure is not None:
            return
        try:
            now = time.time_ns() // 1_000_000
            self._outbox.put(self._splitter.feed(data), now, "out")
            if not self._started:
                self._started = True
                self._delivery.start()
            self._delivery.wake()
        except Exception as error:  # the agent comes first
            self._failure = error

    def finish(self) -> str | None:
        """Wait while the last lines still get through. What to say if some did not."""
        if not self._started:
            return None
        last = self._splitter.finish()
        if last is not None:
            self._outbox.put([last], time.time_ns() // 1_000_000, "out")
        try:
            self._delivery.finish(patience=0.0)
            self._delivery.wait(STALL)
        except KeyboardInterrupt:
            pass
        return self._summary()

    def _summary(self) -> str | None:
        lines, dropped = self._outbox.lines, self._outbox.dropped
        if self._failure is not None:
            return f"tapping failed after {lines} lines: {self._failure!r}"
        if self._delivery.done is None:
            why = self._delivery.problem or "the daemon did not keep up"
            return f"{lines - self._outbox.acked} of {lines} lines did not get through: {why}"
        return f"{dropped} of {lines} lines were dropped: the daemon did not keep up" if dropped else None
